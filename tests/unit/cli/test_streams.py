"""The end of the process: what is done then, and what is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BEGIN = """
import atexit, os, signal, sys, threading, time
from odek.cli.streams import leave
class Taken:
    def __del__(self, write=os.write):
        write(2, b"taken apart\\n")
kept = Taken()
atexit.register(lambda: print("registered"))
sys.stdout.write("buffered\\n")
"""


def end(code: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + code]
    env = {"PATH": os.defpath}  # with PYTHONUNBUFFERED, stdout would keep nothing
    return subprocess.run(command, cwd=ROOT, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=30)


def test_the_end_does_what_is_to_be_done_and_takes_nothing_apart() -> None:
    """R-411: the usual end is the counterpart, which shows that the test can see it."""
    left, usual = end("leave(7)"), end("sys.exit(7)")
    assert (left.returncode, left.stdout, left.stderr) == (7, "buffered\nregistered\n", "")
    assert (usual.returncode, usual.stdout, usual.stderr) == (7, "buffered\nregistered\n", "taken apart\n")


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_is_waited_for_unless_it_is_a_daemon(daemon: bool) -> None:
    """R-411: what it prints is there, and the end is the usual one."""
    work = f"threading.Thread(target=lambda: (time.sleep(0.2), print('worked')), daemon={daemon}).start()\nleave(0)"
    left = end(work)
    assert (left.returncode, "worked" in left.stdout, "taken apart" in left.stderr) == (0, not daemon, not daemon)


def test_output_that_cannot_be_written_is_said_as_python_says_it() -> None:
    """R-411: not lost silently."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        left = end("leave(0)", stdout=full)
    finally:
        os.close(full)
    assert left.returncode == 120
    assert "No space left on device" in left.stderr


@pytest.mark.parametrize("handler", ["ours", "signal.SIG_IGN"])
def test_a_signal_at_the_end_raises_nothing(handler: str) -> None:
    """R-411: nothing would catch it; what is ignored (nohup) stays ignored."""
    left = end(
        "def ours(*_): raise KeyError\n"
        f"signal.signal(signal.SIGHUP, {handler})\n"
        "import os\natexit.register(lambda: os.kill(os.getpid(), signal.SIGHUP))\n"
        "leave(0)"
    )
    assert left.returncode == (0 if handler == "signal.SIG_IGN" else -signal.SIGHUP)
    assert left.stderr == ""


@pytest.mark.parametrize("file", ["odek/__main__.py", "build/boot/odekboot.py", "build/entry.py"])
def test_every_way_in_ends_like_this(file: str) -> None:
    """R-411: the checkout, the one file and the binary."""
    text = (ROOT / file).read_text()
    assert "from odek.cli.main import start" in text
    assert "(sys.argv[1:])" in text.partition("import start")[2]
