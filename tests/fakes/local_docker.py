"""A Docker whose one container is this machine: what is run in it runs here, with a folder in the place of /workspace.

So the scripts of the sandbox are played by real shells, without an engine. Only what is started by scripts.RUN is
carried out: the scripts that stop commands kill what they find, and belong into a container. Whether it runs, and
what its kernel has counted, is answered from a script.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from fakes.containers import CONTAINER_ID, FACTS, SPEC
from fakes.docker import FakeDocker

from odek.process import Running
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.failure_reasons import COUNTERS, FORKED
from odek.sandbox.docker import DockerProcess
from odek.sandbox_grammar import WORKSPACE


class LocalDocker:
    """See the module."""

    def __init__(self, folder: str, shell: Sequence[str]) -> None:
        self._folder = folder
        self._shell = tuple(shell)
        self._others = (
            FakeDocker()
            .on("run", hold=True)
            .on("inspect", stdout='[{"State": {"Running": true}}]')
            .on("exec", has=COUNTERS, code=FORKED)
        )

    def start(self, *args: str, stdin: bytes | None = None, **options: Any) -> DockerProcess:
        if scripts.RUN not in args:
            return self._others.start(*args, stdin=stdin, **options)
        begin, (mark, init) = args[:-2], args[-2:]
        user = f"{os.getuid()}:{os.getgid()}"
        # B15: arguments are public, so neither a command nor a path or a content is among them
        assert begin == (
            *("exec", "--interactive", "--user", user, "--env", f"{scripts.CALL_VARIABLE}={mark}", CONTAINER_ID),
            *("sh", "-c", scripts.RUN, "sh"),
        )
        assert stdin is not None
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        # not `exec`: the client of a command that was killed ends with the shell's number for it
        there = ("sh", "-c", 'cd "$1" && shift && "$@"', "sh", self._folder)
        return Running(
            (*there, *self._shell, "-c", scripts.RUN, "sh", mark, init),
            env=env,
            stdin=stdin.replace(WORKSPACE.encode(), self._folder.encode()),
            **options,
        )

    def ahead(self, *_: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()

    def when_gone(self, *_: str) -> DockerProcess | None:
        return None

    def kill_when_gone(self, _: DockerProcess) -> DockerProcess | None:
        return None


def local_container(folder: str, shell: Sequence[str] = ("sh",), env: tuple[tuple[str, str], ...] = ()) -> Container:
    """Return a container that is this machine; `folder` holds no character that a shell would read as anything else."""
    docker, numbers = LocalDocker(folder, shell), itertools.count(1)
    spec = replace(SPEC, workdir=folder, user=f"{os.getuid()}:{os.getgid()}", env=env)
    lease = docker.start("run", hold_stdin=True)
    return Container(docker, spec, FACTS, lease=lease, new_nonce=lambda: f"{next(numbers):032x}")
