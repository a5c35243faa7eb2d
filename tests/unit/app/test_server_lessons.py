"""What servers refuse is known to the next run, and forgotten after a while or when it is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import make_host, make_layers
from fakes.model_server import ModelServer, status, text
from fakes.zoo import ZOO, Keeper

from odek.app.model import make_model
from odek.app.server_lessons import FILE, KEPT_S, MOST_SERVERS, ServerLessons
from odek.config.resolve import resolve
from odek.host import Host
from odek.model.anthropic import AnthropicApi
from odek.model.openai import OpenAiApi
from odek.model.provider import RequestOptions
from odek.model.types import Message, ToolCall, ToolSpec
from odek.state import StateFolder

SHELL = ToolSpec(
    name="shell", description="Run.", parameters={"type": "object", "properties": {"c": {"type": "string"}}}
)
SPOKEN = (
    Message(role="user", content="go"),
    Message(
        role="assistant",
        tool_calls=(ToolCall(id="call_of_another_server", name="shell", arguments="{}"),),
        reasoning="hm",
        reasoning_field="reasoning_content",
    ),
    Message(role="tool", tool_call_id="call_of_another_server", name="shell", content="ok"),
    Message(role="assistant", content="I see."),
    Message(role="user", content="go on"),
)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = make_host(tmp_path, uid=os.getuid())
    (tmp_path / "home" / ".odek").chmod(0o700)
    return made


def ask(server: ModelServer, host: Host, **flags: object) -> None:
    """Ask once, as a new run does."""
    flags = {"base_url": server.base_url, "model": "m", **flags}
    settings = resolve(make_layers(flags=flags, env={"ODEK_API_KEY": "sk-0123456789"}))
    make_model(settings, host, notify=lambda _: None).complete(SPOKEN, (SHELL,), lambda _: None)


@pytest.mark.parametrize("name", [name for name, kind in ZOO.items() if kind.rules and kind.provider == "openai"])
def test_no_run_but_the_first_is_refused(name: str, host: Host) -> None:
    """R-235, B83 to B92: by a strict server of each kind; no address, key or words of the conversation are kept."""
    with Keeper(ZOO[name], *[text("done")] * 2) as server:
        ask(server, host)
        first = len(server.refusals)
        ask(server, host)
        assert len(server.refusals) == first
    path = Path(host.home, ".odek", FILE)
    if first:
        assert path.stat().st_mode & 0o777 == 0o600
        assert not any(word in path.read_text() for word in ("127.0.0.1", "call_of", "hm", "sk-"))


def test_lesson_that_is_wrong_is_dropped_and_replaced(host: Host) -> None:
    """R-235: a server that changed its mind costs two requests, not every run for a week."""
    refuses = status(400, {"error": {"message": "property 'reasoning_content' is unsupported"}})
    wants = status(400, {"error": {"message": "Missing `reasoning_content` field in the assistant message"}})
    with ModelServer(refuses, text("1"), wants, text("2"), text("3")) as server:
        for _ in range(3):
            ask(server, host)
    server.assert_all_used()
    has = ["reasoning_content" in request.json["messages"][1] for request in server.requests]
    assert has == [True, False, False, True, True]


def test_each_server_and_model_has_its_own(host: Host) -> None:
    """R-235"""
    refuses = status(400, {"error": {"message": "property 'reasoning_content' is unsupported"}})
    with ModelServer(refuses, text("1"), text("2")) as server, ModelServer(text("3")) as other:
        ask(server, host)
        ask(server, host, model="n")
        ask(other, host)
        assert "reasoning_content" in server.requests[-1].json["messages"][1]
        assert "reasoning_content" in other.requests[-1].json["messages"][1]


def test_what_a_setting_asks_for_is_sent_again(host: Host) -> None:
    """R-235: as in the run that learned it."""
    refuses = status(400, {"error": {"message": "Unsupported value: temperature"}})
    with ModelServer(refuses, text("1"), text("2"), text("3")) as server:
        ask(server, host)
        ask(server, host)
        ask(server, host, temperature="0.5")
    sent = [request.json.get("temperature") for request in server.requests]
    assert sent == [0.0, None, None, 0.5]


def test_lessons_end(host: Host) -> None:
    """R-235: after a week; and the oldest of too many."""
    folder, now = StateFolder(host.operator_home), 1_000_000.0
    old = ServerLessons(folder, base_url="http://x/v1", model="m", clock=lambda: now)
    old.keep({"short_ids": True})
    for age, found in ((0, {"short_ids": True}), (KEPT_S, {"short_ids": True}), (KEPT_S + 1, {}), (-5, {})):
        later = ServerLessons(folder, base_url="http://x/v1/", model="m", clock=lambda age=age: now + age)
        assert later.recall() == found
    for number in range(MOST_SERVERS + 5):
        ServerLessons(folder, base_url=f"http://{number}/", model="m", clock=lambda n=number: now + n).keep({"a": 1})
    assert len(json.loads(Path(host.home, ".odek", FILE).read_text())) == MOST_SERVERS


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        '{"x": 7}',
        '{"%s": {"at": "now"}}',
        '{"%s": {"at": 1, "learned": []}}',
        '{"%s": {"learned": {}}}',
    ],
)
def test_file_that_is_not_one_is_no_harm(content: str, host: Host) -> None:
    """R-235"""
    lessons = ServerLessons(StateFolder(host.operator_home), base_url="http://x", model="m", clock=lambda: 1.0)
    path = Path(host.home, ".odek", FILE)
    path.write_text(content.replace("%s", lessons._name))
    path.chmod(0o600)
    assert lessons.recall() == {}
    lessons.keep({"short_ids": True})
    path.chmod(0o666)
    assert lessons.recall() == {}
    lessons.keep({"a": 1})


@pytest.mark.parametrize(
    "lessons",
    [
        {"short_ids": 1, "refused": "x", "bare": None, "demanded": 7, "options": "temperature", "own_header": 1},
        {"refused": [1, None], "options": [["temperature"]], "output_tokens": "9", "adaptive": "yes"},
        {"output_tokens": -1, "unknown": True},
    ],
)
def test_lessons_of_the_wrong_type_are_none(lessons: dict[str, Any]) -> None:
    """R-235: the file may have been edited, or come from another version."""
    for api in (OpenAiApi, AnthropicApi):
        made = api(RequestOptions(model="m", optional=frozenset({"temperature"})))
        made.recall(lessons)
        assert made.learned() == {}
