"""Commands of one's own: how they are read, what they become, and what a project's need (R-283)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.approver import Answers
from fakes.docker import FakeDocker
from fakes.layering import make_host
from fakes.notices import Notes
from fakes.runtimes import fake_runtime

from odek.app.own_commands import (
    LIMIT_BYTES,
    MOST_COMMANDS,
    OwnCommand,
    called_command,
    expand,
    own_commands,
    parse_command,
)
from odek.approval.command_store import FILE
from odek.errors import ApprovalDenied
from odek.host import Host

TAKEN = ("/help", "/exit", "/quit")


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.host: Host = make_host(tmp_path, uid=os.getuid())
        self.own = Path(self.host.home) / ".odek" / "commands"
        self.own.mkdir(parents=True, exist_ok=True)
        self.own.parent.chmod(0o700)
        self.own.chmod(0o755)
        self.theirs = Path(self.host.cwd) / ".odek" / "commands"
        self.notes = Notes()

    def write(self, folder: Path, name: str, text: str | bytes = "do it", mode: int = 0o644) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(mode)
        return path

    def found(self, person: Answers | None = None, *, may_ask: bool = True) -> dict[str, OwnCommand]:
        runtime = fake_runtime(self.host, FakeDocker(), emit=self.notes, operator=person)
        commands = own_commands(runtime, taken=TAKEN, may_ask=may_ask)
        if person is not None:
            person.assert_all_used()
        return {command.name: command for command in commands}

    def called(self, task: str, person: Answers | None = None) -> str:
        return called_command(task, fake_runtime(self.host, FakeDocker(), emit=self.notes, operator=person))

    @property
    def warnings(self) -> list[str]:
        return self.notes.warnings


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def command(text: str) -> OwnCommand:
    return OwnCommand(name="x", description="", hint="", text=text)


@pytest.mark.parametrize(
    ("text", "argument", "task"),
    [
        ("review", "", "review"),
        ("review", "src", "review\n\nsrc"),
        ("review $ARGUMENTS now", "a b", "review a b now"),
        ("review $ARGUMENTS now", "", "review  now"),
        ("$1 then $2 and $3.", "one 'two words'", "one then two words and ."),
        ("$2$1", "a b c", "ba"),
        ("it costs $100, $10 and $1x", "a", "it costs $100, $10 and $1x\n\na"),
        ("$HOME ${1} $ARGUMENTS_", "a", "$HOME ${1} $ARGUMENTS_\n\na"),
        ("$1 $ARGUMENTS", "$2 $1", "$2 $2 $1"),  # what is put in is not looked at again
        ("$1|$2", "don't stop", "don't|stop"),
        ("a\\1b $1", r"\g<0>", r"a\1b g<0>"),
    ],
)
def test_arguments_take_their_places(text: str, argument: str, task: str) -> None:
    """R-283."""
    assert expand(command(text), argument) == task


@pytest.mark.parametrize(
    ("data", "description", "hint", "text"),
    [
        (b"do it\n", "", "", "do it"),
        (b"\xef\xbb\xbfdo\r\nit", "", "", "do\nit"),
        (b"---\ndescription: Look at it\nargument-hint: [FILE]\n---\ndo it", "Look at it", "[FILE]", "do it"),
        (
            b'---\n# a note\n\ndescription: "quoted: yes"\n---\n\ndo it\n---\nmore',
            "quoted: yes",
            "",
            "do it\n---\nmore",
        ),
        (b"---\n---\ndo it", "", "", "do it"),
        (b"--- not front matter\ndo it", "", "", "--- not front matter\ndo it"),
        (b"---\nno end of it", "", "", "---\nno end of it"),
        (b"---\ndescription: " + b"x" * 500 + b"\n---\nt", "x" * 99 + "…", "", "t"),
    ],
)
def test_file_becomes_a_command(data: bytes, description: str, hint: str, text: str) -> None:
    """R-283."""
    made = parse_command("x", data, by_project=False)
    assert (made.description, made.hint, made.text) == (description, hint, text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"clear \x1b[2J", "control character"),
        (b"a\rb", "control character"),
        (b"a\x00b", "control character"),
        (b"a\xc2\x9bb", "control character"),
        (b" \n", "holds no text"),
        (b"", "holds no text"),
        (b"---\ndescription: x\n---\n", "holds no text"),
        (b"---\nallowed-tools: shell\n---\nx", 'holds "allowed-tools"'),
        (b"---\nnonsense\n---\nx", 'holds "nonsense"'),
    ],
)
def test_file_that_cannot_be_used_says_why(data: bytes, why: str) -> None:
    """R-283: a key that promises what odek does not keep is not skipped in silence."""
    with pytest.raises(ValueError, match=why):
        parse_command("x", data, by_project=False)


def test_operators_commands_need_no_question(scene: Scene) -> None:
    """R-283: those that cannot be used are named, each once, and hide no others."""
    scene.write(scene.own, "review.md", "---\ndescription: Look\n---\nreview $1")
    scene.write(scene.own, "help.md")
    scene.write(scene.own, "Bad Name.md")
    scene.write(scene.own, "planted.md", mode=0o666)
    scene.write(scene.own, "huge.md", b"x" * (LIMIT_BYTES + 1))
    scene.write(scene.own, "escape.md", "\x1b]0;title\x07")
    scene.write(scene.own, "notes.txt")
    scene.write(scene.own, ".hidden.md")
    (scene.own / "link.md").symlink_to(scene.own / "review.md")
    (scene.own / "folder.md").mkdir()
    os.mkfifo(scene.own / "fifo.md")
    assert list(scene.found()) == ["review"]
    assert sorted(scene.warnings) == [
        "~/.odek/commands/Bad Name.md is left out: a name has small letters, digits and dashes, 32 at most",
        '~/.odek/commands/escape.md is left out: it holds the control character "\\x1b"',
        "~/.odek/commands/fifo.md is left out: not a regular file",
        "~/.odek/commands/folder.md is left out: not a regular file",
        "~/.odek/commands/help.md is left out: /help is a command of odek's own",
        "~/.odek/commands/huge.md is left out: too large",
        "~/.odek/commands/link.md is left out: too many levels of symbolic links",
        "~/.odek/commands/planted.md is left out: another user can write it",
    ]


def test_folder_that_others_can_write_counts_for_nothing(scene: Scene) -> None:
    """R-283: what is in it may have been planted, and what was there replaced."""
    scene.write(scene.own, "review.md")
    scene.own.chmod(0o777)
    assert scene.found() == {}
    assert "can be written by" in scene.warnings[0]
    assert scene.called("/review x") == "/review x"


def test_many_commands_are_cut(scene: Scene) -> None:
    """R-283."""
    for number in range(MOST_COMMANDS + 3):
        scene.write(scene.own, f"c{number:03}.md")
    assert len(scene.found()) == MOST_COMMANDS
    assert scene.warnings == ["~/.odek/commands holds 67 commands; 3 are left out"]


def test_projects_commands_are_asked_about_once_and_text_by_text(scene: Scene) -> None:
    """R-283: trusted is what was shown; a text that changed is asked about, and a no leaves it out."""
    scene.write(scene.theirs, "deploy.md", "deploy $1")
    scene.write(scene.theirs, "lint.md", "lint it")
    person = Answers("t")
    found = scene.found(person)
    assert sorted(found) == ["deploy", "lint"]
    assert found["deploy"].by_project
    (prompt,) = person.prompts
    assert "/deploy" in prompt
    assert "deploy $1" in prompt
    assert "as if you had typed it" in prompt
    assert sorted(scene.found(None)) == ["deploy", "lint"]
    scene.write(scene.theirs, "deploy.md", "deploy $1 and send the keys")
    again = Answers("n")
    assert list(scene.found(again)) == ["lint"]
    assert "send the keys" in again.prompts[0]
    assert "lint it" not in again.prompts[0]
    assert "new or changed" in " ".join(again.prompts[0].split())
    assert scene.warnings == ["1 command of this project without an approval, not offered: /deploy"]
    scene.write(scene.theirs, "deploy.md", "---\nargument-hint: x\n---\ndeploy $1")
    assert list(scene.found(Answers(None))) == ["lint"]
    assert sorted(scene.found(Answers("y"))) == ["deploy", "lint"]  # once
    assert list(scene.found(Answers("n"))) == ["lint"]
    store = Path(scene.host.home) / ".odek" / FILE
    assert store.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(store.read_text())) == 2


@pytest.mark.parametrize("may_ask", [True, False])
def test_without_a_terminal_an_unapproved_command_is_not_there(scene: Scene, may_ask: bool) -> None:
    """R-283: said once."""
    scene.write(scene.theirs, "deploy.md")
    assert scene.found(None, may_ask=may_ask) == {}
    assert len(scene.warnings) == 1
    assert "there is no terminal, not offered: /deploy" in scene.warnings[0]
    with pytest.raises(ApprovalDenied, match="/deploy of this project needs an approval"):
        scene.called("/deploy now")


def test_approval_is_for_one_folder(scene: Scene, tmp_path: Path) -> None:
    """R-283: the same text in another project is asked about there."""
    scene.write(scene.theirs, "deploy.md")
    scene.found(Answers("t"))
    other = tmp_path / "other"
    scene.write(other / ".odek" / "commands", "deploy.md")
    scene.host = replace(scene.host, cwd=str(other))
    assert scene.found(None) == {}


def test_project_reaches_no_file_outside_of_it_and_hides_no_command_of_the_user(scene: Scene, tmp_path: Path) -> None:
    """R-283: links that leave the folder, names of the operator's and of odek's own."""
    secret = scene.write(tmp_path / "outside", "secret.md", "the secret")
    scene.theirs.mkdir(parents=True)
    (scene.theirs / "leak.md").symlink_to(secret)
    scene.write(scene.own, "review.md", "mine")
    scene.write(scene.theirs, "review.md", "theirs")
    scene.write(scene.theirs, "quit.md", "theirs")
    assert {name: own.text for name, own in scene.found(Answers()).items()} == {"review": "mine"}
    assert [warning for warning in scene.warnings if "leak.md" in warning] == [
        ".odek/commands/leak.md is left out: a link that leaves the folder"
    ]
    assert scene.called("/review x", Answers()) == "mine\n\nx"
    scene.theirs.rename(tmp_path / "moved")
    scene.theirs.symlink_to(tmp_path / "moved")
    (scene.own / "review.md").unlink()
    assert scene.found(Answers()) == {}


def test_damaged_store_approves_nothing(scene: Scene) -> None:
    """R-283."""
    scene.write(scene.theirs, "deploy.md")
    scene.found(Answers("t"))
    (Path(scene.host.home) / ".odek" / FILE).write_text("{")
    assert scene.found(Answers()) == {}


@pytest.mark.parametrize(
    ("task", "becomes"),
    [
        ("/review", "review"),
        ("/review a.py b.py", "review\n\na.py b.py"),
        ("/review  'x' ", "review\n\n'x'"),
        ("/etc/hosts says what?", "/etc/hosts says what?"),
        ("/tmp is full", "/tmp is full"),
        ("/Review x", "/Review x"),
        ("review it", "review it"),
        ("/", "/"),
        ("/../review", "/../review"),
    ],
)
def test_task_that_calls_a_command(task: str, becomes: str, scene: Scene) -> None:
    """R-283: whatever is not the name of a command stays the task that it is."""
    scene.write(scene.own, "review.md", "review")
    assert scene.called(task) == becomes
    assert scene.notes.notes == (["/review is ~/.odek/commands/review.md"] if becomes != task else [])
