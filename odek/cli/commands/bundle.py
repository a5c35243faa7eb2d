"""odek bundle: one file that brings odek, its image and its settings to a host without network (R-320)."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from odek import __version__
from odek.app.bundle import (
    KINDS,
    FoundForBundle,
    OdekFile,
    SavedImage,
    bundle_sources,
    choose_images,
    find_image_for_bundle,
    find_odek,
    machine_of,
    read_settings,
    save_for_bundle,
    settings_in,
    verify_parts,
)
from odek.app.config import load
from odek.app.runtime import real_docker
from odek.bundle.file import Bundle, read_bundle, write_bundle
from odek.bundle.layout import BundleError, Contents
from odek.cli.artifact import find_artifact
from odek.cli.commands.sandbox_images import through_no_link
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.subcommands import Subcommand, run_subcommand
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.sandbox.docker import Docker, probe
from odek.text import visible

_NEEDS_PYTHON = "the zip needs Python 3.10 or newer on the other host; --kind musl takes the binary that needs nothing"


def make_parser() -> CommandParser:
    """Return the parser of `odek bundle make`."""
    made = CommandParser(
        "bundle make",
        "write one file that checks itself, installs odek and loads its image on a host without network",
        usage="FILE [--image REF]… [--config FILE] [--odek FILE | --kind KIND [--from DIR]] [--json]",
        examples=(
            "odek bundle make odek.sh",
            "odek bundle make odek.sh --image node:22 --config work.json --kind musl --from release/",
        ),
    )
    made.add_argument("file", nargs="*", metavar="FILE", help="the file to write; it must not exist")
    made.add_argument(
        "--image",
        metavar="REF",
        action="append",
        default=[],
        help="an image, may be repeated; the first becomes sandbox_image. Unset: the one of your settings",
    )
    made.add_argument(
        "--config", metavar="FILE", default="", help="settings for the other host's ~/.odek/config.json, without keys"
    )
    made.add_argument("--odek", metavar="FILE", default="", help="the odek to take; unset: the running one")
    made.add_argument(
        "--kind", choices=KINDS, default="", help="or this one of the release that is there; musl needs no Python"
    )
    made.add_argument(
        "--from", metavar="DIR", dest="folder", default="", help="the folder of the release; unset: that of this odek"
    )
    made.add_argument("--json", action="store_true", help="file, hash, size and parts as JSON")
    return made


def make(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Write a bundle, and its hash next to it; print both."""
    parsed, rest = make_parser().read(arguments)
    path = _new_file([*parsed.file, *rest], host)
    settings = load(host, {}, terminal, with_project=False).settings
    config = None
    if parsed.config:
        config, settings = read_settings(os.path.join(host.cwd, parsed.config), host.env)
    docker, emit = real_docker(host), partial(print_notice, terminal)
    choices = choose_images(tuple(parsed.image), settings)
    probe(docker, sleep=time.sleep)
    found = tuple(find_image_for_bundle(choice, host, docker, emit) for choice in choices)
    architecture, machine = machine_of(found)
    artifact = find_artifact()
    odek = find_odek(
        artifact.path if artifact.is_file else "",
        machine,
        odek=parsed.odek and os.path.join(host.cwd, parsed.odek),
        kind=parsed.kind,
        folder=parsed.folder and os.path.join(host.cwd, parsed.folder),
    )
    if odek.machine not in ("any", machine):
        raise BundleError(
            f'"{visible(odek.path)}" is for {odek.machine}, the image is for {architecture}',
            hint="name an odek for the machine of the image: --odek, or --kind and --from",
        )
    about = Contents(made_by=f"odek {__version__}", machine=odek.machine, architecture=architecture, parts=())
    bundle = _write(path, about, odek, found, config, docker, terminal)
    terminal.answer(_facts(path, bundle) if parsed.json else f"{bundle.sha256}  {path}")
    if odek.machine == "any":
        terminal.note(_NEEDS_PYTHON)
    name = visible(os.path.basename(path))
    terminal.note(f"take {name} and {name}.sha256 there: sha256sum -c {name}.sha256 && sh {name}")
    return 0


