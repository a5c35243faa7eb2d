"""A recorded model that asks for one command, and an operator who allows every command."""

from __future__ import annotations

import json
from pathlib import Path

from program import Odek


def record(folder: Path, command: str) -> str:
    """Write a recording of a model that asks for `command` and then answers; return the flag's value."""
    steps = [
        {"odek_replay": 1},
        {"content": "", "tool_calls": [{"name": "shell", "arguments": {"command": command}}]},
        {"content": "the answer"},
    ]
    path = folder / "recording.jsonl"
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))
    return f"replay:{path}"


def allow_everything(odek: Odek) -> None:
    settings = odek.home / ".odek" / "config.json"
    settings.parent.mkdir(mode=0o700)
    settings.write_text('{"dangerous": {"action": "allow"}}')
    settings.chmod(0o600)
