"""What `odek mcp` imports before it answers: `initialize` waits for nothing that only a call needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = (
    *("argparse", "gettext", "locale", "urllib.parse", "ipaddress", "base64", "odek.sandbox.mounts"),
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


CODE = """
import odek.cli.signals
from odek.cli.commands.mcp import load, require_shareable
from odek.cli.terminal import Terminal
from odek.host import Host
host = Host.capture()
load(host, {}, Terminal(sys.stdout, sys.stderr))
require_shareable(host)
print(*sys.modules)
"""


def test_what_is_imported_before_the_first_answer(tmp_path: Path) -> None:
    """R-171: with settings that are read and a folder that is checked."""
    (tmp_path / "work").mkdir()
    (tmp_path / ".odek").mkdir(mode=0o700)
    settings = tmp_path / ".odek" / "config.json"
    settings.write_text('{"sandbox_network": "bridge"}')
    settings.chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CODE}"],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(done.stdout.split())
    assert {
        name for name in imported if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))
    } == set()
    assert "odek.mcp_server.server" in imported
