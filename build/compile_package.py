"""What each interpreter that odek is compiled for runs: the package as one member of the archive.

Reads lines "NAME PATH" (name in the archive, file) from the standard input and writes to argv[1] two
members of the archive, each after its length in 8 bytes, little-endian, as marshal writes them:

    for a start      (code of odekload, places of modules, the stream that they are in)
    all the others   (places of modules, {data file: (start, end)}, the stream that all of it is in)

Places are {module: (is it a package, start, end of its code, end of its methods)}. A stream is deflated
and holds, at those places, marshalled code, marshalled methods of data classes, and data files. What
`odek version` and `odek --help` import is in the first one; in the second one, what `odek run` imports
comes first: a start inflates as much of it as it needs.

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
from typing import Any, TypeVar

Node = TypeVar("Node", ast.Module, ast.ClassDef, ast.FunctionDef)
Place = tuple[bool, int, int, int]

START = ("odek.cli.main",)
"""all that `odek version` imports"""
FIRST = ("odek.cli.terminal", "odek.host", "odek.cli.signals", "odek.cli.commands.run")
"""what is wanted next, in this order"""


class Trim(ast.NodeTransformer):
    """Takes out what the compiled code need not hold; lines keep their numbers."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        return self._trimmed(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        # without any docstring, dataclass would make one up, with the help of inspect
        return self._trimmed(node, instead=".")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        given = node.args
        optional = [argument for argument in (given.vararg, given.kwarg) if argument]
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *optional):
            argument.annotation = None
        node.returns = None
        return self._trimmed(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def _trimmed(self, node: Node, instead: str = "") -> Node:
        if ast.get_docstring(node, clean=False) is not None:
            first, *rest = node.body
            put = ast.Expr(ast.Constant(instead)) if instead else ast.Pass()
            put = ast.fix_missing_locations(ast.copy_location(put, first))
            # a module's imports from __future__ must come first
            node.body = [put, *rest] if instead or not rest else rest
        self.generic_visit(node)
        return node


class Methods:
    """Stands in for the `exec` of dataclasses, and keeps what it compiles, by module."""

    def __init__(self) -> None:
        self.found: dict[str, dict[bytes, CodeType]] = {}

    def exec(self, text: str, scope: dict[str, Any], *more: dict[str, Any]) -> None:
        code = compile(text, "<string>", "exec", dont_inherit=True)
        self.found.setdefault(scope["__name__"], {})[_imp.source_hash(0, text.encode())] = code
        builtins.exec(code, scope, *more)  # noqa: S102 – as dataclasses would


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
    """Import the modules of `names` and return those that came in by it, in their order."""
    before = set(sys.modules)
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    return [name for name in sys.modules if name not in before and name.split(".")[0] == "odek"]


class Stream:
    """Parts in a row, and where each of them is."""

    def __init__(self) -> None:
        self.content = bytearray()

    def add(self, part: bytes) -> int:
        """Append and return where the part ends."""
        self.content += part
        return len(self.content)

    def add_modules(self, names: list[str], package: Package, methods: Methods) -> dict[str, Place]:
        """Append code and methods of the modules and return their places."""
        places = {}
        for name in names:
            start, middle = len(self.content), self.add(package.codes[name])
            found = methods.found.get(name)
            # version 2: later ones write references, which depend on who else holds an object at the time
            places[name] = (
                name in package.packages,
                start,
                middle,
                self.add(marshal.dumps(found, 2) if found else b""),
            )
        return places

    def deflated(self) -> bytes:
        """Return all of it as a raw deflate stream; the same zlib makes the same of the same."""
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        return compressor.compress(self.content) + compressor.flush()


@dataclasses.dataclass(frozen=True)
class Package:
    """What the files hold."""

    codes: dict[str, bytes]
    """module → marshalled code"""
    packages: set[str]
    """those of the modules that are packages"""
    data: dict[str, bytes]
    """name in the archive → content"""


def read_package(files: dict[str, tuple[str, bytes]]) -> Package:
    """Compile what is Python."""
    codes, packages, data = {}, set(), {}
    for name, (_, content) in files.items():
        if not name.endswith(".py"):
            data[name] = content
            continue
        module, is_package = module_name(name)
        codes[module] = marshal.dumps(compile_module(name, content))
        if is_package:
            packages.add(module)
    return Package(codes=codes, packages=packages, data=data)


def pack(package: Package) -> tuple[bytes, bytes]:
    """Return both members. Imports the package."""
    methods = Methods()
    dataclasses.exec = methods.exec  # type: ignore[attr-defined]
    names = [name for name in package.codes if name != "odekload"]
    start = import_all([name for name in START if name in names])
    order = import_all([*(name for name in FIRST if name in names), *names])
    order += [name for name in names if name not in (*start, *order)]
    first, rest = Stream(), Stream()
    places = first.add_modules(start, package, methods)
    others = rest.add_modules(order, package, methods)
    data = {name: (len(rest.content), rest.add(content)) for name, content in package.data.items()}
    return (
        marshal.dumps((package.codes["odekload"], places, first.deflated())),
        marshal.dumps((others, data, rest.deflated())),
    )


if __name__ == "__main__":
    found = read_files(sys.stdin.read())
    sys.path.insert(0, found["odek/__init__.py"][0][: -len("/odek/__init__.py")])
    with open(sys.argv[1], "wb") as target:
        for member in pack(read_package(found)):
            target.write(len(member).to_bytes(8, "little") + member)
    print(importlib.util.MAGIC_NUMBER.hex(), "{}.{}".format(*sys.version_info), sys.implementation.name)
