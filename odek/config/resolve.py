"""Layers to Settings; and what the project's layer changes (R-10, R-15, R-16, D-7, D-9). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

from odek.config.layers import Layer, Value, explain_unknown_key
from odek.config.options import GLOBAL_FILE, PROJECT_FILE, Option, ProjectRule, Resolved, Source
from odek.config.provider import address_of
from odek.config.settings import BY_KEY, OPTIONS, RESERVED, Settings
from odek.config.values import Pair
from odek.errors import ConfigError

OverrideValue = str | tuple[str, ...] | tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What a project changes and the operator has to approve."""

    key: str
    value: OverrideValue
    """as the project wrote it, variables not expanded"""
    without: OverrideValue
    """the value without the project's file"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one option."""

    final: Resolved
    refused: Value | None = None
    """a project's value that its rule did not let through"""
    raw_names: tuple[str, ...] = ()
    """of a map: names whose value a project wrote and that hold variables"""


def resolve(layers: Sequence[Layer]) -> Settings:
    """Return the settings that `layers`, weakest first, add up to.

    Raises ConfigError for a contradiction (D-9) and for unknown keys that look like a security setting.
    """
    _check_contradiction(layers)
    outcomes = {option.key: _fold(option, layers) for option in OPTIONS}
    resolved = _with_address({key: outcome.final for key, outcome in outcomes.items()})
    return Settings(
        MappingProxyType(resolved),
        raw_env=outcomes["sandbox_env"].raw_names,
        networks_asked_by=_networks_asked_by(layers),
        warnings=(*_layer_warnings(layers), *_refusal_warnings(outcomes), *_server_warnings(layers)),
    )


def project_overrides(layers: Sequence[Layer]) -> tuple[Override, ...]:
    """Return what the project's layer changes and the operator has to approve, in the table's order.

    A value that an operator's stronger layer replaces anyway, or that the operator has himself,
    changes nothing and is not in it (R-60).
    """
    trusted = [layer for layer in layers if layer.source is not Source.PROJECT]
    written = {key: value for layer in layers if layer.source is Source.PROJECT for key, value in layer.values.items()}
    overrides = []
    for option in OPTIONS:
        if option.project is not ProjectRule.NEEDS_APPROVAL or option.key not in written:
            continue
        with_project, without = _fold(option, layers), _fold(option, trusted)
        if with_project.final.value != without.final.value or with_project.raw_names:
            overrides.append(_override(option.key, written[option.key].value, without.final.value))
    return tuple(overrides)


