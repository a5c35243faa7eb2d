"""What the compiled code has instead of `dataclasses`, `typing` and `enum` (build/write_classes.py).

The methods of data classes are those that dataclasses would write for each class; here they ask the class for its
fields.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class _Form:
    """Whatever of typing is only ever subscripted or joined by `|`."""

    __slots__ = ()

    def __getitem__(self, _: object) -> _Form:
        return self

    def __or__(self, _: object) -> _Form:
        return self

    __ror__ = __or__


Any = AnyStr = BinaryIO = Literal = NoReturn = TextIO = _Form()  # type: ignore[misc, assignment]


def TypeVar(*_: object, **_options: object) -> object:  # noqa: N802 – the name it has in typing
    return Literal


class Generic:
    """Without parameters."""

    __slots__ = ()

    def __class_getitem__(cls, _: object) -> type:
        return cls


class Protocol(Generic):
    """A class that nothing is checked against."""

    __slots__ = ()


def cast(_: object, value: object) -> object:
    return value


def overload(function: Callable[..., object]) -> Callable[..., object]:
    return function


# --- enumerations


class _Members(type):
    """The class of enumerations, which knows their members."""

    def __new__(mcs, name: str, bases: tuple[type, ...], scope: dict[str, object]) -> _Members:
        given = {key: value for key, value in scope.items() if key[0] != "_" and not hasattr(value, "__get__")}
        made = super().__new__(mcs, name, bases, scope)
        made.members = []
        for key, value in given.items():
            member = int.__new__(made, value) if issubclass(made, int) else object.__new__(made)
            member.name, member.value = key, value
            setattr(made, key, member)
            made.members.append(member)
        return made

    def __iter__(cls) -> Iterator[Enum]:
        return iter(cls.members)

    def __len__(cls) -> int:
        return len(cls.members)

    def __call__(cls, value: object) -> Enum:
        for member in cls.members:
            if member.value == value or member is value:
                return member
        raise ValueError(f"{value!r} is not a valid {cls.__name__}")

    def __getitem__(cls, name: str) -> Enum:
        for member in cls.members:
            if member.name == name:
                return member
        raise KeyError(name)


class Enum(metaclass=_Members):
    """Named values, each different and the only one of its kind."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class IntEnum(Enum, int):
    """The same, in an order."""

    __str__ = int.__repr__


# --- data classes

MISSING = object()
"""the default of a parameter that a factory makes a value for"""
put = object.__setattr__


def values(record: Record, names: tuple[str, ...]) -> tuple[object, ...]:
    return tuple([getattr(record, name) for name in names])


class _LateFields:
    """`__dataclass_fields__`, for `fields`, `asdict` and others of dataclasses; made when one of them is called."""

    def __init__(self) -> None:
        self.made: dict[type, Mapping[str, object]] = {}

    def __get__(self, _: object, owner: type[Record]) -> Mapping[str, object]:
        found = self.made.get(owner)
        if found is None:
            from dataclasses import field, make_dataclass

            given, shown, compared = owner.__given__, owner.__shown__, owner.__compared__
            fields = [
                (name, object, field(init=name in given, repr=name in shown, compare=name in compared))
                for name in owner.__names__
            ]
            # no method is made, and no docstring, for which dataclasses would import `inspect`
            like = make_dataclass(owner.__name__, fields, namespace={"__doc__": "."}, init=False, repr=False, eq=False)
            found = self.made[owner] = like.__dataclass_fields__  # type: ignore[attr-defined]
        return found


class Record:
    """A data class of which only the same object is equal."""

    __slots__ = ()
    __match_args__ = ()
    __dataclass_fields__ = _LateFields()
    __names__: tuple[str, ...] = ()
    """its fields"""
    __given__: tuple[str, ...] = ()
    """those that `__init__` takes"""
    __shown__: tuple[str, ...] = ()
    """those in its repr"""
    __compared__: tuple[str, ...] = ()
    """those that have to be equal"""

    def __repr__(self) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__shown__])
        return f"{type(self).__qualname__}({shown})"


class Compared(Record):
    """A data class that is equal to another one with equal fields."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self, self.__compared__) == values(other, self.__compared__)  # type: ignore[arg-type]


class Frozen(Compared):
    """A data class that stays as it was made."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(values(self, self.__compared__))

    def __setattr__(self, name: str, _: object) -> None:
        raise _frozen(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise _frozen(f"cannot delete field {name!r}")

    def __getstate__(self) -> tuple[object, ...]:
        return values(self, self.__names__)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(self.__names__, state, strict=True):
            put(self, name, value)


def replace(record: Record, /, **changes: object) -> Record:
    for name in record.__given__:
        if name not in changes:
            changes[name] = getattr(record, name)
    return record.__class__(**changes)


def _frozen(message: str) -> Exception:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(message)
