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


def test_command_sees_end_of_input_at_once(shared_box: Container) -> None:
    """B05."""
    assert output(shared_box, "cat; echo rc=$?; read a; echo got=[$a]; sh -s; test -t 0 || echo no terminal") == (
        "rc=0\ngot=[]\nno terminal\n"
    )


def test_output_is_exact_bytes(shared_box: Container) -> None:
    """B03, R-41: both streams in order, the status kept."""
    done = shared_box.run(
        "printf 'a\\377\\376\\000b\\r\\nc\\033]0;pwn\\007'; echo err >&2; echo out; exit 3", timeout_s=10
    )
    assert (done.output.data, done.code) == (b"a\xff\xfe\x00b\r\nc\x1b]0;pwn\x07err\nout\n", 3)


@pytest.mark.parametrize("size", [131_071, 131_072, 200_000, 3_000_000])
def test_command_of_any_length_runs(size: int, shared_box: Container) -> None:
    """B14: an argument ends at 128 KiB, stdin does not."""
    head, tail = "cat >long <<'END'\n", "\nEND\n"
    body = "x" * (size - len(head) - len(tail))
    assert output(shared_box, head + body + tail) == ""
    assert output(shared_box, "wc -c <long; tr -d x <long") == f"{len(body) + 1}\n\n"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("echo 'it'\\''s'", "it's\n"),
        ('echo $#; echo "$@"; echo $0', "0\n\nsh\n"),
        ("cat <<'E'\n$x `y`\nE\n", "$x `y`\n"),
        ("# only a comment", ""),
        ("echo a\\\n", "a\n"),
        ("exit 0; echo no", ""),
        ("set -- a b; shift; echo $1", "b\n"),
        ("f() { return 0; }; f; echo $?", "0\n"),
        ("echo ${mark-unset} ${line-unset}", "unset unset\n"),
    ],
)
def test_command_means_what_a_shell_means_by_it(command: str, printed: str, shared_box: Container) -> None:
    assert output(shared_box, command) == printed


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("false", 1), ("if", 2), ("nosuchprogram", 127), ("kill -9 $$", 137), ("return 5", 5)],
)
def test_status_is_the_commands_own(command: str, code: int, shared_box: Container) -> None:
    """R-41."""
    assert shared_box.run(command, timeout_s=10).code == code
