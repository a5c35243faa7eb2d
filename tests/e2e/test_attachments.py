"""Files given with a task, as the model and the commands in the sandbox find them (R-43, D-3, B13, B47)."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, ServedRequest, Step, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek, Outcome
from support.scenario import tool_results


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, with an operator's file that names the test image."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    (folder / "config.json").chmod(0o600)
    return odek


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder outside the working directory."""
    folder = tmp_path / "beside"
    folder.mkdir()
    return folder


def ask(odek: Odek, *arguments: str, script: tuple[Step, ...] = ()) -> tuple[Outcome, str, list[str]]:
    """Run a task; return how it ended, what the model was given as the task, and what its calls gave."""
    with ModelServer(*script, text("done")) as server:
        outcome = odek.run("run", "--base-url", server.base_url, *arguments)
        server.assert_all_used()
        sent = server.requests[0].json["messages"][1]["content"]
        return outcome, sent, tool_results(server)


def tree(folder: Path) -> dict[str, tuple[int, int, float]]:
    """Return what a folder holds, with owners, modes and times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        seen = path.lstat()
        found[str(path)] = (seen.st_uid, seen.st_mode, seen.st_mtime)
    return found


@pytest.mark.parametrize(
    "flags", [(), ("--sandbox-readonly",), ("--sandbox-user", "1234:5678"), ("--sandbox-user", "nobody")]
)
def test_files_are_where_the_model_is_told_they_are(flags: tuple[str, ...], sandboxed: Odek, beside: Path) -> None:
    """R-43, D-3: inside ones at their place, outside ones in /ctx, for commands and tools; the host is as before."""
    (sandboxed.cwd / "sub").mkdir()
    (sandboxed.cwd / "sub" / "in.txt").write_text("inside")
    (beside / "out.txt").write_text("outside")
    (sandboxed.cwd / "out.txt").write_text("another of that name")
    before = tree(sandboxed.cwd.parent)
    script = (
        calls(
            (
                "shell",
                {"command": "cat /ctx/out.txt /workspace/sub/in.txt; echo; ls /ctx; mount | grep ' /ctx '"},
            ),
            ("read_file", {"path": "/ctx/out.txt"}),
            ("read_file", {"path": "/workspace/sub/in.txt"}),
            ("write_file", {"path": "/ctx/new", "content": "x"}),
            ("read_file", {"path": "/ctx/../etc/passwd"}),
        ),
    )
    outcome, task, results = ask(
        sandboxed, *flags, "-c", "sub/in.txt", "--ctx", f"../beside/out.txt,{beside}/out.txt", "compare", script=script,
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert "outsideinside" in results[0]
    assert "\nout.txt\n" in results[0]
    assert [option for option in ("noexec", "nosuid", "nodev") if option not in results[0]] == []
    assert "1|outside" in results[1]
    assert "1|inside" in results[2]
    assert ["leaves the workspace" in result for result in results[3:]] == [True, True]
    after = tree(sandboxed.cwd.parent)
    own = f"{sandboxed.home}/.odek"  # where odek keeps its profile and the settings of Docker's client
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path) and not path.startswith(own)}
    assert changed <= {str(sandboxed.cwd)}  # its time alone: odek looked whether the container sees it
    assert ["\npath: /workspace/sub/in.txt\n" in task, "\npath: /ctx/out.txt\n" in task] == [True, True]
    assert task.endswith("\n\ncompare")
    assert outcome.stderr.splitlines()[0] == "odek: attached 2 files"
    with ModelServer() as server:  # what the operator names and is not a file ends the run before anything
        for name in ("nowhere", str(beside)):
            refused = sandboxed.run("run", "--base-url", server.base_url, "--ctx", f"sub/in.txt,{name}", "compare")
            assert (refused.code, refused.stdout, server.requests) == (2, "", []), refused.stderr
            assert f'"{name}"' in refused.stderr.splitlines()[0]


def test_files_of_earlier_turns_are_in_later_containers(sandboxed: Odek, beside: Path) -> None:
    """R-43, D-3: after `continue` and after a restart; one that has changed is told to the user and the model."""
    for name in ("same", "changes"):
        (beside / name).write_text(f"content of {name}\n")
    look = calls(("shell", {"command": "cat /ctx/same; cat /ctx/changes"}))
    with ModelServer(text("1st"), *(look, text("2nd")) * 2, *(look, text("3rd")) * 2) as server:
        url = ("--base-url", server.base_url)
        files = f"{beside}/same,{beside}/changes"
        assert sandboxed.run("run", "--session", *url, "--ctx", files, "a task").code == 0
        assert sandboxed.run("continue", *url, "go on").code == 0
        (beside / "changes").write_text("other content\n")
        later = sandboxed.run("continue", *url, "go on")
        (session,) = (sandboxed.home / ".odek" / "sessions").glob("*.jsonl")
        talked = sandboxed.run("repl", "--id", session.stem, *url, stdin="one\n/sandbox restart\ntwo\n")
        server.assert_all_used()
        both, *rest = tool_results(server)
        sent = [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "user"]
    assert (later.code, talked.code) == (0, 0), later.stderr + talked.stderr
    assert "content of same\ncontent of changes\n" in both
    assert [("content of same\n" in result, "content of changes" in result) for result in rest] == [(True, False)] * 3
    told = f'"{beside}/changes", given with an earlier turn, is gone or has changed: the sandbox lacks it now\n'
    assert [told in outcome.stderr for outcome in (later, talked)] == [True, True]
    assert sent[1:3] == ["go on", "[no longer in the sandbox: /ctx/changes]\n\ngo on"]


def test_no_place_is_made_for_files_that_the_mount_shows(sandboxed: Odek) -> None:
    (sandboxed.cwd / "a").write_text("x")
    script = (calls(("shell", {"command": "ls -d /ctx"}), ("read_file", {"path": "/ctx/a"})),)
    outcome, _, results = ask(sandboxed, "--ctx", "a", "task", script=script)
    assert (outcome.code, "exit code: 1" in results[0], "leaves the workspace" in results[1]) == (0, True, True)


def test_odd_names_arrive(sandboxed: Odek, beside: Path) -> None:
    """B47: each can be used as it is told, or is told escaped; every request is valid UTF-8."""
    names = [b"we\xffird.py", b"nl\nname", b"-rf", b"x" * 255, "ü b\"c'd".encode(), b"$(touch pwned)"]
    for name in names:
        with open(os.path.join(os.fsencode(beside), name), "wb") as file:
            file.write(b"content of " + name[:4] + b"\n")
    arguments = [part for name in names for part in ("-c", os.path.join(beside, os.fsdecode(name)))]
    script = (calls(("shell", {"command": "set -- /ctx/*; echo $#; cat '/ctx/nl\nname' /ctx/-rf; ls"})),)
    outcome, task, results = ask(sandboxed, *arguments, "task", script=script)
    assert outcome.code == 0, outcome.stderr
    assert "\n6\ncontent of nl\nn\ncontent of -rf\n</" in results[0]
    assert "path: /ctx/$(touch pwned)\n" in task
    assert "path: /ctx/nl\\nname\n" in task


def test_two_outside_files_of_one_name_end_it_before_anything_else(sandboxed: Odek, beside: Path) -> None:
    """D-3, F-20."""
    (beside / "sub").mkdir()
    for path in (beside / "same", beside / "sub" / "same"):
        path.write_text("x")
    with ModelServer() as server:
        outcome = sandboxed.run("run", "--base-url", server.base_url, "-c", f"{beside}/same,{beside}/sub/same", "task")
        assert (outcome.code, server.requests) == (2, [])
    assert "cannot both be attached" in outcome.stderr


def test_without_a_sandbox_the_real_path_is_told(odek: Odek, beside: Path) -> None:
    (beside / "out.txt").write_text("outside")
    (odek.cwd / "in.txt").write_text("inside")
    outcome, task, _ = ask(odek, "--no-sandbox", "-c", f"{beside}/out.txt,in.txt", "task")
    assert outcome.code == 0, outcome.stderr
    assert [line for line in task.splitlines() if line.startswith("path: ")] == [
        f"path: {beside}/out.txt",
        f"path: {odek.cwd}/in.txt",
    ]


def test_references_and_stdin(odek: Odek) -> None:
    """runtime contract 2.11: @file in words and in a task from stdin, once each; links that leave are told."""
    (odek.cwd / "a.py").write_text("print(1)")
    (odek.cwd / "key").symlink_to(odek.home)
    (odek.cwd / "bad").symlink_to("/etc/hostname")
    outcome, task, _ = ask(odek, "--no-sandbox", "-c", "a.py", "explain @a.py, not a@b.c or @someone, nor @bad")
    assert task.count("print(1)") == 1
    assert task.endswith("\n\nexplain @a.py, not a@b.c or @someone, nor @bad")
    assert "a link that leaves the working directory" in outcome.stderr
    assert 'odek: no file here is called "@someone"; it stays a word\n' in outcome.stderr
    with ModelServer(text("done")) as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, "-", stdin="see @a.py\nthanks\n")
        sent = server.requests[0].json["messages"][1]["content"]
    assert (outcome.code, sent.endswith("--- end a.py ---\n\nsee @a.py\nthanks\n")) == (0, True)


UNREAD = "odek: warning: what came by stdin was too late and is not read; `--ctx -` waits for it\n"


def test_stdin_goes_with_a_task(odek: Odek) -> None:
    """A24: with `--ctx -` and without, all of it; empty, it is told to who asked for it alone."""
    lines = "".join(f"+line {number}\n" for number in range(9000))
    common = ("run", "--no-sandbox", "--session")
    with ModelServer(*(text("done") for _ in range(5))) as server:
        url = ("--base-url", server.base_url)
        outcomes = [
            odek.run(*common, *url, "--ctx", "-", "review this", stdin=lines),
            odek.run(*common, *url, "review this", stdin=lines[:1000]),
            odek.run(*common, *url, "--ctx", "-", "review this", stdin=""),
            odek.run(*common, *url, "review this", stdin=""),
            odek.run("continue", *url, "--ctx=-", "and this", stdin="+more\n"),
        ]
        server.assert_all_used()
        given, beside, *left, more = [request.json["messages"][-1]["content"] for request in server.requests]
    assert [outcome.code for outcome in outcomes] == [0] * 5
    assert given.startswith("--- - ---\n<untrusted_content_")
    assert given.endswith("\n--- end - ---\n\nreview this")
    assert lines in given
    assert "+more\n" in more
    assert "+line 1\n" in beside
    assert left == ["review this"] * 2
    noted = "odek: stdin is attached (1000 bytes); </dev/null leaves it out\n"
    assert [noted in outcome.stderr for outcome in outcomes] == [False, True, False, False, False]
    assert ["nothing came by stdin" in outcome.stderr for outcome in outcomes] == [False, False, True, False, False]


@pytest.mark.parametrize("command", ["run", "continue"])
def test_stdin_is_not_given_twice(command: str, odek: Odek) -> None:
    """Runtime 2.2: the task took all of it."""
    with ModelServer(*([text("done")] if command == "continue" else [])) as server:
        where = ("--base-url", server.base_url)
        if command == "continue":
            assert odek.run("run", "--no-sandbox", "--session", *where, "task").code == 0
        outcome = odek.run(command, *where, "--ctx", "-", "-", stdin="+line\n")
        server.assert_all_used()
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "odek: error: stdin cannot be both the task and a file\n"
        "odek: hint: give the task in words, or take out --ctx -\n"
    )


def test_stdin_that_stays_open_holds_nothing_up_for_ever(odek: Odek) -> None:
    """A24: the stdin of a CI runner may never end. What comes while the model works is told."""
    (odek.cwd / "list").write_text("one\ntwo\n")
    kinds = ("pipe that stays open", "file", "null", "late")
    with ThreadPoolExecutor(len(kinds)) as pool:  # odek waits ten seconds for a pipe
        runs = dict(zip(kinds, pool.map(lambda kind: run_with_stdin(kind, odek), kinds), strict=True))
    seen = {kind: (done.returncode, done.stdout, done.stderr.decode()) for kind, done in runs.items()}
    assert {kind: (code, out) for kind, (code, out, _) in seen.items()} == dict.fromkeys(kinds, (0, b"done\n")), seen
    assert seen["late"][2].count(UNREAD) == 1
    assert [kind for kind, (*_, said) in seen.items() if UNREAD in said] == ["late"], seen
    assert [kind for kind, (*_, said) in seen.items() if "nothing came within" in said] == [kinds[0], kinds[3]], seen
    assert [kind for kind, (*_, said) in seen.items() if "stdin is attached (8 bytes)" in said] == ["file"], seen


def run_with_stdin(kind: str, odek: Odek) -> subprocess.CompletedProcess[bytes]:
    """Run odek with that kind of stdin; "late" writes to it while the model works."""
    mine, theirs = os.pipe()[::-1]
    fed = {"file": odek.cwd / "list", "null": Path("/dev/null")}.get(kind)
    stdin = os.open(fed, os.O_RDONLY) if fed else theirs

    def late(_: ServedRequest) -> Step:
        if kind == "late":
            os.write(mine, b"x")
        return text("done")

    with ModelServer(late) as server:
        argv = [*odek.argv, "run", "--no-sandbox", "--base-url", server.base_url, "hello"]
        done = subprocess.run(argv, stdin=stdin, capture_output=True, cwd=odek.cwd, env=odek.env(), timeout=60)
    for descriptor in {mine, theirs, stdin}:
        os.close(descriptor)
    return done


def test_attachments_under_a_locale_of_bytes(odek: Odek) -> None:
    """B47: LANG=C."""
    (odek.cwd / "größe.txt").write_text("naïve 🙂")
    with ModelServer(text("ünd 🙂")) as server:
        outcome = odek.run(
            *("run", "--session", "--no-sandbox", "--base-url", server.base_url, "-c", "größe.txt", "prüfe es"),
            env={"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )
        assert outcome.code == 0, outcome.stderr
        sent = server.requests[0].json["messages"][1]["content"]
    assert ["--- größe.txt ---" in sent, "naïve 🙂" in sent, sent.endswith("prüfe es")] == [True] * 3
    shown = odek.run("session", "show", env={"LANG": "C", "LC_ALL": "C"})
    assert (shown.code, "prüfe es" in shown.stdout) == (0, True)


def test_file_of_secrets_that_a_text_refers_to_needs_a_word(odek: Odek) -> None:
    """F15: as read_file does, by every spelling; the operator's --ctx is his word; the rest goes along."""
    (odek.cwd / ".env").write_text("KEY=of-the-project")
    (odek.cwd / "notes").symlink_to(".env")
    (odek.cwd / "a").write_text("plain")
    with ModelServer(*(text("done") for _ in range(3))) as server:
        where = ("run", "--no-sandbox", "--base-url", server.base_url)
        piped = odek.run(*where, "-", stdin="see @.env, @notes, @./a/../.env and @a")
        named = odek.run(*where, "see @.env")
        given = odek.run(*where, "--ctx", ".env", "see it")
        server.assert_all_used()
        tasks = [request.json["messages"][-1]["content"] for request in server.requests]
    assert ["KEY=of" in task for task in tasks] == [False, False, True]
    assert "plain" in tasks[0]
    for outcome in (piped, named):
        assert (
            'odek: warning: "@.env" is not attached: operation denied (non-interactive mode): read .env'
            in outcome.stderr
        )
    assert "not attached" not in given.stderr


def test_project_does_not_silence_the_screen(odek: Odek) -> None:
    """F15"""
    (odek.cwd / "odek.json").write_text('{"interaction_mode": "off"}')
    with ModelServer(text("done")) as server:
        outcome = odek.run("run", "--no-sandbox", "--base-url", server.base_url, "x")
    assert "── 1 model call" in outcome.stderr
    assert "interaction_mode" in outcome.stderr
