from __future__ import annotations

import pytest

from odek.model.pairing import error_result, group_spans, interrupted_result
from odek.model.types import Message, ToolCall

CALL = ToolCall(id="1", name="shell", arguments="{}")
KINDS = {
    "s": Message(role="system"),
    "u": Message(role="user", content="go"),
    "a": Message(role="assistant", content="done"),
    "c": Message(role="assistant", tool_calls=(CALL,)),
    "t": Message(role="tool", tool_call_id="1"),
}


@pytest.mark.parametrize(
    ("messages", "groups"),
    [
        ("", []),
        ("suca", ["s", "u", "c", "a"]),
        ("uctcttu", ["u", "ct", "ctt", "u"]),
        ("uctsts", ["u", "ctsts"]),
        ("ttut", ["t", "t", "u", "t"]),
        ("uast", ["u", "a", "s", "t"]),
    ],
)
def test_calls_and_their_results_are_one_group(messages: str, groups: list[str]) -> None:
    """B44: the rule by which a conversation is shortened, paired, and sent in part."""
    spans = group_spans([KINDS[kind] for kind in messages])
    assert [messages[first:end] for first, end in spans] == groups


def test_result_of_a_call_that_was_not_carried_out() -> None:
    assert error_result(CALL, "no").content == '{"error":"no"}'
    told = interrupted_result(CALL)
    assert (told.role, told.tool_call_id, told.name) == ("tool", "1", "shell")
    assert told.content.startswith('{"error":"interrupted: ')
