"""What must hold before anything else: acceptance checks (runtime 9.5) and faults of other tools, start to end.

tests/unit/test_checklist.py holds the list of all such checks and faults; the others stand with their subject.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import run_script, tool_results

HALF = "\ud83d"  # of a surrogate pair


def operator(odek: Odek, **settings: object) -> None:
    """Write the operator's file: every command runs without a question."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"dangerous": {"action": "allow"}, **settings}))
    (folder / "config.json").chmod(0o600)


@pytest.fixture(params=["sandbox", "host"])
def place(request: pytest.FixtureRequest, odek: Odek) -> str:
    """Where commands run, by the operator's file."""
    if request.param == "sandbox":
        request.getfixturevalue("docker_engine")
        operator(odek, sandbox_image=request.getfixturevalue("base_image"))
    else:
        operator(odek, sandbox=False)
    return str(request.param)


@pytest.mark.parametrize(
    ("config", "env", "flags", "code"),
    [
        ({"max_iterations": "many"}, {}, (), 1),
        ({"thinking": "hi"}, {}, (), 1),
        ({}, {"ODEK_SANDBOX": "maybe"}, (), 1),
        ({}, {}, ("--sandbox-netwrok", "none"), 2),
        ({}, {}, ("--max-iter", "abc"), 1),
        ({}, {}, ("--thinking", "hi"), 1),
    ],
    ids=str,
)
def test_setting_that_is_wrong_ends_it_before_the_model_is_asked(
    config: dict[str, object], env: dict[str, str], flags: tuple[str, ...], code: int, odek: Odek
) -> None:
    """Runtime 9.5 (3), R-13, R-14, F-8, F-16, F-27: nothing is guessed."""
    operator(odek, **config)
    with ModelServer() as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, *flags, "a task", env=env)
        assert (outcome.code, outcome.stdout, server.requests, server.lookups) == (code, "", [], []), outcome.stderr


@pytest.mark.parametrize("command", ["run", "continue", "repl"])
@pytest.mark.parametrize(
    "settings",
    [
        {"sandbox_env": {"A": "$HOME", "B": "${HOME}"}},
        {"sandbox_image": "evil.example/x:1"},
        {"sandbox_networks": ["no-such-network"], "sandbox_env": {"A": "$HOME"}},
    ],
    ids=str,
)
def test_project_that_asks_for_more_is_refused_by_every_command(
    command: str, settings: dict[str, object], odek: Odek, docker_engine: Engine, base_image: str
) -> None:
    """Runtime 9.5 (4), R-61, F-17: where nobody can be asked, before the model is; no value is expanded for it."""
    operator(odek, sandbox_image=base_image)
    if command == "continue":
        with ModelServer(text("begun")) as server:
            odek.run("run", "--session", "--base-url", server.base_url, "a task")
    (odek.cwd / "odek.json").write_text(json.dumps(settings))
    with ModelServer() as server:
        task = () if command == "repl" else ("a task",)
        outcome = odek.run(command, "--base-url", server.base_url, *task, stdin="a task\n")
        assert (outcome.code, outcome.stdout, server.requests) == (1, "", []), outcome.stderr
    assert str(odek.home) not in outcome.stderr
    assert not (odek.home / ".odek" / "project_sandbox_approvals.json").exists()


def test_no_tool_writes_beyond_the_workspace(place: str, odek: Odek, tmp_path: Path) -> None:
    """Runtime 9.5 (6), R-44, F-70, B13: whatever the operator allows, sandboxed or not."""
    other = tmp_path / "other-project"
    other.mkdir()
    (other / "file").write_text("kept")
    (odek.cwd / "link").symlink_to(other / "file")
    (odek.cwd / "dangling").symlink_to(other / "new")
    (odek.cwd / "sub").symlink_to(other)
    paths = (
        f"{odek.home}/.odek/project_sandbox_approvals.json", "~/.odek/project_sandbox_approvals.json",
        "/workspace/../odek-test-x", f"{other}/file", "../other-project/file", "link", "dangling", "sub/new",
        f"{odek.home}/.odek/docker/config.json",
    )  # fmt: skip
    run_script(odek, text("done"))  # makes the settings of Docker's client, which are odek's own

    def everything() -> list[str]:
        """Return all paths but those of what odek itself keeps of turns."""
        return sorted(str(path) for path in tmp_path.rglob("*") if "snapshots" not in path.parts)

    before = everything()
    writes = (("write_file", {"path": path, "content": "{}"}) for path in paths)
    outcome, server = run_script(odek, calls(*writes), text("done"))
    assert outcome.code == 0, outcome.stderr
    assert [result.startswith('{"error":') for result in tool_results(server)] == [True] * len(paths)
    assert everything() == before
    assert ((other / "file").read_text(), Path("/odek-test-x").exists(), place) == ("kept", False, place)


