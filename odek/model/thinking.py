"""Separate the thinking that a server leaves in the text of a reply, between tags, from the answer. Pure.

Only what a reply begins with counts: an answer may well speak of such tags further on. Some templates open
the thinking themselves, so that the closing tag alone arrives, in a line of its own; that shows at the end.
"""

from __future__ import annotations

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
}
_LONE_CLOSE = "</think>"
_LONGEST = max(map(len, _TAGS))


class ThinkingSplit:
    """Takes a reply's text as it comes and hands out what is part of the answer."""

    def __init__(self) -> None:
        self.tag = ""
        """how the thinking began; "" as long as there is none"""
        self._held = ""
        self._close = ""
        self._thoughts: list[str] = []
        self._open = ""
        """of a thought that is not closed yet, what has been handed out"""
        self._fresh: list[str] = []
        self._answering = False

    def take(self, text: str) -> str:
        """Add `text`; return what of the answer may be shown now."""
        if self._answering:
            return text
        self._held += text
        return self._think() if self._close else self._begin()

    def finish(self) -> str:
        """Return what was held back and belongs to the answer, at the end of the text."""
        held, self._held = self._held, ""
        if self._close:
            self._thoughts.append(self._open + held)
            return ""
        return held

    def take_thought(self) -> str:
        """Return the thinking that has come since the last call."""
        fresh, self._fresh = "".join(self._fresh), []
        return fresh

    @property
    def thinking(self) -> str:
        """the text between the tags so far"""
        return "\n".join(self._thoughts)

    def _begin(self) -> str:
        start = self._held.lstrip()
        for tag, close in _TAGS.items():
            if start.startswith(tag):
                self.tag, self._close, self._held = self.tag or tag, close, start[len(tag) :]
                return self._think()
        if not start or any(tag.startswith(start) for tag in _TAGS):
            return ""
        self._answering = True
        text, self._held = self._held, ""
        return text.lstrip("\r\n") if self.tag else text

    def _think(self) -> str:
        thought, closed, rest = self._held.partition(self._close)
        if not closed:
            kept = max((size for size in range(len(self._close)) if thought.endswith(self._close[:size])), default=0)
            begun, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
            self._open += begun
            self._fresh.append(begun)
            return ""
        self._thoughts.append(self._open + thought)
        self._fresh.append(thought)
        self._open, self._close, self._held = "", "", rest
        return self._begin()


def split_thinking(text: str) -> tuple[str, str, str]:
    """Return (tag, thinking, answer) of a whole text; without thinking the tag is ""."""
    split = ThinkingSplit()
    answer = split.take(text) + split.finish()
    if split.tag:
        return split.tag, split.thinking, answer
    thinking, answer = split_lone_close(text)
    return ("<think>" if thinking.strip() else ""), thinking, answer


def split_lone_close(text: str) -> tuple[str, str]:
    """Return (thinking, answer) of a text in which thinking is closed that was never opened, else ("", text)."""
    thought, closed, answer = text.partition(_LONE_CLOSE)
    alone = thought.endswith("\n") or answer.startswith("\n") or not answer.strip()
    if not closed or not alone or "<think" in thought or "`" in thought[-1:] or thought.count("```") % 2:
        return "", text
    return thought, answer.lstrip("\r\n")


def joined(tag: str, thinking: str, answer: str) -> str:
    """Return a text that begins with thinking, as it came."""
    return f"{tag}{thinking}{_TAGS[tag]}\n\n{answer}"


def is_tag(name: str) -> bool:
    """Return whether `name`, of a field of reasoning, is a tag in the text instead."""
    return name in _TAGS
