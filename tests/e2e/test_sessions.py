"""Sessions as processes see them: pinned, locked, whole after any ending (R-2, R-85, B44, B45)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, status, text
from support.docker_engine import Engine
from support.odek_process import ROOT, Odek, Outcome
from support.pty_session import Talk
from support.scenario import DEAD_SOCKET

CUT_OFF = "The turn ended before there was a reply."  # A23: stands for the words that never came


def operator(odek: Odek, **settings: object) -> Odek:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "config.json").chmod(0o600)
    return odek


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, with an operator's file that names the test image."""
    return operator(odek, sandbox_image=base_image)


def the_session(odek: Odek) -> Path:
    (path,) = (odek.home / ".odek" / "sessions").glob("*.jsonl")
    return path


def listed(odek: Odek) -> list[dict[str, object]]:
    sessions: list[dict[str, object]] = json.loads(odek.run("session", "list", "--json").stdout)["sessions"]
    return sessions


def messages(server: ModelServer) -> list[dict[str, object]]:
    found: list[dict[str, object]] = server.requests[-1].json["messages"]
    return found


def take_turn(odek: Odek, *arguments: str, env: Mapping[str, str] | None = None, answer: str = "ok") -> Outcome:
    """Run odek with a model that gives one answer."""
    with ModelServer(text(answer)) as server:
        return odek.run(*arguments, "--base-url", server.base_url, "a task", env=env)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name)
def test_session_goes_on_after_any_signal_in_the_middle_of_a_call(number: signal.Signals, sandboxed: Odek) -> None:
    """Runtime 9.5 (2), B44, F-58: finished results are kept, the others told as interrupted, nothing is run again.

    The server of the tests refuses what a strict provider would: a call without its result and the like.
    """
    commands = ("echo one | tee -a ran", "echo two >>ran; sleep 60", "echo three | tee -a ran")
    with ModelServer(calls(*(("shell", {"command": command}) for command in commands)), text("went on")) as server:
        process = sandboxed.start("run", "--session", "--base-url", server.base_url, "the task")
        ran = sandboxed.cwd / "ran"
        deadline = time.monotonic() + 30
        while not ran.exists() or len(ran.read_text().splitlines()) < 3:
            assert time.monotonic() < deadline, "the commands do not run"
            time.sleep(0.05)
        time.sleep(1.5)
        process.send_signal(number)
        process.communicate(timeout=30)
        outcome = sandboxed.run("continue", "--base-url", server.base_url, "go on")
        assert (outcome.code, outcome.stdout) == (0, "went on\n"), outcome.stderr
        sent = messages(server)
        server.assert_all_used()
    roles = [message["role"] for message in sent]
    assert roles == ["system", "user", "assistant", "tool", "tool", "tool", "assistant", "user"]  # A23
    results = [str(message["content"]) for message in sent if message["role"] == "tool"]
    assert "one\n" in results[0]
    assert "interrupted" in results[1]
    assert sorted(ran.read_text().split()) == ["one", "three", "two"]
    if number == signal.SIGKILL:
        assert "marked as interrupted, not run again" in outcome.stderr
    else:
        assert "three\n" in results[2]
    assert [(entry["turns"], entry["sandbox"]) for entry in listed(sandboxed)] == [(2, True)]


def test_session_goes_on_after_its_terminal_was_closed(sandboxed: Odek) -> None:
    """Runtime 9.5 (2), B44: SIGHUP by the kernel; the model gets complete pairs."""
    commands = ("echo one", "echo two >ran; sleep 60")
    script = (calls(*(("shell", {"command": command}) for command in commands)), text("went on"))
    with ModelServer(*script) as server:
        with Talk(sandboxed, "run", "--session", "--base-url", server.base_url, "the task") as talk:
            deadline = time.monotonic() + 30
            while not (sandboxed.cwd / "ran").exists():
                assert time.monotonic() < deadline, "the commands do not run"
                time.sleep(0.05)
            talk.see("└ ok")  # the commands run side by side: the first may end after the second has begun
            talk.close()
            assert talk.end()[0] == 129
        outcome = sandboxed.run("continue", "--base-url", server.base_url, "go on")
        assert (outcome.code, outcome.stdout) == (0, "went on\n"), outcome.stderr
        sent = messages(server)
    roles = [message["role"] for message in sent]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]  # A23
    assert ["interrupted" in str(message["content"]) for message in sent[3:5]] == [False, True]


