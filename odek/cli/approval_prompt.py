"""Approvals asked for at the terminal: how a question is laid out and how an answer is read (R-64, R-72, B34).

A text that does not fit the screen is shown by its two ends, and a yes is not among the choices until the rest has
been paged through. The layout is for the terminal that asks, from 40 to 200 columns: none of its rows is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odek import cancel
from odek.approval.card import FRICTION_PAUSE_S, Answer, Card, CardOrigin, PendingOperation
from odek.approval.description import FIT_ROWS as REQUEST_FIT_ROWS
from odek.approval.description import describe_request, heading_of
from odek.approval.display import command_rows, field, laid_out_for, layout_width, readable
from odek.approval.gate import ProjectAnswer
from odek.approval.request import ApprovalRequest
from odek.cli.tty_prompt import Screen, find_tty_prompt
from odek.cli.wrap import wrap_rows
from odek.text import plural, truncate, visible

if TYPE_CHECKING:
    from odek.approval.commands import CommandsRequest
    from odek.approval.servers import ServerRequest, ToolsRequest

FIT_ROWS = 12  # what a terminal of 24 rows holds besides the heading, the reasons and the question
TAIL_ROWS = 4
PAGE_ROWS = 20
_BESIDE_ROWS = 4  # the first row of the heading, the question on up to two, and one that was there before
REASON_LIMIT = 300
RISK_LIMIT = 130
GOAL_LIMIT = 130
CONSEQUENCE = (
    "\nAllowing this means code in the sandbox can read workspace files and,\n"
    "depending on network mode, contact external hosts.\n\n"
    "Approve? [y = once / t = trust this project / N]"
)

_SERVER_CONSEQUENCE = (
    "\nIts program runs in the sandbox for the whole session, with the files and\n"
    "networks of the commands there. Its tools are shown before the model gets them.\n\n"
    "Approve? [y = once / t = trust this server / N]"
)
_TOOLS_CONSEQUENCE = (
    "\nThe model gets these descriptions, and may call the tools.\n\nApprove? [y = once / t = trust these tools / N]"
)
_NO = ("", "n", "no", "d", "deny")
_MORE = ("?", "context")
_ALL = "all"
_WHOLE_WORD = ("approve",)
_YES = ("y", "yes", "a", *_WHOLE_WORD)
_TRUST = ("t", "trust")
_SINGLY = ("s", "single")
_PLAIN_YES = ("y", "yes")
_PLAIN_NO = ("", "n", "no")

Ask = Callable[[str, tuple[str, ...]], str | None]
"""(prompt, choices) → the choice that was typed, None for no answer; see TtyPrompt.ask"""


class TerminalUser:
    """The person at the terminal, in both roles: operator of this machine (Operator) and user of the agent (Person)."""

    def __init__(
        self, ask: Ask, *, sleep: Callable[[float], None] = cancel.sleep, screen: Callable[[], Screen] = Screen
    ) -> None:
        """`screen` is asked for the size of the terminal before each question."""
        self._to_terminal = ask
        self._sleep = sleep
        self._size = screen
        self._screen = screen()

    @contextmanager
    def _laid_out(self) -> Iterator[None]:
        self._screen = self._size()
        with laid_out_for(self._screen.columns):
            yield

    def _ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        """Ask, our own sentences broken between words; what is foreign was broken before."""
        if not self._screen.is_known:
            return self._to_terminal(prompt, choices)
        *body, question = prompt.split("\n")
        rows = [row for line in body for row in wrap_rows(line, self._screen.columns)]
        return self._to_terminal("\n".join((*rows, question)), choices)

    def approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
        """See Operator. A yes counts when all has been on the screen, the end of it last."""
        with self._laid_out():
            return self._approve_project(request)

    def _approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
        rows = tuple(describe_request(request).split("\n"))
        beside = heading_of(request) + CONSEQUENCE
        if len(rows) <= min(REQUEST_FIT_ROWS, _room(self._screen.rows, beside)):
            answer = self._ask(render_request(request), _PLAIN_YES + _TRUST + _PLAIN_NO) or ""
        else:
            answer = self._choose(
                PromptPage(
                    heading=heading_of(request),
                    rows=rows,
                    words=_PLAIN_YES + _TRUST,
                    offer="",
                    question=CONSEQUENCE,
                    page_rows=REQUEST_FIT_ROWS,
                ),
            )
        return "trust" if answer in _TRUST else "once" if answer in _PLAIN_YES else "no"

    def approve_server(self, request: ServerRequest | ToolsRequest) -> ProjectAnswer:
        """See Operator. A yes counts when all has been on the screen; no is the default."""
        with self._laid_out():
            return self._approve_server(request)

    def _approve_server(self, request: ServerRequest | ToolsRequest) -> ProjectAnswer:
        from odek.approval import servers  # few projects have any

        if isinstance(request, servers.ServerRequest):
            rows, question = servers.describe_server(request), _SERVER_CONSEQUENCE
        else:
            rows, question = servers.describe_tools(request), _TOOLS_CONSEQUENCE
        answer = self._choose(
            PromptPage(
                heading=servers.heading_of_server(request),
                rows=rows,
                words=_PLAIN_YES + _TRUST,
                offer="",
                question=question,
            ),
        )
        return "trust" if answer in _TRUST else "once" if answer in _PLAIN_YES else "no"

    def approve_commands(self, request: CommandsRequest) -> ProjectAnswer:
        """See Operator. A yes counts when all has been on the screen; no is the default."""
        from odek.approval import commands  # few projects have any

        with self._laid_out():
            page = PromptPage(
                heading=commands.heading_of_commands(request),
                rows=commands.describe_commands(request),
                words=_PLAIN_YES + _TRUST,
                offer="",
                question=commands.CONSEQUENCE,
            )
            answer = self._choose(page)
        return "trust" if answer in _TRUST else "once" if answer in _PLAIN_YES else "no"

    def _choose(self, page: PromptPage) -> str:
        """Return as `prompt_choice`; no part of the text is longer than the screen has room for."""
        most = _room(self._screen.rows, page.heading)
        rows = min(page.page_rows, max(self._screen.rows - _BESIDE_ROWS, TAIL_ROWS))
        return prompt_choice(self._ask, replace(page, room=min(page.room, most), page_rows=rows))

    def decide(self, card: Card) -> Answer:
        """See Person. Trust is not offered for a text that does not fit the screen."""
        if card.hasty:
            self._sleep(FRICTION_PAUSE_S)
        with self._laid_out():
            page = _batch_page(card) if "singly" in card.answers else _single_page(card, self._screen.rows)
            answer = self._choose(page)
        if not answer:
            return card.refusal
        return "trust" if answer in _TRUST else "singly" if answer in _SINGLY else card.answers[0]


def confirm(question: str) -> bool:
    """Return whether the person at the terminal says yes to `question`; without a terminal, no."""
    prompt = find_tty_prompt()
    return prompt is not None and prompt.ask(question, _PLAIN_YES + _PLAIN_NO) in _PLAIN_YES


def render_request(request: ApprovalRequest) -> str:
    """Return the question about a project's request; its last line asks, without an end of line."""
    return f"{heading_of(request)}\n{describe_request(request)}\n{CONSEQUENCE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPage:
    """One choice about a text that must be read first, part by part when it does not fit the screen."""

    heading: str
    rows: tuple[str, ...]
    """the text as rows of the screen, see display.command_rows"""
    details: tuple[str, ...] = ()
    """rows that are shown with the text on request"""
    words: tuple[str, ...]
    """the answers that are not a no"""
    offer: str
    """how the question names `words`: "y = once" """
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