def _networks_asked_by(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Return who asked for networks, in any layer of the operator's: a stronger layer drops them, not the rule
    that such a run never falls back to the host."""
    said = (
        layer.values.get(key)
        for layer in layers
        if layer.source is not Source.PROJECT
        for key in ("sandbox_networks", "sandbox_compose_project")
    )
    return tuple(dict.fromkeys(value.origin for value in said if value is not None and value.value not in ((), "")))


def _with_address(resolved: dict[str, Resolved]) -> dict[str, Resolved]:
    """Return `resolved` with the provider's own address where the provider was named and no address was."""
    own = address_of(cast("str", resolved["provider"].value))
    if own and resolved["base_url"].source is Source.DEFAULT:
        return {**resolved, "base_url": replace(resolved["base_url"], value=own)}
    return resolved


def _override(key: str, value: object, without: object) -> Override:
    return Override(key=key, value=cast("OverrideValue", value), without=cast("OverrideValue", without))


def _fold(option: Option[Any], layers: Sequence[Layer]) -> _Outcome:
    outcome = _Outcome(final=Resolved(value=option.default, source=Source.DEFAULT, origin="default"))
    for layer in layers:
        value = layer.values.get(option.key)
        if value is None:
            continue
        if layer.source is not Source.PROJECT:
            outcome = _merged(option, outcome, value, layer.source)
        elif value.value in ((), ""):
            continue  # a project may ask for something; it never takes away what the operator asked for
        elif not _admits(option, _operators(option, layers), value):
            outcome = replace(outcome, refused=value)
        elif not _is_redundant(outcome.final, value):
            outcome = _merged(option, outcome, value, layer.source)
    return outcome


def _operators(option: Option[Any], layers: Sequence[Layer]) -> Resolved:
    """Return what is in force without the project, the operator's stronger layers included."""
    return _fold(option, [layer for layer in layers if layer.source is not Source.PROJECT]).final


def _admits(option: Option[Any], current: Resolved, value: Value) -> bool:
    """Return whether a project's value counts over the operator's `current` one (R-15, R-16)."""
    if option.project is ProjectRule.CAN_ENABLE:
        return value.value is True
    if option.project is ProjectRule.CAN_LOWER and current.value is not None:  # where there is no limit, any is lower
        return option.kind.limit(value.value) <= option.kind.limit(current.value)
    return True


def _is_redundant(current: Resolved, value: Value) -> bool:
    """Return whether a project repeats what the operator has; it stays the operator's then."""
    return value.value == current.value and not (isinstance(value.value, tuple) and _raw_names(value.value))


def _merged(option: Option[Any], outcome: _Outcome, value: Value, source: Source) -> _Outcome:
    old = outcome.final
    if option.merge == "replace":
        return replace(outcome, final=Resolved(value=value.value, source=source, origin=value.origin))
    origin = value.origin if old.source is Source.DEFAULT else f"{old.origin}, {value.origin}"
    if option.merge == "by server":
        from odek.config.mcp_servers import merge_servers  # few files have any

        servers = merge_servers(cast("tuple[object, ...]", old.value), cast("tuple[object, ...]", value.value))
        return replace(outcome, final=Resolved(value=servers, source=source, origin=origin))
    if option.merge == "union":
        mine, theirs = cast("tuple[str, ...]", old.value), cast("tuple[str, ...]", value.value)
        union = tuple(dict.fromkeys((*mine, *theirs)))
        return replace(outcome, final=Resolved(value=union, source=source, origin=origin))
    pairs = cast("tuple[Pair, ...]", value.value)
    merged = tuple(sorted({**dict(cast("tuple[Pair, ...]", old.value)), **dict(pairs)}.items()))
    raw_names = _raw_names(pairs) if source is Source.PROJECT else ()
    return _Outcome(final=Resolved(value=merged, source=source, origin=origin), raw_names=raw_names)


def _raw_names(value: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(entry[0] for entry in value if isinstance(entry, tuple) and "$" in entry[1])


def _check_contradiction(layers: Sequence[Layer]) -> None:
    """D-9: two variables that say opposite things stop the run, unless a flag has decided."""
    said = {
        (layer.source, key): value.value
        for layer in layers
        for key, value in layer.values.items()
        if key in ("sandbox", "no_sandbox")
    }
    if (
        said.get((Source.ENVIRONMENT, "sandbox")) is True
        and said.get((Source.ENVIRONMENT, "no_sandbox")) is True
        and (Source.FLAG, "sandbox") not in said
    ):
        raise ConfigError("ODEK_SANDBOX and ODEK_NO_SANDBOX contradict each other", hint="unset one of them")


def _layer_warnings(layers: Sequence[Layer]) -> tuple[str, ...]:
    warnings: list[str] = []
    for layer in layers:
        warnings += layer.warnings
        warnings += [explain_unknown_key(name, layer.origin) for name in layer.unknown]
        if layer.source is Source.PROJECT:
            warnings += [_forbidden(key, layer.origin) for key in layer.unused]
        elif layer.unused:
            names = ", ".join(layer.unused)
            warnings.append(f"{layer.origin}: this version of odek has no use for {names}")
    return tuple(warnings)


def _forbidden(key: str, origin: str) -> str:
    reserved = " (reserved)" if key in RESERVED else ""
    places = BY_KEY[key].places if key in BY_KEY else f"{GLOBAL_FILE}{reserved}"
    return f'"{key}" in {origin} is ignored: a project may not set it; it belongs in {places}'


def _server_warnings(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Return a warning for what does not count of a project's MCP servers."""
    said: dict[bool, tuple[object, ...]] = {True: (), False: ()}
    for layer in layers:
        if "mcp_servers" in layer.values:
            said[layer.source is Source.PROJECT] = cast("tuple[object, ...]", layer.values["mcp_servers"].value)
    if not said[True]:
        return ()
    from odek.config.mcp_servers import refusals  # few projects have any

    return refusals(said[False], said[True], project_file=PROJECT_FILE)


def _refusal_warnings(outcomes: dict[str, _Outcome]) -> tuple[str, ...]:
    """Return a warning for each value of the project that would have made a difference."""
    warnings = []
    for key, outcome in outcomes.items():
        refused = outcome.refused
        if refused is None or refused.value == outcome.final.value:
            continue
        option = BY_KEY[key]
        reason = (
            "may only turn it on"
            if option.project is ProjectRule.CAN_ENABLE
            else f"may only lower {_shown(outcome.final)}"
        )
        warnings.append(f'"{key}" in {PROJECT_FILE} is ignored: a project {reason}; it belongs in {option.places}')
    return tuple(warnings)


def _shown(resolved: Resolved) -> str:
    return f"{resolved.value} ({resolved.origin})"
