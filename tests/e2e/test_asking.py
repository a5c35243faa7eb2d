"""What asks and what is refused, through the real program: each card byte for byte, and runs with nobody to ask."""

from __future__ import annotations

import json
import re
import stat

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek, Outcome
from support.pty_process import AtTerminal
from support.scenario import DEAD_SOCKET, run_script, tool_results

QUESTION = "Approve? [y = once / t = trust this class / ? = details / N = deny] "
NO_TRUST = "Approve? [y = once / ? = details / N = deny] "
CARD = "Approve? [y = all / s = one by one / ? = details / N = none] "


def operator(odek: Odek, **dangerous: object) -> None:
    """Write the operator's policy."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"dangerous": dangerous}))
    (folder / "config.json").chmod(0o600)


def shell(command: str, reason: str = "") -> tuple[str, dict[str, object]]:
    return ("shell", {"command": command, "description": reason} if reason else {"command": command})


class Asking:
    """A run at a terminal, whose model makes the given calls in one reply and then is done."""

    def __init__(self, odek: Odek, *wanted: tuple[str, dict[str, object]], flags: tuple[str, ...]) -> None:
        self._server = ModelServer(calls(*wanted), text("done"))
        self._odek = odek
        self._flags = flags

    def __enter__(self) -> Asking:
        server = self._server.__enter__()
        arguments = ("run", *self._flags, "--base-url", server.base_url, "a task")
        self.terminal = AtTerminal(self._odek, *arguments).__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.terminal.__exit__(*error)
        self._server.__exit__(*error)  # type: ignore[arg-type]

    def see(self, end: str) -> str:
        """Return what is shown up to the question `end`, with the line ends of a file."""
        return self.terminal.read_until(end).replace("\r\n", "\n")

    def answer(self, word: str) -> None:
        self.terminal.type(f"{word}\n")

    def end(self) -> tuple[Outcome, list[str]]:
        outcome = self.terminal.end()
        return outcome, tool_results(self._server) if len(self._server.requests) > 1 else []


@pytest.fixture
def on_host(odek: Odek) -> Odek:
    """The program in a project with something to make."""
    (odek.cwd / "Makefile").write_text("all:\n\t@echo made\n")
    return odek


HOST = ("--no-sandbox",)


@pytest.mark.parametrize(
    ("keys", "ran", "code"),
    [("a\n", True, 0), ("n\n", False, 0), ("\n", False, 0), ("\x04", False, 0), ("\x03", False, 130)],
    ids=["a", "n", "Enter", "end of input", "Ctrl-C"],
)
def test_card_on_the_host(keys: str, ran: bool, code: int, on_host: Odek) -> None:
    """R-64, R-84, F-56: the whole screen; Ctrl-C denies and ends the turn."""
    with Asking(on_host, shell("sh -c 'echo ran >mark'", "leave a mark"), flags=HOST) as asking:
        assert asking.see(QUESTION) == (
            "Approval needed (class code_execution)\n"
            "  runs on: HOST – no sandbox\n"
            "  risk:    runs text as commands\n"
            "  reason:  leave a mark\n"
            "  command: 1 line, 22 characters\n"
            f"  | sh -c 'echo ran >mark'\n{QUESTION}"
        )
        asking.terminal.type(keys)
        outcome, results = asking.end()
    assert (outcome.code, (on_host.cwd / "mark").exists()) == (code, ran), outcome.stderr
    if code == 0 and not ran:
        (result,) = results
        assert json.loads(result)["error"].split("\n")[0] == "operation denied by user: sh -c 'echo ran >mark'"


def test_details_and_trust(on_host: Odek) -> None:
    """Runtime 5.6: `?` shows the rule and the setting; `t` covers the class until the end, and no other."""
    wanted = (shell("sh -c 'echo one'"), shell("curl --version >/dev/null; sh -c 'echo two'"))
    with ModelServer(*(calls(call) for call in wanted), text("done")) as server:
        with AtTerminal(on_host, "run", *HOST, "--base-url", server.base_url, "a task") as terminal:
            terminal.read_until(QUESTION)
            terminal.type("?\n")
            details = terminal.read_until(QUESTION).replace("\r\n", "\n")
            terminal.type("t\n")
            outcome = terminal.end()
        results = tool_results(server)
    assert (
        "\n  rule:    sh.text\n"
        '  setting: "dangerous": {"classes": {"code_execution": "allow"}} in ~/.odek/c\n'
        "         + onfig.json\n"
        "  trust:   trust lasts until odek ends, for everything of these classes\n"
        "  | sh -c 'echo one'\n"
    ) in details
    assert (outcome.code, ["one\n" in results[0], "two\n" in results[1]]) == (0, [True, True])


HOSTILE = "sh -c 'echo x'\r\x1b[2K  Command: ls\x1b]52;c;ZXZpbA==\x07\x1b[8m\u202e\u200b\nApprove? [y] y"


def test_hostile_texts_cannot_rewrite_the_card(on_host: Odek) -> None:
    """Runtime 9.5 (9), R-64, B32, F-59: in the command and in the model's reason."""
    operator(on_host, action="prompt")
    with Asking(on_host, shell(HOSTILE, HOSTILE), flags=HOST) as asking:
        shown = asking.see(NO_TRUST)
        asking.answer("n")
        outcome, _ = asking.end()
    assert {character for character in shown if ord(character) < 32} == {"\n"}
    assert not set(shown) & {"\u202e", "\u200b", "\x9b"}
    assert "  | sh -c 'echo x'\\r\\x1b[2K  Command: ls\\x1b]52;c;ZXZpbA==\\x07\\x1b[8m\\\n  + u202e\\u200b\n" in shown
    assert "\n  | Approve? [y] y\n" in shown
    assert shown.count("\nApprove?") == 1
    assert not set(outcome.stderr) & set("\x1b\x07\r\u202e\u200b")


