"""The tags around everything that odek did not write itself: tool output, names, project notes.

The system prompt says once that what is inside is data. The tag carries a
nonce that the text cannot know, so that the text cannot close the tags.
"""

from __future__ import annotations

from collections.abc import Callable

from odek.patterns import pattern
from odek.text import visible

_NONCE = pattern(r"[0-9a-f]{16}")
_TAG_WORD = "untrusted_content"
_HARMLESS_WORD = "untrusted\u02cdcontent"  # modifier letter low macron: looks alike, matches nothing
_SOURCE_MARKS = str.maketrans({'"': "'", "<": "\u2039", ">": "\u203a", "\r": " ", "\n": " "})


def wrap_untrusted(text: str, *, source: str, nonce: Callable[[], str]) -> str:
    """Return `text` between two tags that carry a fresh nonce; empty text as it is.

    `source` says where the text comes from: a path, "$ COMMAND", "docker:sandbox-networks".
    `nonce` gives 16 lower-case hex digits, new ones at every call; what it raises passes through,
    because tags with a known nonce protect nothing (F-71). Raises ValueError for any other nonce.
    """
    if not text:
        return text
    tag = f"{_TAG_WORD}_{_checked(nonce())}"
    body = text.replace(_TAG_WORD, _HARMLESS_WORD)
    end = "" if body.endswith("\n") else "\n"
    shown = visible(source.translate(_SOURCE_MARKS)).replace(_TAG_WORD, _HARMLESS_WORD)
    return f'<{tag} source="{shown}">\n{body}{end}</{tag}>'


def _checked(nonce: str) -> str:
    if not _NONCE.fullmatch(nonce):
        raise ValueError("a nonce is 16 lower-case hex digits")
    return nonce
