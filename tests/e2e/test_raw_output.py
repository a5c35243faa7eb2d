"""Output that is no text, through a run, its session and the next turn (B03)."""

from __future__ import annotations

import json

import pytest
from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek
from support.scenario import tool_results

COMMAND = "printf 'a\\377\\376\\000b\\r\\nc\\033]0;pwn\\007'; head -c 200000 /dev/urandom; exit 3"


@pytest.mark.parametrize("place", ["sandbox", "host"])
def test_bytes_that_are_no_text_survive_a_session(place: str, odek: Odek, request: pytest.FixtureRequest) -> None:
    """B03: the run goes on with the exit code, each request is valid UTF-8, and no terminal gets the escape."""
    (odek.home / ".odek").mkdir(mode=0o700)
    config = odek.home / ".odek" / "config.json"
    sandbox = {"sandbox_image": request.getfixturevalue("base_image")} if place == "sandbox" else {"sandbox": False}
    config.write_text(json.dumps({"dangerous": {"action": "allow", "sandboxed": {"action": "allow"}}, **sandbox}))
    config.chmod(0o600)
    with ModelServer(calls(("shell", {"command": COMMAND})), text("one"), text("two")) as server:
        first = odek.run("run", "--session", "--base-url", server.base_url, "x")
        shown = odek.run("session", "show", "--full")
        second = odek.run("continue", "--base-url", server.base_url, "y")
        bodies = [received.body.decode("utf-8") for received in server.requests]
    assert (first.code, shown.code, second.code, len(bodies)) == (0, 0, 0, 3), first.stderr + second.stderr
    result = tool_results(server)[0]
    assert (result.splitlines()[1][:3], "exit code: 3" in result) == ("a\ufffd\ufffd", True), result[:200]
    assert [sign for sign in ("\x1b]", "\x07", "\0") if sign in first.stderr + shown.stdout + second.stderr] == []
