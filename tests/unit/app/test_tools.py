"""Which tools a session offers, and what stands before them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.approver import Answers
from fakes.containers import FACTS
from fakes.executor import FakeExecutor, command_result
from fakes.layering import bare_host, make_layers
from fakes.tools import carry_out, workspace, wrap

from odek.app.tool_names import validate_tool_names
from odek.app.tools import TOOLS, make_gatekeeper, make_toolbox, real_path
from odek.approval.operation import Operation
from odek.config.danger import DangerSettings
from odek.config.resolve import resolve
from odek.errors import ConfigError
from odek.model.types import ToolCall
from odek.redact import Redactor
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.network.plan import Network
from odek.tools.config_view import CONFIG_VIEW
from odek.tools.registry import Toolbox, ToolResult

NAMES = tuple(tool.name for tool in TOOLS)


def toolbox(
    executor: FakeExecutor | None = None,
    *,
    sandboxed: bool = True,
    approver: Answers | None = None,
    operator: Mapping[str, object] | None = None,
    project: str = "/workspace",
) -> Toolbox:
    return make_toolbox(
        resolve(make_layers(operator=operator)),
        executor or FakeExecutor(),
        FACTS if sandboxed else None,
        bare_host(project),
        person=approver,
        wrap=wrap,
        redact=Redactor(),
        environment_block="BLOCK",
        applied=dict,
    )


def call(tools: Toolbox, name: str, arguments: str) -> ToolResult:
    return carry_out(tools, ToolCall(id="1", name=name, arguments=arguments))


@pytest.mark.parametrize("sandboxed", [True, False])
def test_all_tools_are_offered_in_both_places(sandboxed: bool) -> None:
    """R-83; F-64: none of them reaches the host's network."""
    assert tuple(spec.name for spec in toolbox(sandboxed=sandboxed).specs) == NAMES


def test_all_tools_but_the_last_are_the_same_in_every_run() -> None:
    """R-70, R-82: only the shell's description tells of the container; a provider can cache what stands before it."""
    specs = toolbox(sandboxed=True).specs
    assert [spec.name for spec in specs if "BLOCK" in spec.description] == [specs[-1].name] == ["shell"]


def test_operator_chooses_among_them() -> None:
    """R-83."""
    tools = toolbox(operator={"tools": {"enabled": ["shell", "glob", "tree"], "disabled": ["tree"]}})
    assert [spec.name for spec in tools.specs] == ["glob", "shell"]


def test_advice_is_given_on_tools_that_are_offered() -> None:
    """The system prompt mentions no tool that was taken away; every line names its own."""
    assert [line.split()[1] for line in toolbox().advice] == ["read_file", "patch", "search_files", "glob", "shell"]
    tools = toolbox(operator={"tools": {"enabled": ["glob", "tree"]}})
    assert [line.split()[1] for line in tools.advice] == ["glob"]


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        ({"disabled": ["shell"]}, []),
        ({"disabled": ["parallel_shell"]}, ["shell"]),
        ({"enabled": ["shell", "parallel_shell"], "disabled": ["shell"]}, ["parallel_shell"]),
        ({"enabled": ["shell", "glob"], "disabled": ["shell"]}, []),
    ],
    ids=str,
)
def test_commands_are_taken_away_with_the_shell(tools: dict[str, object], left: list[str]) -> None:
    """R-83: who says "no shell" wants no commands; the second tool stays only where it was asked for by name."""
    names = [spec.name for spec in toolbox(operator={"tools": tools}).specs]
    assert [name for name in names if name in ("shell", "parallel_shell")] == left


@pytest.mark.parametrize("key", ["enabled", "disabled"])
@pytest.mark.parametrize("name", ["shel", "Shell", "read_files", "batch-patch"])
def test_misspelt_tool_stops(key: str, name: str) -> None:
    """F-2: a tool that was taken away must not stay because of a letter."""
    with pytest.raises(ConfigError) as refused:
        validate_tool_names(resolve(make_layers(operator={"tools": {key: [name]}})))
    assert refused.value.message == f'there is no tool "{name}" (~/.odek/config.json)'
    assert refused.value.hint.startswith("did you mean ")


