"""Editors, pagers and questions that look for a terminal (B06): commands have none, whatever odek has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.pty_process import AtTerminal
from support.scenario import tool_results

TIMEOUT_S = 30  # of a command: far more than one needs that asks nobody
HAVE_ONE = "exec 3</dev/tty && echo THERE IS A TERMINAL"
IN_THE_SANDBOX = ("vi f </dev/tty", "less /etc/passwd </dev/tty", "read a </dev/tty", HAVE_ONE, "test -t 0")
ON_THE_HOST = ("vi f </dev/tty", "read a </dev/tty", "git commit --allow-empty", "git rebase -i HEAD~1", HAVE_ONE)


def run_at_a_terminal(odek: Odek, commands: tuple[str, ...], *flags: str) -> list[str]:
    """Run commands of the model with a terminal at hand; return their results, the terminal being as it was."""
    asked = calls(*(("shell", {"command": command, "timeout": TIMEOUT_S}) for command in commands))
    with ModelServer(asked, text("done")) as server:
        arguments = ("run", "--base-url", server.base_url, *flags, "x")
        with AtTerminal(odek, *arguments, env={"TERM": "xterm"}) as terminal:
            before = terminal.modes
            terminal.type("typed ahead\n")
            outcome = terminal.end()
            assert (outcome.code, terminal.modes) == (0, before), outcome.stderr
            assert "\x1b" not in terminal.rest().replace("typed ahead", "")
        return tool_results(server)


def codes(results: list[str]) -> list[int]:
    return [int(match.group(1)) for result in results for match in re.finditer(r"^exit code: (\d+)", result, re.M)]


def allow_everything(odek: Odek, **settings: object) -> None:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    allowed = {"action": "allow", "sandboxed": {"action": "allow"}}
    (folder / "config.json").write_text(json.dumps({"dangerous": allowed, **settings}))
    (folder / "config.json").chmod(0o600)


def test_commands_in_the_sandbox_have_no_terminal(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """B06: each ends by itself, without success where it needed an answer."""
    allow_everything(odek, sandbox_image=base_image)
    results = run_at_a_terminal(odek, IN_THE_SANDBOX)
    assert [result for result in results if "timed out" in result or "\nTHERE IS" in result] == []
    found = codes(results)
    assert (len(found), [code for code in found if code == 0]) == (len(IN_THE_SANDBOX), []), results


def commit(folder: Path, content: str) -> str:
    """Commit a file and return the commit."""
    (folder / "f").write_text(content)
    subprocess.run(["git", "add", "f"], cwd=folder, check=True)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", content], cwd=folder, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, check=True).stdout.decode()


@pytest.mark.skipif(not all(map(shutil.which, ("git", "vi"))), reason="no git or no vi here")
def test_commands_on_the_host_have_no_terminal(odek: Odek) -> None:
    """B06: nor there, where odek's own terminal could be reached; git rewrites no history without an editor."""
    allow_everything(odek)
    subprocess.run(["git", "init", "--quiet", str(odek.cwd)], check=True)
    commit(odek.cwd, "one")
    head = commit(odek.cwd, "two")
    results = run_at_a_terminal(odek, ON_THE_HOST, "--no-sandbox")
    assert [result for result in results if "timed out" in result or "\nTHERE IS" in result] == []
    assert [code for code in codes(results) if code == 0] == [], results
    now = subprocess.run(["git", "rev-parse", "HEAD"], cwd=odek.cwd, capture_output=True, check=True).stdout.decode()
    assert now == head
