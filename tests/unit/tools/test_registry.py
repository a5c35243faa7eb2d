from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from fakes.executor import FakeExecutor
from fakes.gates import FakeGate

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied, Interrupted, OdekError, StateFileError
from odek.model.types import ToolCall, ToolSpec
from odek.tools.files import WriteFileTool
from odek.tools.registry import Toolbox, ToolResult, Work, failure, render_json
from odek.tools.shell import ParallelShellTool, ShellTool

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@dataclass
class Probe:
    """A tool that records its arguments and answers, or raises."""

    name: str = "probe"
    answer: ToolResult | BaseException = ToolResult(text="ok")  # noqa: RUF009 - frozen
    seen: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters=SCHEMA)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.seen.append(arguments)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def call(arguments: str = '{"text":"x"}', name: str = "probe") -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


def wrap(text: str, *, source: str) -> str:
    return f"<{source}>{text}</>"


def error(message: str) -> ToolResult:
    return ToolResult(text=json.dumps({"error": message}, separators=(",", ":"), ensure_ascii=False), failed=True)


def test_call_gives_the_tool_its_arguments_and_returns_its_result() -> None:
    probe = Probe(answer=ToolResult(text="r", failed=True))
    assert Toolbox([probe]).call(call()) == ToolResult(text="r", failed=True)
    assert probe.seen == [{"text": "x"}]


def test_call_names_the_tools_when_there_is_no_such_tool() -> None:
    """R-80: a structured error, with the name shown safely."""
    toolbox = Toolbox([Probe(), Probe(name="other")])
    assert toolbox.call(call(name="ba\x1bsh")) == error('tool "ba\\x1bsh" not found; the tools are: probe, other')
    assert Toolbox([]).call(call()) == error('tool "probe" not found; the tools are: none')


@pytest.mark.parametrize("arguments", ["", "{half", "[]", '{"text":1}', '{"text":"\\ud800"}'])
def test_call_does_not_reach_the_tool_with_wrong_arguments(arguments: str) -> None:
    probe = Probe()
    result = Toolbox([probe]).call(call(arguments))
    assert (json.loads(result.text)["error"].partition(":")[0], result.failed) == ("invalid arguments", True)
    assert probe.seen == []


def test_call_says_which_arguments_were_ignored() -> None:
    result = Toolbox([Probe()]).call(call('{"text":"x","cwd":"/","\\n":1}'))
    assert result == ToolResult(text='ok\nnote: unknown arguments were ignored: "cwd", "\\n"')


def test_call_turns_a_refused_file_into_a_result() -> None:
    probe = Probe(answer=FileAccessDenied('"x" leaves the workspace'))
    assert Toolbox([probe]).call(call()) == error('"x" leaves the workspace')


def test_call_reports_a_bug_as_a_failed_call() -> None:
    """R-80: a crash in one tool does not end the run."""
    probe = Probe(answer=ZeroDivisionError("division\x07by zero"))
    assert Toolbox([probe]).call(call()) == error("bug in tool probe: ZeroDivisionError: division\\x07by zero")


@pytest.mark.parametrize("ending", [Interrupted(2), OdekError("the sandbox is gone"), StateFileError("x")])
def test_call_lets_pass_what_ends_the_run(ending: BaseException) -> None:
    """R-42: a broken executor ends the run, it does not become text."""
    with pytest.raises(type(ending)):
        Toolbox([Probe(answer=ending)]).call(call())


@pytest.mark.parametrize(
    ("enabled", "disabled", "offered"),
    [
        (None, (), ["a", "b", "c"]),
        (None, ("b", "unknown"), ["a", "c"]),
        (("c", "a"), (), ["a", "c"]),
        (("a", "b"), ("b",), ["a"]),
        ((), (), []),
    ],
)
def test_toolbox_offers_the_enabled_tools_that_are_not_disabled(
    enabled: Collection[str] | None, disabled: Collection[str], offered: list[str]
) -> None:
    toolbox = Toolbox([Probe(name=name) for name in "abc"], enabled=enabled, disabled=disabled)
    assert [spec.name for spec in toolbox.specs] == offered
    assert [toolbox.call(call(name=name)).failed for name in "abc"] == [name not in offered for name in "abc"]


