"""Tool calls put together from the fragments of a stream.

Providers agree on the field names and on nothing else: the index may be missing, always zero or
full of holes, the id missing, late, repeated in every fragment or shared by two calls, the name
whole, repeated or in pieces (B39). The rule behind the cases below: two calls are never made one.
Arguments that are a complete JSON object cannot go on, so whatever follows them is either a
repetition, another call, or makes the text invalid – then nothing runs, and the model gets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from odek.model.extras import Extras
from odek.model.json_fields import arguments_text, mapping, string
from odek.model.types import CallBegun, ToolCall

NewId = Callable[[], str]
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_FUNCTION_CALL_INDEX = -1  # the old `function_call` field, of which there is one a reply


class JsonBalance:
    """Follows JSON text far enough to know where its object ends; every character is seen once."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_opened", "objects")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._opened = False
        self.objects = 0
        """those in a list or object of the outermost one that have begun"""

    @property
    def complete(self) -> bool:
        return self._opened and self._depth == 0 and not self._in_string

    def feed(self, text: str) -> None:
        for character in text:
            if self._in_string:
                self._feed_in_string(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self.objects += self._depth == 2 and character == "{"
                self._depth += 1
                self._opened = True
            elif character in "}]":
                self._depth -= 1

    def _feed_in_string(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    index: int | None
    id: str
    name: str
    arguments: str
    raw: dict[str, Any]
    """all that came"""

    @property
    def has_arguments(self) -> bool:
        return bool(self.arguments.strip())


@dataclass(slots=True, kw_only=True)
class _PartialCall:
    """A call under construction."""

    index: int | None
    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extent: JsonBalance = field(default_factory=JsonBalance)
    extras: Extras = field(default_factory=Extras)
    has_arguments: bool = False
    maybe_duplicate: bool = False
    """only a name so far, the same as that of the call before: perhaps its repetition"""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class CallAccumulator:
    """The tool calls of one reply, fed fragment by fragment."""

    def __init__(self, on_begun: Callable[[CallBegun], None] = lambda _: None) -> None:
        """`on_begun` gets what begins, by the name that is known then."""
        self._on_begun = on_begun
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def feed(self, raw: object, *, old_style: bool = False) -> None:
        """Take one entry of `tool_calls`, or (`old_style`) a `function_call`; anything else is ignored."""
        fragment = _parse_fragment({"index": _FUNCTION_CALL_INDEX, "function": raw} if old_style else raw)
        if fragment is None:
            return
        call = self._find(fragment)
        if call is not None and _repeats(call, fragment):
            _feed_extras(call.extras, fragment)
            return
        if call is None or _begins_another(call, fragment):
            call = self._open(fragment, previous=call)
        before = call.extent.objects
        _extend(call, fragment)
        for _ in range(call.extent.objects - before):
            self._on_begun(CallBegun(call.name, is_object=True))

    def finish(self, new_id: NewId) -> tuple[ToolCall, ...]:
        """Return the calls in the order in which they began, each with an id of its own."""
        return distinct_calls(
            (
                ToolCall(id=call.id, name=call.name, arguments=call.text, extra=call.extras.to_json())
                for call in self._calls
                if not call.maybe_duplicate
            ),
            new_id,
        )

    def _find(self, fragment: _Fragment) -> _PartialCall | None:
        """Return the call that `fragment` may belong to."""
        last = self._calls[-1] if self._calls else None
        if fragment.index is not None:
            found = self._by_index.get(fragment.index)
            if found is None and last is not None and last.index is None and _goes_on(last, fragment):
                last.index = fragment.index
                self._by_index[fragment.index] = last
                return last
            return found
        if not fragment.id:
            return last
        for call in reversed(self._calls):
            if call.id == fragment.id:
                return call
        return last if last is not None and not last.id and _goes_on(last, fragment) else None

    def _open(self, fragment: _Fragment, *, previous: _PartialCall | None) -> _PartialCall:
        same_name = previous is not None and fragment.name == previous.name
        echo = same_name and not fragment.id and not fragment.has_arguments
        call = _PartialCall(index=fragment.index, id=fragment.id, maybe_duplicate=echo)
        self._calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        self._on_begun(CallBegun(fragment.name))
        return call


def distinct_calls(raw: Iterable[ToolCall], new_id: NewId) -> tuple[ToolCall, ...]:
    """Return `raw` with an id for each, new ones for those missing or repeated, and arguments where there are none."""
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for call in raw:
        call_id = call.id
        while not call_id or call_id in taken:
            call_id = new_id()
        taken.add(call_id)
        calls.append(replace(call, id=call_id, arguments=call.arguments if call.arguments.strip() else "{}"))
    return tuple(calls)


def parse_calls(message: dict[str, Any], new_id: NewId) -> tuple[ToolCall, ...]:
    """Return the calls of a whole (not streamed) message: every entry is a call of its own."""
    entries = message.get("tool_calls")
    raw = list(entries) if isinstance(entries, list) else []
    if not raw and isinstance(message.get("function_call"), dict):
        raw = [{"function": message["function_call"]}]
    fragments = [fragment for fragment in map(_parse_fragment, raw) if fragment is not None]
    return distinct_calls(map(_whole_call, fragments), new_id)


def _parse_fragment(raw: object) -> _Fragment | None:
    if not isinstance(raw, dict):
        return None
    function = mapping(raw.get("function"))
    index = raw.get("index")
    return _Fragment(
        index=index if type(index) is int else None,
        id=string(raw.get("id")),
        name=string(function.get("name")),
        arguments=arguments_text(function.get("arguments")),
        raw=raw,
    )


def _whole_call(part: _Fragment) -> ToolCall:
    extras = Extras()
    _feed_extras(extras, part)
    return ToolCall(id=part.id, name=part.name, arguments=part.arguments, extra=extras.to_json())


def _feed_extras(extras: Extras, fragment: _Fragment) -> None:
    """Take the fields other than `function`, and, under "function", those of it other than name and arguments."""
    extras.feed(fragment.raw, _CALL_FIELDS)
    function = mapping(fragment.raw.get("function"))
    inner = {key: value for key, value in function.items() if key not in _FUNCTION_FIELDS and value is not None}
    extras.feed({"function": inner} if inner else {}, frozenset())


def _goes_on(call: _PartialCall, fragment: _Fragment) -> bool:
    """Return whether `fragment`, found under no key of `call`, can still only be its continuation."""
    if fragment.id and call.id:
        return fragment.id == call.id
    return not call.extent.complete and fragment.name in ("", call.name)


def _repeats(call: _PartialCall, fragment: _Fragment) -> bool:
    """Return whether `fragment` says once more, in full, what `call` already is."""
    same_call = fragment.id == call.id != "" or not (fragment.id or fragment.name)
    same_name = fragment.name in ("", call.name)
    return same_call and same_name and call.extent.complete and fragment.arguments == call.text


def _begins_another(call: _PartialCall, fragment: _Fragment) -> bool:
    """Return whether `fragment` is the start of a new call although it bears a key of `call`."""
    same_id = fragment.id == call.id != ""
    if fragment.id and call.id and not same_id:
        # some providers invent an id for every fragment: without a name, and in the middle of the
        # arguments, it can only be a continuation
        return bool(fragment.name) or call.extent.complete
    if not fragment.name:
        return False
    if call.extent.complete:
        return fragment.has_arguments or not same_id
    return call.has_arguments and fragment.name != call.name and not same_id


def _extend(call: _PartialCall, fragment: _Fragment) -> None:
    call.id = call.id or fragment.id
    _feed_extras(call.extras, fragment)
    if not call.has_arguments:
        call.name = _joined_name(call.name, fragment.name)
    if not fragment.arguments:
        return
    if call.extent.complete and fragment.has_arguments and call.text.strip() == "{}":
        # a placeholder that some adapters send ahead of the real arguments
        call.pieces.clear()
        call.extent = JsonBalance()
    call.pieces.append(fragment.arguments)
    call.extent.feed(fragment.arguments)
    if fragment.has_arguments:
        call.has_arguments = True
        call.maybe_duplicate = False


def _joined_name(known: str, piece: str) -> str:
    """Return the name after one more piece, which may also repeat what is known, or all of it."""
    return piece if piece.startswith(known) else known + piece
