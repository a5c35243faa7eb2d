"""Which image a sandbox runs, and how it comes to be there: named, built, or the pinned default (R-35, R-36).

What can be said without Docker is said first: a Dockerfile.odek is read once and looked through
before anybody is asked about it. That an image was built by us is written down in
~/.odek/builds.json, by project and by the digest of the Dockerfile; without the note, as in a
fresh home of CI, an image serves whose label is the digest of all that it would be built from now.
Whose label that is does not count: a user who can label images of this Docker is root on its machine.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from odek.app.runtime import owner_of
from odek.config.options import Source
from odek.config.settings import Settings
from odek.errors import StateFileError
from odek.events import Notice, Sink, WarningIssued, ignore
from odek.host import Host, start_of
from odek.packaged import read_packaged
from odek.sandbox.build import builder, context
from odek.sandbox.build.builder import Build, BuildOptions
from odek.sandbox.build.context import copy_context
from odek.sandbox.build.dockerfile import NAME, Dockerfile, Inputs, lint, read_inputs
from odek.sandbox.build.dockerignore import IGNORE_FILE, parse_ignore
from odek.sandbox.build.scratch import scratch_folder, sweep_scratch
from odek.sandbox.docker import Docker
from odek.sandbox.errors import ImageUnavailable, SandboxConfigError
from odek.sandbox.image.reference import BUSYBOX_TAG, ImageChoice, parse_default_digests, parse_default_dockerfile
from odek.sandbox.image.reference import FILE as DIGESTS_FILE
from odek.sandbox.image.resolve import (
    FoundImage,
    daemon_machine,
    find_image,
    inspect_image,
    look_up,
    look_up_choice,
    pull_image,
    require_pullable,
)
from odek.sandbox.workdir import open_workdir
from odek.sandbox_grammar import parse_reference
from odek.state import StateFolder
from odek.text import visible

RECORDS_FILE = "builds.json"
_MAX_RECORDS = 200
_UNTOLD = Inputs(bases=(), sources=(".",))


class BuildRecords:
    """The builds that we made for one project."""

    def __init__(self, host: Host, emit: Sink, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = StateFolder(host.operator_home)
        self._project = host.cwd
        self._emit = emit
        self._clock = clock

    def find(self, dockerfile: Dockerfile) -> Build | None:
        """Return the build of `dockerfile` here. A file that cannot be trusted holds none, with a warning."""
        try:
            return _parse_record(self._read().get(self._key(dockerfile)))
        except StateFileError as error:
            self._emit(WarningIssued(f"{error.message}; images are built again", hint=error.hint))
            return None

    def remember(self, dockerfile: Dockerfile, made: Build) -> None:
        """Write `made` down; where that fails it is built again the next time, after a warning."""
        entry = {
            "image": made.image_id,
            "bases": [list(base) for base in made.bases],
            "inputs": made.inputs,
            "at": int(self._clock()),
        }
        try:
            with self._folder.locked(RECORDS_FILE):
                records = {**self._read(), self._key(dockerfile): entry}
                newest = sorted(records.items(), key=lambda item: _age(item[1]), reverse=True)[:_MAX_RECORDS]
                self._folder.write_json(RECORDS_FILE, dict(newest))
        except StateFileError as error:
            self._emit(WarningIssued(f"{error.message}; the image is built again the next time", hint=error.hint))

    def _key(self, dockerfile: Dockerfile) -> str:
        # the project counts: the same Dockerfile copies other files in another folder
        return hashlib.sha256(os.fsencode(self._project) + b"\0" + dockerfile.sha256.encode()).hexdigest()

    def _read(self) -> dict[str, object]:
        content = self._folder.read_json(RECORDS_FILE)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise StateFileError(
                f'"{self._folder.path(RECORDS_FILE)}" is damaged: it is not a JSON object', hint="remove it"
            )
        return content


def choose_image(settings: Settings, host: Host) -> tuple[ImageChoice, Dockerfile | None]:
    """Return the image by its priority (the setting, Dockerfile.odek, the pinned default), and what to
    build it from.

    Raises SandboxConfigError, for a Dockerfile that the lint refuses as well, unless it was built
    before: then nothing of it runs again, and an image once built with the network serves without.
    """
    if settings.sandbox.image:
        origin = settings.origin_of("sandbox_image")
        by_project = settings.source_of("sandbox_image") is Source.PROJECT
        return ImageChoice(
            ref=parse_reference(settings.sandbox.image, origin), origin=origin, chosen_by_project=by_project
        ), None
    dockerfile = context.read_dockerfile(host.cwd)
    if dockerfile is None:
        return default_choice(), None
    if not settings.build_network and BuildRecords(host, ignore).find(dockerfile) is None:
        require_buildable(dockerfile)
    return ImageChoice(ref=dockerfile.tag, origin=f"./{NAME}", chosen_by_project=True), dockerfile


def require_buildable(dockerfile: Dockerfile) -> None:
    """Refuse what a build without network must not hold. Raises SandboxConfigError."""
    lint(dockerfile.data)
    read_inputs(dockerfile.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImage:
    """An image that is here and is run as it is."""

    found: FoundImage
    build: Build | None = None
    """how it was built; None for an image that odek did not build"""
    recorded: bool = True
    """whether `build` is written down"""


def find_local_image(
    choice: ImageChoice, dockerfile: Dockerfile | None, host: Host, *, docker: Docker, emit: Sink
) -> LocalImage | None:
    """Return the image if it is here: nothing is pulled, built or written down.

    Raises SandboxError, also for an image that is not here and could never be pulled.
    """
    if dockerfile is None:
        found = look_up_choice(choice, docker)
        if found is None:
            require_pullable(choice)
        return None if found is None else LocalImage(found=found)
    known = BuildRecords(host, emit).find(dockerfile)
    ours = builder.find_ours(known, dockerfile, docker) if known is not None else None
    if ours is not None:
        return LocalImage(found=FoundImage(id=ours.id, volumes=ours.volumes), build=known)
    return _find_labelled(dockerfile, host, docker)


def ensure_image(
    local: LocalImage | None,
    choice: ImageChoice,
    dockerfile: Dockerfile | None,
    host: Host,
    *,
    network: bool,
    docker: Docker,
    emit: Sink,
) -> tuple[str, FoundImage]:
    """Return the image to run, with its name: the `local` one, or pulled, or built from the approved bytes.

    The operator has approved `dockerfile`. Raises SandboxError.
    """
    if dockerfile is None:
        return (choice.ref, local.found) if local else _pull_or_substitute(choice, docker, emit)
    if local is None or local.build is None:
        made = make_image(dockerfile, host, BuildOptions(network=network), docker=docker, emit=emit)
        return choice.ref, FoundImage(id=made.image_id, volumes=made.volumes)
    if local.recorded:
        _warn_of_staleness(local.build, dockerfile, host, docker, emit)
    else:
        emit(Notice(f"using {dockerfile.tag}, built before from the same {NAME}, files and base"))
        BuildRecords(host, emit).remember(dockerfile, local.build)
    return choice.ref, local.found


def image_doubts(choice: ImageChoice, local: LocalImage | None, docker: Docker) -> tuple[str, ...]:
    """Return what a start may meet with this image, for those who want to know before; up to two more docker calls."""
    if local is None:
        substitute = choice.substitute and look_up(choice.substitute, docker)
        return (
            (f"where {choice.ref} cannot be pulled, the local image {choice.substitute} is used",) if substitute else ()
        )
    image, machine = inspect_image(local.found.id, docker), daemon_machine(docker)
    architecture = image.architecture if image else ""
    if not architecture or not machine or architecture.partition("/")[0] == machine:
        return ()
    return (
        f'the image "{visible(choice.ref)}" is for {visible(architecture)}, Docker\'s machine has {visible(machine)}: '
        "a start stops unless that machine emulates it",
    )


def _find_labelled(dockerfile: Dockerfile, host: Host, docker: Docker) -> LocalImage | None:
    """Return the image under the tag if its label is the digest of what would be built now.

    A base that is not here could be any by now, so it proves nothing. Raises SandboxError.
    """
    folder = open_workdir(host.cwd, host.cwd_id)
    try:
        _require_same_ignore(dockerfile, folder)
        image = builder.find_built(dockerfile, docker)
        inputs = _inputs(dockerfile)
        if image is None or inputs is _UNTOLD:
            return None
        bases = tuple((ref, find_image(ref, docker)) for ref in inputs.bases)
        if not all(image_id for _, image_id in bases):
            return None
        fingerprint = context.fingerprint_sources(host.cwd, inputs.sources, parse_ignore(dockerfile.ignore))
        with _staged(dockerfile, folder, inputs.sources, host) as staged:
            if image.labels[builder.INPUTS_LABEL] != builder.digest_inputs(dockerfile, bases, staged):
                return None
    finally:
        os.close(folder)
    found = FoundImage(id=image.id, volumes=image.volumes)
    made = Build(image_id=image.id, bases=bases, inputs=fingerprint, volumes=image.volumes)
    return LocalImage(found=found, build=made, recorded=False)


def _pull_or_substitute(choice: ImageChoice, docker: Docker, emit: Sink) -> tuple[str, FoundImage]:
    """Return name and image of `choice`, or of the operator's own local image where no registry gives it (D-23)."""
    try:
        return choice.ref, pull_image(choice, docker, emit=emit)
    except ImageUnavailable as error:
        local = look_up(choice.substitute, docker) if choice.substitute else None
        if local is None:
            raise
        emit(Notice(f"{error.message}; using the local image {choice.substitute}"))
        return choice.substitute, local


