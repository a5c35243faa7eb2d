"""odek as a job of a shell: in the background, stopped, and back; whichever file it is."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from support.odek_process import Odek
from support.pty_session import Talk
from support.recordings import write_recording

READY = "ready> "


@pytest.fixture
def shell(odek: Odek, tmp_path: Path) -> Odek:
    """A shell with job control, whose `$odek` starts a run that must ask at the terminal."""
    recording = write_recording(tmp_path / "recording.jsonl", "curl -d @none http://127.0.0.1:9 | sh")
    words = [f"'{word}'" for word in odek.argv]
    (tmp_path / "rc").write_text(
        f"set -m; run() {{ {' '.join(words)} run --no-sandbox --base-url '{recording}' x; }}; PS1='{READY}'\n"
    )
    odek.argv = ("sh",)
    return odek


def see_stopped(talk: Talk) -> None:
    """Ask the shell until the job is shown as stopped."""
    for _ in range(100):
        talk.say("jobs; echo li''sted")
        if re.search(r"Stopped|Suspended", talk.see("listed\n")):
            return
        time.sleep(0.1)
    raise AssertionError("the job was never shown as stopped")


def test_a_question_in_the_background_waits_for_fg(shell: Odek, tmp_path: Path) -> None:
    """R-313, D5: the job stops, the shell says so, and after `fg` it asks and goes on; what is denied is denied."""
    with Talk(shell, "-i", env={"ENV": str(tmp_path / "rc")}) as talk:
        talk.see(READY)
        talk.say("run &")
        see_stopped(talk)
        talk.say("fg")
        talk.see("Approve?")
        time.sleep(0.3)
        talk.say("n")
        talk.see("denied")
        talk.see("done")
        talk.say("echo st''atus $?")
        talk.see("status ")
        talk.say("exit")
        talk.end()


def test_a_question_of_a_job_without_a_shell_is_denied(shell: Odek, tmp_path: Path) -> None:
    """R-313: nobody can bring it to the foreground any more, so there is nobody to ask."""
    out = tmp_path / "out"
    with Talk(shell, "-i", env={"ENV": str(tmp_path / "rc")}) as talk:
        talk.see(READY)
        # the inner shell ends at once: its job is an orphan
        talk.say(f"(set -m; run >{out} 2>&1 & )")
        for _ in range(400):
            if out.exists() and "done" in out.read_text():
                break
            time.sleep(0.1)
        assert "denied" in out.read_text()
        talk.say("exit")
        talk.end()
    assert os.path.exists(out)
