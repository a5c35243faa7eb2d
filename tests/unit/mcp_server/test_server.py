"""The conversation with a client, line by line: which request is answered how, in both eras."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from odek.cancel import current_token
from odek.errors import Cancelled, OdekError
from odek.mcp.messages import (
    CAPABILITIES_KEY,
    LEGACY,
    MODERN,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    Json,
    RpcError,
)
from odek.mcp_server import calls
from odek.mcp_server.calls import Call, Calls
from odek.mcp_server.server import Server, ToolCall, has_forms, text_result

LONG_S = 60.0
TOOL: Json = {"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}
INFO = {"name": "odek", "title": "odek", "version": "9"}
META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}


class FakeService:
    """A service whose calls say their text again; `hold` ones wait until they are cancelled or released."""

    instructions = "be careful"

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.ended: list[str] = []
        self.release = threading.Event()
        self.server: Server | None = None

    def tools(self) -> Sequence[Json]:
        return [TOOL]

    def call(self, call: ToolCall) -> Json:
        self.calls.append(call)
        match call.name:
            case "echo":
                return text_result(str(call.arguments.get("text", "")))
            case "hold":
                try:
                    while not self.release.wait(0.01):
                        current_token().raise_if_cancelled()
                finally:
                    self.ended.append(str(call.arguments.get("text", "")))
                return text_result("held")
            case "deaf":
                self.release.wait(LONG_S)
                return text_result("too late")
            case "broken":
                raise KeyError("x")
            case "stopped":
                raise Cancelled
            case "refused":
                raise OdekError("no sandbox", hint="start Docker")
            case "asks":
                assert self.server is not None
                answer = self.server.ask("elicitation/create", {"message": "m"}, float(call.arguments["seconds"]))
                return text_result(json.dumps(answer.result if answer else None))
        raise RpcError(-32602, "there is no such tool")


class Client:
    """Sends lines and looks at what comes back."""

    def __init__(self, **options: Any) -> None:
        self.service = FakeService()
        self.logged: list[str] = []
        self._lines: list[bytes] = []
        self._came = threading.Condition()
        calls = None
        if options:
            calls = Calls(send=self._send, report_bug=lambda error: self.logged.append(repr(error)), **options)
        self.server = Server(
            self.service,
            version="9",
            write=self._write,
            log=self.logged.append,
            debug=lambda _: None,
            calls=calls,
        )
        self.service.server = self.server

    def _send(self, message: Json) -> None:
        self.server.send(message)

    def _write(self, line: bytes) -> None:
        with self._came:
            self._lines.append(line)
            self._came.notify_all()

    def raw(self, line: bytes | None) -> None:
        self.server.take(line)

    def send(self, method: str, params: object = None, id: object = 1, **more: Any) -> None:  # noqa: A002
        message = {"jsonrpc": "2.0", "id": id, "method": method, **more}
        if params is not None:
            message["params"] = params
        self.server.take(json.dumps(message).encode())

    def notify(self, method: str, params: object) -> None:
        self.server.take(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def sent(self) -> list[Any]:
        with self._came:
            return [json.loads(line) for line in self._lines]

    def wait_for(self, wanted: Callable[[Any], bool]) -> Any:
        """Return the first message that is `wanted`."""
        with self._came:
            assert self._came.wait_for(lambda: any(wanted(json.loads(line)) for line in self._lines), LONG_S)
            return next(message for message in map(json.loads, self._lines) if wanted(message))

    def answer(self, id: object = 1) -> Any:  # noqa: A002
        return self.wait_for(lambda message: isinstance(message, dict) and message.get("id") == id)

    def ask(self, method: str, params: object = None, id: object = 1) -> Any:  # noqa: A002
        self.send(method, params, id)
        return self.answer(id)

    def initialize(self, version: str = LEGACY[0], capabilities: object = None) -> Any:
        params = {"protocolVersion": version, "capabilities": capabilities or {}}
        return self.ask("initialize", params, id="init")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("version", [*LEGACY, MODERN, "2099-01-01", "2023-01-01", "", 5, None, ["2025-11-25"]])
def test_initialize_is_never_an_error(version: object) -> None:
    """R-173, P-20: a version that is not ours is answered with the newest that has a handshake."""
    answer = Client().ask("initialize", {"protocolVersion": version, "capabilities": {}})
    assert answer["result"] == {
        "protocolVersion": version if version in LEGACY else LEGACY[0],
        "serverInfo": INFO,
        "capabilities": {"tools": {"listChanged": True}},
        "instructions": "be careful",
    }


def test_initialize_may_come_without_anything_and_again() -> None:
    client = Client()
    assert client.ask("initialize", id=1)["result"]["protocolVersion"] == LEGACY[0]
    assert client.ask("initialize", {"protocolVersion": LEGACY[3]}, id=2)["result"]["protocolVersion"] == LEGACY[3]
    assert client.ask("tools/list", id=3)["result"] == {"tools": [TOOL]}


def test_discover_then_initialize_in_one_process() -> None:
    """W-28: what a request carries decides, request by request."""
    client = Client()
    found = client.ask("server/discover", {"_meta": META}, id=1)["result"]
    assert found == {
        "resultType": "complete",
        "supportedVersions": [MODERN, *LEGACY],
        "capabilities": {"tools": {"listChanged": True}},
        "instructions": "be careful",
        "ttlMs": 3_600_000,
        "cacheScope": "private",
        "_meta": {SERVER_KEY: INFO},
    }
    assert client.ask("tools/list", {}, id=2)["error"]["code"] == -32602  # neither modern nor initialized
    client.initialize()
    assert client.ask("tools/list", {}, id=3)["result"] == {"tools": [TOOL]}
    assert client.ask("tools/list", {"_meta": META}, id=4)["result"] == {
        "resultType": "complete",
        "tools": [TOOL],
        "ttlMs": 10_000,
        "cacheScope": "private",
        "_meta": {SERVER_KEY: INFO},
    }


MODERN_CODES = {
    "ping": -32601,
    "resources/list": -32601,
    "prompts/list": -32601,
    "logging/setLevel": -32601,
    "completion/complete": -32601,
    "tasks/list": -32601,
    "": -32601,
}
LEGACY_CODES = {**MODERN_CODES, "ping": None, "server/discover": -32601, "subscriptions/listen": -32601}


@pytest.mark.parametrize(("method", "code"), MODERN_CODES.items())
def test_methods_of_the_modern_era(method: str, code: int | None) -> None:
    """R-173"""
    assert Client().ask(method, {"_meta": META}).get("error", {}).get("code") == code


@pytest.mark.parametrize(("method", "code"), LEGACY_CODES.items())
def test_methods_of_the_legacy_era(method: str, code: int | None) -> None:
    """R-173, P-20: an unknown request is an answer, not an end."""
    client = Client()
    client.initialize()
    assert client.ask(method, {}).get("error", {}).get("code") == code
    assert client.ask("ping", id=2)["result"] == {}


def test_only_a_ping_is_answered_before_an_opening() -> None:
    """R-173"""
    client = Client()
    assert client.ask("ping", id=1)["result"] == {}
    for id, method in enumerate(("tools/list", "tools/call", "server/discover", "x"), 2):  # noqa: A001
        assert client.ask(method, {}, id=id)["error"]["code"] == -32602
    client.notify("notifications/initialized", {})
    client.notify("notifications/unknown", {})
    assert len(client.sent()) == 5


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"[" * 10_000, -32700, None),
        (None, -32600, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"5", -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        (b'{"id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":5}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":1}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":[]}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"none"}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"broken"}}', -32603, 7),
    ],
)
def test_bad_input_is_answered_and_service_goes_on(line: bytes | None, code: int, id: object) -> None:  # noqa: A002
    """R-174"""
    client = Client()
    client.initialize()
    client.raw(line)
    error = client.wait_for(lambda message: message.get("id") == id and "error" in message)["error"]
    assert error["code"] == code
    assert "\n" not in error["message"]
    assert client.ask("ping", id="after")["result"] == {}


def test_blank_lines_and_answers_to_nothing_are_skipped() -> None:
    client = Client()
    for line in (
        b"",
        b"  \t",
        b"\r",
        b'{"jsonrpc":"2.0","id":"odek-1","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{}}',
    ):
        client.raw(line)
    assert client.sent() == []


def test_a_batch_is_carried_out_in_the_one_version_that_has_it() -> None:
    """R-174: one list of answers, when the last has come; without requests there is none."""
    client = Client()
    client.initialize("2025-03-26")
    batch: list[object] = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "a"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
        7,
        {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": {"_meta": META, "notifications": {}}},
    ]
    client.raw(json.dumps(batch).encode())
    answers = client.wait_for(lambda message: isinstance(message, list))
    assert sorted((answer["id"] or 0, "result" in answer) for answer in answers) == [
        (0, False),
        (1, True),
        (2, True),
        (3, False),
    ]
    before = len(client.sent())
    client.raw(b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]')
    assert len(client.sent()) == before
    client.raw(b"[" + b",".join([b"1"] * 1001) + b"]")  # its answers would be kept until the last has come
    assert client.sent()[before:] == [
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "a batch has at most 1000 messages"}}
    ]


def test_an_id_that_is_in_use_is_refused_without_being_named() -> None:
    """R-174: an error with that id would be taken for the answer that is still to come; 1 and "1" are two ids."""
    client = Client()
    client.initialize()
    client.send("tools/call", {"name": "hold"}, id=1)
    client.send("ping", id=1)
    assert client.answer(None)["error"]["message"] == "the id is in use"
    assert client.ask("ping", id="1")["result"] == {}
    client.service.release.set()
    assert client.answer(1)["result"] == text_result("held")
    assert client.ask("ping", id=2)["result"] == {}


def test_a_cancelled_call_is_stopped_and_gets_no_answer() -> None:
    """R-178, P-26: others go on, and the server lives."""
    client = Client()
    client.initialize()
    client.send("tools/call", {"name": "hold", "arguments": {"text": "a"}}, id=1)
    client.send("tools/call", {"name": "hold", "arguments": {"text": "b"}}, id=2)
    client.send("tools/call", {"name": "deaf"}, id=3)
    wait_until(lambda: len(client.service.calls) == 3)
    for id in (3, 1, 1, 99, "1", None, True, [], 2.5):  # noqa: A001
        client.notify("notifications/cancelled", {"requestId": id})
    wait_until(lambda: client.service.ended == ["a"])
    client.service.release.set()
    assert client.answer(2)["result"] == text_result("held")
    assert client.ask("ping", id=1)["result"] == {}
    client.server.close(LONG_S)
    assert sorted(client.service.ended) == ["a", "b"]
    assert [message["id"] for message in client.sent()] == ["init", 2, 1]


def test_calls_beyond_the_queue_are_refused() -> None:
    """R-178: eight at work, 32 wait."""
    client = Client()
    client.initialize()
    for id in range(40):  # noqa: A001
        client.send("tools/call", {"name": "hold", "arguments": {"text": str(id)}}, id=id)
    refused = client.ask("tools/call", {"name": "echo"}, id=40)["result"]
    assert refused["isError"] is True
    assert refused["content"][0]["text"].startswith("too many calls")
    assert client.ask("tools/list", id=41)["result"] == {"tools": [TOOL]}  # does not wait for calls
    client.notify("notifications/cancelled", {"requestId": 39})
    client.send("tools/call", {"name": "echo", "arguments": {"text": "in"}}, id=42)
    client.service.release.set()
    assert client.answer(42)["result"] == text_result("in")
    assert client.answer(38)["result"] == text_result("held")


def test_progress_is_told_to_who_asked_and_not_after_the_end() -> None:
    """R-178, P-25"""
    client = Client(progress_s=0.02)
    client.initialize()
    client.send("tools/call", {"name": "hold", "arguments": {"path": "a\x1bb"}, "_meta": {"progressToken": "t"}}, id=1)
    client.send("tools/call", {"name": "hold"}, id=2)

    def several(_: Any) -> bool:
        return sum(json.loads(line).get("method") == "notifications/progress" for line in client._lines) >= 3

    client.wait_for(several)
    client.service.release.set()
    client.answer(1)
    told = [message for message in client.sent() if message.get("method") == "notifications/progress"]
    assert {message["params"]["progressToken"] for message in told} == {"t"}
    steps = [message["params"]["progress"] for message in told]
    assert steps == sorted(steps)
    assert told[0]["params"]["message"].startswith("hold: a\\x1bb, ")
    sent = client.sent()
    after = sent[sent.index(client.answer(1)) :]
    assert not [message for message in after if message.get("method") == "notifications/progress"]


def test_an_error_of_odek_is_a_result_with_its_hint() -> None:
    client = Client()
    client.initialize()
    answer = client.ask("tools/call", {"name": "refused"})["result"]
    assert answer == text_result("no sandbox\nhint: start Docker", is_error=True)
    modern = client.ask("tools/call", {"name": "refused", "_meta": META}, id=2)["result"]
    assert modern == {"resultType": "complete", **answer, "_meta": {SERVER_KEY: INFO}}


def test_a_bug_is_one_sentence_for_the_client_and_named_to_the_operator() -> None:
    """R-174"""
    client = Client()
    client.initialize()
    error = client.ask("tools/call", {"name": "broken"})["error"]
    assert error == {"code": -32603, "message": "a bug in odek: KeyError; see its stderr"}
    assert client.logged == ["bug: KeyError: KeyError('x')"]


@pytest.mark.parametrize(
    ("capabilities", "forms"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({}, False),
        (None, False),
        ([], False),
    ],
)
def test_which_clients_can_show_a_form(capabilities: object, forms: bool) -> None:
    """R-179"""
    assert has_forms(capabilities) is forms
    client = Client()
    client.initialize("2025-06-18", capabilities)
    client.ask("tools/call", {"name": "echo"})
    client.initialize("2025-03-26", capabilities)
    client.ask("tools/call", {"name": "echo"}, id=2)
    assert [call.forms for call in client.service.calls] == [forms, False]


def test_a_question_is_answered_by_its_id_or_not_in_time() -> None:
    """R-179, P-27: meanwhile others are served, and a late answer harms nothing."""
    client = Client()
    client.initialize(capabilities={"elicitation": {}})
    client.send("tools/call", {"name": "asks", "arguments": {"seconds": LONG_S}}, id=1)
    asked = client.wait_for(lambda message: message.get("method") == "elicitation/create")
    assert client.ask("tools/call", {"name": "echo"}, id=2)["result"]
    for id in ("odek-99", 1, asked["id"]):  # noqa: A001
        client.raw(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"action": str(id)}}).encode())
    client.raw(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "a second answer"}}).encode())
    assert client.answer(1)["result"] == text_result(json.dumps({"action": asked["id"]}))
    silent = client.ask("tools/call", {"name": "asks", "arguments": {"seconds": 0.1}}, id=3)
    assert silent["result"] == text_result("null")
    second = client.wait_for(lambda message: message.get("id") == "odek-2")
    client.raw(json.dumps({"jsonrpc": "2.0", "id": second["id"], "result": {}}).encode())
    cancelled = client.wait_for(lambda message: message.get("method") == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == "odek-2"


def test_questions_without_an_answer_hold_up_nobody() -> None:
    """R-178, W-32: as many as may be at work wait for a person; others are served, and no more than two at a time."""
    client = Client(workers=2, queue_length=6)
    client.initialize(capabilities={"elicitation": {}})
    for id in (1, 2, 3):  # noqa: A001
        client.send("tools/call", {"name": "asks", "arguments": {"seconds": LONG_S}}, id=id)
    client.wait_for(lambda message: message.get("id") == "odek-3")
    for id in (4, 5, 6):  # noqa: A001
        client.send("tools/call", {"name": "hold", "arguments": {"text": str(id)}}, id=id)
    wait_until(lambda: len(client.service.calls) == 5)
    client.send("tools/call", {"name": "echo"}, id=7)
    for name in ("odek-1", "odek-2"):
        client.raw(json.dumps({"jsonrpc": "2.0", "id": name, "result": {}}).encode())
    client.notify("notifications/cancelled", {"requestId": 4})
    wait_until(lambda: client.service.ended == ["4"])
    client.answer(1)  # before those in the queue, and the second one after it
    client.answer(2)
    wait_until(lambda: len(client.service.calls) == 6)
    client.notify("notifications/cancelled", {"requestId": 3})
    client.service.release.set()
    for id, text in ((5, "held"), (6, "held"), (7, "")):  # noqa: A001
        assert client.answer(id)["result"] == text_result(text)
    client.server.close(LONG_S)
    assert [call.arguments.get("text") for call in client.service.calls][3:] == ["4", "5", "6", None]
    assert client.logged == []


def test_a_call_that_was_answered_goes_on_only_when_there_is_room() -> None:
    """R-178: what waits for a person beyond it does not count, and what goes on does."""
    client = Client(workers=1, queue_length=6)
    client.initialize(capabilities={"elicitation": {}})
    client.send("tools/call", {"name": "asks", "arguments": {"seconds": LONG_S}}, id=1)
    client.wait_for(lambda message: message.get("id") == "odek-1")
    client.send("tools/call", {"name": "hold"}, id=2)
    client.send("tools/call", {"name": "echo"}, id=3)
    wait_until(lambda: len(client.service.calls) == 2)
    client.raw(b'{"jsonrpc": "2.0", "id": "odek-1", "result": {}}')
    assert client.ask("tools/list", id=4)["result"] == {"tools": [TOOL]}
    assert [message["id"] for message in client.sent()] == ["init", "odek-1", 4]
    wait_until(lambda: client.server._calls._answered == 1)  # its thread has woken
    client.service.release.set()
    client.answer(3)
    answered = [message["id"] for message in client.sent()]
    assert answered.index(1) < answered.index(3)
    assert 2 in answered


def test_calls_that_wait_for_a_person_do_not_fill_the_queue() -> None:
    """R-178: a client that answers no form can still call, up to a number of forms."""
    client = Client(workers=1, queue_length=1)
    client.initialize(capabilities={"elicitation": {}})
    for number in range(calls.MOST_SUSPENDED + 2):
        client.send("tools/call", {"name": "asks", "arguments": {"seconds": LONG_S}}, id=number)
        client.wait_for(lambda message, number=number: message.get("id") == f"odek-{number + 1}")
    client.send("tools/call", {"name": "echo"}, id="one more")
    assert "too many calls" in str(client.answer("one more")["result"])
    for number in range(2):
        client.raw(json.dumps({"jsonrpc": "2.0", "id": f"odek-{number + 1}", "result": {}}).encode())
        client.answer(number)
    assert client.ask("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id=1000)["result"] == text_result("a")
    client.server.close(LONG_S)
    assert client.logged == []


def test_a_call_that_nobody_cancelled_is_answered() -> None:
    """R-178: work that is stopped for a reason of its own must not leave its client waiting."""
    client = Client()
    client.initialize()
    assert "call again" in client.ask("tools/call", {"name": "stopped"})["error"]["message"]


@pytest.mark.parametrize("seed", range(4))
def test_every_call_is_answered_once_or_was_cancelled(seed: int) -> None:
    """R-178: calls, cancels of any id, ids that are used again, and answers to forms, in any order."""
    chance = random.Random(seed)
    client = Client(workers=3, queue_length=1000)
    client.initialize(capabilities={"elicitation": {}})
    sent: dict[int, int] = {}
    cancelled: set[int] = set()
    for number in range(400):
        if chance.random() < 0.35 and sent:
            id = chance.choice(list(sent))  # noqa: A001
            cancelled.add(id)
            client.notify("notifications/cancelled", {"requestId": id})
        elif chance.random() < 0.2:
            asked = f"odek-{chance.randrange(1, 40)}"
            client.raw(json.dumps({"jsonrpc": "2.0", "id": asked, "result": {}}).encode())
        else:
            again = bool(cancelled) and chance.random() < 0.2
            id = chance.choice(sorted(cancelled)) if again else number  # noqa: A001
            name = chance.choice(["echo", "hold", "asks", "broken", "stopped", "refused"])
            client.send("tools/call", {"name": name, "arguments": {"seconds": 0.2, "text": "x"}}, id=id)
            sent[id] = sent.get(id, 0) + 1
    client.service.release.set()
    for id in sent.keys() - cancelled:  # noqa: A001
        client.answer(id)
    client.server.finish_lists(LONG_S)
    client.server.close(LONG_S)
    answers = [message["id"] for message in client.sent() if "method" not in message and message.get("id") != "init"]
    known = [each for each in answers if isinstance(each, int)]
    assert all(known.count(each) == 1 for each in sent.keys() - cancelled)
    assert all(known.count(each) <= sent[each] for each in cancelled)


def test_who_listens_hears_of_another_list_of_tools() -> None:
    """R-173, R-176: acknowledged for tools alone; legacy clients always hear of it."""
    client = Client()
    wanted = {"toolsListChanged": True, "promptsListChanged": True}
    client.send("subscriptions/listen", {"_meta": META, "notifications": wanted}, id="s")
    client.send("subscriptions/listen", {"_meta": META, "notifications": {"promptsListChanged": True}}, id=5)
    client.server.notify_tools_changed()
    assert client.sent() == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": granted, "_meta": {SUBSCRIPTION_KEY: id}},
        }
        for id, granted in (("s", {"toolsListChanged": True}), (5, {}))  # noqa: A001
    ] + [
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {SUBSCRIPTION_KEY: "s"}},
        }
    ]
    client.notify("notifications/cancelled", {"requestId": "s"})
    client.initialize()
    client.server.notify_tools_changed()
    assert client.sent()[-1] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    client.server.close(LONG_S)
    assert client.answer(5)["result"]["resultType"] == "complete"


def test_what_ends_cancels_all_calls() -> None:
    """R-180"""
    client = Client()
    client.initialize()
    for id in range(10):  # noqa: A001
        client.send("tools/call", {"name": "hold", "arguments": {"text": str(id)}}, id=id)
    client.server.close(LONG_S)
    assert len(client.service.ended) == len([call for call in client.service.calls if call.name == "hold"])
    assert [message["id"] for message in client.sent()] == ["init"]
    assert isinstance(Call, type)
