"""What each interpreter that odek is compiled for runs: the package as one member of the archive.

Reads lines "NAME PATH" (name in the archive, file) from the standard input and writes to argv[1] what
boot/odekboot.py takes, as marshal writes it:

    (code of odekload, {module: (is it a package, start, end of its code, end of its methods)},
     {data file: (start, end)}, the stream)

The stream is deflated and holds, at those places, marshalled code, marshalled methods of data classes,
and data files. What `odek version` imports comes first, then what `odek run` imports: a start inflates
as much of it as it needs.

The methods are those that dataclasses would write as text and compile at every start, half of the time
that importing odek takes: {siphash of the text: code}. To get at them, the package is imported here.

Left out of the code, as nothing asks for it: docstrings, annotations of functions, and (because of
`-X no_debug_ranges`) the columns for the marks below a line of a traceback. Asserts stay.
"""

from __future__ import annotations

import _imp
import ast
import builtins
import dataclasses
import importlib
import importlib.util
import marshal
import sys
import zlib
from types import CodeType
from typing import Any

FIRST = ("odek.cli.main", "odek.cli.terminal", "odek.host", "odek.cli.signals", "odek.cli.commands.run")
"""the modules of the commonest commands, in the order in which they are wanted"""


class Trim(ast.NodeTransformer):
    """Takes out what the compiled code need not hold; lines keep their numbers."""

    def visit_Module(self, node: ast.Module) -> ast.Module:  # noqa: N802 – as ast calls it
        return self._trimmed(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:  # noqa: N802
        # without any docstring, dataclass would make one up, with the help of inspect
        return self._trimmed(node, instead=".")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:  # noqa: N802
        given = node.args
        optional = [argument for argument in (given.vararg, given.kwarg) if argument]
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *optional):
            argument.annotation = None
        node.returns = None
        return self._trimmed(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def _trimmed(self, node: Any, instead: str = "") -> Any:
        if ast.get_docstring(node, clean=False) is not None:
            first, *rest = node.body
            put = ast.Expr(ast.Constant(instead)) if instead else ast.Pass()
            put = ast.fix_missing_locations(ast.copy_location(put, first))
            # a module's imports from __future__ must come first
            node.body = [put, *rest] if instead or not rest else rest
        return self.generic_visit(node)


class Methods:
    """Stands in for the `exec` of dataclasses, and keeps what it compiles, by module."""

    def __init__(self) -> None:
        self.found: dict[str, dict[bytes, CodeType]] = {}

    def exec(self, text: str, scope: dict[str, Any], *more: Any) -> None:
        code = compile(text, "<string>", "exec", dont_inherit=True)
        self.found.setdefault(scope["__name__"], {})[_imp.source_hash(0, text.encode())] = code
        builtins.exec(code, scope, *more)


def compile_module(name: str, content: bytes) -> CodeType:
    """Return the code of the module with this name in the archive."""
    code: CodeType = compile(Trim().visit(ast.parse(content)), name, "exec", dont_inherit=True)
    return code


def module_name(name: str) -> tuple[str, bool]:
    """Return the module's dotted name and whether it is a package."""
    folder, _, last = name[: -len(".py")].rpartition("/")
    is_package = last == "__init__"
    return (folder if is_package else name[: -len(".py")]).replace("/", "."), is_package


def read_files(listing: str) -> dict[str, tuple[str, bytes]]:
    """Return name in the archive → (path, content)."""
    files = {}
    for line in listing.split("\n"):
        name, _, path = line.partition(" ")
        with open(path, "rb") as file:
            files[name] = (path, file.read())
    return files


def import_all(names: list[str]) -> list[str]:
    """Import the modules and return their names in the order in which they came in."""
    before = set(sys.modules)
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    imported = [name for name in sys.modules if name not in before and name in names]
    return [*imported, *(name for name in names if name not in imported)]


def pack(files: dict[str, tuple[str, bytes]]) -> tuple[bytes, dict[str, Any], dict[str, Any], bytes]:
    """Return what is written to the archive."""
    codes, packages, data = {}, set(), {}
    for name, (_, content) in files.items():
        if not name.endswith(".py"):
            data[name] = content
            continue
        module, is_package = module_name(name)
        codes[module] = marshal.dumps(compile_module(name, content))
        if is_package:
            packages.add(module)
    loader = codes.pop("odekload")
    sys.path.insert(0, files["odek/__init__.py"][0][: -len("/odek/__init__.py")])
    methods = Methods()
    dataclasses.exec = methods.exec  # type: ignore[attr-defined]
    order = import_all([*(name for name in FIRST if name in codes), *(name for name in codes if name not in FIRST)])
    stream = bytearray()
    places = {}
    for module in order:
        start = len(stream)
        stream += codes[module]
        middle = len(stream)
        if module in methods.found:
            # version 2: later ones write references, which depend on who else holds an object at the time
            stream += marshal.dumps(methods.found[module], 2)
        places[module] = (module in packages, start, middle, len(stream))
    data_places = {}
    for name, content in data.items():
        data_places[name] = (len(stream), len(stream) + len(content))
        stream += content
    return loader, places, data_places, deflate(bytes(stream))


def deflate(content: bytes) -> bytes:
    """Return `content` as a raw deflate stream; the same zlib makes the same of the same."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return compressor.compress(content) + compressor.flush()


if __name__ == "__main__":
    packed = pack(read_files(sys.stdin.read()))
    with open(sys.argv[1], "wb") as file:
        file.write(marshal.dumps(packed))
    print(importlib.util.MAGIC_NUMBER.hex(), "%d.%d" % sys.version_info[:2], sys.implementation.name)
