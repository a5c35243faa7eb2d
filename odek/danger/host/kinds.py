"""What an operand, or the value of an option, must be: the third column of programs.txt by its words.

A check raises NotUnderstood when it can say why, ValueError when the value is simply not of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odek.danger import languages
from odek.danger.host.awk import check_awk
from odek.danger.host.command import At, Commands
from odek.danger.host.searches import changeable
from odek.danger.host.variables import require_settable
from odek.danger.risk import NotUnderstood
from odek.danger.shell import abstract_text

MAX_PROGRAM = 16_384  # characters of a program of sed, awk or jq: some milliseconds
Check = Callable[[Commands, str, At], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One word of the table."""

    check: Check
    is_path: bool = False


def _any(_rule: Commands, _value: str, _at: At) -> None:
    """Text with which the program can only compare or print it."""


def _text(_rule: Commands, value: str, _at: At) -> None:
    """The same, but one word: what is unknown must not be several."""
    if abstract_text.SPLIT in value:
        raise ValueError


def _form(pattern: str) -> Check:
    compiled = re.compile(pattern, re.DOTALL)

    def check(_rule: Commands, value: str, _at: At) -> None:
        if not compiled.fullmatch(value):
            raise ValueError

    return check


def _language(function: Callable[[str], None]) -> Check:
    def check(_rule: Commands, value: str, _at: At) -> None:
        if not abstract_text.is_exact(value):
            raise NotUnderstood("runs a program that cannot be known beforehand")
        if len(value) > MAX_PROGRAM:
            raise NotUnderstood("runs a program of its own language that is too long to be read")
        function(value)

    return check


def _is_listed(rule: Commands, value: str, at: At) -> bool:
    """Return whether `value` means the paths that a search printed, and all of them may be read."""
    if value != abstract_text.BELOW:
        return False
    roots, ending = changeable(at.fed_by) or ((".",), "")
    rule.places.listed(roots, ending, at.cwds)
    return True


def _read(rule: Commands, value: str, at: At) -> None:
    if value == "-" or _is_listed(rule, value, at):
        return
    if {"tree", "follow"} & at.modes:
        rule.places.tree(value, at.cwds, follows="follow" in at.modes, excluded=at.excluded)
    else:
        rule.places.read(value, at.cwds)


def _visible(rule: Commands, value: str, at: At) -> None:
    """A tree of which hidden files are left alone, but in the mode "hidden"."""
    if value != "-" and not _is_listed(rule, value, at):
        rule.places.tree(value, at.cwds, hidden="hidden" in at.modes)


def _tree(rule: Commands, value: str, at: At) -> None:
    if _is_listed(rule, value, at):
        return
    rule.places.tree(value, at.cwds, follows="follow" in at.modes, excluded=at.excluded)


def _follow(rule: Commands, value: str, at: At) -> None:
    if _is_listed(rule, value, at):
        return
    rule.places.tree(value, at.cwds, follows=True)


def _names(rule: Commands, value: str, at: At) -> None:
    if not value.startswith(abstract_text.BELOW):
        rule.places.names(value, at.cwds)


def _is_found(rule: Commands, value: str, at: At) -> bool:
    """Return whether `value` means the files that a search found, and all of them may be changed."""
    if not value.startswith(abstract_text.BELOW):
        return False
    found = changeable(at.fed_by)
    if found is None:
        raise NotUnderstood("changes files that cannot be known beforehand")
    roots, ending = found
    rule.places.require_untrusted(roots, ending, at.cwds)
    rule.places.contents_unknown = True
    return True


def _write(rule: Commands, value: str, at: At) -> None:
    if value != "-" and not _is_found(rule, value, at):
        rule.places.write(value, at.cwds)
        if "tree" in at.modes:
            rule.places.require_ours(value, at.cwds)


def _remove(rule: Commands, value: str, at: At) -> None:
    if "tree" in at.modes:
        rule.places.remove_tree(value, at.cwds)
    elif not _is_found(rule, value, at):
        rule.places.write(value, at.cwds, removes=True)


def _edit(rule: Commands, value: str, at: At) -> None:
    """Read, and changed where it lies."""
    rule.places.tree(value, at.cwds)
    rule.places.write(value, at.cwds)


def _packed(rule: Commands, value: str, at: At) -> None:
    """As _edit, but the result has another name: with an ending more or less."""
    if value == "-":
        return
    _edit(rule, value, at)
    shorter = value.rpartition(".")[0]
    if shorter and not shorter.endswith("/"):
        rule.places.write(shorter, at.cwds)


def _sed_file(rule: Commands, value: str, at: At) -> None:
    if "write" in at.modes and not _is_found(rule, value, at):
        rule.places.write(value, at.cwds)
    _read(rule, value, at)


