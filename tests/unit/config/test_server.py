"""Models by name: which server is asked, with which key, and that a project decides neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.layering import NO_SECRETS, make_layers

from odek.app.config import config_of
from odek.config.layers import Environment, parse_environment, parse_file, parse_flags
from odek.config.options import Source
from odek.config.provider import KNOWN, start_command
from odek.config.resolve import resolve
from odek.errors import ConfigError

WORK = "https://llm.work.example/v1"
HOME_BOX = "http://gpu.home.example:8000/v1"
PROVIDERS: dict[str, Any] = {
    "work": {"base_url": WORK, "api_key_variable": "WORK_KEY", "models": {"qwen3": {"window": 65_536}}},
    "box": {"base_url": HOME_BOX},
    "gate": {"base_url": "https://gate.example/anthropic", "api_key": "${GATE_KEY}", "dialect": "anthropic"},
    "claude-proxy": {"base_url": "https://proxy.example/x", "dialect": "anthropic", "api_key": "sk-proxy"},
    "deepseek": {"models": {"deepseek-chat": {"input_usd_per_million": 0.3, "output_usd_per_million": 1}}},
}
ENV = {"WORK_KEY": "sk-work", "GATE_KEY": "sk-gate", "DEEPSEEK_API_KEY": "sk-deep", "GROQ_API_KEY": "sk-groq"}
DEEPSEEK, GROQ = "https://api.deepseek.com/v1", "https://api.groq.com/openai/v1"


def led_to(layers: Any) -> tuple[str, str, str, str]:
    """Return what a run would ask: address, model, key, API."""
    model = resolve(layers).model
    return model.base_url, model.model, model.api_key, model.provider


@pytest.mark.parametrize(
    ("said", "found"),
    [
        # by the name before the slash
        ({"flags": {"model": "work/qwen3"}}, (WORK, "qwen3", "sk-work", "openai")),
        ({"flags": {"model": "work/org/qwen3"}}, (WORK, "org/qwen3", "sk-work", "openai")),
        ({"env": {"ODEK_MODEL": "box/m"}}, (HOME_BOX, "m", "", "openai")),
        ({"operator": {"model": "work/qwen3"}}, (WORK, "qwen3", "sk-work", "openai")),
        ({"flags": {"model": "gate/c"}}, ("https://gate.example/anthropic", "c", "sk-gate", "anthropic")),
        ({"flags": {"model": "claude-proxy/c"}}, ("https://proxy.example/x", "c", "sk-proxy", "anthropic")),
        ({"flags": {"model": "groq/openai/gpt-oss"}}, (GROQ, "openai/gpt-oss", "sk-groq", "openai")),
        ({"flags": {"model": "deepseek/deepseek-chat"}}, (DEEPSEEK, "deepseek-chat", "sk-deep", "openai")),
        # by provider
        ({"flags": {"provider": "work", "model": "m"}}, (WORK, "m", "sk-work", "openai")),
        ({"operator": {"provider": "box", "model": "m"}}, (HOME_BOX, "m", "", "openai")),
        ({"flags": {"provider": "groq", "model": "m"}}, (GROQ, "m", "sk-groq", "openai")),
        # the whole is a name where the same source names the server, or where models have such names
        ({"flags": {"provider": "box", "model": "work/m"}}, (HOME_BOX, "work/m", "", "openai")),
        ({"flags": {"base_url": "https://a.example/v1", "model": "work/m"}},
         ("https://a.example/v1", "work/m", "sk-deep", "openai")),
        ({"operator": {"provider": "openrouter"}, "flags": {"model": "deepseek-ai/x"}},
         ("https://openrouter.ai/api/v1", "deepseek-ai/x", "", "openai")),
        ({"operator": {"provider": "openrouter"}, "flags": {"model": "groq/x"}}, (GROQ, "x", "sk-groq", "openai")),
        ({"operator": {"base_url": "https://a.example/v1"}, "flags": {"model": "groq/x"}},
         ("https://a.example/v1", "groq/x", "sk-deep", "openai")),
        ({"operator": {"provider": "vllm"}, "flags": {"model": "openai/gpt-oss"}},
         ("http://127.0.0.1:8000/v1", "openai/gpt-oss", "sk-deep", "openai")),
        ({"operator": {"provider": "box"}, "flags": {"model": "groq/x"}}, (GROQ, "x", "sk-groq", "openai")),
        ({"operator": {"provider": "box"}, "flags": {"model": "box/groq/x"}}, (HOME_BOX, "groq/x", "", "openai")),
        ({"operator": {"provider": "openai"}, "flags": {"model": "groq/x"}}, (GROQ, "x", "sk-groq", "openai")),
        ({"flags": {"model": "nosuch/x"}}, (DEEPSEEK, "nosuch/x", "sk-deep", "openai")),
        ({"flags": {"model": "work/"}}, (DEEPSEEK, "work/", "sk-deep", "openai")),
        # the strongest that says where
        ({"operator": {"base_url": "https://a.example/v1"}, "flags": {"model": "work/m"}},
         (WORK, "m", "sk-work", "openai")),
        ({"operator": {"model": "work/m"}, "flags": {"base_url": "https://a.example/v1"}},
         ("https://a.example/v1", "m", "sk-deep", "openai")),
        ({"operator": {"model": "work/m"}, "flags": {"model": "n"}}, (WORK, "n", "sk-work", "openai")),
        ({"operator": {"model": "work/m"}, "flags": {"model": "box/n"}}, (HOME_BOX, "n", "", "openai")),
        ({"env": {"ODEK_MODEL": "work/m"}, "flags": {"provider": "groq"}}, (GROQ, "m", "sk-groq", "openai")),
    ],
    ids=str,
)  # fmt: skip
def test_model_is_asked_where_its_name_leads(said: dict[str, Any], found: tuple[str, ...]) -> None:
    """R-231: PROVIDER/NAME, the operator's names and the known ones."""
    operator = {"providers": PROVIDERS, **said.get("operator", {})}
    env = {**ENV, **said.get("env", {})}
    assert led_to(make_layers(operator=operator, env=env, flags=said.get("flags"))) == found


