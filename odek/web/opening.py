"""What comes before the first session: the place of work is prepared, approved and tried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odek.app.attachments import Attachment
from odek.app.config import Config, redactor_of
from odek.app.isolation import CommandProfile, decide_sandbox, require_permitted
from odek.app.prepared_sandboxes import PreparedSandboxes
from odek.app.runtime import Runtime
from odek.app.sandbox import plan_sandbox, prepare_sandbox
from odek.app.stored_sessions import open_store
from odek.app.tool_names import validate_tool_names
from odek.app.workspace import facts_json, startup_line
from odek.approval.card import Person
from odek.events import SandboxStarted, Sink, WarningIssued
from odek.sandbox.container.container import Container
from odek.sandbox.container.facts import ContainerFacts
from odek.web.live import LiveSessions
from odek.web.place import Serving

if TYPE_CHECKING:
    from odek.app.shared_servers import SharedServers

AGAIN = "restart `odek serve` to be asked again"
_GRANTS = {"not needed": "none", "given by the environment": "environment", "remembered": "remembered"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Where the sessions of a server will work."""

    sandboxes: PreparedSandboxes | None
    """None: on this host"""
    expected: ContainerFacts | None
    """what the containers will be, as the trial was"""
    grant: str
    """how the project's request was approved: none, environment, once, remembered"""
    servers: SharedServers | None = None
    """MCP servers of this host, and what was approved of a project's; to be closed"""
    server_states: Sequence[Mapping[str, object]] = ()
    """what became of each MCP server in the trial"""


def prepare_serving(config: Config, runtime: Runtime) -> Prepared:
    """Prepare, ask what the project's request needs, and start, prove and remove one container (R-123).

    So what can fail fails here. `runtime` is that of the terminal. Raises OdekError; nothing is left then.
    """
    settings = config.settings
    for warning in validate_tool_names(settings):
        runtime.emit(WarningIssued(warning))
    decision = decide_sandbox(CommandProfile(command="serve", never_on_host=True), settings)
    require_permitted(decision, settings)
    if not decision.sandboxed:
        if not settings.suppress_sandbox_warning:
            runtime.emit(WarningIssued(f"shell commands run ON THIS HOST, without a sandbox ({decision.origin})"))
        runtime.new_model(settings)
        servers, states = try_servers(config, runtime, None)
        return Prepared(sandboxes=None, expected=None, grant="none", servers=servers, server_states=states)
    with runtime.waiting("starting"):
        plan = plan_sandbox(config, runtime, attachments=True)
        runtime.new_model(settings)  # a missing key costs no look at Docker
        prepared = prepare_sandbox(plan)
        grant = _GRANTS.get(prepared.plan.approval_state(), "once")
        sandboxes = PreparedSandboxes(prepared, hint=AGAIN)
        trial = sandboxes.start(runtime)
        facts = trial.facts
        try:
            servers, states = try_servers(config, runtime, trial)
        finally:
            left = trial.close()
    runtime.emit(SandboxStarted(startup_line(facts), facts_json(facts)))
    if left:
        runtime.emit(WarningIssued(left))
    return Prepared(
        sandboxes=sandboxes, expected=replace(facts, name="", id=""), grant=grant, servers=servers, server_states=states
    )  # fmt: skip


def try_servers(
    config: Config, runtime: Runtime, trial: Container | None
) -> tuple[SharedServers | None, Sequence[Mapping[str, object]]]:
    """Start the MCP servers, and ask what a project's need, for all sessions; those of this host stay.

    `trial` is where the others run now; None: there is no sandbox. Raises OdekError for a required one.
    """
    if not config.settings.mcp_servers:
        return None, ()
    from odek.app.mcp_servers import ToolServers  # most servers have none
    from odek.app.shared_servers import SharedServers

    shared = SharedServers(outlive=True)
    tried = ToolServers(config=config, runtime=runtime, redact=redactor_of(config, runtime.host), shared=shared)
    try:
        tried.start_on_host()
        tried.start_in(trial, f"the sandbox of each session, network={trial.facts.network}" if trial else "")
        tried.ready()
        states = tried.states()
    except BaseException:
        shared.close()
        raise
    finally:
        tried.close()
    return shared, states


def open_sessions(
    prepared: Prepared,
    config: Config,
    runtime: Runtime,
    *,
    runtime_for: Callable[[Sink, Person], Runtime],
    take_files: Callable[[Sequence[str], str], tuple[Attachment, ...]],
    forget_files: Callable[[str], None],
    log: Callable[[str], None],
    debug: bool = False,
) -> LiveSessions:
    """Return the sessions of a server that works in `prepared`; see Serving for the rest."""
    redact = redactor_of(config, runtime.host)
    serving = Serving(
        config=config,
        runtime=runtime,
        runtime_for=runtime_for,
        store=open_store(runtime.host, redact, warn=log),
        redact=redact,
        sandboxes=prepared.sandboxes,
        expected=prepared.expected,
        servers=prepared.servers,
        server_states=prepared.server_states,
        take_files=take_files,
        forget_files=forget_files,
        log=log,
        debug=debug,
    )
    return LiveSessions(serving, grant=prepared.grant)
