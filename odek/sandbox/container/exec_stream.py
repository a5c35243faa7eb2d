"""The two output streams of one exec of the wrapper (scripts.RUN), with the wrapper's own lines taken out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from odek.patterns import pattern
from odek.process import Capture, Output
from odek.sandbox.container import scripts

OUTPUT_LIMIT_BYTES = 1 << 18  # far more than a model is shown; the rest is counted, not kept
_LINE_BYTES = 64  # of the longest line of ours
# What an engine says that has not started an exec. That it does not know one (any more) says nothing of the kind.
_NOT_STARTED = pattern(
    rb"Error response from daemon: (?!No such exec)|OCI runtime exec failed"
    rb"|^Error: (?:can only create exec sessions|no container|crun: |runc: |OCI )",  # of podman
    re.MULTILINE,
)
_WORDS = (scripts.READY_WORD, scripts.HERE_WORD, scripts.CUT, scripts.RESTARTED)


class ExecStreams:
    """What an exec has said so far: output of its text, and what its wrapper reports."""

    def __init__(self, mark: str, end: str, *, checks: bool = False) -> None:
        """`mark` and `end` are the call's names, see scripts.RUN; `checks`: it begins with scripts.CHECK."""
        self.mark = mark
        self.end = end
        self.checked: int | None = None
        """exit status of the check; None until it has ended"""
        self._checks = checks
        self.here = False
        """whether it has answered that it waits"""
        self.began = False
        self.started = ""
        """when the text's shell started, in clock ticks of the container's machine, and the PID of its wrapper;
        "" until it has"""
        self.status: int | None = None
        """exit status of the text; None until it has ended"""
        self._ready = False
        self._refusal = ""
        self._unrun = False
        self._apart = False
        self._stdout_ended = self._stderr_ended = False
        self._stdout = _Stream(mark, end, self._note_on_stdout, OUTPUT_LIMIT_BYTES)
        # what comes before it are words of the client's own, as those of podman-docker at every call
        self._stderr = _Stream(mark, end, self._note_on_stderr, OUTPUT_LIMIT_BYTES, opening=scripts.READY_WORD)

    def expect(self, *, apart: bool, limit_bytes: int) -> None:
        """Prepare for a text, before it is sent: how much of its stdout is kept, and whether its stderr is separate."""
        self._apart = apart
        self._stdout = _Stream(self.mark, self.end, self._note_on_stdout, limit_bytes)

    def feed_stdout(self, chunk: bytes) -> None:
        self._stdout.feed(chunk)

    def feed_stderr(self, chunk: bytes) -> None:
        self._stderr.feed(chunk)

    @property
    def ended(self) -> bool:
        """whether the text has ended and all that it printed has arrived"""
        return self._stdout_ended and (self._stderr_ended or not self._apart)

    @property
    def stdout(self) -> Output:
        return self._stdout.output()

    @property
    def stderr(self) -> Output:
        """of a text whose stderr is separate, and of Docker as long as the wrapper has not said a word"""
        return self._stderr.output()

    @property
    def refusal(self) -> str:
        """the wrapper's reason for running nothing; "" where it has not given one, or the text began nevertheless:
        the mark is public, and this may be the text's own line"""
        return "" if self.began else self._refusal

    @property
    def has_run(self) -> bool | None:
        """whether the text has run at all, as a client that has ended shows; None: not known

        Only words count. The connection to an exec may have been lost with the news of it, whatever status the
        client ended with: that of an exec at work (0), or of one that has ended meanwhile (its own).
        """
        if self.began:
            return True
        if self._refusal or self._unrun or self.status is not None:
            return False
        # what the engine says itself comes instead of a wrapper's first line
        refused = not self._ready and _NOT_STARTED.search(self.stderr.data + b"\n" + self.stdout.data)
        return False if refused else None

    def _note_on_stdout(self, name: str, word: str) -> bool:
        """Take a line of the wrapper; return whether it is one."""
        if name == self.mark and self._note_check(word):
            return True
        if name != self.end:
            return False
        self._note_report(word)
        self._stdout_ended |= word.isdigit()
        return True

    def _note_check(self, word: str) -> bool:
        said, _, status = word.partition(" ")
        if not self._checks or self.checked is not None or said != scripts.CHECKED_WORD or not status.isdigit():
            return False  # the mark is public: later ones are output
        self.checked = int(status)
        return True

    def _note_report(self, word: str) -> None:
        if word.startswith("began "):
            self.began, self.started = True, word.removeprefix("began ")
        elif word.isdigit():
            self.status = int(word)
        self._unrun |= word == scripts.UNRUN

    def _note_on_stderr(self, name: str, word: str) -> bool:
        if name == self.end:
            self._note_report(word)
            self._stderr_ended |= word.isdigit()
            return True
        self._ready |= word == scripts.READY_WORD
        self.here |= word == scripts.HERE_WORD
        if word in (scripts.CUT, scripts.RESTARTED):
            self._refusal = word
        return word in _WORDS


class _Stream:
    """A stream whose lines of ours, each with a line end before it, go to `note` and not into the output."""

    def __init__(
        self, mark: str, end: str, note: Callable[[str, str], bool], limit_bytes: int, *, opening: str = ""
    ) -> None:
        """`opening`: the word of ours whose first line takes with it all that came before."""
        self._opening = opening
        self._limit_bytes = limit_bytes
        self._names = (mark.encode(), end.encode())
        self._line = re.compile(rb"\n(%s|%s) ([a-z0-9 ]{1,30})\n" % tuple(map(re.escape, self._names)))
        self._note = note
        self._capture = Capture(limit_bytes)
        self._held = b""
        """the end of what has arrived, where a line of ours may begin"""

    def feed(self, chunk: bytes) -> None:
        data = self._held + chunk if self._held else chunk
        start = 0
        while found := self._line.search(data, start):
            ours = self._note(found[1].decode(), found[2].decode())
            if ours and found[2].decode() == self._opening:
                self._opening = ""
                self._capture = Capture(self._limit_bytes)
            else:  # the line end behind a foreign line may be the one before a line of ours
                self._capture.feed(data[start : found.start()] if ours else data[start : found.end() - 1])
            start = found.end() if ours else found.end() - 1
        held = self._may_begin(data, start)
        self._capture.feed(data[start:held])
        self._held = data[held:]

    def output(self) -> Output:
        """Return what has arrived, but for lines of ours."""
        self._capture.feed(self._held)
        self._held = b""
        return self._capture.output()

    def _may_begin(self, data: bytes, start: int) -> int:
        """Return from where on `data` may be the beginning of a line of ours; its length if nowhere."""
        place = data.rfind(b"\n", max(start, len(data) - _LINE_BYTES))
        tail = data[place + 1 :]
        if place < 0 or not any(name.startswith(tail[: len(name)]) for name in self._names):
            return len(data)
        return place