OLLAMA, OPENROUTER, OPENAI = "http://127.0.0.1:11434/v1", "https://openrouter.ai/api/v1", "https://api.openai.com/v1"
ADDRESS = "https://a.example/v1"


@pytest.mark.parametrize(
    ("said", "address", "model"),
    [
        # a known provider before the slash, whatever is in force
        *(
            ({"operator": {"provider": now, "model": "m"}, **where}, GROQ, "llama")
            for now in ("ollama", "lmstudio", "llama.cpp", "vllm", "openrouter", "groq", "mistral", "box", "work")
            for where in ({"flags": {"model": "groq/llama"}}, {"env": {"ODEK_MODEL": "groq/llama"}})
        ),
        ({"operator": {"model": "ollama/qwen3:8b"}}, OLLAMA, "qwen3:8b"),
        ({"operator": {"provider": "groq"}, "flags": {"model": "ollama/hf.co/user/model:Q4"}}, OLLAMA,
         "hf.co/user/model:Q4"),
        ({"env": {"ODEK_PROVIDER": "ollama", "ODEK_MODEL": "m"}, "flags": {"model": "openrouter/deepseek/r1"}},
         OPENROUTER, "deepseek/r1"),
        # the name in the status line, pasted back
        ({"operator": {"provider": "ollama"}, "flags": {"model": "ollama/qwen3:8b"}}, OLLAMA, "qwen3:8b"),
        ({"operator": {"provider": "openrouter"}, "flags": {"model": "openrouter/openai/gpt-5"}}, OPENROUTER,
         "openai/gpt-5"),
        ({"operator": {"provider": "groq"}, "flags": {"model": "groq/openai/gpt-oss"}}, GROQ, "openai/gpt-oss"),
        ({"operator": {"provider": "box"}, "flags": {"model": "box/m"}}, HOME_BOX, "m"),
        # next to the provider's own name in one source
        ({"operator": {"provider": "ollama", "model": "ollama/qwen3:8b"}}, OLLAMA, "qwen3:8b"),
        ({"flags": {"provider": "work", "model": "work/m"}}, WORK, "m"),
        ({"flags": {"provider": "groq", "model": "groq/llama"}}, GROQ, "llama"),
        ({"flags": {"provider": "ollama", "model": "groq/llama"}}, OLLAMA, "groq/llama"),
        # a server's own names with a slash
        *(
            ({"operator": {"provider": "openrouter"}, "flags": {"model": name}}, OPENROUTER, name)
            for name in ("openai/gpt-5", "anthropic/claude", "deepseek/r1", "mistral/m", "minimax/m2", "x-ai/grok",
                         "moonshotai/kimi", "meta-llama/x", "openrouter/auto")
        ),
        *(
            ({"operator": {"provider": "groq"}, "flags": {"model": name}}, GROQ, name)
            for name in ("openai/gpt-oss-120b", "groq/compound", "groq/compound-mini", "moonshotai/kimi", "qwen/qwen3")
        ),
        *(
            ({"operator": {"provider": name}, "flags": {"model": "openai/gpt-oss"}}, address, "openai/gpt-oss")
            for name, address in (("lmstudio", "http://127.0.0.1:1234/v1"), ("llama.cpp", "http://127.0.0.1:8080/v1"))
        ),
        ({"operator": {"provider": "ollama"}, "flags": {"model": "openai/gpt-5"}}, OPENAI, "gpt-5"),
        ({"operator": {"provider": "ollama"}, "flags": {"model": "library/qwen3"}}, OLLAMA, "library/qwen3"),
        # these lead there from elsewhere too, by their whole names
        ({"flags": {"model": "openrouter/auto"}}, OPENROUTER, "openrouter/auto"),
        ({"flags": {"model": "groq/compound"}}, GROQ, "groq/compound"),
        ({"flags": {"provider": "openrouter", "model": "openrouter/auto"}}, OPENROUTER, "openrouter/auto"),
        ({"flags": {"model": "openrouter/openrouter/auto"}}, OPENROUTER, "openrouter/auto"),
        # an entry that only adds to what odek knows changes nothing in that
        ({"operator": {"provider": "openrouter"}, "flags": {"model": "deepseek/deepseek-chat"}}, OPENROUTER,
         "deepseek/deepseek-chat"),
        ({"operator": {"base_url": ADDRESS}, "flags": {"model": "deepseek/deepseek-chat"}}, ADDRESS,
         "deepseek/deepseek-chat"),
        # an address: any name may be one there; a stronger source that names a provider leads away from it
        ({"operator": {"base_url": ADDRESS, "provider": "openai"}, "flags": {"model": "openai/gpt"}}, ADDRESS,
         "openai/gpt"),
        ({"env": {"ODEK_MODEL": "openai/gpt"}, "flags": {"base_url": ADDRESS}}, ADDRESS, "openai/gpt"),
        ({"operator": {"base_url": ADDRESS}, "flags": {"provider": "groq", "model": "m"}}, GROQ, "m"),
        ({"operator": {"base_url": ADDRESS}, "env": {"ODEK_PROVIDER": "groq"}, "flags": {"model": "ollama/m"}}, OLLAMA,
         "m"),
        ({"operator": {"base_url": ADDRESS}, "env": {"ODEK_MODEL": "work/n"}, "flags": {"provider": "groq"}}, GROQ,
         "n"),
        ({"env": {"ODEK_PROVIDER": "groq"}, "flags": {"base_url": ADDRESS, "model": "m"}}, ADDRESS, "m"),
        ({"flags": {"provider": "groq", "base_url": ADDRESS, "model": "m"}}, ADDRESS, "m"),
        # a project: the provider in force is taken off, and nothing leads anywhere
        ({"operator": {"provider": "ollama"}, "project": {"model": "ollama/qwen3:8b"}}, OLLAMA, "qwen3:8b"),
        ({"project": {"model": "ollama/qwen3:8b"}, "flags": {"provider": "ollama"}}, OLLAMA, "qwen3:8b"),
        ({"project": {"model": "deepseek/deepseek-chat"}}, DEEPSEEK, "deepseek-chat"),
        ({"operator": {"provider": "ollama"}, "project": {"model": "groq/x"}}, OLLAMA, "groq/x"),
        ({"operator": {"base_url": ADDRESS, "provider": "groq"}, "project": {"model": "groq/x"}}, ADDRESS, "groq/x"),
        ({"operator": {"provider": "openrouter"}, "project": {"model": "openrouter/auto"}}, OPENROUTER,
         "openrouter/auto"),
    ],
    ids=str,
)  # fmt: skip
def test_provider_before_a_slash(said: dict[str, Any], address: str, model: str) -> None:
    """R-370: leads to it wherever it is written, and a server's own names with a slash stay whole."""
    operator = {"providers": PROVIDERS, **said.get("operator", {})}
    env = {**ENV, **said.get("env", {})}
    found = resolve(make_layers(operator=operator, project=said.get("project"), env=env, flags=said.get("flags"))).model
    assert (found.base_url, found.model) == (address, model)


