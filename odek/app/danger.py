"""Settings, host and container → what holds for commands there: the one place that knows both sides (R-84, D-6).

Imports the classifier, so it is itself imported only when something has to be decided.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, replace

from odek.config.danger import DangerSettings
from odek.config.settings import SandboxSettings
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Policy, PolicyContext, sandbox_table
from odek.danger.risk import RiskClass
from odek.danger.rules.local_services import SELF
from odek.host import Host
from odek.host_executor.look import HostLook
from odek.safefile import is_inside
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.spec import DEFAULT_HOME
from odek.sandbox_grammar import WORKSPACE


def host_policy(danger: DangerSettings, host: Host, *, interactive: bool) -> PolicyContext:
    """Return what holds on the host. `interactive`: a person can be asked."""
    home = os.path.realpath(own_home(host)) if own_home(host) else ""
    place = Place(home=home, cwd=host.cwd, workspace=host.cwd, temp=("/tmp", *_temporary(host, home)), look=HostLook())
    policy = Policy(
        table=HOST_TABLE,
        action=danger.action,
        classes=danger.classes,
        allowlist=danger.allowlist,
        denylist=danger.denylist,
        non_interactive=danger.non_interactive,
        interactive=interactive,
    )
    return PolicyContext(place=place, policy=policy)


def sandbox_policy(
    danger: DangerSettings, *, home: str, internet: bool, interactive: bool, services: tuple[str, ...] = ()
) -> PolicyContext:
    """Return what holds in a real sandbox (D-6).

    `dangerous.sandboxed` replaces what is in `dangerous`, but for the denylist: deny beats allow.
    `services` are the names that other containers answer to on attached networks.
    """
    own = danger.sandboxed or danger
    policy = Policy(
        table=sandbox_table(internet=internet),
        section="dangerous.sandboxed",
        action=own.action,
        classes=own.classes,
        allowlist=own.allowlist,
        denylist=danger.sandboxed.denylist if danger.sandboxed else (),
        shared_denylist=danger.denylist,
        non_interactive=own.non_interactive,
        interactive=interactive,
    )
    peers = SELF | {name.lower() for name in services}
    place = Place(home=home, cwd=WORKSPACE, workspace=WORKSPACE, sandboxed=True, peers=peers)
    return PolicyContext(place=place, policy=policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What keeps a sub-agent's policy within its parent's (R-222)."""

    ceiling: RiskClass
    trusted: bool
    """whether a question may be asked for it; if not, each one is a no"""
    internet: bool
    """whether the parent reaches the internet: what asks there asks here, too"""
    services: tuple[str, ...]
    """the names that other containers answer to for the parent; what came later is a stranger"""


def narrow_policy(context: PolicyContext, within: Within) -> PolicyContext:
    """Return `context`, with nothing allowed that is not for the parent."""
    place, policy = context.place, replace(context.policy, ceiling=within.ceiling)
    if not within.trusted:
        policy = replace(policy, interactive=False, non_interactive="deny")
    if place.sandboxed:
        place = replace(place, peers=SELF | place.peers & {name.lower() for name in within.services})
        policy = replace(policy, table=sandbox_table(internet=within.internet)) if within.internet else policy
    return PolicyContext(place=place, policy=policy)


def policy_for(danger: DangerSettings, facts: ContainerFacts | None, host: Host, *, interactive: bool) -> PolicyContext:
    """Return what holds in the container that `facts` describe, or on the host."""
    if facts is None:
        return host_policy(danger, host, interactive=interactive)
    return sandbox_policy(
        danger, home=facts.home, internet=facts.internet, interactive=interactive, services=facts.service_names
    )


def expected_sandbox_policy(danger: DangerSettings, sandbox: SandboxSettings) -> PolicyContext:
    """Return what would hold in a sandbox with these settings, as far as is known without Docker.

    Attached networks are taken to reach the internet.
    """
    internet = sandbox.network == "bridge" or bool(sandbox.networks or sandbox.compose_project)
    home = dict(sandbox.env).get("HOME", DEFAULT_HOME)
    return sandbox_policy(danger, home=home, internet=internet, interactive=True)


def own_home(host: Host) -> str:
    """Return the home of the user: HOME if it is theirs, else what the system knows (runtime 5.4).

    A HOME that belongs to another user must not turn their files into ordinary ground.
    """
    try:
        known = pwd.getpwuid(host.uid).pw_dir
    except KeyError:
        known = ""
    if not host.home or host.home == known:
        return known
    try:
        return host.home if os.stat(host.home).st_uid == host.uid else known
    except OSError:
        return known


def _temporary(host: Host, home: str) -> tuple[str, ...]:
    """Return TMPDIR if it is a folder for temporary files: one that holds neither home nor the project."""
    folder = os.path.normpath(host.env.get("TMPDIR", ""))
    if not os.path.isabs(folder) or folder.count("/") < 2:
        return ()
    holds = [path for path in (home, host.cwd) if is_inside(path, folder)]
    return () if holds else (folder,)