@pytest.mark.parametrize(
    ("tools", "warnings"),
    [
        ({}, ()),
        ({"enabled": []}, ()),
        ({"enabled": ["shell"], "disabled": ["glob"]}, ()),
        ({"disabled": ["web\x1b"]}, ('there is no tool "web\\x1b" (~/.odek/config.json)',)),
    ],
    ids=str,
)
def test_what_is_said_of_tools_is_told(tools: dict[str, object], warnings: tuple[str, ...]) -> None:
    """F-2: names of another version's tools are no mistake; R-64: they are shown with care."""
    assert validate_tool_names(resolve(make_layers(operator={"tools": tools}))) == warnings


@pytest.mark.parametrize("key", ["enabled", "disabled"])
@pytest.mark.parametrize("name", ["head_tail", "checksum", "json_query"])
def test_settings_may_name_tools_that_were_removed(key: str, name: str) -> None:
    """A configuration that names one goes on working, and odek says what happened; so do the other names in it."""
    settings = resolve(make_layers(operator={"tools": {key: [name, "glob"]}}))
    assert validate_tool_names(settings) == (
        f'the tool "{name}" was removed, the shell does its work (~/.odek/config.json)',
    )
    offered = [spec.name for spec in toolbox(operator={"tools": {key: [name, "glob"]}}).specs]
    assert offered == (["glob"] if key == "enabled" else [tool for tool in NAMES if tool != "glob"])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/me/project/src/a.py", True),
        ("/home/me/project/./src/../src/a.py", True),
        ("/workspace/src/a.py", True),
        ("src/a.py", True),
        ("/home/me/project-2/src/a.py", False),
        ("/home/me/project/../src/a.py", False),
        ("/home/me/src/a.py", False),
        ("/etc/passwd", False),
    ],
)
def test_path_of_the_project_on_this_machine_is_the_file_in_the_workspace(path: str, *, found: bool) -> None:
    """B112: in every tool, and before anything is asked; what only looks like it is refused as before."""
    executor = FakeExecutor(files={"src/a.py": b"x = 1\n"})
    tools = toolbox(executor, project="/home/me/project")
    for name, arguments in (
        ("read_file", {"path": path}),
        ("batch_read", {"files": [{"path": path}]}),
        ("file_info", {"path": path}),
        ("search_files", {"path": path, "pattern": "x"}),
        ("patch", {"path": path, "old_string": "x", "new_string": "x"}),
    ):
        text = call(tools, name, json.dumps(arguments)).text
        assert ("leaves" in text or "/etc/" in text) is not found, (name, text)


def test_path_of_the_project_is_asked_about_as_the_file_that_it_is() -> None:
    """B112: another name for a file with secrets is no way around the question."""
    executor = FakeExecutor(files={".env": b"KEY=1\n"})
    result = call(toolbox(executor, project="/home/me/project"), "read_file", '{"path": "/home/me/project/.env"}')
    assert (result.failed, "KEY" in result.text) == (True, False)


def test_settings_can_be_seen_in_part() -> None:
    """B117: so that no tool is without an argument."""
    place = workspace(config=lambda: {"model": "m", "limits": {"runtime_s": 5}})
    assert CONFIG_VIEW.run(place, {}).text == '<config_view>\n{"model":"m","limits":{"runtime_s":5}}\n</>'
    assert CONFIG_VIEW.run(place, {"part": "limits"}).text == '<config_view>\n{"limits":{"runtime_s":5}}\n</>'
    missing = CONFIG_VIEW.run(place, {"part": "net\x1b"})
    assert (missing.failed, missing.text) == (
        True,
        '{"error":"there is no part \\"net\\\\x1b\\"; there are model, limits"}',
    )


