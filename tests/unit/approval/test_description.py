"""The order of a project's wishes, and their pages (A14, F7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.approver import Answers
from fakes.homes import operator_home

from odek.approval.description import describe_request, reaches_out, steers
from odek.approval.gate import require_approval
from odek.approval.request import ApprovalRequest, EnvOverride
from odek.approval.store import ApprovalStore
from odek.cli.approval_prompt import CONSEQUENCE
from odek.errors import ApprovalDenied
from odek.state import StateFolder

VOLUMES = tuple(f"./part{number}:/data/part{number}" for number in range(50))


def wishes(*volumes: str) -> ApprovalRequest:
    return ApprovalRequest(
        project_dir="/p",
        image="example/tool:1",
        network="bridge",
        env=(EnvOverride(key="MODE", value="x"), EnvOverride(key="LD_PRELOAD", value="./x.so")),
        volumes=("/var/run/docker.sock:/d", *VOLUMES, *volumes),
    )


def ask(tmp_path: Path, approver: Answers, request: ApprovalRequest) -> None:
    store = ApprovalStore(StateFolder(operator_home(tmp_path)))
    require_approval(request, operator=approver, store=store, approved_by_environment=False, emit=lambda _: None)


def test_what_widens_most_is_last() -> None:
    """A14: after the volumes of the project come what steers programs, what lies outside, image and network."""
    rows = describe_request(wishes()).split("\n")
    assert rows[:2] == ["  env:     MODE", "  sets:    MODE=x"]
    assert rows[-5:] == [
        "  env:     LD_PRELOAD",
        "  sets:    LD_PRELOAD=./x.so",
        "  volume:  /var/run/docker.sock:/d",
        "  image:   example/tool:1",
        "  network: bridge",
    ]


def test_a_long_request_is_paged_and_yes_counts_behind_the_last_page(tmp_path: Path) -> None:
    """A14: `y` is no choice before; each page fits a terminal of 24 rows; the last is followed by the question."""
    approver = Answers("?", "?", "?", "?", "?", "y")
    ask(tmp_path, approver, wishes())
    assert [("y" in choices, "t" in choices) for choices in approver.choices] == [(False, False)] * 5 + [(True, True)]
    assert all(prompt.count("\n") < 22 for prompt in approver.prompts)
    assert "network: bridge" in approver.prompts[0]
    assert approver.prompts[-1].endswith(f"  network: bridge\n{CONSEQUENCE}")
    shown = "\n".join(approver.prompts[1:])
    assert all(f"  volume:  {volume}\n" in shown for volume in VOLUMES)


@pytest.mark.parametrize("answers", [("n",), ("?", "n"), (None,), ("all", "n")])
def test_a_no_counts_at_once(tmp_path: Path, answers: tuple[str | None, ...]) -> None:
    with pytest.raises(ApprovalDenied):
        ask(tmp_path, Answers(*answers), wishes())


def test_no_name_is_broken_in_two() -> None:
    """A14: neither a variable's among many, nor a folder's in a long path."""
    names = [f"A_RATHER_LONG_NAME_{number}" for number in range(12)]
    path = "./" + "/".join(f"folder-number-{number}" for number in range(9))
    request = ApprovalRequest(
        project_dir="/p", env=tuple(EnvOverride(key=name, value="") for name in names), volumes=(f"{path}:/data",)
    )
    text = describe_request(request)
    assert all(name in text for name in names)
    assert all(f"folder-number-{number}" in text for number in range(9))
    assert max(map(len, text.split("\n"))) < 80
    assert f"{path}:/data" in text.replace("\n         + ", "")


STEERING = (
    *("LD_PRELOAD", "PIP_INDEX_URL", "NPM_CONFIG_REGISTRY", "HTTPS_PROXY", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV"),
    *("PATH", "GITHUB_PAT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "OPENAI_BASE_URL"),
)


@pytest.mark.parametrize("name", STEERING)
def test_a_variable_that_steers(name: str) -> None:
    """F7."""
    assert steers(name)
    assert steers(name.lower())


def test_a_variable_that_steers_nothing_and_one_that_gets_a_secret() -> None:
    assert not any(map(steers, ("MODE", "TZ", "LANG", "DEBUG", "PORT")))
    assert steers("MODE", ("GITHUB_TOKEN",))


@pytest.mark.parametrize(
    ("volume", "out"),
    [
        *(("./a:/a", False), ("cache:/c", False), ("/etc:/e", True), ("~/x:/x", True), ("$HOME:/h", True)),
        *(("../x:/x", True), ("./a/../../x:/x", True), ("./d.sock:/d", True), (".:/w", True)),
        *(
            ("./.git:/g", True),
            ("./a/.ssh:/s", True),
            ("./b:/usr/bin", True),
            ("./e:/etc", True),
            ("./h:/home/x", False),
        ),
    ],
)
def test_a_volume_that_reaches_out(volume: str, out: bool) -> None:
    assert reaches_out(volume) is out
