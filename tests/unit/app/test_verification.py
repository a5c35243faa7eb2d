"""What is remembered of an attack on the sandbox, and what a start that requires one makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.homes import operator_home

from odek.app.verification import FILE, VerifiedStore, find_objection, verification_key
from odek.sandbox.probes import CALLS, HIT, INSIDE, OUTSIDE, Verdict
from odek.sandbox.spec import Limits, Mount, SandboxSpec
from odek.state import StateFolder

CLOSED = {**{probe.id: "ok" for probe in INSIDE}, **{call.id: "ok" for call in CALLS}}
SPEC = SandboxSpec(
    image="some/image:1",
    image_id="sha256:" + "1" * 64,
    workdir="/src",
    readonly=False,
    user="1000:1000",
    home="/tmp",
    limits=Limits(pids=128, memory_bytes=None, nano_cpus=None),
)


@pytest.mark.parametrize(
    ("known", "required", "objection"),
    [
        ({}, (), "the sandbox was not attacked yet"),
        (CLOSED, (), ""),
        ({**CLOSED, "limits.memory": "info", "call.iopl": "skip"}, (), ""),
        ({**CLOSED, "net.routes": "OPEN", "call.mount": "OPEN"}, (), "the sandbox is open: call.mount, net.routes"),
        ({**CLOSED, "host.sigkill": "OPEN"}, (), "the sandbox is open: host.sigkill"),
        ({key: value for key, value in CLOSED.items() if key != "net.ipv6"}, (), "the sandbox was not attacked yet"),
        (CLOSED, ("net.routes",), ""),
        (
            {**CLOSED, "call.iopl": "skip"},
            ("call.iopl", "net.routes", "hit.tmp"),
            "call.iopl: skip; hit.tmp: not tried",
        ),
        ({**CLOSED, "hit.tmp": "ok"}, ("hit.tmp",), ""),
    ],
)
def test_objection(known: dict[str, str], required: tuple[str, ...], objection: str) -> None:
    found = find_objection(known, required)
    assert (found == "") is (objection == "")
    assert found.endswith(objection)


@pytest.mark.parametrize(
    "changes",
    [
        {"image_id": "sha256:" + "2" * 64},
        {"readonly": True},
        {"user": "0:0"},
        {"limits": Limits(pids=129, memory_bytes=None, nano_cpus=None)},
        {"volumes": (Mount(source="/src/a", target="/a", readonly=False),)},
        {"env": (("A", "b"),)},
        {"attachments": True},
        {"covered": ("below",)},
        {"git": Mount(source="/git", target="/git", readonly=True)},
        {"seccomp_file": "/home/user/.odek/seccomp.json"},
    ],
    ids=str,
)
def test_sandbox_of_other_settings_is_another_one(changes: dict[str, object]) -> None:
    assert verification_key(replace(SPEC, **changes), daemon="28") != verification_key(SPEC, daemon="28")  # type: ignore[arg-type]


def test_other_engine_is_another_one_and_another_folder_is_not() -> None:
    key = verification_key(SPEC, daemon="28")
    assert verification_key(SPEC, daemon="29") != key
    assert verification_key(replace(SPEC, workdir="/other", workdir_id=(1, 2)), daemon="28") == key
    assert len(key) == 64


def test_verdicts_are_remembered_and_what_was_not_tried_keeps_its_last(tmp_path: Path) -> None:
    moments = iter(range(100))
    store = VerifiedStore(StateFolder(operator_home(tmp_path)), lambda: next(moments))
    assert store.find("a") == {}
    store.add("a", [verdict("cap.effective", "OPEN"), verdict("hit.tmp", "ok")])
    store.add("b", [verdict("cap.effective", "ok")])
    assert store.add("a", [verdict("cap.effective", "ok")]) == {"cap.effective": "ok", "hit.tmp": "ok"}
    assert store.find("a") == {"cap.effective": "ok", "hit.tmp": "ok"}
    assert store.find("b") == {"cap.effective": "ok"}
    (file,) = tmp_path.rglob(FILE)
    assert file.stat().st_mode & 0o777 == 0o600
    for damaged in ("[]", '{"a": 1}', '{"a": {"verdicts": [1]}}'):
        file.write_text(damaged)
        assert find_objection(store.find("a"), ()) == "the sandbox was not attacked yet"


def verdict(name: str, status: str) -> Verdict:
    assert name in {probe.id for probe in (*INSIDE, *HIT, *OUTSIDE)}
    return Verdict(id=name, status=status, seen="", claim="", promise="")  # type: ignore[arg-type]
