"""The working directory as the context of a build: how large it is, and whether it changed (B18, B19).

What is copied for a build staging.py says, what .dockerignore leaves out ignorefile.py. The figures are for
warnings, so a walk ends early rather than keep anybody waiting.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from odek import safefile
from odek.sandbox.dockerlines import NAME
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.ignorefile import IGNORE_FILE, Ignore
from odek.sandbox.recipe import Dockerfile
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
