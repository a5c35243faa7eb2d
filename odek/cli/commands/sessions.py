"""odek session: what is kept of earlier conversations (R-85)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from odek import safefile
from odek.app.stored_sessions import find_session, open_store, warn_of_damaged
from odek.cli.approval_prompt import confirm
from odek.cli.parser import CommandParser
from odek.cli.subcommands import Subcommand, run_subcommand
from odek.cli.table import Column, render_table
from odek.cli.terminal import Terminal
from odek.errors import ApprovalDenied, UsageError
from odek.host import Host, project_root
from odek.model.types import Message, ToolCall
from odek.session.ids import parse_time
from odek.session.receipts import Receipt, Verdict
from odek.session.store import CleanupPlan, SessionStore, Unreadable, plan_cleanup
from odek.session.transcript import Entry, Summary, Transcript
from odek.text import plural, truncate, visible, visible_lines

_COLUMNS = (
    Column("ID"),
    Column("TURNS", rank=3),
    Column("PLACE", rank=2),
    Column("MODEL", least=8, rank=4),
    Column("USED", rank=1),
    Column("TASK", least=12),
)
_RECEIPT_COLUMNS = (
    Column("ENDED", least=10, rank=4),
    Column("PLACE", least=7),
    Column("USER", rank=5),
    Column("ALLOWED BY", least=8, rank=1),
    Column("CLASS", least=8, rank=2),
    Column("WHAT", least=14),
)
_TASK_WIDTH = 50
_ID_LENGTH = 17  # the date and eight digits, where there is no room for all
_MODEL_WIDTH = 24
_RESULT_LENGTH = 200
_AGES = ((60, "second", 1), (3600, "minute", 60), (86_400, "hour", 3600), (float("inf"), "day", 86_400))


def render_listing(sessions: Sequence[Summary], *, now_s: float, columns: int = 0) -> str:
    """Return a table, one session a line, ids in full (F-34).

    Where that is wider than a terminal of `columns`, ids are cut to what tells them apart, tasks and models shortened,
    and what matters least is left out.
    """
    rows = [_row(summary, now_s) for summary in sessions]
    lines = render_table(_COLUMNS, rows, 0)
    if columns and max(map(len, lines)) > columns:
        length = _ID_LENGTH
        while len({row[0][:length] for row in rows}) < len(rows):
            length += 1
        lines = render_table(_COLUMNS, [(row[0][:length], *row[1:]) for row in rows], columns)
    return "\n".join(lines)


def _row(summary: Summary, now_s: float) -> tuple[str, ...]:
    header, state = summary.header, summary.state
    return (
        visible(header.id),
        str(state.turns),
        "sandbox" if header.sandbox else "host",
        truncate(visible(state.model), _MODEL_WIDTH) or "-",
        _age(now_s - parse_time(state.updated_at)),
        truncate(visible(header.task), _TASK_WIDTH),
    )


def listing_json(sessions: Sequence[Summary], damaged: Sequence[Unreadable]) -> dict[str, Any]:
    """Return the same for machines, and the files that cannot be used."""
    return {
        "sessions": [
            {
                "id": summary.header.id,
                "created_at": summary.header.created_at,
                "updated_at": summary.state.updated_at,
                "turns": summary.state.turns,
                "model": summary.state.model,
                "sandbox": summary.header.sandbox,
                "cwd": summary.state.cwd,
                "task": summary.header.task,
            }
            for summary in sessions
        ],
        "damaged": [{"file": entry.name, "reason": entry.reason} for entry in damaged],
    }


def render_session(transcript: Transcript, *, full: bool) -> str:
    """Return a whole conversation; tool results at most 200 characters of each unless `full`."""
    header, state = transcript.header, transcript.state
    lines = [
        f"Session  {visible(header.id)}",
        f"Model    {visible(state.model)}",
        f"Place    {'sandbox' if header.sandbox else 'host'}, {visible(state.cwd) or '(folder unknown)'}",
        f"Turns    {state.turns}",
        f"Tokens   {state.usage.input_tokens} in, {state.usage.output_tokens} out",
        f"Created  {visible(header.created_at)}",
        f"Updated  {visible(state.updated_at)}",
        f"Task     {visible(header.task)}",
    ]
    if header.origin:
        lines.append(f"Origin   {visible(header.origin.id)}, after {plural(header.origin.turns, 'turn')}")
    if full and transcript.system:
        lines += ["", "── system", visible_lines(transcript.system).rstrip()]
    turn = 0
    for entry in transcript.entries:
        turn += entry.starts_turn
        lines += ["", *_entry(entry, turn, full=full)]
    return "\n".join(lines)


def _entry(entry: Entry, turn: int, *, full: bool) -> Iterator[str]:
    message = entry.message
    if entry.compacted:
        yield "── compacted: in place of what is above the model gets"
        yield visible_lines(entry.compacted.content).rstrip() + "\n"
    if message.role == "user":
        yield f"── turn {turn}" if entry.starts_turn else "── note"
        yield visible_lines(message.content).rstrip()
    elif message.role == "tool":
        yield f"── result of {visible(message.name) or 'a call'}"
        yield visible_lines(message.content).rstrip() if full else _shortened(message)
    else:
        yield f"── {message.role}"
        if message.content:
            yield visible_lines(message.content).rstrip()
        yield from map(_call, message.tool_calls)


def _call(call: ToolCall) -> str:
    return f"→ {visible(call.name)} {visible(call.arguments)}"


def _shortened(message: Message) -> str:
    text = message.content
    if len(text) <= _RESULT_LENGTH:
        return visible_lines(text).rstrip()
    return f"{visible_lines(text[:_RESULT_LENGTH])}…\n({plural(len(text), 'character')}; --full shows them)"


def _age(seconds: float) -> str:
    """Return "3 hours ago"; a time that is still to come, by a clock that was set back, is "just now"."""
    for limit, unit, size in _AGES:
        if seconds < limit:
            count = int(seconds // size)
            return f"{plural(count, unit)} ago" if count > 0 else "just now"
    return ""


_ID = "the session; the beginning of its ID is enough"
_SHOWN = 20


def list_sessions_parser() -> CommandParser:
    """Return the parser of `odek session list`."""
    made = CommandParser(
        "session list",
        "list the sessions, the newest first",
        usage="[--all] [--json]",
        examples=("odek session list",),
    )
    made.add_argument("--all", action="store_true", help=f"all sessions, not just the newest {_SHOWN}")
    made.add_argument("--json", action="store_true", help="the list as JSON")
    return made


def list_sessions(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the sessions."""
    parsed = list_sessions_parser().read_flags(arguments)
    listing = _store(host, terminal).list()
    warn_of_damaged(listing, terminal.warn)
    shown = listing.sessions if parsed.all else listing.sessions[:_SHOWN]
    if parsed.json:
        terminal.answer(json.dumps(listing_json(shown, listing.damaged), indent=2))
        return 0
    table = render_listing(shown, now_s=time.time(), columns=terminal.answer_columns) if shown else "No sessions found."
    terminal.answer(table)
    if len(shown) < len(listing.sessions):
        terminal.note(f"{len(listing.sessions) - len(shown)} older ones: odek session list --all")
    return 0


