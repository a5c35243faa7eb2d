"""A model behind an HTTP API: requests, retries and notices. A ProviderApi knows the JSON.

What has been promised about time: 30 s for the connection, 120 s (or the profile's time) without a
byte, 600 s for the whole call, retries and their waits included; app/model.py grants servers of
one's own more. A cancel of the thread's token (cancel.py) ends every wait within a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from odek import cancel
from odek.model.endpoint import ApiRoot, Endpoint, checked_key, choose_proxy, parse_base_url
from odek.model.errors import EmptyResponse, ModelError
from odek.model.http1 import Response
from odek.model.http_errors import (
    MAX_RETRIES,
    START_LIMIT_S,
    START_POLL_S,
    backoff_s,
    is_unknown_model,
    is_wrong_address,
    parse_retry_after,
    status_error,
)
from odek.model.json_fields import parsed
from odek.model.profiles import list_names, parse_stated_window, parse_window
from odek.model.provider import ProviderApi, RequestOptions
from odek.model.request_ahead import RequestAhead
from odek.model.response import read_response
from odek.model.transport import DEFAULT_LIMITS, HttpExchange, Limits, Route, read_tls_context
from odek.model.types import CallBegun, Message, Reply, ToolSpec
from odek.model.wire import encode_body, encode_id
from odek.text import truncate, visible

ProviderName = Literal["openai", "anthropic"]

_OK = 200
_ERROR_READ_BYTES = 8 << 10  # more than is shown, so that a key on the edge is still recognised
_SHORTEST_KEY = 8  # shorter ones are dummies of local servers; hiding them would garble the text
_LISTED = 8  # names of models in a hint
_ALIKE = 0.4  # 1: equal
_REFUSALS = (400, 401, 403, 422, 500)  # statuses of requests whose form is wrong, and of a key under another name
_MAX_LESSONS = 8  # options that a server can refuse, one after the other, in one call
# A small conversation fits everywhere, and a run that ends soon never asks (F-102).
WINDOW_LOOKUP_TOKENS = 4000
_LOOKUP_LIMITS = Limits(connect_s=5.0, idle_s=5.0, total_s=5.0, body_bytes=1 << 20)


def _random() -> int:
    """Return a random number of 64 bits."""
    return int.from_bytes(os.urandom(8), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Waits, clocks and chance, as tests replace them."""

    sleep: Callable[[float], None] = cancel.sleep
    now: Callable[[], float] = time.monotonic
    epoch_now: Callable[[], float] = time.time
    """the time of day, in seconds since the epoch"""
    chance: Callable[[], float] = lambda: _random() / 2**64
    """a number in 0 … 1"""
    new_id: Callable[[], str] = lambda: encode_id(_random())
    """an id for a call that came without"""


SYSTEM_EFFECTS = Effects()


class Memory(Protocol):
    """Keeps what was learned from a server's refusals for the next client of it."""

    def recall(self) -> Mapping[str, Any]: ...
    def keep(self, lessons: Mapping[str, Any]) -> None: ...


