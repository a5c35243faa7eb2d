"""One server of `odek serve`, from its start to its end.

What can fail fails at the start: settings, the model's key, networks, the project's request, image, one container on
trial, the socket. Then the URL is printed, and nothing else on stdout.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from odek.app.config import Config
from odek.app.file_names import find_names
from odek.app.model import make_model
from odek.app.runtime import Runtime
from odek.approval.card import Person
from odek.cli import signals
from odek.cli.console import print_notice
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.config.serve import split_addr
from odek.demo.recording import TASK
from odek.errors import EXIT_BUG, Interrupted, StateFileError, UsageError
from odek.events import Event, Notice, Sink
from odek.host import Host
from odek.session.files import SessionFolder
from odek.web.errors import Refused
from odek.web.guard import is_loopback, names_of
from odek.web.live import LiveSessions
from odek.web.logins import Logins
from odek.web.opener import Opener
from odek.web.opening import open_sessions, prepare_serving
from odek.web.server import Server
from odek.web.service import Service
from odek.web.uploads import Uploads

_ENDS_WITHIN_S = 8.0
_SESSIONS_END_WITHIN_S = 6.0
_STREAMS_END_WITHIN_S = 1.0
_TIDY_S = 60.0
_MOST_NAMES = 50


def serve(config: Config, host: Host, terminal: Terminal, stack: ExitStack, *, opens: bool, is_demo: bool) -> int:
    """Serve until a signal comes. Raises Interrupted then, and OdekError where there can be no server.

    `stack` ends what was begun; `opens`: the system's browser is to be opened.
    """
    _warn_of_address(config, terminal)
    console = _Console(terminal, debug="ODEK_DEBUG" in host.env)
    runtime = replace(terminal_runtime(host, terminal), emit=console.emit)
    return _Serving(config, host, runtime, console, opens=opens, is_demo=is_demo).run(stack)


@dataclass(slots=True)
class _Console:
    """The terminal, for many threads."""

    terminal: Terminal
    debug: bool
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, text: str) -> None:
        with self.lock:
            self.terminal.note(text)

    def emit(self, event: Event) -> None:
        with self.lock:
            print_notice(self.terminal, event)

    def bug(self, error: Exception) -> None:
        with self.lock:
            self.terminal.bug(error, debug=self.debug, code=EXIT_BUG)


@dataclass(slots=True)
class _Serving:
    """One server, from its preparation to its end."""

    config: Config
    host: Host
    runtime: Runtime
    console: _Console
    opens: bool
    """whether the system's browser is to be opened"""
    is_demo: bool

    def run(self, stack: ExitStack) -> int:
        """Prepare, then serve until a signal comes. Raises Interrupted, and OdekError before there is a server."""
        runtime, console = self.runtime, self.console
        sessions = SessionFolder(self.host.operator_home)
        require_kept(sessions, runtime.random_hex(16))
        prepared = prepare_serving(self.config, runtime)
        if prepared.servers is not None:
            stack.callback(prepared.servers.close)
        uploads = Uploads(self.host.operator_home, random_hex=runtime.random_hex, clock=runtime.clock)
        live = open_sessions(
            prepared,
            self.config,
            runtime,
            runtime_for=partial(runtime_for, runtime),
            take_files=uploads.take,
            forget_files=uploads.forget,
            log=console.note,
            debug=console.debug,
        )
        token = runtime.random_hex(32)
        server = Server(*split_addr(self.config.settings.serve.addr))
        stack.callback(server.stop)
        uploads.sweep(lambda name: any(sessions.exists(f"{name}{suffix}") for suffix in (".jsonl", ".json")))
        stack.callback(uploads.close)
        address = shown_address(self.config, server.port)
        opener = Opener(self.host, random_hex=runtime.random_hex, clock=runtime.clock, note=console.note)
        stack.callback(opener.done)
        service = self._service(live, uploads, token, server.port, on_login=self._on_login(opener, live))
        server.start(service)
        try:
            self._announce(f"http://{address}/#token={token}", address, opener)
            while True:
                time.sleep(_TIDY_S)
                uploads.expire()
        except Interrupted as interruption:
            signals.leave_within(_ENDS_WITHIN_S, interruption.exit_code)
            _end(server, service, live, interruption.signal_number)
            raise

    def _service(
        self, live: LiveSessions, uploads: Uploads, token: str, port: int, *, on_login: Callable[[], None]
    ) -> Service:
        runtime, console = self.runtime, self.console
        return Service(
            names=names_of(port, self.config.settings.serve.hosts),
            cookie_name=f"odek_{port}",
            logins=Logins(token, random_hex=runtime.random_hex, now=time.monotonic),
            live=live,
            uploads=uploads,
            find_files=partial(_find_files, self.host.cwd),
            random_hex=runtime.random_hex,
            now=time.monotonic,
            log=console.note,
            show_bug=console.bug,
            on_login=on_login,
            logs_requests=console.debug,
        )

    def _on_login(self, opener: Opener, live: LiveSessions) -> Callable[[], None]:
        due = self.is_demo

        def on_login() -> None:
            nonlocal due
            opener.done()
            if due:  # once, however many browsers come: the recording fits only a project that it has not changed
                try:
                    live.create(TASK, (), "demo")  # at the same time: under one id
                    due = False
                except Refused as refused:
                    self.console.note(refused.message)

        return on_login

    def _announce(self, url: str, address: str, opener: Opener) -> None:
        """Print the URL, now that it is answered. Its token stands in the fragment, which browsers send to nobody."""
        terminal = self.console.terminal
        terminal.note("sessions of this folder are served; Ctrl-C ends")
        event = {"event": "serving", "url": url, "addr": address, "pid": self.host.pid}
        terminal.answer(json.dumps(event) if self.config.settings.json else url)
        terminal.last_event = None  # a signal is how this ends well
        if self.opens:
            opener.open(url)


