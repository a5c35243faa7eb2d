"""What is sent to the wrapper in the container (scripts.RUN), so that it can tell the whole from a part. Pure.

A docker client that is killed while it writes looks, inside, like the end of its input. So the header of
what is sent ends in a line of the call's own, a long text ends in it as well, and content comes with its
size: nothing runs, and no file is replaced, before the last byte was there.
"""

from __future__ import annotations

from collections.abc import Sequence

SHORT_BYTES = 4096
"""texts up to this size stand in the header, which the shell reads by itself; longer ones need `cat`"""


def pack_text(text: bytes, mark: str, *, umask: int, apart: bool) -> bytes:
    """Return the stdin of a wrapper that is to run a shell text; `apart`: with stderr on its own."""
    kind = b"apart" if apart else b"joint"
    if len(text) <= SHORT_BYTES:
        return _pack(mark, (kind, _octal(umask), text))
    return _pack(mark, (kind + b"-long", _octal(umask))) + text + f"#{mark}".encode()


def pack_script(script: str, arguments: Sequence[str], mark: str, *, umask: int, data: bytes = b"") -> bytes:
    """Return the stdin of a wrapper that is to run one of the file scripts, with `data` as its stdin."""
    words = [word.encode("utf-8", "surrogateescape") for word in (script, *arguments)]
    return _pack(mark, (b"file", _octal(umask), *words)) + data


def _pack(mark: str, words: Sequence[bytes]) -> bytes:
    quoted = b" ".join(b"'%s'" % word.replace(b"'", b"'\\''") for word in words)
    return b"set -- %s\n#%s\n" % (quoted, mark.encode())


def _octal(umask: int) -> bytes:
    return b"%04o" % umask
