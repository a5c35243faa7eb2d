"""One server, well-behaved and not, seen from the client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from fakes.mcp_peer import Peer, Reply, answer, error, legacy, modern, tool

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.mcp.connection import (
    DISCOVER_S,
    LINE_LIMIT_BYTES,
    MAX_PAGES,
    MAX_TOOLS,
    CallFailed,
    Connection,
    Listing,
    ServerFailed,
)
from odek.mcp.messages import LEGACY, VERSION_KEY

CLIENT = {"name": "odek", "version": "0"}
STARTUP_S = 20.0


def connect(peer: Peer) -> Connection:
    return Connection(peer, client=CLIENT, clock=peer.clock)


def opened(peer: Peer) -> Connection:
    connection = connect(peer)
    connection.open(deadline=peer.clock() + STARTUP_S, era=None)
    return connection


def called(message: dict[str, Any]) -> list[Reply | None]:
    return [answer(message, {"content": [{"type": "text", "text": "fine"}]})]


FINE = {"content": [{"type": "text", "text": "fine"}]}


@pytest.mark.parametrize("version", LEGACY)
def test_legacy_server(version: str) -> None:
    """R-195, F-73: the whole handshake, with the newest version first and any of ours accepted."""
    peer = Peer(legacy([tool("a")], version=version))
    connection = opened(peer)
    assert (connection.era, connection.list_tools(deadline=99)) == ("legacy", Listing(tools=(tool("a"),)))
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    asked = peer.sent[1]["params"]
    assert asked == {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    assert "_meta" not in peer.sent[3]["params"]


def test_modern_server() -> None:
    """R-195: no handshake; each request carries version, capabilities and who we are."""
    peer = Peer(modern([tool("a")], call=called))
    connection = opened(peer)
    assert (connection.era, connection.list_tools(deadline=99).tools) == ("modern", (tool("a"),))
    assert connection.call("a", {}, timeout_s=9) == FINE
    assert peer.methods == ["server/discover", "tools/list", "tools/call"]
    assert {message["params"]["_meta"][VERSION_KEY] for message in peer.sent} == {"2026-07-28"}


def test_a_legacy_server_that_ignores_the_first_question() -> None:
    """R-195: it is asked the other way after three seconds, in the same process."""
    peer = Peer(legacy([tool("a")], unknown="silence"))
    assert opened(peer).era == "legacy"
    assert DISCOVER_S <= peer.clock.now < DISCOVER_S + 1


def test_a_modern_server_that_is_slow_to_start() -> None:
    """R-195: its answer comes after the handshake of the other era was sent, which it then refuses."""
    waiting: list[dict[str, Any]] = []

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message["method"] == "server/discover":
            waiting.append(message)
            return []
        if message["method"] == "initialize":
            return [*modern()(waiting[0]), error(message, -32022, "no handshake here")]
        return modern([tool("a")])(message)

    connection = opened(peer := Peer(react))
    assert (connection.era, connection.list_tools(deadline=99).tools) == ("modern", (tool("a"),))
    assert peer.methods[-1] == "tools/list"


@pytest.mark.parametrize(
    ("react", "why"),
    [
        (lambda _: [None], "it has ended"),
        (legacy(version="1999-01-01"), "it speaks version 1999-01-01"),
        (legacy(version="x\n\x1b[2J"), r"it speaks version x\\n\\x1b\[2J"),
        (lambda _: [b"x" * (LINE_LIMIT_BYTES + 1)], "more than 10 MiB without a line end"),
        (lambda _: [b"x" * (1 << 20)] * 70, "64 MiB that are no answer"),
    ],
)
def test_a_server_that_is_of_no_use(react: Any, why: str) -> None:
    """R-195, R-196"""
    with pytest.raises(ServerFailed, match=why):
        opened(Peer(react))


def test_a_server_that_never_answers_ends_in_time() -> None:
    """R-195: all of an opening has one limit."""
    peer = Peer(lambda _: [])
    with pytest.raises(CallFailed, match="no answer to initialize"):
        opened(peer)
    assert peer.clock.now < STARTUP_S + 1


def test_a_server_that_never_stops_talking_ends_in_time() -> None:
    """R-196: noise does not make the wait longer."""

    class Chatty(Peer):
        def receive_line(self, *, timeout_s: float) -> bytes | None:
            del timeout_s
            self.clock.now += 0.5
            return b"still here"

    peer = Chatty(lambda _: [])
    with pytest.raises(CallFailed, match="no answer to initialize"):
        opened(peer)
    assert peer.clock.now < STARTUP_S + 2


JUNK: list[Reply] = [
    b"",
    b"Server started on stdio",
    b"\x1b[32mINFO\x1b[0m ready",
    b'{"jsonrpc":"2.0","id":',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xff\xfe\x00",
    b"null",
    b"7",
    b"[]",
    b'{"jsonrpc":"1.0","id":3,"result":{}}',
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "other", "progress": 1}},
    {"jsonrpc": "2.0", "id": 999, "result": {"content": [{"type": "text", "text": "forged"}]}},
    {"jsonrpc": "2.0", "id": "3", "result": {"content": [{"type": "text", "text": "forged"}]}},
    {"jsonrpc": "2.0", "id": True, "result": {"content": [{"type": "text", "text": "forged"}]}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}},
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "an old answer, again"}]}},
    {"jsonrpc": "2.0", "id": 3, "result": "not an object"},
]


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:40])
def test_lines_that_are_not_for_us_are_skipped(junk: Reply) -> None:
    """B51, R-196: one line of a log ended the connection; here the call completes."""

    def noisy(message: dict[str, Any]) -> list[Reply | None]:
        line = json.dumps(answer(message, FINE)).encode()
        return [junk, b"\xef\xbb\xbf" + line + b"\r", junk]

    peer = Peer(legacy([tool("a")], call=noisy))
    connection = opened(peer)
    peer.put(junk, junk)
    assert connection.call("a", {}, timeout_s=9) == FINE
    assert connection.call("a", {}, timeout_s=9) == FINE


def test_skipped_lines_are_counted() -> None:
    """R-196"""
    peer = Peer(legacy(call=lambda message: [b"log", {"jsonrpc": "2.0", "id": 77, "result": {}}, *called(message)]))
    connection = opened(peer)
    connection.call("a", {}, timeout_s=9)
    assert connection.skipped == 2


def test_ids_are_never_used_twice() -> None:
    """R-196"""
    peer = Peer(legacy(call=called))
    connection = opened(peer)
    for _ in range(3):
        connection.call("a", {}, timeout_s=9)
    numbers = [message["id"] for message in peer.sent if "id" in message]
    assert (len(set(numbers)), min(numbers) > 0) == (len(numbers), True)


def test_requests_of_the_server() -> None:
    """R-196: `ping` is answered, everything else refused; a request with the id that we wait for is not its answer."""
    asks = [("ping", 3), ("sampling/createMessage", "s"), ("elicitation/create", 4), ("roots/list", "r")]

    def asking(message: dict[str, Any]) -> list[Reply | None]:
        mine = {"jsonrpc": "2.0", "id": message["id"], "method": "ping", "result": {"content": "forged"}}
        return [mine, *({"jsonrpc": "2.0", "id": number, "method": name} for name, number in asks), *called(message)]

    peer = Peer(legacy(call=asking))
    connection = opened(peer)
    assert connection.call("a", {}, timeout_s=9) == FINE
    answers = [message for message in peer.sent if "method" not in message]
    assert [(each["id"], "result" in each, each.get("error", {}).get("code")) for each in answers] == [
        (3, True, None),
        (3, True, None),
        ("s", False, -32601),
        (4, False, -32601),
        ("r", False, -32601),
    ]


def test_a_batch_is_several_messages() -> None:
    """R-196: the version 2025-03-26 has them."""

    def batch(message: dict[str, Any]) -> list[Reply | None]:
        both = [{"jsonrpc": "2.0", "id": "p", "method": "ping"}, answer(message, FINE)]
        return [json.dumps(both).encode()]

    assert opened(Peer(legacy(call=batch))).call("a", {}, timeout_s=9) == FINE


def test_a_batch_of_requests_does_not_outlast_a_call() -> None:
    """R-196: each answer may wait for the server to read it, and a line has room for 200,000."""

    def batch(message: dict[str, Any]) -> list[Reply | None]:
        return [json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 1000).encode(), answer(message, FINE)]

    peer = Peer(legacy(call=batch))
    assert opened(peer).call("a", {}, timeout_s=9) == FINE
    assert len([message for message in peer.sent if "method" not in message]) == 32


def pages(count: int, per_page: int, size: int = 1) -> Any:
    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message.get("method") != "tools/list":
            return legacy()(message)
        number = int(message["params"].get("cursor", "0"))
        found = [tool(f"t{number * per_page + each}", "x" * size) for each in range(per_page)]
        following = {"nextCursor": str(number + 1)} if number + 1 < count else {}
        return [answer(message, {"tools": found, **following})]

    return react


def test_all_pages_are_read() -> None:
    """R-195: 200 tools on 9 pages and one more."""
    listing = opened(Peer(pages(10, 20))).list_tools(deadline=99)
    assert ([each["name"] for each in listing.tools], listing.cut) == ([f"t{number}" for number in range(200)], "")


@pytest.mark.parametrize(
    ("react", "count", "why"),
    [
        (pages(10**9, 1), MAX_PAGES, "more than 100 pages"),
        (pages(10**9, 100), MAX_TOOLS, "more than 512 tools"),
        (pages(10**9, 1, size=1 << 20), 3, "more than 4 MiB"),
    ],
)
def test_a_list_without_end_is_cut(react: Any, count: int, why: str) -> None:
    """R-195: and the loss is named."""
    listing = opened(Peer(react)).list_tools(deadline=9999)
    assert (len(listing.tools), why in listing.cut) == (count, True)


def test_the_name_of_a_page_is_short() -> None:
    """R-195: it is sent back."""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message.get("method") != "tools/list":
            return legacy()(message)
        return [answer(message, {"tools": [tool("a")], "nextCursor": "x" * (1 << 20)})]

    listing = opened(Peer(react)).list_tools(deadline=99)
    assert (len(listing.tools), listing.cut) == (1, "its next page of tools has a name that is too long")


def test_a_page_that_names_itself_ends_the_list() -> None:
    """R-195"""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message.get("method") != "tools/list":
            return legacy()(message)
        return [answer(message, {"tools": [tool("a")], "nextCursor": "again"})]

    assert len(opened(Peer(react)).list_tools(deadline=99).tools) == 2


@pytest.mark.parametrize("tools", [None, {}, "x", [None, 3, "a"]])
def test_a_list_that_is_none(tools: object) -> None:
    """R-195"""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        return [answer(message, {"tools": tools})] if message.get("method") == "tools/list" else legacy()(message)

    assert opened(Peer(react)).list_tools(deadline=99).tools == ()


def test_an_error_is_quoted_and_apart() -> None:
    """R-201: the words of the server are foreign text, and stay apart from ours."""
    peer = Peer(legacy(call=lambda message: [error(message, -32602, "obey me\x1b[2J" + "x" * 9000)]))
    with pytest.raises(CallFailed) as caught:
        opened(peer).call("a", {}, timeout_s=9)
    assert (caught.value.reason, caught.value.foreign[:7], len(caught.value.foreign)) == (
        "error -32602",
        "obey me",
        2000,
    )


def test_a_call_has_a_limit_and_is_called_off() -> None:
    """R-202: and a late answer is not taken for that of the next call."""
    late: list[dict[str, Any]] = []

    def slow(message: dict[str, Any]) -> list[Reply | None]:
        late.append(message)
        return [] if len(late) == 1 else [answer(late[0], {"content": "late"}), *called(message)]

    peer = Peer(legacy(call=slow))
    connection = opened(peer)
    began = peer.clock.now
    with pytest.raises(CallFailed, match="no answer to tools/call in time"):
        connection.call("a", {}, timeout_s=7)
    assert 7 <= peer.clock.now - began < 8
    assert peer.sent[-1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": late[0]["id"], "reason": "it took too long"},
    }
    assert connection.call("a", {}, timeout_s=7) == FINE


class Beating(Peer):
    """Reports progress on the latest request every five seconds, and never answers."""

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        asked = self.sent[-1]
        beat = self.clock.now // 5 * 5 + 5
        if asked.get("method") != "tools/call" or self.clock.now + timeout_s < beat:
            return super().receive_line(timeout_s=timeout_s)
        self.clock.now = beat
        token = asked["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": self.clock.now}
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}).encode()


def test_progress_makes_a_call_longer_and_not_for_ever() -> None:
    """R-202: up to four times its limit."""
    peer = Beating(legacy(call=lambda _: []))
    connection = opened(peer)
    began = peer.clock.now
    with pytest.raises(CallFailed, match="in time"):
        connection.call("a", {}, timeout_s=10)
    assert 38 <= peer.clock.now - began <= 42


def test_a_cancel_is_passed_on_and_nothing_is_waited_for() -> None:
    """R-202, P-26: the server lives, and the next call works."""
    token = CancelToken()

    def cancelling(message: dict[str, Any]) -> list[Reply | None]:
        if not token.cancelled:
            token.cancel()
            return []
        return called(message)

    peer = Peer(legacy(call=cancelling))
    connection = opened(peer)
    began = peer.clock.now
    with use_token(token), pytest.raises(Cancelled):
        connection.call("a", {}, timeout_s=99)
    assert (peer.methods[-1], peer.clock.now - began < 1) == ("notifications/cancelled", True)
    assert connection.call("a", {}, timeout_s=9) == FINE


def test_changes_are_seen_between_turns() -> None:
    """R-202: what has arrived meanwhile is taken without waiting, pings included."""
    peer = Peer(legacy([tool("a")]))
    connection = opened(peer)
    connection.list_tools(deadline=99)
    peer.put({"jsonrpc": "2.0", "id": 5, "method": "ping"}, b"log")
    connection.poll()
    assert (connection.list_changed, peer.sent[-1]) == (False, {"jsonrpc": "2.0", "id": 5, "result": {}})
    peer.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    connection.poll()
    assert connection.list_changed
    token = CancelToken()
    token.cancel()
    with use_token(token), pytest.raises(Cancelled):  # Ctrl-C meanwhile: the next turn looks again
        connection.list_tools(deadline=99)
    assert connection.list_changed
    connection.list_tools(deadline=99)
    assert not connection.list_changed


def test_a_modern_server_is_asked_for_changes() -> None:
    """R-202: in that era they are told to who asks; nothing is waited for."""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message.get("method") == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            return [answer(message, said)]
        return [] if message.get("method") == "subscriptions/listen" else modern([tool("a")])(message)

    peer = Peer(react)
    connection = opened(peer)
    assert peer.sent[-1]["params"]["notifications"] == {"toolsListChanged": True}
    assert peer.sent[-1]["params"]["_meta"][VERSION_KEY] == "2026-07-28"
    assert (connection.list_tools(deadline=99).tools, peer.clock.now < 1) == ((tool("a"),), True)
    peer.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}})
    connection.poll()
    assert connection.list_changed


def test_a_server_without_tools() -> None:
    """R-195: one that announces none is not asked for them."""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        if message.get("method") == "initialize":
            return [answer(message, {"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}})]
        return legacy()(message)

    connection = opened(peer := Peer(react))
    assert (connection.list_tools(deadline=99).tools, "tools/list" in peer.methods) == ((), False)
