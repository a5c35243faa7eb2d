"""Data classes written out as plain classes, `typing` and `enum` left out: for the modules that are compiled ahead.

`dataclasses` makes each class twice, out of texts that it puts together, and to import it takes `re`, `enum` and
`copy`; `typing` is for readers and mypy; `enum` can do more than is asked of it. So the compiled code names odeklite.py
(in boot/) instead of them: there are the methods that all data classes share, and what is left of the others at run
time. What runs from the sources, such as
a start with ODEK_DEBUG, has the originals; tests/unit/test_write_classes.py compares.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

LITE = "odeklite"
_MEANT = ("ClassVar", "InitVar", "KW_ONLY")
"""what dataclasses looks for in the text of an annotation"""
_OPTIONS = {"frozen": False, "slots": False, "kw_only": False, "eq": True}
_FIELD_OPTIONS = {"default", "default_factory", "init", "repr", "compare"}
_RESERVED = {"__init__", "__post_init__", "__setattr__", "__delattr__", "__eq__", "__hash__", "__slots__"}
_LIGHT = {
    "dataclasses": {"replace"},
    "enum": {"Enum", "IntEnum"},
    "typing": set(
        "TYPE_CHECKING Any AnyStr BinaryIO Generic Literal NoReturn Protocol TextIO TypeVar cast overload".split()
    ),
}
"""module → what odeklite.py has of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    default: ast.expr | None = None
    factory: ast.expr | None = None
    init: bool = True
    shown: bool = True
    compared: bool = True

    @property
    def parameter(self) -> str:
        """how `__init__` takes it"""
        default = f"{LITE}.MISSING" if self.factory else ast.unparse(self.default) if self.default else ""
        return f"{self.name}={default}" if default else self.name

    @property
    def value(self) -> str:
        """what `__init__` makes of it; "" where it leaves it to others"""
        made = f"{ast.unparse(self.factory)}()" if self.factory else ""
        if not self.init:
            return made or (ast.unparse(self.default) if self.default else "")
        return f"{made} if {self.name} is {LITE}.MISSING else {self.name}" if made else self.name


class NotPlain(Exception):
    """A data class with more than is known here."""


def lighten(module: ast.Module) -> ast.Module:
    """Return `module`, changed: its data classes are plain ones, and what it takes of `typing` comes from LITE.

    A data class with more than is known here stays as it is.
    """
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    kept = [node.name for node in classes if _is_data_class(node) and not _write(node)]
    written = [node for node in classes if _is_written(node)]
    module.body = [part for node in module.body for part in _lighten_import(node, keeps_decorator=bool(kept))]
    if written:
        name = ast.alias(name=LITE, asname=None)
        module.body.insert(_after_future(module), ast.Import(names=[name]))
    return ast.fix_missing_locations(module)


def _after_future(module: ast.Module) -> int:
    found = [
        place
        for place, node in enumerate(module.body)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    return found[-1] + 1 if found else 0


def _lighten_import(node: ast.stmt, *, keeps_decorator: bool) -> list[ast.stmt]:
    """Return what takes the place of one statement of a module."""
    if not isinstance(node, ast.ImportFrom) or node.module not in _LIGHT:
        return [node]
    light = [alias for alias in node.names if alias.name in _LIGHT[node.module]]
    heavy = [alias for alias in node.names if alias not in light]
    if node.module == "dataclasses" and not keeps_decorator:
        heavy = [alias for alias in heavy if alias.name not in ("dataclass", "field")]
    parts = [(LITE, light), (node.module, heavy)]
    return [ast.ImportFrom(module=module, names=names, level=0) for module, names in parts if names]


# --- one class


def _is_data_class(node: ast.ClassDef) -> bool:
    return any(_name_of(decorator) == "dataclass" for decorator in node.decorator_list)


def _is_written(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Attribute) and _name_of(base.value) == LITE for base in node.bases)


