"""odek repl as a process: at a terminal and on a pipe (R-80, R-85, F-29 to F-32, F-57, B01, B05)."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, Step, calls, delta, raw, status, text
from support.docker_engine import Engine
from support.odek_process import Odek, pid_of_odek, program_kind
from support.pty_session import Talk

PROMPT = "odek {}> "
LISTED = {"data": [{"id": "qwen3"}, {"id": "org/small"}]}


def machine_has_readline() -> bool:
    try:
        ctypes.CDLL("libreadline.so.8")
    except OSError:
        return False
    return True


needs_line_editing = pytest.mark.skipif(
    program_kind() == "binary" and not machine_has_readline(), reason="the binary takes the machine's libreadline"
)


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, with an operator's file that names the test image."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    (folder / "config.json").chmod(0o600)
    return odek


def session_files(odek: Odek) -> list[Path]:
    folder = odek.home / ".odek" / "sessions"
    return sorted(folder.glob("*.jsonl")) if folder.exists() else []


def spoken(server: ModelServer) -> list[tuple[str, str]]:
    """Return role and text of each message of the last request, without the system message."""
    return [(message["role"], message.get("content") or "") for message in server.requests[-1].json["messages"][1:]]


def slowly(*words: str) -> Step:
    """A stream that gives a word every 0.3 s."""
    pieces = [f"data: {json.dumps(delta(content=word))}\n\n".encode() for word in words]
    return raw(*pieces, b"data: [DONE]\n\n", gap_s=0.3)


def test_every_line_of_a_pipe_is_a_turn_of_one_session(on_host: Odek) -> None:
    """F-31, F-98: no line is lost, none doubled; a turn that fails does not end it, and is told in the exit code."""
    with ModelServer(text("1st"), status(400, {"error": {"message": "no"}}), text("3rd ü")) as server:
        outcome = on_host.run("repl", "--base-url", server.base_url, stdin="one\n\ntwo\r\n/nope\nthree")
        server.assert_all_used()
        assert (outcome.code, outcome.stdout) == (1, "1st\n3rd ü\n"), outcome.stderr
        assert spoken(server) == [
            *(("user", "one"), ("assistant", "1st"), ("user", "two")),
            ("assistant", "[odek] The turn ended before there was a reply."),  # A23
            ("user", "three"),
        ]
    assert 'odek: error: "/nope" is not a command\n' in outcome.stderr
    assert "odek 1>" not in outcome.stderr
    (path,) = session_files(on_host)
    assert f"odek repl --id {path.stem}\n" in outcome.stderr
    assert not (on_host.home / ".odek" / "repl_history").exists()


def test_nobody_who_says_nothing_leaves_a_session_behind(on_host: Odek) -> None:
    with ModelServer() as server:
        outcome = on_host.run(
            "repl", "--base-url", server.base_url, stdin="\n/help\n/info\n/cost\n/undo\n/exit\nnever\n"
        )
    assert (outcome.code, outcome.stdout, session_files(on_host)) == (1, "", [])  # there was nothing to undo
    assert "none yet: it is made with the first turn" in outcome.stderr


@needs_line_editing
def test_conversation_at_a_terminal(on_host: Odek) -> None:
    """F-22, F-29, F-30, F-32: numbered prompts, text as it arrives and once, UTF-8, history, undo, model, Ctrl-D."""
    with (
        ModelServer(slowly("eins ", "zwei\n", "drei"), text("second"), text("third")) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        assert "ON THIS HOST" in talk.see(PROMPT.format(1))
        talk.say("hällo 🙂")
        talk.see("eins ")
        talk.see("zwei\ndrei\n── 1 model call")
        assert "eins" not in talk.see(PROMPT.format(2))
        talk.say("/undo")
        talk.see(PROMPT.format(1))
        talk.say("/model other")
        talk.see("the model is other from now on")
        talk.see(PROMPT.format(1))
        talk.say("again")
        talk.see("second\n")
        talk.see(PROMPT.format(2))
        talk.type("\x1b[A\x1b[A\r")  # up, up: what was typed before the last entry
        talk.see("the model is other from now on")
        talk.see(PROMPT.format(2))
        talk.type("/in\t\r")
        assert "turns    1" in talk.see(PROMPT.format(2))
        talk.type("\x04")
        code, rest = talk.end()
        assert (code, "session saved; go on with: odek repl --id" in rest) == (0, True)
        assert [request.json["model"] for request in server.requests] == ["deepseek-v4-flash", "other"]
        assert server.requests[0].json["messages"][1]["content"] == "hällo 🙂"
        assert spoken(server) == [("user", "again")]
    history = on_host.home / ".odek" / "repl_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text() == "hällo 🙂\n/undo\n/model other\nagain\n/model other\n/info\n"


@needs_line_editing
def test_names_of_models_are_completed_across_providers(odek: Odek) -> None:
    """R-231: those that the operator has written down, and those that the other server lists; then that one answers."""
    with ModelServer(models={"data": [{"id": "here"}]}) as here, ModelServer(text("moved"), models=LISTED) as there:
        folder = odek.home / ".odek"
        folder.mkdir(mode=0o700)
        providers = {"work": {"base_url": there.base_url, "models": {"glm": {}}}}
        settings = {"base_url": here.base_url, "model": "here", "providers": providers, "sandbox": False}
        (folder / "config.json").write_text(json.dumps(settings))
        with Talk(odek, "repl") as talk:
            talk.see(PROMPT.format(1))
            talk.type("/model wo\t\t")
            talk.see("work/glm")
            talk.type("qw\t\r")
            talk.see(f"the model is work/qwen3 ({there.base_url}) from now on")
            talk.say("hello")
            talk.see("moved")
            talk.say("/exit")
            assert talk.end()[0] == 0
        there.assert_all_used()
        assert here.requests == []


@needs_line_editing
def test_paste_of_several_lines_is_one_entry(on_host: Odek) -> None:
    with (
        ModelServer(text("got it"), text("this too")) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.type("\x1b[200~first\nsecond\x1b[201~")
        time.sleep(0.3)
        talk.type("\r")
        talk.see("got it")
        talk.see(PROMPT.format(2))
        talk.say("goes on\\")
        talk.see("… ")
        talk.say("here")
        talk.see("this too")
        talk.see(PROMPT.format(3))
        talk.say("/exit")
        assert talk.end()[0] == 0
        assert [content for role, content in spoken(server) if role == "user"] == ["first\nsecond", "goes on\nhere"]


@needs_line_editing
def test_line_that_was_begun_before_a_stop_goes_on(on_host: Odek) -> None:
    """R-80: Ctrl-Z and fg; what the shell wrote in between stands above the prompt and the line."""
    if program_kind() == "portable":
        pytest.skip("libedit knows no bracketed paste")
    if program_kind() == "portable":
        pytest.skip("libedit does not keep a line that was begun")
    with ModelServer(text("got it")) as server, Talk(on_host, "repl", "--base-url", server.base_url) as talk:
        talk.see(PROMPT.format(1))
        talk.type("half ü")
        talk.see("half ü")
        time.sleep(0.2)  # as with Ctrl-C: a person stops what waits for a key
        os.kill(talk.pid, signal.SIGSTOP)
        os.kill(talk.pid, signal.SIGCONT)
        talk.see(PROMPT.format(1) + "half ü")
        talk.say(" and half")
        talk.see("got it")
        talk.see(PROMPT.format(2))
        talk.say("/exit")
        assert talk.end()[0] == 0
        assert spoken(server) == [("user", "half ü and half")]


@needs_line_editing
def test_conversation_under_a_locale_of_bytes(on_host: Odek) -> None:
    """B47: LANG=C; what is typed arrives as it was meant, the answer is shown as far as it can be."""
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with ModelServer(text("naïve 🙂")) as server, Talk(on_host, "repl", "--base-url", server.base_url, env=env) as talk:
        talk.see(PROMPT.format(1))
        talk.say("hällo 🙂")
        talk.see("na")
        talk.see(PROMPT.format(2))
        talk.type("\x04")
        assert talk.end()[0] == 0
        assert spoken(server) == [("user", "hällo 🙂")]


def running(word: str) -> bool:
    """Return whether a process of this machine, containers included, has `word` as an argument."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
    return False


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def word() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{700 + os.getpid() % 1000}.{time.monotonic_ns() % 10**6:06}"


