"""Renderers of events: lines on stderr for people, one of them with streamed text, or JSON lines on stdout."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from odek.app.config import redactor_of
from odek.app.conversation import Conversation
from odek.cli.answer import AnswerPrinter, print_answer
from odek.cli.rows import SHAPES, Marks, fit_row, marks_of
from odek.cli.task_lines import TaskLines
from odek.cli.terminal import Span, Terminal
from odek.config.settings import Settings
from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    FilesChanged,
    Finished,
    ModelReplied,
    Notice,
    Progress,
    RequestStarted,
    SandboxStarted,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    WarningIssued,
    to_json,
)
from odek.host import Host
from odek.patterns import pattern
from odek.text import plural, render_usd, truncate, visible, visible_lines

if TYPE_CHECKING:
    from odek.redact import Redactor
    from odek.redacted_events import RedactedEvents

_TAG = pattern(r"</?untrusted_content_[0-9a-f]{16}(?: source=\".*\")?>")
_REFUSED = "operation denied by user: "
_SUCCESS = "exit code: 0"  # the same as "ok", which is printed anyway
# As tools escape them: the carriage return of a progress bar, and colours.
_OVERWRITTEN = "\\x0d"
_COLOUR = pattern(r"\\x1b\[[0-9;]*[mK]")
_PREVIEW_LINES = 8
_LINE_WIDTH = 160
_DIFF_LINES = 20
_EVERYTHING = 10_000
_THOUGHT_LINES = 3


class _Redacting(ABC):
    """A sink of events that shows no secret (R-395)."""

    def __init__(self, terminal: Terminal, redactor: Callable[[], Redactor] | None) -> None:
        """`redactor` is called with the first event; None: no secret is known, and keys are found by their format."""
        self._terminal = terminal
        self._redactor = redactor
        self._redacted: RedactedEvents | None = None
        terminal.redact = self.redact

    def __call__(self, event: Event) -> None:
        for seen in self._events.take(event):
            self.show(seen)

    @abstractmethod
    def show(self, event: Event) -> None:
        """Show an event that has no secret."""

    def redact(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._events.redact(text)

    @property
    def _events(self) -> RedactedEvents:
        if self._redacted is None:
            from odek.redact import Redactor  # nothing is shown before the start
            from odek.redacted_events import RedactedEvents

            self._redacted = RedactedEvents((self._redactor or Redactor)())
        return self._redacted


class ConsoleRenderer(_Redacting):
    """A sink of events for people."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        redactor: Callable[[], Redactor] | None = None,
        now: Callable[[], float] = time.monotonic,
        verbose: bool = False,
    ) -> None:
        super().__init__(terminal, redactor)
        self._now = now
        self._verbose = verbose
        self._started = now()
        self._calls: dict[str, tuple[str, float]] = {}
        """the running calls, by id: title, and when each began by `_working`"""
        self._outputs: dict[str, str] = {}
        """what running calls have printed last, by id; "" is the one that runs alone"""
        self._thoughts: list[str] = []
        """what the model thought and was not printed yet"""
        self._writing = False
        """whether the awaited reply has begun"""
        self._headed = ""
        """id of the call whose heading was printed last"""
        self._tasks = TaskLines(terminal, verbose=verbose)
        self.ways = "odek diff · odek undo"
        """what shows and takes back the changes of a turn"""

    def show(self, event: Event) -> None:
        match event:
            case RequestStarted():
                self._calls.clear()
                self._outputs.clear()
                self._writing, self._thoughts = False, []
                self._terminal.show_status("waiting for the model")
            case ThinkingDelta() | TextVoided() | TextDelta():
                self._arrived(event)
            case ModelReplied():
                self._terminal.clear_status()
                self._show_thoughts()
                self._replied(event)
            case ToolStarted():
                self._calls[event.call.id] = (event.title, self._working())
                self._heading(event.call.id)
                self._terminal.show_status("  running")
            case ToolOutput():
                self._outputs[event.call_id] = event.tail
                self._show_outputs()
            case ToolFinished():
                self._result(event)
            case Finished():
                self._summary(event)
            case FilesChanged():
                self._files_changed(event)
            case TaskStarted() | TaskEnded() | TaskEvent():
                self._tasks(event)
            case _:
                print_notice(self._terminal, event)

    def _arrived(self, event: ThinkingDelta | TextVoided | TextDelta) -> None:
        match event:
            case ThinkingDelta():
                if not self._thoughts:
                    self._terminal.show_status("the model is thinking")
                self._thoughts.append(event.text)
            case TextVoided():
                self._thoughts = []
            case TextDelta():
                self._show_thoughts()
                if not self._writing:
                    self._writing = True
                    self._terminal.show_status("the model is writing")

    def _show_thoughts(self) -> None:
        """Print what the model thought, before what it says; its last lines, unless verbose (B111)."""
        lines = [visible_lines(line) for line in "".join(self._thoughts).split("\n") if line.strip()]
        self._thoughts = []
        shown = lines if self._verbose else lines[-_THOUGHT_LINES:]
        rest = len(lines) - len(shown)
        rows = [f"… {plural(rest, 'line')} of thinking", *shown] if rest else shown
        for row in rows:
            mark = self._marks.thought
            self._terminal.line(self._terminal.style(mark + fit_row(self._terminal, mark, row), "dim"))

    def _replied(self, event: ModelReplied) -> None:
        """Print the text that accompanies tool calls; an answer is printed by the command."""
        if event.reply.message.tool_calls and event.reply.message.content.strip():
            self._write_stdout(event.reply.message.content)

    def _write_stdout(self, text: str) -> None:
        self._terminal.line()
        for line in visible_lines(text.strip()).splitlines():
            self._terminal.line(line)

    def _heading(self, call_id: str) -> None:
        name, _, subject = self._calls[call_id][0].partition(": ")
        style = self._terminal.style
        mark = self._marks.call
        subject = fit_row(self._terminal, f"{mark}{name}  ", subject)
        self._terminal.line(f"{style(mark, 'cyan')}{style(name, 'bold')}  {subject}".rstrip())
        self._headed = call_id

    def _result(self, event: ToolFinished) -> None:
        style = self._terminal.style
        if (
            self._headed != event.call.id and event.call.id in self._calls
        ):  # others began at the same time: show whose result this is
            self._heading(event.call.id)
        shown_before = self._tasks.take_shown(event.call.id) and not self._verbose  # a line for each has said it
        if event.diffs and not event.failed:
            self._show_diffs(event.diffs)
        elif not shown_before:
            self._show_preview(event)
        _, began = self._calls.pop(event.call.id, ("", self._started))
        took = self._working() - began
        mark = style("failed", "red") if event.failed else style("ok", "green")
        self._terminal.line(f"{style(self._marks.end, 'dim')}{mark}{style(f' · {took:.1f} s', 'dim')}")
        for call_id in (event.call.id, ""):
            self._outputs.pop(call_id, None)
        if self._calls:
            self._terminal.show_status("  running")
            self._show_outputs()

    def _show_outputs(self) -> None:
        """Show what calls have printed, in the order in which they began; may be called in any of their threads."""
        calls = dict(self._calls)
        outputs = [(calls[name][0], tail) for name, tail in tuple(self._outputs.items()) if name in calls]
        alone = self._outputs.get("")
        if alone is not None:
            outputs = [("", alone)]
        if outputs:
            self._terminal.show_rows(partial(_live_rows, self._terminal, outputs))

    def _show_preview(self, event: ToolFinished) -> None:
        """Show the end of a result."""
        limit = _EVERYTHING if self._verbose else _PREVIEW_LINES
        lines, hidden = preview(event.text, limit=limit, succeeded=not event.failed)
        if hidden:
            self._row("", (f"… {plural(hidden, 'more line')} above", ("dim",)))
        for line in lines:
            self._row("", (line, _line_style(line)))

    def _show_diffs(self, diffs: Sequence[tuple[str, str]]) -> None:
        """Show what became of files, each with its name and how many lines were added and removed."""
        for path, diff in diffs:
            lines = [visible_lines(line) for line in diff.split("\n")] if diff else []
            added = sum(line.startswith("+") for line in lines)
            removed = sum(line.startswith("-") for line in lines)
            counts = ((f" +{added}", ("green",)), (f" -{removed}", ("red",))) if lines else ((" written", ()),)
            self._row(visible(path), *counts)
            shown = lines if self._verbose else lines[:_DIFF_LINES]
            for line in shown:
                self._row("", (line, _line_style(line)))
            if len(lines) > len(shown):
                self._row("", (f"… {plural(len(lines) - len(shown), 'more line')}", ("dim",)))

    def _row(self, text: str, *spans: Span) -> None:
        """Print `text` and `spans` as a row below a call, of which the first is cut to fit."""
        mark, rest = self._marks.row, "".join(part for part, _ in spans)
        terminal = self._terminal
        text = fit_row(terminal, mark + rest, text) if text else text
        if not text and len(spans) == 1:
            spans = ((fit_row(terminal, mark, spans[0][0]), spans[0][1]),)
        terminal.line(terminal.style(mark, "dim") + text + "".join(terminal.style(part, *how) for part, how in spans))

    @property
    def _marks(self) -> Marks:
        return marks_of(self._terminal.look)

    def _working(self) -> float:
        """Return the time, without the seconds that a person took to answer questions."""
        return self._now() - self._terminal.asked_s

    def _summary(self, event: Finished) -> None:
        usage = event.usage
        tokens = f" · {usage.input_tokens} tokens in, {usage.output_tokens} out" if usage.input_tokens else ""
        cost = f" · {render_usd(usage.cost_usd)}" if usage.known_cost_usd is not None else ""
        rounds = f"{event.iterations} model call{'s' if event.iterations != 1 else ''}"
        refused = f" · refused: {', '.join(f'{visible(name)} {count}' for name, count in event.refused)}"
        more = f"{tokens}{cost}{refused if event.refused else ''}"
        took = f"{self._now() - self._started:.1f} s"
        self._terminal.sentence(f"{self._marks.summary}{rounds}{more} · {took}", "dim")

    def _files_changed(self, event: FilesChanged) -> None:
        """Print the line that ends a turn which changed files."""
        files = sum(not file.is_folder for file in event.files)
        what = plural(files, "file") if files else plural(len(event.files), "folder")
        added, removed = event.lines
        style, minus = self._terminal.style, "−" if self._terminal.look.shapes else "-"
        lines = f", {style(f'+{added}', 'green')} {style(f'{minus}{removed}', 'red')}" if added or removed else ""
        shared = " · another odek worked here, too" if event.shared else ""
        head, tail = style(self._marks.summary, "dim"), f"{shared} · {self.ways}"
        size = len(f"{self._marks.summary}{what} changed{tail}") + len(f", +{added} -{removed}" if lines else "")
        if size > self._terminal.row_columns:
            self._terminal.line(f"{head}{what} changed{lines}")
            self._terminal.sentence(f"   {tail.removeprefix(' · ')}", "dim")
        else:
            self._terminal.line(f"{head}{what} changed{lines}{style(tail, 'dim')}")


