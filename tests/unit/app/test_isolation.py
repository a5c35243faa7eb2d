"""Sandbox or host: the whole table, not samples of it."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Literal

import pytest

from odek.app.isolation import (
    PIN_ORIGIN,
    FallbackPolicy,
    SandboxDecision,
    choose_sandbox,
    explain_stop,
    may_fall_back,
    require_allowed,
    require_readonly_kept,
)
from odek.errors import (
    ApprovalDenied,
    ConfigError,
    ExecutableMissing,
    Interrupted,
    OdekError,
    StateFileError,
    UsageError,
)
from odek.sandbox.errors import DaemonUnreachable, ImageUnavailable, SandboxConfigError, SandboxError, SandboxLost

pytestmark = pytest.mark.once  # no Python can make a difference

ERRORS: tuple[tuple[str, BaseException], ...] = (
    *(
        (f"unreachable: {because}", DaemonUnreachable(because, "m", hint="h"))
        for because in ("no client", "no answer", "permission denied", "no connection")
    ),
    ("image", ImageUnavailable("m")),
    ("configuration", SandboxConfigError("m")),
    ("lost", SandboxLost("m")),
    ("sandbox", SandboxError("m")),
    ("config", ConfigError("m")),
    ("approval", ApprovalDenied("m")),
    ("state", StateFileError("m")),
    ("missing", ExecutableMissing("m")),
    ("usage", UsageError("m")),
    ("odek", OdekError("m")),
    ("interrupted", Interrupted(2)),
    ("keyboard", KeyboardInterrupt()),
    ("os", PermissionError()),
    ("bug", RuntimeError()),
)
FLAGS = ("explicit", "required_by", "networks_asked", "never_on_host", "readonly_asked", "image_from_project")


def policy_of(flags: Collection[str]) -> FallbackPolicy:
    required_by = "ODEK_REQUIRE_SANDBOX" if "required_by" in flags else ""
    return FallbackPolicy(required_by=required_by, **{flag: flag in flags for flag in FLAGS if flag != "required_by"})


POLICIES = [
    policy_of([flag for flag, value in zip(FLAGS, values, strict=True) if value])
    for values in itertools.product((False, True), repeat=len(FLAGS))
]
# The only cells that lead to the host: (kind of error, image_from_project), all other flags off.
HOST_CELLS = {
    *((f"unreachable: {because}", project) for because in ("no client", "no answer", "permission denied",
    "no connection") for project in (False, True)),
    ("image", False),
}  # fmt: skip


def soft(policy: FallbackPolicy) -> bool:
    return not any(getattr(policy, flag) for flag in FLAGS if flag != "image_from_project")


@pytest.mark.parametrize(("kind", "error"), ERRORS, ids=[kind for kind, _ in ERRORS])
@pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: "".join(str(int(bool(getattr(policy, flag)))) for flag in FLAGS)
)
def test_outcome_of_every_cell(kind: str, error: BaseException, policy: FallbackPolicy) -> None:
    """R-7, D-1, D-11: the full product of what went wrong and of what forbids the host."""
    wanted = soft(policy) and (kind, policy.image_from_project) in HOST_CELLS
    assert may_fall_back(error, policy) == wanted


def test_few_cells_lead_to_the_host() -> None:
    """R-7: nine of them, counted, so that a new one is noticed."""
    cells = [(kind, policy) for kind, error in ERRORS for policy in POLICIES if may_fall_back(error, policy)]
    assert len(cells) == 9


@pytest.mark.parametrize(("kind", "error"), ERRORS, ids=[kind for kind, _ in ERRORS])
def test_stop_is_explained_exactly_when_another_policy_would_have_gone_on(kind: str, error: BaseException) -> None:
    """R-7: and never when the run goes on on the host."""
    if not isinstance(error, OdekError):
        return
    could = kind in {cell for cell, _ in HOST_CELLS}
    for policy in POLICIES:
        stops = not may_fall_back(error, policy)
        assert bool(explain_stop(error, policy)) is (could and stops), policy


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"required_by"}, "ODEK_REQUIRE_SANDBOX is set"),
        (
            {"required_by", "networks_asked", "never_on_host", "explicit", "image_from_project"},
            "ODEK_REQUIRE_SANDBOX is set",
        ),
        ({"networks_asked", "explicit"}, "networks were asked for"),
        ({"readonly_asked", "never_on_host", "explicit"}, "read-only was asked for"),
        ({"never_on_host", "explicit"}, "this session must not run on the host"),
        ({"explicit", "image_from_project"}, "a sandbox was asked for explicitly"),
        ({"image_from_project"}, "the image was named by the project"),
    ],
)
def test_explanation_names_the_strongest_reason(flags: set[str], words: str) -> None:
    """R-7."""
    assert explain_stop(ImageUnavailable("m"), policy_of(flags)) == words


Setting = Literal["unset", "file on", "file off", "env on", "env off", "flag on", "flag off"]
ORIGINS = {"file": "~/.odek/config.json", "env": "ODEK_SANDBOX", "flag": "--sandbox"}


@pytest.mark.parametrize(
    ("setting", "no_sandbox", "default", "intent"),
    [
        # nobody said anything: the command's own default
        ("unset", False, True, (True, False, "the default of odek run")),
        ("unset", False, False, (False, False, "the default of odek run")),
        # ODEK_NO_SANDBOX alone
        ("unset", True, True, (False, True, "ODEK_NO_SANDBOX")),
        ("unset", True, False, (False, True, "ODEK_NO_SANDBOX")),
        # a setting
        ("file on", False, True, (True, True, "~/.odek/config.json")),
        ("file on", False, False, (True, True, "~/.odek/config.json")),
        ("file off", False, True, (False, True, "~/.odek/config.json")),
        ("file off", False, False, (False, True, "~/.odek/config.json")),
        ("env on", False, False, (True, True, "ODEK_SANDBOX")),
        ("env off", False, True, (False, True, "ODEK_SANDBOX")),
        ("flag on", False, False, (True, True, "--sandbox")),
        ("flag off", False, True, (False, True, "--sandbox")),
        # a setting and ODEK_NO_SANDBOX: only a flag is stronger
        ("file on", True, True, (False, True, "ODEK_NO_SANDBOX")),
        ("file off", True, True, (False, True, "ODEK_NO_SANDBOX")),
        ("env off", True, True, (False, True, "ODEK_NO_SANDBOX")),
        ("flag on", True, True, (True, True, "--sandbox")),
        ("flag on", True, False, (True, True, "--sandbox")),
        ("flag off", True, True, (False, True, "--sandbox")),
    ],
)
def test_intent_follows_the_strongest_word(
    setting: Setting, no_sandbox: bool, default: bool, intent: tuple[bool, bool, str]
) -> None:
    """R-1, R-3, R-6, D-9: a flag beats ODEK_NO_SANDBOX, which beats the files, which beat the default."""
    source, _, value = setting.partition(" ")
    found = choose_sandbox(
        enabled=None if setting == "unset" else value == "on",
        origin=ORIGINS.get(source, "the default"),
        from_flag=source == "flag",
        no_sandbox=no_sandbox,
        default=default,
        command="run",
    )
    assert found == SandboxDecision(sandboxed=intent[0], explicit=intent[1], origin=intent[2])


@pytest.mark.parametrize(
    ("setting", "no_sandbox", "pinned", "intent"),
    [
        ("unset", False, True, (True, True, PIN_ORIGIN)),
        ("unset", False, False, (False, False, PIN_ORIGIN)),
        ("unset", True, True, (True, True, PIN_ORIGIN)),
        ("unset", True, False, (False, False, PIN_ORIGIN)),
        ("file on", False, False, (True, True, "~/.odek/config.json")),
        ("file off", False, True, (False, True, "~/.odek/config.json")),
        ("file on", True, False, (True, True, "~/.odek/config.json")),
        ("env off", False, True, (False, True, "ODEK_SANDBOX")),
        ("env on", False, False, (True, True, "ODEK_SANDBOX")),
    ],
)
@pytest.mark.parametrize("default", [True, False])
def test_session_that_goes_on_keeps_its_place_unless_a_policy_says_otherwise(
    setting: Setting, no_sandbox: bool, pinned: bool, default: bool, intent: tuple[bool, bool, str]
) -> None:
    """R-2: ODEK_NO_SANDBOX does not change a pin, an explicit policy does."""
    source, _, value = setting.partition(" ")
    found = choose_sandbox(
        enabled=None if setting == "unset" else value == "on",
        origin=ORIGINS.get(source, ""),
        from_flag=False,
        no_sandbox=no_sandbox,
        default=default,
        command="continue",
        pinned=pinned,
    )
    assert found == SandboxDecision(sandboxed=intent[0], explicit=intent[1], origin=intent[2])


@pytest.mark.parametrize(("sandboxed", "by"), [(True, "ODEK_REQUIRE_SANDBOX"), (True, ""), (False, "")])
def test_run_is_allowed(sandboxed: bool, by: str) -> None:
    """R-4."""
    require_allowed(SandboxDecision(sandboxed=sandboxed, explicit=True, origin="x"), required_by=by)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("by", ["ODEK_REQUIRE_SANDBOX", "ODEK_REQUIRE_VERIFIED", "--require"])
def test_run_on_the_host_is_refused_where_a_sandbox_is_required(by: str, explicit: bool) -> None:
    """R-4: an explicit opt-out included; who said it is named."""
    intent = SandboxDecision(sandboxed=False, explicit=explicit, origin="--no-sandbox")
    with pytest.raises(ConfigError, match=rf"\(--no-sandbox\), and {by} forbids it"):
        require_allowed(intent, required_by=by)


@pytest.mark.parametrize("origin", ["--no-sandbox", "ODEK_NO_SANDBOX", "~/.odek/config.json", PIN_ORIGIN])
def test_read_only_on_the_host_is_a_usage_error(origin: str) -> None:
    """A5, D-22: nothing on the host keeps that promise; both who asked and who opted out are named."""
    intent = SandboxDecision(sandboxed=False, explicit=True, origin=origin)
    with pytest.raises(UsageError) as refused:
        require_readonly_kept(intent, readonly_origin="./odek.json")
    assert "(./odek.json)" in refused.value.message
    assert f"({origin})" in refused.value.message


def test_read_only_is_no_obstacle_to_a_sandbox_nor_its_absence_to_the_host() -> None:
    """A5."""
    require_readonly_kept(
        SandboxDecision(sandboxed=True, explicit=False, origin="x"), readonly_origin="--sandbox-readonly"
    )
    require_readonly_kept(SandboxDecision(sandboxed=False, explicit=True, origin="x"), readonly_origin="")
