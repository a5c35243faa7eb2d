"""odek doctor and odek setup: can the model be asked from here, and what to do if not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from odek.app.doctor import Check
from odek.app.model import REPLAY_PREFIX, list_models, make_model
from odek.config.settings import Settings
from odek.config.values import shown_url
from odek.errors import OdekError
from odek.host import Host
from odek.model.types import Message, Model, ToolSpec
from odek.text import truncate, visible

_WORD = "ready"
_TRIAL = ToolSpec(
    name="report",
    description="Report a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
_TRIAL_TASK = (
    Message(role="system", content="This is a test of the connection. Do what is asked and nothing else."),
    Message(role="user", content=f'Call the function report with the word "{_WORD}".'),
)
_NO_CALLS = (
    "an agent needs a model that calls tools: choose another one, or start the server with its tool parser "
    "(docs/MODELS.md)"
)


def check_terminal(env: Mapping[str, str], *, is_terminal: bool, columns: int, utf8: bool) -> Check:
    """Return what the terminal is capable of."""
    term = env.get("TERM", "")
    seen = f"{visible(term) or 'no TERM'}, {columns} columns" if is_terminal else "stderr is not a terminal"
    if is_terminal and term in ("", "dumb"):
        return Check(name="terminal", verdict="warn", seen=seen, fix="set TERM for colours, such as xterm-256color")
    if not utf8:
        return Check(
            name="terminal",
            verdict="warn",
            seen=f"{seen}; the locale is not UTF-8",
            fix="set LANG=C.UTF-8, or your own",
        )
    colours = "; NO_COLOR is set" if env.get("NO_COLOR") else ""
    return Check(name="terminal", verdict="ok", seen=f"{seen}{colours}")


def check_settings(settings: Settings) -> Check:
    """Return where the settings of the model come from."""
    model = settings.model
    key = f"key from {settings.origin_of('api_key')}" if model.api_key else "no key"
    said = "" if settings.was_set("model") else " (the default)"
    seen = f"{visible(model.full_name)}{said} at {visible(shown_url(model.base_url))}, {visible(key)}"
    return Check(name="model", verdict="ok", seen=seen)


def model_checks(settings: Settings, host: Host, *, answers: bool = True) -> Iterator[Check]:
    """Yield the findings on the model's server, up to the first that fails; `answers`: the model itself is asked."""
    yield check_settings(settings)
    if settings.model.base_url.startswith(REPLAY_PREFIX):
        return
    for check in (_route, _authorities):
        found = check(settings, host)
        yield found
        if found.verdict == "fail":
            return
    try:
        model = make_model(settings, host, notify=lambda _: None)
    except OdekError as error:
        yield Check(name="key", verdict="fail", seen=error.message, fix=error.hint)
        return
    yield check_listing(settings, host)
    if answers:
        yield try_model(model)


def _route(settings: Settings, host: Host) -> Check:
    from odek.model.endpoint import choose_proxy, parse_base_url

    try:
        base = parse_base_url(settings.model.base_url, allow_plain_http=settings.may_use_plain_http)
        proxy = choose_proxy(base, host.env)
    except OdekError as error:
        return Check(name="route", verdict="fail", seen=error.message, fix=error.hint)
    place = visible(f"{base.host}:{base.port}")
    if proxy is None:
        return Check(name="route", verdict="ok", seen=f"{place}, without a proxy")
    return Check(name="route", verdict="ok", seen=f"{place} through {visible(proxy.authority)} ({proxy.variable})")


def _authorities(settings: Settings, host: Host) -> Check:
    """Check what TLS trusts."""
    from odek.model.transport import read_tls_context

    if not settings.model.base_url.startswith("https:"):
        return Check(name="CA", verdict="ok", seen="not needed: the connection is not encrypted")
    try:
        context = read_tls_context(host.env)
    except OdekError as error:
        return Check(name="CA", verdict="fail", seen=error.message, fix=error.hint or "correct or unset that variable")
    named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if host.env.get(name)]
    source = visible(" and ".join(f"{name}={host.env[name]}" for name in named)) or "the system's"
    count = context.cert_store_stats()["x509_ca"]
    return Check(name="CA", verdict="ok", seen=f"{source}{f', {count} certificates' if count else ''}")


def check_listing(settings: Settings, host: Host) -> Check:
    """Return whether the server can be reached and has the model."""
    wanted = settings.model.model
    try:
        names = list_models(settings, host, notify=lambda _: None).names
    except OdekError as error:
        # a server without a list may answer all the same
        return Check(name="server", verdict="warn", seen=_with_detail(error), fix=error.hint or _reach(host))
    if not names:
        return Check(name="server", verdict="ok", seen="reached; it lists no models")
    if wanted in names:
        return Check(name="server", verdict="ok", seen=f"reached; it lists {len(names)} models, this one among them")
    shown = ", ".join(visible(truncate(name, 40)) for name in names[:4])
    return Check(
        name="server",
        verdict="warn",
        seen=f"reached; {visible(wanted)} is not among its {len(names)} models: {shown}{', …' if names[4:] else ''}",
        fix="`odek models` lists them; name one with --model",
    )


def try_model(model: Model, *, now: Callable[[], float] = time.monotonic) -> Check:
    """Ask `model` for one call of a tool, and return what came."""
    began = now()
    try:
        reply = model.complete(_TRIAL_TASK, (_TRIAL,), lambda _: None).message
    except OdekError as error:
        return Check(name="answer", verdict="fail", seen=_with_detail(error), fix=error.hint)
    took = f"{now() - began:.1f} s"
    if any(call.name == _TRIAL.name for call in reply.tool_calls):
        return Check(name="answer", verdict="ok", seen=f"in {took}, with the call of a tool that it was asked for")
    words = " ".join(reply.content.split())
    if not words:
        return Check(name="answer", verdict="fail", seen=f"in {took}, and empty", fix="try another model")
    return Check(
        name="answer",
        verdict="warn",
        seen=f'in {took}, in words ("{visible(truncate(words, 60))}") in place of the call that it was asked for',
        fix=_NO_CALLS,
    )


def _with_detail(error: OdekError) -> str:
    detail = " ".join(error.detail.split())
    return visible(f"{error.message}{f': {truncate(detail, 200)}' if detail else ''}")


def _reach(host: Host) -> str:
    proxied = any(host.env.get(name) for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"))
    return "look at base_url and at the network" + ("" if proxied else "; behind a proxy, set https_proxy")
