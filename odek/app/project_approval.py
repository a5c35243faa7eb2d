"""What a project asks the operator for, and the operator's answer (R-60, R-61)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from odek.approval.description import describe_plainly
from odek.approval.gate import Operator, require_approval
from odek.approval.request import ApprovalRequest, ApprovedNetwork, EnvOverride
from odek.approval.store import ApprovalStore, approval_key
from odek.config.resolve import Override
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.errors import ApprovalDenied
from odek.events import Sink
from odek.host import Host
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.network.plan import NetworkPlan
from odek.state import StateFolder

_IN_REQUEST = {
    *("sandbox_image", "sandbox_network", "sandbox_networks", "sandbox_compose_project"),
    *("sandbox_env", "sandbox_volumes", "sandbox_user"),
}
"""the settings that a request shows"""
ApprovalState = Literal["not needed", "given by the environment", "remembered", "asked for", "impossible", "unknown"]


def approval_request(
    overrides: Sequence[Override],
    plan: NetworkPlan,
    host: Host,
    dockerfile: Dockerfile | None = None,
    *,
    readonly: bool = False,
    build_network: bool = False,
) -> ApprovalRequest:
    """Return what the project asks the operator for: its overrides, networks by their full IDs, and the
    build of `dockerfile`. Pure.

    `readonly`: whether the sandbox is; `build_network`: whether the operator gives the build the network.
    """
    asked = {override.key: override.value for override in overrides}
    if not asked.keys() <= _IN_REQUEST:  # it would count without having been asked about
        raise AssertionError(f"no question shows {', '.join(sorted(asked.keys() - _IN_REQUEST))}")
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
        build_network=build_network,
        readonly=readonly,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The operator's answer to one request: what may be started with it is that request and no other (R-105)."""

    key: str
    """`approval_key` of the request that was approved, or that asked for nothing"""

    def require(self, request: ApprovalRequest) -> None:
        """Raise ApprovalDenied when `request` is another one than was approved."""
        if approval_key(request) != self.key:
            raise ApprovalDenied(
                "what the project asks for is not what was approved",
                hint="start odek again to be asked again",
                detail=describe_plainly(request),
            )


def require_project_approval(
    request: ApprovalRequest, settings: Settings, host: Host, operator: Operator | None, emit: Sink
) -> Grant:
    """Return the grant for `request`, after asking `operator` where that is needed.

    Raises ApprovalDenied and StateFileError.
    """
    require_approval(
        request,
        operator=operator,
        store=ApprovalStore(StateFolder(host.operator_home)),
        approved_by_environment=settings.approve_project_sandbox,
        emit=emit,
    )
    return Grant(key=approval_key(request))


def approval_state(
    request: ApprovalRequest, settings: Settings, host: Host, operator: Operator | None
) -> ApprovalState:
    """Return what `require_project_approval` would do, without asking. Raises StateFileError."""
    if request.is_empty:
        return "not needed"
    if settings.approve_project_sandbox:
        return "given by the environment"
    if ApprovalStore(StateFolder(host.operator_home)).holds(request):
        return "remembered"
    return "asked for" if operator else "impossible"
