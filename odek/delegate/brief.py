"""A task for a sub-agent, as a model or a program outside wrote it. Pure (R-220)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odek.text import truncate, visible
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.delegate import DELEGATE_TASKS, TASK

MAX_BRIEF_BYTES = 1 << 20
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a sub-agent is to do, and what of its parent's rights it is to go without; None: it has its parent's."""

    goal: str
    context: str = ""
    guidance: str = ""
    trusted: bool | None = None
    max_risk: str | None = None
    """the label of a class; commands of worse ones are refused"""
    readonly: bool | None = None
    network: str | None = None
    """none or bridge"""
    networks: tuple[str, ...] | None = None
    """names of attached networks to keep"""
    tools: tuple[str, ...] | None = None
    max_iterations: int | None = None
    timeout_s: int | None = None


def make_brief(values: Mapping[str, Any]) -> Brief:
    """Return the task whose fields, checked against TASK, are `values`. Raises ArgumentError."""
    if not values["goal"].strip():
        raise ArgumentError('"goal" is empty')
    networks, tools = values.get("networks"), values.get("tools")
    return Brief(
        goal=values["goal"],
        context=values.get("context", ""),
        guidance=values.get("guidance", ""),
        trusted=None if "trust_level" not in values else values["trust_level"] == "trusted",
        max_risk=values.get("max_risk"),
        readonly=values.get("readonly"),
        network=values.get("network"),
        networks=None if networks is None else () if networks == [NONE] else tuple(dict.fromkeys(networks)),
        tools=None if tools is None else tuple(dict.fromkeys(tools)),
        max_iterations=values.get("max_iterations"),
        timeout_s=values.get("timeout"),
    )


def parse_brief(text: str) -> Brief:
    """Return the task that the JSON object `text` is, and nothing else. Raises ArgumentError."""
    values, unknown = check_arguments(parse_arguments(text), TASK)
    if unknown:
        listed = ", ".join(f'"{visible(truncate(name, 60))}"' for name in unknown)
        raise ArgumentError(f"there is no {listed}: {DELEGATE_TASKS.strict}")
    return make_brief(values)
