"""Which containers are ours, whose they are, and which may be removed (R-38, B07)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes.docker import FakeDocker

from odek.sandbox.container.owner import OwnedContainer, Owner, choose_containers, list_containers, remove_containers
from odek.sandbox.errors import SandboxConfigError

ME = Owner(pid=10, start="500", boot="boot", pidns="pid:[1]", uid=1000)
ALIVE, DEAD, FOREIGN = "a" * 64, "b" * 64, "c" * 64


def box(full_id: str = ALIVE, name: str = "odek-10-1", standing: str = "in use") -> OwnedContainer:
    return OwnedContainer(
        id=full_id, name=name, state="running", standing=standing, owner_pid=10, workdir="/w",  # type: ignore[arg-type]
        image_id="sha256:x", network="none", created="2026-01-01T00:00:00",
    )  # fmt: skip


def line(full_id: str, pid: int, boot: str = "boot") -> str:
    return "\t".join((full_id, *(json.dumps(field) for field in (str(pid), "500", boot, "pid:[1]", "1000"))))


def inspected(full_id: str, name: str) -> dict[str, object]:
    return {
        "Id": full_id, "Name": f"/{name}", "State": {"Status": "running"}, "Image": "sha256:x",
        "Created": "2026-01-01T00:00:00.5Z", "HostConfig": {"NetworkMode": "none"},
        "Mounts": [{"Destination": "/data", "Source": "/other"}, {"Destination": "/workspace", "Source": "/w"}],
    }  # fmt: skip


def test_lists_each_container_with_its_standing() -> None:
    """R-38: alive, dead, and of another machine are told apart."""
    docker = FakeDocker()
    docker.on("ps", stdout="\n".join((line(ALIVE, 10), line(DEAD, 11), line(FOREIGN, 11, "other"))) + "\n")
    rows = [inspected(ALIVE, "odek-10-1"), inspected(DEAD, "odek-11-1"), inspected(FOREIGN, "odek-11-2")]
    docker.on("inspect", stdout=json.dumps(rows))
    found = list_containers(docker, me=ME, start_of={10: "500"}.get)
    assert [(entry.name, entry.standing, entry.workdir) for entry in found] == [
        ("odek-10-1", "in use", "/w"),
        ("odek-11-1", "left behind", "/w"),
        ("odek-11-2", "somebody else's", "/w"),
    ]


def test_lists_nothing_without_a_second_call() -> None:
    docker = FakeDocker()
    docker.on("ps", stdout="")
    assert list_containers(docker, me=ME, start_of=lambda _: None) == ()
    assert len(docker.calls) == 1


@pytest.mark.parametrize(("code", "text"), [(1, ""), (0, "not json")])
def test_a_docker_that_does_not_tell_is_an_error(code: int, text: str) -> None:
    docker = FakeDocker()
    docker.on("ps", stdout=line(ALIVE, 10), code=code)
    docker.on("inspect", stdout=text)
    with pytest.raises(SandboxConfigError):
        list_containers(docker, me=ME, start_of=lambda _: None)


@pytest.mark.parametrize("name", ["odek-10-1", ALIVE, ALIVE[:12]])
def test_a_name_or_an_id_chooses(name: str) -> None:
    assert choose_containers([name], [box()], force=True) == (box(),)


@pytest.mark.parametrize("name", ["postgres", ALIVE[:11], "odek-10-2", "", "--force"])
def test_what_is_not_ours_is_never_removed(name: str) -> None:
    """B07: only containers with our label, by exact name or long ID."""
    with pytest.raises(SandboxConfigError, match="not a container of odek's"):
        choose_containers([name], [box()], force=True)


@pytest.mark.parametrize("standing", ["in use", "somebody else's"])
def test_one_in_use_needs_force(standing: str) -> None:
    with pytest.raises(SandboxConfigError, match=standing):
        choose_containers(["odek-10-1"], [box(standing=standing)], force=False)
    assert choose_containers(["odek-10-1"], [box(standing="left behind")], force=False)


def test_removes_by_full_id_and_reports_a_refusal() -> None:
    docker = FakeDocker()
    docker.on("rm", code=1, stderr="no")
    remove_containers((), docker)
    assert docker.calls == []
    with pytest.raises(SandboxConfigError, match="did not remove"):
        remove_containers((box(),), docker)
    assert docker.calls[0].args == ("rm", "--force", "--volumes", "--", ALIVE)


def test_one_that_is_not_removed_keeps_no_other() -> None:
    """R-383, M-33."""
    docker = FakeDocker().on("rm", has=ALIVE, code=1, stderr="no").on("rm")
    with pytest.raises(SandboxConfigError, match="did not remove every"):
        remove_containers((box(), replace(box(), id="b" * 64)), docker)
    assert [call.args[-1] for call in docker.calls] == [ALIVE, "b" * 64]
