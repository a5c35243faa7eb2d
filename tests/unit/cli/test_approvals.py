"""odek approvals."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from fakes.homes import operator_home
from fakes.layering import make_host

from odek.approval.request import ApprovalRequest
from odek.approval.store import FILE, ApprovalStore, approval_key
from odek.cli.commands.approvals import main
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
