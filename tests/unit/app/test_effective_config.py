"""The settings of a session as they really are, and the tool that shows them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import make_host, make_layers
from fakes.tools import workspace

from odek.app.config import config_of
from odek.app.effective_config import effective_config, settings_of_a_run
from odek.app.isolation import SandboxDecision
from odek.app.project_approval import approval_request
from odek.app.sandbox_image import default_image
from odek.approval.server_store import ServerApprovals
from odek.approval.servers import ServerRequest
from odek.approval.store import ApprovalStore
from odek.config.resolve import project_overrides, resolve
from odek.config.settings import OPTIONS
from odek.config.view import view_rows
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.state import StateFolder
from odek.tools.config_view import CONFIG_VIEW
from odek.tools.registry import ToolResult

ID = "a" * 64
IMAGE_ID = "sha256:" + "b" * 64
EXPLICIT = SandboxDecision(sandboxed=True, explicit=True, origin="--sandbox")
FACTS = ContainerFacts(
    name="odek-7-2",
    id=ID,
    image="python:3.12",
    image_id=IMAGE_ID,
    user="1000:1000",
    home="/tmp",
    network="bridge+attached",
    internet=True,
    networks=(Network(name="app_default", id=ID, internal=False), Network(name="back", id=ID, internal=True)),
    pids_limit=64,
    tmp_bytes=1 << 30,
    readonly=True,
    workspace_writable=False,
)
OPERATOR = {
    "model": "m",
    "api_key": "sk-canary-1",
    "base_url": "https://user:canary-2@api.example:8443/v1/canary-3?key=canary-4",
    "sandbox_env": {"DB_PASS": "canary-5", "HOME": "/canary-6"},
    "sandbox_memory": "1g",
    "system": "canary-7",
    "tools": {"disabled": ["patch"]},
}
PROJECT = {"sandbox_image": "python:3.12", "sandbox_volumes": ["./a:/a"], "sandbox_network": "none"}


def test_applied_settings_of_a_sandboxed_session() -> None:
    """R-19: what the container has, not what was asked for; each with its source."""
    settings = resolve(make_layers(operator=OPERATOR, project=PROJECT, flags={"sandbox_pids_limit": "64"}))
    applied = effective_config(settings, EXPLICIT, FACTS)
    sources = applied.pop("source")
    assert applied == {
        "model": "m",
        "api_key": "set",
        "base_url": "api.example:8443",
        "max_iterations": 90,
        "interaction_mode": "engaging",
        "dangerous": {"action": None, "classes": {}, "allowlist": 0, "denylist": 0, "non_interactive": "deny"},
        "tools": {"enabled": None, "disabled": ["patch"]},
        "sandbox": {
            "enabled": True,
            "explicit": True,
            "place": "sandbox",
            "reason": None,
            "container": "odek-7-2",
            "network": "bridge+attached",
            "internet": True,
            "networks": ["app_default", "back"],
            "image": "python:3.12",
            "image_id": IMAGE_ID,
            "pids_limit": 64,
            "memory": "1g",
            "cpus": None,
            "tmp_bytes": 1 << 30,
            "readonly": True,
            "user": "1000:1000",
            "home": None,
            "env_keys": ["DB_PASS", "HOME"],
            "volumes": ["./a:/a"],
        },
        "mcp_servers": [],
    }
    assert isinstance(sources, dict)
    assert list(sources) == [option.key for option in OPTIONS]
    named = ("model", "sandbox_image", "sandbox_network", "sandbox_pids_limit", "sandbox_cpus")
    assert [sources[key] for key in named] == ["global", "project", "default", "flag", "default"]


@pytest.mark.parametrize(
    ("image", "source"),
    [("odek-sandbox:0123456789ab", "project"), ("odek-busybox:local", "default"), ("python@sha256:0", "default")],
)
def test_image_of_the_projects_dockerfile_has_the_project_as_its_source(image: str, source: str) -> None:
    """A22: nobody set it, and yet it is not the default."""
    applied = effective_config(resolve(make_layers()), EXPLICIT, replace(FACTS, image=image))
    sources, sandbox = applied["source"], applied["sandbox"]
    assert isinstance(sources, dict)
    assert isinstance(sandbox, dict)
    assert (sandbox["image"], sources["sandbox_image"]) == (image, source)


def shown_here(tmp_path: Path, **layers: Any) -> dict[str, dict[str, object]]:
    return settings_of_a_run(config_of(make_layers(**layers)), make_host(tmp_path, uid=os.getuid()))


def test_what_a_run_would_apply_where_nothing_is_set(tmp_path: Path) -> None:
    """A22: no dash where the sandbox is on and has an image and a user."""
    shown = shown_here(tmp_path)
    assert (shown["sandbox"]["value"], shown["sandbox"]["origin"]) == (True, "the default of odek run")
    assert (shown["sandbox_image"]["value"], shown["sandbox_image"]["origin"]) == (
        default_image(),
        "the pinned default",
    )
    assert shown["sandbox_user"]["value"] == f"{os.getuid()}:0"
    Path(tmp_path, "work", "Dockerfile.odek").write_text("FROM scratch\n")
    shown = shown_here(tmp_path, operator={"sandbox_memory": "64m"})
    assert shown["sandbox_image"]["origin"] == "./Dockerfile.odek"
    assert str(shown["sandbox_image"]["value"]).startswith("odek-")
    assert shown["sandbox_tmp_size"]["value"] == str(32 << 20)


@pytest.mark.parametrize(
    ("layers", "wanted", "origin", "source"),
    [
        ({"env": {"ODEK_NO_SANDBOX": "1"}}, False, "ODEK_NO_SANDBOX", "environment"),
        ({"env": {"ODEK_SANDBOX": "0"}}, False, "ODEK_SANDBOX", "environment"),
        ({"operator": {"sandbox": False}}, False, "~/.odek/config.json", "global"),
        ({"project": {"sandbox": True}}, True, "./odek.json", "project"),
        ({"project": {"sandbox": False}}, True, "the default of odek run", "default"),
    ],
)
def test_whether_a_run_would_be_sandboxed(
    layers: dict[str, Any], wanted: bool, origin: str, source: str, tmp_path: Path
) -> None:
    """A22: the intent and who decided it."""
    assert shown_here(tmp_path, **layers)["sandbox"] == {"value": wanted, "source": source, "origin": origin}


@pytest.mark.parametrize(
    ("project", "env", "pending"),
    [
        ({"sandbox_image": "x:1", "sandbox_readonly": True}, {}, ["sandbox_image"]),
        ({"sandbox_networks": ["a"], "sandbox_user": "5:5"}, {}, ["sandbox_networks", "sandbox_user"]),
        ({"sandbox_env": {"A": "b"}, "sandbox_volumes": ["./a:/a"]}, {}, ["sandbox_env", "sandbox_volumes"]),
        ({"sandbox_image": "x:1"}, {"ODEK_APPROVE_PROJECT_SANDBOX": "1"}, []),
        ({"sandbox_image": "x:1"}, {"ODEK_SANDBOX_IMAGE": "y:1"}, []),
    ],
)
def test_what_a_project_asks_and_nobody_approved_is_marked(
    project: dict[str, Any], env: dict[str, str], pending: list[str], tmp_path: Path
) -> None:
    """A22: a value that does not count yet is not shown as if it did."""
    shown = shown_here(tmp_path, project=project, env=env)
    assert [key for key, entry in shown.items() if entry.get("pending")] == pending
    assert [
        key for key, _, by in view_rows(shown, everything=False) if by == "./odek.json, counts once approved"
    ] == pending


def test_remembered_approval_is_not_pending(tmp_path: Path) -> None:
    """A22: what was trusted counts."""
    layers = make_layers(project={"sandbox_image": "x:1"})
    host = make_host(tmp_path, uid=os.getuid())
    request = approval_request(project_overrides(layers), NetworkPlan(mode="none"), host)
    Path(host.home, ".odek").chmod(0o700)
    ApprovalStore(StateFolder(host.operator_home)).remember(request)
    assert "pending" not in settings_of_a_run(config_of(layers), host)["sandbox_image"]


def test_applied_settings_hold_no_secret() -> None:
    """R-19: no key, no credentials of a URL, no value of a variable, no system prompt."""
    settings = resolve(make_layers(operator=OPERATOR))
    for facts in (FACTS, None):
        assert "canary" not in json.dumps(effective_config(settings, EXPLICIT, facts))


@pytest.mark.parametrize(
    ("explicit", "reason"), [(True, "--no-sandbox"), (False, "Docker does not answer at unix:///run/docker.sock")]
)
def test_applied_settings_on_the_host(explicit: bool, reason: str) -> None:
    """A22: that it is the host, and why: somebody's choice, or a sandbox that could not be had."""
    intent = SandboxDecision(sandboxed=not explicit, explicit=explicit, origin="--no-sandbox")
    applied = effective_config(resolve(make_layers()), intent, None, on_host_because=reason)
    assert applied["sandbox"] == {
        "enabled": False,
        "explicit": explicit,
        "place": "host",
        "reason": reason,
        "container": None,
        "network": None,
    }
    assert (applied["api_key"], applied["base_url"]) == ("unset", "api.deepseek.com")


