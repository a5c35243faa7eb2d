"""R-109: programs in the sandbox that are talked to line by line."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from support.sandboxes import Boxes, command_lines, output

from odek.cancel import CancelToken, use_token
from odek.errors import Interrupted
from odek.sandbox.container.container import Container
from odek.sandbox.errors import SandboxLost

LONG_S = 60.0
QUIET = ">/dev/null 2>&1"


def others(boxes: Boxes, box: Container) -> list[str]:
    """Return the command lines in the container that are not the sandbox's own."""
    return sorted(line for line in boxes.processes(box) if "odek-ready" not in line and "say ready" not in line)


def test_a_program_is_talked_to_and_ends_with_all_that_it_has_started(boxes: Boxes) -> None:
    box = boxes.start(env=(("SECRET_WORD", "it's\nhidden"),))
    output(box, f"env -i setsid sleep 777701 {QUIET} &")
    script = (
        f"sleep 8001 {QUIET} & setsid sleep 8002 {QUIET} & env -i sleep 8003 {QUIET} & trap '' TERM; "
        'pwd; echo "$0 $1"; echo oops >&2; '
        'while read -r line; do echo "$line $SECRET_WORD"; done; while :; do sleep 8004; done'
    )
    pipe = box.open_pipe(("sh", "-c", script, "a word", "b\nc"))
    for expected in (b"/workspace", b"a word b", b"c"):
        assert pipe.receive_line(timeout_s=LONG_S) == expected
    pipe.send_line(b"hello", timeout_s=LONG_S)
    assert [pipe.receive_line(timeout_s=LONG_S) for _ in range(2)] == [b"hello it's", b"hidden"]
    assert (pipe.stderr_tail, pipe.status) == (b"oops\n", None)
    shown = [line for _, line in command_lines() if b"exec" in line and line[0].endswith((b"docker", b"podman"))]
    assert shown  # the client at work
    assert not any(b"8001" in word or b"hidden" in word for line in shown for word in line)
    output(box, f"env -i setsid sleep 777702 {QUIET} & setsid sleep 777703 {QUIET} &")  # of a later command
    pipe.close()
    assert others(boxes, box) == ["sleep 777701", "sleep 777702", "sleep 777703"]
    assert output(box, "echo usable") == "usable\n"


def test_a_program_lives_through_the_stop_of_a_command_however_many_came_before(boxes: Boxes) -> None:
    """R-194, R-202: it has variables of its own, and what is stopped is the command and nothing else; with a thousand
    calls in between its mark was forgotten, and its orphans were taken for what the command had left behind."""
    box = boxes.start()
    script = f'(sleep 777704 {QUIET} &); while read -r line; do echo "$line $OWN"; done'
    pipe = box.open_pipe(("sh", "-c", script), env=(("OWN", "it's\nmine"),))
    box._commands._marks += [f"{number:032x}" for number in range(1000)]
    assert box.run("sleep 60 & sleep 60", timeout_s=0.5).timed_out
    pipe.send_line(b"hello", timeout_s=LONG_S)
    assert [pipe.receive_line(timeout_s=LONG_S) for _ in range(2)] == [b"hello it's", b"mine"]
    assert "sleep 777704" in others(boxes, box)
    assert output(box, 'echo "[$OWN]"') == "[]\n"
    pipe.close()


def test_the_end_of_a_program_is_told_apart_from_that_of_the_container(boxes: Boxes) -> None:
    box = boxes.start()
    done = box.open_pipe(("sh", "-c", "read -r line; echo bye; exit 7"))
    done.send_line(b"", timeout_s=LONG_S)
    assert [done.receive_line(timeout_s=LONG_S) for _ in range(2)] == [b"bye", None]
    assert done.status == 7
    done.close()
    missing = box.open_pipe(("no-such-server",))
    assert (missing.receive_line(timeout_s=LONG_S), missing.status) == (None, 127)
    assert b"no-such-server: not found" in missing.stderr_tail
    missing.close()
    lost = box.open_pipe(("cat",))
    lost.send_line(b"x", timeout_s=LONG_S)
    assert lost.receive_line(timeout_s=LONG_S) == b"x"
    boxes.engine.run("kill", box.facts.id)
    with pytest.raises(SandboxLost):
        lost.receive_line(timeout_s=LONG_S)
    with pytest.raises(SandboxLost):
        lost.close()
    with pytest.raises(SandboxLost):
        box.open_pipe(("cat",))


def test_a_cancel_is_heard_and_the_program_can_be_ended_then(box: Container) -> None:
    """R-100: in a thread that no signal reaches."""
    pipe = box.open_pipe(("cat",))
    token, raised = CancelToken(), list[BaseException]()

    def wait() -> None:
        with use_token(token):
            try:
                pipe.receive_line(timeout_s=600)
            except BaseException as error:
                raised.append(error)
                pipe.close()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    token.cancel(partial(Interrupted, 15))
    thread.join(LONG_S)
    assert [type(error) for error in raised] == [Interrupted]
    assert pipe.status == 0


def test_a_cancel_while_a_program_is_ended_ends_it_nevertheless(boxes: Boxes) -> None:
    """It takes no notice of the end of its input, so that is waited for, and the wait is cancelled."""
    box = boxes.start()
    pipe = box.open_pipe(("sh", "-c", "echo up; trap '' TERM; while :; do sleep 8005; done"))
    assert pipe.receive_line(timeout_s=LONG_S) == b"up"
    token = CancelToken()
    threading.Timer(0.3, token.cancel, (partial(Interrupted, 2),)).start()
    with use_token(token), pytest.raises(Interrupted):
        pipe.close()
    assert others(boxes, box) == []
    assert output(box, "echo usable") == "usable\n"
