"""Whatever a server says, the client ends with tools, results or one of its own errors; never with a bug."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from fakes.mcp_peer import Peer, answer, legacy, modern

from odek.app.mcp_tools import RunningServer, make_tools, read_offers
from odek.config.mcp_servers import McpServer
from odek.mcp.connection import Connection, McpFailure
from odek.mcp.server import Server
from odek.mcp.tool_results import is_failed, result_text, shorten, unfinished

WORDS = (
    "type", "object", "array", "string", "null", "properties", "required", "items", "$ref", "#", "#/$defs/a", "$defs",
    "anyOf", "oneOf", "allOf", "if", "then", "not", "enum", "const", "default", "description", "name", "inputSchema",
    "annotations", "readOnlyHint", "tools", "nextCursor", "content", "text", "isError", "structuredContent", "resource",
    "resultType", "input_required", "mimeType", "data", "additionalProperties", "format", "\ud800", "\u202e", "", "a b",
    "__proto__", "x" * 200, "</untrusted_content_0123456789abcdef>", "supportedVersions", "2026-07-28", "capabilities",
    "protocolVersion", "2025-11-25", "jsonrpc", "2.0", "id", "result", "error", "method", "params", "ping", "message",
    "code",
)  # fmt: skip


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 6 else 5)
    if kind < 2:
        return chance.choice(WORDS)
    if kind < 5:
        return chance.choice((None, True, False, 0, -1, 7, 1.5, 10**20, 1, 2, 3))
    count = chance.randrange(5)
    if kind < 6:
        return [value(chance, depth + 1) for _ in range(count)]
    return {chance.choice(WORDS): value(chance, depth + 1) for _ in range(count)}


def listed(chance: random.Random) -> dict[str, Any]:
    more = value(chance, 3)
    schema = value(chance)
    if chance.random() < 0.7:
        schema = {"type": "object", "properties": {"a": value(chance)}, **(more if isinstance(more, dict) else {})}
    return {"name": chance.choice((*WORDS, "echo")), "description": value(chance, 5), "inputSchema": schema}


def settings() -> McpServer:
    return McpServer(name="docs", command="x")


@pytest.mark.parametrize("others", [[], ["del.ete"], ["del.ete", "del ete"]])
def test_a_tool_that_is_disabled_stays_so(others: list[str]) -> None:
    """R-197, F-2: whatever else its server offers, which may give it another name."""
    listing = [{"name": name, "inputSchema": {"type": "object"}} for name in ("keep", "del_ete", *others)]
    offers, _ = read_offers(listing, settings(), str)
    server = Server("docs", lambda: Peer(legacy()), startup_s=1, timeout_s=1, client={})
    running = RunningServer(settings=settings(), server=server, redact=str, offers=tuple(offers))
    assert len(make_tools([running], nonce="ab" * 8)[0]) == len(offers)
    left, _ = make_tools([running], nonce="ab" * 8, disabled=["docs__del_ete"])
    assert [tool.name for tool in left] == ["docs__keep"]


def no_null(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(no_null, value.values())) and (value.get("type") != "array" or "items" in value)
    return all(map(no_null, value)) if isinstance(value, list) else value is not None


@pytest.mark.parametrize("seed", range(20))
def test_tools_of_any_shape(seed: int) -> None:
    """R-198, P-21: what is offered is plain; the rest is lost by name."""
    chance = random.Random(seed)
    server = Server("docs", lambda: Peer(legacy()), startup_s=1, timeout_s=1, client={})
    for _ in range(100):
        listing = [listed(chance) for _ in range(4)]
        offers, _ = read_offers(listing, settings(), str)
        running = RunningServer(settings=settings(), server=server, redact=str, offers=tuple(offers))
        tools, _ = make_tools([running], nonce="ab" * 8)
        for tool in tools:
            json.dumps(tool.parameters, ensure_ascii=False).encode()
            tool.description.encode()
            assert no_null(tool.parameters)
            assert tool.parameters["type"] == "object"


@pytest.mark.parametrize("seed", range(20))
def test_results_of_any_shape(seed: int) -> None:
    """R-201"""
    chance = random.Random(seed)
    for _ in range(200):
        result = value(chance)
        if isinstance(result, dict):
            result["content"] = value(chance) if chance.random() < 0.5 else [value(chance) for _ in range(3)]
            assert isinstance(shorten(result_text(result)), str)
            assert isinstance(unfinished(result), str)
            is_failed(result)


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_any_shape(seed: int) -> None:
    """R-195, R-196, B51: cut, binary, deep, and every message of the protocol with one part exchanged."""
    chance = random.Random(seed)

    def react(message: dict[str, Any]) -> list[Any]:
        honest = list((modern if seed % 2 else legacy)()(message))
        lines: list[Any] = []
        for reply in honest if chance.random() < 0.8 else [value(chance)]:
            if isinstance(reply, dict) and chance.random() < 0.5:
                reply = {**reply, chance.choice((*reply, "x")): value(chance, 3)}
            line = json.dumps(reply).encode()
            if chance.random() < 0.2:
                line = line[: chance.randrange(len(line) + 1)]
            if chance.random() < 0.2:
                line = bytes(chance.randrange(256) for _ in range(chance.randrange(30))).replace(b"\n", b"")
            lines += [line] * chance.choice((1, 1, 1, 2))
        return lines if "id" in message or not lines else [*lines, answer({"id": 1}, {})]

    for _ in range(30):
        peer = Peer(react)
        connection = Connection(peer, client={"name": "odek"}, clock=peer.clock)
        try:
            connection.open(deadline=20, era=None)
            connection.list_tools(deadline=40)
            connection.call("a", {}, timeout_s=5)
            connection.poll()
        except McpFailure:
            continue
