"""The manual page and the completions that scripts/install.sh has written: the new odek writes them again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from odek import safefile
from odek.text import visible

_MAN = ("man", "--roff")
_LIMIT_BYTES = 4 << 20
_NEW = ".odek-extra"

Print = Callable[[tuple[str, ...]], bytes | None]
"""what odek prints when it is called with these arguments, None when it fails"""


def places_of(target: str, home: str, env: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield where the installer may have put something, and the arguments of odek that print it. Pure."""
    folder, name = os.path.split(os.path.dirname(target))
    if name == "bin":
        share = os.path.join(folder, "share")
        yield from _shared(share)
        yield os.path.join(share, "fish/vendor_completions.d/odek.fish"), ("completion", "fish")
    if home:
        data, settings = (
            env.get(variable, "") if env.get(variable, "").startswith("/") else os.path.join(home, usual)
            for variable, usual in (("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config"))
        )
        if not (name == "bin" and os.path.join(folder, "share") == data):
            yield from _shared(data)
        yield os.path.join(settings, "fish/completions/odek.fish"), ("completion", "fish")


def _shared(data: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield os.path.join(data, "man/man1/odek.1"), _MAN
    yield os.path.join(data, "bash-completion/completions/odek"), ("completion", "bash")
    yield os.path.join(data, "zsh/site-functions/_odek"), ("completion", "zsh")


def is_extra(content: bytes) -> bool:
    """Return whether `content` is odek's own, as the installer knows it: by the first two lines."""
    head = content.split(b"\n", 2)[:2]
    return head[0].startswith(b".TH ODEK 1") or any(b" completion for odek; put it " in line for line in head)


def refresh(target: str, home: str, env: Mapping[str, str], output_of: Print) -> Iterator[str]:
    """Write again what is there and odek's own, through no link; yield a line about each. Raises nothing."""
    for path, arguments in places_of(target, home, env):
        try:
            old = safefile.read_regular(path, limit_bytes=_LIMIT_BYTES)
        except OSError:
            continue
        new = output_of(arguments) if is_extra(old) else None
        if new is None or new == old or not is_extra(new):
            continue
        try:
            _write(path, new)
        except OSError as error:
            yield f"{visible(path)} is still the old one: {error.strerror}"
        else:
            yield f"wrote {visible(path)}"


def _write(path: str, data: bytes) -> None:
    above, name = os.path.split(path)
    folder = os.open(above, safefile.FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(_NEW, flags, 0o644, dir_fd=folder), "wb") as file:
                file.write(data)
            os.replace(_NEW, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(_NEW, dir_fd=folder)
            raise
    finally:
        os.close(folder)
