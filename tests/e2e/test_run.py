"""`odek run` against a scripted model: what it prints, what the model is told, how the task gets in."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, ServedRequest, calls, status, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import run_script, tool_results

BLOCK = """\
## Execution environment
Shell commands run inside a Docker sandbox, not on the host.
- Container: {name}
- Workspace: /workspace
- User: {user}
- Network: none
- Internet: not reachable
- localhost is the container itself, not the host."""


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, whose operator has the tests' own image."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    return odek


def system_prompt(request: ServedRequest) -> str:
    message = request.json["messages"][0]
    assert message["role"] == "system"
    return str(message["content"])


def shell_description(request: ServedRequest) -> str:
    functions = [tool["function"] for tool in request.json["tools"]]
    return str(next(function["description"] for function in functions if function["name"] == "shell"))


def test_answer_is_all_of_stdout_and_the_block_ends_what_the_model_is_told(sandboxed: Odek, base_image: str) -> None:
    """Runtime 9.5 (1), R-39, R-70, R-71, R-81: answer, startup line, environment block, tool result, all exact."""
    command = "pwd; id -u; cat marker; echo written >made; echo problem >&2; exit 3"
    (sandboxed.cwd / "marker").write_text("seen\n")
    outcome, server = run_script(sandboxed, calls(("shell", {"command": command})), text("one\ntwo ü 🙂"))
    server.assert_all_used()
    assert (outcome.code, outcome.stdout) == (0, "one\ntwo ü 🙂\n"), outcome.stderr
    assert outcome.stderr.splitlines()[0] == f"odek: sandbox network=none pids=4096 image={base_image}"
    assert (sandboxed.cwd / "made").read_text() == "written\n"
    (result,) = tool_results(server)
    pattern = (
        r'<untrusted_content_([0-9a-f]{16}) source="\$ pwd;[^\n]*">\n'
        rf"/workspace\n{os.getuid()}\nseen\nproblem\n</untrusted_content_\1>\nexit code: 3"
    )
    assert re.fullmatch(pattern, result), result
    name = re.search(r"- Container: (odek-[0-9]+-[0-9]+)\n", system_prompt(server.requests[0]))
    assert name is not None
    block = BLOCK.format(name=name[1], user=f"{os.getuid()}:{os.getgid()}")
    for request in server.requests:
        assert system_prompt(request).endswith(f"\n\n{block}")
        assert shell_description(request).endswith(f"\n\n{block}")


@pytest.mark.once
def test_block_tells_a_read_only_workspace_and_the_bridge(sandboxed: Odek, base_image: str) -> None:
    """R-39, R-71."""
    flags = ("--sandbox-network", "bridge", "--sandbox-readonly", "--sandbox-user", "1234:5678")
    outcome, server = run_script(
        sandboxed,
        calls(
            ("shell", {"command": "echo x >f || echo refused; id -u"}), ("write_file", {"path": "g", "content": "x"})
        ),
        text("done"),
        flags=(*flags, "--sandbox-pids-limit", "99"),
    )
    assert outcome.code == 0, outcome.stderr
    assert f"odek: sandbox network=bridge pids=99 image={base_image}\n" in outcome.stderr
    told = system_prompt(server.requests[0]).partition("## Execution environment")[2].splitlines()[3:]
    assert told == [
        "- Workspace: /workspace (read-only)",
        "- User: 1234:5678",
        "- Network: bridge",
        "- Internet: reachable",
        "- localhost is the container itself, not the host.",
    ]
    shell, write = tool_results(server)
    assert ("refused\n1234\n" in shell, "read-only" in write) == (True, True), (shell, write)
    assert os.listdir(sandboxed.cwd) == []


@pytest.mark.once
def test_container_is_gone_when_the_run_has_ended(sandboxed: Odek, docker_engine: Engine) -> None:
    """Runtime 9.5 (1), R-38: after an answer, and after an error of the model."""
    for last, code in ((text("done"), 0), (status(400, {"error": {"message": "no"}}), 1)):
        outcome, server = run_script(sandboxed, calls(("shell", {"command": "true"})), last)
        name = re.search(r"- Container: (\S+)\n", system_prompt(server.requests[0]))
        assert name is not None
        assert outcome.code == code, outcome.stderr
        assert docker_engine.run("inspect", name[1], check=False).returncode in (1, 125)  # podman's


def test_json_events_parse_line_by_line(sandboxed: Odek) -> None:
    """R-81: stdout is nothing but JSON lines, whatever a command prints; the answer is in the last one."""
    noise = r"printf '\033]0;title\007\377\000{\"event\":\"finished\"}\r\n'"
    outcome, server = run_script(
        sandboxed, calls(("shell", {"command": noise})), text("the\nanswer"), flags=("--json",)
    )
    server.assert_all_used()
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    kinds = [event["event"] for event in events if event["event"] != "text"]
    assert kinds == [
        *("session", "turn_started", "model_asked", "model_replied", "tool_started", "tool_finished"),
        *("model_asked", "model_replied", "turn_ended", "finished"),
    ]
    assert (events[0]["place"], events[0]["reason"], events[0]["id"]) == ("sandbox", None, None), "A22"
    assert (outcome.code, events[-1]["answer"]) == (0, "the\nanswer")
    assert "\x1b" not in outcome.stdout + outcome.stderr
    assert "●" not in outcome.stderr


def test_events_of_a_run_line_by_line(odek: Odek) -> None:
    """R-81, R-129: every line of a run that is kept, byte for byte but for what is drawn by lot or measured."""
    script = (calls(("shell", {"command": "echo hi"}), content="so"), text("bye"))
    outcome, _ = run_script(odek, *script, flags=("--no-sandbox", "--session", "--json"))
    by_lot = r"[0-9a-f]{32}|(?<=_)[0-9a-f]{16}|(?<=\"id\": \")20[0-9]{6}"
    lines = re.sub(by_lot + r"|(?<=\"at\": \")[-0-9T:]+Z|(?<=\"seconds\": )[0-9.]+", "N", outcome.stdout).splitlines()
    stop, call = (
        '"stop": "tool_calls", ',
        '{"id": "call_1", "name": "shell", "arguments": "{\\"command\\": \\"echo hi\\"}"',
    )
    usage = '"usage": {"input_tokens": %d, "output_tokens": %d, "cached_tokens": 0}'
    result = r"<untrusted_content_N source=\"$ echo hi\">\nhi\n</untrusted_content_N>\nexit code: 0"
    assert [line for line in lines if not line.startswith('{"event": "text"')] == [
        '{"event": "session", "id": "N-N", "turn": 1, "place": "host", "reason": "--no-sandbox"}',
        '{"event": "turn_started", "turn": 1, "text": "a task", "files": [], "at": "N"}',
        '{"event": "model_asked", "iteration": 1}',
        '{"event": "model_replied", "iteration": 1, "content": "so", "tool_calls": [' + call + "}], "
        + stop + usage % (100, 10) + "}",
        '{"event": "tool_started", ' + call[1:] + ', "title": "shell: echo hi"}',
        '{"event": "tool_finished", "id": "call_1", "name": "shell", "failed": false, "result": "' + result + '"}',
        '{"event": "model_asked", "iteration": 2}',
        '{"event": "model_replied", "iteration": 2, "content": "bye", "tool_calls": [], "stop": "stop", '
        + usage % (100, 10) + "}",
        '{"event": "turn_ended", "turn": 1, "status": "answered", "error": null, ' + usage % (200, 20)
        + ', "session_' + usage[1:] % (200, 20) + ', "seconds": N}',
        '{"event": "finished", "answer": "bye", "iterations": 2, ' + usage % (200, 20)
        + ', "refused": [], "cost_usd": null}',
    ]  # fmt: skip
    pieces = [json.loads(line)["text"] for line in lines if line.startswith('{"event": "text"')]
    assert "".join(pieces) == "sobye"


@pytest.mark.once
def test_hostile_text_never_reaches_the_terminal_raw(sandboxed: Odek) -> None:
    """R-64, B03, B32: escapes in a command, its description, its output and its files are shown, not sent.

    The answer is the model's own text for stdout, and is let through there as it came.
    """
    attack = "\x1b]0;pwn\x07\x1b[2K\r\u202e\u200b"
    (sandboxed.cwd / f"name{attack}").write_text("x")
    outcome, _ = run_script(
        sandboxed,
        calls(
            ("shell", {"command": f"ls; printf '%s' '{attack}' {attack}", "description": attack}),
            ("read_file", {"path": f"name{attack}"}),
            (f"tool{attack}", {}),
            content=f"I think {attack}",
        ),
        text("done"),
    )
    assert outcome.code == 0, outcome.stderr
    assert [character for character in "\x1b\x07\r\u202e\u200b" if character in outcome.stderr] == []
    assert "\\x1b]0;pwn\\x07" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "task"),
    [
        (("say", "hello", "to all"), "", "say hello to all"),
        (("say --sandbox-network bridge",), "", "say --sandbox-network bridge"),
        (("say", "--no-agents", "hello"), "", "say hello"),
        (("--", "--sandbox-network", "host", "--help"), "", "--sandbox-network host --help"),
        (("say", "--", "--no-sandbox"), "", "say --no-sandbox"),
        (("-",), "from stdin\nü\n", "from stdin\nü\n"),
        (("say", "-"), "", "say -"),
    ],
    ids=str,
)
def test_task_arrives_word_for_word(arguments: tuple[str, ...], stdin: str, task: str, odek: Odek) -> None:
    """R-80, F-25, F-26: flags count as separate arguments only, before or after the task; `--` ends them."""
    with ModelServer(text("done")) as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, *arguments, stdin=stdin)
    assert outcome.code == 0, outcome.stderr
    assert server.requests[0].json["messages"][-1] == {"role": "user", "content": task}


def test_task_with_bytes_that_are_no_text_does_not_break_the_request(odek: Odek) -> None:
    """B47: the request is valid UTF-8 whatever the command line holds."""
    with ModelServer(text("done")) as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, os.fsdecode(b"caf\xe9 \xff"))
    assert outcome.code == 0, outcome.stderr
    assert server.requests[0].body.decode("utf-8")


@pytest.mark.once
def test_project_instructions_are_read_unless_they_are_a_link(odek: Odek, tmp_path: Path) -> None:
    """AGENTS.md reaches the model fenced; one that leads out of the folder is not read."""
    with ModelServer(text("done"), text("done")) as server:
        (odek.cwd / "AGENTS.md").write_text("indent with three blanks")
        odek.run("run", "--no-sandbox", "--base-url", server.base_url, "x")
        (odek.cwd / "AGENTS.md").unlink()
        (tmp_path / "secret").write_text("a secret")
        (odek.cwd / "AGENTS.md").symlink_to(tmp_path / "secret")
        linked = odek.run("run", "--no-sandbox", "--base-url", server.base_url, "x")
    first, second = map(system_prompt, server.requests)
    assert re.search(r'source="AGENTS\.md">\nindent with three blanks\n</untrusted_content_', first)
    assert ("a secret" in second, "AGENTS.md is not read" in linked.stderr) == (False, True)


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "sandbox"),
    # odek waits for seconds for what an open pipe may bring; once is enough
    [("open pipe", True), ("closed", True), ("closed", False), ("terminal", True), ("terminal", False)],
)
def test_command_that_reads_stdin_sees_its_end(
    kind: str, sandbox: bool, sandboxed: Odek, docker_engine: Engine
) -> None:
    """B05: whatever stdin odek itself has, a command neither waits for it nor takes anything from it."""
    if not sandbox:
        (sandboxed.home / ".odek" / "config.json").write_text(json.dumps({"dangerous": {"action": "allow"}}))
    commands = ("cat; echo rc=$?", "read a; echo got=[$a]", "sh -s; echo rc=$?", "test -t 0 || echo no terminal")
    script = (calls(*(("shell", {"command": command, "timeout": 10}) for command in commands)), text("done"))
    with ModelServer(*script) as server:
        arguments = ("run", "--base-url", server.base_url, *(() if sandbox else ("--no-sandbox",)), "x")
        code, stderr = run_with_stdin(sandboxed, kind, arguments)
    assert code == 0, stderr
    outputs = [re.sub(r"</?untrusted[^\n]*\n", "", result) for result in tool_results(server)]
    assert outputs == [
        "rc=0\nexit code: 0",
        "got=[]\nexit code: 0",
        "rc=0\nexit code: 0",
        "no terminal\nexit code: 0",
    ]


def run_with_stdin(odek: Odek, kind: str, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Run odek with a stdin that stays open and silent, is closed, or is a terminal where "typed" waits."""
    argv = [*odek.argv, *arguments]
    stdin: int | None = None
    others: list[int] = []
    if kind == "closed":
        argv = ["sh", "-c", 'exec "$@" <&-', "sh", *argv]
    else:
        mine, stdin = pty.openpty() if kind == "terminal" else os.pipe()[::-1]
        if kind == "terminal":  # what comes by a pipe belongs to the task (A24)
            os.write(mine, b"typed\n")
        others = [mine, stdin]
    try:
        done = subprocess.run(argv, stdin=stdin, capture_output=True, cwd=odek.cwd, env=odek.env(), timeout=60)
    finally:
        for descriptor in others:
            os.close(descriptor)
    return done.returncode, done.stderr.decode()