def test_ctrl_c_cancels_the_turn_and_the_next_one_works(sandboxed: Odek, word: str) -> None:
    """F-57, F-58, B01: during a command, which ends in the container, and while the model writes; twice in a row."""
    with ModelServer(
        calls(("shell", {"command": "touch begun; sleep " + word})), slowly(*["word "] * 30), text("after"),
    ) as server, Talk(sandboxed, "repl", "--base-url", server.base_url) as talk:  # fmt: skip
        assert "sandbox odek-" in talk.see(PROMPT.format(1))
        talk.say("start")
        wait_until(lambda: running(word), "the command does not run")
        talk.type("\x03")
        talk.see("the turn was cancelled")
        wait_until(lambda: not running(word), "the command goes on in the container")
        talk.see(PROMPT.format(2))
        talk.say("write")
        talk.see("word word ")
        talk.type("\x03")
        talk.see("the turn was cancelled")
        talk.see(PROMPT.format(3))
        talk.say("and now")
        talk.see("after\n")
        talk.see(PROMPT.format(4))
        talk.type("\x04")
        assert talk.end()[0] == 0
        roles = [role for role, _ in spoken(server)]
        assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]  # A23
        assert "interrupted" in spoken(server)[2][1]


def press_ctrl_c(talk: Talk) -> None:
    """Press it as a person does: between the prompt and the wait for a key, Python would notice it at the next key."""
    time.sleep(0.2)
    talk.type("\x03")


