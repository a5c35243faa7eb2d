"""Where tools work: the container, or this host where that is allowed, with the gate before it. Needs no model.

Every command and every surface gets its place of work here and differs in its `CommandProfile` only: a check that one
of them has and another forgets cannot exist.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from odek import trusted_files
from odek.agent.untrusted import wrap_untrusted
from odek.app import environment
from odek.app.attachments import Attachment, external
from odek.app.config import Config, redactor_of
from odek.app.isolation import (
    CommandProfile,
    FallbackPolicy,
    SandboxDecision,
    decide_sandbox,
    explain_stop,
    fallback_policy,
    may_fall_back,
    require_permitted,
    void_settings,
)
from odek.app.receipts import Receipts
from odek.app.runtime import Runtime
from odek.app.tool_names import validate_tool_names
from odek.errors import OdekError
from odek.events import Notice, SandboxStarted, Sink, WarningIssued
from odek.executor import Executor
from odek.host import Host
from odek.host_executor.commands import HostExecutor
from odek.redact import MARK, Redactor
from odek.sandbox.docker import INFO_ARGV, find_image_argv
from odek.sandbox.errors import SandboxError, SandboxGivenUp, SandboxLost
from odek.sandbox.mounts import kernel_mounts_below, read_mounts
from odek.sandbox_grammar import DOCKERFILE
from odek.text import visible

if TYPE_CHECKING:
    from odek.app.mcp_servers import ToolServers
    from odek.app.sandbox import OnPlanned
    from odek.app.shared_servers import SharedServers
    from odek.app.tools import ChildLimits
    from odek.approval.card import Person
    from odek.approval.gatekeeper import Trust
    from odek.sandbox.container.container import Container
    from odek.sandbox.container.facts import ContainerFacts
    from odek.sandbox.spec import Narrow
    from odek.tools.delegate import Run
    from odek.tools.registry import Toolbox
    from odek.tools.workspace import UntrustedWrapper

TrustByBoundary = dict[str, "Trust"]
"""boundary → what the person trusts there until odek ends"""
StartSandbox = Callable[[Runtime], "Container"]
"""starts a sandbox that was prepared; raises OdekError"""


@dataclass(slots=True)
class _Place:
    executor: Executor
    facts: ContainerFacts | None = None
    on_host_because: str = ""


class MaskedSecrets:
    """Which secrets were masked in files of the project: their variables are named to the user, each once (A27).

    Otherwise nothing says why a model cannot patch a line with `password` in it. Files are read in any thread.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._new: deque[Notice] = deque()

    def found(self, holder: str, path: str) -> None:
        """Remember that the secret of `holder` was masked in the file `path`."""
        if holder not in self._known:
            self._known.add(holder)
            what = f"the value of {visible(holder)} occurs in {visible(path)}"
            self._new.append(Notice(f"{what}; the model sees {MARK} there, and cannot change such a line"))

    def take(self) -> tuple[Notice, ...]:
        """Return what was not returned before."""
        return tuple(self._new.popleft() for _ in range(len(self._new)))


