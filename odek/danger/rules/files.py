"""Programs that remove, move, link and overwrite files."""

from __future__ import annotations

import re
from itertools import islice

from odek.danger.call import Call, Rule
from odek.danger.options import Arguments, parse_arguments
from odek.danger.paths import classify_write, is_block_device, is_wipe_target, resolve, trusted_name
from odek.danger.risk import NotUnderstood
from odek.danger.rules.table import BLOCKED, DESTROY, EXEC, LOCAL, NET, SAFE, SYSTEM
from odek.danger.shell import abstract_text
from odek.patterns import pattern

_REMOTE = pattern(r"(?:[^/\s:]+@)?[^/\s:]+:(?!//)|rsync://|[a-z]+://")
_SED_FILE = pattern(r"(?=([wWrR])[ \t]*([^\n]+))")
"""what may be a command of sed that names a file, or the flag of a substitution: `s/a/b/w FILE`"""
_MAX_SED_FILES = 200
_SPECIAL_MODE = pattern(r"[0-7]*[2-7][0-7]{3}$")


_ALWAYS_RECURSIVE = ("rimraf", "del-cli", "trash")


def _wipes(call: Call, path: str) -> bool:
    return any(is_wipe_target(resolve(path, cwd), call.context.place) for cwd in call.state.cwds)


def _add_deletion(call: Call, rule: str, path: str, reason: str) -> None:
    """Note that the tree at `path` goes: more than a part of the project, perhaps a system or a home (R-296)."""
    if why := call.why_irreplaceable(path):
        call.add(BLOCKED, "all", f"deletes {_shown(path)}{why}")
    call.add(DESTROY, rule, reason)


def _unclear(arguments: Arguments) -> tuple[str, ...]:
    """Return the arguments that may be options as well as operands."""
    return tuple(option.name for option in arguments.options if option.name[:1] in abstract_text.UNKNOWN)


def check_rm(call: Call) -> None:
    """`rm`: how much it deletes depends on where."""
    arguments = parse_arguments(call.arguments, ("--interactive",))
    operands = (*arguments.operands, *_unclear(arguments))
    recursive = arguments.has("-r", "-R", "--recursive") or call.program in _ALWAYS_RECURSIVE
    forced = recursive or arguments.has("-f", "--force")
    for path in operands:
        broad = any(mark in path for mark in (abstract_text.STAR, abstract_text.ONE))
        unknown = abstract_text.holds_unknown(path) or abstract_text.BELOW in path
        if recursive and (unknown or _wipes(call, path)):
            reason = f"deletes the tree at {_shown(path)}, which is not just a part of the project"
            _add_deletion(call, "tree", path, reason)
        elif (forced or broad) and _is_whole(call, abstract_text.emptied(path) if unknown else path):
            _add_deletion(call, "tree", path, f"deletes {_shown(path)}, which is not just a part of the project")
    call.write(*operands)
    if not operands:
        call.add(LOCAL, "", "removes files")


def _is_whole(call: Call, path: str) -> bool:
    """Return whether a forced removal, though not recursive, takes away everything in a directory."""
    if path.rstrip("/") in (".", "..", "~") or path.endswith("/.."):
        return True
    return _wipes(call, path) and (any(mark in path for mark in abstract_text.GLOBS) or _is_root_like(call, path))


def _is_root_like(call: Call, path: str) -> bool:
    home = call.context.place.home
    return any(resolve(path, cwd) in ("/", home, call.context.place.workspace) for cwd in call.state.cwds)


def check_shred(call: Call) -> None:
    """`shred`: as `rm`, beyond recovery."""
    arguments = parse_arguments(call.arguments, ("-n", "--iterations", "-s", "--size", "--random-source"))
    for path in (*arguments.operands, *_unclear(arguments)):
        if any(is_block_device(resolve(path, cwd)) for cwd in call.state.cwds) or _wipes(call, path):
            _add_deletion(call, "", path, f"overwrites {_shown(path)} beyond recovery")
        call.write(path)
    call.add(LOCAL, "", "overwrites files")


