"""The dialogue of odek setup, with a scripted person and a server: nothing is written without a yes."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import make_host
from fakes.model_server import ModelServer, Step, calls, status, text
from fakes.terminals import Screen

from odek.app.model import look_for_models
from odek.cli.commands.setup import Setup, Stopped
from odek.errors import ConfigError, OdekError

ANSWERS = calls(("report", {"word": "ready"}))
MODELS = {"data": [{"id": "text-embedding"}, {"id": "qwen3"}, {"id": "qwen3-coder"}]}
KEY = "sk-canary-0123456789"


class Script:
    """A person who answers each question as it was written down."""

    def __init__(self, *answers: tuple[str, str | None]) -> None:
        self._answers = list(answers)
        self.hidden: list[str] = []

    def ask_text(self, prompt: str, *, hidden: bool = False) -> str | None:
        assert self._answers, f"an unscripted question: {prompt}"
        wanted, answer = self._answers.pop(0)
        assert wanted in prompt, f"{prompt!r} is asked, not {wanted!r}"
        if hidden:
            self.hidden.append(prompt)
        return answer

    def assert_all_asked(self) -> None:
        assert not self._answers, f"not asked: {self._answers}"


class Desk:
    """One machine with one server on it."""

    def __init__(self, tmp_path: Path, server: ModelServer, env: dict[str, str]) -> None:
        self.host = make_host(tmp_path, env, uid=os.getuid())
        self.folder = tmp_path / "home" / ".odek"
        self.folder.chmod(0o700)
        self.server = server
        self.screen = Screen()

    def run(self, *answers: tuple[str, str | None], local: bool = True) -> None:
        person = Script(*answers)
        places = (("box", self.server.base_url),) if local else ()
        setup = Setup(
            self.host,
            self.screen.terminal,
            person,
            look=lambda base_url: look_for_models(base_url, self.host),
            places=places,
            check_sandbox=False,
        )
        try:
            setup.run()
        finally:
            person.assert_all_asked()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir()) if path.suffix != ".lock"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Any]:
    servers: list[ModelServer] = []

    def make(*script: Step, env: dict[str, str] | None = None, models: object = MODELS) -> Desk:
        servers.append(ModelServer(*script, models=models).__enter__())
        return Desk(tmp_path, servers[-1], env or {})

    yield make
    for server in servers:
        server.__exit__(None, None, None)
        server.assert_all_used()


def test_server_on_this_machine(desk: Any) -> None:
    """R-233: three answers and a yes; the file is private, and a run would ask that server."""
    made = desk(ANSWERS)
    made.run(("Which one", ""), ("Which model? [1]", ""), ("Write this?", "y"))
    assert {name: json.loads(text) for name, text in made.files().items()} == {
        "config.json": {
            "provider": "box",
            "model": "qwen3",
            "providers": {"box": {"base_url": made.server.base_url}},
        }
    }
    assert stat.S_IMODE((made.folder / "config.json").stat().st_mode) == 0o600
    shown = made.screen.stderr
    assert shown.index("answer  in") < shown.index("config.json would be") < shown.index("written")


def test_findings_keep_their_columns_on_a_terminal(desk: Any) -> None:
    """R-233: the escapes of a verdict's color take no columns, so no finding is folded a second time."""
    made = desk(ANSWERS)
    made.host = replace(made.host, stderr_is_terminal=True)
    made.screen = Screen(is_terminal=True)
    made.screen.terminal.configure(env={"TERM": "xterm-256color"}, is_terminal=True)
    made.run(("Which one", ""), ("Which model? [1]", ""), ("Write this?", "y"))
    (shown,) = [line for line in made.screen.stderr.splitlines() if "answer" in line and "ok" in line]
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert plain != shown
    assert re.fullmatch(r"  ok    answer  in \S+ s, with the call of a tool that it was asked for", plain)


@pytest.mark.parametrize("answer", ["", "n", "no", "q", "yes please", None])
def test_nothing_is_written_without_a_yes(answer: str | None, desk: Any) -> None:
    """R-233: Enter, anything else, and Ctrl-C are a no."""
    made = desk(ANSWERS)
    (made.folder / "config.json").write_text('{"model": "before"}')
    (made.folder / "config.json").chmod(0o600)
    with pytest.raises(Stopped):
        made.run(("Which one", "1"), ("Which model", "1"), ("Write this?", answer))
    assert made.files() == {"config.json": '{"model": "before"}'}


@pytest.mark.parametrize("place", range(4))
def test_it_can_be_left_at_each_question(place: int, desk: Any) -> None:
    """R-233"""
    questions: list[tuple[str, str | None]] = [
        ("Which one", "2"), ("Its address", ""), ("Its key", KEY), ("Which model", "1"),
    ]  # fmt: skip
    made = desk()
    questions[1] = ("Its address", made.server.base_url)
    questions[place] = (questions[place][0], None)
    with pytest.raises(Stopped):
        made.run(*questions[: place + 1], local=False)
    assert made.files() == {}


def test_key_is_typed_unseen_and_kept_apart(desk: Any) -> None:
    """R-233: in secrets.env, 0600, not in config.json, not on the screen."""
    made = desk(ANSWERS)
    (made.folder / "secrets.env").write_text("OTHER=1\n")
    (made.folder / "secrets.env").chmod(0o600)
    made.run(
        ("Which one", "2"), ("Its address", made.server.base_url), ("Its key", KEY), ("Which model", "coder"),
        ("Which model", "1"), ("Write this?", "Y"), local=False,
    )  # fmt: skip
    files = made.files()
    assert files["secrets.env"] == f"OTHER=1\nOWN_MODEL_KEY={KEY}\n"
    assert json.loads(files["config.json"]) == {
        "provider": "own",
        "model": "qwen3-coder",
        "providers": {"own": {"base_url": made.server.base_url, "api_key_variable": "OWN_MODEL_KEY"}},
    }
    assert (KEY in files["config.json"], KEY in made.screen.stderr + made.screen.stdout) == (False, False)
    assert stat.S_IMODE((made.folder / "secrets.env").stat().st_mode) == 0o600
    assert {request.headers["authorization"] for request in made.server.requests} == {f"Bearer {KEY}"}


