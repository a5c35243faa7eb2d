"""mini-swe-agent with a scripted model, whose commands run by `odek mcp` (argv); prints how it ended as JSON.

What an agent needs for that is its environment: one class that calls the tool `shell`.
"""

import json
import os
import re
import sys
from contextlib import ExitStack

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel, make_output

STEPS = (
    "ls; cat add.sh",
    "sh test.sh",
    "sed -i 's/ - / + /' add.sh",
    "sh test.sh; id -u",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat add.sh",
)


class McpEnvironment:
    def __init__(self, command):
        self._stack = ExitStack()
        portal = self._stack.enter_context(start_blocking_portal())
        client = Client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))
        self._client = self._stack.enter_context(portal.wrap_async_context_manager(client))
        self._portal = portal
        self.described = portal.call(self._client.list_tools).tools[0].description

    def execute(self, action):
        result = self._portal.call(self._client.call_tool, "shell", {"command": action["command"]})
        text = result.content[0].text
        status = re.search(r"^exit code: (\d+)$", text, re.MULTILINE)
        output = text[: status.start()] if status else text
        code = int(status[1]) if status and not result.is_error else -1
        lines = output.splitlines(keepends=True)
        if lines and lines[0].strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" and code == 0:
            extra = {"exit_status": "Submitted", "submission": "".join(lines[1:])}
            raise Submitted({"role": "exit", "content": extra["submission"], "extra": extra})
        return {"output": output, "returncode": code, "exception_info": ""}

    def get_template_vars(self, **more):
        return {"environment": self.described, **more}

    def serialize(self):
        return {}

    def close(self):
        self._stack.close()


environment = McpEnvironment(sys.argv[1:])
agent = DefaultAgent(
    DeterministicModel(outputs=[make_output("", [{"command": step}], cost=0.01) for step in STEPS]),
    environment,
    system_template="You fix programs. {{environment}}",
    instance_template="{{task}}",
)
outcome = agent.run("make test.sh pass")
environment.close()
observed = [message["content"] for message in agent.messages if message["role"] == "user"][1:]
print(json.dumps({"outcome": outcome, "observed": observed, "system": agent.messages[0]["content"], "progress": []}))
