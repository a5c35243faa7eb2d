"""The steps of docs/CI.md and of the action odek-run, run in a shell with a runner's variables (issue: CI kit)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.odek_process import ROOT, Odek

pytestmark = pytest.mark.once

ACTION = ROOT / ".github" / "actions" / "odek-run"
WRITE = ("shell", {"command": "echo made >made.txt; echo '::set-output name=x::y'"})
HOSTILE = (
    'it\'s "quoted" $(touch pwned) `touch pwned`\nEOF\n::set-output name=cost-usd::0\n::add-mask::x\n'
    "answer<<EOF\n````\n@everyone ${{ secrets.X }}\n```"
)


def steps(source: str) -> list[str]:
    """Return the shell text of `run: |`, `- |` and `sh '''` blocks."""
    found = re.findall(r"^( *)(?:run: \||- \|)\n((?:\1 +.*\n|\n)+)", source, re.M)
    return [textwrap.dedent(body) for _, body in found] + [
        textwrap.dedent(body) for body in re.findall(r"sh '''\n(.*?)'''", source, re.S)
    ]


@pytest.fixture
def runner(odek: Odek, base_image: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a job: odek on PATH, a checkout, and the files of the runner."""
    programs = tmp_path / "bin"
    programs.mkdir()
    shims = {
        "odek": f'exec {shlex.join(odek.argv)} "$@"',
        "gh": 'printf "%s\\n" "$@" >"$RUNNER_TEMP/gh.args"; cp "$7" "$RUNNER_TEMP/gh.body"',
    }
    for name, line in shims.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "task").write_text("change something")
    (tmp_path / "temp").mkdir()
    env = odek.env()
    return env | {
        "PATH": f"{programs}:{env['PATH']}", "CI": "true", "CI_PROJECT_DIR": str(odek.cwd), "WORKSPACE": str(odek.cwd),
        "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "RUNNER_TEMP": str(tmp_path / "temp"), "TASK_FILE": str(tmp_path / "task"), "ACTION_PATH": str(ACTION),
        "ODEK_API_KEY": "sk-of-the-job", "ODEK_MODEL": "test", "ODEK_SANDBOX_IMAGE": base_image,
    }  # fmt: skip


