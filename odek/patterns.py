"""Regular expressions that are compiled when they are first used: half of a start's would not be used in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AnyStr, cast

if TYPE_CHECKING:
    import re


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, or rather what becomes it when one of its methods is asked for.

    Flags may stand in the text, `(?s)`: a module that names none of `re`'s need not import it.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))


class _LatePattern:
    def __init__(self, text: Any, flags: int) -> None:  # noqa: ANN401 – str or bytes
        self._given = text, flags

    def __getattr__(self, name: str) -> object:
        import re  # what needs no pattern need not wait for it

        value = getattr(re.compile(*self._given), name)  # which keeps what it has compiled
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        return f"pattern{self._given!r}"
