"""Shells and other interpreters: code on the command line, in a file, or fed to them."""

from __future__ import annotations

import re
from itertools import islice

from odek.danger.call import Call, Rule
from odek.danger.options import parse_arguments
from odek.danger.paths import is_irreplaceable, names_secret, resolve
from odek.danger.rules.table import BLOCKED, DESTROY, EXEC, LOCAL, SAFE, SYSTEM
from odek.danger.shell import abstract_text
from odek.patterns import pattern

SHELLS = frozenset(
    ("sh", "bash", "zsh", "fish", "dash", "ksh", "mksh", "ash", "csh", "tcsh", "rbash", "busybox-sh", "yash", "oksh")
)
_FED = frozenset(
    """
    node nodejs python pypy pypy3 perl ruby php lua R Rscript julia tclsh expect guile deno bun awk gawk mawk
    nawk ed ex vi vim nvim irb pry jshell ghci iex osascript pwsh powershell psql mysql mariadb sqlite3 mongosh
    at batch crontab gdb bc make patch parallel ssh
    """.split()
)
"""programs that carry out what is fed to them"""
_HARMLESS_WHEN_FED = frozenset(("bc", "patch"))
_DATABASES = frozenset(
    ("psql", "mysql", "mariadb", "sqlite3", "mongosh", "mongo", "duckdb", "clickhouse-client", "cqlsh", "redis-cli")
)
_DROPS = pattern(
    r"\b(?:drop\s+(?:database|schema|table|user|role|keyspace|index|collection)|truncate\b|delete\s+from\s+\S+\s*(?:;|$)|"
    r"flushall|flushdb|dropdatabase|shutdown)|\.drop\s*\(|\.deletemany\s*\(\s*\{\s*\}|\.remove\s*\(\s*\{\s*\}",
    re.IGNORECASE,
)
_DATABASE_SHELL = pattern(
    r"(?:^|\n|;)\s*(?:\\!|\\o\s*\||\\copy\b.*\bprogram\b|\.(?:shell|system|load|import\s*\|)|system\s)"
    r"|\bcopy\b.*\b(?:from|to)\s+program\b|load_extension\s*\(|\\g\s*\||run\s*\(|runprogram|into\s+outfile|load_file\s*\(",
    re.IGNORECASE,
)
_WIPES = pattern(
    r"rmtree\s*\(|remove_tree|rmdirsync|remove_dir_all|rm_rf|rm_r\b|removesync|rmsync\s*\(|unlink\s+glob|shutil\.rmtree|rm\s+-[a-z]*[rf][a-z]*\s+[/~]",
    re.IGNORECASE,
)
_WIPED = pattern(
    r"(?:rmtree|remove_tree|remove_dir_all|rm_rf?|rmsync|rmdirsync|removesync|removetree)\s*\(?\s*[rbuf]?['\"]([^'\"]*)['\"]"
    r"|\brm\s+(?:-\S+\s+)+['\"]?([/~$][^\s'\";|&)]*)",
    re.IGNORECASE,
)
"""the place that is named there"""
_HOME_IN_CODE = pattern(
    r"(?:rmtree|rmsync|rm_rf?|remove_tree|remove_dir_all|removesync)\s*\(?\s*(?:\w+\.)*(?:expanduser\(\s*['\"]~/?['\"]|home\(\)\s*[,)]"
    r"|homedir\(\)\s*[,)]|(?:env|environ|ENV)\W{1,2}HOME\W{0,2}\s*(?:[,);]|$)|getenv\(\s*['\"]HOME['\"])",
    re.IGNORECASE,
)
_MAX_WIPED = 200
_AWK_STRING = pattern(r'"(?:[^"\\\n]|\\.)*"')
_AWK_REGEX = pattern(r"(?<=[~(,!&|{;\s])/(?:[^/\\\n]|\\.)*/|^/(?:[^/\\\n]|\\.)*/")
_AWK_RUNS = pattern(r"\bsystem\s*\(|\bgetline\b|(?<!\|)\|(?!\|)|\|&|@load|@include|\bBEGINFILE\b(?=.*/inet/)")
_AWK_CALL = pattern(r"@\w+\s*\(")
_AWK_WRITES = pattern(r"\bprintf?\b[^;}\n]*?>>?")


