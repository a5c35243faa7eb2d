"""The scratch project, the recorded model and the image of a demo, for every command that has one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from odek.app.runtime import real_docker
from odek.app.sandbox_image import default_choice, ensure_image, find_local_image
from odek.cli.commands.sandbox_images import bootstrap_image
from odek.cli.console import print_notice
from odek.cli.terminal import Terminal
from odek.demo.project import FILES
from odek.demo.recording import render_recording
from odek.host import Host, moved
from odek.sandbox.docker import probe
from odek.sandbox.errors import ImageUnavailable
from odek.sandbox.image.reference import BUSYBOX_TAG
from odek.sandbox.image.resolve import find_image

_UNPRIVILEGED = 1000  # whom the demo's commands run as when root starts it


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlace:
    """Where a demo happens."""

    host: Host
    """in the project; without the operator's own settings, so that the demo shows the same everywhere"""
    flags: dict[str, object]
    """the settings of the demo, as its command line would say them"""


@contextmanager
def demo_place(host: Host, terminal: Terminal, *, with_home: bool = False) -> Iterator[DemoPlace]:
    """Make the place of a demo and remove it afterwards; `with_home`: sessions can be kept in it meanwhile.

    Nothing of it stays behind but, perhaps, the local image that it made.
    """
    image = _find_image(host, terminal)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="odek-demo-", dir=_parent(host)))
    try:
        project, recording = _write_scratch(folder, host)
        home = os.path.join(folder, "home") if with_home else ""
        if home:
            os.mkdir(home, 0o700)
        quiet = {name: value for name, value in host.env.items() if not name.startswith("ODEK_")}
        flags: dict[str, object] = {"base_url": f"replay:{recording}", "sandbox": True, "sandbox_image": image}
        if host.uid == 0:
            flags["sandbox_user"] = f"{_UNPRIVILEGED}:{_UNPRIVILEGED}"
        terminal.note(f"scratch project in {project}, recorded model, real sandbox")
        yield DemoPlace(host=replace(moved(host, project), env=quiet, home=home), flags=flags)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
