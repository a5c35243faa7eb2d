"""What a project asks the operator for, and the operator's word on it (R-60, R-61)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from odek.approval.gate import Operator, require_approval
from odek.approval.request import ApprovalRequest, ApprovedNetwork, EnvOverride
from odek.approval.store import ApprovalStore
from odek.config.resolve import Override
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.events import Sink
from odek.host import Host
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.network.plan import NetworkPlan
from odek.state import StateFolder


def approval_request(
    overrides: Sequence[Override],
    plan: NetworkPlan,
    host: Host,
    dockerfile: Dockerfile | None = None,
    *,
    readonly: bool = False,
) -> ApprovalRequest:
    """Return what the project asks the operator for: its overrides, networks by their full IDs, and the
    build of `dockerfile`; `readonly`: whether the sandbox is. Pure."""
    asked = {override.key: override.value for override in overrides}
    env = cast("tuple[tuple[str, str], ...]", asked.get("sandbox_env", ()))
    by_project = "sandbox_networks" in asked or "sandbox_compose_project" in asked
    return ApprovalRequest(
        project_dir=host.cwd,
        image=str(asked.get("sandbox_image", "")),
        network=str(asked.get("sandbox_network", "")),
        networks=tuple(
            ApprovedNetwork(
                name=network.name, id=network.id, internal=network.internal, compose_project=network.compose_project
            )
            for network in (plan.attached if by_project else ())
        ),
        compose_project=str(asked.get("sandbox_compose_project", "")),
        env=tuple(EnvOverride(key=key, value=value, variables=variables_in(value)) for key, value in env),
        volumes=tuple(str(volume) for volume in asked.get("sandbox_volumes", ())),
        user=str(asked.get("sandbox_user", "")),
        dockerfile_sha256=dockerfile.sha256 if dockerfile else "",
        ignore_sha256=dockerfile.ignore_sha256 if dockerfile else "",
        readonly=readonly,
    )


def require_project_approval(
    request: ApprovalRequest, settings: Settings, host: Host, operator: Operator | None, emit: Sink
) -> None:
    """Return when `request` may be granted. Raises ApprovalDenied and StateFileError."""
    require_approval(
        replace(request, build_network=settings.build_network),
        operator=operator,
        store=ApprovalStore(StateFolder(host.operator_home)),
        approved_by_environment=settings.approve_project_sandbox,
        emit=emit,
    )