class StreamingRenderer(ConsoleRenderer):
    """A renderer of turns and their answers: text is shown while it is being written, if a person reads stdout."""

    def __init__(
        self, terminal: Terminal, *, verbose: bool, streams: bool, redactor: Callable[[], Redactor] | None = None
    ) -> None:
        super().__init__(terminal, redactor=redactor, verbose=verbose)
        self._streams = streams
        self._answer = AnswerPrinter(terminal)
        self._finished: Finished | None = None
        """kept until the answer has been printed"""

    def show(self, event: Event) -> None:
        match event:
            case TextDelta() if self._streams:
                if self._thoughts:
                    self._show_thoughts()
                self._answer.feed(event.text)
                return
            case RequestStarted() | TextVoided():
                self._answer.end()
                self._answer = AnswerPrinter(self._terminal)
                if isinstance(event, RequestStarted) and event.iteration == 1:
                    self._started = self._now()  # the turn is timed, not the conversation
            case Finished():
                self._finished = event
                if self._streams:
                    self.show_answer(event.answer)
                return
            case _:
                self._answer.end()
        super().show(event)

    @property
    def shows_output(self) -> bool:
        """whether there is a terminal whose last lines may be replaced"""
        return self._terminal.look.moves

    def end_line(self) -> None:
        """End a line that the turn left open."""
        self._answer.end()

    def show_answer(self, answer: str) -> None:
        """Print the answer of the turn, as far as it is not on the terminal already, and then what it took."""
        self._answer.end()
        answer = self.redact(answer) if self._terminal.shows_answer else answer
        if not self._answer.has_shown(answer):
            print_answer(self._terminal, answer)
            self._answer = AnswerPrinter(self._terminal, shown=answer)
        if self._finished is not None:
            finished, self._finished = self._finished, None
            super().show(finished)

    def _replied(self, event: ModelReplied) -> None:
        text = event.reply.message.content
        if self._answer.has_shown(text):
            return
        if self._streams and event.reply.message.tool_calls and text.strip():  # a model that does not stream
            print_answer(self._terminal, text)
        else:
            super()._replied(event)


