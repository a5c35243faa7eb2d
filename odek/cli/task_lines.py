"""Lines about the sub-agents of a call."""

from __future__ import annotations

from odek.cli.rows import fit_row, marks_of
from odek.cli.terminal import Terminal
from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    WarningIssued,
)
from odek.text import plural, truncate, visible

_GOAL_WIDTH = 60


class TaskLines:
    """Shows sub-agents: a line for each that has ended, and while they work how many do; more if `verbose`."""

    def __init__(self, terminal: Terminal, *, verbose: bool) -> None:
        self._terminal = terminal
        self._verbose = verbose
        self._started: dict[str, TaskStarted] = {}
        self._asking: set[str] = set()
        self._answered: set[str] = set()

    def __call__(self, event: TaskStarted | TaskEnded | TaskEvent) -> None:
        match event:
            case TaskStarted():
                self._started[event.task] = event
            case TaskEnded():
                self._ended(event)
            case TaskEvent():
                self._inner(event.task, event.event)
        self._status()

    def take_shown(self, call_id: str) -> bool:
        """Return whether the tasks of a call were shown, and all have answered; forget them."""
        shown = [task for task in self._started if task.rpartition("/")[0] == call_id]
        whole = all(task in self._answered for task in shown)
        for task in shown:
            del self._started[task]
            self._answered.discard(task)
        return bool(shown) and whole

    def _ended(self, event: TaskEnded) -> None:
        self._asking.discard(event.task)
        if event.status == "done":
            self._answered.add(event.task)
        style, tokens = self._terminal.style, event.usage.input_tokens + event.usage.output_tokens
        mark = style(event.status, "green" if event.status == "done" else "red")
        cost = f" · {tokens} tokens" if tokens else ""
        goal = visible(truncate(" ".join(self._started[event.task].goal.split()), _GOAL_WIDTH))
        about = style(f" · {event.seconds:.1f} s{cost} · {goal}", "dim")
        head = marks_of(self._terminal.look).row
        self._terminal.line(f"{style(head, 'dim')}{self._name(event.task)} {mark}{about}")

    def _inner(self, task: str, event: Event) -> None:
        match event:
            case ApprovalRequested():
                self._asking.add(task)
            case ApprovalAnswered():
                self._asking.discard(task)
            case WarningIssued():
                self._terminal.warn(f"{self._name(task)}: {event.text}", event.hint)
            case ToolStarted() if self._verbose:
                self._detail(task, event.title)
            case ToolFinished() if self._verbose:
                self._detail(task, f"{event.call.name} {'failed' if event.failed else 'ok'}")

    def _detail(self, task: str, text: str) -> None:
        head = f"{marks_of(self._terminal.look).row}{self._name(task)} · "
        self._terminal.line(self._terminal.style(head + fit_row(self._terminal, head, visible(text)), "dim"))

    def _name(self, task: str) -> str:
        started = self._started.get(task)
        return f"task {task.rpartition('/')[2]} of {started.of}" if started else f"task {task.rpartition('/')[2]}"

    def _status(self) -> None:
        if self._asking:
            self._terminal.show_status(f"  {plural(len(self._asking), 'sub-agent')} waiting for an answer")
        else:
            self._terminal.show_status("  sub-agents at work")
