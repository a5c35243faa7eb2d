"""From files, variables and flags to layers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import NO_SECRETS, make_host

from odek.config.danger import DangerSettings
from odek.config.layers import (
    Environment,
    Layer,
    Value,
    parse_environment,
    parse_fallbacks,
    parse_file,
    parse_flags,
    read_layers,
)
from odek.config.options import Option, Source
from odek.config.server import settle_server
from odek.config.settings import BY_KEY, OPTIONS
from odek.config.sources import SecretFile
from odek.errors import ConfigError

UID = os.getuid()


def _file(document: object, source: Source, env: Mapping[str, str] | None = None) -> Layer:
    return parse_file(json.dumps(document).encode(), source, env or {})


def test_file_values_know_their_file() -> None:
    """R-10: each value knows where it came from."""
    assert _file({"model": "m", "tools": {"disabled": ["shell"]}, "dangerous": {}}, Source.GLOBAL) == Layer(
        source=Source.GLOBAL,
        origin="~/.odek/config.json",
        values={
            "model": Value(value="m", origin="~/.odek/config.json"),
            "tools.disabled": Value(value=("shell",), origin="~/.odek/config.json"),
            "dangerous": Value(value=DangerSettings(), origin="~/.odek/config.json"),
        },
    )


def test_what_says_nothing_is_no_value() -> None:
    document = {"model": "", "sandbox": None, "tools": None, "dangerous": None, "$schema": "x"}
    assert _file(document, Source.GLOBAL).values == {}


@pytest.mark.parametrize(
    "key",
    [
        "base_url",
        "api_key",
        "system",
        "dangerous",
        "guard",
        "telegram",
        "memory",
        "schedules",
        "trusted_proxies",
        "transcription",
        "vision",
        "maintenance",
        "subagent",
    ],
)
@pytest.mark.parametrize("value", ["x", {"dangerous": {"action": "allow"}}, 7, None])
def test_project_does_not_get_at_what_is_the_operators(key: str, value: object) -> None:
    """R-15, B29, F-14, F-15: not even the type of the value matters."""
    layer = _file({key: value}, Source.PROJECT)
    assert (layer.values, layer.unused, layer.unknown) == ({}, (key,), ())


def test_project_does_not_choose_the_tools_that_exist() -> None:
    """R-15, B29"""
    layer = _file({"tools": {"enabled": ["shell"], "disabled": ["patch"]}}, Source.PROJECT)
    assert layer.unused == ("tools.enabled",)
    assert layer.values == {"tools.disabled": Value(value=("patch",), origin="./odek.json")}


@pytest.mark.parametrize("key", [option.key for option in OPTIONS if not option.in_file])
@pytest.mark.parametrize("source", [Source.GLOBAL, Source.PROJECT])
def test_option_without_a_key_is_unknown_in_a_file(key: str, source: Source) -> None:
    layer = _file({key: True}, source)
    assert (layer.values, layer.unknown) == ({}, (key,))


def test_reserved_names_are_kept_apart() -> None:
    layer = _file({"telegram": {"x": [1]}, "vision": 1, "model": "m"}, Source.GLOBAL)
    assert (list(layer.values), layer.unused) == (["model"], ("telegram", "vision"))


def test_key_written_with_a_dot_is_not_the_nested_one() -> None:
    """B29: no second way to spell a key."""
    layer = _file({"tools.enabled": ["shell"], "tools": {"x.y": 1}}, Source.GLOBAL)
    assert (layer.values, layer.unknown) == ({}, ("tools.enabled", "tools.x.y"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"tools": ["shell"]}, "./odek.json: tools must be an object, not a list"),
        ({"tools": {"disabled": "shell"}}, './odek.json: tools.disabled must be a list of strings, not "shell"'),
        ({"sandbox": "false"}, './odek.json: sandbox must be true or false, not "false"'),
        ({"sandbox_pids_limit": 4096.0}, "./odek.json: sandbox_pids_limit must be a whole number, not 4096.0"),
        (
            {"sandbox_env": {"C": "${X:-d}"}},
            '"${X:-d}" names no variable (./odek.json: sandbox_env.C)',
        ),
        ({"sandbox_env": {"C": 1}}, "./odek.json: sandbox_env.C must be a string, not a number"),
        ({"sandbox_env": "X"}, './odek.json: sandbox_env must be an object, not "X"'),
    ],
)
def test_wrong_type_in_a_file_is_fatal(document: object, message: str) -> None:
    """R-13, F-1: the file and the key are named; nothing of the file is used."""
    with pytest.raises(ConfigError) as caught:
        _file(document, Source.PROJECT)
    assert caught.value.message == message


EXPANDING = {
    "model": ("${V}", "v"),
    "base_url": ("https://$V/v1", "https://v/v1"),
    "api_key": ("${V}", "v"),
    "system": ("a $V", "a v"),
    "sandbox_image": ("${V}:1", "v:1"),
    "sandbox_networks": (["${V}", "b"], ("v", "b")),
    "sandbox_compose_project": ("$V", "v"),
    "sandbox_user": ("${V}", "v"),
    "sandbox_env": ({"A": "${V}$$", "$V": "1"}, None),
}


@pytest.mark.parametrize("key", [key for key in EXPANDING if key != "sandbox_env"])
def test_operators_strings_may_name_variables(key: str) -> None:
    """R-17"""
    raw, value = EXPANDING[key]
    assert _file({key: raw}, Source.GLOBAL, {"V": "v"}).values[key].value == value


def test_operators_sandbox_env_is_expanded_in_values_only() -> None:
    """R-17"""
    layer = _file({"sandbox_env": {"A": "${V}$$", "B": "$NESTED"}}, Source.GLOBAL, {"V": "v", "NESTED": "$V"})
    assert layer.values["sandbox_env"].value == (("A", "v$"), ("B", "$V"))


def test_name_that_is_a_reference_is_no_name() -> None:
    with pytest.raises(ConfigError):
        _file({"sandbox_env": {"$V": "1"}}, Source.GLOBAL, {"V": "v"})


@pytest.mark.parametrize(
    ("document", "values"),
    [
        ({"dangerous": {"allowlist": ["echo $HOME"]}}, DangerSettings(allowlist=("echo $HOME",))),
        ({"sandbox_volumes": ["./$V:/x"]}, ("./$V:/x",)),
        ({"tools": {"disabled": ["$V"]}}, ("$V",)),
    ],
)
def test_commands_volumes_and_tools_are_taken_literally(document: dict[str, object], values: object) -> None:
    (value,) = _file(document, Source.GLOBAL, {"V": "v"}).values.values()
    assert value.value == values


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"model": "${NONE}"}, 'the variable "NONE" is not set (~/.odek/config.json: model)'),
        (
            {"sandbox_networks": ["a", "$NONE"]},
            'the variable "NONE" is not set (~/.odek/config.json: sandbox_networks[1])',
        ),
        ({"sandbox_env": {"A": "$NONE"}}, 'the variable "NONE" is not set (~/.odek/config.json: sandbox_env.A)'),
    ],
)
def test_variable_that_is_not_set_is_fatal(document: object, message: str) -> None:
    """R-17, B31"""
    with pytest.raises(ConfigError) as caught:
        _file(document, Source.GLOBAL)
    assert caught.value.message == message


@pytest.mark.parametrize("raw", [7, [7], {"A": 7}])
def test_expansion_leaves_other_types_to_the_type_check(raw: object) -> None:
    with pytest.raises(ConfigError, match="must be a"):
        _file({"sandbox_image": raw}, Source.GLOBAL)


@pytest.mark.parametrize("key", [key for key in EXPANDING if key.startswith("sandbox") or key == "model"])
def test_projects_text_is_taken_literally(key: str) -> None:
    """R-17, F-4, B31: whatever is set, no variable of this host gets into a project's text."""
    raw = {"sandbox_env": {"A": "${V}", "B": "$${V}", "C": "$V"}}.get(key, EXPANDING[key][0])
    if key in ("sandbox_user", "sandbox_networks", "sandbox_compose_project"):
        with pytest.raises(ConfigError, match=r"is not (a user|the name of)"):
            _file({key: raw}, Source.PROJECT, {"V": "v"})
        return
    value = _file({key: raw}, Source.PROJECT, {"V": "v"}).values[key].value
    assert value == ((("A", "${V}"), ("B", "$${V}"), ("C", "$V")) if key == "sandbox_env" else raw)


