"""Tab in real shells: the values that odek knows on this machine, and what a hostile name can do there."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes.model_server import ModelServer
from support.docker_engine import Engine
from support.odek_process import Odek
from support.recordings import write_recording
from support.scenario import tools_only

from odek.cli.completion import SHELLS

PATIENCE_S = 60.0
HOSTILE = "m$(touch made)`touch made`;touch made"
EVIL_TITLE = "Fix it $(touch made) \x1b]0;evil\x07 `touch made`"

# as a Docker client prints what is asked for; the last network is none that odek would attach
DOCKER = r"""#!/bin/sh
case $1:$* in
network:*compose*) printf 'a=b,com.docker.compose.project=shop,c=d\ncom.docker.compose.project=shop\n'
    printf 'com.docker.compose.project=blog\nx=com.docker.compose.project\n' ;;
network:*) printf 'bridge\nshop_default\nshop_db\nbad;touch made\n' ;;
image:*) printf 'busybox:1.36\t4MB\n<none>:<none>\t1MB\nregistry.local:5000/app:2\t9MB\n' ;;
ps:*) printf 'odek-1-2\tbusybox:1.36\tUp 2 minutes\n' ;;
esac
"""


def shell_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {name} on PATH; Debian: apt-get install {name}")
    return found


def listed(*names: str) -> object:
    """What a server says that has these models."""
    return {"object": "list", "data": [{"id": name} for name in names]}


class Prompt:
    """An interactive shell at a terminal, with `odek` on PATH, which notes how it is called, and its completions."""

    STARTS: Mapping[str, tuple[str, ...]] = {
        "bash": ("--norc", "--noprofile", "-i"),
        "zsh": ("-f", "-i"),
        "fish": ("--no-config", "-i"),
    }
    SETTLES: Mapping[str, str] = {
        "bash": "PS1='ready> '; bind 'set enable-bracketed-paste off'; source {}",
        "zsh": "PS1='ready> '; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; source {}",
        "fish": "function fish_prompt; echo 'ready> '; end; source {}",
    }

    def __init__(self, shell: str, odek: Odek, folder: Path) -> None:
        self._calls = folder / "calls"
        script = folder / f"completion.{shell}"
        script.write_text(odek.run("completion", shell).stdout)
        program = shell_program(shell)
        environment = odek.env() | {"PATH": f"{on_path(odek, folder, self._calls)}:{os.environ['PATH']}"}
        environment |= {"TERM": "xterm", "COLUMNS": "200"}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(odek.cwd)
            os.execvpe(program, [program, *self.STARTS[shell]], environment)
        self.seen = ""
        self.type(self.SETTLES[shell].format(shlex.quote(str(script))) + "\r")
        self.type("odek settled\r")
        self.wait(lambda: ["settled"] in self.calls())

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def calls(self) -> list[list[str]]:
        """the arguments of each call of odek that was not for completion"""
        if not self._calls.exists():
            return []
        calls = [json.loads(line) for line in self._calls.read_text().splitlines()]
        return [call for call in calls if call[0] != "__complete"]

    def wait(self, is_there) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + PATIENCE_S
        while not is_there():
            assert time.monotonic() < deadline, self.seen
            if select.select([self._terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self._terminal, 65536).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._terminal)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


def on_path(odek: Odek, folder: Path, calls: Path) -> Path:
    """Make a folder with `odek` and a `docker`; each call of odek is noted in `calls`, a JSON array a line."""
    made = folder / "bin"
    made.mkdir(exist_ok=True)
    note = "import json,sys; print(json.dumps(sys.argv[1:]))"
    python = shlex.quote(shutil.which("python3") or "python3")
    (made / "odek").write_text(
        f'#!/bin/sh\n{python} -S -c {shlex.quote(note)} "$@" >>{shlex.quote(str(calls))}\n'
        f'case $1 in __complete|models|run) exec {shlex.join(odek.argv)} "$@" ;; esac\n'
    )
    (made / "docker").write_text(DOCKER)
    for program in made.iterdir():
        program.chmod(0o755)
    return made


def asked(odek: Odek, folder: Path, *words: str) -> list[str]:
    path = f"{on_path(odek, folder, folder / 'calls')}:{os.environ['PATH']}"
    done = odek.run("__complete", *words, env={"PATH": path})
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_values_come_from_this_machine(odek: Odek, tmp_path: Path) -> None:
    """C7, R-300: of each kind; names that odek would refuse are not offered, nor what stands in the list already."""
    recording = write_recording(tmp_path / "recording", answer="said")
    assert odek.run("run", "--session", "--no-sandbox", "--base-url", recording, EVIL_TITLE).code == 0
    assert asked(odek, tmp_path, "networks", "run", "shop_") == ["shop_default\t", "shop_db\t"]
    assert asked(odek, tmp_path, "networks", "run", "shop_db,s") == ["shop_db,shop_default\t"]
    assert asked(odek, tmp_path, "compose", "run", "") == ["none\tdrops the one of weaker settings", "shop\t", "blog\t"]
    assert asked(odek, tmp_path, "images", "run", "") == ["busybox:1.36\t4MB", "registry.local:5000/app:2\t9MB"]
    assert asked(odek, tmp_path, "containers", "sandbox", "rm", "o") == ["odek-1-2\tbusybox:1.36 Up 2 minutes"]
    assert [line.partition("\t")[0] for line in asked(odek, tmp_path, "tools", "run", "batch_")] == [
        "batch_read",
        "batch_patch",
    ]
    assert asked(odek, tmp_path, "providers", "run", "mist") == ["mistral\thttps://api.mistral.ai/v1"]
    assert asked(odek, tmp_path, "probes", "run", "tmp.noe") == ["tmp.noexec\tno program runs from /tmp"]
    (session,) = asked(odek, tmp_path, "sessions", "session", "show", "")
    assert re.fullmatch(r"\d{8}-[0-9a-f]{32}\tFix it \$\(touch made\) \\x1b\]0;evil\\x07 `touch made`", session)


def test_what_is_not_known_is_silence(odek: Odek, tmp_path: Path) -> None:
    """R-300: in the middle of a command line an error would be a nuisance; a project's file says nothing."""
    (odek.cwd / "odek.json").write_text('{"model": "of-the-project", "broken": ')
    path = tools_only(tmp_path / "none")  # without docker
    for words in (("unknown", ""), (), ("networks",), ("networks", "run", ""), ("sessions", "run", "")):
        done = odek.run("__complete", *words, env={"PATH": path})
        assert (done.stderr, "none" in done.stdout or not done.stdout) == ("", True), words
    config = odek.home / ".odek"
    config.mkdir(mode=0o700)
    (config / "config.json").write_text("not json")
    done = odek.run("__complete", "models", "run", "")
    assert (done.code, done.stdout, done.stderr) == (1, "", "")


