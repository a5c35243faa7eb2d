"""Sandboxes with some of their protections taken away: the proof that an attack succeeds without them.

They are started by the product's own command line with parts of it left out, and attacked by its own
`docker exec` line. An attack is a command that prints THROUGH where it succeeds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.sandboxes import Boxes

from odek.sandbox.argv import LABEL, exec_argv, run_argv
from odek.sandbox.container import scripts
from odek.sandbox.docker import DockerCli, DockerProcess, run_docker
from odek.sandbox.spec import SandboxSpec

THROUGH = "THROUGH"
READY_WITHIN_S = 30
PROXIES = tuple(f"{name}_PROXY=" for name in ("HTTP", "HTTPS", "FTP", "ALL", "NO"))

Arguments = tuple[str, ...]
Edit = Callable[[Arguments], Arguments]


def without_option(*options: str) -> Edit:
    """Return what takes options with their values away; "--env HOME=" takes only values that begin so."""

    def edit(arguments: Arguments) -> Arguments:
        kept: list[str] = []
        words = iter(zip(arguments, (*arguments[1:], ""), strict=True))
        for word, value in words:
            if any(f"{word} {value}".startswith(option) for option in options):
                next(words, None)
            else:
                kept.append(word)
        return tuple(kept)

    return edit


def without_word(word: str) -> Edit:
    return lambda arguments: tuple(argument for argument in arguments if argument != word)


def with_option(*words: str) -> Edit:
    return lambda arguments: (arguments[0], *words, *arguments[1:]) if arguments[0] == "run" else arguments


def in_words_with(mark: str, old: str, new: str) -> Edit:
    return lambda arguments: tuple(word.replace(old, new) if mark in word else word for word in arguments)


def as_keep_alive(user: str) -> Edit:
    """Return what starts the container itself as `user`."""
    return lambda arguments: (
        with_option("--user", user)(without_option("--user ")(arguments)) if arguments[0] == "run" else arguments
    )


def on_bridge(arguments: Arguments) -> Arguments:
    return with_option("--network", "bridge")(without_option("--network ")(arguments))


# name of a protection → what takes it out of the arguments of `docker run` and `docker exec`
PROTECTIONS: dict[str, Edit] = {
    # those of Docker's default: podman's has no MKNOD
    "capabilities": lambda words: with_option("--cap-add", "MKNOD")(without_option("--cap-drop ")(words)),
    "no-new-privileges": without_option("--security-opt no-new-privileges"),
    "seccomp": lambda words: tuple("seccomp=unconfined" if w.startswith("seccomp=") else w for w in words),
    "own seccomp profile": without_option("--security-opt seccomp="),
    "noexec": in_words_with("/tmp:", "noexec", "exec"),
    "nosuid": in_words_with("/tmp:", "nosuid", "suid"),
    "nodev": in_words_with("/tmp:", "nodev", "dev"),
    "tmp for all": lambda words: tuple(w.partition(",mode=")[0] if w.startswith("/tmp:") else w for w in words),
    "size of tmp": lambda words: tuple(re.sub(",size=[0-9]+", "", w) if w.startswith("/tmp:") else w for w in words),
    "number of files": lambda words: tuple(re.sub(",nr_inodes=[0-9]+", "", word) for word in words),
    "no resolver": without_option("--dns"),
    "no ipv6": without_option("--sysctl "),
    "tmpfs": without_option("--tmpfs "),
    "user": without_option("--user "),
    "helper user": as_keep_alive("0:0"),
    "home": without_option("--env HOME="),
    "proxies": without_option(*(f"--env {name}" for proxy in PROXIES for name in (proxy, proxy.lower()))),
    # -1: podman has a limit of its own where none is given
    "process limit": lambda words: without_option("--pids-limit ")(with_option("--pids-limit=-1")(words)),
    "memory limit": without_option("--memory ", "--memory-swap "),
    "init": without_word("--init"),
    "rm": without_word("--rm"),
    "lease": with_option("--detach"),
    "network none": on_bridge,
    "non-recursive": in_words_with("type=bind,", ",bind-nonrecursive", ""),
    "read-only": in_words_with("type=bind,", ",readonly", ""),
    "no alias": with_option("--network-alias", "redis"),
    "private ipc": lambda words: with_option("--ipc", "shareable")(without_option("--ipc ")(words)),
    "host's ipc": lambda words: with_option("--ipc", "host")(without_option("--ipc ", "--tmpfs /dev/shm")(words)),
    "private cgroups": lambda words: with_option("--cgroupns", "host")(without_option("--cgroupns ")(words)),
}


def weaken(arguments: Arguments, without: Arguments) -> Arguments:
    """Return `arguments` without those protections; each of them must have been there to be taken away from `run`."""
    for protection in without:
        weaker = PROTECTIONS[protection](arguments)
        assert weaker != arguments or arguments[0] != "run", f"the command line has no {protection!r}"
        arguments = weaker
    return arguments


class CarelessDocker(DockerCli):
    """The real client; `without` is silently left out of every container that is started with it."""

    without: Arguments = ()

    def start(self, *args: str, **options: Any) -> DockerProcess:
        return super().start(*(weaken(args, self.without) if args[0] == "run" else args), **options)


@dataclass(slots=True, kw_only=True)
class Weakened:
    """A running container without some of its protections."""

    docker: DockerCli
    name: str
    spec: SandboxSpec
    lease: DockerProcess
    without: Arguments

    def output(self, command: str) -> str:
        """Run a command as the product would, and return what it prints."""
        done = run_docker(self.docker, *weaken(exec_argv(self.name, user=self.spec.user, script=command), self.without))
        return done.stdout.text

    def state(self) -> str:
        """Return Docker's word for the state of the container, "" when there is none."""
        found = run_docker(
            self.docker, "inspect", "--type", "container", "--format", "{{.State.Status}}", "--", self.name
        )
        return found.stdout.text.strip()

    def await_state(self, *states: str) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while (state := self.state()) not in states:
            assert time.monotonic() < deadline, state
            time.sleep(0.05)


