"""Programs that run another command: what they run is judged, with what they add to it."""

from __future__ import annotations

from odek.danger.call import Call, Rule
from odek.danger.options import Arguments, parse_arguments
from odek.danger.risk import Scope
from odek.danger.rules.environment import check_assignment
from odek.danger.rules.table import DESTROY, EXEC, LOCAL, SAFE, SYSTEM, table
from odek.danger.shell import abstract_text
from odek.patterns import pattern

_ASSIGNMENT = pattern(r"[A-Za-z_][A-Za-z0-9_]*=")
_PRIVILEGED = frozenset(("sudo", "doas"))
_POSITIONALS = {"timeout": 1, "chrt": 1, "taskset": 1, "flock": 1, "setarch": 1, "faketime": 1}
_RUNNERS = frozenset(("run", "exec", "x", "dlx", "tool"))


def _parsed(call: Call) -> Arguments:
    return parse_arguments(call.arguments, table().wrapper.get(call.program, ()), stop=True)


def check_wrapper(call: Call) -> None:
    """`nohup`, `timeout`, `nice` …: the command behind their options."""
    arguments = _parsed(call)
    rest = arguments.operands[_POSITIONALS.get(call.program, 0) :]
    if call.program in _PRIVILEGED:
        call.add(SYSTEM, "", "runs a command with the rights of another user", scope=Scope.SYSTEM)
        rest = _without_assignments(call, rest)
    else:
        call.context.add(SAFE, call.program, "runs another command")
    if call.program in ("time", "strace", "ltrace", "stdbuf") and call.program != "stdbuf":
        call.write(*arguments.values("-o", "--output"))
    if call.program == "watch" and not arguments.has("-x", "--exec"):
        call.shell(" ".join(rest), call.state.copy())
    elif call.program == "flock" and arguments.has("-c", "--command"):
        for text in arguments.values("-c", "--command"):
            call.shell(text, call.state.copy())
    elif call.program in ("exec",) and not rest:
        return
    else:
        call.output = call.run(rest, stdin=call.stdin)


def check_command(call: Call) -> None:
    """`command -v` and `type` only show; `command NAME` and `builtin NAME` run."""
    arguments = parse_arguments(call.arguments, (), stop=True)
    if arguments.has("-v", "-V"):
        call.context.add(SAFE, "command", "shows where a command is")
        return
    call.output = call.run(arguments.operands, stdin=call.stdin)


def check_env(call: Call) -> None:
    """`env`: shows everything when it runs nothing."""
    arguments = _parsed(call)
    rest = _without_assignments(call, arguments.operands)
    for text in arguments.values("-S", "--split-string"):
        call.shell(text + " " + " ".join(rest), call.state.copy(), stdin=call.stdin)
        return
    if not rest:
        call.add(SYSTEM, "", "shows the environment, which may hold secrets", scope=Scope.SYSTEM)
        return
    if arguments.has("-C", "--chdir"):
        call.state = call.state.copy()
        call.state.cwds = (abstract_text.ANY,)
    call.context.add(SAFE, "env", "runs another command")
    call.output = call.run(rest, stdin=call.stdin)


def _without_assignments(call: Call, words: tuple[str, ...]) -> tuple[str, ...]:
    index = 0
    while index < len(words) and (_ASSIGNMENT.match(words[index]) or words[index] == "-"):
        name, _, value = words[index].partition("=")
        check_assignment(call.context, name, (value,), program="env")
        index += 1
    return words[index:]


def check_runner(call: Call) -> None:
    """`npx`, `uv run`, `poetry run` …: code of a package; a command that rules know is judged as well."""
    call.add(EXEC, "", "runs a program of a package or of the project")
    arguments = _parsed(call)
    words = arguments.operands
    if call.program == "npx" or call.program == "pnpx":
        for text in parse_arguments(call.arguments, ("-p", "--package", "-c", "--call")).values("-c", "--call"):
            call.shell(text, call.state.copy())
    while words and words[0] in ("--", *_RUNNERS):
        words = words[1:]
    if words and abstract_text.is_exact(words[0]):
        call.run((words[0].partition("@")[0] or words[0], *words[1:]), ignore_unknown=True)


def check_run_subcommand(call: Call) -> None:
    """The command behind `PROGRAM … run [options] COMMAND`."""
    words = _parsed(call).operands
    if not words or words[0] not in _RUNNERS:
        return
    inner = parse_arguments(words[1:], table().wrapper.get(call.program, ()), stop=True).operands
    if inner and abstract_text.is_exact(inner[0]):
        call.run(inner, ignore_unknown=True)


def check_applets(call: Call) -> None:
    """`busybox rm`, the dynamic loader, `gosu USER`: the rest is the command."""
    arguments = parse_arguments(call.arguments, ("--library-path", "--preload", "--argv0", "--audit"), stop=True)
    if call.program == "ld.so":
        call.add(EXEC, "", "loads a program by hand")
    if arguments.operands:
        call.output = call.run(arguments.operands, stdin=call.stdin)
    else:
        call.context.add(SAFE, call.program, "shows its applets")