def prompt_choice(ask: Ask, page: PromptPage) -> str:
    """Return the one of `page.words` that was answered, "" for a no or no answer."""
    shown = "\n".join((page.heading, *_first_view(page.rows, page.room)))
    parts = _parts(page)
    number = 0
    all_seen = page.fits
    while True:
        choices = (*_NO, *_MORE, *page.words) if all_seen else (*_NO, *_MORE, _ALL)
        answer = ask(f"{shown}\n{_question(page, number, len(parts), all_seen=all_seen)}", choices)
        if answer in _MORE:
            shown = parts[number]
            number = (number + 1) % len(parts)
        elif answer == _ALL and not all_seen:
            shown = "\n".join(parts[number:])
            number = 0
        else:
            return answer if answer in page.words else ""
        all_seen = all_seen or number == 0


def _first_view(rows: tuple[str, ...], room: int) -> tuple[str, ...]:
    if len(rows) <= room:
        return rows
    head = room - TAIL_ROWS - 1
    between = len(rows) - head - TAIL_ROWS
    return (*rows[:head], f"  * [{plural(between, 'row')} between, not shown yet]", *rows[-TAIL_ROWS:])


def _parts(page: PromptPage) -> tuple[str, ...]:
    if page.fits:
        return ("\n".join((page.heading, *page.details, *page.rows)),)
    size = page.page_rows
    parts = [page.rows[start : start + size] for start in range(0, len(page.rows), size)]
    return ("\n".join((*page.details, *parts[0])), *("\n".join(part) for part in parts[1:]))


