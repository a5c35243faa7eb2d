"""odek sandbox doctor: check Docker and the sandbox on this machine, ending with a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from odek.app.config import Config, load
from odek.app.doctor import (
    CLIENT_ARGV,
    Check,
    check_client,
    check_client_settings,
    check_engine_kind,
    check_leftovers,
    check_limits,
    check_place,
    check_sandbox,
    check_security,
    check_versions,
    failed_call,
)
from odek.app.runtime import Runtime
from odek.app.sandbox import SandboxPlan, plan_sandbox, start_sandbox
from odek.app.sandbox_image import image_doubts
from odek.cli.artifact import describe_artifact, find_artifact
from odek.cli.checks import print_checks
from odek.cli.commands.sandbox_containers import find_boxes
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.errors import OdekError
from odek.host import Host, which
from odek.sandbox.client_config import CONFIG_FILE, config_folder
from odek.sandbox.docker import INFO_ARGV, probe, run_docker
from odek.sandbox.engine import read_engine, read_info
from odek.sandbox.image.reference import BUSYBOX_TAG
from odek.sandbox.image.resolve import find_image
from odek.text import visible


def parser() -> CommandParser:
    """Return the parser of `odek sandbox doctor`."""
    made = CommandParser(
        "sandbox doctor",
        "check Docker and the sandbox on this machine, and say what to fix",
        usage="[--json] [OPTION of run…]",
        examples=("odek sandbox doctor", "odek sandbox doctor --sandbox-image python:3.12-slim"),
    )
    made.add_settings(of="run", used=("sandbox*", "json", "no_color"))
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the findings; 1 when one of them keeps the sandbox from working."""
    reader = parser()
    parsed = reader.read_flags(arguments)
    # a check-up does not ask: what the project's own file wants is left out
    config = load(host, reader.flags(parsed), terminal, with_project=False)
    runtime = replace(terminal_runtime(host, terminal), operator=None)
    return print_checks((artifact_check(), *sandbox_checks(config, runtime)), terminal, as_json=config.settings.json)


def artifact_check() -> Check:
    """Return what odek itself is."""
    return Check(name="odek", verdict="ok", seen=describe_artifact(find_artifact()))


def sandbox_checks(config: Config, runtime: Runtime) -> Iterator[Check]:
    """Yield the findings on Docker and the sandbox, the last of them a real one."""
    host, docker = runtime.host, runtime.docker
    executable = which("docker", host)
    yield check_client(executable, host.env.get("PATH", ""))
    if not executable:
        return
    yield from _client_settings(host)
    try:
        server = probe(docker, sleep=runtime.sleep)
    except OdekError as error:
        yield Check(name="daemon", verdict="fail", seen=error.message, fix=error.hint)
        return
    asked = run_docker(docker, *INFO_ARGV)
    info = read_info(asked)
    if not info:
        yield failed_call("info", asked, "`docker info` must answer")
        return
    engine = read_engine(info)
    yield check_versions(run_docker(docker, *CLIENT_ARGV).stdout.text.strip(), server, engine)
    yield check_place(host.env, info)
    yield check_security(info)
    yield check_engine_kind(engine)
    yield check_limits(info, engine)
    boxes = find_boxes(docker, host)
    yield check_leftovers(tuple(box.name for box in boxes if box.standing == "left behind"))
    yield from _sandbox(config, runtime)


def _client_settings(host: Host) -> Iterator[Check]:
    """Say where the settings of Docker's client lead, if there are any."""
    folder = config_folder(host.env, home=host.home)
    path = os.path.join(folder, CONFIG_FILE)
    if not folder or not os.path.lexists(path):
        return
    try:
        above, name = os.path.split(os.path.normpath(folder))
        plain = os.path.join(os.path.realpath(above), name, CONFIG_FILE)
        real = os.path.realpath(path)
    except OSError as error:
        yield Check(name="client settings", verdict="warn", seen=f"{visible(path)}: {error.strerror}")
        return
    yield check_client_settings(path, "" if real == plain else real)


def _sandbox(config: Config, runtime: Runtime) -> Iterator[Check]:
    """Check the image, and start a sandbox with it here."""
    try:
        plan = plan_sandbox(config, runtime)
    except OdekError as error:
        yield Check(name="settings", verdict="fail", seen=error.message, fix=error.hint)
        return
    try:
        plan.engine()
        image, plan = check_image(plan)
        yield image
        if image.verdict == "fail":
            return
        container = start_sandbox(plan)
    except OdekError as error:
        yield Check(name="sandbox", verdict="fail", seen=error.message, fix=error.hint)
        return
    try:
        yield check_sandbox(container.facts)
    finally:
        left = container.close()
    yield (
        Check(name="end", verdict="fail", seen=left, fix="look at `docker ps`")
        if left
        else Check(name="end", verdict="ok", seen="the sandbox ended with its lease")
    )


def check_image(plan: SandboxPlan) -> tuple[Check, SandboxPlan]:
    """Return what is found of the image, and the plan to start with: a check-up pulls nothing (A9)."""
    image, docker = plan.request.image, plan.runtime.docker
    if plan.request.dockerfile is not None:
        return Check(name="image", verdict="ok", seen="built from Dockerfile.odek when a run needs it"), plan
    local = plan.local_image()
    doubts = "; ".join(image_doubts(image, local, docker))
    if local is not None:
        seen = f"{image.ref} ({local.found.id})"
        return Check(name="image", verdict="warn" if doubts else "ok", seen=seen, fix=doubts), plan
    missing = f"{image.ref} ({image.origin}) is not here; a run would pull it"
    if doubts:  # the local image that takes its place
        choice = replace(image, ref=image.substitute, substitute="", local_ids=())
        return (
            Check(name="image", verdict="warn", seen=missing, fix=doubts),
            replace(plan, request=replace(plan.request, image=choice)),
        )
    advice = "`odek sandbox image bootstrap` makes a small one"
    if find_image(BUSYBOX_TAG, docker):
        advice = f"--sandbox-image {BUSYBOX_TAG} is here"
    return (
        Check(name="image", verdict="fail", seen=missing, fix=f"docker pull it, or without a registry: {advice}"),
        plan,
    )
