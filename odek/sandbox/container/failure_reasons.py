"""Why did it end? What the kernel and the engine counted, put into words (R-42). The deciding parts are pure.

A command that the kernel killed for its memory looks like any other that ended with 137, and a
container that was removed from outside like one that never was. The control group of the container and the
engine's own log of events tell the difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from odek.errors import ExecutableMissing
from odek.process import Completed
from odek.sandbox.container.verify import unseen_error
from odek.sandbox.docker import Docker, docker_output, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import SandboxSpec
from odek.text import truncate, visible

EVENTS_TIMEOUT_S = 5.0
_KILLED = 137  # 128 + SIGKILL
_CANNOT_EXECUTE = 126
_NO_FORK = ("can't fork", "cannot fork", "fork: ", "temporarily unavailable")
_EVENT_TEMPLATE = '{{.Action}} {{index .Actor.Attributes "signal"}} {{index .Actor.Attributes "exitCode"}}'

FORKED = 42
# Prints how often the kernel killed for memory and refused a process, in control groups v1 and v2, and when
# the first process started: a restarted container has another one. Leaves with 42 if as many processes can be
# made as the simplest command needs: its shell and a program.
# Builtins only: at the process limit nothing can fork.
COUNTERS = """\
count() {
  while read -r key value _; do [ "$key" = "$2" ] && echo "$3=$value"; done 2>/dev/null <"/sys/fs/cgroup/$1"
}
count memory.events oom_kill memory
count memory/memory.oom_control oom_kill memory
count pids.events max processes
count pids/pids.events max processes
read -r line </proc/1/stat
set -- ${line##*) }
echo "init=${20}"
( ( exit 42 ); exit $? )
"""


_NO_SUCH_FOLDER = ("bind source path does not exist:", "statfs")  # of Docker, of podman


_UNKNOWN_START = "Docker's own words say why; the settings in force: `odek config view`"
# What Docker, runc, crun and init say of a cause that can be named; of any other, their words are all there is.
_START_HINTS = (
    (("Range of CPUs is from",), "sandbox_cpus asks for more processors than Docker's machine has; lower it"),
    (("Minimum memory limit", "memory.max", "memory.limit_in_bytes"), "sandbox_memory is too small here; raise it"),
    (
        ('"sh": executable file not found', "exec sh failed", "executable file `sh` not found"),
        "the image must hold `sh` that everybody may execute",
    ),
)  # fmt: skip


def explain_no_start(
    spec: SandboxSpec, done: Completed, *, waited_s: float | None, processor: str = ""
) -> SandboxConfigError:
    """Return why a container did not start; `waited_s`: it took longer than that. Pure.

    `processor`: a hint about an image for another one, which goes before the other hints.

    Docker's words choose between two sentences and decide nothing: the run stops with either (D-11).
    """
    if waited_s is not None:
        return SandboxConfigError(
            f"Docker did not start the sandbox within {waited_s:.0f} seconds",
            hint="restart Docker, or try again when the machine is less busy",
            detail=docker_output(done),
        )
    if any(f"{words} {spec.workdir}" in done.stderr.text for words in _NO_SUCH_FOLDER):
        return unseen_error(spec)
    hint = processor or next(
        (hint for signs, hint in _START_HINTS if any(sign in done.stderr.text for sign in signs)), _UNKNOWN_START
    )
    return SandboxConfigError(
        f'Docker did not start the sandbox from image "{visible(spec.image)}"', hint=hint, detail=docker_output(done)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the container's control group has counted since it was started."""

    memory_kills: int = 0
    refused_processes: int = 0

    def since(self, before: Counters) -> Counters:
        """Return what was counted after `before`."""
        return Counters(
            memory_kills=max(self.memory_kills - before.memory_kills, 0),
            refused_processes=max(self.refused_processes - before.refused_processes, 0),
        )


def parse_counters(text: str, *, default: Counters) -> Counters:
    """Return what COUNTERS printed; what is missing is as it was. Pure."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return Counters(
        memory_kills=_number(found.get("memory"), default.memory_kills),
        refused_processes=_number(found.get("processes"), default.refused_processes),
    )


def parse_init_start(text: str) -> str:
    """Return when the container's first process started, as COUNTERS printed it, "" when it did not. Pure."""
    found = re.search(r"^init=([0-9]{1,19})$", text, re.MULTILINE)
    return found.group(1) if found else ""


def needs_counters(code: int | None, output: str) -> bool:
    """Return whether a command ended in a way that the counters may explain. Pure."""
    if code in (0, None):
        return False
    words = output.lower()
    return code == _KILLED or any(
        sign in words for sign in (*_NO_FORK, "out of memory", "cannot allocate memory", "killed")
    )


def explain_command(code: int | None, output: str, *, counted: Counters, spec: SandboxSpec) -> tuple[str, ...]:
    """Return what the model should know about a command that failed, one sentence each. Pure.

    `output` is the end of what it printed; `counted`, what was counted meanwhile.
    """
    if code in (0, None):
        return ()
    notes = []
    if counted.memory_kills:
        limit = f"of {spec.limits.memory_bytes} bytes " if spec.limits.memory_bytes else ""
        notes.append(
            f"the kernel killed a process because the memory limit {limit}was reached; use less, or ask the user to "
            "raise sandbox_memory"
        )
    if counted.refused_processes:
        notes.append(
            f"the process limit of {spec.limits.pids} was reached; stop background processes, or ask the user to raise "
            "sandbox_pids_limit"
        )
    notes += _explain_words(code, output, spec)
    return tuple(notes)


def explain_unrun(done: Completed, counted: Counters, spec: SandboxSpec, *, cut: bool) -> str:
    """Return why a client ended without having run its command. Pure.

    `cut`: by the wrapper's word, it did not get the whole of it.
    """
    words = docker_output(done)
    limit = name_limit(done.code, words, counted, spec)
    if limit:
        return limit
    if cut:
        return "it did not arrive in the container as a whole: `cat` does not work there, or the connection was cut"
    return truncate(words.replace("\n", "; "), 300) or f"the docker client ended with status {done.code}"


def name_limit(code: int | None, words: str, counted: Counters, spec: SandboxSpec) -> str:
    """Return which limit stopped a command that ended with `code` and `words`, "" for none. Pure."""
    if counted.memory_kills or (code == _KILLED and spec.limits.memory_bytes):
        limit = f" of {spec.limits.memory_bytes} bytes" if spec.limits.memory_bytes else ""
        return f"the memory limit{limit} was reached, to which files in /tmp and /dev/shm count"
    if counted.refused_processes or any(sign in words.lower() for sign in _NO_FORK):
        return f"the process limit of {spec.limits.pids} was reached"
    return ""


def _explain_words(code: int | None, output: str, spec: SandboxSpec) -> list[str]:
    notes = []
    denied = "Permission denied" in output
    if code == _CANNOT_EXECUTE and denied and "/tmp/" in output:
        notes.append("programs in /tmp cannot be run (noexec); put them into /workspace")
    if "Read-only file system" in output and spec.readonly:
        notes.append("the workspace is mounted read-only; only /tmp can be written")
    if "No space left on device" in output:
        notes.append(
            "a disk is full: /tmp is memory and holds "
            f"{spec.limits.tmp_bytes >> 20} MiB (sandbox_tmp_size), /workspace is the user's own disk"
        )
    return notes


def find_cause(container: str, docker: Docker, *, since_s: float, now_s: float) -> str:
    """Return, in words, why a container that was running is gone; "" when the engine does not tell.

    `since_s` and `now_s` are seconds of the day's clock, around the life of the container.
    """
    times = ("--since", str(int(since_s)), "--until", str(int(now_s) + 1))
    try:
        done = run_docker(
            docker, "events", *times, "--filter", f"container={container}", "--format", _EVENT_TEMPLATE,
            timeout_s=EVENTS_TIMEOUT_S,
        )  # fmt: skip
    except ExecutableMissing:
        return ""
    if "template:" in done.stderr.text:  # podman's events have other fields
        return ""
    if done.timed_out or done.code != 0:
        return "the Docker daemon does not answer any more"
    return explain_events(done.stdout.text.splitlines())


def explain_events(lines: Sequence[str]) -> str:
    """Return what the engine's events of a container come to, "" for nothing. Pure."""
    events = [line.split() for line in lines if line.strip()]
    actions = [event[0] for event in events]
    signals = [event[1] for event in events if event[0] == "kill" and len(event) > 1]
    if "die" not in actions:
        return ""
    if "restart" in actions:
        return "it was restarted (docker restart)"
    if "oom" in actions and not signals:
        return "the kernel ended it because the memory limit was reached; raise sandbox_memory"
    if "stop" in actions:
        return "it was stopped (docker stop)"
    if signals:
        return f"it was ended from outside (docker rm or kill, signal {signals[-1]})"
    codes = [event[-1] for event in events if event[0] == "die" and len(event) > 1]
    if codes and codes[-1] == "0":
        return "its connection to odek was cut: the docker client or the daemon was restarted"
    return f"its main process ended with status {codes[-1]}" if codes else ""


def _number(text: str | None, default: int) -> int:
    """Return a number that was printed in the container, where anybody may have printed anything."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,19}", text) else default
