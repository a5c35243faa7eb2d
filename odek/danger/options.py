"""Arguments to options and operands, as getopt_long reads them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odek.danger.shell import abstract_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; a cluster `-xzf` gives three."""

    name: str
    """with its dashes, "-x" or "--exclude", as written: long ones may be abbreviated"""
    value: str | None
    index: int
    """its position among the arguments"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was given to a program."""

    options: tuple[Option, ...]
    operands: tuple[str, ...]
    rest_index: int
    """the position of the first operand; the number of arguments when there is none"""
    after_dashes: int
    """how many of `operands` follow `--`; -1 when there was no `--`"""

    def has(self, *names: str) -> bool:
        """Return whether one of the options is there, also abbreviated or in an unclear argument."""
        return any(matches(option.name, names) for option in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        """Return the values given to these options."""
        return tuple(o.value for o in self.options if o.value is not None and matches(o.name, names))


def matches(given: str, names: Collection[str]) -> bool:
    """Return whether a given option is, or may abbreviate, one of `names`."""
    if given in names or given[:1] in abstract_text.UNKNOWN:
        return True
    return len(given) > 2 and given.startswith("--") and any(name.startswith(given) for name in names)


def parse_arguments(
    arguments: Sequence[str], takes_value: Collection[str], *, whole: bool = False, stop: bool = False
) -> Arguments:
    """Return the options and operands among `arguments`.

    `takes_value` names the options whose value may be an argument of its own. `whole`: single-dash
    options are words (`-name`), not clusters. `stop`: everything after the first operand is one.
    """
    options: list[Option] = []
    operands: list[str] = []
    index, rest_index, after_dashes = 0, len(arguments), -1
    while index < len(arguments):
        argument = arguments[index]
        if argument == "--":
            rest_index = min(rest_index, index + 1)
            operands.extend(arguments[index + 1 :])
            after_dashes = len(arguments) - index - 1
            break
        if _is_operand(argument):
            rest_index = min(rest_index, index)
            operands.append(argument)
            if stop:
                operands.extend(arguments[index + 1 :])
                break
            index += 1
            continue
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        used = _option(argument, following, index, takes_value, whole, options)
        index += 1 + used
    return Arguments(options=tuple(options), operands=tuple(operands), rest_index=rest_index, after_dashes=after_dashes)


def _is_operand(argument: str) -> bool:
    if argument[:1] == abstract_text.SPLIT or (argument[:1] == abstract_text.ANY):
        return False  # may be an option: counted as both, see _option
    return len(argument) < 2 or argument[0] != "-"


def _option(
    argument: str, following: str | None, index: int, takes_value: Collection[str], whole: bool, options: list[Option]
) -> int:
    """Add the option(s) in `argument`; return how many further arguments were used."""
    if argument.startswith("--") or whole or argument[:1] in abstract_text.UNKNOWN:
        name, equals, value = argument.partition("=")
        if equals:
            options.append(Option(name=name, value=value, index=index))
            return 0
        wants = name in takes_value or (name.startswith("--") and matches(name, takes_value))
        used = int(wants and following is not None)
        options.append(Option(name=name, value=following if used else None, index=index))
        return used
    for position in range(1, len(argument)):
        name = "-" + argument[position]
        attached = argument[position + 1 :]
        if name in takes_value:
            used = int(not attached and following is not None)
            options.append(Option(name=name, value=attached or following, index=index))
            return used
        options.append(Option(name=name, value=attached or None, index=index))
    return 0