def test_environment_values_know_their_variable() -> None:
    """R-10"""
    assert parse_environment({"ODEK_MODEL": "m", "PATH": "/bin"}, NO_SECRETS) == Layer(
        source=Source.ENVIRONMENT, origin="environment", values={"model": Value(value="m", origin="ODEK_MODEL")}
    )


@pytest.mark.parametrize(
    ("env", "value"),
    [
        ({"NO_COLOR": "1"}, Value(value=True, origin="NO_COLOR")),
        ({"NO_COLOR": "0"}, Value(value=True, origin="NO_COLOR")),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "1", "ODEK_NO_COLOR": "0"}, Value(value=False, origin="ODEK_NO_COLOR")),
        ({"ODEK_NO_COLOR": "yes"}, Value(value=True, origin="ODEK_NO_COLOR")),
    ],
)
def test_no_color_counts_whatever_it_says(env: dict[str, str], value: Value | None) -> None:
    """no-color.org: present and not empty."""
    assert parse_environment(env, NO_SECRETS).values.get("no_color") == value


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.is_switch], ids=lambda option: option.key)
def test_word_that_is_no_boolean_is_fatal_in_every_variable(option: object) -> None:
    """R-14"""
    for name in option.env[:1]:  # type: ignore[attr-defined]
        with pytest.raises(ConfigError) as caught:
            parse_environment({name: "maybe"}, NO_SECRETS)
        assert caught.value.message == f'{name} is "maybe", which is neither true nor false'


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "4096.0", "1e3"])
def test_bad_number_in_a_variable_is_fatal(text: str) -> None:
    with pytest.raises(ConfigError, match="ODEK_SANDBOX_PIDS_LIMIT"):
        parse_environment({"ODEK_SANDBOX_PIDS_LIMIT": text}, NO_SECRETS)


