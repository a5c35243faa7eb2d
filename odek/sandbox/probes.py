"""The attacks of `odek sandbox verify`: what is tried inside, what each result means, and which promise it proves.

Inside, one shell script (`probes.sh`) does all of it with `sh` and what the image happens to have. System
calls that no program makes are made by a static program of some 200 bytes, one for each call, that
exits with the call's errno; `elf` writes it, for x86_64 and aarch64. Everything here is pure.

A probe that worked must not hurt: times are set to what they are, names to themselves, `reboot` gets a
wrong magic number. Where a network was asked for, what its routes allow is reported and nothing is sent.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "OPEN", "info", "skip"]
STATUSES: tuple[Status, ...] = ("ok", "OPEN", "info", "skip")

_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_REFUSED = (_EPERM, _EACCES, _ENOSYS)
_NOT_IN_KERNEL = (19, 93, 94, 97)
"""ENODEV, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT: this kernel has no such thing"""
_CANNOT_RUN = (126, 127)
MACHINES = ("x86_64", "aarch64")
_ELF_MACHINE = {"x86_64": 62, "aarch64": 183}
_BASE = 0x400000
_HEADERS_SIZE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One attack."""

    id: str
    claim: str
    """what is true when it fails"""
    promise: str
    """the line of SECURITY.md that this belongs to, "" for what is only reported"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A system call with numbers as arguments."""

    id: str
    claim: str
    numbers: tuple[int | None, int | None]
    """of x86_64 and aarch64; None where the architecture has no such call"""
    arguments: tuple[int, ...] = ()
    ia32: bool = False
    """made through the 32-bit entry of an x86_64 kernel"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a probe found."""

    id: str
    status: Status
    seen: str
    claim: str
    promise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the sandbox under attack was asked to be."""

    networks: bool
    """whether it has any network at all"""
    readonly: bool
    hit_limits: bool
    """whether the limits are to be reached, which takes seconds"""
    volumes: tuple[str, ...] = ()
    """where volumes that were asked for are mounted"""
    memory_limited: bool = False
    cpu_limited: bool = False


def _probes(promise: str, **claims: str) -> tuple[Probe, ...]:
    return tuple(Probe(id=name.replace("__", "."), claim=claim, promise=promise) for name, claim in claims.items())


INSIDE: tuple[Probe, ...] = (
    *_probes(
        "S-5",
        cap__inheritable="no inheritable capability",
        cap__permitted="no permitted capability",
        cap__effective="no effective capability",
        cap__bounding="no capability can be gained",
        cap__ambient="no ambient capability",
        no_new_privs="a setuid program gives no rights",
        seccomp__mode="system calls are filtered",
        user__groups="no further groups",
        dev__unexpected="/dev has the harmless devices only",
        dev__block="no block device",
        dev__mknod="no device can be made",
        dev__kmsg="the kernel's log is not there",
        dev__mem="physical memory is not there",
        proc__kcore="the kernel's memory cannot be read",
        proc__keys="other users' keys are not listed",
        proc__timer_list="the kernel's timers are not listed",
        proc__sched_debug="the scheduler's state is not shown",
        proc__acpi="/proc/acpi is empty",
        proc__scsi="/proc/scsi is empty",
        proc__sysrq="the machine's emergency keys cannot be pressed",
        sysctl__domainname="no kernel setting can be written",
        sysctl__core_pattern="the host's core dump program cannot be named",
        sysctl__modprobe="the host's module loader cannot be named",
        sysctl__binfmt="no program format can be registered",
        sysfs__uevent_helper="the host's device helper cannot be named",
        cgroup__release_agent="the host's control group helper cannot be named",
        cgroup__procs="no process can be moved to another control group",
        cgroup__mkdir="no control group can be made",
        cgroup__namespace="the host's control groups are not named",
        limits__ulimit="hard limits cannot be raised",
        limits__nice="priority cannot be raised",
        limits__oom="protection against the memory killer cannot be had",
        limits__core="no core dumps",
        limits__pids="the number of processes is limited",
        limits__memory="a memory limit that was asked for is in force",
        limits__cpu="a processor limit that was asked for is in force",
        tmp__noexec="no program runs from /tmp",
        tmp__nosuid="/tmp is mounted nosuid",
        tmp__nodev="/tmp is mounted nodev",
        tmp__size="/tmp cannot fill the machine's memory",
        tmp__inodes="/tmp cannot fill the machine's memory with empty files",
        shm__noexec="no program runs from /dev/shm",
        shm__nosuid="/dev/shm is mounted nosuid",
        shm__nodev="/dev/shm is mounted nodev",
        shm__size="/dev/shm cannot fill the machine's memory",
        image__etc="accounts and names of the image cannot be changed",
    ),
    *_probes(
        "S-10",
        host__pids="the host's processes are not visible",
        keepalive__signal="what keeps the sandbox alive cannot be signalled",
        keepalive__init="init cannot be signalled",
        keepalive__memory="its memory cannot be read",
        keepalive__environ="its environment cannot be read",
        keepalive__root="its root cannot be entered",
        keepalive__descriptors="its descriptors cannot be listed",
    ),
    *_probes(
        "S-6",
        mounts__unexpected="nothing of the host but the workspace is mounted",
        mounts__below="nothing is mounted below the workspace",
        mounts__propagation="mounts of the host do not appear later",
        docker__socket="Docker's socket is not there",
        sockets__files="no socket of another program is there",
        workspace__readonly="a read-only workspace cannot be written",
        descriptors="commands inherit no open file but their own three",
    ),
    *_probes(
        "S-7",
        net__interfaces="without a network there is the loopback device only",
        net__routes="without a network there is no route",
        net__ipv6="without a network there is no IPv6 route",
        net__unix="no abstract socket of the host is visible",
        net__resolver="the host's resolver is not named without a network",
        net__connect="no address can be reached without a network",
    ),
    *_probes("S-9", env__secrets="no variable that looks like a secret", env__proxies="no proxy of the host's client"),
    *_probes(
        "",
        user__id="whom commands run as",
        user__setuid="setuid programs of the image",
        workspace__options="how the workspace is mounted",
        workspace__path="whether the folder's place on the host can be read",
        image__writable="folders of the image that commands can write; they end with the container",
        leak__dmi="what can be read of this machine's make",
        leak__modules="whether the kernel's modules are listed",
        leak__partitions="whether the machine's disks are listed",
        kernel="which kernel is shared",
    ),
)
HIT: tuple[Probe, ...] = _probes(
    "S-5",
    hit__pids="more processes than the limit are refused, and commands go on afterwards",
    hit__memory="a command that takes more memory than the limit is killed",
    hit__cpu="a command that takes more processor time than the limit is slowed down",
    hit__tmp="/tmp is full at its size",
)
OUTSIDE: tuple[Probe, ...] = (
    *_probes("S-6", host__owner="a file from the sandbox belongs to its user", host__clean="nothing is left behind"),
    *_probes("S-16", host__sigkill="the container is gone after its odek was killed by SIGKILL"),
)

_NEWUSER, _NEWNS, _NEWNET, _NEWPID, _NEWIPC, _NEWUTS, _NEWCGROUP = (
    0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000,
)  # fmt: skip
_SIGCHLD = 17
_X32 = 0x40000000
CALLS: tuple[Call, ...] = (
    *(
        Call(
            id=f"call.unshare_{name}",
            claim=f"no new {name} namespace (unshare)",
            numbers=(272, 97),
            arguments=(flag,),
        )
        for name, flag in (
            ("user", _NEWUSER),
            ("mount", _NEWNS),
            ("network", _NEWNET),
            ("pid", _NEWPID),
            ("ipc", _NEWIPC),
            ("uts", _NEWUTS),
            ("cgroup", _NEWCGROUP),
        )
    ),
    Call(
        id="call.clone_user", claim="no new user namespace (clone)", numbers=(56, 220), arguments=(_NEWUSER | _SIGCHLD,)
    ),
    Call(id="call.clone3", claim="clone3, whose flags no filter can see, is not there", numbers=(435, 435)),
    Call(id="call.setns", claim="no namespace can be entered", numbers=(308, 268), arguments=(0, 0)),
    Call(id="call.chroot", claim="the root cannot be changed", numbers=(161, 51)),
    Call(id="call.pivot_root", claim="the root cannot be exchanged", numbers=(155, 41)),
    Call(id="call.mount", claim="nothing can be mounted", numbers=(165, 40)),
    Call(id="call.umount", claim="nothing can be unmounted", numbers=(166, 39)),
    Call(id="call.fsopen", claim="no file system can be opened", numbers=(430, 430)),
    Call(id="call.open_tree", claim="no mount can be cloned", numbers=(428, 428), arguments=(-100, 0, 1)),
    Call(id="call.move_mount", claim="no mount can be moved", numbers=(429, 429)),
    Call(id="call.mount_setattr", claim="no mount can be changed", numbers=(442, 442)),
    Call(id="call.open_by_handle", claim="no file can be opened past the mounts", numbers=(304, 265)),
    Call(id="call.sethostname", claim="the host name cannot be set", numbers=(170, 161)),
    Call(id="call.setdomainname", claim="the domain name cannot be set", numbers=(171, 162)),
    Call(id="call.settimeofday", claim="the clock cannot be set", numbers=(164, 170)),
    Call(id="call.clock_settime", claim="no clock can be set", numbers=(227, 112)),
    Call(id="call.reboot", claim="the machine cannot be rebooted", numbers=(169, 142)),
    Call(id="call.swapon", claim="no swap can be switched on", numbers=(167, 224)),
    Call(id="call.swapoff", claim="no swap can be switched off", numbers=(168, 225)),
    Call(id="call.acct", claim="accounting cannot be switched", numbers=(163, 89)),
    Call(id="call.quotactl", claim="quotas cannot be changed", numbers=(179, 60), arguments=(0x80000200,)),
    Call(id="call.syslog", claim="the kernel's log cannot be read", numbers=(103, 116), arguments=(10,)),
    Call(id="call.init_module", claim="no module can be loaded", numbers=(175, 105)),
    Call(id="call.finit_module", claim="no module can be loaded from a file", numbers=(313, 273), arguments=(-1,)),
    Call(id="call.delete_module", claim="no module can be removed", numbers=(176, 106)),
    Call(id="call.kexec_load", claim="no kernel can be loaded", numbers=(246, 104)),
    Call(
        id="call.kexec_file_load", claim="no kernel can be loaded from a file", numbers=(320, 294), arguments=(-1, -1)
    ),
    Call(id="call.iopl", claim="no port of the machine is opened", numbers=(172, None), arguments=(3,)),
    Call(id="call.ioperm", claim="no single port of the machine is opened", numbers=(173, None), arguments=(0, 1, 1)),
    Call(id="call.keyctl", claim="the kernel's keyrings are closed", numbers=(250, 219), arguments=(0, -3, 0)),
    Call(id="call.add_key", claim="no key can be added", numbers=(248, 217)),
    Call(id="call.request_key", claim="no key can be asked for", numbers=(249, 218)),
    Call(id="call.bpf", claim="no program can be given to the kernel", numbers=(321, 280)),
    Call(id="call.perf_event_open", claim="no performance counter", numbers=(298, 241)),
    Call(id="call.userfaultfd", claim="page faults cannot be handled by a program", numbers=(323, 282)),
    Call(id="call.io_uring_setup", claim="io_uring is closed", numbers=(425, 425), arguments=(1,)),
    Call(id="call.io_uring_enter", claim="io_uring takes no requests", numbers=(426, 426), arguments=(-1,)),
    Call(id="call.io_uring_register", claim="io_uring takes no buffers", numbers=(427, 427), arguments=(-1,)),
    Call(
        id="call.io_uring_x32",
        claim="io_uring is closed through the x32 entry",
        numbers=(_X32 | 425, None),
        arguments=(1,),
    ),
    Call(
        id="call.io_uring_ia32",
        claim="io_uring is closed through the 32-bit entry",
        numbers=(425, None),
        arguments=(1,),
        ia32=True,
    ),
    Call(id="call.ptrace_init", claim="init cannot be traced", numbers=(101, 117), arguments=(16, 1)),
    Call(id="call.process_vm_readv", claim="init's memory cannot be read", numbers=(310, 270), arguments=(1,)),
    Call(id="call.process_vm_writev", claim="init's memory cannot be written", numbers=(311, 271), arguments=(1,)),
    Call(
        id="call.pidfd_getfd",
        claim="no descriptor can be taken from another process",
        numbers=(438, 438),
        arguments=(-1,),
    ),
    Call(id="call.kcmp", claim="processes cannot be compared", numbers=(312, 272), arguments=(1, 1)),
    Call(id="call.fanotify_init", claim="file accesses cannot be watched", numbers=(300, 262)),
    Call(id="call.lookup_dcookie", claim="no path of the host can be looked up", numbers=(212, 18)),
    Call(id="call.personality", claim="addresses stay random", numbers=(135, 92), arguments=(0x40000,)),
    Call(id="call.vhangup", claim="no terminal can be hung up", numbers=(153, 58)),
    Call(id="call.uselib", claim="old library loading is closed", numbers=(134, None)),
    Call(id="call.ustat", claim="old file system queries are closed", numbers=(136, None)),
    *(
        Call(id=f"call.socket_{name}", claim=f"no {what} socket", numbers=(41, 198), arguments=arguments)
        for name, what, arguments in (
            ("raw", "raw network", (2, 3, 1)),
            ("packet", "packet", (17, 3, 0)),
            ("vsock", "virtual machine (AF_VSOCK)", (40, 1, 0)),
            ("alg", "kernel cryptography (AF_ALG)", (38, 5, 0)),
            ("audit", "audit (netlink)", (16, 3, 9)),
            ("bluetooth", "Bluetooth", (31, 3, 0)),
            ("can", "CAN bus", (29, 3, 1)),
            ("xdp", "XDP", (44, 3, 0)),
        )
    ),
)
HARMLESS = Call(id="getpid", claim="", numbers=(39, 172))
_ALL = {probe.id: (probe.claim, probe.promise) for probe in (*INSIDE, *HIT, *OUTSIDE)} | {
    call.id: (call.claim, "S-5") for call in CALLS
}


def elf(machine: str, call: Call) -> bytes | None:
    """Return a static program that makes `call` and exits with its errno, 0 when it worked.

    None where the machine has no such call, or is not one of MACHINES.
    """
    number = call.numbers[MACHINES.index(machine)] if machine in MACHINES else None
    if number is None:
        return None
    code = _x86_64_code(number, call) if machine == "x86_64" else _aarch64_code(number, call.arguments)
    size = _HEADERS_SIZE + len(code)
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 0, 2, _ELF_MACHINE[machine], 1, _BASE + _HEADERS_SIZE, 64, 0, 0, 64, 56, 1, 0, 0, 0,
    )  # fmt: skip
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return header + segment + code


def _x86_64_code(number: int, call: Call) -> bytes:
    registers: tuple[bytes, ...]
    if call.ia32:
        registers = (b"\xbb", b"\xb9", b"\xba")  # mov ebx, ecx, edx
        enter = b"\xcd\x80"  # int 0x80
    else:
        registers = (b"\x48\xc7\xc7", b"\x48\xc7\xc6", b"\x48\xc7\xc2", b"\x49\xc7\xc2", b"\x49\xc7\xc0")
        enter = b"\x0f\x05"  # syscall
    values = (*call.arguments, *(0,) * (len(registers) - len(call.arguments)))
    load = b"".join(name + struct.pack("<I", value & 0xFFFFFFFF) for name, value in zip(registers, values, strict=True))
    # neg eax; edi = eax if eax > 0 else 0; exit(edi)
    leave = b"\xf7\xd8\x31\xff\x85\xc0\x0f\x4f\xf8\xb8\x3c\x00\x00\x00\x0f\x05"
    return load + b"\xb8" + struct.pack("<I", number) + enter + leave


def _aarch64_code(number: int, arguments: tuple[int, ...]) -> bytes:
    values = (*arguments, *(0,) * (5 - len(arguments)))
    words = [word for register, value in enumerate(values) for word in _aarch64_load(register, value)]
    call = 0xD4000001  # svc #0
    # x0 = -x0 if x0 < 0 else 0; exit(x0)
    leave = (0xF100001F, 0xCB0003E1, 0x9A9FB020, 0xD2800000 | 93 << 5 | 8, call)
    return struct.pack(f"<{len(words) + 7}I", *words, *_aarch64_load(8, number)[:1], call, *leave)


def _aarch64_load(register: int, value: int) -> tuple[int, ...]:
    """Return `movz` and three `movk` that put a 64-bit value into a register."""
    halves = [(value >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
    return tuple(
        (0xF2800000 if index else 0xD2800000) | index << 21 | half << 5 | register for index, half in enumerate(halves)
    )


def render_script(body: str, circumstances: Circumstances) -> str:
    """Return the whole script: `body` is probes.sh, behind it one line for each system call and machine.

    Which machine it is, a harmless call tells; the image may have no `uname`.
    """
    settings = {
        "networks": circumstances.networks,
        "readonly": circumstances.readonly,
        "hit_limits": circumstances.hit_limits,
        "memory_asked": circumstances.memory_limited,
        "cpu_asked": circumstances.cpu_limited,
    }
    lines = [f"{name}={'1' if value else ''}" for name, value in settings.items()]
    lines.append(f"volumes={shlex.quote(' '.join((*circumstances.volumes, '')))}")
    lines.append(body)
    word = "if"
    for machine in MACHINES:
        lines.append(f"{word} runs '{_octal(elf(machine, HARMLESS))}'; then")
        for call in CALLS:
            program = elf(machine, call)
            lines.append(f"  try_call {call.id} '{_octal(program)}'" if program else f"  no_call {call.id}")
        word = "elif"
    lines += ["else", *(f"  no_call {call.id}" for call in CALLS), "fi", "finish"]
    return "\n".join(lines) + "\n"


def _octal(program: bytes | None) -> str:
    return "".join(f"\\{byte:03o}" for byte in program or b"")


def read_verdicts(output: str, circumstances: Circumstances) -> tuple[Verdict, ...]:
    """Return the verdicts in what the script printed, in the order of the table.

    A probe that did not report, or not as agreed, counts as OPEN: nothing that fails looks like success.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in output.splitlines():
        name, _, rest = line.partition("\t")
        status, _, seen = rest.partition("\t")
        if name in _ALL and (status in STATUSES or (status.isdigit() and name.startswith("call."))):
            found.setdefault(name, (status, seen))
    wanted = [probe.id for probe in (*INSIDE, *(HIT if circumstances.hit_limits else ()))]
    wanted += [call.id for call in CALLS]
    return tuple(_verdict(name, *found.get(name, ("OPEN", "the probe did not report"))) for name in wanted)


