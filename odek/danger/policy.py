"""What happens to a command of a given risk: allowed, asked or refused. Pure.

Two tables stand at the start: the strict one for the host, and the one for commands inside a real
sandbox, where the wall is the container (D-6). The operator's settings come on top; projects have no
say. The strictest answer over all parts of a command counts, whatever their ranks.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from odek.danger.classify import classify
from odek.danger.paths import Place, classify_read, classify_write, resolve, trusted_name
from odek.danger.risk import NOTHING, Finding, Risk, RiskClass, summarise
from odek.danger.shell import abstract_text
from odek.danger.shell.limits import Budget, ParseError
from odek.danger.shell.parser import parse_script
from odek.danger.shell.syntax import Simple, literal_text

Action = Literal["allow", "prompt", "deny"]
Table = tuple[tuple[RiskClass, Action], ...]

PERSISTENCE = "persistence"
"""the name under which settings speak of files that the host trusts later"""
OPERATOR_FILE = "~/.odek/config.json"

HOST_TABLE: Table = (
    (RiskClass.SAFE, "allow"),
    (RiskClass.LOCAL_WRITE, "allow"),
    (RiskClass.INSTALL, "prompt"),
    (RiskClass.NETWORK_EGRESS, "prompt"),
    (RiskClass.CODE_EXECUTION, "prompt"),
    (RiskClass.SYSTEM_WRITE, "prompt"),
    (RiskClass.UNKNOWN, "deny"),
    (RiskClass.DESTRUCTIVE, "deny"),
    (RiskClass.BLOCKED, "deny"),
)
"""runtime 5.1"""

_STRICTNESS: dict[Action, int] = {"allow": 0, "prompt": 1, "deny": 2}
_NEVER_UNASKED = (RiskClass.UNKNOWN, RiskClass.DESTRUCTIVE, RiskClass.BLOCKED)


def sandbox_table(*, internet: bool) -> Table:
    """Return the table for a real sandbox (D-6). `internet`: whether its network reaches outside.

    D-6 does not speak of `system_write`. What is left of it inside, after risk.contained, is work lost in the
    mounted project and secrets shown, so it asks.
    """
    return (
        (RiskClass.SAFE, "allow"),
        (RiskClass.LOCAL_WRITE, "allow"),
        (RiskClass.INSTALL, "allow"),
        (RiskClass.NETWORK_EGRESS, "prompt" if internet else "allow"),
        (RiskClass.CODE_EXECUTION, "allow"),
        (RiskClass.SYSTEM_WRITE, "prompt"),
        (RiskClass.UNKNOWN, "allow"),
        (RiskClass.DESTRUCTIVE, "prompt"),
        (RiskClass.BLOCKED, "deny"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that hold for one place, as plain values."""

    table: Table
    section: str = "dangerous"
    """the object of the operator's file that they come from: "dangerous" or "dangerous.sandboxed" """
    action: Action | None = None
    """for classes without an entry in `classes`; None: the table"""
    classes: tuple[tuple[str, Action], ...] = ()
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    shared_denylist: tuple[str, ...] = ()
    """entries of "dangerous" itself, which hold for every place: deny beats allow"""
    non_interactive: Literal["allow", "deny"] = "deny"
    """what "prompt" means when no person can be asked"""
    interactive: bool = True
    """whether a person can be asked"""
    trusted_files: Action = "prompt"
    """for files that the host trusts later, without an entry for `persistence` in `classes`"""
    ceiling: RiskClass = RiskClass.BLOCKED
    """what ranks above is refused, whatever else holds: a sub-agent's max_risk"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer, and what it rests on."""

    action: Action
    level: RiskClass
    """the class that decided; of several equally strict ones the worst"""
    rule: str
    reason: str
    setting: str
    """what the operator can change so that the command is allowed; "" when it is, or when nothing can"""
    classes_to_approve: tuple[str, ...] = ()
    """the classes, by the names that settings use, that are not simply allowed; of a refusal as well"""
    denied_non_interactively: bool = False
    """whether it is refused only because no person can be asked"""
    batchable: bool = False
    """whether one "yes" may cover it together with others; of the worst three classes only a call on the host may be"""
    exact: bool = False
    """whether trust would be for this very command, because a part of it is not understood"""

    @property
    def rememberable(self) -> bool:
        """whether one "yes" may cover `classes_to_approve` from now on; never for files that the host trusts later"""
        batchable = self.batchable and self.level not in _NEVER_UNASKED
        return (batchable or self.exact) and PERSISTENCE not in self.classes_to_approve


