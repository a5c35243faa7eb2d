"""The settings in force: typed, frozen, each with where it came from. Types only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from odek.config.provider import Provider

Action = Literal["allow", "prompt", "deny"]


class Source(IntEnum):
    """Who set a value, weakest first (R-10)."""

    DEFAULT = 0
    GLOBAL = 1
    PROJECT = 2
    ENVIRONMENT = 3
    FLAG = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The value of one option, as its kind has it (see values.py)."""

    value: object
    source: Source
    origin: str
    """"./odek.json", "ODEK_MODEL", "--model", "default"; several with commas when a value was gathered"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which model is asked, and how."""

    model: str
    base_url: str = field(repr=False)
    """may carry a password"""
    provider: Provider
    api_key: str = field(repr=False)
    """"" when there is none"""
    thinking: str
    """"" leaves it to the model's profile"""
    thinking_budget: int
    temperature: float
    prompt_caching: bool | None
    """None: as the provider's API has it"""
    max_iterations: int
    record: str
    """the file to write a recording to; "" for none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What one task may use up; None: no limit."""

    runtime_s: int | None
    tool_calls: int | None
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """What the container shall be, not yet checked against Docker; "" and () mean unset."""

    enabled: bool | None
    """None: nobody said; the command's own default counts"""
    image: str
    network: str
    """as written; anything but none and bridge is an error of the sandbox (R-50)"""
    networks: tuple[str, ...]
    compose_project: str
    pids_limit: int
    readonly: bool
    memory: str
    cpus: str
    tmp_size: str
    user: str
    env: tuple[tuple[str, str], ...] = field(repr=False)
    """sorted by name; the values named in `raw_env` still hold their ${VAR}"""
    raw_env: tuple[str, ...]
    """names whose value a project wrote: variables.expand_marked, after approval (R-17)"""
    volumes: tuple[str, ...]
    networks_asked_by: tuple[str, ...] = ()
    """the operator's layers that ask for networks or a Compose project, also where a stronger one dropped them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DangerSettings:
    """What is allowed, asked or refused by class; an operator's alone."""

    action: Action | None = None
    """for classes without an entry of their own; None: the built-in table"""
    classes: tuple[tuple[str, Action], ...] = ()
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    non_interactive: Literal["allow", "deny"] = "deny"
    """what "prompt" means when nobody can be asked"""
    sandboxed: DangerSettings | None = None
    """replaces the rest for commands that really run in the container (D-6)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the layers said, put together."""

    model: ModelSettings
    limits: LimitSettings
    sandbox: SandboxSettings
    no_sandbox: bool
    require_sandbox: bool
    approve_project_sandbox: bool
    build_network: bool
    network_lenient: bool
    suppress_sandbox_warning: bool
    dangerous: DangerSettings
    system: str
    no_agents: bool
    no_color: bool
    interaction_mode: str
    tools_enabled: tuple[str, ...] | None
    """None: all; (): none"""
    tools_disabled: tuple[str, ...]
    max_tool_parallel: int
    json: bool
    ctx: tuple[str, ...]
    warnings: tuple[str, ...]
    """what the operator has to be told, in order; one line each, fit for a terminal"""
    resolved: Mapping[str, Resolved] = field(repr=False)
    """by the key of the option; holds secrets"""

    def source_of(self, key: str) -> Source:
        """Return who set the option `key`."""
        return self.resolved[key].source

    def origin_of(self, key: str) -> str:
        """Return the file, variable or flag that set the option `key`, or "default"."""
        return self.resolved[key].origin

    def was_set(self, key: str) -> bool:
        """Return whether anybody set the option `key`."""
        return self.source_of(key) > Source.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What a project changes and the operator has to approve."""

    key: str
    value: str | tuple[str, ...] | tuple[tuple[str, str], ...]
    """as the project wrote it, variables not expanded"""
    without: str | tuple[str, ...] | tuple[tuple[str, str], ...]
    """the value without the project's file"""