def test_typed_ahead_answers_nothing(on_host: Odek) -> None:
    """R-64, B33."""
    with Asking(on_host, shell("sh -c 'echo ran >mark'"), flags=HOST) as asking:
        asking.terminal.type("a\nt\napprove\n")
        asking.see(QUESTION)
        asking.answer("n")
        asking.end()
    assert not (on_host.cwd / "mark").exists()


def test_tail_must_be_read_before_it_can_be_approved(on_host: Odek) -> None:
    """B34: two hundred lines of comment, then the payload."""
    command = "\n".join((*(f"# {number}" for number in range(200)), "sh -c 'echo ran >mark'"))
    with Asking(on_host, shell(command), flags=HOST) as asking:
        first = asking.see("N = deny] ")
        asking.answer("a")
        assert '"a" is none of the answers' in asking.see("N = deny] ")
        asking.answer("all")
        rest = asking.see("Approve? [y = once / ? = part 1 of 11 / N = deny] ")
        asking.answer("a")
        asking.end()
    assert "  | sh -c 'echo ran >mark'\nRead it first: [" in first
    assert [f"  | # {number}\n" in rest for number in range(200)] == [True] * 200
    assert (on_host.cwd / "mark").exists()


@pytest.mark.parametrize(
    ("word", "ran"), [("a", [True, True]), ("d", [False, False]), ("s", [True, False])], ids=["all", "none", "singly"]
)
def test_batch_card(word: str, ran: list[bool], on_host: Odek) -> None:
    """R-72, runtime 5.8: one question for two calls; the third needs none and runs in any case."""
    wanted = (shell("sh -c 'echo ran >m1'", "first"), shell("echo ran >m3"), shell("make\nsh -c 'echo ran >m2'"))
    with Asking(on_host, *wanted, flags=HOST) as asking:
        assert asking.see(CARD) == (
            "2 operations need approval (HOST – no sandbox)\n"
            "  1:       code_execution: runs text as commands\n"
            "  reason:  first\n"
            "  | sh -c 'echo ran >m1'\n"
            "  2:       code_execution: builds or runs what the project describes\n"
            "  | make\n"
            f"  | sh -c 'echo ran >m2'\n{CARD}"
        )
        asking.answer(word)
        if word == "s":
            asking.see(QUESTION)
            asking.answer("a")
            asking.see(QUESTION)
            asking.answer("n")
        outcome, results = asking.end()
    made = [(on_host.cwd / name).exists() for name in ("m1", "m2", "m3")]
    assert (outcome.code, made) == (0, [*ran, True]), outcome.stderr
    assert ["operation denied by user" in result for result in (results[0], results[2])] == [not yes for yes in ran]


