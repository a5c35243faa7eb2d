from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from fakes.executor import FakeExecutor, command_result
from fakes.gates import FakeGate
from fakes.tools import carry_out, workspace

from odek.approval.operation import NO_GRANT, Grant, Operation
from odek.errors import FileAccessDenied, Interrupted, OdekError, StateFileError
from odek.model.types import CallBegun, ToolCall
from odek.tools.batch import BATCH_READ
from odek.tools.config_view import CONFIG_VIEW
from odek.tools.delegate import DELEGATE_TASKS
from odek.tools.files import READ_FILE, WRITE_FILE
from odek.tools.registry import Arguments, Tool, Toolbox, ToolResult, failure, render_json
from odek.tools.search import SEARCH_FILES
from odek.tools.shell import PARALLEL_SHELL, SHELL
from odek.tools.workspace import Workspace

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Probe:
    """A tool that records its arguments and answers, or raises."""

    def __init__(self, answer: ToolResult | BaseException | None = None, **row: Any) -> None:
        self.seen: list[Mapping[str, Any]] = []
        self.tool = Tool(**{"name": "probe", "description": "", "parameters": SCHEMA, "run": self._run, **row})
        self._answer = answer or ToolResult(text="ok")

    def _run(self, _: Workspace, arguments: Arguments) -> ToolResult:
        self.seen.append(arguments)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def toolbox(*probes: Probe, gate: FakeGate | None = None, **options: Any) -> Toolbox:
    return Toolbox([probe.tool for probe in probes], workspace(gate=gate), **options)


def call(arguments: str = '{"text":"x"}', name: str = "probe") -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


def error(message: str) -> ToolResult:
    return ToolResult(text=json.dumps({"error": message}, separators=(",", ":"), ensure_ascii=False), failed=True)


def test_call_gives_the_tool_its_arguments_and_returns_its_result() -> None:
    probe = Probe(ToolResult(text="r", failed=True))
    assert carry_out(toolbox(probe), call()) == ToolResult(text="r", failed=True)
    assert probe.seen == [{"text": "x"}]


def test_executor_gets_ready_for_what_a_reply_begins_to_ask_for() -> None:
    """R-255: one of each call, of each command that runs at the same time, nothing of what runs nowhere."""
    executor = FakeExecutor()
    foreign = replace(SHELL, name="theirs", expected="", is_foreign=True)
    tools = Toolbox(
        [SHELL, READ_FILE, PARALLEL_SHELL, BATCH_READ, CONFIG_VIEW, DELEGATE_TASKS, foreign], workspace(executor)
    )
    begun = [CallBegun(name) for name in ("shell", "read_file", "config_view", "theirs", "unknown", "delegate_tasks")]
    tools.expect(begun)
    for name in ("parallel_shell", "batch_read", "delegate_tasks"):
        begun += [CallBegun(name), *[CallBegun(name, is_object=True)] * 3]
    tools.expect(begun)
    tools.expect(())
    assert executor.expected == [2, 2 + 3 + 1, 0]


def test_call_names_the_tools_when_there_is_no_such_tool() -> None:
    """R-80: a structured error, with the name shown safely."""
    tools = toolbox(Probe(), Probe(name="other"))
    assert carry_out(tools, call(name="ba\x1bsh")) == error('tool "ba\\x1bsh" not found; the tools are: probe, other')
    assert carry_out(toolbox(), call()) == error('tool "probe" not found; the tools are: none')


@pytest.mark.parametrize("arguments", ["", "{half", "[]", '{"text":1}', '{"text":"\\ud800"}'])
def test_call_does_not_reach_the_tool_with_wrong_arguments(arguments: str) -> None:
    probe = Probe()
    result = carry_out(toolbox(probe), call(arguments))
    assert (json.loads(result.text)["error"].partition(":")[0], result.failed) == ("invalid arguments", True)
    assert probe.seen == []


def test_call_says_which_arguments_were_ignored() -> None:
    result = carry_out(toolbox(Probe()), call('{"text":"x","cwd":"/","\\n":1}'))
    assert result == ToolResult(text='ok\nnote: unknown arguments were ignored: "cwd", "\\n"')


def test_call_turns_a_refused_file_into_a_result() -> None:
    probe = Probe(FileAccessDenied('"x" leaves the workspace'))
    assert carry_out(toolbox(probe), call()) == error('"x" leaves the workspace')


def test_call_reports_a_bug_as_a_failed_call() -> None:
    """R-80: a crash in one tool does not end the run."""
    probe = Probe(ZeroDivisionError("division\x07by zero"))
    assert carry_out(toolbox(probe), call()) == error("bug in tool probe: ZeroDivisionError: division\\x07by zero")


