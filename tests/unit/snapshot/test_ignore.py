"""What is ignored, compared with what git itself ignores."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from odek.snapshot.ignore import IgnoreRules, parse_patterns

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is what it is compared with")


def listed(top: bytes, rules: IgnoreRules, below: bytes = b"") -> set[bytes]:
    """Return the files below `top` that are not ignored, as a walk finds them."""
    found = set()
    for name in os.listdir(os.path.join(top, below)):
        path = os.path.join(below, name)
        is_folder = os.path.isdir(os.path.join(top, path)) and not os.path.islink(os.path.join(top, path))
        if name == b".git" or rules.ignores(name, is_folder=is_folder):
            continue
        if not is_folder:
            found.add(path)
            continue
        own = os.path.join(top, path, b".gitignore")
        patterns = parse_patterns(Path(os.fsdecode(own)).read_bytes()) if os.path.isfile(own) else ()
        found |= listed(top, rules.enter(name, patterns), path)
    return found


def git_lists(top: Path) -> set[bytes]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1"}
    out = subprocess.run(
        ["git", "-C", str(top), "ls-files", "--others", "--exclude-standard", "-z"],
        capture_output=True, check=True, env=environment,
    ).stdout  # fmt: skip
    return set(out.split(b"\0")) - {b""}


def own_rules(top: Path) -> IgnoreRules:
    exclude, own = top / ".git" / "info" / "exclude", top / ".gitignore"
    rules = IgnoreRules(parse_patterns(exclude.read_bytes()) if exclude.exists() else ())
    return IgnoreRules(parse_patterns(own.read_bytes()) if own.exists() else (), rules)


def make_repository(top: Path) -> None:
    top.mkdir()
    subprocess.run(["git", "init", "-q", str(top)], check=True, capture_output=True)


def make_files(top: Path, names: list[bytes]) -> None:
    for name in names:
        path = os.path.join(os.fsencode(top), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.lexists(path):
            with open(path, "wb"):
                pass


ODD = re.compile(rb"[^/*]\*\*+(/|$)")
"""where git compares a literal beginning by itself, so `**` behind it counts as if it began the pattern"""
NAMES = (
    b"a", b"b", b"ab", b"a.o", b"a.c", b"foo", b"foo bar", b"foo ", b"build", b"a/b", b"a-b", b"a]b", b"[x]", b"a*b",
    b"!a", b"#a", b"a\\b", b"caf\xc3\xa9", b"\xff\xfe", b".hidden", b"A", b"a\nb", b"*", b"**", b"?", b"x^y", b"d/e",
)  # fmt: skip
TABLE = (
    b"*.o\n!a.o\n", b"/a\n", b"a/\n", b"a/b\n", b"**/b\n", b"a/**\n", b"a/**/b\n", b"**\n!*/\n!b\n", b"foo \n",
    b"foo\\ \n", b"\\#a\n", b"\\!a\n", b"#a\n", b"!a\n", b"[ab]\n", b"[!a]\n", b"[^a]\n", b"[a-c].o\n", b"[]-]\n",
    b"a[]]b\n", b"a[-]b\n", b"[[:alpha:]]\n", b"[[:upper:]]\n", b"[[:nope:]]\n", b"[a\n", b"a\\\n", b"?\n", b"\\?\n",
    b"\\*\n", b"a\\*b\n", b"\xef\xbb\xbfa\n", b"a\r\n", b"a\r", b"/\n", b"//\n", b"a//\n", b"***/b\n", b"a**b\n",
    b"/*\n!/build\n", b"/**/b\n", b"d\\/e\n", b"d[/]e\n", b"*a*\n", b"caf??\n", b"caf?\n", b"\xff*\n", b"   \n", b"",
    b"a/*\n!a/b\n", b"build/\n!build/a\n", b"[\\]]\n", b"[a-\\c]\n", b"[z-a]\n", b"*/b\n", b"**/a/**/b\n", b"a b",
    b"[[]x]\n",
    b"[[:x]\n", b"[[:]x:]]\n", b"x[\\^]y\n",
)  # fmt: skip


@needs_git
def test_each_form_of_a_pattern_ignores_what_git_ignores(tmp_path: Path) -> None:
    """R-270: names, anchors, `**`, classes, negation, folders, spaces, line ends, escapes, byte order mark."""
    top = tmp_path / "top"
    make_repository(top)
    inner = [b"%s/%s" % (folder, name) for folder in (b"build", b"sub/deep") for name in NAMES if b"/" not in name]
    names = [name for name in NAMES if name not in (b"a", b"build")] + inner
    for number, patterns in enumerate(TABLE):
        make_files(top, [b"case%d/%s" % (number, name) for name in names])
        (top / f"case{number}" / ".gitignore").write_bytes(patterns)
    assert by_case(listed(os.fsencode(top), own_rules(top))) == by_case(git_lists(top))


def by_case(paths: set[bytes]) -> dict[str, list[bytes]]:
    """Return the paths by the pattern of their folder, so that a difference names it."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(paths):
        case, _, name = path.partition(b"/")
        found.setdefault(repr(TABLE[int(case[4:])]), []).append(name)
    return found


@needs_git
@pytest.mark.parametrize("seed", range(3))
def test_nested_files_of_random_patterns_ignore_what_git_ignores(seed: int, tmp_path: Path) -> None:
    """R-270: .gitignore in several folders and .git/info/exclude, with negation across them."""
    draw = random.Random(seed)
    pieces = [b"a", b"b", b"*", b"**", b"/", b"/", b"?", b"[ab]", b"[!b]", b"x", b"\\a", b"c", b"[a-c]"]

    def lines() -> bytes:
        made = []
        for _ in range(draw.randint(1, 5)):
            line = b"".join(draw.choice(pieces) for _ in range(draw.randint(1, 6)))
            if not ODD.search(line):
                made.append(draw.choice([b"", b"", b"!", b"/"]) + line + draw.choice([b"", b"", b"/", b" "]))
        return b"\n".join(made) + draw.choice([b"\n", b""])

    top = tmp_path / "top"
    make_repository(top)
    (top / ".git" / "info" / "exclude").write_bytes(b"[!b]x\n/n1?/x\nb/c/\n!aa\n")
    for number in range(40):
        folders = [b"n%d/%s" % (number, name) for name in (b"", b"a/", b"b/", b"a/b/", b"a/b/c/", b"x/a/", b"x/x/b/")]
        make_files(top, [folder + name for folder in folders for name in (b"aa", b"ax", b"bx", b"cb", b"xx", b"abc")])
        for folder in draw.sample(folders, 4):
            (top / os.fsdecode(folder) / ".gitignore").write_bytes(lines())
    assert sorted(listed(os.fsencode(top), own_rules(top))) == sorted(git_lists(top))


def test_a_pattern_that_would_be_tried_in_many_ways_is_tried_in_one() -> None:
    """R-270: a project's patterns cannot hold odek up."""
    rules = IgnoreRules(parse_patterns(b"*a" * 100 + b"b\n" + b"**/" * 60 + b"x/" + b"*a" * 50 + b"c\n"))
    for _ in range(100):
        rules = rules.enter(b"a" * 200)
    assert not rules.ignores(b"a" * 250, is_folder=False)
