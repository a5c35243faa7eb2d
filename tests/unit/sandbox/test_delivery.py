"""What is sent to the wrapper, played on the shells of this machine: the whole runs, a part does nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odek.sandbox.container import scripts
from odek.sandbox.container.exec_stream import ExecStreams
from odek.sandbox.container.scripts import SHORT_BYTES, pack_script, pack_text

MARK, END = "m" * 32, "e" * 32
SHELLS = [words for words in (("dash",), ("bash",), ("busybox", "ash")) if shutil.which(words[0])]
EVERY_BYTE = bytes(range(1, 256))


def run(shell: tuple[str, ...], sent: bytes, *, init: str = "") -> tuple[bytes, ExecStreams, int]:
    argv = [*shell, "-c", scripts.RUN, "sh", MARK, init]
    done = subprocess.run(argv, input=sent, capture_output=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
    streams = ExecStreams(MARK, END)
    streams.expect(apart=True, limit_bytes=1 << 20)
    for feed, data in ((streams.feed_stdout, done.stdout), (streams.feed_stderr, done.stderr)):
        for place in range(0, len(data), 7):
            feed(data[place : place + 7])
    return streams.stdout.data, streams, done.returncode


def quoted(data: bytes) -> bytes:
    return b"'%s'" % data.replace(b"'", b"'\\''")


TEXTS = {
    "streams": (b"echo a; echo b >&2; exit 5", b"a\nb\n", 5),
    "every byte": (b"printf %s " + quoted(EVERY_BYTE) + b"\n\n", EVERY_BYTE, 0),
    "every byte, long": (b"printf %s " + quoted(EVERY_BYTE * 40) + b"\n\n", EVERY_BYTE * 40, 0),
    "line ends": (b"printf '%s' 'a\n\n\n'", b"a\n\n\n", 0),
    "backslash last": (b"echo a\\", b"a\\\n", 0),
    "no stdin": (b"cat; read -r x; echo $?", b"1\n", 0),
    "nothing of ours": (
        b'echo "$#$mark$init$header$line$lf$ticks$end"; command -v say refuse field put report',
        b"0\n",
        None,
    ),
    "here-document": (b"cat <<'E'\n" + b"x" * SHORT_BYTES + b"\nE\nexit 3", b"x" * SHORT_BYTES + b"\n", 3),
    "empty": (b"", b"", 0),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", TEXTS)
def test_text_runs_byte_for_byte(name: str, shell: tuple[str, ...]) -> None:
    """R-40, B14, E1: whatever its bytes and its length are."""
    text, printed, status = TEXTS[name]
    out, end, code = run(shell, pack_text(text, MARK, END, umask=0o22, apart=False))
    assert (out, end.began, end.stderr.data) == (printed, True, b"")
    assert end.status == code
    assert status is None or code == status
    out, end, code = run(shell, pack_text(text, MARK, END, umask=0o22, apart=True))
    assert (out + end.stderr.data, end.status) == (printed, code)


FILL = """\
import fcntl, os, struct, termios
for fd in 1, 2:
    os.set_blocking(fd, False)
    size = fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
    held = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
    os.write(fd, b"x" * (size - held - free))
"""


def ticks_used(pid: int) -> int:
    """Return how long a process has worked, in clock ticks."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]))


