"""The completion scripts know what the parsers know, and the shells take them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.layering import make_host

from odek.app import candidates
from odek.cli.command_docs import CommandDoc, Flag, read_command_docs
from odek.cli.completion import KINDS, SHELLS, render_completion, words_after
from odek.cli.main import COMMANDS
from odek.config.settings import flag_options

PAGES = read_command_docs()
DRIVERS = {
    # each prints what it would offer for the words in "$@", the last of which is being typed
    "bash": (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}\n'
        '_odek; printf "%s\\n" "${COMPREPLY[@]}"'
    ),
    "zsh": (
        'compdef() { }; compset() { }; compadd() { print -l -- "${@[2,-1]}" }; _files() { print files }\n'
        '_describe() { local n=${@[-1]}; print -l -- "${(@P)n%%:*}" }\n'
        'source "$1"; shift; words=("$@"); CURRENT=$#; _odek'
    ),
    "fish": 'source $argv[1]; complete -C "$argv[2..-1]"',
}


def offered(shell: str, script: Path, *words: str) -> list[str]:
    """Return what `shell` offers for the last of `words`."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    arguments = [program, "-c", DRIVERS[shell], *([] if shell == "fish" else [shell]), str(script), "odek", *words]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    last = words[-1]
    names = (line.split("\t")[0] for line in done.stdout.splitlines())
    return sorted(name for name in names if name.startswith(last) and name)


@pytest.fixture(params=SHELLS)
def script(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "completion"
    path.write_text(render_completion(request.param, PAGES))
    return request.param, path


def page(*words: str) -> CommandDoc:
    return next(page for page in PAGES if page.words == words)


def test_every_command_has_a_page_with_its_settings() -> None:
    """R-12, R-80: the pages come from the parsers, so a new option is in all of them."""
    assert list(dict.fromkeys(page.words[0] for page in PAGES)) == list(COMMANDS)
    for command in ("run", "continue", "repl"):
        names = {flag.name for flag in page(command).flags}
        assert {option.flag for option in flag_options(command)} <= names


def test_every_command_explains_itself_with_an_example() -> None:
    assert [" ".join(page.words) for page in PAGES if page.flags and not page.examples] == []
    assert [flag.name for page in PAGES for flag in page.flags if not flag.help] == []
    assert all(example.startswith("odek ") or "odek " in example for page in PAGES for example in page.examples)


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_every_option(shell: str) -> None:
    """The comparison that keeps the scripts from drifting: each page's options stand in its part of the script."""
    text = render_completion(shell, PAGES)
    for each in PAGES:
        key = re.escape("'" + " ".join(each.words) + "'")
        key = {
            "bash": rf"^ +{key}\)",
            "zsh": rf"^ +\({key}\)",
            "fish": re.escape("'__odek_at '\\''" + " ".join(each.words) + "'\\''"),
        }[shell]
        part = [line for line in text.splitlines() if re.search(key, line)]
        assert part, each.words
        for flag in each.flags:
            for name in flag.names:
                spelled = {"fish": f"-l {name[2:]} " if name.startswith("--") else f"-s {name[1:]} "}.get(shell, name)
                assert any(spelled in f"{line} " for line in part), (each.words, name)


@pytest.mark.parametrize("words", [("",), ("se",), ("session", "sh"), ("sandbox", "image", ""), ("help", "ru")])
def test_shell_offers_commands_and_actions(words: Sequence[str], script: tuple[str, Path]) -> None:
    key = tuple(word for word in words[:-1] if word != "help")
    wanted = sorted(word for word, _ in words_after(PAGES, key) if word.startswith(words[-1]))
    assert offered(*script, *words) == wanted


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("run", "--sandbox-n"), ["--sandbox-network", "--sandbox-networks"]),
        (("run", "-q", "--no-sand"), ["--no-sandbox"]),
        (("continue", "--no-sand"), []),
        (("run", "--thinking", "l"), ["low"]),
        (("run", "--sandbox-network", ""), ["bridge", "none"]),
        (("repl", "--no-tool", "shell", "--sandbox-network", "b"), ["bridge"]),
        (("run", "--max-iter", ""), []),
        (("session", "cleanup", ""), []),
        (("run", "--model", "m", "task", "--ses"), ["--session"]),
        (("session", "list", "--al"), ["--all"]),
        (("sandbox", "image", "save", "--im"), ["--image"]),
    ],
)
def test_shell_offers_options_and_values(words: Sequence[str], found: list[str], script: tuple[str, Path]) -> None:
    assert offered(*script, *words) == found


def test_each_kind_of_values_has_a_source() -> None:
    """R-300: what the scripts ask for is what odek can find."""
    assert sorted(KINDS.values()) == sorted(candidates.KINDS)


@pytest.mark.parametrize(
    ("printed", "typed", "found"),
    [
        ("com.docker.compose.project=shop,x=1\\nx=2,com.docker.compose.project=blog\\n", "", ["none", "shop", "blog"]),
        ("com.docker.compose.project=shop\\ncom.docker.compose.project=shop\\n", "s", ["shop"]),
        ("my.com.docker.compose.project=no,com.docker.compose.project.working_dir=/no\\n", "", ["none"]),
        ("com.docker.compose.project=a\\033[31m\\n", "a", []),
        ("", "", ["none"]),
    ],
)
def test_compose_projects_come_from_the_labels_of_networks(
    printed: str, typed: str, found: list[str], tmp_path: Path
) -> None:
    """C7: as docker and podman print them, in one list with commas; each once, and nothing that a terminal obeys."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'network ls' ] && printf '{printed}'\n")
    docker.chmod(0o755)
    host = make_host(tmp_path, {"PATH": f"{docker.parent}:/usr/bin:/bin"}, uid=os.getuid())
    assert [value for value, _ in candidates.find_candidates("compose", ["--compose-project", typed], host)] == found


def test_new_command_is_completed_without_a_line_of_its_own(tmp_path: Path) -> None:
    """R-300: by the placeholders in its help alone; the same option may mean something else in another command."""
    flag = Flag(names=("--model",), metavar="CONTAINER", help="what else", choices=())
    new = CommandDoc(
        words=("new", "thing"), summary="do", usage="", arguments=(("ID", "a session"), ("FILE", "a file")),
        groups=(("options", (flag,)),), examples=(), actions=(), repeats=True,
    )  # fmt: skip
    for shell in SHELLS:
        script = tmp_path / shell
        script.write_text(render_completion(shell, (*PAGES, new)).replace("command odek", "_fake"))
        fakes = {
            "bash": '_fake() { printf "%s\\n" "$*"; }',
            "zsh": '_fake() { print -r -- "$*" }',
            "fish": "function _fake; echo $argv; end",
        }
        script.write_text(script.read_text() + fakes[shell] + "\n")
        asked = [offered(shell, script, *words) for words in (("new", "thing", ""), ("new", "thing", "--model", ""))]
        assert [[line.replace("\\ ", " ").split()[1] for line in each] for each in asked] == [
            ["sessions"],
            ["containers"],
        ], shell