def test_key_that_is_refused_is_the_one_that_was_typed(desk: Any) -> None:
    """R-417: no hint names places where it is not."""
    made = desk(status(401, {"error": {"message": "no"}}), ANSWERS)
    asked = (("Which one", "2"), ("Its address", made.server.base_url), ("Its key", KEY), ("Which model", "1"))
    made.run(*asked, ("Use it all the same?", "n"), *asked, ("Write this?", "y"), local=False)
    assert " ".join(made.screen.stderr.split()).count("refuses the key that you gave: copy it again, whole") == 1
    assert "ODEK_API_KEY" not in made.screen.stderr


def test_model_that_does_not_answer_is_chosen_again(desk: Any) -> None:
    """R-233: the server's words are shown, and nothing was written on the way."""
    broken = status(400, {"error": {"message": "this model is no longer served"}})
    made = desk(broken, text("ready"), ANSWERS)
    made.run(
        ("Which one", "1"), ("Which model", "1"), ("Use it all the same?", "n"),
        ("Which one", "1"), ("Which model", "2"), ("Use it all the same?", ""),
        ("Which one", "1"), ("Which model", "qwen3-coder"), ("Write this?", "y"),
    )  # fmt: skip
    assert "this model is no longer served" in made.screen.stderr
    assert "in place of the call" in made.screen.stderr
    assert json.loads(made.files()["config.json"])["model"] == "qwen3-coder"


def test_old_file_is_kept_and_what_leads_elsewhere_is_named(desk: Any) -> None:
    """R-233"""
    made = desk(ANSWERS)
    before = '{"base_url": "https://old.example/v1", "api_key": "sk-canary", "sandbox_network": "bridge"}'
    (made.folder / "config.json").write_text(before)
    (made.folder / "config.json").chmod(0o600)
    made.run(("Which one", "1"), ("Which model", "1"), ("Write this?", "y"))
    files = made.files()
    assert files["config.json.before-setup"] == before
    assert json.loads(files["config.json"])["sandbox_network"] == "bridge"
    assert "api_key, which is for another server, is taken out" in made.screen.stderr
    assert "canary" not in made.screen.stderr


def test_what_is_stronger_than_the_file_is_named(desk: Any) -> None:
    """R-233: a variable that was forgotten would undo it all."""
    made = desk(ANSWERS, env={"ODEK_MODEL": "forgotten"})
    made.run(("Which one", "1"), ("Which model", "1"), ("Write this?", "y"))
    assert "ODEK_MODEL is stronger than the file: model stays what it says there" in made.screen.stderr


def test_odd_answers_ask_again(desk: Any) -> None:
    """R-233"""
    made = desk(ANSWERS)
    made.run(
        ("Which one", "0"), ("Which one", "x"), ("Which one", "9"), ("Which one", "2"), ("Which provider?", "nosuch"),
        ("Which one", "3"), ("Its address", "gopher://x"), ("Which one", "1"),
        ("Which model", "zzz"), ("Which model", "99"), ("Which model", "1"), ("Write this?", "y"),
    )  # fmt: skip
    assert '"nosuch" is not one of them' in made.screen.stderr


def test_file_elsewhere_is_not_written(desk: Any) -> None:
    """R-233: nor is one that is broken."""
    made = desk(env={"ODEK_CONFIG": "/x.json"})
    with pytest.raises(ConfigError, match="ODEK_CONFIG names the file"):
        made.run()
    other = desk()
    (other.folder / "config.json").write_text("{")
    (other.folder / "config.json").chmod(0o600)
    with pytest.raises(OdekError):
        other.run()
    assert other.files() == {"config.json": "{"}


@pytest.mark.parametrize("keep", [True, False])
def test_key_of_the_environment_is_kept_only_if_that_is_wanted(keep: bool, desk: Any) -> None:
    """R-233: one that secrets.env has already is not asked about."""
    made = desk(ANSWERS, env={"OWN_MODEL_KEY": KEY})
    made.run(
        ("Which one", "2"), ("Its address", made.server.base_url), ("Which model", "1"),
        ("OWN_MODEL_KEY is set in this environment. Keep it", "y" if keep else ""), ("Write this?", "y"), local=False,
    )  # fmt: skip
    files = made.files()
    assert files.get("secrets.env") == (f"OWN_MODEL_KEY={KEY}\n" if keep else None)
    assert json.loads(files["config.json"])["providers"]["own"]["api_key_variable"] == "OWN_MODEL_KEY"
    assert KEY not in made.screen.stderr


def test_key_that_is_in_the_file_already_stays_there(desk: Any) -> None:
    """R-233"""
    made = desk(ANSWERS)
    (made.folder / "secrets.env").write_text(f"OWN_MODEL_KEY={KEY}\n")
    (made.folder / "secrets.env").chmod(0o600)
    made.run(
        ("Which one", "2"), ("Its address", made.server.base_url), ("Which model", "1"), ("Write this?", "y"),
        local=False,
    )  # fmt: skip
    assert made.files()["secrets.env"] == f"OWN_MODEL_KEY={KEY}\n"
    assert {request.headers["authorization"] for request in made.server.requests} == {f"Bearer {KEY}"}
