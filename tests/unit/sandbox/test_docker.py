"""The one question that tells whether a daemon is there, and the environment of every call."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.docker import FakeDocker, completed
from fakes.notices import texts_to

from odek.errors import ExecutableMissing, SpawnFailed
from odek.process import Completed
from odek.sandbox.docker import (
    PROBE_ARGV,
    DockerCli,
    NoDocker,
    docker_output,
    inspect,
    probe,
    read_probe,
    run_docker,
    run_long,
)
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError

SOCKET = "unix:///var/run/docker.sock"
CONNECT = f"Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?\n"
MISSING_29 = (
    f"failed to connect to the docker API at {SOCKET}; check if the path is correct and if the daemon is running: "
    "dial unix /var/run/docker.sock: connect: no such file or directory\n"
)
DENIED = f"permission denied while trying to connect to the Docker daemon socket at {SOCKET}: Get …: dial unix: …\n"
DENIED_29 = f"permission denied while trying to connect to the docker API at {SOCKET}\n"
SSH = (
    'error during connect: Get "http://docker.example.com/v1.41/version": command [ssh -- h docker system dial-stdio] '
    "has exited with exit status 255, please make sure the URL is valid\n"
)
CONTEXT = 'unable to resolve docker endpoint: context "x": context not found\n'
CLOSED = 'error during connect: Get "http://127.0.0.1:1/v1.41/version": EOF\n'
NOT_HTTP = (
    'error during connect: Get "http://127.0.0.1:1/v1.41/version": net/http: HTTP/1.x transport connection broken: '
    "malformed HTTP response. Are you trying to connect to a TLS-enabled daemon without TLS?\n"
)
REFUSED = 'error during connect: Get "https://h:2376/v1.41/version": dial tcp 127.0.0.1:2376: connection refused\n'
UNKNOWN_HOST = 'error during connect: Get "http://h:2375/v1.50/version": dial tcp: lookup h: no such host\n'
BAD_TLS = 'error during connect: Get "https://h:2376/v1.50/version": x509: certificate signed by unknown authority\n'
PANIC = "panic: runtime error: invalid memory address or nil pointer dereference\n\ngoroutine 1 [running]:\n"


@pytest.mark.parametrize(
    ("done", "because"),
    [
        (completed(code=1, stderr=CONNECT), "no connection"),
        (completed(code=1, stderr=MISSING_29), "no connection"),
        (completed(code=1, stderr=SSH), "no connection"),
        (completed(code=1, stdout="\n", stderr=CONNECT), "no connection"),
        (completed(code=1, stderr=REFUSED), "no connection"),
        (completed(code=1, stderr=UNKNOWN_HOST), "no connection"),
        (completed(code=1, stderr=f"WARNING: Error loading config file: x\n{CONNECT}"), "no connection"),
        (completed(code=125, stderr="Cannot connect to Podman. Please verify your connection\n"), "no connection"),
        (completed(code=1, stderr=DENIED), "permission denied"),
        (completed(code=1, stderr=DENIED_29), "permission denied"),
        (completed(code=1, stderr=f"Got {DENIED}"), "permission denied"),
        (completed(code=-9, timed_out=True), "no answer"),
        (completed(code=0, stdout="20.10.24\n", timed_out=True), "no answer"),
    ],
)
def test_probe_that_finds_no_daemon_says_why(done: Completed, because: str) -> None:
    """R-7, D-11: old and new wording alike."""
    with pytest.raises(DaemonUnreachable) as refused:
        read_probe(done)
    assert refused.value.because == because
    assert refused.value.hint


@pytest.mark.parametrize(
    "done",
    [
        completed(code=1, stderr="Error response from daemon: \n"),
        completed(code=1, stdout="20.10.24\n"),
        completed(code=1, stdout="20.10.24\n", stderr=CONNECT),  # it says both
        completed(
            code=1, stderr="Error response from daemon: <html>Cannot connect to the Docker daemon at unix:///x</html>\n"
        ),
        completed(code=1, stderr="Error response from daemon: permission denied\n"),
        completed(
            code=1,
            stderr="docker: request returned 500 Internal Server Error for API route and version http://…/version\n",
        ),
        completed(code=0),
        completed(code=0, stdout=" \n"),
        completed(code=0, stdout="\n", stderr=CONNECT),
        completed(code=1, stderr=CLOSED),
        completed(code=1, stderr=NOT_HTTP),
        completed(code=1, stderr=BAD_TLS),
    ],
)
def test_probe_that_is_answered_by_something_else_never_leads_to_the_host(done: Completed) -> None:
    """R-7, D-11: what answers is there."""
    with pytest.raises(SandboxConfigError, match="something answers in place of a Docker daemon"):
        read_probe(done)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            "Error response from daemon: client version 1.41 is too old. Minimum supported API version is 1.44, "
            "please upgrade your client to a newer version\n",
            "install a newer docker client of API 1.44 or newer: ",
        ),
        ("Error response from daemon: client version 1.24 is too old.\n", "install a newer docker client: "),
        (
            "Error response from daemon: client version 1.99 is too new. Maximum supported API version is 1.41\n",
            "update the Docker daemon, which knows API 1.41, or use an older client",
        ),
        (
            "Error response from daemon: client version 1.99 is too new\n",
            "update the Docker daemon, or use an older client",
        ),
        (
            "API version 1.41 is not supported by this client: the minimum supported API version is 1.44\n",
            "update the Docker daemon, which knows API 1.41, or use an older client",
        ),
    ],
)
@pytest.mark.parametrize("stdout", ["", "\n"])
def test_probe_says_which_of_client_and_daemon_is_too_old(words: str, hint: str, stdout: str) -> None:
    """R-330: in the daemon's words, and in those of clients from 29 on; never a reason for the host."""
    with pytest.raises(SandboxConfigError, match="no version of the API in common") as refused:
        read_probe(completed(code=1, stdout=stdout, stderr=words))
    assert refused.value.hint.startswith(hint)
    assert refused.value.hint.endswith("; unset DOCKER_API_VERSION if it is set")


