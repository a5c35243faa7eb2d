"""What every executor keeps: commands, files and folders of one workspace, whatever plays the container.

A subclass brings the fixture `place`; see tests/unit/test_executors.py and tests/integration/test_executor.py.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from odek.errors import FileAccessDenied
from odek.executor import CommandRequest, Entry, Executor, ScanOptions

LIMIT_BYTES = 1 << 20
# why something is refused, in the words of either executor
LEAVES = r"leaves the workspace"
MISSING = r"does not exist|there is no such file"
NO_FILE = r"is a folder|not a regular file"
CIRCLE = r"too many links|round in circles"
CHANGED = r"was changed by another process|has changed since it was read|does not exist"
NAMES = (
    "-rf", "a b", "a\nb", "*", "ü日本", "$x`y`", "a'b\"c", "...", " ", "back\\slash", "[x]", "\n", "a\n", "#x", "~",
    "x" * 255,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace, as its executor and as this machine see it."""

    executor: Executor
    folder: Path
    outside: Path
    """a folder of this machine with a file `secret`; no executor may read or change it"""
    seen: str
    """the path of the workspace where links that it holds are followed"""

    def read(self, path: str, limit_bytes: int = LIMIT_BYTES) -> bytes:
        return self.executor.read(path, limit_bytes=limit_bytes)

    def write(self, path: str, data: bytes = b"new", replacing: bytes | None = None) -> None:
        self.executor.write(path, data, replacing=replacing)

    def output(self, command: str) -> str:
        done = self.executor.run(command, timeout_s=30)
        assert done.code == 0, done
        return done.output.text

    def refuses(self, path: str, why: str, *, reading: bool = True, writing: bool = True) -> None:
        """Neither way works, for this reason, and nothing changes."""
        before = self.outside_state()
        if reading:
            with pytest.raises(FileAccessDenied, match=why):
                self.read(path)
        if writing:
            with pytest.raises(FileAccessDenied, match=why):
                self.write(path)
        assert self.outside_state() == before

    def outside_state(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}


