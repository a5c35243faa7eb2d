"""A person who gives scripted answers."""

from __future__ import annotations

from odek.cli.approval_prompt import TerminalUser
from odek.cli.tty_prompt import Screen


class Answers(TerminalUser):
    """A person at a terminal, as Operator and as Person: `Answers("y", None)` says yes once, then gives no answer.

    Fails when asked once too often, and when an answer is not among the choices offered (a real
    terminal would ask again).
    """

    def __init__(self, *answers: str | None, columns: int = 80, rows: int = 24) -> None:
        super().__init__(self.ask, sleep=lambda _: None, screen=lambda: Screen(columns, rows, is_known=True))
        self._answers = list(answers)
        self.prompts: list[str] = []
        self.choices: list[tuple[str, ...]] = []

    def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        self.prompts.append(prompt)
        self.choices.append(choices)
        assert self._answers, f"asked once too often:\n{prompt}"
        answer = self._answers.pop(0)
        assert answer is None or answer in choices, f"{answer!r} is not offered: {choices}\n{prompt}"
        return answer

    def assert_all_used(self) -> None:
        assert not self._answers, f"never asked for: {self._answers}"
