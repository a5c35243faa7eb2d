"""What goes into a bundle: which odek, which images, and settings that may travel (R-320 to R-322)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odek import strict_json
from odek.app.config import config_of
from odek.app.sandbox_image import default_choice, ensure_image, find_local_image
from odek.app.setup import with_sandbox_image
from odek.bundle.file import Bundle, Source, open_part
from odek.bundle.layout import BundleError, Part
from odek.config.layers import parse_file
from odek.config.options import Source as Layer
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.errors import ConfigError, UsageError
from odek.events import Sink
from odek.host import Host
from odek.packaged import read_packaged
from odek.patterns import pattern
from odek.redact import Redactor
from odek.sandbox.docker import Docker, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import find_image, inspect_image
from odek.sandbox.offline.archive import read_archive
from odek.sandbox.offline.transfer import name_of, save_image
from odek.sandbox_grammar import parse_reference
from odek.secret_names import is_secret_name
from odek.text import visible

KINDS = ("zip", "gnu", "musl", "binary")
SUMS = "SHA256SUMS"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Docker's words for a processor → `uname -m`"""
_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
_BINARY_NAME = pattern(r"odek-linux-(?:x86_64|aarch64)(?:-[a-z]+)?")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OdekFile:
    """The odek that goes into a bundle."""

    path: str
    name: str
    """in the bundle"""
    machine: str
    """as `uname -m` has it; "any" for the zip, which needs a Python"""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundForBundle:
    """An image that is here."""

    id: str
    name: str
    """"" where it has none"""
    origin: str
    architecture: str
    """in Docker's words"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedImage:
    """An image in a file."""

    path: str
    """of what `docker save` wrote"""
    id: str
    """of this engine"""
    ids: tuple[str, ...]
    """under which any engine may know it, this one's first"""
    tag: str


def find_odek(running: str, machine: str, *, odek: str, kind: str, folder: str) -> OdekFile:
    """Return the odek to take: the file `odek`, the `kind` of the release in `folder` or next to the running
    one, or the running one itself.

    `running` is "" where odek runs from its source. What a SHA256SUMS next to it says counts; a release must have one.
    Raises UsageError and BundleError.
    """
    if odek and (kind or folder):
        raise UsageError("--odek names the file itself", hint="leave --kind and --from out")
    path = odek or running
    if folder or kind:
        name = "odek" if kind == "zip" else f"odek-linux-{machine}" + ("" if kind == "binary" else f"-{kind or 'musl'}")
        if not machine and kind != "zip":
            raise BundleError("there is no binary for the processor of this image", hint="take --kind zip")
        path = os.path.join(folder or os.path.dirname(running), name)
    if not path:
        raise UsageError(
            "odek runs from its source, which is not a file", hint="name a file: --odek, or --from and --kind"
        )
    if not os.path.isfile(path):
        raise BundleError(
            f'there is no file "{visible(path)}"', hint="--from DIR names the folder of a release, --odek FILE the file"
        )
    try:
        sha256 = _hash(path)
        _check_sums(path, sha256, is_needed=bool(folder))
        return _describe_odek(path, sha256)
    except OSError as error:
        raise BundleError(f'cannot read "{visible(path)}": {error.strerror}', hint="name another odek") from error


