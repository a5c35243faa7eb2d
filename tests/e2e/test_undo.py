"""What a turn changed, shown and taken back: `odek diff`, `odek undo`, `/diff` and `/undo`, with real containers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.fuzz_undo import model_of
from support.odek_process import Odek, pid_of_odek
from support.pty_session import Talk
from support.serve_process import serving_process, stream_of, wait_until

CHANGES = (
    "printf 'one\\nTWO\\nthree\\n' >notes.txt && rm -r old && mkdir -p new/empty && echo made >'new/a b.txt' && "
    "chmod 755 run.sh && ln -sf elsewhere link && printf 'x' >built.o && printf '\\0\\1' >data.bin"
)


def settle(odek: Odek, **settings: object) -> None:
    """Write the operator's file."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "config.json").chmod(0o600)


def fill(project: Path) -> None:
    """Put into the project what CHANGES changes."""
    (project / "notes.txt").write_text("one\ntwo\nthree\n")
    (project / "old").mkdir()
    (project / "old" / "kept.txt").write_text("kept\n")
    (project / "run.sh").write_text("true\n")
    (project / "run.sh").chmod(0o644)
    (project / "link").symlink_to("target")
    (project / ".gitignore").write_text("*.o\n")


def kept(odek: Odek) -> list[Path]:
    """Return the files in which anything is kept of any project."""
    return [path for path in (odek.home / ".odek" / "snapshots").rglob("*") if path.is_file()]


def test_what_a_command_in_the_container_changed_is_shown_and_brought_back(
    odek: Odek, docker_engine: Engine, base_image: str
) -> None:
    """R-271, R-276, R-278: by a command in the sandbox and by a file tool; an undo can be undone."""
    settle(odek, sandbox_image=base_image)
    fill(odek.cwd)
    before = model_of(odek.cwd)
    written = {"path": "tool.txt", "content": "by a tool\n"}
    with ModelServer(calls(("shell", {"command": CHANGES}), ("write_file", written)), text("done")) as server:
        run = odek.run("run", "--json", "--base-url", server.base_url, "-m", "m", "change things")
    assert run.code == 0, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    changed = next(event for event in events if event["event"] == "files_changed")
    by_path = {file["path"]: (file["change"], file["added"], file["removed"]) for file in changed["files"]}
    assert by_path == {
        "data.bin": ("added", None, None),
        "link": ("modified", 1, 1),
        "new": ("added", 0, 0),
        "new/a b.txt": ("added", 1, 0),
        "new/empty": ("added", 0, 0),
        "notes.txt": ("modified", 1, 1),
        "old": ("deleted", 0, 0),
        "old/kept.txt": ("deleted", 0, 1),
        "run.sh": ("mode", 0, 0),
        "tool.txt": ("added", 1, 0),
    }
    assert (changed["number"], changed["added"], changed["removed"], changed["shared"]) == (1, 4, 3, False)
    after = model_of(odek.cwd)
    modes = {path.stat().st_mode & 0o777 for path in kept(odek)}
    assert modes == {0o600}

    shown = odek.run("diff")
    assert shown.code == 0, shown.stderr
    assert "-two\n+TWO\n" in shown.stdout
    assert "Binary files /dev/null and b/data.bin differ\n" in shown.stdout
    assert "what git ignores is not looked at" in shown.stderr

    undone = odek.run("undo", "--yes")
    assert (undone.code, undone.stdout) == (0, "")
    assert undone.stderr == "odek: turn 1 is undone, 7 files; odek undo 2 makes the changes again\n"
    assert model_of(odek.cwd) == before
    assert (odek.cwd / "built.o").read_text() == "x"  # which git ignores

    assert odek.run("undo", "2", "--yes").code == 0
    assert model_of(odek.cwd) == after
    assert odek.run("undo", "--yes").code == 0
    assert model_of(odek.cwd) == before


def test_nothing_is_kept_of_turns_that_cannot_or_do_not_write(on_host: Odek) -> None:
    """R-272, R-276: an answer alone, calls that read, no tool that writes, and where it is switched off."""
    odek = on_host
    (odek.cwd / "a.txt").write_text("text\n")
    read, write = ("read_file", {"path": "a.txt"}), ("shell", {"command": "echo more >>a.txt"})
    runs = (
        ((text("an answer"),), (), {}),
        ((calls(read), text("done")), (), {}),
        ((calls(read), text("done")), ("--tool", "read_file"), {}),
        ((calls(write), text("done")), (), {"ODEK_SNAPSHOTS": "0"}),
    )
    for steps, flags, env in runs:
        with ModelServer(*steps) as server:
            run = odek.run("run", *flags, "--base-url", server.base_url, "-m", "m", "x", env=env)
        assert run.code == 0, run.stderr
        assert "changed" not in run.stderr
        assert [path for path in kept(odek) if path.suffix in (".json", ".pack")] == []
    shown = odek.run("undo", "--yes")
    assert (shown.code, shown.stderr) == (
        1,
        "odek: error: no turn that changed files is kept for this folder\n"
        "odek: hint: turns are kept by the folder in which odek was started\n",
    )