@pytest.mark.parametrize("provider", [*KNOWN, "box", "work"])
@pytest.mark.parametrize("model", ["m", "m:8b", "org/m", "openai/gpt-oss", "groq/x", "work/x", "box/x", "ollama/x"])
def test_full_name_leads_back(provider: str, model: str) -> None:
    """R-370: what the status line shows is the same model as a flag, a variable, in the file, after `/model`."""
    if provider == "openrouter" and "/" not in model:
        return  # it has no such names
    start = raw({"providers": PROVIDERS, "provider": provider}, ENV, {})
    shown = start.with_chosen_model(model, provider, origin="the session").settings.model
    ways: list[dict[str, dict[str, Any]]] = [
        {"flags": {"model": shown.full_name}},
        {"env": {"ODEK_MODEL": shown.full_name}},
        {"operator": {"model": shown.full_name}},
        {"operator": {"provider": "ollama"}, "flags": {"model": shown.full_name}},
        {"operator": {"provider": provider, "model": shown.full_name}},
        {"operator": {"provider": provider}, "flags": {"model": shown.full_name}},
    ]
    for said in ways:
        config = raw({"providers": PROVIDERS, **said.get("operator", {})}, {**ENV, **said.get("env", {})},
                     said.get("flags", {}))  # fmt: skip
        for found in (config, config.with_model(shown.full_name, origin="/model")):
            assert (found.settings.model.base_url, found.settings.model.model) == (shown.base_url, model)


