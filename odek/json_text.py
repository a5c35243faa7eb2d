"""JSON to values and back as `json` has it, without that package: it imports `re`, which takes 3 ms of a start.

What does the work in `json` is C code. This calls it directly, and the package where there is no such code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    HAS_C_CODE = True
except ImportError:  # Python may be built without it
    HAS_C_CODE = False

_BLANKS = " \t\r\n"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Scanner:
    """What the C code asks for, by the names that it asks by."""

    strict = True
    object_hook = None

    def __init__(
        self,
        object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None,
        parse_float: Callable[[str], object],
        parse_int: Callable[[str], object],
        parse_constant: Callable[[str], object],
    ) -> None:
        self.object_pairs_hook = object_pairs_hook
        self.parse_float = parse_float
        self.parse_int = parse_int
        self.parse_constant = parse_constant


def loads(
    text: str,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None = None,
    parse_float: Callable[[str], object] = float,
    parse_int: Callable[[str], object] = int,
    parse_constant: Callable[[str], object] = _CONSTANTS.__getitem__,
    whole: bool = True,
) -> Any:  # noqa: ANN401 – whatever the text says
    """Return the value in `text`; with `whole`, nothing but blanks may come after it.

    Raises json.JSONDecodeError and RecursionError, and what the functions raise.
    """
    hooks = (object_pairs_hook, parse_float, parse_int, parse_constant)
    begin = len(text) - len(text.lstrip(_BLANKS))
    scan = make_scanner(_Scanner(*hooks)) if HAS_C_CODE else _slow_scanner(*hooks)  # type: ignore[arg-type]
    try:
        value, end = _scanned(scan, text, begin)
    except StopIteration as stop:
        raise _decode_error("Expecting value", text, stop.value) from None
    if whole and (rest := text[end:].lstrip(_BLANKS)):
        raise _decode_error("Extra data", text, len(text) - len(rest))
    return value


def dumps(value: object) -> str:
    """Return the JSON of `value` in ASCII, without blanks. Raises TypeError and ValueError for what has none."""
    if not HAS_C_CODE:
        import json

        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    # markers against circles, what does the unknown, strings, indent, separators; not sorted, nothing skipped, no NaN
    encode = make_encoder({}, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
    return "".join(encode(value, 0))


def _scanned(scan: Callable[[str, int], tuple[Any, int]], text: str, begin: int) -> tuple[Any, int]:
    try:
        return scan(text, begin)
    except SystemError:
        # for a text that is wrong, the C code takes its error class from the package, and up to Python 3.12 raises
        # nothing at all where that has not been imported
        import json.decoder  # noqa: F401

        return scan(text, begin)


def _refuse(value: object) -> object:
    raise TypeError(f"an object of type {type(value).__name__} is not JSON")


def _decode_error(message: str, text: str, position: int) -> ValueError:
    from json import JSONDecodeError

    return JSONDecodeError(message, text, position)


def _slow_scanner(
    object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None, *hooks: Callable[[str], object]
) -> Callable[[str, int], tuple[object, int]]:
    from json import JSONDecoder

    parse_float, parse_int, parse_constant = hooks
    decoder = JSONDecoder(
        object_pairs_hook=object_pairs_hook,
        parse_float=parse_float,
        parse_int=parse_int,
        parse_constant=parse_constant,
    )
    return decoder.raw_decode
