from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odek.errors import ExecutableMissing, Interrupted
from odek.executor import CommandRequest, CommandResult, ScanOptions
from odek.host_executor import commands
from odek.host_executor.commands import HostExecutor, scrub_environment

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
LONG_S = 60.0


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostExecutor]:
    executor = HostExecutor(
        cwd=os.path.realpath(tmp_path), env=ENV
    )  # ids of its own: other runs of these tests hunt by theirs
    yield executor
    executor.close()


def told(result: CommandResult) -> tuple[bytes, int | None, bool, tuple[str, ...]]:
    return result.output.data, result.code, result.timed_out, result.notes


def words(text: str) -> list[str]:
    return text.split()


def running_with(word: str) -> list[str]:
    """Return the command lines of this machine that hold `word`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            stopped = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
        except OSError:
            continue
        if word.encode() in line and not stopped:
            found.append(line.decode())
    return found


def test_run_gives_no_terminal(host: HostExecutor) -> None:
    result = host.run("test -t 0 || echo none; (: </dev/tty) 2>/dev/null || echo none", timeout_s=LONG_S)
    assert result.output.text == "none\nnone\n"


def test_run_keeps_both_ends_and_the_true_size_of_long_output(host: HostExecutor) -> None:
    """R-41: bounded memory, exact count, exit code not lost."""
    result = host.run("echo begin; yes 0123456789abcde | head -c 16000000; echo end; exit 4", timeout_s=LONG_S)
    output = result.output
    assert (output.size_bytes, result.code) == (16_000_010, 4)
    assert len(output.data) <= 256 << 10
    assert (output.head[:10], output.tail[-8:]) == (b"begin\n0123", b"cde\nend\n")


def test_run_returns_when_a_background_child_holds_the_output(host: HostExecutor) -> None:
    """B02, R-40: the shell's end counts; the child goes on and is not heard in the next result."""
    command = "(trap '' PIPE; while :; do echo tick; sleep 0.01; done) & echo $! >pid; echo up; exit 5"
    output, code, timed_out, notes = told(host.run(command, timeout_s=LONG_S))
    child = int((Path(host.workspace) / "pid").read_text())
    try:
        assert (output.replace(b"tick\n", b""), code, timed_out) == (b"up\n", 5, False)
        assert notes == (
            "a background process goes on and holds the output open; what it prints from now on is not shown",
        )
        assert told(host.run("sleep 0.2; echo second", timeout_s=LONG_S)) == (b"second\n", 0, False, ())
        os.kill(child, 0)
    finally:
        os.killpg(os.getpgid(child), signal.SIGKILL)


def test_run_drains_a_background_job_while_later_commands_run(host: HostExecutor) -> None:
    """B02: a server started earlier is neither blocked by a full pipe nor ended by a closed one."""
    host.run("(sleep 0.2; yes | head -c 400000 && echo done >flag) & echo up", timeout_s=LONG_S)
    result = host.run("while ! test -e flag; do sleep 0.02; done; cat flag", timeout_s=20)
    assert told(result) == (b"done\n", 0, False, ())


HOSTILE = {
    "setsid": "setsid sleep 5{} & wait",
    "double fork": "( (setsid sleep 5{} &) & ); sleep 5{}",
    "nohup": "nohup sleep 5{} >/dev/null 2>&1 & wait",
    "ignores signals": "trap '' TERM INT HUP; sleep 5{}",
    "stops itself": "sh -c 'kill -STOP $$; : 5{}'",
    "cleared environment, living parent": "env -i setsid sleep 5{} & sleep 5{}",
    "cleared environment, orphan": "(env -i setsid sleep 5{} &); sleep 5{}",
    "cleared environment, orphans of orphans": "(env -i setsid sh -c '(env -i setsid sleep 5{} &)' &); sleep 5{}",
    "cleared environment, closed streams": "(env -i setsid sleep 5{} <&- >&- 2>&- &); sleep 5{}",
    "job control": "set -m 2>/dev/null; sleep 5{} & wait",
    "forks on and on": "f() { while :; do sleep 5{} & sleep 0.01; done; }; f & f & wait",
}


@pytest.mark.parametrize("command", HOSTILE.values(), ids=HOSTILE.keys())
def test_run_stops_the_whole_tree_at_its_limit(host: HostExecutor, command: str) -> None:
    """R-40, E10: setsid, double forks, stopped and trap-everything processes end with the command."""
    word = f"7{os.getpid()}"
    result = host.run("echo start; " + command.replace("{}", word), timeout_s=0.3)
    assert told(result) == (
        b"start\n",
        None,
        True,
        ("the command was stopped, with every process of it that could be found",),
    )
    assert running_with(f"5{word}") == []


