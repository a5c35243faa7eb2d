"""Recordings for the replay model: a scripted model without a server."""

from __future__ import annotations

import json
from pathlib import Path


def write_recording(path: Path, *commands: str, answer: str = "done", expect: str = "") -> str:
    """Write a model that runs `commands` one by one and then answers; return it as a base URL.

    With `expect`, the run fails unless that text is in what the last command returned.
    """
    lines: list[dict[str, object]] = [{"odek_replay": 1}]
    lines += [{"tool_calls": [{"name": "shell", "arguments": {"command": command}}]} for command in commands]
    lines.append({"content": answer, "expect": [expect] if expect else []})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"replay:{path}"