def show_parser() -> CommandParser:
    """Return the parser of `odek session show`."""
    made = CommandParser(
        "session show",
        "print a conversation",
        usage="[ID] [--full] [--tasks] [--json]",
        examples=("odek session show 20260715-0000", "odek session show 20260715-0000 --tasks"),
    )
    _add_id(made)
    made.add_argument("--full", action="store_true", help="tool results in full")
    made.add_argument("--tasks", action="store_true", help="what its sub-agents did, instead")
    made.add_argument("--json", action="store_true", help="as `odek session export` prints it")
    return made


def show(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print one conversation."""
    parsed = show_parser().read_flags(arguments)
    store = _store(host, terminal)
    session_id = _find(store, parsed.id, terminal)
    if parsed.tasks:
        if parsed.json:
            raise UsageError("--tasks and --json do not go together", hint="leave one of them out")
        tasks = store.tasks(session_id)
        terminal.answer("\n\n\n".join(render_session(each, full=parsed.full) for each in tasks) or "No sub-agents.")
    elif parsed.json:
        terminal.answer(store.export(session_id).decode("utf-8"))
    else:
        terminal.answer(render_session(store.read(session_id), full=parsed.full))
    return 0


def export_parser() -> CommandParser:
    """Return the parser of `odek session export`."""
    made = CommandParser(
        "session export",
        "print a conversation as one JSON object, or as Markdown",
        usage="[ID] [--markdown] [--output FILE]",
        examples=(
            "odek session export 20260715-0000 >conversation.json",
            "odek session export --markdown --output conversation.md",
        ),
    )
    _add_id(made)
    made.add_argument("--markdown", action="store_true", help="a document for people, with calls, diffs and costs")
    made.add_argument("--output", metavar="FILE", default="", help="write it to FILE, which must not exist")
    return made


def export(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print one conversation, or write it to a file."""
    parsed, store = export_parser().read_flags(arguments), _store(host, terminal)
    session_id = _find(store, parsed.id, terminal)
    if parsed.markdown:
        from odek.session.markdown import render_markdown  # needed for no other action

        text = render_markdown(store.read(session_id))
    else:
        text = store.export(session_id).decode("utf-8")
    if not parsed.output:
        terminal.answer(text.removesuffix("\n") if parsed.markdown else text)
        return 0
    _write_new(parsed.output, text, host)
    terminal.note(f"wrote session {visible(session_id)} to {visible(parsed.output)}")
    return 0


def _write_new(path: str, text: str, host: Host) -> None:
    """Write `text` to a file of the user alone that does not exist yet, through no link of the project.

    Raises UsageError.
    """
    try:
        descriptor = safefile.create_chosen(os.path.join(host.cwd, path), project_root(host))
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f'"{visible(path)}" exists', hint="remove it, or name another file") from error
    except OSError as error:
        raise UsageError(f'"{visible(path)}" cannot be written: {error.strerror}') from error


