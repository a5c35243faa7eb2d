"""Which values are secret in a session, and that no tool lets one out (F-50, B15)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.layering import make_host, make_layers

from odek.app.secrets import collect_secrets
from odek.config.resolve import resolve
from odek.model.types import ToolCall, ToolSpec
from odek.redact import Redactor
from odek.tools.registry import RedactedToolbox, Toolbox, ToolResult, failure

CALL = ToolCall(id="1", name="say", arguments="{}")


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


class Say:
    """A tool that answers with what a test gives it."""

    def __init__(self, result: ToolResult | Exception) -> None:
        self._result = result
        self.spec = ToolSpec(name="say", description="", parameters={"type": "object", "properties": {}})

    def call(self, _: object) -> ToolResult:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def test_results_errors_and_bugs_go_through_the_redactor() -> None:
    """F-50: every channel, not just the one of success."""
    redact = Redactor(("hunter2hunter2",))
    told = []
    for result in (ToolResult(text="x hunter2hunter2"), failure("no hunter2hunter2"), ValueError("hunter2hunter2")):
        toolbox = RedactedToolbox(Toolbox((Say(result),)), redact)
        outcome = toolbox.call(CALL)
        assert outcome == toolbox.prepare(CALL)()
        told.append((outcome.text, outcome.failed))
    assert told == [
        ("x [REDACTED]", False),
        ('{"error":"no [REDACTED]"}', True),
        ('{"error":"bug in tool say: ValueError: [REDACTED]"}', True),
    ]


def test_toolbox_behind_the_redactor_is_the_same() -> None:
    inner = Toolbox((Say(ToolResult(text="")),))
    outer = RedactedToolbox(inner, str)
    assert (outer.specs, outer.is_parallel(CALL)) == (inner.specs, inner.is_parallel(CALL))