def change(odek: Odek, command: str) -> str:
    """Let a run carry out `command`; return what it printed on stderr."""
    with ModelServer(calls(("shell", {"command": command})), text("done")) as server:
        run = odek.run("run", "--base-url", server.base_url, "-m", "m", "a task")
    assert run.code == 0, run.stderr
    return run.stderr


def test_what_changed_since_is_named_and_left(on_host: Odek) -> None:
    """R-273, R-278: a run says what it changed; an undo of what another program changed needs --partial."""
    odek, cwd = on_host, on_host.cwd
    for name in ("a.txt", "b.txt"):
        (cwd / name).write_text("before\n")
    assert "── 2 files changed, +2 −2 · odek diff · odek undo\n" in change(odek, "echo after | tee a.txt >b.txt")
    (cwd / "b.txt").write_text("mine\n")

    assert odek.run("diff", "--stat").stdout.splitlines() == [
        " a.txt |     2 +-",
        " b.txt |     2 +-",
        " 2 files changed, +2 −2",
    ]
    assert "odek: 1 path changed again since\n" in odek.run("diff").stderr
    refused = odek.run("undo", "--yes")
    assert (refused.code, refused.stderr.splitlines()) == (
        1,
        [
            "odek: error: turn 1 is not undone: 1 path cannot be taken back",
            "    b.txt: changed since",
            "odek: hint: --partial leaves these as they are, and undoes the others",
        ],
    )
    unasked = odek.run("undo", "--partial")
    assert (unasked.code, unasked.stderr.splitlines()[-2:]) == (
        1,
        ["odek: error: nothing is undone", "odek: hint: --yes does not ask"],
    )
    assert ((cwd / "a.txt").read_text(), (cwd / "b.txt").read_text()) == ("after\n", "mine\n")
    done = odek.run("undo", "--partial", "--yes", "--json")
    assert json.loads(done.stdout) == {
        "undone": 1, "number": 2, "files": ["a.txt"], "left": [{"path": "b.txt", "reason": "changed since"}],
    }  # fmt: skip
    assert ((cwd / "a.txt").read_text(), (cwd / "b.txt").read_text()) == ("before\n", "mine\n")
    listed = [line.split() for line in odek.run("diff", "--list").stdout.splitlines()]
    assert [(line[0], line[-3:]) for line in listed] == [("2", ["undo", "of", "1"]), ("1", ["(undone", "by", "2)"])]


def test_a_question_at_a_terminal_comes_before_an_undo(on_host: Odek) -> None:
    """R-271: what would be done is shown; a no leaves all as it is."""
    odek, cwd = on_host, on_host.cwd
    (cwd / "a.txt").write_text("before\n")
    change(odek, "echo after >a.txt; echo new >b.txt")
    for answer, code in (("n", 1), ("y", 0)):
        with Talk(odek, "undo") as talk:
            shown = talk.see("Undo it? [y / N]")
            assert [line.strip() for line in shown.strip().splitlines()] == [
                "Undo of turn 1 (a task):", "restores a.txt", "removes b.txt",
            ]  # fmt: skip
            talk.type(f"{answer}\r")
            assert talk.end()[0] == code
    assert sorted(os.listdir(cwd)) == ["a.txt"]
    assert (cwd / "a.txt").read_text() == "before\n"


