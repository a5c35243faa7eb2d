"""Listing folders and reading many files by one call: what is sent, and what came back. Pure.

Output is separated by a mark that no file can hold, because it was drawn after the files were written; so
names and contents may be any bytes. Symbolic links are resolved by the scripts in the container (R-44).
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence

from odek.errors import FileAccessDenied
from odek.executor import CommandResult, DirScan, Entry, ScanOptions, kind_of, sorted_entries
from odek.sandbox.container import scripts
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE
from odek.text import truncate, visible

MAX_PATH_BYTES = 4096


def relative_path(path: str) -> str:
    """Return `path` relative to the workspace, without ".", ".." or doubled slashes.

    Accepts relative paths and absolute ones below /workspace. Raises FileAccessDenied when the path is
    empty, no file name at all, or names the workspace itself or something outside it.
    """
    parts = _parts(path)
    if not parts or f"/{parts[0]}" != WORKSPACE:
        raise _leaves(path)
    if len(parts) == 1 or path.endswith("/"):
        raise FileAccessDenied(f'"{visible(path)}" is a folder, not a file')
    return "/".join(parts[1:])


def relative_place(path: str) -> str:
    """Return `path` as `relative_path` does, but of a folder too; "" is the workspace.

    Bytes that are no UTF-8 (`surrogateescape`) are kept: for what goes by stdin and not through
    Docker's client. Raises FileAccessDenied when it is not usable or names something outside.
    """
    parts = _parts(path or ".", errors="surrogateescape")
    if not parts or f"/{parts[0]}" != WORKSPACE:
        raise _leaves(path)
    return "/".join(parts[1:])


def is_attachment(path: str) -> bool:
    """Return whether `path` names something in the folder of attached files."""
    try:
        parts = _parts(path)
    except FileAccessDenied:
        return False
    return len(parts) > 1 and f"/{parts[0]}" == ATTACHMENTS


def attachment_path(path: str) -> str:
    """Return `path`, which `is_attachment`, relative to the folder of attached files."""
    return "/".join(_parts(path)[1:])


def _parts(path: str, *, errors: str = "strict") -> list[str]:
    """Return the components of `path` from the root of the container on."""
    if "\0" in path or not 0 < _size(path, errors) <= MAX_PATH_BYTES:
        raise FileAccessDenied(f'"{visible(path[:200])}" is not a usable path')
    parts: list[str] = [] if path.startswith("/") else ["workspace"]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise _leaves(path)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
        if not parts and not path.startswith("/"):
            raise _leaves(path)
    return parts


def _size(path: str, errors: str) -> int:
    """Return the bytes of `path`, 0 when Docker cannot take it: its client sends text, and what is
    not UTF-8 would become the name of another file."""
    try:
        return len(path.encode(errors=errors))
    except UnicodeEncodeError:
        return 0


def _leaves(path: str) -> FileAccessDenied:
    return FileAccessDenied(f'"{visible(path)}" leaves the workspace', hint=f"only files below {WORKSPACE} can be used")


LISTING_LIMIT_BYTES = 8 << 20  # 20 000 entries with names of 300 bytes and the mark of each
_ROOM_PER_FILE = 64  # mark, status and line ends
_MAX_PROBLEMS = 20
_PROBLEM_LENGTH = 200
_NOT_PRINTED = -1
_TOO_MUCH = "was not read: too much at once"
_REASONS = {
    scripts.LEFT_WORKSPACE: "leaves the workspace",
    scripts.MISSING: "does not exist",
    scripts.LOOP: "runs through too many links",
    scripts.NOT_A_FILE: "is not a regular file",
}


def list_command(place: str, how: ScanOptions, mark: str, *, follow: bool) -> bytes:
    """Return the shell text that lists `place` (as relative_place returns it)."""
    arguments = (place, mark, "1" if follow else "", str(LISTING_LIMIT_BYTES), *_find_arguments(how))
    return _with_arguments(scripts.LIST, arguments)


def parse_listing(done: CommandResult, place: str, mark: str, how: ScanOptions) -> DirScan:
    """Return what the text of `list_command` has printed. Raises FileAccessDenied when that is nothing."""
    records = (b"\n" + done.output.head).split(f"\n{mark} ".encode())[1:]
    complete = records[-1:] == [b"end\n"]
    entries = [_entry(record, place) for record in records[:-1]]  # the last is the end, or what was cut off
    if not entries:
        raise FileAccessDenied(
            f'cannot look at "{visible(place)}": {"it takes too long" if done.timed_out else "it is gone"}'
        )
    top, *below = entries
    return DirScan(
        top=top,
        entries=sorted_entries(below[: how.count]),
        complete=complete and len(below) <= how.count,
        problems=_problems(done),
    )


def read_command(paths: Sequence[str], mark: str, *, limit_bytes: int, total_bytes: int) -> bytes:
    """Return the shell text that prints the files at `paths`; unusable paths are left out."""
    usable = [place for path in paths if isinstance(place := _usable(path), str)]
    numbers = (str(limit_bytes + 1), str(total_bytes + room_for(paths)))
    return _with_arguments(scripts.READ_MANY, (mark, *numbers, *usable))


def room_for(paths: Sequence[str]) -> int:
    """Return how many bytes are printed besides the contents, at most."""
    return _ROOM_PER_FILE * len(paths)


def parse_contents(
    printed: bytes, paths: Sequence[str], mark: str, *, limit_bytes: int, total_bytes: int
) -> tuple[bytes | FileAccessDenied, ...]:
    """Return what the text of `read_command` has printed, one for each of `paths`."""
    contents = _contents(printed, mark)
    found: list[bytes | FileAccessDenied] = []
    for path in paths:
        place = _usable(path)
        if isinstance(place, FileAccessDenied):
            found.append(place)
            continue
        data, status = next(contents, (b"", _NOT_PRINTED))
        reason = _reason(data, status, limit_bytes)
        total_bytes -= 0 if reason else len(data)
        if total_bytes < 0:
            reason = _TOO_MUCH
        found.append(FileAccessDenied(f'"{visible(path)}" {reason}') if reason else data)
    return tuple(found)


def _find_arguments(how: ScanOptions) -> tuple[str, ...]:
    if how.depth < 1:
        return ()
    names = [item for name in (*sorted(how.skip), *(() if how.hidden else (".*",))) for item in ("-o", "-name", name)]
    prune = ("-type", "d", "(", *names[1:], ")", "-prune") if names else ()
    return ("-mindepth", "1", "-maxdepth", str(how.depth), "-print0", *prune)


def _entry(record: bytes, place: str) -> Entry:
    mode_word, size, mtime, name = record.split(b" ", 3)
    mode = int(mode_word, 16)
    below = name.removeprefix(b"./").decode("utf-8", "surrogateescape")
    path = place if below == "." else f"{place}/{below}".lstrip("/")
    return Entry(path=path, kind=kind_of(mode), mode=stat.S_IMODE(mode), size_bytes=int(size), mtime_s=int(mtime))


def _problems(done: CommandResult) -> tuple[str, ...]:
    words = done.stderr.text if done.stderr is not None else ""
    lines = [truncate(visible(line), _PROBLEM_LENGTH) for line in words.split("\n") if line.startswith("find: ")]
    return tuple(lines[:_MAX_PROBLEMS])


def _contents(printed: bytes, mark: str) -> Iterator[tuple[bytes, int]]:
    position = 0
    for end in re.finditer(rb"\n%s ([0-9]{1,3})\n" % mark.encode(), printed):
        yield printed[position : end.start()], int(end.group(1))
        position = end.end()


def _reason(data: bytes, status: int, limit_bytes: int) -> str:
    if status == 0:
        return f"is larger than {limit_bytes} bytes" if len(data) > limit_bytes else ""
    return _TOO_MUCH if status == _NOT_PRINTED else _REASONS.get(status, "cannot be read")


def _usable(path: str) -> str | FileAccessDenied:
    try:
        place = relative_place(path)
    except FileAccessDenied as refusal:
        return refusal
    return place if place and not path.endswith("/") else FileAccessDenied(f'"{visible(path)}" is a folder, not a file')


def _with_arguments(script: str, arguments: Sequence[str]) -> bytes:
    quoted = " ".join("'{}'".format(argument.replace("'", "'\\''")) for argument in arguments)
    return f"set -- {quoted}\n{script}".encode("utf-8", "surrogateescape")
