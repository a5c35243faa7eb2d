"""What runs on the host without a question: nothing that is not understood to its last word."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import fuzz_host

from odek.danger.classify import classify
from odek.danger.host.kinds import KINDS
from odek.danger.host.obeyed import obeyed
from odek.danger.host.table import lay_out, parse_rows, rows
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Decision, Policy, PolicyContext, decide
from odek.danger.risk import NotUnderstood
from odek.host_executor.look import HostLook

pytestmark = pytest.mark.once  # no Python can make a difference

HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")


def decided(command: str, place: Place = HOST, *, interactive: bool = True) -> Decision:
    return decide(classify(command, place), command, Policy(table=HOST_TABLE, interactive=interactive))


def asks(command: str, place: Place = HOST) -> bool:
    return decided(command, place).action != "allow"


@pytest.mark.parametrize("command", fuzz_host.COMMANDS)
def test_what_is_not_understood_asks(command: str) -> None:
    """E7, F9: code, variables, places; each ran unasked when the rules knew only what is bad."""
    assert asks(command)
    assert decided(command, interactive=False).action == "deny"


@pytest.mark.parametrize(
    "command",
    r"""
find . -name __pycache__ -prune -exec rm -rf {} +
find . -name '*.py' -exec wc -l {} +
find . -name '*.pyc' -delete
node -v
python3 -V
java -version
printenv PATH
printenv HOME LANG
cat /etc/hosts
ls ~/.ssh
ls -la ~/.ssh
cat ~/.ssh/id_rsa.pub
sqlite3 a.db .tables
sqlite3 -readonly a.db '.schema'
crontab -l
systemctl status
systemctl --no-pager status nginx
journalctl -u nginx -n 50
awk -F: 'NR>1 && $3 > 100 {print $2, length($1)}' f
sed -n '10,20p' f
sed -i -e 's|^v||' -e '/^#/d' f
sed 's/[^/]*$//' f
jq -r '.items[] | {name, url: .html_url} | "\(.name)"' f
git -c color.ui=always log --oneline -5
git diff HEAD~1 -- src
FOO=bar ls
LC_ALL=C sort f
PAGER=cat git log
x=5; echo $((x + 1))
i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done
for i in 1 2 3; do touch file$i; done
tmp=$(mktemp -d) && cp a "$tmp/" && rm -rf "$tmp"
echo hi > a.txt && cat a.txt
find . -name '*.txt' -print0 | xargs -0 grep -l x
grep -rl old src | xargs sed -i 's/old/new/g'
f() { ls "src"; }; f
""".strip().splitlines(),
)
def test_harmless_forms_of_everyday_commands_run(command: str) -> None:
    """F18: a question that nobody needs teaches people to say yes."""
    assert decided(command).action == "allow", decided(command).reason


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf ~", "cd ~ && rm -rf *", "cd ~ && rm -rf .", "rm -rf /tmp/x", "rm -rf ~/work", "rm -rf /tmp/x/work",
        "rm -rf ~/.ssh", "rm -rf /tmp/y/../x/work", "cd ~/work && rm -rf ../other",
    ],
)  # fmt: skip
def test_home_below_the_temporary_folder_is_home(command: str) -> None:
    """A10: what is under HOME is HOME before it is a temporary file."""
    place = Place(home="/tmp/x", cwd="/srv/p", workspace="/srv/p")
    assert decided(command, place).action == "deny"
    assert decided("rm -rf /tmp/y", place).action == "allow"


def test_question_says_what_was_not_understood() -> None:
    assert decided("less -k x f").reason == "option -k of less is not known to be harmless"
    assert decided("dc -e 1p").reason == "dc is not known to be harmless"
    assert decided("FOOBAR_X=1 ls").reason == "sets FOOBAR_X, which programs may obey"


@pytest.mark.parametrize(
    ("command", "rememberable"),
    [
        ("less -k x f", True),
        ("make; less -k x f", True),
        ('awk "$(cat x)"', False),
        ("less -k x f > .envrc", False),
        ("less -k x f; weird", False),
        ("less -k x f; rm -rf /", False),
    ],
)
def test_trust_is_for_the_exact_form(command: str, rememberable: bool) -> None:
    """A yes to one form is none to another; what cannot be known beforehand is no form."""
    decision = decided(command)
    assert (decision.rememberable, decision.batchable) == (rememberable, False)
    context = PolicyContext(place=HOST, policy=Policy(table=HOST_TABLE)).trusting_command("less -k x f")
    assert context.decide_command("less -k x f").action == "allow"
    assert context.decide_command("less -k y f").action == "prompt"


PARSED = sorted(name for name, row in rows().items() if row.operands != ("any*",))
"""programs of which options and operands matter"""


def test_every_program_asks_for_an_option_that_nobody_listed() -> None:
    """E7: the direction of the table."""
    assert [name for name in PARSED if not asks(f"{name} --invented-option")] == []


def test_every_program_asks_for_an_operand_that_cannot_be_told() -> None:
    """E7: an unknown word may be the worst option that the program has."""
    assert [name for name in PARSED if not asks(f'{name} "$(cat x)"')] == []


def test_every_program_with_subcommands_asks_for_one_that_nobody_listed() -> None:
    """E7: also for a group of subcommands, `git bisect view`."""
    branching = [name for name, row in rows().items() if row.operands == ("sub",)]
    assert [name for name in branching if not asks(f"{name} invented x")] == []


def test_other_spellings_of_what_asks_ask_too() -> None:
    """A short run of `scripts/fuzz-host`, which does 1,000 of each."""
    assert list(fuzz_host.run(4, seed=11)) == []


def test_no_letter_is_an_option_by_itself() -> None:
    """E7: each option of a program that is not listed is refused by its name."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    for row in map(rows().__getitem__, PARSED):
        for letter in letters:
            if f"-{letter}" not in row.options and not (letter.isdigit() and "-NUM" in row.options):
                with pytest.raises(NotUnderstood, match="is not known to be harmless"):
                    lay_out(row, (f"-{letter}", "x"))


