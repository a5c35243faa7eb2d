"""odek demo: a recorded model works on a scratch project in a real sandbox; no key, no registry needed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import replace
from functools import partial

from odek.app.config import load
from odek.app.conversation import open_conversation
from odek.app.runtime import real_docker
from odek.app.sandbox_image import default_choice, ensure_image, find_local_image
from odek.cli import signals
from odek.cli.commands.run import PROFILE
from odek.cli.commands.sandbox_images import bootstrap_image
from odek.cli.console import ConsoleRenderer, JsonSink, print_notice
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.config.danger import DangerSettings
from odek.config.layers import Layer, Value
from odek.config.options import Source
from odek.demo.project import FILES
from odek.demo.recording import ATTACKS, TASK, render_recording
from odek.host import Host
from odek.sandbox.docker import probe
from odek.sandbox.errors import ImageUnavailable
from odek.sandbox.image.reference import BUSYBOX_TAG
from odek.sandbox.image.resolve import find_image

_UNPRIVILEGED = 1000  # whom the demo's commands run as when root starts it


def parser() -> CommandParser:
    """Return the parser of `odek demo`."""
    made = CommandParser("demo", COMMANDS["demo"][1], usage="[--json]", examples=("odek demo",))
    made.add_argument("--json", action="store_true", help="events as JSON lines on stdout")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Show one whole run. Nothing of it stays behind but, perhaps, the local image it made."""
    parsed = parser().read_flags(arguments)
    image = _find_image(host, terminal)
    folder = tempfile.mkdtemp(prefix="odek-demo-", dir=_parent(host))
    try:
        project, recording = _write_scratch(folder, host)
        # the operator's own settings are left out: the demo shows the same everywhere
        quiet = {name: value for name, value in host.env.items() if not name.startswith("ODEK_")}
        there = replace(_moved(host, project), env=quiet, home="")
        flags: dict[str, object] = {"base_url": f"replay:{recording}", "sandbox": True, "sandbox_image": image}
        if host.uid == 0:
            flags["sandbox_user"] = f"{_UNPRIVILEGED}:{_UNPRIVILEGED}"
        terminal.note(f"scratch project in {project}, recorded model, real sandbox")
        terminal.line(f"{terminal.style('task:', 'bold')} {TASK}")
        sink = JsonSink(terminal) if parsed.json else ConsoleRenderer(terminal, verbose=True)
        config = load(there, flags, terminal).with_layer(_attacks_allowed())
        with (
            open_conversation(PROFILE, config, terminal_runtime(there, terminal), sink=sink) as conversation,
            signals.turn(),
        ):
            answer = conversation.send(TASK)
        terminal.line()
        if not parsed.json:
            terminal.answer(answer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _attacks_allowed() -> Layer:
    """Say what an operator would: in the sandbox, and there alone, this one command runs without a question."""
    danger = DangerSettings(sandboxed=DangerSettings(allowlist=(ATTACKS,)))
    return Layer(source=Source.FLAG, origin="odek demo", values={"dangerous": Value(value=danger, origin="odek demo")})


def _moved(host: Host, folder: str) -> Host:
    """Return `host` as if odek had been started in `folder`."""
    status = os.stat(folder)
    return replace(host, cwd=os.path.realpath(folder), cwd_id=(status.st_dev, status.st_ino))


def _parent(host: Host) -> str | None:
    """The system's folder for temporary files, unless that is one that no sandbox may see."""
    folder = host.env.get("TMPDIR", "")
    return folder if os.path.isabs(folder) and os.path.isdir(folder) else None


def _write_scratch(folder: str, host: Host) -> tuple[str, str]:
    project, recording = os.path.join(folder, "slugify"), os.path.join(folder, "recording.jsonl")
    os.mkdir(project)
    for name, text in FILES:
        with open(os.path.join(project, name), "w", encoding="utf-8") as file:
            file.write(text)
    with open(recording, "w", encoding="utf-8") as file:
        file.write(render_recording())
    if host.uid == 0:
        os.chmod(folder, 0o711)  # noqa: S103 - the sandbox's user must reach the project below
        for path in (project, *(os.path.join(project, name) for name, _ in FILES)):
            os.chown(path, _UNPRIVILEGED, _UNPRIVILEGED)
    return project, recording


def _find_image(host: Host, terminal: Terminal) -> str:
    """Return the pinned default, or the local busybox image where the default cannot be had."""
    docker = real_docker(host)
    probe(docker, sleep=time.sleep)
    choice = default_choice()
    emit = partial(print_notice, terminal)
    try:
        local = find_local_image(choice, None, host, docker=docker, emit=emit)
        ref, found = ensure_image(local, choice, None, host, network=False, docker=docker, emit=emit)
    except ImageUnavailable as error:
        terminal.note(f"{error.message}; making the local image {BUSYBOX_TAG}")
        bootstrap_image(host, terminal, busybox="", tag=BUSYBOX_TAG)
        return BUSYBOX_TAG
    return ref if find_image(ref, docker) else found.id
