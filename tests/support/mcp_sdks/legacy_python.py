"""A session of the Python SDK's client of the legacy era with the server in argv; prints what it saw as JSON."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

HAS_FORMS = hasattr(types, "ElicitRequestParams")
ANSWERS = [
    {"action": "decline"},
    {"action": "accept", "content": {"decision": "deny"}},
    {"action": "accept", "content": {"decision": "allow once"}},
]

LEFT = (
    "for i in 1 2 3 4 5 6 7 8 9; do ps | grep -q '[s]leep 7654' || break; sleep 0.3; done; ps | grep -c '[s]leep 7654'"
)


def shown(result):
    return [result.content[0].text, result.isError]


async def main():
    seen = {"asked": [], "wiped": []}
    progress = []

    async def answer(_context, params):
        seen["asked"].append(params.message)
        return types.ElicitResult(**ANSWERS[len(seen["asked"]) - 1])

    async def told(done, _total, message):
        progress.append([done, message])

    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    options = {"elicitation_callback": answer} if HAS_FORMS else {}
    async with stdio_client(server) as (read, write), ClientSession(read, write, **options) as session:
        opened = await session.initialize()
        seen["version"] = opened.protocolVersion
        seen["server"] = opened.serverInfo.name
        seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        seen["hello"] = shown(await session.call_tool("shell", {"command": "echo hello"}))
        seen["status"] = shown(await session.call_tool("shell", {"command": "false"}))
        seen["wrong"] = shown(await session.call_tool("shell", {"cmd": "x"}))
        try:
            await session.call_tool("nothing", {})
        except Exception as error:
            seen["error"] = error.error.code
        for _ in ANSWERS if HAS_FORMS else (1,):
            seen["wiped"].append(shown(await session.call_tool("shell", {"command": "rm -rf ./*"})))
        if os.environ["LONG"]:
            long = {"command": "sleep 6; echo slept"}
            seen["slept"] = shown(await session.call_tool("shell", long, progress_callback=told))
        if hasattr(types, "CancelledNotification"):
            waiting = asyncio.ensure_future(session.call_tool("shell", {"command": "sleep 7654"}))
            await asyncio.sleep(1)
            raw = {"method": "notifications/cancelled", "params": {"requestId": session._request_id - 1}}
            await session.send_notification(types.ClientNotification(types.CancelledNotification(**raw)))
            waiting.cancel()
        seen["left"] = shown(await session.call_tool("shell", {"command": LEFT}))
        if hasattr(session, "send_ping"):
            await session.send_ping()
    print(json.dumps({**seen, "progress": progress}))


asyncio.run(main())