def _hash(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _describe_odek(path: str, sha256: str) -> OdekFile:
    """Return which odek this is, by its content. Raises BundleError."""
    with open(path, "rb") as file:
        start = file.read(120)
        if start.startswith(b"#!/bin/sh") and b"one-file odek" in start:
            return OdekFile(path=path, name="odek", machine="any", sha256=sha256)
        machine = _ELF_MACHINES.get(int.from_bytes(start[18:20], "little"), "") if start[:4] == b"\x7fELF" else ""
        if machine and _holds(file, b"odek.cli.main"):
            name = os.path.basename(path)
            name = name if _BINARY_NAME.fullmatch(name) else f"odek-linux-{machine}"
            return OdekFile(path=path, name=name, machine=machine, sha256=sha256)
    raise BundleError(f'"{visible(path)}" is not an odek for Linux', hint="take a file of a release")


def _holds(file: object, wanted: bytes) -> bool:
    kept = b""
    while chunk := file.read(_CHUNK):  # type: ignore[attr-defined]
        if wanted in kept + chunk:
            return True
        kept = chunk[-len(wanted) :]
    return False


def _check_sums(path: str, sha256: str, *, is_needed: bool) -> None:
    folder, name = os.path.split(path)
    sums = os.path.join(folder, SUMS)
    if not os.path.isfile(sums):
        if is_needed:
            raise BundleError(
                f'there is no "{visible(sums)}"', hint="a release has one; --odek FILE takes a file as it is"
            )
        return
    with open(sums, encoding="utf-8", errors="replace") as file:
        words = [line.split() for line in file]
    known = {line[0].lower() for line in words if len(line) == 2 and line[1].removeprefix("*") == name}
    if not known and not is_needed:
        return
    if known != {sha256}:
        raise BundleError(
            f'"{visible(path)}" is not what {SUMS} next to it says', hint="it belongs to another release, or is damaged"
        )


def choose_images(named: tuple[str, ...], settings: Settings) -> tuple[ImageChoice, ...]:
    """Return the images to take: those that were named, or the one of the settings, or the default. Pure."""
    if named:
        references = dict.fromkeys(parse_reference(name, "--image") for name in named)
        return tuple(ImageChoice(ref=ref, origin="--image", chosen_by_project=False) for ref in references)
    if settings.sandbox.image:
        origin = settings.origin_of("sandbox_image")
        ref = parse_reference(settings.sandbox.image, origin)
        return (ImageChoice(ref=ref, origin=origin, chosen_by_project=False),)
    return (default_choice(),)


def find_image_for_bundle(choice: ImageChoice, host: Host, docker: Docker, emit: Sink) -> FoundForBundle:
    """Return the image of `choice`; it is pulled where it is not here. Raises SandboxError."""
    local = find_local_image(choice, None, host, docker=docker, emit=emit)
    ref, found = ensure_image(local, choice, None, host, network=False, docker=docker, emit=emit)
    facts = inspect_image(found.id, docker)
    if facts is None or not facts.architecture:
        raise SandboxConfigError(
            f'Docker does not say for which processor "{visible(ref)}" is',
            hint="`docker image inspect` shows the image",
        )
    name = _name_of_id(found.id, docker) if choice.is_id else name_of(ref)
    return FoundForBundle(id=found.id, name=name, origin=choice.origin, architecture=facts.architecture)


def save_for_bundle(found: FoundForBundle, path: str, docker: Docker, emit: Sink) -> SavedImage:
    """Write an image to the new file `path`. Raises SandboxError."""
    # a name may have moved on
    ref = found.name if found.name and find_image(found.name, docker) == found.id else found.id
    choice = ImageChoice(ref=ref, origin=found.origin, chosen_by_project=False)
    image_id, archived = save_image(choice, path, docker, emit=emit)
    return SavedImage(
        path=path,
        id=image_id,
        ids=(image_id, *sorted(archived.ids - {image_id})),
        tag=next(iter(archived.tags), found.name) or f"odek-bundle:{image_id[7:19]}",
    )


def _name_of_id(image_id: str, docker: Docker) -> str:
    """Return a name of the image, with which it is kept where it is loaded; "" where it has none."""
    done = run_docker(docker, "image", "inspect", "--format", "{{json .RepoTags}}", image_id)
    try:
        names = json.loads(done.stdout.text) if done.code == 0 else None
    except ValueError:
        return ""
    return str(names[0]) if isinstance(names, list) and names else ""


def machine_of(images: tuple[FoundForBundle, ...]) -> tuple[str, str]:
    """Return the processor of the images in Docker's words and, "" for one without a binary, as `uname -m` has it.

    Raises SandboxConfigError where they are for several.
    """
    architectures = sorted({image.architecture for image in images})
    if len(architectures) > 1:
        raise SandboxConfigError(f"the images are for {' and '.join(architectures)}", hint="make a bundle for each")
    return architectures[0], _MACHINES.get(architectures[0].partition("/")[0], "")


def read_settings(path: str, env: Mapping[str, str]) -> tuple[bytes, Settings]:
    """Return the settings file that is to travel, and what it says on its own.

    Raises ConfigError for what `odek run` would refuse or only warn of, and for a secret in it: a bundle can be read
    by all through whose hands it goes.
    """
    shown = visible(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f'cannot read "{shown}": {error.strerror}', hint="name a file of settings") from error
    text = data.decode("utf-8", "replace")
    # keys are set on the other host: here, they need not be
    absent = {name: "unset" for name in variables_in(text) if is_secret_name(name) and name not in env}
    layer = parse_file(data, Layer.GLOBAL, {**env, **absent}, shown=path)
    if layer.unknown:
        raise ConfigError(
            f'"{shown}" holds the unknown key "{visible(layer.unknown[0])}"', hint="correct it, or take it out"
        )
    settings = config_of((layer,)).settings
    secret = next(_secrets(strict_json.parse(data), ""), "")
    if secret or Redactor()(text) != text:
        where = f"{visible(secret)} in " if secret else ""
        raise ConfigError(
            f'a secret would travel with the bundle ({where}"{shown}")',
            hint="take it out; on the other host it belongs into ~/.odek/secrets.env, and ${NAME} refers to it",
        )
    return data, settings


def _secrets(value: object, where: str) -> Iterator[str]:
    """Yield the keys whose values are secrets by their names and stand there in clear."""
    if isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, where)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        name = f"{where}.{key}" if where else key
        if isinstance(inner, str):
            is_name = key.lower().endswith(("variable", "file"))
            if inner and is_secret_name(key) and not is_name and not variables_in(inner):
                yield name
        else:
            yield from _secrets(inner, name)


