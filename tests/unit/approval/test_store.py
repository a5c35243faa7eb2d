"""Remembered approvals."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.approvals import DATE, FULL_RECORD, A, B
from fakes.homes import operator_home

from odek.approval.request import ApprovalRequest, ApprovedNetwork, EnvOverride, digest, fingerprint
from odek.approval.store import (
    FILE,
    MAX_PARTS,
    RECORDS_FILE,
    ApprovalRecord,
    ApprovalStore,
    StoredApproval,
    approval_key,
    make_record,
    parse_records,
    record_to_json,
)
from odek.approval.store import FILE as KEYS_FILE
from odek.errors import StateFileError
from odek.state import StateFolder

PLAIN = ApprovalRequest(project_dir="/p", image="alpine", network="bridge", volumes=("./a:/a",))
GATED = ApprovalRequest(project_dir="/p", env=(EnvOverride(key="X", value="1"),), user="0")


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(StateFolder(operator_home(tmp_path)))


def plant(home: Path, content: object) -> Path:
    (home / ".odek").mkdir(mode=0o700, exist_ok=True)
    path = home / ".odek" / FILE
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return path


def test_nothing_is_approved_before_and_asking_leaves_no_file(store: ApprovalStore, tmp_path: Path) -> None:
    assert not store.holds(PLAIN)
    assert list(tmp_path.iterdir()) == []


def test_trusted_request_is_held_under_the_documented_keys(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61, R-62: `{key: true}`, the short key only where it binds everything; 0600."""
    store.remember(PLAIN)
    store.remember(GATED)
    path = tmp_path / ".odek" / "project_sandbox_approvals.json"
    keys = {fingerprint(PLAIN): True, f"{fingerprint(GATED)}:{digest(GATED)}": True}
    assert json.loads(path.read_bytes()) == keys
    assert path.stat().st_mode & 0o7777 == 0o600
    assert store.path == str(path)
    assert (store.holds(PLAIN), store.holds(GATED)) == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        {"project_dir": "/q"},
        {"env": (EnvOverride(key="X", value="${SECRET}", variables=("SECRET",)),)},
        {"env": ()},
        {"user": "1000"},
        {"user": ""},
        {"image": "alpine"},
        {"network": "bridge"},
        {"volumes": ("./a:/a",)},
        {"compose_project": "app"},
        {"dockerfile_sha256": "a" * 64},
    ],
    ids=str,
)
def test_changed_request_is_not_held(store: ApprovalStore, change: dict[str, Any]) -> None:
    """D-5, B30, F-42: a swapped value is a new request."""
    store.remember(GATED)
    assert not store.holds(dataclasses.replace(GATED, **change))


def test_key_of_an_older_tool_counts_where_it_binds_everything(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61: the map stays readable both ways."""
    plant(tmp_path, {fingerprint(PLAIN): True})
    assert store.holds(PLAIN)


def test_key_of_an_older_tool_does_not_approve_what_it_does_not_bind(store: ApprovalStore, tmp_path: Path) -> None:
    """D-5: the short key knows the name of the variable and nothing of its value."""
    plant(tmp_path, {fingerprint(GATED): True})
    assert not store.holds(GATED)


def test_remembering_keeps_what_was_there(store: ApprovalStore, tmp_path: Path) -> None:
    plant(tmp_path, {"0" * 64: True})
    store.remember(PLAIN)
    assert json.loads((tmp_path / ".odek" / FILE).read_bytes()) == {"0" * 64: True, fingerprint(PLAIN): True}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "it is not a JSON object"),
        ("x", "it is not a JSON object"),
        ({"*": True}, '"*" is not an approval key'),
        ({"a" * 63: True}, f'"{"a" * 63}" is not an approval key'),
        ({"A" * 64: True}, f'"{"A" * 64}" is not an approval key'),
        ({"a" * 64 + "\n": True}, f'"{"a" * 64}\\n" is not an approval key'),
        ({"\x1b[2K" + "x" * 100: True}, '"\\x1b[2K' + "x" * 75 + '…" is not an approval key'),
        ({"a" * 64: False}, f"the value of {'a' * 64} is not true"),
        ({"a" * 64: 1}, f"the value of {'a' * 64} is not true"),
        ({"a" * 64: "true"}, f"the value of {'a' * 64} is not true"),
    ],
)
def test_damaged_file_approves_nothing_and_is_not_overwritten(
    store: ApprovalStore, tmp_path: Path, content: object, reason: str
) -> None:
    """R-61, B30, B46: fail closed."""
    path = plant(tmp_path, content)
    for attempt in (store.holds, store.remember):
        with pytest.raises(StateFileError) as caught:
            attempt(PLAIN)
        assert caught.value.message == f'"{path}" is damaged: {reason}'
        assert caught.value.hint == "remove the file; odek then asks again"
    assert json.loads(path.read_bytes()) == content


def test_loose_or_linked_file_approves_nothing(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61, B30."""
    path = plant(tmp_path, {fingerprint(PLAIN): True})
    path.chmod(0o666)
    with pytest.raises(StateFileError, match="is open to other users"):
        store.holds(PLAIN)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateFileError, match="is a symbolic link"):
        store.holds(PLAIN)


