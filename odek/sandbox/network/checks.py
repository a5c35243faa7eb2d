"""What the user must know of attached networks, and whether they are still the ones that were meant. Pure.

Nothing here says that an internal network hides the host. It only stops forwarding: whatever listens
on an address of this machine answers through the network's gateway (R-56, B27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import Network, NetworkPlan, shown

# how `docker inspect` names the network that a mode stands for; podman's default bridge is "podman"
_OWN_NETWORKS = {"none": frozenset({"none"}), "bridge": frozenset({"bridge", "podman"})}


def warnings(plan: NetworkPlan) -> tuple[str, ...]:
    """Return what the attached networks let commands reach, one sentence each (R-55)."""
    return tuple(_warnings(plan))


def removal_hint(plan: NetworkPlan) -> str:
    """Return a sentence about `docker compose down`, which removes no network in use; "" if none is Compose's."""
    projects = sorted({network.compose_project for network in plan.attached if network.compose_project})
    if not projects:
        return ""
    return (
        f"while the sandbox runs, `docker compose down` cannot remove the networks of {_list(projects)}; "
        "repeat it afterwards"
    )


def network_diff(approved: NetworkPlan, plan: NetworkPlan) -> tuple[str, ...]:
    """Return how the networks of `plan` differ from those that were approved, one sentence each (R-63).

    Networks are the same only if their full IDs are; a recreated one has the old name and a new ID.
    """
    before = {network.id for network in approved.attached}
    after = {network.id for network in plan.attached}
    joined = [network for network in plan.attached if network.id not in before]
    gone = [network for network in approved.attached if network.id not in after]
    return tuple(_changes(joined, gone))


def network_changes(before: NetworkPlan, plan: NetworkPlan) -> tuple[str, ...]:
    """Return how the networks that the operator named differ from those of the last start, one sentence each (D-17)."""
    known = {network.name: network.id for network in before.attached}
    now = {network.name: network.id for network in plan.attached}
    made_anew = [name for name in now if name in known and known[name] != now[name]]
    return (
        *(f'network "{shown(name)}" was made anew: {known[name]} before, now {now[name]}' for name in made_anew),
        *(f'network "{shown(name)}" ({now[name]}) has joined' for name in now if name not in known),
        *(f'network "{shown(name)}" ({known[name]}) is gone' for name in known if name not in now),
    )


def require_unchanged(approved: NetworkPlan, plan: NetworkPlan) -> None:
    """Raise SandboxConfigError when `plan` attaches other networks than the approved ones (R-63)."""
    differences = network_diff(approved, plan)
    if differences:
        raise SandboxConfigError(
            "the networks are no longer those that were approved",
            hint="start odek again: it asks again and shows them as they are now",
            detail="\n".join(differences),
        )


def verify_attached(plan: NetworkPlan, inspected: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the networks of an inspected container differ from `plan`; empty when they are the same.

    Attached networks count by their full ID alone: the names in the container's list need not be unique.
    """
    settings = inspected.get("NetworkSettings")
    networks = settings.get("Networks") if isinstance(settings, Mapping) else None
    entries = networks if isinstance(networks, Mapping) else {}
    wanted = {network.id: network for network in plan.attached}
    found = {str(entry.get("NetworkID")) for entry in entries.values() if isinstance(entry, Mapping)}
    own = _OWN_NETWORKS[plan.mode] if plan.run_network == plan.mode else frozenset()
    missing = [f"{shown(network.name)} ({full_id})" for full_id, network in wanted.items() if full_id not in found]
    foreign = [
        f"{shown(str(name))} ({shown(str(entry.get('NetworkID')))})"
        for name, entry in entries.items()
        if isinstance(entry, Mapping) and str(entry.get("NetworkID")) not in wanted and name not in own
    ]
    return (
        *(f"network {network}: asked for, not attached" for network in missing),
        *(f"network {network}: attached, not asked for" for network in sorted(foreign)),
        *(("network bridge: asked for, not attached",) if plan.mode == "bridge" and not own & set(entries) else ()),
    )


def _warnings(plan: NetworkPlan) -> Iterator[str]:
    opened = [network.name for network in plan.attached if not network.internal]
    closed = [network.name for network in plan.attached if network.internal]
    if opened:
        yield (
            f"{_networks(opened)} not internal: commands in the sandbox reach the internet, this machine and "
            "its local network"
        )
    if closed:
        yield (
            f"{_networks(closed)} internal: no internet that way, but services of this machine that listen on "
            "all addresses may be reachable"
        )
    if plan.attached and plan.mode == "bridge":
        yield (
            "bridge is combined with attached networks: what commands read from their services can leave for "
            "the internet"
        )


def _changes(joined: list[Network], gone: list[Network]) -> Iterator[str]:
    for network in joined:
        twins = [old.id for old in gone if old.name == network.name]
        if twins:
            yield f'network "{shown(network.name)}" was recreated: approved as {twins[0]}, now {network.id}'
        else:
            yield f'network "{shown(network.name)}" ({network.id}) has joined and was not approved'
    names = {network.name for network in joined}
    for network in gone:
        if network.name not in names:
            yield f'network "{shown(network.name)}" ({network.id}) was approved and is gone'


def _networks(names: list[str]) -> str:
    return f"network {_list(names)} is" if len(names) == 1 else f"networks {_list(names)} are"


def _list(names: list[str]) -> str:
    return ", ".join(f'"{shown(name)}"' for name in names)
