"""A sub-agent's rights: for every parent and task never more than the parent's, and less where that was asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from odek.danger.risk import RiskClass
from odek.delegate.brief import Brief
from odek.delegate.rights import ENOUGH_MEMORY_BYTES, ENOUGH_PIDS, Rights, concurrency, narrow, writes
from odek.sandbox.engine import DOCKER
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.sandbox.spec import Limits, Mount, SandboxSpec
from odek.tools.arguments import ArgumentError
from odek.tools.delegate import CLASSES

pytestmark = pytest.mark.once  # no Python can make a difference

FRONT = Network(name="front", id="a" * 64, internal=False, compose_project="app")
BACK = Network(name="back", id="b" * 64, internal=True, compose_project="app")
TOOLS = ("read_file", "write_file", "delegate_tasks", "server__do", "shell")
SPEC = SandboxSpec(
    image="some/image:1", image_id="sha256:" + "1" * 64, workdir="/w", workdir_id=(1, 2), readonly=False, user="7:8",
    home="/tmp", limits=Limits(pids=600, memory_bytes=900 << 20, nano_cpus=3 * 10**9, tmp_bytes=300 << 20),
    env=(("A", "1"),), volumes=(Mount(source="/w/v", target="/v"), Mount(source="/w/r", target="/r", readonly=True)),
    covered=("/workspace/c",), left_out=("c",), git=Mount(source="/g", target="/g", readonly=True), git_outside=True,
    attachments=True, engine=replace(DOCKER, rootless=True), umask=0o077, seccomp_file="/f", image_volumes=("/data",),
)  # fmt: skip
SPECS = [
    None,
    *(
        replace(SPEC, readonly=readonly, networks=NetworkPlan(mode=mode, attached=attached))
        for readonly in (False, True)
        for mode in ("none", "bridge")
        for attached in ((), (FRONT, BACK))
    ),
]
PARENTS = [
    Rights(sandbox=spec, tools=tools, worst=worst, trusted=trusted, max_iterations=30, timeout_s=900)
    for spec in SPECS
    for tools in (TOOLS, ("read_file",), ())
    for worst in (RiskClass.BLOCKED, RiskClass.INSTALL)
    for trusted in (True, False)
]
BRIEFS = [
    Brief(goal="g", readonly=readonly, network=network, networks=networks, tools=tools, max_risk=risk, trusted=trusted)
    for readonly, network, networks, tools, risk, trusted in itertools.product(
        (None, False, True),
        (None, "none", "bridge"),
        (None, (), ("front",), ("front", "back"), ("later",)),
        (None, ("read_file",), ("read_file", "shell"), ("delegate_tasks",), ("server__do",)),
        (None, "safe", "system_write"),
        (None, True, False),
    )
]


def asks_for_more(parent: Rights, brief: Brief) -> bool:
    """Return whether the table of rights refuses `brief`: written down on its own, row by row."""
    spec = parent.sandbox
    if spec is None:
        place = brief.readonly is True or brief.network is not None or brief.networks is not None
    else:
        known = {network.name for network in spec.networks.attached}
        place = (
            (brief.readonly is False and spec.readonly)
            or (brief.network == "bridge" and spec.networks.mode != "bridge")
            or not known.issuperset(brief.networks or ())
        )
    usable = set(parent.tools) - {"delegate_tasks", "server__do"}
    return (
        place
        or not usable.issuperset(brief.tools or ())
        or (brief.max_risk is not None and RiskClass[brief.max_risk.upper()] > parent.worst)
        or (brief.trusted is True and not parent.trusted)
    )


def wider(parent: Rights, child: Rights) -> Iterator[str]:
    """Yield what `child` has and `parent` has not."""
    if not set(child.tools) <= set(parent.tools) - {"delegate_tasks", "server__do"}:
        yield "tools"
    if child.worst > parent.worst or child.trusted > parent.trusted:
        yield "policy"
    if child.max_iterations > parent.max_iterations or child.timeout_s > parent.timeout_s:
        yield "budget"
    before, after = parent.sandbox, child.sandbox
    if before is None or after is None:
        if before is not after:
            yield "place"
        return
    if before.readonly > after.readonly:
        yield "folder"
    if not set(after.networks.attached) <= set(before.networks.attached):
        yield "networks"
    if after.networks.mode not in ("none", before.networks.mode):
        yield "network mode"
    for old, new in zip(before.volumes, after.volumes, strict=True):
        if replace(old, readonly=True) != replace(new, readonly=True) or old.readonly > new.readonly:
            yield "volumes"
        if after.readonly and not new.readonly:
            yield "volumes that can be written"
    free = {"readonly", "networks", "volumes", "limits"}
    for each in fields(SandboxSpec):
        if each.name not in free and getattr(before, each.name) != getattr(after, each.name):
            yield each.name


@pytest.mark.parametrize("parent", PARENTS, ids=lambda parent: "" if parent.sandbox else "host")
def test_no_task_gets_more_than_its_parent_has(parent: Rights) -> None:
    """R-222, R-86, P-40, F-77: the whole product of rights and tasks, both directions; what is refused is a failure."""
    for brief in BRIEFS:
        try:
            child = narrow(parent, brief, share=3)
        except ArgumentError:
            assert asks_for_more(parent, brief), brief
            continue
        assert not asks_for_more(parent, brief), brief
        assert list(wider(parent, child)) == [], brief
        assert gives_up(child, brief) == [], brief


def gives_up(child: Rights, brief: Brief) -> list[str]:
    """Return what a task gave up and has all the same, or did not give up and has lost."""
    wrong = []
    if brief.tools is not None and child.tools != tuple(name for name in TOOLS if name in brief.tools):
        wrong.append("tools")
    if brief.max_risk is not None and child.worst is not RiskClass[brief.max_risk.upper()]:
        wrong.append("max_risk")
    if brief.trusted is False and child.trusted:
        wrong.append("trust")
    spec = child.sandbox
    if spec is None:
        return wrong
    if brief.readonly is not None and spec.readonly is not brief.readonly:
        wrong.append("readonly")
    if brief.network is not None and spec.networks.mode != brief.network:
        wrong.append("network")
    if brief.networks is not None and {net.name for net in spec.networks.attached} != set(brief.networks):
        wrong.append("networks")
    return wrong


@pytest.mark.parametrize("parent", PARENTS, ids=lambda parent: "" if parent.sandbox else "host")
def test_what_a_task_does_not_say_it_inherits(parent: Rights) -> None:
    """R-222: all but the tool itself, tools of MCP servers, and its share of the limits."""
    child = narrow(parent, Brief(goal="g"), share=1)
    kept = tuple(name for name in parent.tools if name not in ("delegate_tasks", "server__do"))
    volumes = (
        tuple(replace(volume, readonly=True) for volume in SPEC.volumes)
        if parent.sandbox and parent.sandbox.readonly
        else SPEC.volumes
    )
    spec = parent.sandbox and replace(parent.sandbox, volumes=volumes)
    assert child == replace(parent, tools=kept, sandbox=spec)


def test_volumes_are_read_only_with_the_folder() -> None:
    """R-222: a part of the folder under another name is no way to write it."""
    parent = replace(PARENTS[0], sandbox=SPEC)
    child = narrow(parent, Brief(goal="g", readonly=True), share=1)
    assert child.sandbox is not None
    assert [volume.readonly for volume in child.sandbox.volumes] == [True, True]
    assert (writes(parent), writes(child)) == (True, False)


@pytest.mark.parametrize("share", [1, 2, 3, 8])
def test_shares_together_are_no_more_than_the_parent_has(share: int) -> None:
    """R-222: each limit, for as many as may work at once."""
    child = narrow(replace(PARENTS[0], sandbox=SPEC), Brief(goal="g"), share=share).sandbox
    assert child is not None
    for name in ("pids", "memory_bytes", "nano_cpus", "tmp_bytes"):
        assert getattr(child.limits, name) * share <= getattr(SPEC.limits, name)
        assert getattr(child.limits, name) * (share + 1) > getattr(SPEC.limits, name) - share * share


@pytest.mark.parametrize(
    ("limits", "together"),
    [
        (Limits(), 3),
        (Limits(pids=3 * ENOUGH_PIDS), 3),
        (Limits(pids=3 * ENOUGH_PIDS - 1), 2),
        (Limits(pids=5), 1),
        (Limits(memory_bytes=2 * ENOUGH_MEMORY_BYTES), 2),
        (Limits(memory_bytes=1 << 20), 1),
        (Limits(nano_cpus=10**7), 1),
        (Limits(tmp_bytes=2 << 20), 2),
    ],
    ids=str,
)
def test_fewer_work_at_once_where_a_share_would_be_too_small(limits: Limits, together: int) -> None:
    """R-222: 64 processes and 64 MiB are enough for one."""
    assert concurrency(replace(PARENTS[0], sandbox=replace(SPEC, limits=limits)), 3) == together


def test_on_the_host_tasks_go_one_after_the_other() -> None:
    """R-223: there is no container that would keep them apart."""
    host = replace(PARENTS[0], sandbox=None)
    assert (concurrency(host, 8), writes(host)) == (1, True)


@pytest.mark.parametrize(("field", "limit"), [("max_iterations", 30), ("timeout_s", 900)])
def test_time_and_iterations_can_only_be_fewer(field: str, limit: int) -> None:
    """R-221, R-222."""
    for wanted in (1, limit - 1, limit):
        child = narrow(PARENTS[0], replace(Brief(goal="g"), **{field: wanted}), share=1)
        assert getattr(child, field) == wanted
    with pytest.raises(ArgumentError, match=f"must be at most {limit}, not {limit + 1}"):
        narrow(PARENTS[0], replace(Brief(goal="g"), **{field: limit + 1}), share=1)


def test_names_of_classes_are_those_of_the_classifier() -> None:
    """R-220: the row of the tool lists them without importing it."""
    assert tuple(level.label for level in RiskClass) == CLASSES
