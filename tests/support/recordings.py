"""Recordings for the replay model: a scripted model without a server."""

from __future__ import annotations

import json
from pathlib import Path

from support.odek_process import Odek


def write_recording(path: Path, *commands: str, answer: str = "done", expect: str = "") -> str:
    """Write a model that runs `commands` one by one and then answers; return it as a base URL.

    With `expect`, the run fails unless that text is in what the last command returned.
    """
    lines: list[dict[str, object]] = [{"odek_replay": 1}]
    lines += [{"tool_calls": [{"name": "shell", "arguments": {"command": command}}]} for command in commands]
    lines.append({"content": answer, "expect": [expect] if expect else []})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"replay:{path}"


def allow_everything(odek: Odek) -> None:
    """Write the settings of an operator who allows every command."""
    settings = odek.home / ".odek" / "config.json"
    settings.parent.mkdir(mode=0o700)
    settings.write_text('{"dangerous": {"action": "allow"}}')
    settings.chmod(0o600)