@pytest.mark.parametrize("free", [0, 1, 5, len(f"\n{END} 7\n") - 1])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_end_of_a_command_that_left_its_output_full_and_non_blocking_is_reported_once(
    shell: tuple[str, ...], apart: bool, free: int, tmp_path: Path
) -> None:
    """E1, R-41: as programs with an event loop do; and no line end of ours stays in the output where a part fits."""
    full = tmp_path / "full"
    text = b"%s -c %s; : >%s; exit 7" % (
        sys.executable.encode(), quoted(f"free = {free}\n{FILL}".encode()), bytes(full),
    )  # fmt: skip
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*shell, "-c", scripts.RUN, "sh", MARK, ""], **pipes) as child:
        assert child.stdin is not None
        child.stdin.write(pack_text(text, MARK, END, umask=0o22, apart=apart))
        child.stdin.flush()
        while not full.exists():  # nothing is read before: it would never be full
            time.sleep(0.05)
        used = ticks_used(child.pid)
        while child.poll() is None and ticks_used(child.pid) < used + 3:  # it tries again and again
            time.sleep(0.01)
        stdout, stderr = child.communicate(timeout=60)
    streams = ExecStreams(MARK, END)
    streams.expect(apart=apart, limit_bytes=1 << 20)
    streams.feed_stdout(stdout)
    streams.feed_stderr(stderr)
    assert (streams.ended, streams.status, child.returncode) == (True, 7, 7)
    assert streams.stdout.data.strip(b"x") == b""
    assert streams.stderr.data.strip(b"x") == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_part_of_a_delivery_does_nothing(shell: tuple[str, ...], tmp_path: Path) -> None:
    """E1: at whatever byte it ends; the wrapper's word is that it was cut."""
    made = tmp_path / "made"
    command = f"touch {made} {made}.x".encode()
    for text in (command, command + b" # " + b"x" * SHORT_BYTES):
        sent = pack_text(text, MARK, END, umask=0o22, apart=False)
        for cut in {*range(0, len(sent) - 1, 97), len(sent) - 2, len(sent) - 33, len(sent) - 34}:
            out, end, code = run(shell, sent[:cut])
            assert (out, end.refusal, end.began, end.status, code) == (b"", scripts.CUT, False, None, 125), cut
            assert end.has_run is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_another_life_of_the_container_runs_nothing(shell: tuple[str, ...]) -> None:
    """E9: the first process started at another time than the one that was proved."""
    out, end, code = run(shell, pack_text(b"echo x", MARK, END, umask=0o22, apart=False), init="1234567890123")
    assert (out, end.refusal, end.began, code) == (b"", scripts.RESTARTED, False, 125)
    born = Path("/proc/1/stat").read_text().rpartition(") ")[2].split()[19]
    assert run(shell, pack_text(b"echo x", MARK, END, umask=0o22, apart=False), init=born)[0] == b"x\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_file_is_replaced_by_the_whole_of_it_or_not_at_all(shell: tuple[str, ...], tmp_path: Path) -> None:
    """E1, R-44: also a file that is written in place, and one that is attached."""
    data = b"\0new\xff\n" * 5000
    script = scripts.WRITE.replace("base=/workspace", f"base='{tmp_path}'")
    in_place = script.replace('[ -O "./$name" ]', "false")
    attach = pack_script(scripts.ATTACH, (str(tmp_path), "f", str(len(data))), MARK, END, umask=0o22, data=data)
    words = ("f", ".t.tmp", str(len(data)), "")
    for text, old in ((script, b"old"), (script, None), (in_place, b"old"), ("", None)):
        file = tmp_path / "f"
        sent = pack_script(text, words, MARK, END, umask=0o22, data=data) if text else attach
        for cut in (0, 100, len(sent) - len(data), len(sent) - len(data) // 2, len(sent) - 1):
            file.unlink(missing_ok=True)
            if old is not None:
                file.write_bytes(old)
            _, end, code = run(shell, sent[:cut])
            assert (end.status, code) in ((None, 125), (scripts.INCOMPLETE, scripts.INCOMPLETE)), (cut, end.stderr)
            assert [entry.name for entry in tmp_path.iterdir()] == ([] if old is None else ["f"]), cut
            assert old is None or file.read_bytes() == old
        assert run(shell, sent)[2] == 0
        assert ([entry.name for entry in tmp_path.iterdir()], file.read_bytes()) == (["f"], data)
        file.unlink()


@pytest.mark.parametrize(
    ("stdout", "stderr", "has_run"),
    [
        (b"", b"", None),
        (b"", f"\n{MARK} ready\n\n{MARK} here\n".encode(), None),
        (b"", f"\n{MARK} cut\n".encode(), False),
        (f"\n{END} 254\n".encode(), b"", False),  # bash goes on when it could not make a process
        (f"\n{END} unrun\n".encode(), b"", False),  # other shells end
        (b"", f"\n{END} unrun\n".encode(), False),  # of a pipe
        (f"\n{END} unrun\n\n{END} began 1\n".encode(), b"", True),
        (f"\n{MARK} unrun\n".encode(), f"\n{MARK} unrun\n".encode(), None),  # anybody may have said that
        (f"\n{END} began \n".encode(), b"", True),
        (f"\n{END} began 1\n".encode(), f"\n{MARK} cut\n".encode(), True),
        (f"\n{END} began 1\n".encode() + b"x" * 9999, b"", True),
        (f"\n{MARK} began 1\n".encode(), b"", None),
        (b"", f"\n{END} began 1\n".encode(), True),  # of a pipe
        (b"", b"Error response from daemon: Container c is paused, unpause the container before exec\n", False),
        (b"OCI runtime exec failed: exec failed: permission denied: unknown\r\n", b"", False),
        (b"", b"Error: can only create exec sessions on running containers: container state improper\n", False),
        (b"", b"Error response from daemon: No such exec instance: 4711\n", None),  # after a restart of the engine
        (b"", b"error during connect: Get http://docker/v1.41/exec/4711/json: EOF\n", None),
        (b"", f"\n{MARK} ready\nError response from daemon: forged\n".encode(), None),
    ],
)
def test_whether_it_ran_is_never_guessed(stdout: bytes, stderr: bytes, has_run: bool | None) -> None:
    """E1: only words count: the wrapper's, and the engine's where no wrapper was started."""
    streams = ExecStreams(MARK, END)
    streams.feed_stdout(stdout)
    streams.feed_stderr(stderr)
    assert streams.has_run is has_run


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_what_the_client_itself_says_is_not_output_of_the_command(size: int) -> None:
    """R-331: podman-docker prints a line at every call, before the wrapper's first; the wrapper's word counts once."""
    notice = b"Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"
    said = notice + f"\n{MARK} ready\n\n{END} began 1\nmine\n\n{MARK} ready\nstill mine".encode()
    streams = ExecStreams(MARK, END)
    streams.expect(apart=True, limit_bytes=1 << 20)
    for place in range(0, len(said), size):
        streams.feed_stderr(said[place : place + size])
    assert streams.stderr.data == b"mine\nstill mine"
    refused = ExecStreams(MARK, END)
    refused.feed_stderr(notice + b"Error: OCI runtime error: runc: no room\n")
    assert (refused.has_run, refused.stderr.data.startswith(notice)) == (False, True)


NO_PROCESS = """\
import os, resource, shutil, sys
program = shutil.which(sys.argv[1])  # now: afterwards this interpreter may not be able to read its own modules
os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.execv(program, sys.argv[1:])
"""
QUICK = [words for words in SHELLS if words != ("bash",)]  # bash tries for fifteen seconds


@pytest.mark.skipif(os.getuid() != 0, reason="the limit of processes is that of another user")
@pytest.mark.parametrize("shell", QUICK)
@pytest.mark.parametrize("size", [1, SHORT_BYTES + 1])
@pytest.mark.parametrize("apart", [False, True])
def test_text_for_which_no_process_can_be_made_is_said_to_be_unrun(
    apart: bool, size: int, shell: tuple[str, ...]
) -> None:
    """E1, R-42: whatever the shell does then."""
    limited = (sys.executable, "-c", NO_PROCESS, *shell)
    out, end, _ = run(limited, pack_text(b"echo x #" + b"x" * size, MARK, END, umask=0o22, apart=apart))
    assert (end.began, end.has_run) == (False, False)
    assert b"fork" in (out + end.stderr.data).lower()


def test_reason_for_running_nothing_is_not_that_of_a_text_that_began() -> None:
    """E9: a program that is talked to, or a command, prints the wrapper's line."""
    streams = ExecStreams(MARK, END)
    streams.feed_stderr(f"\n{END} began 1\n\n{MARK} restarted\n".encode())
    assert (streams.refusal, streams.has_run) == ("", True)


@pytest.mark.parametrize("shell", SHELLS)
def test_wrapper_that_waits_answers_and_takes_one_text(shell: tuple[str, ...]) -> None:
    """E1: what comes instead of a text, or as a part of one, is not run."""
    text = pack_text(b'read -r x; echo "?$x"\n?\n', MARK, END, umask=0o22, apart=False)
    out, streams, _ = run(shell, b"?\n" + text)
    assert (streams.here, streams.status, out) == (True, 127, out)
    assert out.startswith(b"?\n")
    for sent in (b"", b"?\n", b"?", b"?\n?\n" + text[:-1]):
        out, streams, code = run(shell, sent)
        assert (streams.began, streams.refusal, code) == (False, scripts.CUT, 125), sent


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 34, 39, 40, 10_000])
def test_lines_of_the_wrapper_are_taken_out_wherever_the_stream_is_cut(cut: int) -> None:
    """R-41: and nothing else is."""
    printed = f"a\n{END}\n{END} X\n {END} 0\n\n{MARK} 0\n{END[:-1]} 0\n\n".encode()
    sent = f"\n{END} began 7\n".encode() + printed + f"\n{END} 3\n".encode() + b"late\n"
    streams = ExecStreams(MARK, END)
    for place in range(0, len(sent), cut):
        streams.feed_stdout(sent[place : place + cut])
    assert (streams.status, streams.started, streams.stdout.data) == (3, "7", printed + b"late\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", ["refused", "missing cat"])
def test_all_that_was_sent_is_read_before_a_refusal(script: str, shell: tuple[str, ...], tmp_path: Path) -> None:
    """E1: podman loses what was said where a part was not read (M-35)."""
    data = b"x" * 300_000  # more than a pipe holds
    (tmp_path / shell[0]).symlink_to(shutil.which(shell[0]) or "")
    args: tuple[str, ...]
    if script == "refused":
        args, path = (scripts.RUN, "sh", MARK, ""), "/usr/bin:/bin"
        sent = pack_script("echo no; exit 3", (), MARK, END, umask=0o22, data=data)
    else:
        args, path, sent = (scripts.CHECK, "sh", "nonce", ""), str(tmp_path), data + b"\n#nonce\n"
    argv = [str(tmp_path / shell[0]), *shell[1:], "-c", *args]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": path}) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(sent)  # or it is a broken pipe
        child.stdin.close()
        # busybox finds a `cat` in itself
        said = {"refused": b"no", "missing cat": b"uid=" if shell[0] == "busybox" else b"missing=cat"}
        assert said[script] in child.stdout.read()