class JsonSink(_Redacting):
    """A sink of events for machines: one JSON object a line, on stdout; the answer is left to the LastEvent."""

    def __init__(self, terminal: Terminal, redactor: Callable[[], Redactor] | None = None) -> None:
        super().__init__(terminal, redactor)
        self._last = terminal.last_event

    def show(self, event: Event) -> None:
        if self._last is not None and isinstance(event, Finished):
            self._last.finished = event
            return
        if self._last is not None and isinstance(event, TurnEnded):
            self._last.usage = event.usage
        self._terminal.answer(json.dumps(to_json(event)))


def print_notice(terminal: Terminal, event: Event, *, as_json: bool = False) -> None:
    """Print a notice, a warning or the startup line on stderr; `as_json`: questions and answers on stdout, too."""
    match event:
        case ApprovalRequested() | ApprovalAnswered() if as_json:
            terminal.answer(json.dumps(to_json(event)))
        case WarningIssued():
            terminal.warn(event.text, event.hint)
        case Notice() | Progress():
            terminal.note(event.text)
        case SandboxStarted():
            terminal.note(event.line)


class QuietSink(_Redacting):
    """A sink where nothing is to be shown of the work: warnings of sub-agents' places, as their parent's are shown."""

    def show(self, event: Event) -> None:
        if isinstance(event, TaskEvent) and isinstance(event.event, WarningIssued):
            self._terminal.warn(f"task {event.task.rpartition('/')[2]}: {event.event.text}", event.event.hint)


