"""odek approvals."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from fakes.approvals import DATE, FULL_RECORD, A, B
from fakes.homes import operator_home
from fakes.layering import make_host

from odek.approval.request import ApprovalRequest
from odek.approval.server_store import ServerApprovals
from odek.approval.servers import OfferedTool, ServerRequest
from odek.approval.store import (
    FILE,
    ApprovalRecord,
    ApprovalStore,
    StoredApproval,
    approval_key,
    short_id,
)
from odek.cli.commands.approvals import entries_in, entries_to_json, find_entry, main, render_entries
from odek.cli.terminal import Terminal
from odek.errors import OdekError, StateFileError, UsageError
from odek.state import StateFolder

OTHER = ApprovalRequest(project_dir="/elsewhere", image="i")


class Scratch:
    """A home with one approval for the working directory and one for another folder."""

    def __init__(self, root: Path) -> None:
        self.host = make_host(root, uid=os.getuid())
        self.folder = StateFolder(operator_home(self.host.home))
        self.store = ApprovalStore(self.folder, clock=lambda: 0.0)
        self.here = ApprovalRequest(project_dir=self.host.cwd, network="bridge")
        self.store.remember(self.here)
        self.store.remember(OTHER)

    def run(self, *arguments: str) -> tuple[str, str]:
        stdout, stderr = io.StringIO(), io.StringIO()
        assert main(list(arguments), self.host, Terminal(stdout, stderr)) == 0
        return stdout.getvalue(), stderr.getvalue()

    def keys(self) -> set[str]:
        return {entry.key for entry in self.store.entries()}


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def short(request: ApprovalRequest) -> str:
    return approval_key(request)[:12]


def test_list(scratch: Scratch) -> None:
    stdout, stderr = scratch.run("list")
    blocks = {
        f"{short(scratch.here)}  {scratch.host.cwd} (this folder)\n  since:   1970-01-01T00:00:00Z\n  network: bridge",
        f"{short(OTHER)}  /elsewhere\n  since:   1970-01-01T00:00:00Z\n  image:   i",
    }
    heading, *rest = stdout.rstrip("\n").split("\n\n")
    assert (heading, set(rest), stderr) == ("2 remembered approvals", blocks, "")


def test_list_as_json(scratch: Scratch) -> None:
    assert {entry["key"] for entry in json.loads(scratch.run("list", "--json")[0])} == scratch.keys()


def test_revoke_by_the_beginning_of_a_key(scratch: Scratch) -> None:
    assert scratch.run("revoke", short(OTHER)) == (f"revoked {short(OTHER)}  /elsewhere\n", "")
    assert (scratch.store.holds(OTHER), scratch.store.holds(scratch.here)) == (False, True)


def test_revoke_here_takes_what_is_known_to_be_of_this_folder(scratch: Scratch) -> None:
    with scratch.folder.locked(FILE):
        scratch.folder.write_json(FILE, {**dict.fromkeys(scratch.keys(), True), "a" * 64: True})
    stdout, stderr = scratch.run("revoke", "--here")
    assert stdout == f"revoked {short(scratch.here)}  {scratch.host.cwd}\n"
    assert stderr == "odek: 1 approval without a description may be for this folder, too\n"
    assert scratch.keys() == {approval_key(OTHER), "a" * 64}


def test_revoke_all(scratch: Scratch) -> None:
    revoked = json.loads(scratch.run("revoke", "--all", "--json")[0])
    assert {entry["folder"] for entry in revoked} == {scratch.host.cwd, "/elsewhere"}
    assert scratch.keys() == set()
    assert scratch.run("revoke", "--all") == ("nothing to revoke\n", "")


def test_nothing_is_revoked_when_one_of_the_keys_is_unknown(scratch: Scratch) -> None:
    with pytest.raises(OdekError, match="no remembered approval begins with"):
        scratch.run("revoke", short(OTHER), "f" * 20)
    assert scratch.store.holds(OTHER)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("show",),
        ("list", "x"),
        ("list", "--all"),
        ("revoke",),
        ("revoke", "abcd", "--all"),
        ("revoke", "--here", "--all"),
    ],
)
def test_what_makes_no_sense_is_refused(scratch: Scratch, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        scratch.run(*arguments)
    assert len(scratch.keys()) == 2


def test_damaged_store_is_an_error(scratch: Scratch) -> None:
    """R-61, B46: never shown as an empty list."""
    Path(scratch.store.path).write_text("{")
    for arguments in (("list",), ("revoke", "--all")):
        with pytest.raises(StateFileError):
            scratch.run(*arguments)


def entry(key: str, record: ApprovalRecord | None = None) -> StoredApproval:
    return StoredApproval(key=key, record=record)


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
    mine, other = entry(SHORT, FULL_RECORD), entry(LONG, ApprovalRecord(folder="/home/u/proj2", date=DATE, asks=()))
    assert entries_in((mine, other, entry(TWIN)), "/home/u/proj") == (mine,)


def test_list_for_people_shows_foreign_text_harmlessly() -> None:
    """R-64."""
    hostile = ApprovalRecord(folder="/tmp/\x1b[2K", date="now\r", asks=(("image\n", "al pine\x1b[8m"),))
    assert render_entries((entry(LONG, FULL_RECORD), entry(SHORT, hostile), entry(B)), here="/home/u/proj") == (
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
    record = ApprovalRecord(folder="/p", date=DATE, asks=(("image", "i"),))
    assert entries_to_json((entry(A, record), entry(B))) == [
        {"key": A, "folder": "/p", "date": DATE, "asks": [{"what": "image", "value": "i"}]},
        {"key": B},
    ]


def test_approvals_of_mcp_servers_are_listed_and_revoked(scratch: Scratch) -> None:
    """R-192: with the number of their tools; by key, and with those of the folder."""
    servers = ServerApprovals(scratch.folder, clock=lambda: 0.0)
    request = ServerRequest(
        folder=scratch.host.cwd, name="docs", command="docs-server", args=("--root", "."), env=(), place=""
    )
    tool = OfferedTool(name="search", description="", schema="{}")
    servers.remember(request, [tool])
    listed, _ = scratch.run("list")
    assert "3 remembered approvals" in listed
    assert (
        f"{request.key[:12]}  {scratch.host.cwd} (this folder)\n"
        '  since:   1970-01-01T00:00:00Z\n  mcp:     docs\n  command: "docs-server --root ."\n  tools:   1\n' in listed
    )
    assert scratch.run("revoke", request.key[:12])[0].startswith(f"revoked {request.key[:12]}")
    assert (servers.entries(), len(scratch.keys())) == ((), 2)
    servers.remember(request)
    scratch.run("revoke", "--here")
    assert (servers.entries(), scratch.keys()) == ((), {approval_key(OTHER)})
    servers.remember(request)
    scratch.run("revoke", "--all")
    assert (servers.entries(), scratch.keys()) == ((), set())
