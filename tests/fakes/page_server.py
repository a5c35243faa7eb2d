"""A server of `odek serve`, its HTTP real and its sessions scripted: for states of the page that are hard to reach."""

from __future__ import annotations

import hashlib
import itertools
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from odek.errors import OdekError
from odek.web.errors import Refused
from odek.web.guard import names_of
from odek.web.logins import Logins
from odek.web.server import Server
from odek.web.service import Service

TOKEN = "0123456789abcdef" * 4
FOLDER = "/home/ada/src/slugify"
SANDBOX: dict[str, Any] = {
    "enabled": True,
    "network": "none",
    "internet": False,
    "networks": [],
    "image": "odek-sandbox:1",
    "image_id": "sha256:6f1d0b3a9f4c2e7788aa55d2c1b0",
    "pids_limit": 4096,
    "memory": "2g",
    "cpus": None,
    "readonly": False,
    "user": "1000:1000",
    "volumes": [],
}
_STREAM_IS_THERE_S = 10.0
_PORT_IS_FREE_S = 10.0


def id_of(name: str) -> str:
    """Return the id of the scripted session `name`."""
    return f"20261130-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class Pushed:
    """An event as the log of a session has it."""

    id: str | None
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class Pushes:
    """One subscription."""

    owner: list[Pushes]
    events: queue.SimpleQueue[list[Pushed] | None] = field(default_factory=queue.SimpleQueue)

    def next(self, timeout_s: float) -> Sequence[Pushed] | None:
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return []

    def close(self) -> None:
        if self in self.owner:
            self.owner.remove(self)


@dataclass(slots=True)
class Scripted:
    """What one session is."""

    snapshot: dict[str, Any]
    entries: list[dict[str, Any]]
    streams: list[Pushes] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """approvals that were answered"""