def test_every_schema_is_understood_by_our_own_check() -> None:
    """R-83: a schema may promise nothing that is not checked; each tool answers a wrong call in words."""
    for spec in toolbox().specs:
        properties: Mapping[str, Any] = spec.parameters["properties"]
        assert properties, f"B117: {spec.name} has no argument, which some servers refuse"
        result = call(toolbox(), spec.name, json.dumps({next(iter(properties)): {}}))
        assert result.failed, spec.name
        assert "bug in tool" not in result.text


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_are_short_and_plain(name: str) -> None:
    """Every request carries them."""
    (spec,) = [spec for spec in toolbox().specs if spec.name == name]
    assert 20 < len(spec.description) < 1000
    assert spec.description.endswith("BLOCK") or re.fullmatch(r"[A-Z].*\.", spec.description, re.DOTALL)


HOOK = '{"path":".git/hooks/pre-commit","content":"x"}'
WRITES = [
    ("write_file", HOOK),
    ("patch", '{"path":"odek.json","old_string":"{}","new_string":"{ }"}'),
    ("batch_patch", '{"patches":[{"path":"AGENTS.md","old_string":"a","new_string":"b"}]}'),
]
FILES = {"odek.json": b"{}", "AGENTS.md": b"a"}


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
@pytest.mark.parametrize(
    ("sandboxed", "operator", "answer", "allowed"),
    [
        (True, {}, None, False),
        (True, {}, "a", True),
        (True, {}, "n", False),
        (True, {"dangerous": {"sandboxed": {"action": "allow"}}}, None, True),
        (True, {"dangerous": {"sandboxed": {"action": "deny"}}}, None, False),
        (True, {"dangerous": {"action": "allow", "sandboxed": {"action": "prompt"}}}, None, False),
        (True, {"dangerous": {"action": "allow"}}, None, True),
        (False, {}, None, False),
        (False, {}, "a", True),
        (False, {"dangerous": {"action": "allow"}}, None, True),
        (False, {"dangerous": {"sandboxed": {"action": "allow"}}}, None, False),
    ],
)
def test_files_that_this_machine_trusts_later_are_asked_about(
    tool: str, arguments: str, sandboxed: bool, operator: dict[str, object], answer: str | None, allowed: bool
) -> None:
    """D-6, B55: whichever tool writes them; where nobody can be asked, the setting is named."""
    executor = FakeExecutor(files=FILES)
    approver = Answers(answer) if answer else None
    result = call(toolbox(executor, sandboxed=sandboxed, approver=approver, operator=operator), tool, arguments)
    assert (not result.failed, executor.files != FILES) == (allowed, allowed)
    if not allowed:
        setting = '"dangerous": {"sandboxed": {"classes": ' if sandboxed else '"dangerous": {"classes": '
        assert setting in result.text.replace('\\"', '"')
    if approver:
        approver.assert_all_used()


def test_other_files_need_no_word() -> None:
    """D-6."""
    executor = FakeExecutor()
    assert not call(toolbox(executor), "write_file", '{"path":"src/a.py","content":"x"}').failed
    assert executor.files == {"src/a.py": b"x"}


@pytest.mark.parametrize(("sandboxed", "runs"), [(True, 2), (False, 0)])
def test_parallel_commands_stand_before_the_gate_of_the_shell(sandboxed: bool, runs: int) -> None:
    """R-84, D-6: what is unknown is refused on the host; in the sandbox, that is the wall."""
    executor = FakeExecutor(commands={name: command_result(stderr=b"") for name in ("weird", "ls")})
    call(toolbox(executor, sandboxed=sandboxed), "parallel_shell", '{"commands":["ls","weird"]}')
    assert len(executor.runs) == runs


SECRETS = {".env": b"TOKEN=1", "a": b"x"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", '{"path":".env"}'),
        ("batch_read", '{"files":[{"path":"a"},{"path":".env"}]}'),
        ("diff", '{"path_a":"a","path_b":".env"}'),
        ("diff", '{"path":".env","content":""}'),
        ("search_files", '{"pattern":".","path":".env"}'),
    ],
)
@pytest.mark.parametrize("sandboxed", [True, False])
def test_secrets_of_the_project_are_not_shown_unasked(tool: str, arguments: str, sandboxed: bool) -> None:
    """Runtime 5.4: whichever tool would show them; file_info and glob show no content."""
    refused = call(toolbox(FakeExecutor(files=SECRETS), sandboxed=sandboxed), tool, arguments)
    assert (refused.failed, "system_write" in refused.text, "TOKEN" in refused.text) == (True, True, False)
    approver = Answers("a")
    call(toolbox(FakeExecutor(files=SECRETS), sandboxed=sandboxed, approver=approver), tool, arguments)
    approver.assert_all_used()


