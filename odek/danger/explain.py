"""What odek thinks of a command and would do with it, as plain values for `odek danger explain`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from odek.danger.classify import classify
from odek.danger.policy import Action, Decision, decide
from odek.danger.regime import Regime
from odek.danger.risk import Risk

Where = Literal["host", "sandbox"]
PLACES: tuple[Where, ...] = ("sandbox", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The class of a command, why, and what each place would do with it."""

    command: str
    risk: Risk
    """in the place where a run here would be; the two may differ, as paths mean other things in the container"""
    decisions: Mapping[Where, Decision]
    """when somebody can be asked"""
    unattended: Mapping[Where, Action]
    """when nobody can be"""


def explain(command: str, *, here: Where, regimes: Mapping[Where, Regime]) -> Explanation:
    """Return what is to be said of `command`; `here` names the place where a run would be."""
    risks = {where: classify(command, regimes[where].place) for where in PLACES}
    return Explanation(
        command=command,
        risk=risks[here],
        decisions={
            where: decide(risks[where], command, replace(regimes[where].policy, interactive=True)) for where in PLACES
        },
        unattended={
            where: decide(risks[where], command, replace(regimes[where].policy, interactive=False)).action
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