def test_a_turn_of_a_conversation_is_taken_back_with_its_files(on_host: Odek) -> None:
    """R-278: /diff and /undo mean turns of the conversation; what changed since stops /undo as a whole."""
    odek, cwd = on_host, on_host.cwd
    (cwd / "a.txt").write_text("before\n")
    steps = [step for n in (1, 2) for step in (calls(("shell", {"command": f"echo {n} >a.txt"})), text(f"done {n}"))]
    with (
        ModelServer(*steps, text("an answer"), text("again")) as server,
        Talk(odek, "repl", "--base-url", server.base_url) as talk,
    ):
        for number in (1, 2):
            talk.see(f"odek {number}> ")
            talk.type(f"task {number}\r")
            talk.see("1 file changed, +1 −1 · /diff · /undo")
        talk.see("odek 3> ")
        talk.type("/diff\r")
        talk.see("-1")
        talk.see("+2")
        talk.see("odek 3> ")
        talk.type("/diff 1\r")
        talk.see("-before")
        talk.see("odek 3> ")
        talk.type("what is there?\r")
        talk.see("an answer")
        talk.see("odek 4> ")
        talk.type("/undo\r")  # it changed nothing
        talk.see("the last turn is taken back; the model does not know of it any more")
        talk.see("odek 3> ")
        (cwd / "a.txt").write_text("mine\n")
        talk.type("/undo\r")
        talk.see("the last turn is not undone")
        talk.see("odek 3> ")
        (cwd / "a.txt").write_text("2\n")
        talk.type("/undo\r")
        talk.see("the last turn is undone, 1 file")
        talk.see("odek 2> ")
        assert (cwd / "a.txt").read_text() == "1\n"
        talk.type("/undo talk\r")
        talk.see("the files are as it left them")
        talk.see("odek 1> ")
        assert (cwd / "a.txt").read_text() == "1\n"
        talk.type("again\r")
        talk.see("again")
        talk.see("odek 2> ")
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_undo_says_what_it_does_not_take_back(on_host: Odek) -> None:
    """R-405: of a conversation that is not kept, before it does anything; of one whose session has gone meanwhile."""
    odek, cwd = on_host, on_host.cwd
    (cwd / "a.txt").write_text("before\n")
    sessions = odek.home / ".odek" / "sessions"
    sessions.parent.mkdir(mode=0o700, exist_ok=True)
    steps = [step for n in (1, 2) for step in (calls(("shell", {"command": f"echo {n} >a.txt"})), text(f"done {n}"))]
    for unkept in (True, False):
        if unkept:
            sessions.write_text("a file where the folder would be")
        with (
            ModelServer(*steps) as server,
            Talk(odek, "repl", "--base-url", server.base_url) as talk,
        ):
            talk.see("odek 1> ")
            talk.type("task\r")
            talk.see("/diff · /undo")
            talk.see("odek 2> ")
            if not unkept:
                shutil.rmtree(sessions)
            talk.type("/undo\r")
            if unkept:
                talk.see("this takes back files alone: the conversation is not kept, see /info")
            talk.see("the last turn is undone, 1 file")
            if not unkept:
                talk.see("the files are taken back, the conversation is not: ")
                talk.see("/undo talk tries that again")
            after = talk.see("odek 2> ")
            assert not unkept or "error" not in after
            assert (cwd / "a.txt").read_text() == "before\n"
            talk.type("\x04")
            talk.end()
        if unkept:
            sessions.unlink()


def test_a_turn_of_an_odek_that_was_killed_can_be_taken_back(on_host: Odek) -> None:
    """R-275: SIGKILL in the middle of a command."""
    odek, cwd = on_host, on_host.cwd
    (cwd / "a.txt").write_text("before\n")
    command = "echo after >a.txt; echo ready >ready; sleep 60"
    with ModelServer(calls(("shell", {"command": command}))) as server:
        process = odek.start("run", "--base-url", server.base_url, "-m", "m", "a task")
        deadline = time.monotonic() + 40
        while not (cwd / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(pid_of_odek(process.pid), signal.SIGKILL)
        process.wait()
    undone = odek.run("undo", "--yes")
    assert undone.code == 0, undone.stderr
    assert "odek was killed during it" in undone.stderr
    assert os.listdir(cwd) == ["a.txt"]
    assert (cwd / "a.txt").read_text() == "before\n"


def test_a_turn_of_serve_is_kept_and_nothing_is_undone_while_one_is_under_way(on_host: Odek) -> None:
    """R-272, R-279: the page's turns are kept in the same way; an undo waits for the end of every turn."""
    odek, cwd = on_host, on_host.cwd
    (cwd / "b.txt").write_text("before\n")
    change(odek, "echo first >a.txt; echo after >b.txt")
    command = "echo second >a.txt; echo ready >ready; while [ ! -e go ]; do sleep 0.05; done"
    with (
        ModelServer(calls(("shell", {"command": command})), text("done")) as model,
        serving_process(odek, "--base-url", model.base_url, "--model", "m") as server,
    ):
        session = str(server.ask("POST", "/api/sessions", {"text": "do it", "request_id": "r1"}).json["id"])
        wait_until(lambda: (cwd / "ready").exists(), 40)
        refused = odek.run("undo", "1", "--partial", "--yes")
        assert (refused.code, "at work in this folder" in refused.stderr) == (1, True), refused.stderr
        assert (cwd / "a.txt").read_text() == "second\n"
        (cwd / "go").write_text("")
        with stream_of(server, session) as events:
            told = events.read_until(b"event: files_changed") + events.read_until(b"\n\n")
            changed = json.loads(told.rpartition(b"data: ")[2])
            events.read_until(b"event: turn_ended")
        assert sorted(file["path"] for file in changed["files"]) == ["a.txt", "go", "ready"]
        assert odek.run("undo", "--yes").code == 0
        assert {path.name: path.read_text() for path in cwd.iterdir()} == {"a.txt": "first\n", "b.txt": "after\n"}
