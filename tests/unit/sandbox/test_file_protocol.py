"""Looking into folders of the sandbox: what is sent, what is made of the answer, and the scripts
themselves under the shells that images have."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from odek.errors import FileAccessDenied
from odek.executor import CommandResult, DirScan, Entry, ScanOptions
from odek.process import Output
from odek.sandbox.container import file_protocol, scripts

MARK = "m" * 32
SHELLS = [
    pytest.param((shell, *rest), id=shell, marks=pytest.mark.skipif(not shutil.which(shell), reason="not installed"))
    for shell, *rest in (("dash",), ("bash",), ("bash", "--posix"), ("busybox", "sh"))
]


def whole(data: bytes) -> Output:
    return Output(head=data, tail=b"", size_bytes=len(data))


def done(printed: bytes, *, stderr: bytes = b"", timed_out: bool = False) -> CommandResult:
    return CommandResult(
        output=whole(printed), code=0, timed_out=timed_out, duration_s=0, stderr=whole(stderr)
    )  # fmt: skip


def entry(path: str, mode: int = 0o644) -> Entry:
    return Entry(path=path, kind="file", mode=mode, size_bytes=3, mtime_s=9)


def line(name: bytes, mode: bytes = b"81a4") -> bytes:
    return f"{MARK} ".encode() + mode + b" 3 9 " + name + b"\n"


END = f"{MARK} end\n".encode()
TOP = Entry(path="d", kind="folder", mode=0o755, size_bytes=3, mtime_s=9)


@pytest.mark.parametrize(
    ("printed", "listing"),
    [
        (line(b".", b"41ed") + END, DirScan(top=TOP)),
        (
            line(b".", b"41ed") + line(b"./b") + line(b"./a/c") + END,
            DirScan(top=TOP, entries=(entry("d/a/c"), entry("d/b"))),
        ),
        (
            line(b".", b"41ed") + line(b"./n\nl 81a4 1 2 ./x\n") + line(b"./we\xff") + END,
            DirScan(top=TOP, entries=(entry("d/n\nl 81a4 1 2 ./x\n"), entry("d/we\udcff"))),
        ),
        (
            line(b".", b"41ed") + line(b"./s", b"89ed") + line(b"./b")[:-3],
            DirScan(top=TOP, entries=(entry("d/s", 0o4755),), complete=False),
        ),
    ],
)
def test_listing_is_read_whatever_the_names_are(printed: bytes, listing: DirScan) -> None:
    """B47: names with line ends, bytes that are no text; an answer that was cut off says so."""
    assert file_protocol.parse_listing(done(printed), "d", MARK, ScanOptions()) == listing


def test_listing_stops_at_its_count() -> None:
    printed = line(b".", b"41ed") + b"".join(line(b"./%d" % number) for number in range(5)) + END
    listing = file_protocol.parse_listing(done(printed), "", MARK, ScanOptions(count=3))
    assert ([entry.path for entry in listing.entries], listing.complete) == (["0", "1", "2"], False)


def test_listing_names_folders_that_could_not_be_read() -> None:
    """R-64: in the words of find, made fit to be shown."""
    stderr = b"find: ./x\x1b: Permission denied\nstat: can't stat './gone': No such file or directory\n"
    listing = file_protocol.parse_listing(done(line(b".", b"41ed") + END, stderr=stderr), "d", MARK, ScanOptions())
    assert listing.problems == ("find: ./x\\x1b: Permission denied",)


@pytest.mark.parametrize(("timed_out", "why"), [(True, "it takes too long"), (False, "it is gone")])
def test_empty_listing_is_refused(timed_out: bool, why: str) -> None:
    with pytest.raises(FileAccessDenied, match=f'cannot look at "d": {why}'):
        file_protocol.parse_listing(done(b"", timed_out=timed_out), "d", MARK, ScanOptions())


def contents(printed: bytes, *paths: str, total_bytes: int = 100) -> list[bytes | str]:
    found = file_protocol.parse_contents(printed, paths, MARK, limit_bytes=5, total_bytes=total_bytes)
    return [item if isinstance(item, bytes) else item.message for item in found]


def test_contents_are_told_apart() -> None:
    """R-44, K03: any bytes, empty files, refusals in between."""
    end = [f"\n{MARK} {status}\n".encode() for status in (0, scripts.MISSING, 1)]
    printed = b"a\n\xff" + end[0] + end[0] + end[1] + b"123456" + end[0] + end[2]
    assert contents(printed, "a", "../x", "empty", "gone", "big", "secret", "late") == [
        b"a\n\xff",
        '"../x" leaves the workspace',
        b"",
        '"gone" does not exist',
        '"big" is larger than 5 bytes',
        '"secret" cannot be read',
        '"late" was not read: too much at once',
    ]
    assert contents(b"abc" + end[0] + b"d" + end[0] + b"e" + end[0], "a", "b", "c", total_bytes=4) == [
        b"abc",
        b"d",
        '"c" was not read: too much at once',
    ]


def run(shell: tuple[str, ...], text: bytes, workspace: Path) -> CommandResult:
    """Run one of our scripts on this machine, with `workspace` in the place of /workspace."""
    script = text.replace(b"base=/workspace", b"base=$ROOT")
    ended = subprocess.run(
        [*shell, "-c", 'eval "$(cat)"'],
        input=script,
        env={**os.environ, "ROOT": str(workspace)},
        capture_output=True,
        timeout=60,
    )
    return CommandResult(
        output=whole(ended.stdout),
        code=ended.returncode,
        timed_out=False,
        duration_s=0,
        stderr=whole(ended.stderr),
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "it's $x `w`"
    (root / "d" / "e").mkdir(parents=True)
    (root / "node_modules").mkdir()
    (root / ".git").mkdir()
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "secret").write_bytes(b"secret")
    for name in (
        b"a",
        b"d/e/c",
        b"node_modules/m",
        b".git/config",
        b"we\xffird",
        b"nl\nname",
        b"-rf",
        b"*",
        b"x" * 255,
    ):
        (root / os.fsdecode(name)).write_bytes(b"in " + name)
    (root / "to_d").symlink_to("d")
    (root / "to_a").symlink_to("a")
    (root / "out").symlink_to(root.parent / "outside")
    (root / "secret").symlink_to("../outside/secret")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    return root


def listed(
    shell: tuple[str, ...], workspace: Path, place: str, how: ScanOptions, *, follow: bool = True
) -> DirScan | int:
    ended = run(shell, file_protocol.list_command(place, how, MARK, follow=follow), workspace)
    return ended.code or file_protocol.parse_listing(ended, place, MARK, how)


@pytest.mark.parametrize("shell", SHELLS)
def test_list_finds_everything_and_follows_no_link(shell: tuple[str, ...], workspace: Path) -> None:
    """R-44, B47: the same under every shell, with busybox's find and with GNU's."""
    found = listed(shell, workspace, "", ScanOptions())
    assert isinstance(found, DirScan)
    assert [(item.path, item.kind) for item in found.entries] == [
        ("*", "file"),
        ("-rf", "file"),
        (".git", "folder"),
        (".git/config", "file"),
        ("a", "file"),
        ("d", "folder"),
        ("d/e", "folder"),
        ("d/e/c", "file"),
        ("loop", "link"),
        ("nl\nname", "file"),
        ("node_modules", "folder"),
        ("node_modules/m", "file"),
        ("out", "link"),
        ("pipe", "other"),
        ("secret", "link"),
        ("to_a", "link"),
        ("to_d", "link"),
        ("we\udcffird", "file"),
        ("x" * 255, "file"),
    ]
    assert (found.complete, found.problems) == (True, ())
    (a,) = [item for item in found.entries if item.path == "a"]
    status = (workspace / "a").stat()
    assert (a.size_bytes, a.mtime_s, a.mode) == (4, int(status.st_mtime), status.st_mode & 0o7777)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("place", "how", "found"),
    [
        ("d", ScanOptions(), ["d/e", "d/e/c"]),
        ("d", ScanOptions(depth=1), ["d/e"]),
        ("d", ScanOptions(depth=0), []),
        ("to_d", ScanOptions(), ["to_d/e", "to_d/e/c"]),
        ("a", ScanOptions(), []),
        ("to_a", ScanOptions(), []),
        ("nl\nname", ScanOptions(), []),
        ("", ScanOptions(depth=2, skip=frozenset(("d", "node_modules")), hidden=False), None),
        ("nope", ScanOptions(), scripts.MISSING),
        ("a/b", ScanOptions(), scripts.MISSING),
        ("out", ScanOptions(), scripts.LEFT_WORKSPACE),
        ("out/secret", ScanOptions(), scripts.LEFT_WORKSPACE),
        ("secret", ScanOptions(), scripts.LEFT_WORKSPACE),
        ("loop", ScanOptions(), scripts.LOOP),
    ],
)
def test_list_goes_where_it_was_told(
    shell: tuple[str, ...], workspace: Path, place: str, how: ScanOptions, found: list[str] | int | None
) -> None:
    """R-44, B13."""
    result = listed(shell, workspace, place, how)
    if isinstance(found, int):
        assert result == found
        return
    assert isinstance(result, DirScan)
    names = [item.path for item in result.entries]
    if found is None:
        assert [name for name in names if "/" in name] == []
        assert {"d", "node_modules", ".git"} <= set(names)
    else:
        assert (result.top.path, names) == (place, found)


@pytest.mark.parametrize("shell", SHELLS)
def test_list_tells_a_link_as_a_link_when_it_is_not_followed(shell: tuple[str, ...], workspace: Path) -> None:
    kinds = []
    for place in ("out", "to_d", "loop", "a", "d", "pipe", ""):
        result = listed(shell, workspace, place, ScanOptions(depth=0), follow=False)
        assert isinstance(result, DirScan)
        kinds.append(result.top.kind)
    assert kinds == ["link", "link", "link", "file", "folder", "other", "folder"]


@pytest.mark.parametrize("shell", SHELLS)
def test_list_that_is_cut_off_ends_and_says_so(shell: tuple[str, ...], workspace: Path) -> None:
    """A huge folder costs its limit, not its size."""
    (workspace / "big").mkdir()
    for number in range(3000):
        (workspace / "big" / str(number)).write_bytes(b"")
    text = file_protocol.list_command("big", ScanOptions(), MARK, follow=True)
    cut = run(shell, text.replace(str(file_protocol.LISTING_LIMIT_BYTES).encode(), b"10000", 1), workspace)
    listing = file_protocol.parse_listing(cut, "big", MARK, ScanOptions())
    assert (listing.complete, 50 < len(listing.entries) < 300) == (False, True)
    full = listed(shell, workspace, "big", ScanOptions())
    assert isinstance(full, DirScan)
    assert (full.complete, len(full.entries)) == (True, 3000)


@pytest.mark.parametrize("shell", SHELLS)
def test_read_many_reads_what_is_inside(shell: tuple[str, ...], workspace: Path) -> None:
    """R-44, B13, B47: one by one what a single read would say, whatever the names are."""
    paths = (
        *("a", "to_a", "to_d/e/c", "we\udcffird", "nl\nname", "-rf", "*"),
        *("d", "pipe", "loop", "secret", "out/secret", "nope", "../x", "x" * 255),
    )
    text = file_protocol.read_command(paths, MARK, limit_bytes=500, total_bytes=5000)
    ended = run(shell, text, workspace)
    found = file_protocol.parse_contents(ended.output.data, paths, MARK, limit_bytes=500, total_bytes=5000)
    assert [item if isinstance(item, bytes) else item.message.partition('" ')[2] for item in found] == [
        *(b"in a", b"in a", b"in d/e/c", b"in we\xffird", b"in nl\nname", b"in -rf", b"in *"),
        *("is not a regular file",) * 2,
        "runs through too many links",
        *("leaves the workspace",) * 2,
        "does not exist",
        "leaves the workspace",
        b"in " + b"x" * 255,
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_read_many_prints_no_more_than_was_asked_for(shell: tuple[str, ...], workspace: Path) -> None:
    """B04: files that grow meanwhile cost nothing."""
    for name in ("b", "c", "g"):
        (workspace / name).write_bytes(b"x" * 100_000)
    paths = ("b", "c", "g", "a")
    ended = run(shell, file_protocol.read_command(paths, MARK, limit_bytes=60_000, total_bytes=90_000), workspace)
    assert ended.output.size_bytes <= 90_000 + 64 * 4
    found = file_protocol.parse_contents(ended.output.data, paths, MARK, limit_bytes=60_000, total_bytes=90_000)
    assert [str(item) for item in found] == [
        '"b" is larger than 60000 bytes',
        *(f'"{name}" was not read: too much at once' for name in "cga"),
    ]


@pytest.mark.parametrize("shell", SHELLS[:2])  # busybox finds its own applets whatever PATH says
@pytest.mark.parametrize("missing", ["find", "xargs", "stat"])
def test_program_that_the_image_lacks_is_named(
    shell: tuple[str, ...], missing: str, workspace: Path, tmp_path: Path
) -> None:
    """B21."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"find", "xargs", "stat", "head", "cat", "echo", *shell[:1]} - {missing}:
        (folder / name).symlink_to(shutil.which(name) or "")
    text = b"PATH=" + os.fsencode(folder) + b"\n" + file_protocol.list_command("", ScanOptions(), MARK, follow=True)
    ended = run(shell, text, workspace)
    assert (ended.code, ended.output.data) == (scripts.NO_PROGRAM, missing.encode())
