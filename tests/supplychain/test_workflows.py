"""What runs on the project's own runners: pinned, with few rights, and without a secret where strangers run code."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
USES = re.compile(r"^\s*(?:- )?uses: *(\S+)(.*)$", re.MULTILINE)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def jobs_of(path: Path) -> dict[str, str]:
    """Return name → text of each job; the files are written in one style, two blanks a level."""
    _, _, jobs = text_of(path).partition("\njobs:\n")
    parts = re.split(r"^  (\w+):\n", jobs, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_are_workflows() -> None:
    """The tests below look at something."""
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    assert sorted(jobs_of(WORKFLOWS[0])) == ["build", "containers", "lint", "test"]
    assert sorted(jobs_of(WORKFLOWS[1])) == ["assemble", "attest", "build", "publish", "verify"]


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name_of)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    """A tag can be moved; the comment says which one it was."""
    for action, rest in USES.findall(text_of(path)):
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest), f"{action}{rest}"


def test_an_action_is_the_same_everywhere() -> None:
    used = {action for path in WORKFLOWS for action, _ in USES.findall(text_of(path))}
    assert len(used) == len({action.partition("@")[0] for action in used})


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_rights_are_given_job_by_job(path: Path) -> None:
    """Nothing by default; each right with its reason."""
    assert re.search(r"^permissions: \{\}$", text_of(path), re.MULTILINE)
    for job, text in jobs_of(path).items():
        rights = re.search(r"^    permissions:\n((?:      .+\n)+)", text, re.MULTILINE)
        assert rights, f"{job} does not say which rights it has"
        for line in rights[1].splitlines():
            assert re.fullmatch(r" {6}[a-z-]+: (read|write) # .+", line), f"{job}: {line}"
        assert "timeout-minutes:" in text, job


def test_nothing_that_strangers_trigger_has_a_secret_or_can_write() -> None:
    """R-91 ff.: a pull request runs the code of whoever made it."""
    for path in WORKFLOWS:
        text = text_of(path)
        if "pull_request" in text:
            assert "pull_request_target" not in text
            assert "secrets" not in re.sub(r"#.*", "", text)
            assert "github.token" not in text
            assert ": write" not in text


def test_only_two_jobs_can_do_anything_and_neither_runs_the_code_of_the_build() -> None:
    writing = {job: text for job, text in jobs_of(WORKFLOWS[1]).items() if ": write" in text}
    assert sorted(writing) == ["attest", "publish"]
    for job, text in writing.items():
        assert "actions/checkout" not in text, job
        assert not re.search(r"scripts/|build/|dist/odek|python", text), job


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_checkout_keeps_no_credential(path: Path) -> None:
    text = text_of(path)
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name_of)
def test_no_expression_stands_in_a_command(path: Path) -> None:
    """A branch name can hold a command; values reach a shell through its environment only."""
    for command in re.findall(r"^( *)(?:- )?run: \|?\n?((?:.*\n)(?:\1 {2,}.*\n|\n)*)", text_of(path), re.MULTILINE):
        for line in command[1].splitlines():
            assert "${{" not in line or re.match(r" *[A-Z_]+: ", line), line


def commands_of(path: Path) -> list[str]:
    """Return what each `run:` gives to a shell."""
    step = r"^( *)(?:- )?run: (?:\|\n((?:\1 +\S.*\n|\n)+)|(.+)\n)"
    return [textwrap.dedent(block or line) for _, block, line in re.findall(step, text_of(path) + "\n", re.MULTILINE)]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here")
@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name_of)
def test_commands_are_sound_shell(path: Path) -> None:
    commands = commands_of(path)
    assert len(commands) == len(re.findall(r"^ *(?:- )?run:", text_of(path), re.MULTILINE)) > 0
    for command in commands:
        checked = subprocess.run(
            # the runner gives the variables; `sh` is what the action asks for, and no step needs more
            ["shellcheck", "--shell", "sh", "--exclude", "SC2154", "-"],
            input=command,
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, f"{command}\n{checked.stdout}"


def test_what_a_workflow_calls_is_there() -> None:
    for path in WORKFLOWS:
        for called in re.findall(r"(?:^|\s)((?:\.github|scripts|build)/[\w./-]+)", re.sub(r"#.*", "", text_of(path))):
            assert (ROOT / called).is_file(), called


def test_what_makes_the_binary_is_pinned_by_hash() -> None:
    text = (ROOT / "build" / "requirements.txt").read_text()
    entries = [entry for entry in re.sub(r"#.*", "", text).replace("\\\n", " ").splitlines() if entry.strip()]
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+(?: +--hash=sha256:[0-9a-f]{64})+ *", entry), entry
    assert {entry.split("==")[0] for entry in entries} >= {"pyinstaller", "pyinstaller-hooks-contrib"}
