"""Commands, flags and files: what is refused and how, and that a refusal costs nothing (R-80, R-13, R-18 to R-20)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.odek_process import Odek, program_kind
from support.recordings import write_recording

from odek.cli.main import COMMANDS
from odek.config.options import ProjectRule
from odek.config.settings import OPTIONS, flag_options

SESSION_HINT = (
    "one of: list, show, export, receipts, verify, trim, delete, cleanup; `odek session --help` explains them"
)
CONFIG_HINT = "one of: view, schema; `odek config --help` explains them"
KEYLESS = {"ODEK_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.fixture
def docker_log(odek: Odek, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A docker client that does nothing but write down that it was called, and the PATH that has it."""
    shim, log = tmp_path / "shim", tmp_path / "docker-calls"
    shim.mkdir()
    (shim / "docker").write_text(f'#!/bin/sh\necho "$@" >>{log}\nexit 1\n')
    (shim / "docker").chmod(0o755)
    return log, {"PATH": f"{shim}:{os.environ['PATH']}"}


def test_task_in_quotes_is_a_run(odek: Odek, tmp_path: Path) -> None:
    """C8, R-301: with its options, as after the command."""
    recording = write_recording(tmp_path / "recording", answer="fixed")
    done = odek.run("fix it", "--no-sandbox", "--base-url", recording)
    assert (done.code, done.stdout) == (0, "fixed\n")


def test_session_without_a_reply_is_not_offered(odek: Odek, tmp_path: Path) -> None:
    """C12: what failed before the model said anything is nothing to go on with."""
    (tmp_path / "empty").write_text('{"odek_replay": 1}\n')
    for recording, offered in ((f"replay:{tmp_path / 'empty'}", False), (write_recording(tmp_path / "one"), True)):
        done = odek.run("run", "--session", "--no-sandbox", "--base-url", recording, "fix it")
        assert ("go on with: odek continue" in done.stderr) == offered


def test_actions_of_a_group_have_a_help_of_their_own(odek: Odek) -> None:
    """C11."""
    shown = odek.run("sandbox", "image", "--help").stdout
    assert shown.startswith("usage: odek sandbox image ACTION")
    assert ("  save " in shown, "prune" in shown) == (True, False)
    assert odek.run("help", "sandbox", "image").stdout == shown


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("rnu", "x"), 'unknown command "rnu"', 'did you mean "run"?'),
        (("\x1b[2J",), 'unknown command "\\x1b[2J"', "`odek --help` lists the commands"),
        (("danger", "rm -rf /"), '"rm -rf /" is not an action of odek danger', "odek danger explain …"),
        (("login",), 'unknown command "login"', "`odek setup`"),
        (("sandbox", "image"), "say what to do: odek sandbox image ACTION", "one of: bootstrap, save, load"),
        (("run",), "no task provided", 'say what to do: odek run "explain this project"'),
        (("run", " \n"), "no task provided", 'say what to do: odek run "explain this project"'),
        (("run", "--sandbox-netwrok", "none", "x"), "unrecognized arguments: --sandbox-netwrok", "--sandbox-network?"),
        (("run", "x", "--no-sand"), "unrecognized arguments: --no-sand", "did you mean --no-sandbox?"),
        (("run", "--sandbox-net=none", "x"), "unrecognized arguments: --sandbox-net=none", "did you mean"),
        (("run", "--sandbox-env", "A=1", "x"), "unrecognized arguments: --sandbox-env", "has no flag; set it in"),
        (("run", "--sandbox-memory"), "argument --sandbox-memory: expected one argument", "`odek run --help`"),
        (("run", "--sandbox=no", "x"), "argument --sandbox: ignored explicit argument 'no'", "`odek run --help`"),
        (("config",), "say what to do: odek config ACTION", CONFIG_HINT),
        (("config", "veiw"), '"veiw" is not an action of odek config', "did you mean `odek config view`?"),
        (("session",), "say what to do: odek session ACTION", SESSION_HINT),
        (("session", "lst"), '"lst" is not an action of odek session', "did you mean `odek session list`?"),
        (("session", "trim", "1"), "the following arguments are required: N", "`odek session trim --help`"),
        (("session", "delete"), "the following arguments are required: ID", "`odek session delete --help`"),
        (("run", "-"), "the task on stdin is empty", "find out why the command before the pipe prints nothing"),
        (("config", "view", "--jsn"), "unrecognized arguments: --jsn", "did you mean --json?"),
        (("init", "--gloabl"), "unrecognized arguments: --gloabl", "did you mean --global?"),
        (("version", "--jso"), "unrecognized arguments: --jso", "did you mean --json?"),
        (("demo", "now"), "unrecognized arguments: now", "`odek demo --help` lists the options"),
        (("sandbox",), "say what to do: odek sandbox ACTION", "`odek sandbox --help` explains them"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], error: str, hint: str, odek: Odek, docker_log: tuple[Path, dict[str, str]]
) -> None:
    """R-80, F-25: unknown, misspelt and abbreviated flags are errors; nothing is started for them."""
    log, env = docker_log
    outcome = odek.run(*arguments, env={**env, **KEYLESS})
    first, second = outcome.stderr.splitlines()
    assert (outcome.code, outcome.stdout, first) == (2, "", f"odek: error: {error}")
    assert (second.startswith("odek: hint: "), hint in second, log.exists()) == (True, True, False), second


