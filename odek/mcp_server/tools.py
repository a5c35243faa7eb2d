"""The tools that a client gets (R-175 to R-177): the agent's own, a few of them, and what only a server needs.

Few on purpose: each costs every conversation of the client context.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from odek.agent.context_window import truncate_middle
from odek.app import environment
from odek.app.tools import TOOLS
from odek.events import Notice, ignore
from odek.mcp.messages import INVALID_PARAMS, Json, RpcError
from odek.mcp_server.consent import ApprovalStates, FormAsked, person_for
from odek.mcp_server.place import Place
from odek.mcp_server.server import AskClient, ToolCall, text_result, tool_error
from odek.model.types import ToolCall as ModelCall
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.errors import SandboxLost
from odek.tools.arguments import ArgumentError, check_arguments, record
from odek.tools.delegate import TASK
from odek.tools.registry import Tool, ToolResult, render_json

RESTART = "sandbox_restart"
RUN_TASK = "run_task"
_WRITES = ("write_file", "patch")
_OFFERED = ("shell", "read_file", "search_files", "glob", *_WRITES, "config_view")
_READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
_DESTRUCTIVE = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}
_TITLES = {
    "shell": "Run a command in the sandbox",
    "read_file": "Read a file",
    "search_files": "Search in files",
    "glob": "Find files by name",
    "write_file": "Write a file",
    "patch": "Change a file",
    "config_view": "Show the settings in force",
    RESTART: "Start the sandbox anew",
    RUN_TASK: "Give a task to odek's agent",
}
_RESTART_DESCRIPTION = (
    "End the container and start a new one: its /tmp, its background processes and what was installed in it are gone; "
    "the project's folder stays as it is. Commands that are at work in the old one end."
)
_TASK_DESCRIPTION = (
    "Give a whole task to odek's own agent, which works on it with a model of the operator's, in a container of its "
    "own, until it has an answer. It knows nothing of this conversation: say in the goal and the context all that it "
    "needs. The other fields take something away from it; none gives it more. It takes minutes, and the operator's "
    "tokens; nobody is asked meanwhile. For one command use shell."
)
_TASK_RESULT_CHARACTERS = 30_000
_FACTS_WAIT_S = 0.5
HOST_NOTE = "Commands run on the HOST, without a sandbox."
"""what the description of `shell` says where there is none"""


class Tools:
    """The tools of one process; may be used by several threads."""

    def __init__(self, place: Place, *, agent: bool, ask: AskClient, changed: Callable[[], None]) -> None:
        """`agent`: tasks are taken, too. `ask` sends a request to the client; `changed` tells it of another list."""
        self._place = place
        self._ask = ask
        self._changed = changed
        self._states = ApprovalStates()
        self._nonce = place.runtime.random_hex(8)
        self._lock = Lock()
        self._shown: str | None = None
        """the environment as the client has it; None: it has not asked yet"""
        settings = place.config.settings
        by_name = {tool.name: tool for tool in TOOLS}
        names = [name for name in _OFFERED if not (settings.sandbox.readonly and name in _WRITES)]
        if place.decision.sandboxed:
            names.append(RESTART)
        if agent:
            names.append(RUN_TASK)
        wanted, withheld = settings.tools_enabled, settings.withheld_tools
        chosen = [name for name in names if (wanted is None or name in wanted) and name not in withheld]
        self._tools: dict[str, Tool | None] = {name: by_name.get(name) for name in chosen}

    def listing(self) -> Sequence[Json]:
        """Return the tools as `tools/list` shows them; waits for half a second where the sandbox is not known yet."""
        facts = self._place.facts(timeout_s=_FACTS_WAIT_S)
        with self._lock:
            self._shown = block = self._environment(facts)
        internet = (facts or self._expected()).internet if self._place.decision.sandboxed else True
        return [self._entry(name, tool, block, internet=internet) for name, tool in self._tools.items()]

    def place_changed(self) -> None:
        """Notify the client if what it was shown of the place is not true any more."""
        block = self._environment(self._place.facts(timeout_s=0))
        with self._lock:
            is_news = self._shown is not None and self._shown != block
            if is_news:
                self._shown = block
        if is_news:
            self._changed()

    def call(self, call: ToolCall) -> Json:
        """Carry a call out. Raises RpcError, OdekError and Cancelled."""
        if call.name not in self._tools:
            raise RpcError(INVALID_PARAMS, "there is no such tool")
        if call.name == RESTART:
            return self._restart(call.arguments)
        if call.name == RUN_TASK:
            return self._run_task(call.arguments)
        if call.name == "config_view" and self._place.decision.sandboxed and not self._place.is_open():
            return self._planned_settings(call.arguments)
        workspace = self._place.workspace()
        try:
            approval = self._states.resume(call)
        except ValueError as error:
            return tool_error(f"operation denied: {error}", "call the tool again to be asked again")
        person = person_for(call, approval, self._place, ask=self._ask, redact=workspace.redact)
        box = workspace.new_toolbox(person, wrap=lambda text, source: text.removesuffix("\n"))  # noqa: ARG005 - of UntrustedWrapper
        arguments = json.dumps(call.arguments)
        try:
            (prepared,) = box.prepare([ModelCall(id="", name=call.name, arguments=arguments)])
            outcome = box.run(box.authorize(prepared))
        except FormAsked as question:
            return self._states.question(call, approval, question)
        except SandboxLost as error:
            raise self._place.lost(workspace, error) from error
        for notice in workspace.masked.take():
            workspace.runtime.emit(notice)
        return result_of(outcome)

    def close(self) -> None:
        """End the sandbox."""
        self._place.close()

    def _entry(self, name: str, tool: Tool | None, block: str, *, internet: bool) -> Json:
        description, schema = (tool.description, tool.parameters) if tool else _OWN[name]
        annotations: Mapping[str, Any] = _READ_ONLY if tool and name not in ("shell", *_WRITES) else _DESTRUCTIVE
        if name == "shell":
            host = "" if self._place.decision.sandboxed else f"{HOST_NOTE}\n\n"
            description = f"{description}\n\n{host}{block}"
        if name in ("shell", RUN_TASK):
            annotations = {**annotations, "openWorldHint": internet}
        return {
            "name": name,
            "title": _TITLES[name]
            if self._place.decision.sandboxed or name != "shell"
            else "Run a command on the HOST",
            "description": description,
            "inputSchema": {"required": [], **schema},
            "annotations": {"title": _TITLES[name], **annotations},
        }

    def _environment(self, facts: ContainerFacts | None) -> str:
        place = self._place
        if not place.decision.sandboxed:
            return environment.render_host(place.runtime.host.cwd)
        return environment.render_sandbox(facts or self._expected(), nonce=lambda: self._nonce)

    def _expected(self) -> ContainerFacts:
        """Return what the settings say of the container, where Docker does not answer yet."""
        sandbox, host = self._place.config.settings.sandbox, self._place.runtime.host
        attaches = bool(sandbox.networks or sandbox.compose_project)
        network = "attached" if sandbox.network == "none" and attaches else sandbox.network
        return ContainerFacts(
            name=f"odek-{host.pid}-1",
            id="",
            image=sandbox.image,
            image_id="",
            user=sandbox.user or f"{host.uid}:{host.gid}",
            home="/tmp",
            network="bridge+attached" if network == "bridge" and attaches else network,
            internet=sandbox.network == "bridge" or attaches,
            pids_limit=sandbox.pids_limit,
            tmp_bytes=sandbox.tmp_size.value,
            readonly=sandbox.readonly,
            workspace_writable=not sandbox.readonly,
        )

    def _restart(self, arguments: Mapping[str, Any]) -> Json:
        del arguments
        workspace = self._place.restart()
        name = workspace.facts.name if workspace.facts else ""
        return text_result(f"a new container runs: {name}")

    def _run_task(self, arguments: Mapping[str, Any]) -> Json:
        """Let the agent do a task and return its answer. Raises OdekError when it cannot begin."""
        from odek.app.outside_task import do_task
        from odek.delegate.brief import parse_brief

        place = self._place
        try:
            brief = parse_brief(json.dumps(arguments))
        except ArgumentError as error:
            return tool_error(f"invalid arguments: {error}")
        outcome = do_task(place.profile, place.config, place.runtime, brief, sink=ignore)
        used = outcome.usage
        place.runtime.emit(Notice(f"task {outcome.status}: {used.input_tokens} tokens in, {used.output_tokens} out"))
        said = truncate_middle(outcome.said, _TASK_RESULT_CHARACTERS)
        if outcome.status == "done":
            return text_result(said)
        return tool_error(f"the task has no answer: {outcome.reason}" + (f"\n\n{said}" if said else ""))

    def _planned_settings(self, arguments: Mapping[str, Any]) -> Json:
        """Return what `config_view` shows while there is no container: what one would be."""
        from odek.app.effective_config import effective_config

        tool = self._tools["config_view"]
        assert tool is not None
        try:
            known, _ = check_arguments(arguments, tool.parameters)
        except ArgumentError as error:
            return tool_error(f"invalid arguments: {error}")
        place = self._place
        facts = place.facts(timeout_s=_FACTS_WAIT_S) or self._expected()
        shown = effective_config(place.config.settings, place.decision, facts)
        shown["sandbox"] = {**shown["sandbox"], "container": None, "started": False}  # type: ignore[dict-item]
        part = known.get("part", "")
        if part and part not in shown:
            return tool_error(f"there are the parts {', '.join(shown)}")
        return text_result(render_json({part: shown[part]} if part else shown))


_OWN: dict[str, tuple[str, Mapping[str, Any]]] = {
    RESTART: (_RESTART_DESCRIPTION, record({})),
    RUN_TASK: (_TASK_DESCRIPTION, TASK),
}
"""description and parameters of the tools that are not the agent's"""


def result_of(outcome: ToolResult) -> Json:
    """Return a tool's result as the client gets it: the cause first where it did not do its work. Pure."""
    if not outcome.cause:
        return text_result(outcome.text)
    is_whole = outcome.text.startswith('{"error":')
    return tool_error(outcome.cause if is_whole else f"{outcome.cause}\n\n{outcome.text}")