def require_kept(sessions: SessionFolder, nonce: str) -> None:
    """Raise StateFileError where no session can be kept: each message would be refused (R-397)."""
    try:
        sessions.require_writable(nonce)
    except StateFileError as error:
        raise StateFileError(f"odek serve keeps its sessions, but {error.message}", hint=error.hint) from error


def runtime_for(runtime: Runtime, emit: Sink, person: Person) -> Runtime:
    """Return the effects of one session: no page answers for the operator (R-103)."""
    return replace(
        runtime,
        emit=emit,
        person=person,
        person_in_any_thread=True,
        operator=None,
        waiting=nullcontext,
        new_model=partial(make_model, host=runtime.host, notify=lambda text: emit(Notice(text))),
    )


def shown_address(config: Config, port: int) -> str:
    """Return what a browser calls the server: loopback, or the first further name where only others reach it. Pure."""
    host, _ = split_addr(config.settings.serve.addr)
    if host in ("0.0.0.0", "::") or is_loopback(host):  # noqa: S104 - compared, not listened on
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - as above
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return config.settings.serve.hosts[0]


def _warn_of_address(config: Config, terminal: Terminal) -> None:
    """Warn of an address that others reach. Raises UsageError where no name says that this is meant (R-122)."""
    serve = config.settings.serve
    host, _ = split_addr(serve.addr)
    if is_loopback(host):
        return
    if not serve.hosts:
        raise UsageError(
            f"{serve.addr} can be reached from other machines ({config.settings.origin_of('serve.addr')})",
            hint="name what browsers will call it, with --hosts, or listen on 127.0.0.1 and use an SSH tunnel",
        )
    terminal.warn(
        f"{serve.addr} can be reached from other machines, and the connection is not encrypted",
        hint="listen on 127.0.0.1, behind a reverse proxy with TLS or through an SSH tunnel",
    )


def _find_files(cwd: str, beginning: str, limit: int) -> list[dict[str, object]]:
    found = find_names(beginning, cwd=cwd, most=min(limit, _MOST_NAMES))
    return [{"path": name.path, "folder": name.is_folder, "size": name.size_bytes} for name in found]


def _end(server: Server, service: Service, live: LiveSessions, signal_number: int) -> None:
    """Take no more connections, end the turns and the containers side by side, then say goodbye (R-146)."""
    service.is_stopping = True
    server.stop()
    live.close_all(_SESSIONS_END_WITHIN_S, signal_number=signal_number)
    service.streams.wait_until_closed(_STREAMS_END_WITHIN_S)
