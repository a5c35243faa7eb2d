"""Layers to Settings; and what the project's layer changes (R-10, R-15, R-16, D-7, D-9). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

from odek.config.layers import Layer, Value, explain_unknown_key
from odek.config.options import APPROVE, BY_KEY, LIVE, LOWER_ONLY, ONLY_TRUE, PROJECT_FILE, Option
from odek.config.provider import address_of, choose_provider
from odek.config.settings import (
    DangerSettings,
    LimitSettings,
    ModelSettings,
    Override,
    Resolved,
    SandboxSettings,
    Settings,
    Source,
)
from odek.config.values import amount_of
from odek.errors import ConfigError


class _Values:
    """Reads `resolved` by type; each option has exactly one, so a mismatch is a bug."""

    def __init__(self, resolved: Mapping[str, Resolved]) -> None:
        self._resolved = resolved

    def flag(self, key: str) -> bool:
        return cast("bool", self._resolved[key].value)

    def number(self, key: str) -> int:
        return cast("int", self._resolved[key].value)

    def text(self, key: str) -> str:
        return cast("str", self._resolved[key].value)

    def texts(self, key: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._resolved[key].value)


def build_settings(
    resolved: Mapping[str, Resolved],
    *,
    raw_env: tuple[str, ...],
    networks_asked_by: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Settings:
    """Return Settings from one value for every option that is not reserved."""
    values = _Values(resolved)
    return Settings(
        model=_model(values, resolved),
        limits=_limits(resolved),
        sandbox=_sandbox(values, resolved, raw_env, networks_asked_by),
        no_sandbox=values.flag("no_sandbox"),
        require_sandbox=values.flag("require_sandbox"),
        approve_project_sandbox=values.flag("approve_project_sandbox"),
        build_network=values.flag("sandbox_build_network"),
        network_lenient=values.flag("sandbox_network_lenient"),
        suppress_sandbox_warning=values.flag("suppress_sandbox_warning"),
        dangerous=cast("DangerSettings | None", resolved["dangerous"].value) or DangerSettings(),
        system=values.text("system"),
        no_agents=values.flag("no_agents"),
        no_color=values.flag("no_color"),
        interaction_mode=values.text("interaction_mode"),
        tools_enabled=cast("tuple[str, ...] | None", resolved["tools.enabled"].value),
        tools_disabled=values.texts("tools.disabled"),
        max_tool_parallel=values.number("max_tool_parallel"),
        json=values.flag("json"),
        ctx=values.texts("ctx"),
        warnings=warnings,
        resolved=resolved,
    )


def _model(values: _Values, resolved: Mapping[str, Resolved]) -> ModelSettings:
    return ModelSettings(
        model=values.text("model"),
        base_url=values.text("base_url"),
        provider=choose_provider(values.text("provider"), values.text("base_url")),
        api_key=values.text("api_key"),
        thinking=values.text("thinking"),
        thinking_budget=values.number("thinking_budget"),
        temperature=cast("float", resolved["temperature"].value),
        prompt_caching=cast("bool | None", resolved["prompt_caching"].value),
        max_iterations=values.number("max_iterations"),
        record=values.text("record"),
    )


def _limits(resolved: Mapping[str, Resolved]) -> LimitSettings:
    runtime_s, tool_calls, input_tokens, output_tokens = (
        cast("int | None", resolved[f"limits.{name}"].value)
        for name in ("max_runtime_seconds", "max_tool_calls", "max_input_tokens", "max_output_tokens")
    )
    return LimitSettings(
        runtime_s=runtime_s, tool_calls=tool_calls, input_tokens=input_tokens, output_tokens=output_tokens
    )


def _sandbox(
    values: _Values, resolved: Mapping[str, Resolved], raw_env: tuple[str, ...], networks_asked_by: tuple[str, ...]
) -> SandboxSettings:
    return SandboxSettings(
        enabled=cast("bool | None", resolved["sandbox"].value),
        image=values.text("sandbox_image"),
        network=values.text("sandbox_network"),
        networks=values.texts("sandbox_networks"),
        compose_project=values.text("sandbox_compose_project"),
        pids_limit=values.number("sandbox_pids_limit"),
        readonly=values.flag("sandbox_readonly"),
        memory=values.text("sandbox_memory"),
        cpus=values.text("sandbox_cpus"),
        tmp_size=values.text("sandbox_tmp_size"),
        user=values.text("sandbox_user"),
        env=cast("tuple[tuple[str, str], ...]", resolved["sandbox_env"].value),
        raw_env=raw_env,
        networks_asked_by=networks_asked_by,
        volumes=values.texts("sandbox_volumes"),
    )


Pairs = tuple[tuple[str, str], ...]


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
    outcomes = {option.key: _fold(option, layers) for option in LIVE}
    resolved = _with_address({key: outcome.final for key, outcome in outcomes.items()})
    return build_settings(
        MappingProxyType(resolved),
        raw_env=outcomes["sandbox_env"].raw_names,
        networks_asked_by=_networks_asked_by(layers),
        warnings=(*_layer_warnings(layers), *_refusal_warnings(outcomes)),
    )


def project_overrides(layers: Sequence[Layer]) -> tuple[Override, ...]:
    """Return what the project's layer changes and the operator has to approve, in the table's order.

    A value that an operator's stronger layer replaces anyway, or that the operator has himself,
    changes nothing and is not in it (R-60).
    """
    trusted = [layer for layer in layers if layer.source is not Source.PROJECT]
    written = {key: value for layer in layers if layer.source is Source.PROJECT for key, value in layer.values.items()}
    overrides = []
    for option in LIVE:
        if option.project != APPROVE or option.key not in written:
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
    return Override(key=key, value=cast("str | tuple[str, ...] | Pairs", value), without=cast("str | Pairs", without))


def _fold(option: Option, layers: Sequence[Layer]) -> _Outcome:
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
        elif not _says_nothing_new(outcome.final, value):
            outcome = _merged(option, outcome, value, layer.source)
    return outcome


def _operators(option: Option, layers: Sequence[Layer]) -> Resolved:
    """Return what is in force without the project, the operator's stronger layers included."""
    return _fold(option, [layer for layer in layers if layer.source is not Source.PROJECT]).final


