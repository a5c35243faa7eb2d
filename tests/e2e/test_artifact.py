"""The file that is shipped, whichever it is: what it says of itself, what its children get, what it leaves (B53).

Run on the source, on the zip and on the binary: ODEK_BIN says which. A binary has tests of its own in
test_binary.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from support.odek_process import ROOT, Odek, program_kind
from support.recordings import allow_everything, write_recording

import odek as package


def test_version_as_json_says_what_it_is(odek: Odek) -> None:
    """The file's own hash, so that a report can be matched with a release."""
    outcome = odek.run("version", "--json")
    assert (outcome.code, outcome.stderr) == (0, "")
    facts = json.loads(outcome.stdout)
    kind = program_kind()
    file = Path(odek.argv[0])
    assert (facts["version"], facts["kind"]) == (package.__version__, kind)
    assert facts["path"] == (str(ROOT / "odek") if kind == "source" else str(file))
    assert facts["sha256"] == ("" if kind == "source" else hashlib.sha256(file.read_bytes()).hexdigest())
    assert sorted(facts) == ["kind", "libc", "machine", "path", "platform", "python", "sha256", "version"]


LARGEST = {"zip": 2_500_000, "binary": 20_000_000, "portable": 20_000_000}


def test_file_is_no_larger_than_it_may_be(odek: Odek) -> None:
    """What build/zipapp.py and build/binary.py say; for the zip, there is what could go."""
    if program_kind() == "source":
        pytest.skip("the source is no file")
    assert Path(odek.argv[0]).stat().st_size <= LARGEST[program_kind()]


def test_selftest_finds_nothing_wrong(odek: Odek) -> None:
    """It imports every module: what an artifact lacks shows here."""
    outcome = odek.run("selftest")
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.stdout
    verdicts = [line.split()[:2] for line in outcome.stdout.splitlines()]
    names = ["odek", "modules", "data", "hashes", "text", "tls", "children", "environment"]
    assert [name for verdict, name in verdicts if verdict in ("ok", "warn")] == names
    present = [path for path in (ROOT / "odek").rglob("*.py") if path != ROOT / "odek" / "__init__.py"]
    assert f"{len(present)} imported" in outcome.stdout or os.environ.get("ODEK_BIN")  # a built one may be older


@pytest.mark.parametrize("mine", [{}, {"LD_LIBRARY_PATH": "/mine/lib"}, {"VIRTUAL_ENV": "/mine/venv"}])
def test_children_get_the_environment_of_the_user(mine: dict[str, str], odek: Odek, tmp_path: Path) -> None:
    """R-94, B53 (a): with and without variables that a bootloader sets or removes for itself."""
    allow_everything(odek)
    recording = write_recording(tmp_path / "recording.jsonl", "env >seen")
    outcome = odek.run("run", "--no-sandbox", "--base-url", recording, "x", env=mine)
    assert outcome.code == 0, outcome.stderr
    seen = dict(line.split("=", 1) for line in (odek.cwd / "seen").read_text().splitlines() if "=" in line)
    watched = {name for name in seen if name.startswith(("LD_", "_PYI", "_MEI", "PYTHON", "PYINSTALLER", "VIRTUAL_"))}
    assert {name: seen[name] for name in watched} == mine


def test_an_upgrade_does_not_disturb_a_run(odek: Odek, tmp_path: Path) -> None:
    """The command of the model replaces the very file that runs; all that comes after it still works."""
    if program_kind() == "source":
        pytest.skip("the source is no file")
    file = Path(shutil.copy(odek.argv[0], tmp_path / "odek"))
    (tmp_path / "other").write_text("#!/bin/sh\necho another program\n")
    odek.argv = (str(file),)
    allow_everything(odek)
    recording = write_recording(tmp_path / "recording.jsonl", f"mv {tmp_path}/other {file} && sleep 0.3")
    outcome = odek.run("run", "--no-sandbox", "--base-url", recording, "--json", "x")
    assert outcome.code == 0, outcome.stderr
    assert "done" in outcome.stdout
    assert file.read_text() == "#!/bin/sh\necho another program\n"
    assert "rror" not in outcome.stderr


def test_nothing_is_left_in_the_temporary_folder(odek: Odek, tmp_path: Path) -> None:
    """B53: neither after a good end nor after a bad one."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    codes = [odek.run(*words, env={"TMPDIR": str(scratch)}).code for words in (("version",), ("no-such-command",))]
    assert (codes, list(scratch.iterdir())) == ([0, 2], [])
