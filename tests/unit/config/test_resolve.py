"""Layers to settings: who wins, what a project may, what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.layering import make_layers
from support.bad_values import BAD_VALUES, bad_value_id

from odek.config.danger import DangerSettings
from odek.config.layers import Layer, Value
from odek.config.options import Option, ProjectRule, Resolved, Source
from odek.config.provider import KNOWN
from odek.config.resolve import Override, project_overrides, resolve
from odek.config.settings import BY_KEY, OPTIONS
from odek.errors import ConfigError

# Two values of each option, as a file has them; a project may set the second over the first. A kind has its own, so
# that a new option needs none here, unless its grammar wants others.
BY_KIND: dict[str, tuple[object, object]] = {
    "bool": (False, True),
    "int": (20, 17),
    "float": (0.5, 1.5),
    "str": ("one", "two"),
    "list": (["one"], ["two"]),
}
SPECIAL: dict[str, tuple[object, object]] = {
    "allow": (["install"], ["unknown"]),
    "base_url": ("https://one.example/v1", "https://two.example/v1"),
    "tools.enabled": (["shell"], []),
    "tools.disabled": (["shell"], ["patch"]),
    "providers": (
        {"work": {"base_url": "https://a.example/v1"}},
        {"work": {"base_url": "https://a.example/v1", "models": {"m": {"window": 8000}}}},
    ),
    "dangerous": ({"action": "deny"}, {"action": "allow"}),
    "sandbox_network": ("bridge", "none"),
    "sandbox_memory": ("1g", "512m"),
    "sandbox_cpus": ("2", "0.5"),
    "sandbox_tmp_size": ("512m", "64m"),
    "sandbox_user": ("1:1", "2:2"),
    "sandbox_env": ({"A": "1", "B": "1"}, {"B": "2", "C": "2"}),
    "sandbox_volumes": (["./a:/a"], ["./b:/b"]),
    "subagent.max_concurrency": (4, 2),
    "serve.addr": ("127.0.0.1:1", "127.0.0.1:2"),
    "serve.idle_seconds": (90, 60),
    "limits.max_cost_usd": (1.5, 0.5),
}


def _samples(option: Option[Any]) -> tuple[object, object]:
    if option.key in SPECIAL:
        return SPECIAL[option.key]
    if option.kind.choices:
        first, second = option.kind.choices[-2:]
        return first, second
    return BY_KIND[option.kind.name]


GLOBAL, PROJECT, ENVIRONMENT, FLAG = Source.GLOBAL, Source.PROJECT, Source.ENVIRONMENT, Source.FLAG
ORIGINS = {GLOBAL: "~/.odek/config.json", PROJECT: "./odek.json"}


def _document(key: str, value: object) -> dict[str, object]:
    group, _, name = key.rpartition(".")
    return {group: {name: value}} if group else {key: value}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) or "none" if isinstance(value, list) else str(value)


def _typed(option: Option[Any], value: object) -> object:
    return value if isinstance(value, float) else option.kind.from_json(value, "")


def _sources(option: Option[Any]) -> tuple[Source, ...]:
    sources = [GLOBAL] if option.in_file else []
    sources += [PROJECT] if option.in_file and option.project is not ProjectRule.FORBIDDEN else []
    sources += [ENVIRONMENT] if option.env else []
    return (*sources, *([FLAG] if option.flag else []))


def _layers(option: Option[Any], said: dict[Source, object]) -> tuple[Layer, ...]:
    documents = {source: _document(option.key, value) for source, value in said.items()}
    flag = said.get(FLAG)
    return make_layers(
        operator=documents[GLOBAL] if GLOBAL in said else None,
        project=documents[PROJECT] if PROJECT in said else None,
        env={option.env[0]: _as_text(said[ENVIRONMENT])} if ENVIRONMENT in said else {},
        flags={option.key: flag if isinstance(flag, bool) else _flag_text(flag)} if FLAG in said else {},
    )


def _flag_text(value: object) -> object:
    return [_as_text(value)] if isinstance(value, list) else _as_text(value)


def _origin(option: Option[Any], source: Source, value: object) -> str:
    if source is FLAG:
        return option.off_flag or option.flag if value is False else option.flag
    return ORIGINS.get(source) or option.env[0]


LAYERED = [option for option in OPTIONS if option.merge != "by server"]  # those: test_mcp_servers.py
SINGLE = [(option, source) for option in LAYERED for source in _sources(option)]
PAIRS = [
    (option, weak, strong)
    for option in LAYERED
    for weak in _sources(option)
    for strong in _sources(option)
    if weak < strong
]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_default_counts_when_nobody_says_anything(option: Option[Any]) -> None:
    """R-10"""
    settings = resolve(make_layers())
    assert settings.resolved[option.key] == Resolved(value=option.default, source=Source.DEFAULT, origin="default")
    assert not settings.was_set(option.key)


@pytest.mark.parametrize(("option", "source"), SINGLE, ids=lambda item: getattr(item, "key", None) or str(item.name))
def test_every_layer_sets_every_option_it_may(option: Option[Any], source: Source) -> None:
    """R-10, R-11: value, source and origin."""
    value = _samples(option)[1]
    if option.is_switch:
        value = True
    settings = resolve(_layers(option, {source: value}))
    expected = Resolved(value=_typed(option, value), source=source, origin=_origin(option, source, value))
    if source is PROJECT and _typed(option, value) == option.default:
        expected = Resolved(value=option.default, source=Source.DEFAULT, origin="default")
    assert settings.resolved[option.key] == expected
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("option", "weak", "strong"), PAIRS, ids=lambda item: getattr(item, "key", None) or str(item.name)
)
def test_stronger_layer_wins(option: Option[Any], weak: Source, strong: Source) -> None:
    """R-10: every option, every pair of layers; the project loses against variables and flags."""
    first, second = _samples(option)
    if weak is PROJECT and option.project is ProjectRule.CAN_ENABLE:
        first, second = second, first
    outcome = resolve(_layers(option, {weak: first, strong: second})).resolved[option.key]
    expected, origin = _typed(option, second), _origin(option, strong, second)
    if option.merge == "union":
        expected, origin = ("shell", "patch"), f"{_origin(option, weak, first)}, {origin}"
    elif option.merge == "by name":
        expected, origin = (("A", "1"), ("B", "2"), ("C", "2")), f"{_origin(option, weak, first)}, {origin}"
    assert outcome == Resolved(value=expected, source=strong, origin=origin)


@pytest.mark.parametrize(
    ("key", "operator", "project", "value", "warning"),
    [
        ("sandbox_pids_limit", None, 4097, 4096, "may only lower 4096 (default)"),
        ("sandbox_pids_limit", 100, 101, 100, "may only lower 100 (~/.odek/config.json)"),
        ("sandbox_pids_limit", 100, 100, 100, ""),
        ("sandbox_pids_limit", 100, 99, 99, ""),
        ("sandbox_pids_limit", 8192, 5000, 5000, ""),
        ("sandbox_networks", ["a"], [], ("a",), ""),
        ("sandbox_compose_project", "a", "", "a", ""),
        ("sandbox_memory", None, "64g", "64g", ""),
        ("sandbox_memory", "512m", "1g", "512m", "may only lower 512m (~/.odek/config.json)"),
        ("sandbox_memory", "1g", "1024m", "1024m", ""),
        ("sandbox_memory", "1g", "1025m", "1g", "may only lower 1g (~/.odek/config.json)"),
        ("sandbox_memory", "9g", "10m", "10m", ""),
        ("sandbox_cpus", None, "64", "64", ""),
        ("sandbox_cpus", "2", "2.000000001", "2", "may only lower 2 (~/.odek/config.json)"),
        ("sandbox_cpus", "10", "9.5", "9.5", ""),
        ("sandbox_tmp_size", None, "1025m", "1g", "may only lower 1g (default)"),
        ("sandbox_tmp_size", None, "64m", "64m", ""),
        ("sandbox_tmp_size", "4g", "2g", "2g", ""),
        ("sandbox_tmp_size", "64m", "65m", "64m", "may only lower 64m (~/.odek/config.json)"),
        ("max_iterations", None, 91, 90, "may only lower 90 (default)"),
        ("max_iterations", 50, 60, 50, "may only lower 50 (~/.odek/config.json)"),
        ("max_iterations", 50, 40, 40, ""),
        ("sandbox", None, False, None, "may only turn it on"),
        ("sandbox", True, False, True, "may only turn it on"),
        ("sandbox", False, False, False, ""),
        ("sandbox", False, True, True, ""),
        ("sandbox_readonly", True, False, True, "may only turn it on"),
        ("sandbox_readonly", None, False, False, ""),
        ("no_agents", True, False, True, "may only turn it on"),
    ],
)
def test_project_only_narrows(key: str, operator: object, project: object, value: object, warning: str) -> None:
    """R-5, R-15, R-16, F-41, D-4: limits go down, switches go on; what does not count is said."""
    settings = resolve(make_layers(operator=None if operator is None else {key: operator}, project={key: project}))
    assert BY_KEY[key].kind.shown(settings.resolved[key].value) == (list(value) if isinstance(value, tuple) else value)
    places = BY_KEY[key].places
    assert settings.warnings == (
        (f'"{key}" in ./odek.json is ignored: a project {warning}; it belongs in {places}',) if warning else ()
    )


@pytest.mark.parametrize(
    ("env", "flags"), [({"ODEK_SANDBOX": "0"}, {}), ({}, {"sandbox": False})], ids=["variable", "flag"]
)
def test_no_warning_when_the_operator_says_the_same(env: dict[str, str], flags: dict[str, object]) -> None:
    settings = resolve(make_layers(project={"sandbox": False}, env=env, flags=flags))
    assert (settings.sandbox.enabled, settings.warnings) == (False, ())


def test_operators_own_layers_may_raise_a_limit_again() -> None:
    """R-16 binds projects only."""
    layers = make_layers(
        operator={"sandbox_pids_limit": 100}, project={"sandbox_pids_limit": 50}, flags={"sandbox_pids_limit": "9999"}
    )
    assert resolve(layers).sandbox.pids_limit == 9999


@pytest.mark.parametrize(
    ("document", "warnings"),
    [
        (
            {"base_url": "https://evil.example"},
            [
                '"base_url" in ./odek.json is ignored: a project may not set it; '
                "it belongs in ~/.odek/config.json, ODEK_BASE_URL or --base-url"
            ],
        ),
        (
            {"api_key": "sk-evil", "dangerous": {"action": "allow"}, "telegram": {}, "serve": {"addr": "0.0.0.0:1"}},
            [
                '"api_key" in ./odek.json is ignored: a project may not set it; '
                "it belongs in ~/.odek/config.json or ODEK_API_KEY",
                '"dangerous" in ./odek.json is ignored: a project may not set it; it belongs in ~/.odek/config.json',
                '"telegram" in ./odek.json is ignored: a project may not set it; '
                "it belongs in ~/.odek/config.json (reserved)",
                '"serve" in ./odek.json is ignored: a project may not set it; it belongs in ~/.odek/config.json',
            ],
        ),
        ({"BASE_URL": "x"}, ['unknown key "BASE_URL" in ./odek.json is ignored; did you mean "base_url"?']),
        ({"llm": {"base_url": "x"}}, ['unknown key "llm" in ./odek.json is ignored']),
    ],
)
def test_forbidden_keys_are_ignored_and_named(document: dict[str, object], warnings: list[str]) -> None:
    """R-15, B29: one warning for each, saying where it may be set; the settings are untouched."""
    settings = resolve(make_layers(project=document))
    assert list(settings.warnings) == warnings
    assert settings.resolved == resolve(make_layers()).resolved


def test_reserved_keys_of_the_operator_get_one_notice() -> None:
    settings = resolve(make_layers(operator={"telegram": {}, "model": "m", "vision": {}}))
    assert settings.warnings == ("~/.odek/config.json: this version of odek has no use for telegram, vision",)


@pytest.mark.parametrize("key", ["sandbox_netwrok", "Sandbox", "dangerous "])
@pytest.mark.parametrize("layer", ["operator", "project"])
def test_unknown_security_setting_stops(key: str, layer: str) -> None:
    """R-13, F-2"""
    with pytest.raises(ConfigError, match="unknown key"):
        resolve(make_layers(**{layer: {key: True}}))  # type: ignore[arg-type]


def test_warnings_of_a_layer_come_first() -> None:
    layer = Layer(source=ENVIRONMENT, origin="environment", values={}, warnings=("first",), unknown=("modle",))
    assert resolve((layer,)).warnings == (
        "first",
        'unknown key "modle" in environment is ignored; did you mean "model"?',
    )


@pytest.mark.parametrize(
    ("operator", "env", "key", "origin"),
    [
        ({}, {}, "", "default"),
        # the default server is DeepSeek's: another company's key does not go there
        ({}, {"OPENAI_API_KEY": "o"}, "", "default"),
        ({}, {"OPENAI_API_KEY": "o", "DEEPSEEK_API_KEY": "d"}, "d", "DEEPSEEK_API_KEY"),
        (
            {"base_url": "https://api.openai.com/v1"},
            {"OPENAI_API_KEY": "o", "DEEPSEEK_API_KEY": "d"},
            "o",
            "OPENAI_API_KEY",
        ),
        ({"base_url": "https://api.openai.com/v1"}, {"DEEPSEEK_API_KEY": "d"}, "", "default"),
        (
            {"base_url": "https://notopenai.com/v1"},
            {"DEEPSEEK_API_KEY": "d", "OPENAI_API_KEY": "o"},
            "d",
            "DEEPSEEK_API_KEY",
        ),
        ({"base_url": "https://llm.example/v1"}, {"OPENAI_API_KEY": "o"}, "o", "OPENAI_API_KEY"),
        ({"api_key": "g"}, {"DEEPSEEK_API_KEY": "d"}, "g", "~/.odek/config.json"),
        ({"api_key": ""}, {"DEEPSEEK_API_KEY": "d"}, "d", "DEEPSEEK_API_KEY"),
        ({"api_key": "$OPENAI_API_KEY"}, {"OPENAI_API_KEY": "o"}, "o", "~/.odek/config.json"),
        ({"api_key": "g"}, {"ODEK_API_KEY": "e", "OPENAI_API_KEY": "o"}, "e", "ODEK_API_KEY"),
        # a key of one API is not sent to a server of the other
        ({}, {"ANTHROPIC_API_KEY": "a"}, "", "default"),
        ({"provider": "anthropic"}, {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "a", "ANTHROPIC_API_KEY"),
        ({"base_url": "https://api.anthropic.com/v1"}, {"ANTHROPIC_API_KEY": "a"}, "a", "ANTHROPIC_API_KEY"),
        ({"base_url": "https://api.anthropic.com"}, {"DEEPSEEK_API_KEY": "d"}, "", "default"),
        ({}, {"ODEK_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "a"}, "a", "ANTHROPIC_API_KEY"),
        ({"provider": "anthropic"}, {"ODEK_PROVIDER": "openai", "ANTHROPIC_API_KEY": "a"}, "", "default"),
        # C9: each known provider's key goes to its own servers alone
        ({"provider": "openai"}, {"OPENAI_API_KEY": "o", "DEEPSEEK_API_KEY": "d"}, "o", "OPENAI_API_KEY"),
        ({"provider": "groq"}, {"OPENAI_API_KEY": "o", "GROQ_API_KEY": "g"}, "g", "GROQ_API_KEY"),
        ({"provider": "groq"}, {"OPENAI_API_KEY": "o"}, "", "default"),
        ({"base_url": "https://openrouter.ai/api/v1"}, {"OPENROUTER_API_KEY": "r"}, "r", "OPENROUTER_API_KEY"),
        ({"base_url": "https://evil.example/openrouter.ai"}, {"OPENROUTER_API_KEY": "r"}, "", "default"),
        ({"base_url": "https://notgroq.com/v1"}, {"GROQ_API_KEY": "g"}, "", "default"),
        ({"provider": "groq", "base_url": "https://llm.example/v1"}, {"GROQ_API_KEY": "g"}, "", "default"),
        ({"provider": "gemini"}, {"GEMINI_API_KEY": "k"}, "k", "GEMINI_API_KEY"),
        ({}, {"GEMINI_API_KEY": "k"}, "", "default"),
    ],
)
def test_api_key_comes_from_the_strongest_that_has_one(
    operator: dict[str, object], env: dict[str, str], key: str, origin: str
) -> None:
    settings = resolve(make_layers(operator=operator, env=env))
    assert (settings.model.api_key, settings.origin_of("api_key")) == (key, origin)


@pytest.mark.parametrize(
    ("document", "provider", "base_url"),
    [
        ({}, "openai", "https://api.deepseek.com/v1"),
        ({"provider": "anthropic"}, "anthropic", "https://api.anthropic.com"),
        ({"provider": "anthropic", "base_url": "https://x.example"}, "anthropic", "https://x.example"),
        ({"provider": "openai"}, "openai", "https://api.openai.com/v1"),
        ({"provider": "ollama"}, "openai", "http://127.0.0.1:11434/v1"),
        ({"provider": "mistral", "base_url": "https://x.example"}, "openai", "https://x.example"),
        ({"base_url": "https://API.anthropic.com/v1/"}, "anthropic", "https://API.anthropic.com/v1/"),
        ({"base_url": "https://x.example/anthropic/"}, "anthropic", "https://x.example/anthropic/"),
        ({"base_url": "https://x.example/anthropic/v1"}, "anthropic", "https://x.example/anthropic/v1"),
        ({"base_url": "https://x.example/notanthropic"}, "openai", "https://x.example/notanthropic"),
        ({"base_url": "https://api.anthropic.com.evil.example"}, "openai", "https://api.anthropic.com.evil.example"),
        ({"base_url": "https://api.anthropic.com", "provider": "openai"}, "openai", "https://api.anthropic.com"),
        ({"base_url": "https://[bad"}, "openai", "https://[bad"),
    ],
)
def test_provider_is_what_is_named_or_what_the_address_looks_like(
    document: dict[str, object], provider: str, base_url: str
) -> None:
    """R-82: a named provider brings its own address, so that no other server gets its key."""
    settings = resolve(make_layers(operator=document))
    assert (settings.model.provider, settings.model.base_url) == (provider, base_url)
    assert settings.resolved["base_url"].value == base_url


@pytest.mark.parametrize(
    ("operator", "project", "seconds"),
    [(None, 60, 60), (600, 60, 60), (60, 600, 60), (600, None, 600), (None, None, None)],
)
def test_project_may_lower_a_limit_and_not_raise_it(
    operator: int | None, project: int | None, seconds: int | None
) -> None:
    settings = resolve(
        make_layers(
            operator={"limits": {"max_runtime_seconds": operator}}, project={"limits": {"max_runtime_seconds": project}}
        )
    )
    assert settings.limits.runtime_s == seconds


def test_a_misspelt_limit_is_named_with_the_right_one() -> None:
    settings = resolve(make_layers(operator={"limits": {"max_tool_call": 3}, "max_output_tokens": 5}))
    assert settings.warnings == (
        'unknown key "limits.max_tool_call" in ~/.odek/config.json is ignored; did you mean "limits.max_tool_calls"?',
        'unknown key "max_output_tokens" in ~/.odek/config.json is ignored; did you mean "limits.max_output_tokens"?',
    )


def test_lists_replace_maps_merge_and_denied_tools_add_up() -> None:
    """D-7, F-13"""
    settings = resolve(
        make_layers(
            operator={
                "sandbox_networks": ["a"],
                "sandbox_volumes": ["./a:/a"],
                "sandbox_env": {"A": "g", "B": "g"},
                "tools": {"disabled": ["shell"]},
                "dangerous": {"denylist": ["x"]},
            },
            project={
                "sandbox_networks": ["b"],
                "sandbox_volumes": ["./b:/b"],
                "sandbox_env": {"B": "p", "C": "$HOME"},
                "tools": {"disabled": ["patch", "shell"]},
            },
            env={"ODEK_TOOLS_DISABLED": "glob"},
            flags={"tools.disabled": ["file_info"]},
        )
    )
    assert settings.sandbox.networks == ("b",)
    assert settings.sandbox.volumes == ("./b:/b",)
    assert settings.sandbox.env == (("A", "g"), ("B", "p"), ("C", "$HOME"))
    assert settings.sandbox.raw_env == ("C",)
    assert settings.tools_disabled == ("shell", "patch", "glob", "file_info")
    assert settings.dangerous == DangerSettings(denylist=("x",))
    assert settings.origin_of("tools.disabled") == "~/.odek/config.json, ./odek.json, ODEK_TOOLS_DISABLED, --no-tool"


def test_operators_expanded_value_is_not_marked_for_expansion() -> None:
    """B31: no nested expansion."""
    settings = resolve(make_layers(operator={"sandbox_env": {"A": "$V"}}, env={"V": "${HOME}"}))
    assert (settings.sandbox.env, settings.sandbox.raw_env) == ((("A", "${HOME}"),), ())


def test_project_that_repeats_an_expanded_text_is_still_marked() -> None:
    layers = make_layers(operator={"sandbox_env": {"A": "$V"}}, project={"sandbox_env": {"A": "$X"}}, env={"V": "$X"})
    assert resolve(layers).sandbox.raw_env == ("A",)
    assert [override.key for override in project_overrides(layers)] == ["sandbox_env"]


@pytest.mark.parametrize(
    ("env", "flags", "fatal"),
    [
        ({"ODEK_SANDBOX": "true", "ODEK_NO_SANDBOX": "1"}, {}, True),
        ({"ODEK_SANDBOX": "true", "ODEK_NO_SANDBOX": "1"}, {"sandbox": True}, False),
        ({"ODEK_SANDBOX": "true", "ODEK_NO_SANDBOX": "1"}, {"sandbox": False}, False),
        ({"ODEK_SANDBOX": "true", "ODEK_NO_SANDBOX": "0"}, {}, False),
        ({"ODEK_SANDBOX": "0", "ODEK_NO_SANDBOX": "1"}, {}, False),
        ({"ODEK_NO_SANDBOX": "1"}, {}, False),
    ],
)
def test_contradiction_of_two_variables_is_fatal(env: dict[str, str], flags: dict[str, object], fatal: bool) -> None:
    """D-9: both are named; a flag beats both."""
    layers = make_layers(operator={"sandbox": True}, env=env, flags=flags)
    if not fatal:
        assert resolve(layers).sandbox.enabled is flags.get("sandbox", env.get("ODEK_SANDBOX", "true") == "true")
        return
    with pytest.raises(ConfigError) as caught:
        resolve(layers)
    assert caught.value.message == "ODEK_SANDBOX and ODEK_NO_SANDBOX contradict each other"


@pytest.mark.parametrize(
    ("layers", "source"),
    [
        ({}, Source.DEFAULT),
        ({"operator": {"sandbox": True}}, GLOBAL),
        ({"operator": {"sandbox": False}}, GLOBAL),
        ({"project": {"sandbox": True}}, PROJECT),
        ({"project": {"sandbox": False}}, Source.DEFAULT),
        ({"operator": {"sandbox": True}, "project": {"sandbox": True}}, GLOBAL),
        ({"env": {"ODEK_SANDBOX": "1"}}, ENVIRONMENT),
        ({"env": {"ODEK_NO_SANDBOX": "1"}}, Source.DEFAULT),
        ({"flags": {"sandbox": False}}, FLAG),
    ],
)
def test_who_decided_about_the_sandbox(layers: dict[str, dict[str, object]], source: Source) -> None:
    """R-6: explicit is the flag, the variable, the operator's file and a project's `true`."""
    settings = resolve(make_layers(**layers))  # type: ignore[arg-type]
    assert settings.source_of("sandbox") is source
    assert settings.was_set("sandbox") is (source > Source.DEFAULT)


@pytest.mark.parametrize(
    ("value", "enabled"), [(None, None), ([], ()), (["shell"], ("shell",))], ids=["unset", "empty", "one"]
)
def test_enabled_tools_are_all_none_or_some(value: object, enabled: object) -> None:
    """F-12: an empty list is no tools."""
    document = {} if value is None else {"tools": {"enabled": value}}
    assert resolve(make_layers(operator=document)).tools_enabled == enabled


def test_switches_reach_the_settings() -> None:
    env = {
        "ODEK_NO_SANDBOX": "1",
        "ODEK_REQUIRE_SANDBOX": "yes",
        "ODEK_APPROVE_PROJECT_SANDBOX": "on",
        "ODEK_SANDBOX_BUILD_NETWORK": "TRUE",
        "ODEK_SANDBOX_NETWORK_LENIENT": "1",
        "ODEK_SUPPRESS_SANDBOX_WARNING": "1",
    }
    on, off = resolve(make_layers(env=env)), resolve(make_layers())
    names = (
        "no_sandbox",
        "require_sandbox",
        "approve_project_sandbox",
        "build_network",
        "network_lenient",
        "suppress_sandbox_warning",
    )
    assert [getattr(on, name) for name in names] == [True] * 6
    assert [getattr(off, name) for name in names] == [False] * 6


def test_settings_show_no_secret_when_printed() -> None:
    settings = resolve(
        make_layers(
            operator={
                "api_key": "canary-1",
                "base_url": "https://u:canary-2@h/v1",
                "sandbox_env": {"A": "canary-3"},
            }
        )
    )
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("operator", "project", "env", "overrides"),
    [
        (None, {}, {}, ()),
        (None, {"sandbox_image": "i"}, {}, (("sandbox_image", "i", ""),)),
        (None, {"sandbox_network": "none"}, {}, ()),
        ({"sandbox_network": "bridge"}, {"sandbox_network": "none"}, {}, (("sandbox_network", "none", "bridge"),)),
        ({"sandbox_network": "none"}, {"sandbox_network": "bridge"}, {}, (("sandbox_network", "bridge", "none"),)),
        ({"sandbox_network": "bridge"}, {"sandbox_network": "bridge"}, {}, ()),
        (None, {"sandbox_network": "bridge"}, {}, (("sandbox_network", "bridge", "none"),)),
        (None, {"sandbox_network": "bridge"}, {"ODEK_SANDBOX_NETWORK": "none"}, ()),
        ({"sandbox_image": "i"}, {"sandbox_image": "i"}, {}, ()),
        (None, {"sandbox_networks": ["a"]}, {}, (("sandbox_networks", ("a",), ()),)),
        ({"sandbox_networks": ["a"]}, {"sandbox_networks": []}, {}, ()),
        ({"sandbox_compose_project": "a"}, {"sandbox_compose_project": ""}, {}, ()),
        ({"sandbox_volumes": ["./a:/a"]}, {"sandbox_volumes": []}, {}, ()),
        ({"sandbox_user": "1:1"}, {"sandbox_user": ""}, {}, ()),
        (None, {"sandbox_networks": []}, {}, ()),
        (None, {"sandbox_compose_project": "c"}, {}, (("sandbox_compose_project", "c", ""),)),
        (None, {"sandbox_user": "0:0"}, {}, (("sandbox_user", "0:0", ""),)),
        (None, {"sandbox_volumes": ["./a:/a"]}, {}, (("sandbox_volumes", ("./a:/a",), ()),)),
        (None, {"sandbox_env": {"X": "${Y}"}}, {}, (("sandbox_env", (("X", "${Y}"),), ()),)),
        (
            {"sandbox_env": {"A": "1", "B": "1"}},
            {"sandbox_env": {"A": "1", "B": "2"}},
            {},
            (("sandbox_env", (("A", "1"), ("B", "2")), (("A", "1"), ("B", "1"))),),
        ),
        ({"sandbox_env": {"A": "1", "B": "1"}}, {"sandbox_env": {"A": "1"}}, {}, ()),
        (None, {"sandbox_env": {}}, {}, ()),
        (None, {"sandbox": True, "sandbox_readonly": True, "sandbox_pids_limit": 16, "sandbox_memory": "1g"}, {}, ()),
        (None, {"model": "m", "tools": {"disabled": ["x"]}, "base_url": "x"}, {}, ()),
        (
            None,
            {"sandbox_user": "1:1", "sandbox_image": "i"},
            {},
            (("sandbox_image", "i", ""), ("sandbox_user", "1:1", "")),
        ),
    ],
)
def test_overrides_are_what_needs_approval(
    operator: dict[str, object] | None,
    project: dict[str, object],
    env: dict[str, str],
    overrides: tuple[tuple[str, object, object], ...],
) -> None:
    """R-15, R-60: what changes the sandbox beyond narrowing; not what the operator has anyway."""
    layers = make_layers(operator=operator, project=project, env=env)
    assert project_overrides(layers) == tuple(
        Override(key=key, value=value, without=without)  # type: ignore[arg-type]
        for key, value, without in overrides
    )


def test_without_a_project_file_nothing_is_overridden() -> None:
    assert project_overrides(make_layers(operator={"sandbox_image": "i"}, flags={"sandbox_network": "bridge"})) == ()


@pytest.mark.parametrize("key", [option.key for option in OPTIONS if option.project is ProjectRule.CAN_LOWER])
def test_bad_limit_of_a_project_is_fatal_not_merely_ignored(key: str) -> None:
    """R-8"""
    with pytest.raises(ConfigError):
        resolve(make_layers(project=_document(key, "lots")))


def test_values_of_a_layer_are_used_as_they_are() -> None:
    layer = Layer(source=FLAG, origin="command line", values={"model": Value(value="m", origin="--model")})
    assert resolve((layer,)).model.model == "m"


# the names of images and the folders of volumes are looked at when a start is planned
READ_LATER = ("sandbox_image", ["/etc:/data"])


@pytest.mark.parametrize(("key", "value", "named"), BAD_VALUES, ids=bad_value_id)
def test_bad_value_is_refused_where_it_is_read(key: str, value: object, named: str) -> None:
    """A30: so nothing shows as in force what a run refuses."""
    if key in READ_LATER or value in READ_LATER:
        pytest.skip("refused by the start")
    with pytest.raises(ConfigError) as refused:
        resolve(make_layers(operator={key: value}))
    assert named in refused.value.message


@pytest.mark.parametrize(
    ("env", "project", "value", "warned"),
    [
        ("8192", 5000, 8192, False),
        ("8192", 9000, 8192, True),
        ("2048", 5000, 2048, True),
        ("2048", 1000, 2048, False),
        ("8192", 8192, 8192, False),
    ],
)
def test_limit_of_a_project_is_compared_with_what_is_in_force(env: str, project: int, value: int, warned: bool) -> None:
    """A17: not with the default that the operator replaced; a variable is stronger than the project's file."""
    layers = make_layers(project={"sandbox_pids_limit": project}, env={"ODEK_SANDBOX_PIDS_LIMIT": env})
    settings = resolve(layers)
    assert settings.sandbox.pids_limit == value
    assert bool(settings.warnings) is warned
    assert all(f"may only lower {env} (ODEK_SANDBOX_PIDS_LIMIT)" in warning for warning in settings.warnings)


