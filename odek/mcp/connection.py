"""The client's side of one running server: its opening, its tools, its calls (R-195, R-196, R-202, R-372).

What a server prints is not trusted: a line that is not a message is skipped, and so is an answer to nothing; only an
object with the id of a request that waits, and without a method, is its answer, the first one. Every wait has an end,
and hears a cancel of the thread's work.

Several threads may wait for answers at once. One of them reads, for moments, and hands each answer to the thread that
waits for it; the others wait for theirs, and take over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import Cancelled
from odek.mcp import messages
from odek.mcp.messages import LEGACY, MODERN, Notification, Request, Response, RpcError
from odek.piped import LineTooLong
from odek.text import truncate, visible

LINE_LIMIT_BYTES = 10 << 20
NOISE_LIMIT_BYTES = 64 << 20
"""of what is skipped during one request"""
DISCOVER_S = 3.0
"""for the answer of a modern server; one of the legacy era may not answer at all"""
MAX_PAGES, MAX_TOOLS, MAX_LISTING_BYTES = 100, 512, 4 << 20
MAX_EXTENSION = 4
"""progress makes a call's time this many times as long, at most"""
_CONTROL_S = 0.5  # for a message to a server that nobody waits for an answer to
_ANSWER_S = 5.0
_MOST_SERVED = 32
"""requests of the server in one line that are answered: each may cost the time above"""
_ALIVE_S = 2.0
"""for the sign of life of a server that let a call run out of time"""
_GRACE_S = 1.0
"""that a line which is being written has to its end after a cancel: half a line would end the calls of others"""
_WORDS_CHARACTERS = 2000
_CURSOR_CHARACTERS = 4096

Era = Literal["modern", "legacy"]


class Pipe(Protocol):
    """A program that is talked to line by line; `piped.Piped` and a pipe into a container."""

    def send_line(self, line: bytes, *, timeout_s: float) -> None: ...
    def receive_line(self, *, timeout_s: float) -> bytes | None: ...
    def close(self) -> object: ...

    @property
    def stderr_tail(self) -> bytes: ...


class McpFailure(Exception):
    """Something that a server should have done and has not; the text says why, in words of ours."""

    def __init__(self, reason: str, *, foreign: str = "") -> None:
        """`foreign` is what the server says of it."""
        super().__init__(reason)
        self.foreign = foreign

    def __str__(self) -> str:
        quoted = f'; it says: "{visible(self.foreign)}"' if self.foreign else ""
        return self.reason + quoted

    @property
    def reason(self) -> str:
        """the text without what the server says"""
        return str(self.args[0])


class ServerFailed(McpFailure):
    """The server is of no use any more: it has ended, floods us, or speaks another protocol."""


