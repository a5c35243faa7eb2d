"""Programs that search for files and may act on what they find: `find` and `fd`."""

from __future__ import annotations

from odek.danger.call import Call, Rule
from odek.danger.options import parse_arguments
from odek.danger.paths import is_wipe_target, resolve
from odek.danger.rules.table import BLOCKED, DESTROY, EXEC, LOCAL, SAFE
from odek.danger.shell import abstract_text
from odek.patterns import pattern

_EXEC = ("-exec", "-execdir", "-ok", "-okdir")
_PRINTING = ("-fprint", "-fprint0", "-fls", "-fprintf")
_NAMING = ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex")
_LOOSENING = ("!", "-not", "-o", "-or", ",", "(", "\\(")
_EMPTYING = ("rm", "unlink", "shred", "truncate", "mv")


ARTEFACT = pattern(
    r"__pycache__|node_modules|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.tox|\.nyc_output|\.DS_Store|Thumbs\.db|"
    r"(?:\*|[\w-]*\*)\.(?:py[cod]|o|obj|class|orig|rej|bak|tmp|swp|log|egg-info|gcda|gcno)|\*~|\*\.py\[co\]"
)
"""names of what a build or a run makes again"""
HARMLESS_FOR_FOUND = frozenset(
    "wc grep egrep fgrep ls stat file head tail md5sum sha1sum sha256sum du chmod basename".split()
)
"""programs that `find -exec` may run: their own rule says what they do with what is found"""


def check_find(call: Call) -> None:
    """`find`: reads names; `-delete` and `-exec` act on what is found (F-85)."""
    starts, words = _split(call.arguments)
    call.context.add(SAFE, "find", "only reads names")
    call.read(*starts, how="names")
    if "-delete" in words:
        _check_delete(call, starts, words[: words.index("-delete")] if not _loosened(words) else ())
    elif any(word[:1] in abstract_text.UNKNOWN for word in words):
        _check_delete(call, starts, (), certain=False)
    for index, word in enumerate(words):
        if word in _PRINTING:
            call.add(LOCAL, "print", "writes what it finds to a file")
            call.write(*words[index + 1 : index + 2])
        elif word in _EXEC:
            inner = _inner(words[index + 1 :])
            if word == "-exec" and inner[:1] == ("rm",) and _is_artefact(words[:index]):
                _check_delete(call, starts, words[:index])
                continue
            if word != "-exec" or not inner or inner[0] not in HARMLESS_FOR_FOUND:
                call.add(EXEC, "exec", "runs a command for what it finds")
            if word in ("-exec", "-execdir") and inner and inner[0].rpartition("/")[2] in _EMPTYING:
                _check_delete(call, starts, words[:index])
            call.run(_filled(inner, starts))
            _run_for(call, inner, () if _is_narrowed(words[:index]) else starts)
        elif word in ("-files0-from",):
            call.read(*words[index + 1 : index + 2])