def test_word_in_a_variable_is_the_empty_list() -> None:
    """A4, F-12: no tools, not all of them."""
    values = parse_environment({"ODEK_TOOLS_ENABLED": "none"}, NO_SECRETS).values
    assert values == {"tools.enabled": Value(value=(), origin="ODEK_TOOLS_ENABLED")}


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.env], ids=lambda option: option.key)
@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_empty_variable_is_an_error(option: Option[Any], text: str) -> None:
    """A4: one rule for all options, as for flags."""
    with pytest.raises(ConfigError, match=f"^{option.env[0]} is empty$") as refused:
        parse_environment({option.env[0]: text}, NO_SECRETS)
    assert not option.off_word or f"{option.off_word} switches it off" in refused.value.hint


@pytest.mark.parametrize(
    ("key", "empty"), [("sandbox_networks", ()), ("sandbox_compose_project", ""), ("tools.enabled", ())]
)
def test_word_switches_off_for_one_run(key: str, empty: object) -> None:
    """A4: by flag and by variable; together with a name it is a contradiction."""
    option = BY_KEY[key]
    given = ["none"] if option.kind.is_list else "none"
    assert parse_flags({key: given}, {}).values[key] == Value(value=empty, origin=option.flag)
    assert parse_environment({option.env[0]: "none"}, NO_SECRETS).values[key].value == empty
    if option.kind.is_list:
        with pytest.raises(ConfigError, match="is given as none and with names"):
            parse_flags({key: ["a", "none"]}, {})


def test_keys_of_other_programs_are_the_weakest_layer() -> None:
    env = {"OPENAI_API_KEY": "o", "DEEPSEEK_API_KEY": "d"}
    assert parse_fallbacks(env, NO_SECRETS, ()).values == {"api_key": Value(value="d", origin="DEEPSEEK_API_KEY")}
    assert parse_fallbacks({"OPENAI_API_KEY": "o", "DEEPSEEK_API_KEY": ""}, NO_SECRETS, ()).values == {
        "api_key": Value(value="o", origin="OPENAI_API_KEY")
    }


def test_limit_of_cost_may_be_a_projects_and_prices_may_not() -> None:
    """R-232"""
    limits = {"max_cost_usd": 1, "max_tool_calls": 5, "input_cost_per_million_usd": 0}
    layer = _file({"limits": limits, "providers": {}}, Source.PROJECT)
    assert layer.values == {
        "limits.max_tool_calls": Value(value=5, origin="./odek.json"),
        "limits.max_cost_usd": Value(value=1.0, origin="./odek.json"),
    }
    assert (layer.unused, layer.unknown) == (("limits.input_cost_per_million_usd", "providers"), ())


@pytest.mark.parametrize("bad", ["1", True, 0, -1, 1e7, [1]])
def test_limit_of_cost_is_a_number(bad: object) -> None:
    """R-232, R-13"""
    with pytest.raises(ConfigError, match=r"~/\.odek/config\.json: limits\.max_cost_usd"):
        _file({"limits": {"max_cost_usd": bad}}, Source.GLOBAL)


def test_variable_from_the_secret_file_says_so() -> None:
    secrets = SecretFile(values={"ODEK_API_KEY": "k", "ODEK_MODEL": "weak"}, warnings=("w",))
    layer = parse_environment({"ODEK_API_KEY": "k", "ODEK_MODEL": "strong"}, secrets)
    assert layer.values == {
        "model": Value(value="strong", origin="ODEK_MODEL"),
        "api_key": Value(value="k", origin="ODEK_API_KEY in ~/.odek/secrets.env"),
    }
    assert layer.warnings == ("w",)