@pytest.mark.parametrize("dropped_by", ["project", "env", "flags"])
def test_who_asked_for_networks_is_known_where_they_were_dropped(dropped_by: str) -> None:
    """A3: firmness counts what any layer of the operator's asked for."""
    dropped = {
        "project": {"sandbox_networks": [], "sandbox_compose_project": ""},
        "env": {"ODEK_SANDBOX_NETWORKS": "none", "ODEK_SANDBOX_COMPOSE_PROJECT": "none"},
        "flags": {"sandbox_networks": ["none"], "sandbox_compose_project": "none"},
    }[dropped_by]
    operator = {"sandbox_networks": ["a"], "sandbox_compose_project": "c"}
    sandbox = resolve(make_layers(operator=operator, **{dropped_by: dropped})).sandbox  # type: ignore[arg-type]
    assert sandbox.networks_asked_by == ("~/.odek/config.json",)
    assert (sandbox.networks, sandbox.compose_project) == ((("a",), "c") if dropped_by == "project" else ((), ""))


def test_each_choice_is_a_known_provider_with_an_address_of_its_own() -> None:
    """C9"""
    assert BY_KEY["provider"].kind.choices == tuple(KNOWN)
    assert len({known.base_url for known in KNOWN.values()}) == len(KNOWN)
    assert set(BY_KEY["api_key"].fallback_env) == {known.variable for known in KNOWN.values()} - {""}
    for known in KNOWN.values():
        assert not known.domain or known.base_url.partition("://")[2].partition("/")[0].endswith(known.domain)


