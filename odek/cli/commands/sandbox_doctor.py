"""odek sandbox doctor: check Docker and the sandbox on this machine, ending with a real one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from odek.app.doctor import (
    CLIENT_ARGV,
    Check,
    failed_call,
    judge_client,
    judge_client_settings,
    judge_engine,
    judge_leftovers,
    judge_limits,
    judge_place,
    judge_sandbox,
    judge_security,
    judge_versions,
    render_checks,
)
from odek.app.sandbox import SandboxRequest, build_request, start_sandbox
from odek.cli.artifact import describe_artifact, find_artifact
from odek.cli.commands.sandbox_containers import find_boxes
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.session import random_hex, real_docker
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.options import Source
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import OdekError
from odek.host import Host, which
from odek.sandbox.client_config import CONFIG_FILE, config_folder
from odek.sandbox.docker import Docker, probe, run_docker
from odek.sandbox.engine import INFO_ARGV, read_engine, read_info
from odek.sandbox.image.reference import BUSYBOX_TAG
from odek.sandbox.image.resolve import find_image, resolve_image
from odek.text import visible


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the findings; 1 when one of them keeps the sandbox from working."""
    parser = CommandParser(
        "sandbox doctor",
        "check Docker and the sandbox on this machine, and say what to mend",
        usage="[--json] [OPTION of run…]",
        examples=("odek sandbox doctor", "odek sandbox doctor --sandbox-image python:3.12-slim"),
    )
    parser.add_settings(of="run")
    parsed = parser.read_flags(arguments)
    # a check-up asks nobody: what the project's own file wants is left out
    layers = read_layers(host, parser.flags(parsed))
    settings = resolve([layer for layer in layers if layer.source is not Source.PROJECT])
    for warning in settings.warnings:
        terminal.warn(warning)
    checks = tuple(_checks(settings, host, terminal))
    if settings.json:
        terminal.answer(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        terminal.answer(render_checks(checks, terminal.style))
    return 1 if any(check.verdict == "fail" for check in checks) else 0


def _checks(settings: Settings, host: Host, terminal: Terminal) -> Iterator[Check]:
    yield Check(name="odek", verdict="ok", seen=describe_artifact(find_artifact()))
    executable = which("docker", host)
    yield judge_client(executable, host.env.get("PATH", ""))
    if not executable:
        return
    yield from _client_settings(host)
    docker = real_docker(host)
    try:
        server = probe(docker, sleep=time.sleep)
    except OdekError as error:
        yield Check(name="daemon", verdict="fail", seen=error.message, mend=error.hint)
        return
    asked = run_docker(docker, *INFO_ARGV)
    info = read_info(asked)
    if not info:
        yield failed_call("info", asked, "`docker info` must answer")
        return
    engine = read_engine(info)
    yield judge_versions(run_docker(docker, *CLIENT_ARGV).stdout.text.strip(), server, engine)
    yield judge_place(host.env, info)
    yield judge_security(info)
    yield judge_engine(engine)
    yield judge_limits(info, engine)
    boxes = find_boxes(docker, host)
    yield judge_leftovers(tuple(box.name for box in boxes if box.standing == "left behind"))
    yield from _sandbox(settings, host, docker, terminal)


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
    yield judge_client_settings(path, "" if real == plain else real)


def _sandbox(settings: Settings, host: Host, docker: Docker, terminal: Terminal) -> Iterator[Check]:
    """Check the image, and start a sandbox with it here."""
    try:
        draft = build_request(settings, host, partial(print_notice, terminal))
    except OdekError as error:
        yield Check(name="settings", verdict="fail", seen=error.message, mend=error.hint)
        return
    image = _image(draft, docker)
    yield image
    if image.verdict == "fail":
        return
    try:
        container = start_sandbox(
            draft,
            settings,
            (),
            host,
            docker=docker,
            operator=None,
            emit=partial(print_notice, terminal),
            new_nonce=partial(random_hex, 16),
            sleep=time.sleep,
        )
    except OdekError as error:
        yield Check(name="sandbox", verdict="fail", seen=error.message, mend=error.hint)
        return
    try:
        yield judge_sandbox(container.facts)
    finally:
        left = container.close()
    yield (
        Check(name="end", verdict="fail", seen=left, mend="look at `docker ps`")
        if left
        else Check(name="end", verdict="ok", seen="the sandbox ended with its lease")
    )


def _image(draft: SandboxRequest, docker: Docker) -> Check:
    if draft.dockerfile is not None:
        return Check(name="image", verdict="ok", seen="built from Dockerfile.odek when a run needs it")
    found = resolve_image(draft.image, docker)
    if found:
        return Check(name="image", verdict="ok", seen=f"{draft.image.ref} ({found})")
    local = find_image(BUSYBOX_TAG, docker)
    mend = f"--sandbox-image {BUSYBOX_TAG} is here" if local else "`odek sandbox image bootstrap` makes a small one"
    return Check(
        name="image",
        verdict="fail",
        seen=f"{draft.image.ref} ({draft.image.origin}) is not here; a run would pull it",
        mend=f"docker pull it, or without a registry: {mend}",
    )