def test_each_turn_is_stored_once_and_under_a_fresh_system_message(sandboxed: Odek) -> None:
    """F-98, F-33, R-70: exact append over three turns; the model stays; the container is the present one."""
    assert take_turn(sandboxed, "run", "--session", "--model", "special", answer="one").code == 0
    with ModelServer(text("two"), text("three")) as server:
        for answer, words in (("two", "second"), ("three", "third")):
            outcome = sandboxed.run("continue", "--base-url", server.base_url, words)
            assert (outcome.code, outcome.stdout) == (0, f"{answer}\n"), outcome.stderr
        first, last = (request.json for request in server.requests)
    assert [message["content"] for message in last["messages"][1:]] == ["a task", "one", "second", "two", "third"]
    assert (first["model"], last["model"]) == ("special", "special")
    boxes = {re.findall(r"- Container: (\S+)", request["messages"][0]["content"])[0] for request in (first, last)}
    assert len(boxes) == 2
    exported = json.loads(sandboxed.run("session", "export").stdout)
    assert [message["role"] for message in exported["messages"]] == ["system", *["user", "assistant"] * 3]
    assert (exported["turns"], exported["model"], exported["cwd"]) == (3, "special", str(sandboxed.cwd))
    assert the_session(sandboxed).stat().st_mode & 0o777 == 0o600


def test_copy_of_a_session_goes_on_and_the_session_stays(sandboxed: Odek) -> None:
    """R-284, R-285: a new id, the same place and history; the two part from there."""
    assert take_turn(sandboxed, "run", "--session", answer="one").code == 0
    old = the_session(sandboxed)
    before, short = old.read_bytes(), old.stem.partition("-")[2][:6]
    with ModelServer(text("two"), text("three")) as server:
        forked = sandboxed.run("continue", "--id", short, "--fork", "--base-url", server.base_url, "second")
        assert (forked.code, forked.stdout) == (0, "two\n"), forked.stderr
        assert "odek: sandbox network=none" in forked.stderr
        assert old.read_bytes() == before
        found = re.search(rf"a copy of session {old.stem} goes on, as (\S+)\n", forked.stderr)
        assert found, forked.stderr
        other = sandboxed.run("continue", "--id", old.stem, "--base-url", server.base_url, "other")
        assert (other.code, other.stdout) == (0, "three\n"), other.stderr
        said = [[message["content"] for message in request.json["messages"][1:]] for request in server.requests]
    assert said == [["a task", "one", "second"], ["a task", "one", "other"]]
    verified = sandboxed.run("session", "verify", found[1])
    assert (verified.code, verified.stdout) == (0, f"0 receipts of session {found[1]}: all as written\n")
    assert f"it began with session {old.stem}, whose receipts up to then are as written" in verified.stderr
    assert "Origin " in sandboxed.run("session", "show", found[1]).stdout
    elsewhere = sandboxed.home / "elsewhere"
    elsewhere.mkdir()
    refused = replace(sandboxed, cwd=elsewhere).run("continue", "--id", short, "--fork", "more")
    assert (refused.code, len(list(old.parent.glob("*.jsonl")))) == (1, 2), refused.stderr
    assert sandboxed.run("repl", "--fork").code == 2


@pytest.mark.parametrize("script", ["error", "limit"])
def test_turn_without_an_answer_is_kept(script: str, sandboxed: Odek) -> None:
    """F-49: a model that fails, the limit of iterations."""
    step = calls(("shell", {"command": "echo worked"}))
    steps = (step, status(400, {"error": {"message": "no"}})) if script == "error" else (step, text("a summary"))
    with ModelServer(*steps, text("went on")) as server:
        flags = ("--max-iter", "1") if script == "limit" else ()
        outcome = sandboxed.run("run", "--session", "--base-url", server.base_url, *flags, "a task")
        assert (outcome.code, outcome.stdout) == (1, ""), outcome.stderr
        assert sandboxed.run("continue", "--base-url", server.base_url, "go on").stdout == "went on\n"
        assert any("worked" in str(message["content"]) for message in messages(server))
        server.assert_all_used()


