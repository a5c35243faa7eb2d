"""What the tests may do here: root in a container without capabilities is not what root is elsewhere."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHOWN, _DAC_OVERRIDE, _DAC_READ_SEARCH, _SETUID = 0, 1, 2, 7  # capabilities(7)
_VERSION_3 = 0x20080522


def may_become_others() -> bool:
    """Return whether this process can give files away and become another user."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return all(effective >> capability & 1 for capability in (_CHOWN, _SETUID))


@contextmanager
def obeying_modes() -> Iterator[None]:
    """Let the modes of files count for this thread in the block, also where it is root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    held = sets[0]
    sets[0] = held & ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = held
        assert libc.capset(header, sets) == 0
