"""The import table: which room may import which, and which file owns which effect.

These two tables are the documentation of the layering; docs/ARCHITECTURE.md points here.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

import odek

pytestmark = pytest.mark.once  # no Python can make a difference

PACKAGE = Path(odek.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# room → the rooms it may import; every room may import itself
GROUND = {"errors", "text", "patterns"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "patterns": set(),
    "text": {"patterns"},
    "sandbox_grammar": GROUND,
    "secret_names": {"patterns"},
    "packaged": set(),
    "redact": {"secret_names", "patterns"},
    "cancel": {"errors"},
    "process": GROUND | {"cancel"},
    "piped": {"process"},
    "executor": GROUND | {"process"},
    "safefile": set(),
    "json_text": set(),
    "strict_json": {"json_text", "text", "patterns"},
    "linear_pattern": set(),
    "json_schema": GROUND | {"linear_pattern", "strict_json"},
    "gitconfig": {"patterns"},
    "trusted_files": GROUND | {"safefile", "gitconfig"},
    "operator_home": GROUND | {"safefile"},
    "host": GROUND | {"operator_home", "safefile"},
    "state": GROUND | {"cancel", "operator_home", "safefile", "strict_json"},
    "snapshot": GROUND | {"operator_home", "safefile", "state"},
    "config": GROUND | {"secret_names", "sandbox_grammar", "host", "operator_home", "safefile", "strict_json"},
    "sandbox": GROUND
    | {"packaged", "events", "sandbox_grammar", "process", "piped", "safefile", "json_text", "strict_json", "executor"},
    "approval": GROUND | {"events", "state", "danger", "secret_names"},
    "danger": GROUND | {"packaged", "trusted_files", "secret_names"},
    "events": GROUND | {"model"},
    "redacted_events": {"patterns", "redact", "events"},
    "model": GROUND | {"cancel", "safefile"},
    "session": GROUND | {"operator_home", "safefile", "state", "strict_json", "model"},
    "host_executor": GROUND | {"cancel", "process", "secret_names", "executor"},
    "agent": GROUND | {"cancel", "events", "model", "tools"},
    "tools": GROUND | {"redact", "process", "safefile", "model", "danger", "approval", "executor"},
    "delegate": GROUND
    | {"agent", "approval", "cancel", "danger", "events", "model", "sandbox", "sandbox_grammar", "tools", "executor"},
    "demo": set(),
    "bundle": GROUND | {"packaged"},
    "mcp": GROUND | {"cancel", "piped", "json_text"},
}
ROOMS["app"] = set(ROOMS) - {"demo"}
ROOMS["mcp_server"] = set(ROOMS) - {"demo"}
ROOMS["web"] = (set(ROOMS) - {"demo", "mcp_server"}) | {"__init__"}
ROOMS["update"] = GROUND | {"model", "packaged", "process", "safefile", "strict_json"}
ROOMS["cli"] = set(ROOMS) | {"__init__"}
ROOMS["__main__"] = {"cli"}
ROOMS["__init__"] = set()

# module of the standard library → the files (or folders) that may import it
EFFECTS: dict[str, tuple[str, ...]] = {
    "subprocess": ("process.py",),
    "http.client": ("model/",),
    "urllib.request": ("model/",),
    "socket": ("model/", "update/download.py", "web/server.py", "web/wire.py", "web/connections.py"),
    "ssl": ("model/",),
    "argparse": ("cli/parser.py",),
    "signal": ("cli/", "process.py", "piped.py", "host_executor/processes.py", "host_executor/commands.py"),
    "termios": ("cli/",),
    "threading": (
        *(
            "cancel.py",
            "approval/gatekeeper.py",
            "cli/spinner.py",
            "agent/budget.py",
            "agent/calls.py",
            "model/transport.py",
        ),
        *("app/workspace.py", "app/delegation.py", "delegate/crew.py", "app/prepared_sandboxes.py"),
        *("sandbox/container/spares.py", "session/receipts.py", "web/", "cli/serving.py"),
        "model/request_ahead.py",
        *("mcp_server/", "cli/runtime.py", "app/turn_files.py"),
        *("mcp/connection.py", "mcp/server.py", "app/shared_servers.py"),
    ),
    "asyncio": (),
    "pickle": (),
}
ENVIRONMENT_FILES = ("host.py",)
PRINTING_FOLDERS = ("cli/",)


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module: six tables look at each."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}: relative import"
            names.append(node.module or "")
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _imported_rooms(names: list[str]) -> set[str]:
    rooms = set()
    for name in names:
        parts = name.split(".")
        if parts[0] == "odek" and len(parts) > 1:
            rooms.add("__init__" if parts[1].startswith("__") else parts[1])
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_room_imports_only_rooms_of_lower_levels(path: Path) -> None:
    room = _room(path)
    assert room in ROOMS, f"{room} is not in the import table"
    assert _imported_rooms(_imports(path)) - ROOMS[room] - {room} == set()


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    """R-90: nothing outside the standard library at run time."""
    tops = {name.split(".")[0] for name in _imports(path)}
    assert tops - set(sys.stdlib_module_names) - {"odek", "odekboot"} == set()


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_an_effect_has_its_file(path: Path) -> None:
    name, imported = _name(path), set(_imports(path))
    for module, owners in EFFECTS.items():
        allowed = any(name == owner or (owner.endswith("/") and name.startswith(owner)) for owner in owners)
        assert allowed or module not in imported, f"{name} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_the_environment_is_read_in_one_place_and_only_the_cli_prints(path: Path) -> None:
    name = _name(path)
    for node in _nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            reads = node.value.id == "os" and node.attr in ("environ", "getenv", "environb", "putenv")
            assert not reads or name in ENVIRONMENT_FILES, f"{name}:{node.lineno} reads the environment"
            exits = node.value.id == "sys" and node.attr == "exit"
            assert not exits or name in ("__main__.py",) or name.startswith(PRINTING_FOLDERS), f"{name} exits"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
            assert name.startswith(PRINTING_FOLDERS), f"{name}:{node.lineno} prints or asks"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_errors_are_not_swallowed_wholesale(path: Path) -> None:
    for node in _nodes(path):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            raises_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            broad = caught in ("everything", "Exception", "BaseException") and not raises_on
            owners = ("cli/main.py", "tools/registry.py", "agent/calls.py", "model/transport.py", "web/server.py")
            owners += (
                "model/request_ahead.py",
                "web/session.py",
                "mcp_server/background.py",
                "mcp_server/calls.py",
                "delegate/crew.py",
            )
            assert not broad or _name(path) in owners, f"{_name(path)}:{node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_stays_readable(path: Path) -> None:
    """A file over 500 lines or a function over 60 is a sign that a decision hides in it."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 500, _name(path)
    for node in _nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            a_list_of_fields = _name(path) == "config/options.py" and node.name == "__init__"
            assert node.end_lineno - node.lineno < 60 or a_list_of_fields, f"{_name(path)}: {node.name}"


def test_the_map_names_every_file_and_folder() -> None:
    """The map in odek/__init__.py is true: what it names exists, what exists is named."""
    named = set(re.findall(r"^    (\w+(?:\.py|/))", odek.__doc__ or "", re.MULTILINE))
    present = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    present |= {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert named == present


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=_name)
def test_a_package_file_holds_only_its_docstring(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    rest = [node for node in body[1:] if not isinstance(node, ast.Assign)]
    assert isinstance(body[0], ast.Expr)
    assert rest == []
