"""What a turn changed, shown and taken back: `odek diff`, `odek undo`, `/diff` and `/undo`, with real containers."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.fuzz_undo import model_of
from support.odek_process import Odek

CHANGES = (
    "printf 'one\\nTWO\\nthree\\n' >notes.txt && rm -r old && mkdir -p new/empty && echo made >'new/a b.txt' && "
    "chmod 755 run.sh && ln -sf elsewhere link && printf 'x' >built.o && printf '\\0\\1' >data.bin"
)


def settle(odek: Odek, **settings: object) -> None:
    """Write the operator's file."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "config.json").chmod(0o600)


def fill(project: Path) -> None:
    """Put into the project what CHANGES changes."""
    (project / "notes.txt").write_text("one\ntwo\nthree\n")
    (project / "old").mkdir()
    (project / "old" / "kept.txt").write_text("kept\n")
    (project / "run.sh").write_text("true\n")
    (project / "run.sh").chmod(0o644)
    (project / "link").symlink_to("target")
    (project / ".gitignore").write_text("*.o\n")


def kept(odek: Odek) -> list[Path]:
    """Return the files in which anything is kept of any project."""
    return [path for path in (odek.home / ".odek" / "snapshots").rglob("*") if path.is_file()]


def test_what_a_command_in_the_container_changed_is_shown_and_brought_back(
    odek: Odek, docker_engine: Engine, base_image: str
) -> None:
    """R-271, R-276, R-278: by a command in the sandbox and by a file tool; an undo can be undone."""
    settle(odek, sandbox_image=base_image)
    fill(odek.cwd)
    before = model_of(odek.cwd)
    written = {"path": "tool.txt", "content": "by a tool\n"}
    with ModelServer(calls(("shell", {"command": CHANGES}), ("write_file", written)), text("done")) as server:
        run = odek.run("run", "--json", "--base-url", server.base_url, "-m", "m", "change things")
    assert run.code == 0, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    changed = next(event for event in events if event["event"] == "files_changed")
    by_path = {file["path"]: (file["change"], file["added"], file["removed"]) for file in changed["files"]}
    assert by_path == {
        "data.bin": ("added", None, None),
        "link": ("modified", 1, 1),
        "new": ("added", 0, 0),
        "new/a b.txt": ("added", 1, 0),
        "new/empty": ("added", 0, 0),
        "notes.txt": ("modified", 1, 1),
        "old": ("deleted", 0, 0),
        "old/kept.txt": ("deleted", 0, 1),
        "run.sh": ("mode", 0, 0),
        "tool.txt": ("added", 1, 0),
    }
    assert (changed["number"], changed["added"], changed["removed"], changed["shared"]) == (1, 4, 3, False)
    after = model_of(odek.cwd)
    modes = {path.stat().st_mode & 0o777 for path in kept(odek)}
    assert modes == {0o600}

    shown = odek.run("diff")
    assert shown.code == 0, shown.stderr
    assert "-two\n+TWO\n" in shown.stdout
    assert "Binary files /dev/null and b/data.bin differ\n" in shown.stdout
    assert "what git ignores is not looked at" in shown.stderr

    undone = odek.run("undo", "--yes")
    assert (undone.code, undone.stdout) == (0, "")
    assert undone.stderr == "odek: turn 1 is undone, 7 files; odek undo 2 makes the changes again\n"
    assert model_of(odek.cwd) == before
    assert (odek.cwd / "built.o").read_text() == "x"  # which git ignores

    assert odek.run("undo", "2", "--yes").code == 0
    assert model_of(odek.cwd) == after
    assert odek.run("undo", "--yes").code == 0
    assert model_of(odek.cwd) == before
