"""What each interpreter that odek is compiled for runs: the package as members of the archive.

Reads lines "NAME PATH" (name in the archive, file) from the standard input; argv is where to write, and the
file of texts to share, if there is one. Writes six parts, each after its length in 8 bytes, little-endian:

    texts       marshalled: (texts in the code of `base`, further texts in that of `run` and `later`)
    start       marshalled: (code of odekload, {module: (is it a package, code)}), all that `odek version` and
                `odek --help` import
    base        marshalled: (its texts, (), texts that this interpreter alone has, {module: (is it a package, code)})
    run         the same with other modules, after the further texts
    later       the same with other modules
    names       of the files, in the archive, whose code is in these three, a line for each

With a file of texts, these three begin with the same bytes whichever interpreter wrote them, and `run` and `later` go
on with the same bytes, for texts stand first there and what comes after refers to them: zipapp.py keeps these
beginnings once for all. `base` holds what every command imports that reads settings, and what else `odek mcp` does
before it answers; `run` what `odek run` imports before its first request without a sandbox, `later` what it imports
with one, or after that: to make objects of compiled code takes time, and a sandboxed run has it while it waits for
Docker. What else odek has, and a start with ODEK_DEBUG, is compiled from the sources.

Data classes are written out as plain ones, and `typing` is left out (write_classes.py): what both do at run time was
half of the time that importing odek took. To learn what imports what, the package is imported here.

Left out of the code, as nothing asks for it: docstrings, annotations, what stands under `if TYPE_CHECKING`,
the table of lines (ODEK_DEBUG has them: it takes the sources), qualified names of functions, names of local variables
(no code of odek's looks at `locals()`). Asserts stay.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import importlib.util
import inspect
import marshal
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, TypeVar

from type_hints import drop_type_imports, drop_variable_types, names_in
from write_classes import LITE, lighten

Node = TypeVar("Node", ast.Module, ast.ClassDef, ast.FunctionDef)
Modules = dict[str, tuple[bool, CodeType]]
Known = tuple[tuple[str, ...], tuple[str, ...]]
"""texts in the code of `base`, further ones in that of `run` and `later`"""

START = ("odek.cli.main", "odek.cli.help")
"""all that `odek version` and `odek --help` import"""
BASE = (
    "odek.cli.terminal",
    "odek.host",
    "odek.cli.signals",
    "odek.cli.parser",
    "odek.cli.commands.mcp",  # some clients wait for a second and a half only
)
"""what every command imports that reads settings, and what else `odek mcp` does before it answers `initialize`"""
RUN = (
    "odek.cli.commands.run",
    "odek.cli.last_event",
    "odek.agent.loop",
    "odek.app.tools",
    "odek.model.http",
    "odek.model.openai",
    "odek.model.profiles",
    "odek.app.docker_client",
)
"""what else `odek run` imports before its first request, and before it asks Docker, in this order"""
LATER = (
    "odek.app.environment",
    "odek.app.sandbox",
    "odek.danger.classify",
    "odek.danger.host.rule",
    "odek.app.danger",
    "odek.snapshot.project",
    "odek.redacted_events",
    "odek.cli.commands.continue_",
)
"""what else `odek run` and `continue` import; a person at a `repl` does not feel 20 ms"""
# what dataclasses looks for in the text of an annotation
MEANT = ("ClassVar", "InitVar", "KW_ONLY")


class Trim(ast.NodeTransformer):
    """Takes out what the compiled code need not hold."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        # given to compile() instead: at run time it would be an import like any other
        node.body = [
            part for part in node.body if not (isinstance(part, ast.ImportFrom) and part.module == "__future__")
        ]
        return self._trimmed(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            node.body = [part for part in node.body if not is_stub(part)] or [ast.Pass()]
        # without any docstring, dataclass would make one up, with the help of inspect
        if node.decorator_list and ast.get_docstring(node, clean=False) is None:
            node.body.insert(0, ast.copy_location(ast.Expr(ast.copy_location(ast.Constant("."), node.body[0])), node))
        return self._trimmed(node, instead=".")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        given = node.args
        optional = [argument for argument in (given.vararg, given.kwarg) if argument]
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *optional):
            argument.annotation = None
        node.returns = None
        return self._trimmed(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        self.generic_visit(node)
        if not any(word in ast.unparse(node.annotation) for word in MEANT):
            node.annotation = ast.copy_location(ast.Constant(""), node.annotation)
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse or ast.copy_location(ast.Pass(), node)
        return node

    def _trimmed(self, node: Node, instead: str = "") -> Node:
        if ast.get_docstring(node, clean=False) is not None:
            first, *rest = node.body
            put = ast.Expr(ast.Constant(instead)) if instead else ast.Pass()
            put = ast.fix_missing_locations(ast.copy_location(put, first))
            node.body = [put, *rest] if instead or not rest else rest
        self.generic_visit(node)
        return node


def is_stub(statement: ast.stmt) -> bool:
    """Whether `statement` of a protocol only says what classes of this kind have."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in statement.body)
    return isinstance(statement, ast.AnnAssign) and statement.value is None


class Texts:
    """One object for all equal texts: marshal writes an object once, and refers to it from then on."""

    def __init__(self, known: Known) -> None:
        self.known: Known = tuple(tuple(map(sys.intern, texts)) for texts in known)  # type: ignore[assignment]
        self.table = {text: text for texts in self.known for text in texts}

    def further(self, codes: Iterator[CodeType]) -> tuple[str, ...]:
        """Return the texts that are not among the known ones, in the order of their first use, and know them.

        So what a function refers to stands at places near to each other, which LZMA makes use of.
        """
        wanted = (text for code in codes for text in texts_of(code) if text not in self.table)
        found = tuple(map(sys.intern, dict.fromkeys(wanted)))
        self.table.update((text, text) for text in found)
        return found

    def unify(self, thing: Any) -> Any:  # noqa: ANN401 – a constant, or code
        """Return a constant or code with the texts of the table."""
        if isinstance(thing, str):
            return self.table[thing]
        if isinstance(thing, tuple):
            return tuple(self.unify(part) for part in thing)
        if isinstance(thing, frozenset):
            return frozenset(self.unify(part) for part in sorted(thing, key=repr))
        if isinstance(thing, CodeType):
            return thing.replace(co_consts=self.unify(thing.co_consts), co_name=self.unify(thing.co_name))
        return thing


def texts_of(thing: object) -> Iterator[str]:
    """Yield each text in a constant or code, as often as it stands there."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, (tuple, frozenset)):
        for part in thing:
            yield from texts_of(part)
    elif isinstance(thing, CodeType):
        variables = (thing.co_varnames, thing.co_freevars, thing.co_cellvars)
        yield from texts_of((thing.co_name, thing.co_filename, thing.co_names, variables, thing.co_consts))


def shorten(code: CodeType) -> CodeType:
    """Return the code without lines, file, qualified names and names of local variables."""
    constants = tuple(shorten(part) if isinstance(part, CodeType) else part for part in code.co_consts)
    shorter: dict[str, Any] = {"co_qualname": code.co_name} if sys.version_info >= (3, 11) else {}
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    parameters = code.co_argcount + code.co_kwonlyargcount + stars
    shorter["co_varnames"] = tuple(
        name if place < parameters or name in code.co_cellvars else "" for place, name in enumerate(code.co_varnames)
    )
    return code.replace(co_consts=constants, co_linetable=b"", co_filename="", co_firstlineno=1, **shorter)


def compile_module(content: bytes) -> CodeType:
    """Return the code of a module."""
    flags = __future__.annotations.compiler_flag
    tree = ast.parse(content)
    names = names_in(tree)
    tree = drop_type_imports(Trim().visit(drop_variable_types(lighten(tree))), names)
    code: CodeType = compile(ast.fix_missing_locations(tree), "", "exec", flags, dont_inherit=True)
    return shorten(code)


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
        importlib.import_module(name)
    return [name for name in sys.modules if name not in before and name.split(".")[0] == "odek"]


def pack(files: dict[str, tuple[str, bytes]], known: Known) -> tuple[bytes, ...]:
    """Return texts, start, base, run, later and names. Imports what is packed."""
    named = {module_name(name): content for name, (_, content) in files.items() if name.endswith(".py")}
    sources = {module: (is_package, content) for (module, is_package), content in named.items()}

    def compiled(names: list[str]) -> Modules:
        return {name: (sources[name][0], compile_module(sources[name][1])) for name in names}

    start = compiled(import_all([name for name in START if name in sources]))
    texts = Texts(known)
    found: list[tuple[str, ...]] = []
    parts = []
    for names, further in ((BASE, ()), (RUN, texts.known[1]), (LATER, texts.known[1])):
        modules = compiled(import_all([name for name in names if name in sources]))
        if names is BASE:
            modules.update(compiled([LITE]))
        found.append(texts.further(code for _, code in modules.values()))
        unified = {name: (is_package, texts.unify(code)) for name, (is_package, code) in modules.items()}
        parts.append((texts.known[0], further, sum(found, ()), unified))
    of_base, *others = found
    return (
        marshal.dumps((texts.known[0] + of_base, sum(others, texts.known[1])), 2),
        marshal.dumps((compile_module(sources["odekload"][1]), start)),
        *map(marshal.dumps, parts),
        "\n".join(name for name in files if any(module_name(name)[0] in modules for *_, modules in parts)).encode(),
    )


if __name__ == "__main__":
    found = read_files(sys.stdin.read())
    sys.path.insert(0, found["odek/__init__.py"][0][: -len("/odek/__init__.py")])
    shared: Known = ((), ())
    if sys.argv[2:]:
        with open(sys.argv[2], "rb") as given:
            shared = marshal.load(given)  # noqa: S302 – of this very program
    with open(sys.argv[1], "wb") as target:
        for part in pack(found, shared):
            target.write(len(part).to_bytes(8, "little") + part)
    print(importlib.util.MAGIC_NUMBER.hex(), "{}.{}".format(*sys.version_info), sys.implementation.name)
