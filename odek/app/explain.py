"""The values of an explanation, each with its source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from odek.app.isolation import FallbackPolicy, SandboxDecision, decide, explain_stop
from odek.app.sandbox import SandboxRequest, sandbox_spec
from odek.approval.description import describe_plainly
from odek.approval.request import ApprovalRequest
from odek.approval.store import approval_key, short_id
from odek.config.layers import Layer
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.errors import OdekError
from odek.host import Host
from odek.sandbox.argv import build_argv, connect_argv, pull_argv, run_argv
from odek.sandbox.build.builder import INPUTS_LABEL
from odek.sandbox.build.builder import LABEL as DOCKERFILE_LABEL
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.container.owner import Owner
from odek.sandbox.engine import DOCKER, Engine, own_user
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable, SandboxConfigError
from odek.sandbox.network.checks import removal_hint, warnings
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.sandbox.spec import DEFAULT_HOME
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE

Outcome = Literal["sandbox", "host", "stop"]
ApprovalState = Literal["not needed", "given by the environment", "remembered", "asked for", "impossible", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was decided before anything was looked at."""

    settings: Settings
    layers: Sequence[Layer]
    host: Host
    intent: SandboxDecision
    draft: SandboxRequest
    firmness: FallbackPolicy
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What this machine says; nothing was changed to find it out."""

    client: str
    """path of the docker client; "" when there is none"""
    version: str = ""
    """of the daemon; "" when it does not answer"""
    engine: Engine = DOCKER
    failure: OdekError | None = None
    """why the daemon cannot be used, or not for this"""
    plan: NetworkPlan | None = None
    """None: the networks could not be looked up"""
    plan_failure: OdekError | None = None
    image_id: str = ""
    """"" when the image is not there, or nobody knows"""
    request: ApprovalRequest | None = None
    """None: it needs networks that could not be looked up"""
    approval: ApprovalState = "unknown"
    env_failure: OdekError | None = None
    """why the values of `sandbox_env` cannot be made"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value and where it comes from."""

    name: str
    value: object
    """fit for JSON; None: nothing, or unknown"""
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Values that belong together."""

    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run would do."""

    outcome: Outcome
    why: str
    problems: tuple[str, ...] = ()
    """what a run would stop at, or fall back for, in the order in which it would meet it"""
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...]
    commands: tuple[tuple[str, ...], ...] = ()
    """the docker commands of the start, program first; empty when they cannot be known"""


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


def place_section(settings: Settings, intent: SandboxDecision, *more: Entry) -> Section:
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
            _setting(settings, "memory", "sandbox_memory", sandbox.memory.text if sandbox.memory else None),
            _setting(settings, "cpus", "sandbox_cpus", sandbox.cpus.text if sandbox.cpus else None),
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
            Entry(name="key", value=short_id(approval_key(look.request)), origin="what is asked for, and where"),
            Entry(name="asks", value=describe_plainly(look.request).split("\n"), origin=look.request.sources),
        ]
    return Section(name="approval", entries=tuple(entries))


def _setting(settings: Settings, name: str, key: str, value: object) -> Entry:
    return Entry(name=name, value=value, origin=settings.origin_of(key))


NAME = "odek-PID-1"
IMAGE_ID = "IMAGE-ID"
ID_FILE = "ID-FILE"
INPUTS = "INPUTS"
NONCE = "NONCE"
_PLACEHOLDERS = {"io.odek.pid": "PID", "io.odek.start": "START"}


def explain_host(settings: Settings, intent: SandboxDecision) -> Explanation:
    """Return the explanation of a run that was told to do without a sandbox."""
    return Explanation(outcome="host", why=intent.origin, sections=(place_section(settings, intent),))


def explain_sandbox(asked: Asked, look: Look) -> Explanation:
    """Return the explanation of a run that wants a sandbox."""
    failures = tuple(_failures(asked, look))
    outcome, why = _outcome(asked, look, failures)
    return Explanation(
        outcome=outcome,
        why=why,
        problems=tuple(failure.message for failure in failures),
        notes=tuple(_notes(look)),
        sections=sandbox_sections(asked, look),
        commands=tuple(_commands(asked, look)),
    )


def _failures(asked: Asked, look: Look) -> Iterator[OdekError]:
    """Yield what goes wrong, in the order of a run: networks before the question, the rest after it."""
    early = asked.draft.networks.attaches
    if early and look.failure:
        yield look.failure
    if look.plan_failure:
        yield look.plan_failure
    if look.approval == "impossible":
        yield OdekError("an approval is needed, and there is no terminal to ask for it")
    if look.env_failure:
        yield look.env_failure
    if not early and look.failure:
        yield look.failure
    if asked.draft.image.is_id and look.version and not look.image_id:
        yield SandboxConfigError("no local image has that ID, and such an image is never pulled")


def _outcome(asked: Asked, look: Look, failures: Sequence[OdekError]) -> tuple[Outcome, str]:
    if not failures:
        made = "pulled" if asked.draft.dockerfile is None else "built"
        how = "everything is there" if look.image_id else f"its image is {made} first"
        return "sandbox", f"{asked.intent.origin}; the Docker daemon answers and {how}"
    for failure in failures:
        if decide(failure, asked.firmness) == "stop":
            reason = explain_stop(failure, asked.firmness)
            return "stop", failure.message + (f"; not on this host, because {reason}" if reason else "")
    return "host", f"{failures[0].message}, and nobody insists on a sandbox"


def _notes(look: Look) -> Iterator[str]:
    if look.plan is not None:
        yield from warnings(look.plan)
        hint = removal_hint(look.plan)
        if hint:
            yield hint


def _commands(asked: Asked, look: Look) -> Iterator[tuple[str, ...]]:
    if look.plan is None:
        return
    docker = look.client or "docker"
    dockerfile = asked.draft.dockerfile
    if dockerfile is not None and not look.image_id:
        yield docker, *_build_argv(asked, dockerfile)
    elif look.version and not look.image_id and not asked.draft.image.is_id:
        yield docker, *pull_argv(asked.draft.image.ref)
    env, image_id = asked.settings.sandbox.env, look.image_id or IMAGE_ID
    spec = sandbox_spec(
        asked.draft,
        asked.settings,
        asked.host,
        engine=look.engine,
        plan=look.plan,
        image=asked.draft.image.ref,
        image_id=image_id,
        env=env,
    )
    labels = tuple((key, _PLACEHOLDERS.get(key, value)) for key, value in asked.owner.labels(NONCE))
    yield docker, *run_argv(spec, name=NAME, labels=labels)
    for network in look.plan.connect_networks:
        yield docker, *connect_argv(network.id, NAME)


def _build_argv(asked: Asked, dockerfile: Dockerfile) -> tuple[str, ...]:
    """Return the build that a start without a usable image runs; its Dockerfile goes in on stdin."""
    return build_argv(
        asked.host.cwd,
        tag=dockerfile.tag,
        labels=((DOCKERFILE_LABEL, dockerfile.sha256), (INPUTS_LABEL, INPUTS)),
        id_file=ID_FILE,
        network=asked.settings.build_network,
        no_cache=False,
    )
