"""A server through its life."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from fakes.mcp_peer import Clock, Peer, Reply, answer, legacy, modern, tool

from odek.mcp.connection import CallFailed, Pipe, ServerFailed
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
    with pytest.raises(CallFailed), server.in_use():
        server.call("a", {})
    with server.in_use():
        server.call("a", {})
    assert programs.started[1].methods == ["server/discover", "tools/list", "tools/call"]
    other, programs = connected(legacy(call=dies), legacy(call=called))
    with pytest.raises(CallFailed), other.in_use():
        other.call("a", {})
    with other.in_use():
        other.call("a", {})
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
        with pytest.raises(CallFailed, match="the server docs failed: it has ended"), server.in_use():
            server.call("a", {})
        assert not server.alive
    with pytest.raises(CallFailed, match="is not started again"), server.in_use():
        raise AssertionError
    assert [peer.closed for peer in programs.started] == [1] * (MAX_RESTARTS + 1)


def test_a_restart_that_fails_is_a_failed_call() -> None:
    """R-202"""
    server, _ = connected(legacy(call=dies), ServerFailed("no more processes"))
    with pytest.raises(CallFailed), server.in_use():
        server.call("a", {})
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
    with server.in_use():
        server.call("a", {})


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
        with pytest.raises(CallFailed, match="no answer to tools/call in time"), server.in_use():
            server.call("a", {})
        assert [peer.closed for peer in programs.started] == [1] * number + [0]
    with server.in_use():
        server.call("a", {})
    assert [peer.closed for peer in programs.started] == [1] * MAX_RESTARTS + [0]


@pytest.mark.parametrize("era", [legacy, modern])
def test_a_server_with_one_slow_tool_is_kept(era: Any) -> None:
    """R-202: it answers, with an error too, so that what it holds in memory is not lost for the other tools."""
    server, programs = connected(
        era([tool("a")], call=lambda message: [] if message["params"]["name"] == "slow" else called(message))
    )
    for _ in range(3):
        with pytest.raises(CallFailed, match="in time"), server.in_use():
            server.call("slow", {})
        with server.in_use():
            server.call("a", {})
    assert programs.started[0].closed == 0
    assert programs.started[0].methods.count("ping") == 3
