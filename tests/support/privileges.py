"""What the tests may do here: root in a container without capabilities is not what root is elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

_CHOWN, _SETUID = 0, 7  # capabilities(7)


def may_become_others() -> bool:
    """Return whether this process can give files away and become another user."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return all(effective >> capability & 1 for capability in (_CHOWN, _SETUID))
