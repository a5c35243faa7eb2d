"""Sub-agents through the program: who is asked, what is kept, and `odek subagent`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.model_server import calls, text
from fakes.task_server import TaskServer
from support.docker_engine import Engine
from support.odek_process import Odek, Outcome
from support.pty_process import AtTerminal
from support.pty_session import Talk
from support.scenario import DEAD_SOCKET
from support.serve_process import wait_until

PARENT = "the task of the parent"
TRUST = "Approve? [y = once / t = trust this class / ? = details / N = deny] "


def delegate(*tasks: dict[str, Any]) -> Any:
    return calls(("delegate_tasks", {"tasks": list(tasks), "description": "look around"}))


def command(word: str) -> Any:
    return calls(("shell", {"command": f"sh -c 'echo {word} >>said'"}))


def test_questions_name_the_task_and_trust_stays_with_it(odek: Odek) -> None:
    """W-22, P-41, P-42, R-222, R-226: trust of one is no other's; what the parent has, all have but the untrusted."""
    goals = ("look at\nthe first", "look at the second", "look at the third")
    with TaskServer({
        PARENT: [
            delegate({"goal": goals[0]}, {"goal": goals[1]}),
            command("parent"),
            delegate({"goal": goals[2]}, {"goal": "not to be asked", "trust_level": "untrusted"}),
            text("end"),
        ],
        goals[0]: [command("one"), command("one again"), text("ok")],
        goals[1]: [command("two"), text("ok")],
        goals[2]: [command("three"), text("ok")],
        "not to be asked": [command("four"), calls(("glob", {"pattern": "*"})), text("ok")],
    }) as server:  # fmt: skip
        with AtTerminal(odek, "run", "--no-sandbox", "--base-url", server.base_url, PARENT) as terminal:
            shown = terminal.read_until(TRUST)
            assert "from:    sub-agent 1 of 2: look at\\nthe first" in shown
            assert "runs on: HOST" in shown
            terminal.type("t\n")
            assert "from:    sub-agent 2 of 2: look at the second" in terminal.read_until(TRUST)
            terminal.type("y\n")
            assert "from:" not in terminal.read_until(TRUST).rpartition("delegate_tasks")[2].partition("shell")[2]
            terminal.type("t\n")
            outcome = terminal.end()
        server.assert_all_used()
    assert outcome.code == 0
    assert (odek.cwd / "said").read_text().split("\n") == ["one", "one again", "two", "parent", "three", ""]
    refused = json.dumps(server.of("not to be asked")[-1].json)
    assert "operation denied (non-interactive mode)" in refused
    fenced = server.of("not to be asked")[0].json["messages"][1]["content"]
    assert fenced.startswith("Another agent passes on the task below.")
    assert "<untrusted_content_" in fenced


def test_ctrl_c_in_a_conversation_ends_all_and_the_next_turn_works(
    odek: Odek, docker_engine: Engine, base_image: str
) -> None:
    """W-10, R-229, P-43: one in a command, one that waits for its model; containers go, the parent's stays."""
    settings = {"sandbox_image": base_image, "subagent": {"max_concurrency": 2}}
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text(json.dumps(settings))
    before = docker_engine.labelled()
    scripts = {
        "begin": [
            delegate({"goal": "first", "readonly": True}, {"goal": "second", "readonly": True}),
            calls(("shell", {"command": "echo still here"})),
            text("as before"),
        ],
        "first": [calls(("shell", {"command": "trap '' INT TERM; sleep 600"}))],
        "second": [text("too late", delay_s=600)],
    }
    with TaskServer(scripts) as server, Talk(odek, "repl", "--base-url", server.base_url) as talk:
        talk.see("odek 1> ")
        talk.say("begin")
        wait_until(lambda: len(docker_engine.labelled() - before) == 3 and len(server.requests) == 3)
        talk.type("\x03")
        talk.see("odek 2> ")
        wait_until(lambda: len(docker_engine.labelled() - before) == 1)
        talk.say("go on")
        talk.see("as before")
        talk.see("odek 3> ")
        talk.say("/exit")
        assert talk.end()[0] == 0
    last = server.of("begin")[-1].json["messages"]
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert "interrupted" in results[0]
    assert "still here" in results[1]