def read_verdicts_of_child(rows: Iterable[Mapping[str, str]]) -> tuple[Verdict, ...]:
    """Return verdicts that another process of odek's has written down with `dataclasses.asdict`."""
    return tuple(_verdict(row["id"], row["status"], row["seen"]) for row in rows)


def outside_verdict(name: str, status: Status, seen: str) -> Verdict:
    """Return the verdict of a probe that was made from the host."""
    return _verdict(name, status, seen)


def _verdict(name: str, status: str, seen: str) -> Verdict:
    if status.isdigit():
        status, seen = judge_errno(int(status))
    claim, promise = _ALL[name]
    checked: Status = next((known for known in STATUSES if known == status), "OPEN")
    return Verdict(id=name, status=checked, seen=seen, claim=claim, promise=promise)


def judge_errno(code: int) -> tuple[Status, str]:
    """Return what the exit code of a call's program means. Only a refusal, or a kernel without it, is a closed door."""
    if code in _REFUSED:
        return "ok", {_EPERM: "EPERM", _EACCES: "EACCES", _ENOSYS: "ENOSYS"}[code]
    if code in _NOT_IN_KERNEL:
        return "ok", f"not in this kernel (errno {code})"
    if code in _CANNOT_RUN:
        return "skip", "no program can be run from the workspace"
    if code in (128 + 31, 128 + 9):
        return "ok", f"the caller is killed (signal {code - 128})"
    return "OPEN", "it worked" if code == 0 else f"the kernel carries it out (errno {code})"


def count(verdicts: Iterable[Verdict]) -> Mapping[Status, int]:
    """Return how many verdicts there are of each kind, all kinds named."""
    counted = dict.fromkeys(STATUSES, 0)
    for verdict in verdicts:
        counted[verdict.status] += 1
    return counted
