"""Which names the other containers answer to on the attached networks (R-57, B28). Pure.

A name that passes the charset check may still read like an instruction: it is shown inside the
untrusted wrapper and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odek.sandbox.argv import LABEL
from odek.sandbox.network import PROJECT_LABEL, NetworkPlan, is_name, shown

MAX_NAMES = 20
_FOLDER_LABEL = "com.docker.compose.project.working_dir"
_SERVICE_LABEL = "com.docker.compose.service"
_SHORT_ID = 12  # hex digits; Docker makes the beginning of each container's ID one of its own names


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNames:
    """What can be reached by name."""

    names: tuple[str, ...] = ()
    """sorted, at most 20"""
    omitted: int = 0
    """how many more there are"""
    shared: tuple[str, ...] = ()
    """those of `names` that stand for containers of different services"""
    notes: tuple[str, ...] = ()
    """for the user: names with several owners, projects that come from several folders"""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Origin:
    """Who a container belongs to: copies of one service are one origin."""

    project: str
    folder: str
    service: str

    def __str__(self) -> str:
        if not self.project:
            return "a container of no Compose project"
        service = f'service "{shown(self.service)}" of ' if self.service else ""
        folder = f' in "{shown(self.folder)}"' if self.folder else ""
        return f'{service}Compose project "{shown(self.project)}"{folder}'


def member_ids(networks: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the IDs of the running containers on `networks`, elements of `docker network inspect`."""
    members: dict[str, None] = {}
    for network in networks:
        for key in ("Containers", "containers"):
            found = network.get(key)
            if isinstance(found, Mapping):
                members.update(dict.fromkeys(map(str, found)))
    return tuple(members)


def list_services(plan: NetworkPlan, containers: Sequence[Mapping[str, Any]], *, own_id: str) -> ServiceNames:
    """Return the names of `containers`, elements of `docker inspect`, on the networks of `plan`.

    `own_id` is the sandbox itself; other sandboxes are no services either.
    """
    ids = frozenset(network.id for network in plan.attached)
    owners: dict[str, set[_Origin]] = {}
    for container in containers:
        labels = _labels(container)
        if container.get("Id") == own_id or LABEL in labels:
            continue
        for name in _names(container, ids):
            owners.setdefault(name, set()).add(_origin(labels))
    shown = tuple(sorted(owners)[:MAX_NAMES])
    omitted = len(owners) - len(shown)
    shared = tuple(name for name in shown if len(owners[name]) > 1)
    origins = {origin for found in owners.values() for origin in found}
    notes = [_several_owners(name, owners[name]) for name in shared]
    notes += _several_folders(origins)
    if omitted:
        notes.append(f"the model is told {MAX_NAMES} of {len(owners)} service names")
    return ServiceNames(names=shown, omitted=omitted, shared=shared, notes=tuple(notes))


def _names(container: Mapping[str, Any], network_ids: frozenset[str]) -> Iterator[str]:
    """Yield the container's names on the given networks: its aliases, or else its own name."""
    full_id = str(container.get("Id") or "")
    own_name = str(container.get("Name") or "").removeprefix("/")
    for entry in _endpoints(container):
        if entry.get("NetworkID") not in network_ids:
            continue
        # engines before 25 list everything as aliases, later ones what is resolved as DNSNames
        aliases = {str(name) for key in ("Aliases", "DNSNames") for name in entry.get(key) or ()}
        aliases -= {full_id[:_SHORT_ID], own_name}
        usable = {name for name in aliases if is_name(name)}
        yield from usable or filter(is_name, (own_name,))


def _endpoints(container: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    settings = container.get("NetworkSettings")
    networks = settings.get("Networks") if isinstance(settings, Mapping) else None
    if isinstance(networks, Mapping):
        yield from (entry for entry in networks.values() if isinstance(entry, Mapping))


def _labels(container: Mapping[str, Any]) -> Mapping[str, Any]:
    config = container.get("Config")
    labels = config.get("Labels") if isinstance(config, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def _origin(labels: Mapping[str, Any]) -> _Origin:
    project, folder, service = (str(labels.get(key) or "") for key in (PROJECT_LABEL, _FOLDER_LABEL, _SERVICE_LABEL))
    return _Origin(project=project, folder=folder, service=service)


def _several_owners(name: str, owners: set[_Origin]) -> str:
    return f'the name "{name}" has several owners and may lead to either: {"; ".join(map(str, sorted(owners)))}'


def _several_folders(origins: set[_Origin]) -> Iterator[str]:
    """Two checkouts in folders of one name are one project to Compose (B28)."""
    for project in sorted({origin.project for origin in origins if origin.project}):
        folders = sorted({origin.folder for origin in origins if origin.project == project and origin.folder})
        if len(folders) > 1:
            listed = ", ".join(f'"{shown(folder)}"' for folder in folders)
            yield f'Compose project "{shown(project)}" has containers from {len(folders)} folders: {listed}'
