"""Asking Docker for existing networks, and connecting the sandbox to them (R-52 to R-54). Nothing removes one.

Every failure here is a SandboxConfigError: by now the daemon has answered once, and whatever goes
wrong with networks that somebody asked for stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.process import Completed
from odek.sandbox.argv import (
    connect_argv,
    inspect_argv,
    inspect_networks_argv,
    list_networks_argv,
)
from odek.sandbox.docker import CALL_TIMEOUT_S, Docker, call, quote, read_array
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network import NetworkPlan, NetworkRequest, is_full_id, parse_network, plan_networks
from odek.sandbox.networklist import Listed, choose_named, choose_of_project, parse_listing
from odek.sandbox.services import ServiceNames, list_services, member_ids


def inspect_networks(request: NetworkRequest, docker: Docker) -> NetworkPlan:
    """Return what `request` comes to now. Raises SandboxConfigError; see plan_networks."""
    if not request.attaches:
        return NetworkPlan(mode=request.mode)
    chosen = choose_named(request, _list(request, docker)) if request.names else ()
    project = request.compose_project
    of_project = choose_of_project(request, _list(request, docker, project=project)) if project else ()
    ids = tuple(dict.fromkeys((*chosen, *of_project)))
    # a code other than 0 may only mean that a network went away meanwhile; plan_networks says which
    inspected = _parse_array(call(docker, *inspect_networks_argv(*ids)), _subject(request)) if ids else ()
    return plan_networks(request, chosen=chosen, of_project=of_project, inspected=tuple(map(parse_network, inspected)))


def connect_rest(plan: NetworkPlan, container: str, docker: Docker) -> None:
    """Connect a running container to the networks that it was not started with. Raises SandboxConfigError."""
    for network in plan.rest:
        done = call(docker, *connect_argv(network.id, container))
        _require(done, f'Docker did not connect the sandbox to network "{network.name}" ({network.id})')


def explain_refusal(plan: NetworkPlan, docker: Docker) -> SandboxConfigError | None:
    """Return why a container could not be started with the first network of `plan`, if that was the cause."""
    first = next((network for network in plan.attached if network.id == plan.first), None)
    if first is None:
        return None
    done = call(docker, *inspect_networks_argv(first.id))
    if done.code == 0 and not done.timed_out:
        return None
    return SandboxConfigError(
        f'network "{first.name}" ({first.id}) is gone',
        hint="start odek again: it looks for the networks anew",
        detail=quote(done),
    )


def service_names(plan: NetworkPlan, own_id: str, docker: Docker) -> ServiceNames:
    """Return what other containers on the attached networks answer to; `own_id` is "" before the start.

    Raises SandboxConfigError when Docker does not tell.
    """
    if not plan.attached:
        return ServiceNames()
    subject = "network " + ", ".join(f'"{network.name}"' for network in plan.attached)
    networks = _parse_array(call(docker, *inspect_networks_argv(*(network.id for network in plan.attached))), subject)
    others = tuple(member for member in member_ids(networks) if member != own_id and is_full_id(member))
    if not others:
        return ServiceNames()
    containers = _parse_array(call(docker, *inspect_argv(*others)), f"the containers on {subject}")
    return list_services(plan, containers, own_id=own_id)


def _list(request: NetworkRequest, docker: Docker, *, project: str = "") -> tuple[Listed, ...]:
    listed = call(docker, *list_networks_argv(project=project))
    _require(listed, f"Docker does not list its networks: {_subject(request)} cannot be found")
    return parse_listing(listed.stdout.text)


def _parse_array(done: Completed, subject: str) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of an `inspect`. Some of several may be missing: what was there a moment ago
    need not be there now."""
    value = read_array(done)
    if done.timed_out or value is None:
        raise SandboxConfigError(
            f"Docker does not tell about {subject}",
            hint="try again; `docker network ls` must list the networks",
            detail=quote(done),
        )
    return value


def _require(done: Completed, message: str) -> None:
    if done.code != 0 or done.timed_out:
        late = f"Docker did not answer within {CALL_TIMEOUT_S:.0f} seconds" if done.timed_out else ""
        raise SandboxConfigError(
            message,
            hint="start odek again; `docker network ls` lists the networks there are",
            detail="\n".join(filter(None, (late, quote(done)))),
        )


def _subject(request: NetworkRequest) -> str:
    named = ", ".join(f'"{name}"' for name in request.names)
    project = f'the networks of Compose project "{request.compose_project}"' if request.compose_project else ""
    parts = (f"network {named}" if named else "", project)
    return f"{' and '.join(filter(None, parts))} ({request.origin})"