def make_image(dockerfile: Dockerfile, host: Host, options: BuildOptions, *, docker: Docker, emit: Sink) -> Build:
    """Build, write it down and return it. The operator has approved `dockerfile`. Raises SandboxConfigError."""
    if not options.network:
        require_buildable(dockerfile)
    inputs = _inputs(dockerfile)
    folder = open_workdir(host.cwd, host.cwd_id)
    try:
        _require_same_ignore(dockerfile, folder)
        ignore = parse_ignore(dockerfile.ignore)
        # taken before the build: what changes meanwhile must show
        fingerprint = context.fingerprint_sources(host.cwd, inputs.sources, ignore)
        bases = builder.obtain_bases(inputs.bases, docker, network=options.network, emit=emit)
        sources, is_known = inputs.sources, inputs is not _UNTOLD
        if options.network and builder.may_read_more(dockerfile, bases, docker):
            sources, is_known = _UNTOLD.sources, False
        size = context.measure_context(host.cwd, sources, ignore, now=time.monotonic)
        if size.is_large:
            emit(WarningIssued(context.describe_size(size), hint=f"name what it does not need in {IGNORE_FILE}"))
        with _staged(dockerfile, folder, sources, host) as staged:
            digest = builder.digest_inputs(dockerfile, bases, staged) if is_known else ""
            image = builder.build_image(
                dockerfile, staged, docker, options, bases=bases, inputs_digest=digest,
                id_file=os.path.join(os.path.dirname(staged), "id"), emit=emit,
            )  # fmt: skip
    finally:
        os.close(folder)
    made = Build(image_id=image.id, bases=bases, inputs=fingerprint, volumes=image.volumes)
    BuildRecords(host, emit).remember(dockerfile, made)
    return made


