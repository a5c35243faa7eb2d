"""The entries of `mcp_servers`: what each may say, and whose they are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fakes.layering import make_layers

from odek.config.mcp_servers import KEYS, MAX_SERVERS, McpServer
from odek.config.options import Source
from odek.config.resolve import project_overrides, resolve
from odek.config.schema import schema
from odek.config.settings import Settings
from odek.config.view import view
from odek.errors import ConfigError

ENV = {"TOKEN": "t0ken", "EMPTY": ""}
FULL: dict[str, Any] = {
    "command": "docs-server",
    "args": ["--root", "."],
    "env": {"KEY": "${TOKEN}", "A": "$$1"},
    "sandbox": False,
    "startup_seconds": 5,
    "timeout_seconds": 7,
    "parallel": 3,
    "tools": ["search"],
    "allow": ["search"],
    "required": True,
}


def settings(operator: object = None, project: object = None) -> Settings:
    return resolve(
        make_layers(
            operator=None if operator is None else {"mcp_servers": operator},
            project=None if project is None else {"mcp_servers": project},
            env=ENV,
        )
    )


def test_operator_says_everything() -> None:
    """R-191: every key; R-17: variables are replaced in `env`."""
    (server,) = settings({"docs": FULL}).mcp_servers
    assert server == McpServer(
        name="docs",
        command="docs-server",
        args=("--root", "."),
        env=(("A", "$1"), ("KEY", "t0ken")),
        on_host=True,
        startup_s=5,
        timeout_s=7,
        parallel=3,
        tools=("search",),
        allow=("search",),
        required=True,
    )
    assert FULL.keys() == set(KEYS)


def test_defaults() -> None:
    """R-191, D-19: in the sandbox unless the operator says otherwise."""
    (server,) = settings({"docs": {"command": "x"}}).mcp_servers
    assert server == McpServer(name="docs", command="x", startup_s=20, timeout_s=120)
    assert not server.on_host


def test_project_says_less() -> None:
    """R-191: a project's entry is in the sandbox, lowers limits, and can neither allow nor require; each is named."""
    loaded = settings(project={"docs": {**FULL, "startup_seconds": 21, "timeout_seconds": 121}})
    (server,) = loaded.mcp_servers
    assert (server.on_host, server.startup_s, server.timeout_s) == (False, 20, 120)
    assert (server.allow, server.required, server.by_project) == ((), False, True)
    assert server.env == (("A", "$$1"), ("KEY", "${TOKEN}"))  # as it is written, until it is approved
    assert loaded.warnings == (
        '"mcp_servers.docs" in ./odek.json: a server of a project runs in the sandbox; its "sandbox": false is ignored',
        '"mcp_servers.docs" in ./odek.json: a project may not set "startup_seconds", "timeout_seconds", "allow", '
        '"required" so; that is ignored',
    )
    lower = settings(project={"docs": {"command": "x", "sandbox": True, "startup_seconds": 3, "timeout_seconds": 4}})
    assert ([(s.startup_s, s.timeout_s) for s in lower.mcp_servers], lower.warnings) == ([(3, 4)], ())