class CallFailed(McpFailure):
    """One request came to nothing; the server lives, or can be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The tools of a server, as it describes them."""

    tools: tuple[Mapping[str, Any], ...]
    cut: str = ""
    """why there are more than these, "" for all"""


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A request that has no answer yet."""

    deadline: float
    last: float
    """what progress can make of `deadline` at most"""
    extension_s: float
    """the time that progress gives it from now on"""
    answer: Response | None = None
    answer_bytes: int = 0


class _Unhurried(CancelToken):
    """Raises what another token raises, some time after that was cancelled."""

    def __init__(self, hurried: CancelToken) -> None:
        super().__init__()
        self._hurried = hurried
        self._end: float | None = None

    def raise_if_cancelled(self) -> None:
        if self._end is None and self._hurried.cancelled:
            self._end = time.monotonic() + _GRACE_S
        if self._end is not None and time.monotonic() >= self._end:
            self._hurried.raise_if_cancelled()


class Connection:
    """A server: opened by one thread, then called by several."""

    def __init__(self, pipe: Pipe, *, client: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        """`client` is what the server is told of us."""
        self.pipe = pipe
        self.skipped = 0
        """lines that were not for us"""
        self.list_changed = False
        self.era: Era = "legacy"
        self.discovering = False
        """whether it was asked for the modern era and has not been asked for the other one yet"""
        self._client = client
        self._clock = clock
        self._last_id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._changed = threading.Condition()
        """guards what is below, and the two above; a thread that waits for an answer or for the pipe waits for it"""
        self._is_busy = False
        """whether a thread is at the pipe"""
        self._writers = 0
        """threads that want to send: the one that reads lets them"""
        self._ended = ""
        """why it is not to be used any more"""
        self._noise = 0
        """bytes that were no answer since the last one"""
        self._answer_bytes = 0
        self._discover_id = 0
        self._late: Mapping[str, Any] | None = None
        """the answer to the question of the modern era, when it comes after the next question"""
        self._has_tools = True
        self._tells_changes = False
        self._doubtful = False
        """whether a call has ended without an answer, and nothing has been answered since"""

    def open(self, *, deadline: float, era: Era | None) -> None:
        """Settle the era, known from an earlier process or None, and shake hands.

        Raises ServerFailed; CallFailed for an answer that does not come.
        """
        self.discovering = era is None
        if era != "legacy" and self._discover(min(deadline, self._clock() + DISCOVER_S)):
            self._use_modern()
            return
        self.discovering = False
        if era == "modern":
            raise ServerFailed("it does not speak the version of the protocol that it spoke before")
        asked = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": self._client}
        try:
            answer = self._request("initialize", asked, deadline=deadline)
        except CallFailed:
            if self._late is None or not self._speaks_modern(self._late):
                raise
            self._use_modern()  # it was slow to answer the first question, and takes no other handshake since
            return
        version = answer.get("protocolVersion")
        if version not in (MODERN, *LEGACY):
            raise ServerFailed(f"it speaks version {_shown(version)} of the protocol")
        self._has_tools = _announces_tools(answer)
        self._send(messages.notification("notifications/initialized"), self._left(deadline))

    def list_tools(self, *, deadline: float) -> Listing:
        """Return all tools, page by page. Raises as `open` does."""
        changed, self.list_changed = self.list_changed, False  # what changes meanwhile is read the next time
        try:
            return self._all_pages(deadline)
        except Cancelled:
            self.list_changed |= changed
            raise

    def _all_pages(self, deadline: float) -> Listing:
        tools: list[Mapping[str, Any]] = []
        size = 0
        cursor: str | None = None
        for _ in range(MAX_PAGES if self._has_tools else 0):
            answer = self._request("tools/list", {"cursor": cursor} if cursor else {}, deadline=deadline)
            found = answer.get("tools")
            page = [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []
            size += self._answer_bytes
            if size > MAX_LISTING_BYTES:
                return Listing(tools=tuple(tools), cut=f"its list of tools has more than {MAX_LISTING_BYTES >> 20} MiB")
            tools += page
            if len(tools) > MAX_TOOLS:
                return Listing(tools=tuple(tools[:MAX_TOOLS]), cut=f"it has more than {MAX_TOOLS} tools")
            following = answer.get("nextCursor")
            if not isinstance(following, str) or not following or following == cursor:
                return Listing(tools=tuple(tools))
            if len(following) > _CURSOR_CHARACTERS:
                return Listing(tools=tuple(tools), cut="its next page of tools has a name that is too long")
            cursor = following
        return Listing(tools=tuple(tools), cut=f"it has more than {MAX_PAGES} pages of tools" if tools else "")

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, Any]:
        """Return the result of a call. Progress makes its time longer, up to MAX_EXTENSION times.

        Raises CallFailed for an error and for no answer in time, which is called off, and ServerFailed. On a cancel
        the server is told, and nothing is waited for.
        """
        return self._request(
            "tools/call",
            {"name": tool, "arguments": arguments},
            deadline=self._clock() + timeout_s,
            extension_s=timeout_s,
            calls_off=True,
        )

    def poll(self) -> None:
        """Take what the server has sent meanwhile, as far as it is there. Raises ServerFailed."""
        end = self._clock() + _CONTROL_S
        while self._clock() < end and not self._waiting:  # else those who wait read it
            with self._at_pipe() as is_free:
                line = self._receive(0.002) if is_free else None
                if line is None:
                    return
                self._take(line)

    def require_responsive(self) -> None:
        """Raise ServerFailed for a server that let a call run out of time and is silent still; any answer will do.

        One that has other calls to answer may be busy with those.
        """
        if not self._doubtful or self._waiting:
            return
        try:
            self._request("ping", {}, deadline=self._clock() + _ALIVE_S)
        except CallFailed as error:
            if self._doubtful:
                raise ServerFailed("it does not answer any more") from error

    def end(self, reason: str) -> None:
        """Close the pipe; what waits for an answer fails with `reason`."""
        with self._changed:
            is_first, self._ended = not self._ended, self._ended or reason
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_busy, _ANSWER_S)
        if is_first:
            self.pipe.close()

    def _discover(self, deadline: float) -> bool:
        """Return whether the server speaks the modern version; whatever else it says, it may speak a legacy one."""
        self._discover_id = self._last_id + 1
        try:
            answer = self._request("server/discover", {}, deadline=deadline, modern=True)
        except CallFailed:
            return False
        return self._speaks_modern(answer)

    def _speaks_modern(self, discovered: Mapping[str, Any]) -> bool:
        versions = discovered.get("supportedVersions")
        if not isinstance(versions, list) or MODERN not in versions:
            return False
        self._has_tools = _announces_tools(discovered)
        self._tells_changes = self._has_tools and discovered["capabilities"]["tools"].get("listChanged") is True
        return True

    def _use_modern(self) -> None:
        """Go on in the modern era, in which changes are told to those who ask. Raises ServerFailed.

        The answer to that comes when the server ends, and is not waited for.
        """
        self.era = "modern"
        if self._tells_changes:
            self._last_id += 1
            asked = {"notifications": {"toolsListChanged": True}, "_meta": self._envelope()}
            self._send(messages.request(self._last_id, "subscriptions/listen", asked), _CONTROL_S)

    def _envelope(self) -> dict[str, Any]:
        return messages.envelope(version=MODERN, capabilities={}, client=self._client)

    def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        deadline: float,
        modern: bool = False,
        extension_s: float = 0,
        calls_off: bool = False,
    ) -> Mapping[str, Any]:
        current_token().raise_if_cancelled()  # before the line is begun: half a line would be the last one
        last = self._clock() + MAX_EXTENSION * extension_s
        waiting = _Waiting(deadline=deadline, last=last, extension_s=extension_s)
        with self._changed:
            self._last_id += 1
            number = self._last_id
            if not self._waiting:
                self._noise = 0
            self._waiting[number] = waiting
        meta: dict[str, Any] = {"progressToken": number} if extension_s else {}
        if modern or self.era == "modern":
            meta |= self._envelope()
        body = {**params, "_meta": meta} if meta else dict(params)
        try:
            self._send(messages.request(number, method, body), self._left(deadline))
            answer = self._answer(method, waiting)
        except Cancelled:
            if calls_off:
                self._call_off(number, "the user has stopped it")
            raise
        except TimeoutError as error:
            if calls_off:
                self._doubtful = True
                self._call_off(number, "it took too long")
            raise CallFailed(f"no answer to {method} in time") from error
        finally:
            with self._changed:
                self._waiting.pop(number, None)
        self._answer_bytes = waiting.answer_bytes
        if answer.error is not None:
            raise CallFailed(f"error {answer.error.code}", foreign=truncate(answer.error.message, _WORDS_CHARACTERS))
        assert answer.result is not None
        return answer.result

    def _answer(self, method: str, waiting: _Waiting) -> Response:
        """Wait for the answer to a request. Raises TimeoutError and ServerFailed."""
        while waiting.answer is None:
            current_token().raise_if_cancelled()
            if self._clock() >= waiting.deadline:
                raise TimeoutError
            with self._at_pipe(waiting) as is_free:
                if not is_free or waiting.answer is not None:
                    continue
                line = self._receive(min(self._left(waiting.deadline), POLL_S))  # then a thread may want to send
                if line is not None and not self._take(line):
                    self._noise += len(line)
                if self._noise > NOISE_LIMIT_BYTES:
                    raise ServerFailed(f"it printed {NOISE_LIMIT_BYTES >> 20} MiB that are no answer to {method}")
        return waiting.answer

    @contextmanager
    def _at_pipe(self, waiting: _Waiting | None = None, *, timeout_s: float | None = None) -> Iterator[bool]:
        """Have the pipe alone within the block, or yield False when it is not free; raises ServerFailed at the end.

        Who reads waits for a moment, and not when `waiting` has been answered; who sends, for `timeout_s`.
        """
        with self._changed:
            if timeout_s is None:
                if (self._is_busy or self._writers) and not (waiting and waiting.answer):
                    self._changed.wait(POLL_S)
                is_free = not self._is_busy and not self._writers
            else:
                is_free = self._wait_to_write(timeout_s)
            if self._ended:
                raise ServerFailed(self._ended)
            self._is_busy |= is_free
        try:
            yield is_free
        finally:
            if is_free:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def _wait_to_write(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self._writers += 1
        try:
            while self._is_busy and not self._ended and time.monotonic() < deadline:
                self._changed.wait(POLL_S)
                current_token().raise_if_cancelled()
        finally:
            self._writers -= 1
        return not self._is_busy

    def _take(self, line: bytes) -> bool:
        """Do what a line asks for; return whether it had an answer that was waited for."""
        try:
            value = messages.decode(line)
        except RpcError:
            self.skipped += 1
            return False
        found = False
        served = 0
        for each in value if isinstance(value, list) else [value]:
            try:
                message = messages.message_of(each)
            except RpcError:
                self.skipped += 1
                continue
            if isinstance(message, Request):
                served += 1
                if served <= _MOST_SERVED:
                    self._serve(message)
            elif isinstance(message, Notification):
                self._note(message)
            elif type(message.id) is int and message.id in self._waiting:
                self._hand_over(message.id, message, len(line))
                found = True
            elif type(message.id) is int and message.id == self._discover_id:
                self._late = message.result
            else:
                self.skipped += 1
        return found

    def _hand_over(self, number: int, answer: Response, size: int) -> None:
        """Let the thread that waits have its answer; the others get more time, as the server may work on one by one."""
        with self._changed:
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                waiting.answer_bytes, waiting.answer = size, answer
            self._doubtful, self._noise = False, 0
            for other in self._waiting.values():
                self._extend(other)
            self._changed.notify_all()

    def _extend(self, waiting: _Waiting) -> None:
        waiting.deadline = max(waiting.deadline, min(self._clock() + waiting.extension_s, waiting.last))

    def _note(self, message: Notification) -> None:
        if message.method == "notifications/tools/list_changed":
            self.list_changed = True
        elif message.method == "notifications/progress":
            token = message.params.get("progressToken")
            waiting = self._waiting.get(token) if type(token) is int else None
            if waiting is not None:
                self._extend(waiting)

    def _serve(self, asked: Request) -> None:
        """Answer a request of the server: it may see whether we are there, and nothing else."""
        if asked.method == "ping":
            self._write(messages.result(asked.id, {}), _ANSWER_S)
        else:
            error = RpcError(messages.METHOD_NOT_FOUND, "this client offers nothing of its own")
            self._write(messages.failure(asked.id, error), _ANSWER_S)

    def _call_off(self, number: int, reason: str) -> None:
        """Tell the server that an answer is not waited for any more; one that does not listen has failed anyway."""
        told = messages.notification("notifications/cancelled", {"requestId": number, "reason": reason})
        try:
            self._send(told, _CONTROL_S)
        except (ServerFailed, TimeoutError):
            pass

    def _send(self, message: Mapping[str, Any], timeout_s: float) -> None:
        with self._at_pipe(timeout_s=timeout_s) as is_free:
            if not is_free:  # nothing of it is written
                raise TimeoutError
            self._write(message, timeout_s)

    def _write(self, message: Mapping[str, Any], timeout_s: float) -> None:
        """Write a line whole; a cancel has to wait a moment. Raises ServerFailed."""
        try:
            with use_token(_Unhurried(current_token())):
                self.pipe.send_line(messages.encode(message).rstrip(b"\n"), timeout_s=timeout_s)
        except BrokenPipeError as error:
            raise ServerFailed("it has ended") from error
        except TimeoutError as error:  # a line that was not written whole is the last one
            raise ServerFailed("it does not read what it is sent") from error

    def _receive(self, timeout_s: float) -> bytes | None:
        """Return the next line, None when there is none in time. Raises ServerFailed."""
        try:
            line = self.pipe.receive_line(timeout_s=timeout_s)
        except TimeoutError:
            return None
        except LineTooLong as error:
            raise ServerFailed(_TOO_LONG) from error
        if line is None:
            raise ServerFailed("it has ended")
        if len(line) > LINE_LIMIT_BYTES:
            raise ServerFailed(_TOO_LONG)
        return line

    def _left(self, deadline: float) -> float:
        return max(deadline - self._clock(), 0.001)


_TOO_LONG = f"it printed more than {LINE_LIMIT_BYTES >> 20} MiB without a line end"


def _announces_tools(answer: Mapping[str, Any]) -> bool:
    capabilities = answer.get("capabilities")
    return isinstance(capabilities, dict) and isinstance(capabilities.get("tools"), dict)


def _shown(value: object) -> str:
    return visible(truncate(value, 60)) if isinstance(value, str) else "(none)"
