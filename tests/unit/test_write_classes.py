"""The plain classes that the build makes of odek's data classes, next to those of dataclasses (D-27, R-171)."""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.load_module import BUILD, ROOT, load_recipe

PACKAGE = ROOT / "odek"
MODULES = sorted(
    path.relative_to(ROOT) for path in PACKAGE.rglob("*.py") if "@dataclass" in path.read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def recipe() -> Iterator[ModuleType]:
    """build/write_classes.py, while its results find odeklite.py."""
    spec = importlib.util.spec_from_file_location("odeklite", BUILD / "boot" / "odeklite.py")
    assert spec
    assert spec.loader
    sys.modules["odeklite"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["odeklite"])
    yield load_recipe("write_classes")
    del sys.modules["odeklite"]


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def run_lightened(recipe: ModuleType, source: str, name: str) -> dict[str, Any]:
    """Return what the module `name` holds after its lightened code has run."""
    scope: dict[str, Any] = {"__name__": name, "__package__": name.rpartition(".")[0]}
    flags = ast.PyCF_ONLY_AST  # the future statement stays in the tree
    tree = compile(source, name, "exec", flags, dont_inherit=True)
    exec(compile(recipe.lighten(tree), name, "exec", dont_inherit=True), scope)
    return scope


def data_classes(path: Path) -> list[type]:
    module = importlib.import_module(module_name(path))
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and "__dataclass_params__" in vars(value)
    ]


def parameters(made: type) -> list[tuple[str, Any, bool]]:
    found = list(inspect.signature(made).parameters.values())
    return [(each.name, each.kind, each.default is not inspect.Parameter.empty) for each in found]


def flags(made: Any) -> list[tuple[Any, ...]]:
    return [(each.name, each.init, each.repr, each.compare) for each in dataclasses.fields(made)]


def defaults(made: type) -> dict[str, str]:
    """Return the default of each field that a new object has without being given it."""
    names = [name for name, _, optional in parameters(made) if not optional]
    fresh = made(**dict.fromkeys(names, 0))
    rest = [each.name for each in dataclasses.fields(made) if each.name not in names and hasattr(fresh, each.name)]
    return {name: type(getattr(fresh, name)).__name__ + repr(getattr(fresh, name))[:8] for name in rest}


def behaviour(made: Any) -> list[object]:
    """Return what objects of a data class do: the same for the one and the other."""
    given = {name: f"{name} {number}" for number, (name, _, _) in enumerate(parameters(made))}
    one, equal = complete(made(**given)), complete(made(**given))
    others = [complete(made(**{**given, name: "another"})) for name in given]
    found: list[object] = [attempt(lambda: repr(one)), attempt(lambda: one == equal), one == "a text"]
    found.append([attempt(lambda: one == other) for other in others])  # noqa: B023
    found.append([attempt(lambda: repr(dataclasses.replace(one, **{name: "another"}))) for name in given])  # noqa: B023
    found.append([getattr(made, "__match_args__", ()), made.__slots__, hasattr(one, "__dict__")])
    found.append(attempt(lambda: hash(one) == hash(equal)))
    found.append(attempt(lambda: hash(one) == hash(tuple(getattr(one, part.name) for part in compared(made)))))
    for name in given:
        found.append(attempt(lambda: setattr(one, name, "changed")))  # noqa: B023
        found.append(attempt(lambda: delattr(one, name)))  # noqa: B023
    # dataclasses has another error for that, by mistake: it made the class twice
    found.append(attempt(lambda: setattr(one, "unknown to it", "a value")) is None)
    found.append(attempt(lambda: copy.deepcopy(equal) == equal))
    found.append(attempt(lambda: dataclasses.asdict(equal)))
    found.append([type(attempt(lambda: made(*range(count)))).__name__ for count in range(len(given) + 2)])  # noqa: B023
    return found


def complete(thing: Any) -> Any:
    """Return `thing` with a value for the fields that others set."""
    for part in dataclasses.fields(thing):
        if not hasattr(thing, part.name):
            object.__setattr__(thing, part.name, "set later")
    return thing


def compared(made: Any) -> list[Any]:
    return [each for each in dataclasses.fields(made) if each.compare]


