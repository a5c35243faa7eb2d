"""odek selftest: is this copy of odek whole, and does what it needs of its Python and this machine work?

A binary that lacks a module, or a Python that lacks a part of its standard library, starts well enough
and fails in the middle of a task. Here everything is imported and used once; no network, no Docker.
"""

from __future__ import annotations

import hashlib
import importlib
import locale
import pkgutil
import sys
import unicodedata
from collections.abc import Iterator, Mapping

import odek
from odek.app.doctor import Check
from odek.app.sandbox_image import default_choice
from odek.cli.artifact import describe_artifact, find_artifact
from odek.cli.checks import print_checks
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import OdekError
from odek.host import Host
from odek.process import run
from odek.text import visible

_TIMEOUT_S = 20
_WORDS = "straße, 東京, 😀"
_BOOTLOADER_VARIABLES = ("_PYI_", "_MEIPASS")


def parser() -> CommandParser:
    """Return the parser of `odek selftest`."""
    return CommandParser("selftest", COMMANDS["selftest"][1], usage="", examples=("odek selftest",))


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the findings; 1 when something does not work."""
    parser().read_flags(arguments)
    return print_checks(tuple(_checks(host)), terminal)


def _checks(host: Host) -> Iterator[Check]:
    yield Check(name="odek", verdict="ok", seen=f"{odek.__version__}, {describe_artifact(find_artifact())}")
    yield _import_all(module_names())
    yield _read_data()
    yield _hash()
    yield _encode()
    yield _trust(host.env)
    yield from _spawn(host.env)


def module_names() -> tuple[str, ...]:
    """Return all modules of odek, wherever they are."""
    listed = getattr(odek.__loader__, "module_names", None)  # of the one file
    if listed is not None:
        return tuple(sorted(name for name in listed() if name.startswith("odek.")))
    return tuple(sorted(found.name for found in pkgutil.walk_packages(odek.__path__, "odek.")))


def _import_all(names: tuple[str, ...]) -> Check:
    missing = []
    for name in names:
        if name == "odek.__main__":
            continue
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name}: {error}")
    if missing:
        return Check(
            name="modules",
            verdict="fail",
            seen="; ".join(map(visible, missing)),
            fix="use a Python with its whole standard library (Debian: apt-get install python3), or another odek",
        )
    return Check(name="modules", verdict="ok", seen=f"{len(names)} imported")


def _read_data() -> Check:
    try:
        return Check(name="data", verdict="ok", seen=f"default image {default_choice().ref}")
    except (OSError, OdekError) as error:
        return Check(name="data", verdict="fail", seen=visible(str(error)), fix="get odek again: this copy is damaged")


def _hash() -> Check:
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    right = hashlib.sha256(b"abc").hexdigest() == known
    return _judge("hashes", right, "SHA-256 of a known text is right", "SHA-256 of a known text is wrong")


def _encode() -> Check:
    """Every host name goes through the idna codec, which needs unicodedata."""
    right = (
        _WORDS.encode().decode() == _WORDS
        and unicodedata.normalize("NFC", "u\u0308") == "ü"
        and "bücher.example".encode("idna") == b"xn--bcher-kva.example"
    )
    encodings = f"files {sys.getfilesystemencoding()}, locale {locale.getpreferredencoding(False)}"
    return _judge("text", right, f"UTF-8, Unicode and host names; {encodings}", "text is not encoded as it should")


def _trust(env: Mapping[str, str]) -> Check:
    from odek.model.transport import read_tls_context

    try:
        stats = read_tls_context(env).cert_store_stats()
    except OdekError as error:
        return Check(name="tls", verdict="fail", seen=error.message, fix=error.hint)
    if not stats["x509_ca"]:
        return Check(
            name="tls",
            verdict="warn",
            seen="no certificate authority is loaded",
            fix="for https endpoints, install CA certificates or name them in SSL_CERT_FILE",
        )
    return Check(name="tls", verdict="ok", seen=f"{stats['x509_ca']} certificate authorities")


def _spawn(env: Mapping[str, str]) -> Iterator[Check]:
    """A child must start, and find the environment that the user gave to odek (R-94)."""
    try:
        # nothing but what is built into a shell: PATH may begin with the working directory
        done = run(
            ("/bin/sh", "-c", 'read -r line; printf %s "$line"'),
            env=env,
            stdin=_WORDS.encode() + b"\n",
            timeout_s=_TIMEOUT_S,
        )
    except OdekError as error:
        yield Check(name="children", verdict="fail", seen=error.message)
        return
    echoed = done.stdout.data == _WORDS.encode()
    yield _judge("children", echoed, "a child gave back what it was given", "a child lost what it was given")
    strange = sorted(name for name in env if name.startswith(_BOOTLOADER_VARIABLES))
    folder = getattr(sys, "_MEIPASS", "")
    if folder:
        strange += [name for name, value in env.items() if folder in value]
    changed = ", ".join(map(visible, strange))
    yield _judge("environment", not strange, "children get your own", f"children would get odek's: {changed}")


def _judge(name: str, right: bool, good: str, bad: str) -> Check:
    return Check(name=name, verdict="ok" if right else "fail", seen=good if right else bad)