def decide(risk: Risk, command: str, policy: Policy) -> Decision:
    """Return what `policy` does with `command`, whose risk is `risk`.

    Order (runtime 5.2): denylist, `blocked`, `ceiling`, allowlist, then the class. A refusal is final.
    """
    worst = risk.findings[0] if risk.findings else _as_finding(risk)
    entry, certain = _find_denied(risk, policy)
    if entry and certain:
        return _denied_by_list(worst, entry, policy)
    if risk.level is RiskClass.BLOCKED:
        return _decision("deny", worst, "")
    if risk.level > policy.ceiling:
        return _above(worst, policy.ceiling)
    if command.strip() in (allowed.strip() for allowed in policy.allowlist):
        return _decision("allow", worst, "")
    answers = [(finding, _action_of(finding, policy)) for finding in risk.findings or (worst,)]
    asking = [finding.level.label for finding, action in answers if action != "allow"]
    batchable = not entry and not any(finding.level in _NEVER_UNASKED for finding, act in answers if act != "allow")
    if risk.trusted_files:
        answers.append((_trusted(risk), _action_for_trusted(policy)))
        asking += [PERSISTENCE] if answers[-1][1] != "allow" else []
    if entry:
        answers.append((Finding(level=risk.level, rule="denylist.possible", reason=_possible(entry)), "prompt"))
    finding, wanted = max(answers, key=lambda answer: _STRICTNESS[answer[1]])  # the worst class comes first
    action = _unasked(answers, policy) if wanted == "prompt" and not policy.interactive else wanted
    if action == "allow":
        return _decision("allow", worst, "")
    settings = (_render_setting(policy, asking) if asking else "", _remove(entry, policy))
    return replace(
        _decision(action, finding, "; and ".join(filter(None, settings))),
        classes_to_approve=tuple(asking),
        denied_non_interactively=action != wanted,
        batchable=batchable,
        exact=not entry and _is_exact_form(risk, answers),
    )


def _is_exact_form(risk: Risk, answers: list[tuple[Finding, Action]]) -> bool:
    """Return whether what asks is the form of known commands, and every word of them is known."""
    worst = [finding for finding, action in answers if action != "allow" and finding.level in _NEVER_UNASKED]
    return bool(worst) and all(finding.form for finding in worst) and all(map(_is_known, risk.commands))


def _is_known(command: tuple[str, ...]) -> bool:
    return all(map(abstract_text.is_exact, command))


def _unasked(answers: list[tuple[Finding, Action]], policy: Policy) -> Action:
    """Return what "prompt" comes to when no person can be asked (F-96)."""
    asked = [finding for finding, action in answers if action == "prompt"]
    if policy.non_interactive != "allow" or any(finding.level in _NEVER_UNASKED for finding in asked):
        return "deny"
    return "allow"


def _action_of(finding: Finding, policy: Policy) -> Action:
    level = finding.level
    if level is RiskClass.BLOCKED:
        return "deny"
    table = {known.label: action for known, action in policy.table}
    classes = dict(policy.classes)
    if finding.form and level.label not in classes and not policy.action:
        return "prompt"
    return classes.get(level.label) or policy.action or table.get(level.label, "deny")


def _action_for_trusted(policy: Policy) -> Action:
    return dict(policy.classes).get(PERSISTENCE) or policy.action or policy.trusted_files


