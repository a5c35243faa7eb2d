"""What a sub-agent may do: its parent's rights without what its task gives up. Pure (R-222, S1).

`narrow` is the only way to a sub-agent's rights. It knows the parent's and the task, and neither settings nor files nor
variables: so there is nothing to approve again, and nothing to lose on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odek.danger.risk import RiskClass
from odek.delegate.brief import Brief
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox.spec import Limits, SandboxSpec
from odek.sandbox_grammar import MIN_TMP_BYTES
from odek.text import truncate, visible
from odek.tools.arguments import ArgumentError
from odek.tools.delegate import DELEGATE_TASKS

ENOUGH_PIDS = 64
ENOUGH_MEMORY_BYTES = 64 << 20
_OF_SERVER = "__"  # in the name of a tool that an MCP server has
_ENOUGH_NANO_CPUS = 10_000_000  # Docker refuses less than a hundredth of a processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """All that bounds an agent."""

    sandbox: SandboxSpec | None
    """the container for its commands and files; None: they are this host's"""
    tools: tuple[str, ...]
    worst: RiskClass = RiskClass.BLOCKED
    """commands of classes ranked above are refused, whatever the policy says"""
    trusted: bool = True
    """whether a person may be asked for it"""
    max_iterations: int
    timeout_s: int


def narrow(parent: Rights, brief: Brief, *, share: int) -> Rights:
    """Return the rights of a sub-agent with the task `brief`, one of `share` that may work at the same time.

    Raises ArgumentError, with what may be asked for, when it asks for anything that `parent` does not have.
    """
    return Rights(
        sandbox=_narrow_place(parent.sandbox, brief, share),
        tools=_narrow_tools(parent.tools, brief.tools),
        worst=_narrow_risk(parent.worst, brief.max_risk),
        trusted=_narrow_trust(parent.trusted, brief.trusted),
        max_iterations=_at_most("max_iterations", brief.max_iterations, parent.max_iterations),
        timeout_s=_at_most("timeout", brief.timeout_s, parent.timeout_s),
    )


def concurrency(parent: Rights, most: int) -> int:
    """Return how many sub-agents may work at once, up to `most`, so that a share of the limits is enough for each."""
    spec = parent.sandbox
    if spec is None:
        return 1
    limits = spec.limits
    shares = [most, limits.pids // ENOUGH_PIDS, limits.tmp_bytes // MIN_TMP_BYTES]
    shares += [] if limits.memory_bytes is None else [limits.memory_bytes // ENOUGH_MEMORY_BYTES]
    shares += [] if limits.nano_cpus is None else [limits.nano_cpus // _ENOUGH_NANO_CPUS]
    return max(min(shares), 1)


def writes(rights: Rights) -> bool:
    """Return whether a sub-agent with `rights` may change the folder: at most one such works at a time (D-20)."""
    return rights.sandbox is None or not rights.sandbox.readonly


def _narrow_place(parent: SandboxSpec | None, brief: Brief, share: int) -> SandboxSpec | None:
    """On the host, what only a container can keep is refused (D-22)."""
    if parent is not None:
        return _narrow_sandbox(parent, brief, share)
    for name in ("readonly", "network", "networks"):
        if getattr(brief, name) not in (None, False):
            raise ArgumentError(f'"{name}" needs a sandbox, and commands run on the host here; leave it out')
    return None


def _narrow_sandbox(parent: SandboxSpec, brief: Brief, share: int) -> SandboxSpec:
    if brief.readonly is False and parent.readonly:
        raise ArgumentError('"readonly" cannot be false: your own workspace is read-only')
    readonly = parent.readonly or brief.readonly is True
    return replace(
        parent,
        readonly=readonly,
        volumes=tuple(replace(volume, readonly=volume.readonly or readonly) for volume in parent.volumes),
        networks=_narrow_networks(parent.networks, brief),
        limits=_divided(parent.limits, share),
    )


def _narrow_networks(parent: NetworkPlan, brief: Brief) -> NetworkPlan:
    if brief.network == "bridge" and parent.mode != "bridge":
        raise ArgumentError('"network" can only be none: you have no bridge')
    if brief.networks is None:
        attached = parent.attached
    else:
        _require_known("networks", brief.networks, [network.name for network in parent.attached])
        attached = tuple(network for network in parent.attached if network.name in brief.networks)
    return NetworkPlan(mode="none" if brief.network == "none" else parent.mode, attached=attached)


def _divided(limits: Limits, share: int) -> Limits:
    return Limits(
        pids=limits.pids // share,
        memory_bytes=None if limits.memory_bytes is None else limits.memory_bytes // share,
        nano_cpus=None if limits.nano_cpus is None else limits.nano_cpus // share,
        tmp_bytes=limits.tmp_bytes // share,
    )


def _narrow_tools(parent: Sequence[str], wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    """Without the tool itself, as the depth is one, and without those of MCP servers.

    A server works in its own place, where what a task gives up (the network, writing) would not hold.
    """
    offered = tuple(name for name in parent if name != DELEGATE_TASKS.name and _OF_SERVER not in name)
    if wanted is None:
        return offered
    _require_known("tools", wanted, offered)
    return tuple(name for name in offered if name in wanted)


def _narrow_risk(parent: RiskClass, wanted: str | None) -> RiskClass:
    if wanted is None:
        return parent
    level = RiskClass[wanted.upper()]
    if level > parent:
        raise ArgumentError(f'"max_risk" can be {parent.label} at most, not {wanted}')
    return level


def _narrow_trust(parent: bool, wanted: bool | None) -> bool:
    if wanted and not parent:
        raise ArgumentError('"trust_level" can only be untrusted here')
    return parent if wanted is None else wanted


def _at_most(name: str, wanted: int | None, limit: int) -> int:
    if wanted is None:
        return limit
    if wanted > limit:
        raise ArgumentError(f'"{name}" must be at most {limit}, not {wanted}')
    return wanted


def _require_known(field: str, wanted: Sequence[str], offered: Sequence[str]) -> None:
    for name in wanted:
        if name not in offered:
            shown = visible(truncate(name, 60))
            raise ArgumentError(f'"{field}" cannot hold "{shown}"; there is {", ".join(offered) or "none"}')