def test_run_spares_the_servers_of_earlier_commands(tmp_path: Path) -> None:
    """R-40: a time-out stops its own command only."""
    host = HostExecutor(cwd=os.path.realpath(tmp_path), env=ENV)
    host.run("sleep 600 >/dev/null 2>&1 & echo $! >pid", timeout_s=LONG_S)
    host.run("(env -i setsid sh -c 'echo $$ >pid2; exec sleep 600' >/dev/null 2>&1 &)", timeout_s=LONG_S)
    await_true(lambda: (tmp_path / "pid2").exists() and bool((tmp_path / "pid2").read_text()))
    servers = [int((tmp_path / name).read_text()) for name in ("pid", "pid2")]
    try:
        assert host.run("sleep 600", timeout_s=0.2).timed_out
        for server in servers:
            os.kill(server, 0)
    finally:
        for server in servers:
            os.kill(server, signal.SIGKILL)


def test_run_stops_the_tree_and_passes_on_an_interrupt(host: HostExecutor) -> None:
    """R-40: Ctrl-C during a command ends the command."""

    def interrupt(number: int, _frame: object) -> None:
        raise Interrupted(number)

    word = f"58{os.getpid()}"
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Interrupted):
            host.run(f"setsid sleep {word} & sleep {word}", timeout_s=LONG_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert running_with(word) == []


def test_run_says_when_the_workspace_is_gone(tmp_path: Path) -> None:
    host = HostExecutor(cwd=str(tmp_path / "gone"), env=ENV)
    with pytest.raises(ExecutableMissing):
        host.run("true", timeout_s=LONG_S)


def test_child_sees_the_scrubbed_environment(tmp_path: Path) -> None:
    """F-7: keys and passwords of odek and its user do not reach commands; B06: what they are told of a terminal."""
    env = {"PATH": "/usr/bin:/bin", "ODEK_API_KEY": "sk-1", "GITHUB_TOKEN": "t", "EDITOR": "vi", "TERM": "xterm"}
    host = HostExecutor(cwd=os.path.realpath(tmp_path), env=env, new_id=lambda: "id")
    seen = dict(line.split("=", 1) for line in host.run("/usr/bin/env", timeout_s=LONG_S).output.text.splitlines())
    shell_own = {"PWD", "OLDPWD", "SHLVL", "_"}
    editor = seen.pop("GIT_EDITOR")
    assert (seen.pop("GIT_SEQUENCE_EDITOR"), editor.endswith("; false")) == (editor, True)
    assert {name: value for name, value in seen.items() if name not in shell_own} == {
        "PATH": "/usr/bin:/bin",
        "EDITOR": "vi",
        "TERM": "dumb",
        "ODEK_COMMAND_ID": "id",
    }


def test_scrub_environment_goes_by_the_segments_of_a_name() -> None:
    """F-7: a name is secret by a whole segment, not by a part of a word."""
    secret = words(
        "KEY APIKEY ODEK_API_KEY OPENAI_API_KEY aws_secret_access_key GITHUB_TOKEN DB_PASS DB_PASSWD DB_PASSWORD "
        "CLIENT-SECRET GOOGLE_CREDENTIALS X_CREDENTIAL MY_PRIVATEKEY MY_ACCESSKEY MY_SECRETKEY SECRETKEY_2 "
        "MYSQL_PWD PGPASSWORD SSHPASS"
    )
    harmless = words("PATH HOME PWD KEYBOARD MONKEY PASSAGE TOKENIZER SSH_AUTH_SOCK COMPASS SECRETARY")
    assert list(scrub_environment(dict.fromkeys(secret + harmless, "x"))) == harmless


def both(result: CommandResult) -> tuple[bytes, bytes, int | None, bool]:
    assert result.stderr is not None
    return result.output.data, result.stderr.data, result.code, result.timed_out


def requests(*commands: str, timeout_s: float = LONG_S) -> list[CommandRequest]:
    return [CommandRequest(command=command, timeout_s=timeout_s) for command in commands]


def test_run_many_stops_only_what_takes_too_long(host: HostExecutor) -> None:
    """R-40, R-41: much output of one neither blocks the others nor is kept."""
    word = "31.4159"
    results = host.run_many(
        [*requests(f"echo x; setsid sleep {word}", "yes", timeout_s=0.5), *requests("sleep 0.8; echo late")]
    )
    assert [result.timed_out for result in results] == [True, True, False]
    assert (results[0].output.data, results[2].output.data) == (b"x\n", b"late\n")
    assert results[1].output.omitted_bytes > 0
    assert running_with(word) == []


def test_run_many_leaves_nothing_behind_when_interrupted(host: HostExecutor) -> None:
    """R-40."""
    word = "27.1828"

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted(number)

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Interrupted):
            host.run_many(requests(f"sleep {word}", f"setsid sleep {word}", "true"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert running_with(word) == []


def test_run_many_of_nothing_is_nothing(host: HostExecutor) -> None:
    assert host.run_many([]) == ()


def test_folders_are_those_of_the_workspace(host: HostExecutor) -> None:
    host.write("d/f", b"12", replacing=None)
    assert [(entry.path, entry.kind) for entry in host.walk("", ScanOptions()).entries] == [
        ("d", "folder"),
        ("d/f", "file"),
    ]
    assert host.stat("d/f").size_bytes == 2


KILLED = """
import os, sys
sys.path.insert(0, {root!r})
from odek.host_executor.commands import HostExecutor
host = HostExecutor(cwd=os.getcwd(), env={env!r})
host.run("sleep {server} >/dev/null 2>&1 &", timeout_s=60)
host.run("setsid sleep {word} & (env -i setsid sleep {word} &) ; echo up >up; sleep {word}", timeout_s=600)
"""


def test_command_ends_with_an_odek_that_is_killed(tmp_path: Path) -> None:
    """F16, E10: with what left its process group; a server of an earlier command goes on, as it does after odek."""
    word, server = f"7{os.getpid()}1", f"7{os.getpid()}2"
    script = KILLED.format(root=os.getcwd(), env=ENV, word=word, server=server)
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path) as child:
        await_true(lambda: (tmp_path / "up").exists() and len(running_with(f"sleep\0{word}")) == 3)
        child.kill()
    await_true(lambda: running_with(f"sleep\0{word}") == [])
    servers = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_running(pid, f"sleep\0{server}")]
    assert len(servers) == 1
    os.kill(servers[0], signal.SIGKILL)


