"""odek sandbox image: images on hosts that reach no registry (D-12)."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from typing import Protocol

from odek import safefile
from odek.app.runtime import real_docker
from odek.app.sandbox_image import default_choice
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import find_tty_prompt
from odek.errors import OdekError, UsageError
from odek.host import Host, project_root, which
from odek.sandbox.docker import Docker, probe
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import BUSYBOX_TAG, ImageChoice
from odek.sandbox.image.resolve import daemon_machine, resolve_image
from odek.sandbox.offline.archive import ArchivedImage
from odek.sandbox.offline.busybox import build_busybox_image
from odek.sandbox.offline.transfer import load_image, name_of, save_image
from odek.sandbox_grammar import is_image_id, parse_reference
from odek.state import StateFolder
from odek.text import truncate, visible

_CONFIG = "config.json"
_CONFIG_LIMIT_BYTES = 5 << 20
_VARIABLE = "ODEK_SANDBOX_IMAGE"


class Asking(Protocol):
    """The person at the terminal."""

    def ask_text(self, prompt: str, *, hidden: bool = False) -> str | None: ...


def bootstrap_parser() -> CommandParser:
    """Return the parser of `odek sandbox image bootstrap`."""
    made = CommandParser(
        "sandbox image bootstrap",
        "make a small local image from a static busybox, for hosts that reach no registry",
        usage="[--busybox PATH] [--tag NAME]",
        examples=(
            "odek sandbox image bootstrap",
            f'odek run --sandbox-image {BUSYBOX_TAG} "list the largest files"',
        ),
    )
    made.add_argument("--busybox", metavar="PATH", default="", help="the static busybox; unset: the one on PATH")
    made.add_argument("--tag", metavar="NAME", default=BUSYBOX_TAG, help=f"name of the image ({BUSYBOX_TAG})")
    return made


def bootstrap(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Make an image from a static busybox and print its tag and ID."""
    parsed = bootstrap_parser().read_flags(arguments)
    tag = parse_reference(parsed.tag, "--tag")
    image_id = bootstrap_image(host, terminal, busybox=parsed.busybox, tag=tag)
    terminal.answer(f"{tag} {image_id}")
    if host.stdout_is_terminal:
        terminal.note(f'to use it: --sandbox-image {tag}, or "sandbox_image": "{tag}" in ~/.odek/config.json')
    return 0


def save_parser() -> CommandParser:
    """Return the parser of `odek sandbox image save`."""
    made = CommandParser(
        "sandbox image save",
        "write a local image to a file, to carry it to a host that reaches no registry",
        usage="FILE [--image REF] [--json]",
        examples=("odek sandbox image save alpine.tar", "odek sandbox image save node.tar --image node:20-alpine"),
    )
    made.add_argument("file", nargs="*", metavar="FILE", help="the file to write; it must not exist")
    made.add_argument("--image", metavar="REF", default="", help="the image; unset: the pinned default")
    made.add_argument("--json", action="store_true", help="file, ID, names and size as JSON")
    return made


