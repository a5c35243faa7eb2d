"""The containers of live sessions, on a real engine: one a session, compared before each start, gone at every end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.model import call_reply, text_reply
from support.compose_project import Project
from support.docker_engine import Engine
from support.served import PATIENCE_S, Served, wait_for

from odek.sandbox.docker import DockerCli
from odek.session.groups import history
from odek.web.errors import Refused

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served(docker_engine: Engine, base_image: str, tmp_path: Path) -> Iterator[Served]:
    """Live sessions whose sandboxes are of the base image."""
    docker = DockerCli(docker_engine.client, dict(os.environ))
    made = Served(tmp_path, docker=docker, flags={"sandbox_image": base_image})
    yield made
    made.close()


def shell(command: str) -> Any:
    return call_reply(("shell", {"command": command}))


def containers(engine: Engine, session: str = "") -> set[str]:
    label = f"io.odek.session={session}" if session else "io.odek.session"
    return set(engine.run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}").stdout.split())


def refusal(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


def result_of(snapshot: dict[str, Any]) -> str:
    return str([entry for entry in snapshot["entries"] if entry["kind"] == "result"][-1]["text"])


def test_one_container_a_session_from_its_first_message_to_its_end(served: Served, docker_engine: Engine) -> None:
    """W-8, R-138, R-143: none before a message; own /tmp; files in /ctx; kept between turns; gone when it is closed."""
    first = served.script(
        shell("echo mine >/tmp/x; cat /ctx/given.txt; hostname"), text_reply("a"),
        shell("cat /tmp/x; ls /ctx"), text_reply("b"), shell("ls /tmp/x"), text_reply("c"),
    )  # fmt: skip
    served.script(shell("cat /tmp/x"), text_reply("other"))
    live = served.open()
    assert containers(docker_engine) == set(), "the trial has no session, and is gone"
    one, snapshot = served.finish("first", files=[served.upload("given.txt", b"from outside")])
    (box,) = containers(docker_engine, one)
    assert "from outside" in result_of(snapshot)
    assert snapshot["container"]["container"] in result_of(snapshot)
    two, other = served.finish("second")
    assert "No such file" in result_of(other)
    assert containers(docker_engine) == {box, *containers(docker_engine, two)}
    assert other["container"]["container"] != snapshot["container"]["container"]
    _, snapshot = served.finish("again", one, [served.upload("late.txt", b"x")])
    assert "mine" in result_of(snapshot)
    assert "given.txt\nlate.txt" in result_of(snapshot)
    assert containers(docker_engine, one) == {box}
    served.models.append(first)
    live.sandbox(one, "restart")
    snapshot = served.when(one, lambda found: found["state"] == "idle" and found["container"])
    (new,) = containers(docker_engine, one)
    assert new != box
    _, snapshot = served.finish("gone?", one)
    assert "No such file" in result_of(snapshot), "what was in the old container is gone with it"
    live.sandbox(one, "close")
    wait_for(lambda: not containers(docker_engine, one))
    with live._serving.store.create(task="t", model="m", sandbox=False, cwd=served.host.cwd) as on_host:
        pass
    assert refusal(lambda: live.start_turn(on_host.id, "x", (), "r")).code == "begun_on_host", "W-11"
    live.delete(two)
    assert containers(docker_engine) == set()
    (_, *started) = (line for line in served.lines if "sandbox network=none" in line)
    assert [line.split(": ")[0] for line in started] == [one[:13], two[:13], one[:13]]


@pytest.mark.docker_only  # with podman networks are refused
def test_settings_shown_are_those_of_the_container(served: Served, docker_engine: Engine) -> None:
    """W-14, R-142: `/api/config` equals `docker inspect` and what `config_view` shows in that session."""
    (served.root / "work" / "data").mkdir()
    served.operator = {
        "sandbox_env": {"PLANTED": "planted-value-7"}, "sandbox_volumes": ["./data:/data"], "sandbox_memory": "256m",
        "sandbox_pids_limit": 300,
    }  # fmt: skip
    project = Project(docker_engine, str(served.flags["sandbox_image"]))
    network = project.network("back", internal=True)
    served.flags = {**served.flags, "sandbox_networks": [f"{project.name}_back"]}
    try:
        served.script(call_reply(("config_view", {})), shell("echo $PLANTED >/dev/null"), text_reply("done"))
        live = served.open()
        planned = live.config()
        session, snapshot = served.finish("show")
        seen = json.loads(snapshot["entries"][2]["text"].split("\n", 1)[1].rsplit("\n", 1)[0])
        assert live.config(session) == seen
        (shown,) = live.config()["containers"]  # type: ignore[misc]
        (raw,) = json.loads(docker_engine.run("inspect", shown["id"]).stdout)
        host = raw["HostConfig"]
        assert shown["session"] == raw["Config"]["Labels"]["io.odek.session"] == session
        assert {
            "container": shown["container"], "image": shown["image_id"], "pids": shown["pids_limit"],
            "networks": sorted(each["id"] for each in shown["attached"]), "memory": shown["memory"],
        } == {
            "container": raw["Name"][1:], "image": raw["Image"], "pids": host["PidsLimit"],
            "networks": sorted(each["NetworkID"] for each in raw["NetworkSettings"]["Networks"].values()),
            "memory": "256m" if host["Memory"] == 256 << 20 else None,
        }  # fmt: skip
        assert shown["attached"] == [
            {"name": f"{project.name}_back", "id": network, "internal": True, "compose_project": project.name}
        ]
        targets = {mount["Destination"] for mount in raw["Mounts"] if mount["Type"] == "bind"}
        assert targets == {"/workspace", *(volume.split(":")[1] for volume in shown["volumes"])}
        assert (shown["env_keys"], shown["user"]) == (["PLANTED"], f"{os.getuid()}:{os.getgid()}")
        names = ("network", "networks", "image", "image_id", "pids_limit", "memory", "readonly", "user", "volumes")
        assert {name: planned["planned"][name] for name in names} == {name: shown[name] for name in names}  # type: ignore[index]
        assert "planted-value-7" not in json.dumps((live.config(), seen, live.snapshot(session), served.lines))
    finally:
        served.close()
        project.close()


def test_sandbox_that_is_lost_ends_the_turn_and_the_host_never_takes_its_place(
    served: Served, docker_engine: Engine
) -> None:
    """R-139, R-145, W-10: failed, with the reason; a command that hangs is stopped; the next message has a new one.

    R-129: what it has printed is shown while it runs.
    """
    served.script(
        shell("echo begun; sleep 600"),
        shell("sleep 601 & sleep 602; :"),
        text_reply("well"),
        shell("hostname"),
        text_reply("new"),
    )
    live = served.open()
    session = str(live.create("hang", (), "r1")["id"])
    served.when(session, lambda found: found["turn"] and found["turn"]["running"])
    (box,) = containers(docker_engine, session)
    output = served.until(session, "tool_output")[-1]
    assert output == {"event": "tool_output", "id": "call_1", "tail": "begun\n", "size_bytes": 6}
    wait_for(lambda: "sleep 600" in docker_engine.run("top", box).stdout)
    assert live.cancel(session, 1)
    snapshot = served.settled(session)
    assert "sleep" not in docker_engine.run("top", box).stdout, "the command is stopped, the container is kept"
    assert [entry["kind"] for entry in snapshot["entries"]] == ["user", "call", "result", "note"]
    live.start_turn(session, "lose it", (), "r2")
    wait_for(lambda: "sleep 602" in docker_engine.run("top", box).stdout)
    docker_engine.run("rm", "--force", box)
    snapshot = served.settled(session)
    assert (snapshot["state"], snapshot["container"]) == ("lost", None)
    events = live.subscribe(session, snapshot["last_event"].split(".")[0] + ".0").next(0) or []
    ended = [event.data for event in events if event.kind == "turn_ended"]
    assert [event["status"] for event in ended] == ["cancelled", "failed"]
    assert [event.data["state"] for event in events if event.kind == "sandbox"] == ["starting", "ready", "lost"]
    (mark,) = (event for event in events if event.kind == "sandbox" and event.data["state"] == "lost")
    assert mark.data["reason"]
    _, snapshot = served.finish("on", session)
    assert snapshot["state"] == "idle"
    assert containers(docker_engine, session) not in (set(), {box})


def test_many_sessions_after_and_beside_each_other(served: Served, docker_engine: Engine) -> None:
    """W-9: no start fails, all names differ, as many as are allowed live at once."""
    count = 5
    served.operator = {"serve": {"max_sandboxes": count}}
    for number in range(count + 2):
        served.script(shell(f"hostname; : {number}"), text_reply("done"))
    live, made = served.open(), list[str]()

    def begin() -> None:
        made.append(str(live.create("go", (), os.urandom(8).hex())["id"]))

    threads = [threading.Thread(target=begin) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    snapshots = [served.settled(session) for session in made]
    assert len(containers(docker_engine)) == count
    assert refusal(begin).code == "sandboxes"
    names = [snapshot["container"]["container"] for snapshot in snapshots]
    for _ in range(2):
        closed = made.pop(0)
        live.sandbox(closed, "close")
        served.when(closed, lambda found: not found["live"])
        session, snapshot = served.finish("one more")
        made.append(session)
        names.append(snapshot["container"]["container"])
    assert len(set(names)) == len(names) == count + 2
    assert live.close_all(PATIENCE_S)
    assert containers(docker_engine) == set()


@pytest.mark.docker_only  # with podman networks are refused
def test_changes_of_what_a_project_was_approved_for(served: Served, docker_engine: Engine) -> None:
    """W-13, R-140, D-17: old and new are named; networks refuse until the restart, also when it is undone."""
    project = Project(docker_engine, str(served.flags["sandbox_image"]))
    project.network("front")
    served.project = {"sandbox_compose_project": project.name}
    try:
        served.script(text_reply("before"))
        live = served.open()
        (asked,) = served.asked
        assert [network.compose_project for network in asked.networks] == [project.name]
        assert live.config()["grant"] == {"asked": True, "how": "once"}
        running, _ = served.finish("runs")
        late = project.network("late")
        changed = refusal(lambda: live.create("x", (), "r1"))
        assert (changed.status, changed.code) == (409, "changed")
        assert f'network "{project.name}_late" ({late}) has joined' in changed.message
        assert changed.hint == "restart `odek serve` to be asked again"
        docker_engine.run("network", "rm", late)
        assert refusal(lambda: live.create("x", (), "r2")).message == changed.message, (
            "undone, and refused all the same"
        )
        assert live.state()["refusal"] == {"code": "changed", "message": changed.message, "hint": changed.hint}
        assert live.config()["refusal"]["message"] == changed.message  # type: ignore[index]
        assert refusal(lambda: live.sandbox(running, "nonsense")).code == "action"
        served.models.clear()
        model = live._live(running).conversation._model  # type: ignore[union-attr]
        model._replies.append(text_reply("goes on"))
        assert served.finish("still", running)[1]["entries"][-1]["text"] == "goes on"
        assert containers(docker_engine) == containers(docker_engine, running)
        assert len(live.list()["sessions"]) == 1, "nothing of what was refused is left"  # type: ignore[arg-type]
        served.close()
        served.script(text_reply("asked again"))
        served.open()
        assert len(served.asked) == 2
        served.finish("after the restart")
    finally:
        served.close()
        project.close()


@pytest.mark.docker_only  # with podman networks are refused
def test_network_that_is_made_anew_refuses_a_projects_and_warns_of_the_operators(
    served: Served, docker_engine: Engine
) -> None:
    """W-13, R-140, D-17: the project's by the IDs of the grant; the operator's is looked up anew, and works."""
    project = Project(docker_engine, str(served.flags["sandbox_image"]))
    name = f"{project.name}_back"
    old = project.network("back")
    operator = dict(served.flags)
    try:
        for by_project in (True, False):
            served.project = {"sandbox_networks": [name]} if by_project else None
            served.flags = operator if by_project else {**operator, "sandbox_networks": [name]}
            live = served.open()
            docker_engine.run("network", "rm", name)
            gone = refusal(lambda: live.create("x", (), "r0"))  # noqa: B023
            assert (gone.status, gone.code) == (409, "changed")
            new = project.network("back")
            if by_project:
                changed = refusal(lambda: live.create("x", (), "r1"))  # noqa: B023
                assert f"approved as {old}, now {new}" in changed.message
                assert live.state()["refusal"]
            else:
                served.script(text_reply("works"))
                session, snapshot = served.finish("x")
                events = live.subscribe(session, snapshot["last_event"].split(".")[0] + ".0").next(0) or []
                warned = [event.data["text"] for event in events if event.kind == "warning"]
                assert f'network "{name}" was made anew: {old} before, now {new}' in warned
                assert live.config()["containers"][0]["attached"][0]["id"] == new  # type: ignore[index]
                assert live.state()["refusal"] is None
            old = new
            served.close()
    finally:
        served.close()
        project.close()


def test_files_that_change_under_a_running_server(served: Served, docker_engine: Engine, base_image: str) -> None:
    """W-13, R-140: Dockerfile.odek appears, changes, goes; another folder, another image; odek.json is a notice."""
    work, flags = Path(served.host.cwd), dict(served.flags)
    served.flags = {}
    served.operator = {"sandbox_volumes": ["./data:/data"]}
    (work / "data").mkdir()
    (work / "Dockerfile.odek").write_text(f"FROM {base_image}\nRUN echo one >/one\n")
    served.script(text_reply("built"))
    live = served.open()
    (built,) = {str(live.config()["planned"]["image_id"])}  # type: ignore[index]
    (work / "Dockerfile.odek").write_text(f"FROM {base_image}\nRUN echo two >/two\n")
    changed = refusal(lambda: live.create("x", (), "r1"))
    assert (changed.status, changed.code) == (409, "changed")
    assert "Dockerfile.odek or its .dockerignore changed: sha256 " in changed.message
    (work / "Dockerfile.odek").unlink()
    assert "now there is none" in refusal(lambda: live.create("x", (), "r2")).message
    (work / "Dockerfile.odek").write_text(f"FROM {base_image}\nRUN echo one >/one\n")
    (work / ".dockerignore").write_text("secret\n")
    assert ".dockerignore" in refusal(lambda: live.create("x", (), "r3")).message
    (work / ".dockerignore").unlink()
    (work / "data").rename(work / "elsewhere")
    (work / "data").symlink_to("/etc")
    assert "symbolic link" in refusal(lambda: live.create("x", (), "r4")).message
    (work / "data").unlink()
    (work / "elsewhere").rename(work / "data")
    (work / "odek.json").write_text("{}")
    assert live.state()["refusal"] is None, "undone, so nothing is refused"
    session, snapshot = served.finish("works")
    events = live.subscribe(session, snapshot["last_event"].split(".")[0] + ".0").next(0) or []
    notices = [event.data["text"] for event in events if event.kind == "notice"]
    assert "odek.json has changed; what it says now counts after a restart" in notices
    live.sandbox(session, "close")
    wait_for(lambda: not containers(docker_engine))
    docker_engine.run("rmi", "--force", built)
    gone = refusal(lambda: live.start_turn(session, "x", (), "r5"))
    assert (gone.code, built in gone.message) == ("changed", True)
    served.when(session, lambda found: not found["live"])  # it is let go, so that the command line can have it
    work.rename(served.root / "moved")
    work.mkdir()
    assert refusal(lambda: live.create("x", (), "r6")).code == "changed"
    served.close()
    work.rmdir()
    (served.root / "moved").rename(work)
    (work / "Dockerfile.odek").unlink()
    (work / "odek.json").unlink()
    served.flags, served.operator = flags, {}
    live = served.open()
    (work / "Dockerfile.odek").write_text(f"FROM {base_image}\n")
    served.script(text_reply("an image was named, so the file does not count"))
    served.finish("x")


KILLED = """
import os, sys, pathlib
sys.path[:0] = sys.argv[1].split(os.pathsep)
from support.served import Served
from fakes.model import call_reply, text_reply
from odek.sandbox.docker import DockerCli
docker, image = DockerCli(sys.argv[3], dict(os.environ)), {"sandbox_image": sys.argv[4]}
served = Served(pathlib.Path(sys.argv[2]), docker=docker, flags=image)
served.script(*[call_reply(("shell", {"command": f"echo step {n}; sleep 0.05"})) for n in range(200)])
served.open()
print("open", flush=True)
print(served.live.create("work", (), "r")["id"], flush=True)
served.settled(next(iter(served.live._sessions)))
"""


def test_killed_server_leaves_no_container_and_whole_sessions(served: Served, docker_engine: Engine) -> None:
    """W-12, R-138, R-145: SIGKILL at some moments; each session opens, goes on, and has a result for each call."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    arguments = (paths, str(served.root), docker_engine.client, str(served.flags["sandbox_image"]))
    for delay_s in (0.0, 0.4, 1.2):
        command = [sys.executable, "-c", KILLED, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "open\n"
            time.sleep(delay_s)
            server.send_signal(signal.SIGKILL)
        wait_for(lambda: not containers(docker_engine))
    served.script(*(text_reply("goes on") for _ in range(3)))
    live = served.open()
    listed = live.list()
    assert listed["damaged"] == []
    assert listed["sessions"], "one was begun at least"
    for entry in listed["sessions"]:  # type: ignore[union-attr]
        served.models[:] = []
        served.script(text_reply("goes on"))
        messages = history(live._serving.store.read(entry["id"]))
        called = [call.id for message in messages for call in message.tool_calls]
        assert [message.tool_call_id for message in messages if message.role == "tool"] == called
        assert served.finish("on", entry["id"])[1]["entries"][-1]["text"] == "goes on"


@pytest.mark.docker_only  # with podman networks are refused
def test_cards_of_a_session_in_a_real_sandbox(served: Served, docker_engine: Engine) -> None:
    """W-16, R-133, R-134: a batch shows the networks, `none` runs neither; trust ends with the container."""
    project = Project(docker_engine, str(served.flags["sandbox_image"]))
    network = f"{project.name}_back"
    project.network("back")
    served.flags = {**served.flags, "sandbox_network": "bridge", "sandbox_networks": [network]}
    fetch = ("shell", {"command": "touch ran-$$; wget -q http://192.0.2.1/", "timeout": 5})
    served.script(
        call_reply(fetch, fetch), text_reply("none"), call_reply(fetch), text_reply("trusted"), call_reply(fetch),
        text_reply("unasked"), call_reply(fetch), text_reply("asked again"),
    )  # fmt: skip

    def ran() -> int:
        return len(list(Path(served.host.cwd).glob("ran-*")))

    def ask(session: str) -> dict[str, Any]:
        (card,) = served.when(session, lambda found: found["approvals"])["approvals"]
        return dict(card)

    try:
        live = served.open()
        session = str(live.create("two", (), "r1")["id"])
        card = ask(session)
        assert (card["kind"], card["answers"], len(card["items"])) == ("card", ["all", "singly", "none"], 2)
        assert card["boundary"] == card["place"] == f"sandbox network=bridge+attached, networks={network}"
        assert (card["sandbox"]["internet"], card["host"]) == (True, False)
        assert card["sandbox"]["networks"] == [{"name": network, "internal": False}]
        assert card["items"][0]["classes"] == ["network_egress"]
        live.answer(session, card["id"], "none", card["digest"])
        snapshot = served.settled(session)
        assert [entry["failed"] for entry in snapshot["entries"] if entry["kind"] == "result"] == [True, True]
        assert ran() == 0
        live.start_turn(session, "trust", (), "r2")
        card = ask(session)
        assert (card["kind"], card["answers"]) == ("operation", ["once", "trust", "deny"])
        assert card["place"].startswith(f"sandbox {card['sandbox']['container']}, network=bridge+attached")
        live.answer(session, card["id"], "trust", card["digest"])
        served.settled(session)
        assert ran() == 1
        served.finish("unasked", session)
        assert ran() == 2
        live.sandbox(session, "restart")
        served.when(session, lambda found: found["state"] == "idle" and found["container"])
        live.start_turn(session, "asked again", (), "r3")
        card = ask(session)
        assert card["answers"] == ["once", "trust", "deny"], "the trust ended with the container"
        live.answer(session, card["id"], "deny", card["digest"])
        served.settled(session)
        assert ran() == 2
    finally:
        served.close()
        project.close()