@pytest.mark.docker_only
def test_pin_of_a_sandboxed_session(sandboxed: Odek, base_image: str) -> None:
    """R-2: ODEK_NO_SANDBOX does not move it, a failure is fatal, a policy of the operator decides."""
    assert take_turn(sandboxed, "run", "--session").code == 0
    pinned = take_turn(sandboxed, "continue", env={"ODEK_NO_SANDBOX": "1"})
    assert pinned.code == 0
    assert "ODEK_NO_SANDBOX does not move a session to this host" in pinned.stderr
    assert "odek: sandbox network=none" in pinned.stderr
    down = take_turn(sandboxed, "continue", env={"DOCKER_HOST": DEAD_SOCKET})
    assert (down.code, "not falling back to this host" in down.stderr) == (1, True)
    for policy in ({"ODEK_SANDBOX": "false"}, None):
        if policy is None:
            operator(sandboxed, sandbox=False)
        moved = take_turn(sandboxed, "continue", env={**(policy or {}), "DOCKER_HOST": DEAD_SOCKET})
        assert (moved.code, "shell commands run ON THIS HOST" in moved.stderr) == (0, True), moved.stderr
    assert listed(sandboxed)[0]["sandbox"] is True
    assert listed(sandboxed)[0]["turns"] == 4