AnySink = StreamingRenderer | QuietSink | JsonSink


def choose_renderer(
    settings: Settings, terminal: Terminal, redactor: Callable[[], Redactor]
) -> StreamingRenderer | QuietSink:
    """Return what shows turns and answers to a person."""
    if settings.interaction_mode == "off":
        return QuietSink(terminal, redactor)
    verbose = settings.interaction_mode == "verbose"
    return StreamingRenderer(terminal, verbose=verbose, streams=terminal.shows_answer, redactor=redactor)


def choose_sink(settings: Settings, terminal: Terminal, redactor: Callable[[], Redactor]) -> AnySink:
    """Return the sink for the agent's events in a run."""
    return JsonSink(terminal, redactor) if settings.json else choose_renderer(settings, terminal, redactor)


def shown_output(sink: AnySink, conversation: Conversation, host: Host) -> AbstractContextManager[None]:
    """Let a terminal show what the commands of this thread print while they run."""
    if not (isinstance(sink, StreamingRenderer) and sink.shows_output):
        return nullcontext()
    from odek.cli.live import watched_commands

    return watched_commands(sink, redactor_of(conversation.config, host))


def show_answer(sink: AnySink, terminal: Terminal, answer: str) -> None:
    """Print the answer of a run, unless `sink` has: on a terminal, or as an event. Into a pipe goes all of it (C3)."""
    if isinstance(sink, StreamingRenderer):
        sink.show_answer(answer)
    elif isinstance(sink, QuietSink):
        print_answer(terminal, sink.redact(answer) if terminal.shows_answer else answer)


def preview(text: str, *, limit: int, succeeded: bool = False) -> tuple[tuple[str, ...], int]:
    """Return the last `limit` lines of a result, safe to show, and how many came before. Pure.

    Of a line that was overwritten only the last state is shown, of a success not its exit code.
    """
    lines: list[str] = []
    outside = True
    for line in _unwrapped(text).replace("\r\n", "\n").split("\n"):
        if _TAG.fullmatch(line):
            outside = line.startswith("</")
        elif line.strip() and not (succeeded and outside and line == _SUCCESS):
            lines.append(visible_lines(_last_state(line)))
    if lines and lines[0].startswith(
        _REFUSED
    ):  # the card has said the rest, and how to allow it is for the model (C12)
        lines = lines[:1]
    shown = tuple(truncate(line, _LINE_WIDTH) for line in lines[-limit:])
    return shown, len(lines) - len(shown)


def _unwrapped(text: str) -> str:
    """Return the sentences of a failure, which tools give to the model as JSON on one line."""
    first, end, rest = text.partition("\n")
    try:
        value = json.loads(first) if first.startswith('{"error":') else None
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or len(value) != 1 or not isinstance(value["error"], str):
        return text
    return f"{value['error']}{end}{rest}"


def _last_state(line: str) -> str:
    """Return what a terminal would show of `line` in the end, marked when something was overwritten."""
    states = [state for state in _COLOUR.sub("", line).split(_OVERWRITTEN) if state.strip()]
    return f"… {states[-1]}" if len(states) > 1 else "".join(states)


def _live_rows(terminal: Terminal, outputs: Sequence[tuple[str, str]], columns: int) -> tuple[str, ...]:
    from odek.cli.live import live_rows_of_calls  # most commands take less than a second

    return tuple(terminal.style(row, "dim") for row in live_rows_of_calls(outputs, columns, head=SHAPES.row))


def _line_style(line: str) -> tuple[str, ...]:
    if line.startswith("+") and not line.startswith("+++"):
        return ("green",)
    if line.startswith("-") and not line.startswith("---"):
        return ("red",)
    return ()
