"""What the remembered approvals were given for, and naming one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.homes import operator_home

from odek.approval.request import ApprovalRequest, ApprovedNetwork, EnvOverride
from odek.approval.store import FILE as KEYS_FILE
from odek.approval.store import (
    MAX_PARTS,
    RECORDS_FILE,
    ApprovalRecord,
    ApprovalStore,
    StoredApproval,
    approval_key,
    make_record,
    parse_records,
    record_to_json,
    short_id,
)
from odek.cli.commands.approvals import entries_in, entries_to_json, find_entry, render_entries
from odek.errors import OdekError
from odek.state import StateFolder

NOON = 1_738_324_800.0  # 2025-01-31 12:00:00 UTC
DATE = "2025-01-31T12:00:00Z"
A, B = "a" * 64, "b" * 64
PLAIN = ApprovalRequest(project_dir="/p", image="alpine", network="bridge", volumes=("./a:/a",))
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
FULL_NOTE = ApprovalRecord(
    folder="/home/u/proj",
    date=DATE,
    asks=(
        ("image", "i"),
        ("network", "none"),
        ("compose", "app"),
        ("attach", f"app_default ({A}, Compose project app)"),
        ("attach", f"backend ({B}, internal)"),
        ("env", "PLAIN"),
        ("env", "X (reads Y, Z)"),
        ("volume", "./a:/a"),
        ("user", "0:0"),
        ("build", f"Dockerfile.odek sha256:{B}"),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(operator_home(tmp_path))


@pytest.fixture
def store(folder: StateFolder) -> ApprovalStore:
    return ApprovalStore(folder, clock=lambda: NOON)


def entry(key: str, note: ApprovalRecord | None = None) -> StoredApproval:
    return StoredApproval(key=key, record=note)


def test_note_holds_everything_that_was_asked_for_but_no_value_of_a_variable() -> None:
    """R-61: what a key stands for."""
    assert make_record(FULL, date=DATE) == FULL_NOTE
    assert "secret-text" not in json.dumps(record_to_json(FULL_NOTE))


def test_note_is_bounded() -> None:
    many = tuple(EnvOverride(key=f"X{number}" * 200, value="") for number in range(MAX_PARTS + 5))
    note = make_record(ApprovalRequest(project_dir="/p", env=many), date=DATE)
    assert (len(note.asks), note.asks[-1]) == (MAX_PARTS + 1, ("more", "5 further entries"))
    assert max(len(text) for _, text in note.asks) == 300


@pytest.mark.parametrize("note", [FULL_NOTE, ApprovalRecord(folder="/tmp/\udcff", date=DATE, asks=())])
def test_note_is_read_back_as_it_was_written(note: ApprovalRecord) -> None:
    assert parse_records(json.loads(json.dumps({A: record_to_json(note)}))) == {A: note}


@pytest.mark.parametrize(
    ("content", "notes"),
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
def test_whatever_is_no_note_is_left_out(content: object, notes: dict[str, ApprovalRecord]) -> None:
    assert parse_records(content) == notes


def test_trusting_writes_a_note_beside_the_key(store: ApprovalStore, tmp_path: Path) -> None:
    """R-61: the file of keys stays as older tools know it; both are 0600."""
    store.remember(FULL)
    key = approval_key(FULL)
    assert json.loads((tmp_path / ".odek" / KEYS_FILE).read_bytes()) == {key: True}
    assert json.loads((tmp_path / ".odek" / RECORDS_FILE).read_bytes()) == {key: record_to_json(FULL_NOTE)}
    assert (tmp_path / ".odek" / RECORDS_FILE).stat().st_mode & 0o7777 == 0o600
    assert store.entries() == (entry(key, FULL_NOTE),)


def test_key_of_an_older_tool_has_no_note(store: ApprovalStore, folder: StateFolder) -> None:
    folder.write_json(KEYS_FILE, {B: True})
    store.remember(PLAIN)
    assert {found.key: found.record is None for found in store.entries()} == {B: True, approval_key(PLAIN): False}


def test_forgotten_approval_and_its_note_are_gone(store: ApprovalStore, folder: StateFolder) -> None:
    """R-61: the other one stays."""
    store.remember(PLAIN)
    store.remember(FULL)
    store.forget([approval_key(FULL), A])
    assert (store.holds(FULL), store.holds(PLAIN)) == (False, True)
    assert parse_records(folder.read_json(RECORDS_FILE)) == {approval_key(PLAIN): make_record(PLAIN, date=DATE)}


def test_notes_that_cannot_be_trusted_are_not_shown_and_not_in_the_way(
    store: ApprovalStore, folder: StateFolder, tmp_path: Path
) -> None:
    """They approve nothing: an approval is remembered, and counts, whatever became of them."""
    store.remember(PLAIN)
    path = tmp_path / ".odek" / RECORDS_FILE
    path.chmod(0o644)
    assert store.entries() == (entry(approval_key(PLAIN)),)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert store.entries() == (entry(approval_key(PLAIN)),)
    store.remember(FULL)
    assert (path.is_symlink(), (tmp_path / "elsewhere").exists()) == (False, False)
    assert parse_records(folder.read_json(RECORDS_FILE)) == {approval_key(FULL): FULL_NOTE}
    path.unlink()
    path.mkdir()
    store.remember(ApprovalRequest(project_dir="/q", image="i"))
    assert len(store.entries()) == 3


def test_a_note_approves_nothing(store: ApprovalStore, folder: StateFolder) -> None:
    folder.write_json(RECORDS_FILE, {approval_key(PLAIN): record_to_json(make_record(PLAIN, date=DATE))})
    assert (store.holds(PLAIN), store.entries()) == (False, ())


SHORT, LONG = "ab" * 32, "cd" * 32 + ":" + "ef" * 32
TWIN = "cd" * 32 + ":" + "0" * 64
ENTRIES = (entry(SHORT), entry(TWIN), entry(LONG))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (SHORT, SHORT),
        ("abab", SHORT),
        ("ABAB", SHORT),
        (LONG, LONG),
        ("cdcd:efef", LONG),
        ("cdcd:e", LONG),
        (short_id(TWIN), TWIN),
    ],
)
def test_entry_is_named_by_its_beginning(text: str, key: str) -> None:
    assert find_entry(ENTRIES, text).key == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is too short to name an approval'),
        ("aba", '"aba" is too short to name an approval'),
        ("abac", 'no remembered approval begins with "abac"'),
        ("abab:", 'no remembered approval begins with "abab:"'),
        ("abab\x1b[2K", 'no remembered approval begins with "abab\\x1b[2k"'),
        ("cdcd", '2 approvals begin with "cdcd": cdcdcdcdcdcd:000000000000, cdcdcdcdcdcd:efefefefefef'),
        ("cdcd:ef:ef", 'no remembered approval begins with "cdcd:ef:ef"'),
    ],
)
def test_entry_that_is_not_named_exactly_is_none(text: str, message: str) -> None:
    with pytest.raises(OdekError) as error:
        find_entry(ENTRIES, text)
    assert error.value.message.lower() == message.lower()


def test_entries_of_a_folder() -> None:
    mine, other = entry(SHORT, FULL_NOTE), entry(LONG, ApprovalRecord(folder="/home/u/proj2", date=DATE, asks=()))
    assert entries_in((mine, other, entry(TWIN)), "/home/u/proj") == (mine,)


def test_list_for_people_shows_foreign_text_harmlessly() -> None:
    """R-64."""
    hostile = ApprovalRecord(folder="/tmp/\x1b[2K", date="now\r", asks=(("image\n", "al pine\x1b[8m"),))
    assert render_entries((entry(LONG, FULL_NOTE), entry(SHORT, hostile), entry(B)), here="/home/u/proj") == (
        "3 remembered approvals\n\n"
        "cdcdcdcdcdcd:efefefefefef  /home/u/proj (this folder)\n"
        "  since:   2025-01-31T12:00:00Z\n"
        "  image:   i\n"
        "  network: none\n"
        "  compose: app\n"
        f'  attach:  "app_default ({A[:52]}\n'
        f'         + {A[52:]}, Compose project app)"\n'
        f'  attach:  "backend ({B[:56]}\n'
        f'         + {B[56:]}, internal)"\n'
        "  env:     PLAIN\n"
        '  env:     "X (reads Y, Z)"\n'
        "  volume:  ./a:/a\n"
        "  user:    0:0\n"
        f'  build:   "Dockerfile.odek sha256:{B[:42]}\n'
        f'         + {B[42:]}"\n\n'
        'abababababab  "/tmp/\\x1b[2K"\n'
        "  since:   now\\r\n"
        '  image\\n: "al pine\\x1b[8m"\n\n'
        "bbbbbbbbbbbb  (no description: written by another tool)\n"
    )


def test_empty_list() -> None:
    assert render_entries((), here="/") == "no approval is remembered\n"


def test_list_for_machines() -> None:
    note = ApprovalRecord(folder="/p", date=DATE, asks=(("image", "i"),))
    assert entries_to_json((entry(A, note), entry(B))) == [
        {"key": A, "folder": "/p", "date": DATE, "asks": [{"what": "image", "value": "i"}]},
        {"key": B},
    ]
