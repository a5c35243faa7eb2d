"""The composition root: one function turns (command, settings, host) into a ready session.

Every command goes through `open_session` and differs in its `CommandProfile` only; a check that one
command has and another forgets cannot exist. This is the one file that knows the real model
clients, executors and tools.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from odek import cancel, trusted_files
from odek.agent.budget import Budget
from odek.agent.prompt import PromptFacts, system_prompt
from odek.agent.untrusted import wrap_untrusted
from odek.app import environment, isolation
from odek.app.attachments import Attachment, external
from odek.app.instructions import read_instructions
from odek.app.model import make_model as make_model
from odek.app.sandbox import SandboxRequest, build_request, start_sandbox
from odek.app.secrets import collect_secrets
from odek.app.tool_names import validate_tool_names
from odek.approval.card import Person
from odek.approval.gate import Operator
from odek.config.layers import Layer
from odek.config.options import Source
from odek.config.resolve import project_overrides, resolve
from odek.config.settings import Settings
from odek.events import Notice, SandboxStarted, Sink, WarningIssued
from odek.executor import Executor
from odek.host import Host
from odek.host_executor.commands import HostExecutor
from odek.model.types import Message, Model
from odek.redact import Redactor
from odek.sandbox.container.container import Container
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.docker import Docker
from odek.sandbox.errors import SandboxError
from odek.sandbox.mounts import kernel_mounts_below, read_mounts
from odek.text import visible

if TYPE_CHECKING:
    from odek.agent.loop import Agent
    from odek.tools.registry import Toolbox
    from odek.tools.workspace import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProfile:
    """What makes one command different from another."""

    command: str
    sandboxed_by_default: bool = True
    never_on_host: bool = False
    """no fall back to the host, whatever the cause: `serve`"""
    pinned: bool | None = None
    """whether the session that goes on was begun in a sandbox (R-2); None: it begins here"""
    surface: str = "a terminal; the answer is printed as plain text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The effects of a session, passed in."""

    docker: Docker
    new_model: Callable[[Settings], Model]
    operator: Operator | None
    """answers what a project asks for: the terminal or nothing, never a page (R-103)"""
    person: Person | None
    """decides on the operations of the model; None where there is none to ask"""
    emit: Sink
    random_hex: Callable[[int], str]
    """random lower-case hex digits, twice as many as the bytes asked for"""
    sleep: Callable[[float], None] = cancel.sleep
    trusted: dict[str, set[str]] = field(default_factory=dict)
    """boundary → classes of danger that the person trusts there until odek ends; outlives a conversation's sessions"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Ready to work."""

    agent: Agent
    settings: Settings
    executor: Executor
    facts: ContainerFacts | None
    """of the sandbox; None when commands run on the host"""
    gate: Gate | None
    """what stands before the tools; None: nothing does"""
    sandbox_wanted: bool
    """what the session pins: true also where it fell back to this host (D-24)"""
    on_host_because: str
    """who wants commands on this host, or why the sandbox could not be had; "" in the sandbox"""
    redact: Callable[[str], str]
    """takes the secrets of this session out of a text"""
    new_agent: Callable[[Sequence[Message]], Agent]
    """makes another agent in the same place, to go on with other messages"""


@dataclass(slots=True)
class _Place:
    executor: Executor
    facts: ContainerFacts | None = None
    container: Container | None = field(default=None, repr=False)
    on_host_because: str = ""


def open_session(
    profile: CommandProfile,
    layers: Sequence[Layer],
    host: Host,
    world: Runtime,
    stack: ExitStack,
    *,
    sink: Sink,
    history: Sequence[Message] = (),
    attachments: Sequence[Attachment] = (),
) -> Session:
    """Return a session whose container, if any, ends with `stack` and holds `attachments`.

    Order: settings, what can be checked without Docker, the approval gate, sandbox or host, the
    container, the environment block, the tools, the agent. Raises OdekError; nothing is left then.
    """
    settings = resolve(layers)
    for warning in (*settings.warnings, *validate_tool_names(settings)):
        world.emit(WarningIssued(warning))
    intent = intent_of(profile, settings)
    require_allowed(intent, settings)
    model = world.new_model(settings)  # before any container: a missing key must cost nothing (F-20)
    redact = Redactor(collect_secrets(settings, host))
    place = _open_place(profile, settings, intent, layers, host, world, stack, external(attachments))
    block = _environment_block(place, host, world)
    from odek.agent.loop import Agent

    refused: dict[str, int] = {}
    tools = _toolbox(settings, intent, place, host, world, block, refused, redact)
    new_agent = partial(
        Agent,
        model=model,
        tools=tools,
        sink=sink,
        max_iterations=settings.model.max_iterations,
        system=redact(_system_prompt(profile, settings, place, tools.advice, host, world, block)),
        parallel_calls=settings.max_tool_parallel,
        budget=_budget(settings),
        refused=refused,
    )
    return Session(
        agent=new_agent(history=history),
        settings=settings,
        executor=place.executor,
        facts=place.facts,
        gate=tools.gate,
        sandbox_wanted=intent.sandboxed,
        on_host_because=place.on_host_because,
        redact=redact,
        new_agent=lambda messages: new_agent(history=messages),
    )