@pytest.mark.once
@pytest.mark.parametrize(
    "flags",
    [
        ("--max-iter", "abc"), ("--max-iter", "0"), ("--temperature", "3"), ("--temperature", "nan"),
        ("--sandbox-memory=",), ("--thinking", "hard"), ("--interaction-mode", "loud"), ("--base-url", "ftp://x/v1"),
        ("--base-url", "http://192.0.2.1/v1"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_value_is_refused_before_docker_is_asked(
    flags: tuple[str, ...], odek: Odek, docker_log: tuple[Path, dict[str, str]]
) -> None:
    """R-13, F-27: a bad number or word is an error that names the flag."""
    log, env = docker_log
    outcome = odek.run("run", *flags, "x", env={**env, **KEYLESS, "ODEK_API_KEY": "k"})
    assert (outcome.code, outcome.stdout, log.exists()) == (1, "", False), outcome.stderr
    assert outcome.stderr.startswith("odek: error: ")


@pytest.mark.once
def test_missing_key_stops_before_docker_is_asked(odek: Odek, docker_log: tuple[Path, dict[str, str]]) -> None:
    """F-20: no container, no wait, for a run that cannot work."""
    log, env = docker_log
    outcome = odek.run("run", "x", env=env)
    first, hint = outcome.stderr.splitlines()
    assert (outcome.code, log.exists()) == (1, False)
    assert first.startswith("odek: error: there is no key for https://")
    assert "ODEK_API_KEY" in hint


@pytest.mark.once
@pytest.mark.parametrize(
    ("place", "content", "said"),
    [
        ("odek.json", "{", "./odek.json"),
        ("odek.json", '{"model": 1}', "./odek.json: model"),
        ("odek.json", '{"model": "a", "model": "b"}', '"model"'),
        ("odek.json", '{"sandbox_netwrok": "none"}', '"sandbox_network"'),
        ("home", "[]", "~/.odek/config.json"),
        ("home", '{"sandbox": "yes"}', "~/.odek/config.json: sandbox"),
        ("home", '{"dangerous": {"action": "alow"}}', "~/.odek/config.json: dangerous"),
    ],
)
def test_file_that_cannot_be_used_stops(
    place: str, content: str, said: str, odek: Odek, docker_log: tuple[Path, dict[str, str]]
) -> None:
    """R-13: file, key and reason; never a guess."""
    log, env = docker_log
    path = odek.cwd / "odek.json"
    if place == "home":
        (odek.home / ".odek").mkdir(mode=0o700)
        path = odek.home / ".odek" / "config.json"
    path.write_text(content)
    outcome = odek.run("run", "x", env={**env, **KEYLESS})
    assert (outcome.code, said in outcome.stderr, log.exists()) == (1, True, False), outcome.stderr


@pytest.mark.parametrize(("command", "flag"), [*((command, "--help") for command in COMMANDS), ("run", "-h")])
def test_help_of_every_command(command: str, flag: str, odek: Odek) -> None:
    """R-80: on stdout, and nothing else happens."""
    outcome = odek.run(command, flag, env={"PATH": f"/usr/bin:/bin:{os.environ['PATH']}"})
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"usage: odek {command}")
    assert list(odek.cwd.iterdir()) == []


@pytest.mark.once
def test_help_of_run_lists_every_flag_of_the_table(odek: Odek) -> None:
    """R-12, R-11."""
    shown = odek.run("run", "--help").stdout.split()
    wanted = {option.flag for option in flag_options("run")}
    assert wanted - set(shown) == set()
    assert len(wanted) > 20


def test_overview_names_every_command(odek: Odek) -> None:
    """R-80."""
    overview, nothing = odek.run("--help"), odek.run()
    assert (overview.code, nothing.code, overview.stdout) == (0, 2, nothing.stdout)
    for command in COMMANDS:
        assert f"\n  {command} " in overview.stdout


def test_version_for_a_bug_report(odek: Odek) -> None:
    facts = json.loads(odek.run("version", "--json").stdout)
    assert facts["kind"] == program_kind()


@pytest.mark.once
def test_view_shows_what_is_in_force_with_its_source_and_no_secret(odek: Odek) -> None:
    """R-19: values, sources, and of secrets only whether they are there."""
    (odek.home / ".odek").mkdir(mode=0o700)
    operator = {"api_key": "sk-canary", "sandbox_env": {"PASSWORD": "canary-value"}, "sandbox_memory": "2g"}
    (odek.home / ".odek" / "config.json").write_text(json.dumps(operator))
    (odek.cwd / "odek.json").write_text(json.dumps({"sandbox_memory": "1g", "base_url": "http://evil.example/v1"}))
    env = {"ODEK_SANDBOX_PIDS_LIMIT": "77"}
    shown, table = odek.run("config", "view", "--json", env=env), odek.run("config", "view", env=env)
    assert (shown.code, table.code) == (0, 0), shown.stderr
    everything = shown.stdout + shown.stderr + table.stdout + table.stderr
    assert ("canary" in everything, "PASSWORD" in shown.stdout, "evil.example" in shown.stdout) == (False, True, False)
    assert "base_url" in shown.stderr
    assert '"sandbox_memory"' in shown.stdout
    assert ("./odek.json" in table.stdout, "ODEK_SANDBOX_PIDS_LIMIT" in table.stdout) == (True, True)


@pytest.mark.parametrize("flags", [(), ("--global",)], ids=["project", "global"])
def test_schema_is_json_and_knows_the_keys(flags: tuple[str, ...], odek: Odek) -> None:
    """R-20."""
    outcome = odek.run("config", "schema", *flags)
    schema = json.loads(outcome.stdout)
    assert (outcome.code, outcome.stderr) == (0, "")
    own = {option.key for option in OPTIONS if option.project is ProjectRule.FORBIDDEN and not flags}  # the operator's
    keys = {option.key for option in OPTIONS if option.key.startswith("sandbox") and option.in_file}
    assert keys - set(schema["properties"]) == keys & own


@pytest.mark.once
def test_init_writes_a_file_that_loads_in_silence(odek: Odek) -> None:
    """R-18: the project's file needs no approval and gives no warning; nothing is overwritten without --force."""
    written, again = odek.run("init"), odek.run("init")
    path = odek.cwd / "odek.json"
    text = path.read_text()
    assert (written.code, again.code, path.read_text()) == (0, 1, text), written.stderr
    assert "exists already" in again.stderr
    view = odek.run("config", "view")
    assert (view.code, view.stderr) == (0, "")
    path.write_text("{}")
    assert odek.run("init", "--force").code == 0
    assert path.read_text() == text


@pytest.mark.once
def test_init_global_writes_the_operators_file(odek: Odek) -> None:
    """R-18: private, in a private folder; it loads in silence, too."""
    outcome = odek.run("init", "--global")
    path = odek.home / ".odek" / "config.json"
    assert outcome.code == 0, outcome.stderr
    assert [oct(place.stat().st_mode & 0o777) for place in (path, path.parent)] == ["0o600", "0o700"]
    view = odek.run("config", "view")
    assert (view.code, view.stderr) == (0, "")


@pytest.mark.once
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "--force"])
def test_init_follows_no_link(force: tuple[str, ...], odek: Odek, tmp_path: Path) -> None:
    """S-4, R-92, R-363: a link that a project left in place of its file does not lead out; --force takes its place."""
    (tmp_path / "precious").write_text("keep")
    (odek.cwd / "odek.json").symlink_to(tmp_path / "precious")
    outcome = odek.run("init", *force)
    assert (outcome.code, (tmp_path / "precious").read_text()) == (0 if force else 1, "keep"), outcome.stderr
    assert (odek.cwd / "odek.json").is_symlink() == (not force)
    assert "internal error" not in outcome.stderr


def test_working_directory_that_is_gone(odek: Odek) -> None:
    """One sentence, no traceback."""
    gone = odek.cwd / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *odek.argv, "config", "view"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=gone, env=odek.env(), timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (
        1,
        [
            "odek: error: the working directory cannot be read: No such file or directory",
            "odek: hint: change into a directory that exists",
        ],
    )