@dataclass(slots=True, kw_only=True)
class Workspace:
    """Ready to work, until it is closed."""

    config: Config
    runtime: Runtime
    decision: SandboxDecision
    executor: Executor
    facts: ContainerFacts | None
    """of the sandbox; None when commands run on the host"""
    on_host_because: str
    """who wants commands on this host, or why the sandbox could not be had; "" in the sandbox"""
    redact: Redactor
    """takes the secrets of this workspace out of a text"""
    environment_block: str
    """what a model is shown of the place"""
    opened_s: float
    refused: dict[str, int] = field(default_factory=dict)
    """what the gate has refused, by class of danger"""
    masked: MaskedSecrets = field(default_factory=MaskedSecrets)
    receipts: Receipts = field(init=False)
    """notes what the tools execute, once there is a session to keep it"""
    servers: ToolServers | None = None
    """MCP servers whose tools are offered; None: none is configured, or none is wanted here"""
    tools: Toolbox = field(init=False)
    _stack: ExitStack

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the container, if any, and name the changed files that this machine trusts."""
        self._stack.close()

    def new_toolbox(
        self,
        person: Person | None,
        *,
        trusted: TrustByBoundary | None = None,
        wrap: UntrustedWrapper | None = None,
        delegate: Run | None = None,
        child: ChildLimits | None = None,
    ) -> Toolbox:
        """Return the tools with a gatekeeper of their own that asks `person`; None: there is none to ask.

        Tool boxes of one workspace may be used at the same time, each in one thread. `wrap` is what is done with
        foreign text; unless given, it gets untrusted_content tags. `delegate` and `child` are as for `make_toolbox`.
        """
        from odek.app.tools import make_toolbox

        runtime = self.runtime
        return make_toolbox(
            self.config.settings,
            self.executor,
            self.facts,
            runtime.host,
            person=person,
            wrap=wrap or partial(wrap_untrusted, nonce=partial(runtime.random_hex, 8)),
            redact=self.redact,
            environment_block=self.environment_block,
            applied=self.applied,
            trusted=trusted,
            refused=self.refused,
            emit=runtime.emit,
            masked=self.masked.found,
            log=self.receipts,
            delegate=delegate,
            child=child,
        )

    def give(self, files: Sequence[Attachment]) -> None:
        """Put those of `files` that no mount shows into the container; on the host they are where they are.

        The container was started for attachments. Raises FileAccessDenied, and SandboxLost with its cause.
        """
        if self.facts is not None:
            container = cast("Container", self.executor)
            try:
                for file in external(files):
                    container.attach(file.placed_name, file.data)
            except SandboxLost as error:
                raise self.explain_loss(error) from error

    def applied(self) -> Mapping[str, object]:
        """Return the settings that are applied here, as the tool `config_view` shows them."""
        from odek.app.effective_config import effective_config  # few runs ask for it

        settings, because = self.config.settings, self.on_host_because
        servers = self.servers.states() if self.servers else ()
        return effective_config(settings, self.decision, self.facts, on_host_because=because, servers=servers)

    def prepare_turn(self) -> None:
        """Put the tools of MCP servers on offer, waiting for those that start. Raises OdekError, for a required one."""
        if self.servers is not None:
            self.tools.set_foreign(self.servers.ready())

    def explain_loss(self, error: SandboxLost) -> SandboxLost:
        """Return `error` with what the engine says of its cause; one Docker call."""
        if self.facts is None or isinstance(error, SandboxGivenUp):
            return error
        from odek.sandbox.container.failure_reasons import find_cause

        docker, clock = self.runtime.docker, self.runtime.clock
        cause = find_cause(self.facts.id, docker, since_s=self.opened_s, now_s=clock())
        if not cause:
            return error
        return SandboxLost(f"{error.message}; {cause}", hint=error.hint, detail=error.detail)


def open_workspace(
    profile: CommandProfile,
    config: Config,
    runtime: Runtime,
    *,
    attachments: Sequence[Attachment] = (),
    trusted: TrustByBoundary | None = None,
    start: StartSandbox | None = None,
    delegate: Run | None = None,
    narrow: Narrow | None = None,
    child: Callable[[ContainerFacts | None], ChildLimits] | None = None,
    servers: SharedServers | None = None,
    on_planned: OnPlanned | None = None,
) -> Workspace:
    """Return a workspace whose container, if any, holds `attachments`.

    Order: settings, what can be checked without Docker, the approval gate, sandbox or host, the container, the
    environment block, the tools. `trusted` and `servers` are kept by the caller, for the next workspace; where the
    latter is None, no MCP server is started. With `start` the sandbox was prepared before, and its failure
    never leads to the host. `delegate` carries out `delegate_tasks`. Of a sub-agent from outside, `narrow` says what it
    gives up of the sandbox, and `child` then what of the rest.
    `on_planned` is as for `start_prepared`. Raises OdekError; nothing is left then.
    """
    for warning in validate_tool_names(config.settings):
        runtime.emit(WarningIssued(warning))
    decision = decide_sandbox(profile, config.settings)
    require_permitted(decision, config.settings)
    redact = redactor_of(config, runtime.host)
    opened_s = runtime.clock()
    with ExitStack() as stack, runtime.waiting("starting"):
        tool_servers = _servers_on_host(profile, config, runtime, redact, servers, stack) if servers else None
        files = external(attachments)
        place = _open_place(profile, config, decision, runtime, stack, files, start, narrow, on_planned)
        workspace = Workspace(
            config=config,
            runtime=runtime,
            decision=decision,
            executor=place.executor,
            facts=place.facts,
            on_host_because=place.on_host_because,
            redact=redact,
            environment_block=environment_block(place.facts, runtime),
            opened_s=opened_s,
            servers=tool_servers,
            _stack=stack,
        )
        workspace.receipts = Receipts(place.facts, runtime.host, redact, runtime.clock)
        workspace.tools = workspace.new_toolbox(
            runtime.person,
            trusted={} if trusted is None else trusted,
            delegate=delegate,
            child=child and child(place.facts),
        )
        if tool_servers is not None:
            _start_inside(tool_servers, place, stack)
        workspace._stack = stack.pop_all()
    return workspace


def look_ahead(
    profile: CommandProfile, config: Config, runtime: Runtime, start: StartSandbox | None
) -> AbstractContextManager[None]:
    """Have Docker asked from the beginning of the block on, if a workspace is opened in it that needs that.

    It answers about itself, and about the image that the operator has named, while odek imports the rest (R-257).
    `start` is as for `open_workspace`.
    """
    if start is not None or not decide_sandbox(profile, config.settings).sandboxed:
        return nullcontext()
    if config.overrides or os.path.lexists(os.path.join(runtime.host.cwd, DOCKERFILE)):
        return nullcontext()  # that may be a question, and no Docker is asked before its answer
    named = config.settings.sandbox.image
    return runtime.docker.ahead(INFO_ARGV, *((find_image_argv(named),) if named else ()))


def servers_for(config: Config) -> SharedServers | None:
    """Return what a conversation keeps of MCP servers; None: there are none."""
    if not config.settings.mcp_servers:
        return None
    from odek.app.shared_servers import SharedServers  # most runs have none

    return SharedServers()


def startup_line(facts: ContainerFacts) -> str:
    """Return what is shown of the sandbox when it is up (R-39); a contract."""
    networks = ",".join(network.name for network in facts.networks)
    line = f"sandbox network={facts.network} pids={facts.pids_limit} image={visible(facts.image)}"
    return f"{line} networks={networks}" if networks else line


def facts_json(facts: ContainerFacts) -> dict[str, object]:
    """Return what a page or a script is shown of the sandbox, as JSON values."""
    return {
        "container": facts.name,
        "image": facts.image,
        "network": facts.network,
        "internet": facts.internet,
        "readonly": facts.readonly,
        "networks": [{"name": network.name, "internal": network.internal} for network in facts.networks],
    }


def _open_place(
    profile: CommandProfile,
    config: Config,
    decision: SandboxDecision,
    runtime: Runtime,
    stack: ExitStack,
    files: Sequence[Attachment],
    start: StartSandbox | None,
    narrow: Narrow | None,
    on_planned: OnPlanned | None,
) -> _Place:
    """Return the container, or the host where that is allowed; see isolation.may_fall_back."""
    settings, host, emit = config.settings, runtime.host, runtime.emit
    on_host = HostExecutor(cwd=host.cwd, env=host.env)
    warn_of_changes = partial(_warn_of_changes, host, _look_at_files(host), emit)
    if not decision.sandboxed:
        if not settings.suppress_sandbox_warning:
            emit(WarningIssued(f"shell commands run ON THIS HOST, without a sandbox ({decision.origin})"))
        stack.callback(warn_of_changes)
        return _Place(executor=on_host, on_host_because=decision.origin)
    if settings.no_sandbox and profile.pinned:
        emit(WarningIssued("ODEK_NO_SANDBOX does not move a session to this host: it is pinned to the sandbox"))
    from odek.app.sandbox import plan_sandbox, start_sandbox  # a run on the host does without
    from odek.sandbox.spec import as_planned

    if start is not None:
        container = start(runtime)
    else:
        plan = plan_sandbox(config, runtime, attachments=bool(files))
        try:
            meanwhile = on_planned and partial(_planned, on_planned)
            container = start_sandbox(plan, narrow=narrow or as_planned, on_planned=meanwhile)
        except SandboxError as error:
            by_project = plan.request.image.chosen_by_project
            policy = fallback_policy(profile, settings, decision, image_from_project=by_project)
            _fall_back_or_raise(error, policy, void_settings(settings), emit)
            stack.callback(warn_of_changes)
            return _Place(executor=on_host, on_host_because=error.message)
    stack.callback(warn_of_changes)
    stack.callback(close_container, container, emit)
    for file in files:
        container.attach(file.placed_name, file.data)
    container.expect(1)
    emit(SandboxStarted(startup_line(container.facts), facts_json(container.facts)))
    return _Place(executor=container, facts=container.facts)


def _servers_on_host(
    profile: CommandProfile,
    config: Config,
    runtime: Runtime,
    redact: Redactor,
    shared: SharedServers,
    stack: ExitStack,
) -> ToolServers:
    """Return the MCP servers, those of this host started: while Docker makes the container ready."""
    from odek.app.mcp_servers import ToolServers  # most runs have none

    servers = ToolServers(config=config, runtime=runtime, redact=redact, shared=shared, planning=profile.planning)
    stack.callback(servers.close)
    servers.start_on_host()
    return servers


def _start_inside(servers: ToolServers, place: _Place, stack: ExitStack) -> None:
    stack.callback(servers.close)  # before the container goes
    container = cast("Container", place.executor) if place.facts is not None else None
    name = f"the sandbox {place.facts.name}, network={place.facts.network}" if place.facts else ""
    servers.start_in(container, name)


def _planned(on_planned: OnPlanned, facts: ContainerFacts | None) -> None:
    """Call `on_planned`, then prepare what the first turn needs: Docker works longer than that takes."""
    on_planned(facts)
    with suppress(ImportError):  # said where it is needed
        import tempfile  # noqa: F401

        import odek.agent.loop
        import odek.app.danger
        import odek.redacted_events
        import odek.snapshot.project  # noqa: F401
        from odek.danger.classify import classify
        from odek.danger.paths import Place

        # reads the tables of rules and compiles the patterns that nearly every command needs
        classify("true", Place(home="", cwd="/", workspace="/"))


def _fall_back_or_raise(error: SandboxError, policy: FallbackPolicy, void: Sequence[str], emit: Sink) -> None:
    if not may_fall_back(error, policy):
        reason = explain_stop(error, policy)
        if reason:
            emit(Notice(f"not falling back to this host: {reason}"))
        raise error
    emit(
        WarningIssued(
            f"{error.message}; shell commands run ON THIS HOST, WITHOUT A SANDBOX",
            hint=f"{error.hint}; ODEK_REQUIRE_SANDBOX=1 stops instead of running on the host",
        )
    )
    if void:
        emit(WarningIssued(f"without the sandbox these do not apply: {', '.join(void)}"))
    quote_docker(error, emit, lines=1)


def quote_docker(error: OdekError, emit: Sink, *, lines: int = 3) -> None:
    """Show the last of what Docker has said, where only the message of `error` is shown otherwise."""
    for line in error.detail.splitlines()[-lines:]:
        emit(Notice(f"Docker says: {line}"))


def close_container(container: Container, emit: Sink) -> None:
    """End `container`, and warn of what is left of it."""
    left = container.close()
    if left:
        emit(WarningIssued(left))


def _look_at_files(host: Host, *, since_ns: int | None = None) -> trusted_files.Snapshot:
    """Look at the files that this machine trusts later."""
    skipped = kernel_mounts_below(host.cwd, read_mounts("self"))
    return trusted_files.take_snapshot(host.cwd, now_ns=time.time_ns(), since_ns=since_ns, skipped=skipped)


def _warn_of_changes(host: Host, before: trusted_files.Snapshot, emit: Sink) -> None:
    """Name the files that changed and that git, an editor or odek itself will trust (B55)."""
    after = _look_at_files(host, since_ns=before.taken_ns)
    changed = trusted_files.describe_changes(before, after)
    if changed:
        emit(WarningIssued(changed, hint="look at them before you use git, your editor or odek in this folder"))


def environment_block(facts: ContainerFacts | None, runtime: Runtime) -> str:
    """Return what a model is shown of the sandbox of `facts`, or of this host."""
    if facts is None:
        return environment.render_host(runtime.host.cwd)
    return environment.render_sandbox(facts, nonce=partial(runtime.random_hex, 8))
