"""odek setup and odek doctor as processes: from an empty HOME to a first answer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek
from support.pty_session import Talk

MODELS = {"data": [{"id": "qwen3"}]}
READY = calls(("report", {"word": "ready"}))
NO_DOCKER = {"DOCKER_HOST": "unix:///nonexistent/docker.sock", "TERM": "xterm"}
KEY = "sk-canary-0123456789"


def written(odek: Odek) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in (odek.home / ".odek").glob("*.*") if path.is_file()}


def test_first_run_without_a_key_ends_with_an_answer(odek: Odek) -> None:
    """R-233: the run offers it, asks, tries, shows, writes after a yes, looks at the sandbox, and goes on."""
    with (
        ModelServer(READY, text("an answer"), models=MODELS) as server,
        Talk(odek, "run", "--no-sandbox", "explain", env=NO_DOCKER) as talk,
    ):
        talk.see("there is no key for https://api.deepseek.com/v1")
        talk.see("Set a model up now? [y/N]")
        talk.say("y")
        places = talk.see("Which one,")
        number = len([line for line in places.splitlines() if line.strip()[:1].isdigit()])  # the last one
        talk.say(str(number))
        talk.see("Its address")
        talk.say(server.base_url)
        talk.see("Its key")
        talk.say(KEY)
        assert KEY not in talk.see("Which model?")
        talk.say("")
        talk.see("with the call of a tool that it was asked for")
        shown = talk.see("Write this? [y/N]")
        assert (KEY in shown, "OWN_MODEL_KEY=…6789" in shown) == (False, True)
        assert written(odek) == {}
        talk.say("y")
        assert "daemon" in talk.see("Try it in a project")
        code, rest = talk.end()
    server.assert_all_used()
    assert (code, "an answer" in rest) == (0, True)
    assert written(odek) == {"config.json": 0o600, "secrets.env": 0o600}
    assert json.loads((odek.home / ".odek/config.json").read_text())["model"] == "qwen3"


@pytest.mark.parametrize("leave", ["n", "\x03"])
def test_offer_that_is_refused_leaves_the_error(leave: str, odek: Odek) -> None:
    """R-233"""
    with Talk(odek, "run", "--no-sandbox", "explain", env=NO_DOCKER) as talk:
        talk.see("Set a model up now? [y/N]")
        talk.type(leave if leave == "\x03" else f"{leave}\r")
        code, rest = talk.end()
    assert (code, written(odek)) == (130 if leave == "\x03" else 1, {})
    assert leave == "\x03" or "there is no key for" in rest


def test_nothing_is_asked_without_a_terminal(odek: Odek) -> None:
    """R-233: a script gets the error that it always got."""
    assert "set DEEPSEEK_API_KEY" in odek.run("run", "--no-sandbox", "explain").stderr
    refused = odek.run("setup")
    assert (refused.code, "there is no terminal" in refused.stderr) == (2, True)


def test_setup_ends_with_a_signal_and_leaves_nothing(odek: Odek) -> None:
    """R-233: the echo is back as well, which `ask_text` sees to."""
    with Talk(odek, "setup", env=NO_DOCKER) as talk:
        talk.see("Which one,")
        os.kill(talk.pid, signal.SIGTERM)
        code, _ = talk.end()
    assert (code, written(odek)) == (143, {})


def test_doctor_looks_at_everything_and_asks_nothing(odek: Odek, tmp_path: Path) -> None:
    """R-233: each finding by its name; `setup --check` is the same; the exit code says whether one failed."""
    with ModelServer(READY, READY, models=MODELS) as server:
        folder = odek.home / ".odek"
        folder.mkdir(mode=0o700)
        (folder / "config.json").write_text(json.dumps({"base_url": server.base_url, "model": "qwen3"}))
        (folder / "config.json").chmod(0o600)
        found = odek.run("doctor", "--json", env=NO_DOCKER)
        again = odek.run("setup", "--check", env=NO_DOCKER)
    server.assert_all_used()
    verdicts = {check["name"]: check["verdict"] for check in json.loads(found.stdout)}
    assert list(verdicts)[:7] == ["odek", "terminal", "model", "route", "CA", "server", "answer"]
    assert {verdicts[name] for name in list(verdicts)[:7]} == {"ok"}
    assert (found.code, again.code) == (1, 1)  # no Docker, and so no sandbox
    assert "answer" in again.stdout
    broken = odek.run("doctor", env={**NO_DOCKER, "ODEK_SANDBOX": "maybe"})
    assert (broken.code, "settings" in broken.stdout) == (1, True)
