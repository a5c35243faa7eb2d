"""odek danger explain: the class of a command, why, and what would happen to it here; runs nothing (R-84)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial

from odek.app.config import load
from odek.app.danger import expected_sandbox_policy, host_policy
from odek.app.isolation import decide_sandbox
from odek.cli.commands.run import PROFILE
from odek.cli.help import fold
from odek.cli.parser import CommandParser
from odek.cli.subcommands import Subcommand, run_subcommand
from odek.cli.task import tell_reading
from odek.cli.terminal import Terminal
from odek.config.settings import Settings
from odek.danger.policy import PLACES, Action, Decision, Explanation, PolicyContext, Where, explain, explanation_to_json
from odek.errors import UsageError
from odek.host import Host
from odek.text import visible

_USED = ("sandbox", "sandbox_network", "sandbox_networks", "sandbox_compose_project", "allow", "json", "no_color")
_MEANINGS: dict[Action, str] = {"allow": "allowed", "prompt": "asked about", "deny": "refused"}


def describe_parser() -> CommandParser:
    """Return the parser of `odek danger explain`."""
    made = CommandParser(
        "danger explain",
        "show the class of a shell command, and what a run here would do with it; runs nothing",
        usage="[OPTION…] COMMAND",
        examples=(
            'odek danger explain "make test && git push"',
            'odek danger explain --json "rm -rf build"',
            "jq -c .command commands.jsonl | odek danger explain --json -",
        ),
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="the command, as one word; - reads a JSON string from each line of stdin",
    )
    made.add_settings(of="run", used=_USED)
    made.reword("--json", "The explanation as one line of JSON")
    return made


def describe(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print what odek thinks of one command, or of one on each line of stdin."""
    reader = describe_parser()
    parsed, rest = reader.read(arguments)
    words = [*parsed.words, *rest]
    if len(words) != 1:
        raise UsageError(
            "give the command as one word, in quotes" if words else "give a command",
            hint="odek danger explain 'rm -rf build'",
        )
    settings = load(host, reader.flags(parsed), terminal).settings
    here: Where = "sandbox" if decide_sandbox(PROFILE, settings).sandboxed else "host"
    contexts = _contexts(settings, host)
    if words == ["-"]:
        tell_reading("a JSON string a line", terminal)
    for number, command in enumerate(_read_commands() if words == ["-"] else words):
        explanation = explain(command, here=here, contexts=contexts)
        if settings.json:
            terminal.answer(json.dumps(explanation_to_json(explanation)))
        else:
            text = fold(render_explanation(explanation, here=here), terminal.answer_columns)
            terminal.answer(("\n" if number else "") + text)
    return 0


def _contexts(settings: Settings, host: Host) -> dict[Where, PolicyContext]:
    """Return what holds in both places when there is a person to ask."""
    return {
        "sandbox": expected_sandbox_policy(settings.danger, settings.sandbox),
        "host": host_policy(settings.danger, host, interactive=True),
    }


def _read_commands() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            command = json.loads(line)
        except (ValueError, RecursionError):
            command = None
        if not isinstance(command, str):
            raise UsageError(f"line {number} of stdin is not a JSON string", hint='write one a line: "git status"')
        yield command


def render_explanation(explanation: Explanation, *, here: Where) -> str:
    """Return the explanation for people; every foreign text made visible. Pure."""
    risk = explanation.risk
    lines = [
        f"command: {visible(explanation.command)}",
        f"class:   {risk.level.label}",
        f"rule:    {visible(risk.rule)}",
        f"reason:  {visible(risk.reason)}",
    ]
    for where in PLACES:
        mark = "  (a run here would be there)" if where == here else ""
        lines += [f"{where + ':':<8} {_outcome(explanation, where)}{mark}"]
        lines += _why(explanation.decisions[where], risk.reason)
    return "\n".join(lines)


def _outcome(explanation: Explanation, where: Where) -> str:
    action = explanation.decisions[where].action
    alone = f"; {_MEANINGS[explanation.unattended[where]]} where no person can be asked" if action == "prompt" else ""
    return _MEANINGS[action] + alone


def _why(decision: Decision, known: str) -> Iterator[str]:
    if decision.action == "allow":
        return
    if decision.reason != known:
        lead = "not understood:" if decision.rule == "form" else "because it"
        yield f"         {lead} {visible(decision.reason)}"
    if decision.setting.startswith("remove "):
        yield f"         to lift that, {visible(decision.setting)}"
    elif decision.setting:
        yield f"         lifted by {visible(decision.setting)}"


ACTIONS = {
    "explain": Subcommand(__name__, "explain the class of a command, and who would be asked", "describe"),
}
main = partial(run_subcommand, "danger", ACTIONS)
