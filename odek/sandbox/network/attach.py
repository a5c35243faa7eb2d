"""Ask Docker for existing networks, connect the sandbox to them, list the service names on them (R-52 to R-57).

No network is ever removed. Every failure here is a SandboxConfigError: by now the daemon has answered once,
and a run does not go on without a network that was asked for. The name of a service may read like an
instruction even if it has the right characters: it is shown inside the untrusted wrapper only (B28).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from odek.process import Completed
from odek.sandbox.argv import (
    LABEL,
    connect_argv,
    list_networks_argv,
)
from odek.sandbox.docker import CALL_TIMEOUT_S, Docker, docker_output, inspect, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import (
    PROJECT_LABEL,
    Listed,
    NetworkPlan,
    NetworkRequest,
    choose_named,
    choose_of_project,
    is_full_id,
    parse_listing,
    parse_network,
    plan_networks,
    shown,
)
from odek.sandbox_grammar import is_network_name

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
    notes: tuple[str, ...] = ()
    """for the user: names with several owners, projects that come from several folders"""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        notes.append(f"the model is shown {MAX_NAMES} of {len(owners)} service names")
    return ServiceNames(names=shown, omitted=omitted, notes=tuple(notes))


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
        usable = {name for name in aliases if is_network_name(name)}
        yield from usable or filter(is_network_name, (own_name,))


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
    in_order = sorted(owners, key=lambda owner: (owner.project, owner.folder, owner.service))
    return f'the name "{name}" has several owners and may lead to either: {"; ".join(map(str, in_order))}'


def _several_folders(origins: set[_Origin]) -> Iterator[str]:
    """Two checkouts in folders of one name are one project to Compose (B28)."""
    for project in sorted({origin.project for origin in origins if origin.project}):
        folders = sorted({origin.folder for origin in origins if origin.project == project and origin.folder})
        if len(folders) > 1:
            listed = ", ".join(f'"{shown(folder)}"' for folder in folders)
            yield f'Compose project "{shown(project)}" has containers from {len(folders)} folders: {listed}'


def inspect_networks(request: NetworkRequest, docker: Docker) -> NetworkPlan:
    """Return what `request` comes to now. Raises SandboxConfigError; see plan_networks."""
    if not request.attaches:
        return NetworkPlan(mode=request.mode)
    chosen = choose_named(request, _list(request, docker)) if request.names else ()
    project = request.compose_project
    of_project = choose_of_project(request, _list(request, docker, project=project)) if project else ()
    ids = tuple(dict.fromkeys((*chosen, *of_project)))
    # a code other than 0 may only mean that a network went away meanwhile; plan_networks says which
    inspected = _inspect(docker, "network", *ids, subject=_subject(request)) if ids else ()
    return plan_networks(request, chosen=chosen, of_project=of_project, inspected=tuple(map(parse_network, inspected)))


def inspect_planned(plan: NetworkPlan, docker: Docker) -> NetworkPlan:
    """Return what is left of `plan` under the IDs that it has; what was made anew has another.

    Raises SandboxConfigError when Docker does not tell.
    """
    if not plan.attached:
        return plan
    subject = "network " + ", ".join(f'"{network.name}"' for network in plan.attached)
    found = _inspect(docker, "network", *(network.id for network in plan.attached), subject=subject)
    by_id = {network.id: network for network in map(parse_network, found)}
    return replace(plan, attached=tuple(by_id[net.id] for net in plan.attached if net.id in by_id))


def connect_rest(plan: NetworkPlan, container: str, docker: Docker) -> None:
    """Connect a running container to the networks that it was not started with. Raises SandboxConfigError."""
    for network in plan.connect_networks:
        done = run_docker(docker, *connect_argv(network.id, container))
        _require(done, f'Docker did not connect the sandbox to network "{network.name}" ({network.id})')


def explain_refusal(plan: NetworkPlan, docker: Docker) -> SandboxConfigError | None:
    """Return why a container could not be started with the first network of `plan`, if that was the cause."""
    first = next((network for network in plan.attached if network.id == plan.run_network), None)
    if first is None:
        return None
    done = inspect(docker, "network", first.id).done
    if done.code == 0 and not done.timed_out:
        return None
    return SandboxConfigError(
        f'network "{first.name}" ({first.id}) is gone',
        hint="start odek again: it looks for the networks anew",
        detail=docker_output(done),
    )


def service_names(plan: NetworkPlan, own_id: str, docker: Docker) -> ServiceNames:
    """Return what other containers on the attached networks answer to; `own_id` is "" before the start.

    Raises SandboxConfigError when Docker does not tell.
    """
    if not plan.attached:
        return ServiceNames()
    subject = "network " + ", ".join(f'"{network.name}"' for network in plan.attached)
    networks = _inspect(docker, "network", *(network.id for network in plan.attached), subject=subject)
    others = tuple(member for member in member_ids(networks) if member != own_id and is_full_id(member))
    if not others:
        return ServiceNames()
    containers = _inspect(docker, "container", *others, subject=f"the containers on {subject}")
    return list_services(plan, containers, own_id=own_id)


def _list(request: NetworkRequest, docker: Docker, *, project: str = "") -> tuple[Listed, ...]:
    listed = run_docker(docker, *list_networks_argv(project=project))
    _require(listed, f"Docker does not list its networks: {_subject(request)} cannot be found")
    return parse_listing(listed.stdout.text)


def _inspect(docker: Docker, kind: str, *ids: str, subject: str) -> tuple[Mapping[str, Any], ...]:
    """Return the objects that exist. Some of several may be missing: what was there a moment ago
    need not be there now."""
    shown = inspect(docker, kind, *ids)
    if shown.objects is None:
        raise SandboxConfigError(
            f"Docker does not describe {subject}",
            hint="try again; `docker network ls` must list the networks",
            detail=docker_output(shown.done),
        )
    return shown.objects


def _require(done: Completed, message: str) -> None:
    if done.code != 0 or done.timed_out:
        late = f"Docker did not answer within {CALL_TIMEOUT_S:.0f} seconds" if done.timed_out else ""
        raise SandboxConfigError(
            message,
            hint="start odek again; `docker network ls` lists the networks there are",
            detail="\n".join(filter(None, (late, docker_output(done)))),
        )


def _subject(request: NetworkRequest) -> str:
    named = ", ".join(f'"{name}"' for name in request.names)
    project = f'the networks of Compose project "{request.compose_project}"' if request.compose_project else ""
    parts = (f"network {named}" if named else "", project)
    return f"{' and '.join(filter(None, parts))} ({request.origin})"
