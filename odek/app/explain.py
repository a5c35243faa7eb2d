"""What a run here would do: the plan of its sandbox as values with their sources, for `odek sandbox explain`.

The plan is the one that a start follows, and the command lines come from the functions that a start calls; only what
is new with every start has a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar, cast

from odek.app.config import Config
from odek.app.git_data import find_git_data
from odek.app.isolation import (
    CommandProfile,
    FallbackPolicy,
    SandboxDecision,
    decide_sandbox,
    explain_stop,
    fallback_policy,
    may_fall_back,
    require_permitted,
)
from odek.app.project_approval import ApprovalState
from odek.app.runtime import Runtime, owner_of
from odek.app.sandbox import SandboxPlan, plan_sandbox, sandbox_spec
from odek.app.sandbox_image import image_doubts
from odek.approval.description import describe_plainly
from odek.approval.store import approval_key, short_id
from odek.config.layers import Layer
from odek.config.settings import Settings
from odek.config.values import variables_in
from odek.errors import OdekError
from odek.host import which
from odek.sandbox.argv import build_argv, connect_argv, pull_argv, run_argv
from odek.sandbox.build.builder import INPUTS_LABEL
from odek.sandbox.build.builder import LABEL as DOCKERFILE_LABEL
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.engine import DOCKER, own_user
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable
from odek.sandbox.network.checks import removal_hint, warnings
from odek.sandbox.network.plan import Network
from odek.sandbox.spec import DEFAULT_HOME
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE

NAME = "odek-PID-1"
IMAGE_ID = "IMAGE-ID"
ID_FILE = "ID-FILE"
INPUTS = "INPUTS"
NONCE = "NONCE"
_PLACEHOLDERS = {"io.odek.pid": "PID", "io.odek.start": "START"}
_APPROVAL_ORIGINS: Mapping[ApprovalState, str] = {
    "not needed": "the project changes nothing",
    "given by the environment": "ODEK_APPROVE_PROJECT_SANDBOX",
    "remembered": "odek approvals list",
    "asked for": "the terminal",
    "impossible": "no terminal",
    "unknown": "it depends on networks that were not found",
}
Outcome = Literal["sandbox", "host", "stop"]
T = TypeVar("T")


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


def explain_run(profile: CommandProfile, config: Config, runtime: Runtime, *, attachments: bool = False) -> Explanation:
    """Return what a run with `config` would do; nothing is started, pulled or asked.

    Raises OdekError for what a run refuses before it asks Docker.
    """
    settings = config.settings
    decision = decide_sandbox(profile, settings)
    require_permitted(decision, settings)
    if not decision.sandboxed:
        return Explanation(outcome="host", why=decision.origin, sections=(_place(settings, decision),))
    plan = plan_sandbox(config, runtime, attachments=attachments)
    policy = fallback_policy(profile, settings, decision, image_from_project=plan.request.image.chosen_by_project)
    problems = tuple(_problems(plan))
    outcome, why = _outcome(plan, decision, policy, problems)
    return Explanation(
        outcome=outcome,
        why=why,
        problems=tuple(problem.message for problem in problems),
        notes=tuple(_notes(plan)),
        sections=(
            _place(settings, decision, *_without(plan, policy)),
            _image(plan),
            _network(plan),
            _limits(plan),
            _mounts(plan),
            _user(plan),
            _env(plan),
            _approval(plan),
        ),
        commands=tuple(_commands(plan)),
    )


def _known(look_up: Callable[[], T], default: T) -> T:
    """Return what was looked up, or `default` where that failed; the failure is among the problems."""
    try:
        return look_up()
    except OdekError:
        return default


def _problems(plan: SandboxPlan) -> Iterator[OdekError]:
    """Yield what a start meets on its way, each failure once though others follow from it."""
    seen: list[OdekError] = []
    question: Callable[[], object] = partial(_require_answer, plan)
    for look_up in (*plan.before_approval, question, *plan.after_approval):
        try:
            look_up()
        except OdekError as error:
            if error not in seen:
                seen.append(error)
                yield error


def _require_answer(plan: SandboxPlan) -> None:
    if plan.approval_state() == "impossible":
        raise OdekError("an approval is needed, and there is no terminal to ask for it")


def _outcome(
    plan: SandboxPlan, decision: SandboxDecision, policy: FallbackPolicy, problems: Sequence[OdekError]
) -> tuple[Outcome, str]:
    if not problems:
        made = "pulled" if plan.request.dockerfile is None else "built"
        how = "everything is there" if plan.local_image() else f"its image is {made} first"
        return "sandbox", f"{decision.origin}; the Docker daemon answers and {how}"
    for problem in problems:
        if not may_fall_back(problem, policy):
            reason = explain_stop(problem, policy)
            return "stop", problem.message + (f"; not on this host, because {reason}" if reason else "")
    return "host", f"{problems[0].message}, and nobody insists on a sandbox"


def _notes(plan: SandboxPlan) -> Iterator[str]:
    networks = _known(plan.networks, None)
    if networks is not None:
        yield from warnings(networks)
        hint = removal_hint(networks)
        if hint:
            yield hint
    with suppress(OdekError):  # it is among the problems
        yield from image_doubts(plan.request.image, plan.local_image(), plan.runtime.docker)


def _commands(plan: SandboxPlan) -> Iterator[tuple[str, ...]]:
    networks = _known(plan.networks, None)
    if networks is None:
        return
    docker = which("docker", plan.runtime.host) or "docker"
    image, dockerfile, local = plan.request.image, plan.request.dockerfile, _known(plan.local_image, None)
    if dockerfile is not None and local is None:
        yield docker, *_build_argv(plan, dockerfile)
    elif local is None and not image.is_id and _known(plan.daemon, ""):
        yield docker, *pull_argv(image.ref)
    spec = sandbox_spec(
        plan,
        engine=_known(plan.described_engine, DOCKER),
        networks=networks,
        image=image.ref,
        image_id=local.found.id if local else IMAGE_ID,
        env=plan.config.settings.sandbox.env,
    )
    labels = tuple((key, _PLACEHOLDERS.get(key, value)) for key, value in owner_of(plan.runtime.host).labels(NONCE))
    yield docker, *run_argv(spec, name=NAME, labels=labels)
    for network in networks.connect_networks:
        yield docker, *connect_argv(network.id, NAME)


def _build_argv(plan: SandboxPlan, dockerfile: Dockerfile) -> tuple[str, ...]:
    """Return the build that a start without a usable image runs; its Dockerfile goes in on stdin."""
    return build_argv(
        plan.runtime.host.cwd,
        tag=dockerfile.tag,
        labels=((DOCKERFILE_LABEL, dockerfile.sha256), (INPUTS_LABEL, INPUTS)),
        id_file=ID_FILE,
        network=plan.config.settings.build_network,
        no_cache=False,
    )


def _place(settings: Settings, decision: SandboxDecision, *more: Entry) -> Section:
    """Return who decided between sandbox and host; `more` follows."""
    return Section(
        name="place",
        entries=(
            Entry(name="sandboxed", value=decision.sandboxed, origin=decision.origin),
            Entry(name="explicit", value=decision.explicit, origin=decision.origin),
            _setting(settings, "required", "require_sandbox", settings.require_sandbox),
            *more,
        ),
    )


def _without(plan: SandboxPlan, policy: FallbackPolicy) -> Iterator[Entry]:
    """Yield what is known of Docker, and what its absence would mean."""
    yield Entry(name="docker", value=which("docker", plan.runtime.host) or None, origin="PATH")
    yield Entry(name="daemon", value=_known(plan.daemon, "") or None, origin="Docker")
    absent: tuple[tuple[str, OdekError], ...] = (
        ("without_daemon", DaemonUnreachable("no connection", "", hint="")),
        ("without_image", ImageUnavailable("")),
    )
    for name, error in absent:
        falls_back = may_fall_back(error, policy)
        reason = "" if falls_back else explain_stop(error, policy)
        yield Entry(
            name=name,
            value="host" if falls_back else "stop",
            origin=reason or "nobody asked for the sandbox explicitly",
        )


def _image(plan: SandboxPlan) -> Section:
    image, dockerfile, settings = plan.request.image, plan.request.dockerfile, plan.config.settings
    local = _known(plan.local_image, None)
    entries = [Entry(name="reference", value=image.ref, origin=image.origin)]
    if dockerfile is not None:
        entries += [
            Entry(name="dockerfile_sha256", value=dockerfile.sha256, origin=image.origin),
            _setting(settings, "build_network", "sandbox_build_network", settings.build_network),
        ]
    entries += [
        Entry(name="id", value=local.found.id if local else None, origin="Docker"),
        Entry(name="action", value=_image_action(plan), origin="Docker"),
    ]
    return Section(name="image", entries=tuple(entries))


def _image_action(plan: SandboxPlan) -> str | None:
    if _known(plan.local_image, None):
        return "use"
    if not _known(plan.daemon, ""):
        return None
    if plan.request.dockerfile is not None:
        return "build"
    return "stop" if plan.request.image.is_id else "pull"


def _network(plan: SandboxPlan) -> Section:
    request, settings, networks = plan.request.networks, plan.config.settings, _known(plan.networks, None)
    entries = [_setting(settings, "mode", "sandbox_network", request.mode)]
    if request.names:
        entries.append(_setting(settings, "named", "sandbox_networks", list(request.names)))
    if request.compose_project:
        entries.append(_setting(settings, "compose_project", "sandbox_compose_project", request.compose_project))
    entries += [
        Entry(
            name="result",
            value=networks.label if networks else None,
            origin="Docker" if request.attaches else "mode",
        ),
        Entry(name="internet", value=networks.internet if networks else None, origin="result"),
    ]
    if request.attaches:
        attached = [_attached(network) for network in networks.attached] if networks else None
        entries.append(Entry(name="attached", value=attached, origin="Docker"))
    return Section(name="network", entries=tuple(entries))


def _attached(network: Network) -> dict[str, object]:
    return {
        "name": network.name,
        "id": network.id,
        "internal": network.internal,
        "compose_project": network.compose_project or None,
    }


def _limits(plan: SandboxPlan) -> Section:
    settings, sandbox = plan.config.settings, plan.config.settings.sandbox
    return Section(
        name="limits",
        entries=(
            _setting(settings, "pids", "sandbox_pids_limit", sandbox.pids_limit),
            _setting(settings, "memory", "sandbox_memory", sandbox.memory.text if sandbox.memory else None),
            _setting(settings, "cpus", "sandbox_cpus", sandbox.cpus.text if sandbox.cpus else None),
            _setting(settings, "tmp_bytes", "sandbox_tmp_size", plan.request.limits.tmp_bytes),
        ),
    )


def _git(plan: SandboxPlan) -> tuple[Entry, ...]:
    settings = plan.config.settings
    git = find_git_data(plan.runtime.host.cwd, uid=plan.runtime.host.uid)
    if not (settings.sandbox.git and git.mount):
        return ()
    return (Entry(name=git.mount.target, value=git.mount.source, origin=settings.origin_of("sandbox_git")),)


def _mounts(plan: SandboxPlan) -> Section:
    settings, request = plan.config.settings, plan.request
    origin = settings.origin_of("sandbox_volumes")
    made = dict.fromkeys(request.missing_folders, f"{origin}; the folder is made first")
    return Section(
        name="mounts",
        entries=(
            Entry(name=WORKSPACE, value=plan.runtime.host.cwd, origin="the working directory"),
            _setting(settings, "readonly", "sandbox_readonly", settings.sandbox.readonly),
            *(
                Entry(name=volume.target, value=volume.source, origin=made.get(volume.source, origin))
                for volume in request.volumes
            ),
            *_git(plan),
            Entry(name="/tmp", value="tmpfs", origin="always"),
            *((Entry(name=ATTACHMENTS, value="tmpfs", origin="--ctx"),) if request.attachments else ()),
        ),
    )


def _user(plan: SandboxPlan) -> Section:
    settings, host, engine = plan.config.settings, plan.runtime.host, _known(plan.described_engine, DOCKER)
    env = dict(settings.sandbox.env)
    user = plan.request.user or own_user(engine, uid=host.uid, gid=host.gid)
    started = "who started odek" + (", who is uid 0 in a rootless engine" if engine.rootless else "")
    user_origin = settings.origin_of("sandbox_user") if settings.sandbox.user else started
    home_origin = "sandbox_env" if "HOME" in env else "default"
    return Section(
        name="user",
        entries=(
            Entry(name="user", value=user, origin=user_origin),
            Entry(name="home", value=None if "HOME" in env else DEFAULT_HOME, origin=home_origin),
        ),
    )


def _env(plan: SandboxPlan) -> Section:
    """Names only, and what a project's value would read."""
    settings, origins = plan.config.settings, _env_origins(plan.config.layers)
    return Section(
        name="env",
        entries=tuple(
            Entry(
                name=name,
                value="reads " + ", ".join(variables_in(value)) if name in settings.sandbox.raw_env else "set",
                origin=origins.get(name, settings.origin_of("sandbox_env")),
            )
            for name, value in settings.sandbox.env
        ),
    )


def _env_origins(layers: Sequence[Layer]) -> Mapping[str, str]:
    """Return who set each variable: the maps of all layers are merged, the strongest wins (D-7)."""
    found = (layer.values["sandbox_env"] for layer in layers if "sandbox_env" in layer.values)
    return {name: value.origin for value in found for name, _ in cast("tuple[tuple[str, str], ...]", value.value)}


def _approval(plan: SandboxPlan) -> Section:
    state: ApprovalState = _known(plan.approval_state, "unknown")
    request = _known(plan.approval_request, None)
    entries = [Entry(name="state", value=state, origin=_APPROVAL_ORIGINS[state])]
    if request is not None and not request.is_empty:
        entries += [
            Entry(name="key", value=short_id(approval_key(request)), origin="what is asked for, and where"),
            Entry(name="asks", value=describe_plainly(request).split("\n"), origin=request.sources),
        ]
    return Section(name="approval", entries=tuple(entries))


def _setting(settings: Settings, name: str, key: str, value: object) -> Entry:
    return Entry(name=name, value=value, origin=settings.origin_of(key))
