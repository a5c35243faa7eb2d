"""Rewrites commands that must not run unasked on the host: `scripts/fuzz-host`.

Every command of tests/data/host-refused.txt is written in other ways that mean the same to a shell (quotes, blanks,
wrappers, here-documents, variables) or to the program (order and spelling of options, joined values, other ways to a
place, further options, programs of the same kind); none of them may be allowed. The seed is fixed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from support import fuzz_danger

from odek.danger.classify import classify
from odek.danger.host.table import rows
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Policy, decide

DATA = Path(__file__).parents[1] / "data" / "host-refused.txt"
COMMANDS = tuple(line for line in DATA.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")
HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
_WORD = re.compile(r"(?:[^\s'\"\\$`;|&<>(){}*?\[\]#]|'[^']*'|\"(?:[^\"\\$`]|\\.)*\"|\\[^\n])+")
_SIBLINGS = tuple(
    group.split()
    for group in (
        "awk gawk mawk nawk",
        "sed gsed",
        "find gfind",
        "grep egrep fgrep ggrep",
        "tar gtar bsdtar",
        "cp gcp mv gmv install",
        "xargs gxargs",
        "cat head tail nl rev od base64 wc",
        "rm unlink shred rmdir",
        "gunzip bunzip2 unxz",
        "less more",
        "timeout gtimeout",
        "touch tee truncate mkdir",
    )
)


def run(count: int, seed: int) -> Iterator[str]:
    """Give a line for every spelling that is allowed; `count` spellings of each command."""
    chance = random.Random(seed)
    policy = Policy(table=HOST_TABLE)
    for command in COMMANDS:
        for _ in range(count):
            spelled = fuzz_danger.disguise(vary(command, chance), chance)
            if decide(classify(spelled, HOST), spelled, policy).action == "allow":
                yield f"{command!r} runs as {spelled!r}"
                break


def vary(command: str, chance: random.Random) -> str:
    """Return a simple command with its words in another form that does the same; any other as it is."""
    words = _WORD.findall(command)
    if " ".join(words) != " ".join(command.split()) or "=" in words[0]:
        return command
    for _ in range(chance.randint(0, 3)):
        words = chance.choice(_VARIATIONS)(words, chance)
    return " ".join(words)


def _moved(words: list[str], chance: random.Random) -> list[str]:
    """An option, with what may be its value, in another place."""
    row = rows().get(words[0])
    at = [index for index, word in enumerate(words) if index and word.startswith("-") and word != "--"]
    if not at or "--" in words or row is None or row.stops or row.whole:
        return words
    start = chance.choice(at)
    known = row.options.get(words[start])
    end = start + 1 + (not known and start + 1 < len(words) and not words[start + 1].startswith("-"))
    rest = words[:start] + words[end:]
    place = chance.choice([1, len(rest)])
    return [*rest[:place], *words[start:end], *rest[place:]]


def _joined(words: list[str], chance: random.Random) -> list[str]:
    """An option and its value as one word, or taken apart."""
    at = chance.randrange(len(words))
    word = words[at]
    if words[0] not in rows():  # a variable holds it: whether the option has a value is not known here
        return words
    known = rows()[words[0]].options.get(word)
    following = words[at + 1] if at + 1 < len(words) else "-"
    if re.fullmatch(r"--[\w-]+=[^'\"~]+", word):
        return [*words[:at], *word.split("=", 1), *words[at + 1 :]]
    if at and word.startswith("-") and (known is None or known.kind) and not following.startswith(("-", "'", '"', "~")):
        return [*words[:at], word + ("=" if word.startswith("--") else "") + following, *words[at + 2 :]]
    return words


def _shortened(words: list[str], chance: random.Random) -> list[str]:
    """A long option abbreviated."""
    at = chance.randrange(len(words))
    name, equals, value = words[at].partition("=")
    if name.startswith("--") and len(name) > 6:
        return [*words[:at], name[: -chance.randint(1, 2)] + equals + value, *words[at + 1 :]]
    return words


def _held(words: list[str], chance: random.Random) -> list[str]:
    """A word that a variable holds."""
    at = chance.randrange(len(words))
    if "~" in words[at] or any("v=" in word for word in words):
        return words
    spelled = chance.choice(('"$v"', "$v", "${v}", "${v:-x}") if words[at][:1] not in ("'", '"') else ('"$v"',))
    return [f"v={words[at]};", *words[:at], spelled, *words[at + 1 :]]


def _sibling(words: list[str], chance: random.Random) -> list[str]:
    """A program of the same kind."""
    group = next((group for group in _SIBLINGS if words[0] in group), words[:1])
    return [chance.choice(group), *words[1:]]


def _elsewhere(words: list[str], chance: random.Random) -> list[str]:
    """Another way to the same place."""
    at = chance.randrange(len(words))
    word = words[at]
    if not at or not re.fullmatch(r"(?:~|\.{1,2})?/?[.\w][\w./-]*", word) or "=" in word:
        return words
    home, slash, rest = word.partition("~/")
    if not home and slash:
        return [*words[:at], chance.choice(("$HOME/", "/home/user/", "../", "../../user/")) + rest, *words[at + 1 :]]
    if word.startswith("/"):
        return [*words[:at], chance.choice(("/", "/./", "/home/..")) + word, *words[at + 1 :]]
    return [*words[:at], chance.choice(("./", "a/../", "../project/", "$PWD/")) + word, *words[at + 1 :]]


def _extended(words: list[str], chance: random.Random) -> list[str]:
    """A further option that the table lists for the program."""
    row = rows().get(" ".join(words[:2])) or rows().get(words[0])
    flags = sorted(name for name, option in row.options.items() if not option.kind and not option.mode) if row else []
    if not row or not flags or "tar" in words[0]:  # its first word may be letters without a dash
        return words
    at = len(row.name.split())
    return [*words[:at], chance.choice(flags), *words[at:]]


def _coded(words: list[str], chance: random.Random) -> list[str]:
    """A word in the escapes of bash."""
    at = chance.randrange(len(words))
    if not re.fullmatch(r"[\w./-]+", words[at]):
        return words
    return [*words[:at], "$'" + "".join(f"\\x{ord(c):02x}" for c in words[at]) + "'", *words[at + 1 :]]


_VARIATIONS: tuple[Callable[[list[str], random.Random], list[str]], ...] = (
    _moved, _joined, _shortened, _held, _sibling, _elsewhere, _extended, _coded,
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Print every failure and the numbers; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="fuzz-host", description="Rewrite commands that must not run on the host.")
    parser.add_argument("--count", type=int, default=1000, help="spellings of each command (default: 1000)")
    parser.add_argument("--seed", type=int, default=20240607, help="where the chain of spellings starts")
    options = parser.parse_args(arguments)
    failures = list(run(options.count, options.seed))
    print(*failures, sep="\n")
    print(f"{len(COMMANDS)} commands, {options.count} spellings each: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
