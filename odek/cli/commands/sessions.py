"""odek session: what is kept of earlier conversations (R-85)."""

from __future__ import annotations

import json
import time

from odek.app.stored_sessions import find_session, open_store, warn_of_damaged
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.session_view import listing_json, render_listing, render_session
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import find_tty_prompt
from odek.errors import ApprovalDenied, UsageError
from odek.host import Host
from odek.session.store import CleanupPlan, SessionStore, plan_cleanup
from odek.text import plural, visible

_FORMS = ("list", "show [ID]", "export [ID]", "trim ID N", "delete ID…", "cleanup DAYS")
_ACTIONS = tuple(form.split()[0] for form in _FORMS)
_SHOWN = 20


def parser() -> CommandParser:
    """Return the parser of `odek session`."""
    made = CommandParser(
        "session",
        COMMANDS["session"][1],
        usage=" | ".join(_FORMS),
        examples=(
            "odek session list",
            "odek session show 20260715-0000",
            "odek session export 20260715-0000 >conversation.json",
            "odek session trim 20260715-0000 40",
            "odek session cleanup 30",
        ),
        actions=_ACTIONS,
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar=" | ".join(_ACTIONS),
        help="what to do, and with which session; the beginning of an ID is enough",
    )
    made.add_argument("--all", action="store_true", help=f"list: all sessions, not just the newest {_SHOWN}")
    made.add_argument("--full", action="store_true", help="show: tool results in full")
    made.add_argument("--yes", action="store_true", help="cleanup: do not ask when the clock looks wrong")
    made.add_argument("--json", action="store_true", help="list, show, cleanup: JSON on stdout")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Carry out one action."""
    parsed, rest = parser().read(arguments)
    action, *words = [*parsed.words, *rest] or [""]
    store = open_store(host, str, warn=terminal.warn)  # nothing is stored here that was not stored before
    match action, words:
        case "list", []:
            _list(store, terminal, everything=parsed.all, as_json=parsed.json)
        case "show", [] | [_]:
            _show(store, terminal, "".join(words), full=parsed.full, as_json=parsed.json)
        case "export", [] | [_]:
            terminal.answer(store.export(_find(store, "".join(words), terminal)).decode("utf-8"))
        case "trim", [session, number]:
            _trim(store, terminal, session, number)
        case "delete", [_, *_]:
            _delete(store, terminal, words)
        case "cleanup", [days]:
            _cleanup(store, terminal, days, sure=parsed.yes, as_json=parsed.json)
        case _:
            raise _misunderstood(action)
    return 0


def _find(store: SessionStore, text: str, terminal: Terminal) -> str:
    return find_session(store, text, warn=terminal.warn)


def _misunderstood(action: str) -> UsageError:
    said = "say what to do with which session"
    if action in _ACTIONS:
        form = next(form for form in _FORMS if form.split()[0] == action)
        return UsageError(f"odek session {action} takes other words than these", hint=f"odek session {form}")
    if action:
        said = f'"{visible(action)}" is no action of odek session'
    return UsageError(said, hint=f"one of: {', '.join(_ACTIONS)}; `odek session --help` explains them")


def _list(store: SessionStore, terminal: Terminal, *, everything: bool, as_json: bool) -> None:
    listing = store.list()
    warn_of_damaged(listing, terminal.warn)
    shown = listing.sessions if everything else listing.sessions[:_SHOWN]
    if as_json:
        terminal.answer(json.dumps(listing_json(shown, listing.damaged), indent=2))
        return
    table = render_listing(shown, now_s=time.time(), columns=terminal.answer_columns) if shown else "No sessions found."
    terminal.answer(table)
    if len(shown) < len(listing.sessions):
        terminal.note(f"{len(listing.sessions) - len(shown)} older ones: odek session list --all")


def _show(store: SessionStore, terminal: Terminal, text: str, *, full: bool, as_json: bool) -> None:
    session_id = _find(store, text, terminal)
    if as_json:
        terminal.answer(store.export(session_id).decode("utf-8"))
    else:
        terminal.answer(render_session(store.read(session_id), full=full))


def _trim(store: SessionStore, terminal: Terminal, text: str, number: str) -> None:
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f'"{visible(number)}" is no number of messages', hint="odek session trim ID 40")
    session_id = _find(store, text, terminal)
    gone = store.trim(session_id, int(number[:9]))
    terminal.answer(f"dropped {plural(gone, 'message')} from session {visible(session_id)}")


def _delete(store: SessionStore, terminal: Terminal, words: list[str]) -> None:
    found = tuple(dict.fromkeys(_find(store, text, terminal) for text in words))
    for session_id in found:  # nothing is deleted by a command line that is partly wrong
        store.require(session_id)
    for session_id in found:
        store.delete(session_id)
        terminal.answer(f"deleted session {visible(session_id)}")


def _cleanup(store: SessionStore, terminal: Terminal, text: str, *, sure: bool, as_json: bool) -> None:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f'"{visible(text)}" is no number of days', hint="odek session cleanup 30; 0 deletes all")
    listing = store.list()
    warn_of_damaged(listing, terminal.warn)
    plan = plan_cleanup(listing.sessions, days=int(text[:9]), now_s=time.time())
    if plan.doubt and not sure:
        _require_word(plan)
    done = store.cleanup(plan)
    for kept in done.kept:
        terminal.warn(f"session {visible(kept.name)} is kept: {kept.reason}")
    if as_json:
        kept_json = [{"id": kept.name, "reason": kept.reason} for kept in done.kept]
        terminal.answer(json.dumps({"deleted": list(done.deleted), "kept": kept_json}, indent=2))
    else:
        terminal.answer(f"deleted {plural(len(done.deleted), 'session')}")


def _require_word(plan: CleanupPlan) -> None:
    """Ask before a clean up that a wrong clock may have planned (B48). Raises ApprovalDenied."""
    prompt = find_tty_prompt()
    question = f"{plan.doubt}\nDelete {plural(len(plan.sessions), 'session')}? [y / N]"
    if prompt is None or prompt.ask(question, ("y", "yes", "n", "no", "")) not in ("y", "yes"):
        raise ApprovalDenied(f"nothing is deleted: {plan.doubt}", hint="if that is right: odek session cleanup --yes")
