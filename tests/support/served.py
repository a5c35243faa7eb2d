"""The live sessions of `odek serve` without HTTP, in this process: on the host, or on a real engine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fakes.layering import make_host, make_layers
from fakes.model import ScriptedModel

from odek.app.attachments import Attachment, read_ctx_files
from odek.app.config import config_of
from odek.app.runtime import Runtime, random_hex
from odek.approval.card import Person
from odek.events import Sink
from odek.host import Host
from odek.model.types import Message, Model, Reply, ToolSpec
from odek.sandbox.docker import Docker, NoDocker
from odek.web.live import LiveSessions
from odek.web.log import Subscription
from odek.web.opening import Prepared, open_sessions, prepare_serving

PATIENCE_S = 30.0


class Gate:
    """A model that waits in each request until the test lets it answer, or its work is cancelled."""

    def __init__(self, replies: Sequence[Reply | BaseException]) -> None:
        self.inner = ScriptedModel(replies)
        self.arrived = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        from odek.cancel import current_token

        self.arrived.release()
        while not self.let_go.acquire(timeout=0.02):
            current_token().raise_if_cancelled()
        return self.inner.complete(messages, tools, on_text)

    def connect(self) -> None:
        self.inner.connect()

    def window(self, conversation_tokens: int) -> int | None:
        return self.inner.window(conversation_tokens)


@dataclass
class Served:
    """See the module; `close` ends it."""

    root: Path
    docker: Docker = field(default_factory=NoDocker)
    operator: Mapping[str, object] = field(default_factory=dict)
    project: Mapping[str, object] | None = None
    flags: Mapping[str, object] = field(default_factory=lambda: {"sandbox": False})
    env: Mapping[str, str] = field(default_factory=dict)
    answer: str = "once"
    """of the operator, to what the project asks for"""
    models: list[Model] = field(default_factory=list)
    """for the sessions, in the order in which they are opened"""
    uploads: dict[str, Attachment] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """the log"""
    asked: list[Any] = field(default_factory=list)
    now: Callable[[], float] = time.monotonic
    live: LiveSessions = field(init=False)
    prepared: Prepared = field(init=False)
    _last: Model = field(init=False)

    def __post_init__(self) -> None:
        env = {"PATH": os.environ["PATH"], **self.env}
        host = make_host(self.root, env, uid=os.getuid())
        status = os.stat(host.cwd)
        self.host: Host = replace(host, gid=os.getgid(), pid=os.getpid(), cwd_id=(status.st_dev, status.st_ino))
        os.chmod(self.host.operator_home.folder, 0o700)

    def open(self) -> LiveSessions:
        """Prepare and open."""
        operator = {"model": "scripted", "base_url": "http://127.0.0.1:9/v1", **self.operator}
        env = {"ODEK_SUPPRESS_SANDBOX_WARNING": "1", **self.env}
        config = config_of(make_layers(operator=operator, project=self.project, env=env, flags=self.flags))
        runtime = Runtime(
            host=self.host,
            docker=self.docker,
            new_model=lambda _: self._next_model(),
            emit=lambda event: self.lines.append(str(event)),
            operator=self,
            person=None,
            random_hex=random_hex,
        )
        self.prepared = prepare_serving(config, replace(runtime, new_model=lambda _: ScriptedModel(())))

        def runtime_for(emit: Sink, person: Person) -> Runtime:
            return replace(runtime, emit=emit, person=person)

        self.live = open_sessions(
            self.prepared, config, runtime, runtime_for=runtime_for, take_files=self.take, log=self.lines.append,
            forget_files=self.forgotten.append, debug=True,
        )  # fmt: skip
        return self.live

    def _next_model(self) -> Model:
        """Return the next model, and for a second container of a session the one that there is."""
        self._last = self.models.pop(0) if self.models else self._last
        return self._last

    def approve_project(self, request: Any) -> Any:
        """See Operator."""
        self.asked.append(request)
        return self.answer

    def take(self, ids: Sequence[str], session: str) -> tuple[Attachment, ...]:
        del session
        return tuple(self.uploads[each] for each in ids)

    def upload(self, name: str, data: bytes) -> str:
        """Keep a file outside of the working directory; return its id."""
        path = self.root / name
        path.write_bytes(data)
        (self.uploads[name],) = read_ctx_files((str(path),), cwd=self.host.cwd, home=self.host.home)
        return name

    def script(self, *replies: Reply | BaseException) -> ScriptedModel:
        """Let the next session be answered with `replies`."""
        model = ScriptedModel(replies)
        self.models.append(model)
        return model

    def gate(self, *replies: Reply | BaseException) -> Gate:
        """The same with a model that waits."""
        model = Gate(replies)
        self.models.append(model)
        return model

    def close(self) -> None:
        if hasattr(self, "live"):
            assert self.live.close_all(PATIENCE_S)

    def until(self, session: str, kind: str, *, after: str | None = None) -> list[Mapping[str, Any]]:
        """Return the events of a session up to the first of `kind`."""
        reader = self.live.subscribe(session, after)
        try:
            return read_until(reader, kind)
        finally:
            reader.close()

    def settled(self, session: str) -> dict[str, Any]:
        """Return the snapshot when no turn is under way."""
        return self.when(session, lambda snapshot: snapshot["state"] in ("idle", "lost"))

    def when(self, session: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first snapshot for which `holds`."""
        return wait_for(lambda: (found := self.live.snapshot(session)) and holds(found) and found)

    def finish(self, text: str, session: str = "", files: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
        """Do a whole turn; return the session and its snapshot."""
        if session:
            self.live.start_turn(session, text, files, random_hex(8))
        else:
            session = str(self.live.create(text, files, random_hex(8))["id"])
        return session, self.settled(session)


def wait_for(look: Callable[[], Any]) -> Any:
    """Return the first true value of `look`."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def read_until(reader: Subscription, kind: str) -> list[Mapping[str, Any]]:
    """Return what `reader` gets up to the first event of `kind`."""
    seen: list[Mapping[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        events = reader.next(1.0)
        assert events is not None, f"no {kind} in {[event['event'] for event in seen]}"
        for event in events:
            seen.append(event.data)
            if event.kind == kind:
                return seen
    raise AssertionError(f"no {kind} in {[event['event'] for event in seen]}")
