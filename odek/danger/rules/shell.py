"""The builtins of shells that change the shell's state or run text."""

from __future__ import annotations

import re

from odek.danger.call import Call, Rule
from odek.danger.options import parse_arguments
from odek.danger.paths import resolve
from odek.danger.risk import Scope
from odek.danger.rules.environment import check_assignment
from odek.danger.rules.table import EXEC, LOCAL, SAFE, SYSTEM, check_secrets
from odek.danger.shell import abstract_text
from odek.danger.shell.lexer import decode_printf
from odek.danger.shell.state import MAX_CANDIDATES, UNKNOWN, ShellState, Values
from odek.patterns import pattern

_ASSIGNMENT = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
_PLAIN_VARIABLE = pattern(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_[A-Z]+|PWD|OLDPWD|TERM|EDITOR|TZ|TMPDIR|GOPATH|CI|NODE_ENV"
)
MAX_PATH = 4096  # characters, as systems have it
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def check_nothing(call: Call) -> None:
    """`true`, `:`, `exit`, `test`: no effect of their own, and they show nothing."""
    call.context.add(SAFE, call.program, "does nothing outside the shell")
    call.read(*(word for word in call.arguments if "/" in word), how="names")


def check_echo(call: Call) -> None:
    """`echo`: the output is known."""
    call.context.add(SAFE, "echo", "prints text")
    check_secrets(call)
    words = list(call.arguments)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes = escapes or "e" in words[0]
        words.pop(0)
    text = " ".join(words)
    decoded = decode_printf(text) if "\\" in text else text
    # bash prints escapes as they are, dash decodes them: fed to a shell, both texts are judged
    call.output = decoded if escapes or decoded == text else f"{text}{abstract_text.EITHER}{decoded}"


def check_printf(call: Call) -> None:
    """`printf`: the output is known for simple formats; `-v` assigns."""
    call.context.add(SAFE, "printf", "prints text")
    check_secrets(call)
    words = list(call.arguments)
    if words[:1] == ["-v"] and len(words) > 1:
        call.state.assign(words[1], UNKNOWN)
        return
    if words[:1] == ["--"]:
        words.pop(0)
    if not words:
        return
    text = decode_printf(words[0])
    call.output = _formatted(text, words[1:])


def _formatted(form: str, words: list[str]) -> str:
    """Return what printf prints for plain `%s` and `%b`; abstract_text.ANY for other formats."""
    pieces = re.split(r"(%[sb%])", form)
    if any("%" in piece for piece in pieces[::2]):
        return abstract_text.ANY
    if not any(piece in ("%s", "%b") for piece in pieces):
        return form.replace("%%", "%")
    waiting = list(words)
    printed: list[str] = []
    while True:
        for piece in pieces:
            if piece in ("%s", "%b"):
                word = waiting.pop(0) if waiting else ""
                printed.append(decode_printf(word) if piece == "%b" else word)
            else:
                printed.append("%" if piece == "%%" else piece)
        if not waiting:
            return "".join(printed)


def check_cd(call: Call) -> None:
    """`cd` and `pushd`: where relative paths lead from now on."""
    call.context.add(SAFE, "cd", "changes the directory")
    operands = parse_arguments(call.arguments, (), stop=True).operands
    call.read(*operands, how="names")
    call.state.emptied = _where_emptied(call)
    if call.program == "popd" or operands[:1] == ("-",) or any(a[:1] in abstract_text.UNKNOWN for a in call.arguments):
        call.state.cwds = UNKNOWN
        return
    if call.program == "pushd" and not operands:
        call.state.cwds = UNKNOWN
        return
    target = (
        operands[0]
        if operands
        else call.state.variables.get("HOME", (call.context.place.home or abstract_text.ANY,))[0]
    )
    if "CDPATH" in call.state.variables:
        call.state.cwds = UNKNOWN
        return
    cwds = dict.fromkeys(resolve(target, cwd) for cwd in call.state.cwds)
    call.state.cwds = tuple(cwds) if all(len(cwd) < MAX_PATH for cwd in cwds) else UNKNOWN


