"""What a person sees of a run, and what a machine does."""

from __future__ import annotations

import io
import itertools
import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import make_layers
from fakes.terminals import Screen

from odek.cli.console import (
    ConsoleRenderer,
    JsonSink,
    StreamingRenderer,
    choose_sink,
    preview,
    print_notice,
    show_answer,
)
from odek.cli.last_event import LastEvent
from odek.cli.session_header import print_session_event
from odek.cli.terminal import Terminal
from odek.config.resolve import resolve
from odek.errors import Interrupted, OdekError, StateFileError
from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ChangedFile,
    Event,
    FilesChanged,
    Finished,
    ModelReplied,
    Notice,
    Progress,
    RequestStarted,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WarningIssued,
    to_json,
)
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.redact import MARK, Redactor

ATTACK = "\x1b]0;pwn\x07\x1b[2K\r\u202e\u200b"
RAW = "\x1b\x07\r\u202e\u200b"
CALL = ToolCall(id="call_1", name="shell", arguments='{"command": "make"}')


def story(*, hostile: str = "") -> tuple[Event, ...]:
    message = Message(role="assistant", content=f"I will look{hostile}", tool_calls=(CALL,))
    usage = Usage(input_tokens=10, output_tokens=2)
    fence = "untrusted_content_0123456789abcdef"
    text = f'<{fence} source="$ make">\none{hostile}\n\n+added\n-removed\n</{fence}>\nexit code: 2'
    return (
        RequestStarted(iteration=1),
        TextDelta(text=hostile),
        ThinkingDelta(text=f"hm{hostile}"),
        TextVoided(),
        ModelReplied(reply=Reply(message=message, usage=usage, stop="tool_calls"), iteration=1),
        ToolStarted(call=CALL, title="shell: make"),
        ToolFinished(call=CALL, text=text, failed=True),
        WarningIssued(text=f"careful{hostile}"),
        Finished(answer=f"done{hostile}", usage=usage, iterations=2),
    )


def told(events: tuple[Event, ...], *, verbose: bool = False) -> tuple[str, str]:
    """Return stdout and stderr of a renderer whose clock goes half a second a look."""
    stdout, stderr = io.StringIO(), io.StringIO()
    ticks = itertools.count()
    renderer = ConsoleRenderer(Terminal(stdout, stderr), now=lambda: next(ticks) / 2, verbose=verbose)
    for event in events:
        renderer(event)
    return stdout.getvalue(), stderr.getvalue()


def test_story_for_people() -> None:
    """R-81: on stderr; the answer is printed by somebody else."""
    assert told(story()) == (
        "",
        "\nI will look\n● shell  make\n  │ one\n  │ +added\n  │ -removed\n  │ exit code: 2\n  └ failed · 0.5 s\n"
        "odek: warning: careful\n── 2 model calls · 10 tokens in, 2 out · 1.5 s\n",
    )


THOUGHTS = "first\n\nsecond\x1b[2K\nthird\nfourth\n"


@pytest.mark.parametrize("streams", [True, False])
def test_thinking_is_shown_before_the_text_and_not_on_stdout(streams: bool) -> None:
    """B111: its last lines, or all of it with --interaction-mode verbose."""
    story = (
        RequestStarted(iteration=1),
        *(ThinkingDelta(text=piece) for piece in (THOUGHTS[:9], THOUGHTS[9:])),
        TextDelta(text="Yes."),
        ModelReplied(reply=Reply(message=Message(role="assistant", content="Yes.")), iteration=1),
    )
    for verbose, rows in ((False, ("… 1 line of thinking",)), (True, ("first",))):
        stdout, stderr = io.StringIO(), io.StringIO()
        renderer = StreamingRenderer(Terminal(stdout, stderr), verbose=verbose, streams=streams)
        for event in story:
            renderer(event)
        assert stderr.getvalue() == "".join(f"  ┆ {row}\n" for row in (*rows, "second\\x1b[2K", "third", "fourth"))
        assert ("Yes." in stdout.getvalue(), "first" in stdout.getvalue()) == (streams, False)


def test_thinking_that_was_void_is_not_shown() -> None:
    """B111, B130"""
    assert told((RequestStarted(iteration=1), ThinkingDelta(text="hm"), TextVoided(), TextDelta(text="x"))) == ("", "")


