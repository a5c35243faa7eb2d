"""No module of odek imports one that imports it, not even inside a function or for types only."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import odek

PACKAGE = Path(odek.__file__).parent
MODULES = {
    ".".join(("odek", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@pytest.mark.once
def imported_by(name: str, text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {module if module in MODULES else node.module for module in modules}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {module for module in found if module in MODULES and module != name}


def test_imports_go_in_one_direction() -> None:
    graph = {name: imported_by(name, path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    TopologicalSorter(graph).prepare()


def test_a_circle_is_found() -> None:
    texts = {"odek.text": "def f():\n    from odek.errors import OdekError\n", "odek.errors": "import odek.text\n"}
    with pytest.raises(CycleError):
        TopologicalSorter({name: imported_by(name, text) for name, text in texts.items()}).prepare()


def test_a_run_on_the_host_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    """R-253: until its first answer, with a client for a server."""
    script = "import sys, odek.model.http, odek.cli.main as m\ntry: m.main(sys.argv[1:])\nfinally: print(*sys.modules)"
    recording = tmp_path / "model.jsonl"
    recording.write_text('{"odek_replay": 1}\n{"content": "done"}\n')
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{script}"),
            *("run", "--no-sandbox", "--base-url", f"replay:{recording}", "a task"),
        ],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        cwd=tmp_path / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, modules = done.stdout.splitlines()
    loaded = set(modules.split())
    assert (answer, "odek.model.transport" in loaded) == ("done", True)
    unused = (
        "odek.sandbox.container",
        "odek.session",
        "odek.sandbox.image",
        "odek.sandbox.build",
        "odek.danger",
        "odek.app.sandbox",
        *("odek.cli.markdown", "odek.cli.wrap", "odek.cli.live", "odek.cli.spinner"),  # no terminal, nothing to render
    )
    assert [name for name in loaded if name.startswith(unused)] == []
    assert loaded & {"ssl", "http", "email", "html", "hashlib", "difflib", "tempfile", "shutil", "platform"} == set()


def test_a_server_loads_no_logging_of_the_library() -> None:
    """R-253: nor what brings it along."""
    script = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\nimport odek.cli.serving; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-I", "-S", "-c", script), capture_output=True, text=True, check=True)
    assert not {"logging", "concurrent.futures", "traceback", "asyncio"} & set(done.stdout.split())


def test_only_an_international_name_loads_the_codec_for_them() -> None:
    """R-253: a look-up of any other name does without; it is loaded before the thread that connects begins."""
    script = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\nfrom odek.model.http1 import Connection\n"
        "one = Connection((sys.argv[1], 9), None, sys.argv[2])\nprint('encodings.idna' in sys.modules)\n"
        "try: one.connect(1)\nexcept OSError: pass\nprint('encodings.idna' in sys.modules)"
    )
    for names, loaded in ((("127.0.0.1", "a.example"), False), (("127.0.0.1", "bücher.example"), True)):
        command = (sys.executable, "-I", "-S", "-X", "utf8", "-c", script, *names)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(loaded)] * 2


def test_the_first_command_waits_for_no_table_and_hardly_a_pattern() -> None:
    """R-413: Docker works longer than they take; the same without that is the counterpart."""
    code = (
        "import re, sys\n"
        "from odek.app.workspace import _planned\n"
        "asked = []\n"
        "{}\n"
        "from odek.danger.classify import classify\n"
        "from odek.danger.paths import Place\n"
        "from odek.danger.rules.registry import rules\n"
        "loaded = {{'odek.agent.loop', 'odek.snapshot.project'}} <= set(sys.modules)\n"
        "known = rules.cache_info().currsize == 1\n"
        "before = len(re._cache)\n"
        "classify('ls -l src', Place(home='', cwd='/workspace', workspace='/workspace'))\n"
        "print(asked, loaded, known, len(re._cache) - before < 8)"
    )
    for prepared, found in (("_planned(asked.append, None)", "[None] True True True"), ("", "[] False False False")):
        command = (sys.executable, "-c", code.format(prepared))
        done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
        assert done.stdout == found + "\n"
