"""A model behind an OpenAI-compatible HTTP API (R-82): the only place that opens a connection to it.

Built on http.client rather than on urllib's openers: those read proxy variables from the process
environment, follow redirects with the key, and hide the socket whose time-outs matter here.

What has been promised about time: 30 s for the connection, 120 s without a byte, 600 s for the
whole call, retries and their waits included. A signal handler that raises (errors.Interrupted)
ends every wait at once; connections are closed on the way out.
"""

from __future__ import annotations

import http.client
import random
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from odek.model.answer import read_answer
from odek.model.decode import BodyDecoder
from odek.model.endpoint import Endpoint, Proxy, checked_key, choose_proxy, parse_base_url
from odek.model.errors import ModelError, ModelUnreachable
from odek.model.failures import status_error
from odek.model.retry import MAX_RETRIES, backoff_s, parse_retry_after
from odek.model.tls import read_tls_context
from odek.model.types import Message, Reply, ToolSpec
from odek.model.wire import encode_body, request_body
from odek.text import clip, visible

_READ_BYTES = 1 << 16
_ERROR_READ_BYTES = 8 << 10  # more than is shown, so that a key on the edge is still recognised
_AFTER_FINISH_S = 5.0  # for the usage that follows the end of the answer
_SHORTEST_KEY = 8  # shorter ones are dummies of local servers; hiding them would garble the text
_TUNNEL_FAILURE = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)", re.DOTALL)
_BAD_REQUEST = (400, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much."""

    connect_s: float = 30.0
    idle_s: float = 120.0
    total_s: float = 600.0
    body_bytes: int = 50 << 20


class HttpModel:
    """Implements types.Model."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        temperature: float | None = None,
        thinking: str = "",
        thinking_budget: int = 5000,
        allow_plain_http: bool = False,
        env: Mapping[str, str],
        on_notice: Callable[[str], None],
        limits: Limits = Limits(),
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        epoch_now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: "call_" + secrets.token_hex(12),
    ) -> None:
        """Check the settings; nothing is sent yet.

        `env` holds proxy variables and SSL_CERT_FILE / SSL_CERT_DIR; `on_notice` gets one line
        per retry. `now` is a monotonic clock, `epoch_now` the time of day, `chance` a number in
        0 … 1. Raises ConfigError for a bad base_url, key, proxy or CA file.
        """
        self._endpoint = parse_base_url(base_url, allow_plain_http=allow_plain_http)
        self._proxy = choose_proxy(self._endpoint, env)
        self._tls = read_tls_context(env) if self._endpoint.scheme == "https" else None
        self._api_key = checked_key(api_key)
        self._model = model
        self._temperature = temperature
        self._thinking = thinking
        self._thinking_budget = thinking_budget
        self._on_notice = on_notice
        self._limits = limits
        self._sleep = sleep
        self._now = now
        self._epoch_now = epoch_now
        self._chance = chance
        self._new_id = new_id
        self._usage_in_stream = True

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        """Return the next reply; see types.Model.

        Tried again after a failure that may pass, unless some of the answer was already shown.
        """
        deadline_s = self._now() + self._limits.total_s
        spoken = _Spoken(on_text)
        attempts = 0
        while True:
            attempts += 1
            try:
                return self._attempt(self._body(messages, tools), spoken, deadline_s)
            except ModelError as error:
                self._hide_key(error)
                if self._learn(error):
                    continue
                wait_s = self._wait_s(error, attempts)
                if spoken.anything or wait_s is None or self._now() + wait_s >= deadline_s:
                    if attempts == 1:
                        raise
                    raise error.with_attempts(attempts) from error
                self._on_notice(f"{error.message}; trying again in {wait_s:.1f} s (retry {attempts} of {MAX_RETRIES})")
            self._sleep(wait_s)

    def _body(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bytes:
        body = request_body(
            self._model,
            messages,
            tools,
            temperature=self._temperature,
            thinking=self._thinking,
            thinking_budget=self._thinking_budget,
            stream=True,
        )
        if not self._usage_in_stream:
            del body["stream_options"]
        return encode_body(body)

    def _attempt(self, body: bytes, on_text: Callable[[str], None], deadline_s: float) -> Reply:
        exchange = _Exchange(self._endpoint, self._proxy, self._tls, self._limits, self._now, deadline_s)
        try:
            response = exchange.send(self._headers(), body)
            if response.status != http.client.OK:
                raise self._status_error(exchange, response)
            return read_answer(exchange, self._new_id, on_text)
        finally:
            exchange.close()

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": "odek",
        }
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        return headers

    def _status_error(self, exchange: _Exchange, response: http.client.HTTPResponse) -> ModelError:
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

    def _learn(self, error: ModelError) -> bool:
        """Return whether the request failed only because of an option that can be left out."""
        refused = error.status in _BAD_REQUEST and "stream_options" in error.detail and self._usage_in_stream
        if refused:
            self._usage_in_stream = False
        return refused

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


