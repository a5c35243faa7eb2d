from __future__ import annotations

import pytest
from fakes.executor import FakeExecutor, command_result
from fakes.gates import FakeGate
from fakes.tools import call_tool, workspace

from odek.approval.operation import Operation
from odek.executor import CommandResult
from odek.model.types import ToolCall
from odek.process import Output
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.registry import Toolbox, ToolResult
from odek.tools.shell import SHELL, shell_in

BLOCK = "## Execution environment\n- Network: none"


def run(result: CommandResult, command: str = "cmd") -> ToolResult:
    executor = FakeExecutor(commands={command: result})
    return call_tool(SHELL, executor, command=command)


@pytest.mark.parametrize(
    ("result", "text", "failed"),
    [
        pytest.param(command_result(b"out\n"), "<$ cmd>\nout\n</>\nexit code: 0", False, id="success"),
        pytest.param(
            command_result(b"E\n", code=2), "<$ cmd>\nE\n</>\nexit code: 2", True, id="F-65: failure with output"
        ),
        pytest.param(command_result(), "(no output)\nexit code: 0", False, id="silence"),
        pytest.param(command_result(code=1), "(no output)\nexit code: 1", True, id="silent failure"),
        pytest.param(
            command_result(b"a", code=None, timed_out=True, notes=("stopped",)),
            "<$ cmd>\na\n</>\nexit code: none\ntimed out after 300 s\nnote: stopped",
            True,
            id="R-40: time-out",
        ),
        pytest.param(
            command_result(b"up", notes=("one", "two")),
            "<$ cmd>\nup\n</>\nexit code: 0\nnote: one\nnote: two",
            False,
            id="B02: notes",
        ),
    ],
)
def test_call_tells_output_exit_code_and_what_else_happened(result: CommandResult, text: str, failed: bool) -> None:
    """F-65, R-41: the exit code is always there, outside the fence."""
    assert run(result) == ToolResult(text=text, failed=failed)


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (command_result(b"out\n"), ""),
        (command_result(b"E\n", code=1), ""),
        (command_result(b"a", code=137, notes=("memory was short",)), ""),
        (command_result(b"a", code=None, timed_out=True, notes=("stopped",)), "timed out after 300 s"),
        (command_result(code=0, timed_out=True), "timed out after 300 s"),
        (
            command_result(code=None, notes=("the command did not run: paused", "more")),
            "the command did not run: paused; more",
        ),
        (command_result(code=None), "the command was stopped"),
    ],
)
def test_a_command_that_did_not_come_to_its_end_has_a_cause(result: CommandResult, cause: str) -> None:
    """D-18: a bad status is what a command says; that it was stopped, or did not run, is what became of the call."""
    assert run(result).cause == cause


def test_call_tells_the_true_size_of_output_that_was_cut() -> None:
    """R-41: outside the fence too, where the command cannot fake it."""
    output = Output(head=b"a\n", tail=b"z\n", size_bytes=3_000_000_000)
    result = CommandResult(output=output, code=0, timed_out=False, duration_s=1.0)
    assert run(result).text.split("\n") == [
        *("<$ cmd>", "a", "", "[… 2999999996 bytes left out …]", "z", "</>"),
        *("exit code: 0", "the whole output had 3000000000 bytes"),
    ]


def test_call_cuts_long_output_by_characters() -> None:
    """R-41, F-51: thirty thousand characters, both ends, valid text."""
    result = run(command_result(("ä" * 100_000).encode()))
    lines = result.text.split("\n")
    assert lines[1:-2] == ["ä" * 15_000, "[… 140000 bytes left out …]", "ä" * 15_000]


def test_call_labels_the_output_with_the_beginning_of_the_command() -> None:
    assert run(command_result(b"x"), "echo " + "y" * 500).text.split("\n")[0] == "<$ echo " + "y" * 154 + "…>"


@pytest.mark.parametrize(("arguments", "timeout_s"), [({}, 300), ({"timeout": 7}, 7)])
def test_call_runs_the_command_with_its_timeout(arguments: dict[str, int], timeout_s: int) -> None:
    executor = FakeExecutor(commands={" ls -l\n": command_result()})
    call_tool(SHELL, executor, command=" ls -l\n", **arguments)
    assert executor.runs == [(" ls -l\n", timeout_s)]


def test_call_asks_the_gate_and_runs_nothing_when_it_says_no() -> None:
    """R-84: a refusal is a result that names the way out."""
    executor, gate = FakeExecutor(), FakeGate(answer="not allowed; set dangerous.action")
    result = call_tool(SHELL, executor, gate, command="rm -rf /", description="clean")
    assert result == ToolResult(text='{"error":"not allowed; set dangerous.action"}', failed=True)
    assert (gate.asked, executor.runs) == ([Operation(kind="command", subject="rm -rf /")], [])
    assert gate.asked[0].reason == "clean"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "the command is empty"),
        (" \n", "the command is empty"),
        ("a\0b", "the command holds a NUL character, which no shell can take"),
    ],
)
def test_call_refuses_what_is_no_command(command: str, message: str) -> None:
    gate = FakeGate()
    assert call_tool(SHELL, gate=gate, command=command) == ToolResult(text='{"error":"' + message + '"}', failed=True)
    assert gate.asked == []


@pytest.mark.parametrize("timeout", ["0", "1801", '"5"', "1.5"])
def test_timeout_is_a_whole_number_of_seconds_up_to_half_an_hour(timeout: str) -> None:
    with pytest.raises(ArgumentError):
        check_arguments(parse_arguments(f'{{"command":"x","timeout":{timeout}}}'), SHELL.parameters)


def test_description_ends_with_the_execution_environment() -> None:
    """R-70: the tool itself says where its commands run."""
    spec = shell_in(BLOCK, parallel=False).spec
    assert (spec.name, spec.description) == ("shell", f"{SHELL.description}\n\n{BLOCK}")
    assert list(spec.parameters["properties"]) == ["command", "description", "timeout"]


def test_description_stands_alone_without_an_environment() -> None:
    assert shell_in("", parallel=False) == SHELL


@pytest.mark.parametrize("parallel", [True, False])
def test_model_is_told_when_commands_run_at_the_same_time(parallel: bool) -> None:
    tool = shell_in(BLOCK, parallel=parallel)
    assert ("Calls of one reply run at the same time" in tool.description) is parallel
    assert tool.parallel is parallel
    assert tool.description.endswith(BLOCK)


def test_authorizing_a_call_asks_before_anything_runs() -> None:
    """Approvals stay in the main thread, one after the other."""
    executor, gate = FakeExecutor(commands={"cmd": command_result(b"out")}), FakeGate()
    tools = Toolbox((SHELL,), workspace(executor, gate))
    arguments = '{"command": "cmd", "description": "why", "timeout": 7}'
    (prepared,) = tools.prepare([ToolCall(id="1", name="shell", arguments=arguments)])
    assert (gate.asked, executor.runs) == ([], [])
    authorized = tools.authorize(prepared)
    assert (gate.asked, executor.runs) == ([Operation(kind="command", subject="cmd")], [])
    assert gate.asked[0].reason == "why"
    assert tools.run(authorized) == ToolResult(text="<$ cmd>\nout\n</>\nexit code: 0")
    assert executor.runs == [("cmd", 7)]


def test_refusal_is_the_result_of_the_call() -> None:
    assert call_tool(SHELL, gate=FakeGate(answer="denied"), command="cmd") == ToolResult(
        text='{"error":"denied"}', failed=True
    )