@pytest.mark.parametrize(
    "done",
    [
        completed(code=1, stderr=CONTEXT),
        completed(code=1, stderr=f"Failed to initialize: {CONTEXT}"),
        completed(code=1, stderr=f"Failed to initialize: {CONTEXT}{CONNECT}"),
        completed(code=2, stderr=PANIC),
        completed(code=1),
        completed(code=127, stderr=CONNECT),
        completed(code=126, stderr=DENIED),
        completed(code=127, stderr="docker: not found\n"),
        completed(code=99, stderr="permission denied\n"),
        completed(code=1, stderr="permission denied\n"),
        completed(code=1, stderr="usage: docker [-display host:dpy] [-wmaker]\n"),
        completed(code=1, stderr="error during connect: something else\n"),
        completed(code=1, stderr='error during connect: Get "http://h/": exit status 127, docker: not found\n'),
    ],
)
def test_client_that_cannot_name_its_daemon_or_is_not_docker_never_leads_to_the_host(done: Completed) -> None:
    """A2, D-25: only the client's own words for "nobody answered" say that nobody did."""
    with pytest.raises(SandboxConfigError, match="failed before it could ask a daemon"):
        read_probe(done)


@pytest.mark.parametrize(
    "done",
    [
        completed(stdout="20.10.24\n"),
        completed(stdout="20.10.24"),
        completed(stdout="20.10.24\n", stderr="WARNING: IPv4 forwarding is disabled. Networking will not work.\n"),
        completed(
            stdout="20.10.24\n",
            stderr="Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n",
        ),
        completed(stdout="20.10.24\n", stderr=CONNECT + DENIED + "Error response from daemon: no\n"),
    ],
)
def test_probe_that_is_answered_gives_the_version_whatever_is_warned_of(done: Completed) -> None:
    """D-11, B25."""
    assert read_probe(done) == "20.10.24"


def test_probe_asks_one_question_without_anything_of_the_user() -> None:
    """D-11."""
    docker = FakeDocker().on(*PROBE_ARGV, stdout="28.2.2\n")
    assert probe(docker, sleep=docker.sleep) == "28.2.2"
    assert [one.args for one in docker.calls] == [("version", "--format", "{{.Server.Version}}")]
    docker.assert_no_client_left()


def test_probe_asks_once_more_when_the_first_answer_is_late() -> None:
    """B23: a machine that wakes up is slow; slow is not absent."""
    docker = FakeDocker().on("version", hang=True, times=1).on("version", stdout="1\n")
    assert probe(docker, sleep=docker.sleep) == "1"
    docker.assert_no_client_left()


def test_probe_gives_up_when_nothing_answers_twice() -> None:
    """R-7, B23: bounded, and well below half a minute."""
    docker = FakeDocker().on("version", hang=True)
    start = docker.now()
    with pytest.raises(DaemonUnreachable, match="did not answer within 10 seconds, twice"):
        probe(docker, sleep=docker.sleep)
    assert (len(docker.calls), docker.now() - start <= 30) == (2, True)
    docker.assert_no_client_left()


