"""Foreign text made safe to look at (R-64).

Whatever a project, Docker, a model, a file name or a command chose may carry bytes that move the
cursor, hide characters or reorder them. Every prompt, list, log and error shows such text through
this module and nothing else.
"""

from __future__ import annotations

from odek.patterns import pattern

# Code points that Python calls printable and that show nothing of their own: combining grapheme joiner, Hangul
# fillers, Khmer inherent vowels, Mongolian selectors, the empty Braille cell, variation selectors, fillers of Khitan
# and of musical notation. Controls, formats (bidi, zero width, tags, those of hieroglyphs), blanks other than the
# space, private use, surrogates and what is unassigned are not printable (str.isprintable).
_INVISIBLE_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFC),
    (0x16FE4, 0x16FE4),
    (0x1D159, 0x1D159),
    (0xE0000, 0xE0FFF),
)

# zero-width (non-)joiner, text and emoji presentation; blanks of French and of Japanese text
_JOINERS = "\u200c\u200d\ufe0e\ufe0f\xa0\u202f\u3000"
_JOINER = pattern(f"([{_JOINERS}])")


def visible(text: str) -> str:
    """Return `text` on one line, every control or invisible character as a backslash escape."""
    return "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """Return `text` with its line ends and tabs kept and everything else as `visible` has it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(visible(cell) for cell in line.split("\t")) for line in lines)


def visible_prose(text: str) -> str:
    """Return `text` as `visible_lines` has it, but for what emoji and some scripts need besides letters.

    For what a person reads and decides nothing by, such as an answer.
    """
    return "".join(part if part in _JOINERS else visible_lines(part) for part in _JOINER.split(text))


def truncate(text: str, limit: int) -> str:
    """Return `text`, or its head with a mark when it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def shorten_words(text: str, limit: int) -> str:
    """Return `text` with both ends of each word that is longer than `limit` characters, such as an endless path."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    lines = (
        " ".join(word if len(word) <= limit else f"{word[:half]}…{word[-half:]}" for word in line.split(" "))
        for line in text.split("\n")
    )
    return "\n".join(lines)


def render_usd(amount: float) -> str:
    """Return an amount of USD: cents, or as many digits as a small one needs."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def plural(count: int, noun: str) -> str:
    """Return "1 file", "2 files"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shown(character: str) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if not character.isprintable() or any(low <= code <= high for low, high in _INVISIBLE_RANGES):
        return escaped(character)
    return character


def escaped(character: str) -> str:
    """Return the backslash escape of a character beyond ASCII."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
