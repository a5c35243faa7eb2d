"""What the kernel and the engine counted, put into words (R-42)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.containers import CONTAINER_ID, SPEC
from fakes.docker import FakeDocker, completed

from odek.errors import ExecutableMissing
from odek.sandbox.build.builder import explain_failure
from odek.sandbox.container.failure_reasons import (
    Counters,
    explain_command,
    explain_events,
    explain_no_start,
    find_cause,
    needs_counters,
    parse_counters,
)
from odek.sandbox.spec import Limits

NONE = Counters()
LIMITED = replace(SPEC, limits=Limits(pids=64, memory_bytes=16 << 20))


@pytest.mark.parametrize(
    ("text", "counters"),
    [
        ("", NONE),
        ("memory=3\nprocesses=5\n", Counters(memory_kills=3, refused_processes=5)),
        ("memory=x\nnonsense\n=\n", NONE),
        ("processes=7", Counters(refused_processes=7)),
        ("memory=\u00b2\n", NONE),
        (f"processes={'9' * 5000}\n", NONE),
    ],
)
def test_parse_counters_reads_what_is_there(text: str, counters: Counters) -> None:
    assert parse_counters(text, default=NONE) == counters


@pytest.mark.parametrize(
    ("code", "output", "needed"),
    [
        (0, "Killed", False),
        (None, "Killed", False),
        (137, "", True),
        (1, "all wrong", False),
        (2, "sh: can't fork: Resource temporarily unavailable", True),
        (1, "bash: fork: retry", True),
        (1, "MemoryError: Cannot allocate memory", True),
        (1, "Killed", True),
    ],
)
def test_counters_are_asked_for_only_when_they_can_explain(code: int | None, output: str, needed: bool) -> None:
    """A call of Docker that no failure needs is not made."""
    assert needs_counters(code, output) is needed


@pytest.mark.parametrize(
    ("code", "output", "after", "words"),
    [
        (137, "Killed", Counters(memory_kills=1), ["memory limit of 16777216 bytes"]),
        (1, "can't fork", Counters(refused_processes=9), ["process limit of 64"]),
        (126, "sh: /tmp/x: Permission denied", NONE, ["noexec"]),
        (126, "sh: ./x: Permission denied", NONE, []),
        (1, "/tmp/x: Permission denied", NONE, []),
        (1, "No space left on device", NONE, ["a disk is full"]),
        (1, "Read-only file system", NONE, []),
        (137, "", NONE, []),
        (0, "No space left on device", Counters(memory_kills=1), []),
        (None, "", Counters(memory_kills=1), []),
    ],
)
def test_explains_a_failure_by_its_cause(code: int | None, output: str, after: Counters, words: list[str]) -> None:
    """R-42: out of memory, out of processes, noexec /tmp, full disk."""
    notes = explain_command(code, output, counted=after, spec=LIMITED)
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_explains_a_read_only_workspace_only_where_it_is_one() -> None:
    spec = replace(SPEC, readonly=True)
    (note,) = explain_command(1, "touch: x: Read-only file system", counted=NONE, spec=spec)
    assert note == "the workspace is mounted read-only; only /tmp can be written"


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        (
            ["create  ", "start  ", "kill 9 ", "die  137", "destroy  "],
            "it was ended from outside (docker rm or kill, signal 9)",
        ),
        (["start  ", "kill 15 ", "die  143", "stop  ", "destroy  "], "it was stopped (docker stop)"),
        (
            ["start  ", "oom  ", "die  137", "destroy  "],
            "the kernel ended it because the memory limit was reached; raise sandbox_memory",
        ),
        (
            ["start  ", "die  0", "destroy  "],
            "its connection to odek was cut: the docker client or the daemon was restarted",
        ),
        (
            ["start  ", "kill 15", "die  137", "stop  ", "start  ", "restart  ", "kill 9", "die  137", "destroy  "],
            "it was restarted (docker restart)",
        ),
        (["start  ", "exec_start: sh -c die", "die  3"], "its main process ended with status 3"),
        (["start  ", "oom  ", "exec_die  137"], ""),
        ([], ""),
        (["", "garbage"], ""),
    ],
)
def test_explains_the_end_of_a_container_by_the_events_of_the_engine(events: list[str], cause: str) -> None:
    """R-42: removed, stopped, out of memory, cut off."""
    assert explain_events(events) == cause


def test_asks_for_the_events_of_this_container_in_its_time() -> None:
    docker = FakeDocker()
    docker.on("events", stdout="kill 9 \ndie  137\n")
    assert find_cause(CONTAINER_ID, docker, since_s=100.9, now_s=200.1).startswith("it was ended from outside")
    (call,) = docker.calls
    assert call.args[:7] == ("events", "--since", "100", "--until", "201", "--filter", f"container={CONTAINER_ID}")


def test_a_daemon_that_does_not_answer_is_the_cause() -> None:
    docker = FakeDocker()
    docker.on("events", code=1, stderr="Cannot connect")
    assert find_cause(CONTAINER_ID, docker, since_s=0, now_s=1) == "the Docker daemon does not answer any more"


def test_events_that_have_other_fields_tell_nothing() -> None:
    """D-13: podman's; its client would be called a daemon that is gone."""
    docker = FakeDocker().on("events", code=125, stderr="Error: template: events:1:2: can't evaluate field Action\n")
    assert find_cause(CONTAINER_ID, docker, since_s=0, now_s=1) == ""


def test_says_nothing_without_a_client() -> None:
    docker = FakeDocker()
    docker.on("events", raises=ExecutableMissing("gone"))
    assert find_cause(CONTAINER_ID, docker, since_s=0, now_s=1) == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            "docker: Error response from daemon: Range of CPUs is from 0.01 to 2.00, as there are only 2.",
            "sandbox_cpus",
        ),
        ("docker: Error response from daemon: Minimum memory limit allowed is 6MB.", "sandbox_memory"),
        ('exec: "sh": executable file not found in $PATH: unknown', "must hold `sh`"),
        ("[FATAL tini (6)] exec sh failed: Permission denied", "must hold `sh`"),
        ("docker: Error response from daemon: something new", "Docker's own words say why"),
        ("", "Docker's own words say why"),
    ],
)
def test_start_that_fails_is_explained_by_its_own_words(words: str, hint: str) -> None:
    """A29: which setting; of an unknown cause nothing is guessed."""
    error = explain_no_start(LIMITED, completed(code=125, stderr=words), waited_s=None)
    assert hint in (error.hint or "")
    assert ("must hold `sh`" in (error.hint or "")) == (hint == "must hold `sh`")


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("The command '/bin/sh -c apt-get update' returned a non-zero code: 100", "no network"),
        ('process "/bin/sh -c false" did not complete successfully: exit code: 1', "no network"),
        ("the --mount option requires BuildKit. Refer to the documentation", "RUN --mount"),
        ("dockerfile parse error line 3: unknown instruction: ECHO", "here-documents"),
        ("COPY failed: file not found in build context or excluded by .dockerignore: stat gone", "name the line"),
        ('failed to calculate checksum of ref: "/gone": not found', "name the line"),
    ],
)
def test_build_that_fails_is_explained_by_its_own_words(output: str, hint: str) -> None:
    """A29: the network is spoken of where a RUN step has run and failed, and nowhere else."""
    assert hint in explain_failure(output)