def _where_emptied(call: Call) -> Values:
    """Return where a `cd` leads if what is unknown of it is empty: unquoted home, quoted nowhere else."""
    state, home = call.state, call.context.place.home
    target = next((word for word in call.arguments if not word.startswith("-")), "")
    if call.program == "popd" or not target:
        return ()
    known = abstract_text.emptied(target)
    if not abstract_text.holds_unknown(target):
        found = () if target.startswith("/") else tuple(resolve(target, cwd) for cwd in state.emptied)
    elif known:
        found = tuple(resolve(known, cwd) for cwd in (*state.cwds, *state.emptied))
    elif target.strip(abstract_text.SPLIT):
        found = (*state.cwds, *state.emptied) if not target.strip(abstract_text.ANY) else ()
    else:
        found = (home,) if home else ()
    return tuple(cwd for cwd in dict.fromkeys(found) if len(cwd) < MAX_PATH)[:MAX_CANDIDATES]


def check_declare(call: Call) -> None:
    """`export`, `declare`, `local`, `readonly`, `typeset`: assignments; without names, all values are shown."""
    arguments = parse_arguments([word for word in call.arguments if not word.startswith("+")], ())
    shows = arguments.has("-p") or not arguments.operands
    if shows and not arguments.has("-f", "-F") and call.program != "local":
        call.add(SYSTEM, "shows", "shows the environment, which may hold secrets", scope=Scope.SYSTEM)
    else:
        call.context.add(SAFE, call.program, "sets variables of the shell")
    reference = arguments.has("-n") and call.program != "export"
    for word in arguments.operands:
        _assign(call, word)
        if reference:
            call.add(EXEC, "reference", "makes one variable stand for another")


def _assign(call: Call, word: str) -> None:
    match = _ASSIGNMENT.fullmatch(word)
    if match:
        values = UNKNOWN if match[2] else (match[3],)
        check_assignment(call.context, match[1], values, program="")
        call.state.assign(match[1], values)
        call.state.splits_oddly = call.state.splits_oddly or match[1] == "IFS"
    elif not _NAME.fullmatch(word):
        call.add(EXEC, "computed", "sets variables that cannot be known beforehand")
        call.state.variables[""] = UNKNOWN


def check_unset(call: Call) -> None:
    """`unset`: the value is gone, so it counts as unknown."""
    call.context.add(SAFE, "unset", "removes variables of the shell")
    for word in call.arguments:
        call.state.functions.pop(word, None)
        call.state.assign(word, UNKNOWN)


def check_read(call: Call) -> None:
    """`read`, `mapfile`, `getopts`, `let`: the variables that are named become unknown."""
    call.context.add(SAFE, call.program, "reads into variables of the shell")
    for word in call.arguments:
        if match := _NAME.match(word):
            call.state.assign(match[0], UNKNOWN)
        elif not word.startswith("-") and not abstract_text.is_exact(word):
            call.state.variables[""] = UNKNOWN
    if call.program in ("mapfile", "readarray"):
        call.state.assign("MAPFILE", UNKNOWN)
        if any(word.startswith("-C") for word in call.arguments):
            call.add(EXEC, "callback", "runs a command for every line")
    if call.program == "let" and any("[" in word for word in call.arguments):
        call.add(EXEC, "subscript", "arithmetic evaluates a subscript, which can run commands")
    call.state.assign("REPLY", UNKNOWN)


def check_set(call: Call) -> None:
    """`set`: alone it shows every variable."""
    if not call.arguments or (call.arguments[0] in ("-o", "+o") and len(call.arguments) == 1):
        shown = not call.arguments
        call.add(SYSTEM if shown else SAFE, "shows", "shows all variables, which may hold secrets", scope=Scope.SYSTEM)
        return
    call.context.add(SAFE, "set", "sets options of the shell")
    if "--" in call.arguments:
        call.state.arguments = call.arguments[call.arguments.index("--") + 1 :]
    elif not call.arguments[0].startswith(("-", "+")):
        call.state.arguments = call.arguments
    elif len(call.arguments) > 1:
        call.state.arguments = None


