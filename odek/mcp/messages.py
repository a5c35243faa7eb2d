"""Messages of the Model Context Protocol over stdin and stdout, in both of its eras. Pure.

A message is one line of JSON-RPC. In the legacy era a handshake (`initialize`) settles the version for the process; in
the modern one (from 2026-07-28 on) each request carries its version and its client's capabilities in `_meta`, results
carry their kind, and a server asks nothing of its own accord.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from odek import json_text

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""the newest first"""
BATCHES = "2025-03-26"
"""the one version in which a line may hold a list of messages"""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_BOM = b"\xef\xbb\xbf"
_MAX_DIGITS = 300
_INFINITE = float("inf")
Id = int | str
Json = dict[str, Any]


class RpcError(Exception):
    """An answer that is an error, or the reason for one: a code of JSON-RPC and one sentence."""

    def __init__(self, code: int, message: str, *, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message that wants an answer."""

    id: Id
    method: str
    params: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """what comes with the parameters: version, capabilities, the token of progress"""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to a request: a result, or an error."""

    id: Id | None
    """None: the other side could not tell which request its error is about"""
    result: Mapping[str, Any] | None = None
    error: RpcError | None = None


Message = Request | Notification | Response


def encode(message: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """Return a message, or the list of answers to a batch, as its line.

    It is ASCII, so that no reader can stumble over an encoding or a line separator.
    """
    return json_text.dumps(message).encode("ascii") + b"\n"


def decode(line: bytes) -> object:
    """Return the JSON value of a line; CR LF at its end and a byte order mark do no harm. Raises RpcError."""
    try:
        text = line.removeprefix(_BOM).decode("utf-8")
        return json_text.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, "the line is not JSON in UTF-8") from error


def message_of(value: object) -> Message:
    """Return what a value is as a message. Raises RpcError.

    Parameters that are not an object raise INVALID_PARAMS in a request and are dropped in a notification.
    """
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "a message must be an object")
    if value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message must have "jsonrpc":"2.0"')
    if "method" not in value:
        return _response_of(value)
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, '"method" must be a string')
    if "id" not in value:
        return Notification(method=method, params=params if isinstance(params, dict) else {})
    found = id_of(value)
    if found is None:
        raise RpcError(INVALID_REQUEST, '"id" must be a string or a whole number')
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, '"params" must be an object')
    return Request(id=found, method=method, params=params)


def id_of(value: object) -> Id | None:
    """Return the id of a message, also of one that is otherwise wrong; None where it has no valid one."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, (int, str)) and not isinstance(found, bool) else None


def request(id: Id, method: str, params: Mapping[str, Any]) -> Json:  # noqa: A002 - the protocol's word
    """Return a request, to be encoded."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Json:
    """Return a notification, to be encoded."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def result(id: Id, value: Mapping[str, Any]) -> Json:  # noqa: A002 - the protocol's word
    """Return the answer to a request, to be encoded."""
    return {"jsonrpc": "2.0", "id": id, "result": value}


def failure(id: Id | None, error: RpcError) -> Json:  # noqa: A002 - the protocol's word
    """Return an answer that is an error, to be encoded; `id` None: the request cannot be named."""
    body: Json = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": id, "error": body}


def envelope(*, version: str, capabilities: Mapping[str, Any], client: Mapping[str, Any]) -> Json:
    """Return the `_meta` that a modern client puts into each request."""
    return {VERSION_KEY: version, CAPABILITIES_KEY: capabilities, CLIENT_KEY: client}


def modern_capabilities(asked: Request) -> Mapping[str, Any] | None:
    """Return the client's capabilities of a modern request; None: it is a legacy one. Raises RpcError."""
    version, capabilities = asked.meta.get(VERSION_KEY), asked.meta.get(CAPABILITIES_KEY)
    if VERSION_KEY not in asked.meta:
        return None
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f'"_meta" must have "{VERSION_KEY}" as a string')
    if version != MODERN:
        supported = [MODERN, *LEGACY]
        data = {"supported": supported, "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, f"unsupported version; supported: {', '.join(supported)}", data=data)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f'"_meta" must have "{CAPABILITIES_KEY}" as an object')
    return capabilities


def _response_of(value: Json) -> Response:
    found, error, outcome = id_of(value), value.get("error"), value.get("result")
    if isinstance(error, dict):
        code, words = error.get("code"), error.get("message")
        known = RpcError(
            code if isinstance(code, int) else INTERNAL_ERROR,
            words if isinstance(words, str) else "",
            data=error["data"] if isinstance(error.get("data"), dict) else None,
        )
        return Response(id=found, error=known)
    if found is None or not isinstance(outcome, dict):
        raise RpcError(INVALID_REQUEST, "a message must have a method, a result or an error")
    return Response(id=found, result=outcome)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # the time that int() takes grows with the square
        raise ValueError("a number is too large")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (_INFINITE, -_INFINITE):
        raise ValueError("a number is too large")
    return number
