"""The values of an explanation, each with its source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from odek.approval.listing import handle
from odek.approval.request import describe_plainly
from odek.approval.store import approval_key
from odek.config.layers import Layer
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.errors import OdekError
from odek.explain.types import ApprovalState, Asked, Entry, Look, Section
from odek.isolation import Intent, decide, explain_stop
from odek.sandbox.engine import own_user
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable
from odek.sandbox.network import Network
from odek.sandbox.spec import ATTACHMENTS, DEFAULT_HOME, WORKSPACE

_APPROVAL_ORIGINS: Mapping[ApprovalState, str] = {
    "not needed": "the project changes nothing",
    "given by the environment": "ODEK_APPROVE_PROJECT_SANDBOX",
    "remembered": "odek approvals list",
    "asked for": "the terminal",
    "impossible": "no terminal",
    "unknown": "it depends on networks that were not found",
}


def sandbox_sections(asked: Asked, look: Look) -> tuple[Section, ...]:
    """Return what is known of a run that wants a sandbox."""
    return (
        place_section(asked.settings, asked.intent, *_without(asked, look)),
        _image(asked, look),
        _network(asked, look),
        _limits(asked),
        _mounts(asked),
        _user(asked, look),
        _env(asked),
        _approval(look),
    )


def place_section(settings: Settings, intent: Intent, *more: Entry) -> Section:
    """Return who decided between sandbox and host; `more` follows."""
    return Section(
        name="place",
        entries=(
            Entry(name="sandboxed", value=intent.sandboxed, origin=intent.origin),
            Entry(name="explicit", value=intent.explicit, origin=intent.origin),
            _setting(settings, "required", "require_sandbox", settings.require_sandbox),
            *more,
        ),
    )


def _without(asked: Asked, look: Look) -> Iterator[Entry]:
    """Yield what is known of Docker, and what its absence would mean."""
    yield Entry(name="docker", value=look.client or None, origin="PATH")
    yield Entry(name="daemon", value=look.version or None, origin="Docker")
    absent: tuple[tuple[str, OdekError], ...] = (
        ("without_daemon", DaemonUnreachable("no connection", "", hint="")),
        ("without_image", ImageUnavailable("")),
    )
    for name, error in absent:
        reason = explain_stop(error, asked.firmness) if decide(error, asked.firmness) == "stop" else ""
        yield Entry(
            name=name, value=decide(error, asked.firmness), origin=reason or "nobody asked for the sandbox explicitly"
        )


def _image(asked: Asked, look: Look) -> Section:
    image, dockerfile = asked.draft.image, asked.draft.dockerfile
    entries = [Entry(name="reference", value=image.ref, origin=image.origin)]
    if dockerfile is not None:
        entries += [
            Entry(name="dockerfile_sha256", value=dockerfile.sha256, origin=image.origin),
            _setting(asked.settings, "build_network", "sandbox_build_network", asked.settings.build_network),
        ]
    entries += [
        Entry(name="id", value=look.image_id or None, origin="Docker"),
        Entry(name="action", value=_image_action(asked, look), origin="Docker"),
    ]
    return Section(name="image", entries=tuple(entries))


def _image_action(asked: Asked, look: Look) -> str | None:
    if look.image_id:
        return "use"
    if not look.version:
        return None
    if asked.draft.dockerfile is not None:
        return "build"
    return "stop" if asked.draft.image.is_id else "pull"


def _network(asked: Asked, look: Look) -> Section:
    request, settings, plan = asked.draft.networks, asked.settings, look.plan
    entries = [_setting(settings, "mode", "sandbox_network", request.mode)]
    if request.names:
        entries.append(_setting(settings, "named", "sandbox_networks", list(request.names)))
    if request.compose_project:
        entries.append(_setting(settings, "compose_project", "sandbox_compose_project", request.compose_project))
    entries += [
        Entry(name="result", value=plan.label if plan else None, origin="Docker" if request.attaches else "mode"),
        Entry(name="internet", value=plan.internet if plan else None, origin="result"),
    ]
    if request.attaches:
        attached = [_attached(network) for network in plan.attached] if plan else None
        entries.append(Entry(name="attached", value=attached, origin="Docker"))
    return Section(name="network", entries=tuple(entries))


def _attached(network: Network) -> dict[str, object]:
    return {
        "name": network.name,
        "id": network.id,
        "internal": network.internal,
        "compose_project": network.compose_project or None,
    }


def _limits(asked: Asked) -> Section:
    settings, sandbox = asked.settings, asked.settings.sandbox
    return Section(
        name="limits",
        entries=(
            _setting(settings, "pids", "sandbox_pids_limit", sandbox.pids_limit),
            _setting(settings, "memory", "sandbox_memory", sandbox.memory or None),
            _setting(settings, "cpus", "sandbox_cpus", sandbox.cpus or None),
            _setting(settings, "tmp_bytes", "sandbox_tmp_size", asked.draft.limits.tmp_bytes),
        ),
    )


def _mounts(asked: Asked) -> Section:
    settings, draft = asked.settings, asked.draft
    origin = settings.origin_of("sandbox_volumes")
    made = dict.fromkeys(draft.missing_folders, f"{origin}; the folder is made first")
    return Section(
        name="mounts",
        entries=(
            Entry(name=WORKSPACE, value=asked.host.cwd, origin="the working directory"),
            _setting(settings, "readonly", "sandbox_readonly", settings.sandbox.readonly),
            *(
                Entry(name=volume.target, value=volume.source, origin=made.get(volume.source, origin))
                for volume in draft.volumes
            ),
            Entry(name="/tmp", value="tmpfs", origin="always"),
            *((Entry(name=ATTACHMENTS, value="tmpfs", origin="--ctx"),) if draft.attachments else ()),
        ),
    )


def _user(asked: Asked, look: Look) -> Section:
    settings, env = asked.settings, dict(asked.settings.sandbox.env)
    user = asked.draft.user or own_user(look.engine, uid=asked.host.uid, gid=asked.host.gid)
    started = "who started odek" + (", who is uid 0 in a rootless engine" if look.engine.rootless else "")
    user_origin = settings.origin_of("sandbox_user") if settings.sandbox.user else started
    home_origin = "sandbox_env" if "HOME" in env else "default"
    return Section(
        name="user",
        entries=(
            Entry(name="user", value=user, origin=user_origin),
            Entry(name="home", value=None if "HOME" in env else DEFAULT_HOME, origin=home_origin),
        ),
    )


def _env(asked: Asked) -> Section:
    """Names only, and what a project's value would read."""
    sandbox = asked.settings.sandbox
    origins = _env_origins(asked.layers)
    return Section(
        name="env",
        entries=tuple(
            Entry(
                name=name,
                value="reads " + ", ".join(variables_in(value)) if name in sandbox.raw_env else "set",
                origin=origins.get(name, asked.settings.origin_of("sandbox_env")),
            )
            for name, value in sandbox.env
        ),
    )


def _env_origins(layers: Sequence[Layer]) -> Mapping[str, str]:
    """Return who set each variable: the maps of all layers are merged, the strongest wins (D-7)."""
    found = (layer.values["sandbox_env"] for layer in layers if "sandbox_env" in layer.values)
    return {name: value.origin for value in found for name, _ in cast("tuple[tuple[str, str], ...]", value.value)}


def _approval(look: Look) -> Section:
    entries = [Entry(name="state", value=look.approval, origin=_APPROVAL_ORIGINS[look.approval])]
    if look.request is not None and not look.request.is_empty:
        entries += [
            Entry(name="key", value=handle(approval_key(look.request)), origin="what is asked for, and where"),
            Entry(name="asks", value=describe_plainly(look.request).split("\n"), origin=look.request.sources),
        ]
    return Section(name="approval", entries=tuple(entries))


def _setting(settings: Settings, name: str, key: str, value: object) -> Entry:
    return Entry(name=name, value=value, origin=settings.origin_of(key))