def check_shift(call: Call) -> None:
    """`shift`: the positional parameters move on."""
    call.context.add(SAFE, "shift", "moves the positional parameters")
    arguments = call.state.arguments
    call.state.arguments = arguments[1:] if arguments and not call.arguments else None


def check_eval(call: Call) -> None:
    """`eval`: its text is run here."""
    call.add(EXEC, "", "runs text as commands")
    if call.arguments:
        call.shell(" ".join(call.arguments), stdin=call.stdin)


def check_source(call: Call) -> None:
    """`.` and `source`: a file's commands run here."""
    call.add(EXEC, "", "runs the commands in a file")
    call.read(*call.arguments[:1], how="mention")


def check_trap(call: Call) -> None:
    """`trap`: text that runs later."""
    operands = parse_arguments(call.arguments, (), stop=True).operands
    if len(operands) < 2 or operands[0] in ("-", ""):
        call.context.add(SAFE, "trap", "sets or shows traps of the shell")
        return
    call.add(EXEC, "", "runs commands later")
    call.shell(operands[0], call.state.copy())


def check_alias(call: Call) -> None:
    """`alias`: a name means other commands from the next line on."""
    definitions = [word.partition("=") for word in call.arguments if "=" in word]
    if not definitions:
        call.context.add(SAFE, "alias", "shows aliases")
    for name, _, text in definitions:
        call.add(EXEC, "", "changes what a command name means")
        call.shell(f'{text} "$@"', _with_unknown_arguments(call))
        call.state.functions.pop(name, None)


def _with_unknown_arguments(call: Call) -> ShellState:
    state = call.state.copy()
    state.arguments = None
    return state


def check_hash(call: Call) -> None:
    """`hash -p`, `enable -f`: names are bound to files."""
    if parse_arguments(call.arguments, ("-p", "-f")).has("-p", "-f"):
        call.add(EXEC, "", "binds a command name to a file")
    else:
        call.context.add(SAFE, call.program, "shows or forgets where commands are")


def check_printenv(call: Call) -> None:
    """`printenv`, `compgen -v`: values of the environment; some variables never hold a secret."""
    if (
        call.program == "printenv"
        and call.arguments
        and all(_PLAIN_VARIABLE.fullmatch(word) for word in call.arguments)
    ):
        call.context.add(SAFE, "printenv", "shows variables that hold no secrets")
        return
    call.add(SYSTEM, "", "shows the environment, which may hold secrets", scope=Scope.SYSTEM)


def check_mktemp(call: Call) -> None:
    """`mktemp`: its output is a new file below the temporary directory."""
    call.context.add(LOCAL, "mktemp", "creates a temporary file")
    arguments = parse_arguments(call.arguments, ("-p", "--tmpdir", "--suffix"))
    folders = arguments.values("-p", "--tmpdir")
    temp = call.context.place.temp[0] if call.context.place.temp else abstract_text.ANY
    if arguments.operands and not arguments.has("-t", "--tmpdir", "-p"):
        call.write(*arguments.operands)
        call.output = arguments.operands[0].replace("XXX", abstract_text.NAME)
    elif folders:
        call.write(*folders)
        call.output = f"{folders[0]}/{abstract_text.NAME}"
    else:
        call.output = f"{temp}/{abstract_text.NAME}"


SHELL_RULES: dict[str, Rule] = {
    **dict.fromkeys(frozenset("""
        true false : test [ exit return break continue wait sleep bind shopt jobs fg bg disown umask ulimit
        times type which logout suspend caller complete
        """.split()), check_nothing),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), check_declare),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let"), check_read),
    **dict.fromkeys(("cd", "pushd", "popd"), check_cd),
    **dict.fromkeys((".", "source"), check_source),
    **dict.fromkeys(("hash", "enable"), check_hash),
    **dict.fromkeys(("printenv", "compgen"), check_printenv),
    "echo": check_echo,
    "printf": check_printf,
    "unset": check_unset,
    "set": check_set,
    "shift": check_shift,
    "eval": check_eval,
    "trap": check_trap,
    "alias": check_alias,
    "mktemp": check_mktemp,
}  # fmt: skip
