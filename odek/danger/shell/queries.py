"""What is known of a tree without following it: names that are assigned, commands that leave, bombs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from odek.danger.shell import abstract_text
from odek.danger.shell.state import MAX_CANDIDATES, UNKNOWN, ShellState, Values
from odek.danger.shell.syntax import (
    AndOr,
    Arithmetic,
    Assignment,
    Command,
    Compound,
    Parameter,
    Pipeline,
    Script,
    Simple,
    Text,
    Word,
    literal_text,
)
from odek.patterns import pattern

_ASSIGNING = frozenset(
    """
    read export declare local typeset readonly mapfile readarray getopts printf let unset eval . source
    """.split()
)
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def is_move(pipeline: Pipeline) -> bool:
    """Return whether this is a plain `cd`, after which the next command runs even if it failed."""
    command = pipeline.commands[0] if len(pipeline.commands) == 1 else None
    return isinstance(command, Simple) and bool(command.words) and literal_text(command.words[0]) in ("cd", "pushd")


def leaves(pipeline: Pipeline, state: ShellState) -> bool:
    """Return whether nothing that follows runs after this."""
    command = pipeline.commands[-1] if len(pipeline.commands) == 1 else None
    while isinstance(command, Compound) and command.kind == "group":
        last = command.scripts[0].items[-1]
        command = last.pipelines[0].commands[0] if len(last.pipelines) == 1 and last.pipelines[0].commands else None
    name = literal_text(command.words[0]) if isinstance(command, Simple) and command.words else None
    return name in ("exit", "return", "continue", "break") and name not in state.functions


def loop_values(texts: Values) -> Values:
    """Return what a variable holds that takes one of `texts` after the other."""
    if len(texts) <= MAX_CANDIDATES and not any(abstract_text.holds_unknown(text) for text in texts):
        return tuple(dict.fromkeys(texts)) or (abstract_text.SOME,)
    inside = all(not text.startswith(("/", "-")) and ".." not in text.split("/") for text in texts)
    if inside and not any(abstract_text.holds_unknown(text) for text in texts):
        return (abstract_text.BELOW,)
    return UNKNOWN if any(not text.strip(abstract_text.ANY) for text in texts) else (abstract_text.SOME,)


def simple_commands(scripts: tuple[Script, ...]) -> Iterator[Simple]:
    """Give every simple command in `scripts`, substitutions left out."""
    waiting = list(scripts)
    while waiting:
        for item in waiting.pop().items:
            for pipeline in item.pipelines:
                for command in pipeline.commands:
                    if isinstance(command, Simple):
                        yield command
                    else:
                        waiting.extend(command.scripts)


def assigned(command: Simple) -> Iterator[str]:
    for assignment in command.assignments:
        yield assignment.name
    if command.words and literal_text(command.words[0]) in _ASSIGNING:
        for word in command.words[1:]:
            if match := _NAME.match(literal_text(word) or ""):
                yield match[0]


def is_bomb(function: Compound) -> bool:
    """Return whether a function calls itself twice at once, or again and again in the background."""
    for script in function.scripts:
        for item in _items(script):
            calls = [sum(_calls(c, function.name) for c in pipeline.commands) for pipeline in item.pipelines]
            if max(calls, default=0) > 1 or (item.background and any(calls) and _count(function) > 1):
                return True
    return False


def _count(function: Compound) -> int:
    return sum(_calls(command, function.name) for command in simple_commands(function.scripts))


def _items(script: Script) -> Iterator[AndOr]:
    waiting = [script]
    while waiting:
        for item in waiting.pop().items:
            yield item
            for pipeline in item.pipelines:
                for command in pipeline.commands:
                    if isinstance(command, Compound):
                        waiting.extend(command.scripts)


def _calls(command: Command, name: str) -> bool:
    return isinstance(command, Simple) and bool(command.words) and literal_text(command.words[0]) == name


def changed_names(scripts: tuple[Script, ...]) -> dict[str, bool]:
    """Return the variables that `scripts` may set, however; whether only to numbers. "" means any."""
    found: dict[str, bool] = {}
    waiting: list[object] = list(scripts)
    while waiting:
        node = waiting.pop()
        for name, counts in _sets(node):
            found[name] = counts and found.get(name, True)
        for part in fields(node):  # type: ignore[arg-type]  # every node is a dataclass
            value = getattr(node, part.name)
            values = value if isinstance(value, tuple) else (value,)
            waiting += [inner for inner in values if is_dataclass(inner)]
    return found


def _sets(node: object) -> list[tuple[str, bool]]:
    """Return the variables that one node of a tree sets by itself; whether to numbers."""
    match node:
        case Assignment():
            return [(node.name, all(isinstance(part, Arithmetic) for part in node.value.parts) and not node.append)]
        case Parameter() if node.operator in (":=", "="):
            return [(node.name, False)]
        case Arithmetic():
            return [(name, True) for name in _names_in(node.content)]
        case Simple():
            return _set_by_words(node)
        case Compound(kind="for") if node.name:
            return [(node.name, False)]
        case Compound(kind="arithmetic" | "for"):
            return [(name, True) for word in node.words for name in _names_in(word)]
    return []


def _names_in(word: Word) -> list[str]:
    return [name for part in word.parts if isinstance(part, Text) for name in _NAME.findall(part.text)]


def _set_by_words(command: Simple) -> list[tuple[str, bool]]:
    program = literal_text(command.words[0]) if command.words else ":"
    if program is None or program in ("eval", "source", ".", "command", "builtin", "unset"):
        return [("", False)]
    if program not in _ASSIGNING:
        return []
    texts = [literal_text(word) for word in command.words[1:]]
    return [(name, False) for text in texts if text for name in _NAME.findall(text.partition("=")[0])]


def compares_numbers(words: list[str]) -> bool:
    """Return whether `[[ … ]]` evaluates something that may be no number, or asks for a variable."""
    for index, word in enumerate(words):
        if word in ("-v", "-R"):
            return True
        if word in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            sides = (*words[max(index - 1, 0) : index], *words[index + 1 : index + 2])
            if not all(side == abstract_text.NAME or re.fullmatch(r"-?[0-9]+", side) for side in sides):
                return True
    return False