def test_part_of_a_command_is_not_run(tmp_path: Path) -> None:
    """E1, F16: of an odek that is killed while it writes."""
    for cut in (0, 10, 40):
        done = subprocess.run(
            ["/bin/sh", "-c", commands._SCRIPT, "sh"],
            input=b"touch made && echo done >>made#0123456789abcdef"[:cut],
            env={**ENV, commands.MARK_VARIABLE: "0123456789abcdef"},
            cwd=tmp_path,
            capture_output=True,
        )
        assert (done.returncode, list(tmp_path.iterdir())) == (125, [])
        assert done.stdout == b"the command did not run: it did not arrive as a whole\n"


@pytest.mark.parametrize("script", [commands._SCRIPT, commands._SCRIPT_SEPARATE_STDERR], ids=["joint", "apart"])
def test_system_without_a_null_device_is_named(script: str, tmp_path: Path) -> None:
    """R-406: in a root without /dev/null a command is not run, and its output says why."""
    done = subprocess.run(
        ["/bin/sh", "-c", script.replace("/dev/null", f"{tmp_path}/no/null"), "sh"],
        input=b"touch made#0123456789abcdef",
        env={**ENV, commands.MARK_VARIABLE: "0123456789abcdef"},
        cwd=tmp_path,
        capture_output=True,
    )
    said = b"the command did not run: this system has no %s/no/null\n" % bytes(tmp_path)
    shown, other = (done.stdout, done.stderr) if script == commands._SCRIPT else (done.stderr, done.stdout)
    assert (done.returncode, list(tmp_path.iterdir())) == (125, [])
    assert shown.endswith(said)
    assert said not in other


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int, words: str) -> bool:
    try:
        return words.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_background_process_that_is_left_on_the_host_is_named(host: HostExecutor) -> None:
    """E17: nothing else says that it outlives odek."""
    word = f"8{os.getpid()}3"
    left = host.run(f"sleep {word} >/dev/null 2>&1 & echo $!", timeout_s=LONG_S)
    assert [note.split(",")[0] for note in left.notes] == ["a background process goes on"]
    os.kill(int(left.output.data), signal.SIGKILL)
    assert host.run("true & wait", timeout_s=LONG_S).notes == ()