def _trusted(risk: Risk) -> Finding:
    names = ", ".join(risk.trusted_files[:3])
    return Finding(
        level=RiskClass.LOCAL_WRITE, rule="path.trusted", reason=f"writes {names}, which the host reads or runs later"
    )


def _find_denied(risk: Risk, policy: Policy) -> tuple[str, bool]:
    """Return the entry of the denylist that the command matches, "" for none, and whether for certain."""
    possible = ""
    for entry in (*policy.denylist, *policy.shared_denylist):
        words = split_entry(entry)
        for command in risk.commands:
            match = _match(command, words)
            if match is True:
                return entry, True
            possible = possible or (entry if match is None else "")
        if not risk.readable:
            possible = possible or entry
    return possible, False


def split_entry(entry: str) -> tuple[str, ...]:
    """Return the words of a denylist entry, quotes removed."""
    try:
        script = parse_script(entry, Budget())
        command = script.items[0].pipelines[0].commands[0]
    except (ParseError, IndexError):
        return tuple(entry.split())
    if len(script.items) != 1 or not isinstance(command, Simple):
        return tuple(entry.split())
    words = [literal_text(word) for word in command.words]
    known = tuple(word for word in words if word is not None)
    return known if known and len(known) == len(words) else tuple(entry.split())


def _match(command: tuple[str, ...], words: tuple[str, ...]) -> bool | None:
    """Return whether `words` are the beginning of `command`; None when its unknown parts leave that open."""
    if not words:
        return False
    certain = True
    for index, word in enumerate(words):
        if index >= len(command):
            return False
        field = command[index]
        if index == 0 and "/" not in word and abstract_text.is_exact(field):
            field = field.rpartition("/")[2]
        if abstract_text.SPLIT in field:  # may be any number of words
            return None
        if not abstract_text.may_equal(field, word):
            return False
        certain = certain and abstract_text.is_exact(field)
    return True if certain else None


def _denied_by_list(worst: Finding, entry: str, policy: Policy) -> Decision:
    return Decision(
        action="deny",
        level=worst.level,
        rule="denylist",
        reason=f"matches the entry {json.dumps(entry, ensure_ascii=False)} of {_home_of(entry, policy)}.denylist",
        setting=_remove(entry, policy),
    )


def _above(worst: Finding, ceiling: RiskClass) -> Decision:
    reason = f"{worst.reason}, and the max_risk of this task is {ceiling.label}"
    return replace(_decision("deny", worst, ""), rule="max_risk", reason=reason)


def _possible(entry: str) -> str:
    return f"may match the entry {json.dumps(entry, ensure_ascii=False)} of the denylist"


def _remove(entry: str, policy: Policy) -> str:
    shown = json.dumps(entry, ensure_ascii=False)
    return f"remove {shown} from {_home_of(entry, policy)}.denylist in {OPERATOR_FILE}" if entry else ""


def _home_of(entry: str, policy: Policy) -> str:
    return policy.section if entry in policy.denylist else "dangerous"


def _render_setting(policy: Policy, names: list[str]) -> str:
    """Return the line of JSON that would allow every class in `names`, and the file it belongs to."""
    nested: object = {"classes": dict.fromkeys(names, "allow")}
    *outer, innermost = policy.section.split(".")
    for section in reversed([*outer[1:], innermost] if outer else []):
        nested = {section: nested}
    return f'"{policy.section.split(".")[0]}": {json.dumps(nested)} in {OPERATOR_FILE}'


def _decision(action: Action, finding: Finding, setting: str) -> Decision:
    return Decision(action=action, level=finding.level, rule=finding.rule, reason=finding.reason, setting=setting)