def test_results_of_calls_that_ran_together_say_whose_they_are() -> None:
    other = ToolCall(id="call_2", name="read_file", arguments='{"path": "a"}')
    _, stderr = told(
        (
            ToolStarted(call=CALL, title="shell: make"),
            ToolStarted(call=other, title="read_file: a"),
            ToolFinished(call=CALL, text="one", failed=False),
            ToolFinished(call=other, text="two", failed=False),
        )
    )
    assert stderr == (
        "● shell  make\n● read_file  a\n"
        "● shell  make\n  │ one\n  └ ok · 1.0 s\n"
        "● read_file  a\n  │ two\n  └ ok · 1.0 s\n"
    )


def test_time_of_a_call_is_not_that_of_its_question() -> None:
    terminal, ticks = Terminal(io.StringIO(), stderr := io.StringIO()), itertools.count()
    renderer = ConsoleRenderer(terminal, now=lambda: float(next(ticks)))
    renderer(ToolStarted(call=CALL, title="shell: make"))
    terminal.asked_s += 0.7
    renderer(ToolFinished(call=CALL, text="one", failed=False))
    assert stderr.getvalue() == "● shell  make\n  │ one\n  └ ok · 0.3 s\n"


def test_wait_tells_whether_the_model_has_begun_to_write() -> None:
    """R-81: a machine without a GPU reads for minutes and then writes for minutes."""

    terminal = Terminal(io.StringIO(), io.StringIO())
    terminal.configure(env={"TERM": "xterm"}, is_terminal=True)
    renderer = ConsoleRenderer(terminal)
    seen = []
    for event in (RequestStarted(iteration=1), TextDelta(text="a "), TextDelta(text="b ")):
        renderer(event)
        names = {thread.name for thread in threading.enumerate()}
        seen.append(names & {"waiting for the model", "the model is writing"})
    terminal.clear_status()
    assert seen == [{"waiting for the model"}, {"the model is writing"}, {"the model is writing"}]


def test_nothing_raw_reaches_the_terminal() -> None:
    """R-64: from the model's words, a tool's output, a warning."""
    _, stderr = told(story(hostile=ATTACK))
    assert [character for character in RAW if character in stderr] == []
    assert stderr.count("\\x1b]0;pwn\\x07\\x1b[2K\\r\\u202e\\u200b") == 3


def test_fence_in_the_output_hides_nothing_but_itself() -> None:
    """A line that only resembles a fence is shown."""
    fence = "<untrusted_content_0123456789abcdef>"
    assert preview(f"{fence}\n{fence} rm -rf\n<untrusted_content_xyz>", limit=9) == (
        (f"{fence} rm -rf", "<untrusted_content_xyz>"),
        0,
    )


@pytest.mark.parametrize(
    ("lines_of_output", "verbose", "heading"), [(20, False, "12 more lines"), (9, False, "1 more line"), (20, True, "")]
)
def test_long_output_is_shown_by_its_end(lines_of_output: int, verbose: bool, heading: str) -> None:
    text = "\n".join(f"line {number}" for number in range(lines_of_output))
    _, stderr = told((ToolFinished(call=CALL, text=text, failed=False),), verbose=verbose)
    lines = stderr.splitlines()
    hidden = [f"  │ … {heading} above"] if heading else []
    first = lines_of_output - 8 if heading else 0
    assert lines[:-1] == [*hidden, *(f"  │ line {number}" for number in range(first, lines_of_output))]


def test_failure_is_told_in_its_sentences() -> None:
    """D-6: the person sees the whole refusal, the setting that it names above all; R-64: still nothing raw."""
    refusal = f"operation denied by policy: rm{ATTACK}\nIt is of class destructive: why.\nThe operator can allow it."
    assert preview(f"{json.dumps({'error': refusal})}\nhint: stop", limit=9) == (
        (
            "operation denied by policy: rm\\x1b]0;pwn\\x07\\x1b[2K\\r\\u202e\\u200b",
            "It is of class destructive: why.",
            "The operator can allow it.",
            "hint: stop",
        ),
        0,
    )


