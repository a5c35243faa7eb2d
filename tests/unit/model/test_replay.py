"""replay.py: recordings played back, and made (R-87)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from fakes.model import ScriptedModel, call_reply, text_reply

from odek.app.model import replay_path
from odek.cancel import CancelToken, use_token
from odek.demo.recording import render_recording
from odek.errors import Cancelled
from odek.model.errors import ModelError, ModelUnreachable
from odek.model.replay import RecordedReply, RecordingModel, ReplayModel, arrived_text, load_replay
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.tools.registry import render_json

HEADER = '{"odek_replay": 1}\n'
ASK = (Message(role="user", content="go"),)


def replay(text: str) -> ReplayModel:
    return ReplayModel("demo.jsonl", lambda _path: text)


def nothing(_text: str) -> None:
    pass


def read_utf8(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def test_replies_are_read_with_everything_they_can_hold() -> None:
    """R-87."""
    text = (
        '\ufeff{"odek_replay": 1, "title": "a demo"}\r\n'
        "\r\n"
        '{"content": "I look.", "tool_calls": [{"name": "shell", "arguments": {"command": "ls ä"}, "id": "x"},'
        ' {"name": "shell", "arguments": "{oops"}], "usage": {"input_tokens": 5, "cached_tokens": 2},'
        ' "reasoning": "hm", "expect": ["go"]}\r\n'
        '{"content": "a\u2028b", "stop": "length"}\n'
        "{}"
    )
    assert load_replay(text, "demo.jsonl") == (
        RecordedReply(
            reply=Reply(
                message=Message(
                    role="assistant",
                    content="I look.",
                    tool_calls=(
                        ToolCall(id="x", name="shell", arguments='{"command": "ls ä"}'),
                        ToolCall(id="replay_3_2", name="shell", arguments="{oops"),
                    ),
                    reasoning="hm",
                ),
                usage=Usage(input_tokens=5, cached_tokens=2),
                stop="tool_calls",
            ),
            expect=("go",),
            line=3,
        ),
        RecordedReply(
            reply=Reply(message=Message(role="assistant", content="a\u2028b"), stop="length"), expect=(), line=4
        ),
        RecordedReply(reply=Reply(message=Message(role="assistant"), stop="stop"), expect=(), line=5),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: is empty"),
        (" \n\n", "line 1: is empty"),
        ('\n{"content": "x"}', 'line 2: must begin with the header {"odek_replay": 1}'),
        ('{"odek_replay": 2}', "line 1: is of version 2; this odek understands version 1"),
        ('{"odek_replay": true}', "line 1: is of version true; this odek understands version 1"),
        ('{"odek_replay": 1, "titel": "x"}', 'line 1: unknown key "titel"'),
        ('{"odek_replay": 1, "title": 3}', 'line 1: "title" must be a text'),
        (
            HEADER + "{",
            "line 2: not valid JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
        ),
        (HEADER + "\n[]", "line 3: no JSON object"),
        (HEADER + '{"delay_s": 1}', 'line 2: unknown key "delay_s"'),
        (HEADER + '{"content": null}', 'line 2: "content" must be a text'),
        (HEADER + '{"stop": 1}', 'line 2: "stop" must be a text'),
        (HEADER + '{"reasoning": 1}', 'line 2: "reasoning" must be a text'),
        (HEADER + '{"expect": "x"}', 'line 2: "expect" must be a list of texts'),
        (HEADER + '{"expect": [1]}', 'line 2: "expect" must be a list of texts'),
        (HEADER + '{"tool_calls": {}}', 'line 2: "tool_calls" must be a list of objects'),
        (HEADER + '{"tool_calls": ["x"]}', 'line 2: "tool_calls" must be a list of objects'),
        (HEADER + '{"tool_calls": [{"arguments": {}}]}', "line 2: a tool call has no name"),
        (
            HEADER + '{"tool_calls": [{"name": "x", "arguments": [1]}]}',
            'line 2: "arguments" must be an object or a text',
        ),
        (HEADER + '{"tool_calls": [{"name": "x", "args": {}}]}', 'line 2: unknown key "args"'),
        (
            HEADER + '{"tool_calls": [{"name": "x", "id": "a"}, {"name": "y", "id": "a"}]}',
            "line 2: two tool calls have the same id",
        ),
        (HEADER + '{"usage": []}', 'line 2: "usage" must be an object'),
        (HEADER + '{"usage": {"input_tokens": -1}}', 'line 2: "input_tokens" must be a whole number'),
        (HEADER + '{"usage": {"input_tokens": true}}', 'line 2: "input_tokens" must be a whole number'),
        (HEADER + '{"usage": {"tokens": 1}}', 'line 2: unknown key "tokens"'),
        (
            HEADER + "{}\n" + '{"a\x1b": 1}',
            "line 3: not valid JSON (Invalid control character at: line 1 column 4 (char 3))",
        ),
        (HEADER + '{"\\u001b[2J": 1}', 'line 2: unknown key "\\x1b[2J"'),
    ],
)
def test_broken_recording_is_refused_with_its_line(text: str, message: str) -> None:
    """R-87."""
    with pytest.raises(ModelError) as caught:
        load_replay(text, "demo.jsonl")
    assert caught.value.message == f'the recording "demo.jsonl", {message}'


def test_deeply_nested_recording_is_no_crash() -> None:
    with pytest.raises(ModelError):
        load_replay(HEADER + "[" * 100_000, "demo.jsonl")


def test_replies_come_in_order_and_then_no_more() -> None:
    """R-87: running out is an error that says so."""
    model = replay(HEADER + '{"content": "one"}\n{"content": "two"}\n')
    shown: list[str] = []
    assert [model.complete(ASK, (), shown.append).message.content for _ in range(2)] == ["one", "two"]
    assert shown == ["one", "two"]
    with pytest.raises(ModelError) as caught:
        model.complete(ASK, (), nothing)
    assert caught.value.message == 'the recording "demo.jsonl" has run out after 2 replies'


def test_cancelled_task_gets_no_reply_and_uses_none_up() -> None:
    """R-101: as of every other model."""
    model = replay(HEADER + '{"content": "one"}\n')
    token = CancelToken()
    token.cancel()
    with use_token(token), pytest.raises(Cancelled):
        model.complete(ASK, (), pytest.fail)
    assert model.complete(ASK, (), nothing).message.content == "one"


def test_expected_texts_are_looked_for_in_what_came_in_since_the_last_reply() -> None:
    """R-87: a recording that no longer fits stops the run."""
    first = Message(role="assistant", tool_calls=(ToolCall(id="a", name="shell", arguments="{}"),))
    fits = (*ASK, first, Message(role="tool", content="exit code 0\nhello", tool_call_id="a"))
    model = replay(HEADER + '{"content": "done", "expect": ["exit code 0", "hello"]}\n')
    assert model.complete(fits, (), nothing).message.content == "done"

    differs = (
        Message(role="user", content="exit code 0 hello"),
        first,
        Message(role="tool", content="exit code 1\x1b[2J", tool_call_id="a"),
    )
    model = replay(HEADER + '{"content": "done", "expect": ["exit code", "hello"]}\n')
    with pytest.raises(ModelError) as caught:
        model.complete(differs, (), nothing)
    error = caught.value
    assert error.message == 'the recording no longer fits what happens ("demo.jsonl", line 2): expected "hello"'
    assert error.detail == "what came instead: exit code 1\\x1b[2J"


def test_no_to_an_operation_ends_the_recording_calmly() -> None:
    """R-87: with words that it has for that; without them, or where nothing was denied, the run stops as ever."""
    denied = Message(role="tool", content=render_json({"error": "operation denied by user: rm"}), tool_call_id="c")
    steps = '{"content": "done", "expect": ["0 failed"], "if_denied": "As you say."}\n{"content": "more"}\n'
    model, said = replay(HEADER + steps), list[str]()
    reply = model.complete((denied,), (), said.append)
    assert (reply.message.content, reply.message.tool_calls, said) == ("As you say.", (), ["As you say."])
    assert_error(lambda: model.complete(ASK, (), nothing), "has run out")
    assert_error(lambda: replay(HEADER + steps).complete(ASK, (), nothing), 'expected "0 failed"')
    no_words = replay(HEADER + '{"expect": ["0 failed"]}\n')
    assert_error(lambda: no_words.complete((denied,), (), nothing), 'expected "0 failed"')


def test_demo_has_last_words_for_each_call() -> None:
    steps = load_replay(render_recording(), "demo")
    asks = [before for before, _ in pairwise(steps) if before.reply.message.tool_calls]
    assert [bool(step.if_denied) for step in steps] == [False] + [True] * len(asks)


def assert_error(act: Callable[[], object], words: str) -> None:
    with pytest.raises(ModelError) as caught:
        act()
    assert words in caught.value.message


def test_before_the_first_reply_everything_is_new() -> None:
    messages = (Message(role="system", content="rules"), Message(role="user", content="go"))
    assert arrived_text(messages) == "rules\ngo"
    assert arrived_text((*messages, Message(role="assistant", content="x"))) == ""


def test_long_mismatch_is_clipped() -> None:
    model = replay(HEADER + json.dumps({"expect": ["e" * 5000]}))
    with pytest.raises(ModelError) as caught:
        model.complete((Message(role="user", content="u" * 5000),), (), nothing)
    assert len(caught.value.message) < 600
    assert len(caught.value.detail) < 600


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (
            lambda path: (_ for _ in ()).throw(FileNotFoundError(2, "No such file or directory", path)),
            "No such file or directory",
        ),
        (lambda _path: b"\xff".decode(), "it is not UTF-8 text"),
    ],
)
def test_unreadable_recording_is_an_error(read: Callable[[str], str], reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        ReplayModel("demo\n.jsonl", read)
    assert caught.value.message == f'the recording "demo\\n.jsonl" cannot be read: {reason}'


REPLIES = (
    call_reply(
        ("shell", {"command": 'echo "ä"\n'}), ("shell", "{oops"), content="I look.", usage=Usage(input_tokens=9)
    ),
    call_reply(("shell", '{"command":"ls"}'), ("shell", '{"a": 1, "a": 2}')),
    Reply(message=Message(role="assistant", content="cut", reasoning="hm"), stop="length"),
    text_reply("done", usage=Usage(input_tokens=1, output_tokens=2, cached_tokens=3)),
    Reply(message=Message(role="assistant"), stop=""),
)


def test_recording_replays(tmp_path: Path) -> None:
    """R-87: the same replies come back."""
    path = str(tmp_path / "run.jsonl")
    inner = ScriptedModel(REPLIES)
    recording = RecordingModel(inner, path, title="a\nb")
    shown: list[str] = []
    assert [recording.complete(ASK, (), shown.append) for _ in REPLIES] == list(REPLIES)
    recording.close()
    recording.close()
    inner.assert_all_used()
    assert shown == ["I look.", "cut", "done"]
    played = ReplayModel(path, read_utf8)
    assert [played.complete(ASK, (), nothing) for _ in REPLIES] == list(REPLIES)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_recording_is_on_disk_after_every_reply_and_holds_nothing_of_the_request(tmp_path: Path) -> None:
    """R-87: no key, no prompt; what was recorded survives a crash."""
    path = tmp_path / "run.jsonl"
    recording = RecordingModel(ScriptedModel([text_reply("hi")]), str(path))
    assert path.read_text() == HEADER
    recording.complete((Message(role="user", content="a secret question"),), (), nothing)
    usage = '"usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}'
    assert path.read_text() == HEADER + '{"content": "hi", ' + usage + ', "stop": "stop"}\n'
    recording.close()


def test_failed_call_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = RecordingModel(ScriptedModel([ModelUnreachable("gone"), text_reply("hi")]), str(path))
    with pytest.raises(ModelUnreachable):
        recording.complete(ASK, (), nothing)
    recording.complete(ASK, (), nothing)
    recording.close()
    assert len(load_replay(path.read_text(), "x")) == 1


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    """R-87; a link counts as existing, wherever it points."""
    path = tmp_path / "run.jsonl"
    path.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (path, link):
        with pytest.raises(ModelError) as caught:
            RecordingModel(ScriptedModel([]), str(taken))
        assert caught.value.message == f'the recording "{taken}" exists already'
    assert path.read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["missing/run.jsonl", "nul\0byte"])
def test_place_that_cannot_be_written_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="cannot be created"):
        RecordingModel(ScriptedModel([]), f"{tmp_path}/{name}")


def test_recording_that_can_no_longer_be_written_is_an_error_and_not_a_bug(tmp_path: Path) -> None:
    recording = RecordingModel(ScriptedModel([text_reply("hi")]), str(tmp_path / "run.jsonl"))
    recording.close()
    with pytest.raises(ModelError, match="cannot be written: Bad file descriptor"):
        recording.complete(ASK, (), nothing)


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("replay:demo.jsonl", "demo.jsonl"), ("replay:/a/b:c", "/a/b:c"), ("replay:", ""), ("https://replay:1/", None)],
)
def test_replay_address(base_url: str, path: str | None) -> None:
    """R-87."""
    assert replay_path(base_url) == path
