"""The tools of a session, and the gatekeeper that they ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from odek.app.runtime import Runtime
from odek.approval.card import CardOrigin, Person
from odek.approval.gatekeeper import HOST, Friction, Gatekeeper, Surroundings, Trust
from odek.approval.operation import Operation
from odek.config.danger import DangerSettings
from odek.config.settings import Settings
from odek.events import Sink, ignore
from odek.executor import Executor
from odek.host import Host
from odek.redact import Redactor
from odek.sandbox_grammar import WORKSPACE
from odek.tools.batch import BATCH_PATCH, BATCH_READ
from odek.tools.config_view import CONFIG_VIEW
from odek.tools.delegate import Run, delegate_with
from odek.tools.diff import DIFF
from odek.tools.file_info import FILE_INFO, TREE
from odek.tools.files import PATCH, READ_FILE, WRITE_FILE
from odek.tools.glob import GLOB
from odek.tools.registry import Tool, Toolbox
from odek.tools.search import SEARCH_FILES
from odek.tools.shell import PARALLEL_SHELL, SHELL, shell_in
from odek.tools.unsecret import UnsecretExecutor
from odek.tools.workspace import ExecutionLog, UntrustedWrapper, Workspace

if TYPE_CHECKING:
    from odek.app.danger import Within
    from odek.danger.policy import PolicyContext
    from odek.sandbox.container.facts import ContainerFacts

TOOLS = (
    PARALLEL_SHELL, READ_FILE, BATCH_READ, WRITE_FILE, PATCH, BATCH_PATCH, SEARCH_FILES, GLOB, FILE_INFO, TREE, DIFF,
    CONFIG_VIEW,
    SHELL,  # last, because its description names the container: what precedes it is the same in every run, and cached
)  # fmt: skip
"""those that are offered wherever an agent works; delegate_tasks is not"""
SHARED = "in the folder that it shares with this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """What a sub-agent's tools and gate have of its parent's (delegate/rights.py)."""

    tools: tuple[str, ...]
    within: Within
    origin: CardOrigin
    friction: Friction | None = None
    """what slows the person's haste down, in all questions together"""


def make_toolbox(
    settings: Settings,
    executor: Executor,
    facts: ContainerFacts | None,
    host: Host,
    *,
    person: Person | None,
    wrap: UntrustedWrapper,
    redact: Redactor,
    environment_block: str,
    applied: Callable[[], Mapping[str, object]],
    emit: Sink = ignore,
    trusted: dict[str, Trust] | None = None,
    refused: dict[str, int] | None = None,
    masked: Callable[[str, str], None] = lambda _holder, _path: None,
    log: ExecutionLog | None = None,
    delegate: Run | None = None,
    child: ChildLimits | None = None,
) -> Toolbox:
    """Return the tools that work with `executor`; `facts` are of the sandbox, None on the host.

    Tools that show something get it through `redact`; `masked` is called for a secret in a file (MaskedSecrets); `log`
    is shown what was executed.
    `applied` is what `config_view` shows; `trusted`, `refused` and `emit` are as for `make_gatekeeper`. Tools that
    reach the network are left to the commands that they would be: those run in the container, by its network, or not
    at all (F-64). `delegate` carries out `delegate_tasks`, which is not offered without it; `child`: these are the
    tools of a sub-agent.
    """
    workspace = Workspace(
        executor=executor,
        shown=UnsecretExecutor(executor, redact, masked),
        gate=make_gatekeeper(settings.danger, facts, host, person, trusted, refused, emit, child),
        shows_changes=host.stderr_is_terminal and not settings.json and settings.interaction_mode != "off",
        log=log,
        wrap=wrap,
        config=applied,
    )
    return Toolbox(
        tools_in(environment_block, sandboxed=facts is not None, delegate=delegate),
        workspace,
        enabled=child.tools if child else settings.tools_enabled,
        disabled=settings.withheld_tools,
        project=host.cwd,
        redact=redact,
    )


def tools_in(environment_block: str, *, sandboxed: bool, delegate: Run | None) -> tuple[Tool, ...]:
    """Return all tools of an agent in the place that `environment_block` describes. Pure."""
    # on the host commands run one at a time, watched by the person who allowed it
    shell = shell_in(environment_block, parallel=sandboxed)
    *others, _ = TOOLS
    return (*others, *((delegate_with(delegate),) if delegate else ()), shell)


def make_gatekeeper(
    danger: DangerSettings,
    facts: ContainerFacts | None,
    host: Host,
    person: Person | None,
    trusted: dict[str, Trust] | None = None,
    refused: dict[str, int] | None = None,
    emit: Sink = ignore,
    child: ChildLimits | None = None,
) -> Gatekeeper:
    """Return the gatekeeper of a session in the sandbox of `facts`, or on the host.

    `trusted` holds, by boundary, what the person trusts until odek ends, and is added to: what was
    said of one sandbox holds in the next, unless that reaches other networks, and never on the host. In `refused`
    what is refused is counted, by class. `emit` gets the questions and their answers; `child`:
    those of a sub-agent.
    """
    boundary = f"sandbox {_networks(facts)}" if facts else HOST
    return Gatekeeper(
        load=partial(_load_regime, danger, facts, host, child, interactive=person is not None),
        surroundings=Surroundings(
            place=f"sandbox {facts.name}, {_networks(facts)}" if facts else HOST,
            boundary=boundary,
            sandboxed=facts is not None,
            shared=SHARED if facts else "",
            origin=child.origin if child else None,
            real_path=partial(real_path, host.cwd),
        ),
        person=person,
        trusted=None if trusted is None else trusted.setdefault(boundary, Trust()),
        refused=refused,
        emit=emit,
        friction=child.friction if child else None,
    )


def reads_unasked(settings: Settings, facts: ContainerFacts | None, runtime: Runtime, path: str) -> bool:
    """Return whether `read_file` would show the file at `path` without a question."""
    gate = make_gatekeeper(settings.danger, facts, runtime.host, runtime.person)
    return gate.allows(Operation(kind="read", subject=path))


def real_path(root: str, path: str) -> str:
    """Return `path`, relative to the workspace that is the folder `root` here, with links followed (F-62).

    Only what is asked about depends on it. What a tool may reach the executor decides, when it gets there.
    """
    try:
        real = os.path.realpath(os.path.join(root, path))
    except (OSError, ValueError):  # it cannot be followed: the name is all that is known
        return path
    for workspace in (root, WORKSPACE):  # a link made in the sandbox may lead to a place by the name it has there
        if real == workspace or real.startswith(workspace.rstrip("/") + "/"):
            return os.path.relpath(real, workspace)
    return path


def _load_regime(
    danger: DangerSettings, facts: ContainerFacts | None, host: Host, child: ChildLimits | None, *, interactive: bool
) -> PolicyContext:
    from odek.app.danger import narrow_policy, policy_for  # the classifier takes a while to load; some runs need none

    context = policy_for(danger, facts, host, interactive=interactive)
    return narrow_policy(context, child.within) if child else context


def _networks(facts: ContainerFacts) -> str:
    names = ", ".join(network.name for network in facts.networks)
    return f"network={facts.network}, networks={names}" if names else f"network={facts.network}"