def test_refusal_of_the_person_is_one_line() -> None:
    """C12: the class stood on the card, and how to allow it is for the model."""
    refusal = (
        "operation denied by user: rm x\nIt is of class destructive: why.\nThe operator can allow it with a setting."
    )
    assert preview(json.dumps({"error": refusal}), limit=9) == (("operation denied by user: rm x",), 0)


@pytest.mark.parametrize("text", ['{"error":', '{"error":1}', '{"error":"a","b":1}', '{"error":' + "[" * 99])
def test_what_is_no_failure_is_shown_as_it_is(text: str) -> None:
    assert preview(text, limit=9) == ((text,), 0)


FENCE = "untrusted_content_0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("get: 1%\\x0dget: 50%\\x0dget: 100%, done", "… get: 100%, done"),
        ("get: 1%\\x0dget: 99%\\x0d", "… get: 99%"),
        ("\\x0dalone", "alone"),
        ("\\x1b[1;32mgreen\\x1b[0m\\x1b[K", "green"),
        ("\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
    ],
)
def test_line_that_was_written_over_is_shown_as_it_ended(line: str, shown: str) -> None:
    """A progress bar is one line; what moves the cursor in other ways stays in sight (R-64)."""
    assert preview(line, limit=9) == ((shown,), 0)


@pytest.mark.parametrize(
    ("text", "succeeded", "shown"),
    [
        ("(no output)\nexit code: 0\nnote: n", True, ("(no output)", "note: n")),
        (f"<{FENCE}>\nexit code: 0\n</{FENCE}>\nexit code: 0", True, ("exit code: 0",)),
        (f"<{FENCE}>\nexit code: 0\n</{FENCE}>", True, ("exit code: 0",)),
        (f"<{FENCE}>\nx\n</{FENCE}>\nexit code: 2", False, ("x", "exit code: 2")),
        ("x\nexit code: 0\ntimed out", False, ("x", "exit code: 0", "timed out")),
    ],
)
def test_exit_code_of_a_success_is_not_told_twice(text: str, succeeded: bool, shown: tuple[str, ...]) -> None:
    """ "ok" says it; what a command itself prints stays."""
    assert preview(text, limit=9, succeeded=succeeded) == (shown, 0)


def changed_files(*numbers: tuple[int, int] | None, folders: int = 0) -> FilesChanged:
    files = [
        ChangedFile(
            path=f"f{place}", change="modified", is_folder=False, added=lines and lines[0], removed=lines and lines[1]
        )
        for place, lines in enumerate(numbers)
    ]
    files += [ChangedFile(path="d", change="added", is_folder=True, added=0, removed=0)] * folders
    return FilesChanged(number=1, files=tuple(files), shared=False)


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (changed_files((10, 3), (2, 1), (0, 0)), "── 3 files changed, +12 −4 · odek diff · odek undo"),
        (changed_files((0, 0)), "── 1 file changed · odek diff · odek undo"),
        (changed_files(None, (1, 0)), "── 2 files changed, +1 −0 · odek diff · odek undo"),
        (changed_files(folders=2), "── 2 folders changed · odek diff · odek undo"),
        (changed_files((1, 1), folders=1), "── 1 file changed, +1 −1 · odek diff · odek undo"),
        (
            replace(changed_files((1, 1)), shared=True),
            "── 1 file changed, +1 −1 · another odek worked here, too · odek diff · odek undo",
        ),
    ],
)
def test_a_turn_ends_with_what_it_changed(event: FilesChanged, shown: str) -> None:
    """R-278: files and lines, and what shows them."""
    stderr = io.StringIO()
    ConsoleRenderer(Terminal(io.StringIO(), stderr))(event)
    assert stderr.getvalue() == f"{shown}\n"


def test_long_line_is_cut() -> None:
    assert preview("x" * 1000, limit=1) == (("x" * 159 + "…",), 0)