@pytest.mark.parametrize("data", [b"", b"{", b'{"' + b"a" * 64 + b'": true, "' + b"a" * 64 + b'": true}'])
def test_unreadable_file_approves_nothing(store: ApprovalStore, tmp_path: Path, data: bytes) -> None:
    """B37, B38, B46: an empty, a truncated and a doubled one."""
    plant(tmp_path, {}).write_bytes(data)
    with pytest.raises(StateFileError, match="is damaged"):
        store.holds(PLAIN)


def test_two_writers_at_once_both_survive(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61: locked across processes."""
    code = (
        "import os, sys\n"
        "from odek.approval.request import ApprovalRequest\n"
        "from odek.approval.store import ApprovalStore\n"
        "from tests.fakes.homes import operator_home; from odek.state import StateFolder\n"
        "store = ApprovalStore(StateFolder(operator_home(sys.argv[1])))\n"
        "for number in range(10):\n"
        "    store.remember(ApprovalRequest(project_dir=f'/{sys.argv[2]}/{number}', image='i'))"
    )
    root = Path(__file__).resolve().parents[3]
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], cwd=root) for name in ("a", "b", "c", "d")
    ]
    assert [child.wait() for child in running] == [0] * 4
    for name in "abcd":
        for number in range(10):
            assert store.holds(ApprovalRequest(project_dir=f"/{name}/{number}", image="i"))


NOON = 1_738_324_800.0  # 2025-01-31 12:00:00 UTC
FULL = ApprovalRequest(
    project_dir="/home/u/proj",
    image="i",
    network="none",
    networks=(
        ApprovedNetwork(name="app_default", id=A, internal=False, compose_project="app"),
        ApprovedNetwork(name="backend", id=B, internal=True),
    ),
    compose_project="app",
    env=(EnvOverride(key="PLAIN", value="secret-text"), EnvOverride(key="X", value="$Y$Z", variables=("Y", "Z"))),
    volumes=("./a:/a",),
    user="0:0",
    dockerfile_sha256=B,
)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(operator_home(tmp_path))


@pytest.fixture
def dated_store(folder: StateFolder) -> ApprovalStore:
    return ApprovalStore(folder, clock=lambda: NOON)


def test_record_holds_everything_that_was_asked_for_but_no_value_of_a_variable() -> None:
    """R-61: what a key stands for."""
    assert make_record(FULL, date=DATE) == FULL_RECORD
    assert "secret-text" not in json.dumps(record_to_json(FULL_RECORD))


def test_record_is_bounded() -> None:
    many = tuple(EnvOverride(key=f"X{number}" * 200, value="") for number in range(MAX_PARTS + 5))
    record = make_record(ApprovalRequest(project_dir="/p", env=many), date=DATE)
    assert (len(record.asks), record.asks[-1]) == (MAX_PARTS + 1, ("more", "5 further entries"))
    assert max(len(text) for _, text in record.asks) == 300


@pytest.mark.parametrize("record", [FULL_RECORD, ApprovalRecord(folder="/tmp/\udcff", date=DATE, asks=())])
def test_record_is_read_back_as_it_was_written(record: ApprovalRecord) -> None:
    assert parse_records(json.loads(json.dumps({A: record_to_json(record)}))) == {A: record}


@pytest.mark.parametrize(
    ("content", "records"),
    [
        (None, {}),
        ([], {}),
        ({A: True}, {}),
        ({A: {"folder": "/p", "date": DATE}}, {}),
        ({A: {"folder": 1, "date": DATE, "asks": []}}, {}),
        (
            {A: {"folder": "/p", "date": DATE, "asks": [1, {"what": "image"}, {"what": "env", "value": "X"}]}},
            {A: ApprovalRecord(folder="/p", date=DATE, asks=(("env", "X"),))},
        ),
    ],
)
def test_anything_else_is_ignored(content: object, records: dict[str, ApprovalRecord]) -> None:
    assert parse_records(content) == records


def test_trusting_writes_a_record_beside_the_key(dated_store: ApprovalStore, tmp_path: Path) -> None:
    """R-61: the file of keys stays as older tools know it; both are 0600."""
    dated_store.remember(FULL)
    key = approval_key(FULL)
    assert json.loads((tmp_path / ".odek" / KEYS_FILE).read_bytes()) == {key: True}
    assert json.loads((tmp_path / ".odek" / RECORDS_FILE).read_bytes()) == {key: record_to_json(FULL_RECORD)}
    assert (tmp_path / ".odek" / RECORDS_FILE).stat().st_mode & 0o7777 == 0o600
    assert dated_store.entries() == (StoredApproval(key=key, record=FULL_RECORD),)


def test_key_of_an_older_tool_has_no_record(dated_store: ApprovalStore, folder: StateFolder) -> None:
    folder.write_json(KEYS_FILE, {B: True})
    dated_store.remember(PLAIN)
    assert {found.key: found.record is None for found in dated_store.entries()} == {B: True, approval_key(PLAIN): False}


def test_forgotten_approval_and_its_record_are_gone(dated_store: ApprovalStore, folder: StateFolder) -> None:
    """R-61: the other one stays."""
    dated_store.remember(PLAIN)
    dated_store.remember(FULL)
    dated_store.forget([approval_key(FULL), A])
    assert (dated_store.holds(FULL), dated_store.holds(PLAIN)) == (False, True)
    assert parse_records(folder.read_json(RECORDS_FILE)) == {approval_key(PLAIN): make_record(PLAIN, date=DATE)}


def test_records_that_cannot_be_trusted_are_not_shown_and_not_in_the_way(
    dated_store: ApprovalStore, folder: StateFolder, tmp_path: Path
) -> None:
    """They approve nothing: an approval is remembered, and counts, whatever became of them."""
    dated_store.remember(PLAIN)
    path = tmp_path / ".odek" / RECORDS_FILE
    path.chmod(0o644)
    assert dated_store.entries() == (StoredApproval(key=approval_key(PLAIN), record=None),)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert dated_store.entries() == (StoredApproval(key=approval_key(PLAIN), record=None),)
    dated_store.remember(FULL)
    assert (path.is_symlink(), (tmp_path / "elsewhere").exists()) == (False, False)
    assert parse_records(folder.read_json(RECORDS_FILE)) == {approval_key(FULL): FULL_RECORD}
    path.unlink()
    path.mkdir()
    dated_store.remember(ApprovalRequest(project_dir="/q", image="i"))
    assert len(dated_store.entries()) == 3


def test_a_record_approves_nothing(dated_store: ApprovalStore, folder: StateFolder) -> None:
    folder.write_json(RECORDS_FILE, {approval_key(PLAIN): record_to_json(make_record(PLAIN, date=DATE))})
    assert (dated_store.holds(PLAIN), dated_store.entries()) == (False, ())