class PageServer:
    """The server, and the sessions that it shows (`odek.web.routes.Live`); tests change its fields and push events."""

    def __init__(self) -> None:
        self.sessions: dict[str, Scripted] = {}
        self.damaged: list[dict[str, str]] = []
        self.refusal: dict[str, str] | None = None
        self.sandboxed = True
        self.planned = dict(SANDBOX)
        self.calls: list[tuple[Any, ...]] = []
        """everything that was asked for, reading apart"""
        self.refuse: dict[str, Refused] = {}
        """name of a method → what it raises"""
        self.files: list[dict[str, Any]] = [
            {"path": "docs", "folder": True, "size": 0},
            {"path": "slugify.sh", "folder": False, "size": 812},
            {"path": "test.sh", "folder": False, "size": 1204},
        ]
        self.on_turn: Callable[[str, str], None] | None = None
        self.delay = threading.Event()
        self.delay.set()
        """while it is clear, snapshots wait"""
        self.log: list[str] = []
        self.bugs: list[Exception] = []
        self._numbers = itertools.count(1)
        self._start(0)

    # ---- the server

    def _start(self, port: int) -> None:
        self.http = Server("127.0.0.1", port, patience_s=3600)
        self.port = self.http.port
        self.logins = Logins(TOKEN, random_hex=lambda size: os.urandom(size).hex(), now=time.monotonic)
        service = Service(
            names=names_of(self.port, ()),
            cookie_name=f"odek_{self.port}",
            logins=self.logins,
            live=self,
            uploads=self,
            find_files=lambda q, limit: [one for one in self.files if one["path"].startswith(q)][:limit],
            random_hex=lambda size: os.urandom(size).hex(),
            now=time.monotonic,
            log=self.log.append,
            show_bug=self.bugs.append,
        )
        self.http.start(service)
        self.running = True

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def url(self) -> str:
        return f"{self.origin}#token={TOKEN}"

    def stop(self) -> None:
        """End the server, and each stream with it."""
        self.delay.set()
        for session in self.sessions.values():
            for stream in list(session.streams):
                stream.events.put(None)
        if self.running:
            self.running = False
            self.http.stop()
            for connection in tuple(self.http._connections._waiting_since):  # as at the end of a process
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def restart(self, port: int | None = None) -> None:
        """Serve again, on the same port unless given; it is a new server, so every browser is signed out."""
        deadline = time.monotonic() + _PORT_IS_FREE_S
        while True:  # threads of the one before may still hold connections, which end with the process elsewhere
            try:
                return self._start(self.port if port is None else port)
            except OdekError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    # ---- the script

    def add(self, name: str, entries: Sequence[dict[str, Any]] = (), **fields: Any) -> Scripted:
        """Add a session with `entries`, which get their numbers, and `fields` of its snapshot."""
        snapshot = {
            "id": id_of(name),
            "title": name,
            "created_at": "2026-11-30T10:00:00Z",
            "updated_at": "2026-11-30T10:05:00Z",
            "turns": 1,
            "model": "gpt-5",
            "cwd": FOLDER,
            "sandbox": self.sandboxed,
            "writable": {"ok": True},
            "state": "idle",
            "turn": None,
            "approvals": [],
            "container": None,
            "last_event": "",
            "usage": {"input_tokens": 41_200, "output_tokens": 1860, "cached_tokens": 35_000},
            "context": {"tokens": 31_000, "window": 128_000},
        }
        session = Scripted(snapshot | fields, [{"n": number, **entry} for number, entry in enumerate(entries, 1)])
        self.sessions[id_of(name)] = session
        return session

    def push(self, name: str, kind: str, /, **fields: Any) -> None:
        """Send an event to every stream of a session."""
        transient = kind in ("reset", "crowded", "bye", "tool_output")
        event = Pushed(None if transient else f"5f0c11aa.{next(self._numbers)}", kind, {"event": kind, **fields})
        for stream in list(self.sessions[id_of(name)].streams):
            stream.events.put([event])

    def wait_for_stream(self, name: str, count: int = 1) -> None:
        """Wait until a session has `count` streams."""
        deadline = time.monotonic() + _STREAM_IS_THERE_S
        while len(self.sessions[id_of(name)].streams) < count:
            assert time.monotonic() < deadline, f"no stream of {name}"
            time.sleep(0.01)

    # ---- what the routes ask for

    def state(self) -> dict[str, object]:
        self._maybe_refuse("state")
        live = [
            {"id": one.snapshot["id"], "title": one.snapshot["title"], "state": one.snapshot["state"]}
            for one in self.sessions.values()
            if one.snapshot["container"] or one.snapshot["state"] != "idle"
        ]
        shown = {"folder": FOLDER, "version": "0.1.0", "sandbox": self.sandboxed, "model": "gpt-5"}
        return {**shown, "sessions": live, "refusal": self.refusal}

    def config(self, session_id: str | None) -> dict[str, object]:
        source = {"model": "global", "sandbox_memory": "flag", "sandbox_network": "default"}
        common = {"model": "gpt-5", "base_url": "api.openai.com", "max_iterations": 60, "interaction_mode": "ask"}
        if session_id is not None:
            return {**common, "sandbox": self.planned, "source": source}
        return {**common, "planned": self.planned if self.sandboxed else {"enabled": False}, "source": source}

    def list(self, limit: int, before: str | None, q: str) -> dict[str, object]:
        del before
        keys = ("id", "title", "cwd", "updated_at", "turns", "model")
        found = [one.snapshot for one in self.sessions.values() if q.lower() in one.snapshot["title"].lower()]
        shown = [{key: one[key] for key in keys} for one in found[:limit]]
        return {"sessions": shown, "next": None, "damaged": self.damaged}

    def create(self, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        self._maybe_refuse("create")
        self.calls.append(("create", text, tuple(files), request_id))
        name = f"new {next(self._numbers)}"
        turn = {"turn": 1, "text": text, "partial": "", "running": []}
        self.add(name, [{"kind": "user", "text": text}], title=text[:60], state="working", turn=turn)
        return {"id": id_of(name), "turn": 1}

    def snapshot(self, session_id: str) -> dict[str, object]:
        self.delay.wait()
        session = self._known(session_id)
        writable = session.snapshot["writable"]
        if writable.get("code") == "damaged":
            raise Refused(409, "damaged", writable["message"], "see `odek session list`")
        return {**session.snapshot, "entries": session.entries[-100:], "first": 1}

    def entries(self, session_id: str, before: int | None, limit: int) -> dict[str, object]:
        entries = self._known(session_id).entries
        return {"entries": [one for one in entries if before is None or one["n"] < before][-limit:], "first": 1}

    def start_turn(self, session_id: str, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        self._known(session_id)
        self._maybe_refuse("start_turn")
        self.calls.append(("turn", text, tuple(files), request_id))
        if self.on_turn:
            self.on_turn(session_id, text)
        return {"turn": 2}

    def cancel(self, session_id: str, turn: int) -> bool:
        self._known(session_id)
        self.calls.append(("cancel", turn))
        return True

    def undo(self, session_id: str) -> dict[str, object]:
        self.calls.append(("undo", session_id))
        return {"turns": 0}

    def set_model(self, session_id: str, name: str) -> dict[str, object]:
        self.calls.append(("model", session_id, name))
        return {"model": name}

    def sandbox(self, session_id: str, action: str) -> None:
        self.calls.append(("sandbox", session_id, action))

    def answer(
        self, session_id: str, approval_id: str, answer: str, digest: str, confirm: str | None
    ) -> dict[str, object]:
        session = self._known(session_id)
        self.calls.append(("answer", approval_id, answer, digest, confirm))
        self._maybe_refuse("answer")
        if approval_id in session.answers:
            raise Refused(409, "settled", "answered already", extra={"answer": session.answers[approval_id]})
        card = next(one for one in session.snapshot["approvals"] if one["id"] == approval_id)
        if digest != card["digest"] or (card["hasty"] and confirm != "approve"):
            raise Refused(422, "digest", "this is not what was asked")
        session.answers[approval_id] = answer
        session.snapshot["approvals"] = [one for one in session.snapshot["approvals"] if one["id"] != approval_id]
        event = {"event": "approval_settled", "id": approval_id, "answer": answer, "how": "person"}
        for stream in list(session.streams):
            stream.events.put([Pushed(f"5f0c11aa.{next(self._numbers)}", "approval_settled", event)])
        return {"answer": answer, "at": "2026-11-30T10:06:00Z"}

    def cancel_task(self, session_id: str, task_id: str) -> None:
        self.calls.append(("cancel_task", session_id, task_id))

    def delete(self, session_id: str) -> None:
        self.calls.append(("delete", session_id))
        del self.sessions[session_id]

    def subscribe(self, session_id: str, after: str | None) -> Pushes:
        del after
        session = self._known(session_id)
        made = Pushes(session.streams)
        hello = {"event": "hello", "state": session.snapshot["state"], "last": ""}
        made.events.put([Pushed(None, "hello", hello)])
        session.streams.append(made)
        return made

    # ---- uploads

    def reserve(self, size: int) -> None:
        """There is room for everything."""

    def release(self, size: int) -> None:
        """There is room for everything."""

    def keep(self, name: str, data: bytes, browser: str) -> dict[str, object]:
        del browser
        self._maybe_refuse("keep")
        self.calls.append(("upload", name, data))
        return {"id": f"u{next(self._numbers)}", "name": name, "size": len(data)}

    def drop(self, upload_id: str) -> None:
        self.calls.append(("drop", upload_id))

    def _known(self, session_id: str) -> Scripted:
        if session_id not in self.sessions:
            raise Refused(404, "not_found", "there is no such session")
        return self.sessions[session_id]

    def _maybe_refuse(self, method: str) -> None:
        if refused := self.refuse.get(method):
            raise refused
