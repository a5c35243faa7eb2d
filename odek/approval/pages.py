"""Putting a choice about a text that must be read first, part by part when it does not fit the screen (B34).

What does not fit is shown by its two ends, and saying yes is not among the choices until the rest has
been paged through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek.text import plural

if TYPE_CHECKING:
    from odek.approval.gate import Approver

FIT_ROWS = 12  # what a terminal of 24 rows holds besides the heading, the reasons and the question
TAIL_ROWS = 4
PAGE_ROWS = 20
NO = ("", "n", "no", "d", "deny")
_MORE = ("?", "context")
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPage:
    """What is asked, about which text."""

    heading: str
    rows: tuple[str, ...]
    """the text as rows of the screen, see display.command_rows"""
    details: tuple[str, ...] = ()
    """rows that are shown with the text when somebody wants to see more"""
    words: tuple[str, ...]
    """the answers that are not a no"""
    offer: str
    """what the question says of `words`: "y = once" """
    refusal: str = "N = deny"
    question: str = ""
    """what is asked when everything was seen, if it is not made of `offer` and `refusal`"""
    page_rows: int = PAGE_ROWS
    room: int = FIT_ROWS
    """rows that fit the screen below the heading"""

    @property
    def fits(self) -> bool:
        """whether all of the text is in sight at once"""
        return len(self.rows) <= self.room


def prompt_choice(approver: Approver, choice: PromptPage) -> str:
    """Return the one of `choice.words` that was answered, "" for a no or no answer."""
    shown = "\n".join((choice.heading, *_first_view(choice.rows, choice.room)))
    pages = _pages(choice)
    page = 0
    all_seen = choice.fits
    while True:
        choices = (*NO, *_MORE, *choice.words) if all_seen else (*NO, *_MORE, _ALL)
        question = _question(choice, page, len(pages), all_seen=all_seen)
        answer = approver.ask(f"{shown}\n{question}", choices)
        if answer in _MORE:
            shown = pages[page]
            page = (page + 1) % len(pages)
        elif answer == _ALL and not all_seen:
            shown = "\n".join(pages[page:])
            page = 0
        else:
            return answer if answer in choice.words else ""
        all_seen = all_seen or page == 0


def _first_view(rows: tuple[str, ...], room: int) -> tuple[str, ...]:
    if len(rows) <= room:
        return rows
    head = room - TAIL_ROWS - 1
    between = len(rows) - head - TAIL_ROWS
    return (*rows[:head], f"  * [{plural(between, 'row')} between, not shown yet]", *rows[-TAIL_ROWS:])


def _pages(choice: PromptPage) -> tuple[str, ...]:
    if choice.fits:
        return ("\n".join((choice.heading, *choice.details, *choice.rows)),)
    size = choice.page_rows
    parts = [choice.rows[start : start + size] for start in range(0, len(choice.rows), size)]
    return ("\n".join((*choice.details, *parts[0])), *("\n".join(part) for part in parts[1:]))


def _question(choice: PromptPage, page: int, count: int, *, all_seen: bool) -> str:
    part = f"part {page + 1} of {count}"
    if not all_seen:
        return f"Read it first: [? = {part} / all = the rest of it / {choice.refusal}]"
    if choice.question:
        return choice.question
    more = "details" if choice.fits else part
    return f"Approve? [{choice.offer} / ? = {more} / {choice.refusal}]"
