"""What odek and a model say to each other, free of any provider's wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from odek.model.images import Image

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model asks for."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it; it may be invalid"""
    extra: str = ""
    """JSON object of what else the server sent with the call, "" for nothing; see extras.py"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of the conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """for role "tool": the call that this answers"""
    name: str = ""
    """for role "tool": the name of the tool"""
    reasoning: str = ""
    """a reasoning model's own notes, sent back unchanged"""
    reasoning_field: str = ""
    """the name that the server has for `reasoning`; with an empty text: it sent the field, and empty"""
    reasoning_state: str = ""
    """the same in the provider's own signed form, as JSON; read by its ProviderApi alone"""
    extra: str = ""
    """JSON object of what else the server sent with the message, "" for nothing; see extras.py"""
    images: tuple[Image, ...] = ()
    """for role "user": what is shown with the text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is offered to the model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments: an object"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one exchange, as the provider counted them; zeros when it did not."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """of the input tokens"""
    priced_tokens: int = 0
    """how many tokens, in and out, `cost_usd` is for: those whose price is known"""
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            priced_tokens=self.priced_tokens + other.priced_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def known_cost_usd(self) -> float | None:
        """None: no price was known"""
        return self.cost_usd if self.priced_tokens else None


class Thought(str):
    """A piece of what a model thinks, as it arrives among the pieces of its text; no part of that."""

    __slots__ = ()


class CallBegun(str):
    """The name of a tool: a call of it begins to arrive, or, in its arguments, one more object of a list."""

    __slots__ = ("is_object",)

    def __new__(cls, name: str, *, is_object: bool = False) -> CallBegun:
        begun = super().__new__(cls, name)
        begun.is_object = is_object
        return begun

    is_object: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the model: text, tool calls, or both."""

    message: Message
    usage: Usage = Usage()
    stop: str = ""
    """the provider's finish reason ("stop", "tool_calls", "length", …); "" when it gave none"""


class Model(Protocol):
    """Something that answers a conversation."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        """Return the next reply; `on_text` gets the text piece by piece as it arrives, thinking as a Thought, and
        what is known early of calls as a CallBegun.

        It gets "" when an attempt failed in the middle: the text starts over. Raises ModelError.
        """
        ...

    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AbstractContextManager[None]:
        """Have this request at work from the beginning of the block on.

        `complete` takes its reply if it is called for the very same request; otherwise, and at the end of the block, it
        is cut off. Nothing of the reply is passed on before that. A model that cannot do it does nothing.
        """
        ...

    def connect(self) -> None:
        """Begin to connect to the server, for the next request; what fails is said by that."""
        ...

    def window(self, conversation_tokens: int) -> int | None:
        """Return how many tokens a request may hold, None when that is unknown.

        `conversation_tokens` is the size of the conversation as estimated: a client may have to ask
        its server, and does so only when the size makes it worth while. Never raises a ModelError.
        """
        ...
