"""app/model.py: how long a model's server may take, and what is missing before it can be asked."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes.layering import NO_SECRETS, bare_host, make_layers
from fakes.model_server import ModelServer

from odek.app.config import config_of
from odek.app.model import ModelNames, choose_limits, list_models, make_model
from odek.config.layers import Environment, parse_file
from odek.config.options import Source
from odek.config.resolve import resolve
from odek.errors import ConfigError
from odek.model.errors import ModelError
from odek.model.transport import Limits


@pytest.mark.parametrize(
    ("base_url", "limits"),
    [
        ("https://api.example.com/v1", Limits(idle_s=180.0, total_s=600.0)),
        ("http://127.0.0.1:8080/v1", Limits(idle_s=1800.0, total_s=1800.0)),
        ("HTTP://gpu.internal:11434/v1", Limits(idle_s=1800.0, total_s=1800.0)),
    ],
)
def test_servers_of_ones_own_may_be_slow(base_url: str, limits: Limits) -> None:
    """B40 (j): documented limits; a machine without a GPU reads a long request in silence."""
    assert choose_limits(base_url, 180.0) == limits


@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        ({}, {}, "there is no key for https://api.deepseek.com/v1: set DEEPSEEK_API_KEY or ODEK_API_KEY, or name"),
        (
            {},
            {"OPENAI_API_KEY": "o"},
            "OPENAI_API_KEY is set: --provider openai, with --model, uses it; else set DEEPSEEK",
        ),
        ({}, {"GROQ_API_KEY": "g"}, "GROQ_API_KEY is set: --provider groq"),
        ({"provider": "groq"}, {"OPENAI_API_KEY": "o"}, "there is no key for https://api.groq.com/openai/v1: OPENAI"),
        (
            {"provider": "openai"},
            {"OPENAI_API_KEY": "o"},
            "no model is named for openai: name one with --model; `odek models --provider openai`",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(flags: dict[str, object], env: dict[str, str], words: str) -> None:
    """C9: before anything is started."""
    settings = resolve(make_layers(flags=flags, env=env))
    with pytest.raises(ConfigError) as caught:
        make_model(settings, replace(bare_host("/"), env=env), notify=lambda _: None)
    assert words in f"{caught.value.message}: {caught.value.hint}"


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ({"provider": "openai", "model": "gpt-5"}, {"OPENAI_API_KEY": "o"}),
        ({"provider": "anthropic", "model": "claude-sonnet-4-5"}, {"ANTHROPIC_API_KEY": "a"}),
        ({"provider": "deepseek"}, {"DEEPSEEK_API_KEY": "d"}),
        ({"provider": "ollama", "model": "qwen3"}, {}),
        ({"base_url": "http://127.0.0.1:9/v1"}, {}),
        ({"provider": "groq", "base_url": "http://127.0.0.1:9/v1"}, {}),
    ],
)
def test_what_is_enough_is_enough(flags: dict[str, object], env: dict[str, str]) -> None:
    """C9: `--provider NAME` brings its address; a server of one's own needs no key."""
    settings = resolve(make_layers(flags=flags, env=env))
    make_model(settings, replace(bare_host("/"), env=env), notify=lambda _: None)


def test_models_of_a_server_are_listed() -> None:
    """B95: by the names that --model takes; a server that lists none says so by an empty list."""
    with ModelServer(models={"data": [{"id": "b"}, {"id": "a"}]}) as server, ModelServer(models={"data": []}) as empty:
        found = [
            list_models(resolve(make_layers(flags={"base_url": each.base_url})), bare_host("/"), notify=lambda _: None)
            for each in (server, empty)
        ]
    assert [listed.names for listed in found] == [("b", "a"), ()]
    assert found[0].address == server.base_url


def test_listed_names_lead_back_to_their_server() -> None:
    """R-370: what completes, and what `odek models` prints, asks the server that listed it."""
    listed = ["qwen3:8b", "groq/x", "openai/gpt-oss", "work/m", "lab/x"]
    with ModelServer(models={"data": [{"id": name} for name in listed]}) as server:
        operator = {
            "provider": "lab",
            "providers": {"lab": {"base_url": server.base_url}, "work": {"base_url": "http://w/v1"}},
        }
        layer = parse_file(json.dumps(operator).encode(), Source.GLOBAL, {})
        config = config_of((layer,), Environment({"GROQ_API_KEY": "g"}, NO_SECRETS))
        names = ModelNames(lambda: config, bare_host("/"))("")
        assert names[:5] == ("qwen3:8b", "lab/groq/x", "lab/openai/gpt-oss", "lab/work/m", "lab/lab/x")
        for name, spelled in zip(listed, names, strict=False):
            model = config.with_model(spelled, origin="/model").settings.model
            assert (model.base_url, model.model) == (server.base_url, name)
        assert "groq/" in names


def test_server_without_a_list_answers_in_its_own_words() -> None:
    """B95: `odek models` is told why there is none."""
    with ModelServer() as server, pytest.raises(ModelError, match="answered 404"):
        list_models(resolve(make_layers(flags={"base_url": server.base_url})), bare_host("/"), notify=lambda _: None)


def names_from(operator: dict[str, object], *beginnings: str, env: dict[str, str] | None = None) -> list[list[str]]:
    config = config_of(make_layers(operator=operator, env=env), Environment(env or {}, NO_SECRETS))
    names = ModelNames(lambda: config, bare_host("/"))
    return [[name for name in names(beginning) if name.startswith(beginning)] for beginning in beginnings]


def test_names_of_models_across_providers() -> None:
    """R-231: of the server in force, of the operator's providers and those that can be asked; each asked once."""
    with (
        ModelServer(models={"data": [{"id": "here"}]}) as here,
        ModelServer(models={"data": [{"id": "big"}, {"id": "org/small"}]}) as there,
        ModelServer() as mute,
    ):
        providers = {
            "work": {"base_url": there.base_url, "models": {"qwen3": {}}},
            "mute": {"base_url": mute.base_url},
            "locked": {"base_url": there.base_url, "api_key": "${NOT_SET}"},
        }
        found = names_from(
            {"base_url": here.base_url, "providers": providers},
            *("he", "w", "work/", "work/", "mute/", "locked/", "g", "x"),
            env={"GROQ_API_KEY": "g"},
        )
        assert found == [
            ["here"],
            ["work/qwen3", "work/"],
            ["work/qwen3", "work/big", "work/org/small", "work/"],
            ["work/qwen3", "work/big", "work/org/small", "work/"],
            ["mute/"],
            ["locked/"],
            [],  # an address is set, whose models may be called so
            [],
        ]
        assert [len(server.lookups) for server in (here, there, mute)] == [1, 1, 1]
