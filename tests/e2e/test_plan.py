"""Plan mode as a process, in real containers (R-281)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fakes.model_server import ModelServer, ServedRequest, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.pty_session import Talk

WRITING = {"write_file", "patch", "batch_patch"}
QUESTION = "Carry out the plan? [y = yes / w = yes, and add some words / N]"


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    return odek


def tools_of(request: ServedRequest) -> set[str]:
    return {tool["function"]["name"] for tool in request.json["tools"]}


def system_of(request: ServedRequest) -> str:
    return str(request.json["messages"][0]["content"])


def result_of(request: ServedRequest) -> str:
    return str(request.json["messages"][-1]["content"])


def attack() -> Any:
    """What a model tries that does not keep to planning."""
    return calls(
        ("shell", {"command": "echo attacked >> notes.txt; echo new > /workspace/made.txt; cat notes.txt"}),
        ("write_file", {"path": "made.txt", "content": "by a tool"}),
    )


def test_plan_is_made_read_only_and_carried_out_in_a_writable_container(sandboxed: Odek) -> None:
    """R-281: the same session; a yes gives a new container, the writing tools and the user's words."""
    (sandboxed.cwd / "notes.txt").write_text("as it was\n")
    write = calls(
        ("shell", {"command": "echo done >> notes.txt"}), ("write_file", {"path": "made.txt", "content": "x"})
    )
    with (
        ModelServer(attack(), text("1. add a line"), write, text("it is done")) as server,
        Talk(sandboxed, "run", "--plan", "--base-url", server.base_url, "change the notes") as talk,
    ):
        first = talk.see("1. add a line")
        assert (sandboxed.cwd / "notes.txt").read_text() == "as it was\n"
        assert not (sandboxed.cwd / "made.txt").exists()
        talk.see(QUESTION)
        talk.say("w")
        talk.see("Your words")
        talk.say("but gently")
        second = talk.see("it is done")
        code, rest = talk.end()
        server.assert_all_used()
        planning, after_attack, working, _ = server.requests
    assert code == 0, rest
    assert (sandboxed.cwd / "notes.txt").read_text() == "as it was\ndone\n"
    assert (sandboxed.cwd / "made.txt").read_text() == "x"
    containers = [re.findall(r"- Container: (\S+)", system_of(request)) for request in (planning, working)]
    assert containers[0] != containers[1]
    assert "sandbox network=" in first
    assert "sandbox network=" in second
    assert tools_of(planning).isdisjoint(WRITING)
    assert tools_of(working) >= WRITING
    assert "- Workspace: /workspace (read-only)" in system_of(planning)
    assert "# You are making a plan" in system_of(planning)
    assert "read-only" not in system_of(working)
    assert "making a plan" not in system_of(working)
    assert "not found; the tools are" in result_of(after_attack)
    spoken = [message["content"] for message in working.json["messages"] if message["role"] == "user"]
    assert spoken == ["change the notes", "Carry out the plan. but gently"]
    assert re.search(r"odek continue --id \S+ TASK", rest)


def test_plan_without_a_terminal_is_the_answer_and_continue_carries_it_out(sandboxed: Odek) -> None:
    """R-281: exit code 0, the plan alone on stdout, and a session whose next turn writes."""
    write = calls(("write_file", {"path": "made.txt", "content": "x"}))
    with ModelServer(attack(), text("the plan"), write, text("done")) as server:
        planned = sandboxed.run("run", "--plan", "--base-url", server.base_url, "change the notes")
        assert (planned.code, planned.stdout) == (0, "the plan\n"), planned.stderr
        assert not list(sandboxed.cwd.iterdir())
        found = re.search(r'odek continue --id (\S+) "carry out the plan"', planned.stderr)
        assert found, planned.stderr
        done = sandboxed.run("continue", "--id", found[1], "--base-url", server.base_url, "carry out the plan")
        server.assert_all_used()
    assert (done.code, done.stdout) == (0, "done\n"), done.stderr
    assert (sandboxed.cwd / "made.txt").read_text() == "x"


