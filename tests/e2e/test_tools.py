"""The tools through the program: offered, carried out, answered."""

from __future__ import annotations

import json
import re

import pytest
from fakes.model_server import calls, text
from support.odek_process import Odek
from support.scenario import run_script, tool_results

NAMES = (
    "parallel_shell read_file batch_read write_file patch batch_patch search_files glob file_info tree diff "
    "config_view delegate_tasks shell"
)
WORK = [
    ("search_files", {"pattern": r"^def \w+"}),
    ("batch_patch", {"patches": [{"path": "a.py", "old_string": "def f", "new_string": "def g"}]}),
    ("parallel_shell", {"commands": [{"command": "cat a.py"}, {"command": "echo no >&2; exit 3"}]}),
    ("glob", {"pattern": "**/*.py"}),
]


@pytest.mark.parametrize("place", ["sandbox", "host"])
def test_tools_do_their_work_through_the_program(odek: Odek, request: pytest.FixtureRequest, place: str) -> None:
    """R-83, F-72: in the sandbox and, where the operator allows it, on the host; one fence each."""
    if place == "sandbox":
        flags: tuple[str, ...] = ("--sandbox-image", request.getfixturevalue("base_image"))
    else:
        flags = ("--no-sandbox",)
    (odek.home / ".odek").mkdir(mode=0o700)
    config = odek.home / ".odek" / "config.json"
    config.write_text(json.dumps({"dangerous": {"action": "allow"}}))
    config.chmod(0o600)
    (odek.cwd / "a.py").write_text("def f():\n    pass\n")
    outcome, server = run_script(odek, *(calls(call) for call in WORK), text("done"), flags=flags)
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    offered = [tool["function"]["name"] for tool in server.requests[0].json["tools"]]
    assert " ".join(offered) == NAMES
    found, patched, ran, listed = tool_results(server)
    assert re.fullmatch(
        r"<untrusted_content_(\w+) source=\"search_files:[^\n]*\">\na\.py\n1\|def f\(\):\n</untrusted_content_\1>\n"
        r"matches: 1, files searched: 1",
        found,
    ), found
    assert patched.endswith("[0] replaced: 1"), patched
    assert re.search(r'source="parallel_shell:0:stdout">\ndef g\(\):\n    pass\n</', ran), ran
    assert re.search(r'source="parallel_shell:1:stderr">\nno\n</\w+>\nexit code: 3, [0-9]+ ms$', ran), ran
    assert re.search(r'">\n18 a\.py\n</untrusted_content_\w+>\nmatches: 1$', listed), listed
    assert (odek.cwd / "a.py").read_text() == "def g():\n    pass\n"


def test_run_ends_with_what_this_machine_trusts_later(odek: Odek, base_image: str) -> None:
    """B55: folders that a command moves into place, with everything in them older than the run."""
    for name in ("docs/repository/config", "docs/editor/tasks.json", "lib/.git/config", "lib/.git/HEAD"):
        (odek.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (odek.cwd / name).write_text("x")
    for name in ("lib/.git/objects", "lib/.git/refs"):
        (odek.cwd / name).mkdir()
    (odek.cwd / "run").write_text("mv docs/repository .git && mv docs/editor .vscode\nmv lib/.git attic && echo moved")
    program = ("shell", {"command": "sh run"})
    outcome, server = run_script(odek, calls(program), text("done"), flags=("--sandbox-image", base_image))
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    assert "moved" in tool_results(server)[0]
    told = "files changed that this machine may run or trust later: .git, .vscode, attic, lib/.git"
    assert told in outcome.stderr, outcome.stderr


def test_file_that_this_machine_trusts_is_not_written_unasked(odek: Odek, base_image: str) -> None:
    """D-6, B55: the refusal names the setting, the run goes on."""
    write = ("write_file", {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"})
    outcome, server = run_script(odek, calls(write), text("done"), flags=("--sandbox-image", base_image))
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    (refusal,) = tool_results(server)
    assert "operation denied (non-interactive mode): write .git/hooks/pre-commit" in refusal
    assert '"dangerous": {"sandboxed": {"classes": {"persistence": "allow"}}}' in json.loads(refusal)["error"]
    assert list(odek.cwd.iterdir()) == []


def test_variable_whose_value_is_masked_in_the_project_is_named_once(odek: Odek, base_image: str) -> None:
    """A27: `DB_PASSWORD=password`: the code stays readable, and what is masked is explained."""
    (odek.cwd / "a.py").write_text("def check(password):\n    return password\n")
    (odek.cwd / "b.env").write_text("DB=password\n")
    program = (calls(("read_file", {"path": "a.py"})), calls(("batch_read", {"files": [{"path": "b.env"}] * 2})))
    outcome, server = run_script(
        odek, *program, calls(("read_file", {"path": "b.env"})), text("done"),
        flags=("--sandbox-image", base_image), env={"DB_PASSWORD": "password"},
    )  # fmt: skip
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    code, env, _ = tool_results(server)
    assert "def check(password)" in code
    assert "DB=[REDACTED]" in env
    notice = "the value of DB_PASSWORD occurs in b.env; the model sees [REDACTED] there, and cannot change such a line"
    assert outcome.stderr.count(notice) == outcome.stderr.count("DB_PASSWORD") == 1, outcome.stderr