USAGE = '{"input_tokens": 10, "output_tokens": 2, "cached_tokens": 0}'
LINES = (
    '{"event": "model_asked", "iteration": 1}',
    '{"event": "text", "text": "\\u00fc"}',
    '{"event": "thinking", "text": "hm\\u00fc"}',
    '{"event": "text_voided"}',
    '{"event": "model_replied", "iteration": 1, "content": "I will look\\u00fc", "tool_calls": [{"id": "call_1", '
    '"name": "shell", "arguments": "{\\"command\\": \\"make\\"}"}], "stop": "tool_calls", "usage": ' + USAGE + "}",
    '{"event": "tool_started", "id": "call_1", "name": "shell", "arguments": "{\\"command\\": \\"make\\"}", '
    '"title": "shell: make"}',
    '{"event": "tool_finished", "id": "call_1", "name": "shell", "failed": true, "result": '
    '"<untrusted_content_0123456789abcdef source=\\"$ make\\">\\none\\u00fc\\n\\n+added\\n-removed\\n'
    '</untrusted_content_0123456789abcdef>\\nexit code: 2"}',
    '{"event": "warning", "text": "careful\\u00fc"}',
    '{"event": "finished", "answer": "done\\u00fc", "iterations": 2, "usage": ' + USAGE + ', "refused": [], '
    '"cost_usd": null}',
)
STARTED, ENDED = (
    TurnStarted(turn=1, text="t", files=(), at="2026-07-15T00:00:00Z"),
    TurnEnded(turn=1, status="answered"),
)
TASK_STARTED, TASK_ENDED = (
    TaskStarted(task="c/1", of=1, goal="g", facts=None),
    TaskEnded(task="c/1", status="done", usage=Usage(), seconds=1.0, files=()),
)
ERROR_FIELDS = ["message", "hint", "detail", "source", "code", "exit_code", "answer", "usage", "cost_usd", "refused"]
QUESTION = {"id": "a-1", "text": "ls\x1b[2K"}
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "CLI.md"


def test_events_are_these_bytes() -> None:
    """R-81: what programs read stays as it is; a change here breaks them."""
    stdout = io.StringIO()
    renderer = JsonSink(Terminal(stdout, io.StringIO()))
    for event in story(hostile="ü"):
        renderer(event)
    assert stdout.getvalue().splitlines() == list(LINES)


