"""Which system calls reach the kernel: raw ones from inside, by every door, with odek's filter and without any."""

from __future__ import annotations

import errno
import platform

import pytest
from support.raw_syscalls import Call, command_of, results_of
from support.weakened_sandbox import Proof

AF_UNIX, AF_INET, AF_NETLINK, AF_PACKET, AF_TIPC, AF_ALG, AF_VSOCK, AF_XDP = 1, 2, 16, 17, 30, 38, 40, 44
SOCKET, SOCKETPAIR, SOCKET_32, SOCKETCALL_32 = 41, 53, 359, 102
NEW_USER_NAMESPACE = 0x10000000
STREAM, RAW = 1, 3

# let through by a kernel like ours where nothing filters; answered there with an errno of the call's own, or none
OPEN_WITHOUT = {
    "vsock": Call(SOCKET, (AF_VSOCK, STREAM, 0)),
    "netlink.audit": Call(SOCKET, (AF_NETLINK, RAW, 9)),
    "netlink.uevent": Call(SOCKET, (AF_NETLINK, RAW, 15)),
    "crypto": Call(SOCKET, (AF_ALG, 5, 0)),
    "tipc": Call(SOCKET, (AF_TIPC, STREAM, 0)),
    "pair.tipc": Call(SOCKETPAIR, (AF_TIPC, STREAM, 0, 0)),
    "io_uring_setup": Call(425, (1, 0)),
    "userfaultfd": Call(323, (1,)),
    "keyctl": Call(250, (0, -3 & 0xFFFFFFFF, 0)),
    "add_key": Call(248, (0, 0, 0, 0, 0)),
    "unshare.user": Call(272, (NEW_USER_NAMESPACE,)),
    "clone.user": Call(56, (NEW_USER_NAMESPACE | 0x100, 0)),  # without CLONE_SIGHAND, so refused by the kernel as well
}
# the same and more by other doors, and what needs a capability that commands do not have
CLOSED = {
    **OPEN_WITHOUT,
    "packet": Call(SOCKET, (AF_PACKET, RAW, 0)),
    "xdp": Call(SOCKET, (AF_XDP, RAW, 0)),
    "io_uring_enter": Call(426, (0, 0, 0, 0)),
    "io_uring_register": Call(427, (0, 0, 0, 0)),
    "bpf": Call(321, (0, 0, 0)),
    "perf_event_open": Call(298, (0, 0, 0, 0)),
    "setns": Call(308, (0, 0)),
    "mount": Call(165, (0, 0, 0, 0)),
    "fsopen": Call(430, (0, 0)),
    "open_by_handle_at": Call(304, (0, 0, 0)),
    "pidfd_getfd": Call(438, (0, 0, 0)),
    "kexec_load": Call(246, (0, 0, 0, 0)),
    "modify_ldt": Call(154, (0, 0, 0)),
    "personality": Call(135, (0x0040000,)),
    "x32.io_uring_setup": Call(425, (1, 0), "x32"),
    "x32.vsock": Call(SOCKET, (AF_VSOCK, STREAM, 0), "x32"),
    "ia32.io_uring_setup": Call(425, (1, 0), "ia32"),
    "ia32.vsock": Call(SOCKET_32, (AF_VSOCK, STREAM, 0), "ia32"),
    "ia32.socketcall.vsock": Call(SOCKETCALL_32, (1,), "ia32", (AF_VSOCK, STREAM, 0)),
    "ia32.unshare": Call(310, (NEW_USER_NAMESPACE,), "ia32"),
}
USUAL = {
    "unix": Call(SOCKET, (AF_UNIX, STREAM, 0)),
    "inet": Call(SOCKET, (AF_INET, STREAM, 0)),
    "inet6": Call(SOCKET, (10, STREAM, 0)),
    "routes": Call(SOCKET, (AF_NETLINK, RAW, 0)),
    "getpid": Call(39),
    "ia32.inet": Call(SOCKET_32, (AF_INET, STREAM, 0), "ia32"),
    "x32.getpid": Call(39, (), "x32"),
    "ia32.getpid": Call(20, (), "ia32"),
}
REFUSED = {errno.EPERM, errno.ENOSYS}
NO_SUCH_DOOR = {errno.ENOSYS, 128 + 11}
"""a kernel without the 32-bit table ends the program, one without the x32 table says so"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the programs are written for x86-64")
def test_kernel_offers_no_more_than_programs_need(proof: Proof) -> None:
    """S-5: AF_VSOCK knows no network namespace, so network none would not close it; io_uring is a kernel of its own."""
    command = command_of({**CLOSED, **USUAL})
    box = proof.boxes.start()
    found = results_of(box.run(command, timeout_s=60).output.text)
    assert {name: found[name] for name in CLOSED if found[name] not in REFUSED | NO_SUCH_DOOR} == {}
    doors = [name for name in USUAL if name.startswith(("x32", "ia32"))]
    wrong = {
        name: found[name] for name in USUAL if found[name] not in ({0} if name not in doors else {0, *NO_SUCH_DOOR})
    }
    assert wrong == {}
    weak = results_of(proof.weakened("seccomp").output(command_of(CLOSED)))
    closed_all_the_same = [name for name in OPEN_WITHOUT if weak[name] in REFUSED]
    assert closed_all_the_same == [], "the attack fails without the filter: it proves nothing"


def test_filter_is_stricter_than_the_engines_own(proof: Proof) -> None:
    """S-5: it goes in place of the engine's, so it must close what that one closes: each of these, seen in both."""
    if platform.machine() != "x86_64":
        pytest.skip("the programs are written for x86-64")
    every = {f"call.{number}": Call(number) for number in (*range(154, 184), *range(246, 336), *range(424, 463))}
    asleep_or_gone = {"call.247", "call.270", "call.271", "call.281"}  # waitid, pselect6, ppoll, epoll_pwait
    calls = {name: call for name, call in every.items() if name not in asleep_or_gone}
    own = results_of(proof.boxes.start().run(command_of(calls), timeout_s=120).output.text)
    engines = results_of(proof.weakened("own seccomp profile").output(command_of(calls)))
    assert len(own) == len(engines) == len(calls)
    opened = {name: own[name] for name in calls if engines[name] in REFUSED and own[name] not in REFUSED}
    assert opened == {}
