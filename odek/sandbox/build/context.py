"""The build context: how large it is, whether it changed, and the copy that the docker client gets (R-36, B18, B19).

The client resolves a path anew at each moment of packing: another program that may write the folder above
the project could exchange it for a while. So the files are copied first, through descriptors of the very
folder that was approved: no link is followed, and nothing is copied that the Dockerfile does not ask for
(dockerignore.py leaves out more). Sizes are for warnings, so that walk ends early on a very large tree.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain

from odek import safefile
from odek.sandbox.build.dockerfile import NAME, Dockerfile
from odek.sandbox.build.dockerignore import IGNORE_FILE, Ignore
from odek.sandbox.errors import SandboxConfigError
from odek.text import visible

LARGE_BYTES = 200 << 20
MANY_FILES = 20_000
WALK_S = 1.5  # a warning is due within 3 seconds
_WALK_FILES = 200_000
_FINGERPRINT_FILES = 20_000
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """How much a build would be sent."""

    files: int
    size_bytes: int
    is_whole: bool
    """False: the walk ended early, there is more"""
    largest: tuple[str, int]
    """the entry of the folder that holds most of it, and its size in bytes"""

    @property
    def is_large(self) -> bool:
        return not self.is_whole or self.size_bytes > LARGE_BYTES or self.files > MANY_FILES


def read_dockerfile(folder: str | int) -> Dockerfile | None:
    """Return `folder`/Dockerfile.odek and its .dockerignore, read once, or None when there is no such Dockerfile.

    `folder` is a name or a descriptor. Raises SandboxConfigError for a link, anything else that is not a
    regular file, and above 1 MiB: Docker's client would follow a link and wait for a FIFO.
    """
    data = _read_plain(folder, NAME)
    return None if data is None else Dockerfile(data=data, ignore=read_ignore(folder))


def read_ignore(folder: str | int) -> bytes:
    """Return the bytes of `folder`/.dockerignore, none when it is missing. Raises SandboxConfigError as above."""
    return _read_plain(folder, IGNORE_FILE) or b""


def measure_context(folder: str, sources: tuple[str, ...], ignore: Ignore, *, now: Callable[[], float]) -> ContextSize:
    """Return the size of what a build that copies `sources` of `folder` is sent; `now` gives seconds."""
    deadline = now() + WALK_S
    files = size = 0
    tops: dict[str, int] = {}
    is_whole = True
    for path, status in chain.from_iterable(_walk(folder, fixed_part(source), ignore) for source in sources):
        if files >= _WALK_FILES or (files % 256 == 0 and now() > deadline):
            is_whole = False
            break
        files += 1
        if stat.S_ISREG(status.st_mode):
            size += status.st_size
            top = path.split("/", 1)[0]
            tops[top] = tops.get(top, 0) + status.st_size
    largest = max(tops.items(), key=lambda item: item[1], default=("", 0))
    return ContextSize(files=files, size_bytes=size, is_whole=is_whole, largest=largest)


def describe_size(size: ContextSize) -> str:
    """Return a sentence about a large context. Pure."""
    name, part = size.largest
    more = "" if size.is_whole else "more than "
    most = (
        f"; the most of it is in {visible(name)} ({part / 1e6:.0f} MB)" if name and part > size.size_bytes / 4 else ""
    )
    return f"Docker gets {more}{size.size_bytes / 1e6:.0f} MB in {size.files} files for the build{most}"


def fingerprint_sources(folder: str, sources: tuple[str, ...], ignore: Ignore) -> str:
    """Return a digest of names, sizes, modes and times of what a build copies.

    "" when nothing is copied, or too much to look at each time.
    """
    digest = hashlib.sha256()
    count = 0
    for source in sorted(sources):
        for path, status in _walk(folder, fixed_part(source), ignore):
            count += 1
            if count > _FINGERPRINT_FILES:
                return ""
            entry = (path, status.st_mode, status.st_size, status.st_mtime_ns)
            digest.update("\0".join(map(str, entry)).encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest() if count else ""


def _walk(folder: str, start: str, ignore: Ignore) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative path, status) of every file below `start`, in a fixed order; links are not followed."""
    waiting = [os.path.normpath(start).lstrip("/")]
    while waiting:
        path = waiting.pop()
        full = os.path.join(folder, path)
        try:
            status = os.lstat(full)
            is_folder = stat.S_ISDIR(status.st_mode)
            names = sorted(os.listdir(full), reverse=True) if is_folder else []
        except OSError:  # Docker will name what it cannot read
            continue
        if path not in (".", "") and ignore.leaves_out(path) and not (is_folder and ignore.has_exceptions):
            continue
        if is_folder:
            waiting += [name if path in (".", "") else f"{path}/{name}" for name in names]
        elif not ignore.leaves_out(path):
            yield path, status


