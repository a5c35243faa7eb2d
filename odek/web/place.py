"""What the sessions of one server share, and what stays of each between its lives in this server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.app.attachments import Attachment
from odek.app.config import Config
from odek.app.isolation import CommandProfile
from odek.app.prepared_sandboxes import PreparedSandboxes, SandboxChanged
from odek.app.runtime import Runtime
from odek.approval.card import Person
from odek.errors import OdekError
from odek.events import ApprovalAnswered, ApprovalRequested, Event, Sink, TaskEvent, TurnEnded, to_json
from odek.redact import Redactor
from odek.redacted_events import RedactedEvents
from odek.sandbox.container.facts import ContainerFacts
from odek.text import visible
from odek.web.cards import Cards
from odek.web.errors import Refused
from odek.web.log import EventLog
from odek.web.view import View

if TYPE_CHECKING:
    from odek.app.shared_servers import SharedServers
    from odek.session.store import SessionStore

SURFACE = "a web page; the answer is shown as Markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What the sessions of one server share."""

    config: Config
    runtime: Runtime
    """of the server itself"""
    runtime_for: Callable[[Sink, Person], Runtime]
    """the effects of one session"""
    store: SessionStore
    redact: Redactor
    sandboxes: PreparedSandboxes | None
    """None: commands run on this host"""
    expected: ContainerFacts | None
    """what is known of the next container"""
    servers: SharedServers | None = None
    """of MCP; None: there are none"""
    server_states: Sequence[Mapping[str, object]] = ()
    """what became of each MCP server in the trial"""
    take_files: Callable[[Sequence[str], str], tuple[Attachment, ...]]
    """ids of uploads, and the session that gets them → the files. Raises Refused"""
    forget_files: Callable[[str], None]
    """of a session that is deleted"""
    log: Callable[[str], None]
    """one line for the operator"""
    debug: bool
    """whether a bug is shown with its traceback"""

    @property
    def profile(self) -> CommandProfile:
        return CommandProfile(command="serve", never_on_host=True, surface=SURFACE)


class Place:
    """What stays of a session between its lives in this server: its events and its view, for the pages that look."""

    def __init__(self, serving: Serving) -> None:
        settings = serving.config.settings.serve
        self.log = EventLog(serving.runtime.random_hex, state=lambda: self.state)
        self.view = View(serving.redact)
        self._seen = RedactedEvents(serving.redact)
        self.cards = Cards(
            log=self.log,
            limit_s=settings.approval_seconds,
            facts=lambda: self.view.container,
            clock=serving.runtime.clock,
        )
        self.busy = False
        """whether a turn or another job is under way; the log's lock is held"""
        self.is_ending = False
        """whether the turn under way has told its end, or the session ends"""
        self.live = False
        self.model = ""
        """that was chosen for the next life"""

    @property
    def is_unused(self) -> bool:
        """whether nothing would be missed with it"""
        return not (self.live or self.busy or self.model or self.log.has_readers)

    @property
    def state(self) -> str:
        with self.log.lock:
            if self.cards.open:
                return "asking"
            if self.busy:
                return "working"
            return "lost" if self.view.lost else "idle"

    def put(self, event: Event) -> None:
        """Log an event, without secrets, and change the view with it."""
        inner = event.event if isinstance(event, TaskEvent) else event
        if isinstance(inner, (ApprovalRequested, ApprovalAnswered)):  # the cards say it themselves
            return
        for seen in self._seen.take(event):
            data = to_json(seen)
            with self.log.lock:
                self.is_ending |= isinstance(seen, TurnEnded)
                self.view.take(data)
                if data["event"] in ("model_replied", "turn_ended") and "task" not in data:
                    data["context"] = self.view.context
                self.log.add(data)


def require_unchanged(sandboxes: PreparedSandboxes, runtime: Runtime) -> None:
    """Raise Refused when a container cannot be started now (R-140)."""
    try:
        sandboxes.require_unchanged(runtime)
    except SandboxChanged as error:
        raise Refused.because(error, status=409, code="changed") from error
    except OdekError as error:
        raise Refused.because(error, status=503, code="sandbox") from error


def require_ours(cwd: str, sandboxed: bool, serving: Serving) -> None:
    """Raise Refused for a session that cannot go on in this server (R-132)."""
    refusal = why_not_ours(cwd, sandboxed, serving)
    if refusal is not None:
        raise refusal


def why_not_ours(cwd: str, sandboxed: bool, serving: Serving) -> Refused | None:
    """Return why a session cannot go on in this server: its folder, or where it was begun."""
    if cwd and cwd != serving.runtime.host.cwd:
        hint = "start `odek serve` there, or go on with `odek continue --here`"
        return Refused(409, "elsewhere", f'the session worked in "{visible(cwd)}"', hint)
    if serving.sandboxes is not None and not sandboxed:
        return Refused(
            409, "begun_on_host", "the session was begun on this host, and this server works in sandboxes",
            "`odek continue` goes on with it",
        )  # fmt: skip
    if serving.sandboxes is None and sandboxed:
        return Refused(
            409, "begun_in_sandbox", "the session was begun in a sandbox, and this server works on the host",
            "`odek continue` goes on with it",
        )  # fmt: skip
    return None
