"""Building the image of a Dockerfile.odek, and telling whether an image is the one we built (R-36, B18, B19).

The builder gets the approved bytes on its stdin, so a file that changes between the question and
the build changes nothing. A tag proves nothing: an image is used by its ID, and again only
when the image carries the whole digest of the Dockerfile, and either a record of ours names that ID
or a second label is the digest of everything that it would be built from now.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from odek.events import Notice, Sink
from odek.patterns import pattern
from odek.process import Completed
from odek.sandbox.argv import build_argv
from odek.sandbox.build.context import digest_tree
from odek.sandbox.build.dockerfile import NAME, SWITCH, Dockerfile, names_front_end
from odek.sandbox.docker import Docker, run_long, without_style
from odek.sandbox.errors import ImageUnavailable, SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import (
    HIDDEN_TRIGGERS,
    OTHER_PROCESSOR,
    ImageFacts,
    explain_platform,
    explain_processor,
    find_image,
    find_or_pull,
    inspect_image,
)
from odek.text import truncate, visible, visible_lines

LABEL = "io.odek.dockerfile"
INPUTS_LABEL = "io.odek.inputs"
"""digest_inputs of the build; missing where not all of what it read was known"""
BUILD_TIMEOUT_S = 1800.0
PROGRESS_EVERY_S = 3.0
_OUTPUT_BYTES = 1 << 20
_DETAIL_LINES = 20
_ID = pattern(r"(?:sha256:)?([0-9a-f]{64})\s*")
_ADVICE = pattern(r"^DEPRECATED: The legacy builder .*\n(?:[ \t]+\S.*(?:\n|\Z))*", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An image that we built."""

    image_id: str
    bases: tuple[tuple[str, str], ...]
    """(reference after FROM, ID of the image that it was)"""
    inputs: str
    """context.fingerprint_sources before the build; "" when it was not taken"""
    volumes: tuple[str, ...] = ()
    """where the image declares volumes, as far as it was looked at; not remembered"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How to build."""

    network: bool
    """whether RUN steps have one: an operator's switch"""
    no_cache: bool = False


def build_image(
    dockerfile: Dockerfile,
    folder: str,
    docker: Docker,
    options: BuildOptions,
    *,
    bases: tuple[tuple[str, str], ...] = (),
    inputs_digest: str = "",
    id_file: str,
    emit: Sink,
    now: Callable[[], float] = time.monotonic,
) -> ImageFacts:
    """Build with the files in `folder` and return the image; `emit` gets the progress every few seconds.

    `bases`, (reference, ID) of what is built on, are looked at when a step fails for its processor;
    `inputs_digest` becomes a label unless it is empty. `id_file` is a path in a folder of odek's own.

    Raises SandboxConfigError. The client is killed when this ends early, an interrupt included;
    both builders then stop, and nothing half-made is ever returned.
    """
    # it says no more than is true: the image after FROM is pulled whatever the switch says
    network = "with the network" if options.network else "without network"
    emit(Notice(f"building {dockerfile.tag} from {NAME}, its RUN steps {network}"))
    labels = ((LABEL, dockerfile.sha256), *(((INPUTS_LABEL, inputs_digest),) if inputs_digest else ()))
    argv = build_argv(
        folder, tag=dockerfile.tag, labels=labels, id_file=id_file,
        network=options.network, no_cache=options.no_cache,
    )  # fmt: skip
    done = run_long(
        docker, *argv, doing=f"building {dockerfile.tag}", emit=emit, timeout_s=BUILD_TIMEOUT_S,
        every_s=PROGRESS_EVERY_S, stdin=dockerfile.data, limit_bytes=_OUTPUT_BYTES, clock=now,
    )  # fmt: skip
    if done.timed_out:
        raise SandboxConfigError(
            f"{NAME} was not built within {BUILD_TIMEOUT_S / 60:.0f} minutes", hint=_HINT, detail=_detail(done)
        )
    if done.code != 0:
        detail = _detail(done)
        if OTHER_PROCESSOR.search(detail):
            hint = explain_processor(bases, docker)
        else:
            hint = _HINT if options.network else explain_failure(detail)
        raise SandboxConfigError(f"{NAME} could not be built", hint=hint, detail=detail)
    built = _read_id(id_file)
    # the containerd store may know the image by another digest than the one written to the file
    for ref in (built, dockerfile.tag):
        image = inspect_image(ref, docker) if ref else None
        if image is not None and image.labels.get(LABEL) == dockerfile.sha256:
            return image
    raise SandboxConfigError(
        f"Docker built {NAME} but does not show the image {dockerfile.tag}",
        hint="the builder in use must load its result into Docker: see `docker buildx ls`",
        detail=_detail(done),
    )


_HINT = f"`odek sandbox build` shows what happens; correct {NAME}"
# of the classic builder and of BuildKit, for a RUN step whose command has ended with a status
_STEP_FAILED = pattern(r"returned a non-zero code: [0-9]+|did not complete successfully: exit code: [0-9]+")
_NEEDS_BUILDKIT = pattern(r"requires? BuildKit|[Uu]nknown flag: (?:mount|link|chmod)|[Uu]nknown instruction: \S+")


def explain_failure(output: str) -> str:
    """Return a hint for a build without network that failed, from the end of its output. Pure.

    Only a RUN step that has run and failed may have wanted the network.
    """
    if _STEP_FAILED.search(output):
        return f"its RUN steps have no network; {SWITCH}=1 gives them one"
    if _NEEDS_BUILDKIT.search(output):
        return (
            f"Docker's classic builder knows neither here-documents nor RUN --mount: correct {NAME}, or install buildx"
        )
    return f"Docker's own words name the line; correct {NAME}"