@pytest.mark.parametrize(
    ("operator", "env", "flags"),
    [
        ({"base_url": ADDRESS, "api_key": "sk-canary"}, {}, {"provider": "groq", "model": "m"}),
        ({"base_url": ADDRESS}, {"ODEK_API_KEY": "sk-canary"}, {"provider": "groq", "model": "m"}),
        ({}, {"ODEK_BASE_URL": ADDRESS, "ODEK_API_KEY": "sk-canary"}, {"provider": "anthropic", "model": "m"}),
        ({"provider": "groq"}, {"GROQ_API_KEY": "sk-canary"}, {"base_url": ADDRESS, "model": "m"}),
        ({"provider": "ollama", "api_key": "sk-canary"}, {}, {"model": "groq/m"}),
        ({"api_key": "sk-canary"}, {}, {"model": "box/m"}),
        ({"api_key": "sk-canary"}, {}, {"model": "groq/m"}),
        ({"api_key": "sk-canary"}, {}, {"provider": "box", "model": "m"}),
        ({"api_key": "sk-canary", "base_url": "https://a.example/v1"}, {}, {"model": "box/m"}),
        ({"model": "box/m", "api_key": "sk-canary"}, {}, {"model": "deepseek/m"}),
        ({"provider": "box", "model": "m", "api_key": "sk-canary"}, {}, {"model": "gate/m"}),
        ({}, {"ODEK_API_KEY": "sk-canary"}, {"model": "box/m"}),
        ({}, {"ODEK_API_KEY": "sk-canary"}, {"model": "groq/m"}),
        ({}, {"WORK_KEY": "sk-canary"}, {"model": "box/m"}),
        ({"model": "work/m"}, {"WORK_KEY": "sk-canary"}, {"base_url": "https://evil.example/v1"}),
        ({"model": "work/m"}, {"WORK_KEY": "sk-canary"}, {"model": "box/m"}),
        ({"model": "work/m"}, {"WORK_KEY": "sk-canary"}, {"provider": "groq"}),
        ({}, {"DEEPSEEK_API_KEY": "sk-canary", "OPENAI_API_KEY": "sk-canary"}, {"model": "box/m"}),
    ],
    ids=str,
)
def test_no_server_gets_the_key_of_another(
    operator: dict[str, Any], env: dict[str, str], flags: dict[str, object]
) -> None:
    """R-231, D-26: neither a stored key nor a variable's follows a model to another server."""
    layers = make_layers(operator={"providers": PROVIDERS, **operator}, env={"GATE_KEY": "g", **env}, flags=flags)
    assert resolve(layers).model.api_key != "sk-canary"