def test_table_names_only_kinds_that_exist() -> None:
    for row in rows().values():
        kinds = {spec.partition("/")[0].rstrip("*+?") for spec in row.operands} - {"cmd", "sub"}
        kinds |= {option.kind for option in row.options.values() if option.kind}
        assert kinds <= set(KINDS), row.name


def test_row_stands_once() -> None:
    with pytest.raises(ValueError, match="a has two rows"):
        parse_rows("a | none | none\na | -b | none\n")


@pytest.fixture
def project(tmp_path: Path) -> Place:
    """A project with what an attacker may have left there."""
    home = tmp_path / "home"
    root = home / "project"
    for folder in (".git", "nest/.git", "bare/objects", "bare/refs", "options", "sub", "plain"):
        (root / folder).mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("secret")
    (root / ".git" / "config").write_text("[core]\n\tbare = false\n")
    (root / "nest" / ".git" / "config").write_text("[core]\n\tfsmonitor = ./x\n")
    (root / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "a.txt").write_text("a")
    (root / "innocent.txt").symlink_to("../.ssh/id_rsa")
    (root / "out").symlink_to("../..")
    (root / "options" / "--compress-program=x").write_text("")
    (root / "sub" / ".env").write_text("TOKEN=1")
    (root / "plain" / "b.py").write_text("b")
    (root / "good.patch").write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+x\n")
    (root / "bad.patch").write_text("--- a/.envrc\n+++ b/.envrc\n@@ -0,0 +1 @@\n+x\n")
    return Place(home=str(home), cwd=str(root), workspace=str(root), temp=(), look=HostLook())


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("cat a.txt", True),
        ("cat innocent.txt", False),
        ("cat *.txt", False),
        ("cat a*.txt", True),
        ("cp innocent.txt b", False),
        ("mv innocent.txt b", False),
        ("echo x > out/x", False),
        ("ls out", True),
        ("cat out/../a.txt", False),
        ("cd options && sort *", False),
        ("sort options/*", True),
        ("cd options && sort -- *", True),
        ("grep -r x .", False),
        ("grep -r x --exclude='.env*' .", True),
        ("grep -r x plain", True),
        ("rg x", True),
        ("rg --hidden x", False),
        ("cp -r sub sub2", False),
        ("tar cf x.tar sub", False),
        ("cp -r plain plain2", True),
        ("git status", True),
        ("cd plain && git status", True),
        ("git -C nest status", False),
        ("cd nest && git status", False),
        ("cd bare && git log", False),
        ("patch -p1 < good.patch", True),
        ("patch -p1 < bad.patch", False),
        ("git apply bad.patch", False),
        ("find plain -name '*.py' | xargs wc -l", True),
        ("ln -s plain/b.py b; cat b", False),
    ],
)
def test_places_are_judged_where_they_lead(project: Place, command: str, runs: bool) -> None:
    """F9: links, globs, nested repositories, secrets in a tree."""
    assert (decided(command, project).action == "allow") is runs, decided(command, project).reason