@pytest.mark.parametrize(
    ("flags", "values"),
    [
        ({}, {}),
        ({"sandbox": True}, {"sandbox": Value(value=True, origin="--sandbox")}),
        ({"sandbox": False}, {"sandbox": Value(value=False, origin="--no-sandbox")}),
        ({"max_iterations": "3"}, {"max_iterations": Value(value=3, origin="--max-iter")}),
        (
            {"sandbox_networks": ["a,b", "c"]},
            {"sandbox_networks": Value(value=("a", "b", "c"), origin="--sandbox-networks")},
        ),
        ({"ctx": ["a.txt, b.txt"]}, {"ctx": Value(value=("a.txt", "b.txt"), origin="--ctx")}),
    ],
)
def test_flags_are_typed(flags: dict[str, object], values: dict[str, Value]) -> None:
    """R-10; a list flag that is repeated adds up."""
    assert parse_flags(flags, {}) == Layer(source=Source.FLAG, origin="command line", values=values)


@pytest.mark.parametrize("key", ["sandbox_memory", "sandbox_image", "thinking", "record"])
def test_empty_flag_is_an_error(key: str) -> None:
    """A script's unset variable must not lift a limit."""
    with pytest.raises(ConfigError, match=r"--[a-z-]+ is empty"):
        parse_flags({key: ""}, {})


def test_bad_number_in_a_flag_is_fatal() -> None:
    """F-27"""
    with pytest.raises(ConfigError) as caught:
        parse_flags({"max_iterations": "abc"}, {})
    assert caught.value.message == '--max-iter must be a whole number, not "abc"'


def test_reads_every_layer_weakest_first(tmp_path: Path) -> None:
    """R-10"""
    host = make_host(tmp_path, {"ODEK_MODEL": "e", "DEEPSEEK_API_KEY": "o", "V": "v"}, uid=UID)
    (tmp_path / "home/.odek/config.json").write_text('{"model": "g", "sandbox_image": "$V"}', encoding="utf-8")
    (tmp_path / "work/odek.json").write_text('{"model": "p"}', encoding="utf-8")
    layers = settle_server(*read_layers(host, {"model": "f"}))
    assert [(layer.source, {key: value.value for key, value in layer.values.items()}) for layer in layers] == [
        (Source.ENVIRONMENT, {"api_key": "o"}),
        (Source.GLOBAL, {"model": "g", "sandbox_image": "v"}),
        (Source.PROJECT, {"model": "p"}),
        (Source.ENVIRONMENT, {"model": "e"}),
        (Source.FLAG, {"model": "f"}),
    ]


@pytest.mark.parametrize("home", ["", None], ids=["no home", "nothing in it"])
def test_missing_files_say_nothing(home: str | None, tmp_path: Path) -> None:
    layers = settle_server(*read_layers(make_host(tmp_path, uid=UID, home=home), {}))
    assert [(layer.source, layer.values) for layer in layers] == [
        (Source.ENVIRONMENT, {}),
        (Source.ENVIRONMENT, {}),
        (Source.FLAG, {}),
    ]


def test_only_the_working_directory_has_a_project_file(tmp_path: Path) -> None:
    """B29: no search upwards, no ./.odek."""
    host = make_host(tmp_path, uid=UID)
    (tmp_path / "odek.json").write_text('{"model": "up"}', encoding="utf-8")
    (tmp_path / "work/.odek").mkdir()
    (tmp_path / "work/.odek/config.json").write_text('{"model": "hidden"}', encoding="utf-8")
    assert all(not layer.values for layer in read_layers(host, {})[0])


def test_secret_file_fills_what_the_environment_lacks(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"ODEK_MODEL": "e", "ODEK_API_KEY": ""}, uid=UID)
    path = tmp_path / "home/.odek/secrets.env"
    path.write_text("ODEK_MODEL=s\nODEK_API_KEY=k\nTOKEN=t\nnonsense\n", encoding="utf-8")
    path.chmod(0o600)
    (tmp_path / "home/.odek/config.json").write_text('{"sandbox_env": {"T": "$TOKEN"}}', encoding="utf-8")
    (operator, environment, _), _ = read_layers(host, {})
    assert operator.values["sandbox_env"].value == (("T", "t"),)
    assert environment.values == {
        "model": Value(value="e", origin="ODEK_MODEL"),
        "api_key": Value(value="k", origin="ODEK_API_KEY in ~/.odek/secrets.env"),
    }
    assert environment.warnings == ("~/.odek/secrets.env: line 4 is ignored: it is not NAME=VALUE",)
    assert dict(host.env) == {"ODEK_MODEL": "e", "ODEK_API_KEY": ""}  # children get nothing of it


