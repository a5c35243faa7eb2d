"""Turns that only plan: what they may not, whatever else was said (R-281)."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from fakes.docker import FakeDocker
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime

from odek.app.config import config_of, redactor_of
from odek.app.delegation import rights_of
from odek.app.isolation import CommandProfile, decide_sandbox, fallback_policy, may_fall_back, require_permitted
from odek.app.mcp_servers import ToolServers, _open_on_host
from odek.app.planning import WRITING_TOOLS, planned
from odek.app.shared_servers import SharedServers
from odek.app.tools import TOOLS
from odek.config.mcp_servers import McpServer
from odek.delegate.brief import make_brief
from odek.delegate.rights import narrow
from odek.errors import ConfigError, OdekError, UsageError
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable
from odek.tools.arguments import ArgumentError
from odek.tools.registry import choose_tools

PROGRAM = str(Path(__file__).parents[2] / "support" / "mcp_program.py")


@dataclass(frozen=True)
class Cell:
    flag: bool | None
    """--sandbox, --no-sandbox"""
    policy: bool | None
    """ "sandbox" in the operator's file"""
    opted_out: bool
    """ODEK_NO_SANDBOX"""
    pinned: bool | None
    """how the session that goes on was begun"""
    required: bool
    """ODEK_REQUIRE_SANDBOX"""
    readonly: bool | None
    """what the operator's file says"""


def cells() -> Iterator[Cell]:
    three = (None, True, False)
    for values in itertools.product(three, three, (False, True), three, (False, True), three):
        cell = Cell(*values)
        if not (cell.pinned is not None and cell.flag is not None):  # continue has neither flag
            yield cell


def wants_host(cell: Cell) -> bool:
    """Whether a run without --plan would be on this host; the rules of R-2, from the strongest."""
    if cell.flag is not None:
        return not cell.flag
    if cell.opted_out and cell.pinned is None:
        return True
    if cell.policy is not None:
        return not cell.policy
    return cell.pinned is False


def said(cell: Cell) -> Any:
    env = {"ODEK_NO_SANDBOX": "1"} if cell.opted_out else {}
    env |= {"ODEK_REQUIRE_SANDBOX": "1"} if cell.required else {}
    operator = {"sandbox": cell.policy, "sandbox_readonly": cell.readonly, "tools": {"disabled": ["glob"]}}
    flags = {} if cell.flag is None else {"sandbox": cell.flag}
    return make_layers(
        operator={key: value for key, value in operator.items() if value is not None}, env=env, flags=flags
    )


@pytest.mark.parametrize("cell", tuple(cells()), ids=str)
def test_plan_is_made_read_only_or_not_at_all(cell: Cell) -> None:
    """R-281, D-22: on this host it is refused; in the sandbox it is read-only, and no failure leads to the host."""
    settings = planned(config_of(said(cell))).settings
    profile = CommandProfile(command="repl", pinned=cell.pinned, planning=True)
    decision = decide_sandbox(profile, settings)
    if wants_host(cell):
        with pytest.raises(OdekError) as refused:
            require_permitted(decision, settings)
        assert isinstance(refused.value, ConfigError if cell.required else UsageError)
        if not cell.required:
            assert "(--plan)" in refused.value.message
            assert "leave out --plan" in refused.value.hint
        return
    require_permitted(decision, settings)
    assert settings.sandbox.readonly
    for by_project in (False, True):
        policy = fallback_policy(profile, settings, decision, image_from_project=by_project)
        assert not may_fall_back(DaemonUnreachable("no daemon", "it is away", hint=""), policy)
        assert not may_fall_back(ImageUnavailable("no image"), policy)
    offered = {tool.name for tool in choose_tools(TOOLS, enabled=None, disabled=settings.withheld_tools)}
    assert offered.isdisjoint(WRITING_TOOLS)
    assert "glob" not in offered  # what was taken away stays so
    assert {"read_file", "shell", "search_files"} <= offered


def test_writing_tools_are_those_that_write() -> None:
    """R-281: a tool that is called for a change names it in its schema; a new one has to be decided on here."""
    known_to_read = {
        *("parallel_shell", "read_file", "batch_read", "search_files", "glob", "file_info", "tree", "diff"),
        *("config_view", "shell"),  # commands write what the mount lets them
    }
    assert {tool.name for tool in TOOLS} - known_to_read == set(WRITING_TOOLS)


def test_sub_agents_of_a_plan_write_no_more_than_it(tmp_path: Path) -> None:
    """R-281: they have its place and its tools, and cannot ask for others."""
    from fakes.runtimes import spec_of

    settings = planned(config_of(make_layers())).settings
    spec = spec_of(make_host(tmp_path, uid=1000), readonly=settings.sandbox.readonly)
    tools = [tool.name for tool in choose_tools(TOOLS, enabled=None, disabled=settings.withheld_tools)]
    parent = rights_of(settings, spec, tools)
    child = narrow(parent, make_brief({"goal": "look"}), share=1)
    assert child.sandbox is not None
    assert child.sandbox.readonly
    assert set(child.tools).isdisjoint(WRITING_TOOLS)
    for more in ({"readonly": False}, {"tools": ["write_file"]}):
        with pytest.raises(ArgumentError):
            narrow(parent, make_brief({"goal": "look", **more}), share=1)


class Box:
    """Starts the program of a server on this host, in place of a container."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def open_pipe(self, argv: tuple[str, ...], *, env: object) -> Any:
        del env
        return _open_on_host(McpServer(name="x", command=argv[0], args=argv[1:], on_host=True), self._host)


@pytest.mark.parametrize("planning", [False, True])
def test_servers_of_a_plan_offer_what_only_reads(tmp_path: Path, planning: bool) -> None:
    """R-281: none on this host is started; of the others, the tools that their author calls read-only."""
    host = make_host(tmp_path, {"PATH": os.environ["PATH"]}, uid=os.getuid())
    (tmp_path / "home" / ".odek").chmod(0o700)
    mark = tmp_path / "started"
    program = {"command": sys.executable, "args": ["-IS", PROGRAM, "hostile"]}
    here = {"command": "/usr/bin/touch", "args": [str(mark)], "sandbox": False}
    config = config_of(make_layers(operator={"mcp_servers": {"inside": program, "here": here}}, env=host.env))
    runtime = fake_runtime(host, FakeDocker(), emit=Notes())
    servers = ToolServers(
        config=config, runtime=runtime, redact=redactor_of(config, host), shared=SharedServers(), planning=planning
    )
    try:
        servers.start_on_host()
        servers.start_in(cast("Any", Box(host)), "the sandbox")
        names = {tool.name for tool in servers.ready()}
        states = {str(state["name"]): state for state in servers.states()}
    finally:
        servers.close()
    assert "inside__shell" in names
    assert (len(names) == 1) is planning
    assert mark.exists() is not planning
    if planning:
        assert states["here"]["reason"] == "it runs on this host, and turns only plan"
