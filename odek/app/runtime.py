"""What odek works with in the real world, as one value that is passed down: Docker, the model, the user, the clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek import cancel
from odek.host import Host, read_identity, trusted_path, which
from odek.sandbox.docker import Docker, DockerCli, NoDocker

if TYPE_CHECKING:
    from odek.app.docker_client import ClientFolder
    from odek.approval.card import Person
    from odek.approval.gate import Operator
    from odek.config.settings import Settings
    from odek.events import Sink
    from odek.model.types import Model
    from odek.sandbox.container.owner import Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The effects of a run. A test passes others."""

    host: Host
    docker: Docker
    new_model: Callable[[Settings], Model]
    emit: Sink
    operator: Operator | None
    """answers what a project asks for: the terminal or nothing, never a page (R-103)"""
    person: Person | None
    """decides on the operations of the model; None where there is none to ask"""
    person_in_any_thread: bool = False
    """whether `person` takes questions from several threads at once, as a page does and a terminal does not"""
    random_hex: Callable[[int], str]
    """random lower-case hex digits, twice as many as the bytes asked for"""
    sleep: Callable[[float], None] = cancel.sleep
    clock: Callable[[], float] = time.time
    """seconds since the epoch"""
    waiting: Callable[[str], AbstractContextManager[object]] = nullcontext
    """shows what is being waited for, within its block"""


def real_docker(host: Host) -> Docker:
    """Return the docker client of this host; neither it nor what it starts is of the working directory (R-92)."""
    executable = which("docker", host)
    if not executable:
        return NoDocker()
    return DockerCli(executable, {**host.env, "PATH": trusted_path(host)}, settle=_ClientSettings(host))


class _ClientSettings:
    """Makes the folder of the client's settings when Docker is asked for the first time, and keeps it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._folder: ClientFolder | None = None

    def __call__(self) -> Mapping[str, str]:
        from odek.app.docker_client import ClientFolder

        self._folder = ClientFolder(self._host)  # a temporary one goes with it
        return self._folder.environment()


def random_hex(size_bytes: int) -> str:
    """Return new random lower-case hex digits, twice as many as the bytes asked for."""
    return os.urandom(size_bytes).hex()


def owner_of(host: Host) -> Owner:
    """Return who the containers of this process belong to."""
    from odek.sandbox.container.owner import Owner  # a run on the host owns none

    me = read_identity(host.pid)
    return Owner(
        pid=host.pid,
        start=me.start_ticks if me else "",
        boot=me.boot_id if me else "",
        pidns=me.pid_namespace if me else "",
        uid=host.uid,
    )
