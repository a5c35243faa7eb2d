"""Programs whose words need more than a row: prepared before it is asked, or looked at again afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from odek.danger.host.command import At, Commands
from odek.danger.host.kinds import SETTABLE_KEY
from odek.danger.host.table import Layout, Row, lay_out, rows
from odek.danger.host.variables import require_settable
from odek.danger.risk import NotUnderstood
from odek.danger.rules.finding import ARTEFACT, HARMLESS_FOR_FOUND
from odek.danger.shell import abstract_text
from odek.patterns import pattern

Special = Callable[[Commands, Row, tuple[str, ...], At], tuple[str, ...]]
"""returns the words that are left for the row"""
After = Callable[[Commands, Layout, At], None]
_ASSIGNMENT = pattern(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_REMOVING = (("rm", "-rf", "{}"), ("rm", "-r", "{}"), ("rm", "-f", "{}"), ("rm", "{}"), ("rm", "-fr", "{}"))
_JOINING = frozenset(("-o", "-or", "!", "-not", ",", "(", ")"))


def _find(rule: Commands, _row: Row, words: tuple[str, ...], at: At) -> tuple[str, ...]:
    """`find`: what it runs for each file, and whether it deletes more than what a build makes."""
    kept: list[str] = []
    removes, index = False, 0
    while index < len(words):
        word = words[index]
        if word == "-exec":
            end = next((i for i in range(index, len(words)) if words[i] in (";", "+")), len(words))
            inner = words[index + 1 : end]
            if inner in _REMOVING:
                removes = True
            elif not inner or inner[0] not in HARMLESS_FOR_FOUND or inner.count("{}") != 1:
                raise NotUnderstood("find runs a command for what it finds")
            else:
                filled = tuple(abstract_text.BELOW if part == "{}" else part for part in inner)
                rule.run(filled, replace(at, stdin=None, fed_by=("find", *words[:index])))
            index = end + 1
            continue
        removes = removes or word == "-delete"
        kept.append(word)
        index += 1
    if removes:
        _require_artefacts(rule, kept, at)
    return tuple(word for word in kept if word not in ("!", "(", ")", ","))


def _require_artefacts(rule: Commands, words: list[str], at: At) -> None:
    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-name", "-iname")]
    if _JOINING & set(words) or not any(ARTEFACT.fullmatch(name) for name in named):
        raise NotUnderstood("find deletes files that no build makes again")
    starts = []
    for word in words:
        if word.startswith("-"):
            break
        starts.append(word)
    for start in starts or ["."]:
        rule.places.write(start.rstrip("/") + "/x", at.cwds, removes=True)


def _env(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`env NAME=value PROGRAM`: the variables are taken off."""
    index = 0
    while index < len(words) and (match := _ASSIGNMENT.fullmatch(words[index])):
        require_settable(match[1], (match[2],))
        index += 1
    return words[index:]