def test_models_are_those_that_were_listed_before(odek: Odek, tmp_path: Path) -> None:
    """R-300: no server is asked when Tab is pressed; those of the server that the line names are offered."""
    with ModelServer(models=listed("gpt-9", "gpt-9-mini")) as server:
        line = ("run", "--base-url", server.base_url, "--model", "gpt")
        assert asked(odek, tmp_path, "models", *line) == []
        assert odek.run("models", "--base-url", server.base_url).code == 0
    assert asked(odek, tmp_path, "models", *line) == ["gpt-9\t", "gpt-9-mini\t"]


def test_engine_is_asked_for_what_it_has(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """C7: with a real client, whose formats and filters these are."""
    found = odek.run("__complete", "images", "run", "--sandbox-image", "").stdout
    names = [line.partition("\t")[0] for line in found.splitlines()]
    assert base_image in [name.removeprefix("localhost/") for name in names]  # podman's names have it
    name = f"odek-test-{os.getpid()}"
    docker_engine.run("network", "create", name)
    try:
        assert odek.run("__complete", "networks", "run", "odek-test-").stdout.split() == [name]
    finally:
        docker_engine.run("network", "rm", name)


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_values(shell: str, odek: Odek, tmp_path: Path) -> None:
    """C7, R-300: in the shell itself, with a colon in the value, after an equals sign, and in a list."""
    recording = write_recording(tmp_path / "recording", answer="said")
    assert odek.run("run", "--session", "--no-sandbox", "--base-url", recording, EVIL_TITLE).code == 0
    with contextlib.closing(Prompt(shell, odek, tmp_path)) as prompt:
        for typed, wanted in (
            ("repl --sandbox-image bus\t", ["repl", "--sandbox-image", "busybox:1.36"]),
            ("repl --sandbox-image busybox:\t", ["repl", "--sandbox-image", "busybox:1.36"]),
            ("repl --sandbox-image=registry.local:5000/a\t", ["repl", "--sandbox-image=registry.local:5000/app:2"]),
            ("repl --sandbox-networks shop_def\t", ["repl", "--sandbox-networks", "shop_default"]),
            ("repl --sandbox-networks shop_default,shop_d\t", ["repl", "--sandbox-networks", "shop_default,shop_db"]),
            ("sandbox image save --image bus\t", ["sandbox", "image", "save", "--image", "busybox:1.36"]),
        ):
            before = len(prompt.calls())
            prompt.type(f"odek {typed}")
            prompt.type("\r")
            prompt.wait(lambda seen=before: len(prompt.calls()) > seen)
            assert prompt.calls()[-1] == wanted
        prompt.type("odek session show 2\t\r")
        prompt.wait(lambda: prompt.calls()[-1][:2] == ["session", "show"])
        assert re.fullmatch(r"\d{8}-[0-9a-f]{32}", prompt.calls()[-1][2])
    assert not (odek.cwd / "made").exists()
    assert "\x1b]0;evil" not in prompt.seen


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_name_is_text(shell: str, odek: Odek, tmp_path: Path) -> None:
    """R-300: a server's name for a model is completed and handed to odek as it is; no part of it is executed."""
    with ModelServer(models=listed(HOSTILE)) as server:
        assert odek.run("models", "--base-url", server.base_url).code == 0
        with contextlib.closing(Prompt(shell, odek, tmp_path)) as prompt:
            prompt.type(f"odek repl --base-url {server.base_url} --model m\t")
            prompt.type("\r")
            prompt.wait(lambda: prompt.calls()[-1][0] == "repl")
            assert prompt.calls()[-1][-1] == HOSTILE
            assert not (odek.cwd / "made").exists()