def test_every_event_is_documented_with_its_fields() -> None:
    """R-81: kinds in the order of their table, fields as they are sent; `session` is told by `print_session_event`."""
    table = DOCUMENT.read_text(encoding="utf-8").partition("\n## Events\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE)
    documented = {kind: re.findall(r"`(\w+)`", re.sub(r" \(each [^)]*\)", "", fields)) for kind, fields in rows[1:]}
    sent = {event.pop("event"): list(event) for event in map(json.loads, LINES)}
    questions = {"approval_asked": ["approval"], "approval_settled": ["id", "answer", "how"]}
    turns = {"turn_started": list(to_json(STARTED))[1:], "turn_ended": list(to_json(ENDED))[1:]}
    tasks = {"task_started": list(to_json(TASK_STARTED))[1:], "task_ended": list(to_json(TASK_ENDED))[1:]}
    changed = {"files_changed": list(to_json(FilesChanged(number=1, files=(), shared=False)))[1:]}
    own = {**changed, "session": ["id", "turn", "place", "reason"], "error": ERROR_FIELDS}
    assert documented == {**own, **turns, **sent, **questions, **tasks}
    (call,) = json.loads(LINES[4])["tool_calls"]
    assert f"(each {', '.join(f'`{key}`' for key in call)})" in table
    usage = ", ".join(f"`{key}`" for key in json.loads(USAGE))
    assert f"`usage` holds {' and '.join(usage.rsplit(', ', 1))}." in table


@pytest.mark.parametrize(
    ("kept", "because", "event"),
    [
        ("20260715-x", "", '"id": "20260715-x", "turn": 2, "place": "sandbox", "reason": null'),
        (None, "--no-sandbox", '"id": null, "turn": 2, "place": "host", "reason": "--no-sandbox"'),
    ],
)
def test_first_event_says_where_commands_run(kept: str | None, because: str, event: str) -> None:
    """A22, R-81: and which conversation is kept."""
    stdout = io.StringIO()
    settings = resolve(make_layers(flags={"json": True}))
    print_session_event(settings, Terminal(stdout, io.StringIO()), kept, turn=2, on_host_because=because)
    assert stdout.getvalue() == f'{{"event": "session", {event}}}\n'


def test_with_the_progress_off_a_task_without_its_sandbox_is_no_secret() -> None:
    """R-81, R-223: what the parent's place warns of is shown by itself; that of a sub-agent comes as an event."""
    stdout, stderr = io.StringIO(), io.StringIO()
    sink = choose_sink(resolve(make_layers(flags={"interaction_mode": "off"})), Terminal(stdout, stderr), Redactor)
    for event in (*story(), TaskEvent(task="c/2", event=WarningIssued("it got no sandbox: x\x1b[2K", hint="y"))):
        sink(event)
    assert (stdout.getvalue(), "\x1b" in stderr.getvalue()) == ("", False)
    assert stderr.getvalue().startswith("odek: warning: task 2: it got no sandbox: x")
    assert stderr.getvalue().endswith("odek: hint: y\n")


def test_story_for_machines() -> None:
    """R-81: one object a line, whatever the texts hold."""
    stdout, stderr = io.StringIO(), io.StringIO()
    renderer = JsonSink(Terminal(stdout, stderr))
    for event in story(hostile=ATTACK + "\n\u2028\ud83d"):
        renderer(event)
    lines = stdout.getvalue().splitlines()
    assert [json.loads(line)["event"] for line in lines] == [
        "model_asked", "text", "thinking", "text_voided", "model_replied", "tool_started", "tool_finished", "warning",
        "finished",
    ]  # fmt: skip
    assert (stdout.getvalue().isascii(), stderr.getvalue()) == (True, "")


def last_events(*, end: Callable[[LastEvent], object]) -> list[dict[str, Any]]:
    """Return what is printed of a turn with an answer whose command then ends by `end`."""
    stdout = io.StringIO()
    terminal = Terminal(stdout, io.StringIO())
    terminal.last_event = LastEvent(terminal)
    renderer = JsonSink(terminal)
    for event in (STARTED, Finished(answer="a", usage=Usage(), iterations=1), Notice("n"), ENDED, Notice("later")):
        renderer(event)
    end(terminal.last_event)
    return [json.loads(line) for line in stdout.getvalue().splitlines()]


def test_answer_is_the_last_line() -> None:
    """R-81, R-129: a program that reads to the end finds the answer there."""
    kinds = [event["event"] for event in last_events(end=LastEvent.succeed)]
    assert kinds == ["turn_started", "notice", "turn_ended", "notice", "finished"]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda last: last.fail(StateFileError("m", hint="h", detail="d")), ("m", "h", "d", "state", "state", 1)),
        (lambda last: last.interrupt(Interrupted(2)), ("stopped by SIGINT", "", "", "signal", "SIGINT", 130)),
        (lambda last: last.crash(KeyError("x"), 3), ("internal error: KeyError: 'x'", "", "", "odek", "bug", 3)),
    ],
)
def test_an_error_behind_an_answer_carries_it_and_there_is_one_last_line(
    end: Callable[[LastEvent], int], expected: tuple[object, ...]
) -> None:
    """R-290, C13: what comes after the last line is not printed."""

    def twice(last: LastEvent) -> None:
        assert (end(last), end(last)) == (expected[-1], expected[-1])

    (*before, error) = last_events(end=twice)
    assert [event["event"] for event in before] == ["turn_started", "notice", "turn_ended", "notice"]
    assert list(error) == ["event", *ERROR_FIELDS]
    assert tuple(error[key] for key in ERROR_FIELDS[:6]) == expected
    assert (error["answer"], error["usage"]["input_tokens"], error["refused"]) == ("a", 0, [])


def test_questions_are_lines_of_json_and_notices_are_not() -> None:
    """R-81, R-104: with --json a program sees what was asked and answered; a person sees the prompt itself."""
    events = (
        ApprovalRequested(approval=QUESTION),
        ApprovalAnswered(id="a-1", answer="once"),
        Notice("n"),
        Progress("p"),
    )
    for as_json in (True, False):
        stdout, stderr = io.StringIO(), io.StringIO()
        for event in events:
            print_notice(Terminal(stdout, stderr), event, as_json=as_json)
        assert stderr.getvalue() == "odek: n\nodek: p\n"
        assert stdout.getvalue() == (
            '{"event": "approval_asked", "approval": {"id": "a-1", "text": "ls\\u001b[2K"}}\n'
            '{"event": "approval_settled", "id": "a-1", "answer": "once", "how": "person"}\n'
            if as_json
            else ""
        )


