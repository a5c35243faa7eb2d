"""Where a session goes on: the whole table of R-2, from the layers to the decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.layering import make_host, make_layers

from odek.app.isolation import (
    PIN_ORIGIN,
    CommandProfile,
    SandboxDecision,
    decide_sandbox,
    fallback_policy,
    may_fall_back,
)
from odek.app.sandbox_request import build_request
from odek.config.resolve import resolve
from odek.events import Event
from odek.sandbox.errors import DaemonUnreachable


@pytest.mark.parametrize(
    ("pinned", "operator", "project", "env", "intent"),
    [
        (True, {}, {}, {}, SandboxDecision(sandboxed=True, explicit=True, origin=PIN_ORIGIN)),
        (False, {}, {}, {}, SandboxDecision(sandboxed=False, explicit=False, origin=PIN_ORIGIN)),
        (True, {}, {}, {"ODEK_NO_SANDBOX": "1"}, SandboxDecision(sandboxed=True, explicit=True, origin=PIN_ORIGIN)),
        (False, {}, {}, {"ODEK_NO_SANDBOX": "1"}, SandboxDecision(sandboxed=False, explicit=False, origin=PIN_ORIGIN)),
        (
            True,
            {"sandbox": False},
            {},
            {},
            SandboxDecision(sandboxed=False, explicit=True, origin="~/.odek/config.json"),
        ),
        (
            False,
            {"sandbox": True},
            {},
            {},
            SandboxDecision(sandboxed=True, explicit=True, origin="~/.odek/config.json"),
        ),
        (
            True,
            {},
            {},
            {"ODEK_SANDBOX": "false"},
            SandboxDecision(sandboxed=False, explicit=True, origin="ODEK_SANDBOX"),
        ),
        (False, {}, {}, {"ODEK_SANDBOX": "1"}, SandboxDecision(sandboxed=True, explicit=True, origin="ODEK_SANDBOX")),
        (
            False,
            {"sandbox": True},
            {},
            {"ODEK_NO_SANDBOX": "1"},
            SandboxDecision(sandboxed=True, explicit=True, origin="~/.odek/config.json"),
        ),
        # a project may switch it on, and cannot switch it off
        (False, {}, {"sandbox": True}, {}, SandboxDecision(sandboxed=True, explicit=True, origin="./odek.json")),
        (True, {}, {"sandbox": False}, {}, SandboxDecision(sandboxed=True, explicit=True, origin=PIN_ORIGIN)),
    ],
)
def test_pin_gives_way_to_a_policy_only(
    pinned: bool,
    operator: dict[str, object],
    project: dict[str, object],
    env: dict[str, str],
    intent: SandboxDecision,
) -> None:
    """R-2, R-5."""
    settings = resolve(make_layers(operator=operator, project=project, env=env))
    assert decide_sandbox(CommandProfile(command="continue", pinned=pinned), settings) == intent


def test_session_of_a_sandbox_never_falls_back_to_the_host(tmp_path: Path) -> None:
    """R-2, R-7: whatever else is said or not said; a session that begins here may, as before."""
    host = make_host(tmp_path, uid=1000)
    settings = resolve(make_layers(operator={"sandbox_image": "some/image:1"}))
    draft = build_request(settings, host, nothing)
    down = DaemonUnreachable("no client", "docker was not found on PATH", hint="install it")
    profile = CommandProfile(command="continue", pinned=True)
    outcomes = []
    for each in (profile, replace(profile, pinned=None)):
        by_project = draft.image.chosen_by_project
        policy = fallback_policy(each, settings, decide_sandbox(each, settings), image_from_project=by_project)
        outcomes.append((policy.never_on_host, may_fall_back(down, policy)))
    assert outcomes == [(True, False), (False, True)]


def nothing(event: Event) -> None:
    raise AssertionError(event)