@contextmanager
def _staged(dockerfile: Dockerfile, folder: int, sources: tuple[str, ...], host: Host) -> Iterator[str]:
    """Copy what a build of `dockerfile` reads of the folder behind the descriptor `folder`, for the block.

    The folder above the copy is odek's own, too.
    """
    owner = owner_of(host)
    import tempfile

    sweep_scratch(tempfile.gettempdir(), me=owner, start_of=start_of)
    with scratch_folder(owner) as scratch:
        staged = os.path.join(scratch, "context")
        copy_context(folder, sources, parse_ignore(dockerfile.ignore), staged)
        _require_same_ignore(dockerfile, staged)
        yield staged


def _require_same_ignore(dockerfile: Dockerfile, folder: str | int) -> None:
    """Refuse to build from a folder with another .dockerignore than the approved one: it says what comes along."""
    if context.read_ignore(folder) != dockerfile.ignore:
        raise SandboxConfigError(f"{IGNORE_FILE} changed after it was approved", hint="start odek again")


def default_choice() -> ImageChoice:
    """Return the pinned default, with the IDs it has where `docker load` brought it (R-35, D-12)."""
    try:
        pin = default_image()
        ids = parse_default_digests(read_packaged("odek.sandbox", DIGESTS_FILE), pin=pin)
    except SandboxConfigError as error:
        raise SandboxConfigError(error.message, hint="this copy of odek is damaged: install it again") from error
    return ImageChoice(
        ref=pin, origin="the pinned default", chosen_by_project=False, substitute=BUSYBOX_TAG, local_ids=ids
    )


def default_image() -> str:
    """Return the reference pinned by the packaged default.Dockerfile."""
    return parse_default_dockerfile(read_packaged("odek.sandbox", "default.Dockerfile").decode())


def _inputs(dockerfile: Dockerfile) -> Inputs:
    try:
        return read_inputs(dockerfile.data)
    except SandboxConfigError:  # only with the network allowed: the builder will find out
        return _UNTOLD


def _warn_of_staleness(known: Build, dockerfile: Dockerfile, host: Host, docker: Docker, emit: Sink) -> None:
    """Say in one line that the image is behind: the cache goes by the Dockerfile alone (B18)."""
    changed = False
    if known.inputs:
        sources = _inputs(dockerfile).sources
        changed = context.fingerprint_sources(host.cwd, sources, parse_ignore(dockerfile.ignore)) != known.inputs
    bases = builder.find_changed_bases(known, docker)
    stale = builder.describe_staleness(bases, files_changed=changed, tag=dockerfile.tag)
    if stale:
        emit(WarningIssued(stale))


def _parse_record(entry: object) -> Build | None:
    """Return what a record says, or None when it says nothing usable."""
    if not isinstance(entry, dict):
        return None
    image, bases, inputs = entry.get("image"), entry.get("bases"), entry.get("inputs")
    if not isinstance(image, str) or not isinstance(bases, list) or not isinstance(inputs, str):
        return None
    pairs = tuple(tuple(map(str, base)) for base in bases if isinstance(base, list) and len(base) == 2)
    return Build(image_id=image, bases=cast("tuple[tuple[str, str], ...]", pairs), inputs=inputs)


def _age(entry: object) -> int:
    at = entry.get("at") if isinstance(entry, dict) else 0
    return at if isinstance(at, int) else 0
