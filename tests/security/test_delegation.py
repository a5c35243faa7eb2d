"""Sub-agents in real containers on real networks: what they get, what they cannot get, and what is left of them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import ServedRequest, calls, text
from fakes.task_server import TaskServer
from support.compose_project import Project
from support.docker_engine import Engine
from support.odek_process import Odek, pid_of_odek

PARENT = "the task of the parent"
GONE_WITHIN_S = 5.0


@pytest.fixture
def project(docker_engine: Engine, base_image: str) -> Iterator[Project]:
    made = Project(docker_engine, base_image)
    yield made
    made.close()


def delegate(*tasks: Mapping[str, Any]) -> Any:
    return calls(("delegate_tasks", {"tasks": list(tasks), "description": "look around"}))


def container_of(request: ServedRequest) -> str:
    """Return the container that the environment block at the end of the system prompt names."""
    found = re.findall(r"^- Container: (\S+)$", request.json["messages"][0]["content"], re.MULTILINE)
    return str(found[-1])


def results_of(server: TaskServer, key: str = PARENT) -> list[str]:
    """Return what the model was told of its calls in the conversation of `key`."""
    return [message["content"] for message in server.of(key)[-1].json["messages"] if message["role"] == "tool"]


class Looks:
    """Inspects the container of a sub-agent while it works."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seen: dict[str, dict[str, Any]] = {}

    def at(self, goal: str) -> Callable[[ServedRequest], Any]:
        def step(request: ServedRequest) -> Any:
            self.seen[goal] = self.inspect(container_of(request))
            return text(f"answer to {goal}")

        return step

    def inspect(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.engine.run("inspect", name).stdout)[0]
        return found


def networks_of(inspected: Mapping[str, Any]) -> set[str]:
    """Return the IDs of the networks of a container; "bridge" and "none" by their names."""
    entries = inspected["NetworkSettings"]["Networks"]
    return {name if name in ("bridge", "none") else entry["NetworkID"] for name, entry in entries.items()}


def mounts_of(inspected: Mapping[str, Any]) -> dict[str, bool]:
    """Return where something of the host can be written, by target."""
    return {mount["Destination"]: mount["RW"] for mount in inspected["Mounts"] if mount["Type"] == "bind"}


def limits_of(inspected: Mapping[str, Any]) -> tuple[int, int, int]:
    host = inspected["HostConfig"]
    return host["PidsLimit"], host["Memory"], host["NanoCpus"]


NARROWER: dict[str, Mapping[str, Any]] = {
    "as it is": {},
    "reads": {"readonly": True},
    "no bridge": {"network": "none", "readonly": True},
    "front alone": {"networks": ["FRONT"], "readonly": True},
    "none attached": {"networks": ["none"], "readonly": True},
    "nothing at all": {"network": "none", "networks": ["none"], "readonly": True},
}
WIDER: tuple[Mapping[str, Any], ...] = (
    {"networks": ["odek-no-such"]}, {"networks": ["bridge"]}, {"networks": ["host"]}, {"network": "host"},
    {"image": "other"}, {"sandbox": False}, {"host": True}, {"user": "0:0"}, {"volumes": ["/:/host"]},
    {"env": {"LD_PRELOAD": "x"}}, {"workdir": "/"}, {"memory": "64g"}, {"pids_limit": 100000},
    {"tools": ["delegate_tasks"]}, {"tools": ["sudo"]}, {"max_risk": "anything"}, {"trust_level": "operator"},
    {"max_iterations": 1000}, {"timeout": 100000}, {"model": "other"}, {"base_url": "http://192.0.2.1"},
    {"readonly": "false"}, {"goal": ""},
)  # fmt: skip


