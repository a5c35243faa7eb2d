"""`odek mcp` with the clients of others: SDKs of both eras in two languages, and the inspector (W-28, W-34)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.docker_engine import Engine
from support.mcp_client import McpClient
from support.odek_process import Odek
from support.registry_packages import PackagesMissing, node_packages, python_packages

from odek.mcp.messages import LEGACY, MODERN

pytestmark = [pytest.mark.once]
SDKS = Path(__file__).parents[1] / "support" / "mcp_sdks"
NODE = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")
INSPECTOR = ("@modelcontextprotocol/inspector@2.12.0",)
CONFORMANCE = ("@modelcontextprotocol/conformance@0.1.16",)
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PINNED_NODE = (f"node-linux-{MACHINE}@22.23.5",)
"""Debian's own is too old for the last two"""
LONG_S = 180
TOOLS = ["shell", "read_file", "search_files", "glob", "write_file", "patch", "config_view", "sandbox_restart"]


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, whose operator has the tests' own image."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    (odek.cwd / "victim").write_text("x")
    return odek


def packages(fetch: Callable[..., Path], *names: str) -> Path:
    """Return where the packages are; without them the test fails where CI is, and is skipped elsewhere."""
    try:
        return fetch(*names)
    except PackagesMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def node() -> str:
    """Return the interpreter of the packages for Node."""
    return str(packages(node_packages, *PINNED_NODE) / f"node-linux-{MACHINE}" / "bin" / "node")