def test_probe_does_not_ask_again_when_it_was_refused() -> None:
    docker = FakeDocker().on("version", code=1, stderr=CONNECT)
    with pytest.raises(DaemonUnreachable):
        probe(docker, sleep=docker.sleep)
    assert len(docker.calls) == 1


def test_probe_of_a_program_that_does_not_run_here_stops() -> None:
    """A2: a `docker` on PATH that cannot be executed is not a machine without one."""
    docker = FakeDocker().on("version", raises=ExecutableMissing("cannot run docker"))
    with pytest.raises(SandboxConfigError, match="the docker client cannot be started: cannot run docker"):
        probe(docker, sleep=docker.sleep)


def test_probe_without_a_client_finds_no_daemon() -> None:
    """R-7, R-416: `odek demo` and `odek bundle` have no --no-sandbox, and a plan refuses it."""
    docker = NoDocker()
    with pytest.raises(DaemonUnreachable) as refused:
        probe(docker, sleep=lambda _: None)
    assert (refused.value.because, "--no-sandbox" in refused.value.hint) == ("no client", False)


def test_client_that_cannot_be_started_at_present_is_no_missing_daemon() -> None:
    """R-7, S-1: a full process table is no reason to run on the host."""
    docker = FakeDocker().on("version", raises=SpawnFailed("cannot run docker: Resource temporarily unavailable"))
    with pytest.raises(SandboxConfigError, match="cannot be started: cannot run docker: Resource temporarily"):
        probe(docker, sleep=docker.sleep)


def test_client_that_was_killed_says_nothing_about_the_daemon() -> None:
    """R-7, S-1: such as by the kernel, when memory is short."""
    with pytest.raises(SandboxConfigError, match="ended by signal 9 before it could ask the daemon"):
        read_probe(completed(code=-9, stderr=CONNECT))


def test_environment_that_the_kernel_refuses_is_no_missing_client() -> None:
    """R-7, S-1: E2BIG, with the real client class."""
    docker = DockerCli(sys.executable, {"BIG": "x" * (3 << 20)})
    with pytest.raises(SandboxConfigError, match="Argument list too long"):
        probe(docker, sleep=lambda _: None)


def test_words_of_docker_are_quoted_safely_and_bounded() -> None:
    """R-64: stdout comes last because the runtime's refusals arrive there."""
    done = completed(
        code=126,
        stderr="\x1b[2Jwarning\r\n\n" + "\n".join(f"line {number}" for number in range(30)) + "\n" + "x" * 600,
        stdout="OCI runtime exec failed: \u202ebad\r\n",
    )
    lines = docker_output(done).split("\n")
    assert (len(lines), lines[-1], lines[-2], lines[0]) == (
        20,
        "OCI runtime exec failed: \\u202ebad",
        "x" * 500,
        "line 12",
    )
    assert docker_output(completed(stderr="\x1b[2Ja\tb\n")) == "\\x1b[2Ja\tb"
    assert docker_output(completed()) == ""


def test_client_gets_an_environment_in_which_calls_mean_what_they_say(tmp_path: Path) -> None:
    """B16, B25: no secret of the agent's, nothing that changes the meaning of a call; where the daemon is stays."""
    program = tmp_path / "docker"
    program.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    program.chmod(0o755)
    kept = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/h",
        "DOCKER_HOST": "unix:///x",
        "DOCKER_CONTEXT": "c",
        "DOCKER_CONFIG": "/c",
        "LC_ALL": "C.UTF-8",
    }
    names = (
        "DOCKER_DEFAULT_PLATFORM DOCKER_CONTENT_TRUST DOCKER_CONTENT_TRUST_SERVER DOCKER_BUILDKIT BUILDX_BUILDER "
        "BUILDKIT_PROGRESS ODEK_API_KEY ODEK_MODEL OPENAI_API_KEY"
    )
    dropped = dict.fromkeys(names.split(), "1")
    docker = DockerCli(str(program), kept | dropped | {"DOCKER_CLI_HINTS": "true"})
    arguments, env = json.loads(run_docker(docker, "a b", "--", "-c").stdout.text)
    assert arguments == ["a b", "--", "-c"]
    fixed = dict.fromkeys(("BUILDX_GIT_INFO", "BUILDX_GIT_LABELS", "BUILDX_GIT_CHECK_DIRTY"), "false")
    assert env == kept | fixed | {"DOCKER_CLI_HINTS": "false", "BUILDX_NO_DEFAULT_ATTESTATIONS": "true"}


