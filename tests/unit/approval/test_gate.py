"""The gate in front of everything a project asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.approver import Answers
from fakes.homes import operator_home
from fakes.notices import texts_to

from odek.approval.description import describe_plainly
from odek.approval.gate import ProjectAnswer, require_approval
from odek.approval.request import ApprovalRequest, EnvOverride
from odek.approval.store import ApprovalStore
from odek.cli.approval_prompt import render_request
from odek.errors import ApprovalDenied, StateFileError
from odek.state import StateFolder

ASKED = ApprovalRequest(project_dir="/p", image="alpine", env=(EnvOverride(key="X", value="1"),))


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(StateFolder(operator_home(tmp_path)))


def gate(
    store: ApprovalStore, approver: Answers | None, *, request: ApprovalRequest = ASKED, switch: bool = False
) -> list[str]:
    """Return the notices; raises what the gate raises."""
    notices: list[str] = []
    require_approval(request, operator=approver, store=store, approved_by_environment=switch, emit=texts_to(notices))
    return notices


def damage(tmp_path: Path) -> None:
    (tmp_path / ".odek").mkdir(mode=0o700)
    (tmp_path / ".odek" / "project_sandbox_approvals.json").write_text("{}")
    (tmp_path / ".odek" / "project_sandbox_approvals.json").chmod(0o666)


def test_empty_request_asks_nothing_and_reads_nothing(store: ApprovalStore, tmp_path: Path) -> None:
    """R-60."""
    damage(tmp_path)
    assert gate(store, None, request=ApprovalRequest(project_dir="/p")) == []


def test_switch_approves_before_anything_is_read_or_asked(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61: ODEK_APPROVE_PROJECT_SANDBOX comes first, and says so; it is not remembered."""
    damage(tmp_path)
    assert gate(store, Answers(), switch=True) == [
        "ODEK_APPROVE_PROJECT_SANDBOX approves the sandbox overrides of ./odek.json"
    ]


@pytest.mark.parametrize("answer", ["y", "yes"])
def test_yes_counts_once(store: ApprovalStore, answer: str) -> None:
    """R-60: the next run asks again."""
    for _ in range(2):
        approver = Answers(answer)
        assert gate(store, approver) == []
        assert approver.prompts == [render_request(ASKED)]
        assert approver.choices == [("y", "yes", "t", "trust", "", "n", "no")]
    assert not store.holds(ASKED)


@pytest.mark.parametrize("answer", ["t", "trust"])
def test_trust_is_remembered_and_never_asked_again(store: ApprovalStore, answer: str) -> None:
    """R-61, B30: and the person is told what a tag does not bind."""
    assert gate(store, Answers(answer)) == [
        f"remembered in {store.path}; odek asks again when the project asks for anything else; "
        "the image is bound by its name alpine, not by its content"
    ]
    assert gate(store, Answers()) == []
    assert gate(store, None) == []


def test_trust_in_an_image_by_digest_has_no_caveat(store: ApprovalStore) -> None:
    for image in ("alpine@sha256:" + "a" * 64, "sha256:" + "a" * 64, ""):
        asked = ApprovalRequest(project_dir=f"/{image}", image=image, user="0")
        assert gate(store, Answers("t"), request=asked) == [
            f"remembered in {store.path}; odek asks again when the project asks for anything else"
        ]


def test_changed_value_asks_again_after_trust(store: ApprovalStore) -> None:
    """D-5, F-42."""
    gate(store, Answers("t"))
    changed = ApprovalRequest(project_dir="/p", image="alpine", env=(EnvOverride(key="X", value="$SECRET"),))
    approver = Answers("n")
    with pytest.raises(ApprovalDenied):
        gate(store, approver, request=changed)
    approver.assert_all_used()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"env": (EnvOverride(key="X", value="2"),)}, "the value of a variable"),
        ({"network": "bridge"}, "network"),
        ({"image": "debian", "env": (), "user": "0"}, "image, user, env"),
        ({"project_dir": "/q"}, ""),
    ],
    ids=str,
)
def test_question_after_trust_says_what_is_different(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    """R-62, D-5: also where nobody can be asked; never a value, and nothing of another folder's approval."""
    store = ApprovalStore(StateFolder(operator_home(tmp_path)), clock=lambda: 0.0)
    gate(store, Answers("t"))
    for approver in (Answers("n"), None):
        notices: list[str] = []
        with pytest.raises(ApprovalDenied):
            require_approval(
                replace(ASKED, **changed), operator=approver, store=store, approved_by_environment=False,
                emit=texts_to(notices),
            )  # fmt: skip
        told = f"this project was trusted on 1970-01-01T00:00:00Z; what it asks for has changed since: {said}"
        assert notices == ([told] if said else [])


@pytest.mark.parametrize("answer", ["", "n", "no", None])
def test_anything_else_stops(store: ApprovalStore, answer: str | None) -> None:
    """R-60."""
    with pytest.raises(ApprovalDenied) as caught:
        gate(store, Answers(answer))
    assert caught.value.message == "the sandbox overrides of ./odek.json were not approved"
    assert caught.value.exit_code == 1
    assert not store.holds(ASKED)


def test_nobody_to_ask_stops_and_names_file_and_variable(store: ApprovalStore) -> None:
    """R-61: no terminal and no approval."""
    request = ApprovalRequest(project_dir="/p", image="alpine", dockerfile_sha256="a" * 64)
    with pytest.raises(ApprovalDenied) as caught:
        gate(store, None, request=request)
    assert caught.value.message == (
        "the sandbox overrides of ./odek.json and the build steps of ./Dockerfile.odek need an approval, "
        "and there is no terminal to ask for it"
    )
    assert caught.value.hint == (
        "read them, then approve them at a terminal, or set ODEK_APPROVE_PROJECT_SANDBOX=1 where there is none"
    )
    assert caught.value.detail == describe_plainly(request)


def test_damaged_approvals_stop_before_anybody_is_asked(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61, B30: fail closed."""
    damage(tmp_path)
    with pytest.raises(StateFileError):
        gate(store, Answers())


def test_trust_that_cannot_be_remembered_stops(tmp_path: Path) -> None:
    """R-61: a "trust" that is lost in silence would be a lie."""
    (tmp_path / ".odek").mkdir(mode=0o700)
    (tmp_path / ".odek" / "project_sandbox_approvals.json.lock").mkdir()
    store = ApprovalStore(StateFolder(operator_home(tmp_path)))
    with pytest.raises(StateFileError):
        gate(store, Answers("t"))


def test_request_longer_than_anybody_reads_is_refused_in_words(store: ApprovalStore) -> None:
    """A14, F7: nobody is asked, so nothing can be overlooked; the operator's switch still counts."""
    many = replace(ASKED, env=tuple(EnvOverride(key=f"X{number}", value="1") for number in range(65)))
    with pytest.raises(ApprovalDenied, match="asks for 65 variables, volumes and networks; at most 64"):
        gate(store, Answers(), request=many)
    assert len(gate(store, Answers(), request=many, switch=True)) == 1


@pytest.mark.parametrize("answer", ["y", "all", "yes", "", None, True])
def test_answer_of_an_operator_that_is_not_a_known_one_is_a_no(store: ApprovalStore, answer: ProjectAnswer) -> None:
    """R-104: only "once" and "trust" let a project's wishes through."""

    class Broken:
        def approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
            del request
            return answer

    with pytest.raises(ApprovalDenied, match="were not approved"):
        require_approval(ASKED, operator=Broken(), store=store, approved_by_environment=False, emit=texts_to([]))
    assert not store.holds(ASKED)