@pytest.mark.docker_only
def test_each_row_by_inspect(sandboxed: Odek, docker_engine: Engine, project: Project) -> None:
    """S-21 A sub-agent never has more than its parent: not the host, another image or folder, a network or tool that
    the parent has not, more of the limits, or a yes that was not said for it. It attaches networks by the IDs that its
    parent attached, or fails; a task that asks for more starts nothing.

    W-39, W-41, R-222, R-223, P-39, P-40.
    """
    front, back = project.network("front"), project.network("back", internal=True)
    names = {"FRONT": f"{project.name}_front"}
    (sandboxed.cwd / "part").mkdir()
    settings = json.loads((sandboxed.home / ".odek" / "config.json").read_text())
    settings |= {"sandbox_env": {"MINE": "kept"}, "sandbox_volumes": ["./part:/part"], "subagent": {"max_tasks": 1000}}
    (sandboxed.home / ".odek" / "config.json").write_text(json.dumps(settings))
    looks, before = Looks(docker_engine), docker_engine.labelled()
    during: list[frozenset[str]] = []

    def parent_looks(request: ServedRequest) -> Any:
        during.append(docker_engine.labelled() - before)
        looks.seen["parent"] = looks.inspect(container_of(request))
        return delegate(*(
            {"goal": goal, **json.loads(json.dumps(task).replace("FRONT", names["FRONT"]))}
            for goal, task in NARROWER.items()
        ))  # fmt: skip

    scripts: dict[str, Sequence[Any]] = {
        PARENT: [
            parent_looks,
            *(delegate({"goal": "never"}, {"goal": "never", **task}) for task in WIDER),
            text("end"),
        ],
        **{goal: [looks.at(goal)] for goal in NARROWER},
    }
    with TaskServer(scripts) as server:
        outcome = sandboxed.run(
            "run", "--base-url", server.base_url, "--sandbox", "--sandbox-network", "bridge", "--max-iter", "90",
            "--sandbox-compose", project.name, "--sandbox-memory", "600m", "--sandbox-cpus", "1.5",
            "--sandbox-pids-limit", "600", PARENT,
        )  # fmt: skip
        server.assert_all_used()
    assert outcome.code == 0, outcome.stderr
    narrow, *wide = results_of(server)
    assert narrow.count(": done (") == len(NARROWER), narrow
    assert all(result.startswith('{"error":') and "never" not in result for result in wide), wide
    assert len(during[0]) == 1, "the parent's container alone"

    parent = looks.seen.pop("parent")
    assert set(looks.seen) == set(NARROWER)
    assert len({each["Id"] for each in (parent, *looks.seen.values())}) == len(NARROWER) + 1
    everything = {"bridge", front, back}
    wanted = {
        "as it is": (everything, True),
        "reads": (everything, False),
        "no bridge": ({front, back}, False),
        "front alone": ({"bridge", front}, False),
        "none attached": ({"bridge"}, False),
        "nothing at all": ({"none"}, False),
    }
    for goal, (networks, writable) in wanted.items():
        child = looks.seen[goal]
        assert networks_of(child) == networks, goal
        assert mounts_of(child) == {"/workspace": writable, "/part": writable}, goal
        assert limits_of(child) == tuple(limit // 3 for limit in limits_of(parent)), goal
        assert child["Image"] == parent["Image"], goal
        for key in ("CapDrop", "CapAdd", "SecurityOpt", "ReadonlyRootfs", "Privileged", "PidMode", "IpcMode"):
            assert child["HostConfig"][key] == parent["HostConfig"][key], (goal, key)
    for goal in NARROWER:
        (request,) = server.of(goal)
        offered = [tool["function"]["name"] for tool in request.json["tools"]]
        assert ("delegate_tasks" in offered, "shell" in offered) == (False, True), goal
        assert container_of(request) in request.json["tools"][offered.index("shell")]["function"]["description"]
    assert docker_engine.labelled() == before


@pytest.mark.docker_only
def test_networks_that_change_while_the_parent_works(sandboxed: Odek, docker_engine: Engine, project: Project) -> None:
    """W-40, S1: one joins, one is made anew under its name, also at the very moment of a start: never attached."""
    front, back = project.network("front"), project.network("back", internal=True)
    looks = Looks(docker_engine)
    new: list[str] = []

    def one_joins(_: ServedRequest) -> Any:
        new.append(project.network("later"))
        return delegate({"goal": "after a join"})

    def one_is_made_anew(request: ServedRequest) -> Any:
        docker_engine.run("network", "disconnect", "--force", back, container_of(request))
        project.remove_network(back)
        new.append(project.network("back", internal=False))
        return delegate({"goal": "with the old name"}, {"goal": "without it", "networks": [f"{project.name}_front"]})

    with TaskServer({
        PARENT: [one_joins, one_is_made_anew, text("end")],
        "after a join": [looks.at("after a join")],
        "without it": [looks.at("without it")],
    }) as server:  # fmt: skip
        outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox-compose", project.name, PARENT)
        server.assert_all_used()
    assert outcome.code == 0, outcome.stderr
    assert networks_of(looks.seen["after a join"]) == {front, back}
    assert networks_of(looks.seen["without it"]) == {front}
    _, second = results_of(server)
    assert "task 1 of 2: failed" in second
    assert "no answer: the networks are no longer those that were approved" in second
    assert "task 2 of 2: done" in second
    assert not set(new) & {full_id for seen in looks.seen.values() for full_id in networks_of(seen)}


@pytest.mark.docker_only
def test_network_made_anew_during_a_start(sandboxed: Odek, docker_engine: Engine, project: Project) -> None:
    """W-40: exchanged again and again while sub-agents start: each has the old ID, or fails."""
    back = project.network("back", internal=True)
    looks, stop = Looks(docker_engine), threading.Event()
    name = f"{project.name}_back"
    swapping: list[threading.Thread] = []

    def swap(parent: str) -> None:
        current = back
        while not stop.is_set():
            listed = docker_engine.run("ps", "--quiet", "--filter", f"network={current}").stdout.split()
            for line in (*listed, parent):
                docker_engine.run("network", "disconnect", "--force", current, line, check=False)
            docker_engine.run("network", "rm", current, check=False)
            made = docker_engine.run("network", "create", name, check=False).stdout.strip()
            if made:
                project.adopt(made)
                current = made

    def begin(request: ServedRequest) -> Any:
        thread = threading.Thread(target=swap, args=(container_of(request),))
        swapping.append(thread)
        thread.start()
        return delegate(*({"goal": f"goal {n}", "readonly": True} for n in range(6)))

    scripts: dict[str, Sequence[Any]] = {f"goal {n}": [looks.at(f"goal {n}")] for n in range(6)}
    with TaskServer({PARENT: [begin, text("end")], **scripts}) as server:
        try:
            outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox-networks", name, PARENT)
        finally:
            stop.set()
            for thread in swapping:
                thread.join()
    assert outcome.code == 0, outcome.stderr
    assert all(networks_of(seen) <= {back, "none"} for seen in looks.seen.values())
    assert results_of(server)[0].count("task ") >= 6
    for line in re.findall(r"^task \d of 6: (\w+)", results_of(server)[0], re.MULTILINE):
        assert line in ("done", "failed")


DEEDS = (
    "kill -KILL -1; kill -KILL 1; rm -rf /workspace/* /tmp/*; : >/workspace/.odek-x; "
    "for n in 1 2 3; do (sleep 300 &) ; done; f() { f | f & }; f"
)


def test_a_child_that_kills_what_it_can_hurts_no_neighbour(sandboxed: Odek, docker_engine: Engine) -> None:
    """R-223, R-229, W-41: its own container is its whole world; the parent goes on, and nothing is left."""
    with TaskServer({
        PARENT: [
            delegate({"goal": "destroy", "timeout": 20}, {"goal": "neighbour", "readonly": True}),
            calls(("shell", {"command": "echo still here"})),
            text("end"),
        ],
        "destroy": [calls(("shell", {"command": DEEDS, "timeout": 3})), text("tried")],
        "neighbour": [calls(("shell", {"command": "sleep 1; echo fine"})), text("well")],
    }) as server:  # fmt: skip
        outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox", PARENT)
    assert outcome.code == 0, outcome.stderr
    first, second = results_of(server)
    assert "task 2 of 2: done" in first
    assert "fine" in results_of(server, "neighbour")[0]
    assert "still here" in second


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_ends(number: signal.Signals, sandboxed: Odek, docker_engine: Engine) -> None:
    """W-41, W-10, R-229, P-43: three at work, one of them asleep in a command that hears nothing."""
    command = "touch /workspace/started; trap '' TERM INT HUP; sleep 600"
    with TaskServer({
        PARENT: [delegate(*({"goal": f"goal {n}", "readonly": n > 0} for n in range(3)))],
        "goal 0": [calls(("shell", {"command": command}))],
        **{f"goal {n}": [calls(("shell", {"command": "sleep 600"}))] for n in (1, 2)},
    }) as server:  # fmt: skip
        process = sandboxed.start("run", "--base-url", server.base_url, "--sandbox", PARENT)
        pid = pid_of_odek(process.pid)
        wait_for(lambda: (sandboxed.cwd / "started").exists() and len(docker_engine.containers_of(pid)) == 4, 30)
        began = time.monotonic()
        process.send_signal(number)
        process.wait(20)
        wait_for(lambda: not docker_engine.containers_of(pid), GONE_WITHIN_S)
        assert time.monotonic() - began < 2 * GONE_WITHIN_S
    assert process.returncode in (-number, 128 + number)


def wait_for(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_time_limits_depth_and_the_number_of_tasks(sandboxed: Odek, tmp_path: Path) -> None:
    """W-42, W-43, P-38, P-44, P-45: a hanging model and a hanging command end at their time, and say so."""
    (sandboxed.home / ".odek" / "config.json").write_text(
        json.dumps({
            **json.loads((sandboxed.home / ".odek" / "config.json").read_text()),
            "subagent": {"max_tasks": 6, "max_concurrency": 4},
        })
    )  # fmt: skip
    with TaskServer({
        PARENT: [
            delegate(
                {"goal": "slow model", "timeout": 4, "readonly": True},
                {"goal": "slow command", "timeout": 8, "readonly": True},
                {"goal": "silent", "readonly": True},
                {"goal": "delegates", "readonly": True},
                {"goal": "writes"},
            ),
            delegate({"goal": "one"}, {"goal": "two"}),
            text("end"),
        ],
        "slow model": [text("too late", delay_s=60)],
        "slow command": [calls(("shell", {"command": "sleep 60"}), content="I am looking")],
        "silent": [text(""), text("")],
        "delegates": [calls(("delegate_tasks", {"tasks": [{"goal": "deeper"}]})), text("I cannot")],
        "writes": [calls(("write_file", {"path": "made/by.txt", "content": "x"})), text("written")],
    }) as server:  # fmt: skip
        outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox", PARENT, timeout_s=60)
    assert server.unscripted == []
    assert outcome.code == 0, outcome.stderr
    first, second = results_of(server)
    status = re.findall(r"^task \d of 5: (\w+) \(", first, re.MULTILINE)
    assert status == ["timeout", "timeout", "failed", "done", "done"]
    assert "no answer: its time was over before it had an answer\nits last words:\n" in first
    assert "I am looking" in first
    assert "no answer: the model gave an empty answer twice" in first
    assert '1 file written by its tools: "made/by.txt"' in first
    assert 'tool \\"delegate_tasks\\" not found' in results_of(server, "delegates")[0]
    assert "a session may have 6 sub-agents (subagent.max_tasks) and this one has 1 left" in second
    assert (sandboxed.cwd / "made" / "by.txt").read_text() == "x"


def test_limits_of_the_turn_hold_over_all_sub_agents(sandboxed: Odek, tmp_path: Path) -> None:
    """W-44, R-227: the totals are the server's, and the budget is one for all. Files from outside are in each
    container, and what each has executed is among the receipts of the session.
    """
    used = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    notes = tmp_path / "notes.txt"
    notes.write_text("from outside")
    step = lambda: calls(("shell", {"command": "cat /ctx/notes.txt"}), usage=used)  # noqa: E731
    goals = [f"goal {n}" for n in range(3)]
    with TaskServer({
        PARENT: [
            calls(("delegate_tasks", {"tasks": [{"goal": goal, "readonly": True} for goal in goals]}), usage=used),
            text("end", usage=used),
        ],
        **{goal: [step(), text("ok", usage=used)] for goal in goals},
    }) as server:  # fmt: skip
        flags = ("--sandbox", "--json", "--session", "--ctx", str(notes))
        outcome = sandboxed.run("run", "--base-url", server.base_url, *flags, PARENT)
        requests = len(server.requests)
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    (finished,) = [event for event in events if event["event"] == "finished" and "task" not in event]
    assert (requests, finished["usage"]["input_tokens"]) == (8, 800)
    assert finished["usage"]["output_tokens"] == 80
    of_tasks = [event for event in events if event["event"] in ("task_started", "task_ended")]
    assert sorted(event["task"] for event in of_tasks) == sorted(f"call_1/{n}" for n in (1, 2, 3) for _ in "ab")
    assert all(event["usage"]["input_tokens"] == 200 for event in of_tasks if event["event"] == "task_ended")
    inner = [event for event in events if event["event"] == "tool_started" and event["name"] == "shell"]
    assert sorted(event["task"] for event in inner) == ["call_1/1", "call_1/2", "call_1/3"]
    results = [event["result"] for event in events if event["event"] == "tool_finished" and "task" in event]
    assert ["from outside" in result for result in results] == [True] * 3
    receipts = json.loads(sandboxed.run("session", "receipts", "--json").stdout)
    assert len({receipt["container"] for receipt in receipts["receipts"]}) == 3

    with TaskServer({
        PARENT: [delegate(*({"goal": goal, "readonly": True} for goal in goals)), text("end")],
        **{goal: [calls(*[("shell", {"command": "true"})] * 3), text("stopped")] for goal in goals},
    }) as server:  # fmt: skip
        outcome = sandboxed.run(
            "run", "--base-url", server.base_url, "--sandbox", "--max-tool-calls", "5", "--json", PARENT
        )
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    finished = [event for event in events if event["event"] == "tool_finished" and event.get("task")]
    assert (outcome.code, len(finished)) == (0, 4), "five in all, one of them the call that delegates"
    statuses = [event["status"] for event in events if event["event"] == "task_ended"]
    assert set(statuses) <= {"budget", "done"}
    assert statuses.count("budget") >= 2


def test_daemon_that_goes_away_fails_the_task_and_never_runs_on_the_host(
    sandboxed: Odek, docker_engine: Engine, tmp_path: Path
) -> None:
    """R-222, P-39, F-19: a container that cannot be had is a failed task."""
    mark = tmp_path / "mark-of-the-host"
    shim = tmp_path / "shim"
    shim.mkdir()
    broken = tmp_path / "broken"
    client = docker_engine.client
    (shim / "docker").write_text(
        f'#!/bin/sh\n[ "$1" = run ] && [ -e {broken} ] && echo gone >&2 && exit 125\nexec {client} "$@"\n'
    )
    (shim / "docker").chmod(0o755)

    def breaks(_: ServedRequest) -> Any:
        broken.touch()
        return delegate({"goal": "mark the host"})

    with TaskServer({PARENT: [breaks, text("end")], "mark the host": []}) as server:
        path = f"{shim}:{subprocess.check_output(['sh', '-c', 'echo $PATH'], text=True).strip()}"
        outcome = sandboxed.run("run", "--base-url", server.base_url, PARENT, env={"PATH": path})
        server.assert_all_used()
    assert (outcome.code, mark.exists()) == (0, False), outcome.stderr
    assert "task 1 of 1: failed" in results_of(server)[0]
    said = 'warning: task 1: it got no sandbox: Docker did not start the sandbox from image "'
    assert said in outcome.stderr
    assert '"; Docker says: gone\n' in outcome.stderr


@pytest.mark.docker_only  # with podman /tmp has no limit of files, so the probes refuse
def test_required_probes_hold_for_the_containers_of_sub_agents(sandboxed: Odek) -> None:
    """R-222: less is another sandbox, which is attacked before its first use; one that is not closed fails its task."""
    reads = {"goal": "look", "readonly": True}
    with TaskServer({PARENT: [delegate(reads), text("done")], "look": [text("seen")]}) as server:
        done = sandboxed.run("run", "--base-url", server.base_url, PARENT, env={"ODEK_REQUIRE_VERIFIED": "1"})
        assert (done.code, done.stdout) == (0, "done\n"), done.stderr
        assert "task 1 of 1: done" in results_of(server)[0]
    verified = json.loads((sandboxed.home / ".odek" / "verified.json").read_text())
    assert sorted(entry["verdicts"]["workspace.readonly"] for entry in verified.values()) == ["ok", "skip"]
    for entry in verified.values():
        if entry["verdicts"]["workspace.readonly"] == "ok":
            entry["verdicts"]["host.sigkill"] = "OPEN"
    (sandboxed.home / ".odek" / "verified.json").write_text(json.dumps(verified))
    with TaskServer({PARENT: [delegate(reads), text("done")]}) as server:
        done = sandboxed.run("run", "--base-url", server.base_url, PARENT, env={"ODEK_REQUIRE_VERIFIED": "1"})
        assert done.code == 0, done.stderr
        assert "the sandbox is open: host.sigkill" in results_of(server)[0]