def fixed_part(source: str) -> str:
    """Return the part of a path before its first wildcard; never above the folder, as Docker has it."""
    parts: list[str] = []
    for part in source.split("/"):
        if re.search(r"[*?\[\\]", part):
            break
        parts.append(part)
    path = os.path.normpath("/" + "/".join(parts)).lstrip("/")
    return path or "."


def _read_plain(folder: str | int, name: str) -> bytes | None:
    try:
        if isinstance(folder, int):
            return safefile.read_regular(name, dir_fd=folder, limit_bytes=_MAX_BYTES)
        return safefile.read_regular(os.path.join(folder, name), limit_bytes=_MAX_BYTES)
    except FileNotFoundError:
        return None
    except safefile.NotRegular as error:
        raise SandboxConfigError(
            f"{name} is not a regular file", hint="it must be a file, not a folder or a link"
        ) from error
    except safefile.TooLarge as error:
        raise SandboxConfigError(f"{name} is larger than {_MAX_BYTES >> 20} MiB", hint="make it smaller") from error
    except OSError as error:
        raise SandboxConfigError(
            f"{name} cannot be read: {error.strerror}", hint="it must be a file, not a link"
        ) from error


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_EVERYTHING = "."
_MAX_DEPTH = 200  # each level costs an open descriptor


def copy_context(folder: int, sources: tuple[str, ...], ignore: Ignore, target: str) -> None:
    """Copy `sources` of the folder behind the descriptor `folder` to the new folder `target`, with modes and times.

    Links stay links; what is neither file, folder nor link is left out. What `ignore` leaves out is, too,
    and its file comes along for the builder's own reading. Raises SandboxConfigError.
    """
    try:
        os.mkdir(target, 0o700)
    except OSError as error:
        raise _refused(".", error) from error
    copy = _Copy(target=target, ignore=ignore, own=_identity(os.stat(target)))
    parts = {fixed_part(source) for source in sources}
    if any(_passes_link(folder, part) for part in parts):
        parts = {_EVERYTHING}  # a builder follows it inside of the folder; what is behind it is needed, too
    outermost = sorted(part for part in parts if parts.isdisjoint(_above(part)))
    for part in (*outermost, *(() if _EVERYTHING in parts or IGNORE_FILE in parts else (IGNORE_FILE,))):
        copy.take(folder, part)


def digest_tree(folder: str) -> str:
    """Return a digest of names, modes and contents (targets, of links) below `folder`, a copy made by `copy_context`.

    Raises SandboxConfigError.
    """
    digest = hashlib.sha256()
    waiting = [""]
    try:
        while waiting:
            path = waiting.pop()
            full = os.path.join(folder, path)
            mode = os.lstat(full).st_mode
            content = b""
            if stat.S_ISDIR(mode):
                waiting += [os.path.join(path, name) for name in sorted(os.listdir(full), reverse=True)]
            elif stat.S_ISLNK(mode):
                content = os.fsencode(os.readlink(full))
            else:
                content = _digest_file(full)
            # three fields without NUL, each ended by one: no two trees come out alike
            for item in (os.fsencode(path), b"%o" % mode if path else b"", content):
                digest.update(item + b"\0")
    except OSError as error:
        raise _refused(path, error) from error
    return digest.hexdigest()


def _digest_file(path: str) -> bytes:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK_BYTES):
            digest.update(data)
    return digest.hexdigest().encode()


