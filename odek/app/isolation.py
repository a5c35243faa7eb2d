"""Sandbox or host? Every decision between the two, as pure functions (R-1 to R-7, D-9, D-11).

Two cells of the whole table lead to the host; whatever is not in it stops the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.config.options import Source
from odek.config.settings import Settings
from odek.errors import ConfigError, OdekError, UsageError
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable
from odek.text import visible

if TYPE_CHECKING:
    from odek.app.answer_format import AnswerFormat

PIN_ORIGIN = "as the session was begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProfile:
    """What makes one command different from another."""

    command: str
    sandboxed_by_default: bool = True
    never_on_host: bool = False
    """no fall back to the host, whatever the cause: `serve`"""
    pinned: bool | None = None
    """whether the session that goes on was begun in a sandbox (R-2); None: it begins here"""
    planning: bool = False
    """turns only plan: read-only, and without tools that write (R-281)"""
    surface: str = "a terminal; the answer is printed as plain text"
    session_needed: bool = True
    """whether a turn is refused where its session cannot be made, or goes on unkept (R-397)"""
    answer: AnswerFormat | None = None
    """what the last answer has to be; None: text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDecision:
    """Whether commands are to run in a sandbox, and who decided it."""

    sandboxed: bool
    explicit: bool
    """it was asked for, as opposed to the command's default (R-6)"""
    origin: str
    """who: "--sandbox", "ODEK_NO_SANDBOX", "the default of odek run" """


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPolicy:
    """What forbids a fall back to the host."""

    explicit: bool
    required_by: str
    """ODEK_REQUIRE_SANDBOX, ODEK_REQUIRE_VERIFIED or --require; "" for none"""
    networks_asked: bool
    """networks or a Compose project: their absence changes what the task can mean"""
    never_on_host: bool
    """`serve`, and a session that was sandboxed before"""
    readonly_asked: bool
    """read-only is a promise about this machine's files, which only a container can keep (D-22)"""
    image_from_project: bool
    """a project must not push work to the host by naming an image that cannot be pulled (D-1)"""


def decide_sandbox(profile: CommandProfile, settings: Settings) -> SandboxDecision:
    """Return whether a command with `profile` is to run in a sandbox, and who said so."""
    return choose_sandbox(
        enabled=settings.sandbox.enabled,
        origin=settings.origin_of("sandbox"),
        from_flag=settings.source_of("sandbox") is Source.FLAG,
        no_sandbox=settings.no_sandbox,
        default=profile.sandboxed_by_default,
        command=profile.command,
        pinned=profile.pinned,
    )


def require_permitted(decision: SandboxDecision, settings: Settings) -> None:
    """Refuse a run on this host that a setting forbids. Raises ConfigError and UsageError."""
    require_allowed(decision, required_by=settings.sandbox_required_by)
    readonly = settings.origin_of("sandbox_readonly") if settings.sandbox.readonly else ""
    require_readonly_kept(decision, readonly_origin=readonly)


def fallback_policy(
    profile: CommandProfile, settings: Settings, decision: SandboxDecision, *, image_from_project: bool
) -> FallbackPolicy:
    """Return what forbids a run the fall back to the host."""
    sandbox = settings.sandbox
    return FallbackPolicy(
        explicit=decision.explicit,
        required_by=settings.sandbox_required_by,
        networks_asked=bool(sandbox.networks or sandbox.compose_project or sandbox.networks_asked_by),
        readonly_asked=sandbox.readonly,
        never_on_host=profile.never_on_host or profile.pinned is True,
        image_from_project=image_from_project,
    )


def choose_sandbox(
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

    `enabled` is the setting `sandbox` (None: not set) and `origin` who set it; a flag beats
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


def require_allowed(decision: SandboxDecision, *, required_by: str) -> None:
    """Refuse a run without a sandbox where `required_by` ("": none) forbids it (R-4). Raises ConfigError."""
    if required_by and not decision.sandboxed:
        raise ConfigError(
            f"commands would run without a sandbox ({decision.origin}), and {required_by} forbids it",
            hint=f"drop the opt-out, or {'leave out' if required_by.startswith('--') else 'unset'} {required_by}",
        )


def require_readonly_kept(decision: SandboxDecision, *, readonly_origin: str) -> None:
    """Refuse a run without a sandbox where `readonly_origin` ("": none) asked for read-only (D-22).

    Raises UsageError.
    """
    if readonly_origin and not decision.sandboxed:
        raise UsageError(
            f"read-only was asked for ({readonly_origin}), and commands would run without a sandbox "
            f"({decision.origin}), which cannot keep it",
            hint="drop the opt-out, or leave out --plan"
            if readonly_origin == "--plan"
            else "drop the opt-out, or set ODEK_SANDBOX_READONLY=0 to give this run write access to the folder",
        )


def may_fall_back(error: BaseException, policy: FallbackPolicy) -> bool:
    """Return whether a run goes on on the host when its sandbox could not be had (R-7); else it stops."""
    if policy.explicit or policy.required_by or policy.networks_asked or policy.never_on_host or policy.readonly_asked:
        return False
    if isinstance(error, DaemonUnreachable):
        return True
    # whatever else: stop rather than run on the host what was meant for the sandbox
    return isinstance(error, ImageUnavailable) and not policy.image_from_project


def explain_stop(error: OdekError, policy: FallbackPolicy) -> str:
    """Return why this failure does not fall back to the host; "" where it does, or where none ever would."""
    if not isinstance(error, (DaemonUnreachable, ImageUnavailable)) or may_fall_back(error, policy):
        return ""
    if policy.required_by:
        return f"{policy.required_by} is set"
    if policy.networks_asked:
        return "networks were asked for"
    if policy.readonly_asked:
        return "read-only was asked for"
    if policy.never_on_host:
        return "this session must not run on the host"
    if policy.explicit:
        return "a sandbox was asked for explicitly"
    return "the image was named by the project"


def void_settings(settings: Settings) -> tuple[str, ...]:
    """Return the settings of the sandbox that mean nothing on this host, each with who set it."""
    return tuple(
        f"{key} ({visible(found.origin)})"
        for key, found in settings.resolved.items()
        if key.startswith("sandbox_") and found.source is not Source.DEFAULT and found.value not in (False, "", ())
    )