def _patch_file(rule: Commands, value: str, at: At) -> None:
    rule.places.read(value, at.cwds)
    rule.places.require_plain_patch(value, at.cwds)


def _manual(rule: Commands, value: str, at: At) -> None:
    """A name, or a page in a file: groff reads further files when one says so."""
    if "/" not in value:
        if not re.fullmatch(r"[A-Za-z0-9_][\w.+@:-]*", value):
            raise ValueError
        return
    rule.places.read(value, at.cwds)
    rule.places.require_without(value, r"(?m)^[.'][ \t]*(?:so|mso|sy|pi|open|opena|cf|trf|psbb)", at.cwds)


def _picture(rule: Commands, value: str, at: At) -> None:
    """A file that is a picture by its first bytes: other formats name further files, or run programs."""
    if not re.fullmatch(r"[\w./-]+\.(?:png|jpe?g|gif|bmp|tiff?)", value):
        raise ValueError
    rule.places.read(value, at.cwds)
    rule.places.require_without(value, r"(?s)\A(?!\x89PNG|\xff\xd8\xff|GIF8|BM|II\*\0|MM\0\*)", at.cwds)


def _video(rule: Commands, value: str, at: At) -> None:
    """The same for a film: a list of files would be read as well."""
    if not re.fullmatch(r"[\w./-]+\.(?:mp4|mov|m4a|m4v)", value):
        raise ValueError
    rule.places.read(value, at.cwds)
    rule.places.require_without(value, r"(?s)\A(?!.{4}ftyp)", at.cwds)


_BLOCK_NUMBERS = frozenset("bs ibs obs count skip seek status conv iflag oflag cbs".split())


def _block(rule: Commands, value: str, at: At) -> None:
    """`dd`: `if=`, `of=`, and numbers."""
    name, _, given = value.partition("=")
    if name == "if":
        rule.places.read(given, at.cwds)
    elif name == "of":
        rule.places.write(given, at.cwds)
    elif name not in _BLOCK_NUMBERS or not re.fullmatch(r"[\w,]+", given):
        raise ValueError


def _revision(rule: Commands, value: str, at: At) -> None:
    """A revision, or a path in the checkout; what speaks of secrets is not printed."""
    if abstract_text.SPLIT in value or value.startswith("--"):
        raise ValueError
    for piece in value.split(":"):
        rule.places.require_no_secret(piece, at.cwds)


def _inside(rule: Commands, value: str, at: At) -> None:
    """The same for `git diff`, which compares any two files when one of them lies outside."""
    _revision(rule, value, at)
    if not abstract_text.is_exact(value.translate({1: None, 2: None, 4: None})):
        raise ValueError
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        rule.places.tree(value, at.cwds, follows=True)
        raise NotUnderstood("compares files outside of the repository")


def _git_pair(_rule: Commands, value: str, _at: At) -> None:
    """`git -c KEY=VALUE`: keys that name no program."""
    key, _, given = value.partition("=")
    if re.fullmatch(r"(?i:core\.pager|pager\.\w+)", key) and given in ("cat", "false", ""):
        return
    if not re.fullmatch(SETTABLE_KEY, key) or given.startswith("!"):
        raise ValueError


def _operand_of_awk(rule: Commands, value: str, at: At) -> None:
    """A file, or `name=value`, which sets a variable of the program."""
    if re.fullmatch(r"[A-Za-z_]\w*=[^\0-\6]*", value):
        if "/" not in value:
            return
        value = value.partition("=")[2]
    _read(rule, value, at)


def _assign(_rule: Commands, value: str, _at: At) -> None:
    name, equals, given = value.partition("=")
    name = name.removesuffix("+")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError
    require_settable(name, (given,) if equals else (abstract_text.ANY,) if name.isupper() else ())


def _variable(_rule: Commands, value: str, _at: At) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise ValueError
    require_settable(value, (abstract_text.ANY,))


def _database(rule: Commands, value: str, at: At) -> None:
    """A file of sqlite: opened read-only, so it is read."""
    rule.places.read(value, at.cwds)


_WORD = r"[^\0-\6]*"
SETTABLE_KEY = (
    r"(?i:user\.(?:name|email)|color\.[\w.]+|core\.(?:quotepath|autocrlf|eol|filemode|ignorecase|abbrev)|pull\.(?:rebase|ff)|"
    r"push\.default|init\.defaultbranch|advice\.\w+|commit\.gpgsign|tag\.gpgsign|merge\.conflictstyle|rebase\.autostash|"
    r"fetch\.prune|diff\.(?:renames|algorithm|noprefix)|log\.(?:date|decorate|showsignature)|status\.\w+|merge\.ff)"
)


