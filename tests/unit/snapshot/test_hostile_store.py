"""What is kept of turns, written by others: it is damaged, and leads nowhere."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.snapshots import project_in, turn, undo

from odek.errors import OdekError
from odek.snapshot.diff import Effort, diff_of
from odek.snapshot.project import ProjectFiles


@pytest.fixture
def kept(tmp_path: Path) -> tuple[ProjectFiles, Path, Path]:
    """A project with two turns, its folder, and that of its store."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "d").mkdir()
    for text in ("one", "two", "three"):
        with turn(project):
            (top / "a").write_text(text)
            (top / "d" / "b").write_text(text)
    (tmp_path / "outside").write_text("three")
    (store,) = (tmp_path / "home" / "snapshots").iterdir()
    return project, top, store


def use_all(project: ProjectFiles, top: Path) -> None:
    """List, show, undo and keep; only what odek says of errors may come of it."""
    with suppress(OdekError), project.reading() as reading:
        for record in reading.records():
            for change in record.changes:
                diff_of(change, reading.read, Effort())
    with suppress(OdekError):
        undo(project)
    with suppress(OdekError), turn(project):
        (top / "c").write_text("new")


def rewritten(store: Path, change: Callable[[dict[str, Any]], None]) -> None:
    for path in store.glob("turn-*.json"):
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname", "d/../../outside", "", "d//b", "./a", "a\0b", ".."])
def test_a_path_that_leaves_the_project_is_damage(path: str, kept: tuple[ProjectFiles, Path, Path]) -> None:
    """R-368: an undo would take away, or make, a file anywhere."""
    project, top, store = kept

    def change(value: dict[str, Any]) -> None:
        value["changes"] = [[path, before, after] for _, before, after in value["changes"]]

    rewritten(store, change)
    with project.reading() as reading:
        assert list(reading.records()) == []
        assert len(reading.damaged) == 3
    use_all(project, top)
    assert (top.parent / "outside").read_text() == "three"


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_what_is_not_a_file_of_the_store_is_not_waited_for(kind: str, kept: tuple[ProjectFiles, Path, Path]) -> None:
    """R-368: each of its files in turn, and the name under which the next one is written."""
    project, top, store = kept
    for name in [
        *(path.name for path in store.iterdir() if path.suffix != ".lock"),
        "index.new",
        "turn-000004.json.new",
    ]:
        place, aside = store / name, store.parent.parent / "aside"
        if place.exists():
            place.rename(aside)
        if kind == "fifo":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        else:
            place.symlink_to(top.parent / "outside")
        use_all(project, top)
        assert (top.parent / "outside").read_text() == "three"
        if place.is_symlink() or not place.is_dir():
            place.unlink(missing_ok=True)
        else:
            place.rmdir()
        if aside.exists():
            aside.rename(place)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{}", "null", '{"changes": 1}', '{"number": "x", "changes": []}', "\xff"]
)
def test_a_record_that_is_not_one_is_damage(text: str, kept: tuple[ProjectFiles, Path, Path]) -> None:
    """R-368."""
    project, top, store = kept
    for path in store.glob("turn-*.json"):
        path.write_text(text, encoding="latin-1")
    (store / "turn-².json").write_text("{}")
    (store / "zz.pack").write_text("")
    with project.reading() as reading:
        assert len(reading.damaged) == 3
    use_all(project, top)


@pytest.mark.once
def test_stores_of_chance(kept: tuple[ProjectFiles, Path, Path]) -> None:
    """R-368: other values, bytes and ends in every file, checksums put right."""
    project, top, store = kept
    chance = random.Random(368)
    whole = {path.name: path.read_bytes() for path in store.iterdir()}
    values: tuple[Any, ...] = (None, -1, 1 << 70, 0.5, "x", "\ud800", [], {}, True, [[None]], "../outside", "00" * 32)

    def mutated(value: Any) -> Any:
        if chance.random() < 0.1:
            return chance.choice(values)
        if isinstance(value, dict):
            return {key: mutated(each) for key, each in value.items()}
        return [mutated(each) for each in value] if isinstance(value, list) else value

    for _ in range(40):
        for name, data in whole.items():
            if name.endswith(".json"):
                data = json.dumps(mutated(json.loads(data))).encode()
            elif name == "index":
                head, _, body = data.partition(b"\n")
                magic, *sizes, _ = head.split()
                names = json.dumps(mutated(json.loads(body[: int(sizes[0])]))).encode()
                rest = bytearray(body[int(sizes[0]) :])
                rest[chance.randrange(len(rest))] = chance.randrange(256)
                body, sizes = names + rest, [str(len(names)).encode(), *sizes[1:]]
                data = b" ".join((magic, *sizes, str(zlib.crc32(body)).encode())) + b"\n" + body
            elif name.endswith(".list") and data:
                rows = bytearray(data[4:])
                rows[chance.randrange(len(rows))] = chance.randrange(256)
                data = zlib.crc32(rows).to_bytes(4, "big") + rows
            (store / name).write_bytes(data)
        use_all(project, top)
        assert (top.parent / "outside").read_text() == "three"
