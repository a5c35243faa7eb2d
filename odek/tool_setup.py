"""The tools of a session, with the gates that stand before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odek.approval.commands import HOST, CommandGate, HostGate, SandboxGate
from odek.approval.files import TrustedFileGate
from odek.approval.gate import Approver
from odek.approval.question import CommandQuestion
from odek.config.settings import DangerSettings, Settings
from odek.executor import Executor
from odek.sandbox.facts import ContainerFacts
from odek.tools.batch import BatchPatchTool, BatchReadTool
from odek.tools.config_view import ConfigViewTool
from odek.tools.contents import DiffTool, HeadTailTool, JsonQueryTool
from odek.tools.facts import ChecksumTool, FileInfoTool, TreeTool
from odek.tools.files import PatchTool, ReadFileTool, WriteFileTool
from odek.tools.glob import GlobTool
from odek.tools.parallel_shell import ParallelShellTool
from odek.tools.registry import Toolbox, Wrap
from odek.tools.search import SearchFilesTool
from odek.tools.shell import ShellTool
from odek.trusted import counts


def make_toolbox(
    settings: Settings,
    executor: Executor,
    facts: ContainerFacts | None,
    *,
    approver: Approver | None,
    wrap: Wrap,
    environment_block: str,
    applied: Callable[[], Mapping[str, object]],
) -> Toolbox:
    """Return the tools that work with `executor`; `facts` are of the sandbox, None on the host.

    `applied` is what `config_view` shows. Tools that reach the network are left to the commands
    that they would be: those run in the container, by its network, or not at all (F-64).
    """
    question = CommandQuestion(approver) if approver else None
    gate = _command_gate(settings.dangerous, facts, question)
    file_gate = _file_gate(settings.dangerous, facts, question)
    return Toolbox(
        (
            ShellTool(
                executor=executor,
                gate=gate,
                wrap=wrap,
                environment_block=environment_block,
                parallel=facts is not None,  # on the host, one at a time, under the eyes of whoever allowed it
            ),
            ParallelShellTool(executor=executor, gate=gate, wrap=wrap),
            ReadFileTool(executor=executor, wrap=wrap),
            BatchReadTool(executor=executor, wrap=wrap),
            WriteFileTool(executor=executor, gate=file_gate, wrap=wrap),
            PatchTool(executor=executor, gate=file_gate, wrap=wrap),
            BatchPatchTool(executor=executor, gate=file_gate, wrap=wrap),
            SearchFilesTool(executor=executor, wrap=wrap),
            GlobTool(executor=executor, wrap=wrap),
            FileInfoTool(executor=executor, wrap=wrap),
            TreeTool(executor=executor, wrap=wrap),
            DiffTool(executor=executor, wrap=wrap),
            HeadTailTool(executor=executor, wrap=wrap),
            ChecksumTool(executor=executor, wrap=wrap),
            JsonQueryTool(executor=executor, wrap=wrap),
            ConfigViewTool(applied=applied, wrap=wrap),
        ),
        enabled=settings.tools_enabled,
        disabled=settings.tools_disabled,
    )


def _command_gate(
    danger: DangerSettings, facts: ContainerFacts | None, question: CommandQuestion | None
) -> CommandGate:
    if facts is None:
        return HostGate(action=danger.action, non_interactive=danger.non_interactive, question=question)
    return SandboxGate(
        place=_place(facts),
        action=danger.action,
        sandboxed_action=danger.sandboxed.action if danger.sandboxed else None,
        question=question,
    )


def _file_gate(
    danger: DangerSettings, facts: ContainerFacts | None, question: CommandQuestion | None
) -> TrustedFileGate:
    sandboxed = danger.sandboxed.action if danger.sandboxed and facts else None
    return TrustedFileGate(
        is_trusted=counts,
        place=f"{_place(facts)}, in the folder that it shares with this machine" if facts else HOST,
        action=sandboxed or danger.action,
        setting="dangerous.sandboxed.action" if facts else "dangerous.action",
        question=question,
    )


def _place(facts: ContainerFacts) -> str:
    return f"sandbox {facts.name}, network={facts.network}"
