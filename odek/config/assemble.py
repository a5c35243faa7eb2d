"""Values by option key to the typed Settings. Pure; the one place that knows which field is which key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from odek.config.provider import choose_provider
from odek.config.settings import DangerSettings, LimitSettings, ModelSettings, Resolved, SandboxSettings, Settings


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