@pytest.mark.parametrize(
    "project",
    [
        {"model": "work/qwen3"},
        {"model": "evil/m", "providers": {"evil": {"base_url": "https://evil.example/v1"}}},
        {"providers": {"work": {"base_url": "https://evil.example/v1"}}},
        {"providers": {"deepseek": {"base_url": "https://evil.example/v1"}}},
        {"provider": "box"},
        {"model": "groq/x"},
        {"base_url": "https://evil.example/v1", "model": "m"},
    ],
    ids=str,
)
@pytest.mark.parametrize("operator", [{}, {"model": "work/m"}, {"provider": "work", "model": "m"}], ids=str)
def test_project_leads_to_no_other_server(operator: dict[str, Any], project: dict[str, Any]) -> None:
    """R-231, R-15: its model is a name at the server that the operator chose, and nothing else of it counts."""
    operator = {"providers": PROVIDERS, **operator}
    alone = resolve(make_layers(operator=operator, env=ENV)).model
    both = resolve(make_layers(operator=operator, project=project, env=ENV)).model
    assert (both.base_url, both.api_key, both.provider) == (alone.base_url, alone.api_key, alone.provider)
    written = str(project.get("model", alone.model))
    assert both.model == (written.removeprefix("work/") if operator.get("model") else written)
    assert both.providers == alone.providers


def raw(operator: dict[str, Any], env: dict[str, str], flags: dict[str, object]) -> Any:
    """Return a Config whose server can still be chosen, as a command has it."""
    layers = (
        parse_file(json.dumps(operator).encode(), Source.GLOBAL, env),
        parse_environment(env, NO_SECRETS),
        parse_flags(flags, env),
    )
    return config_of(layers, Environment(env, NO_SECRETS))


def test_model_is_exchanged_across_providers_and_back() -> None:
    """R-231: as `/model` does; each server with its own key."""
    config = raw({"providers": PROVIDERS, "api_key": "sk-canary"}, ENV, {})
    found = []
    for name in ("work/a", "b", "groq/c", "box/d", "deepseek/e", "deepseek-chat"):
        config = config.with_model(name, origin="/model")
        model = config.settings.model
        found.append((model.base_url, model.model, model.api_key, model.full_name))
    assert found == [
        (WORK, "a", "sk-work", "work/a"),
        (WORK, "b", "sk-work", "work/b"),
        (GROQ, "c", "sk-groq", "groq/c"),
        (HOME_BOX, "d", "", "box/d"),
        (DEEPSEEK, "e", "sk-deep", "deepseek/e"),
        (DEEPSEEK, "deepseek-chat", "sk-deep", "deepseek/deepseek-chat"),
    ]


@pytest.mark.parametrize(
    ("server", "flags", "found"),
    [
        ("work", {}, (WORK, "s", "sk-work")),
        ("groq", {}, (GROQ, "s", "sk-groq")),
        ("", {}, (DEEPSEEK, "s", "sk-canary")),
        ("work", {"model": "other"}, (WORK, "other", "sk-work")),
        ("work", {"model": "groq/x"}, (GROQ, "x", "sk-groq")),
        ("work", {"provider": "box"}, (HOME_BOX, "s", "")),
        ("work", {"base_url": "https://a.example/v1"}, ("https://a.example/v1", "s", "sk-canary")),
    ],
)
def test_session_goes_on_at_its_own_server(server: str, flags: dict[str, object], found: tuple[str, ...]) -> None:
    """R-231: unless a flag says where; the name of its model is not read again."""
    config = raw({"providers": PROVIDERS, "api_key": "sk-canary"}, ENV, flags)
    model = config.with_chosen_model("s", server, origin="the session").settings.model
    assert (model.base_url, model.model, model.api_key) == found


