"""Which of the networks that Docker lists are meant, and which of them cannot be attached (R-52, R-53). Pure.

A swarm's networks stand in the list like all others, with IDs of another form. Whatever was asked for and
cannot be attached is refused by its name: the run never goes on with a part of what was asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from odek.sandbox.network import (
    NetworkRequest,
    ambiguous,
    is_full_id,
    missing,
    no_network_of_project,
    require_attachable,
    shown,
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