class _Exchange:
    """One request and its answer, on a connection of their own."""

    def __init__(
        self,
        endpoint: Endpoint,
        proxy: Proxy | None,
        tls: ssl.SSLContext | None,
        limits: Limits,
        now: Callable[[], float],
        deadline_s: float,
    ) -> None:
        self._endpoint = endpoint
        self._proxy = proxy
        self._limits = limits
        self._idle_s = limits.idle_s
        self._now = now
        self._deadline_s = deadline_s
        self._connection = _connection(endpoint, proxy, tls, limits.connect_s)
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def who(self, status: int) -> str:
        """Return whom to blame in a message."""
        if self._proxy is not None and status == http.client.PROXY_AUTHENTICATION_REQUIRED:
            return f"the proxy {self._proxy.authority} ({self._proxy.variable})"
        return f"the model's server {self._endpoint.authority}"

    def send(self, headers: dict[str, str], body: bytes) -> http.client.HTTPResponse:
        """Send the request; return the answer, of which only the head has been read."""
        target = self._endpoint.target
        if self._proxy is not None and self._endpoint.scheme == "http":
            target = self._endpoint.url
            headers = headers | self._proxy.headers()
        with self._explained(f"no connection within {self._limits.connect_s:g} s"):
            self._connection.connect()
        self._socket = self._connection.sock
        with self._explained(f"nothing came for {self._idle_s:g} s"):
            self._arm()
            # a server that wants no more of the request may have answered nevertheless
            with suppress(BrokenPipeError):
                self._connection.request("POST", target, body=body, headers=headers)
            self._arm()
            self._response = self._connection.getresponse()
        return self._response

    def chunks(self) -> Iterator[bytes]:
        """Yield the decoded body as it arrives. Raises ModelUnreachable or ModelProtocolError."""
        assert self._response is not None
        decoder = BodyDecoder(self._response.headers.get("Content-Encoding", ""), limit_bytes=self._limits.body_bytes)
        # from 3.13 on the socket is gone as soon as the last announced byte has been read
        while not self._response.isclosed():
            with self._explained(f"nothing came for {self._idle_s:g} s", broken=True):
                self._arm()
                chunk = self._response.read1(_READ_BYTES)
            if not chunk:
                return
            yield from decoder.feed(chunk)

    def hasten(self) -> None:
        """Wait less from now on: what matters has arrived."""
        self._idle_s = min(self._idle_s, _AFTER_FINISH_S)

    def check_whole(self) -> None:
        """Raise ModelUnreachable (retryable) when fewer bytes came than the head had announced."""
        if self._response is not None and self._response.length:
            raise ModelUnreachable("the model's answer broke off before its end", retryable=True)

    def close(self) -> None:
        """Let go of the connection, whatever state it is in."""
        if self._response is not None:
            self._response.close()
        self._connection.close()

    def _arm(self) -> None:
        left_s = self._deadline_s - self._now()
        if left_s <= 0:
            raise self._too_long()
        assert self._socket is not None
        self._socket.settimeout(min(self._idle_s, left_s))

    def _too_long(self) -> ModelError:
        return ModelUnreachable(
            f"the model did not finish its answer within {self._limits.total_s:g} s ({self._endpoint.authority})"
        )

    @contextmanager
    def _explained(self, on_timeout: str, *, broken: bool = False) -> Iterator[None]:
        """Turn what the network can raise into a ModelError; `broken`: the answer had already begun."""
        try:
            yield
        except TimeoutError as error:
            if self._now() >= self._deadline_s:
                raise self._too_long() from error
            raise self._unreachable(on_timeout, broken=broken) from error
        except ssl.SSLCertVerificationError as error:
            raise ModelUnreachable(
                f"the certificate of {self._endpoint.authority} is not trusted: {visible(error.verify_message)}",
                hint="if the server has a CA of its own, name its file in SSL_CERT_FILE",
            ) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._tunnel_error(error) or self._unreachable(_reason(error), broken=broken) from error

    def _unreachable(self, reason: str, *, broken: bool) -> ModelError:
        if broken:
            return ModelUnreachable(f"the model's answer broke off before its end: {reason}", retryable=True)
        way = f" through the proxy {self._proxy.authority} ({self._proxy.variable})" if self._proxy else ""
        return ModelUnreachable(
            f"the model's server {self._endpoint.authority} could not be reached{way}: {reason}",
            hint="check base_url and the network; `odek config view` shows the settings in force",
            retryable=True,
        )

    def _tunnel_error(self, error: Exception) -> ModelError | None:
        """Return what a proxy's refusal of a CONNECT means; the standard library has but a text for it."""
        match = _TUNNEL_FAILURE.match(str(error))
        if match is None or self._proxy is None:
            return None
        server = f"the proxy {self._proxy.authority} ({self._proxy.variable})"
        return status_error(int(match[1]), match[2], "", server=server)


def _connection(
    endpoint: Endpoint, proxy: Proxy | None, tls: ssl.SSLContext | None, timeout_s: float
) -> http.client.HTTPConnection:
    host, port = (endpoint.host, endpoint.port) if proxy is None else (proxy.host, proxy.port)
    if tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    if proxy is not None:
        connection.set_tunnel(endpoint.host, endpoint.port, headers=proxy.headers())
    return connection


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return clip(visible(text), 200) or type(error).__name__