def startup_line(facts: ContainerFacts) -> str:
    """Return what is said of the sandbox when it is up (R-39); a contract."""
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


def intent_of(profile: CommandProfile, settings: Settings) -> isolation.SandboxDecision:
    """Return whether a command with `profile` is to run in a sandbox, and who said so."""
    return isolation.choose_intent(
        enabled=settings.sandbox.enabled,
        origin=settings.origin_of("sandbox"),
        from_flag=settings.source_of("sandbox") is Source.FLAG,
        no_sandbox=settings.no_sandbox,
        default=profile.sandboxed_by_default,
        command=profile.command,
        pinned=profile.pinned,
    )


def require_allowed(intent: isolation.SandboxDecision, settings: Settings) -> None:
    """Refuse a run on this host that a setting forbids. Raises ConfigError and UsageError."""
    isolation.require_allowed(intent, required=settings.require_sandbox)
    readonly = settings.origin_of("sandbox_readonly") if settings.sandbox.readonly else ""
    isolation.require_readonly_kept(intent, readonly_origin=readonly)


def _open_place(
    profile: CommandProfile,
    settings: Settings,
    intent: isolation.SandboxDecision,
    layers: Sequence[Layer],
    host: Host,
    world: Runtime,
    stack: ExitStack,
    files: Sequence[Attachment],
) -> _Place:
    """Return the container, or the host where that is allowed; see isolation.decide."""
    on_host = _Place(executor=HostExecutor(cwd=host.cwd, env=host.env), on_host_because=intent.origin)
    tell_changes = partial(_tell_changes, host, _look_at_files(host), world.emit)
    if not intent.sandboxed:
        if not settings.suppress_sandbox_warning:
            world.emit(WarningIssued(f"shell commands run ON THIS HOST, without a sandbox ({intent.origin})"))
        stack.callback(tell_changes)
        return on_host
    if settings.no_sandbox and profile.pinned:
        world.emit(WarningIssued("ODEK_NO_SANDBOX does not move a session to this host: it is pinned to the sandbox"))
    draft = replace(build_request(settings, host, world.emit), attachments=bool(files))
    imports = Thread(target=_import_rest, daemon=True)
    imports.start()
    # an interpreter that ends while a thread imports may crash (seen: SIGSEGV after a refused approval)
    stack.callback(imports.join)
    try:
        container = start_sandbox(
            draft,
            settings,
            project_overrides(layers),
            host,
            docker=world.docker,
            operator=world.operator,
            emit=world.emit,
            new_nonce=partial(world.random_hex, 16),
            sleep=world.sleep,
        )
    except SandboxError as error:
        _fall_back_or_raise(error, firmness_of(profile, settings, intent, draft), void_settings(settings), world.emit)
        stack.callback(tell_changes)
        return replace(on_host, on_host_because=error.message)
    stack.callback(tell_changes)
    stack.callback(_close, container, world.emit)
    for file in files:
        container.attach(file.placed_name, file.data)
    world.emit(SandboxStarted(startup_line(container.facts), facts_json(container.facts)))
    return _Place(executor=container, facts=container.facts, container=container)


def _import_rest() -> None:
    """Import what is needed when the sandbox is up, and for its first command, while Docker makes it ready."""
    with suppress(ImportError):  # said where it is needed
        import odek.agent.loop
        import odek.app.danger
        import odek.app.tools
        import odek.danger.classify  # noqa: F401