def run_step(script: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-e", "-c", script], env=env, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def outputs(file: Path) -> dict[str, str]:
    """Read GITHUB_OUTPUT as the runner does."""
    found = {}
    lines = iter(file.read_text().split("\n"))
    for line in lines:
        if line:
            name, mark = line.split("<<")
            found[name] = "\n".join(iter(lambda: next(lines), mark))
    return found


def test_each_step_of_the_document_leaves_answer_diff_and_events(runner: dict[str, str], odek: Odek) -> None:
    """R-297: GitHub, GitLab and Jenkins."""
    scripts = [step for step in steps((ROOT / "docs" / "CI.md").read_text()) if "odek run" in step]
    assert len(scripts) == 3
    for script in scripts:
        with ModelServer(calls(WRITE), text("the answer")) as server:
            ended = run_step(script, runner | {"ODEK_BASE_URL": server.base_url}, odek.cwd)
        assert ended.returncode == 0, ended.stderr
        assert (odek.cwd / "answer.md").read_text() == "the answer"
        assert "+made" in (odek.cwd / "changes.diff").read_text()
        last = json.loads((odek.cwd / "events.jsonl").read_text().splitlines()[-1])
        assert (last["event"], last["answer"]) == ("finished", "the answer")
        for name in ("made.txt", "answer.md", "changes.diff", "events.jsonl"):
            (odek.cwd / name).unlink()
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_text() == "the answer"


def test_action_hands_out_what_the_model_wrote_as_data(runner: dict[str, str], odek: Odek, tmp_path: Path) -> None:
    """R-297: quotes, substitutions, marks and workflow commands in task and answer reach no shell and no runner."""
    run, comment = steps((ACTION / "action.yml").read_text())
    task = '--help "$(touch pwned)"\nEOF\n`touch pwned`'
    inputs = {"ODEK_RUN_TASK": task, "ODEK_RUN_OPTIONS": "--max-iter=5\n\n  --sandbox-network=none\n"}
    with ModelServer(calls(WRITE), text(HOSTILE)) as server:
        prices = {"input_usd_per_million": 0, "output_usd_per_million": 0}
        config = {"providers": {"ci": {"base_url": server.base_url, "api_key": "k", "models": {"test": prices}}}}
        (tmp_path / "temp" / "odek.json").write_text(json.dumps(config))
        (tmp_path / "temp" / "odek.json").chmod(0o600)
        inputs |= {"ODEK_RUN_MODEL": "ci/test", "ODEK_RUN_MAX_COST_USD": "0.5"}
        inputs |= {"ODEK_CONFIG": str(tmp_path / "temp" / "odek.json")}
        ended = run_step(run, runner | inputs, odek.cwd)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(server.requests[0].body)["messages"]
    assert any(task in str(message["content"]) for message in said if message["role"] == "user")
    given = outputs(tmp_path / "output")
    folder = Path(given.pop("folder"))
    assert given == {"answer": HOSTILE, "changed-files": '["made.txt"]', "cost-usd": "0.0", "exit-code": "0"}
    assert "+made" in (folder / "changes.diff").read_text()
    assert [path.name for path in odek.cwd.iterdir()] == ["made.txt"]
    log = ended.stdout.splitlines()
    mark = log[0].removeprefix("::stop-commands::")
    assert (len(mark), log[-1]) == (32, f"::{mark}::")
    summary = (tmp_path / "summary").read_text()
    assert f"`````text\n{HOSTILE}\n`````" in summary
    posted = {"NUMBER": "7", "FOLDER": str(folder), "REPOSITORY": "o/r"}
    assert run_step(comment, runner | posted, odek.cwd).returncode == 0
    assert (tmp_path / "temp" / "gh.args").read_text().split() == [
        "pr", "comment", "7", "--repo", "o/r", "--body-file", f"{folder}/summary.md",
    ]  # fmt: skip
    assert (tmp_path / "temp" / "gh.body").read_text() == summary


def test_action_fails_with_the_code_and_says_why(runner: dict[str, str], odek: Odek, tmp_path: Path) -> None:
    """R-297: the outputs are there, too."""
    run, _ = steps((ACTION / "action.yml").read_text())
    bad = {"ODEK_RUN_TASK": "x", "ODEK_RUN_OPTIONS": "--allow=blocked", "ODEK_BASE_URL": "http://127.0.0.1:1/v1"}
    ended = run_step(run, runner | bad, odek.cwd)
    given = outputs(tmp_path / "output")
    assert (ended.returncode, given["exit-code"], given["answer"]) == (1, "1", "")
    assert 'blocked" can only be denied' in (tmp_path / "summary").read_text()


def test_no_input_is_put_into_a_shell_text() -> None:
    """R-297: `${{ … }}` stands in env alone."""
    for action in (ROOT / ".github" / "actions").glob("*/action.yml"):
        for step in steps(action.read_text()):
            assert "${{" not in step
    assert os.access(ACTION / "run.py", os.R_OK)


@pytest.mark.parametrize(
    ("version", "ref", "source", "installed"),
    [
        ("", "v0.3.1", "", "0.3.1"),
        ("", "v1", "", "9.9.9"),
        ("", "main", "", "9.9.9"),
        ("", "0123abc", "", "9.9.9"),
        ("", "", "", "9.9.9"),
        ("0.2.0", "v0.3.1", "", "0.2.0"),
        ("latest", "v0.3.1", "", ""),
        ("", "v0.3.1", "/a/folder", ""),
    ],
)
def test_setup_installs_the_version_of_its_tag(
    version: str, ref: str, source: str, installed: str, tmp_path: Path
) -> None:
    """D9: and says the number alone."""
    action = tmp_path / ".github" / "actions" / "setup-odek"
    for folder in (action, tmp_path / "odek", tmp_path / "scripts"):
        folder.mkdir(parents=True)
    (tmp_path / "odek" / "__init__.py").write_text('"""x"""\n\n__version__ = "9.9.9"\n')
    (tmp_path / "scripts" / "install.sh").write_text(
        'mkdir -p "$ODEK_INSTALL_BIN_DIR"; f=$ODEK_INSTALL_BIN_DIR/odek\n'
        'printf "#!/bin/sh\necho odek ${ODEK_INSTALL_VERSION:-7.7.7}\n" >"$f"; chmod +x "$f"\n'
        'echo "asked:$ODEK_INSTALL_VERSION"\n'
    )
    env = {
        "PATH": os.environ["PATH"], "ACTION_PATH": str(action), "ACTION_REF": ref, "DEFAULT_URL": "https://x.invalid",
        "ODEK_INSTALL_VERSION": version, "ODEK_INSTALL_FROM": source, "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_PATH": str(tmp_path / "path"), "GITHUB_ENV": str(tmp_path / "env"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    (step,) = steps((ROOT / ".github" / "actions" / "setup-odek" / "action.yml").read_text())
    ended = run_step(step, env, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, f"asked:{installed}\n"), ended.stderr
    assert (tmp_path / "env").read_text() == "ODEK_NO_UPDATE=setup-odek\n"
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert said == {"path": f"{tmp_path}/temp/odek/bin/odek", "version": installed or "7.7.7"}
