"""Option: a setting as one row, and as the typed attribute of the settings in force.

The rows are in settings.py. The command line, the environment, both files, `odek config view`, the JSON Schema, the
templates and the table in docs/CONFIG.md are derived from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Generic, Literal, TypeVar, cast, overload

from odek.config.values import BOOL_HINT, Kind, Switch, check_characters
from odek.errors import ConfigError

GLOBAL_FILE = "~/.odek/config.json"
PROJECT_FILE = "./odek.json"

T = TypeVar("T")


class ProjectRule(Enum):
    """What ./odek.json may do with a setting (R-15)."""

    ALLOWED = "allowed"
    """its value counts like any other"""
    NEEDS_APPROVAL = "needs approval"
    """its value counts once the operator has approved it; `approval_request` (app/project_approval.py) puts it into
    the question, and a key that is not in there would count unasked"""
    ASKS_ITSELF = "asks itself"
    """its value counts like any other, and who uses it asks the operator about what a project wrote: the MCP servers,
    each by a question of its own"""
    CAN_LOWER = "can lower"
    """its value counts when it is below the operator's"""
    CAN_ENABLE = "can enable"
    """`true` counts, `false` does not"""
    FORBIDDEN = "forbidden"
    """its value is ignored, with a warning"""


class Source(IntEnum):
    """Who set a value, weakest first (R-10)."""

    DEFAULT = 0
    GLOBAL = 1
    PROJECT = 2
    ENVIRONMENT = 3
    FLAG = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The value of one option and where it came from."""

    value: object
    """of the type that the option's kind parses to"""
    source: Source
    origin: str
    """"./odek.json", "ODEK_MODEL", "--model", "default"; several with commas when a value was gathered"""


class OptionGroup:
    """Settings as typed attributes: the class attributes that are Options are the rows, an instance has the values."""

    def __init__(self, resolved: Mapping[str, Resolved]) -> None:
        self.resolved = resolved
        """by the key of the option; holds secrets"""

    @classmethod
    def rows(cls) -> Iterator[Option[Any]]:
        """Yield the rows of this class in the order in which they are written."""
        yield from (row for row in vars(cls).values() if isinstance(row, Option))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._values() == other._values()

    def _values(self) -> list[object]:
        return [self.resolved[row.key].value for row in self.rows()]

    __hash__ = None  # type: ignore[assignment]


class Option(Generic[T]):
    """One setting. Read from the settings in force it is the value, which has the type T."""

    def __init__(
        self,
        key: str,
        kind: Kind[T],
        help: str,  # noqa: A002 - the word argparse uses for it
        *,
        default: T,
        env: tuple[str, ...] = (),
        fallback_env: tuple[str, ...] = (),
        flag: str = "",
        short: str = "",
        metavar: str = "",
        off_flag: str = "",
        off_commands: tuple[str, ...] = (),
        off_help: str = "",
        off_word: str = "",
        commands: tuple[str, ...] = ("run", "continue", "repl", "serve", "mcp"),
        group: str = "agent",
        project: ProjectRule = ProjectRule.FORBIDDEN,
        merge: Literal["replace", "by name", "union", "by server"] = "replace",
        in_file: bool = True,
        expands: bool = False,
        lenient: str = "",
    ) -> None:
        self.key = key
        """the key in a file; a dot is an object inside the top level ("tools.enabled")"""
        self.kind = kind
        """how its values are written"""
        self.help = help
        """one sentence without its full stop"""
        self.default = default
        """the value where no layer has one"""
        self.env = env
        """variables that set it, the first one that is set counts"""
        self.fallback_env = fallback_env
        """variables that are read when no layer at all has a value"""
        self.flag = flag
        self.short = short
        self.metavar = metavar
        """the placeholder of the flag's value; "" for a flag without one"""
        self.off_flag = off_flag
        """the flag that sets a switch to false, on `off_commands`"""
        self.off_commands = off_commands
        self.off_help = off_help
        self.off_word = off_word
        """the text of a flag or variable that drops what weaker layers say; "" for none"""
        self.commands = commands if flag else ()
        """the commands that take `flag`"""
        self.group = group
        """the heading in a command's help: model, limits, agent, tools, sandbox"""
        self.project = project
        """what ./odek.json may do with it"""
        self.merge = merge
        """how a stronger layer meets a weaker one; D-7"""
        self.in_file = in_file
        self.expands = expands
        """${VAR} is replaced in the operator's file (R-17)"""
        self.lenient = lenient
        """the operator's variable that turns a bad value into the default, with a warning; "" for none"""

    @overload
    def __get__(self, settings: None, owner: type[OptionGroup]) -> Option[T]: ...

    @overload
    def __get__(self, settings: OptionGroup, owner: type[OptionGroup]) -> T: ...

    def __get__(self, settings: OptionGroup | None, owner: type[OptionGroup]) -> Option[T] | T:
        return self if settings is None else cast("T", settings.resolved[self.key].value)

    @property
    def is_switch(self) -> bool:
        """whether its flag takes no value"""
        return isinstance(self.kind, Switch)

    @property
    def places(self) -> str:
        """where the operator may set it, in words"""
        places = [GLOBAL_FILE] if self.in_file else []
        places += [*self.env[:1], *([self.flag] if self.flag else [])]
        return " or ".join(([", ".join(places[:-1])] if places[1:] else []) + places[-1:])

    def off_flag_for(self, command: str) -> str:
        """Return the flag of `command` that sets this to false, or ""."""
        return self.off_flag if command in self.off_commands else ""

    def parse_text(self, text: str, origin: str) -> T:
        """Return the value of a variable or a flag.

        An empty text is an error: a script's unset variable must neither lift a limit nor drop what a weaker layer
        says. What can be switched off has a word for it. Raises ConfigError, naming `origin`.
        """
        if self.kind.takes_any_text:
            return self.kind.from_text(text, origin)
        if not text.strip():
            raise ConfigError(f"{origin} is empty", hint=self._empty_hint())
        if self.off_word and text == self.off_word:
            return self.kind.empty()
        check_characters(text, origin)
        return self.kind.from_text(text, origin)

    def _empty_hint(self) -> str:
        if self.is_switch:
            return f"leave it out, or {BOOL_HINT}"
        return f"give it a value, or leave it out{f'; {self.off_word} switches it off' if self.off_word else ''}"
