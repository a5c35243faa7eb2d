"""odek sandbox: what the sandbox uses on this machine."""

from __future__ import annotations

from odek.cli.parser import CommandParser
from odek.cli.session import real_docker
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host, which
from odek.sandbox.busybox import DEFAULT_TAG, build_busybox_image
from odek.sandbox.docker import probe
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image import parse_reference

_USAGE = "explain [OPTION of run…] | image bootstrap [--busybox PATH] [--tag NAME]"


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Carry out `odek sandbox image bootstrap`, or hand over to a command of its own."""
    if arguments[:1] == ["explain"]:
        from odek.cli.commands import sandbox_explain

        return sandbox_explain.main(arguments[1:], host, terminal)
    parser = CommandParser(
        "sandbox",
        "make a small local image for hosts that reach no registry",
        usage=_USAGE,
        examples=(
            "odek sandbox explain",
            "odek sandbox image bootstrap",
            f'odek run --sandbox-image {DEFAULT_TAG} "list the largest files"',
        ),
    )
    parser.add_argument("words", nargs="*", metavar="image bootstrap", help="make an image from a static busybox")
    parser.add_argument("--busybox", metavar="PATH", default="", help="the static busybox; unset: the one on PATH")
    parser.add_argument("--tag", metavar="NAME", default=DEFAULT_TAG, help=f"name of the image ({DEFAULT_TAG})")
    parsed, rest = parser.read(arguments)
    if [*parsed.words, *rest] != ["image", "bootstrap"]:
        raise UsageError("say what to make: odek sandbox image bootstrap", hint="`odek sandbox --help` explains it")
    tag = parse_reference(parsed.tag, origin="--tag")
    image_id = bootstrap_image(host, terminal, busybox=parsed.busybox, tag=tag)
    terminal.answer(f"{tag} {image_id}")
    return 0


def bootstrap_image(host: Host, terminal: Terminal, *, busybox: str, tag: str) -> str:
    """Make the image and return its ID. Raises SandboxError."""
    import time

    docker = real_docker(host)
    path = busybox or which("busybox", host)
    if not path:
        raise SandboxConfigError(
            "no busybox was found on PATH",
            hint="install the static one (on Debian: apt-get install busybox-static), or give it with --busybox PATH",
        )
    probe(docker, sleep=time.sleep)
    return build_busybox_image(path, tag, docker, env=host.env, notify=terminal.note)