@dataclass(slots=True)
class _Copy:
    target: str
    ignore: Ignore
    own: tuple[int, int]
    """device and inode of the target: it may lie in the folder that is copied"""
    made: set[str] = field(default_factory=set)
    """folders in the target"""

    def take(self, folder: int, part: str) -> None:
        """Copy what is at `part`, relative to `folder`; nothing when it is not there: the builder will say so."""
        try:
            with closing(_Descent(folder)) as here:
                *above, name = part.split("/")
                for component in above:
                    here.enter(component)
                self._entry(here.descriptor, name, "" if part == _EVERYTHING else part)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _refused(part, error) from error

    def _entry(self, folder: int, name: str, path: str) -> None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            left_out = path not in ("", IGNORE_FILE) and self.ignore.is_exact and self.ignore.leaves_out(path)
            if left_out and not (is_folder and self.ignore.has_exceptions):
                return
            if is_folder:
                self._folder(folder, name, path, is_made=not left_out)
                return
            self._make(os.path.dirname(path))
            if stat.S_ISREG(status.st_mode):
                self._file(folder, name, path)
            elif stat.S_ISLNK(status.st_mode) and path != IGNORE_FILE:  # the client would follow that one
                os.symlink(os.readlink(name, dir_fd=folder), self._place(path))
        except FileNotFoundError:  # gone meanwhile
            return
        except OSError as error:
            raise _refused(path or ".", error) from error

    def _folder(self, folder: int, name: str, path: str, *, is_made: bool) -> None:
        if path.count("/") >= _MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"folders lie in each other more than {_MAX_DEPTH} deep")
        descriptor = os.open(name, safefile.FOLDER_FLAGS, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            if _identity(status) == self.own:
                return
            if is_made:
                self._make(path)
            for inner in sorted(os.listdir(descriptor)):
                self._entry(descriptor, inner, f"{path}/{inner}" if path else inner)
        finally:
            os.close(descriptor)
        place = self._place(path)
        if path and os.path.isdir(place):
            os.chmod(place, stat.S_IMODE(status.st_mode))
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _file(self, folder: int, name: str, path: str) -> None:
        try:
            source = safefile.open_regular(name, dir_fd=folder)
        except safefile.NotRegular:  # exchanged since it was looked at
            return
        try:
            status = os.fstat(source)
            copy = os.open(self._place(path), _NEW_FILE, 0o600)
            try:
                while data := os.read(source, _CHUNK_BYTES):
                    while data := data[os.write(copy, data) :]:
                        pass
                os.fchmod(copy, stat.S_IMODE(status.st_mode))
                os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(copy)
        finally:
            os.close(source)

    def _make(self, path: str) -> None:
        if path not in self.made:
            os.makedirs(self._place(path), exist_ok=True)
            self.made.add(path)

    def _place(self, path: str) -> str:
        return os.path.join(self.target, path)


class _Descent:
    """A descriptor that goes down folder by folder, through no link."""

    def __init__(self, folder: int) -> None:
        self.descriptor = os.open(".", safefile.FOLDER_FLAGS, dir_fd=folder)

    def enter(self, name: str) -> None:
        below = os.open(name, safefile.FOLDER_FLAGS, dir_fd=self.descriptor)
        os.close(self.descriptor)
        self.descriptor = below

    def close(self) -> None:
        os.close(self.descriptor)


def _passes_link(folder: int, part: str) -> bool:
    """Return whether `part` is or leads over a link, as far as it is there."""
    with closing(_Descent(folder)) as here:
        for component in part.split("/"):
            try:
                if stat.S_ISLNK(os.stat(component, dir_fd=here.descriptor, follow_symlinks=False).st_mode):
                    return True
                here.enter(component)
            except OSError:
                return False
    return False


def _above(part: str) -> set[str]:
    """Return the paths of the folders that hold `part`."""
    parts = part.split("/")
    above = {"/".join(parts[:number]) for number in range(1, len(parts))}
    return above if part == _EVERYTHING else above | {_EVERYTHING}


def _refused(path: str, error: OSError) -> SandboxConfigError:
    return SandboxConfigError(
        f'"{visible(path)}" cannot be copied for the build: {error.strerror}',
        hint=f"name in {IGNORE_FILE} what the build does not need; TMPDIR names the folder for the copy",
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
