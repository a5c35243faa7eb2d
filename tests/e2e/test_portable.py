"""What only the portable binary promises: it unpacks nothing, needs nothing of the host, edits lines by itself.

Needs ODEK_BIN to name one (scripts/build --portable gnu|musl); scripts/portable-matrix runs these, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, text
from support.load_module import load_recipe
from support.mounted import with_mounts, without
from support.odek_process import Odek, program_kind
from support.pty_session import Talk
from support.recordings import allow_everything, write_recording

import odek as package

pytestmark = pytest.mark.skipif(
    program_kind() != "portable", reason="ODEK_BIN names no portable binary (scripts/build --portable)"
)
VERSION = f"odek {package.__version__}\n"
GONE_WITHIN_S = 10.0


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_it_needs_no_more_than_it_may(odek: Odek) -> None:
    """R-310, D1: read from the file: glibc 2.28 and nothing else, or nothing at all."""
    content = Path(odek.argv[0]).read_bytes()
    kind = "gnu" if load_recipe("glibc").interpreter(content) else "musl"
    assert load_recipe("portable").check(content, kind) == []


@pytest.mark.parametrize(
    "mounts",
    [
        "mount -t tmpfs -o noexec none /tmp; mount -t tmpfs -o noexec none /var/tmp",
        "mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /var/tmp",
        "mount -t tmpfs -o size=4k none /tmp; mount -t tmpfs -o size=4k none /var/tmp; echo full >/tmp/a",
    ],
    ids=["noexec", "read-only", "full"],
)
def test_it_starts_where_nothing_can_be_unpacked(mounts: str, odek: Odek) -> None:
    """R-311, D3, B53: no temporary folder is asked for, so none can be the cause of anything."""
    hidden = f"mount -t tmpfs none /mnt; cp {odek.argv[0]} /mnt/odek; {mounts}"
    done = with_mounts(odek, f'{hidden}; shift; set -- /mnt/odek "$@"', "selftest")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_it_needs_no_library_of_the_machine(odek: Odek) -> None:
    """R-310: zlib, OpenSSL and the line editor are in it, also where all is looked up at once."""
    libraries = (
        "libz.so.1",
        "libssl.so.3",
        "libcrypto.so.3",
        "libreadline.so.8",
        "libtinfo.so.6",
        "libpython3.11.so.1.0",
    )
    mounts = "\n".join(map(without, libraries))
    done = with_mounts(odek, f"{mounts}\nexport LD_BIND_NOW=1", "selftest")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_a_killed_one_leaves_nothing(odek: Odek, tmp_path: Path) -> None:
    """R-311, D4: one process, nothing unpacked; and what it had started goes with it."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    allow_everything(odek)
    recording = write_recording(tmp_path / "recording.jsonl", "touch started; exec sleep 600")
    process = odek.start("run", "--no-sandbox", "--base-url", recording, "x", env={"TMPDIR": str(scratch)})
    wait_for(lambda: (odek.cwd / "started").exists(), "the command starts")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.send_signal(signal.SIGKILL)
    process.wait()
    for pid in children:
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"process {pid} goes on")
    assert [path for path in scratch.iterdir() if path.name.startswith("_MEI")] == []