def test_recording_holds_sub_agents_in_their_order(odek: Odek) -> None:
    """R-87, R-222: they share their parent's recording, made and played, one request at a time."""
    scripts = {
        PARENT: [delegate({"goal": "first"}, {"goal": "second"}), text("end")],
        "first": [calls(("glob", {"pattern": "*"})), text("one")],
        "second": [text("two")],
    }
    flags = ("run", "--no-sandbox", "--base-url")
    with TaskServer(scripts) as server:
        recorded = odek.run(*flags, server.base_url, "--record", "../model.jsonl", PARENT)
    played = odek.run(*flags, "replay:../model.jsonl", PARENT)
    assert (recorded.code, recorded.stdout) == (played.code, played.stdout) == (0, "end\n"), played.stderr
    assert [line.partition(" · ")[0] for line in played.stderr.splitlines() if "│ task" in line] == [
        "  │ task 1 of 2 done", "  │ task 2 of 2 done",
    ]  # fmt: skip


def test_transcripts_are_kept_with_the_session_and_go_with_it(odek: Odek) -> None:
    """R-228: private, one a task, shown on request; ids of calls come again, and nothing is overwritten."""
    with TaskServer({
        PARENT: [delegate({"goal": "first"}), delegate({"goal": "second"}), text("end")],
        "first": [calls(("write_file", {"path": "made.txt", "content": "x"})), text("one")],
        "second": [text("two")],
    }) as server:  # fmt: skip
        outcome = odek.run("run", "--session", "--no-sandbox", "--base-url", server.base_url, PARENT)
    assert outcome.code == 0, outcome.stderr
    (folder,) = (odek.home / ".odek" / "sessions").glob("*.tasks")
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["call_1-1.2.jsonl", "call_1-1.jsonl"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    shown = odek.run("session", "show", "--tasks").stdout
    assert [shown.count(word) for word in ("first", "second", "made.txt")] >= [2, 2, 1]
    assert "first" not in odek.run("session", "list").stdout
    (session,) = [line.split()[0] for line in odek.run("session", "list").stdout.splitlines()[1:]]
    assert odek.run("session", "delete", session).code == 0
    assert list((odek.home / ".odek" / "sessions").iterdir()) == []


def test_tasks_of_earlier_processes_count(odek: Odek) -> None:
    """R-221, P-38: the number is the session's, not the process's."""
    (odek.home / ".odek").mkdir(mode=0o700)
    config = odek.home / ".odek" / "config.json"
    config.write_text(json.dumps({"subagent": {"max_tasks": 2}}))
    with TaskServer({
        "more": [delegate({"goal": "third"}), text("end")],
        PARENT: [delegate({"goal": "first"}, {"goal": "second"}), text("end")],
        "first": [text("one")], "second": [text("two")],
    }) as server:  # fmt: skip
        assert odek.run("run", "--session", "--no-sandbox", "--base-url", server.base_url, PARENT).code == 0
        server.scripts[PARENT] = [delegate({"goal": "third"}), text("end")]
        outcome = odek.run("continue", "--base-url", server.base_url, "more")
    assert outcome.code == 0, outcome.stderr
    assert "a session may have 2 sub-agents" in json.dumps(server.requests[-1].json)
    assert not server.of("third")


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (("--no-tool", "delegate_tasks"), {}),
        (("--tool", "shell"), {}),
        ((), {"tools": {"disabled": ["delegate_tasks"]}}),
    ],
)
def test_tool_is_taken_away_as_any_other(flags: tuple[str, ...], settings: dict[str, Any], odek: Odek) -> None:
    """R-221, R-83."""
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text(json.dumps(settings))
    with TaskServer({PARENT: [text("end")]}) as server:
        outcome = odek.run("run", "--no-sandbox", *flags, "--base-url", server.base_url, PARENT)
    assert (outcome.code, "warning: there is no tool" in outcome.stderr) == (0, False)
    assert "delegate_tasks" not in json.dumps(server.requests[0].json.get("tools", []))


def subagent(odek: Odek, brief: object, *steps: Any, flags: tuple[str, ...] = (), **env: str) -> tuple[Outcome, int]:
    """Run `odek subagent` with `brief` on stdin; return how it ended, and how often the model was asked."""
    with TaskServer({"look": steps}) as server:
        given = brief if isinstance(brief, str) else json.dumps(brief)
        outcome = odek.run("subagent", "--base-url", server.base_url, *flags, stdin=given, env=env)
    return outcome, len(server.requests)


