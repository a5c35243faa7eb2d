"""Sandbox, host or stop, and the docker commands of a start. Pure.

The command lines come from the same functions that a start uses; only what is new with every start
has a placeholder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odek.config.settings import Settings
from odek.errors import OdekError
from odek.explain.sections import place_section, sandbox_sections
from odek.explain.types import Asked, Explanation, Look, Outcome
from odek.isolation import Intent, decide, explain_stop
from odek.sandbox.argv import build_argv, connect_argv, pull_argv, run_argv
from odek.sandbox.attachment import removal_hint, warnings
from odek.sandbox.build import INPUTS_LABEL
from odek.sandbox.build import LABEL as DOCKERFILE_LABEL
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.recipe import Dockerfile
from odek.setup.sandbox import sandbox_spec

NAME = "odek-PID-1"
IMAGE_ID = "IMAGE-ID"
ID_FILE = "ID-FILE"
INPUTS = "INPUTS"
NONCE = "NONCE"
_PLACEHOLDERS = {"io.odek.pid": "PID", "io.odek.start": "START"}


def explain_host(settings: Settings, intent: Intent) -> Explanation:
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
    for network in look.plan.rest:
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
