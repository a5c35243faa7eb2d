"""What follows a plan at a terminal (R-281)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from fakes.layering import make_layers
from fakes.terminals import Screen

from odek.app.config import config_of
from odek.cli.plan import CARRY_OUT, ask_to_go_on, next_task
from odek.cli.tty_prompt import TtyPrompt


class Prompt:
    """A person who answers once, and may add words."""

    def __init__(self, answer: str | None, words: str | None = None) -> None:
        self._answer = answer
        self._words = words
        self.asked = 0

    def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        self.asked += 1
        assert "can write to this folder" in prompt
        assert self._answer is None or self._answer in choices
        return self._answer

    def ask_text(self, prompt: str) -> str | None:
        self.asked += 1
        assert prompt.startswith("Your words")
        return self._words


@pytest.mark.parametrize(
    ("answer", "words", "task"),
    [
        *(("y", None, CARRY_OUT), ("yes", None, CARRY_OUT)),
        *(("w", "but gently", f"{CARRY_OUT} but gently"), ("words", "x", f"{CARRY_OUT} x")),
        *(("w", "", ""), ("w", None, "")),
        *(("", None, ""), ("n", None, ""), ("no", None, ""), (None, None, "")),
    ],
)
def test_only_a_yes_carries_the_plan_out(answer: str | None, words: str | None, task: str) -> None:
    """R-281: no answer is a no, and so are words that were not said."""
    assert next_task(cast("TtyPrompt", Prompt(answer, words))) == task


def test_without_a_terminal_nothing_is_carried_out() -> None:
    """R-281."""
    assert next_task(None) == ""


@pytest.mark.parametrize(("planning", "note"), [(False, ""), (True, "read-only was asked for (~/.odek/config.json)")])
def test_no_question_whose_yes_would_come_to_nothing(planning: bool, note: str) -> None:
    """R-281: after a turn that did the work, and where the next container could not write either."""
    screen = Screen()

    class Talk:
        unplanned = config_of(make_layers(operator={"sandbox_readonly": True}))

    Talk.planning = planning  # type: ignore[attr-defined]
    assert ask_to_go_on(cast("Any", Talk()), screen.terminal) == ""
    assert note in screen.stderr
    assert bool(screen.stderr) is planning
