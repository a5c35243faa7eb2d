"""Every error of the sandbox says what to do about it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import odek

PACKAGE = Path(odek.__file__).parent
ERRORS = ("SandboxConfigError", "SandboxLost", "DaemonUnreachable", "ImageUnavailable")
# what is packaged with odek: app/sandbox_image.py says what to do when it is damaged
PACKAGED = ("sandbox/image/reference.py", "parse_default_dockerfile")


def raised(path: Path) -> list[tuple[str, ast.Call]]:
    """Return (function, call) for each error of the sandbox that is raised in a file."""
    return [
        (function.name, node.exc)
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ERRORS
    ]


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if raised(path)]


def test_errors_are_found() -> None:
    assert sum(len(raised(path)) for path in FILES) > 80


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_error_has_a_hint(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    bare = [
        f"{function}: line {call.lineno}"
        for function, call in raised(path)
        if name not in PACKAGED and function not in PACKAGED
        if not any(keyword.arg == "hint" for keyword in call.keywords)
    ]
    assert bare == []
