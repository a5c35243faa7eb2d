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
Row = tuple[str, object, str]
"""a name, a value that is fit for JSON (None: nothing, or unknown), and where it comes from"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run would do."""

    outcome: Outcome
    why: str
    problems: tuple[str, ...] = ()
    """what a run would stop at, or fall back for, in the order in which it would meet it"""
    notes: tuple[str, ...] = ()
    sections: Mapping[str, tuple[Row, ...]]
    """what is known, by subject"""
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
        sections = {"place": tuple(_place(settings, decision)), **_servers(settings, runtime, sandboxed=False)}
        return Explanation(outcome="host", why=decision.origin, sections=sections)
    plan = plan_sandbox(config, runtime, attachments=attachments)
    policy = fallback_policy(profile, settings, decision, image_from_project=plan.request.image.chosen_by_project)
    problems = tuple(_problems(plan))
    outcome, why = _outcome(plan, decision, policy, problems)
    return Explanation(
        outcome=outcome,
        why=why,
        problems=tuple(problem.message for problem in problems),
        notes=tuple(_notes(plan)),
        sections={
            "place": (*_place(settings, decision), *_without(plan, policy)),
            "image": tuple(_image(plan)),
            "network": tuple(_network(plan)),
            "limits": tuple(_limits(plan)),
            "mounts": tuple(_mounts(plan)),
            "user": tuple(_user(plan)),
            "env": tuple(_env(plan)),
            "approval": tuple(_approval(plan)),
            **_servers(settings, runtime, sandboxed=outcome != "host"),
        },
        commands=tuple(_commands(plan)),
    )


def _servers(settings: Settings, runtime: Runtime, *, sandboxed: bool) -> dict[str, tuple[Row, ...]]:
    """Return the section about MCP servers, where any is configured."""
    if not settings.mcp_servers:
        return {}
    from odek.app.mcp_plan import plan_servers  # few have any

    return {"mcp_servers": tuple(plan_servers(settings, runtime, sandboxed=sandboxed))}


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
    return "host", f"{problems[0].message}, and no sandbox is demanded"


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
        git=plan.git(),
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


def _place(settings: Settings, decision: SandboxDecision) -> Iterator[Row]:
    """Yield who decided between sandbox and host."""
    yield "sandboxed", decision.sandboxed, decision.origin
    yield "explicit", decision.explicit, decision.origin
    yield "required", bool(settings.sandbox_required_by), settings.sandbox_required_by or "default"


def _without(plan: SandboxPlan, policy: FallbackPolicy) -> Iterator[Row]:
    """Yield what is known of Docker, and what its absence would mean."""
    yield "docker", which("docker", plan.runtime.host) or None, "PATH"
    yield "daemon", _known(plan.daemon, "") or None, "Docker"
    absent: tuple[tuple[str, OdekError], ...] = (
        ("without_daemon", DaemonUnreachable("no connection", "", hint="")),
        ("without_image", ImageUnavailable("")),
    )
    for name, error in absent:
        if may_fall_back(error, policy):
            yield name, "host", "the sandbox was not asked for explicitly"
        else:
            yield name, "stop", explain_stop(error, policy) or "the sandbox was not asked for explicitly"


def _image(plan: SandboxPlan) -> Iterator[Row]:
    image, dockerfile, settings = plan.request.image, plan.request.dockerfile, plan.config.settings
    local = _known(plan.local_image, None)
    yield "reference", image.ref, image.origin
    if dockerfile is not None:
        yield "dockerfile_sha256", dockerfile.sha256, image.origin
        yield "build_network", settings.build_network, settings.origin_of("sandbox_build_network")
    yield "id", local.found.id if local else None, "Docker"
    yield "action", _image_action(plan), "Docker"


def _image_action(plan: SandboxPlan) -> str | None:
    if _known(plan.local_image, None):
        return "use"
    if not _known(plan.daemon, ""):
        return None
    if plan.request.dockerfile is not None:
        return "build"
    return "stop" if plan.request.image.is_id else "pull"


