"""A model behind an HTTP API: requests, retries, and what is told of them. Dialects know the JSON.

What has been promised about time: 30 s for the connection, 120 s (or the profile's time) without a
byte, 600 s for the whole call, retries and their waits included; setup/model.py grants servers of
one's own more. A signal handler that raises
(errors.Interrupted) ends every wait at once; connections are closed on the way out.
"""

from __future__ import annotations

import http.client
import json
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from odek.model.answer import read_answer
from odek.model.dialect import Dialect, RequestOptions
from odek.model.endpoint import Endpoint, checked_key, choose_proxy, parse_base_url
from odek.model.errors import EmptyAnswer, ModelError
from odek.model.failures import status_error
from odek.model.ids import encode as encode_id
from odek.model.profiles import parse_stated_window, parse_window
from odek.model.retry import MAX_RETRIES, backoff_s, parse_retry_after
from odek.model.tls import read_tls_context
from odek.model.transport import DEFAULT_LIMITS, Exchange, Limits
from odek.model.types import Message, Reply, ToolSpec
from odek.model.wire import encode_body

ProviderName = Literal["openai", "anthropic"]

_ERROR_READ_BYTES = 8 << 10  # more than is shown, so that a key on the edge is still recognised
_SHORTEST_KEY = 8  # shorter ones are dummies of local servers; hiding them would garble the text
_MAX_LESSONS = 6  # options that a server can refuse, one after the other, in one call
# A small conversation fits everywhere, and a run that ends soon never asks (F-102).
WINDOW_LOOKUP_TOKENS = 4000
_LOOKUP_LIMITS = Limits(connect_s=5.0, idle_s=5.0, total_s=5.0, body_bytes=1 << 20)


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
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        epoch_now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: encode_id(secrets.randbits(64)),
    ) -> None:
        """Check the settings; nothing is sent yet.

        `window` is the model's in tokens; None: the server is asked when it begins to matter. `env`
        holds proxy variables and SSL_CERT_FILE / SSL_CERT_DIR; `on_notice` gets one line per retry.
        `now` is a monotonic clock, `epoch_now` the time of day, `chance` a number in 0 … 1. Raises
        ConfigError for a bad base_url, key, proxy or CA file.
        """
        self._dialect = _choose_dialect(provider, options)
        self._place = partial(parse_base_url, base_url, allow_plain_http=allow_plain_http)
        self._endpoint = self._place(place=self._dialect.chat_path)
        self._proxy = choose_proxy(self._endpoint, env)
        self._tls = read_tls_context(env) if self._endpoint.scheme == "https" else None
        self._api_key = checked_key(api_key)
        self._model = options.model
        self._window = window
        self._window_asked = window is not None
        self._on_notice = on_notice
        self._limits = limits
        self._sleep = sleep
        self._now = now
        self._epoch_now = epoch_now
        self._chance = chance
        self._new_id = new_id

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        """Return the next reply; see types.Model.

        Tried again after a failure that may pass, unless some of the answer was already shown.
        """
        deadline_s = self._now() + self._limits.total_s
        spoken = _Spoken(on_text)
        attempts = lessons = 0
        stream = True
        while True:
            try:
                body = self._dialect.body(messages, tools, stream=stream)
                return self._attempt(encode_body(body), spoken, deadline_s)
            except ModelError as error:
                self._hide_key(error)
                if lessons < _MAX_LESSONS and self._dialect.learn(error):
                    lessons += 1
                    continue
                # whatever is wrong with an empty stream, a status can say it
                stream = stream and not isinstance(error, EmptyAnswer)
                self._note_window(error)
                attempts += 1
                wait_s = self._wait_s(error, attempts)
                if spoken.anything or wait_s is None or self._now() + wait_s >= deadline_s:
                    if attempts == 1:
                        raise
                    raise error.with_attempts(attempts) from error
                self._on_notice(f"{error.message}; trying again in {wait_s:.1f} s (retry {attempts} of {MAX_RETRIES})")
            self._sleep(wait_s)

    def window(self, conversation_tokens: int) -> int | None:
        """See types.Model. The server is asked at most once, for at most 5 s, and its failures are silent."""
        if not self._window_asked and conversation_tokens >= WINDOW_LOOKUP_TOKENS:
            self._window_asked = True
            with suppress(ModelError):
                self._window = self._look_up_window()
        return self._window

    def _note_window(self, error: ModelError) -> None:
        """Believe a server that finds a conversation too long, and says how long it may be."""
        stated = parse_stated_window(error.detail) if error.overflow else None
        if stated is not None:
            self._window, self._window_asked = stated, True

    def _look_up_window(self) -> int | None:
        with_limits = replace(_LOOKUP_LIMITS, total_s=min(_LOOKUP_LIMITS.total_s, self._limits.total_s))
        exchange = self._exchange(self._place(place=self._dialect.models_path), with_limits)
        try:
            response = exchange.send(self._headers("application/json"), None)
            if response.status != http.client.OK:
                return None
            text = b"".join(exchange.chunks()).decode("utf-8", errors="replace")
        finally:
            exchange.close()
        try:
            return parse_window(json.loads(text), self._model)
        except (ValueError, RecursionError):
            return None

    def _exchange(self, endpoint: Endpoint, limits: Limits, deadline_s: float | None = None) -> Exchange:
        end = self._now() + limits.total_s if deadline_s is None else deadline_s
        return Exchange(endpoint, self._proxy, self._tls, limits, self._now, end)

    def _attempt(self, body: bytes, on_text: Callable[[str], None], deadline_s: float) -> Reply:
        exchange = self._exchange(self._endpoint, self._limits, deadline_s)
        try:
            response = exchange.send(self._headers("text/event-stream, application/json"), body)
            if response.status != http.client.OK:
                raise self._status_error(exchange, response)
            return read_answer(exchange, self._dialect, self._new_id, on_text)
        finally:
            exchange.close()

    def _headers(self, accept: str) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Accept": accept,
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": "odek",
            **self._dialect.headers(self._api_key),
        }

    def _status_error(self, exchange: Exchange, response: http.client.HTTPResponse) -> ModelError:
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
            server=exchange.who(response.status),
            location=response.headers.get("Location", ""),
            retry_after_s=parse_retry_after(response.headers.get_all("Retry-After", []), self._epoch_now()),
        )

    def _wait_s(self, error: ModelError, attempts: int) -> float | None:
        if not error.retryable or attempts > MAX_RETRIES:
            return None
        return backoff_s(attempts, self._chance) if error.retry_after_s is None else error.retry_after_s

    def _hide_key(self, error: ModelError) -> None:
        error.message = self._without_key(error.message)
        error.args = (error.message,)
        error.detail = self._without_key(error.detail)

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "[api key]") if len(self._api_key) >= _SHORTEST_KEY else text


class _Spoken:
    """Passes text on, and remembers that it did: what was shown cannot be taken back by a retry."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self.anything = False

    def __call__(self, text: str) -> None:
        self.anything = True
        self._on_text(text)


def _choose_dialect(provider: ProviderName, options: RequestOptions) -> Dialect:
    if provider == "anthropic":
        from odek.model.anthropic import AnthropicDialect

        return AnthropicDialect(options)
    from odek.model.openai import OpenAiDialect

    return OpenAiDialect(options)