def test_results_are_compact_json_that_stays_readable() -> None:
    """Tags inside JSON arrive as tags; control characters as escapes."""
    assert render_json({"a": "<b>&ä\x1b", "n": 1}) == '{"a":"<b>&ä\\u001b","n":1}'
    assert failure("x<y") == ToolResult(text='{"error":"x<y"}', failed=True)


@dataclass
class Reader(Probe):
    """A tool whose calls may run together."""

    parallel: bool = True
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        self.asked.append(arguments)
        if arguments["text"] == "refused":
            raise FileAccessDenied("no")
        return partial(self.call, arguments)


@pytest.mark.parametrize(
    ("tool", "parallel"),
    [(Reader(), True), (Reader(parallel=False), False), (Probe(), False)],
    ids=["yes", "no", "never"],
)
def test_only_tools_that_say_so_run_beside_others(tool: Probe, parallel: bool) -> None:
    """Runtime 3.3"""
    assert Toolbox([tool]).is_parallel(call()) is parallel


def test_a_tool_that_is_not_there_runs_beside_nothing() -> None:
    assert Toolbox([]).is_parallel(call()) is False


def test_prepare_asks_and_does_not_yet_act() -> None:
    tool = Reader(answer=ToolResult(text="r"))
    work = Toolbox([tool]).prepare(call())
    assert (tool.asked, tool.seen) == ([{"text": "x"}], [])
    assert (work(), tool.seen) == (ToolResult(text="r"), [{"text": "x"}])


def test_a_tool_that_runs_alone_is_asked_nothing_before_its_turn() -> None:
    tool = Reader(parallel=False)
    Toolbox([tool]).prepare(call())
    assert (tool.asked, tool.seen) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ('{"text":"refused"}', error("no")),
        ("{half", None),
        ('{"text":"x","more":1}', ToolResult(text='ok\nnote: unknown arguments were ignored: "more"')),
    ],
)
def test_what_is_wrong_with_a_call_is_its_result_when_it_is_prepared_too(
    arguments: str, answer: ToolResult | None
) -> None:
    tool = Reader()
    result = Toolbox([tool]).prepare(call(arguments))()
    assert result == (answer or Toolbox([Probe()]).call(call(arguments)))


def test_gate_sees_beforehand_what_all_calls_of_a_turn_will_do() -> None:
    """R-72: per call; what a call cannot say (a broken one, a tool that does nothing of note) is empty."""
    gate, executor = FakeGate(), FakeExecutor()
    shell = ShellTool(executor=executor, gate=gate, wrap=wrap, environment_block="")
    parallel = ParallelShellTool(executor=executor, gate=gate, wrap=wrap)
    write = WriteFileTool(executor=executor, gate=gate, wrap=wrap)
    toolbox = Toolbox([shell, parallel, write, Probe()], gate=gate)
    toolbox.foresee(
        [
            call('{"command":"ls","description":"look"}', "shell"),
            call('{"command":" "}', "shell"),
            call("{half", "shell"),
            call('{"commands":[{"command":"a"},{"command":"b"}]}', "parallel_shell"),
            call('{"commands":[{"command":"a"},{"command":""}]}', "parallel_shell"),
            call('{"path":"x/../a","content":"text"}', "write_file"),
            call('{"path":"/etc/a","content":"text"}', "write_file"),
            call(),
            call(name="nothing"),
        ]
    )
    commands = [Operation(kind="command", subject=name) for name in ("ls", "a", "b")]
    assert [list(operations) for operations in gate.foreseen[0]] == [
        commands[:1], [], [], commands[1:], [], [Operation(kind="write", subject="a", change="text")], [], [], [],
    ]  # fmt: skip
    assert (gate.foreseen[0][0][0].reason, gate.asked) == ("look", [])


def test_what_was_foreseen_is_what_is_asked() -> None:
    """R-72: only then does an answer on a card count for the call."""
    gate, executor = FakeGate(), FakeExecutor()
    toolbox = Toolbox([WriteFileTool(executor=executor, gate=gate, wrap=wrap)], gate=gate)
    one = call('{"path":"/workspace/sub/../a","content":"text"}', "write_file")
    toolbox.foresee([one])
    toolbox.call(one)
    assert gate.asked == list(gate.foreseen[0][0])