def test_session_goes_on_with_a_plan(sandboxed: Odek) -> None:
    """R-371: `continue --plan` of any session: read-only, the question at a terminal, a yes that writes."""
    (sandboxed.cwd / "notes.txt").write_text("as it was\n")
    write = calls(("write_file", {"path": "made.txt", "content": "x"}))
    with ModelServer(
        text("hello"), attack(), text("the plan"), attack(), text("another"), write, text("done")
    ) as server:
        first = sandboxed.run("run", "--session", "--base-url", server.base_url, "say hello")
        assert (first.code, first.stdout) == (0, "hello\n"), first.stderr
        alone = sandboxed.run("continue", "--plan", "--base-url", server.base_url, "how would you do it?")
        assert (alone.code, alone.stdout) == (0, "the plan\n"), alone.stderr
        assert re.search(r'odek continue --id (\S+) "carry out the plan"', alone.stderr), alone.stderr
        assert [path.name for path in sandboxed.cwd.iterdir()] == ["notes.txt"]
        assert (sandboxed.cwd / "notes.txt").read_text() == "as it was\n"
        with Talk(sandboxed, "continue", "--plan", "--base-url", server.base_url, "or otherwise?") as talk:
            talk.see("another")
            talk.see(QUESTION)
            assert not (sandboxed.cwd / "made.txt").exists()
            talk.say("y")
            talk.see("done")
            assert talk.end()[0] == 0
        server.assert_all_used()
        planning, working = server.requests[1], server.requests[-1]
    assert tools_of(planning).isdisjoint(WRITING)
    assert "# You are making a plan" in system_of(planning)
    assert tools_of(working) >= WRITING
    assert [entry["content"] for entry in working.json["messages"] if entry["role"] == "user"][
        -1
    ] == "Carry out the plan."
    assert (sandboxed.cwd / "made.txt").read_text() == "x"


def test_session_of_this_host_cannot_only_plan(odek: Odek) -> None:
    """R-371, D-22: nothing is asked of the model, and the way out is named."""
    with ModelServer(text("hello")) as server:
        begun = odek.run("run", "--no-sandbox", "--session", "--base-url", server.base_url, "say hello")
        assert begun.code == 0, begun.stderr
        outcome = odek.run("continue", "--plan", "--base-url", server.base_url, "look")
        assert (outcome.code, len(server.requests)) == (2, 1)
    assert "read-only was asked for (--plan)" in outcome.stderr
    assert "leave out --plan" in outcome.stderr


def test_conversation_that_plans(sandboxed: Odek) -> None:
    """R-281: /plan begins and ends it, a no keeps it, a sandbox that restarts stays read-only, a yes ends it."""
    look = calls(("shell", {"command": "touch made.txt"}))
    with (
        ModelServer(look, text("the plan"), look, text("a better plan"), look, text("done")) as server,
        Talk(sandboxed, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see("odek 1> ")
        talk.say("/plan make a file")
        talk.see("the plan")
        talk.see(QUESTION)
        talk.say("n")
        assert "plan only · sandbox" in talk.see("odek 2> ")
        talk.say("/sandbox restart")
        assert "plan only · sandbox" in talk.see("odek 2> ")
        talk.say("a better one")
        talk.see("a better plan")
        talk.see(QUESTION)
        assert not (sandboxed.cwd / "made.txt").exists()
        talk.say("y")
        talk.see("done")
        assert "plan only" not in talk.see("odek 4> ")
        talk.say("/plan")
        assert "plan only" in talk.see("odek 4> ")
        talk.say("/plan off")
        assert "plan only" not in talk.see("odek 4> ")
        talk.type("\x04")
        assert talk.end()[0] == 0
        server.assert_all_used()
    assert (sandboxed.cwd / "made.txt").exists()


@pytest.mark.parametrize("flags", [("--no-sandbox",), ("--no-sandbox", "--sandbox-readonly")], ids=" ".join)
@pytest.mark.parametrize("command", ["run", "repl"])
def test_plan_on_this_host_is_a_contradiction(odek: Odek, command: str, flags: tuple[str, ...]) -> None:
    """R-281, D-22: nothing is asked of the model, and nothing is run."""
    with ModelServer() as server:
        task = ("look",) if command == "run" else ()
        outcome = odek.run(command, "--plan", *flags, "--base-url", server.base_url, *task)
        assert (outcome.code, server.requests) == (2, [])
    assert "read-only was asked for (--plan)" in outcome.stderr
    assert "leave out --plan" in outcome.stderr


def test_trust_of_a_plan_is_not_trust_in_its_execution(sandboxed: Odek) -> None:
    """R-281: what could not be written then could be trusted with a light heart; it is asked about again."""
    (sandboxed.cwd / "old").mkdir()
    (sandboxed.cwd / "old" / "file").write_text("x")
    remove = calls(("shell", {"command": "git clean -fdx; rm -r old"}))
    with (
        ModelServer(remove, text("the plan"), remove, text("it was refused")) as server,
        Talk(sandboxed, "run", "--plan", "--base-url", server.base_url, "tidy up") as talk,
    ):
        talk.see("t = trust")
        talk.say("t")
        talk.see("the plan")
        talk.see(QUESTION)
        talk.say("y")
        talk.see("t = trust")
        talk.say("n")
        talk.see("it was refused")
        assert talk.end()[0] == 0
        server.assert_all_used()
    assert (sandboxed.cwd / "old" / "file").exists()