def is_ours(build: Build, dockerfile: Dockerfile, docker: Docker) -> bool:
    """Return whether the image of `build` is still there and carries the digest of `dockerfile`."""
    return find_ours(build, dockerfile, docker) is not None


def find_ours(build: Build, dockerfile: Dockerfile, docker: Docker) -> ImageFacts | None:
    """Return the image of `build` when it is still there and carries the digest of `dockerfile`."""
    image = inspect_image(build.image_id, docker)
    ours = image is not None and image.id == build.image_id and image.labels.get(LABEL) == dockerfile.sha256
    return image if ours else None


def digest_inputs(dockerfile: Dockerfile, bases: tuple[tuple[str, str], ...], staged: str) -> str:
    """Return the digest of what an image is built from: `dockerfile`, (reference, ID) of `bases`, and the files of
    the folder `staged` with names, modes and contents. Times do not count: a fresh checkout has others."""
    parts = [dockerfile.sha256, dockerfile.ignore_sha256, bases, digest_tree(staged)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def find_built(dockerfile: Dockerfile, docker: Docker) -> ImageFacts | None:
    """Return the image under the tag of `dockerfile` if it carries both labels, or None; nothing is proved yet."""
    image = inspect_image(dockerfile.tag, docker)
    if image is None or image.labels.get(LABEL) != dockerfile.sha256 or not image.labels.get(INPUTS_LABEL):
        return None
    return image


def obtain_bases(bases: tuple[str, ...], docker: Docker, *, network: bool, emit: Sink) -> tuple[tuple[str, str], ...]:
    """Return (reference, ID) of the images to build on, pulling those that are missing.

    Raises SandboxConfigError when one cannot be had, and when one brings ONBUILD instructions to a
    build without network: they were not approved, and they may fetch (D-2).
    """
    found: list[tuple[str, str]] = []
    for ref in bases:
        try:
            image_id = find_or_pull(
                ImageChoice(ref=ref, origin=f"{NAME}: FROM", chosen_by_project=True), docker, emit=emit
            ).id
        except ImageUnavailable as error:
            hint = explain_platform(error.detail) or _BASE_HINT
            raise SandboxConfigError(error.message, hint=hint, detail=error.detail) from error
        image = inspect_image(image_id, docker)
        if not network and image and image.triggers == (HIDDEN_TRIGGERS,):
            raise SandboxConfigError(
                f'podman does not tell whether the image "{visible(ref)}" ({NAME}: FROM) brings ONBUILD instructions',
                hint=f"`podman save --format oci-archive {visible(ref)} | podman load` leaves them out; "
                f"or allow the build the network with {SWITCH}=1",
            )
        if not network and (image is None or image.triggers):
            trigger = visible(truncate(image.triggers[0], 160)) if image else "unreadable"
            raise SandboxConfigError(
                f'the image "{visible(ref)}" ({NAME}: FROM) brings instructions of its own: "ONBUILD {trigger}"',
                hint=f"build on another image, or allow the build the network with {SWITCH}=1",
            )
        found.append((ref, image_id))
    return tuple(found)


def may_read_more(dockerfile: Dockerfile, bases: tuple[tuple[str, str], ...], docker: Docker) -> bool:
    """Return whether a build may read files that no line of `dockerfile` names: one with the network, whose
    front end is another or whose bases bring instructions of their own."""
    if names_front_end(dockerfile.data):
        return True
    images = [inspect_image(image_id, docker) for _, image_id in bases]
    return any(image is None or image.triggers for image in images)


_BASE_HINT = (
    "without a registry, bring the image with `odek sandbox image load`, or build on one that is there "
    "(`docker image ls`)"
)


def find_changed_bases(build: Build, docker: Docker) -> tuple[str, ...]:
    """Return the references that now name another local image than `build` was made from."""
    return tuple(ref for ref, image_id in build.bases if find_image(ref, docker) not in ("", image_id))


def describe_staleness(changed_bases: tuple[str, ...], *, files_changed: bool, tag: str) -> str:
    """Return one line that says why the image is behind its inputs, or "" when it is not. Pure."""
    reasons = [f"{visible(ref)} is another image now" for ref in changed_bases]
    if files_changed:
        reasons.append("files that it copies changed")
    if not reasons:
        return ""
    return f"stale image {tag}: {' and '.join(reasons)}; `odek sandbox build` (or build --no-cache) makes it anew"


def _readable(text: str) -> list[str]:
    """Return the lines of a builder's output, safe to show, without its colours and its advertising."""
    lines = without_style(_ADVICE.sub("", text)).split("\n")
    return [visible_lines(line.rstrip("\r")) for line in lines if line.strip()]


def _detail(done: Completed) -> str:
    """Return the end of the output, the steps before the error, whichever builder wrote them where."""
    errors, steps = _readable(done.stderr.text), _readable(done.stdout.text)
    errors = errors[-(_DETAIL_LINES if not steps else _DETAIL_LINES // 2) :]
    lines = [*steps[-(_DETAIL_LINES - len(errors)) :], *errors] if len(errors) < _DETAIL_LINES else errors
    return "\n".join(line[:500] for line in lines)


def _read_id(path: str) -> str:
    """Return the ID in a file that Docker's client wrote; "" when there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            match = _ID.fullmatch(file.read(200))
    except OSError:
        return ""
    return f"sha256:{match.group(1)}" if match else ""