@pytest.mark.parametrize(
    ("config", "runs"),
    [
        ('[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n', True),
        ("[core]\n\tpager = ./x\n", False),
        ("[CORE] fsMonitor = ./x\n", False),
        ('[diff "x"]\n\ttextconv = ./x\n', False),
        ("[include]\n\tpath = ./x\n", False),
        ("[core] ; note\n\teditor \\\n = x\n", False),
        ("[alias]\n\tstatus = !x\n", False),
        ('[filter "x"]\n\tclean = x\n', False),
        ("?\n", False),
    ],
)
def test_git_runs_unasked_only_when_its_config_runs_nothing(project: Place, config: str, runs: bool) -> None:
    """E7: `.git` of this checkout, too."""
    (Path(project.cwd) / ".git" / "config").write_text(config)
    assert (decided("git status", project).action == "allow") is runs


def test_git_commit_asks_when_a_hook_would_run(project: Place) -> None:
    assert decided("git commit -m x", project).action == "allow"
    hooks = Path(project.cwd) / ".git" / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("x")
    assert decided("git commit -m x", project).reason == "git would run its hook pre-commit"
    assert decided("git status", project).action == "allow"


OBEYING = {
    "cargo": "cargo tree", "rustc": "rustc -V", "rustfmt": "rustfmt --version", "rustup": "rustup show",
    "npm": "npm ls", "npx": "npx -v",
    "yarn": "yarn list", "pnpm": "pnpm ls", "dotnet": "dotnet sln list", "poetry": "poetry show",
    "uv pip": "uv pip list", "uv python": "uv python find", "composer": "composer show", "hg": "hg status",
    "bundle": "bundle config set path x", "ctags": "ctags --version", "etags": "etags --version",
    "npm version": "npm version 1.0.0", "npm uninstall": "npm uninstall x", "npm remove": "npm remove x",
    "npm rm": "npm rm x", "npm un": "npm un x", "yarn remove": "yarn remove x", "pnpm remove": "pnpm remove x",
    "bundle show": "bundle show x", "composer remove": "composer remove x",
}  # fmt: skip
"""a command for each program of obeyed.txt that is not a command by itself"""
CASES = sorted({(OBEYING.get(name, name), file) for name, files in obeyed().items() for file, _ in files})


@pytest.mark.parametrize(("command", "file"), CASES)
def test_program_that_obeys_a_file_of_the_project_asks(project: Place, command: str, file: str) -> None:
    """E7: a checkout can hold it, so it is looked at, here and above."""
    assert decided(command, project).action == "allow", decided(command, project).reason
    (Path(project.cwd) / file).mkdir(parents=True)
    for spelled in (command, f"cd plain && {command}"):
        assert f"obeys {file.rpartition('/')[2]}, which" in decided(spelled, project).reason


