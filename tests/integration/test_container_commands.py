"""Commands in a sandbox: what a shell makes of them, their streams and their status."""

from __future__ import annotations

import pytest
from support.sandboxes import output

from odek.sandbox.container.container import Container


def test_kernel_enforces_what_was_asked_for(shared_box: Container) -> None:
    """R-30: seen from inside, which no inspect can tell."""
    status = output(shared_box, "grep -E '^(NoNewPrivs|Seccomp|Cap[A-Z][a-z]+):' /proc/self/status")
    lines = dict(line.replace("\t", "").split(":") for line in status.splitlines())
    assert {name: value.strip("0") for name, value in lines.items() if name.startswith("Cap")} == dict.fromkeys(
        ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), ""
    )
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")
    assert output(shared_box, "ulimit -c; ls /sys/class/net") == "0\nlo\n"
    assert shared_box.run("cp /bin/busybox /tmp/b && /tmp/b true", timeout_s=10).code == 126
    assert (
        shared_box.run("mount -t tmpfs x /mnt; echo x >/proc/sys/kernel/hostname; unshare -m true", timeout_s=10).code
        != 0
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("false", 1), ("if", 2), ("nosuchprogram", 127), ("kill -9 $$", 137), ("return 5", 5)],
)
def test_status_is_the_commands_own(command: str, code: int, shared_box: Container) -> None:
    """R-41."""
    assert shared_box.run(command, timeout_s=10).code == code