def _admits(option: Option, current: Resolved, value: Value) -> bool:
    """Return whether a project's value counts over the operator's `current` one (R-15, R-16)."""
    if option.project == ONLY_TRUE:
        return value.value is True
    if option.project == LOWER_ONLY and current.value not in ("", None):  # "no limit": any limit is lower
        limit = amount_of(option, current.value, current.origin)
        return amount_of(option, value.value, value.origin) <= limit
    return True


def _says_nothing_new(current: Resolved, value: Value) -> bool:
    """Return whether a project repeats what the operator has; it stays the operator's then."""
    return value.value == current.value and not (isinstance(value.value, tuple) and _raw_names(value.value))


def _merged(option: Option, outcome: _Outcome, value: Value, source: Source) -> _Outcome:
    old = outcome.final
    if option.merge == "replace":
        return replace(outcome, final=Resolved(value=value.value, source=source, origin=value.origin))
    origin = value.origin if old.source is Source.DEFAULT else f"{old.origin}, {value.origin}"
    if option.merge == "union":
        mine, theirs = cast("tuple[str, ...]", old.value), cast("tuple[str, ...]", value.value)
        union = tuple(dict.fromkeys((*mine, *theirs)))
        return replace(outcome, final=Resolved(value=union, source=source, origin=origin))
    pairs = cast("Pairs", value.value)
    merged = tuple(sorted({**dict(cast("Pairs", old.value)), **dict(pairs)}.items()))
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
            warnings += [_forbidden(BY_KEY[key], layer.origin) for key in layer.unused]
        elif layer.unused:
            names = ", ".join(layer.unused)
            warnings.append(f"{layer.origin}: this version of odek has no use for {names}")
    return tuple(warnings)


def _forbidden(option: Option, origin: str) -> str:
    places = option.places if not option.reserved else f"{option.places} (reserved)"
    return f'"{option.key}" in {origin} is ignored: a project may not set it; it belongs in {places}'


def _refusal_warnings(outcomes: dict[str, _Outcome]) -> tuple[str, ...]:
    """Return a warning for each value of the project that would have made a difference."""
    warnings = []
    for key, outcome in outcomes.items():
        refused = outcome.refused
        if refused is None or refused.value == outcome.final.value:
            continue
        option = BY_KEY[key]
        reason = "may only turn it on" if option.project == ONLY_TRUE else f"may only lower {_shown(outcome.final)}"
        warnings.append(f'"{key}" in {PROJECT_FILE} is ignored: a project {reason}; it belongs in {option.places}')
    return tuple(warnings)


def _shown(resolved: Resolved) -> str:
    return f"{resolved.value} ({resolved.origin})"