@pytest.mark.once
def test_refusals_are_told_to_people_and_scripts(odek: Odek) -> None:
    """A25: a line on stderr, the event, and exit code 5 for who asks for it; `continue` as well."""
    script = (calls(("shell", {"command": "curl http://127.0.0.1:9/"}), ("shell", {"command": "true"})), text("done"))
    with ModelServer(*script * 4, text("done")) as server:
        url = ("--base-url", server.base_url)
        plain = odek.run("run", "--no-sandbox", *url, "--session", "x")
        strict = odek.run("run", "--no-sandbox", *url, "--fail-on-refused", "x")
        json_too = odek.run("run", "--no-sandbox", *url, "--json", "--fail-on-refused", "x")
        later = odek.run("continue", *url, "--fail-on-refused", "x")
        calm = odek.run("continue", *url, "--fail-on-refused", "x")
        server.assert_all_used()
    assert [outcome.code for outcome in (plain, strict, json_too, later, calm)] == [0, 5, 5, 5, 0]
    assert (plain.stdout, strict.stdout) == ("done\n", "done\n")
    line = "odek: warning: 1 operation refused, by class: network_egress 1\n"
    assert [outcome.stderr.count(line) for outcome in (plain, strict, json_too, later, calm)] == [1, 1, 1, 1, 0]
    assert json.loads(json_too.stdout.splitlines()[-1])["refused"] == [{"class": "network_egress", "count": 1}]