def receipts_parser() -> CommandParser:
    """Return the parser of `odek session receipts`."""
    made = CommandParser(
        "session receipts",
        "list what was executed in a session: where, as whom, and who allowed it",
        usage="[ID] [--json]",
        examples=("odek session receipts 20260715-0000",),
    )
    _add_id(made)
    made.add_argument("--json", action="store_true", help="everything that is recorded, as JSON")
    return made


def receipts(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the receipts of a session, as far as their chain is whole; 1 when it is not."""
    parsed, store = receipts_parser().read_flags(arguments), _store(host, terminal)
    session_id = _find(store, parsed.id, terminal)
    verdict = store.check_receipts(session_id)
    if parsed.json:
        found = {"receipts": [asdict(receipt) for receipt in verdict.receipts], "broken_line": verdict.broken_line}
        terminal.answer(json.dumps({**found, "reason": verdict.reason}, indent=2))
    else:
        terminal.answer(render_receipts(verdict.receipts, columns=terminal.answer_columns))
    return _warn_of_break(session_id, verdict, terminal)


def render_receipts(receipts: Sequence[Receipt], *, columns: int = 0) -> str:
    """Return a table, one receipt a line, at most as wide as a terminal of `columns`."""
    if not receipts:
        return "Nothing was executed."
    rows: list[tuple[str, ...]] = []
    for receipt in receipts:
        place = receipt.container[:12] if receipt.place == "sandbox" else "HOST"
        if receipt.file:
            what = f"wrote {visible(receipt.file.path)}"
        elif receipt.kind == "call":
            what = f"call {receipt.command_sha256[:12]}, {'answered' if receipt.output_sha256 else 'no answer'}"
        else:
            status = "stopped" if receipt.exit_status is None else f"exit code {receipt.exit_status}"
            what = f"command {receipt.command_sha256[:12]}, {status}"
        row = (receipt.at, place, receipt.user, receipt.decision or "-", ", ".join(receipt.risk) or "-", what)
        rows.append(tuple(map(visible, row)))
    return "\n".join(render_table(_RECEIPT_COLUMNS, rows, columns))


def verify_parser() -> CommandParser:
    """Return the parser of `odek session verify`."""
    made = CommandParser(
        "session verify",
        "check that no receipt of a session was changed or taken away",
        usage="[ID]",
        examples=("odek session verify 20260715-0000",),
    )
    _add_id(made)
    return made


def verify(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Say whether the chain of a session's receipts is whole; 1 when it is not."""
    parsed, store = verify_parser().read_flags(arguments), _store(host, terminal)
    session_id = _find(store, parsed.id, terminal)
    verdict = store.check_receipts(session_id)
    if verdict.broken_line is None:
        terminal.answer(f"{plural(len(verdict.receipts), 'receipt')} of session {visible(session_id)}: all as written")
    return _warn_of_break(session_id, verdict, terminal) or _verify_origin(store, session_id, terminal)


def _verify_origin(store: SessionStore, session_id: str, terminal: Terminal) -> int:
    """Say what became of the receipts that the session's origin had when it was forked."""
    found = store.check_origin(session_id)
    if found is None:
        return 0
    origin, verdict = found
    if verdict is None:
        terminal.note(f"it began with session {visible(origin.id)}, which is gone, and so are its receipts")
        return 0
    if verdict.broken_line is None:
        terminal.note(f"it began with session {visible(origin.id)}, whose receipts up to then are as written")
    return _warn_of_break(origin.id, verdict, terminal)


def _warn_of_break(session_id: str, verdict: Verdict, terminal: Terminal) -> int:
    if verdict.broken_line is None:
        return 0
    place = f"line {verdict.broken_line} of the receipts of session {visible(session_id)}"
    terminal.warn(f"{place} is not as odek wrote it: {visible(verdict.reason)}")
    return 1


def trim_parser() -> CommandParser:
    """Return the parser of `odek session trim`."""
    made = CommandParser(
        "session trim",
        "drop all but the last messages of a session",
        usage="ID N",
        examples=("odek session trim 20260715-0000 40",),
    )
    made.add_argument("id", metavar="ID", help=_ID)
    made.add_argument("number", metavar="N", help="how many messages stay")
    return made


def trim(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Shorten one session."""
    parsed, store = trim_parser().read_flags(arguments), _store(host, terminal)
    number = _number(parsed.number, "number of messages", "odek session trim ID 40")
    session_id = _find(store, parsed.id, terminal)
    terminal.answer(f"dropped {plural(store.trim(session_id, number), 'message')} from session {visible(session_id)}")
    return 0


def delete_parser() -> CommandParser:
    """Return the parser of `odek session delete`."""
    made = CommandParser(
        "session delete", "delete sessions", usage="ID…", examples=("odek session delete 20260715-0000",)
    )
    made.add_argument("ids", metavar="ID", nargs="+", help=_ID)
    return made


def delete(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Delete sessions; none when one of them cannot be found."""
    parsed, store = delete_parser().read_flags(arguments), _store(host, terminal)
    found = tuple(dict.fromkeys(_find(store, text, terminal) for text in parsed.ids))
    for session_id in found:  # nothing is deleted by a command line that is partly wrong
        store.require(session_id)
    for session_id in found:
        store.delete(session_id)
        _forget_uploads(host, session_id)
        terminal.answer(f"deleted session {visible(session_id)}")
    return 0


def _forget_uploads(host: Host, session_id: str) -> None:
    """Remove the files that a browser sent to a session (docs/SERVE.md)."""
    from odek.web.uploads import forget_uploads  # needed for no other action

    forget_uploads(host.operator_home, session_id)


def cleanup_parser() -> CommandParser:
    """Return the parser of `odek session cleanup`."""
    made = CommandParser(
        "session cleanup",
        "delete the sessions that were not used for some days",
        usage="DAYS [--yes] [--json]",
        examples=("odek session cleanup 30",),
    )
    made.add_argument("days", metavar="DAYS", help="how many; 0 deletes all")
    made.add_argument("--yes", action="store_true", help="do not ask when the clock looks wrong")
    made.add_argument("--json", action="store_true", help="what was deleted and what was kept as JSON")
    return made


def cleanup(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Delete what is old."""
    parsed, store = cleanup_parser().read_flags(arguments), _store(host, terminal)
    days = _number(parsed.days, "number of days", "odek session cleanup 30; 0 deletes all")
    listing = store.list()
    warn_of_damaged(listing, terminal.warn)
    plan = plan_cleanup(listing.sessions, days=days, now_s=time.time())
    if plan.doubt and not parsed.yes:
        _require_confirmation(plan)
    done = store.cleanup(plan)
    for session_id in done.deleted:
        _forget_uploads(host, session_id)
    for kept in done.kept:
        terminal.warn(f"session {visible(kept.name)} is kept: {kept.reason}")
    if parsed.json:
        kept_json = [{"id": kept.name, "reason": kept.reason} for kept in done.kept]
        terminal.answer(json.dumps({"deleted": list(done.deleted), "kept": kept_json}, indent=2))
    else:
        terminal.answer(f"deleted {plural(len(done.deleted), 'session')}")
    return 0


def _add_id(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", default="", help=f"{_ID}; the last session unless given")


def _store(host: Host, terminal: Terminal) -> SessionStore:
    return open_store(host, str, warn=terminal.warn)  # nothing is stored here that was not stored before


def _find(store: SessionStore, text: str, terminal: Terminal) -> str:
    return find_session(store, text, warn=terminal.warn)


def _number(text: str, what: str, hint: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f'"{visible(text)}" is not a {what}', hint=hint)
    return int(text[:9])


def _require_confirmation(plan: CleanupPlan) -> None:
    """Ask before a clean up that a wrong clock may have planned (B48). Raises ApprovalDenied."""
    if not confirm(f"{plan.doubt}\nDelete {plural(len(plan.sessions), 'session')}? [y / N]"):
        raise ApprovalDenied(f"nothing is deleted: {plan.doubt}", hint="if that is right: odek session cleanup --yes")


ACTIONS = {
    "list": Subcommand(__name__, "list the sessions, the newest first", "list_sessions"),
    "show": Subcommand(__name__, "print a conversation", "show"),
    "export": Subcommand(__name__, "print a conversation as one JSON object", "export"),
    "receipts": Subcommand(__name__, "list what was executed in a session, and who allowed it", "receipts"),
    "verify": Subcommand(__name__, "check that no receipt of a session was changed or taken away", "verify"),
    "trim": Subcommand(__name__, "drop all but the last messages of a session", "trim"),
    "delete": Subcommand(__name__, "delete sessions", "delete"),
    "cleanup": Subcommand(__name__, "delete the sessions that were not used for some days", "cleanup"),
}
main = partial(run_subcommand, "session", ACTIONS)