def _git_config(_rule: Commands, value: str, _at: At) -> None:
    """A key, or what it is set to; which keys may be set is looked at when all operands are there."""
    if not abstract_text.is_exact(value) or re.search(r"(?i)extraheader|token|password|secret|credential", value):
        raise ValueError


KINDS: Mapping[str, Kind] = {
    "any": Kind(_any),
    "text": Kind(_text),
    "word": Kind(_form(_WORD)),
    "name": Kind(_form(r"[A-Za-z0-9_][\w.+@:/-]*")),
    "num": Kind(_form(r"\x04|[-+]?[0-9][0-9.,:]*[A-Za-z%]{0,3}")),
    "env": Kind(
        _form(r"[A-Za-z_]*(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|PWD|TERM|EDITOR|VERSION|TZ|TMPDIR|GOPATH)")
    ),
    "suffix": Kind(_form(r"[\w.~-]*")),
    "format": Kind(_form(r"(?!-)[^\0-\6]*")),
    "plus": Kind(_form(r"\+[^\0-\6]*")),
    "mode": Kind(_form(r"[0-7]{1,3}|0?[0-7]{3}|[ugoa]*(?:[-+=][rwxX]*)+(?:,[ugoa]*(?:[-+=][rwxX]*)+)*")),
    "size": Kind(_form(r"[-+<>/%]?[0-9]+[A-Za-z]{0,3}")),
    "signal": Kind(_form(r"(?:SIG)?[A-Z][A-Z0-9+-]*|[0-9]+")),
    "process": Kind(_form(r"(?!1$)[0-9]+|%[0-9+-]+|%%")),
    "program": Kind(_form(r"[A-Za-z][\w .:/-]{2,}")),
    "ps": Kind(_form(r"[aflmruvwxjsLTU]{1,8}|[0-9,]+|\x04")),
    "setoption": Kind(_form(r"pipefail|errexit|nounset|xtrace|noclobber|noglob|verbose")),
    "gitformat": Kind(_form(r"(?!.*%(?:G|\(trailers|\(raw))[^\0-\6]*")),
    "gitkey": Kind(_form(r"[A-Za-z][\w-]*(?:\.[\w./:@-]+)*\.[A-Za-z][\w-]*")),
    "read": Kind(_read, is_path=True),
    "tree": Kind(_tree, is_path=True),
    "follow": Kind(_follow, is_path=True),
    "names": Kind(_names),
    "write": Kind(_write, is_path=True),
    "remove": Kind(_remove, is_path=True),
    "awkfile": Kind(_operand_of_awk, is_path=True),
    "visible": Kind(_visible, is_path=True),
    "edit": Kind(_edit, is_path=True),
    "packed": Kind(_packed, is_path=True),
    "sedfile": Kind(_sed_file, is_path=True),
    "patchfile": Kind(_patch_file, is_path=True),
    "block": Kind(_block, is_path=True),
    "rev": Kind(_revision, is_path=True),
    "inside": Kind(_inside, is_path=True),
    "gitpair": Kind(_git_pair),
    "gitconfig": Kind(_git_config),
    "awkset": Kind(_form(r"[A-Za-z_]\w*=[^\0\1-\3\5\6]*|[A-Za-z_]\w*=[\0\4]")),
    "never": Kind(_form(r"never|auto|none|local")),
    "giturl": Kind(_form(r"(?:https?|ssh|git)://[\w.@:/~+-]+|[\w.-]+@[\w.-]+:[\w./~+-]+|(?!-)[\w./~-]+")),
    "manual": Kind(_manual, is_path=True),
    "picture": Kind(_picture, is_path=True),
    "video": Kind(_video, is_path=True),
    "filter": Kind(_form(r"(?:(?:scale|fps|crop|transpose|hflip|vflip|setsar|setdar|pad)(?:=[\w:./-]+)?,?)+")),
    "package": Kind(_form(r"(?!.*\.\./)[A-Za-z0-9_.][\w.+@:/-]*")),
    "bare": Kind(_form(r"[A-Za-z0-9_][\w.+@:-]*")),
    "columns": Kind(_form(r"(?!.*env)[a-z0-9%_,:=]+")),
    "listing": Kind(_form(r"show|list|ls|dev|[A-Za-z0-9.@-]+")),
    "bundlekey": Kind(_form(r"path|without|with|jobs|frozen|deployment|clean|cache_path|retry|timeout|bin")),
    "database": Kind(_database, is_path=True),
    "assign": Kind(_assign),
    "variable": Kind(_variable),
    "sed": Kind(_language(languages.check_sed)),
    "awk": Kind(_language(check_awk)),
    "jq": Kind(_language(languages.check_jq)),
    "yq": Kind(_language(languages.check_path_expression)),
    "dotcommand": Kind(_form(r"\.(?:tables|schema|databases|indexes|indices)(?: [\w%]+)?|\.(?:help|version)")),
}