def test_operators_names_are_the_operators() -> None:
    """R-192: a project's entry under such a name is ignored whole, its env included."""
    hostile = {"command": "evil", "env": {"LD_PRELOAD": "/workspace/x.so"}, "sandbox": False}
    loaded = settings({"docs": FULL}, {"docs": hostile, "more": {"command": "y"}})
    assert [(server.name, server.command, server.by_project) for server in loaded.mcp_servers] == [
        ("docs", "docs-server", False),
        ("more", "y", True),
    ]
    assert loaded.warnings == ('"mcp_servers.docs" in ./odek.json is ignored: a server of the operator has that name',)
    assert project_overrides(make_layers(project={"mcp_servers": {"docs": hostile}})) == ()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("x", 'mcp_servers.docs must be an object, not "x"'),
        ({}, "mcp_servers.docs has no command"),
        ({"command": " "}, "mcp_servers.docs.command is empty"),
        ({"command": ["x"]}, "mcp_servers.docs.command must be a string, not a list"),
        ({"command": "a\0b"}, "mcp_servers.docs.command holds a NUL character"),
        ({"command": "x", "url": "http://h/"}, 'unknown key "url" in'),
        ({"command": "x", "Sandbox": False}, 'unknown key "Sandbox" in'),
        ({"command": "x", "cwd": "/"}, 'unknown key "cwd" in'),
        ({"command": "x", "args": "a b"}, 'mcp_servers.docs.args must be a list of strings, not "a b"'),
        ({"command": "x", "args": {}}, "mcp_servers.docs.args must be a list of strings, not an object"),
        ({"command": "x", "allow": False}, "mcp_servers.docs.allow must be a list of strings, not false"),
        ({"command": "x", "args": [1]}, "mcp_servers.docs.args[0] must be a string, not 1"),
        ({"command": "x", "args": ["x"] * 257}, "mcp_servers.docs.args has 257 entries"),
        ({"command": "x", "args": ["x" * 40000]}, "mcp_servers.docs has arguments that are too long"),
        ({"command": "x", "env": {"A B": "1"}}, "is not a name for an environment variable"),
        ({"command": "x", "env": {"A": 1}}, "mcp_servers.docs.env.A must be a string, not a number"),
        ({"command": "x", "env": {"A": "${}"}}, "names no variable"),
        ({"command": "x", "env": ["A"]}, "mcp_servers.docs.env must be an object, not a list"),
        ({"command": "x", "sandbox": "false"}, 'mcp_servers.docs.sandbox must be true or false, not "false"'),
        ({"command": "x", "sandbox": 0}, "mcp_servers.docs.sandbox must be true or false, not 0"),
        ({"command": "x", "startup_seconds": 0}, "mcp_servers.docs.startup_seconds is 0, out of range"),
        ({"command": "x", "timeout_seconds": True}, "must be a whole number, not true"),
        ({"command": "x", "timeout_seconds": 3601}, "out of range"),
        ({"command": "x", "parallel": 0}, "mcp_servers.docs.parallel is 0, out of range"),
        ({"command": "x", "parallel": 9}, "out of range"),
        ({"command": "x", "tools": ["a", " "]}, "an entry of ./odek.json: mcp_servers.docs.tools is empty"),
    ],
)
def test_a_mistake_stops_the_start(entry: object, words: str) -> None:
    """R-191, R-13: an entry decides what runs; nothing in it is passed over, whoever wrote it."""
    with pytest.raises(ConfigError, match=re.escape(words)):
        settings(project={"docs": entry})
    with pytest.raises(ConfigError, match=re.escape(words.replace("./odek.json", "~/.odek/config.json"))):
        settings({"docs": entry})


@pytest.mark.parametrize("name", ["", "a b", "a__b", "x" * 33, "é", "a.b", "a\n", "../x", "__"])
def test_names_that_are_none(name: str) -> None:
    """R-191"""
    with pytest.raises(ConfigError, match="cannot be the name of a server"):
        settings({name: {"command": "x"}})


def test_a_host_server_is_no_relative_path() -> None:
    """R-191, R-92: "./server" would be another program in each folder; in the sandbox it is one of the project."""
    for command in ("./server", "bin/server"):
        with pytest.raises(ConfigError, match="relative path"):
            settings({"docs": {"command": command, "sandbox": False}})
        assert settings({"docs": {"command": command}}).mcp_servers[0].command == command


def test_a_variable_that_is_missing_stops_the_operators_entry() -> None:
    """R-17: an empty text in its place would change what the server gets."""
    with pytest.raises(ConfigError, match=r'the variable "NONE" is not set .*mcp_servers.docs.env.A'):
        settings({"docs": {"command": "x", "env": {"A": "${NONE}"}}})


def test_entries_are_few() -> None:
    """R-191: each costs a process, and a project's each a question."""
    many = {f"s{number}": {"command": "x"} for number in range(MAX_SERVERS + 1)}
    with pytest.raises(ConfigError, match="33 entries"):
        settings(project=many)


def test_no_file_is_needed_for_none() -> None:
    assert settings().mcp_servers == ()
    assert settings(operator={}).mcp_servers == ()


def test_view_names_them_and_shows_no_value() -> None:
    """R-19"""
    shown = view(settings({"docs": FULL}))
    assert shown["mcp_servers"]["value"] == ["docs"]
    assert "t0ken" not in json.dumps(shown)


@pytest.mark.parametrize("source", [Source.GLOBAL, Source.PROJECT])
def test_editors_are_told_the_keys(source: Source) -> None:
    """R-20"""
    properties: Any = schema(source)["properties"]
    entry = properties["mcp_servers"]["additionalProperties"]
    assert (set(entry["properties"]), entry["additionalProperties"]) == (set(KEYS), False)