@pytest.mark.parametrize("ending", [Interrupted(2), OdekError("the sandbox is gone"), StateFileError("x")])
def test_call_lets_pass_what_ends_the_run(ending: BaseException) -> None:
    """R-42: a broken executor ends the run, it does not become text."""
    with pytest.raises(type(ending)):
        carry_out(toolbox(Probe(ending)), call())


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
    tools = toolbox(*(Probe(name=name) for name in "abc"), enabled=enabled, disabled=disabled)
    assert [spec.name for spec in tools.specs] == offered
    assert [carry_out(tools, call(name=name)).failed for name in "abc"] == [name not in offered for name in "abc"]


def test_results_are_compact_json_that_stays_readable() -> None:
    """Tags inside JSON arrive as tags; control characters as escapes."""
    assert render_json({"a": "<b>&ä\x1b", "n": 1}) == '{"a":"<b>&ä\\u001b","n":1}'
    assert failure("x<y") == ToolResult(text='{"error":"x<y"}', failed=True)


READ = Operation(kind="read", subject="x")


def reads(_: Workspace, arguments: Arguments) -> Sequence[Operation]:
    if arguments["text"] == "outside":
        raise FileAccessDenied("outside")
    return (READ,)


@pytest.mark.parametrize("parallel", [True, False])
def test_only_tools_whose_row_says_so_run_at_the_same_time(parallel: bool) -> None:
    """Runtime 3.3"""
    (prepared,) = toolbox(Probe(parallel=parallel)).prepare([call()])
    assert prepared.parallel is parallel


def test_a_tool_that_does_not_exist_runs_with_no_other() -> None:
    (prepared,) = toolbox().prepare([call()])
    assert prepared.parallel is False


def test_nothing_is_asked_before_a_call_is_authorized_and_nothing_done_before_it_is_run() -> None:
    gate = FakeGate()
    probe = Probe(operations=reads)
    tools = toolbox(probe, gate=gate)
    (prepared,) = tools.prepare([call()])
    assert (gate.asked, probe.seen) == ([], [])
    authorized = tools.authorize(prepared)
    assert (gate.asked, probe.seen) == ([READ], [])
    assert (tools.run(authorized), probe.seen) == (ToolResult(text="ok"), [{"text": "x"}])


@pytest.mark.parametrize(
    ("arguments", "refusals", "result"),
    [
        ('{"text":"x"}', {"x": "no"}, error("no")),
        ('{"text":"outside"}', {}, error("outside")),
        ("{half", {}, None),
        ('{"text":1}', {}, error('invalid arguments: "text" must be text, not 1')),
    ],
)
def test_a_call_that_was_not_authorized_is_not_run(
    arguments: str, refusals: dict[str, str], result: ToolResult | None
) -> None:
    """R-84: what a call will do could not be told, or was refused; whatever comes after, nothing runs."""
    probe = Probe(operations=reads)
    tools = toolbox(probe, gate=FakeGate(refusals))
    (prepared,) = tools.prepare([call(arguments)])
    found = tools.run(tools.authorize(prepared))
    assert (found.failed, probe.seen) == (True, [])
    assert result in (None, found)


def test_a_call_that_the_gate_has_not_seen_is_not_run() -> None:
    """R-84: forgetting a step runs nothing."""
    probe = Probe()
    tools = toolbox(probe)
    (prepared,) = tools.prepare([call()])
    with pytest.raises(RuntimeError):
        tools.run(prepared)
    assert probe.seen == []


def test_results_errors_and_bugs_go_through_the_redactor() -> None:
    """F-50: every channel, not just the one of success."""

    def redact(text: str) -> str:
        return text.replace("hunter2", "[REDACTED]")

    answers = (ToolResult(text="x hunter2"), failure("no hunter2"), ValueError("hunter2"), FileAccessDenied("hunter2"))
    texts = [carry_out(toolbox(Probe(answer), redact=redact), call()).text for answer in answers]
    refused = carry_out(
        toolbox(Probe(operations=reads), gate=FakeGate(answer="never hunter2"), redact=redact), call()
    ).text
    unknown = carry_out(toolbox(redact=redact), call(name="hunter2")).text
    assert [*texts, refused, unknown] == [
        "x [REDACTED]",
        '{"error":"no [REDACTED]"}',
        '{"error":"bug in tool probe: ValueError: [REDACTED]"}',
        '{"error":"[REDACTED]"}',
        '{"error":"never [REDACTED]"}',
        '{"error":"tool \\"[REDACTED]\\" not found; the tools are: none"}',
    ]


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ('{"command":"make test"}', "shell: make test"),
        ('{"command":"make test","timeout":"x"}', "shell: make test"),
        ('{"description":"d"}', "shell"),
        ('{"command":5}', "shell"),
        ("{}", "shell"),
        ("[1]", "shell"),
        ("{half", "shell"),
        ("[" * 100_000, "shell"),
        ('{"command":"a\\u001b[2Jb\\u202e"}', "shell: a\\x1b[2Jb\\u202e"),
        ('{"command":"\\ncd src\\nmake\\nls\\n"}', "shell: cd src (+2 lines)"),
        ('{"command":"cd \\rsrc\\nmake"}', "shell: cd \\rsrc (+1 line)"),
    ],
)
def test_title_of_a_call_is_one_safe_line(arguments: str, title: str) -> None:
    """R-64: what a model chose cannot move the cursor of the person who reads the title."""
    (prepared,) = Toolbox((SHELL,), workspace()).prepare([call(arguments, "shell")])
    assert prepared.title == title


