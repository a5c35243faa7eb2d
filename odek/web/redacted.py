"""Events without secrets, before a log keeps them and a page sees them (R-360).

What is written piece by piece (the model's text and its thinking) is held back from where a secret may have begun
that goes on in the next piece: usually the last word. What is complete is redacted as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odek.patterns import pattern
from odek.redact import KEY_NAMES, Redactor

Event = Mapping[str, object]
_AS_IT_IS = frozenset({"event", "id", "task", "at"})
"""fields that odek, or the server of the model, chose"""
_STREAMS = frozenset({"text", "thinking"})
_REPLACING = frozenset({"turn_started", "model_asked", "model_replied", "text_voided", "turn_ended"})
"""after them no piece before counts: the whole comes, or nothing"""
_LONG = 4096
"""characters held back; more than that is not looked through again for each piece"""
_IN_A_WORD = "".join(map(chr, range(33, 127))) + "…"
_LEADS_ON = pattern(rf"(?i:(?:earer|{'|'.join(KEY_NAMES)}|[:=])[\"']?\Z)")
"""a word whose value may be the next one"""
_KEY_BLOCK = pattern(
    r"-----BEGIN [A-Z ]{0,36}(?:-{0,4}\Z|-----(?:[A-Za-z0-9+/=\s|\\:,]|-(?!----)){0,20000}"
    r"(?:-{1,5}(?:E|EN|END)?\Z|-----END [A-Z ]{0,36}(?:-{0,4}\Z|-----))?)"
)


class RedactedEvents:
    """Takes the events of one session as JSON values; those of one sub-agent come from one thread at a time."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._pieces: dict[tuple[object, str], RedactedPieces] = {}

    def take(self, event: Event) -> Iterator[dict[str, object]]:
        """Yield what may be seen now because of `event`."""
        kind, task = str(event["event"]), event.get("task")
        if kind in _STREAMS:
            if kind == "text":
                yield from self._end(task, "thinking")
            pieces = self._pieces.setdefault((task, kind), RedactedPieces(self._redact))
            if shown := pieces.take(str(event["text"])):
                yield {**event, "text": shown}
            return
        if kind != "tool_output":
            yield from self._end(task, "thinking")
        if kind in _REPLACING:
            self._pieces.pop((task, "text"), None)
        yield {key: value if key in _AS_IT_IS else self._clean(value) for key, value in event.items()}

    def _end(self, task: object, kind: str) -> Iterator[dict[str, object]]:
        pieces = self._pieces.pop((task, kind), None)
        if pieces is not None and (rest := pieces.end()):
            yield {"event": kind, "text": rest, **({} if task is None else {"task": task})}

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            return {key: each if key in _AS_IT_IS else self._clean(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(each) for each in value]
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