def test_large_result_is_whole_text_with_its_exit_code(place: str, odek: Odek) -> None:
    """Runtime 9.5 (8), F-51, F-65: 200 KiB of umlauts, cut by characters inside one fence."""
    (odek.cwd / "text").write_text("äöüß" * 10 + "\n" + "ä" * (200 << 9))
    (odek.cwd / "lines").write_text("Größe: zwölf\n" * 14_000)
    wanted = (
        ("shell", {"command": "cat text; exit 3"}),
        ("parallel_shell", {"commands": [{"command": "cat lines; exit 4"}]}),
        ("read_file", {"path": "lines"}),
        ("search_files", {"pattern": "zwölf"}),
    )
    outcome, server = run_script(odek, calls(*wanted), text("done"))
    assert (outcome.code, place) == (0, place), outcome.stderr
    results = tool_results(server)
    for result in results:
        nonces = re.findall(r"</?untrusted_content_(\w+)", result)
        assert (len(nonces) % 2, len(set(nonces)) * 2, "\ufffd" in result) == (0, len(nonces), False), result[:500]
        assert 1000 < len(result) < 60_000
    assert re.search(r"\nexit code: 3$", results[0], re.MULTILINE)
    assert "exit code: 4, " in results[1]


def test_endless_output_stays_out_of_memory(place: str, odek: Odek) -> None:
    """B04, R-41: both ends, the true size, the exit code; and a stop at the time limit."""
    wanted = (
        ("shell", {"command": "echo first; yes 0123456789abcdef | head -c 120000000; echo last; exit 3"}),
        ("shell", {"command": "yes", "timeout": 2}),
    )
    peak_kb: list[int] = []

    def done(_: object) -> object:
        status = Path(f"/proc/{process.pid}/status").read_text()  # what wait4 tells counts this process as well
        peak_kb.extend(map(int, re.findall(r"VmHWM:\s+(\d+) kB", status)))
        return text("done")

    with ModelServer(*(calls(call) for call in wanted), done) as server:  # type: ignore[arg-type]
        limited = ["sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh", *odek.argv, "run", "--base-url", server.base_url]
        process = subprocess.Popen(
            [*limited, "a task"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=odek.cwd, env=odek.env(),
        )  # fmt: skip
        stdout, _ = process.communicate()
        assert (process.returncode, stdout) == (0, b"done\n")
        counted, stopped = tool_results(server)
    assert [peak < 100 << 10 for peak in peak_kb] == [True], (place, peak_kb)
    assert re.search(r'">\nfirst\n0123456789abcdef\n', counted)
    assert counted.endswith("last\n</" + counted.rpartition("</")[2])
    assert "\nexit code: 3\nthe whole output had 120000011 bytes" in counted
    assert "\ntimed out after 2 s\n" in stopped


def test_half_a_character_of_the_model_breaks_nothing(odek: Odek) -> None:
    """B47: a lone surrogate in an answer and in a command, kept and sent again as valid UTF-8."""
    operator(odek, sandbox=False)
    script = (
        calls(("shell", {"command": f"echo {HALF}"}), content=f"so {HALF}"),
        text(f"done {HALF}"),
        text("went on"),
    )
    with ModelServer(*script) as server:
        for arguments in (("run", "--session"), ("continue",)):
            outcome = odek.run(*arguments, "--base-url", server.base_url, "a task", env={"LANG": "C"})
            assert outcome.code == 0, outcome.stderr
        server.assert_all_used()
        assert [message["role"] for message in server.requests[-1].json["messages"]] == [
            *("system", "user", "assistant", "tool", "assistant", "user"),
        ]