def _network(plan: SandboxPlan) -> Iterator[Row]:
    request, origin, networks = plan.request.networks, plan.config.settings.origin_of, _known(plan.networks, None)
    yield "mode", request.mode, origin("sandbox_network")
    if request.names:
        yield "named", list(request.names), origin("sandbox_networks")
    if request.compose_project:
        yield "compose_project", request.compose_project, origin("sandbox_compose_project")
    yield "result", networks.label if networks else None, "Docker" if request.attaches else "mode"
    yield "internet", networks.internet if networks else None, "result"
    if request.attaches:
        yield "attached", [_attached(network) for network in networks.attached] if networks else None, "Docker"


def _attached(network: Network) -> dict[str, object]:
    return {
        "name": network.name,
        "id": network.id,
        "internal": network.internal,
        "compose_project": network.compose_project or None,
    }


def _limits(plan: SandboxPlan) -> Iterator[Row]:
    sandbox, origin = plan.config.settings.sandbox, plan.config.settings.origin_of
    yield "pids", sandbox.pids_limit, origin("sandbox_pids_limit")
    yield "memory", sandbox.memory.text if sandbox.memory else None, origin("sandbox_memory")
    yield "cpus", sandbox.cpus.text if sandbox.cpus else None, origin("sandbox_cpus")
    yield "tmp_bytes", plan.request.limits.tmp_bytes, origin("sandbox_tmp_size")


def _mounts(plan: SandboxPlan) -> Iterator[Row]:
    settings, request, host = plan.config.settings, plan.request, plan.runtime.host
    origin = settings.origin_of("sandbox_volumes")
    yield WORKSPACE, host.cwd, "the working directory"
    yield "readonly", settings.sandbox.readonly, settings.origin_of("sandbox_readonly")
    for volume in request.volumes:
        made = "; the folder is made first" if volume.source in request.missing_folders else ""
        yield volume.target, volume.source, origin + made
    git = plan.git()
    if settings.sandbox.git and git.mount:
        yield git.mount.target, git.mount.source, settings.origin_of("sandbox_git")
    yield "/tmp", "tmpfs", "always"
    if request.attachments:
        yield ATTACHMENTS, "tmpfs", "--ctx"


def _user(plan: SandboxPlan) -> Iterator[Row]:
    settings, host, engine = plan.config.settings, plan.runtime.host, _known(plan.described_engine, DOCKER)
    started = "who started odek" + (", who is uid 0 in a rootless engine" if engine.rootless else "")
    user = plan.request.user or own_user(engine, uid=host.uid, gid=host.gid)
    yield "user", user, settings.origin_of("sandbox_user") if settings.sandbox.user else started
    if "HOME" in dict(settings.sandbox.env):
        yield "home", None, "sandbox_env"
    else:
        yield "home", DEFAULT_HOME, "default"


def _env(plan: SandboxPlan) -> Iterator[Row]:
    """Yield names only, and what a project's value would read."""
    settings, origins = plan.config.settings, _env_origins(plan.config.layers)
    for name, value in settings.sandbox.env:
        shown = "reads " + ", ".join(variables_in(value)) if name in settings.sandbox.raw_env else "set"
        yield name, shown, origins.get(name, settings.origin_of("sandbox_env"))


def _env_origins(layers: Sequence[Layer]) -> Mapping[str, str]:
    """Return who set each variable: the maps of all layers are merged, the strongest wins (D-7)."""
    found = (layer.values["sandbox_env"] for layer in layers if "sandbox_env" in layer.values)
    return {name: value.origin for value in found for name, _ in cast("tuple[tuple[str, str], ...]", value.value)}


def _approval(plan: SandboxPlan) -> Iterator[Row]:
    state: ApprovalState = _known(plan.approval_state, "unknown")
    request = _known(plan.approval_request, None)
    yield "state", state, _APPROVAL_ORIGINS[state]
    if request is not None and not request.is_empty:
        yield "key", short_id(approval_key(request)), "what is asked for, and where"
        yield "asks", describe_plainly(request).split("\n"), request.sources
