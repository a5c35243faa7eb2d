"""Closed, full and abandoned streams; locales and terminals that can do less (B05, B47)."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek
from support.scenario import Scene

ANSWER = "the answer ü 🙂"
NO_SPACE = "odek: error: the output cannot be written to stdout: No space left on device\n"
CLOSED = (
    "odek: error: stdout is closed, so there is nowhere to print to\nodek: hint: >/dev/null throws the output away\n"
)


def redirected(odek: Odek, redirections: str, *arguments: str) -> tuple[int, str, str]:
    """Run odek from a shell that has redirected its streams; code, stdout, stderr."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *odek.argv, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, cwd=odek.cwd, env=odek.env(), timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def run_redirected(odek: Odek, redirections: str) -> tuple[int, str, str, int]:
    """Run a task with redirected streams; code, stdout, stderr, requests to the model."""
    with ModelServer(text(ANSWER)) as server:
        arguments = ("run", "--no-sandbox", "--base-url", server.base_url, "--interaction-mode", "off", "x")
        return (*redirected(odek, redirections, *arguments), len(server.requests))


@pytest.mark.parametrize(
    ("redirections", "expected"),
    [
        ("<&-", (0, f"{ANSWER}\n", 1)),
        ("2>&-", (0, f"{ANSWER}\n", 1)),
        ("<&- 2>&-", (0, f"{ANSWER}\n", 1)),
        ("2>/dev/full", (0, f"{ANSWER}\n", 1)),
        (">&-", (1, "", 0)),
        ("<&- >&- 2>&-", (1, "", 0)),
        (">/dev/full", (1, "", 1)),
        (">/dev/full 2>/dev/full", (1, "", 1)),
        (">/dev/null", (0, "", 1)),
    ],
)
def test_run_with_streams_that_are_closed_or_full(
    redirections: str, expected: tuple[int, str, int], odek: Odek
) -> None:
    """R-81: an answer that could not be printed is an error; messages that could not be printed are none."""
    code, stdout, _, requests = run_redirected(odek, redirections)
    assert (code, stdout, requests) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("version",),
        ("version", "--json"),
        ("--help",),
        ("run", "--help"),
        ("config", "view", "--all"),
        ("config", "schema"),
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_printed_is_an_error(arguments: tuple[str, ...], odek: Odek) -> None:
    """R-81: on every command, and in a sentence."""
    full, closed = redirected(odek, ">/dev/full", *arguments), redirected(odek, ">&-", *arguments)
    assert (full[0], full[2].splitlines(keepends=True)[0]) == (1, NO_SPACE)
    assert closed == (1, "", CLOSED)


@pytest.mark.parametrize("arguments", [("version",), ("run", "--help"), ("config", "schema")], ids=" ".join)
def test_output_that_nobody_reads_ends_quietly(arguments: tuple[str, ...], odek: Odek) -> None:
    """R-81: 141, as a program that SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*odek.argv, *arguments], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
            cwd=odek.cwd, env=odek.env(), timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_answer_that_nobody_reads(odek: Odek) -> None:
    """R-81: the same for a run, with --json as without."""
    for flags in ((), ("--json",)):
        reader, writer = os.pipe()
        os.close(reader)
        with ModelServer(text(ANSWER)) as server:
            arguments = ("run", "--no-sandbox", "--base-url", server.base_url, *flags, "x")
            try:
                done = subprocess.run(
                    [*odek.argv, *arguments], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                    cwd=odek.cwd, env=odek.env(), timeout=60,
                )  # fmt: skip
            finally:
                os.close(writer)
        assert (done.returncode, b"rror" in done.stderr) == (141, False), done.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C"},
        {"LC_ALL": "POSIX"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONUTF8": "0", "LC_ALL": "C"},
        {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1", "PYTHONSTARTUP": "/nowhere", "PYTHONHOME": "/nowhere"},
    ],
    ids=str,
)
def test_locale_does_not_change_what_is_printed(env: dict[str, str], scene: Scene, tmp_path: Path) -> None:
    """B47: with and without a locale the same bytes, on stderr too; nothing raises."""
    scene.operator()
    with ModelServer(calls(("shell", {"command": "echo 'ü 🙂'; printf '\\377'"})), text(ANSWER)) as server:
        outcome = scene.odek.run("run", "--no-sandbox", "--base-url", server.base_url, "häll\udcff", env=env)
    assert (outcome.code, outcome.stdout) == (0, f"{ANSWER}\n"), outcome.stderr
    assert "  │ ü 🙂\n" in outcome.stderr
    assert server.requests[0].json["messages"][-1]["content"].startswith("häll")


def colours_on_a_terminal(odek: Odek, *flags: str, env: dict[str, str]) -> bool:
    """Return whether a run prints escape sequences when its stderr is a terminal."""
    mine, theirs = pty.openpty()
    with ModelServer(text(ANSWER)) as server:
        arguments = ("run", "--no-sandbox", "--base-url", server.base_url, *flags, "x")
        done = subprocess.run(
            [*odek.argv, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
            cwd=odek.cwd, env=odek.env() | env, timeout=60,
        )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(mine, 4096):
            seen += chunk
    except OSError:
        pass  # the end of a terminal whose other side is closed
    os.close(mine)
    assert (done.returncode, done.stdout.decode()) == (0, f"{ANSWER}\n"), seen
    return b"\x1b" in seen


@pytest.mark.once
@pytest.mark.parametrize(
    ("flags", "env", "coloured"),
    [
        ((), {"TERM": "xterm"}, True),
        ((), {}, False),
        ((), {"TERM": "dumb"}, False),
        ((), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ((), {"TERM": "xterm", "NO_COLOR": ""}, True),
        ((), {"TERM": "xterm", "ODEK_NO_COLOR": "true"}, False),
        (("--no-color",), {"TERM": "xterm"}, False),
    ],
    ids=str,
)
def test_colours(flags: tuple[str, ...], env: dict[str, str], coloured: bool, odek: Odek) -> None:
    """F-23: stderr decides, and NO_COLOR, TERM and the flag are obeyed; stdout is never coloured."""
    assert colours_on_a_terminal(odek, *flags, env=env) == coloured


def test_no_colours_in_a_file(odek: Odek) -> None:
    with ModelServer(text(ANSWER)) as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, "x", env={"TERM": "xterm"})
    assert "\x1b" not in outcome.stderr