def _as_finding(risk: Risk) -> Finding:
    return Finding(level=risk.level, rule=risk.rule, reason=risk.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContext:
    """Decides about commands and about files that tools read or write."""

    place: Place
    policy: Policy

    def decide_command(self, command: str) -> Decision:
        """Return whether `command` may run."""
        return decide(classify(command, self.place), command, self.policy)

    def decide_write(self, path: str) -> Decision:
        """Return whether a tool may write the file at `path`, relative to the workspace."""
        whole = self._resolve(path)
        name = trusted_name(whole, self.place)
        risk = summarise([classify_write(whole, self.place)], trusted_files=[name] if name else ())
        return decide(risk, "", self.policy)

    def decide_read(self, path: str) -> Decision:
        """Return whether a tool may show what is in the file or folder at `path`, relative to the workspace."""
        return decide(summarise([classify_read(self._resolve(path), self.place) or NOTHING]), "", self.policy)

    def decide_call(self) -> Decision:
        """Return whether a tool of an MCP server in the sandbox may be called: what it does is not known (R-200)."""
        return decide(summarise([_CALL]), "", self.policy)

    def trusting(self, classes: tuple[str, ...]) -> PolicyContext:
        """Return the same with all of `classes` allowed from now on."""
        policy = replace(self.policy, classes=(*self.policy.classes, *((name, "allow") for name in classes)))
        return replace(self, policy=policy)

    def trusting_command(self, command: str) -> PolicyContext:
        """Return the same with exactly this command allowed from now on."""
        return replace(self, policy=replace(self.policy, allowlist=(*self.policy.allowlist, command)))

    def _resolve(self, path: str) -> str:
        return resolve(posixpath.join(self.place.workspace, path), "/")


_CALL = Finding(
    level=RiskClass.UNKNOWN, rule="mcp.call", reason="runs a tool of an MCP server, whose author decides what it does"
)


def decide_host_call(*, allowed: bool, interactive: bool, setting: str) -> Decision:
    """Return whether a tool of an MCP server on this host may be called (R-200).

    It asks, or is refused where no person can be asked; only the operator's own `allow` lifts that. No class that is
    trusted or allowed does, for in a session with a sandbox those speak of the sandbox.
    """
    action: Action = "allow" if allowed else "prompt" if interactive else "deny"
    return Decision(
        action=action,
        level=RiskClass.UNKNOWN,
        rule=_CALL.rule,
        reason=f"{_CALL.reason}, on this host",
        setting="" if allowed else setting,
        classes_to_approve=() if allowed else (RiskClass.UNKNOWN.label,),
        denied_non_interactively=action == "deny",
        batchable=not allowed,
    )


Where = Literal["host", "sandbox"]
PLACES: tuple[Where, ...] = ("sandbox", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The class of a command, why, and what each place would do with it."""

    command: str
    risk: Risk
    """in the place where a run here would be; the two may differ, as paths mean other things in the container"""
    decisions: Mapping[Where, Decision]
    """when a person can be asked"""
    unattended: Mapping[Where, Action]
    """when no person can be"""


def explain(command: str, *, here: Where, contexts: Mapping[Where, PolicyContext]) -> Explanation:
    """Return what is to be said of `command`; `here` names the place where a run would be."""
    risks = {where: classify(command, contexts[where].place) for where in PLACES}
    return Explanation(
        command=command,
        risk=risks[here],
        decisions={
            where: decide(risks[where], command, replace(contexts[where].policy, interactive=True)) for where in PLACES
        },
        unattended={
            where: decide(risks[where], command, replace(contexts[where].policy, interactive=False)).action
            for where in PLACES
        },
    )


def explanation_to_json(explanation: Explanation) -> dict[str, str | dict[str, str]]:
    """Return the keys `command class rule reason`, and `actions` with `host` and `sandbox`; a contract."""
    risk = explanation.risk
    return {
        "command": explanation.command,
        "class": risk.level.label,
        "rule": risk.rule,
        "reason": risk.reason,
        "actions": {where: explanation.decisions[where].action for where in ("host", "sandbox")},
    }