def _question(page: PromptPage, number: int, count: int, *, all_seen: bool) -> str:
    part = f"part {number + 1} of {count}"
    if not all_seen:
        return f"Read it first: [? = {part} / all = the rest of it / {page.refusal}]"
    if page.question:
        return page.question
    more = "details" if page.fits else part
    return f"Approve? [{page.offer} / ? = {more} / {page.refusal}]"


def _room(rows: int, heading: str) -> int:
    """Return how many rows of a text fit below its heading on a screen of so many rows."""
    return max(rows - heading.count("\n") - _BESIDE_ROWS, TAIL_ROWS + 1)


def _single_page(card: Card, screen_rows: int) -> PromptPage:
    (item,) = card.items
    heading = _heading(item, card)
    words, offer = (_WHOLE_WORD, "approve = once, the whole word") if card.hasty else (_YES, "y = once")
    rows = command_rows(item.operation.text)
    if "trust" in card.answers and len(rows) <= min(FIT_ROWS, _room(screen_rows, heading)):
        what = "this exact command" if item.exact else "these classes" if len(item.classes) > 1 else "this class"
        words, offer = (*words, *_TRUST), f"{offer} / t = trust {what}"
    return PromptPage(heading=heading, rows=rows, details=_details(item), words=words, offer=offer)


def _batch_page(card: Card) -> PromptPage:
    every = "approve = all, the whole word" if card.hasty else "y = all"
    return PromptPage(
        heading="\n".join(
            (f"{len(card.items)} operations need approval ({visible(card.place)})", *_origin(card.origin))
        ),
        rows=tuple(row for number, item in enumerate(card.items, 1) for row in _item(number, item)),
        details=tuple(row for number, item in enumerate(card.items, 1) for row in _details(item, number)),
        words=(*(_WHOLE_WORD if card.hasty else _YES), *_SINGLY),
        offer=f"{every} / s = one by one",
        refusal="N = none",
        room=PAGE_ROWS,
    )


def _heading(item: PendingOperation, card: Card) -> str:
    operation = item.operation
    lines = operation.text.count("\n") + 1
    return "\n".join(
        (
            f"Approval needed (class {_classes(item)})",
            *_origin(card.origin),
            *field("runs on", visible(card.place), words=True),
            *field("risk", _short(item.risk, RISK_LIMIT, rows=3), words=True),
            *field("reason", _short(operation.reason, REASON_LIMIT, rows=5) or "(none given)"),
            *field(operation.kind, f"{plural(lines, 'line')}, {plural(len(operation.text), 'character')}"),
        )
    )


def _short(text: str, limit: int, *, rows: int) -> str:
    """Return text that stands above the question, cut so that a narrow terminal shows the rest, too."""
    return truncate(readable(text), min(limit, rows * layout_width()))


def _origin(origin: CardOrigin | None) -> tuple[str, ...]:
    """Return the row that names the sub-agent that asks; its goal is the model's text."""
    if origin is None:
        return ()
    return field("from", f"sub-agent {origin.task} of {origin.of}: {_short(origin.goal, GOAL_LIMIT, rows=3)}")


def _item(number: int, item: PendingOperation) -> tuple[str, ...]:
    """Return the rows of one operation on a card; rows of foreign text begin with a mark of their own."""
    reason = _short(item.operation.reason, REASON_LIMIT, rows=5)
    return (
        *field(str(number), f"{_classes(item)}: {_short(item.risk, RISK_LIMIT, rows=3)}"),
        *(field("reason", reason) if reason else ()),
        *command_rows(item.operation.text),
    )


def _details(item: PendingOperation, number: int | None = None) -> tuple[str, ...]:
    rows = (*field("rule", readable(item.rule)), *field("setting", readable(item.setting)))
    if number is not None:
        return (*field(str(number), _classes(item)), *rows)
    trust = "trust lasts until odek ends, for everything of these classes"
    if item.exact:
        trust = "trust lasts until the session ends, for this command as it is written"
    return (*rows, *field("trust", trust, words=True)) if item.trustable else rows


def _classes(item: PendingOperation) -> str:
    return ", ".join(map(readable, item.classes))