def _fall_back_or_raise(
    error: SandboxError, firmness: isolation.FallbackPolicy, void: Sequence[str], emit: Sink
) -> None:
    if isolation.decide(error, firmness) == "stop":
        reason = isolation.explain_stop(error, firmness)
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
    for line in error.detail.splitlines()[-1:]:
        emit(Notice(f"Docker says: {line}"))


def void_settings(settings: Settings) -> tuple[str, ...]:
    """Return the settings of the sandbox that mean nothing on this host, each with who set it."""
    return tuple(
        f"{key} ({visible(found.origin)})"
        for key, found in settings.resolved.items()
        if key.startswith("sandbox_") and found.source is not Source.DEFAULT and found.value not in (False, "", ())
    )


def firmness_of(
    profile: CommandProfile, settings: Settings, intent: isolation.SandboxDecision, draft: SandboxRequest
) -> isolation.FallbackPolicy:
    """Return what forbids this session a fall back to the host."""
    return isolation.FallbackPolicy(
        explicit=intent.explicit,
        required=settings.require_sandbox,
        networks_asked=bool(
            settings.sandbox.networks or settings.sandbox.compose_project or settings.sandbox.networks_asked_by
        ),
        readonly_asked=settings.sandbox.readonly,
        never_on_host=profile.never_on_host or profile.pinned is True,
        image_from_project=draft.image.chosen_by_project,
    )


def _close(container: Container, emit: Sink) -> None:
    left = container.close()
    if left:
        emit(WarningIssued(left))


def _look_at_files(host: Host, *, since_ns: int | None = None) -> trusted_files.Snapshot:
    """Look at the files that this machine trusts later."""
    skipped = kernel_mounts_below(host.cwd, read_mounts("self"))
    return trusted_files.take_snapshot(host.cwd, now_ns=time.time_ns(), since_ns=since_ns, skipped=skipped)


def _tell_changes(host: Host, before: trusted_files.Snapshot, emit: Sink) -> None:
    """Name the files that changed and that git, an editor or odek itself will trust (B55)."""
    after = _look_at_files(host, since_ns=before.taken_ns)
    changed = trusted_files.describe_changes(before, after)
    if changed:
        emit(WarningIssued(changed, hint="look at them before you use git, your editor or odek in this folder"))


def _environment_block(place: _Place, host: Host, world: Runtime) -> str:
    if place.facts is None:
        return environment.render_host(host.cwd)
    return environment.render_sandbox(place.facts, nonce=partial(world.random_hex, 8))


def _toolbox(
    settings: Settings,
    intent: isolation.SandboxDecision,
    place: _Place,
    host: Host,
    world: Runtime,
    block: str,
    refused: dict[str, int],
    redact: Redactor,
) -> Toolbox:
    from odek.app.tools import make_toolbox

    return make_toolbox(
        settings,
        place.executor,
        place.facts,
        host,
        person=world.person,
        wrap=partial(wrap_untrusted, nonce=partial(world.random_hex, 8)),
        redact=redact,
        environment_block=block,
        applied=partial(_applied, settings, intent, place),
        trusted=world.trusted,
        refused=refused,
    )


def _applied(settings: Settings, intent: isolation.SandboxDecision, place: _Place) -> Mapping[str, object]:
    from odek.app.effective_config import effective_config  # few runs ask for it

    return effective_config(settings, intent, place.facts, on_host_because=place.on_host_because)


def _budget(settings: Settings) -> Budget:
    limits = settings.limits
    return Budget(
        runtime_s=limits.runtime_s,
        tool_calls=limits.tool_calls,
        input_tokens=limits.input_tokens,
        output_tokens=limits.output_tokens,
    )


def _system_prompt(
    profile: CommandProfile,
    settings: Settings,
    place: _Place,
    tool_advice: tuple[str, ...],
    host: Host,
    world: Runtime,
    block: str,
) -> str:
    facts = PromptFacts(
        os="Linux container" if place.facts else f"{platform.system()} {platform.release()}",
        cwd=place.executor.workspace,
        date=time.strftime("%A, %Y-%m-%d, %Z"),
        surface=profile.surface,
        tool_advice=tool_advice,
    )
    return system_prompt(
        identity=settings.system or None,
        project_instructions=None if settings.no_agents else read_instructions(host.cwd, world.emit),
        facts=facts,
        environment_block=block,
        nonce=partial(world.random_hex, 8),
    )
