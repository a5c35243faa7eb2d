"""The attacks of `odek sandbox verify`: programs, script, and what results mean."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from pathlib import Path

import pytest
from support.load_module import ROOT

from odek.sandbox import probes
from odek.sandbox.probes import CALLS, HIT, INSIDE, MACHINES, Call, Circumstances, elf, judge_errno, read_verdicts

PLAIN = Circumstances(networks=False, readonly=False, hit_limits=False)
BODY = Path(probes.__file__).with_name("probes.sh").read_text()
PROMISES = Path(__file__).parents[3] / "SECURITY.md"
GETPID = probes.HARMLESS
NO_SUCH = Call(id="none", claim="", numbers=(1000, 1000))
BAD_CLOSE = Call(id="close", claim="", numbers=(3, 57), arguments=(-1,))


def test_identifiers_are_unique_and_each_promise_is_one_of_security_md() -> None:
    ids = [probe.id for probe in (*INSIDE, *HIT, *probes.OUTSIDE)] + [call.id for call in CALLS]
    assert len(ids) == len(set(ids)) >= 110
    text = PROMISES.read_text()
    promised = {probe.promise for probe in (*INSIDE, *HIT, *probes.OUTSIDE)} - {""}
    assert [promise for promise in sorted(promised) if f"**{promise}**" not in text] == []


@pytest.mark.parametrize("machine", MACHINES)
def test_a_program_is_an_elf_file_of_its_machine(machine: str) -> None:
    for call in CALLS:
        program = elf(machine, call)
        if program is None:
            assert call.numbers[MACHINES.index(machine)] is None
            continue
        assert len(program) < 260
        kind, number = struct.unpack_from("<HH", program, 16)
        (entry,) = struct.unpack_from("<Q", program, 24)
        offset, address, size = struct.unpack_from("<QQ8xQ", program, 64 + 8)
        assert (program[:6], kind, number) == (b"\x7fELF\x02\x01", 2, {"x86_64": 62, "aarch64": 183}[machine])
        assert (offset, size, entry - address) == (0, len(program), 120)


def test_an_unknown_machine_has_no_program() -> None:
    assert elf("riscv64", GETPID) is None


@pytest.fixture(scope="module")
def runners() -> dict[str, list[str]]:
    """Processor → what a program for it is run with here, where it can be run."""
    found: dict[str, list[str]] = {}
    for machine in MACHINES:
        emulated = [str(ROOT / "scripts" / "emulated"), machine]
        if machine == platform.machine():
            found[machine] = []
        elif subprocess.run([*emulated, "true"], capture_output=True).returncode == 0:
            found[machine] = emulated
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("call", "code"), [(GETPID, 0), (NO_SUCH, 38), (BAD_CLOSE, 9)], ids=lambda value: str(value))
def test_a_program_makes_its_call_and_exits_with_the_errno(
    call: Call, code: int, machine: str, runners: dict[str, list[str]], tmp_path: Path
) -> None:
    """R-393: for the other processor too, where scripts/emulated can run it."""
    if machine not in runners:
        pytest.skip(f"nothing here runs programs for {machine}")
    program = tmp_path / "call"
    data = elf(machine, call)
    assert data is not None
    descriptor = os.open(program, os.O_WRONLY | os.O_CREAT, 0o700)
    os.write(descriptor, data)
    os.close(descriptor)
    assert subprocess.run([*runners[machine], program]).returncode == code


@pytest.mark.parametrize(
    ("code", "status"),
    [(1, "ok"), (13, "ok"), (38, "ok"), (97, "ok"), (159, "ok"), (126, "skip"), (127, "skip")]
    + [(code, "OPEN") for code in (0, 2, 3, 9, 14, 22, 95)],
)
def test_only_a_refusal_is_a_closed_door(code: int, status: str) -> None:
    assert judge_errno(code)[0] == status


def test_a_probe_that_does_not_report_is_open() -> None:
    """Nothing that fails looks like success: a script that was cut off proves nothing."""
    verdicts = read_verdicts("no_new_privs\tok\t1\nseccomp.mode\tfine\t2\ncall.bpf\t1\t\nforged.id\tok\tx\n", PLAIN)
    found = {verdict.id: (verdict.status, verdict.seen) for verdict in verdicts}
    assert found.pop("no_new_privs") == ("ok", "1")
    assert found.pop("call.bpf") == ("ok", "EPERM")
    assert set(found.values()) == {("OPEN", "the probe did not report")}
    assert len(verdicts) == len(INSIDE) + len(CALLS)


def test_the_first_report_of_a_probe_counts() -> None:
    """A command's own output cannot take an OPEN back."""
    verdicts = read_verdicts("tmp.size\tOPEN\tno size\ntmp.size\tok\t1g\n", PLAIN)
    assert next(verdict.status for verdict in verdicts if verdict.id == "tmp.size") == "OPEN"


def test_the_script_mentions_each_probe_and_each_call_for_both_machines() -> None:
    script = probes.render_script(BODY, PLAIN)
    for call in CALLS:
        assert script.count(f"_call {call.id} ") + script.count(f"_call {call.id}\n") == len(MACHINES) + 1
    fixed = [probe.id for probe in (*INSIDE, *HIT) if probe.id.split(".")[0] not in ("cap", "tmp", "shm", "keepalive")]
    assert [name for name in fixed if name not in script] == []


def test_settings_stand_before_the_script_and_are_quoted() -> None:
    asked = Circumstances(networks=True, readonly=True, hit_limits=True, volumes=("/mnt/it's", "/data"))
    head = probes.render_script("body", asked).partition("body")[0]
    done = subprocess.run(
        ["sh", "-c", head + 'printf %s "$networks|$readonly|$hit_limits|$volumes"'], capture_output=True
    )
    assert done.stdout == b"1|1|1|/mnt/it's /data "


def test_verdicts_survive_the_way_to_another_process() -> None:
    verdicts = read_verdicts("no_new_privs\tok\t1\n", PLAIN)
    rows = [{"id": verdict.id, "status": verdict.status, "seen": verdict.seen} for verdict in verdicts]
    assert probes.read_verdicts_of_child(rows) == verdicts
