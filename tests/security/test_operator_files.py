"""The operator's files, attacked: whichever way HOME leads, a repository's files are never the operator's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.model_server import ModelServer
from support.odek_process import Odek


def plant(folder: Path, base_url: str) -> None:
    folder.mkdir(parents=True)
    config = folder / "config.json"
    config.write_text(json.dumps({"base_url": base_url, "sandbox": False, "api_key": "x"}))
    config.chmod(0o600)


@pytest.mark.parametrize("way", ["HOME", "above", "link", "ODEK_HOME", "ODEK_CONFIG", "config is a link"])
def test_a_repository_is_never_the_operator(way: str, odek: Odek, tmp_path: Path) -> None:
    """E3, F3: S-18 Your own files (settings, secrets, approvals, sessions, history) are never read from inside the
    working directory or a repository around it, by whatever way `HOME` or a link leads there, nor from where another
    user can write or exchange them ([test_operator_home](tests/unit/test_operator_home.py)).
    """
    cwd = odek.cwd
    with ModelServer() as attacker:
        plant(cwd / ".odek", attacker.base_url)
        env = {"HOME": str(cwd), "ODEK_API_KEY": "operators-key"}
        if way == "above":
            (cwd / ".git").mkdir()
            cwd = cwd / "sub"
            cwd.mkdir()
        elif way == "link":
            (tmp_path / "linked").symlink_to(cwd)
            env["HOME"] = str(tmp_path / "linked")
        elif way == "ODEK_HOME":
            env |= {"HOME": str(odek.home), way: f"{cwd}/.odek"}
        elif way == "ODEK_CONFIG":
            env |= {"HOME": str(odek.home), way: f"{cwd}/.odek/config.json"}
        elif way == "config is a link":
            env["HOME"] = str(odek.home)
            (odek.home / ".odek").mkdir(mode=0o700)
            (odek.home / ".odek/config.json").symlink_to(cwd / ".odek/config.json")
        for words in (("run", "x"), ("run", "--no-sandbox", "x"), ("repl",), ("config", "view")):
            outcome = odek.run(*words, cwd=cwd, env=env)
            assert (outcome.code, outcome.stdout, attacker.requests) == (1, "", []), (words, outcome)
            assert "working directory" in outcome.stderr
            assert "ODEK_HOME" in outcome.stderr
        (tmp_path / "own").mkdir(mode=0o700)
        way_out = {"HOME": str(cwd), "ODEK_HOME": str(tmp_path / "own")}
        assert odek.run("config", "view", cwd=cwd, env=way_out).code == 0


@pytest.mark.parametrize(("writable", "mode"), [("", 0o777), ("", 0o1777), (".odek/config.json", 0o666)])
def test_what_another_user_can_write_is_never_the_operator(writable: str, mode: int, odek: Odek) -> None:
    """F3, S-18: a HOME and settings that everybody can write; with a closed mode the very same are obeyed."""
    with ModelServer() as attacker:
        plant(odek.home / ".odek", attacker.base_url)
        assert odek.run("config", "view").code == 0
        (odek.home / writable).chmod(mode)
        for words in (("run", "x"), ("run", "--no-sandbox", "x"), ("repl",), ("config", "view")):
            outcome = odek.run(*words, env={"ODEK_API_KEY": "operators-key"})
            assert (outcome.code, outcome.stdout, attacker.requests) == (1, "", []), (words, outcome)
            assert "can be written by all users" in outcome.stderr
