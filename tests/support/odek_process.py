"""The program under test, run as a process: the built file that ODEK_BIN names, or the source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PYINSTALLER = b"MEI\x0c\x0b\x0a\x0b\x0e"
"""near the end of what PyInstaller made"""

# What a process needs from the real environment: where programs are, the engine, and the loader of an emulated program.
# Everything else, the ODEK_ variables of the tester above all, stays out.
PASSED_ON = (
    "PATH",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "TMPDIR",
    "QEMU_LD_PREFIX",
)

FROM_SOURCE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from odek.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def program_argv() -> tuple[str, ...]:
    """Return the command that starts odek; ODEK_BIN may be relative to the root of the project."""
    built = os.environ.get("ODEK_BIN")
    if built:
        return (str((ROOT / built).resolve()),)
    return (sys.executable, "-X", "utf8", "-I", "-S", "-c", FROM_SOURCE, str(ROOT))


def program_kind() -> str:
    """Return "source", "zip", "binary" (PyInstaller's) or "portable", as `odek version --json` does."""
    built = os.environ.get("ODEK_BIN")
    if not built:
        return "source"
    with open(ROOT / built, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return "zip"
        file.seek(-4096, os.SEEK_END)
        return "binary" if _PYINSTALLER in file.read() else "portable"


def pid_of_odek(started: int) -> int:
    """Return the process of odek itself, given the one that was started: a binary's is the child of its bootloader."""
    if program_kind() != "binary":
        return started
    children = Path(f"/proc/{started}/task/{started}/children").read_text().split()
    return int(children[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of odek ended."""

    code: int
    """exit status; negative: the signal that ended it"""
    stdout: str
    stderr: str


@dataclass(slots=True, kw_only=True)
class Odek:
    """Runs odek with a HOME and a working directory of its own."""

    home: Path
    cwd: Path
    argv: tuple[str, ...] = field(default_factory=program_argv)
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout_s: float = 120,
    ) -> Outcome:
        """Run odek to its end; `env` is added to the scratch environment."""
        process = self.start(*arguments, env=env, cwd=cwd, stdin=subprocess.PIPE)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            raise AssertionError(f"odek did not end within {timeout_s} s\n{stdout}\n{stderr}") from None
        return Outcome(code=process.returncode, stdout=stdout, stderr=stderr)

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[str]:
        """Start odek in a session of its own, its output on pipes; ended with the test at the latest.

        With a pipe for `stdin` that stays open, odek waits some seconds for what may come.
        """
        process = subprocess.Popen(
            [*self.argv, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            env=self.env() | dict(env or {}),
            cwd=cwd or self.cwd,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def env(self) -> dict[str, str]:
        """Return the environment of every run."""
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {**passed_on, "HOME": str(self.home), "LANG": "C.UTF-8"}

    def close(self) -> None:
        """End what is still running."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)  # it may have a container to remove
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()
