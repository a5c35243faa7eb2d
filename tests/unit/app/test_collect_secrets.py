"""Which values are secret in a session (F-50, B15)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.layering import make_host, make_layers

from odek.app.config import collect_secrets
from odek.app.workspace import MaskedSecrets
from odek.config.resolve import resolve
from odek.events import Notice


def test_key_environment_sandbox_env_and_file_are_known(tmp_path: Path) -> None:
    env = {
        "GITHUB_TOKEN": "from-the-host",
        "PATH": "/bin",
        "LOGIN": "named-by-a-project",
        "ODEK_API_KEY": "the-api-key",
    }
    host = make_host(tmp_path, env, uid=tmp_path.stat().st_uid)
    secrets = tmp_path / "home" / ".odek" / "secrets.env"
    secrets.write_text("DEPLOY=any-name-will-do\nODEK_MODEL=a-model\n")
    secrets.chmod(0o600)
    layers = make_layers(
        operator={"sandbox_env": {"DB_PASS": "operators-own", "PLAIN": "not-a-secret"}},
        project={"sandbox_env": {"MY_SECRET": "${LOGIN}"}},
        env=env,
    )
    found = collect_secrets(resolve(layers), host)
    assert found == {
        "${LOGIN}": "MY_SECRET in sandbox_env",
        "any-name-will-do": "DEPLOY in ~/.odek/secrets.env",
        "from-the-host": "GITHUB_TOKEN",
        "named-by-a-project": "LOGIN",
        "operators-own": "DB_PASS in sandbox_env",
        "the-api-key": "ODEK_API_KEY",
    }
    assert set(collect_secrets(resolve(layers), replace(host, home=""))) == set(found) - {"any-name-will-do"}


def test_variable_of_a_secret_in_files_is_named_once() -> None:
    """A27: from whichever thread, and not again for another file."""
    masked = MaskedSecrets()
    masked.found("DB_PASSWORD", "a\x1b.py")
    masked.found("DB_PASSWORD", "b.py")
    notice = Notice(
        "the value of DB_PASSWORD occurs in a\\x1b.py; the model sees [REDACTED] there, and cannot change such a line"
    )
    assert (masked.take(), masked.take()) == ((notice,), ())
    masked.found("DB_PASSWORD", "c.py")
    assert masked.take() == ()


def test_keys_of_every_provider_are_known(tmp_path: Path) -> None:
    """R-231: also of those that are not in use; `/model` may lead there."""
    env = {"PLAIN": "by-reference", "WORK_KEY": "by-name"}
    host = make_host(tmp_path, env, uid=tmp_path.stat().st_uid)
    providers = {
        "a": {"base_url": "https://a.example/v1", "api_key": "written-down"},
        "b": {"base_url": "https://b.example/v1", "api_key": "${PLAIN}"},
        "c": {"base_url": "https://c.example/v1", "api_key_variable": "WORK_KEY"},
    }
    found = collect_secrets(resolve(make_layers(operator={"providers": providers}, env=env)), host)
    assert {"written-down", "by-reference", "by-name"} <= found.keys()
    assert "${PLAIN}" not in found