def test_ctrl_c_twice_leaves(sandboxed: Odek, docker_engine: Engine) -> None:
    """At the prompt; the first one says so, and anything typed in between takes it back."""
    with ModelServer(text("x")) as server, Talk(sandboxed, "repl", "--base-url", server.base_url) as talk:
        talk.see(PROMPT.format(1))
        talk.type("half a line")
        press_ctrl_c(talk)
        talk.see("Ctrl-C once more leaves")
        talk.see(PROMPT.format(1))
        talk.say("/help")
        talk.see(PROMPT.format(1))
        press_ctrl_c(talk)
        talk.see("Ctrl-C once more leaves")
        talk.see(PROMPT.format(1))
        press_ctrl_c(talk)
        assert talk.end()[0] == 128 + signal.SIGINT
        assert server.requests == []
    wait_until(lambda: not docker_engine.containers_of(talk.pid), "the container is still there")


def test_ctrl_c_that_arrives_twice_at_once_is_one(on_host: Odek) -> None:
    """A wrapper passes on what the terminal has sent already; the second one meets the exception of the first."""
    with ModelServer(text("x")) as server, Talk(on_host, "repl", "--base-url", server.base_url) as talk:
        talk.see(PROMPT.format(1))
        for _ in range(20):
            talk.type("half a line")
            talk.see("half a line")
            time.sleep(0.2)  # as press_ctrl_c does; and a later Ctrl-C is one of its own
            os.kill(talk.pid, signal.SIGINT)
            os.kill(talk.pid, signal.SIGINT)
            talk.see("Ctrl-C once more leaves")
            talk.see(PROMPT.format(1))
            talk.say("/help")  # takes it back
            talk.see(PROMPT.format(1))
        talk.say("/exit")
        assert talk.end()[0] == 0


