"""Loop, tools and host executor put together as a run without a sandbox does it."""

from __future__ import annotations

import itertools
import json
import os
from functools import partial
from pathlib import Path

from fakes.model import ScriptedModel, call_reply, text_reply
from fakes.tools import workspace

from odek.agent.loop import Agent
from odek.agent.untrusted import wrap_untrusted
from odek.events import Event
from odek.host_executor.commands import HostExecutor
from odek.tools.files import PATCH, READ_FILE, WRITE_FILE
from odek.tools.registry import Toolbox
from odek.tools.shell import SHELL


def toolbox(root: Path) -> Toolbox:
    """Return all tools on `root`, with the nonces 0…01, 0…02 and so on."""
    numbers = itertools.count(1)
    wrap = partial(wrap_untrusted, nonce=lambda: f"{next(numbers):016x}")
    host = HostExecutor(cwd=os.path.realpath(root), env={"PATH": "/usr/bin:/bin"})
    return Toolbox((SHELL, READ_FILE, WRITE_FILE, PATCH), workspace(host, wrap=wrap))


def test_agent_works_on_files_and_commands_of_the_host(tmp_path: Path) -> None:
    """R-80, R-83: one reply with four calls, carried out in order; the next request is valid JSON in UTF-8."""
    events: list[Event] = []
    model = ScriptedModel(
        [
            call_reply(
                ("write_file", {"path": "src/a.txt", "content": "one\r\ntwo\r\n"}),
                ("patch", {"path": "src/a.txt", "old_string": "one\ntwo", "new_string": "one\n2"}),
                ("shell", {"command": "od -c src/a.txt | head -1; printf 'b\\377\\033'; exit 3"}),
                ("read_file", {"path": "../secret"}),
            ),
            text_reply("done"),
        ]
    )
    agent = Agent(model=model, tools=toolbox(tmp_path), sink=events.append, max_iterations=5, system="s")
    assert agent.run("task") == "done"
    place = f"{os.path.realpath(tmp_path)}/src/a.txt"
    assert [message.content for message in model.requests[1].messages if message.role == "tool"] == [
        json.dumps({"success": True, "path": place, "bytes": 10}, separators=(",", ":")),
        f'<untrusted_content_{1:016x} source="patch:{place}">\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n'
        f"</untrusted_content_{1:016x}>\nreplaced: 1",
        f"<untrusted_content_{2:016x} source=\"$ od -c src/a.txt | head -1; printf 'b\\377\\033'; exit 3\">\n"
        "0000000   o   n   e  \\r  \\n   2  \\r  \\n\nb\ufffd\\x1b\n"
        f"</untrusted_content_{2:016x}>\nexit code: 3",
        '{"error":"\\"../secret\\" leaves the workspace"}',
    ]