def _name_of(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else ""


def _write(node: ast.ClassDef) -> bool:
    """Turn a data class into a plain one; False: it has more than is known here, and stays."""
    try:
        options = _options(node)
        fields = [_field(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    except NotPlain:
        return False
    shared = "Frozen" if options["frozen"] else "Compared" if options["eq"] else "Record"
    node.decorator_list = []
    node.bases.append(ast.Attribute(ast.Name(LITE, ast.Load()), shared, ast.Load()))
    node.body = [part for part in node.body if not isinstance(part, ast.AnnAssign)] or [ast.Pass()]
    node.body += ast.parse(_written(fields, frozen=options["frozen"], kw_only=options["kw_only"])).body
    return True


def _options(node: ast.ClassDef) -> dict[str, bool]:
    """Return what the decorator says. Raises NotPlain."""
    (decorator, *others) = node.decorator_list
    if others or not isinstance(decorator, ast.Call) or decorator.args or node.keywords:
        raise NotPlain
    found = {word.arg: word.value.value for word in decorator.keywords if isinstance(word.value, ast.Constant)}
    options = {**_OPTIONS, **found}
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    names |= {_name_of(target) for part in node.body if isinstance(part, ast.Assign) for target in part.targets}
    # without slots, defaults stay in the class; with other bases, fields may come from them
    is_plain = all(isinstance(base, ast.Subscript) and _name_of(base.value) == "Generic" for base in node.bases)
    if (
        len(found) != len(decorator.keywords)
        or options.keys() != _OPTIONS.keys()
        or not options["slots"]
        or (options["frozen"] and not options["eq"])
        or names & _RESERVED
        or not is_plain
    ):
        raise NotPlain
    return options  # type: ignore[return-value]


def _field(node: ast.AnnAssign) -> _Field:
    """Return the field that a line of the class describes. Raises NotPlain."""
    if not isinstance(node.target, ast.Name) or any(word in ast.unparse(node.annotation) for word in _MEANT):
        raise NotPlain
    name, value = node.target.id, node.value
    if not (isinstance(value, ast.Call) and _name_of(value) == "field"):
        return _Field(name=name, default=value)
    given = {word.arg: word.value for word in value.keywords}
    if value.args or not given.keys() <= _FIELD_OPTIONS:
        raise NotPlain

    def flag(word: str) -> bool:
        said = given.get(word, ast.Constant(True))
        if not isinstance(said, ast.Constant):
            raise NotPlain
        return bool(said.value)

    return _Field(
        name=name,
        default=given.get("default"),
        factory=given.get("default_factory"),
        init=flag("init"),
        shown=flag("repr"),
        compared=flag("compare"),
    )


def _written(fields: list[_Field], *, frozen: bool, kw_only: bool) -> str:
    """Return the statements that take the place of the fields: what the shared methods have to know, and `__init__`."""
    names = tuple(field.name for field in fields)
    kinds = {
        "__shown__": tuple(field.name for field in fields if field.shown),
        "__compared__": tuple(field.name for field in fields if field.compared),
        "__given__": (given := tuple(field.name for field in fields if field.init)),
    }
    same = "".join(f"{attribute} = " for attribute, chosen in kinds.items() if chosen == names)
    lines = [f"__slots__ = __names__ = {same}{names!r}"]
    lines += [f"{attribute} = {chosen!r}" for attribute, chosen in kinds.items() if chosen != names]
    if not kw_only:
        lines.append(f"__match_args__ = {given!r}")
    parameters = [field.parameter for field in fields if field.init]
    lines.append(f"def __init__({', '.join(['self', *(['*'] if kw_only and given else []), *parameters])}):")
    lines.append(f"    put = {LITE}.put" if frozen and "put" not in names else "    pass")
    put = "put" if "put" not in names else f"{LITE}.put"
    for field in fields:
        if value := field.value:
            lines.append(f"    {put}(self, {field.name!r}, {value})" if frozen else f"    self.{field.name} = {value}")
    return "\n".join(lines)
