"""Which existing networks a sandbox is attached to: names in, full IDs out (R-50 to R-56, D-8). Pure.

Docker looks a network up by ID, then by name, then by the beginning of an ID, and several networks
may share a name. So a name counts only if exactly one listed network has exactly that name, and from
there on nothing but its full ID is used. The networks of a swarm are in the list as well, with IDs of
another form: what was asked for and cannot be attached is refused by its name, and a run never goes on
with a part of what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox_grammar import MAX_NETWORK_NAME, MAX_NETWORKS, RESERVED_NETWORKS, NetworkMode, is_network_name
from odek.text import truncate, visible

PROJECT_LABEL = "com.docker.compose.project"

_HEX = frozenset("0123456789abcdef")
_SHOWN = 80  # characters of a foreign name that a message repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest:
    """What the settings ask for."""

    mode: NetworkMode = "none"
    """none or bridge"""
    names: tuple[str, ...] = ()
    names_origin: str = "sandbox_networks"
    """where the names stand, for messages"""
    compose_project: str = ""
    compose_origin: str = "sandbox_compose_project"

    @property
    def attaches(self) -> bool:
        """whether existing networks are asked for"""
        return bool(self.names or self.compose_project)

    @property
    def origin(self) -> str:
        """where the networks are asked for, for messages about all of them"""
        asked = ((self.names, self.names_origin), (self.compose_project, self.compose_origin))
        return ", ".join(origin for value, origin in asked if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """An existing network as Docker reports it."""

    name: str
    id: str
    """full, 64 lower-case hex digits"""
    internal: bool
    """no way to the internet; services of the host may be reachable all the same (R-56)"""
    compose_project: str = ""
    """its Compose label; "" when it has none"""
    driver: str = "bridge"
    scope: str = "local"
    config_only: bool = False
    ipv6: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlan:
    """The networks of a sandbox, as decided."""

    mode: NetworkMode = "none"
    """none or bridge; none means "no other" where networks are attached"""
    attached: tuple[Network, ...] = ()

    @property
    def label(self) -> str:
        """none, bridge, attached, or bridge+attached"""
        if not self.attached:
            return self.mode
        return "bridge+attached" if self.mode == "bridge" else "attached"

    @property
    def internet(self) -> bool:
        """whether any of the networks leads to the internet"""
        return self.mode == "bridge" or any(not network.internal for network in self.attached)

    @property
    def disables_ipv6(self) -> bool:
        """whether IPv6 is switched off: engines before 27 filter it on no network, an internal one included"""
        return not self.internet and any(network.ipv6 for network in self.attached)

    @property
    def run_network(self) -> str:
        """what the container is started with: Docker connects no container that began with none"""
        return self.attached[0].id if self.attached and self.mode == "none" else self.mode

    @property
    def connect_networks(self) -> tuple[Network, ...]:
        """what is connected after the start"""
        return self.attached if self.mode == "bridge" else self.attached[1:]


def shown(text: str) -> str:
    """Return a foreign name fit for a message: on one line, clipped."""
    return truncate(visible(text), _SHOWN)


def is_full_id(text: str) -> bool:
    """Return whether `text` is a full ID of Docker: 64 lower-case hex digits."""
    return len(text) == 64 and _HEX.issuperset(text)


def parse_network(raw: Mapping[str, Any]) -> Network:
    """Return one element of `docker network inspect`; podman writes its keys in lower case.

    What is missing or of another type is read as the value that is refused or warned about.
    """
    podman = "Id" not in raw and "id" in raw
    found = {str(key).lower(): value for key, value in raw.items()}
    full_id = found.get("id")
    if not (isinstance(full_id, str) and is_full_id(full_id)):
        raise SandboxConfigError(
            f'Docker reports a network "{shown(str(found.get("name")))}" without a full ID',
            hint="update Docker; odek attaches networks by their full ID only",
        )
    labels = found.get("labels")
    return Network(
        name=str(found.get("name") or ""),
        id=full_id,
        internal=found.get("internal") is True,
        compose_project=str(labels.get(PROJECT_LABEL) or "") if isinstance(labels, Mapping) else "",
        driver=str(found.get("driver") or ""),
        scope=str(found.get("scope") or ("local" if podman else "")),  # podman knows no other scope
        config_only=bool(found.get("configonly")),
        ipv6=found.get("enableipv6") is True,
    )


def plan_networks(
    request: NetworkRequest, *, chosen: tuple[str, ...], of_project: tuple[str, ...], inspected: tuple[Network, ...]
) -> NetworkPlan:
    """Return what is attached: the networks of `chosen`, then all of the Compose project (D-8).

    `chosen` and `of_project` are what choose_named and choose_of_project gave, `inspected` holds the networks of both.
    Raises SandboxConfigError for a network that is gone, cannot be attached, or is one too many.
    """
    by_id = {network.id: network for network in inspected}
    attached: dict[str, Network] = {}
    for name, full_id in zip(request.names, chosen, strict=True):
        network = by_id.get(full_id)
        if network is None or network.name != name:
            raise missing(name, request.names_origin)
        _require_inspected(network, request.names_origin)
        attached[full_id] = network
    for network in _of_project(request, of_project, by_id):
        _require_inspected(network, request.compose_origin)
        attached[network.id] = network
    _require_few(len(attached), request.origin)
    plan = NetworkPlan(mode=request.mode, attached=tuple(attached.values()))
    _require_distinct(plan, request.origin)
    return plan


def narrow(parent: NetworkPlan, wanted: NetworkRequest) -> NetworkPlan:
    """Return the part of `parent` that a sub-agent asks for, pinned to the parent's IDs (R-86).

    Raises SandboxConfigError when it asks for anything that the parent does not have. A network
    that its Compose project gained since is not among the parent's and so never in the result.
    """
    hint = "a sub-agent gets a part of its parent's networks, never more"
    if wanted.mode == "bridge" and parent.mode != "bridge":
        raise SandboxConfigError("a sub-agent asks for network bridge, which its parent does not have", hint=hint)
    asked = [f'network "{shown(name)}"' for name in wanted.names if name not in {net.name for net in parent.attached}]
    project = wanted.compose_project
    if project and all(network.compose_project != project for network in parent.attached):
        asked.append(f'Compose project "{shown(project)}"')
    if asked:
        raise SandboxConfigError(f"a sub-agent asks for {asked[0]}, which its parent does not have", hint=hint)
    kept = (
        network
        for network in parent.attached
        if network.name in wanted.names or (project and network.compose_project == project)
    )
    return NetworkPlan(mode=wanted.mode, attached=tuple(kept))


def _of_project(request: NetworkRequest, ids: tuple[str, ...], by_id: Mapping[str, Network]) -> tuple[Network, ...]:
    project = request.compose_project
    if not project:
        return ()
    if not ids:
        raise no_network_of_project(request)
    gone = [full_id for full_id in ids if full_id not in by_id or by_id[full_id].compose_project != project]
    if gone:
        raise SandboxConfigError(
            f'network {shown(gone[0])} of the Compose project "{project}" went away while odek looked at it '
            f"({request.compose_origin})",
            hint="start odek again when `docker compose up -d` is done",
        )
    return tuple(sorted((by_id[full_id] for full_id in ids), key=lambda network: (network.name, network.id)))


def _require_inspected(network: Network, origin: str) -> None:
    require_attachable(
        network.name,
        network.id,
        driver=network.driver,
        scope=network.scope,
        config_only=network.config_only,
        origin=origin,
    )


def require_attachable(
    name: str, full_id: str, *, driver: str, scope: str, origin: str, config_only: bool = False
) -> None:
    """Refuse a network that is not a local one of the bridge driver with an ordinary name (R-52)."""
    if not is_network_name(name) or name in RESERVED_NETWORKS:
        raise SandboxConfigError(
            f'network "{shown(name)}" ({shown(full_id)}) has a name that odek does not attach ({origin})',
            hint=f"give it a name of letters, digits, _ . and -, at most {MAX_NETWORK_NAME}",
        )
    wrong = ""
    if config_only:
        wrong = "it only holds a configuration for other networks"
    elif driver != "bridge":
        wrong = f'its driver is "{shown(driver)}", not "bridge"'
    elif scope != "local":
        wrong = f'its scope is "{shown(scope)}", not "local"'
    if wrong:
        raise SandboxConfigError(
            f'network "{shown(name)}" cannot be attached: {wrong} ({origin})',
            hint="attach a local bridge network: `docker network create NAME` makes one",
        )


def _require_few(count: int, origin: str) -> None:
    if count > MAX_NETWORKS:
        raise SandboxConfigError(
            f"{count} networks are asked for, at most {MAX_NETWORKS} can be attached ({origin})",
            hint="name only those that the task needs, with --sandbox-networks",
        )


def _require_distinct(plan: NetworkPlan, origin: str) -> None:
    names = [network.name for network in plan.attached]
    for name in names:
        if names.count(name) > 1:
            raise ambiguous(name, sorted(network.id for network in plan.attached if network.name == name), origin)


def ambiguous(name: str, ids: list[str], origin: str) -> SandboxConfigError:
    """Return the refusal of a name that several networks have."""
    return SandboxConfigError(
        f'{len(ids)} networks have the name "{name}" ({origin}): {", ".join(ids)}',
        hint="remove the one that is not needed: `docker network rm ID`",
    )


def missing(name: str, origin: str, *, meant: list[str] | None = None) -> SandboxConfigError:
    """Return the refusal of a name that no network has; `meant`: the names of those whose ID begins like it."""
    hint = "`docker network ls` lists the networks; start the project with `docker compose up -d`"
    if meant:
        hint = f'an ID or its beginning does not count: write the name, "{meant[0]}"'
    return SandboxConfigError(f'network "{shown(name)}" not found by Docker ({origin})', hint=hint)


def no_network_of_project(request: NetworkRequest) -> SandboxConfigError:
    """Return the refusal of a Compose project without networks."""
    return SandboxConfigError(
        f'no network belongs to the Compose project "{request.compose_project}" ({request.compose_origin})',
        hint="start it with `docker compose up -d` (`docker compose ls` lists the projects); "
        "a network that Compose calls external is attached by its name, with --sandbox-networks",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A line of `docker network ls`."""

    id: str
    """64 hex digits; 25 letters and digits for a network of a swarm"""
    name: str
    driver: str = "bridge"
    scope: str = "local"


