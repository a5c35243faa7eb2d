"""Questions to the user of a client, as forms (R-179): a request of ours in the legacy era, a result in the modern one.

A modern client gets the question as the result of its call, and makes the call again with the answer and with the
state that came along. That state is ours: signed, for this very call, good once and for ten minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from odek.approval.card import Answer, Card, Person, Unanswered, card_to_json
from odek.approval.display import command_rows, field, readable
from odek.mcp.messages import Json
from odek.mcp_server.place import Place
from odek.mcp_server.server import AskClient, ToolCall
from odek.text import truncate, visible

ANSWER_S = 300.0
STATE_S = 600.0
TEXT_LIMIT = 2000
"""characters that can be read in a form"""
_REASON_LIMIT = 300
_QUESTION = "approval"
_YES = "allow once"
_METHOD = "elicitation/create"
_FORM = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "whether the operation above may happen, this once",
            "enum": ["deny", _YES],
        }
    },
    "required": ["decision"],
}


class FormAsked(BaseException):
    """A call ends here: its result is a question. Nothing of it has happened (as Cancelled, no handler takes it)."""

    def __init__(self, digest: str, text: str) -> None:
        super().__init__(digest)
        self.digest = digest
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What the user of a modern client has answered so far about one call."""

    granted: frozenset[str] = frozenset()
    """digests of the cards that were allowed"""
    asked: str = ""
    """digest of the card that `answer` is about; "" where none was asked"""
    answer: Mapping[str, Any] | None = None


def person_for(
    call: ToolCall, approval: Approval, place: Place, *, ask: AskClient, redact: Callable[[str], str]
) -> Person | None:
    """Return who decides on the operations of `call`; None where its client can ask nobody, or is not to."""
    setting = place.config.settings.mcp_elicitation
    if not may_ask(forms=call.forms, sandboxed=place.decision.sandboxed, setting=setting):
        return None
    return ModernUser(approval, redact) if call.modern else LegacyUser(ask, redact)


def may_ask(*, forms: bool, sandboxed: bool, setting: bool | None) -> bool:
    """Return whether a client's user is asked; `setting` is mcp.elicitation, None where it is not set. Pure."""
    return forms and (sandboxed if setting is None else setting)


class LegacyUser:
    """The user of a client that waits for our requests."""

    def __init__(self, ask: AskClient, redact: Callable[[str], str]) -> None:
        self._ask = ask
        self._redact = redact

    def decide(self, card: Card) -> Answer:
        """See Person."""
        if "singly" in card.answers:
            return "singly"
        response = self._ask(_METHOD, {"message": form_text(card, self._redact), "requestedSchema": _FORM}, ANSWER_S)
        if response is None:
            raise Unanswered(f"nobody answered within {ANSWER_S / 60:.0f} minutes")
        if response.error is not None:
            raise Unanswered(f"the client could not ask: {truncate(visible(response.error.message), 200)}")
        return read_answer(card, response.result)


class ModernUser:
    """The user of a client that makes a call again with the answer."""

    def __init__(self, approval: Approval, redact: Callable[[str], str]) -> None:
        self._approval = approval
        self._redact = redact

    def decide(self, card: Card) -> Answer:
        """See Person. Raises FormAsked for a card that was not answered yet."""
        if "singly" in card.answers:
            return "singly"
        digest = str(card_to_json(card)["digest"])
        if digest in self._approval.granted:
            return card.answers[0]
        if digest == self._approval.asked:
            return read_answer(card, self._approval.answer)
        raise FormAsked(digest, form_text(card, self._redact))


