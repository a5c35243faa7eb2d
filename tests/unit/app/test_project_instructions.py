"""AGENTS.md, whatever stands in its place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from fakes.notices import Notes
from support.privileges import may_become_others

from odek.app.attachments import read_ctx_files
from odek.app.instructions import read_instructions
from odek.app.tools import real_path
from odek.errors import UsageError
from odek.host import home_of_owner

LINKS = ("/proc/1/root/x", "/dev/zero", "/dev/tty", "loop", "x" * 300, "nowhere", "fifo", "/")


@pytest.mark.parametrize("target", LINKS)
def test_a_link_is_a_warning_and_never_an_error(target: str) -> None:
    """E2: AGENTS.md that leads to /proc/1/root ended the run with an internal error; so did its use by name."""
    user = os.geteuid()
    os.seteuid(65534 if may_become_others() else user)  # root may look anywhere
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            os.mkfifo(folder / "fifo")
            (folder / "loop").symlink_to("loop")
            (folder / "AGENTS.md").symlink_to(target)
            notes = Notes()
            assert read_instructions(str(folder), notes) is None
            assert [text.partition(":")[0] for text in notes.warnings] == ["AGENTS.md is not read"]
            assert real_path(str(folder), "AGENTS.md") in ("AGENTS.md", "fifo", "nowhere", "loop", "x" * 300)
            with pytest.raises(UsageError):
                read_ctx_files(("AGENTS.md",), cwd=str(folder), home="")
            assert isinstance(home_of_owner(str(folder / "AGENTS.md")), str)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("kind", ["fifo", "folder", "too large"])
def test_what_is_not_a_small_file_is_left_out(kind: str, tmp_path: Path) -> None:
    """E2: no FIFO is waited for, no large file is taken into memory."""
    path = tmp_path / "AGENTS.md"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 3 << 30)
    notes = Notes()
    assert read_instructions(str(tmp_path), notes) is None
    assert len(notes.warnings) == 1