@pytest.mark.once
@pytest.mark.parametrize("ending", ["closed", "SIGTERM"])
def test_conversation_that_is_ended_from_outside(
    ending: str, sandboxed: Odek, docker_engine: Engine, word: str
) -> None:
    """R-38: a window that is closed, a signal; the container goes, the session is whole."""
    with (
        ModelServer(calls(("shell", {"command": "sleep " + word}))) as server,
        Talk(sandboxed, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.say("start")
        wait_until(lambda: running(word), "the command does not run")
        if ending == "closed":
            talk.close()
        else:
            os.kill(talk.pid, signal.SIGTERM)
        code, _ = talk.end()
        assert code == 128 + (signal.SIGHUP if ending == "closed" else signal.SIGTERM)
    wait_until(lambda: not docker_engine.containers_of(talk.pid) and not running(word), "something is left")
    with ModelServer(text("went on")) as server:
        outcome = sandboxed.run("continue", "--base-url", server.base_url, "go on")
        assert (outcome.code, outcome.stdout) == (0, "went on\n"), outcome.stderr


def test_line_typed_while_a_command_reads_is_the_next_entry(sandboxed: Odek) -> None:
    """B05: the command sees the end of its input at once and takes nothing of what the user types."""
    with (
        ModelServer(calls(("shell", {"command": "cat; sleep 2; echo rc=$?"})), text("1st"), text("2nd")) as server,
        Talk(sandboxed, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.say("read")
        talk.see("● shell")
        talk.say("typed ahead")
        talk.see("rc=0")
        talk.see("1st")
        talk.see("2nd")
        talk.see(PROMPT.format(3))
        talk.type("\x04")
        assert talk.end()[0] == 0
        assert spoken(server)[-1] == ("user", "typed ahead")


@pytest.mark.once
def test_sandbox_that_is_lost_is_started_again_and_never_the_host(sandboxed: Odek, docker_engine: Engine) -> None:
    """R-42: told, offered, and the conversation goes on in a new container."""
    command = calls(("shell", {"command": "hostname; id -u"}))
    with (
        ModelServer(command, command, text("back")) as server,
        Talk(sandboxed, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        pid = pid_of_odek(talk.pid)
        docker_engine.run("rm", "--force", *docker_engine.containers_of(pid))
        talk.say("first")
        talk.see("odek: error: the sandbox was lost")
        talk.see("/sandbox restart begins with a new container")
        assert "── the sandbox is gone" in talk.see(PROMPT.format(2))
        talk.say("/sandbox restart")
        talk.see("odek: sandbox network=none")
        assert "── sandbox odek-" in talk.see(PROMPT.format(2))
        talk.say("second")
        talk.see("back")
        talk.see(PROMPT.format(3))
        talk.type("\x04")
        assert talk.end()[0] == 0
        names = [message for role, message in spoken(server) if role == "tool"]
        assert "interrupted" in names[0]
        assert f"odek-{pid}-" in names[1]


@pytest.mark.once
def test_trust_survives_a_new_container(sandboxed: Odek, base_image: str) -> None:
    """Runtime 5.6: a class is trusted until odek ends, whatever container is begun meanwhile."""
    policy = {"sandbox_image": base_image, "dangerous": {"sandboxed": {"classes": {"code_execution": "prompt"}}}}
    (sandboxed.home / ".odek" / "config.json").write_text(json.dumps(policy))
    command = calls(("shell", {"command": "sh -c 'echo ran'"}))
    with (
        ModelServer(command, text("1st"), command, text("2nd")) as server,
        Talk(sandboxed, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.say("first")
        talk.see("t = trust this class")
        talk.see("] ")
        talk.say("t")
        talk.see("1st")
        talk.see(PROMPT.format(2))
        talk.say("/sandbox restart")
        talk.see(PROMPT.format(2))
        talk.say("second")
        assert "Approve?" not in talk.see("2nd")
        talk.see(PROMPT.format(3))
        talk.type("\x04")
        talk.end()
        assert ["ran" in said for role, said in spoken(server) if role == "tool"] == [True, True]


@pytest.mark.once
def test_slow_start_is_told_and_leaves_nothing_on_the_line(
    sandboxed: Odek, docker_engine: Engine, tmp_path: Path
) -> None:
    """R-81: whatever takes longer than a second."""
    shim = tmp_path / "shim" / "docker"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\n[ "$1" != run ] || sleep 3\nexec {docker_engine.client} "$@"\n')
    shim.chmod(0o755)
    env = {"PATH": f"{shim.parent}:{os.environ['PATH']}"}
    with ModelServer() as server, Talk(sandboxed, "repl", "--base-url", server.base_url, env=env) as talk:
        talk.see("\rstarting, ")
        talk.see(" s\rodek: sandbox network=none")
        talk.see(PROMPT.format(1))
        talk.say("/exit")
        assert talk.end()[0] == 0


@pytest.mark.once
def test_session_in_use_is_refused_with_the_holder(on_host: Odek) -> None:
    """B45: a conversation holds its session from its first turn to its end."""
    with (
        ModelServer(text("mine"), text("later")) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.say("hello")
        talk.see("mine")
        talk.see(PROMPT.format(2))
        refused = on_host.run("continue", "--base-url", server.base_url, "me too")
        assert (refused.code, refused.stdout) == (1, "")
        assert f"is in use by process {pid_of_odek(talk.pid)}\n" in refused.stderr
        talk.type("\x04")
        talk.end()
        outcome = on_host.run(
            "repl", "--id", session_files(on_host)[0].stem[:12], "--base-url", server.base_url, stdin="x\n"
        )
        assert (outcome.code, outcome.stdout) == (0, "later\n"), outcome.stderr
        assert spoken(server) == [("user", "hello"), ("assistant", "mine"), ("user", "x")]


@needs_line_editing
def test_conversation_is_compacted_at_a_terminal(on_host: Odek) -> None:
    """R-282: tokens before and after are shown; Ctrl-C leaves it as it was; the session goes on with the summary."""
    long = "word " * 8000
    with (
        ModelServer(
            text(long), text("2nd"), slowly("SUM", "MA", "RY", "."), text("THE SUMMARY"), text("3rd")
        ) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see(PROMPT.format(1))
        talk.say("/compact")
        talk.see("there is nothing to compact yet")
        talk.see(PROMPT.format(1))
        for number, task in enumerate(("one", "two"), start=1):
            talk.say(task)
            talk.see(PROMPT.format(number + 1))
        talk.say("/compact")
        while len(server.requests) < 3:
            time.sleep(0.05)
        talk.type("\x03")
        talk.see("/compact was cancelled")
        talk.see(PROMPT.format(3))
        talk.say("/compact keep the words")
        talk.see("a request took about ")
        assert "SUMMARY" not in talk.see(PROMPT.format(3))
        talk.type("\x04")
        assert talk.end()[0] == 0
        outcome = on_host.run("continue", "--base-url", server.base_url, "three")
        assert (outcome.code, outcome.stdout) == (0, "3rd\n"), outcome.stderr
        server.assert_all_used()
        assert server.requests[3].json["messages"][-1]["content"].endswith("The user says: keep the words")
        assert [role for role, _ in spoken(server)] == ["user", "assistant", "user", "assistant", "user"]
        summary = spoken(server)[0][1]
        assert "THE SUMMARY" in summary
        assert "- one\n" in summary
        assert long not in summary
    (path,) = session_files(on_host)
    assert long.strip() in path.read_text()


def plant_command(folder: Path, name: str, content: str) -> None:
    (folder / ".odek" / "commands").mkdir(parents=True, exist_ok=True)
    (folder / ".odek" / "commands" / name).write_text(content)


@needs_line_editing
def test_own_commands_at_a_terminal(on_host: Odek) -> None:
    """R-283: listed, completed, filled in; a project's after a yes, and again when its text has changed."""
    plant_command(on_host.home, "review.md", "---\ndescription: Look at FILE\nargument-hint: FILE\n---\nreview $1")
    plant_command(on_host.cwd, "deploy.md", "deploy $ARGUMENTS\x20now")
    with ModelServer(text("1st"), text("2nd"), text("3rd")) as server:
        with Talk(on_host, "repl", "--base-url", server.base_url) as talk:
            assert "deploy $ARGUMENTS now" in talk.see("Approve? [y = once / t = trust these texts / N]")
            talk.say("t")
            talk.see(PROMPT.format(1))
            talk.say("/help")
            listed = talk.see(PROMPT.format(1))
            assert re.search(r"/review \[FILE\] +Look at FILE\n", listed)
            assert re.search(r"/deploy \[…\] +deploy \$ARGUMENTS now \(this project's\)\n", listed)
            talk.type("/rev\t'a file.py'\r")
            talk.see("1st")
            talk.see(PROMPT.format(2))
            talk.say("/deploy $1 here")
            talk.see("2nd")
            talk.see(PROMPT.format(3))
            talk.type("\x04")
            assert talk.end()[0] == 0
            assert [words for role, words in spoken(server) if role == "user"] == [
                "review a file.py",
                "deploy $1 here now",
            ]
        plant_command(on_host.cwd, "deploy.md", "deploy it and more")
        outcome = on_host.run("repl", "--base-url", server.base_url, stdin="/deploy\n/review x\n")
        assert (outcome.code, outcome.stdout) == (1, "3rd\n"), outcome.stderr
        assert (
            "1 command of this project without an approval, and there is no terminal, not offered: /deploy"
            in outcome.stderr
        )
        assert 'error: "/deploy" is not a command' in outcome.stderr
        assert spoken(server)[-1] == ("user", "review x")
        server.assert_all_used()
    assert "command: /deploy" in on_host.run("approvals", "list").stdout


def test_own_command_as_a_task(on_host: Odek) -> None:
    """R-283: `odek run /NAME`, with what is piped in; an unapproved one of the project stops before the model."""
    plant_command(on_host.home, "review.md", "review $1")
    plant_command(on_host.cwd, "deploy.md", "deploy")
    with ModelServer(text("done")) as server:
        outcome = on_host.run("run", "--base-url", server.base_url, "/review", "a.py")
        assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
        assert "odek: /review is ~/.odek/commands/review.md\n" in outcome.stderr
        assert spoken(server) == [("user", "review a.py")]
        refused = on_host.run("run", "--base-url", server.base_url, "/deploy")
        assert (refused.code, len(server.requests)) == (1, 1)
        assert "the command /deploy of this project needs an approval" in refused.stderr