@dataclass(slots=True, kw_only=True)
class Proof:
    """Attacks sandboxes: as they are, and with protections taken away."""

    boxes: Boxes
    _weakened: list[Weakened] = field(default_factory=list)

    def weakened(self, *without: str, docker: DockerCli | None = None, **changes: Any) -> Weakened:
        """Return a container of the product's without some protections; `changes` are those of its spec."""
        docker = docker or self.boxes.docker
        spec = self.boxes.spec(**changes)
        name = f"odek-{os.getpid()}-weak-{len(self._weakened)}"
        arguments = weaken(run_argv(spec, name=name, labels=((LABEL, "1"),)), without)
        lease = docker.start(*arguments, hold_stdin=True)
        made = Weakened(docker=docker, name=name, spec=spec, lease=lease, without=without)
        self._weakened.append(made)
        deadline = time.monotonic() + READY_WITHIN_S
        while scripts.READY.encode() not in lease.stdout.data and not lease.finished:
            assert time.monotonic() < deadline, lease.completed()
            lease.pump(0.1)
        assert made.state() == "running", lease.completed()
        return made

    def succeeds(self, attack: str, *without: str, prepare: str = "", **changes: Any) -> bool:
        """Return whether an attack gets through; `prepare` is done before it by root, from outside."""
        if without:
            weak = self.weakened(*without, **changes)
            self._prepare(weak.name, prepare)
            return THROUGH in weak.output(attack)
        box = self.boxes.start(**changes)
        self._prepare(box.facts.name, prepare)
        return THROUGH in box.run(attack, timeout_s=30).output.text

    def stops(self, attack: str, *, by: str, besides: Arguments = (), **options: Any) -> None:
        """Assert that a protection stops an attack, alone as well, and that it succeeds without.

        `besides` are the other protections that would stop it too.
        """
        assert not self.succeeds(attack, **options), "the attack gets through"
        assert not besides or not self.succeeds(attack, *besides, **options), f"{by!r} alone does not stop the attack"
        assert self.succeeds(attack, *besides, by, **options), f"the attack fails without {by!r}: it proves nothing"

    def close(self) -> None:
        for weak in self._weakened:
            weak.lease.close()
            self.boxes.engine.run("rm", "--force", "--volumes", weak.name, check=False)

    def _prepare(self, name: str, command: str) -> None:
        if command:
            self.boxes.engine.run("exec", "--user", "0:0", name, "sh", "-c", command)