def check_shell(call: Call) -> None:
    """`sh -c`, `sh FILE`, `sh` fed by a pipe: code; the text is judged too where it is known."""
    arguments = parse_arguments(call.arguments, ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"), stop=True)
    inner = call.state.copy()
    inner.arguments = None
    options = [o.name for o in arguments.options]
    if not call.arguments and call.stdin is None:
        call.add(EXEC, "", "starts a shell")
        return
    if "-c" in options or arguments.has("--command"):
        call.add(EXEC, "text", "runs text as commands")
        for text in arguments.operands[:1]:
            call.shell(text, inner, stdin=call.stdin)
            if len(arguments.operands) > 1:  # what is certain of its parameters
                given = call.state.copy()
                given.arguments = arguments.operands[2:]
                call.shell(text, given, stdin=call.stdin)
        return
    if arguments.operands and "-s" not in options:
        call.add(EXEC, "file", "runs the commands in a file")
        call.read(*arguments.operands, how="mention")
        return
    call.add(EXEC, "fed", "runs what is fed to it as commands")
    for text in (call.stdin or "").split(abstract_text.EITHER):
        if any(character not in abstract_text.ALL for character in text):
            call.shell(text, inner.copy())


def check_interpreter_words(call: Call) -> None:
    """Code given to an interpreter, beyond the class that its table row gives."""
    if any(names_secret(word) for word in call.arguments):
        call.add(SYSTEM, "secret", "names a file that may hold secrets")
    for text in call.arguments:
        if " " in text or "(" in text:
            _check_wipes(call, text)


def _check_wipes(call: Call, code: str) -> None:
    """Note that code deletes trees, and whether it names one that nothing brings back."""
    if not _WIPES.search(code):
        return
    place = call.context.place
    named = (match[1] or match[2] for match in islice(_WIPED.finditer(code), _MAX_WIPED))
    full = (re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", lambda _: place.home or "/", path) for path in named if path)
    if _HOME_IN_CODE.search(code) or any(is_irreplaceable(resolve(path, place.cwd), place) for path in full):
        call.add(BLOCKED, "all", "deletes a system or a home from code, which nothing brings back")
    call.add(DESTROY, "wipe", "deletes directory trees from code")


def check_database(call: Call) -> None:
    """Statements for a database: deletions, and what leads back to a shell."""
    texts = [*call.arguments, *([call.stdin] if call.stdin else ())]
    joined = " ".join(call.arguments)
    for text in (*texts, joined):
        if _DATABASE_SHELL.search(text):
            call.add(EXEC, "shell", "makes a database client run commands")
        if _DROPS.search(text):
            call.add(DESTROY, "drop", "deletes data")


def check_feed(call: Call) -> None:
    """Check what a pipe or a redirection feeds to a program that carries it out."""
    if call.stdin is None or call.program not in _FED or call.program in _HARMLESS_WHEN_FED:
        return
    if call.program in _DATABASES:
        return
    if call.program in ("awk", "gawk", "mawk", "nawk") and call.arguments:
        return  # input of a program that is given: data
    if call.arguments and _has_script(call):
        return
    call.add(EXEC, "fed", "carries out what is fed to it")
    if names_secret(call.stdin):
        call.add(SYSTEM, "secret", "names a file that may hold secrets")
    _check_wipes(call, call.stdin)


def _has_script(call: Call) -> bool:
    return any(not word.startswith("-") for word in call.arguments)


def _awk_effects(text: str) -> tuple[bool, bool]:
    """Return whether an awk program may run commands, and whether it writes files."""
    plain = _AWK_REGEX.sub("R", _AWK_STRING.sub('""', text))
    runs = bool(_AWK_RUNS.search(plain) or _AWK_CALL.search(plain)) or "/inet" in text
    return runs, bool(_AWK_WRITES.search(plain))


def check_awk(call: Call) -> None:
    """`awk`: a program that may open pipes and files."""
    arguments = parse_arguments(
        call.arguments,
        ("-F", "-v", "-f", "--file", "--field-separator", "--assign", "-e", "--source", "-i", "-E", "-l"),
    )
    scripts = arguments.values("-f", "--file", "-E", "-i", "-l", "--include", "--load", "--exec")
    inline = arguments.values("-e", "--source") or (() if scripts else arguments.operands[:1])
    files = arguments.operands if scripts or arguments.values("-e", "--source") else arguments.operands[1:]
    call.context.add(SAFE, "awk", "only reads")
    if scripts:
        call.add(EXEC, "file", "runs a program from a file")
    for text in inline:
        if not abstract_text.is_exact(text):
            call.add(EXEC, "computed", "runs a program that cannot be known beforehand")
        runs, writes = _awk_effects(text)
        if runs:
            call.add(EXEC, "command", "runs commands or opens pipes from its program")
        if writes:
            call.add(LOCAL, "writes", "writes files from its program")
            _write_names(call, text)
        if names_secret(text):
            call.add(SYSTEM, "secret", "names a file that may hold secrets")
    call.read(*files)


def _write_names(call: Call, text: str) -> None:
    for name in re.findall(r'>>?\s*"([^"]*)"', text):
        call.write(name)
    if re.search(r">>?\s*[A-Za-z$(]", text):
        call.write(abstract_text.ANY)


INTERPRETER_RULES: dict[str, Rule] = {
    **dict.fromkeys(SHELLS, check_shell),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), check_awk),
}
EXTRA_INTERPRETER_RULES: dict[str, Rule] = {
    **dict.fromkeys(_DATABASES, check_database),
    **dict.fromkeys(
        ("python", "pypy", "node", "nodejs", "perl", "ruby", "php", "lua", "deno", "bun", "R", "Rscript", "julia"),
        check_interpreter_words,
    ),
}