def test_a_damaged_file_says_so(odek: Odek, tmp_path: Path) -> None:
    """D3: the true cause, in one sentence."""
    damaged = tmp_path / "damaged"
    damaged.write_bytes(Path(odek.argv[0]).read_bytes()[:-1000])
    damaged.chmod(0o755)
    done = subprocess.run([damaged, "version"], env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("odek: error: this file is damaged, get it again: ")


def test_it_starts_in_a_root_with_nothing_else(odek: Odek, tmp_path: Path) -> None:
    """R-310, D1: no /proc, no /etc, no library: the static one; the other one needs its loader."""
    chroot = shutil.which("chroot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or not chroot:
        pytest.skip("only root can change the root directory")
    if load_recipe("glibc").interpreter(Path(odek.argv[0]).read_bytes()):
        pytest.skip("this one needs glibc")
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(odek.argv[0], root / "odek")
    write_recording(root / "recording.jsonl", "true")

    def inside(*arguments: str) -> tuple[int, str, str]:
        argv = [chroot, str(root), "/odek", *arguments]
        done = subprocess.run(argv, env={}, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    assert inside("version") == (0, VERSION, "")
    assert json.loads(inside("version", "--json")[1])["path"] == "/odek"
    code, stdout, _ = inside("selftest")
    assert (code, [line for line in stdout.splitlines() if line.startswith("fail")]) == (
        1,
        ["fail  children  cannot run /bin/sh: No such file or directory"],
    )
    code, stdout, stderr = inside("run", "--base-url", "replay:/recording.jsonl", "x")
    assert (code, stdout) == (1, ""), stderr
    assert "is part of the system" in stderr


def test_children_cannot_see_what_started_it(odek: Odek, tmp_path: Path) -> None:
    """R-311, R-94: its own way to be a Python is no way in for the environment, and leaves no trace in it."""
    env = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere", "PYTHONSTARTUP": str(tmp_path / "sitecustomize.py")}
    (tmp_path / "sitecustomize.py").write_text("print('taken in')\n")
    (tmp_path / "json.py").write_text("print('taken in')\n")
    shown = "import sys, os, json; print(sys.flags.isolated, sys.flags.no_site, sys.path, sys.argv)"
    done = subprocess.run(
        [odek.argv[0], "-I", "-S", "-c", shown, "a"], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("1 1 [] ['-c', 'a']\n", "")


NO_TERMINFO = (
    "for place in /usr/share/terminfo /lib/terminfo /etc/terminfo; do"
    " [ ! -d $place ] || mount -t tmpfs none $place; done"
)


def edited(odek: Odek, tmp_path: Path, server: ModelServer) -> Talk:
    """Return a conversation on a machine without libreadline, libedit and terminfo, with the home of an operator."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can mount")
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox": False, "dangerous": {"action": "allow"}}))
    (folder / "config.json").chmod(0o600)
    gone = "\n".join(map(without, ("libreadline.so.8", "libedit.so.2", "libtinfo.so.6")))
    odek.argv = ("unshare", "--mount", "sh", "-ec", f'{NO_TERMINFO}\n{gone}\nexec "$@"', "sh", *odek.argv)
    return Talk(odek, "repl", "--base-url", server.base_url, env={"TERM": "of-next-year"})


def test_lines_are_edited_without_anything_of_the_host(odek: Odek, tmp_path: Path) -> None:
    """R-312, D6: arrows, history, Unicode, Tab."""
    with ModelServer(text("first"), text("second"), text("third")) as server, edited(odek, tmp_path, server) as talk:
        talk.see("odek 1> ")
        talk.say("hällo wrld\x1b[D\x1b[D\x1b[Do")  # three to the left
        talk.see("first")
        talk.see("odek 2> ")
        talk.say("\x1b[A again")  # up
        talk.see("second")
        talk.see("odek 3> ")
        talk.type("/inf\t\r")
        talk.see("turns ")
        talk.see("odek 3> ")
        talk.type("\x04")
        assert talk.end()[0] == 0
        asked = [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "user"]
        assert asked == ["hällo world", "hällo world again"]


@pytest.mark.parametrize("begun", ["", "half a line"])
def test_a_closed_terminal_ends_a_conversation(begun: str, odek: Odek, tmp_path: Path) -> None:
    """R-312: libedit alone would go round for ever, deaf to signals."""
    with ModelServer(text("first")) as server, edited(odek, tmp_path, server) as talk:
        talk.see("odek 1> ")
        talk.type(begun)
        if begun:
            talk.see(begun)
        talk.close()

        def has_ended() -> bool:
            return os.waitid(os.P_PID, talk.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

        wait_for(has_ended, "odek ends")
