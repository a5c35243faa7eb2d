"""A session of the Python SDK's client of both eras; argv is the mode and the server. Prints what it saw as JSON."""

import json
import os
import sys

import anyio
from mcp import Client, StdioServerParameters, types

ANSWERS = [
    {"action": "decline"},
    {"action": "accept", "content": {"decision": "deny"}},
    {"action": "accept", "content": {"decision": "allow once"}},
]

LEFT = (
    "for i in 1 2 3 4 5 6 7 8 9; do ps | grep -q '[s]leep 7654' || break; sleep 0.3; done; ps | grep -c '[s]leep 7654'"
)


def shown(result):
    return [result.content[0].text, bool(result.is_error)]


async def main():
    seen = {"asked": [], "wiped": []}
    progress = []

    async def answer(_context, params):
        seen["asked"].append(params.message)
        return types.ElicitResult(**ANSWERS[len(seen["asked"]) - 1])

    async def told(done, _total, message):
        progress.append([done, message])

    server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
    async with Client(server, mode=sys.argv[1], elicitation_callback=answer) as client:
        seen["version"] = client.protocol_version
        seen["server"] = client.server_info.name
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["hello"] = shown(await client.call_tool("shell", {"command": "echo hello"}))
        seen["status"] = shown(await client.call_tool("shell", {"command": "false"}))
        seen["wrong"] = shown(await client.call_tool("shell", {"cmd": "x"}))
        try:
            await client.call_tool("nothing", {})
        except Exception as error:
            seen["error"] = error.error.code
        for _ in ANSWERS:
            seen["wiped"].append(shown(await client.call_tool("shell", {"command": "rm -rf ./*"})))
        if os.environ["LONG"]:
            long = {"command": "sleep 6; echo slept"}
            seen["slept"] = shown(await client.call_tool("shell", long, progress_callback=told))
        with anyio.move_on_after(1):
            await client.call_tool("shell", {"command": "sleep 7654"})
        seen["left"] = shown(await client.call_tool("shell", {"command": LEFT}))
    print(json.dumps({**seen, "progress": progress}))


anyio.run(main)
