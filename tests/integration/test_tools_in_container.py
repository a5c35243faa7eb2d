"""The tools on a real engine: in the container's view, and the same there as on the host."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import bare_host, make_layers
from fakes.tools import carry_out
from support.sandboxes import Boxes, output

from odek.app.tools import make_toolbox
from odek.config.resolve import resolve
from odek.executor import Executor, ScanOptions
from odek.host_executor.commands import HostExecutor
from odek.model.types import ToolCall
from odek.redact import Redactor
from odek.sandbox.container.container import Container
from odek.sandbox.spec import Mount
from odek.tools.registry import ToolResult

Call = Callable[..., ToolResult]
ODD_NAMES = (b"we\xffird.py", b"nl\nname.py", b"-rf.py", "e\u0301.py".encode(), "\u00e9.py".encode(), b"it's $x `y`.py")


def wrap(text: str, *, source: str) -> str:
    return f"<{source}>\n{text}\n</>" if text else ""


def caller(executor: Executor, box: Container | None) -> Call:
    """Return what calls a tool by name, with keyword arguments; every write and command is allowed."""
    tools = make_toolbox(
        resolve(make_layers(operator={"dangerous": {"action": "allow"}})),
        executor,
        box.facts if box else None,
        bare_host(executor.workspace),
        person=None,
        wrap=wrap,
        redact=Redactor(),
        environment_block="",
        applied=dict,
    )
    return lambda name, **arguments: carry_out(tools, ToolCall(id="1", name=name, arguments=json.dumps(arguments)))


def fill(root: Path) -> None:
    """Make a small project beside a folder that must stay unseen."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("hit = 'secret'\n")
    for folder in ("src/deep", ".git", "node_modules"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "a.py").write_bytes(b"import os\r\nhit = 1\r\n")
    (root / "src" / "deep" / "b.py").write_text("hit = 2\n")
    (root / "umlauts.txt").write_text(("ä" * 99 + "\n") * 1024)
    (root / "data.bin").write_bytes(b"hit\0")
    (root / ".git" / "config").write_text("hit\n")
    (root / "node_modules" / "m.py").write_text("hit\n")
    for name in ODD_NAMES:
        (root / os.fsdecode(name)).write_text("hit = 3\n")
    (root / "out").symlink_to(outside)
    (root / "etc").symlink_to("/etc")
    (root / "secret.py").symlink_to(outside / "secret.py")
    os.mkfifo(root / "pipe.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The tools in the sandbox and on the host, on the same files."""

    work: Path
    inside: Call
    outside: Call


@pytest.fixture
def work(boxes: Boxes) -> Path:
    """A workspace of the test's own."""
    fill(boxes.workdir)
    return boxes.workdir


@pytest.fixture(scope="module")
def shared(shared_boxes: Boxes, shared_box: Container) -> Iterator[Places]:
    """For tests that change nothing."""
    fill(shared_boxes.workdir)
    yield from places(shared_boxes.workdir, shared_box)


@pytest.fixture
def own(boxes: Boxes, work: Path) -> Iterator[Places]:
    yield from places(work, boxes.start())


def places(root: Path, box: Container) -> Iterator[Places]:
    host = HostExecutor(cwd=os.path.realpath(root), env={"PATH": os.environ["PATH"]})
    yield Places(work=root, inside=caller(box, box), outside=caller(host, None))
    host.close()


def same(shared: Places, name: str, **arguments: Any) -> ToolResult:
    """Return the result of a tool in the sandbox, which must be that on the host but for the workspace's path."""
    inside, outside = shared.inside(name, **arguments), shared.outside(name, **arguments)
    assert ToolResult(text=outside.text.replace(str(shared.work), "/workspace"), failed=outside.failed) == inside
    return inside


LOOKS: list[tuple[str, dict[str, Any]]] = [
    ("search_files", {"pattern": r"\bhit\b"}),
    ("search_files", {"pattern": "(?i)HIT", "file_glob": "*.py", "limit": 2}),
    ("search_files", {"pattern": "hit", "path": "src/a.py"}),
    ("search_files", {"pattern": "hit", "path": ".git"}),
    ("search_files", {"pattern": "**/*.py", "target": "files"}),
    ("search_files", {"pattern": "ä+$", "file_glob": "*.txt", "limit": 500}),
    ("search_files", {"pattern": "("}),
    ("glob", {"pattern": "src/**/*.py"}),
    ("glob", {"pattern": "*.{bin,txt}"}),
    ("tree", {"include_hidden": True}),
    ("tree", {"path": "src", "max_depth": 1}),
    ("batch_read", {"files": ["src/a.py", "umlauts.txt", "data.bin", "nl\nname.py", "-rf.py", "it's $x `y`.py"]}),
    ("file_info", {"path": "src/a.py"}),
    ("file_info", {"path": "secret.py"}),
    ("file_info", {"path": "pipe.py"}),
    ("diff", {"path_a": "src/a.py", "path_b": "src/deep/b.py"}),
]


@pytest.mark.parametrize(("name", "arguments"), LOOKS)
def test_looking_is_the_same_in_the_sandbox_and_on_the_host(
    shared: Places, name: str, arguments: dict[str, Any]
) -> None:
    """R-44, R-83, B47: the same bytes, names and order; nothing of the outside; valid text of bounded length."""
    text = same(shared, name, **arguments).text
    assert "secret'" not in text
    assert len(text.encode()) < 220_000


def test_search_sees_every_odd_name_and_no_link(shared: Places) -> None:
    """R-44, B47, B13."""
    text = same(shared, "search_files", pattern="^hit = ").text
    headings = {line for line in text.split("\n") if line.endswith(".py")}
    assert headings == {
        *("src/a.py", "src/deep/b.py", "we\\udcffird.py", "nl\\nname.py", "-rf.py"),
        *("e\u0301.py", "\u00e9.py", "it's $x `y`.py"),
    }


@pytest.mark.parametrize(
    "path", ["out", "out/secret.py", "etc", "secret.py", "../outside", "/etc", "nope", "src/a.py/x"]
)
def test_nothing_outside_is_reached(shared: Places, path: str) -> None:
    """R-44, B13, F-63: all tools decide alike, in both places."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_files", {"pattern": "", "path": path}),
        ("glob", {"pattern": "*", "path": path}),
        ("tree", {"path": path}),
        ("batch_read", {"files": [path]}),
        ("batch_patch", {"patches": [{"path": path, "old_string": "hit", "new_string": "x"}]}),
    ]
    if path not in ("out", "etc", "secret.py"):  # there it tells of the link itself, which lies inside
        calls.append(("file_info", {"path": path}))
    for name, arguments in calls:
        for call in (shared.inside, shared.outside):
            result = call(name, **arguments)
            assert result.failed, name
            assert re.search("leaves the workspace|does not exist|no such file|cannot be used", result.text), name
    assert (shared.work.parent / "outside" / "secret.py").read_text() == "hit = 'secret'\n"


@pytest.mark.parametrize("place", ["inside", "outside"])
def test_batch_patch_keeps_bytes_modes_and_order(own: Places, place: str) -> None:
    """B54, F-69: in both places."""
    work = own.work
    (work / "src" / "a.py").chmod(0o750)
    patches = [
        {"path": "src/a.py", "old_string": "import os\nhit", "new_string": "import sys\nhit"},
        {"path": "nl\nname.py", "old_string": "3", "new_string": "4"},
        {"path": "src/a.py", "old_string": "sys", "new_string": "re"},
    ]
    result = getattr(own, place)("batch_patch", patches=patches)
    assert not result.failed
    assert (work / "src" / "a.py").read_bytes() == b"import re\r\nhit = 1\r\n"
    assert (work / "nl\nname.py").read_bytes() == b"hit = 4\n"
    assert (work / "src" / "a.py").stat().st_mode & 0o777 == 0o750


def test_tools_see_what_the_container_sees(boxes: Boxes, work: Path) -> None:
    """R-44: a volume below the workspace is there, its own files instead of those of the host."""
    volume = work / "volume"
    volume.mkdir()
    (volume / "inner.py").write_text("hit = 'volume'\n")
    box = boxes.start(volumes=(Mount(source=str(volume), target="/workspace/src", readonly=True),))
    call = caller(box, box)
    text = call("search_files", pattern="hit", path="src").text
    assert "src/inner.py\n1|hit = 'volume'\n" in text
    assert "src/a.py" not in text
    refused = call("batch_patch", patches=[{"path": "src/inner.py", "old_string": "hit", "new_string": "x"}])
    assert (refused.failed, (volume / "inner.py").read_text()) == (True, "hit = 'volume'\n")


def test_read_only_workspace_stays_as_it_is(boxes: Boxes, work: Path) -> None:
    """R-43, R-44."""
    box = boxes.start(readonly=True)
    call = caller(box, box)
    patches = [
        {"path": "src/deep/b.py", "old_string": "2", "new_string": "9"},
        {"path": "src/a.py", "old_string": "1", "new_string": "9"},
    ]
    result = call("batch_patch", patches=patches)
    assert (result.failed, (work / "src" / "deep" / "b.py").read_text()) == (True, "hit = 2\n")
    assert "the workspace is mounted read-only" in result.text
    assert result.text.endswith("[1] skipped")
    assert "hit = 2" in call("search_files", pattern="hit").text


def test_parallel_commands_meet_and_have_their_own_streams(own: Places) -> None:
    """R-83, R-40: eight at once, one of them stopped with all that it started, the others untouched."""
    meet = "touch m.{0}; while [ $(ls m.* | wc -l) -lt 6 ]; do sleep 0.05; done; echo in {0}; echo err {0} >&2"
    commands: list[dict[str, Any]] = [{"command": meet.format(number)} for number in range(6)]
    commands += [{"command": "sleep 7654 & sleep 7654", "timeout": 1}, {"command": "yes | head -c 300000; exit 4"}]
    for call in (own.inside, own.outside):
        result = call("parallel_shell", commands=commands)
        for number in range(6):
            assert f"<parallel_shell:{number}:stdout>\nin {number}\n" in result.text
            assert f"<parallel_shell:{number}:stderr>\nerr {number}\n" in result.text
        assert "exit code: none" in result.text
        assert "timed out after 1 s" in result.text
        assert re.search("exit code: 4, [0-9]+ ms\nthe whole stdout had 300000 bytes$", result.text)
        for path in own.work.glob("m.*"):
            path.unlink()
    assert "7654" not in own.inside("shell", command="cat /proc/[0-9]*/cmdline | tr '\\0' ' '").text.split("\n", 2)[1]


def test_huge_folder_costs_its_limit(boxes: Boxes, work: Path) -> None:
    """K03: 30 000 files are neither an endless call nor an endless result, and the walk says that it stopped."""
    (work / "huge").mkdir()
    for number in range(30_000):
        (work / "huge" / f"{number:05}").touch()
    box = boxes.start()
    call = caller(box, box)
    results = [call("tree"), call("glob", pattern="**/*", limit=1000), call("search_files", pattern="hit", path="huge")]
    assert all("there are too many files here" in result.text for result in results)
    assert max(len(result.text) for result in results) < 70_000
    assert len(box.walk("huge", ScanOptions(count=50_000)).entries) == 30_000


def test_search_over_many_files_is_a_few_calls(boxes: Boxes, work: Path) -> None:
    """2000 files are not 2000 calls of docker: those alone would take minutes."""
    (work / "many").mkdir()
    for number in range(2000):
        (work / "many" / f"{number:04}.txt").write_text(f"line\nneedle {number}\n")
    box = boxes.start()
    text = caller(box, box)("search_files", pattern="needle 1[0-9]*7$", path="many", limit=500).text
    assert "files searched: 2000" in text
    assert text.count("|needle 1") == sum(bool(re.fullmatch("1[0-9]*7", str(n))) for n in range(2000))


def test_links_that_are_swapped_meanwhile_lead_nowhere(boxes: Boxes, work: Path) -> None:
    """R-44, B13: what lies outside the workspace is never in a result, and never written."""
    box = boxes.start()
    call = caller(box, box)
    output(box, "mkdir real; echo 'hit = real' >real/f; mkdir -p /tmp/t; echo 'hit = tmp' >/tmp/t/f")
    swap = "while :; do mv real aside; ln -s /tmp/t real; rm real; mv aside real; done"
    output(box, f"sh -c '{swap}' >/dev/null 2>&1 &")
    seen = set()
    for _ in range(15):
        seen |= set(re.findall("hit = [a-z]+", call("search_files", pattern="hit = [a-z]", path="real").text))
        seen |= set(re.findall("hit = [a-z]+", call("batch_read", files=["real/f"]).text))
        call("batch_patch", patches=[{"path": "real/f", "old_string": "real", "new_string": "real"}])
        call("write_file", path="real/g", content="x")
    assert seen <= {"hit = real"}
    assert output(box, "ls /tmp/t; cat /tmp/t/f") == "f\nhit = tmp\n"
