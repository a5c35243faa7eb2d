"""What was not run is never reported as run: cut deliveries, limits, foreign programs, another container."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest
from support.sandboxes import Boxes, OddImages, output

from odek.errors import FileAccessDenied
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.scripts import pack_script, pack_text
from odek.sandbox.errors import SandboxConfigError, SandboxGivenUp, SandboxLost
from odek.sandbox.spec import Limits

MARK, END = "m" * 32, "e" * 32
CUTS = 12


def deliver(boxes: Boxes, box: Container, sent: bytes, *, cut: int) -> int:
    """Write the first `cut` bytes to a client of the wrapper, then kill it as the end of odek would."""
    argv = ("exec", "--interactive", "--user", boxes.spec().user, box.facts.id, "sh", "-c", scripts.RUN, "sh", MARK, "")
    with subprocess.Popen(
        [boxes.engine.client, *argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as client:
        assert client.stdin is not None
        client.stdin.write(sent[:cut])
        client.stdin.flush()
        time.sleep(0.2)
        client.kill()
    return cut


def test_what_is_cut_off_while_it_is_written_does_nothing(boxes: Boxes) -> None:
    """E1: the client is killed at any byte of a long command, of a short one, of a file, of an attached file."""
    box = boxes.start()
    old = b"old content"
    (boxes.workdir / "kept").write_bytes(old)
    long = b": <<'E'\n" + b"x" * 200_000 + b"\nE\necho would-remove >/workspace/wrong /workspace/build\n"
    short = b"echo would-remove >/workspace/wrong /workspace/build"
    data = b"new " * 50_000
    write = ("kept", ".odek-t.tmp", str(len(data)), "")
    sent = {
        "long": pack_text(long, MARK, END, umask=0o22, apart=False),
        "apart": pack_text(long, MARK, END, umask=0o22, apart=True),
        "short": pack_text(short, MARK, END, umask=0o22, apart=False),
        "write": pack_script(scripts.WRITE, write, MARK, END, umask=0o22, data=data),
        "new file": pack_script(scripts.WRITE, ("made", *write[1:]), MARK, END, umask=0o22, data=data),
        "attach": pack_script(
            scripts.ATTACH, ("/workspace", "wrong", str(len(data))), MARK, END, umask=0o22, data=data
        ),
    }
    chance = random.Random(1)
    for whole in sent.values():
        ends = [len(whole) - 2, max(whole.find(b"/build"), 1)]
        for cut in ends + [chance.randrange(len(whole) - 1) for _ in range(CUTS // len(sent))]:
            deliver(boxes, box, whole, cut=cut)
    output(box, "sleep 0.3")
    assert sorted(entry.name for entry in boxes.workdir.iterdir()) == ["kept"]
    assert (boxes.workdir / "kept").read_bytes() == old
    assert output(box, long.decode().replace(" /workspace/build", "") + "cat wrong") == "would-remove\n"
    for number in (0, 1, 4095, 4096, 4097, 200_000):  # around the size from which `cat` is used
        assert output(box, f"printf %s {'y' * number} | tail -c 3").strip() == "y" * min(number, 3)


def test_process_limit_is_never_success(boxes: Boxes) -> None:
    """E1: nothing that did not run is told as run, and the sandbox is usable afterwards."""
    box = boxes.start(limits=Limits(pids=60))
    box.run("i=0; while [ $i -lt 300 ]; do i=$((i + 1)); sleep 600 >/dev/null 2>&1 & done", timeout_s=60)
    results = [box.run(command, timeout_s=60) for command in ("false", "exit 5", "touch made; exit 6")]
    for result, code in zip(results, (1, 5, 6), strict=True):
        assert (result.code, result.notes) == (code, ()), results
    assert (boxes.workdir / "made").exists()
    assert output(box, "echo usable") == "usable\n"
    # a server that fills the sandbox later, behind the back of every command
    box.run("(sleep 1; while :; do setsid sleep 600 & done) >/dev/null 2>&1 &", timeout_s=60)
    time.sleep(4)
    late = box.run("exit 7", timeout_s=60)
    assert (late.code, late.notes) == (
        None,
        (
            "the command did not run: the process limit of 60 was reached; everything that was running in the sandbox "
            "was stopped to make room for new commands",
        ),
    )
    box.write("f", b"x" * 10_000, replacing=None)
    assert output(box, "echo usable") == "usable\n"


BROKEN_CATS = {
    "not executable": ({"bin/cat": "x"}, {"bin/cat": 0o644}),
    "prints nothing": ({"bin/cat": "#!/bin/sh\nexit 0\n"}, {}),
    "another program": ({"bin/cat": "#!/bin/sh\necho hello\n"}, {}),
    "stops early": ({"bin/cat": '#!/bin/sh\nread -r line\nprintf %s "$line"\n'}, {}),
}


@pytest.mark.parametrize("which", BROKEN_CATS)
def test_image_whose_cat_does_not_work_is_refused(which: str, boxes: Boxes, odd_images: OddImages) -> None:
    """E1: at the start, before a command is lost; the word is that of the shell's own `cat`, if it has one."""
    files, modes = BROKEN_CATS[which]
    image = odd_images.make(files=files, modes=modes, shell="/bin/dash")
    with pytest.raises(SandboxConfigError, match="cat"):
        boxes.start(image=image)