def test_title_of_a_call_is_short_and_takes_the_first_argument_that_is_there() -> None:
    tools = Toolbox((SHELL, SEARCH_FILES, READ_FILE), workspace())
    long = json.dumps({"command": "x" * 500 + "\nmore"})
    prepared = tools.prepare(
        [
            call(long, "shell"),
            call('{"pattern":"p"}', "search_files"),
            call('{"pattern":"p","path":"src"}', "search_files"),
            call('{"path":"a.py"}', "read_file"),
        ]
    )
    assert len(prepared[0].title) == 120
    assert [each.title for each in prepared[1:]] == ["search_files: p", "search_files: src", "read_file: a.py"]


def test_gate_sees_beforehand_what_all_calls_of_a_turn_will_do() -> None:
    """R-72: per call; what a call cannot say (a broken one, a tool that does nothing of note) is empty."""
    gate = FakeGate()
    tools = Toolbox([SHELL, PARALLEL_SHELL, WRITE_FILE, Probe().tool], workspace(gate=gate))
    tools.prepare(
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
    assert [list(operations) for operations in gate.preapproved[0]] == [
        commands[:1], [], [], commands[1:], [], [Operation(kind="write", subject="a", change="text")], [], [], [],
    ]  # fmt: skip
    assert (gate.preapproved[0][0][0].reason, gate.asked) == ("look", [])


def test_what_was_preapproved_is_what_is_checked() -> None:
    """R-72: only then does an answer on a card count for the call."""
    gate = FakeGate()
    one = call('{"path":"/workspace/sub/../a","content":"text"}', "write_file")
    carry_out(Toolbox([WRITE_FILE], workspace(FakeExecutor(), gate)), one)
    assert gate.asked == list(gate.preapproved[0][0])


class Granting(FakeGate):
    """A gate whose card was answered with yes for all, and that asks about nothing else."""

    def preapprove(self, calls: Sequence[Sequence[Operation]]) -> tuple[Grant, ...]:
        return tuple(Grant(frozenset(operations), allowed=True) for operations in calls)

    def check(self, operation: Operation, grant: Grant = NO_GRANT) -> str | None:
        super().check(operation)
        return None if operation in grant.operations and grant.allowed else "asked singly"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SHELL, '{"command":"x"}'),
        (PARALLEL_SHELL, '{"commands":["x","y"]}'),
        (READ_FILE, '{"path":"a"}'),
        (WRITE_FILE, '{"path":"b","content":"text"}'),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_answer_of_a_card_reaches_the_call_that_it_was_given_for(tool: Tool, arguments: str) -> None:
    """R-72: before it runs, and where the executor asks in the middle of it."""
    commands = {name: command_result(stderr=b"") for name in "xy"}
    gate = Granting()
    tools = Toolbox([tool], workspace(FakeExecutor(files={"a": b"1\n"}, commands=commands), gate))
    (prepared,) = tools.prepare([call(arguments, tool.name)])
    assert not tools.run(tools.authorize(prepared)).failed
    assert gate.asked
    without = replace(prepared, grant=NO_GRANT)
    assert "asked singly" in tools.run(tools.authorize(without)).text


def test_answer_of_a_card_does_not_follow_a_link() -> None:
    """R-72, D-6: what was shown is the link; where it leads is asked about by itself."""
    executor = FakeExecutor(links={"x": ".git/hooks/pre-commit"})
    result = carry_out(
        Toolbox([WRITE_FILE], workspace(executor, Granting())), call('{"path":"x","content":"run me"}', "write_file")
    )
    assert (result.failed, "asked singly" in result.text, executor.files) == (True, True, {})