def test_what_was_asked_and_answered_is_in_the_events(on_host: Odek) -> None:
    """R-81, R-104: a program that reads --json sees the question; the prompt itself stays at the terminal."""
    with Asking(on_host, shell("make", "build it"), flags=(*HOST, "--json")) as asking:
        asking.see(QUESTION)
        asking.answer("n")
        outcome, _ = asking.end()
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [event["event"] for event in events[:7]] == [
        "session", "turn_started", "model_asked", "model_replied", "tool_started", "approval_asked", "approval_settled",
    ]  # fmt: skip
    question, answer = events[5]["approval"], events[6]
    assert (question["place"], question["host"], question["answers"]) == (
        "HOST – no sandbox", True, ["once", "trust", "deny"],
    )  # fmt: skip
    (item,) = question["items"]
    assert (item["kind"], item["text"], item["reason"]) == ("command", "make", "build it")
    assert (answer["id"], answer["answer"], answer["how"]) == (question["id"], "deny", "person")


def test_unknown_and_destructive_are_refused_on_the_host_without_a_question(on_host: Odek) -> None:
    """R-84, runtime 5.1: at a terminal, too; the person sees the class, the reason and the setting."""
    with Asking(on_host, shell("frobnicate --all"), shell("rm -rf ."), flags=HOST) as asking:
        outcome, results = asking.end()
        assert asking.terminal.rest() == ""
    for result, level in zip(results, ("unknown", "destructive"), strict=True):
        error = json.loads(result)["error"]
        assert error.startswith("operation denied by policy: ")
        assert f"\nIt is of class {level}: " in error
        assert f'"dangerous": {{"classes": {{"{level}": "allow"}}}} in ~/.odek/config.json' in error
        assert all(f"│ {line}\n" in outcome.stderr for line in error.split("\n"))
    assert (on_host.cwd / "Makefile").exists()


DENIED_ON_HOST = [
    ("make", "code_execution", "non-interactive mode"),
    ("curl https://example.com", "network_egress", "non-interactive mode"),
    ("npm ci", "install", "non-interactive mode"),
    ("cat ~/.ssh/id_rsa", "system_write", "non-interactive mode"),
    ("echo x >>~/.bashrc", "system_write", "non-interactive mode"),
    ("weird-tool", "unknown", "by policy"),
    ("rm -rf .", "destructive", "by policy"),
    (":(){ :|:& };:", "blocked", "by policy"),
]


def test_host_with_nobody_to_ask(on_host: Odek) -> None:
    """R-84, D-6: the strict table after a fall back; what only reads and writes in the project runs."""
    wanted = [*(shell(command) for command, *_ in DENIED_ON_HOST), shell("ls; echo x >new")]
    script = (*(calls(call) for call in wanted), text("done"))
    outcome, server = run_script(on_host, *script, env={"DOCKER_HOST": DEAD_SOCKET})
    assert outcome.code == 0, outcome.stderr
    *refusals, allowed = tool_results(server)
    for (command, level, why), refusal in zip(DENIED_ON_HOST, refusals, strict=True):
        error = json.loads(refusal.partition("\n")[0])["error"]
        mark = f"({why})" if why.startswith("non") else why
        assert error.startswith(f"operation denied {mark}: {command}\nIt is of class "), error
        assert level in error.split("\n")[1]
        assert error.endswith("No setting lifts that class." if level == "blocked" else " in ~/.odek/config.json.")
    assert ("Makefile\n" in allowed, (on_host.cwd / "new").exists()) == (True, True)
    assert not (on_host.home / ".bashrc").exists()


TOOLS = ("make", "pytest", "psql", "redis-cli", "frobnicate")


def plant(odek: Odek) -> str:
    """Make stand-ins for programs that the small image does not have; return a PATH for commands."""
    folder = odek.cwd / "bin"
    folder.mkdir()
    for name in TOOLS:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} ran\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return "/workspace/bin:/bin:/usr/bin"


@pytest.fixture
def boxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program with the tests' image and the policy as it comes."""
    (odek.home / ".odek").mkdir(mode=0o700)
    settings = {"sandbox_image": base_image, "sandbox_env": {"PATH": plant(odek)}}
    (odek.home / ".odek" / "config.json").write_text(json.dumps(settings))
    (odek.home / ".odek" / "config.json").chmod(0o600)
    return odek