@pytest.mark.parametrize(
    ("file", "text", "command", "runs"),
    [
        ("rust-toolchain.toml", '[toolchain]\nchannel = "1.80"\n', "cargo tree", True),
        ("rust-toolchain.toml", '[toolchain]\npath = "./x"\n', "cargo --version", False),
        ("rust-toolchain", '[toolchain]\n"p\\u0061th" = "./x"\n', "rustup show", False),
        (".cargo/config.toml", "[net]\nretry = 3\n", "cargo metadata", True),
        (".cargo/config.toml", '[build]\nrustc = "./x"\n', "cargo metadata", False),
        (".cargo/config.toml", '[alias]\nfmt = "run"\n', "cargo fmt", False),
        ("package.json", '{"packageManager": "yarn@4.1.0+sha256.abc"}', "yarn list", True),
        ("package.json", '{"packageManager": "yarn@https://x/y.js"}', "yarn --version", False),
        ("package.json", '{"package\\u004danager": "yarn@https://x/y.js"}', "npm ls", False),
        ("package.json", '{"scripts": {"version": "./x"}}', "npm version 1.0.0", False),
        ("package.json", '{"scripts": {"build": "./x"}}', "npm version 1.0.0", True),
        (".yarnrc.yml", "nodeLinker: node-modules\n", "yarn why x", True),
        (".yarnrc.yml", "yarnPath: ./x.cjs\n", "yarn why x", False),
        (".npmrc", "script-shell=./x\n", "npm version 1.0.0", False),
        ("pnpm-workspace.yaml", "packages: [a]\n", "pnpm ls", True),
        ("pnpm-workspace.yaml", "pnpmfile: x.cjs\n", "pnpm ls", False),
        ("global.json", '{"sdk": {"paths": ["x"]}}', "dotnet sln list", False),
        (".bundle/config", 'BUNDLE_GEMFILE: "x"\n', "bundle list", False),
    ],
)
def test_text_of_what_a_program_obeys_counts(project: Place, file: str, text: str, command: str, runs: bool) -> None:
    """E7: an ordinary setting is no reason to ask, one that names code is."""
    path = Path(project.cwd) / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert (decided(command, project).action == "allow") is runs, decided(command, project).reason


@pytest.mark.parametrize(
    "command",
    [
        "echo x > package.json; npm version 1.0.0",
        "npm version 1.0.0; echo x > package.json",
        "npm version 1.0.0 & tee package.json < a.txt",
        "npm pkg set scripts.version=x; npm version 1.0.0",
        "cp a.txt package.json && npm version 1.0.0",
        "sed -i s/a/b/ package.json; npm version 1.0.0",
        "find plain -name '*.json' | xargs sed -i s/a/b/; npm version 1.0.0",
        "mkdir rust-toolchain; cargo tree",
        "cp a.txt rust-toolchai[n]; cargo tree",
        "f() { tee rust-toolchain < a.txt; }; f; cargo tree",
        "for i in 1 2; do patch -p1 < good.patch; cat a.txt > good.patch; done",
        "echo x > good.patch; patch -p1 < good.patch",
        "git checkout other; cargo tree",
        "cd /usr && npm ls",
        'cd "$x" && npm ls',
    ],
)
def test_what_the_command_line_itself_changes_is_not_relied_on(project: Place, command: str) -> None:
    """F9: a file is looked at before the command line runs, which may make another of it."""
    assert asks(command, project)


def test_folder_in_place_of_a_file_is_seen_as_none(tmp_path: Path) -> None:
    assert HostLook().text(str(tmp_path)) is None


@pytest.mark.parametrize(
    "command",
    ["look x /srv/x", "tsort /srv/x", "more -p /srv/x", "rev -s x /srv/x", "pip list --outdated", "pytest --version"],
)
def test_options_are_those_of_each_program_alone(command: str) -> None:
    """E7: one row for several programs lent them each other's options and kinds of operands."""
    assert asks(command)