def replied(text: str, *calls: ToolCall) -> Event:
    return ModelReplied(reply=Reply(message=Message(role="assistant", content=text, tool_calls=calls)), iteration=1)


def show(*events: Event) -> tuple[str, str]:
    """Return what a terminal without colours shows of `events`: stdout and stderr."""
    screen = Screen(is_terminal=True)
    renderer = StreamingRenderer(screen.terminal, verbose=False, streams=True)
    for event in events:
        renderer(event)
    return screen.stdout, screen.stderr


def test_text_is_shown_as_it_arrives_and_once() -> None:
    """Line ends are kept, a carriage return waits for its line feed, everything else cannot move the cursor."""
    pieces = ("\n\none\r", "\ntwo\x1b", "[2J\n", "three")
    answer = "one\r\ntwo\x1b[2J\nthree"
    events = (RequestStarted(iteration=1), *(TextDelta(text=piece) for piece in pieces), replied(answer))
    assert show(*events) == ("one\ntwo\\x1b[2J\nthree\n", "")
    ended = Finished(answer=answer, usage=Usage(), iterations=1)
    assert show(*events, ended)[0] == "one\ntwo\\x1b[2J\nthree\n"


def test_answer_comes_before_the_statistics_however_it_came() -> None:
    """C3: on a terminal with `Finished`, elsewhere when the command prints it."""
    story = (RequestStarted(iteration=1), replied("**whole**"))
    ended = Finished(answer="**whole**", usage=Usage(), iterations=1)
    assert show(*story) == ("", "")
    assert [text.split(" · ")[0] for text in show(*story, ended)] == ["**whole**\n", "── 1 model call"]
    screen = Screen()
    renderer = StreamingRenderer(screen.terminal, verbose=False, streams=False)
    for event in (*story, TextDelta(text="**whole**"), ended):
        renderer(event)
    assert (screen.stdout, screen.stderr) == ("", "")
    renderer.show_answer("**whole**")
    assert (screen.stdout, screen.stderr.split(" · ")[0]) == ("**whole**\n", "── 1 model call")


def test_line_that_is_open_is_ended_before_anything_else_is_told() -> None:
    asked = RequestStarted(iteration=1)
    assert show(asked, TextDelta(text="half"), TextVoided(), TextDelta(text="all "))[0] == "half\nall"
    ended = TurnEnded(turn=1, status="interrupted")
    assert show(asked, TextDelta(text="half of **it"), ended)[0] == "half of **it\n"


def lines_of(*events: Event, verbose: bool = False) -> list[str]:
    return told(events, verbose=verbose)[1].splitlines()


def test_sub_agents_are_a_line_each_and_more_when_asked() -> None:
    """R-225, R-226: calm by default, what each does with `verbose`; a goal cannot move the cursor."""
    call = ToolCall(id="c/1", name="delegate_tasks", arguments="{}")
    inner = ToolCall(id="x", name="shell", arguments="{}")
    used = Usage(input_tokens=10, output_tokens=2)
    events = [
        ToolStarted(call=call, title="delegate_tasks: look"),
        TaskStarted(task="c/1/1", of=2, goal="one\x1b[2J\nline", facts=None),
        TaskStarted(task="c/1/2", of=2, goal="two", facts=None),
        TaskEvent(task="c/1/1", event=ToolStarted(call=inner, title="shell: ls")),
        TaskEvent(task="c/1/1", event=ToolFinished(call=inner, text="out", failed=True)),
        TaskEvent(task="c/1/2", event=WarningIssued("mind this")),
        TaskEnded(task="c/1/2", status="done", usage=used, seconds=1.26, files=()),
    ]
    failed = TaskEnded(task="c/1/1", status="timeout", usage=Usage(), seconds=2.0, files=())
    answered = TaskEnded(task="c/1/1", status="done", usage=Usage(), seconds=2.0, files=())
    end = ToolFinished(call=call, text="task 1 of 2: done\ntask 2 of 2: done", failed=False)
    head = ["● delegate_tasks  look"]
    lines = [
        "odek: warning: task 2 of 2: mind this",
        "  │ task 2 of 2 done · 1.3 s · 12 tokens · two",
        "  │ task 1 of 2 done · 2.0 s · one\\x1b[2J line",
    ]
    assert lines_of(*events, answered, end)[:-1] == [*head, *lines]
    late = lines_of(*events, failed, end)[:-1]
    assert late[2:] == [lines[1], lines[2].replace("done", "timeout"), "  │ task 1 of 2: done", "  │ task 2 of 2: done"]
    details = ["  │ task 1 of 2 · shell: ls", "  │ task 1 of 2 · shell failed"]
    assert lines_of(*events, answered, end, verbose=True)[:-1][1:3] == details


