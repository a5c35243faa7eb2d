"""Server-sent events: bytes in, events out, no input or output of its own.

The format is the one of the HTML standard, section 9.2 ("event stream"). Three things differ, all
because of servers that exist: an event whose closing blank line is missing at the end of the
stream is given out by `finish`; `id` and `retry` are skipped, since nothing reconnects; and a field
called "error", which the standard does not know, is an event of that name (B88).
"""

from __future__ import annotations

from dataclasses import dataclass

from odek.model.errors import ModelProtocolError
from odek.patterns import pattern

# 16 MiB: a provider may send a whole answer as one event; a file of 1 MiB quoted twice is 4 MiB.
EVENT_LIMIT_BYTES = 16 << 20
_LINE_END = pattern(rb"\r\n|\r|\n")
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent:
    """One event: its type ("" when not named) and its data lines joined by newlines."""

    event: str = ""
    data: str


class SseParser:
    """Cuts a stream into events, wherever the chunks of the network happen to end."""

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._after_cr = False
        self._at_start = True
        self._event = ""
        self._data: list[str] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes. Raises ModelProtocolError beyond the size limit."""
        if self._after_cr and chunk:
            # the CR already ended its line, without waiting for a LF that may never come
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
            self._after_cr = False
        self._buffer += chunk
        events = []
        for line in self._cut_lines():
            event = self._take(line)
            if event is not None:
                events.append(event)
        self._check_size(len(self._buffer))
        return events

    def finish(self) -> list[SseEvent]:
        """Return the event that the end of the stream left open, if any."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        if rest:
            self._take(rest)
        event = self._close()
        return [] if event is None else [event]

    def _cut_lines(self) -> list[bytes]:
        lines = []
        start = 0
        for match in _LINE_END.finditer(self._buffer, self._scanned):
            lines.append(bytes(self._buffer[start : match.start()]))
            start = match.end()
            self._after_cr = match.group() == b"\r" and start == len(self._buffer)
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        return lines

    def _take(self, raw: bytes) -> SseEvent | None:
        line = raw.decode("utf-8", errors="replace")
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            return self._close()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "error":
            self._event, field = "error", "data"
        if field == "data":
            self._data.append(value)
            self._data_size += len(raw)
            self._check_size(self._data_size)
        elif field == "event":
            self._event = value
        return None

    def _close(self) -> SseEvent | None:
        event = SseEvent(event=self._event, data="\n".join(self._data)) if self._data else None
        self._event = ""
        self._data = []
        self._data_size = 0
        return event

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            raise ModelProtocolError(f"the model's server sent one event of more than {self._limit_bytes} bytes")
