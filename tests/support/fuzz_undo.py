"""Random edits of a project, taken back and made again, against a plain model of what was there: `scripts/fuzz-undo`.

Each seed is a project, some turns with edits of every kind, and undos of them; of some, another program changes
something before. What is there afterwards has to be what was there before: bytes, modes, links, empty folders.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from odek.operator_home import OperatorHome
from odek.snapshot.project import Bounds, ProjectFiles
from odek.snapshot.scan import Limits
from odek.snapshot.store import Record

FILE_BYTES = 4000
BOUNDS = Bounds(limits=Limits(file_bytes=FILE_BYTES, total_bytes=1 << 20), max_turns=50, max_bytes=50 << 20)
NAMES = ("a", "b", "c", "d e", "caf\xe9", "-x", "x\ny", os.fsdecode(b"\xff\xfe"), ".hidden", "über", "skip.o")
TARGETS = ("a", "b/c", "..", "/etc/passwd", "nowhere", "../../outside", os.fsdecode(b"\xfd"))

Model = dict[str, tuple[int, bytes]]
"""path → mode, and content of a file or target of a link; folders have none"""


def model_of(top: Path) -> Model:
    """Return what is in a folder, without what git ignores there (`*.o`)."""
    found: Model = {}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if name == ".git" or (name.endswith(".o") and not stat.S_ISDIR(status.st_mode)):
                continue
            content = b""
            if stat.S_ISLNK(status.st_mode):
                content = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes()
            found[os.path.relpath(path, top)] = (status.st_mode, content)
    return found


class Editor:
    """Makes random edits below a folder; what cannot be done is left."""

    def __init__(self, top: Path, draw: random.Random) -> None:
        self._top = top
        self._draw = draw
        self._edits: tuple[Callable[[], None], ...] = (
            self._write, self._write, self._write, self._append, self._remove, self._remove, self._rename,
            self._make_folder, self._link, self._hard_link, self._mode, self._exchange, self._special, self._as_before,
        )  # fmt: skip

    def edit(self, count: int) -> None:
        for _ in range(count):
            with suppress(OSError):
                self._draw.choice(self._edits)()

    def _any(self) -> Path:
        found = [path for path in self._top.rglob("*") if path.name != ".gitignore"]
        return self._draw.choice(sorted(found)) if found else self._new()

    def _new(self) -> Path:
        folders = [self._top, *(path for path in self._top.rglob("*") if path.is_dir() and not path.is_symlink())]
        return self._draw.choice(sorted(folders)) / self._draw.choice(NAMES)

    def _content(self) -> bytes:
        lines = [b"line %d\n" % self._draw.randint(0, 9) for _ in range(self._draw.randint(0, 20))]
        kinds = (b"".join(lines), b"no end", b"\0\xff binary", b"", b"x" * (FILE_BYTES + 1))
        return self._draw.choices(kinds, (8, 2, 2, 1, 1))[0]

    def _write(self) -> None:
        path = self._draw.choice((self._new, self._any))()
        if not os.path.lexists(path) or (path.is_file() and not path.is_symlink()):  # to open a FIFO would wait
            path.write_bytes(self._content())

    def _append(self) -> None:
        path = self._any()
        if path.is_file() and not path.is_symlink():
            with path.open("ab") as file:
                file.write(self._content())

    def _as_before(self) -> None:
        """Write the same number of bytes, and set the time of change back."""
        path = self._any()
        if path.is_file() and not path.is_symlink() and (data := path.read_bytes()):
            status = path.stat()
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _remove(self) -> None:
        path = self._any()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _rename(self) -> None:
        self._any().rename(self._new())

    def _make_folder(self) -> None:
        self._new().mkdir(mode=self._draw.choice((0o755, 0o700, 0o750)))

    def _link(self) -> None:
        self._new().symlink_to(self._draw.choice(TARGETS))

    def _hard_link(self) -> None:
        path = self._any()
        if path.is_file() and not path.is_symlink():
            os.link(path, self._new())

    def _mode(self) -> None:
        path = self._any()
        if not path.is_symlink():
            path.chmod(self._draw.choice((0o755, 0o555, 0o700) if path.is_dir() else (0o644, 0o755, 0o600, 0o444)))

    def _exchange(self) -> None:
        """Let a path become something else."""
        path = self._any()
        self._remove_at(path)
        make = self._draw.choice((path.mkdir, lambda: path.write_bytes(b"now a file"), lambda: path.symlink_to("a")))
        make()

    def _remove_at(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _special(self) -> None:
        if self._draw.random() < 0.3:
            os.mkfifo(self._new())


def near(path: str, others: set[str]) -> bool:
    """Return whether `path` is one of `others`, lies in one, or holds one."""
    return any(path == other or path.startswith(other + "/") or other.startswith(path + "/") for other in others)


class Run:
    """One sequence: turns with edits, edits of others, undos."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.top = folder / "project"
        self.top.mkdir(parents=True)
        (self.top / ".gitignore").write_bytes(b"*.o\n!*.o/\n")
        self.editor = Editor(self.top, self.draw)
        home = OperatorHome(folder=str(folder / "home"), uid=os.getuid(), workspaces=())
        self.files = ProjectFiles(home, str(self.top), BOUNDS)
        self.before: dict[int, Model] = {}
        self.counts = {"turns": 0, "undos": 0, "left": 0}

    def run(self, turns: int) -> None:
        self.editor.edit(self.draw.randint(0, 30))
        records = [record for _ in range(turns) if (record := self.turn()) is not None]
        for record in reversed(records):
            if self.draw.random() < 0.3:
                self.editor.edit(1)  # of another program
                self.undo(record, self.before[record.number], exact=False)
                return
            again = self.undo(record, self.before[record.number], exact=True)
            if self.counts["left"]:
                return
            if again is not None and self.draw.random() < 0.5:
                self.undo(again, self.before[again.number], exact=True)
                self.undo(record, self.before[record.number], exact=True)

    def turn(self) -> Record | None:
        started = model_of(self.top)
        turn = self.files.begin(session="s", turn=1, task="edit")
        self.editor.edit(self.draw.randint(0, 8))
        done = self.files.finish(turn)
        self.counts["turns"] += 1
        if done is None:
            assert model_of(self.top) == started
            return None
        self.before[done[0].number] = started
        return done[0]

    def undo(self, record: Record, wanted: Model, *, exact: bool) -> Record | None:
        """Take `record` back, and compare: what was left is as it was, all else is as it is wanted."""
        present = model_of(self.top)
        with self.files.reading() as reading:
            plan = reading.plan(record)
            made, left = reading.undo(record, plan)
        self.counts["undos"] += 1
        found = model_of(self.top)
        kept = {path for path, _ in (*plan.left, *left)}
        self.counts["left"] += bool(kept)
        changed = {change.path for change in record.changes}
        for path in found.keys() | wanted.keys() | present.keys():
            states = (found.get(path), wanted.get(path), present.get(path))
            if near(path, kept):
                assert states[0] in states[1:], (path, kept, str(states)[:300])
            elif path in changed or exact:
                assert states[0] == states[1], (path, kept, str(states)[:300])
            else:
                assert states[0] == states[2], (path, kept, str(states)[:300])
        assert not list(self.top.rglob(".odek-undo-*"))
        if made is not None:
            self.before[made.number] = present
        return made


def run_one(folder: Path, seed: int, *, turns: int = 3) -> dict[str, int]:
    """Run the sequence of `seed` in the new folder `folder`; return what it came to. Raises AssertionError."""
    run = Run(folder, seed)
    run.run(turns)
    return run.counts


def main() -> int:
    """Run many sequences; name the seed of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    arguments = parser.parse_args()
    total: dict[str, int] = {}
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                counts = run_one(Path(folder), seed)
            except BaseException:
                sys.stderr.write(f"seed {seed} fails: scripts/fuzz-undo --seed {seed} --count 1\n")
                raise
        total = {name: total.get(name, 0) + count for name, count in counts.items()}
    sys.stdout.write(f"{arguments.count} sequences: {', '.join(f'{count} {name}' for name, count in total.items())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
