"""What `odek sandbox image load` does with the operator's settings: nothing without a yes or --set."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.layering import make_host
from fakes.terminals import Screen

from odek.cli.commands.sandbox_images import load, offer_setting
from odek.errors import ConfigError, OdekError, UsageError
from odek.host import Host

ID = f"sha256:{'ab' * 32}"
OTHER = f"sha256:{'cd' * 32}"


class Person:
    """Gives one answer, and keeps what was asked."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def ask_text(self, prompt: str, *, hidden: bool = False) -> str | None:
        assert not hidden
        self.asked.append(prompt)
        return self._answer


def desk(tmp_path: Path, settings: str | None, env: dict[str, str] | None = None) -> tuple[Host, Path, Screen]:
    host = make_host(tmp_path, env or {}, uid=os.getuid())
    folder = tmp_path / "home" / ".odek"
    folder.chmod(0o700)
    if settings is not None:
        (folder / "config.json").write_text(settings)
        (folder / "config.json").chmod(0o600)
    return host, folder, Screen()


@pytest.mark.parametrize(
    ("settings", "question"),
    [
        (None, "for every run?"),
        ('{"model": "m"}', "for every run?"),
        (json.dumps({"sandbox_image": OTHER, "model": "é"}), f"instead of {OTHER}, for every run?"),
    ],
)
@pytest.mark.parametrize("answer", ["y", "YES", "n", "", None, "--set"])
def test_image_is_written_after_a_yes(answer: str | None, settings: str | None, question: str, tmp_path: Path) -> None:
    """D8: load offers to write it; the other settings stay, and so does the old file."""
    host, folder, screen = desk(tmp_path, settings)
    person = Person(answer)
    offer_setting(ID, host, screen.terminal, person, at_once=answer == "--set")
    assert ([question in asked for asked in person.asked]) == ([] if answer == "--set" else [True])
    written = folder / "config.json"
    kept = folder / "config.json.before-load"
    if answer not in ("y", "YES", "--set"):
        assert (written.read_text() if written.exists() else None) == settings
        assert not kept.exists()
        assert f"use it with --sandbox-image {ID}" in screen.stderr
        return
    assert json.loads(written.read_text()) == {**json.loads(settings or "{}"), "sandbox_image": ID}
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert (kept.read_text() if kept.exists() else None) == settings


def test_nothing_is_written_where_it_cannot_be_asked_about(tmp_path: Path) -> None:
    """D8: without a terminal it says what to do."""
    host, folder, screen = desk(tmp_path, "{}")
    offer_setting(ID, host, screen.terminal, None, at_once=False)
    assert (folder / "config.json").read_text() == "{}"
    assert "with --set" in screen.stderr


def test_image_that_is_set_already_is_not_asked_about(tmp_path: Path) -> None:
    """D8: and a stronger source is named when it is written."""
    host, _, screen = desk(tmp_path, "{}", {"ODEK_SANDBOX_IMAGE": "x"})
    person = Person("y")
    offer_setting(ID, host, screen.terminal, person, at_once=False)
    offer_setting(ID, host, screen.terminal, person, at_once=False)
    assert len(person.asked) == 1
    assert "ODEK_SANDBOX_IMAGE is set, which is stronger" in screen.stderr
    assert "already" in screen.stderr


@pytest.mark.parametrize("spoilt", ["ODEK_CONFIG", "broken", "no home"])
def test_set_that_cannot_be_kept_is_refused_before_anything_is_loaded(spoilt: str, tmp_path: Path) -> None:
    """R-377, D8: Docker is not even looked for, and the file need not be there."""
    host, _, screen = desk(tmp_path, '{"model": ' if spoilt == "broken" else "{}")
    if spoilt == "ODEK_CONFIG":
        host = replace(host, env={**host.env, "ODEK_CONFIG": str(tmp_path / "ci.json")})
    elif spoilt == "no home":
        host = replace(host, home="")
    with pytest.raises(OdekError, match={"ODEK_CONFIG": "ODEK_CONFIG", "broken": "config.json"}.get(spoilt, "no home")):
        load(["image.tar", "--set"], host, screen.terminal)


def test_settings_that_cannot_be_read_stay(tmp_path: Path) -> None:
    """D8: a mistake in it is the operator's to correct, and fails an offer but no load; so does ODEK_CONFIG."""
    host, folder, screen = desk(tmp_path, '{"model": ')
    with pytest.raises(ConfigError):
        offer_setting(ID, host, screen.terminal, None, at_once=True)
    offer_setting(ID, host, screen.terminal, Person("y"), at_once=False)
    assert "cannot be offered" in screen.stderr
    assert (folder / "config.json").read_text() == '{"model": '
    named = replace(host, env={**host.env, "ODEK_CONFIG": str(tmp_path / "ci.json")})
    with pytest.raises(UsageError, match="ODEK_CONFIG"):
        offer_setting(ID, named, screen.terminal, None, at_once=True)
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".json") == ["config.json"]
