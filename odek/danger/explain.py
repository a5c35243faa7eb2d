"""What odek thinks of a command and would do with it, as plain values for `odek danger explain`. Pure."""

from __future__ import annotations

from typing import Literal

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.policy import Policy, decide

Where = Literal["host", "sandbox"]
Explanation = dict[str, str | dict[str, str]]
"""the keys `command class rule reason`, and `actions` with `host` and `sandbox`"""


def explain(command: str, *, here: Where, places: dict[Where, Place], policies: dict[Where, Policy]) -> Explanation:
    """Return the class of `command`, why, and what each place would do with it.

    `here` names the place whose class is told: the two may differ, as paths mean other things in the
    container.
    """
    risks = {where: classify(command, place) for where, place in places.items()}
    risk = risks[here]
    return {
        "command": command,
        "class": risk.level.label,
        "rule": risk.rule,
        "reason": risk.reason,
        "actions": {where: decide(risks[where], command, policies[where]).action for where in ("host", "sandbox")},
    }
