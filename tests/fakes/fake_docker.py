#!/usr/bin/env python3
"""A `docker` program played from a file, put first on PATH for tests of the whole program.

    program = FakeDockerProgram(folder, [
        {"argv": ["version"], "stdout": "20.10.24\n"},
        {"argv": ["image", "inspect"], "code": 1, "stderr": "No such image"},
        {"argv": ["run"], "stdout": "odek-ready\n", "hold": true},
    ])
    odek.run(…, env={"PATH": program.path})
    program.calls()  # one dictionary a call: argv, env, stdin, pid

A rule answers a call that begins with its `argv`; the first one counts that has not been used up.
Its other keys, all optional: `has` (a text that one argument must hold), `stdout`, `stderr`, `code`,
`delay_s` (before anything else), `hang` (never ends), `hold` (ends with its stdin), `unread` (ends
without reading it), `times` (how often it may be used), `real` (path of a docker program that carries
out the call; what the rule prints comes before; `delay_s` after it is `delay_after_s`). A call without
a rule ends with 99.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UNSCRIPTED = 99


class FakeDockerProgram:
    """The program in a folder of its own, with its script and its log."""

    def __init__(self, folder: Path, rules: Sequence[dict[str, Any]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.program = folder / "docker"
        source = Path(__file__).read_text(encoding="utf-8").partition("\n")[2]
        self.program.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        self.program.chmod(0o755)
        (folder / "rules.json").write_text(json.dumps(list(rules)), encoding="utf-8")

    @property
    def path(self) -> str:
        """PATH with the program first"""
        return f"{self.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls so far, in the order in which they began."""
        begun: dict[int, dict[str, Any]] = {}
        for line in self._log():
            begun.setdefault(line["call"], {}).update(line)
        return [begun[number] for number in sorted(begun)]

    def assert_scripted(self) -> None:
        unscripted = [call["argv"] for call in self.calls() if call["rule"] is None]
        assert unscripted == []

    def _log(self) -> list[dict[str, Any]]:
        log = self.folder / "log.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def play(folder: str, argv: list[str]) -> int:
    """Be the docker client for one call."""
    with open(os.path.join(folder, "rules.json"), encoding="utf-8") as file:
        rules = json.load(file)
    number, rule = _begin(folder, rules, argv)
    if rule is None:
        sys.stderr.write(f"not in the script: docker {argv!r}\n")
        return UNSCRIPTED
    time.sleep(rule.get("delay_s", 0))
    _say(rule)
    if "real" in rule:
        return _carry_out(rule, argv)
    if rule.get("hold"):
        data = sys.stdin.buffer.read()
    elif rule.get("hang"):
        time.sleep(3600)
        data = b""
    elif rule.get("unread"):
        data = b""
    else:
        data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    _append(folder, {"call": number, "stdin": data.decode("utf-8", "backslashreplace")})
    return int(rule.get("code", 0))


def _begin(folder: str, rules: list[dict[str, Any]], argv: list[str]) -> tuple[int, dict[str, Any] | None]:
    """Choose the rule and log the call, one call at a time."""
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        used, number = _read_uses(folder)
        chosen = None
        for index, rule in enumerate(rules):
            left = used.count(index) < rule.get("times", 1 << 30)
            begins = argv[: len(rule["argv"])] == rule["argv"]
            if left and begins and any(rule.get("has", "") in argument for argument in argv):
                chosen = index
                break
        entry = {"call": number, "rule": chosen, "argv": argv, "env": dict(os.environ), "pid": os.getpid(), "stdin": ""}
        _append(folder, entry)
    return number, None if chosen is None else rules[chosen]


def _read_uses(folder: str) -> tuple[list[int], int]:
    try:
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
            begun = [entry for entry in map(json.loads, file) if "argv" in entry]
    except FileNotFoundError:
        begun = []
    return [entry["rule"] for entry in begun], len(begun)


def _append(folder: str, entry: dict[str, Any]) -> None:
    data = json.dumps(entry).encode() + b"\n"
    descriptor = os.open(os.path.join(folder, "log.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _say(rule: dict[str, Any]) -> None:
    for stream, key in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        stream.write(rule.get(key, ""))
        stream.flush()


def _carry_out(rule: dict[str, Any], argv: list[str]) -> int:
    if "delay_after_s" not in rule:
        os.execv(rule["real"], [rule["real"], *argv])
    child = os.spawnv(os.P_WAIT, rule["real"], [rule["real"], *argv])
    time.sleep(rule["delay_after_s"])
    return child


if __name__ == "__main__":
    sys.exit(play(os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]))