def test_cat_that_breaks_later_is_never_success(boxes: Boxes, odd_images: OddImages) -> None:
    """E1: root exchanges the program while the session runs."""
    box = boxes.start(image=odd_images.make(shell="/bin/dash"), user="0:0")
    output(box, "printf '#!/bin/sh\\nexit 0\\n' >/bin/cat2; chmod +x /bin/cat2; mv /bin/cat2 /bin/cat")
    long = box.run("touch made; exit 3 # " + "x" * 5000, timeout_s=30)
    assert (long.code, (boxes.workdir / "made").exists()) == (None, False)
    assert long.notes[0].startswith("the command did not run: it did not arrive in the container as a whole")
    (boxes.workdir / "f").write_bytes(b"old")
    with pytest.raises(FileAccessDenied, match="its content did not arrive as a whole"):
        box.write("f", b"new", replacing=None)
    assert (boxes.workdir / "f").read_bytes() == b"old"
    assert box.run("exit 3", timeout_s=30).code == 3
    output(box, "printf '#!/bin/busybox true\\n' >/bin/x; chmod +x /bin/x; mv /bin/x /bin/sh", timeout_s=30)
    with pytest.raises(SandboxGivenUp, match="no command can be started in it any more: nothing was heard of the last"):
        box.run("exit 3", timeout_s=30)


def test_memory_that_stays_full_loses_the_sandbox(boxes: Boxes) -> None:
    """E9: files in memory stay, whatever is killed; that is said, and no status is made up."""
    box = boxes.start(limits=Limits(pids=60, memory_bytes=16 << 20))
    command = "while :; do head -c 1000000 /dev/zero >>/dev/shm/f || exit 9; done"
    with pytest.raises(SandboxLost, match="the sandbox was lost: "):  # the kernel may take its first process, too
        [box.run(command, timeout_s=60) for _ in range(3)]
    boxes.await_gone(os.getpid())


def test_paused_container_is_told_as_paused(boxes: Boxes) -> None:
    """E9."""
    box = boxes.start()
    boxes.engine.run("pause", box.facts.id)
    done = box.run("touch made", timeout_s=30)
    note = f"the command did not run: the container is paused; `docker unpause {box.facts.name}` lets it go on"
    assert (done.code, done.notes) == (None, (note,))
    with pytest.raises(FileAccessDenied, match="the container is paused"):
        box.write("f", b"x", replacing=None)
    boxes.engine.run("unpause", box.facts.id)
    assert output(box, "ls") == ""


@pytest.mark.parametrize("during", [False, True])
def test_restarted_container_is_a_lost_one(during: bool, boxes: Boxes) -> None:
    """E9: between two commands, and while one is at work; it is removed."""
    box = boxes.start()
    output(box, "touch /tmp/mine")
    argv = [boxes.engine.client, "restart", "--time", "0", box.facts.id]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as restarting:
        if not during:
            restarting.wait(30)
        gone = "|its container is gone" if boxes.kind.podman else ""  # its clean-up may come before the second start
        with pytest.raises(SandboxLost, match=f"restarted from outside{gone}"):
            box.run("echo mine; sleep 20; touch made", timeout_s=60)
        restarting.wait(30)
    boxes.await_gone(os.getpid())
    assert list(boxes.workdir.iterdir()) == []