def check_move(call: Call) -> None:
    """`mv`, `cp`, `ln`, `install`: the last operand, or a directory given by option, is written."""
    arguments = parse_arguments(
        call.arguments, ("-t", "--target-directory", "-S", "--suffix", "-m", "--mode", "-o", "--owner", "-g", "--group")
    )
    targets = arguments.values("-t", "--target-directory")
    operands = (*arguments.operands, *_unclear(arguments))
    makes_folders = call.program == "install" and arguments.has("-d", "--directory")
    sources = operands if targets else operands[:-1]
    call.add(LOCAL, "", "changes files")
    if makes_folders or (call.program == "ln" and len(operands) == 1):
        call.write(*(operands if makes_folders else (operands[0].rpartition("/")[2],)))
        return
    folders = targets or operands[-1:]
    call.write(*folders)
    for folder in folders:  # the target may be a directory: then the source's name counts
        call.write(*(f"{folder}/{source.rstrip('/').rpartition('/')[2]}" for source in sources))
    if call.program in ("mv", "gmv"):
        _check_taken_away(call, sources)
    elif call.program in ("cp", "gcp", "install"):
        call.read(*sources)
    elif call.program in ("ln", "link"):
        call.read(*(path for path in sources if path.startswith("/")), how="names")  # others: from the link on
    if call.program == "install" and _special(arguments.values("-m", "--mode")):
        call.add(SYSTEM, "mode", "gives a program the rights of its owner")


def _check_taken_away(call: Call, sources: tuple[str, ...]) -> None:
    for path in sources:
        if abstract_text.holds_unknown(path):
            call.write(path)
        elif _is_whole(call, path) or _is_root_like(call, path):
            call.add(DESTROY, "tree", f"moves {_shown(path)} away")
        else:
            call.write(path)


def _special(modes: tuple[str, ...]) -> bool:
    return any(_SPECIAL_MODE.fullmatch(mode) or re.search(r"[+=][rwxXt]*s", mode) for mode in modes)


def check_chmod(call: Call) -> None:
    """`chmod`: setuid and setgid, and whole trees that are not the project's."""
    words = [word for word in call.arguments if not re.fullmatch(r"-[rwxXst]+", word) or word == "-R"]
    arguments = parse_arguments(words, ("--reference",))
    removes = [word for word in call.arguments if re.fullmatch(r"-[rwxXst]+", word)]
    operands = (*arguments.operands, *_unclear(arguments))
    mode, files = (("",), operands) if removes or arguments.has("--reference") else (operands[:1], operands[1:])
    call.add(LOCAL, "", "changes the rights of files")
    if _special(tuple(mode)) or any(abstract_text.holds_unknown(text) for text in mode):
        call.add(SYSTEM, "mode", "gives a program the rights of its owner")
    for path in files:
        if arguments.has("-R", "--recursive") and _wipes(call, path) and not _is_workspace(call, path):
            call.add(SYSTEM, "tree", f"changes the rights of the whole tree at {_shown(path)}")
        call.write(path)


def _is_workspace(call: Call, path: str) -> bool:
    place = call.context.place
    return place.workspace != place.home and all(
        resolve(path, cwd).rstrip(f"/{abstract_text.STAR}") == place.workspace for cwd in call.state.cwds
    )


def check_dd(call: Call) -> None:
    """`dd`: what it writes to."""
    call.add(LOCAL, "", "copies blocks")
    for word in call.arguments:
        name, _, path = word.partition("=")
        if name == "of":
            call.write(path)
        elif name == "if":
            call.read(path)
        elif abstract_text.holds_unknown(word):
            call.write(word)


def check_rsync(call: Call) -> None:
    """`rsync`: local, or over the network when an operand names a host."""
    arguments = parse_arguments(
        call.arguments, ("-e", "--rsh", "--exclude", "--include", "-f", "--filter", "--exclude-from")
    )
    operands = (*arguments.operands, *_unclear(arguments))
    if any(_REMOTE.match(word) for word in operands):
        call.add(NET, "remote", "copies over the network")
        call.read(*(word for word in operands if not _REMOTE.match(word)))
    for path in operands[-1:]:
        if not _REMOTE.match(path) and len(operands) > 1 and not _is_plain_target(call, path):
            call.write(path)
        deletes = any(option.name.startswith("--del") for option in arguments.options)
        if deletes and (why := call.why_irreplaceable(path)):
            call.add(BLOCKED, "all", f"deletes what {_shown(path)} holds{why}")
    call.read(*operands[:-1])
    call.context.add(SAFE, "rsync", "copies files and deletes none")


def _is_plain_target(call: Call, path: str) -> bool:
    """`rsync a b` inside the project counts as harmless (runtime 5.3.2): nothing is deleted."""
    if not abstract_text.is_exact(path) or path.startswith((".", "/")):
        return False
    places = [resolve(path, cwd) for cwd in call.state.cwds]
    return all(
        classify_write(place, call.context.place).level is LOCAL and not trusted_name(place, call.context.place)
        for place in places
    )