@pytest.mark.parametrize(
    ("brief", "why"),
    [
        ("", 'the task on stdin cannot be used: "goal" is missing'),
        ("[1]", "the task on stdin cannot be used: must be a JSON object"),
        ({"goal": "look", "sandbox": False}, 'there is no "sandbox": a task has goal, context'),
        ({"goal": "look", "tasks": []}, 'there is no "tasks"'),
        ({"goal": "look", "context": "x" * (1 << 20)}, "the task on stdin is larger than 1 MiB"),
        ({"goal": "look", "readonly": True}, '"readonly" needs a sandbox, and commands run on the host here'),
        ({"goal": "look", "tools": ["delegate_tasks"]}, '"tools" cannot hold "delegate_tasks"'),
        ({"goal": "look", "timeout": 901}, '"timeout" must be at most 900, not 901'),
    ],
)
def test_brief_that_cannot_be_used_starts_nothing(brief: object, why: str, odek: Odek) -> None:
    """R-230, R-220: exit code 2, the model is not asked."""
    outcome, asked = subagent(odek, brief, flags=("--no-sandbox",))
    assert (outcome.code, asked, outcome.stdout) == (2, 0, "")
    assert why in outcome.stderr


@pytest.mark.parametrize("flag", ["--ctx", "--image", "--session", "--id"])
def test_no_file_is_handed_over(flag: str, odek: Odek) -> None:
    """R-230: what would give it a file, or a conversation, is not a flag of the command."""
    outcome, asked = subagent(odek, {"goal": "look"}, flags=("--no-sandbox", flag, "x"))
    assert (outcome.code, asked) == (2, 0)
    assert f"unrecognized arguments: {flag}" in outcome.stderr


def test_subagent_never_falls_back_and_asks_nobody(odek: Odek) -> None:
    """R-230, F-19: with no daemon it stops; a question is a no, and so is what a project asks for."""
    mark = odek.cwd / "mark"
    outcome, asked = subagent(odek, {"goal": "look"}, DOCKER_HOST=DEAD_SOCKET)
    assert (outcome.code, asked, mark.exists()) == (1, 0, False)
    steps = (calls(("shell", {"command": "sh -c 'touch mark'"})), text("refused"))
    outcome, asked = subagent(odek, {"goal": "look"}, *steps, flags=("--no-sandbox",))
    assert (outcome.code, asked, mark.exists(), outcome.stdout) == (0, 2, False, "refused\n")
    (odek.cwd / "odek.json").write_text(json.dumps({"sandbox_network": "bridge"}))
    outcome, asked = subagent(odek, {"goal": "look"}, DOCKER_HOST=DEAD_SOCKET)
    assert (outcome.code, asked) == (1, 0)
    assert "there is no terminal to ask for it" in outcome.stderr


def test_subagent_in_its_sandbox(odek: Odek, base_image: str) -> None:
    """R-230, R-222: what the task gives up is taken away; the last lines of --json are result and error."""
    look = calls(("shell", {"command": "touch /workspace/x; ls -d /proc/1; hostname"}))
    run = {"ODEK_SANDBOX_IMAGE": base_image}
    outcome, _ = subagent(odek, {"goal": "look", "readonly": True}, look, text("seen"), flags=("--json",), **run)
    *events, result = map(json.loads, outcome.stdout.splitlines())
    assert (outcome.code, (odek.cwd / "x").exists()) == (0, False), outcome.stderr
    assert {key: result[key] for key in ("event", "status", "answer", "files")} == {
        "event": "result", "status": "done", "answer": "seen", "files": [],
    }  # fmt: skip
    assert events[0]["facts"]["readonly"] is True
    assert all(event["task"] == "subagent/1" for event in events)
    (made,) = [event for event in events if event["event"] == "tool_finished"]
    assert "Read-only file system" in made["result"]
    hang = calls(("shell", {"command": "sleep 60"}), content="on my way")
    outcome, _ = subagent(odek, {"goal": "look", "timeout": 4}, hang, flags=("--json",), **run)
    result, error = map(json.loads, outcome.stdout.splitlines()[-2:])
    assert (outcome.code, result["status"], result["answer"], result["last_words"]) == (4, "timeout", None, "on my way")
    assert (error["event"], error["code"], error["exit_code"]) == ("error", "no_answer", 4), "R-290"
    outcome, asked = subagent(odek, {"goal": "look", "networks": ["mine"]}, **run)
    assert (outcome.code, asked) == (2, 0)
