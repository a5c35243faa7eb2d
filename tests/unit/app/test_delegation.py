"""What a sub-agent's gate lets through, next to its parent's."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes.containers import FACTS
from fakes.layering import bare_host, make_layers

from odek.app.config import config_of
from odek.app.danger import Within, narrow_policy, policy_for
from odek.app.delegation import Delegation
from odek.config.danger import DangerSettings
from odek.danger.risk import RiskClass

COMMANDS = (
    "ls", "touch a", "apt-get install x", "curl https://a.example", "curl http://db:5432", "sh -c 'x'", "git push",
    "rm -rf /workspace/x", "cat .env", "./unknown --flag", "mkfs /dev/sda",
)  # fmt: skip
STRICTNESS = {"allow": 0, "prompt": 1, "deny": 2}
SETTINGS = (
    DangerSettings(),
    DangerSettings(action="allow"),
    DangerSettings(allowlist=("git push", "ls")),
    DangerSettings(denylist=("touch",)),
    DangerSettings(non_interactive="allow"),
)


@pytest.mark.once
@pytest.mark.parametrize("danger", SETTINGS, ids=str)
@pytest.mark.parametrize("interactive", [True, False])
def test_no_task_may_do_what_its_parent_may_not(danger: DangerSettings, interactive: bool) -> None:
    """R-222, P-40: every ceiling, trust, network and place; without a network it asks where its parent asks."""
    host = bare_host("/w")
    wide = replace(FACTS, internet=True, network="bridge", service_names=("db",))
    later = replace(wide, service_names=("db", "a.example"))  # a service that came after the parent was started
    narrower = (wide, later, replace(FACTS, internet=False, network="none", service_names=()))
    for parent_facts, ceiling, trusted in itertools.product((None, *narrower), RiskClass, (True, False)):
        parent = policy_for(danger, parent_facts, host, interactive=interactive)
        for facts in (None,) if parent_facts is None else narrower:
            internet = parent_facts.internet if parent_facts else True
            services = parent_facts.service_names if parent_facts else ()
            within = Within(ceiling=ceiling, trusted=trusted, internet=internet, services=services)
            if facts is not None and facts.internet and not internet:
                continue  # rights.narrow gives no network
            child = narrow_policy(policy_for(danger, facts, host, interactive=interactive), within)
            for command in COMMANDS:
                own, given = parent.decide_command(command), child.decide_command(command)
                assert STRICTNESS[given.action] >= STRICTNESS[own.action], (command, ceiling, trusted)
                assert given.level <= ceiling or given.action == "deny", (command, ceiling)
                assert trusted or given.action != "prompt", command


def test_trust_does_not_lift_a_ceiling() -> None:
    """R-222: what the person trusts in the parent is denied all the same where the task gave it up."""
    context = policy_for(DangerSettings(), FACTS, bare_host("/w"), interactive=True)
    within = Within(ceiling=RiskClass.SAFE, trusted=True, internet=True, services=())
    child = narrow_policy(context, within).trusting(("local_write",)).trusting_command("touch a")
    decided = child.decide_command("touch a")
    assert (decided.action, decided.rule) == ("deny", "max_risk")
    assert decided.reason.endswith("and the max_risk of this task is safe")
    assert child.decide_write("a").action == "deny"
    assert child.decide_read("a").action == "allow"


def test_tasks_of_an_agent_in_a_sandbox_are_never_for_the_host() -> None:
    """R-223: where the parent works is decided by what is known of its sandbox, not by the kind of its executor."""
    settings = config_of(make_layers()).settings
    place = SimpleNamespace(executor=object(), facts=FACTS, tools=SimpleNamespace(specs=()))
    parent = cast("Any", SimpleNamespace(settings=settings, workspace=place))
    with pytest.raises(AttributeError, match="spec"):
        Delegation(None).run(parent, "call", {"tasks": [{"goal": "a"}]})