def save(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Write an image to a file and print its ID."""
    parsed, rest = save_parser().read(arguments)
    path = _one_file([*parsed.file, *rest], host, "save")
    choice = default_choice()
    if parsed.image:
        reference = parse_reference(parsed.image, "--image")
        choice = ImageChoice(ref=reference, origin="--image", chosen_by_project=False)
    docker = _ready_docker(host)
    image_id, image = save_image(choice, through_no_link(path, host), docker, emit=partial(print_notice, terminal))
    terminal.answer(_facts(path, image_id, image, as_json=parsed.json))
    terminal.note(f"on the other host: odek sandbox image load FILE --id {image_id}")
    return 0


def load_parser() -> CommandParser:
    """Return the parser of `odek sandbox image load`."""
    made = CommandParser(
        "sandbox image load",
        "take in an image from a file; every digest in it is computed again, and the image must be the expected one",
        usage="FILE [--id sha256:… [--tag NAME] | --image NAME@sha256:…] [--set] [--json]",
        examples=("odek sandbox image load alpine.tar", f"odek sandbox image load node.tar --id sha256:{'0' * 8}…"),
    )
    made.add_argument(
        "file",
        nargs="*",
        metavar="FILE",
        help="what `odek sandbox image save` wrote, or its .gz; or a layout of the OCI, packed or a folder",
    )
    made.add_argument(
        "--id",
        metavar="SHA256",
        default="",
        help="the expected ID, as `save` printed it; several with commas: one of them",
    )
    made.add_argument("--tag", metavar="NAME", default="", help="what to call it if the file has no name for it")
    made.add_argument("--image", metavar="REF", default="", help="the expected image, by a reference with a digest")
    made.add_argument(
        "--set", action="store_true", help="write it into your settings as sandbox_image, without a question"
    )
    made.add_argument("--json", action="store_true", help="file, ID, names and size as JSON")
    return made


def load(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Take in an image from a file and print its ID."""
    parsed, rest = load_parser().read(arguments)
    path = _one_file([*parsed.file, *rest], host, "load")
    if parsed.id and parsed.image:
        raise UsageError("--id and --image exclude each other", hint="give one of them")
    if parsed.set:
        require_settable(host)
    docker = _ready_docker(host)
    choice, expected, unknown_on = _expected(parsed.id, parsed.image, docker)
    name = parse_reference(parsed.tag, "--tag") if parsed.tag else "" if choice.is_id else name_of(choice.ref)
    image_id, image = load_image(
        path, expected, docker, name=name, emit=partial(print_notice, terminal), unknown_on=unknown_on
    )
    terminal.answer(_facts(path, image_id, image, as_json=parsed.json))
    if parsed.set or resolve_image(default_choice(), docker) != image_id:
        is_there = host.stdin_is_terminal and host.stderr_is_terminal and not parsed.json
        person = find_tty_prompt(alone=terminal.suspended) if is_there and not parsed.set else None
        offer_setting(image_id, host, terminal, person, at_once=parsed.set)
    return 0


def require_settable(host: Host) -> None:
    """Raise what would keep --set from being kept: UsageError, ConfigError, StateFileError.

    Before a minute goes into an image, and before it is there without the setting.
    """
    from odek.app.setup import with_sandbox_image  # brings `re` along

    if host.operator_home.config_file:
        raise UsageError(
            "--set does not write the file that ODEK_CONFIG names",
            hint="leave --set out, and set sandbox_image there by hand",
        )
    with_sandbox_image(StateFolder(host.operator_home).read(_CONFIG, limit_bytes=_CONFIG_LIMIT_BYTES), "")


def offer_setting(image_id: str, host: Host, terminal: Terminal, person: Asking | None, *, at_once: bool) -> None:
    """Write the image into the operator's settings after a yes, or `at_once`; else say how it is used.

    The old file is kept next to it. Raises ConfigError and StateFileError when it cannot be read or written.
    """
    from odek.app.setup import with_sandbox_image  # brings `re` along

    use = f"use it with --sandbox-image {image_id}"
    if host.operator_home.config_file:
        if at_once:
            require_settable(host)
        terminal.note(use)
        return
    if not (at_once or person):
        terminal.note(f"{use}, or for every run: the same command with --set")
        return
    folder = StateFolder(host.operator_home)
    try:
        data = folder.read(_CONFIG, limit_bytes=_CONFIG_LIMIT_BYTES)
        text, before = with_sandbox_image(data, image_id)
    except OdekError as error:
        if at_once:
            raise
        terminal.note(f"{use}; it cannot be offered for every run: {error.message}")
        return
    place = visible(folder.path(_CONFIG))
    if before == image_id:
        terminal.note(f"it is sandbox_image in {place} already")
        return
    instead = f" instead of {visible(truncate(before, 80))}" if before else ""
    question = f"Write sandbox_image into {place}{instead}, for every run? [y/N]"
    if person and not at_once and (person.ask_text(question) or "").lower() not in ("y", "yes"):
        terminal.note(use)
        return
    _write_setting(folder, data, text)
    terminal.note(f"{place}: sandbox_image is this image now{instead}")
    if _VARIABLE in host.env:
        terminal.note(f"{_VARIABLE} is set, which is stronger")


def _write_setting(folder: StateFolder, data: bytes | None, text: bytes) -> None:
    if data is not None:
        folder.write(f"{_CONFIG}.before-load", data)
    folder.write(_CONFIG, text)


def bootstrap_image(host: Host, terminal: Terminal, *, busybox: str, tag: str) -> str:
    """Make the image and return its ID. Raises SandboxError."""
    path = busybox or which("busybox", host)
    if not path:
        raise SandboxConfigError(
            "no busybox was found on PATH",
            hint="install the static one (on Debian: apt-get install busybox-static), or give it with --busybox PATH",
        )
    return build_busybox_image(path, tag, _ready_docker(host), env=host.env, emit=partial(print_notice, terminal))


def _expected(image_id: str, reference: str, docker: Docker) -> tuple[ImageChoice, tuple[str, ...], str]:
    """Return the image to expect, the IDs that it may have in a store, and, if that is not all of them, the
    processor for which the rest is not known; else ""."""
    if not image_id and not reference:
        choice = default_choice()
        machine = daemon_machine(docker)
        known = tuple(known_id for machine_of, known_id in choice.local_ids if machine_of in ("", machine))
        is_known = any(machine_of == machine for machine_of, _ in choice.local_ids)
        return choice, known, "" if is_known else machine
    origin = "--id" if image_id else "--image"
    first, *others = image_id.split(",") if image_id else (reference,)
    choice = ImageChoice(ref=parse_reference(first, origin), origin=origin, chosen_by_project=False)
    if image_id and not all(map(is_image_id, (first, *others))):
        raise UsageError("--id wants full image IDs", hint="write sha256: and 64 hex digits; commas between several")
    if others:
        return choice, (first, *others), ""
    if not choice.is_id and "@sha256:" not in choice.ref:
        raise UsageError(
            "a name says nothing about the content of an image (--image)", hint="give NAME@sha256:…, or --id sha256:…"
        )
    return choice, (choice.ref.rpartition("@")[2],), ""


def _one_file(words: list[str], host: Host, action: str) -> str:
    if len(words) != 1:
        raise UsageError("name one file", hint=f"`odek sandbox image {action} --help` explains it")
    return os.path.join(host.cwd, words[0])


def through_no_link(path: str, host: Host) -> str:
    """Return `path` without links: the Docker client opens it. Raises UsageError for a link in the project."""
    above, name = os.path.split(os.path.normpath(path))
    try:
        return os.path.join(safefile.chosen_folder(above, project_root(host)), name)
    except OSError as error:
        raise UsageError(
            f'"{visible(path)}" cannot be written: {visible(str(error.strerror))}', hint="name another place"
        ) from error


def _ready_docker(host: Host) -> Docker:
    docker = real_docker(host)
    probe(docker, sleep=time.sleep)
    return docker


def _facts(path: str, image_id: str, image: ArchivedImage, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"file": path, "id": image_id, "names": list(image.tags), "size_bytes": image.size_bytes})
    return image_id
