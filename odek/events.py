"""Events of a run, for the sink that shows them: the terminal, `--json`, later a web page.

The rooms that prepare and start a sandbox emit notices, warnings and progress; the agent emits the rest.
Texts are as they came; a sink sends what it prints for a person through `odek.text` first.
Whenever a RequestStarted is sent, the conversation is complete (no call without its result) and may be
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from odek.model.types import Reply, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A message of the user is stored, and worked on from now on."""

    turn: int
    """from 1"""
    text: str
    files: tuple[str, ...]
    """names of what was given with it"""
    at: str
    """RFC 3339"""


TurnStatus = Literal["answered", "cancelled", "failed", "budget", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The turn is over, however it ended; what was done is stored."""

    turn: int
    status: TurnStatus
    message: str = ""
    """what ended it, where there is no answer"""
    hint: str = ""
    detail: str = ""
    """what others said of it, such as the model's server"""
    code: str = ""
    """"bug" when odek is at fault"""
    usage: Usage = field(default_factory=Usage)
    session_usage: Usage = field(default_factory=Usage)
    """of all turns, as far as they are known"""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStarted:
    """A request goes to the model."""

    iteration: int
    """from 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the model's text, while it is being written."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """A piece of what the model thinks before its text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVoided:
    """The text since RequestStarted does not count: the answer broke off and starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """The model's reply is complete."""

    reply: Reply
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call is about to be checked and carried out."""

    call: ToolCall
    title: str
    """one safe line for people: the tool and what it is called for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a running command printed last; transient, the result comes whole."""

    call_id: str
    tail: str
    size_bytes: int
    """of all that it has printed so far"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool call has its result."""

    call: ToolCall
    text: str
    """what the model gets to read"""
    failed: bool
    diffs: tuple[tuple[str, str], ...] = ()
    """files that the call changed, each with its unified diff without heading; for a person at a terminal alone"""


@dataclass(frozen=True, slots=True)
class WarningIssued:
    """Something the user should know, and that does not end the run."""

    text: str
    hint: str = ""
    """what the user can do about it"""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happens or was decided, in one sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something has come that takes long; the next one replaces it where that can be shown."""

    text: str


@dataclass(frozen=True, slots=True)
class SandboxStarted:
    """The sandbox is up and has been verified."""

    line: str
    """the startup line"""
    facts: Mapping[str, object]
    """what was observed, as JSON values"""


@dataclass(frozen=True, slots=True)
class SandboxChanged:
    """The sandbox is being started, was lost, or has ended; SandboxStarted tells that it is ready."""

    state: Literal["starting", "lost", "closed"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run has its answer."""

    answer: str
    usage: Usage
    iterations: int
    refused: tuple[tuple[str, int], ...] = ()
    """classes of danger, and how many operations of each were refused"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file, link or folder that a turn changed."""

    path: str
    """from the working directory; bytes that are not text as in os.fsdecode"""
    change: str
    """added, deleted, modified, mode, or type where it became something else"""
    is_folder: bool
    added: int | None
    """lines; None where they were not counted: it is not text, or its content is not kept"""
    removed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged:
    """A turn has changed files of the working directory."""

    number: int
    """of the turn in its folder, for `odek diff` and `odek undo`"""
    files: tuple[ChangedFile, ...]
    shared: bool
    """whether another odek worked there at the same time, whose changes may be among these"""

    @property
    def lines(self) -> tuple[int, int]:
        """lines that were added and removed, as far as they were counted"""
        return sum(file.added or 0 for file in self.files), sum(file.removed or 0 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A person is asked about operations; the run waits."""

    approval: Mapping[str, object]
    """the card as JSON values, its texts raw; see approval.card.card_to_json"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered:
    """That question is over."""

    id: str
    answer: str
    """one of the card's answers"""
    how: Literal["person", "timeout", "unanswered", "cancelled", "closed"] = "person"
    """but for person the answer is the refusal; cancelled: the work was; closed: its place ended"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """A sub-agent begins its task."""

    task: str
    """"<call id>/<number>": unlike that of any other of the turn"""
    of: int
    """how many tasks the call has"""
    goal: str
    facts: Mapping[str, object] | None
    """of its sandbox, as JSON values; None when it has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """A sub-agent has ended, with an answer or without."""

    task: str
    status: str
    """done, failed, cancelled, timeout or budget"""
    usage: Usage
    seconds: float
    """without those in which a person was asked"""
    files: tuple[str, ...]
    """what its file tools wrote, relative to the workspace"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """What happens in a sub-agent."""

    task: str
    event: Event


Event = (
    TurnStarted
    | TurnEnded
    | RequestStarted
    | TextDelta
    | ThinkingDelta
    | TextVoided
    | ModelReplied
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ApprovalRequested
    | ApprovalAnswered
    | WarningIssued
    | Notice
    | Progress
    | SandboxStarted
    | SandboxChanged
    | FilesChanged
    | Finished
    | TaskStarted
    | TaskEnded
    | TaskEvent
)
Sink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A sink that shows nothing."""
    del event


def to_json(event: Event) -> dict[str, Any]:
    """Return `event` as the object that `--json` prints: its kind under "event", then its fields."""
    match event:
        case TurnStarted() | TurnEnded() | FilesChanged():
            return _turn_fields(event)
        case RequestStarted():
            return {"event": "model_asked", "iteration": event.iteration}
        case TextDelta() | ThinkingDelta() | TextVoided():
            return _text_fields(event)
        case ModelReplied():
            return {"event": "model_replied", "iteration": event.iteration, **_reply_fields(event.reply)}
        case ToolStarted() | ToolOutput() | ToolFinished():
            return _tool_fields(event)
        case ApprovalRequested() | ApprovalAnswered():
            return _approval_fields(event)
        case WarningIssued() | Notice() | Progress() | SandboxStarted() | SandboxChanged():
            return _notice_fields(event)
        case TaskStarted() | TaskEnded() | TaskEvent():
            return _task_fields(event)
        case Finished():
            usage = usage_fields(event.usage)
            fields = {"answer": event.answer, "iterations": event.iterations, "usage": usage}
            fields |= {"refused": refused_fields(event.refused), "cost_usd": cost_field(event.usage)}
            return {"event": "finished", **fields}


def _files_fields(event: FilesChanged) -> dict[str, Any]:
    files = [
        {
            "path": file.path,
            "change": file.change,
            "folder": file.is_folder,
            "added": file.added,
            "removed": file.removed,
        }
        for file in event.files
    ]
    added, removed = event.lines
    totals = {"added": added, "removed": removed, "shared": event.shared}
    return {"event": "files_changed", "number": event.number, "files": files, **totals}


def _text_fields(event: TextDelta | ThinkingDelta | TextVoided) -> dict[str, Any]:
    if isinstance(event, TextVoided):
        return {"event": "text_voided"}
    return {"event": "text" if isinstance(event, TextDelta) else "thinking", "text": event.text}


def _tool_fields(event: ToolStarted | ToolOutput | ToolFinished) -> dict[str, Any]:
    match event:
        case ToolStarted():
            return {"event": "tool_started", **_call_fields(event.call), "title": event.title}
        case ToolOutput():
            return {"event": "tool_output", "id": event.call_id, "tail": event.tail, "size_bytes": event.size_bytes}
        case ToolFinished():
            call = {"id": event.call.id, "name": event.call.name}
            return {"event": "tool_finished", **call, "failed": event.failed, "result": event.text}


def _approval_fields(event: ApprovalRequested | ApprovalAnswered) -> dict[str, Any]:
    if isinstance(event, ApprovalRequested):
        return {"event": "approval_asked", "approval": dict(event.approval)}
    return {"event": "approval_settled", "id": event.id, "answer": event.answer, "how": event.how}


def _task_fields(event: TaskStarted | TaskEnded | TaskEvent) -> dict[str, Any]:
    match event:
        case TaskEvent():
            return {**to_json(event.event), "task": event.task}
        case TaskStarted():
            facts = None if event.facts is None else dict(event.facts)
            return {"event": "task_started", "task": event.task, "of": event.of, "goal": event.goal, "facts": facts}
        case TaskEnded():
            fields = {"status": event.status, "usage": usage_fields(event.usage), "seconds": round(event.seconds, 3)}
            return {"event": "task_ended", "task": event.task, **fields, "files": list(event.files)}


def _turn_fields(event: TurnStarted | TurnEnded | FilesChanged) -> dict[str, Any]:
    if isinstance(event, FilesChanged):
        return _files_fields(event)
    if isinstance(event, TurnStarted):
        fields = {"turn": event.turn, "text": event.text, "files": list(event.files), "at": event.at}
        return {"event": "turn_started", **fields}
    more = {name: text for name, text in (("detail", event.detail), ("code", event.code)) if text}
    error = {"message": event.message, "hint": event.hint, **more}
    return {
        "event": "turn_ended",
        "turn": event.turn,
        "status": event.status,
        "error": error if event.message else None,
        "usage": usage_fields(event.usage),
        "session_usage": usage_fields(event.session_usage),
        "seconds": round(event.seconds, 3),
    }


def _notice_fields(event: WarningIssued | Notice | Progress | SandboxStarted | SandboxChanged) -> dict[str, Any]:
    match event:
        case WarningIssued():
            return {"event": "warning", "text": event.text, **({"hint": event.hint} if event.hint else {})}
        case SandboxStarted():
            return {"event": "sandbox", "state": "ready", "facts": dict(event.facts), "reason": None}
        case SandboxChanged():
            return {"event": "sandbox", "state": event.state, "facts": None, "reason": event.reason or None}
        case _:
            return {"event": "notice", "text": event.text}


def _reply_fields(reply: Reply) -> dict[str, Any]:
    return {
        "content": reply.message.content,
        "tool_calls": [_call_fields(call) for call in reply.message.tool_calls],
        "stop": reply.stop,
        "usage": usage_fields(reply.usage),
    }


def _call_fields(call: ToolCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def cost_field(usage: Usage) -> float | None:
    """Return what `usage` cost in USD, None where no price is known."""
    return None if usage.known_cost_usd is None else round(usage.known_cost_usd, 6)


def refused_fields(refused: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
    """Return classes of danger, and how many operations of each were refused, as JSON values."""
    return [{"class": name, "count": count} for name, count in refused]


def usage_fields(usage: Usage) -> dict[str, int]:
    """Return `usage` as JSON values."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
