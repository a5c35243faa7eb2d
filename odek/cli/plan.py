"""The question after a plan: whether it is carried out (R-281)."""

from __future__ import annotations

from odek.app.conversation import Conversation
from odek.cli import signals
from odek.cli.console import AnySink, show_answer, shown_output
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import TtyPrompt, find_tty_prompt
from odek.host import Host
from odek.text import visible

CARRY_OUT = "Carry out the plan."
_QUESTION = (
    "\nGoing on means the sandbox starts again, and can write to this folder.\n\n"
    "Carry out the plan? [y = yes / w = yes, and add some words / N]"
)
_YES = ("y", "yes")
_WORDS = ("w", "words")
_NO = ("", "n", "no")


def next_task(prompt: TtyPrompt | None) -> str:
    """Return the task with which the plan is carried out, "" when it is not, or not yet."""
    answer = prompt.ask(_QUESTION, (*_YES, *_WORDS, *_NO)) if prompt else None
    if answer in _YES:
        return CARRY_OUT
    if prompt is None or answer not in _WORDS:
        return ""
    words = prompt.ask_text("Your words (nothing: not yet):")
    return f"{CARRY_OUT} {words}" if words else ""


def carry_out(conversation: Conversation, sink: AnySink, host: Host, terminal: Terminal) -> str:
    """Carry out the plan, if the person at the terminal wants that, and return the answer; "": not now."""
    with signals.turn(), shown_output(sink, conversation, host):
        task = ask_to_go_on(conversation, terminal)
        answer = conversation.send(task) if task else ""
        if answer:
            show_answer(sink, terminal, answer)
    return answer


def ask_to_go_on(conversation: Conversation, terminal: Terminal) -> str:
    """Ask the person at the terminal, and leave plan mode on a yes; return as `next_task`. Raises OdekError."""
    if not conversation.planning:
        return ""
    doing = conversation.unplanned.settings
    if doing.sandbox.readonly:
        by = visible(doing.origin_of("sandbox_readonly"))
        terminal.note(f"the plan cannot be carried out here: read-only was asked for ({by})")
        return ""
    task = next_task(find_tty_prompt(alone=terminal.suspended))
    if task:
        conversation.set_planning(False)
    return task
