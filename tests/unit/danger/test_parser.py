"""The parser, against the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.parser import parse_script

DATA = Path(__file__).parents[2] / "data"
SEPARATOR = "\n%%\n"
SHELLS = tuple(shell for shell in ("bash", "sh") if shutil.which(shell))


def scripts(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").removesuffix("\n").split(SEPARATOR)


def parses(text: str) -> bool:
    for posix in (False, True):
        try:
            parse_script(text, Budget(), posix=posix)
        except ParseError:
            continue
        return True
    return False


def accepted(text: str) -> bool:
    """Return whether one of the shells finds the syntax right."""
    return any(subprocess.run([shell, "-n", "-c", text], capture_output=True).returncode == 0 for shell in SHELLS)


@pytest.mark.skipif("bash" not in SHELLS, reason="no bash here to judge")
@pytest.mark.parametrize("text", scripts("shell-valid.txt") + scripts("shell-invalid.txt"))
def test_parser_accepts_what_a_shell_accepts(text: str) -> None:
    """R-84: `sh -n` and `bash -n` are the judges."""
    assert parses(text) == accepted(text)


@pytest.mark.parametrize("text", scripts("shell-valid.txt"))
def test_valid_script_parses(text: str) -> None:
    assert parses(text)


@pytest.mark.parametrize("text", scripts("shell-invalid.txt"))
def test_invalid_script_does_not_parse(text: str) -> None:
    assert not parses(text)