def session(odek: Odek, *command: str, env: dict[str, str] | None = None, long: bool = False) -> dict[str, Any]:
    """Return what a client saw that was given the command of the server; `long`: a call with progress, too."""
    argv = [*command, *odek.argv, "mcp"]
    done = subprocess.run(
        argv,
        cwd=odek.cwd,
        env=odek.env() | (env or {}) | {"LONG": "1" if long else ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert bool(found["progress"]) is long
    return found


def check(seen: dict[str, Any], odek: Odek, *, version: str | None, forms: bool = True) -> None:
    """Compare a whole session."""
    assert seen["version"] == version
    assert (seen["server"], seen["tools"]) == ("odek", TOOLS)
    assert seen["hello"] == ["hello\nexit code: 0", False]
    assert seen["status"] == ["(no output)\nexit code: 1", False]
    assert seen["wrong"] == ['invalid arguments: "command" is missing', True]
    assert seen["error"] == -32602
    assert seen["left"] == ["0\nexit code: 1", False]
    if not forms:
        assert seen["wiped"][0][0].startswith("operation denied (non-interactive mode)")
        return
    assert len(seen["asked"]) == 3
    assert all("rm -rf ./*" in text for text in seen["asked"])
    declined, denied, allowed = seen["wiped"]
    assert declined[0].startswith("operation denied (the client, or its user, declined): rm -rf ./*\n")
    assert denied[0].startswith("operation denied by user: rm -rf ./*\n")
    assert (declined[1], denied[1], allowed) == (True, True, ["(no output)\nexit code: 0", False])
    assert list(odek.cwd.iterdir()) == []
    if not seen["progress"]:
        return
    assert seen["slept"] == ["slept\nexit code: 0", False]
    assert [(step >= 5, message.startswith("shell: sleep 6; echo slept, ")) for step, message in seen["progress"]] == [
        (True, True)
    ]


@pytest.mark.parametrize(
    ("package", "version", "forms"),
    [("1.30.0", LEGACY[0], True), ("1.9.4", "2025-03-26", False), ("1.1.3", "2024-11-05", False)],
)
def test_a_python_client_of_the_legacy_era(sandboxed: Odek, package: str, version: str, forms: bool) -> None:
    """W-28: list, call, progress, cancel, error, approval, with revisions back to the first."""
    # the old ones use a part of pydantic that newer ones do not have
    folder = packages(python_packages, f"mcp=={package}", *(() if forms else ("pydantic==2.11.7",)))
    seen = session(sandboxed, sys.executable, str(SDKS / "legacy_python.py"), env={"PYTHONPATH": str(folder)})
    check(seen, sandboxed, version=version, forms=forms)


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", LEGACY[0])])
def test_a_python_client_of_both_eras(sandboxed: Odek, mode: str, version: str) -> None:
    """W-28: it discovers first, and may be held to the handshake."""
    folder = packages(python_packages, "mcp==2.3.0")
    seen = session(
        sandboxed,
        sys.executable,
        str(SDKS / "modern_python.py"),
        mode,
        env={"PYTHONPATH": str(folder)},
        long=mode == "auto",
    )
    check(seen, sandboxed, version=version)


@pytest.mark.parametrize(("era", "version"), [("v1", None), ("legacy", LEGACY[0]), ("modern", MODERN)])
def test_a_typescript_client(sandboxed: Odek, era: str, version: str | None) -> None:
    """W-28: the third one starts a second process to find out which era it is (P-24)."""
    modules = packages(node_packages, *NODE)
    seen = session(sandboxed, node(), str(SDKS / "node.mjs"), str(modules), era, long=era == "v1")
    check(seen, sandboxed, version=version)


def test_the_inspector(sandboxed: Odek) -> None:
    """W-28, W-34: its strict look at the schemas finds nothing, twice the same; a call works."""
    cli = packages(node_packages, *INSPECTOR) / ".bin" / "mcp-inspector"

    def inspect(*arguments: str) -> Any:
        argv = [node(), str(cli), "--cli", *arguments, "--", *sandboxed.argv, "mcp"]
        done = subprocess.run(
            argv, cwd=sandboxed.cwd, env=sandboxed.env(), capture_output=True, text=True, timeout=LONG_S
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = [inspect("--method", "tools/list", "--strict") for _ in range(2)]
    assert [[tool["name"] for tool in each["tools"]] for each in listed] == [TOOLS, TOOLS]
    called = inspect("--method", "tools/call", "--tool-name", "shell", "--tool-arg", "command=echo inspected")
    assert called["content"] == [{"type": "text", "text": "inspected\nexit code: 0"}]


class Bridge(BaseHTTPRequestHandler):
    """Hands each message that comes by HTTP to a client of stdin and stdout, and the answer back."""

    protocol_version = "HTTP/1.1"
    client: McpClient

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        self.client.messages.clear()  # each scenario begins with the same ids
        self.client.send_line(body.decode())
        answer = json.dumps(self.client.answer_to(message["id"])).encode() if "id" in message else b""
        self._send(200 if answer else 202, answer)

    def do_GET(self) -> None:
        self._send(405, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("scenario", ["server-initialize", "ping", "tools-list"])
def test_the_conformance_suite(odek: Odek, scenario: str) -> None:
    """W-28: those of its scenarios that ask for no tool, prompt or resource of its own. It speaks HTTP only."""
    suite = packages(node_packages, *CONFORMANCE) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    client = McpClient(odek, env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    handler = type("Handler", (Bridge,), {"client": client})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        argv = [node(), str(suite), "server", "--url", url, "--scenario", scenario]
        done = subprocess.run(argv, cwd=odek.cwd, env=odek.env(), capture_output=True, text=True, timeout=LONG_S)
        server.shutdown()
    assert client.end() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout, done.stdout


AGENT = (
    *("mini-swe-agent==2.4.6", "jinja2==3.1.6", "markupsafe==3.0.2", "pyyaml==6.0.3", "platformdirs==4.3.8"),
    *("python-dotenv==1.1.1", "rich==14.1.0", "markdown-it-py==3.0.0", "mdurl==0.1.2", "pygments==2.19.2"),
)
"""without what it needs for models, which is most"""


def test_an_agent_of_others_does_a_job_in_the_sandbox(sandboxed: Odek) -> None:
    """R-175: mini-swe-agent, whose loop is its own and whose commands are calls of `shell`."""
    folders = [packages(python_packages, "--no-deps", *AGENT), packages(python_packages, "mcp==2.3.0")]
    (sandboxed.cwd / "add.sh").write_text("echo $(($1 - $2))\n")
    (sandboxed.cwd / "test.sh").write_text('test "$(sh add.sh 2 3)" = 5 && echo passed || { echo failed; exit 1; }\n')
    env = {"PYTHONPATH": ":".join(map(str, folders)), "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": "/tmp"}
    seen = session(sandboxed, sys.executable, str(SDKS / "swe_agent.py"), env=env)
    assert seen["outcome"] == {"exit_status": "Submitted", "submission": "echo $(($1 + $2))\n"}
    assert (sandboxed.cwd / "add.sh").read_text() == "echo $(($1 + $2))\n"
    _looked, failing, _changed, passing = seen["observed"]
    assert "<returncode>1</returncode>\n<output>\nfailed\n" in failing
    assert f"<returncode>0</returncode>\n<output>\npassed\n{os.getuid()}\n" in passing
    assert "- Network: none\n" in seen["system"]
