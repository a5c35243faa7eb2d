"""What is known before a run starts, and the explanation that it comes to. Types only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from odek.approval.request import ApprovalRequest
from odek.config.layers import Layer
from odek.config.settings import Settings
from odek.errors import OdekError
from odek.host import Host
from odek.isolation import Firmness, Intent
from odek.sandbox.engine import DOCKER, Engine
from odek.sandbox.network import NetworkPlan
from odek.sandbox.owner import Owner
from odek.setup.sandbox import Draft

Outcome = Literal["sandbox", "host", "stop"]
ApprovalState = Literal["not needed", "given by the environment", "remembered", "asked for", "impossible", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was decided before anything was looked at."""

    settings: Settings
    layers: Sequence[Layer]
    host: Host
    intent: Intent
    draft: Draft
    firmness: Firmness
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What this machine says; nothing was changed to find it out."""

    client: str
    """path of the docker client; "" when there is none"""
    version: str = ""
    """of the daemon; "" when it does not answer"""
    engine: Engine = DOCKER
    failure: OdekError | None = None
    """why the daemon cannot be used, or not for this"""
    plan: NetworkPlan | None = None
    """None: the networks could not be looked up"""
    plan_failure: OdekError | None = None
    image_id: str = ""
    """"" when the image is not there, or nobody knows"""
    request: ApprovalRequest | None = None
    """None: it needs networks that could not be looked up"""
    approval: ApprovalState = "unknown"
    env_failure: OdekError | None = None
    """why the values of `sandbox_env` cannot be made"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value and where it comes from."""

    name: str
    value: object
    """fit for JSON; None: nothing, or unknown"""
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Values that belong together."""

    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run would do."""

    outcome: Outcome
    why: str
    problems: tuple[str, ...] = ()
    """what a run would stop at, or fall back for, in the order in which it would meet it"""
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...]
    commands: tuple[tuple[str, ...], ...] = ()
    """the docker commands of the start, program first; empty when they cannot be known"""
