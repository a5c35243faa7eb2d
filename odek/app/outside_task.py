"""A task for a sub-agent that comes from outside: `odek subagent` (R-230).

Its parent is what `odek run` would be here, with the same settings and gates; what the task gives up is taken away
before anything is started.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from odek.app.budget import budget_of
from odek.app.config import Config
from odek.app.cost import pricing
from odek.app.delegation import Task, child_limits, end_task, make_agent, render_brief, rights_of, started
from odek.app.isolation import CommandProfile
from odek.app.prompt import project_instructions
from odek.app.runtime import Runtime
from odek.app.tools import TOOLS, ChildLimits
from odek.app.workspace import open_workspace
from odek.cancel import use_token
from odek.config.settings import Settings
from odek.delegate.brief import Brief
from odek.delegate.crew import Crew, Job, Line
from odek.delegate.outcome import TaskOutcome
from odek.delegate.rights import Rights, narrow
from odek.delegate.written import RecordingExecutor
from odek.errors import UsageError
from odek.events import Sink, usage_fields
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.spec import SandboxSpec
from odek.tools.arguments import ArgumentError

_ID = "subagent/1"


class _Narrowed:
    """The rights of the task, once it is known what its parent would have."""

    def __init__(self, settings: Settings, brief: Brief) -> None:
        offered = [tool.name for tool in TOOLS if tool.name not in settings.withheld_tools]
        enabled = settings.tools_enabled
        self._tools = tuple(name for name in offered if enabled is None or name in enabled)
        self._settings = settings
        self._brief = brief
        self._parent: SandboxSpec | None = None
        self._rights: Rights | None = None

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        """Return what is left of the sandbox. Raises UsageError."""
        self._parent, self._rights = spec, self._narrow(spec)
        assert self._rights.sandbox is not None
        return self._rights.sandbox

    def task(self) -> Task:
        """Return the task; where there was no sandbox to narrow, it is one on this host. Raises UsageError."""
        rights = self._rights or self._narrow(None)
        return Task(id=_ID, number=1, of=1, brief=self._brief, rights=rights)

    def limits(self, facts: ContainerFacts | None) -> ChildLimits:
        """Return what tools and gate have; what asks with the parent's networks asks with fewer, too."""
        limits = child_limits(self.task(), facts, facts)
        internet = self._parent.networks.internet if self._parent else True
        return replace(limits, within=replace(limits.within, internet=internet))

    def _narrow(self, spec: SandboxSpec | None) -> Rights:
        try:
            return narrow(rights_of(self._settings, spec, self._tools), self._brief, share=1)
        except ArgumentError as error:
            raise UsageError(
                f"the task on stdin asks for more than there is: {error}", hint="leave it out, or ask for less"
            ) from error


def do_task(profile: CommandProfile, config: Config, runtime: Runtime, brief: Brief, *, sink: Sink) -> TaskOutcome:
    """Do the task `brief` and return how it ended; `sink` gets its events. Raises OdekError when it cannot begin."""
    settings = config.settings
    price, model = pricing(config, runtime.emit), runtime.new_model(settings)
    narrowed = _Narrowed(settings, brief)
    with open_workspace(profile, config, runtime, narrow=narrowed.sandbox, child=narrowed.limits) as place:
        task = narrowed.task()
        task.refused = place.refused
        instructions = project_instructions(settings, runtime)

        def work(line: Line) -> str:
            with use_token(line.token):
                own = replace(place, executor=RecordingExecutor(place.executor, task.written))
                own.receipts = place.receipts
                own.tools = own.new_toolbox(None, child=narrowed.limits(place.facts))
                agent = make_agent(
                    task, own, line, model=model, instructions=instructions, recorder=None,
                    budget=budget_of(settings), shared=None, price=price,
                )  # fmt: skip
                line.emit(started(task, place.facts))
                return agent.run(render_brief(task, runtime))

        job = Job(writes=True, timeout_s=task.rights.timeout_s, work=work)
        crew = Crew(
            [job], together=1, sink=sink, person=None, on_end=lambda ending: end_task(task, ending, sink)
        )  # fmt: skip
        crew.run()
    assert task.outcome is not None
    return task.outcome


def result_json(outcome: TaskOutcome) -> dict[str, Any]:
    """Return the last line that --json prints."""
    return {
        "event": "result",
        "status": outcome.status,
        "answer": outcome.said if outcome.status == "done" else None,
        "reason": outcome.reason or None,
        "last_words": None if outcome.status == "done" else outcome.said,
        "usage": usage_fields(outcome.usage),
        "seconds": round(outcome.seconds, 3),
        "files": list(outcome.files),
    }
