"""A regular expression tried on many texts, under a limit that it cannot overrun.

Python's `re` goes through all ways to match, and some patterns have more of those than there is
time; nothing in the same interpreter can stop it. So it works in an interpreter of its own, which
is killed when the time is up. What it had found by then is kept.
"""

from __future__ import annotations

import json
import marshal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from odek.errors import ExecutableMissing
from odek.process import run

SHOWN_CHARACTERS = 300  # of a matching line, around the match
_ANSWER_LIMIT_BYTES = 32 << 20  # read from its head; a match takes at most 2 KiB of it
# -I -S: nothing of the user's environment, and nothing from the working directory, is imported
_START = ("-I", "-S", "-c", "import marshal, sys; exec(marshal.load(sys.stdin.buffer))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that matches."""

    index: int
    """which of the texts"""
    line: int
    """from 1"""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchResult:
    """What came of a search."""

    hits: tuple[Match, ...]
    more: bool = False
    """whether there are more than were asked for"""
    stuck_at: int | None = None
    """the text that was being searched when the time was up"""
    error: str = ""
    """why the pattern cannot be used at all"""


def find_matches(pattern: str, texts: Sequence[bytes], *, limit: int, timeout_s: float) -> MatchResult:
    """Return the first `limit` lines of `texts` in which `pattern` is found.

    Bytes that are no UTF-8 count as U+FFFD. A line is never longer than SHOWN_CHARACTERS.
    """
    job = marshal.dumps(_work.__code__) + marshal.dumps((pattern, limit, SHOWN_CHARACTERS, tuple(texts)))
    try:
        done = run((sys.executable, *_START), env={}, stdin=job, timeout_s=timeout_s, limit_bytes=_ANSWER_LIMIT_BYTES)
    except ExecutableMissing as error:
        return MatchResult(hits=(), error=error.message)
    found = _parse(done.stdout.head.decode(), limit)
    if done.timed_out or found.error or done.code == 0:
        return found
    return MatchResult(hits=(), error=f"the search ended with status {done.code}")


def _parse(answer: str, limit: int) -> MatchResult:
    """Return what the lines of `answer` say; the last one may be cut off."""
    hits: list[Match] = []
    current: int | None = None
    for line in answer.split("\n")[:-1]:
        value = json.loads(line)
        match value:
            case int():
                current = value if value >= 0 else None
            case str():
                return MatchResult(hits=(), error=value)
            case [number, text]:
                hits.append(Match(index=current or 0, line=number, text=text))
    return MatchResult(hits=tuple(hits[:limit]), more=len(hits) > limit, stuck_at=current)


def _work() -> None:
    """Runs in the other interpreter, which has nothing but this code: no name from outside may occur.

    Prints JSON, a value a line: the number of a text before it is searched, [line, text] for a
    match, -1 at the end, and a string when the pattern is wrong.
    """
    import json
    import marshal
    import re
    import sys

    pattern, limit, width, texts = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the process that started it
    write = sys.stdout.write
    try:
        search = re.compile(pattern).search
    except (re.error, OverflowError, RecursionError) as error:
        write(json.dumps(str(error)) + "\n")
        return
    for index, data in enumerate(texts):
        write(f"{index}\n")
        sys.stdout.flush()
        for number, ended in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            line = ended.removesuffix("\r")
            hit = search(line)
            if hit is None:
                continue
            start = max(0, min(hit.start() - width // 3, len(line) - width))
            text = line[start : start + width]
            write(json.dumps([number, f"{'…' * (start > 0)}{text}{'…' * (start + width < len(line))}"]) + "\n")
            limit -= 1
            if limit < 0:  # one more than asked for: so there are more
                write("-1\n")
                return
    write("-1\n")
