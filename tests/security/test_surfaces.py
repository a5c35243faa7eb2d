"""What the browser, and an MCP client, can have of odek: nothing without the token, and no yes for the operator."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakes.model_server import ModelServer
from support.mcp_client import FORMS, McpClient
from support.odek_process import Odek
from support.scenario import DEAD_SOCKET
from support.serve_process import curl, serving_process

NOWHERE = {"DOCKER_HOST": DEAD_SOCKET}
TASK = json.dumps({"text": "do it", "request_id": "r1"})
TYPED = ("-H", "Content-Type: application/json")


def test_who_has_no_token_reaches_nothing(odek: Odek) -> None:
    """
    S-23 Only who has the token of this start, which is in no argument, log or address that is sent. A web page
    of another origin reaches nothing, whatever it sends and whatever cookies your browser adds; neither does a
    name that is made to mean 127.0.0.1, or another server of this machine, which sees one half of a login and
    never both. Everything that the page can do goes through the same gate as at the terminal, and no page can
    answer for the operator. What HTTP leaves to the reader is refused, and floods and slow clients hold no more
    than 128 threads ([docs/SERVE.md](docs/SERVE.md), [test_guard](tests/unit/web/test_guard.py)).
    """
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text(json.dumps({"sandbox": False}))
    with ModelServer() as model, serving_process(odek, "--base-url", model.base_url, "--model", "m") as server:
        login = curl(*TYPED, "-d", json.dumps({"token": server.token}), f"{server.base}/api/login")
        cookie = login.headers["set-cookie"].partition(";")[0]
        key, bearer = f"X-Odek-Key: {login.json['key']}", f"Authorization: Bearer {server.token}"
        halves = ("-H", f"Cookie: {cookie}", "-H", key)
        attempts: tuple[tuple[str, ...], ...] = (
            (),
            ("-H", f"Cookie: {cookie}"),
            ("-H", key),
            ("-H", "Authorization: Bearer " + "0" * 64),
            (*halves, "-H", "Origin: http://127.0.0.1:3000"),
            (*halves, "-H", "Origin: null"),
            (*halves, "-H", "Sec-Fetch-Site: same-site"),
            (*halves, "-H", f"Host: rebound.example:{server.port}"),
            ("-H", bearer, "-H", "Host: rebound.example"),
            (*halves, "-H", "Transfer-Encoding: chunked"),
        )
        for attempt in attempts:
            answer = curl(*TYPED, *attempt, "-d", TASK, f"{server.base}/api/sessions")
            assert answer.status in (400, 401, 403, 501), (attempt, answer)
        form = curl(*halves, "-H", "Content-Type: text/plain", "-d", TASK, f"{server.base}/api/sessions")
        assert form.status == 415
        assert server.ask("GET", "/api/sessions").json["sessions"] == []
        assert model.requests == []
        assert server.token not in Path(f"/proc/{server.pid}/cmdline").read_text()
        assert not any(secret in server.log for secret in (server.token, str(login.json["key"])))
        assert len(os.listdir(f"/proc/{server.pid}/task")) < 128


@pytest.mark.parametrize("env", [NOWHERE, {**NOWHERE, "ODEK_NO_SANDBOX": "1"}])
def test_client_decides_nothing_for_the_operator(env: dict[str, str], odek: Odek) -> None:
    """
    S-24 A client of `odek mcp` gets the tools, and nothing of what the operator decides: it approves nothing
    that a project asks for, its yes to an operation counts once and for that very call, and on the host it is
    asked only if your file says so. Without a sandbox that can be had, its commands do not run.
    """
    (odek.cwd / "odek.json").write_text(json.dumps({"sandbox_network": "bridge", "mcp": {"elicitation": True}}))
    client = McpClient(odek, env=env)
    client.initialize(capabilities=FORMS)
    for command in ("curl https://127.0.0.1:1/; echo here >mark", "echo here | sh -c 'cat >mark'"):
        refusal, failed = client.call("shell", command=command)
        assert failed, refusal
    assert client.end() == 0
    assert not [message for message in client.messages if message.get("method") == "elicitation/create"]
    assert os.listdir(odek.cwd) == ["odek.json"]