@pytest.mark.parametrize(
    ("url", "host"), [("replay:/home/u/x.jsonl", "replay"), ("http://[::1", "(not a URL)"), ("u:pw@host", "")]
)
def test_address_of_the_model_is_shown_by_its_host(url: str, host: str) -> None:
    settings = resolve(make_layers(flags={"base_url": url}))
    assert effective_config(settings, EXPLICIT, None)["base_url"] == host


def test_tool_returns_the_json_fenced_off() -> None:
    """R-19, R-83: names in it were chosen by a project or Docker."""
    place = workspace(config=lambda: {"model": "é", "sandbox": {"networks": ["<b>"]}})
    expected = '<config_view>\n{"model":"é","sandbox":{"networks":["<b>"]}}\n</>'
    assert CONFIG_VIEW.run(place, {}) == ToolResult(text=expected)
    assert (CONFIG_VIEW.name, list(CONFIG_VIEW.parameters["properties"])) == ("config_view", ["part"])


def test_servers_that_wait_for_an_approval_are_marked(tmp_path: Path) -> None:
    """R-19, R-192: the value counts once it is approved; the operator's own needs nothing."""
    host = make_host(tmp_path, uid=os.getuid())
    (tmp_path / "home" / ".odek").chmod(0o700)
    entry = {"docs": {"command": "x"}}

    def pending(**layers: object) -> object:
        config = config_of(make_layers(**layers))  # type: ignore[arg-type]
        return settings_of_a_run(config, host)["mcp_servers"].get("pending", False)

    assert pending(operator={"mcp_servers": entry}) is False
    assert pending(project={"mcp_servers": entry}) is True
    assert pending(project={"mcp_servers": entry}, env={"ODEK_APPROVE_MCP": "1"}) is False
    request = ServerRequest(folder=host.cwd, name="docs", command="x", args=(), env=(), place="")
    ServerApprovals(StateFolder(host.operator_home)).remember(request)
    assert pending(project={"mcp_servers": entry}) is False
    assert pending(project={"mcp_servers": {"docs": {"command": "y"}}}) is True
