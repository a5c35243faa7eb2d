"""The settings of a session as they really are, and the tool that shows them."""

from __future__ import annotations

import json

import pytest
from fakes.layering import make_layers

from odek.config.options import LIVE
from odek.config.resolve import resolve
from odek.isolation import Intent
from odek.sandbox.facts import ContainerFacts
from odek.sandbox.network import Network
from odek.setup.applied import applied_settings
from odek.tools.config_view import ConfigViewTool
from odek.tools.registry import ToolResult

ID = "a" * 64
IMAGE_ID = "sha256:" + "b" * 64
EXPLICIT = Intent(sandboxed=True, explicit=True, origin="--sandbox")
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
    applied = applied_settings(settings, EXPLICIT, FACTS)
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
    }
    assert isinstance(sources, dict)
    assert list(sources) == [option.key for option in LIVE]
    named = ("model", "sandbox_image", "sandbox_network", "sandbox_pids_limit", "sandbox_cpus")
    assert [sources[key] for key in named] == ["global", "project", "default", "flag", "default"]


def test_applied_settings_hold_no_secret() -> None:
    """R-19: no key, no credentials of a URL, no value of a variable, no system prompt."""
    settings = resolve(make_layers(operator=OPERATOR))
    for facts in (FACTS, None):
        assert "canary" not in json.dumps(applied_settings(settings, EXPLICIT, facts))


def test_applied_settings_on_the_host() -> None:
    intent = Intent(sandboxed=False, explicit=True, origin="--no-sandbox")
    applied = applied_settings(resolve(make_layers()), intent, None)
    assert applied["sandbox"] == {"enabled": False, "explicit": True, "container": None, "network": None}
    assert (applied["api_key"], applied["base_url"]) == ("unset", "api.deepseek.com")


@pytest.mark.parametrize(
    ("url", "host"), [("replay:/home/u/x.jsonl", "replay"), ("http://[::1", "(not a URL)"), ("u:pw@host", "")]
)
def test_address_of_the_model_is_shown_by_its_host(url: str, host: str) -> None:
    settings = resolve(make_layers(flags={"base_url": url}))
    assert applied_settings(settings, EXPLICIT, None)["base_url"] == host


def wrap(text: str, *, source: str) -> str:
    return f"<{source}>{text}</>"


def test_tool_returns_the_json_fenced_off() -> None:
    """R-19, R-83: names in it were chosen by a project or Docker."""
    tool = ConfigViewTool(applied=lambda: {"model": "é", "sandbox": {"networks": ["<b>"]}}, wrap=wrap)
    expected = '<config_view>{"model":"é","sandbox":{"networks":["<b>"]}}</>'
    assert tool.call({}) == ToolResult(text=expected)
    assert (tool.spec.name, list(tool.spec.parameters["properties"])) == ("config_view", ["part"])
