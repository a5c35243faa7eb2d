"""A working directory of an odd name, with everything that odek does there (B12)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import run_script, tool_results

NAME = "o t/2026-01-01T10:00:00 (ü) 'q' \"d\" $x,y=z;\\/proj"
APPROVED = {"ODEK_APPROVE_PROJECT_SANDBOX": "1"}


@pytest.fixture
def odd(odek: Odek, docker_engine: Engine, base_image: str) -> Iterator[Odek]:
    """The program in a folder of an odd name, with files of odd names and a Dockerfile.odek; its image goes again."""
    odek.cwd = odek.cwd / NAME
    (odek.cwd / "in:put").mkdir(parents=True)
    (odek.cwd / "in:put" / "f").write_text("of the volume")
    (odek.cwd / "a b:c.txt").write_text("attached")
    (odek.cwd / "ü:b$x.txt").write_text("referred to")
    (odek.cwd / "tool").write_text("copied")
    (odek.cwd / "Dockerfile.odek").write_text(f"FROM {base_image}\nLABEL odek.test=folders\nCOPY tool /tool\n")
    (odek.home / ".odek").mkdir(mode=0o700)
    config = odek.home / ".odek" / "config.json"
    config.write_text(json.dumps({"dangerous": {"sandboxed": {"action": "allow"}}}))
    config.chmod(0o600)
    yield odek
    made = docker_engine.run("images", "--quiet", "--filter", "label=odek.test=folders").stdout.split()
    docker_engine.run("rmi", "--force", *made, check=False)


def test_everything_works_in_a_folder_of_an_odd_name(odd: Odek) -> None:
    """B12: commands, file tools, attached files, a volume, a build: all in that very folder, and nowhere else."""
    config = odd.home / ".odek" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "sandbox_volumes": ["./in:put:/data"]}))
    script = calls(
        ("shell", {"command": "pwd; cat /tool /data/f 'a b:c.txt'; echo ok >out.txt"}),
        ("write_file", {"path": "sub/new.txt", "content": "written"}),
    )
    before = sorted(os.listdir(odd.home.parent))
    with ModelServer(script, text("done")) as server:
        arguments = ("--base-url", server.base_url, "--ctx", "a b:c.txt", 'look at "@ü:b$x.txt"')
        outcome = odd.run("run", *arguments, env=APPROVED)
        task = server.requests[0].json["messages"][1]["content"]
    assert outcome.code == 0, outcome.stderr
    assert "/workspace\ncopiedof the volumeattached" in tool_results(server)[0]
    assert ["attached" in task, "referred to" in task, "path: /workspace/a b:c.txt\n" in task] == [True] * 3, task
    assert (odd.cwd / "out.txt").read_text() == "ok\n"
    assert (odd.cwd / "sub" / "new.txt").read_text() == "written"
    assert sorted(os.listdir(odd.home.parent)) == before


def test_folder_of_an_odd_name_is_read_only_when_it_is_to_be(odd: Odek) -> None:
    """B12: `readonly` is not lost among the quotes."""
    script = (calls(("shell", {"command": "cat tool; touch x || echo refused"})), text("done"))
    outcome, server = run_script(odd, *script, flags=("--sandbox-readonly",), env=APPROVED)
    assert outcome.code == 0, outcome.stderr
    assert ("copied" in tool_results(server)[0], "refused" in tool_results(server)[0]) == (True, True)
    assert not (odd.cwd / "x").exists()
