"""odek setup without a terminal: what is found, and what the two files would hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.layering import NO_SECRETS, make_layers

from odek.app.config import config_of
from odek.app.setup import (
    LOCAL_SERVERS,
    Choice,
    Found,
    checked_key,
    find_servers,
    for_chat_first,
    known_server,
    new_config,
    new_secrets,
    own_server,
    shown_key,
    with_choice,
)
from odek.config.layers import Environment
from odek.config.resolve import resolve
from odek.config.sources import parse_secrets
from odek.errors import ConfigError

OLLAMA = Found(name="ollama", base_url="http://127.0.0.1:11434/v1", why="", models=("qwen3",))
WORK = Found(name="work", base_url="https://llm.work.example/v1", why="", variable="WORK_MODEL_KEY")


def test_what_answers_here_comes_before_what_has_a_key() -> None:
    """R-233"""
    answers = {"http://127.0.0.1:8080/v1": ("local",), "http://127.0.0.1:5001/v1": ("a", "b")}
    found = find_servers({"GROQ_API_KEY": "k", "OPENAI_API_KEY": ""}, answers.get)
    assert [(server.name, server.why, server.models) for server in found] == [
        ("llama.cpp", "answers at http://127.0.0.1:8080/v1, has 1 model", ("local",)),
        ("koboldcpp", "answers at http://127.0.0.1:5001/v1, has 2 models", ("a", "b")),
        ("groq", "GROQ_API_KEY is set", ()),
    ]


def test_only_this_machine_is_looked_at() -> None:
    """R-233"""
    assert all(address.startswith("http://127.0.0.1:") for _, address in LOCAL_SERVERS)
    assert len(dict(LOCAL_SERVERS)) == len(LOCAL_SERVERS) == len({address for _, address in LOCAL_SERVERS})


@pytest.mark.parametrize(
    ("address", "name", "variable"),
    [
        ("https://llm.work.example/v1", "work", "WORK_MODEL_KEY"),
        ("https://api.groq.com/openai/v1", "own", "OWN_MODEL_KEY"),
        ("http://192.168.1.5:8080/v1", "own", "OWN_MODEL_KEY"),
        ("http://[::1]:8080", "own", "OWN_MODEL_KEY"),
        ("https://my-gpu.lan/v1", "my-gpu", "MY_GPU_MODEL_KEY"),
    ],
)
def test_server_at_an_address_gets_a_name(address: str, name: str, variable: str) -> None:
    """R-233: none that another provider has."""
    found = own_server(address, {})
    assert (found.name, found.variable, found.base_url) == (name, variable, address)


@pytest.mark.parametrize("address", ["", "work", "ftp://x", "https://u:sk-canary@x/v1", "http://x y"])
def test_what_is_not_an_address_is_refused(address: str) -> None:
    """R-233"""
    with pytest.raises(ConfigError) as caught:
        own_server(address, {})
    assert "canary" not in caught.value.message


def settled(operator: dict[str, Any], env: dict[str, str]) -> tuple[str, str, str]:
    model = resolve(make_layers(operator=operator, env=env)).model
    return model.base_url, model.model, model.api_key


@pytest.mark.parametrize(
    "existing",
    [
        {},
        {"sandbox_network": "bridge", "dangerous": {"denylist": ["git push"]}},
        {"provider": "openai", "model": "gpt-5"},
        {"base_url": "https://other.example/v1", "api_key": "sk-canary"},
        {"model": "work/x", "providers": {"work": {"base_url": "https://old.example/v1", "api_key": "sk-canary"}}},
        {"api_key": "sk-canary"},
    ],
    ids=str,
)
@pytest.mark.parametrize("choice", [Choice(server=OLLAMA, model="qwen3"), Choice(server=WORK, model="m", key="sk-new")])
def test_file_that_is_written_leads_to_the_choice(existing: dict[str, Any], choice: Choice) -> None:
    """R-233: whatever it held; settings of other kinds stay, and no other server's key goes to the new one."""
    text, removed = new_config(json.dumps(existing).encode(), choice)
    document = json.loads(text)
    env = {"WORK_MODEL_KEY": choice.key} if choice.key else {}
    assert settled(document, env) == (choice.server.base_url, choice.model, choice.key)
    assert {key for key in existing if key not in document} == set(removed)
    assert b"sk-new" not in text
    for key in ("sandbox_network", "dangerous"):
        assert document.get(key) == existing.get(key)
    assert json.loads(new_config(text, choice)[0]) == document


def test_name_that_begins_like_its_server_is_written_with_it() -> None:
    """R-370: what the server lists as `qwen/qwen3` is not read as its model `qwen3`."""
    server = own_server("https://qwen.example/v1", {})
    written, _ = new_config(None, Choice(server=server, model="qwen/qwen3", key=""))
    assert settled(json.loads(written), {})[:2] == ("https://qwen.example/v1", "qwen/qwen3")


def test_trial_asks_what_the_file_will_lead_to() -> None:
    """R-233: before anything is written."""
    config = config_of(
        make_layers(operator={"provider": "anthropic", "api_key": "sk-canary"}), Environment({}, NO_SECRETS)
    )
    for choice, key in ((Choice(server=OLLAMA, model="qwen3"), ""), (Choice(server=WORK, model="m", key="sk"), "sk")):
        model = with_choice(config, choice, {}).settings.model
        assert (model.base_url, model.model, model.api_key, model.provider) == (
            choice.server.base_url,
            choice.model,
            key,
            "openai",
        )
    server = known_server("groq", {"GROQ_API_KEY": "sk-groq"})
    model = with_choice(config, Choice(server=server, model="m"), {"GROQ_API_KEY": "sk-groq"}).settings.model
    assert (server.has_key, model.api_key, model.base_url) == (True, "sk-groq", "https://api.groq.com/openai/v1")


@pytest.mark.parametrize("existing", [b"[]", b"{", b"null", b'{"providers": []}', b'{"a": 1, "a": 2}'])
def test_file_that_is_broken_is_not_replaced(existing: bytes) -> None:
    """R-233"""
    with pytest.raises(ConfigError):
        new_config(existing, Choice(server=OLLAMA, model="m"))


@pytest.mark.parametrize(
    ("existing", "after"),
    [
        (None, "K=new\n"),
        (b"", "K=new\n"),
        (b"A=1\n# K=x\nKK=2\n", "A=1\n# K=x\nKK=2\nK=new\n"),
        (b"K=old\nA=1", "A=1\nK=new\n"),
        (b"export K = old\r\nA=1\n\n", "A=1\nK=new\n"),
    ],
)
def test_secrets_keep_every_other_line(existing: bytes | None, after: str) -> None:
    """R-233"""
    data = new_secrets(existing, "K", "new")
    assert data.decode() == after
    assert parse_secrets(data).values["K"] == "new"


def test_models_that_are_not_for_a_conversation_come_last() -> None:
    """R-233"""
    names = ("nomic-embed-text", "qwen3", "whisper-1", "gpt-5", "dall-e-3")
    assert for_chat_first(names) == ("qwen3", "gpt-5", "nomic-embed-text", "whisper-1", "dall-e-3")


def test_keys_are_hardly_shown() -> None:
    """R-233"""
    assert [shown_key("sk-0123456789abcdef"), shown_key("short"), shown_key("")] == ["…cdef", "…", "…"]
    assert checked_key("  'sk-1'\n") == "sk-1"
    with pytest.raises(ConfigError) as caught:
        checked_key("sk canary")
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"
