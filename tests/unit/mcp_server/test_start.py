"""What `odek mcp` imports before it answers: `initialize` waits for nothing that only a call needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = (
    *("subprocess", "queue", "selectors", "tempfile", "http.client", "ssl", "socket", "hmac"),
    *(
        "odek.process",
        "odek.agent",
        "odek.tools",
        "odek.danger",
        "odek.approval",
        "odek.session",
        "odek.sandbox.docker",
    ),
    *("odek.app.workspace", "odek.app.sandbox", "odek.app.runtime", "odek.mcp_server.place", "odek.mcp_server.tools"),
)


def test_what_is_imported_before_the_first_answer() -> None:
    """R-171"""
    code = "import sys, odek.cli.signals, odek.cli.terminal, odek.cli.commands.mcp; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert {
        name for name in imported if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))
    } == set()
    assert "odek.mcp_server.server" in imported
