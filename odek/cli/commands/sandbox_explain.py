"""odek sandbox explain: what a run here would do, each value with its source; nothing is started or pulled."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from odek.app.attachments import external, read_ctx_files
from odek.app.bootstrap import firmness_of, intent_of, require_allowed
from odek.app.explain import ApprovalState, Asked, Explanation, Look, explain_host, explain_sandbox
from odek.app.project_approval import approval_request
from odek.app.sandbox import build_request, needs_of, owner_of
from odek.app.sandbox_image import BuildRecords
from odek.approval.request import ApprovalRequest
from odek.approval.store import ApprovalStore
from odek.cli.commands.run import PROFILE
from odek.cli.console import print_notice
from odek.cli.explain_view import explanation_to_json, render_explanation
from odek.cli.parser import CommandParser
from odek.cli.session import real_docker
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import find_tty_prompt
from odek.config.layers import Layer, read_layers
from odek.config.resolve import project_overrides, resolve
from odek.config.settings import Settings
from odek.config.values import expand_marked
from odek.errors import ConfigError
from odek.events import Sink
from odek.host import Host, which
from odek.sandbox.build.builder import is_ours
from odek.sandbox.docker import Docker, probe
from odek.sandbox.engine import DOCKER, Engine, check_engine, query_engine
from odek.sandbox.errors import SandboxError
from odek.sandbox.image.resolve import resolve_image
from odek.sandbox.network.attach import inspect_networks
from odek.sandbox.network.plan import NetworkPlan
from odek.state import StateFolder


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the explanation. What a run refuses without asking Docker is refused here in the same words."""
    parser = CommandParser(
        "sandbox explain",
        "show what a run here would do, without starting or pulling anything",
        usage="[OPTION of run…]",
        examples=(
            "odek sandbox explain",
            "odek sandbox explain --sandbox-compose myapp",
            "odek sandbox explain --json | jq .outcome",
        ),
    )
    parser.add_argument("task", nargs="*", metavar="TASK", help="read over, so that a command line of run fits")
    parser.add_settings(of="run")
    parser.reword("--json", "The explanation as JSON")
    parsed, _ = parser.read(arguments)
    layers = read_layers(host, parser.flags(parsed))
    settings = resolve(layers)
    for warning in settings.warnings:
        terminal.warn(warning)
    explanation = _explain(settings, layers, host, terminal)
    if settings.json:
        terminal.answer(json.dumps(explanation_to_json(explanation), indent=2))
    else:
        terminal.answer(render_explanation(explanation))
    return 0


def _explain(settings: Settings, layers: Sequence[Layer], host: Host, terminal: Terminal) -> Explanation:
    intent = intent_of(PROFILE, settings)
    require_allowed(intent, settings)
    if not intent.sandboxed:
        return explain_host(settings, intent)
    carried = external(read_ctx_files(settings.ctx, cwd=host.cwd, home=host.home))
    draft = replace(build_request(settings, host, partial(print_notice, terminal)), attachments=bool(carried))
    asked = Asked(
        settings=settings,
        layers=layers,
        host=host,
        intent=intent,
        draft=draft,
        firmness=firmness_of(PROFILE, settings, intent, draft),
        owner=owner_of(host),
    )
    return explain_sandbox(asked, _look(asked, real_docker(host), partial(print_notice, terminal)))


def _look(asked: Asked, docker: Docker, emit: Sink) -> Look:
    """Ask Docker and the store. What cannot be found out is part of the answer, not an error."""
    version, engine, failure = _meet(asked, docker)
    plan, plan_failure = _plan(asked, docker) if version else (None, None)
    if plan is None and not asked.draft.networks.attaches:
        plan = NetworkPlan(mode=asked.draft.networks.mode)
    overrides, dockerfile = project_overrides(asked.layers), asked.draft.dockerfile
    readonly = asked.settings.sandbox.readonly
    request = approval_request(overrides, plan, asked.host, dockerfile, readonly=readonly) if plan else None
    return Look(
        client=which("docker", asked.host) or "",
        version=version,
        engine=engine,
        failure=failure,
        plan=plan,
        plan_failure=plan_failure,
        image_id=_image_id(asked, docker, emit) if version else "",
        request=request,
        approval=_approval(asked, request),
        env_failure=_env_failure(asked),
    )


def _image_id(asked: Asked, docker: Docker, emit: Sink) -> str:
    """Return the ID of the image that would be run as it is, "" when it would be built or pulled first."""
    dockerfile = asked.draft.dockerfile
    if dockerfile is None:
        return resolve_image(asked.draft.image, docker)
    known = BuildRecords(asked.host, emit).find(dockerfile)
    return known.image_id if known is not None and is_ours(known, dockerfile, docker) else ""


def _meet(asked: Asked, docker: Docker) -> tuple[str, Engine, SandboxError | None]:
    version, engine = "", DOCKER
    try:
        version = probe(docker, sleep=time.sleep)
        engine = query_engine(docker)
        check_engine(engine, needs_of(asked.draft, asked.settings))
    except SandboxError as error:
        return version, engine, error
    return version, engine, None


def _plan(asked: Asked, docker: Docker) -> tuple[NetworkPlan | None, SandboxError | None]:
    try:
        return inspect_networks(asked.draft.networks, docker), None
    except SandboxError as error:
        return None, error


def _approval(asked: Asked, request: ApprovalRequest | None) -> ApprovalState:
    if request is None:
        return "unknown"
    if request.is_empty:
        return "not needed"
    if asked.settings.approve_project_sandbox:
        return "given by the environment"
    if ApprovalStore(StateFolder(asked.host.operator_home)).holds(request):
        return "remembered"
    return "asked for" if find_tty_prompt() else "impossible"


def _env_failure(asked: Asked) -> ConfigError | None:
    sandbox = asked.settings.sandbox
    try:
        expand_marked(sandbox.env, sandbox.raw_env, asked.host.env, origin="./odek.json: sandbox_env")
    except ConfigError as error:
        return error
    return None