def attempt(action: Any) -> object:
    try:
        return action()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_written_classes_are_what_dataclasses_makes(path: Path, recipe: ModuleType) -> None:
    """D-27: signature, defaults, fields, repr, equality, hash, what is refused, copies."""
    scope = run_lightened(recipe, (ROOT / path).read_text(encoding="utf-8"), module_name(path))
    found = data_classes(path)
    assert found
    for original in found:
        written = scope[original.__name__]
        assert "__dataclass_params__" not in vars(written), original
        assert (parameters(written), flags(written)) == (parameters(original), flags(original))
        assert behaviour(written) == behaviour(original)
        assert attempt(lambda: defaults(written)) == attempt(lambda: defaults(original))  # noqa: B023
    assert not {"dataclass", "field", "Any", "cast"} & {
        name for name, value in scope.items() if getattr(value, "__module__", "") in ("dataclasses", "typing")
    }


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass(slots=True, order=True)\nclass C:\n    x: int = 1\n",
        "@dataclass(frozen=True)\nclass C:\n    x: int = 1\n",
        "@dataclass(slots=True)\nclass C(Base):\n    x: int = 1\n",
        "@dataclass(slots=True)\nclass C:\n    x: int = 1\n    y: ClassVar[int] = 2\n",
        "@dataclass(slots=True)\nclass C:\n    x: int = 1\n\n    def __post_init__(self):\n        self.x = 2\n",
        "@dataclass(slots=True)\nclass C:\n    x: int = 1\n\n    def __eq__(self, other):\n        return True\n",
        "@dataclass(slots=True, eq=False, frozen=True)\nclass C:\n    x: int = 1\n",
        "@dataclass(slots=True)\nclass C:\n    x: int = field(default=1, hash=False)\n",
        "@final\n@dataclass(slots=True)\nclass C:\n    x: int = 1\n",
        "@dataclass(slots=SLOTS)\nclass C:\n    x: int = 1\n",
        "@dataclass\nclass C:\n    x: int = 1\n",
    ],
)
def test_a_data_class_with_more_than_is_known_stays_as_it_is(text: str, recipe: ModuleType) -> None:
    head = "from dataclasses import dataclass, field, replace\n"
    found = ast.unparse(recipe.lighten(ast.parse(head + text)))
    assert found == ast.unparse(
        ast.parse(f"from odeklite import replace\nfrom dataclasses import dataclass, field\n{text}")
    )


ENUMERATIONS = ("odek/config/options.py", "odek/danger/risk.py", "odek/web/routes.py")


def test_all_enumerations_are_known() -> None:
    found = {path for path in PACKAGE.rglob("*.py") if "from enum import" in path.read_text(encoding="utf-8")}
    assert {str(path.relative_to(ROOT)) for path in found} == set(ENUMERATIONS)


@pytest.mark.parametrize("path", ENUMERATIONS)
def test_enumerations_are_what_enum_makes(path: str, recipe: ModuleType) -> None:
    """D-27: names, values, identity, order, texts, looking up."""
    name = module_name(Path(path))
    scope = run_lightened(recipe, (ROOT / path).read_text(encoding="utf-8"), name)
    found = [value for value in vars(importlib.import_module(name)).values() if isinstance(value, enum.EnumMeta)]
    originals = [each for each in found if each.__module__ == name]
    assert originals
    for original in originals:
        written = scope[original.__name__]
        assert not isinstance(written, enum.EnumMeta)
        assert [texts(member) for member in written] == [texts(member) for member in original]
        for member, same in zip(original, written, strict=True):
            assert same is getattr(written, member.name)
            assert same is written(member.value) is written[member.name]
            assert [same == other for other in written] == [member == other for other in original]
            assert {same: 1}[same]
            properties = [key for key, value in vars(original).items() if isinstance(value, property)]
            assert [getattr(same, key) for key in properties] == [getattr(member, key) for key in properties]
        with pytest.raises(ValueError, match="not a valid"):
            written("something else")
        with pytest.raises(KeyError):
            written["something else"]
        if issubclass(original, int):
            assert [int(member) for member in sorted(set(written))] == sorted(map(int, original))
            assert [max(written).name, min(written).name] == [max(original).name, min(original).name]


def texts(member: Any) -> tuple[object, ...]:
    # of a member that is a number, str() is its name in Python 3.10, and its number from 3.11 on, as in what is written
    as_text = () if isinstance(member, int) and sys.version_info < (3, 11) else (str(member),)
    return member.name, member.value, repr(member), *as_text, f"{member}"


def test_what_typing_leaves_at_run_time(recipe: ModuleType) -> None:
    source = """
from __future__ import annotations
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast, overload
T = TypeVar("T", bound=object)
Word = Literal["a", "b"]
Alias = dict[str, Any] | None
Function = Callable[[T, Word | None], Any]
class Shape(Protocol):
    def area(self) -> int: ...
class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value
class Named(Box[int]):
    pass
class Pair(NamedTuple):
    x: int
FOUND = [Box[int | None](3).value, Named(4).value, cast("list[Any]", 5), Pair(6).x, isinstance(Named(1), Box)]
"""
    scope = run_lightened(recipe, source, "a_module")
    assert scope["FOUND"] == [3, 4, 5, 6, True]
    assert scope["Any"].__class__.__module__ == "odeklite"