class HttpModel:
    """Implements types.Model."""

    def __init__(
        self,
        *,
        base_url: str,
        options: RequestOptions,
        provider: ProviderName = "openai",
        api_key: str = "",
        window: int | None = None,
        allow_plain_http: bool = False,
        env: Mapping[str, str],
        on_notice: Callable[[str], None],
        limits: Limits = DEFAULT_LIMITS,
        effects: Effects = SYSTEM_EFFECTS,
        memory: Memory | None = None,
        start: str = "",
    ) -> None:
        """Check the settings; nothing is sent yet.

        `window` is the model's in tokens; None: the server is asked when it begins to matter. `env`
        holds proxy variables and SSL_CERT_FILE / SSL_CERT_DIR; `on_notice` gets one line per retry. `start` is
        the command that starts such a server, for who has forgotten it.
        Raises ConfigError for a bad base_url, key, proxy or CA file.
        """
        self._api = _choose_api(provider, options)
        self._memory = memory
        self._recalled = False
        """whether there is something from an earlier client that may be out of date"""
        if memory is not None and (lessons := memory.recall()):
            self._api.recall(lessons)
            self._recalled = True
        self._base = parse_base_url(base_url, allow_plain_http=allow_plain_http)
        self._root = ApiRoot(self._base)
        tls = read_tls_context(env) if self._base.scheme == "https" else None
        self._route = Route(self._base.endpoint("/"), choose_proxy(self._base, env), tls, effects.now, start)
        self._api_key = checked_key(api_key)
        self._model = options.model
        self._window = window
        self._window_asked = window is not None
        self._on_notice = on_notice
        self._limits = limits
        self._effects = effects
        self._now = effects.now
        self._begun: RequestAhead | None = None

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        """Return the next reply; see types.Model.

        Tried again after a failure that may pass: nothing has happened yet but that text was shown.
        """
        deadline_s = self._now() + self._limits.total_s
        spoken = _VoidableText(on_text)
        state = _RequestState()
        stream = True
        while True:
            try:
                reply = self._reply(encode_body(self._api.body(messages, tools, stream=stream)), spoken, deadline_s)
                self._found_address()
                if state.lessons and self._memory is not None:
                    self._memory.keep(self._api.learned())
                return reply
            except ModelError as error:
                self._hide_key(error)
                self._note_window(error)
                if self._put_right(error, state):
                    spoken.void()
                    continue
                # whatever is wrong with an empty stream, a status can say it
                stream = stream and not isinstance(error, EmptyResponse)
                wait_s = self._wait_s(error, state, deadline_s)
                if wait_s is None:
                    raise self._final(error, state) from error
                spoken.void()
            self._effects.sleep(wait_s)

    @contextmanager
    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Iterator[None]:
        """See types.Model. One attempt: what it fails with is dealt with when its reply is asked for."""
        body, deadline_s = encode_body(self._api.body(messages, tools, stream=True)), self._now() + self._limits.total_s
        begun = self._begun = RequestAhead(body, lambda on_text: self._attempt(body, on_text, deadline_s))
        try:
            yield
        finally:
            self._begun = None
            begun.close()

    def connect(self) -> None:
        """See types.Model."""
        self._route.connect_ahead(min(self._limits.connect_s, self._limits.total_s))

    @property
    def address(self) -> str:
        """the root of the API, as far as it is known, fit to be shown"""
        return self._base.endpoint(self._root.path).shown

    def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server lists, in its order. Raises ModelError."""
        try:
            return list_names(self._look_up())
        except ModelError as error:
            self._hide_key(error)
            if not self._put_right(error, _RequestState()):
                raise
        found = self._look_up()
        self._found_address()
        return list_names(found)

    def window(self, conversation_tokens: int) -> int | None:
        """See types.Model. The server is asked at most once, for at most 5 s, and its failures are silent."""
        if not self._window_asked and conversation_tokens >= WINDOW_LOOKUP_TOKENS:
            self._window_asked = True
            with suppress(ModelError):
                self._window = self._look_up_window()
        return self._window

    def _note_window(self, error: ModelError) -> None:
        """Believe a server that finds a conversation too long, and says how long it may be."""
        stated = parse_stated_window(error.said) if error.context_overflow else None
        if stated is not None:
            self._window, self._window_asked = stated, True

    def _put_right(self, error: ModelError, state: _RequestState) -> bool:
        """Return whether the next request may do better at once: by what was learned, or at another address."""
        if is_wrong_address(error):
            state.first_error = state.first_error or error
            return self._root.try_other()
        self._found_address()
        if state.lessons < _MAX_LESSONS and self._api.adapt(error):
            state.lessons += 1
            return True
        if self._recalled and error.status in _REFUSALS and not error.context_overflow:
            self._recalled = False  # the server may have changed since: once without what was known of it
            self._api.recall({})
            state.lessons += 1
            return True
        return False

    def _found_address(self) -> None:
        """Note that the API is where it was asked for, and say so if that is not where base_url says."""
        wrong = self._root.confirm()
        if wrong is not None:
            given, right = self._chat(wrong).shown, self._chat(self._root.path).shown
            self._on_notice(f"{given} is not the API; {right} is, and is used: set base_url to it")

    def _chat(self, root: str) -> Endpoint:
        return self._base.endpoint(self._api.chat_path(root))

    def _final(self, error: ModelError, state: _RequestState) -> ModelError:
        """Return the error to end with."""
        error = state.first_error if state.first_error is not None and is_wrong_address(error) else error
        if is_unknown_model(error):
            with suppress(ModelError):
                names = self.models()
                error.hint = f"the server has {_listed(names, self._model)}" if names else error.hint
        return error.with_attempts(state.attempts) if state.attempts > 1 else error

    def _look_up_window(self) -> int | None:
        return parse_window(self._look_up(), self._model)

    def _look_up(self) -> object:
        """Return the JSON of the server's list of models, None when it is not JSON. Raises ModelError."""
        with_limits = replace(_LOOKUP_LIMITS, total_s=min(_LOOKUP_LIMITS.total_s, self._limits.total_s))
        endpoint = self._base.endpoint(self._api.models_path(self._root.path))
        with self._exchange(endpoint, with_limits) as exchange:
            response = exchange.send(self._headers("application/json"), None)
            if response.status != _OK:
                raise self._status_error(exchange, response)
            return parsed(b"".join(exchange.chunks()).decode("utf-8", errors="replace"))

    def _exchange(self, endpoint: Endpoint, limits: Limits, deadline_s: float | None = None) -> HttpExchange:
        end = self._now() + limits.total_s if deadline_s is None else deadline_s
        return HttpExchange(endpoint, self._route, limits, self._now, end)

    def _reply(self, body: bytes, on_text: Callable[[str], None], deadline_s: float) -> Reply:
        """Return the reply to `body`: that of the request that is at work already, if it is the very same one."""
        begun, self._begun = self._begun, None
        if begun is None:
            return self._attempt(body, on_text, deadline_s)
        try:
            if begun.body == body:
                return begun.reply(on_text)
        finally:
            begun.close()
        reply = self._attempt(body, on_text, deadline_s)
        # what was dropped is billed as well; where that was not said, its prompt was as long as this one
        dropped = replace(reply.usage, output_tokens=0) if begun.usage is None else begun.usage
        return replace(reply, usage=reply.usage + dropped)

    def _attempt(self, body: bytes, on_text: Callable[[str], None], deadline_s: float) -> Reply:
        with self._exchange(self._chat(self._root.path), self._limits, deadline_s) as exchange:
            response = exchange.send(self._headers("text/event-stream, application/json"), body)
            if response.status != _OK:
                raise self._status_error(exchange, response)
            return read_response(exchange, self._api, self._effects.new_id, on_text)

    def _headers(self, accept: str) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Accept": accept,
            "Accept-Encoding": "identity",
            "User-Agent": "odek",
            **self._api.headers(self._api_key),
        }

    def _status_error(self, exchange: HttpExchange, response: Response) -> ModelError:
        text = b""
        with suppress(ModelError):  # the status says enough
            for chunk in exchange.chunks():
                text += chunk
                if len(text) >= _ERROR_READ_BYTES:
                    break
        shown = self._without_key(text[:_ERROR_READ_BYTES].decode("utf-8", errors="replace"))
        return status_error(
            response.status,
            response.reason,
            shown,
            server=exchange.peer_description(response.status),
            location=response.headers.get("Location"),
            retry_after_s=parse_retry_after(response.headers.get_all("Retry-After"), self._effects.epoch_now()),
        )

    def _wait_s(self, error: ModelError, state: _RequestState, deadline_s: float) -> float | None:
        """Return how long to wait before the next attempt, None when there is none; say so."""
        if error.loading and self._goes_on_loading(state):
            return START_POLL_S if self._now() + START_POLL_S < deadline_s else None
        state.attempts += 1
        if not error.retryable or state.attempts > MAX_RETRIES:
            return None
        wait_s = backoff_s(state.attempts, self._effects.chance) if error.retry_after_s is None else error.retry_after_s
        if self._now() + wait_s >= deadline_s:
            return None
        self._on_notice(f"{error.message}; trying again in {wait_s:.1f} s (retry {state.attempts} of {MAX_RETRIES})")
        return wait_s

    def _goes_on_loading(self, state: _RequestState) -> bool:
        """Return whether a server that loads its model has time left for it (B116)."""
        if state.loading_since_s is None:
            state.loading_since_s = self._now()
            self._on_notice(f"the model's server is loading its model; waiting for it, {START_LIMIT_S:.0f} s at most")
        return self._now() - state.loading_since_s < START_LIMIT_S

    def _hide_key(self, error: ModelError) -> None:
        error.message = self._without_key(error.message)
        error.args = (error.message,)
        error.detail = self._without_key(error.detail)

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "[api key]") if len(self._api_key) >= _SHORTEST_KEY else text