def check_privileged(call: Call) -> None:
    """`su -c`, `pkexec`, `chroot`: a command elsewhere or as another user."""
    call.add(SYSTEM, "", "runs a command as another user or on another root", scope=Scope.SYSTEM)
    arguments = parse_arguments(
        call.arguments, ("-c", "--command", "-s", "--shell", "-u", "-g", "--user", "-t", "-S", "-G")
    )
    for text in arguments.values("-c", "--command"):
        call.shell(text, call.state.copy())
    skip = 0 if call.program in ("pkexec", "unshare", "bwrap", "firejail", "systemd-run") else 1
    inner = parse_arguments(call.arguments, ("-u", "-g", "--user", "-t", "-S", "-G"), stop=True).operands[skip:]
    if inner and call.program not in ("su", "runuser", "sg"):
        call.run(inner, ignore_unknown=True)


def check_xargs(call: Call) -> None:
    """`xargs`, `parallel`: the operands come from elsewhere, so they may be any place (F-85)."""
    arguments = _parsed(call)
    fed = _fed_operands(call)
    words = arguments.operands
    for path in arguments.values("-a", "--arg-file"):
        call.read(path)
    if call.program == "parallel":
        call.add(EXEC, "", "runs commands made from its input")
        if ":::" in words:
            words, fed = words[: words.index(":::")], words[words.index(":::") + 1 :]
    if not words:
        if call.program == "parallel":
            call.add(EXEC, "lines", "runs its input as commands")
        call.context.add(SAFE, "xargs", "prints its input")
        return
    call.context.add(SAFE, call.program, "runs another command")
    if arguments.has("-I", "--replace") and call.stdin and abstract_text.is_exact(call.stdin):
        fed = (call.stdin.strip(),)
    call.run(_filled(words, arguments, fed))


def _filled(words: tuple[str, ...], arguments: Arguments, fed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with its operands from outside put in."""
    marker = (arguments.values("-I", "--replace", "-J") or ("{}",))[0] or "{}"
    if not any(marker in word for word in words[1:]):
        return (*words, *fed)
    result: list[str] = []
    for word in words:
        if word == marker:
            result.extend(fed)
        else:
            result.append(
                word.replace(marker, abstract_text.SOME if abstract_text.ANY in fed else fed[0] if fed else "")
            )
    return tuple(result)


def _says_something(line: str) -> bool:
    return abstract_text.is_exact(line) or bool(abstract_text.emptied(line))


def _fed_operands(call: Call) -> tuple[str, ...]:
    text = call.stdin
    if text is None:
        return (abstract_text.ANY,)
    if abstract_text.holds_unknown(text) or not text:
        lines = (line for line in text.split("\n")[:16] if line and _says_something(line))
        return (abstract_text.ANY, *lines)
    return tuple(text.replace(abstract_text.EITHER, " ").split()[:16])


def check_kill(call: Call) -> None:
    """`kill`: processes of the same user; number 1 and -1 are all of them."""
    if call.arguments[:1] in (("-l",), ("-L",)):
        call.context.add(SAFE, "kill", "lists signals")
        return
    pairs = zip(("", *call.arguments), call.arguments, strict=False)
    words = [word for before, word in pairs if before not in ("-s", "-n")]
    if call.program == "kill" and ("1" in words or "-1" in words[1:]):
        call.add(DESTROY, "all", "ends every process it may")
    else:
        call.add(LOCAL, "", "signals processes of its own user")


def check_init(call: Call) -> None:
    """`init` and `telinit` with a runlevel that stops the machine."""
    stops = any(word in ("0", "1", "6", "s", "S") for word in call.arguments)
    call.add(DESTROY if stops else SYSTEM, "", "changes the runlevel of the machine", scope=Scope.SYSTEM)


WRAPPER_RULES: dict[str, Rule] = {
    **dict.fromkeys(frozenset("""
        nohup nice ionice setsid stdbuf time timeout exec watch chronic unbuffer sudo doas chrt taskset numactl
        flock setarch linux32 linux64 i386 x86_64 fakeroot faketime strace ltrace xvfb-run dbus-run-session
        catchsegv cross-env env-cmd ssh-agent caffeinate gtimeout proxychains proxychains4 torsocks tsocks tini
        dumb-init coproc noglob nocorrect prlimit choom
        """.split()), check_wrapper),
    **dict.fromkeys(("command", "builtin"), check_command),
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx"), check_runner),
    **dict.fromkeys(("busybox", "toybox", "ld.so"), check_applets),
    **dict.fromkeys(frozenset("""
        su runuser pkexec chroot gosu su-exec unshare nsenter bwrap firejail systemd-run setpriv sg
        """.split()), check_privileged),
    **dict.fromkeys(("xargs", "gxargs", "parallel"), check_xargs),
    **dict.fromkeys(("kill", "pkill", "killall"), check_kill),
    **dict.fromkeys(("init", "telinit"), check_init),
    "env": check_env,
}  # fmt: skip

RUN_SUBCOMMANDS = frozenset(
    """
    uv poetry pdm hatch rye pipenv pipx conda mamba micromamba pixi bundle pnpm yarn npm bun mise rtx direnv
    dotenv devbox asdf dune nix
    """.split()
)
"""programs whose `run` or `exec` takes a command; `npm run NAME` names a script, which no rule knows"""
