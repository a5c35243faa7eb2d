"""The beginning of every command: settings once, warnings, colours; and one more layer on top."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.layering import make_host, make_layers
from fakes.terminals import Screen

from odek.app.config import config_of, load, wants
from odek.config.options import Source
from odek.errors import ConfigError
from odek.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = make_host(tmp_path, uid=os.getuid())
    Path(made.home, ".odek").chmod(0o700)
    return made


def write(host: Host, *, operator: object = None, project: object = None) -> None:
    for path, content in ((Path(host.home, ".odek", "config.json"), operator), (Path(host.cwd, "odek.json"), project)):
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            path.chmod(0o600)


def test_warnings_are_shown_once_and_the_project_can_be_left_out(host: Host) -> None:
    write(host, operator={"unknown": 1}, project={"api_key": "x", "sandbox_network": "bridge"})
    screen = Screen()
    config = load(host, {}, screen.terminal)
    assert len(screen.stderr.splitlines()) == len(config.settings.warnings) == 2
    assert [override.key for override in config.overrides] == ["sandbox_network"]
    assert config.with_model("y", origin="/model").settings.model.model == "y"
    assert len(screen.stderr.splitlines()) == 2
    alone = load(host, {}, Screen().terminal, with_project=False)
    assert (alone.overrides, alone.settings.sandbox.network) == ((), "none")


def test_layer_goes_above_all_or_below_the_flags() -> None:
    config = config_of(make_layers(operator={"model": "file"}, flags={"model": "flag"}))
    below = config.with_chosen_model("session", "", origin="the session")
    assert (below.settings.model.model, below.settings.source_of("model")) == ("flag", Source.FLAG)
    assert config.with_model("asked", origin="/model").settings.model.model == "asked"


@pytest.mark.parametrize(
    ("env", "operator", "project", "arguments", "plain"),
    [
        ({}, None, None, (), False),
        ({"ODEK_NO_COLOR": "1"}, None, None, (), True),
        ({"ODEK_NO_COLOR": "0"}, {"no_color": True}, None, (), False),
        ({}, {"no_color": True}, None, (), True),
        ({}, None, {"no_color": True}, (), True),
        ({}, {"no_color": True}, {"no_color": False}, (), False),
        ({}, None, None, ("--no-color",), True),
        ({}, None, None, ("--bogus", "--no-color"), True),
        ({}, None, None, ("--", "--no-color"), False),
        ({}, {"no_color": True}, "not JSON", (), True),
        ({"ODEK_NO_COLOR": "1", "ODEK_SANDBOX_BOGUS": "1"}, "not JSON", None, (), True),
        ({"ODEK_NO_COLOR": "perhaps"}, None, None, (), False),
    ],
    ids=str,
)
def test_colours_before_and_without_settings(
    env: dict[str, str], operator: object, project: object, arguments: tuple[str, ...], plain: bool, host: Host
) -> None:
    """V2, C2: for errors of the command line and of the settings themselves, and for commands that read none."""
    write(host, operator=operator, project=project)
    assert wants("no_color", replace(host, env=env), arguments) is plain
    renamed = {name.replace("NO_COLOR", "PLAIN"): value for name, value in env.items()}
    said = tuple(argument.replace("no-color", "plain") for argument in arguments)
    operators = {"plain": operator["no_color"]} if isinstance(operator, dict) else operator
    write(host, operator=operators, project=None)  # whose terminal it is decides, no project
    expected = plain if project is None or isinstance(project, str) else bool(operator and operators["plain"])
    assert wants("plain", replace(host, env=renamed), said) is expected


@pytest.mark.parametrize(
    ("flags", "operator"), [({"no_color": True}, {}), ({}, {"no_color": True})], ids=["flag", "file"]
)
def test_settings_switch_colours_off_before_the_first_warning(
    flags: dict[str, object], operator: dict[str, object], host: Host
) -> None:
    """V2."""
    write(host, operator={**operator, "unknown": 1})
    screen = Screen(is_terminal=True)
    screen.terminal.configure(env={"TERM": "xterm"}, is_terminal=True)
    load(host, flags, screen.terminal)
    assert "unknown" in screen.stderr
    assert "\x1b" not in screen.stderr


def test_settings_that_contradict_each_other_are_an_error(host: Host) -> None:
    with pytest.raises(ConfigError, match="contradict"):
        load(replace(host, env={"ODEK_SANDBOX": "1", "ODEK_NO_SANDBOX": "1"}), {}, Screen().terminal)