class ApprovalStates:
    """Makes and takes the states that travel with modern questions; may be used by several threads."""

    def __init__(
        self,
        *,
        key: bytes | None = None,
        clock: Callable[[], float] = time.monotonic,
        new_nonce: Callable[[], str] = lambda: os.urandom(16).hex(),
    ) -> None:
        self._key = key or os.urandom(32)
        self._clock = clock
        self._new_nonce = new_nonce
        self._used: dict[str, float] = {}
        """nonce → when its state ends"""
        self._lock = Lock()

    def question(self, call: ToolCall, before: Approval, asked: FormAsked) -> Json:
        """Return the result that asks."""
        granted = before.granted | ({before.asked} if before.asked and is_yes(before.answer) else set())
        body = json.dumps(
            {
                "call": digest_of(call),
                "granted": sorted(granted),
                "asked": asked.digest,
                "nonce": self._new_nonce(),
                "until": self._clock() + STATE_S,
            }
        ).encode()
        form = {"mode": "form", "message": asked.text, "requestedSchema": _FORM}
        return {
            "resultType": "input_required",
            "inputRequests": {_QUESTION: {"method": _METHOD, "params": form}},
            "requestState": f"{urlsafe_b64encode(body).decode()}.{self._sign(body)}",
        }

    def resume(self, call: ToolCall) -> Approval:
        """Return what was answered about `call`. Raises ValueError for a state that does not count for it."""
        if not call.state:
            return Approval()
        coded, _, signature = call.state.rpartition(".")
        try:
            body = b64decode(coded.encode("ascii", "replace"), altchars=b"-_", validate=True)
        except (Base64Error, ValueError):
            body = b""
        if not body or not hmac.compare_digest(self._sign(body).encode(), signature.encode("utf-8", "replace")):
            raise ValueError("the requestState is not one of this server")
        state: dict[str, Any] = json.loads(body)
        if state["call"] != digest_of(call):
            raise ValueError("the requestState is of another call")
        with self._lock:
            now = self._clock()
            self._used = {nonce: until for nonce, until in self._used.items() if until > now}
            if state["until"] <= now:
                raise ValueError(f"nobody answered within {STATE_S / 60:.0f} minutes")
            if state["nonce"] in self._used:
                raise ValueError("the requestState was used before")
            self._used[state["nonce"]] = state["until"]
        answer = call.answers.get(_QUESTION)
        return Approval(
            granted=frozenset(state["granted"]),
            asked=state["asked"],
            answer=answer if isinstance(answer, dict) else None,
        )

    def _sign(self, body: bytes) -> str:
        return hmac.new(self._key, body, hashlib.sha256).hexdigest()


def digest_of(call: ToolCall) -> str:
    """Return the digest of what a call does. Pure."""
    text = json.dumps([call.name, call.arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_yes(answer: Mapping[str, Any] | None) -> bool:
    """Return whether the answer to a form allows. Pure."""
    return answer is not None and answer.get("action") == "accept" and answer.get("content") == {"decision": _YES}


def read_answer(card: Card, answer: Mapping[str, Any] | None) -> Answer:
    """Return what a form says about `card`. Raises Unanswered for whatever is neither yes nor no. Pure."""
    if is_yes(answer):
        return card.answers[0]
    action = answer.get("action") if answer else None
    if action == "decline":
        raise Unanswered("the client, or its user, declined")
    if action == "cancel":
        raise Unanswered("the question was dismissed")
    if action == "accept" and answer is not None and answer.get("content") == {"decision": "deny"}:
        return card.refusal
    raise Unanswered("the client gave no valid answer")


def form_text(card: Card, redact: Callable[[str], str]) -> str:
    """Return the card in plain text. Raises Unanswered when it is too long to be read in a form. Pure."""
    (item,) = card.items
    operation = item.operation
    rows = (
        f"A tool call needs approval (class {', '.join(map(readable, item.classes))})",
        *field("runs on", visible(card.place)),
        *field("risk", readable(item.risk)),
        *(field("reason", truncate(readable(operation.reason), _REASON_LIMIT)) if operation.reason else ()),
        f"  {operation.kind}:",
        *command_rows(operation.text),
    )
    text = redact("\n".join(rows))
    if len(text) > TEXT_LIMIT:
        raise Unanswered(f"longer than the {TEXT_LIMIT} characters that can be read in a form")
    return text
