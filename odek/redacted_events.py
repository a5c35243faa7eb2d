"""Events without secrets, before a log keeps them, and a page, a terminal or a program sees them (R-360, R-395).

What is written piece by piece (the model's text and its thinking) is held back from where a secret may have begun
that goes on in the next piece: usually the last word. What is complete is redacted as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import cast

from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    ModelReplied,
    RequestStarted,
    TaskEvent,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    ToolOutput,
    TurnEnded,
    TurnStarted,
)
from odek.patterns import pattern
from odek.redact import KEY_NAMES, Redactor

_AS_IT_IS = frozenset({"event", "id", "task", "at", "call_id", "tool_call_id", "reasoning", "reasoning_state", "extra"})
"""fields that odek, or the server of the model, chose, and those that are not shown"""
_LONG = 4096
"""characters held back; more than that is not looked through again for each piece"""
_IN_A_WORD = "".join(map(chr, range(33, 127))) + "…\x1b"
_LEADS_ON = pattern(rf"(?i:(?:earer|{'|'.join(KEY_NAMES)}|[:=])\\{{0,3}}[\"']?\Z)")
"""a word whose value may be the next one"""
_KEY_BLOCK = pattern(
    r"-----BEGIN [A-Z ]{0,36}(?:-{0,4}\Z|-----(?:[A-Za-z0-9+/=\s|\\:,]|-(?!----)){0,20000}"
    r"(?:-{1,5}(?:E|EN|END)?\Z|-----END [A-Z ]{0,36}(?:-{0,4}\Z|-----))?)"
)


class RedactedEvents:
    """Takes the events of one session; those of one sub-agent come from one thread at a time."""

    def __init__(self, redact: Redactor) -> None:
        self.redact = redact
        self._pieces: dict[tuple[str, type[TextDelta | ThinkingDelta]], RedactedPieces] = {}

    def take(self, event: Event) -> Iterator[Event]:
        """Yield what may be seen now because of `event`. Questions are seen as they are: they are decided upon."""
        if not isinstance(event, TaskEvent):
            yield from self._take("", event)
            return
        for seen in self._take(event.task, event.event):
            yield TaskEvent(task=event.task, event=seen)

    def _take(self, task: str, event: Event) -> Iterator[Event]:
        if not isinstance(event, (ThinkingDelta, ToolOutput)):
            yield from self._end(task, ThinkingDelta)
        match event:
            case TextDelta() | ThinkingDelta():
                pieces = self._pieces.setdefault((task, type(event)), RedactedPieces(self.redact))
                if shown := pieces.take(event.text):
                    yield replace(event, text=shown)
                return
            case ToolOutput() | ApprovalRequested() | ApprovalAnswered():  # the first comes without secrets
                yield event
                return
            case RequestStarted() | TextVoided() | TurnStarted() | ModelReplied() | TurnEnded():  # no piece follows
                yield from self._end(task, TextDelta)
        yield cast("Event", self._clean(event))

    def _end(self, task: str, kind: type[TextDelta | ThinkingDelta]) -> Iterator[Event]:
        pieces = self._pieces.pop((task, kind), None)
        if pieces is not None and (rest := pieces.end()):
            yield kind(text=rest)

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: each if key in _AS_IT_IS else self._clean(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._clean, value))
        if is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in fields(value) if field.name not in _AS_IT_IS)
            return replace(value, **{name: self._clean(getattr(value, name)) for name in names})
        return value


class RedactedPieces:
    """One text that comes in pieces; what is given out is what the whole is without its secrets."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._spaced = tuple(form for form in redact.known if form.strip(_IN_A_WORD))
        self._held: list[str] = []
        self._size = 0

    def take(self, piece: str) -> str:
        """Return what may be seen now, which may be nothing."""
        self._held.append(piece)
        self._size += len(piece)
        if self._size > _LONG and not piece.strip(_IN_A_WORD):
            return ""
        text = "".join(self._held)
        place = may_go_on_at(text, self._spaced)
        self._held, self._size = [text[place:]], len(text) - place
        return self._redact(text[:place])

    def end(self) -> str:
        """Return the rest."""
        text, self._held, self._size = "".join(self._held), [], 0
        return self._redact(text)


def may_go_on_at(text: str, spaced: tuple[str, ...]) -> int:
    """Return where in `text` a secret begins, or may begin, of which more may come; its length for nowhere. Pure.

    `spaced` are the known secrets that are not of one word each.
    """
    place = _start_of_words(text)
    if "-----BEGIN " in text:
        ends = ((match.start(), match.end()) for match in _KEY_BLOCK.finditer(text))
        place = min([place, *(start for start, end in ends if end == len(text) or start < place < end)])
    while (earlier := min((_start_of(secret, text, place) for secret in spaced), default=place)) < place:
        place = earlier
    return place


def _start_of_words(text: str) -> int:
    """Return where the last word begins, or the one before that says what it is."""
    place = _start_of_word(text)
    while True:
        before = text[:place].rstrip(" \t")
        start = _start_of_word(before)
        says_what = _LEADS_ON.search(before, start) or text[place : place + 1] in (":", "=")
        if len(before) == place or start == len(before) or not says_what:
            return place
        place = start


def _start_of_word(text: str) -> int:
    start = len(text.rstrip(_IN_A_WORD))
    if text and not text[-1].isspace() and "://" in (last := text.rsplit(None, 1)[-1]):
        return len(text) - len(last)  # the password in an address may be of any letters
    return start


def _start_of(secret: str, text: str, place: int) -> int:
    """Return where `secret` begins in `text` so that it goes on behind `place`, `place` for nowhere."""
    found = text.find(secret, max(place - len(secret) + 1, 0))
    if 0 <= found < place:
        return found
    for start in range(max(len(text) - len(secret) + 1, 0), place):
        if text[start] == secret[0] and secret.startswith(text[start:]):
            return start
    return place