DIFF = "@@ -1,2 +1,2 @@\n a\n-b\n+c\x1b[2J"


def test_changed_files_are_shown_as_diffs() -> None:
    """C4, R-263: with the name and the counts, in colours where there are some, within a bound, safe to look at."""
    call = ToolCall(id="c", name="write_file", arguments="{}")
    text = '{"success":true,"path":"/workspace/a","bytes":2}'
    started = ToolStarted(call=call, title="write_file: a")
    ended = ToolFinished(call=call, text=text, failed=False, diffs=(("a\u202e", DIFF), ("b", "")))
    rows = ["a\\u202e +1 -1", "@@ -1,2 +1,2 @@", " a", "-b", "+c\\x1b[2J", "b written"]
    assert lines_of(started, ended) == ["● write_file  a", *(f"  │ {row}" for row in rows), "  └ ok · 0.5 s"]
    screen = Screen(is_terminal=True)
    screen.terminal.configure(env={"TERM": "xterm"}, is_terminal=True)
    renderer = ConsoleRenderer(screen.terminal)
    renderer(started)
    renderer(ended)
    assert "\x1b[31m-b\x1b[0m\n" in screen.stderr
    assert "\x1b[32m+c\\x1b[2J\x1b[0m\n" in screen.stderr
    long = replace(ended, diffs=(("a", "\n".join(f"+{number}" for number in range(50))),))
    assert lines_of(started, long)[1:-1] == [
        "  │ a +50 -0",
        *(f"  │ +{number}" for number in range(20)),
        "  │ … 30 more lines",
    ]
    assert len(lines_of(started, long, verbose=True)) == 53
    failed = replace(ended, failed=True, text="no")
    assert lines_of(started, failed) == ["● write_file  a", "  │ no", "  └ failed · 0.5 s"]


def test_plain_output_has_words_only() -> None:
    """R-260: for a screen reader: no drawing, no colours, nothing that is replaced."""
    screen = Screen(is_terminal=True)
    screen.terminal.configure(env={"TERM": "xterm"}, is_terminal=True, wishes=lambda: (False, True))
    renderer = StreamingRenderer(screen.terminal, verbose=False, streams=True)
    for event in (RequestStarted(iteration=1), TextDelta(text="**half** of"), TextDelta(text=" it\nand")):
        renderer(event)
    assert screen.stdout == "**half** of it\n"  # whole lines
    for event in (
        TextDelta(text=" more"),
        replied("**half** of it\nand more", CALL),
        ToolStarted(call=CALL, title="shell: make"),
        ToolFinished(call=CALL, text="one", failed=False),
        Finished(answer="**half** of it\nand more", usage=Usage(), iterations=1),
    ):
        renderer(event)
    assert screen.stdout == "**half** of it\nand more\n"
    assert re.sub(r"\d\.\d", "N", screen.stderr) == "shell  make\n  one\n  ok · N s\n1 model call · N s\n"


SECRET = "hunter2-Zq81-xx"