@pytest.mark.docker_only
def test_fall_back_does_not_pin_a_session_to_the_host(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """A11, D-24: what was wanted counts: the next start tries the sandbox again."""
    operator(odek, sandbox_image=base_image)
    fallen = take_turn(odek, "run", "--session", env={"DOCKER_HOST": DEAD_SOCKET})
    assert (fallen.code, "WITHOUT A SANDBOX" in fallen.stderr) == (0, True), fallen.stderr
    assert listed(odek)[0]["sandbox"] is True
    again = take_turn(odek, "continue")
    assert (again.code, "odek: sandbox network=none" in again.stderr) == (0, True), again.stderr
    assert "pinned to the sandbox" in again.stderr


def test_pin_of_a_session_of_the_host(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """R-2: it stays there without a question where the host was chosen."""
    operator(odek, sandbox_image=base_image)
    chosen = take_turn(odek, "run", "--session", "--no-sandbox")
    assert (chosen.code, listed(odek)[0]["sandbox"]) == (0, False), chosen.stderr
    stays = take_turn(odek, "continue")
    assert (stays.code, "ON THIS HOST, without a sandbox (as the session was begun)" in stays.stderr) == (0, True)
    for env, code in (({"ODEK_SANDBOX": "1"}, 0), ({"ODEK_REQUIRE_SANDBOX": "1"}, 1)):
        outcome = take_turn(odek, "continue", env=env)
        assert (outcome.code, "odek: sandbox network=none" in outcome.stderr) == (code, code == 0), outcome.stderr


@pytest.mark.parametrize("flag", ["--no-sandbox", "--sandbox"])
def test_continue_takes_no_word_on_the_sandbox(flag: str, odek: Odek) -> None:
    """R-2: an explanation, not just an error."""
    outcome = odek.run("continue", flag, "a task")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(
        f"odek: error: {flag} is not a flag of continue: a session goes on where it was begun\n"
    )


def test_flag_that_contradicts_the_pin_is_refused_by_repl(sandboxed: Odek) -> None:
    take_turn(sandboxed, "run", "--session")
    outcome = sandboxed.run("repl", "--id", the_session(sandboxed).stem, "--no-sandbox", stdin="x\n")
    assert (outcome.code, "--no-sandbox cannot be given for this session" in outcome.stderr) == (2, True)


def test_approval_of_the_project_is_asked_as_for_run(sandboxed: Odek) -> None:
    """F-17, R-61: continue has the same gate; without a terminal that is a no, before the model is asked."""
    take_turn(sandboxed, "run", "--session")
    (sandboxed.cwd / "odek.json").write_text(json.dumps({"sandbox_network": "bridge"}))
    with ModelServer() as server:
        outcome = sandboxed.run("continue", "--base-url", server.base_url, "a task")
        assert (outcome.code, server.requests) == (1, [])
    assert "ODEK_APPROVE_PROJECT_SANDBOX" in outcome.stderr


def test_another_folder_is_refused_unless_confirmed(sandboxed: Odek, tmp_path: Path) -> None:
    """A12, runtime contract 6.2: one turn elsewhere does not move the session."""
    take_turn(sandboxed, "run", "--session")
    home, other = sandboxed.cwd, tmp_path / "other"
    other.mkdir()
    sandboxed.cwd = other
    refused = take_turn(sandboxed, "continue")
    assert refused.code == 1
    assert refused.stderr.startswith(f'odek: error: the session worked in "{home}", this is "{other}"\n')
    assert take_turn(sandboxed, "continue", "--here").code == 0
    assert take_turn(sandboxed, "continue").code == 1
    assert listed(sandboxed)[0]["cwd"] == str(home)
    sandboxed.cwd = home
    assert take_turn(sandboxed, "continue").code == 0


def test_two_turns_at_once_on_one_session(odek: Odek) -> None:
    """Runtime 9.5 (7), B45: the second is refused with the holder's pid, and nothing of the first is lost."""
    operator(odek, sandbox=False)
    take_turn(odek, "run", "--session")
    with ModelServer(text("first", delay_s=3)) as server:
        first = odek.start("continue", "--base-url", server.base_url, "ONE")
        while not server.requests:
            assert first.poll() is None
            time.sleep(0.05)
        second = odek.run("continue", "--base-url", server.base_url, "TWO")
        assert (second.code, second.stdout, len(server.requests)) == (1, "", 1)
        assert f"is in use by process {first.pid}\n" in second.stderr
        for words in (("trim", "2", "2"), ("delete", "2")):
            session_id = the_session(odek).stem
            refused = odek.run("session", words[0], session_id, *words[2:])
            assert (refused.code, "is in use by process" in refused.stderr) == (1, True)
        assert first.communicate(timeout=30)[0] == "first\n"
    assert listed(odek)[0]["turns"] == 2


def test_many_sessions_at_once_are_all_there(odek: Odek) -> None:
    """Runtime 9.5 (7), F-99, B45."""
    operator(odek, sandbox=False)
    with ModelServer(*[text("ok")] * 20) as server:
        threads = [
            threading.Thread(
                target=odek.run, args=("run", "--session", "--base-url", server.base_url, f"task {number}")
            )
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = listed(odek)
    assert sorted(str(entry["task"]) for entry in found) == sorted(f"task {number}" for number in range(20))
    assert len({entry["id"] for entry in found}) == 20


def test_damaged_files_are_told_and_hide_nothing(odek: Odek) -> None:
    """B46: the newest one that can be used goes on."""
    operator(odek, sandbox=False)
    take_turn(odek, "run", "--session")
    folder = the_session(odek).parent
    for name, data in (("20990101-a.jsonl", b""), ("20990101-b.json", b"null"), ("20990101-c.jsonl", b'{"kind":"sess')):
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    os.symlink("/etc/passwd", folder / "20990101-d.json")
    outcome = take_turn(odek, "continue")
    assert outcome.code == 0
    told = [line for line in outcome.stderr.splitlines() if "is skipped" in line]
    assert [re.findall(r"/(20990101-.)", line)[0] for line in told] == [f"20990101-{letter}" for letter in "abcd"]


def test_secrets_are_in_no_file_and_no_request(sandboxed: Odek, base_image: str) -> None:
    """B15, F-50, runtime contract 4.4: what `env`, base64 and hex make of a secret; the key of the model as well."""
    operator(sandboxed, sandbox_image=base_image, sandbox_env={"DB_PASS": "canary-7f3"})
    (sandboxed.home / ".odek" / "secrets.env").write_text("DEPLOY=canary-in-file\n")
    (sandboxed.home / ".odek" / "secrets.env").chmod(0o600)
    (sandboxed.cwd / "leak").write_text("one canary-in-file\nsk-test-CANARY01\n")
    command = "env; echo $DB_PASS | base64; printf $DB_PASS | od -An -tx1 | tr -d ' \\n'; cat leak; exit 3"
    steps = (
        calls(
            ("shell", {"command": command}), ("read_file", {"path": "leak"}), ("read_file", {"path": "no canary-7f3"})
        ),
    )
    with ModelServer(*steps, text("done")) as server:
        outcome = sandboxed.run(
            *("run", "--session", "--json", "--base-url", server.base_url, "my key is canary-7f3 in @leak"),
            env={"ODEK_API_KEY": "sk-test-CANARY01"},
        )
        assert outcome.code == 0, outcome.stderr
        results = [str(message["content"]) for message in messages(server) if message["role"] == "tool"]
        attached = str(messages(server)[1]["content"])
    stored = the_session(sandboxed).read_text()
    encodings = ("canary-7f3", "Y2FuYXJ5LTdmM", "63616e6172792d376633", "canary-in-file", "sk-test-CANARY01")
    for place in (*results, outcome.stderr, stored):
        assert [secret for secret in encodings if secret in place] == []
    finished = [line for line in outcome.stdout.splitlines() if '"tool_finished"' in line]
    assert [secret for secret in encodings for line in finished if secret in line] == []
    assert (attached.count("[REDACTED]"), "my key is canary-7f3" in attached) == (2, True)  # the user's own words stay
    assert "DB_PASS=[REDACTED]" in results[0]


def test_receipts_name_what_was_executed_and_by_whose_word(sandboxed: Odek) -> None:
    """R-85: of a run and its continuation, in the sandbox and on the host; a change, a cut and a deletion."""
    secret = "canary-7f3"
    with ModelServer(
        calls(("shell", {"command": f"echo {secret}; exit 3"}), ("write_file", {"path": "new", "content": "words"})),
        text("one"),
        calls(("parallel_shell", {"commands": [{"command": "echo a"}, {"command": "cat /etc/missing"}]})),
        text("two"),
    ) as server:
        for command in ("run --session", "continue"):
            outcome = sandboxed.run(*command.split(), "--base-url", server.base_url, "go", env={"API_TOKEN": secret})
            assert outcome.code == 0, outcome.stderr
    listed = json.loads(sandboxed.run("session", "receipts", "--json").stdout)["receipts"]
    kinds = [(each["kind"], each["place"], each["exit_status"], each["decision"]) for each in listed]
    assert kinds[2:] == [("command", "sandbox", 0, "policy"), ("command", "sandbox", 1, "policy")]
    assert sorted(kinds[:2]) == [("command", "sandbox", 3, "policy"), ("write", "sandbox", None, "policy")]
    (command,) = (each for each in listed[:2] if each["kind"] == "command")
    redacted = "echo [REDACTED]; exit 3"
    assert command["command_sha256"] == hashlib.sha256(redacted.encode()).hexdigest()
    assert command["output_sha256"] == hashlib.sha256(b"[REDACTED]\n").hexdigest()
    (written,) = (each["file"] for each in listed if each["file"])
    assert written == {"path": "new", "sha256": hashlib.sha256(b"words").hexdigest()}
    assert len({each["container"] for each in listed}) == 2
    assert {(len(each["container"]), each["image"][:7], each["network"]) for each in listed} == {
        (64, "sha256:", "none")
    }

    assert sandboxed.run("session", "verify").stdout.startswith("4 receipts of session ")
    file = the_session(sandboxed).with_suffix(".receipts")
    assert (file.stat().st_mode & 0o777, secret in file.read_text()) == (0o600, False)
    lines = file.read_bytes().splitlines(keepends=True)
    forged = lines[1].replace(b'"policy"', b'"person"')
    for changed, broken in (((lines[0], forged, *lines[2:]), 2), (lines[:3], 4), (lines[1:], 1)):
        file.write_bytes(b"".join(changed))
        found = sandboxed.run("session", "verify")
        assert (found.code, found.stdout, f"line {broken} of the receipts" in found.stderr) == (1, "", True)
    table = sandboxed.run("session", "receipts")
    assert (table.code, table.stdout.splitlines()) == (1, ["Nothing was executed."])
    assert sandboxed.run("session", "delete", file.stem).code == 0
    assert list(file.parent.iterdir()) == []


def test_receipts_of_commands_on_the_host(odek: Odek) -> None:
    with ModelServer(calls(("shell", {"command": "echo here"})), text("done")) as server:
        outcome = odek.run("run", "--session", "--no-sandbox", "--base-url", server.base_url, "go")
        assert outcome.code == 0, outcome.stderr
    table = odek.run("session", "receipts").stdout.splitlines()
    assert re.fullmatch(r"\S+Z  HOST +\d+:\d+ +policy +safe +command [0-9a-f]{12}, exit code 0", table[1]), table


def test_receipts_of_calls_of_mcp_servers(odek: Odek) -> None:
    """R-85, R-200: what a server on this host was called for is on record as of the host, with what it answered."""
    program = ROOT / "tests" / "support" / "mcp_program.py"
    entry = {"command": sys.executable, "args": ["-IS", str(program)], "sandbox": False, "allow": ["echo"]}
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"mcp_servers": {"docs": entry}}))
    (folder / "config.json").chmod(0o600)
    wanted = calls(("docs__echo", {"text": "hello"}), ("docs__where", {}))
    with ModelServer(wanted, text("done")) as server:
        outcome = odek.run("run", "--session", "--no-sandbox", "--base-url", server.base_url, "go")
        assert outcome.code == 0, outcome.stderr
    (receipt,) = json.loads(odek.run("session", "receipts", "--json").stdout)["receipts"]
    assert (receipt["kind"], receipt["place"], receipt["network"], receipt["risk"]) == (
        "call",
        "host",
        "host",
        ["unknown"],
    )
    assert receipt["command_sha256"] == hashlib.sha256(b'docs__echo {"text": "hello"}').hexdigest()
    assert receipt["output_sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert odek.run("session", "receipts").stdout.splitlines()[1].endswith("answered")
    assert odek.run("session", "verify").code == 0