def _tar(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`tar xzf A`: letters without a dash, whose values follow in their order: only `f` may have one."""
    if words and re.fullmatch(r"[A-Za-z]+", words[0]):
        if words[0].count("f") > 1 or ("f" in words[0] and words[0][-1] != "f"):
            raise NotUnderstood(f"the letters {words[0]} of tar are not known to be harmless")
        return (f"-{words[0]}", *words[1:])
    return words


def _tar_after(rule: Commands, layout: Layout, at: At) -> None:
    """What is packed is read as a tree, what is unpacked is written."""
    actions = layout.modes & {"create", "extract", "list"}
    archives = [value for option, _, value in layout.values if option in ("-f", "--file")]
    folders = [value for option, _, value in layout.values if option in ("-C", "--directory")]
    if len(actions) != 1 or len(archives) > 1 or len(folders) > 1:
        raise NotUnderstood("this form of tar is not known to be harmless")
    if any(":" in archive or any(mark in archive for mark in abstract_text.GLOBS) for archive in archives):
        raise NotUnderstood("tar may reach another machine, or several archives")
    if actions == {"create"}:
        for archive in archives:
            rule.places.write("" if archive == "-" else archive, at.cwds)
        if folders:
            raise NotUnderstood("tar packs files of another folder")
        for operand in layout.operands:
            rule.places.tree(operand, at.cwds)
        return
    for archive in archives:
        rule.places.read("" if archive == "-" else archive, at.cwds)
    if actions == {"extract"}:
        _unpack(rule, archives[0] if archives else "-", folders[0] if folders else ".", at)


def _unpack(rule: Commands, archive: str, folder: str, at: At) -> None:
    rule.places.require_plain_members(archive, folder, at.cwds)


def _unzip_after(rule: Commands, layout: Layout, at: At) -> None:
    if not layout.modes:
        folders = [value for option, _, value in layout.values if option == "-d"]
        _unpack(rule, layout.operands[0] if layout.operands else "-", folders[0] if folders else ".", at)


def _copy_after(rule: Commands, layout: Layout, at: At) -> None:
    """`cp`, `mv`, `ln`, `install`: the target may be a folder, and then takes the name of the source."""
    *sources, target = layout.operands if len(layout.operands) > 1 else (*layout.operands, ".")
    moves = at.row in ("mv", "gmv")
    rule.places.require_new_name(target)
    if "tree" in layout.modes or at.row == "rsync":
        rule.places.require_ours(target, at.cwds)
    for source in sources:
        name = source.rstrip("/").rpartition("/")[2]
        if name not in ("", ".", "..") and abstract_text.is_exact(name):
            rule.places.write(f"{target.rstrip('/') or '/'}/{name}", at.cwds)
        if moves:
            rule.places.write(source, at.cwds, removes=True)
            rule.places.tree(source, at.cwds) if rule.places.is_ours(source, at.cwds) else rule.places.read(
                source, at.cwds
            )
            if rule.places.made_of_links(source, at.cwds):
                rule.note_links()
        elif at.row in ("ln", "link"):
            _require_link_target(rule, source, target, at)
    if "tree" in layout.modes:
        rule.note_links()


def _require_link_target(rule: Commands, source: str, target: str, at: At) -> None:
    """A relative target starts from where the link lies."""
    folders = [target.rpartition("/")[0] or "."] if len(target) > 1 and not target.endswith("/") else [target]
    for folder in folders if not source.startswith("/") else ["."]:
        joined = source if source.startswith("/") else f"{folder.rstrip('/') or '/'}/{source}"
        if rule.places.is_ours(joined, at.cwds):
            rule.places.tree(joined, at.cwds)
        else:
            rule.places.read(joined, at.cwds)


def _xargs(rule: Commands, _row: Row, words: tuple[str, ...], at: At) -> tuple[str, ...]:
    """The operands come from the input: paths of the project that a search printed, or nothing that is known."""
    layout = lay_out(rows()["xargs"], words)
    inner = layout.operands or ("echo",)
    listing = rows().get(inner[0])
    if listing and listing.globs and listing.operands == ("names*",):  # whatever it is given, it shows names
        rule.run(inner, replace(at, stdin=abstract_text.ANY))
        return words[: len(words) - len(layout.operands)]
    fed = abstract_text.BELOW if at.stdin == abstract_text.BELOW else abstract_text.ANY
    marker = next((value for option, _, value in layout.values if option in ("-I", "-i", "--replace")), "")
    if marker and any(marker in word for word in inner[1:]):
        filled = tuple(word.replace(marker, fed) for word in inner)
    else:
        filled = (*inner, fed)
    rule.run(filled, replace(at, stdin=abstract_text.ANY))
    return words[: len(words) - len(layout.operands)] if layout.operands else words


def _jq(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`--arg NAME VALUE` has two values."""
    kept: list[str] = []
    index = 0
    while index < len(words):
        if words[index] in ("--arg", "--argjson"):
            index += 3
        else:
            kept.append(words[index])
            index += 1
    return tuple(kept)


def _test(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`test -v NAME` evaluates a subscript in bash, and an unknown word may be `-v`."""
    inner = words[:-1] if words[-1:] == ("]",) else words
    if any(word in ("-v", "-R") for word in inner):
        raise NotUnderstood("test -v may run a subscript")
    unknown = [index for index, word in enumerate(inner) if not abstract_text.is_exact(word)]
    if not unknown or len(inner) == 1:
        return ()
    operators = [index for index, word in enumerate(inner) if index not in unknown and _is_test(word)]
    if any(abstract_text.SPLIT in inner[index] for index in unknown) or len(inner) > 4 or not operators:
        raise NotUnderstood("test compares words that cannot be known beforehand")
    if len(inner) - (inner[0] == "!") == 2 and operators[-1] + 1 not in unknown:
        raise NotUnderstood("test compares words that cannot be known beforehand")
    return ()


def _is_test(word: str) -> bool:
    return word in ("=", "==", "!=", "<", ">") or bool(re.fullmatch(r"-[a-zA-Z]{1,2}", word))


def _kill(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`kill -TERM 12`: a signal looks like an option."""
    if words and re.fullmatch(r"-(?:[0-9]{1,2}|(?:SIG)?[A-Z][A-Z0-9]{1,6})", words[0]) and len(words) > 1:
        return words[1:]
    if len(words) > 2 and words[0] == "-s" and re.fullmatch(r"(?:SIG)?[A-Z][A-Z0-9]{1,6}|[0-9]+", words[1]):
        return words[2:]
    return words


def _watch(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`watch` hands its words to a shell, which must not find anything in them."""
    if not all(re.fullmatch(r"[\w./:,=+@%-]+", word) for word in words):
        raise NotUnderstood("watch hands its words to a shell")
    return words


def _command(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """`command -v NAME` only shows where it is."""
    return ("true",) if words[:1] in (("-v",), ("-V",)) else words


def _sed(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    """BSD: the ending of the copy that `-i` keeps is a separate word; GNU takes the empty one for a script."""
    if "" in words and words.index("") and words[words.index("") - 1] == "-i":
        index = words.index("")
        return (*words[:index], *words[index + 1 :])
    return words


def _sed_after(rule: Commands, layout: Layout, at: At) -> None:
    files = layout.operands if "script" in layout.modes else layout.operands[1:]
    for option, _, suffix in layout.values:
        if option in ("-i", "--in-place") and suffix:
            for file in files:
                rule.places.write(file + suffix, at.cwds)


def _rsync(_rule: Commands, _row: Row, words: tuple[str, ...], _at: At) -> tuple[str, ...]:
    if any(":" in word for word in words):
        raise NotUnderstood("rsync may reach another machine")
    return words


def _git_config(_rule: Commands, layout: Layout, _at: At) -> None:
    """One operand is read; two set a key, which must be one that names no program."""
    if len(layout.operands) == 1 or (layout.options & {"--get", "--get-all"} and len(layout.operands) < 3):
        return
    if len(layout.operands) != 2 or not re.fullmatch(SETTABLE_KEY, layout.operands[0]) or layout.options:
        raise NotUnderstood("this form of git config is not known to be harmless")


def _patched(rule: Commands, layout: Layout, at: At) -> None:
    """`patch`, `git apply`: a patch in a file, or fed to it."""
    if layout.operands or any(kind == "patchfile" for _, kind, _ in layout.values) or "done" in layout.modes:
        return
    if at.fed_from:
        rule.places.require_plain_patch(at.fed_from, at.cwds)
    elif at.stdin and abstract_text.is_exact(at.stdin):
        rule.places.require_plain_patch_text(at.stdin, at.cwds)
    else:
        raise NotUnderstood(f"{at.row} takes a patch from its input, which cannot be known beforehand")


SPECIAL: Mapping[str, Special] = {
    **dict.fromkeys(("find", "gfind"), _find),
    "env": _env,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("xargs", "gxargs"), _xargs),
    **dict.fromkeys(("jq", "gojq", "jaq"), _jq),
    **dict.fromkeys(("test", "["), _test),
    **dict.fromkeys(("kill", "pkill", "killall"), _kill),
    **dict.fromkeys(("sed", "gsed"), _sed),
    "watch": _watch,
    "command": _command,
    "rsync": _rsync,
}
AFTER: Mapping[str, After] = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar_after),
    "unzip": _unzip_after,
    **dict.fromkeys(("7z x", "7za x", "7zr x"), _unzip_after),
    **dict.fromkeys(("cp", "gcp", "mv", "gmv", "ln", "gln", "install", "rsync"), _copy_after),
    **dict.fromkeys(("sed", "gsed"), _sed_after),
    "git config": _git_config,
    **dict.fromkeys(("patch", "git apply", "git am"), _patched),
}
