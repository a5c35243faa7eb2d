"""What is true of a running sandbox, as observed, not as asked for."""

from __future__ import annotations

from dataclasses import dataclass


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
    networks: tuple[str, ...] = ()
    pids_limit: int
    readonly: bool
    workspace_writable: bool
