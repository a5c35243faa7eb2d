"""What is shown of the settings."""

from __future__ import annotations

import json

import pytest
from fakes.layering import make_layers

from odek.config.resolve import resolve
from odek.config.settings import OPTIONS
from odek.config.values import shown_url
from odek.config.view import view, view_rows

SECRETS = {
    "api_key": "sk-canary-1",
    "base_url": "https://user:canary-2@api.example:8443/v1?key=canary-3#canary-4",
    "sandbox_env": {"DB_PASS": "canary-5", "EMPTY": ""},
    "dangerous": {"allowlist": ["curl canary-6"], "sandboxed": {"action": "deny"}},
}


def test_every_option_is_shown_with_its_source() -> None:
    """R-19, R-12"""
    shown = view(resolve(make_layers(operator={"model": "m"}, env={"ODEK_SANDBOX_MEMORY": "1g"})))
    assert list(shown) == [option.key for option in OPTIONS]
    assert shown["model"] == {"value": "m", "source": "global", "origin": "~/.odek/config.json"}
    assert shown["sandbox_memory"] == {"value": "1g", "source": "environment", "origin": "ODEK_SANDBOX_MEMORY"}
    assert shown["sandbox_pids_limit"] == {"value": 4096, "source": "default", "origin": "default"}
    assert shown["sandbox"] == {"value": None, "source": "default", "origin": "default"}
    assert shown["tools.disabled"] == {"value": [], "source": "default", "origin": "default"}


def test_secrets_are_hidden() -> None:
    """R-19: a key is set or not, the environment of the sandbox has names only, a URL no credentials."""
    shown = view(resolve(make_layers(operator=SECRETS)))
    assert shown["api_key"]["value"] == "set"
    assert shown["base_url"]["value"] == "https://api.example:8443/v1"
    assert shown["sandbox_env"]["value"] == ["DB_PASS", "EMPTY"]
    assert shown["dangerous"]["value"] == {
        "action": None,
        "classes": {},
        "allowlist": 1,
        "denylist": 0,
        "non_interactive": "deny",
        "sandboxed": {"action": "deny", "classes": {}, "allowlist": 0, "denylist": 0, "non_interactive": "deny"},
    }
    assert "canary" not in json.dumps(shown)


def test_missing_key_is_unset() -> None:
    assert view(resolve(make_layers()))["api_key"]["value"] == "unset"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example/v1", "https://api.example/v1"),
        ("http://u:p@127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("https://u@h@evil/v1", "https://evil/v1"),
        ("replay:demo.jsonl", "replay:demo.jsonl"),
        ("replay:what?.jsonl", "replay:what?.jsonl"),
        ("replay:a@b.jsonl", "replay:a@b.jsonl"),
        ("api.example/v1?key=x", "api.example/v1"),
        ("user:password@api.example/v1", "api.example/v1"),
        ("https:/user:password@api.example/v1", "api.example/v1"),
        ("http://[::1", "(not a URL)"),
    ],
)
def test_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_text_has_a_line_for_each_option() -> None:
    """R-19"""
    settings = resolve(
        make_layers(
            operator={**SECRETS, "sandbox_networks": ["a", "b"]},
            project={"model": "\x1b[2Jm"},
            flags={"sandbox": False},
        )
    )
    text = "\n".join(map("  ".join, view_rows(view(settings))))
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert list(rows) == [option.key for option in OPTIONS]
    assert rows["model"] == ["\\x1b[2Jm", "./odek.json"]
    assert rows["sandbox"] == ["false", "--no-sandbox"]
    assert rows["no_agents"] == ["false", "default"]
    assert rows["sandbox_networks"] == ["a,", "b", "~/.odek/config.json"]
    assert rows["sandbox_volumes"] == ["-", "default"]
    assert rows["sandbox_image"] == ["-", "default"]
    assert rows["tools.enabled"] == ["-", "default"]
    assert rows["dangerous"][:4] == ["action=-", "classes=-", "allowlist=1", "denylist=0"]
    assert "canary" not in text


def test_on_is_shown_as_true() -> None:
    shown = view(resolve(make_layers(flags={"sandbox": True})))
    assert ("sandbox", "true", "--sandbox") in view_rows(shown)
    assert view_rows(shown, everything=False) == (("sandbox", "true", "--sandbox"),)