@pytest.mark.parametrize("away", [False, True])
def test_client_that_is_to_be_away_cannot_make_a_file_where_it_is(away: bool, tmp_path: Path) -> None:
    """R-404."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    done = DockerCli(str(program), {"PATH": os.defpath}).start("run", away=away).wait(30)
    assert done.stdout.text == f"{'/proc' if away else os.getcwd()}\n"


def test_client_that_is_no_program_is_missing(tmp_path: Path) -> None:
    """R-7."""
    (tmp_path / "docker").write_text("")
    for path in (tmp_path / "docker", tmp_path / "none"):
        with pytest.raises(ExecutableMissing, match="cannot run"):
            run_docker(DockerCli(str(path), {}), "version")


@pytest.mark.parametrize(("answer", "code", "cleaned"), [("echo clean; exit 7", 7, "clean\n"), ("", -9, "")])
def test_client_of_a_killed_odek_is_asked_to_end_and_then_killed(
    answer: str, code: int, cleaned: str, tmp_path: Path
) -> None:
    """E13, R-403: SIGKILL cannot be caught, so a watcher ends the client of a build, and with it the build."""
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\ntrap '{answer}' TERM\necho ready >&2\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    docker = DockerCli(str(program), {"PATH": os.defpath})
    client = docker.start("build")
    watcher = docker.kill_when_gone(client)
    try:
        assert watcher is not None
        while b"ready" not in client.completed().stderr.data:
            client.pump(1)
        watcher.release()  # what the kernel does to the pipe of a process that is gone
        while not client.finished:
            client.pump(1)
        assert (client.completed().code, client.stdout.text) == (code, cleaned)
    finally:
        client.close()
        if watcher is not None:
            watcher.close()


@pytest.mark.parametrize("begin", ["sleep 600 &", "setsid sleep 600 &", "setsid sh -c 'setsid sleep 600; :' &"])
def test_what_the_client_of_a_build_has_started_ends_with_it(begin: str, tmp_path: Path) -> None:
    """R-403: also in a session of its own, as the RUN step of a build of podman's."""
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\nexec 3>{tmp_path}/held\n{begin}\necho ready >&2; wait; sleep 600\n")
    program.chmod(0o755)
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    docker = DockerCli(str(program), {"PATH": os.environ["PATH"]})
    run_long(docker, "build", doing="at work", emit=lambda _: None, timeout_s=0.5)
    os.set_blocking(held, True)
    assert os.read(held, 1) == b""  # all that had it open are gone
    os.close(held)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("args", [("pull", "--", "i:1"), ("load", "--input", "f"), ("build", "--file", "-")])
def test_long_command_says_what_it_does_and_is_killed_when_its_time_is_up(args: tuple[str, ...], stream: str) -> None:
    """E13: and with odek, whichever command it is; the watcher goes with the client."""
    docker = FakeDocker().on(args[0], hang=True, **{stream: "first\n\x1b[32mlast\x1b[2J\x1b[0m\n"})  # type: ignore[arg-type]
    said: list[str] = []
    done = run_long(docker, *args, doing="at work", emit=texts_to(said), timeout_s=11, every_s=5, clock=docker.now)
    assert (done.timed_out, done.code) == (True, -9)
    assert docker.watchers[0].released
    assert said == ["at work: 5 s, last\\x1b[2J", "at work: 10 s, last\\x1b[2J"]
    assert [(watcher.args[:2], watcher.closed) for watcher in docker.watchers] == [(("kill", args[0]), True)]
    docker.assert_no_client_left()


@pytest.mark.parametrize(
    ("stdout", "code", "objects", "only"),
    [
        ('[{"Id": "a"}]', 0, ({"Id": "a"},), {"Id": "a"}),
        ('a hint\n[{"Id": "a"}]\n', 0, ({"Id": "a"},), {"Id": "a"}),
        ('[{"Id": "a"}]', 1, ({"Id": "a"},), None),
        ('[{"Id": "a"}, {"Id": "b"}]', 0, ({"Id": "a"}, {"Id": "b"}), None),
        ("[]", 1, (), None),
        ("[1]", 0, None, None),
        ('{"Id": "a"}', 0, None, None),
        ("", 1, None, None),
        ("[" * 100_000, 0, None, None),
    ],
)
def test_inspect_shows_what_exists(stdout: str, code: int, objects: object, only: object) -> None:
    """B25: a client may chatter before the array."""
    shown = inspect(FakeDocker().on("network", "inspect", "--", "a", stdout=stdout, code=code), "network", "a")
    assert (shown.objects, shown.only) == (objects, only)


