"""A server through its life."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

import pytest
from fakes.mcp_peer import Clock, Peer, Reply, answer, legacy, modern, tool

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.mcp.connection import CallFailed, McpFailure, Pipe, ServerFailed
from odek.mcp.server import MAX_RESTARTS, Server, last_words

React = Callable[[dict[str, Any]], Iterable[Reply | None]]


def called(message: dict[str, Any]) -> list[Reply | None]:
    return [answer(message, {"content": []})]


class Programs:
    """Starts one scripted program after the other; each is a pipe, or why it cannot be started."""

    def __init__(self, *reacts: React | ServerFailed, stderr: bytes = b"") -> None:
        self.clock = Clock()
        self.started: list[Peer] = []
        self._reacts = list(reacts)
        self._stderr = stderr

    def start(self) -> Pipe:
        assert self._reacts, "started once too often"
        react = self._reacts.pop(0)
        if isinstance(react, ServerFailed):
            raise react
        self.started.append(Peer(react, clock=self.clock, stderr_tail=self._stderr))
        return self.started[-1]

    def server(self) -> Server:
        return Server("docs", self.start, startup_s=20, timeout_s=9, client={"name": "odek"}, clock=self.clock)


def connected(*reacts: React | ServerFailed) -> tuple[Server, Programs]:
    programs = Programs(*reacts)
    server = programs.server()
    server.connect()
    return server, programs


def dies(message: dict[str, Any]) -> list[Reply | None]:
    del message
    return [None]


def exits_at_discover(message: dict[str, Any]) -> Iterable[Reply | None]:
    return [None] if message["method"] == "server/discover" else legacy()(message)


def test_a_server_that_ends_at_the_first_question_gets_a_new_process() -> None:
    """R-195"""
    server, programs = connected(exits_at_discover, legacy([tool("a")]))
    assert ([each["name"] for each in server.listing.tools], server.alive) == (["a"], True)
    assert [peer.closed for peer in programs.started] == [1, 0]
    assert programs.started[1].methods[0] == "initialize"


def test_the_era_is_remembered() -> None:
    """R-195: a server that is started again is asked at once in its own."""
    server, programs = connected(modern(call=dies), modern([tool("a")], call=called))
    with pytest.raises(CallFailed), server.in_use() as call:
        call("a", {})
    with server.in_use() as call:
        call("a", {})
    assert programs.started[1].methods == ["server/discover", "tools/list", "tools/call"]
    other, programs = connected(legacy(call=dies), legacy(call=called))
    with pytest.raises(CallFailed), other.in_use() as call:
        call("a", {})
    with other.in_use() as call:
        call("a", {})
    assert programs.started[1].methods[0] == "initialize"


@pytest.mark.parametrize(
    ("reacts", "why"),
    [
        ((ServerFailed("there is no program"),), "there is no program"),
        ((exits_at_discover, exits_at_discover), ""),
        ((exits_at_discover, ServerFailed("none")), "none"),
        ((lambda _: [],), "no answer to initialize in time (20 s at most)"),
        ((legacy(version="1"),), "it speaks version 1"),
    ],
)
def test_a_start_that_fails_leaves_nothing(reacts: tuple[Any, ...], why: str) -> None:
    """R-195"""
    programs = Programs(*reacts)
    if not why:
        programs.server().connect()
        return
    with pytest.raises(ServerFailed, match=why.replace("(", r"\(").replace(")", r"\)")):
        programs.server().connect()
    assert all(peer.closed for peer in programs.started)


def test_last_words_are_told() -> None:
    """R-195: with the end of what it printed on stderr, made harmless."""
    programs = Programs(lambda _: [None], legacy(version="1"), stderr=b"one\ntwo\n\n three \x1b[2J\nfour\n")
    with pytest.raises(ServerFailed) as caught:
        programs.server().connect()
    assert str(caught.value) == 'it speaks version 1 of the protocol; it says: "two; three \\x1b[2J; four"'
    assert last_words(b"\xff" * 5000)[-1] == "…"


def test_a_server_that_dies_fails_its_call_and_is_started_again() -> None:
    """R-202: three times a session, at the next call."""
    server, programs = connected(*[legacy([tool("a")], call=dies)] * (MAX_RESTARTS + 1))
    for _ in range(MAX_RESTARTS + 1):
        with pytest.raises(CallFailed, match="the server docs failed: it has ended"), server.in_use() as call:
            call("a", {})
        assert not server.alive
    with pytest.raises(CallFailed, match="is not started again"), server.in_use():
        raise AssertionError
    assert [peer.closed for peer in programs.started] == [1] * (MAX_RESTARTS + 1)


def test_a_restart_that_fails_is_a_failed_call() -> None:
    """R-202"""
    server, _ = connected(legacy(call=dies), ServerFailed("no more processes"))
    with pytest.raises(CallFailed), server.in_use() as call:
        call("a", {})
    with pytest.raises(CallFailed, match="could not be started again: no more processes"), server.in_use():
        raise AssertionError


def test_a_list_that_changed_is_read_again_between_turns() -> None:
    """R-202"""
    tools = [tool("a")]
    server, programs = connected(lambda message: legacy(tools)(message))
    assert not server.refresh()
    tools.append(tool("b"))
    assert not server.refresh()
    programs.started[0].put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert server.refresh()
    assert [each["name"] for each in server.listing.tools] == ["a", "b"]


def test_a_server_that_died_meanwhile_stops_nothing() -> None:
    """R-202: the next call starts it again."""
    server, programs = connected(legacy([tool("a")]), legacy([tool("a")], call=called))
    programs.started[0].put(None)
    assert (server.refresh(), server.alive) == (False, False)
    with server.in_use() as call:
        call("a", {})


def test_close_is_the_end() -> None:
    """R-202: also for who holds on to a tool of it."""
    server, programs = connected(legacy([tool("a")], call=called))
    server.close()
    server.close()
    assert programs.started[0].closed == 1
    with pytest.raises(CallFailed, match="not started again"), server.in_use():
        raise AssertionError


def hangs(message: dict[str, Any]) -> Iterable[Reply | None]:
    return legacy([tool("a")])(message) if message["method"] in ("initialize", "tools/list") else []


def test_a_server_that_hangs_is_started_again() -> None:
    """R-202: once a call has run out of time the next one asks for a sign of life, and does not wait for another."""
    server, programs = connected(*[hangs] * MAX_RESTARTS, legacy([tool("a")], call=called))
    for number in range(MAX_RESTARTS):
        with pytest.raises(CallFailed, match="no answer to tools/call in time"), server.in_use() as call:
            call("a", {})
        assert [peer.closed for peer in programs.started] == [1] * number + [0]
    with server.in_use() as call:
        call("a", {})
    assert [peer.closed for peer in programs.started] == [1] * MAX_RESTARTS + [0]


@pytest.mark.parametrize("era", [legacy, modern])
def test_a_server_with_one_slow_tool_is_kept(era: Any) -> None:
    """R-202: it answers, with an error too, so that what it holds in memory is not lost for the other tools."""
    server, programs = connected(
        era([tool("a")], call=lambda message: [] if message["params"]["name"] == "slow" else called(message))
    )
    for _ in range(3):
        with pytest.raises(CallFailed, match="in time"), server.in_use() as call:
            call("slow", {})
        with server.in_use() as call:
            call("a", {})
    assert programs.started[0].closed == 0
    assert programs.started[0].methods.count("ping") == 3


class Live:
    """A pipe to a program that answers when the test says so."""

    stderr_tail = b"last words"

    def __init__(self) -> None:
        self.closed = 0
        self.sent: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._at_pipe = Lock()

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        with self._alone():
            message = json.loads(line)
            if message.get("method") in ("tools/call", "notifications/cancelled"):
                self.sent.put(message)
            else:
                self.put(*legacy([tool("a")])(message))
        assert timeout_s > 0

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        with self._alone():
            try:
                line = self._lines.get(timeout=timeout_s)
            except Empty:
                raise TimeoutError from None
            if line is None:
                self._lines.put(None)
            return line

    def close(self) -> None:
        with self._alone():
            self.closed += 1

    def put(self, *replies: Reply | None) -> None:
        for reply in replies:
            self._lines.put(json.dumps(reply).encode() if isinstance(reply, Mapping) else reply)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._at_pipe.acquire(blocking=False), "two threads at the pipe"
        try:
            yield
        finally:
            self._at_pipe.release()

    def next_call(self) -> dict[str, Any]:
        return self.sent.get(timeout=20)


class Caller(Thread):
    """Calls a tool in a thread of its own."""

    def __init__(self, server: Server, name: str, *, together: bool = True) -> None:
        super().__init__(daemon=True)
        self.token = CancelToken()
        self.outcome: object = None
        self._server, self._name, self._together = server, name, together
        self.start()

    def run(self) -> None:
        try:
            with use_token(self.token), self._server.in_use(together=self._together) as call:
                self.outcome = call(self._name, {})["said"]
        except (Cancelled, McpFailure) as error:
            self.outcome = error

    def end(self) -> object:
        self.join(20)
        assert not self.is_alive()
        return self.outcome


def live(
    *, limit: int = 3, timeout_s: float = 60, clock: Callable[[], float] = time.monotonic
) -> tuple[Server, list[Live]]:
    started: list[Live] = []

    def start() -> Pipe:
        started.append(Live())
        return started[-1]

    server = Server("docs", start, startup_s=20, timeout_s=timeout_s, limit=limit, client={"name": "odek"}, clock=clock)
    server.connect()
    return server, started


def said(asked: dict[str, Any]) -> dict[str, Any]:
    return answer(asked, {"said": asked["params"]["name"]})


def test_answers_find_the_threads_that_wait_for_them() -> None:
    """R-372: in any order, in one line, twice; what is not asked for is no answer to any of them."""
    server, (pipe,) = live()
    for turn in range(5):
        callers = [Caller(server, name) for name in "abc"]
        asked = [pipe.next_call() for _ in callers]
        forged = answer({"id": asked[0]["id"] + 100}, {"said": "forged"})
        lines: list[Reply] = [forged, *map(said, reversed(asked)), *map(said, asked)]
        pipe.put(*(lines if turn % 2 else [json.dumps(lines).encode()]))
        assert [caller.end() for caller in callers] == ["a", "b", "c"]
    assert pipe.closed == 0


def test_a_cancel_ends_one_call() -> None:
    """R-372: the server is told which; the others have their answers, and a late one goes nowhere."""
    server, (pipe,) = live()
    stopped, kept = Caller(server, "stopped"), Caller(server, "kept")
    asked = {each["params"]["name"]: each for each in (pipe.next_call(), pipe.next_call())}
    stopped.token.cancel()
    assert isinstance(stopped.end(), Cancelled)
    told = pipe.next_call()
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", asked["stopped"]["id"])
    pipe.put(said(asked["stopped"]), said(asked["kept"]))
    assert (kept.end(), pipe.closed) == ("kept", 0)
    again = Caller(server, "again")
    pipe.put(said(pipe.next_call()))
    assert again.end() == "again"


def test_a_call_that_is_never_answered_ends_alone() -> None:
    """R-372: in its time, and is called off; what others wait for comes all the same."""
    server, (pipe,) = live(timeout_s=0.6)
    never, other = Caller(server, "never"), Caller(server, "other")
    asked = {each["params"]["name"]: each for each in (pipe.next_call(), pipe.next_call())}
    pipe.put(said(asked["other"]))
    assert other.end() == "other"
    assert "no answer to tools/call in time" in str(never.end())
    assert pipe.next_call()["params"]["requestId"] == asked["never"]["id"]
    assert pipe.closed == 0


def test_answers_give_the_calls_behind_them_time() -> None:
    """R-372: a server that works on one call after the other is not taken for one that hangs, up to a limit."""
    clock = Clock()
    server, (pipe,) = live(limit=8, timeout_s=10, clock=clock)
    callers = {name: Caller(server, name) for name in "abcde"}
    asked = {each["params"]["name"]: each for each in (pipe.next_call() for _ in callers)}
    for name in "abcd":
        clock.now += 9
        time.sleep(0.2)  # for who would find that its time is up
        pipe.put(said(asked[name]))
        assert callers[name].end() == name
    clock.now += 5
    assert "in time" in str(callers["e"].end())
    assert clock.now == 41


def test_calls_wait_for_room_in_their_order() -> None:
    """R-372: up to the limit at once; one that has to be alone waits for the others, and they for it."""
    server, (pipe,) = live(limit=2)
    first, second = Caller(server, "1"), Caller(server, "2")
    asked = [pipe.next_call(), pipe.next_call()]
    alone = Caller(server, "3", together=False)
    while len(server._queue) < 1:
        time.sleep(0.001)
    last = Caller(server, "4")
    while len(server._queue) < 2:
        time.sleep(0.001)
    pipe.put(said(asked[0]))
    while server._at_work > 1:
        time.sleep(0.001)
    assert pipe.sent.empty()
    pipe.put(said(asked[1]))
    assert {first.end(), second.end()} == {"1", "2"}
    third = pipe.next_call()
    assert (third["params"]["name"], pipe.sent.empty(), len(server._queue)) == ("3", True, 1)
    pipe.put(said(third))
    fourth = pipe.next_call()
    pipe.put(said(fourth))
    assert (alone.end(), last.end()) == ("3", "4")


def test_a_call_that_waits_for_room_hears_a_cancel() -> None:
    """R-372"""
    server, (pipe,) = live(limit=1)
    first, waits, last = Caller(server, "1"), Caller(server, "2"), Caller(server, "3")
    asked = pipe.next_call()
    callers = {"1": first, "2": waits, "3": last}
    working = callers.pop(asked["params"]["name"])
    stopped, other = callers.values()
    stopped.token.cancel()
    assert isinstance(stopped.end(), Cancelled)
    pipe.put(said(asked))
    working.end()
    pipe.put(said(pipe.next_call()))
    assert isinstance(other.end(), str)


def test_a_server_that_dies_fails_all_its_calls_and_is_started_again_once() -> None:
    """R-372, R-202"""
    server, started = live()
    callers = [Caller(server, name) for name in "abc"]
    for _ in callers:
        started[0].next_call()
    started[0].put(None)
    assert {str(caller.end()) for caller in callers} == {'the server docs failed: it has ended; it says: "last words"'}
    again = Caller(server, "again")
    while len(started) < 2:
        time.sleep(0.001)
    started[1].put(said(started[1].next_call()))
    assert (again.end(), len(started), [pipe.closed for pipe in started]) == ("again", 2, [1, 0])


def test_a_server_that_is_closed_lets_its_calls_go() -> None:
    """R-372"""
    server, (pipe,) = live()
    callers = [Caller(server, name) for name in "abc"]
    for _ in callers:
        pipe.next_call()
    server.close()
    assert all(isinstance(caller.end(), CallFailed) for caller in callers)
    assert pipe.closed == 1


def test_a_list_is_not_asked_for_while_calls_are_at_work() -> None:
    """R-202, R-372"""
    server, (pipe,) = live()
    caller = Caller(server, "a")
    asked = pipe.next_call()
    pipe.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert not server.refresh()
    pipe.put(said(asked))
    caller.end()
    assert server.refresh()