class ExecutorContract:
    """See the module."""

    @pytest.mark.parametrize(
        "data", [b"", b"text\n", b"no end", bytes(range(256)) * 3, b"\0", b"\n\n\n", b"x" * 300_000], ids=len
    )
    def test_bytes_survive_both_ways(self, data: bytes, place: Place) -> None:
        """R-44."""
        place.write("f", data)
        assert (place.read("f"), (place.folder / "f").read_bytes()) == (data, data)

    def test_file_of_any_name(self, place: Place) -> None:
        """R-44, B12, B47: byte for byte, and seen by commands, listings and this machine alike."""
        for name in NAMES:
            place.write(f"d/{name}", b"one")
            place.write(f"d/{name}", b"two", b"one")
            assert place.read(f"{place.executor.workspace}/d/{name}") == b"two"
        assert sorted(os.listdir(place.folder / "d")) == sorted(NAMES)
        assert sorted(entry.name for entry in place.executor.walk("d", ScanOptions()).entries) == sorted(NAMES)

    def test_limit_counts_bytes(self, place: Place) -> None:
        """R-44: also of a file that no memory would hold."""
        (place.folder / "f").write_bytes(b"12345")
        assert place.read("f", 5) == b"12345"
        with (place.folder / "huge").open("wb") as file:
            file.truncate(1 << 40)
        for path, limit_bytes in (("f", 4), ("huge", 1000)):
            with pytest.raises(FileAccessDenied, match=rf"is larger than {limit_bytes} bytes"):
                place.read(path, limit_bytes)

    def test_what_is_not_a_readable_file_is_refused(self, place: Place) -> None:
        """R-44: without waiting for anything."""
        (place.folder / "d").mkdir()
        (place.folder / "f").touch()
        os.mkfifo(place.folder / "pipe")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place.folder / "socket"))
            for path in ("none", "none/f"):
                place.refuses(path, MISSING, writing=False)
            place.refuses("f/x", rf"{MISSING}|Not a directory|a folder on the way cannot be made")
            for path in ("d", "pipe", "socket"):
                place.refuses(path, NO_FILE)
            place.refuses("x" * 256, "cannot be written|File name too long", reading=False)
        assert sorted(os.listdir(place.folder)) == ["d", "f", "pipe", "socket"]

    def test_link_that_stays_inside_is_followed(self, place: Place) -> None:
        """R-44, B13: relative and absolute, of files and of folders; the link stays a link."""
        (place.folder / "d" / "e").mkdir(parents=True)
        (place.folder / "d" / "f").write_text("f")
        links = {
            "one": "d/f", "two": f"{place.seen}/d/f", "d/up": "../d/f", "folder": "d", "d/e/back": "../../one",
            "new": "d/n",
        }  # fmt: skip
        for name, target in links.items():
            (place.folder / name).symlink_to(target)
        for name in ("one", "two", "d/up", "folder/f", "d/e/back", "folder/up", "./d//e/../f"):
            assert (name, place.read(name)) == (name, b"f")
        place.write("d/e/back", b"F", b"f")
        place.write("new", b"N")
        place.write("folder/deep/x", b"X")
        assert [(place.folder / name).read_text() for name in ("d/f", "d/n", "d/deep/x")] == ["F", "N", "X"]
        assert {name: os.readlink(place.folder / name) for name in links} == links

    def test_what_leads_out_is_refused(self, place: Place) -> None:
        """R-44, B13: by `..`, by an absolute path, by a link in any component, dangling or not."""
        (place.folder / "d").mkdir()
        links = {
            "file": str(place.outside / "secret"), "folder": str(place.outside), "dangling": str(place.outside / "new"),
            "etc": "/etc/passwd", "chain": "file", "d/up": "../../etc", "d/escape": f"{place.seen}/../etc/passwd",
        }  # fmt: skip
        for name, target in links.items():
            (place.folder / name).symlink_to(target)
        for path in (
            *("file", "folder/secret", "folder/new", "dangling", "etc", "chain", "d/up/passwd", "d/escape"),
            *("../outside/secret", "d/../../outside/secret", "/etc/passwd", f"{place.executor.workspace}-other/x"),
        ):
            place.refuses(path, rf"{LEAVES}|{MISSING}|a folder on the way cannot be made")
        assert place.outside_state() == {"secret": b"of the host"}

    def test_links_in_a_circle_are_refused(self, place: Place) -> None:
        """B13."""
        for name, target in {"loop": "loop", "a": "b", "b": "a"}.items():
            (place.folder / name).symlink_to(target)
        for path in ("loop", "a"):
            place.refuses(path, CIRCLE)

    def test_second_name_of_an_outside_file_is_replaced_and_not_written(self, place: Place) -> None:
        """B13: a hard link."""
        os.link(place.outside / "secret", place.folder / "hard")
        place.write("hard", b"new")
        assert ((place.folder / "hard").read_bytes(), place.outside_state()) == (b"new", {"secret": b"of the host"})

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o666])
    def test_mode_of_an_existing_file_is_kept(self, mode: int, place: Place) -> None:
        """R-44, B54: an edit does not change who may do what."""
        (place.folder / "f").write_text("old")
        (place.folder / "f").chmod(mode)
        place.write("f", b"new", b"old")
        status = (place.folder / "f").stat()
        assert ((place.folder / "f").read_text(), stat.S_IMODE(status.st_mode), status.st_uid) == (
            *("new", mode),
            os.getuid(),
        )

    def test_file_is_replaced_whole_and_nothing_else_is_left(self, place: Place) -> None:
        """R-44: a reader sees the old bytes or the new ones; no temporary file stays."""
        old, new, seen, over = b"a" * 200_000, b"b" * 200_000, set[bytes](), threading.Event()
        (place.folder / "f").write_bytes(old)

        def look() -> None:
            while not over.is_set():
                seen.add((place.folder / "f").read_bytes())

        reader = threading.Thread(target=look)
        reader.start()
        try:
            place.write("f", new)
        finally:
            over.set()
            reader.join()
        assert seen <= {old, new}
        assert os.listdir(place.folder) == ["f"]

    @pytest.mark.parametrize(
        ("there", "replacing"), [(b"other", b"old"), (b"old\n", b"old"), (b"", b"old"), (None, b"old"), (None, b"")]
    )
    def test_file_that_is_not_what_was_read_is_left_alone(
        self, there: bytes | None, replacing: bytes, place: Place
    ) -> None:
        """R-44."""
        if there is not None:
            (place.folder / "f").write_bytes(there)
        with pytest.raises(FileAccessDenied, match=CHANGED):
            place.write("f", b"new", replacing)
        assert [path.read_bytes() for path in place.folder.iterdir()] == ([] if there is None else [there])

    def test_guard_is_asked_before_anything_is_written(self, place: Place) -> None:
        """D-6, B55: about the path, and about where links lead; what it refuses stays as it was."""
        (place.folder / "d").mkdir()
        (place.folder / "d" / "f").write_text("old")
        (place.folder / "link").symlink_to("d/f")
        asked: list[str] = []
        place.executor.write("./link", b"new", replacing=None, guard=asked.append)
        assert (asked, (place.folder / "d" / "f").read_text()) == (["link", "d/f"], "new")

        def refuse(path: str) -> None:
            if path == "d/f":
                raise FileAccessDenied("not this one")

        for path in ("link", "d/f"):
            with pytest.raises(FileAccessDenied, match="not this one"):
                place.executor.write(path, b"evil", replacing=None, guard=refuse)
        assert (place.folder / "d" / "f").read_text() == "new"

    def test_several_files_are_read_as_each_alone(self, place: Place) -> None:
        """R-44, K03: what is refused among them, and what would be too much together."""
        for name in ("a", "b", "c"):
            (place.folder / name).write_bytes(name.encode() * 4)
        paths = ("a", "none", "../x", "b", "c")
        found = place.executor.read_many(paths, limit_bytes=LIMIT_BYTES, total_bytes=8)
        assert [item if isinstance(item, bytes) else type(item) for item in found] == [
            *(b"aaaa", FileAccessDenied, FileAccessDenied, b"bbbb", FileAccessDenied),
        ]

    def test_folder_is_walked_without_following_links(self, place: Place) -> None:
        """R-44, B13."""
        (place.folder / "d" / "e").mkdir(parents=True)
        (place.folder / "d" / "f").write_bytes(b"123")
        (place.folder / "d" / "e" / "run").touch(mode=0o755)
        (place.folder / "d" / "out").symlink_to(place.outside)
        (place.folder / "in").symlink_to("d")
        for path in ("d", "in"):
            scan = place.executor.walk(path, ScanOptions())
            assert scan.complete
            assert [(entry.path.partition("/")[2], entry.kind) for entry in scan.entries] == [
                *(("e", "folder"), ("e/run", "file"), ("f", "file"), ("out", "link")),
            ]
        (found,) = (entry for entry in place.executor.walk("d", ScanOptions()).entries if entry.name == "f")
        status = (place.folder / "d" / "f").stat()
        assert found == Entry(
            path="d/f", kind="file", mode=stat.S_IMODE(status.st_mode), size_bytes=3, mtime_s=int(status.st_mtime)
        )
        near = place.executor.walk("d", ScanOptions(depth=1))
        assert [entry.path for entry in near.entries] == ["d/e", "d/f", "d/out"]
        assert (place.executor.stat("in").kind, place.executor.stat("d").kind) == ("link", "folder")
        for path in ("none", "d/out/secret", ".."):
            with pytest.raises(FileAccessDenied):
                place.executor.walk(path, ScanOptions())

    @pytest.mark.parametrize(
        ("command", "printed", "code"),
        [
            pytest.param("echo one; echo two >&2; echo three", b"one\ntwo\nthree\n", 0, id="streams in order"),
            pytest.param("printf 'a\\377\\000b\\r\\n'; exit 3", b"a\xff\x00b\r\n", 3, id="B03: bytes as they are"),
            pytest.param("false; true", b"", 0, id="status of the last command"),
            pytest.param("nosuchprogram 2>/dev/null", b"", 127, id="no such program"),
            pytest.param("kill -TERM $$", b"", 143, id="ended by a signal"),
            pytest.param("# only a comment", b"", 0, id="comment"),
            pytest.param("cat <<'E'\n$x `y`\nE\n", b"$x `y`\n", 0, id="here-document"),
            pytest.param("echo a \\\n", b"a\n", 0, id="backslash at the end"),
            pytest.param("echo 'it'\\''s' Ä ☃", "it's Ä ☃\n".encode(), 0, id="quotes, and not only ASCII"),
            pytest.param('echo $#; echo "$@"; echo $0', b"0\n\nsh\n", 0, id="no arguments of ours"),
            pytest.param("set -- a b; shift; echo $1", b"b\n", 0, id="arguments of its own"),
            pytest.param("f() { return 0; }; f; echo $?", b"0\n", 0, id="function"),
            pytest.param("set | grep -c -e odek_command -e ^mark= -e ^line=", b"0\n", 1, id="no variables of ours"),
            pytest.param(
                "cat; echo rc=$?; read a; sh -s; test -t 0 || echo none", b"rc=0\nnone\n", 0, id="B05: no input"
            ),
        ],
    )
    def test_command_means_what_a_shell_means_by_it(
        self, command: str, printed: bytes, code: int, place: Place
    ) -> None:
        """R-41, B03, B05."""
        done = place.executor.run(command, timeout_s=30)
        assert (done.output.data, done.code, done.timed_out, done.notes) == (printed, code, False, ())

    @pytest.mark.parametrize("size", [131_071, 131_072, 3_000_000])
    def test_command_of_any_length_runs(self, size: int, place: Place) -> None:
        """B14: an argument of a program ends at 128 KiB; a command is not limited by that."""
        head, tail = "cat >long <<'END'\n", "\nEND\n"
        body = "x" * (size - len(head) - len(tail))
        assert place.output(head + body + tail) == ""
        assert (place.folder / "long").read_text() == body + "\n"

    def test_commands_at_the_same_time_have_streams_of_their_own(self, place: Place) -> None:
        """B44: each with its status, in the order in which they were asked for."""
        meet = "touch {0}; n=0; until [ -e {1} ]; do n=$((n+1)); [ $n -lt 300 ] || exit 9; sleep 0.1; done; "
        one, two = place.executor.run_many(
            (
                CommandRequest(command=meet.format("one", "two") + "echo 1; echo e >&2; exit 4", timeout_s=40),
                CommandRequest(command=meet.format("two", "one") + "echo 2", timeout_s=40),
            )
        )
        assert [(done.output.text, done.stderr.text if done.stderr else None, done.code) for done in (one, two)] == [
            ("1\n", "e\n", 4),
            ("2\n", "", 0),
        ]

    def test_commands_and_file_tools_see_the_same(self, place: Place) -> None:
        """R-44: they start in the workspace."""
        assert place.output("mkdir -p a/b; echo made >a/b/c; pwd -P") == f"{place.seen}\n"
        assert place.read("a/b/c") == b"made\n"
        place.write("a/b/c", b"changed\n", b"made\n")
        assert place.output("cat a/b/c") == "changed\n"
        assert (place.folder / "a" / "b" / "c").stat().st_uid == os.getuid()