def bundle_sources(odek: OdekFile, images: tuple[SavedImage, ...], settings: bytes | None) -> tuple[Source, ...]:
    """Return the parts of a bundle in their order. The settings get the first image."""
    installer = read_packaged("odek.bundle", "install.sh")
    sources = [
        Source(part=_part("installer", "install.sh"), data=installer),
        Source(part=_part("odek", odek.name, odek.sha256), path=odek.path),
    ]
    if settings is not None:
        text, _ = with_sandbox_image(settings, images[0].id)
        sources.append(Source(part=_part("settings", "config.json"), data=text))
    for number, image in enumerate(images, start=1):
        part = Part(kind="image", name=f"image-{number}.tar.gz", size_bytes=0, sha256="", ids=image.ids, tag=image.tag)
        sources.append(Source(part=part, path=image.path, compress=True))
    return tuple(sources)


def _part(kind: object, name: str, sha256: str = "") -> Part:
    return Part(kind=kind, name=name, size_bytes=0, sha256=sha256)  # type: ignore[arg-type]


def verify_parts(path: str, bundle: Bundle) -> None:
    """Compute every digest in the images of a bundle anew, and compare the installer with the one of this odek.

    Raises BundleError and SandboxConfigError.
    """
    installer = hashlib.sha256(read_packaged("odek.bundle", "install.sh")).hexdigest()
    for part in bundle.contents.parts:
        if part.kind == "installer" and part.sha256 != installer:
            raise BundleError(
                f"{part.name} is not the one that this odek brings",
                hint="another version made it: compare its SHA-256 with the one where it was made",
            )
        if part.kind == "image":
            with open_part(path, bundle.contents, part) as file:
                archived = read_archive(file, shown=part.name)
            if not archived.ids.intersection(part.ids):
                raise BundleError(f"{part.name} holds another image than {part.ids[0]}", hint="make the bundle again")


def settings_in(path: str, bundle: Bundle) -> str:
    """Return the settings that a bundle brings, "" for none. Raises BundleError and OSError."""
    found = []
    for part in bundle.contents.parts:
        if part.kind != "settings":
            continue
        if part.size_bytes > _CHUNK:
            raise BundleError(f"{part.name} is larger than settings are", hint="make the bundle again")
        with open_part(path, bundle.contents, part) as file:
            found.append(file.read().decode("utf-8", "replace"))
    return "".join(found)