@pytest.mark.parametrize(
    ("said", "origin"),
    [
        ({"operator": {"sandbox_network": "host"}}, "~/.odek/config.json: sandbox_network"),
        ({"project": {"sandbox_network": "host"}}, "./odek.json: sandbox_network"),
        ({"env": {"ODEK_SANDBOX_NETWORK": "host"}}, "ODEK_SANDBOX_NETWORK"),
        ({"flags": {"sandbox_network": "host"}}, "--sandbox-network"),
    ],
)
def test_unknown_network_mode_becomes_none_where_the_operator_is_lenient(said: dict[str, Any], origin: str) -> None:
    """R-50: in every layer, with a warning; a value that is empty or not a text stays an error (A4)."""
    lenient = {**said.get("env", {}), "ODEK_SANDBOX_NETWORK_LENIENT": "1"}
    settings = resolve(make_layers(**{**said, "env": lenient}))
    assert settings.sandbox.network == "none"
    assert settings.warnings == (
        f'sandbox network "host" is not allowed ({origin}); ODEK_SANDBOX_NETWORK_LENIENT turns it into none',
    )
    for refused in ({"env": {**lenient, "ODEK_SANDBOX_NETWORK": ""}}, {"project": {"sandbox_network": 7}}):
        with pytest.raises(ConfigError):
            make_layers(**{"env": lenient, **refused})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not allowed"):
        make_layers(**{**said, "env": {**lenient, "ODEK_SANDBOX_NETWORK_LENIENT": "off"}})
