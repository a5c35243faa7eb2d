"""odek sandbox explain: what a run here would do, each value with its source; nothing is started or pulled."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from odek.app.attachments import external, read_ctx_files
from odek.app.config import load
from odek.app.explain import Explanation, Row, explain_run
from odek.approval.display import readable
from odek.cli.commands.run import PROFILE
from odek.cli.help import fold
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.host import Host
from odek.text import visible

_HEADINGS = {
    "sandbox": "a run here works in a sandbox",
    "host": "a run here works ON THIS HOST, without a sandbox",
    "stop": "a run here stops with an error",
}
_ASKING = "a run here asks for an approval, then works in a sandbox"
_INDENT = "    "
_WIDTH = 110


def explanation_to_json(explanation: Explanation) -> dict[str, object]:
    """Return one JSON object; each value of a section is {"value", "origin"}."""
    return {
        "outcome": explanation.outcome,
        "why": explanation.why,
        "problems": list(explanation.problems),
        "notes": list(explanation.notes),
        **{
            subject: {name: {"value": value, "origin": origin} for name, value, origin in rows}
            for subject, rows in explanation.sections.items()
        },
        "commands": [list(argv) for argv in explanation.commands],
    }


def render_explanation(explanation: Explanation) -> str:
    """Return the same for people, foreign text made visible, the commands fit for a shell."""
    return "\n".join(_lines(explanation)) + "\n"


def shell_word(text: str) -> str:
    """Return `text` as one word of a shell line, on one line and with nothing invisible in it.

    What needs escapes is written in the form $'…', which bash, zsh and ksh read.
    """
    if visible(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def fill(words: Sequence[str], width: int = _WIDTH) -> tuple[str, ...]:
    """Return a shell line on several ones of about `width` characters, all but the last continued.

    A flag and its value stay together.
    """
    lines = [words[0]]
    for part in _parts(words[1:]):
        if len(lines[-1]) + 1 + len(part) > width:
            lines.append(part)
        else:
            lines[-1] += f" {part}"
    return (*(f"{line} \\" for line in lines[:-1]), lines[-1])


def _parts(words: Sequence[str]) -> Iterator[str]:
    flag = ""
    for word in words:
        if flag and not word.startswith("-"):
            yield f"{flag} {word}"
            flag = ""
            continue
        if flag:
            yield flag
        flag = word if word.startswith("-") else ""
        if not flag:
            yield word
    if flag:
        yield flag


def _lines(explanation: Explanation) -> Iterator[str]:
    yield _ASKING if _asks(explanation) else _HEADINGS[explanation.outcome]
    yield f"  because {visible(explanation.why)}"
    for problem in explanation.problems:
        yield f"  problem: {visible(problem)}"
    for note in explanation.notes:
        yield f"  note: {visible(note)}"
    for subject, rows in explanation.sections.items():
        if rows:
            yield ""
            yield subject
        width = max((len(name) for name, _, _ in rows), default=0)
        for row in rows:
            yield from _row_lines(row, width)
    if explanation.commands:
        yield ""
        yield "commands"
    for argv in explanation.commands:
        first, *rest = fill(list(map(shell_word, argv)))
        yield f"  {first}"
        yield from (_INDENT + line for line in rest)


def _asks(explanation: Explanation) -> bool:
    return explanation.outcome == "sandbox" and any(
        value == "asked for" for _, value, _ in explanation.sections["approval"]
    )


def _row_lines(row: Row, width: int) -> Iterator[str]:
    name, value, source = row
    begin, origin = f"  {readable(name):<{width}}", f"  ({visible(source)})"
    if isinstance(value, list):
        yield f"{begin}  {'-' if not value else ''}{origin}".replace("    (", "  (")
        yield from (f"{_INDENT}{_as_text(item)}" for item in value)
    else:
        yield f"{begin}  {_as_text(value)}{origin}"


def _as_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_as_text(member)}" for key, member in value.items())
    if isinstance(value, list):  # of words, within a row
        return " ".join(shell_word(str(word)) for word in value)
    return visible(str(value))


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if visible(character) == character:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def parser() -> CommandParser:
    """Return the parser of `odek sandbox explain`."""
    made = CommandParser(
        "sandbox explain",
        "show what a run here would do, without starting or pulling anything",
        usage="[OPTION of run…]",
        examples=(
            "odek sandbox explain",
            "odek sandbox explain --sandbox-compose myapp",
            "odek sandbox explain --json | jq .outcome",
        ),
    )
    made.add_argument("task", nargs="*", metavar="TASK", help="ignored, so that a command line of run fits")
    made.add_settings(of="run", used=("sandbox*", "json", "ctx", "no_color"))
    made.reword("--json", "The explanation as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the explanation. What a run refuses without asking Docker is refused here in the same words."""
    reader = parser()
    parsed, _ = reader.read(arguments)
    config = load(host, reader.flags(parsed), terminal)
    files = external(read_ctx_files(config.settings.ctx, cwd=host.cwd, home=host.home))
    explanation = explain_run(PROFILE, config, terminal_runtime(host, terminal), attachments=bool(files))
    if config.settings.json:
        terminal.answer(json.dumps(explanation_to_json(explanation), indent=2))
    else:
        terminal.answer(fold(render_explanation(explanation), terminal.answer_columns))
    return 0
