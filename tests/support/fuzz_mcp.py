"""Broken and strange lines for `odek mcp`: cut, deep, huge, binary, batches, wrong ids, mixed with good ones (W-29)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from support.mcp_client import FORMS, McpClient, modern_meta

METHODS = (
    *("initialize", "ping", "tools/list", "tools/call", "server/discover", "subscriptions/listen", "resources/list"),
    *("notifications/cancelled", "notifications/initialized", "notifications/progress", "elicitation/create", "", "\0"),
)
TOOLS = ("shell", "read_file", "search_files", "glob", "write_file", "patch", "config_view", "sandbox_restart", "none")
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28", "2099-01-01", "", 5, None)
HUGE_BYTES = 17 << 20
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 10**30, "", "a", "\ud800", "é\u2028", [], {}, [[]], {"": {}}, ["a", 1]),
    *("x" * 5000, {"command": "echo fuzz"}, {"path": "../.."}),
)


def lines(seed: int, count: int) -> Iterator[bytes]:
    """Yield so many lines without their ends; the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        yield (b"x" * HUGE_BYTES) if number % 2500 == 1777 else _line(chance)


def _line(chance: random.Random) -> bytes:
    whole = json.dumps(_message(chance)).encode()
    match chance.randrange(12):
        case 0:
            return whole[: chance.randrange(len(whole) + 1)]
        case 1:
            return b"[" * chance.randrange(1, 50_000)
        case 2:
            return bytes(chance.randrange(256) for _ in range(chance.randrange(200))).replace(b"\n", b"")
        case 3:
            return b"[" + b",".join(json.dumps(_message(chance)).encode() for _ in range(chance.randrange(4))) + b"]"
        case 4:
            place = chance.randrange(len(whole))
            return whole[:place] + bytes([chance.randrange(256)]).replace(b"\n", b"") + whole[place + 1 :]
        case 5:
            return b"\xef\xbb\xbf" + whole + b"\r"
        case _:
            return whole


def _message(chance: random.Random) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": chance.randrange(50), "method": chance.choice(METHODS)}
    if message["method"] == "tools/call" or chance.random() < 0.2:
        message["method"] = "tools/call"
        arguments = {"command": "echo fuzz", "path": "f", "pattern": "f", "content": "c", "timeout": 5}
        message["params"] = {"name": chance.choice(TOOLS), "arguments": arguments, "_meta": {"progressToken": 1}}
    elif message["method"] == "initialize":
        message["params"] = {"protocolVersion": chance.choice(VERSIONS), "capabilities": FORMS}
    elif message["method"] == "notifications/cancelled":
        message["params"] = {"requestId": chance.randrange(50)}
        message.pop("id", None)
    if chance.random() < 0.3:
        message.setdefault("params", {})
        message["params"] = {**message["params"], "_meta": modern_meta(FORMS)}
    if chance.random() < 0.3:  # something is of another kind
        holder = chance.choice([message, message.get("params", message)])
        if isinstance(holder, dict):
            holder[chance.choice([*holder, "result", "error", "params"])] = chance.choice(VALUES)
    if chance.random() < 0.05:
        message.pop(chance.choice(list(message)), None)
    return message


def fuzz(client: McpClient, *, seed: int, count: int) -> int:
    """Send so many lines; return how many answers came. Every line of stdout is checked by the client as it comes."""
    assert client.process.stdin
    pipe = client.process.stdin.buffer  # type: ignore[attr-defined]
    for line in lines(seed, count):
        pipe.write(line + b"\n")
    pipe.flush()
    ping = client.send("ping", id="the last one")
    client.answer_to(ping)
    for message in client.messages:
        for each in message if isinstance(message, list) else (message,):
            assert each["jsonrpc"] == "2.0", each
            assert "method" in each or ("result" in each) != ("error" in each), each
            if "error" in each:
                assert isinstance(each["error"]["code"], int)
                assert "Traceback" not in each["error"]["message"]
    return len(client.messages)
