"""Every promise of the documents names the test that proves it, and every such test exists."""

from __future__ import annotations

import ast
import fnmatch
import re
from pathlib import Path

import pytest

from odek.config.settings import BY_KEY
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.probes import CALLS, HIT, INSIDE, OUTSIDE
from odek.sandbox.workdir import check_workdir, resolve_volume

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "SANDBOXING.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAGES = sorted([ROOT / "SECURITY.md", ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ATTACKS = ("tests/security/test_protections.py", "tests/security/test_openings.py")


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading of the page, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_in(path: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {name for name in functions if name.startswith("test_")}


def test_every_promise_names_its_proof() -> None:
    promised = rows("What is promised, and what proves it")
    assert len(promised) > 20
    assert [row[0] for row in promised if len(row) != 4 or not REFERENCE.search(row[3])] == []


def test_every_probe_of_verify_belongs_to_a_promise() -> None:
    """Those that only report belong to none; each name and pattern of the table means a probe that there is."""
    promised = rows("What is promised, and what proves it")
    patterns = [pattern for row in promised for pattern in re.findall(r"`([\w.*]+)`", row[2])]
    probes = {probe.id for probe in (*INSIDE, *HIT, *OUTSIDE) if probe.promise} | {call.id for call in CALLS}
    known = {*probes, *(probe.id for probe in INSIDE)}
    assert [pattern for pattern in patterns if not fnmatch.filter(known, pattern)] == []
    assert sorted(probe for probe in probes if not any(fnmatch.fnmatch(probe, each) for each in patterns)) == []


def test_what_is_not_promised_is_said() -> None:
    """B27, M-2, M-3, M-14: internal networks and the host, bridge and metadata, the image after FROM."""
    told = " ".join(row[0] for row in rows("What is not promised"))
    words = ("`internal` network", "not this host", "169.254.169.254", "`FROM` is pulled", "shares the kernel")
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("GPUs", ("nvidia/cuda", "`--no-sandbox`")),
        ("Docker in Docker", ("the Docker socket is never in the sandbox", "is refused")),
        ("Windows containers", ("not supported", "tested on Linux")),
        ("Docker Desktop", ("virtual machine", "has not been tested")),
    ],
)
def test_what_the_sandbox_cannot_do_is_said(subject: str, words: tuple[str, ...]) -> None:
    """D13: each limit has an entry of its own where the sandbox is described, and the README leads there."""
    limits = PAGE.partition("\n## Limits\n")[2].partition("\n## ")[0].split("\n- ")
    entries = [" ".join(entry.split()) for entry in limits if entry.startswith(f"**{subject}**")]
    assert len(entries) == 1
    assert [word for word in words if word not in entries[0]] == []
    assert "(docs/SANDBOXING.md#limits)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_limits_that_are_said_hold(tmp_path: Path) -> None:
    """D13: there is no setting for devices, and neither a folder nor a volume brings the Docker socket in."""
    names = [key for key in BY_KEY if key.startswith("sandbox")]
    assert [name for name in names if re.search(r"gpu|device|privileged|socket", name)] == []
    socket = tmp_path / "docker.sock"
    with pytest.raises(SandboxConfigError, match="holds the Docker socket"):
        check_workdir(str(tmp_path), home="/home/ada", docker_host=f"unix://{socket}")
    check_workdir(str(tmp_path), home="/home/ada", docker_host="unix:///elsewhere/docker.sock")
    with pytest.raises(SandboxConfigError, match=r"docker\.sock.* outside|outside .*docker\.sock"):
        resolve_volume(f"{socket}:/docker.sock", workdir=str(tmp_path / "project"), origin="--sandbox-volumes")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = REFERENCE.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


@pytest.mark.parametrize("path", ATTACKS)
def test_every_attack_stands_beside_its_promise(path: str) -> None:
    assert names_in(path) <= {name for named, name in REFERENCE.findall(PAGE) if named == path}