@pytest.mark.parametrize(
    ("networks", "shown"),
    [
        ((), "network=none"),
        (("a", "b"), "network=attached, networks=a, b"),
    ],
)
def test_card_names_the_networks_of_the_container(networks: tuple[str, ...], shown: str) -> None:
    """R-72."""
    attached = tuple(Network(name=name, id=name * 64, internal=True) for name in networks)
    facts = replace(FACTS, network="attached" if networks else "none", networks=attached)
    approver = Answers("d", "n")
    gate = make_gatekeeper(DangerSettings(action="prompt"), facts, bare_host("/workspace"), approver)
    operations = [Operation(kind="command", subject=name) for name in ("make", "npm ci", "make deploy")]
    gate.preapprove([operations[:2]])
    gate.check(operations[2])
    assert approver.prompts[0].startswith(f"2 operations need approval (sandbox {shown})\n")
    assert f"\n  runs on: sandbox odek-7-1, {shown}\n" in approver.prompts[1]


def test_trust_holds_in_the_next_sandbox_with_the_same_networks_only() -> None:
    """Runtime 5.6: nobody was asked about other networks, nor about the host."""
    attached = (Network(name="a", id="a" * 64, internal=True),)
    trusted: dict[str, set[str]] = {}

    def said(facts: ContainerFacts | None, answer: str) -> str | None:
        danger, host = DangerSettings(action="prompt"), bare_host("/workspace")
        gate = make_gatekeeper(danger, facts, host, Answers(answer), trusted)
        return gate.check(Operation(kind="command", subject="make"))

    assert said(FACTS, "t") is None
    assert said(replace(FACTS, name="odek-7-2"), "n") is None
    assert said(replace(FACTS, network="attached", networks=attached), "n") is not None
    assert said(None, "n") is not None


def test_links_are_followed_for_the_question(tmp_path: Path) -> None:
    """F-62: here, and by the name that a place has in the sandbox; what leads elsewhere stays as written."""
    (tmp_path / "sub").mkdir()
    for name, target in (
        ("near", ".env"),
        ("sub/up", "../.env"),
        ("inside", "/workspace/.env"),
        ("out", "/etc/passwd"),
    ):
        (tmp_path / name).symlink_to(target)
    root = str(tmp_path.resolve())
    assert [real_path(root, path) for path in ("near", "sub/up", "inside", "out", "plain", ".")] == [
        ".env", ".env", ".env", "out", "plain", ".",
    ]  # fmt: skip


def test_tools_import_nothing_that_reaches_a_network() -> None:
    """F-64."""
    sources = "".join(
        path.read_text() for path in Path(__file__).resolve().parents[2].joinpath("odek", "tools").glob("*.py")
    )
    assert re.findall(r"import (?:urllib|http|socket|ssl)", sources) == []


@pytest.mark.parametrize("answer", ["a", "d"])
def test_answer_of_a_card_reaches_the_writes_and_reads_of_its_calls(answer: str) -> None:
    """R-72: each call carries what was answered about it, to the moment when its file is written; once only."""
    executor, approver = FakeExecutor(files=SECRETS), Answers(answer, "d")
    tools = toolbox(executor, sandboxed=True, approver=approver)
    write = ToolCall(id="1", name="write_file", arguments='{"path":".envrc","content":"x"}')
    read = ToolCall(id="2", name="read_file", arguments='{"path":".env"}')
    results = [tools.run(tools.authorize(prepared)) for prepared in tools.prepare([write, read])]
    assert [result.failed for result in results] == [answer == "d"] * 2
    assert (executor.files.get(".envrc") == b"x", len(approver.prompts)) == (answer == "a", 1)
    assert carry_out(tools, write).failed
    approver.assert_all_used()