def test_inspect_that_does_not_end_shows_nothing() -> None:
    docker = FakeDocker().on("inspect", "--type", "container", "--", "a", stdout="[{}]", hang=True)
    assert inspect(docker, "container", "a").objects is None


CLIENT = """\
#!/bin/sh
echo "$*" >>"$0.log"
case $1 in hang) exec sleep 60 ;; esac
echo "answer to $*"
"""


def client_in(folder: Path, clock: Callable[[], float] = time.monotonic) -> DockerCli:
    """Return a client that notes its calls, in the order in which they begin, in `docker.log`."""
    program = folder / "docker"
    program.write_text(CLIENT)
    program.chmod(0o755)
    return DockerCli(str(program), {"PATH": os.environ["PATH"]}, clock=clock)


@pytest.mark.parametrize(("seconds", "is_same"), [(5.0, True), (5.1, False)])
def test_what_was_begun_long_ago_is_asked_anew(seconds: float, is_same: bool, tmp_path: Path) -> None:
    """R-257: whatever was waited for meanwhile; a daemon that was down then may be up."""
    now = iter((100.0, 100.0 + seconds))
    docker = client_in(tmp_path, clock=lambda: next(now))
    with docker.ahead(("hang", "1")):
        begun = docker._begun[0].client
        client = docker.start("hang", "1")
        assert (client is begun, begun.exited) == (is_same, not is_same)
        client.close()


def test_what_was_begun_ahead_answers_the_call_that_asks_for_it(tmp_path: Path) -> None:
    """R-250: each look-up is made once, and is judged where it was before."""
    docker = client_in(tmp_path)
    with docker.ahead(("version",), ("info",)):
        info = run_docker(docker, "info")
        version = run_docker(docker, "version")
        again = run_docker(docker, "version")
    assert [done.stdout.text for done in (info, version, again)] == [
        "answer to info\n",
        "answer to version\n",
        "answer to version\n",
    ]
    assert sorted((tmp_path / "docker.log").read_text().split()) == ["info", "version", "version"]


def test_only_a_call_without_input_and_without_listeners_takes_what_was_begun_ahead(tmp_path: Path) -> None:
    docker = client_in(tmp_path)
    heard: list[bytes] = []
    with docker.ahead(("version",)):
        with_input = run_docker(docker, "version", stdin=b"x")
        docker.start("version", on_stdout=heard.append).wait(10)
        assert with_input.stdout.text == "answer to version\n"
        assert heard == [b"answer to version\n"]
        run_docker(docker, "version")
    assert (tmp_path / "docker.log").read_text().split() == ["version"] * 3


def test_what_nothing_asked_for_ends_with_the_block(tmp_path: Path) -> None:
    """R-250: a start that ends early leaves no client at work."""
    docker = client_in(tmp_path)
    with docker.ahead(("hang", "1"), ("version",)):
        client = docker._begun[0].client
    assert client.completed().code == -signal.SIGKILL
    assert run_docker(docker, "version").stdout.text == "answer to version\n"


def test_what_an_outer_block_has_at_work_is_not_made_twice(tmp_path: Path) -> None:
    """R-257: a start looks ahead for what was looked up even earlier."""
    docker = client_in(tmp_path)
    with docker.ahead(("version",)):
        with docker.ahead(("version",), ("info",)):
            assert run_docker(docker, "info").stdout.text == "answer to info\n"
        assert run_docker(docker, "version").stdout.text == "answer to version\n"
    assert sorted((tmp_path / "docker.log").read_text().split()) == ["info", "version"]


def test_settings_that_cannot_be_read_are_a_failure_where_docker_is_asked(tmp_path: Path) -> None:
    """R-257: to look ahead changes nothing about what stops a start, nor where."""
    client_in(tmp_path)

    def settle() -> dict[str, str]:
        raise SandboxConfigError("no such context")

    docker = DockerCli(str(tmp_path / "docker"), {"PATH": os.environ["PATH"]}, settle=settle)
    with docker.ahead(PROBE_ARGV), pytest.raises(SandboxConfigError, match="no such context"):
        run_docker(docker, *PROBE_ARGV)
    assert not (tmp_path / "docker.log").exists()


def test_a_client_that_cannot_be_started_ahead_is_missed_when_it_is_asked_for(tmp_path: Path) -> None:
    docker = DockerCli(str(tmp_path / "docker"), {})
    with docker.ahead(PROBE_ARGV), pytest.raises(SandboxConfigError):
        probe(docker, sleep=lambda _: None)
    with NoDocker().ahead(PROBE_ARGV), pytest.raises(DaemonUnreachable):
        probe(NoDocker(), sleep=lambda _: None)
