"""The output of a command as the model gets to read it: valid text of bounded length (R-41, B03)."""

from __future__ import annotations

from odek.process import Output

_KEPT_CONTROLS = "\n\t"
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT_CONTROLS
} | dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
"""control characters, and the bytes that are no UTF-8 as `surrogateescape` represents them"""


def render_output(output: Output, *, limit: int) -> str:
    """Return `output` in at most about `limit` characters: all of it, or head, marker and tail.

    The marker tells how many bytes are left out. Line ends become LF; other control characters
    are shown as escapes, bytes that are no UTF-8 as U+FFFD.
    """
    if output.omitted_bytes == 0:
        text = _decode(output.data)
        shown = _render(text)
        if len(shown) <= limit:
            return shown
        head = _prefix(text, limit // 2)
        tail = _suffix(text[len(head) :], limit // 2)
    else:
        head = _prefix(_decode(output.head).rstrip(_HALF_CHARACTERS), limit // 2)
        tail = _suffix(_decode(output.tail).lstrip(_HALF_CHARACTERS), limit // 2)
    omitted = output.size_bytes - _size_bytes(head) - _size_bytes(tail)
    return f"{_render(head)}\n[… {omitted} bytes left out …]\n{_render(tail)}"


_HALF_CHARACTERS = "".join(map(chr, range(0xDC80, 0xDD00)))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _size_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _render(text: str) -> str:
    return text.replace("\r\n", "\n").translate(_ESCAPES)


def _prefix(text: str, limit: int) -> str:
    """Return as much of the beginning of `text` as fits into `limit` characters when rendered."""
    room = limit
    for index, character in enumerate(text):
        room -= len(_ESCAPES.get(ord(character), character))
        if room < 0:
            return text[:index]
    return text


def _suffix(text: str, limit: int) -> str:
    return _prefix(text[::-1], limit)[::-1]
