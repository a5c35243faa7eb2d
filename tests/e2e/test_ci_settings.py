"""Settings without a HOME, as CI has them: from variables and flags of the operator, and from no project (D10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek

HOST = ("run", "--no-sandbox")
CODE = 'python3 -c \'open("made", "w")\''


def write_config(file: Path, **settings: object) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings))
    file.chmod(0o600)
    return str(file)


def test_every_setting_shows_with_its_source_and_no_project_has_a_say(odek: Odek, tmp_path: Path) -> None:
    """D10, R-294, R-295, R-19."""
    (odek.cwd / "odek.json").write_text(
        '{"allow": ["destructive"], "allow_http": ["evil.lan"], "odek_home": "/", "odek_config": "/x", "model": "m"}'
    )
    config = write_config(tmp_path / "ci" / "odek.json", max_iterations=7)
    env = {
        "HOME": "",
        "ODEK_HOME": str(tmp_path / "state"),
        "ODEK_CONFIG": config,
        "ODEK_ALLOW": "install,code_execution",
        "ODEK_ALLOW_HTTP": "Model.LAN,10.0.0.7:8080",
    }
    outcome = odek.run("config", "view", "--json", env=env)
    assert outcome.code == 0, outcome.stderr
    shown = json.loads(outcome.stdout)
    wanted = {
        "odek_home": (str(tmp_path / "state"), "ODEK_HOME"),
        "odek_config": (config, "ODEK_CONFIG"),
        "allow": (["install", "code_execution"], "ODEK_ALLOW"),
        "allow_http": (["model.lan", "10.0.0.7:8080"], "ODEK_ALLOW_HTTP"),
    }
    for key, (value, origin) in wanted.items():
        assert shown[key] == {"value": value, "source": "environment", "origin": origin}
    assert shown["max_iterations"] == {"value": 7, "source": "global", "origin": config}
    assert shown["model"]["origin"] == "./odek.json", "the project was read"
    usual = json.loads(odek.run("config", "view", "--json").stdout)
    home = str(odek.home / ".odek")
    assert usual["odek_home"] == {"value": home, "source": "default", "origin": "HOME"}
    assert usual["odek_config"] == {"value": f"{home}/config.json", "source": "default", "origin": "HOME"}
    assert (usual["allow"]["value"], usual["allow_http"]["value"]) == ([], [])
    people = odek.run("config", "view", env=env).stdout
    assert [name for name in ("ODEK_HOME", "ODEK_CONFIG", "ODEK_ALLOW", "ODEK_ALLOW_HTTP") if name not in people] == []


@pytest.mark.parametrize(
    ("flags", "env", "command", "runs"),
    [
        ((), {}, CODE, False),
        (("--allow", "code_execution"), {}, CODE, True),
        (("--allow", "install,code_execution"), {}, CODE, True),
        (("--allow", "install", "--allow", "code_execution"), {}, CODE, True),
        ((), {"ODEK_ALLOW": "code_execution"}, CODE, True),
        (("--allow", "install"), {"ODEK_ALLOW": "code_execution"}, CODE, False),
        (("--allow", "destructive,unknown,code_execution"), {}, f"{CODE}; forbidden x", False),
    ],
)
def test_class_that_is_allowed_for_this_run(
    flags: tuple[str, ...], env: dict[str, str], command: str, runs: bool, odek: Odek
) -> None:
    """R-294, D10: that class and no other; what is never allowed stays refused, and so does the denylist."""
    write_config(odek.home / ".odek" / "config.json", dangerous={"denylist": ["forbidden"]})
    (odek.home / ".odek").chmod(0o700)
    with ModelServer(calls(("shell", {"command": command})), text("done")) as server:
        outcome = odek.run(*HOST, "--base-url", server.base_url, *flags, "--fail-on-refused", "x", env=env)
    assert (outcome.code, (odek.cwd / "made").exists()) == ((0, True) if runs else (5, False)), outcome.stderr


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("blocked", '--allow: "blocked" can only be denied'),
        ("install,blocked", '--allow: "blocked" can only be denied'),
        ("everything", '--allow: "everything" is not a class of danger'),
        ("unread_exec", '--allow: "unread_exec" is not a class of danger'),
        ("", "--allow is empty"),
        ("install", "--allow allows install, which the settings deny (dangerous.classes)"),
        ("persistence", "--allow allows persistence, which the settings deny (dangerous.classes)"),
    ],
)
def test_class_that_cannot_be_allowed_stops_the_run(flag: str, error: str, odek: Odek) -> None:
    """R-294: the stricter one of two words of the operator is not overruled in silence."""
    classes = {"classes": {"install": "deny"}, "sandboxed": {"classes": {"persistence": "deny"}}}
    write_config(odek.home / ".odek" / "config.json", dangerous=classes)
    (odek.home / ".odek").chmod(0o700)
    outcome = odek.run(*HOST, "--base-url", "http://127.0.0.1:1/v1", "--allow", flag, "x")
    assert (outcome.code, outcome.stderr.splitlines()[0]) == (1, f"odek: error: {error}")


@pytest.mark.parametrize("sandboxed", [{}, {"sandboxed": {"action": "prompt"}}], ids=["one policy", "two"])
def test_allowed_class_counts_in_both_places(sandboxed: dict[str, object], odek: Odek) -> None:
    """R-294, D-6: what the sandbox has of its own included."""
    write_config(odek.home / ".odek" / "config.json", dangerous=sandboxed)
    (odek.home / ".odek").chmod(0o700)
    explain = ("danger", "explain", "--json", "rm -rf ~/x && make", "--sandbox-network", "none")
    before, after = (json.loads(odek.run(*explain, *more).stdout) for more in ((), ("--allow", "destructive")))
    actions = [[place["actions"][where] for where in ("host", "sandbox")] for place in (before, after)]
    assert "allow" not in actions[0][:1]
    assert actions[1][1] == "allow" or sandboxed


@pytest.mark.parametrize(
    ("allowed", "url", "code"),
    [
        ("", "http://model.invalid/v1", "settings"),
        ("other.invalid", "http://model.invalid/v1", "settings"),
        ("invalid", "http://model.invalid/v1", "settings"),
        ("model.invalid:81", "http://model.invalid/v1", "settings"),
        ("model.invalid", "http://model.invalid.example/v1", "settings"),
        ("model.invalid", "http://model.invalid@evil.invalid/v1", "settings"),
        ("model.invalid", "http://MODEL.invalid:8080/v1", "model_unreachable"),
        ("x.invalid,MODEL.invalid:8080", "http://model.invalid:8080/v1", "model_unreachable"),
        ("model.invalid:80", "http://model.invalid./v1", "model_unreachable"),
    ],
)
def test_plain_http_to_a_host_that_is_named(allowed: str, url: str, code: str, odek: Odek) -> None:
    """R-295, D10: to that host, and to no other one."""
    env = {"ODEK_ALLOW_HTTP": allowed} if allowed else {}
    limit = ("--max-runtime", "1") if code == "model_unreachable" else ()
    outcome = odek.run(*HOST, "--json", "--base-url", url, *limit, "x", env={**env, "ODEK_API_KEY": "k"})
    error = json.loads(outcome.stdout.splitlines()[-1])
    assert error["code"] in ((code, "budget") if limit else (code,)), error
    assert ("unencrypted" in error["message"] or "user or a password" in error["message"]) == (code == "settings")


@pytest.mark.parametrize(
    "host", ["http://model.lan", "model.lan/v1", "*.lan", "a b", "user@model.lan", "[::1", ",,", ""]
)
def test_what_is_not_a_host_is_refused(host: str, odek: Odek) -> None:
    """R-295."""
    outcome = odek.run("config", "view", env={"ODEK_ALLOW_HTTP": host})
    assert outcome.code == 1
    assert outcome.stderr.startswith("odek: error: ")
    assert "ODEK_ALLOW_HTTP" in outcome.stderr.splitlines()[0]