def _split(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the starting points and the expression."""
    index = 0
    while index < len(arguments) and arguments[index] in ("-H", "-L", "-P", "-D", "-E", "-X", "-x"):
        index += 1
    start = index
    while index < len(arguments) and not arguments[index].startswith(("-", "(", "!")):
        index += 1
    return arguments[start:index] or (".",), arguments[index:]


def _check_delete(call: Call, starts: tuple[str, ...], words: tuple[str, ...], *, certain: bool = True) -> None:
    """Deleting below the workspace by a name is cleaning up; deleting all of it is not."""
    named = _is_named(words)
    for start in starts:
        places = [resolve(start, cwd) for cwd in call.state.cwds]
        inside = all(not is_wipe_target(place + ("/x" if named else ""), call.context.place) for place in places)
        if not inside:
            call.add(DESTROY, "delete", f"deletes what it finds below {abstract_text.rendered(start)}")
    for start in () if _is_narrowed(words) or not certain else starts:
        if why := call.why_irreplaceable(start):
            call.add(BLOCKED, "all", f"deletes all below {abstract_text.rendered(start)}{why}")
    call.add(LOCAL, "delete", "deletes files that it finds by name")


def _irreplaceable(call: Call, starts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the starting points at which a system or a home is."""
    return tuple(start for start in starts if call.why_irreplaceable(start))


def _run_for(call: Call, inner: tuple[str, ...], starts: tuple[str, ...]) -> None:
    """Check the command of a search for those starting points themselves: it gets them, too."""
    for start in _irreplaceable(call, starts):
        call.run(tuple(word.replace("{}", start) for word in inner))


def _is_narrowed(words: tuple[str, ...]) -> bool:
    """Return whether only what has a certain name is found, or what is empty."""
    return _is_named(words) or ("-empty" in words and not _loosened(words))


def _loosened(words: tuple[str, ...]) -> bool:
    return any(word in _LOOSENING for word in words)


def _is_named(words: tuple[str, ...]) -> bool:
    """Return whether every file found has a name that says something, whatever else holds."""
    if _loosened(words):
        return False
    patterns = [words[i + 1] for i, word in enumerate(words[:-1]) if word in _NAMING]
    return any(sum(character.isalnum() for character in pattern) >= 2 for pattern in patterns)


def _is_artefact(words: tuple[str, ...]) -> bool:
    """Return whether all that is found is what a build makes again."""
    names = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-name", "-iname")]
    return not _loosened(words) and any(ARTEFACT.fullmatch(name) for name in names)


def _inner(words: tuple[str, ...]) -> tuple[str, ...]:
    for index, word in enumerate(words):
        if word == ";" or (word == "+" and index and words[index - 1] == "{}"):
            return words[:index]
    return words


def _filled(words: tuple[str, ...], starts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with what is found put in: places below the starting points."""
    found = tuple(f"{start.rstrip('/') or '/'}/{abstract_text.BELOW}" for start in starts)
    result: list[str] = []
    for word in words:
        if word == "{}":
            result.extend(found)
        else:
            result.append(word.replace("{}", found[0]) if "{}" in word else word)
    return tuple(result)


def check_fd(call: Call) -> None:
    """`fd`: as `find`, with `-x` and `-X` taking the rest of the line."""
    call.context.add(SAFE, "fd", "only reads names")
    words = call.arguments
    for index, word in enumerate(words):
        if word in ("-x", "-X") or (word.startswith("--exe") and "--exec-batch".startswith(word.partition("=")[0])):
            call.add(EXEC, "exec", "runs a command for what it finds")
            inner = _inner(words[index + 1 :])
            inner = inner if "{}" in inner else (*inner, "{}")
            call.run(_filled(inner, (".",)))
            words = words[:index]
            arguments = parse_arguments(words, ("-e", "-t", "-d", "-E"))
            unclear = tuple(each.name for each in arguments.options if each.name[:1] in abstract_text.UNKNOWN)
            wanted, starts = next(iter(arguments.operands), ""), (*arguments.operands[1:], *unclear)
            if sum(character.isalnum() for character in wanted) < 2 and "-e" not in words:
                _run_for(call, inner, tuple(filter(None, starts)))
            break
        if word.startswith("-") and not word.startswith("--") and ("x" in word or "X" in word):
            call.add(EXEC, "exec", "runs a command for what it finds")
    call.read(*parse_arguments(words, ("-e", "-t", "-d", "-E")).operands, how="names")


def found_paths(call: Call) -> str:
    """Return what a search prints when every starting point lies in the directory: paths below it."""
    starts, words = _split(call.arguments) if call.program == "find" else ((), ())
    everywhere = () if _is_narrowed(words) else _irreplaceable(call, starts)
    if everywhere:
        return "\n".join((*everywhere, abstract_text.ANY))
    return (
        abstract_text.BELOW
        if all(not start.startswith(("/", "..", "~")) and abstract_text.is_exact(start) for start in starts)
        else abstract_text.ANY
    )


FIND_RULES: dict[str, Rule] = {
    **dict.fromkeys(("find", "gfind"), check_find),
    **dict.fromkeys(("fd", "fdfind"), check_fd),
}
