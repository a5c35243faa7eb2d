"""A task as it is written: by a model, and by a program outside."""

from __future__ import annotations

import json

import pytest

from odek.delegate.brief import Brief, parse_brief
from odek.tools.arguments import ArgumentError
from odek.tools.delegate import DELEGATE_TASKS

EVERY = "a task has goal, context, guidance, trust_level, max_risk, readonly, network, networks, tools, "


def test_all_fields_of_a_task() -> None:
    """R-220."""
    written = {
        "goal": "look", "context": "c", "guidance": "g", "trust_level": "untrusted", "max_risk": "safe",
        "readonly": True, "network": "none", "networks": ["b", "a", "b"], "tools": ["glob"], "max_iterations": 2,
        "timeout": 5,
    }  # fmt: skip
    assert parse_brief(json.dumps(written)) == Brief(
        goal="look", context="c", guidance="g", trusted=False, max_risk="safe", readonly=True, network="none",
        networks=("b", "a"), tools=("glob",), max_iterations=2, timeout_s=5,
    )  # fmt: skip
    assert parse_brief('{"goal": "look"}') == Brief(goal="look")
    assert parse_brief('{"goal": "look", "networks": ["none"]}').networks == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", '"goal" is missing'),
        ("[]", "must be a JSON object"),
        ("{", "not valid JSON"),
        ('{"goal": " "}', '"goal" is empty'),
        ('{"goal": 1}', '"goal" must be text'),
        ('{"goal": "g", "trust_level": "root"}', "must be one of trusted, untrusted"),
        ('{"goal": "g", "max_risk": "any"}', "must be one of safe, local_write"),
        ('{"goal": "g", "network": "host"}', "must be one of none, bridge"),
        ('{"goal": "g", "networks": "a"}', '"networks" must be a list'),
        ('{"goal": "g", "readonly": "no"}', '"readonly" must be true or false'),
        ('{"goal": "g", "timeout": 0}', "must be at least 1"),
        ('{"goal": "g", "max_iterations": -1}', "must be at least 1"),
        *((f'{{"goal": "g", "{name}": {value}}}', f'there is no "{name}": {EVERY}') for name, value in (
            ("image", '"x"'), ("sandbox", "false"), ("user", '"0:0"'), ("volumes", '["/:/host"]'), ("env", '{"A":"1"}'),
            ("memory", '"9g"'), ("pids", "9"), ("cwd", '"/"'), ("model", '"x"'), ("base_url", '"x"'),
            ("api_key", '"x"'),
            ("Goal", '"x"'), ("sandbox_network", '"bridge"'), ("readOnly", "false"), ("depth", "2"),
        )),
    ],
)  # fmt: skip
def test_what_a_task_does_not_have_is_refused_and_what_it_has_is_listed(text: str, why: str) -> None:
    """R-220, R-230: an unknown field is not passed over, for what it asks for would be lost in silence."""
    with pytest.raises(ArgumentError) as refused:
        parse_brief(text)
    assert why in str(refused.value)


def test_description_is_short() -> None:
    """R-220: it is sent with every request."""
    assert len(DELEGATE_TASKS.description) < 300
    assert len(json.dumps(DELEGATE_TASKS.parameters)) < 1500
