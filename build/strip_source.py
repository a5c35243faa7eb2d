"""Python sources without what only readers and checkers need: comments, docstrings, types but those of fields.

What is left keeps its line, for tracebacks.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from type_hints import drop_type_imports, drop_variable_types, find_variables, names_in

Place = tuple[int, int]
"""line from 1, column in bytes"""


def strip_package(package: Path, target: Path) -> None:
    """Write the modules of `package` into the folder `target`, stripped. Raises ValueError."""
    for path in sorted(package.rglob("*.py")):
        place = target / path.relative_to(package)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(strip_source(path.read_text("utf-8")), "utf-8")


def strip_source(source: str) -> str:
    """Return a module's source stripped, a level indented by one blank.

    Raises ValueError when it would mean something else.
    """
    tree = ast.parse(source)
    lines = strip_types(source, tree).split("\n")
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse("\n".join(lines))):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        unused = [part for part in body if is_unused(part)]
        for part in unused:
            indent = lines[part.lineno - 1][: part.col_offset]
            lines[part.lineno - 1 : part.end_lineno] = [""] * (part.end_lineno - part.lineno + 1)
            if isinstance(node, ast.ClassDef) and part is body[0]:
                lines[part.lineno - 1] = f'{indent}"."'  # without any docstring, dataclass would make one up
            elif len(unused) == len(body) and not isinstance(node, ast.Module):
                lines[part.lineno - 1] = f"{indent}0"
    names = names_in(tree)
    stripped = indent_by_one(strip_imports("\n".join(lines), names))
    if ast.dump(without_unused(ast.parse(stripped), names)) != ast.dump(without_unused(tree, names)):
        raise ValueError("a source that means something else without its comments, docstrings and types")
    return stripped


def strip_types(source: str, tree: ast.Module) -> str:
    """Return the source of `tree` without the types of parameters, results and variables."""
    lines = source.encode().split(b"\n")
    for (row, column), (last_row, last_column) in sorted(find_types(tree, lines), reverse=True):
        rest = lines[last_row - 1][last_column:]
        lines[row - 1 : last_row] = [lines[row - 1][:column] + rest] + [b""] * (last_row - row)
    return b"\n".join(lines).decode()


def strip_imports(source: str, names: set[str]) -> str:
    """Return a source whose types are gone without the imports of these types. `names` stood in it before."""
    tree = ast.parse(source)
    lines = source.split("\n")
    imports = [(node, len(node.names)) for node in tree.body if isinstance(node, ast.ImportFrom)]
    kept = drop_type_imports(tree, names).body
    for node, count in imports:
        if len(node.names) < count:
            rows = slice(node.lineno - 1, node.end_lineno)
            lines[rows] = [ast.unparse(node) if node in kept else ""] + [""] * (len(lines[rows]) - 1)
    return "\n".join(lines)


def find_types(tree: ast.Module, lines: list[bytes]) -> Iterator[tuple[Place, Place]]:
    """Yield begin and end of each type with its colon or arrow."""
    for variable in find_variables(tree):
        name, kind = variable.target, variable.annotation
        yield (name.end_lineno or 0, name.end_col_offset or 0), (kind.end_lineno or 0, kind.end_col_offset or 0)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            kind, begin = node.annotation, (node.lineno, node.col_offset + len(node.arg.encode()))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            kind = node.returns
            before, _, _ = lines[kind.lineno - 1][: kind.col_offset].rpartition(b"->")
            begin = kind.lineno, len(before.rstrip())
        else:
            continue
        yield begin, (kind.end_lineno or 0, kind.end_col_offset or 0)


def indent_by_one(source: str) -> str:
    """Return a module's source with one blank for each level. Lines within a text stay as they are."""
    lines = source.split("\n")
    depth = 0
    within_text = set()
    depths = {}
    begun = []  # rows in which f-strings begin, which are several tokens from Python 3.12 on
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        depth += {"INDENT": 1, "DEDENT": -1}.get(kind, 0)
        depths[token.start[0]] = depth
        if kind == "FSTRING_START":
            begun.append(token.start[0])
        within_text.update(range((begun.pop() if kind == "FSTRING_END" else token.start[0]) + 1, token.end[0] + 1))
    for row in depths.keys() - within_text:
        if lines[row - 1 : row] not in ([], [""]):
            lines[row - 1] = " " * depths[row] + lines[row - 1].lstrip(" ")
    return "\n".join(lines)


def without_unused(tree: ast.Module, names: set[str]) -> ast.Module:
    """Return `tree` without what `strip_source` takes out of a source with these names."""
    tree = drop_variable_types(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [part for part in body if not is_unused(part)]
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
    return drop_type_imports(tree, names)


def is_unused(statement: ast.stmt) -> bool:
    """Whether `statement` is a text or a number by itself, or for checkers of types alone."""
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING" and not statement.orelse
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
