"""The findings of a check-up, as the terminal shows them."""

from __future__ import annotations

import json
import re

from odek.app.doctor import Check, check_to_json
from odek.cli.help import hang
from odek.cli.terminal import Span, Terminal

_COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}
_LEAST_ROOM = 30
"""columns for what was seen; where there are fewer, its further lines begin further left"""


def print_checks(checks: tuple[Check, ...], terminal: Terminal, *, as_json: bool = False) -> int:
    """Print the findings; return 1 when one of them is a failure."""
    if as_json:
        terminal.answer(json.dumps([check_to_json(check) for check in checks], indent=2))
    else:
        terminal.answer_spans(check_spans(checks, columns=terminal.answer_columns))
    return 1 if any(check.verdict == "fail" for check in checks) else 0


def check_spans(checks: tuple[Check, ...], *, columns: int = 0) -> tuple[Span, ...]:
    """Return the findings as pieces of text with their styles, in lines of at most `columns`; 0: of any length."""
    width = max(len(check.name) for check in checks)
    is_narrow = 0 < columns < width + 8 + _LEAST_ROOM
    spans: list[Span] = []
    for check in checks:
        verdict = f"{check.verdict:<4}"
        line = _folded(f"{verdict}  {check.name:<{width}}  ", check.seen, columns)
        arrow = " " * (6 if is_narrow else width + 8) + "→ "
        fix = f"\n{_folded(arrow, check.fix, columns)}" if check.fix else ""
        end = "" if check is checks[-1] else "\n"
        spans += [(verdict, (_COLORS[check.verdict],)), (f"{line.removeprefix(verdict)}{fix}{end}", ())]
    return tuple(spans)


def _folded(head: str, text: str, columns: int) -> str:
    if not columns or len(head) + len(text) <= columns:
        return head + text
    short = re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", text)
    return hang(head, short, columns, indent=" " * 8 if columns < len(head) + _LEAST_ROOM else None)
