"""What is true of a running sandbox, as observed; its limits are those of the spec, which inspect has confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.sandbox.network.plan import Network

if TYPE_CHECKING:
    from odek.sandbox.spec import SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """The box that commands run in."""

    name: str
    id: str
    image: str
    """the reference it was started from"""
    image_id: str
    user: str
    """uid:gid of the commands"""
    home: str
    network: str
    """none, bridge, attached, or bridge+attached"""
    internet: bool
    networks: tuple[Network, ...] = ()
    """the attached ones; their names have passed the charset check and are foreign all the same"""
    service_names: tuple[str, ...] = ()
    """what other containers answer to on them: charset-checked, sorted, at most 20"""
    pids_limit: int
    tmp_bytes: int
    readonly: bool
    workspace_writable: bool
    workspace_owner: str = ""
    """uid:gid that could write the workspace where `user` cannot; "": not known, or root"""
    started_at: str = ""
    """when the engine started it, in its own words; with `init_start` the sign of a restart; "": not known"""
    init_start: str = ""
    """when its first process started, in clock ticks (proc(5), stat field 22); "": not known"""
    git: str = ""
    """where git's data is in the sandbox that lies outside the workspace, read-only; "" when none is shared"""
    git_outside: bool = False
    """whether the folder is of a git repository whose data is not in it: a worktree, a submodule, a subfolder"""
    left_out: tuple[str, ...] = ()
    """what this machine has mounted below the workspace, relative to it; the sandbox has it not"""


def planned_facts(spec: SandboxSpec, *, name: str, services: tuple[str, ...] = ()) -> ContainerFacts:
    """Return what a container called `name` will be if it is as `spec` asks for. Pure."""
    return ContainerFacts(
        name=name,
        id="",
        image=spec.image,
        image_id=spec.image_id,
        user=spec.user,
        home=spec.home,
        network=spec.networks.label,
        internet=spec.networks.internet,
        networks=spec.networks.attached,
        service_names=services,
        pids_limit=spec.limits.pids,
        tmp_bytes=spec.limits.tmp_bytes,
        readonly=spec.readonly,
        workspace_writable=not spec.readonly,
        git=spec.git.target if spec.git else "",
        git_outside=spec.git_outside,
        left_out=spec.left_out,
    )
