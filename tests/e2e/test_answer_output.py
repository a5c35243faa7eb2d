"""--output and --output-schema: the answer in a file, and in a form."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, Step, calls, status, text
from support.odek_process import Odek

from odek.agent.loop import MAX_MISFITS

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
HOST = ("run", "--no-sandbox")


def test_answer_is_in_the_file_to_the_byte(odek: Odek) -> None:
    """R-292: nothing added, an older file replaced, the umask obeyed, no trace of the way there; stdout as ever."""
    answer = "ü 🙂\r\n\ttwo\n\nlines"
    file = odek.cwd / "answer.md"
    file.write_text("old, and longer than the new one" * 9)
    inode = file.stat().st_ino
    with ModelServer(text(answer), text("second"), text("third")) as server:
        base = ("--base-url", server.base_url)
        plain = odek.run(*HOST, *base, "--output", "answer.md", "x")
        assert file.read_bytes() == answer.encode()
        assert file.stat().st_ino != inode, "put in place in one step"
        events = odek.run(*HOST, *base, "--json", "--session", "--output", str(odek.cwd / "answer.md"), "x")
        assert file.read_text() == "second"
        further = odek.run("continue", *base, "--output", "./new.md", "x")
    assert (plain.code, plain.stdout) == (0, answer.replace("\r", "") + "\n"), "read as text"
    assert json.loads(events.stdout.splitlines()[-1])["answer"] == "second"
    assert (further.code, (odek.cwd / "new.md").read_text()) == (0, "third")
    assert sorted(os.listdir(odek.cwd)) == ["answer.md", "new.md"]
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    return int(subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, check=True).stdout, 8)


def test_run_without_an_answer_leaves_the_file_as_it_was(odek: Odek) -> None:
    """R-292: whole or not at all."""
    (odek.cwd / "answer.md").write_text("old")
    with ModelServer(status(401)) as server:
        outcome = odek.run(*HOST, "--base-url", server.base_url, "--output", "answer.md", "x")
    assert (outcome.code, (odek.cwd / "answer.md").read_text(), len(os.listdir(odek.cwd))) == (1, "old", 1)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("link.md", '--output "link.md" is a link'),
        ("dangling.md", '--output "dangling.md" is a link'),
        ("way/x", '--output "way/x": its folder cannot be opened: "way" is a link in the project'),
        ("sub/way/x", '--output "sub/way/x": its folder cannot be opened: "way" is a link in the project'),
        ("sub", '--output "sub" is a folder'),
        ("sub/", '--output "sub/" does not name a file'),
        ("", '--output "" does not name a file'),
        ("fifo", '--output "fifo" is not a regular file'),
        ("/dev/null", '--output "/dev/null" is not a regular file'),
        ("missing/x", '--output "missing/x": its folder cannot be opened: no such file or directory'),
    ],
)
def test_place_that_is_refused_before_anything_is_asked(path: str, fault: str, odek: Odek, tmp_path: Path) -> None:
    """R-292: a checkout does not say which file of the operator is overwritten."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (odek.cwd / "sub").mkdir()
    (odek.cwd / "link.md").symlink_to(outside / "kept")
    (odek.cwd / "dangling.md").symlink_to(outside / "new")
    (odek.cwd / "way").symlink_to(outside)
    (odek.cwd / "sub" / "way").symlink_to(outside)
    os.mkfifo(odek.cwd / "fifo")
    outcome = odek.run(*HOST, "--base-url", "http://127.0.0.1:1/v1", "--output", path, "x")
    assert outcome.code == 2, outcome.stderr
    assert outcome.stderr.startswith(f"odek: error: {fault}\nodek: hint: ")
    assert [entry.name for entry in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"


def test_link_that_appears_meanwhile_is_replaced_and_not_followed(odek: Odek, tmp_path: Path) -> None:
    """R-292: what the model puts there, or in place of the folder, leads nowhere."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (odek.cwd / "out").mkdir()
    plant = calls(("shell", {"command": f"mv out gone && ln -s {tmp_path} out && ln -s {kept} gone/answer.md"}))
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text('{"dangerous": {"action": "allow"}}')
    (odek.home / ".odek" / "config.json").chmod(0o600)
    with ModelServer(plant, text("done")) as server:
        outcome = odek.run(*HOST, "--base-url", server.base_url, "--output", "out/answer.md", "x")
    assert outcome.code == 0, outcome.stderr
    assert (odek.cwd / "out").is_symlink()
    assert (kept.read_text(), (tmp_path / "answer.md").exists()) == ("kept", False)
    written = odek.cwd / "gone" / "answer.md"
    assert (written.is_symlink(), written.read_text()) == (False, "done")


def test_folder_that_goes_meanwhile_costs_no_answer(odek: Odek) -> None:
    """R-292, R-290: the answer is on stdout, the error says what is missing, and the exit code tells."""
    (odek.cwd / "out").mkdir()

    def answer(_: object) -> Step:
        (odek.cwd / "out").rmdir()
        (odek.cwd / "out").touch()
        return text("done")

    with ModelServer(answer, answer) as server:  # type: ignore[arg-type]
        argv = (*HOST, "--base-url", server.base_url, "--output", "out/answer.md", "x")
        plain = odek.run(*argv)
        (odek.cwd / "out").unlink()
        (odek.cwd / "out").mkdir()
        events = odek.run(*argv, "--json")
    assert (plain.code, plain.stdout) == (1, "done\n")
    assert 'the answer cannot be written to "out/answer.md": no such file or directory' in plain.stderr
    last = json.loads(events.stdout.splitlines()[-1])
    assert (events.code, last["event"], last["answer"]) == (1, "error", "done")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_answer_of_a_form(flags: tuple[str, ...], odek: Odek, tmp_path: Path) -> None:
    """R-293: the model is asked again with what is wrong; stdout and file are exactly the JSON."""
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "link.json").symlink_to("schema.json")
    script = [
        calls(("shell", {"command": "true"}), content="not meant"),
        text("Three."),
        text('It is:\n```json\n{"n": "3"}\n```'),
        text('```json\n{"n":   3}\n```\nDone.'),
    ]
    with ModelServer(*script) as server:
        base = ("--base-url", server.base_url, "--output", "n.json", "--output-schema", str(tmp_path / "link.json"))
        outcome = odek.run(*HOST, *base, *flags, "count")
    assert outcome.code == 0, outcome.stderr
    said = json.loads(outcome.stdout.splitlines()[-1])["answer"] if flags else outcome.stdout
    assert said == '{"n":   3}' + ("" if flags else "\n")
    assert (odek.cwd / "n.json").read_text() == '{"n":   3}'
    asked = [request.json["messages"] for request in server.requests]
    assert json.dumps(SCHEMA) in asked[0][0]["content"]
    assert "Your last message cannot be used as the answer: it is not JSON" in asked[2][-1]["content"]
    assert '"/n" must be of type integer, and is string' in asked[3][-1]["content"]


def test_answer_that_never_fits(odek: Odek) -> None:
    """R-293: asked again a few times, then exit code 6; nothing on stdout, no file, and a session goes on."""
    (odek.cwd / "schema.json").write_text(json.dumps(SCHEMA))
    with ModelServer(*[text("no")] * (MAX_MISFITS + 1), text('{"n": 1}')) as server:
        flags = ("--base-url", server.base_url, "--output", "n.json", "--output-schema", "schema.json")
        outcome = odek.run(*HOST, "--session", *flags, "count")
        further = odek.run("continue", *flags, "count")
    assert (outcome.code, outcome.stdout) == (6, "")
    assert (
        f"the model's answer does not fit the schema, after {MAX_MISFITS + 1} attempts: it is not JSON"
        in outcome.stderr
    )
    assert (further.code, further.stdout, (odek.cwd / "n.json").read_text()) == (0, '{"n": 1}\n', '{"n": 1}')


@pytest.mark.parametrize("command", ["run", "continue"])
def test_schema_that_is_not_understood_costs_nothing(command: str, odek: Odek) -> None:
    """R-293: before the model is asked."""
    (odek.cwd / "schema.json").write_text('{"format": "date"}')
    with ModelServer(text("begun")) as server:
        base = ("--base-url", server.base_url)
        odek.run(*HOST, *base, "--session", "x")
        there = ("--no-sandbox",) if command == "run" else ()
        outcome = odek.run(command, *there, *base, "--output-schema", "schema.json", "x")
    assert (outcome.code, outcome.stdout, len(server.requests)) == (2, "", 1)
    assert (
        'the schema "schema.json" cannot be used: "/format": the keyword "format" is not understood' in outcome.stderr
    )


def test_terminal_gets_the_json_alone(odek: Odek) -> None:
    """R-293: nothing of an answer that did not fit, and no Markdown made of it."""
    (odek.cwd / "schema.json").write_text('{"type": "string"}')
    mine, theirs = pty.openpty()
    with ModelServer(text("no, **never**"), text('```json\n"*a* _b_"\n```')) as server:
        argv = [*odek.argv, *HOST, "--base-url", server.base_url, "--output-schema", "schema.json", "x"]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, cwd=odek.cwd,
            env=odek.env() | {"TERM": "xterm"}, timeout=60,
        )  # fmt: skip
    os.close(theirs)
    shown = os.read(mine, 4096)
    os.close(mine)
    assert (done.returncode, shown) == (0, b'"*a* _b_"\r\n'), done.stderr