def _write(
    path: str,
    about: Contents,
    odek: OdekFile,
    found: tuple[FoundForBundle, ...],
    config: bytes | None,
    docker: Docker,
    terminal: Terminal,
) -> Bundle:
    images: tuple[SavedImage, ...] = ()
    try:
        for number, image in enumerate(found, start=1):
            place = f"{path}.image-{number}"
            images = (*images, save_for_bundle(image, place, docker, partial(print_notice, terminal)))
        terminal.note("packing; every byte is read again at the end")
        bundle = write_bundle(path, about, bundle_sources(odek, images, config))
        with open(f"{path}.sha256", "x", encoding="utf-8") as sums:
            sums.write(f"{bundle.sha256}  {os.path.basename(path)}\n")
    except OSError as error:
        raise BundleError(
            f'cannot write "{visible(path)}": {error.strerror}',
            hint="name a file where there is room for the images twice",
        ) from error
    finally:
        for saved in images:
            os.unlink(saved.path)
    return bundle


def verify_parser() -> CommandParser:
    """Return the parser of `odek bundle verify`."""
    made = CommandParser(
        "bundle verify",
        "check every byte of a bundle, the script in it and the images, and list what is in it; nothing of it runs",
        usage="FILE [--json]",
        examples=("odek bundle verify odek.sh",),
    )
    made.add_argument("file", nargs="*", metavar="FILE", help="the bundle")
    made.add_argument("--json", action="store_true", help="file, hash, size and parts as JSON")
    return made


def verify(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print what is in a bundle when all of it is right."""
    parsed, rest = verify_parser().read(arguments)
    path = os.path.join(host.cwd, _one_file([*parsed.file, *rest]))
    try:
        bundle = read_bundle(path, shown=path)
        verify_parts(path, bundle)
        settings = settings_in(path, bundle)
    except OSError as error:
        raise BundleError(f'cannot read "{visible(path)}": {error.strerror}', hint="name a bundle") from error
    terminal.answer(_facts(path, bundle, settings) if parsed.json else "\n".join(_rows(path, bundle, settings)))
    return 0


def _new_file(words: list[str], host: Host) -> str:
    path = os.path.join(host.cwd, _one_file(words))
    name = os.path.basename(path)
    if not name.isprintable() or "\\" in name or name.startswith("-"):
        raise UsageError(f'"{visible(name)}" cannot be the name of a bundle', hint="odek.sh is one")
    path = through_no_link(path, host)
    for taken in (path, f"{path}.sha256"):
        if os.path.lexists(taken):
            raise BundleError(f'"{visible(taken)}" exists already', hint="name a new file")
    return path


def _one_file(words: list[str]) -> str:
    if len(words) != 1 or not words[0]:
        raise UsageError("name one file", hint="`odek bundle --help` explains it")
    return words[0]


def _rows(path: str, bundle: Bundle, settings: str) -> list[str]:
    contents = bundle.contents
    where = "any machine with Python 3.10 or newer" if contents.machine == "any" else f"Linux on {contents.machine}"
    rows = [f"{bundle.sha256}  {path}", f"made by {contents.made_by}, for {where}, images for {contents.architecture}"]
    for part in contents.parts:
        name = f"{part.tag} {part.ids[0]}" if part.kind == "image" else part.name
        rows += [f"{part.kind:<9} {part.size_bytes:>12} bytes  {name}", f"          SHA-256 {part.sha256}"]
    if settings:
        rows += ["settings that it brings:", *(f"  {visible(line)}" for line in settings.splitlines())]
    return rows


def _facts(path: str, bundle: Bundle, settings: str = "") -> str:
    contents = bundle.contents
    parts = [
        {"kind": part.kind, "name": part.name, "size_bytes": part.size_bytes, "sha256": part.sha256}
        | ({"ids": list(part.ids), "tag": part.tag} if part.kind == "image" else {})
        for part in contents.parts
    ]
    return json.dumps(
        {
            "file": path,
            "sha256": bundle.sha256,
            "size_bytes": bundle.size_bytes,
            "made_by": contents.made_by,
            "machine": contents.machine,
            "architecture": contents.architecture,
            "parts": parts,
        }
        | ({"settings": settings} if settings else {})
    )


ACTIONS = {
    "make": Subcommand(__name__, "write a bundle: odek, images, settings, checksums and installer in one file", "make"),
    "verify": Subcommand(__name__, "check every byte of a bundle, and list what is in it", "verify"),
}
main = partial(run_subcommand, "bundle", ACTIONS)