def test_name_that_a_session_has_is_the_servers_own() -> None:
    """R-231: a model called `groq/x` of some server does not lead to Groq when the session goes on."""
    model = raw({}, ENV, {}).with_chosen_model("groq/x", "", origin="the session").settings.model
    assert (model.base_url, model.model) == (DEEPSEEK, "groq/x")
    with pytest.raises(ConfigError, match=r'"gone" is not a provider \(the session\)'):
        raw({}, ENV, {}).with_chosen_model("x", "gone", origin="the session")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "~/.odek/config.json: providers must be an object, not a list"),
        ({"a/b": {}}, '"a/b" is not a name of a provider (~/.odek/config.json: providers)'),
        ({"": {}}, '"" is not a name of a provider (~/.odek/config.json: providers)'),
        ({"w": "https://x"}, "~/.odek/config.json: providers.w must be an object, not a string"),
        ({"w": {}}, "~/.odek/config.json: providers.w has no base_url"),
        ({"w": {"base_url": "x"}}, '"x" is not an http or https address (~/.odek/config.json: providers.w.base_url)'),
        ({"w": {"base_url": "replay:x"}}, "is not an http or https address (~/.odek/config.json: provid"),
        ({"w": {"base_url": "https://u:sk-canary@x"}}, "providers.w.base_url must not hold a user or a password"),
        ({"w": {"base_url": 7}}, "~/.odek/config.json: providers.w.base_url must be a string, not 7"),
        ({"w": {"base_url": WORK, "key": "k"}}, 'unknown key "key" in ~/.odek/config.json: providers.w'),
        ({"w": {"base_url": WORK, "api_key": ["sk-canary"]}}, "providers.w.api_key must be a string, not a list"),
        ({"w": {"base_url": WORK, "api_key": "k", "api_key_variable": "K"}}, "providers.w has both api_key and"),
        ({"w": {"base_url": WORK, "api_key_variable": "sk-canary"}}, "providers.w.api_key_variable is not a name"),
        ({"w": {"base_url": WORK, "api_key_variable": "canary"}}, "api_key_variable does not name a secret"),
        ({"w": {"base_url": WORK, "api_key": "${}"}}, "providers.w.api_key"),
        ({"w": {"base_url": WORK, "dialect": "x"}}, 'providers.w.dialect is "x"'),
        ({"w": {"base_url": WORK, "models": ["m"]}}, "providers.w.models must be an object, not a list"),
        ({"w": {"base_url": WORK, "models": {"a b": {}}}}, '"a b" is not a name of a model'),
        ({"w": {"base_url": WORK, "models": {"m": {"windows": 1}}}}, 'unknown key "windows" in ~/.odek/config'),
        ({"w": {"base_url": WORK, "models": {"m": {"window": "8k"}}}}, 'providers.w.models.m.window is "8k"'),
        ({"w": {"base_url": WORK, "models": {"m": {"window": True}}}}, "providers.w.models.m.window is true"),
        ({"w": {"base_url": WORK, "models": {"m": {"window": 0}}}}, "providers.w.models.m.window is 0"),
        ({"w": {"base_url": WORK, "models": {"m": {"input_usd_per_million": -1}}}}, "m.input_usd_per_million is -1"),
        ({"w": {"base_url": WORK, "models": {"m": {"input_usd_per_million": 1}}}}, "m has a price and no output"),
        ({"w": {"base_url": WORK, "models": {"m": {"images": "yes"}}}}, 'providers.w.models.m.images is "yes"'),
        ({"w": {"base_url": WORK}, "W": {"base_url": WORK}}, "two names in ~/.odek/config.json: providers differ"),
    ],
)  # fmt: skip
def test_mistakes_in_providers_say_where(value: object, words: str) -> None:
    """R-231, R-13: every one is an error, and none shows a key."""
    with pytest.raises(ConfigError) as caught:
        resolve(make_layers(operator={"providers": value}))
    assert words in caught.value.message
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"


def test_key_that_is_not_set_stops_only_what_needs_it() -> None:
    """R-231"""
    operator = {"providers": PROVIDERS}
    assert resolve(make_layers(operator=operator)).model.base_url == DEEPSEEK
    with pytest.raises(ConfigError, match=r'"GATE_KEY" is not set \(~/.odek/config.json: providers.gate.api_key\)'):
        make_layers(operator=operator, flags={"model": "gate/c"})


def test_provider_that_is_not_known_is_an_error_with_the_known_ones() -> None:
    """R-231"""
    with pytest.raises(ConfigError) as caught:
        make_layers(operator={"providers": PROVIDERS}, flags={"provider": "wrok"})
    assert caught.value.message == '"wrok" is not a provider (--provider)'
    assert caught.value.hint.startswith("use work, box,")


@pytest.mark.parametrize(
    ("provider", "base_url", "command"),
    [
        ("ollama", "http://127.0.0.1:9/v1", "ollama serve"),
        ("lmstudio", "http://127.0.0.1:1234/v1", "lms server start"),
        ("llama.cpp", "http://127.0.0.1:8080/v1", "llama-server -m MODEL.gguf"),
        ("vllm", "http://127.0.0.1:8000/v1", "vllm serve MODEL"),
        ("", "http://localhost:11434/v1", "ollama serve"),
        ("", "http://[::1]:1234", "lms server start"),
        ("box", "http://127.0.0.1:11434/v1", "ollama serve"),
        ("", "http://127.0.0.1:8080/v1", ""),
        ("", "http://127.0.0.1/11434", ""),
        ("", "http://127.0.0.1:99999/v1", ""),
        ("openai", "http://127.0.0.1:11434/v1", ""),
    ],
)
def test_command_that_starts_a_server(provider: str, base_url: str, command: str) -> None:
    """R-396: by the provider's name, or by a port that no other server has."""
    assert start_command(provider, base_url) == command
