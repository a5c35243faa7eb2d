"""Files given with a task: which are read, where the model is told they are (R-43, D-3, B13, B47)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odek.app.attachments import (
    FILE_LIMIT_BYTES,
    SHOWN_LIMIT_BYTES,
    STDIN_LIMIT_BYTES,
    Attachment,
    external,
    from_stdin,
    read_ctx_files,
    read_referenced,
    render_task,
)
from odek.errors import UsageError
from odek.text import visible


class Desk:
    """A working directory, a folder beside it, and what the user is told."""

    def __init__(self, place: Path) -> None:
        self.work, self.beside, self.home = place / "work", place / "beside", place / "home"
        for folder in (self.work, self.beside, self.home):
            folder.mkdir()
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def named(self, *names: str) -> tuple[Attachment, ...]:
        return read_ctx_files(names, cwd=str(self.work), home=str(self.home))

    def referenced(self, task: str) -> tuple[Attachment, ...]:
        return read_referenced(task, cwd=str(self.work), warn=self.warnings.append, note=self.notes.append)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Path(os.path.realpath(tmp_path)))


def wrap(text: str, *, source: str) -> str:
    return f"<{visible(source)}>{text}</>"


def rendered(task: str, attachments: tuple[Attachment, ...], *, folder: str | None = "/ctx") -> str:
    return render_task(
        task,
        attachments,
        workspace="/workspace",
        folder=folder,
        wrap=wrap,
        redact=lambda text: text.replace("secret", "…"),
    )


def test_files_inside_and_outside_are_read_and_told_where_they_are(desk: Desk) -> None:
    """R-43, D-3, F-40: relative, absolute and `~/` names; what is outside goes into a folder of its own."""
    (desk.work / "sub").mkdir()
    (desk.work / "sub" / "in.txt").write_text("inside")
    (desk.beside / "hosts").write_text("a secret")
    (desk.home / "notes").write_text("")
    found = desk.named("sub/in.txt", str(desk.beside / "hosts"), "~/notes", str(desk.work / "sub" / "in.txt"))
    assert [(file.name, file.relative, file.data) for file in found] == [
        ("sub/in.txt", "sub/in.txt", b"inside"),
        (str(desk.beside / "hosts"), "", b"a secret"),
        ("~/notes", "", b""),
    ]
    assert external(found) == found[1:]
    hosts = desk.beside / "hosts"
    assert rendered("do it", found) == (
        "--- sub/in.txt ---\npath: /workspace/sub/in.txt\n<ctx:sub/in.txt>inside</>\n--- end sub/in.txt ---\n\n"
        f"--- {hosts} ---\npath: /ctx/hosts\n<ctx:{hosts}>a …</>\n--- end {hosts} ---\n\n"
        "--- ~/notes ---\npath: /ctx/notes\n(empty file)\n--- end ~/notes ---\n\n"
        "do it"
    )
    assert f"\npath: {hosts}\n" in rendered("do it", found, folder=None)
    assert desk.warnings == []


def test_what_is_missing_or_not_a_file_is_refused(desk: Desk) -> None:
    """A24, R-43: what the operator names is what the task is about; and it is never a hang."""
    (desk.work / "folder").mkdir()
    (desk.work / "fine").write_text("x")
    os.mkfifo(desk.work / "fifo")
    (desk.work / "loop").symlink_to("loop")
    (desk.work / "out").symlink_to("/etc/hosts")
    (desk.work / "large").write_bytes(b"")
    os.truncate(desk.work / "large", FILE_LIMIT_BYTES + 1)
    reasons = {
        "nowhere": "no such file or directory",
        "": "it is a folder",
        "~/nowhere": "no such file or directory",
        "fine/x": "not a directory",
        "folder": "it is a folder",
        "fifo": "it is not a regular file",
        "loop": "too many levels of symbolic links",
        "large": "it is larger than 32 MiB",
        "a\0b": "it is not a file name",
        "out": f"it is a link that leaves the working directory; name {os.path.realpath('/etc/hosts')} itself",
    }
    for name, reason in reasons.items():
        with pytest.raises(UsageError) as refused:
            desk.named("fine", name)
        assert refused.value.message == f'"{visible(name)}" cannot be attached: {reason}'


def test_stdin_that_is_binary_is_refused() -> None:
    """A24"""
    with pytest.raises(UsageError, match="stdin is binary, not text"):
        from_stdin(b"\x7fELF\0\1")


def test_two_outside_files_of_one_name_are_refused(desk: Desk) -> None:
    """D-3: the second would hide the first."""
    (desk.beside / "a").mkdir()
    for path in (desk.beside / "conf", desk.beside / "a" / "conf", desk.work / "conf"):
        path.write_text("x")
    assert len(desk.named("../beside/conf", "conf")) == 2
    with pytest.raises(UsageError) as refused:
        desk.named("../beside/conf", "../beside/a/conf")
    assert refused.value.message == (
        '"../beside/a/conf" and "../beside/conf" cannot both be attached: both are outside the working directory '
        'and are called "conf"'
    )


def test_links_out_of_the_workspace_are_not_followed_unless_the_target_is_named(desk: Desk) -> None:
    """B13: a checkout can hold README.md -> ~/.ssh/id_rsa."""
    (desk.home / "key").write_text("private")
    (desk.work / "README.md").symlink_to(desk.home / "key")
    (desk.work / "sub").symlink_to(desk.home)
    (desk.work / "real").write_text("kept")
    (desk.work / "link").symlink_to("real")
    (desk.beside / "pointer").symlink_to(desk.home / "key")
    for name in ("README.md", "sub/key"):
        with pytest.raises(UsageError, match="it is a link that leaves the working directory"):
            desk.named(name)
    assert desk.referenced("see @README.md and @sub/key") == ()
    reason = f"is not attached: it is a link that leaves the working directory; name {desk.home}/key itself"
    names = ("@README.md", "@sub/key")
    assert desk.warnings == [f'"{name}" {reason}' for name in names]
    assert [file.relative for file in (*desk.named("link"), *desk.referenced("@link"))] == ["real", "real"]
    assert [(file.path, file.placed_name) for file in desk.named("../beside/pointer")] == [
        (str(desk.home / "key"), "key")
    ]


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("@a.py", ["a.py"]),
        ('explain @a.py, then (@sub/b.py) and "@a.py"', ["a.py", "sub/b.py"]),
        ("what does @a.py.", ["a.py"]),
        ("look at @a.py: is it right?", ["a.py"]),
        ("@odd.", ["odd."]),
        ("me@a.py and @@a.py and a @ b and @", []),
        ("mail @somebody about @sub and @sub/", []),
        ("line\n@a.py;x", ["a.py"]),
        ("[@a.py]", ["a.py"]),
    ],
)
def test_references_in_a_task(task: str, names: list[str], desk: Desk) -> None:
    """A reference begins a word; what is no file is text."""
    (desk.work / "sub").mkdir()
    for name in ("a.py", "sub/b.py", "odd."):
        (desk.work / name).write_text("x")
    found = desk.referenced(task)
    assert ([file.name for file in found], desk.warnings) == (names, [])
    assert all(file.source == f"resource:@{file.name}" for file in found)


@pytest.mark.parametrize(
    ("task", "notes"),
    [
        ("see @a.py and @sub", []),
        ("me@example.com and a@b, @{u}, @-1, @$x and `git log @~2`", []),
        ("explain @nope", ['no file here is called "@nope"; it stays a word']),
        ("what is in @src/nope.py?", ['no file here is called "@src/nope.py"; it stays a word']),
        ("fix @a.py: @pytest.fixture, @types/node.", ['no files here: "@pytest.fixture", "@types/node"']),
        ("@a @b @c @d @a @e\x1b", ['no files here: "@a", "@b", "@c" and 2 more']),
    ],
)
def test_word_that_names_no_file_is_told_in_one_line(task: str, notes: list[str], desk: Desk) -> None:
    """Runtime 2.11: it stays as typed; a slip is seen, an address, a decorator or a package is not refused."""
    (desk.work / "sub").mkdir()
    (desk.work / "a.py").write_text("x")
    desk.referenced(task)
    assert (desk.notes, desk.warnings) == (notes, [])


def test_stdin_is_shown_whole_and_is_no_file(desk: Desk) -> None:
    """Runtime 2.11: it has no path to be found at, so nothing of it is left out."""
    data = b"a secret\n" * 10_000
    assert desk.named("-") == ()
    sent = from_stdin(data)
    assert external((sent,)) == ()
    text = data.decode().replace("secret", "…")
    for folder in ("/ctx", None):
        assert rendered("do it", (sent,), folder=folder) == f"--- - ---\n<ctx:->{text}</>\n--- end - ---\n\ndo it"
    with pytest.raises(UsageError) as refused:
        from_stdin(bytes(STDIN_LIMIT_BYTES + 1))
    assert refused.value.message == "stdin is larger than 1 MiB"


def test_reference_that_exists_and_cannot_be_attached_is_told(desk: Desk) -> None:
    (desk.beside / "x").write_text("x")
    (desk.work / "b").write_bytes(b"a\0b")
    (desk.work / "c").write_bytes(bytes((1 << 20) + 1))
    assert desk.referenced("@../beside/x @b @c") == ()
    assert desk.warnings == [
        '"@../beside/x" is not attached: it is outside the working directory; --ctx can attach it',
        '"@b" is not attached: it is binary',
        '"@c" is not attached: it is larger than 1 MiB',
    ]


def test_names_that_are_odd_stay_one_line(desk: Desk) -> None:
    """B47: not UTF-8, a line end, a dash, 255 bytes; each block keeps its shape and is valid UTF-8."""
    names = [b"we\xffird.py", b"nl\nname", b"-rf", b"x" * 255, b"\xe2\x80\xaeevil"]
    for name in names:
        with open(os.path.join(os.fsencode(desk.beside), name), "wb") as file:
            file.write(b"x")
    found = desk.named(*(os.path.join(desk.beside, os.fsdecode(name)) for name in names))
    assert desk.warnings == []
    assert [file.placed_name for file in found] == ["we\ufffdird.py", "nl\nname", "-rf", "x" * 255, "\u202eevil"]
    text = render_task("task", found, workspace="/workspace", folder="/ctx", wrap=wrap, redact=str)
    text.encode()
    assert [line for line in text.splitlines() if line.startswith("path: ")] == [
        "path: /ctx/we\ufffdird.py",
        "path: /ctx/nl\\nname",
        "path: /ctx/-rf",
        f"path: /ctx/{'x' * 255}",
        "path: /ctx/\\u202eevil",
    ]


def test_long_and_binary_files_are_named_and_not_poured_out(desk: Desk) -> None:
    (desk.work / "long").write_text("ü" * SHOWN_LIMIT_BYTES)
    (desk.work / "binary").write_bytes(b"\x7fELF\0")
    text = rendered("task", desk.named("long", "binary"))
    assert text == (
        f"--- long ---\npath: /workspace/long\n<ctx:long>{'ü' * (SHOWN_LIMIT_BYTES // 2)}</>\n"
        f"[the first {SHOWN_LIMIT_BYTES} of {2 * SHOWN_LIMIT_BYTES} bytes are shown; the rest is in the file]\n"
        "--- end long ---\n\n"
        "--- binary ---\npath: /workspace/binary\n(binary, 5 bytes; not shown)\n--- end binary ---\n\n"
        "task"
    )