def check_sed(call: Call) -> None:
    """`sed`: a filter, unless its script runs commands or writes, or `-i` edits in place."""
    arguments = parse_arguments(
        call.arguments, ("-e", "--expression", "-f", "--file", "-l", "--line-length"), whole=False
    )
    files = arguments.values("-f", "--file")
    inline = arguments.values("-e", "--expression")
    operands = arguments.operands
    in_place = any(o.name in ("-i", "-I") or o.name.startswith("--i") for o in arguments.options)
    if not files and not inline:
        if in_place and operands[:1] == ("",):  # BSD: sed -i '' SCRIPT
            operands = operands[1:]
        inline, operands = operands[:1], operands[1:]
    call.context.add(SAFE, "sed", "only reads")
    if files:
        call.add(EXEC, "file", "runs a script from a file")
    for script in inline:
        _check_script(call, script)
    if in_place:
        call.write(*operands, *_unclear(arguments))
    call.read(*operands)


def _check_script(call: Call, script: str) -> None:
    from odek.danger.languages import check_sed  # few commands need it

    if not abstract_text.is_exact(script):
        script = script.translate(dict.fromkeys(map(ord, abstract_text.ALL), "_"))
    try:
        check_sed(script)
    except NotUnderstood:  # what is not read completely may run commands, and name files to read and write
        call.add(EXEC, "command", "may run commands from its script")
        named = list(islice(_SED_FILE.finditer(script), _MAX_SED_FILES))
        for match in named:
            call.write(match[2]) if match[1] in "wW" else call.read(match[2])
        if len(named) == _MAX_SED_FILES:
            call.write(abstract_text.ANY)


def check_tar(call: Call) -> None:
    """`tar`: lists, packs, or unpacks into a directory."""
    words = call.arguments
    if words and re.fullmatch(r"[A-Za-z]+", words[0]) and words[0][0] in "ctxrudA":  # the old style without a dash
        words = ("-" + words[0], *words[1:])
    arguments = parse_arguments(
        words, ("-f", "--file", "-C", "--directory", "-I", "-T", "-X", "--exclude", "-b", "-g", "-K", "-F")
    )
    names = {option.name for option in arguments.options}
    archives = arguments.values("-f", "--file") or _old_style_file(words, arguments)
    if "-t" in names or arguments.has("--list", "--compare") or "-d" in names:
        call.context.add(SAFE, "tar", "lists an archive")
        call.read(*archives)
        return
    call.add(LOCAL, "", "packs or unpacks files")
    if any(_REMOTE.match(name) for name in archives):
        call.add(NET, "remote", "reaches an archive on another machine")
    folders = arguments.values("-C", "--directory")
    if "-x" in names or arguments.has("--extract", "--get"):
        call.write(*(folders or (".",)))
        call.read(*archives)
    else:
        call.write(*archives)
        call.read(*arguments.operands)


def _old_style_file(words: tuple[str, ...], arguments: Arguments) -> tuple[str, ...]:
    return arguments.operands[:1] if words and words[0].startswith("-") and "f" in words[0] else ()


def check_unzip(call: Call) -> None:
    """`unzip`: lists, or unpacks into the directory or `-d`."""
    arguments = parse_arguments(call.arguments, ("-d", "-P", "-x"))
    if arguments.has("-l", "-v", "-t", "-Z", "-z", "-p", "-c"):
        call.context.add(SAFE, "unzip", "reads an archive")
    else:
        call.add(LOCAL, "", "unpacks files")
        call.write(*(arguments.values("-d") or (".",)))
    call.read(*arguments.operands[:1])


def check_truncate(call: Call) -> None:
    """`tee`, `truncate`: every operand is written; `tee` shows what it is fed."""
    arguments = parse_arguments(call.arguments, ("-s", "--size", "-r", "--reference", "--output-error"))
    call.write(*arguments.operands, *_unclear(arguments))
    for path in arguments.operands:
        if any(mark in path for mark in abstract_text.GLOBS) and _wipes(call, path):
            call.add(DESTROY, "all", f"empties {_shown(path)}")
    if not arguments.operands:
        call.context.add(SAFE, call.program, "passes its input on")


def _shown(path: str) -> str:
    return abstract_text.rendered(path) if len(path) < 60 else abstract_text.rendered(path[:59]) + "…"


FILE_RULES: dict[str, Rule] = {
    **dict.fromkeys(("rm", "grm", "srm", "rimraf", "del-cli", "trash", "unlink"), check_rm),
    **dict.fromkeys(("mv", "cp", "ln", "install", "gmv", "gcp", "link"), check_move),
    **dict.fromkeys(("tar", "gtar", "bsdtar", "star"), check_tar),
    **dict.fromkeys(("sed", "gsed"), check_sed),
    **dict.fromkeys(("tee", "truncate", "sponge"), check_truncate),
    "unzip": check_unzip, "shred": check_shred, "chmod": check_chmod, "dd": check_dd, "rsync": check_rsync,
}  # fmt: skip
