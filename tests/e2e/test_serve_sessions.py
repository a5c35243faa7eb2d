"""Sessions of `odek serve` and of the command line are the same files: each goes on with the other's (R-135)."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.model import text_reply
from fakes.model_server import ModelServer, text
from support.odek_process import Odek
from support.served import Served, wait_for


def test_session_goes_on_in_the_terminal_and_back(tmp_path: Path) -> None:
    """W-11, R-135: while it is live here the terminal hears who holds it; closed, it goes on there, then here again."""
    served = Served(tmp_path)
    served.script(text_reply("from the page"))
    again = served.script(text_reply("back in the page"))
    live = served.open()
    terminal = Odek(home=Path(served.host.home), cwd=Path(served.host.cwd))
    try:
        session, _ = served.finish("begin here")
        with ModelServer(text("from the terminal")) as server:
            arguments = ("continue", "--base-url", server.base_url, "--model", "m", "--id", session, "go on there")
            held = terminal.run(*arguments)
            assert (held.code, f"process {served.host.pid}" in held.stderr) == (1, True), held.stderr
            live.sandbox(session, "close")
            wait_for(lambda: not live._serving.store.holder(session))
            done = terminal.run(*arguments)
            assert (done.code, done.stdout) == (0, "from the terminal\n"), done.stderr
            told = [message["content"] for message in server.requests[0].json["messages"][1:]]
        assert told == ["begin here", "from the page", "go on there"]
        _, snapshot = served.finish("and back", session)
        assert [entry["text"] for entry in snapshot["entries"]] == [
            "begin here", "from the page", "go on there", "from the terminal", "and back", "back in the page",
        ]  # fmt: skip
        assert len(again.requests[0].messages) == 6
        (listed,) = json.loads(terminal.run("session", "list", "--json").stdout)["sessions"]
        assert (listed["id"], listed["turns"]) == (session, 3)
    finally:
        served.close()
        terminal.close()
