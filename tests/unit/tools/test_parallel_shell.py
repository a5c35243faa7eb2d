from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes.executor import FakeExecutor, command_result
from fakes.gates import FakeGate
from fakes.tools import call_tool

from odek.process import Output
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.registry import ToolResult
from odek.tools.shell import PARALLEL_SHELL


def run(executor: FakeExecutor, *commands: Any, gate: FakeGate | None = None) -> ToolResult:
    return call_tool(PARALLEL_SHELL, executor, gate, commands=commands)


def test_each_command_has_its_own_streams_code_and_time() -> None:
    """R-83, F-65, F-72: nothing that a command prints can pose as the result of another."""
    executor = FakeExecutor(
        commands={
            "make": replace(command_result(b"ok\n[1] true\nexit code: 0\n", stderr=b""), duration_s=0.0124),
            "false": command_result(b"", code=1, stderr=b"bad\n"),
            "sleep 9": command_result(b"", code=None, timed_out=True, stderr=b"", notes=("stopped",)),
        }
    )
    result = run(executor, "make", {"command": "false", "timeout": 7}, "sleep 9")
    assert result == ToolResult(
        text=(
            "[0] make\n<parallel_shell:0:stdout>\nok\n[1] true\nexit code: 0\n</>\nexit code: 0, 12 ms\n\n"
            "[1] false\n<parallel_shell:1:stderr>\nbad\n</>\nexit code: 1, 0 ms\n\n"
            "[2] sleep 9\n(no output)\nexit code: none, 0 ms\ntimed out after 30 s\nnote: stopped"
        ),
        failed=True,
    )
    assert executor.runs == [("make", 30), ("false", 7), ("sleep 9", 30)]


def test_result_is_no_failure_when_all_commands_succeed() -> None:
    executor = FakeExecutor(commands={"a": command_result(stderr=b""), "b": command_result(stderr=b"w")})
    assert not run(executor, "a", "b").failed


@pytest.mark.parametrize(
    ("commands", "text", "asked"),
    [
        (("a", "b", "c"), "command 1: not b\\nNone of the commands was run.", ["a", "b"]),
        (("a", "b", " "), "command 2: the command is empty\\nNone of the commands was run.", []),
        (("b", "a", "f"), "command 2: forbidden\\nNone of the commands was run.", ["f"]),
        (
            ("x\0", "a"),
            "command 0: the command holds a NUL character, which no shell can take\\nNone of the commands was run.",
            [],
        ),
    ],
)
def test_one_refusal_refuses_all(commands: tuple[str, ...], text: str, asked: list[str]) -> None:
    """R-83, runtime 4.8: all are checked before any runs; what is refused without a question comes first."""
    gate = FakeGate({"b": "not b"}, {"f": "forbidden"})
    assert run(FakeExecutor(), *commands, gate=gate) == ToolResult(text=f'{{"error":"{text}"}}', failed=True)
    assert gate.subjects == asked


def test_gate_gets_the_description() -> None:
    gate = FakeGate()
    run(FakeExecutor(commands={"a": command_result()}), {"command": "a", "description": "to see"}, gate=gate)
    assert [(operation.subject, operation.reason) for operation in gate.asked] == [("a", "to see")]


def test_long_outputs_share_the_room_of_one_result() -> None:
    """R-41, F-51: both ends of each stream, the true size beside it."""
    big = "ä" * 100_000
    executor = FakeExecutor(
        commands={str(n): command_result(big.encode(), stderr=big.encode()) for n in range(8)}
        | {"cut": replace(command_result(), output=Output(head=b"a", tail=b"z", size_bytes=9_000_000), stderr=None)}
    )
    text = run(executor, *map(str, range(8))).text
    assert len(text) < 33_000
    assert text.count("bytes left out …]") == 16
    assert run(executor, "cut").text.endswith("exit code: 0, 0 ms\nthe whole stdout had 9000000 bytes")


@pytest.mark.parametrize(
    "arguments",
    [
        "[]",
        '["a","b","c","d","e","f","g","h","i"]',
        '[{"command":"a","timeout":0}]',
        '[{"command":"a","timeout":1801}]',
    ],
)
def test_arguments_have_bounds(arguments: str) -> None:
    """R-83: one to eight commands, at most 30 minutes each."""
    with pytest.raises(ArgumentError):
        check_arguments(parse_arguments(f'{{"commands":{arguments}}}'), PARALLEL_SHELL.parameters)
