"""What odek doctor finds of the terminal and of the model's server, and what it advises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes.layering import bare_host, make_layers
from fakes.model_server import ModelServer, Step, calls, status, text

from odek.app.doctor import Check
from odek.app.model_checks import check_terminal, model_checks
from odek.config.resolve import resolve

ANSWERS = calls(("report", {"word": "ready"}))
MODELS = {"data": [{"id": "m"}, {"id": "n"}]}


def found(*script: Step, env: dict[str, str] | None = None, models: Any = MODELS, **flags: object) -> dict[str, Check]:
    with ModelServer(*script, models=models) as server:
        settings = resolve(make_layers(flags={"base_url": server.base_url, "model": "m", **flags}, env=env or {}))
        checks = tuple(model_checks(settings, replace(bare_host("/"), env=env or {})))
        server.assert_all_used()
    return {check.name: check for check in checks}


def test_server_that_is_as_it_should_be() -> None:
    """R-233: in the order of the way to it."""
    checks = found(ANSWERS, env={"ODEK_API_KEY": "sk-canary-0123456789"})
    assert [(name, check.verdict) for name, check in checks.items()] == [
        ("model", "ok"), ("route", "ok"), ("CA", "ok"), ("server", "ok"), ("answer", "ok"),
    ]  # fmt: skip
    assert "m at http://127.0.0.1:" in checks["model"].seen
    assert checks["model"].seen.endswith("/v1, key from ODEK_API_KEY")
    assert checks["server"].seen == "reached; it lists 2 models, this one among them"
    assert "canary" not in str(checks)


@pytest.mark.parametrize(
    ("script", "more", "name", "verdict", "words"),
    [
        ((ANSWERS,), {"models": {"data": [{"id": "x"}]}}, "server", "warn", "m is not among its 1 models: x"),
        ((ANSWERS,), {"models": {"data": []}}, "server", "ok", "it lists no models"),
        ((ANSWERS,), {"models": None}, "server", "warn", "answered 404"),
        ((text("ready"),), {}, "answer", "warn", 'in words ("ready") in place of the call'),
        ((text("  "),), {}, "answer", "fail", "and empty"),
        ((status(401, {"error": {"message": "Incorrect API key"}}),), {}, "answer", "fail", "Incorrect API key"),
        ((status(404, {"error": {"message": "model 'm' not found"}}),), {}, "answer", "fail", "answered 404"),
    ],
)
def test_what_is_wrong_is_found_where_it_is(
    script: tuple[Step, ...], more: dict[str, Any], name: str, verdict: str, words: str
) -> None:
    """R-233: each with a way out."""
    check = found(*script, **more)[name]
    assert (check.verdict, words in check.seen) == (verdict, True), check
    assert bool(check.fix) is (verdict != "ok")


@pytest.mark.parametrize(
    ("env", "flags", "name", "seen", "fix"),
    [
        ({}, {"base_url": "http://llm.example/v1"}, "route", "unencrypted", "use https"),
        ({"https_proxy": "socks5://p:1"}, {}, "route", "of a kind that odek does not support", "HTTP proxy"),
        ({"SSL_CERT_FILE": "/nonexistent"}, {}, "CA", "SSL_CERT_FILE", "correct or unset"),
        ({"SSL_CERT_DIR": "/nonexistent"}, {}, "CA", "SSL_CERT_DIR", "correct or unset"),
        ({}, {}, "key", "there is no key for https://api.deepseek.com/v1", "odek setup"),
    ],
)
def test_first_failure_on_the_way_ends_the_check(
    env: dict[str, str], flags: dict[str, object], name: str, seen: str, fix: str
) -> None:
    """R-233: what comes after it could only fail for the same reason; nothing is sent."""
    settings = resolve(make_layers(flags=flags, env=env))
    *_, last = model_checks(settings, replace(bare_host("/"), env=env))
    assert (last.name, last.verdict, seen in last.seen, fix in last.fix) == (name, "fail", True, True), last


def test_proxy_is_named_without_its_password() -> None:
    """R-233, B43"""
    env = {"https_proxy": "http://user:canary@proxy.example:3128", "ODEK_API_KEY": "k"}
    settings = resolve(make_layers(env=env))
    checks = model_checks(settings, replace(bare_host("/"), env=env), answers=False)
    (route,) = [check for check, _ in zip(checks, range(2), strict=False) if check.name == "route"]
    assert route.seen == "api.deepseek.com:443 through proxy.example:3128 (https_proxy)"


def test_recording_has_no_server() -> None:
    """R-233"""
    settings = resolve(make_layers(flags={"base_url": "replay:x"}))
    assert [check.name for check in model_checks(settings, bare_host("/"))] == ["model"]


@pytest.mark.parametrize(
    ("env", "is_terminal", "utf8", "verdict"),
    [
        ({"TERM": "xterm"}, True, True, "ok"),
        ({"TERM": "dumb"}, True, True, "warn"),
        ({}, True, True, "warn"),
        ({}, False, True, "ok"),
        ({"TERM": "xterm"}, True, False, "warn"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True, "ok"),
    ],
)
def test_terminal(env: dict[str, str], is_terminal: bool, utf8: bool, verdict: str) -> None:
    """R-233"""
    check = check_terminal(env, is_terminal=is_terminal, columns=80, utf8=utf8)
    assert (check.verdict, bool(check.fix)) == (verdict, verdict != "ok")