BROKEN = {
    "UTF-16": '{"model": "m"}'.encode("utf-16"),
    "comment": b'{"model": "m"} // c',
    "trailing comma": b'{"model": "m",}',
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "string": b'"x"',
    "truncated": b'{"model": "m"',
    "NaN": b'{"sandbox_pids_limit": NaN}',
    "1e999": b'{"sandbox_pids_limit": 1e999}',
    "huge number": b'{"sandbox_pids_limit": ' + b"9" * 5000 + b"}",
    "deep": b"[" * 100_000,
    "float": b'{"sandbox_pids_limit": 4096.0}',
    "text": b'{"sandbox_pids_limit": "4096"}',
    "boolean": b'{"sandbox_pids_limit": true}',
    "negative": b'{"sandbox_pids_limit": -1}',
    "twice": b'{"sandbox_network": "none", "sandbox\\u005fnetwork": "bridge"}',
}


@pytest.mark.parametrize("place", ["home/.odek/config.json", "work/odek.json"])
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file_stops_the_run(kind: str, place: str, tmp_path: Path) -> None:
    """B37, B38, R-13, F-1: in both files, named as the operator knows them."""
    host = make_host(tmp_path, uid=UID)
    (tmp_path / place).write_bytes(BROKEN[kind])
    with pytest.raises(ConfigError) as caught:
        read_layers(host, {})
    assert {"home/.odek/config.json": "~/.odek/config.json", "work/odek.json": "./odek.json"}[place] in (
        caught.value.message
    )


@pytest.mark.parametrize("place", ["home/.odek/config.json", "work/odek.json"])
def test_odd_files_stop_the_run(place: str, tmp_path: Path) -> None:
    """B37: a directory, a FIFO, a device."""
    host = make_host(tmp_path, uid=UID)
    path = tmp_path / place
    path.mkdir()
    with pytest.raises(ConfigError):
        read_layers(host, {})
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(ConfigError):
        read_layers(host, {})
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError):
        read_layers(host, {})


def test_project_file_that_leads_out_of_the_project_stops_the_run(tmp_path: Path) -> None:
    host = make_host(tmp_path, uid=UID)
    (tmp_path / "home/.odek/config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "work/odek.json").symlink_to(tmp_path / "home/.odek/config.json")
    with pytest.raises(ConfigError, match=r"\./odek\.json: it is a link that leaves the project directory"):
        read_layers(host, {})


def test_loose_secret_file_stops_the_run(tmp_path: Path) -> None:
    """It may hold the very switch that the operator counts on."""
    host = make_host(tmp_path, uid=UID)
    path = tmp_path / "home/.odek/secrets.env"
    path.write_text("ODEK_REQUIRE_SANDBOX=1\n", encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(ConfigError):
        read_layers(host, {})


@pytest.mark.parametrize(
    ("operator", "flags", "keeps"),
    [
        ({}, {}, True),
        ({}, {"provider": "groq"}, False),
        ({"provider": "openai"}, {"provider": "anthropic"}, False),
        ({"provider": "groq"}, {"provider": "groq"}, True),
        ({"provider": "groq"}, {}, True),
        ({}, {"provider": "groq", "base_url": "https://x.example/v1"}, True),
    ],
    ids=str,
)
def test_key_of_the_file_goes_to_no_provider_that_a_flag_brings(
    operator: dict[str, object], flags: dict[str, object], keeps: bool
) -> None:
    """C9, D-26: `--provider` brings its address; the key that the file has for another one stays here."""
    layers = (_file({"api_key": "sk-canary", **operator}, Source.GLOBAL), parse_flags(flags, {}))
    found = settle_server(layers, Environment({}, SecretFile(values={})))
    keys = [layer.values["api_key"].value for layer in found if "api_key" in layer.values]
    warnings = [warning for layer in found for warning in layer.warnings]
    assert (keys, len(warnings)) == (["sk-canary"] if keeps else [], 0 if keeps else 1)
    assert not any("sk-canary" in warning for warning in warnings)


def test_max_concurrency_is_read_as_that_of_the_sub_agents() -> None:
    """R-221: the name of other programs of this kind, in the operator's file alone, within the same bounds."""
    for document in ({"max_concurrency": 2}, {"subagent": {"max_concurrency": 2}}):
        assert _file(document, Source.GLOBAL).values["subagent.max_concurrency"].value == 2
        assert _file(document, Source.PROJECT).values == {}
    with pytest.raises(ConfigError, match="max_concurrency"):
        _file({"max_concurrency": 9}, Source.GLOBAL)