@dataclass(slots=True)
class _RequestState:
    """What has happened in one call so far."""

    attempts: int = 0
    lessons: int = 0
    loading_since_s: float | None = None
    first_error: ModelError | None = None
    """of the address in base_url, if another one was tried"""


class _VoidableText:
    """Passes text on, and voids it when a reply broke off and starts again (B130)."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._anything = False

    def __call__(self, text: str) -> None:
        if text:
            self._anything |= not isinstance(text, CallBegun)
            self._on_text(text)

    def void(self) -> None:
        if self._anything:
            self._anything = False
            self._on_text("")


def _listed(names: tuple[str, ...], wanted: str) -> str:
    """Return the first of `names`, those that are like `wanted` ahead of the others."""
    from difflib import SequenceMatcher  # after an error only

    likeness = {name: SequenceMatcher(None, wanted, name).ratio() for name in names}
    ordered = sorted(names, key=lambda name: -likeness[name] if likeness[name] >= _ALIKE else 0)
    shown = ", ".join(truncate(visible(name), 80) for name in ordered[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def _choose_api(provider: ProviderName, options: RequestOptions) -> ProviderApi:
    if provider == "anthropic":
        from odek.model.anthropic import AnthropicApi

        return AnthropicApi(options)
    from odek.model.openai import OpenAiApi

    return OpenAiApi(options)
