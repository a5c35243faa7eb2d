"""Sandbox or host? Every decision between the two, as pure functions (R-1 to R-7, D-9, D-11).

Two cells of the whole table lead to the host; whatever is not in it stops the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odek.errors import ConfigError, OdekError, UsageError
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable

Outcome = Literal["stop", "host"]

PIN_ORIGIN = "as the session was begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDecision:
    """Whether commands are to run in a sandbox, and how firmly that was said."""

    sandboxed: bool
    explicit: bool
    """somebody said so, as opposed to the command's default (R-6)"""
    origin: str
    """who: "--sandbox", "ODEK_NO_SANDBOX", "the default of odek run" """


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPolicy:
    """What forbids a fall back to the host."""

    explicit: bool
    required: bool
    """ODEK_REQUIRE_SANDBOX"""
    networks_asked: bool
    """networks or a Compose project: their absence changes what the task can mean"""
    never_on_host: bool
    """`serve`, and a session that was sandboxed before"""
    readonly_asked: bool
    """read-only is a promise about this machine's files, which only a container can keep (D-22)"""
    image_from_project: bool
    """a project must not push work to the host by naming an image that cannot be pulled (D-1)"""


def choose_intent(
    *,
    enabled: bool | None,
    origin: str,
    from_flag: bool,
    no_sandbox: bool,
    default: bool,
    command: str,
    pinned: bool | None = None,
) -> SandboxDecision:
    """Return what the settings and the command's own default come to.

    `enabled` is the setting `sandbox` (None: nobody set it) and `origin` who set it; a flag beats
    ODEK_NO_SANDBOX, which beats the files. `pinned` is what a session that goes on was begun with
    (None: it begins here); a policy beats it, ODEK_NO_SANDBOX does not (R-2).
    """
    if pinned is not None:
        no_sandbox = False
    if enabled is not None and (from_flag or not no_sandbox):
        return SandboxDecision(sandboxed=enabled, explicit=True, origin=origin)
    if no_sandbox:
        return SandboxDecision(sandboxed=False, explicit=True, origin="ODEK_NO_SANDBOX")
    if pinned is not None:
        return SandboxDecision(sandboxed=pinned, explicit=pinned, origin=PIN_ORIGIN)
    return SandboxDecision(sandboxed=default, explicit=False, origin=f"the default of odek {command}")


def require_allowed(intent: SandboxDecision, *, required: bool) -> None:
    """Refuse a run without a sandbox where ODEK_REQUIRE_SANDBOX forbids it (R-4). Raises ConfigError."""
    if required and not intent.sandboxed:
        raise ConfigError(
            f"commands would run without a sandbox ({intent.origin}), and ODEK_REQUIRE_SANDBOX forbids it",
            hint="drop the opt-out, or unset ODEK_REQUIRE_SANDBOX",
        )


def require_readonly_kept(intent: SandboxDecision, *, readonly_origin: str) -> None:
    """Refuse a run without a sandbox where `readonly_origin` ("" for nobody) asked for read-only (D-22).

    Raises UsageError.
    """
    if readonly_origin and not intent.sandboxed:
        raise UsageError(
            f"read-only was asked for ({readonly_origin}), and commands would run without a sandbox ({intent.origin}), "
            "which cannot keep it",
            hint="drop the opt-out, or set ODEK_SANDBOX_READONLY=0 to give this run write access to the folder",
        )


def decide(error: BaseException, firmness: FallbackPolicy) -> Outcome:
    """Return whether a sandbox that could not be had stops the run or lets it go on on the host (R-7)."""
    if firmness.explicit or firmness.required or firmness.networks_asked or firmness.never_on_host:
        return "stop"
    if firmness.readonly_asked:
        return "stop"
    if isinstance(error, DaemonUnreachable):
        return "host"
    if isinstance(error, ImageUnavailable) and not firmness.image_from_project:
        return "host"
    return "stop"  # stop rather than run on the host what was meant for the sandbox


def explain_stop(error: OdekError, firmness: FallbackPolicy) -> str:
    """Return why this failure does not fall back to the host; "" where it does, or where none ever would."""
    if not isinstance(error, (DaemonUnreachable, ImageUnavailable)) or decide(error, firmness) == "host":
        return ""
    if firmness.required:
        return "ODEK_REQUIRE_SANDBOX is set"
    if firmness.networks_asked:
        return "networks were asked for"
    if firmness.readonly_asked:
        return "read-only was asked for"
    if firmness.never_on_host:
        return "this session must not run on the host"
    if firmness.explicit:
        return "a sandbox was asked for explicitly"
    return "the image was named by the project"