def parse_listing(text: str) -> tuple[Listed, ...]:
    """Return the networks in what `list_networks_argv` printed: one JSON array a line, whatever the names hold.

    Other lines are a client's chatter (B25).
    """
    found = []
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, list) and len(row) == 4 and all(isinstance(part, str) for part in row) and row[0]:
            full_id, name, driver, scope = row
            found.append(Listed(id=full_id, name=name, driver=driver, scope=scope))
    return tuple(found)


def choose_named(request: NetworkRequest, listing: tuple[Listed, ...]) -> tuple[str, ...]:
    """Return the full IDs of the networks asked for by name, in that order.

    Raises SandboxConfigError when a name is missing, stands for several networks, is merely the
    beginning of an ID, or names a network that cannot be attached.
    """
    return tuple(_choose(name, request.names_origin, listing) for name in request.names)


def choose_of_project(request: NetworkRequest, listing: tuple[Listed, ...]) -> tuple[str, ...]:
    """Return the full IDs of the networks of the Compose project, which `listing` holds and no others.

    Raises SandboxConfigError when there is none, or one that cannot be attached.
    """
    if not listing:
        raise no_network_of_project(request)
    for network in sorted(listing, key=lambda network: (network.name, network.id)):
        _require_usable(network, request.compose_origin)
    return tuple(network.id for network in listing)


def _choose(name: str, origin: str, listing: tuple[Listed, ...]) -> str:
    named = {network.id: network for network in listing if network.name == name}
    if len(named) > 1:
        raise ambiguous(name, sorted(named), origin)
    if not named:
        meant = [shown(network.name) for network in listing if network.id.startswith(name)]
        raise missing(name, origin, meant=meant)
    (network,) = named.values()
    _require_usable(network, origin)
    return network.id


def _require_usable(network: Listed, origin: str) -> None:
    """Refuse what the list itself shows to be of another kind; the rest is seen when it is inspected."""
    if not is_full_id(network.id):
        require_attachable(network.name, network.id, driver=network.driver, scope=network.scope, origin=origin)
        raise missing(network.name, origin)  # neither of a swarm nor anything else that is known