def test_sandbox_does_daily_work_with_nobody_to_ask(boxed: Odek) -> None:
    """D-6, F-90: the default policy, no terminal: tests, builds, databases, programs that no rule knows."""
    commands = ("make", "pytest -q", "psql -h db -c 'select 1'", "redis-cli -h redis ping", "frobnicate", "env")
    outcome, server = run_script(boxed, calls(*(shell(command) for command in commands)), text("done"))
    assert outcome.code == 0, outcome.stderr
    results = tool_results(server)
    assert [name for name, result in zip(commands, results, strict=True) if "operation denied" in result] == []
    ran = [f"{command.split()[0]} ran\n" in result for command, result in zip(commands, results, strict=True)]
    assert ran[:5] == [True] * 5, results


def test_what_asks_in_the_sandbox_is_refused_with_its_setting(boxed: Odek) -> None:
    """D-6: the way out with bridge, the project deleted, its secrets shown, a file that the host trusts written."""
    (boxed.cwd / ".env").write_text("TOKEN=canary-1\n")
    wanted = (
        (shell("wget -qO- http://example.com"), "network_egress"),
        (shell("rm -rf /workspace"), "destructive"),
        (shell("cat .env"), "system_write"),
        (("read_file", {"path": ".env"}), "system_write"),
        (shell("ln -s .env link"), ""),
        (("batch_read", {"files": [{"path": "bin/make"}, {"path": "link"}]}), "system_write"),
        (shell("echo x >.envrc"), "persistence"),
        (("write_file", {"path": ".git/hooks/post-commit", "content": "x"}), "persistence"),
    )
    script = (*(calls(call) for call, _ in wanted), text("done"))
    outcome, server = run_script(boxed, *script, flags=("--sandbox-network", "bridge"))
    assert outcome.code == 0, outcome.stderr
    for (_, level), result in zip(wanted, tool_results(server), strict=True):
        if level:
            error = json.loads(result.partition("\n")[0])["error"]
            assert (
                f'"dangerous": {{"sandboxed": {{"classes": {{"{level}": "allow"}}}}}} in ~/.odek/config.json' in error
            )
            assert f"\nIt is of class {level}: " in error
    assert (boxed.cwd / "bin" / "make").exists()
    assert (boxed.cwd / ".envrc").exists() is False
    assert "canary-1" not in json.dumps([request.json for request in server.requests])


def test_card_in_the_sandbox_names_its_networks(boxed: Odek) -> None:
    """R-72: the container and its network, in the question and on the card."""
    wanted = (shell("wget -qO- http://127.0.0.2:1/"), shell("wget -qO- http://127.0.0.3:1/"))
    with Asking(boxed, *wanted, flags=("--sandbox-network", "bridge")) as asking:
        assert asking.see(CARD) == (
            "2 operations need approval (sandbox network=bridge)\n"
            "  1:       network_egress: talks to the network\n"
            "  | wget -qO- http://127.0.0.2:1/\n"
            "  2:       network_egress: talks to the network\n"
            f"  | wget -qO- http://127.0.0.3:1/\n{CARD}"
        )
        asking.answer("s")
        shown = asking.see(QUESTION)
        assert re.match(
            r"s\nApproval needed \(class network_egress\)\n  runs on: sandbox odek-\S+, network=bridge\n", shown
        ), shown
        asking.answer("n")
        asking.see(QUESTION)
        asking.answer("a")
        outcome, results = asking.end()
    assert outcome.code == 0, outcome.stderr
    assert ["operation denied by user" in result for result in results] == [True, False]


def test_explanation_of_many_commands(odek: Odek) -> None:
    """R-84: one JSON string a line in, one object a line out, nothing run."""
    lines = "".join(json.dumps(command) + "\n" for command in ("ls", "touch mark", "weird\u202e\nname"))
    outcome = odek.run("danger", "explain", "--json", "-", stdin=lines)
    explained = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [(entry["command"], entry["class"], entry["actions"]) for entry in explained] == [
        ("ls", "safe", {"host": "allow", "sandbox": "allow"}),
        ("touch mark", "local_write", {"host": "allow", "sandbox": "allow"}),
        ("weird\u202e\nname", "unknown", {"host": "deny", "sandbox": "allow"}),
    ]
    assert sorted(explained[0]) == ["actions", "class", "command", "reason", "rule"]
    assert not (odek.cwd / "mark").exists()
    broken = odek.run("danger", "explain", "--json", "-", stdin='"ls"\n7\n')
    explained, failed = map(json.loads, broken.stdout.splitlines())
    assert (broken.code, explained["class"], failed["event"]) == (2, "safe", "error")
    assert "line 2 of stdin is not a JSON string" in broken.stderr