@pytest.mark.parametrize("mode", ["engaging", "verbose", "off"])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_secret_is_shown_whoever_says_it(mode: str, is_terminal: bool) -> None:
    """R-395: said in two pieces, thought, in a call, its title, a task; what goes into a pipe is exactly the answer."""
    call = ToolCall(id="1", name="shell", arguments=SECRET)
    answer = f"it is {SECRET}."
    screen = Screen(is_terminal=is_terminal)
    settings = resolve(make_layers(flags={"interaction_mode": mode}))
    sink = choose_sink(settings, screen.terminal, lambda: Redactor((SECRET,)))
    said: tuple[Event, ...] = (
        RequestStarted(iteration=1), ThinkingDelta(text="so hunter2"), ThinkingDelta(text="-Zq81-xx"),
        replied(f"I try {SECRET}", call), ToolStarted(call=call, title=f"shell: echo {SECRET}"),
        ToolFinished(call=call, text=f"1\n{MARK}", failed=False, diffs=((SECRET, f"+{SECRET}"),)),
        TaskStarted(task="1/1", of=1, goal=SECRET, facts=None),
        TaskEvent(task="1/1", event=WarningIssued(f"x {SECRET}")),
        TaskEnded(task="1/1", status="done", usage=Usage(), seconds=1, files=()),
        RequestStarted(iteration=2), TextDelta(text="it is hunter2-"), TextDelta(text="Zq81-xx."), replied(answer),
        Finished(answer=answer, usage=Usage(), iterations=2),
    )  # fmt: skip
    for event in said:
        sink(event)
    show_answer(sink, screen.terminal, answer)
    assert (
        screen.stdout
        == (answer if not is_terminal else f"I try {MARK}\nit is {MARK}." if mode != "off" else f"it is {MARK}.") + "\n"
    )
    assert not re.search("hunter2|Zq81", screen.stderr)
    assert MARK in screen.stderr


def test_no_secret_is_in_the_events_for_machines() -> None:
    """R-395: a piece of a text waits while it may be the beginning of one."""
    stdout = io.StringIO()
    terminal = Terminal(stdout, io.StringIO())
    terminal.last_event = LastEvent(terminal)
    sink = JsonSink(terminal, lambda: Redactor((SECRET,)))
    pieces = (TextDelta(text=piece) for piece in ("it is ", "hunter2", "-Zq81-xx", "."))
    for event in (*pieces, replied(f"it is {SECRET}."), Finished(answer=SECRET, usage=Usage(), iterations=1)):
        sink(event)
    terminal.last_event.succeed()
    lines = [json.loads(line) for line in stdout.getvalue().splitlines()]
    assert [line.get("text", line.get("content", line.get("answer"))) for line in lines] == [
        "it is ", f"{MARK}.", f"it is {MARK}.", MARK,
    ]  # fmt: skip


def test_no_secret_is_in_the_error_that_ends_a_turn() -> None:
    """R-395: on stderr and in the last event; a server's words may quote what it was sent."""
    screen = Screen(is_terminal=False)
    terminal = screen.terminal
    terminal.last_event = LastEvent(terminal)
    settings = resolve(make_layers(flags={"json": True}))
    choose_sink(settings, terminal, lambda: Redactor((SECRET,)))
    error = OdekError(f"refused {SECRET}", hint=f"not {SECRET}", detail=f"I was sent {SECRET}")
    terminal.error(error)
    terminal.last_event.fail(error)
    terminal.bug(ValueError(SECRET), debug=False, code=3)
    terminal.warn(f"it says: {SECRET}", f"so {SECRET}")  # a server of MCP that does not start
    terminal.note(f"Docker says: {SECRET}")
    said = json.loads(screen.stdout)
    assert (said["message"], said["hint"], said["detail"]) == (f"refused {MARK}", f"not {MARK}", f"I was sent {MARK}")
    assert (SECRET in screen.stderr, screen.stderr.count(MARK)) == (False, 7)


def test_error_is_shown_where_the_secrets_cannot_be_read() -> None:
    """R-395: that is the error, then."""

    def unreadable() -> Redactor:
        raise OdekError("secrets.env can be read by others")

    screen = Screen(is_terminal=False)
    screen.terminal.last_event = LastEvent(screen.terminal)
    choose_sink(resolve(make_layers()), screen.terminal, unreadable)
    error = OdekError("it ends")
    screen.terminal.error(error)
    assert screen.terminal.last_event.fail(error) == 1
    assert "odek: error: it ends" in screen.stderr
    assert json.loads(screen.stdout)["message"] == "it ends"
