"""Which values are secret in a session (F-50, B15)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.layering import make_host, make_layers

from odek.app.config import collect_secrets
from odek.config.resolve import resolve


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
    assert sorted(set(found)) == [
        "${LOGIN}",
        "any-name-will-do",
        "from-the-host",
        "named-by-a-project",
        "operators-own",
        "the-api-key",
    ]
    assert set(collect_secrets(resolve(layers), replace(host, home=""))) == set(found) - {"any-name-will-do"}
