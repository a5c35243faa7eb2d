"""The latest output of a command while it runs (R-129)."""

from __future__ import annotations

from odek.executor import WATCH_EVERY_S, WATCH_FIRST_S, OutputWatch, current_watch, use_watch
from odek.host_executor.commands import HostExecutor
from odek.process import Output


def output(text: str) -> Output:
    return Output(head=text.encode(), tail=b"", size_bytes=len(text))


def test_output_is_shown_after_a_moment_and_four_times_a_second_at_most() -> None:
    """R-129: only what is new, its end, and how much there is in all."""
    seconds, shown = [0.0], list[tuple[str, int]]()
    watch = OutputWatch(lambda tail, size: shown.append((tail, size)), clock=lambda: seconds[0])
    watch.look(lambda: output("nothing has begun"))
    watch.begin()
    for at, text in (
        (WATCH_FIRST_S - 0.01, "too early"), (WATCH_FIRST_S, "one"), (WATCH_FIRST_S + WATCH_EVERY_S / 2, "too soon"),
        (WATCH_FIRST_S + WATCH_EVERY_S, "one"), (2.0, "one" + "x" * 9000), (3.0, "one" + "x" * 9000),
    ):  # fmt: skip
        seconds[0] = at
        watch.look(lambda: output(text))  # noqa: B023
    assert shown == [("one", 3), ("x" * 4096, 9003)]
    watch.begin()
    seconds[0] = 9.0
    watch.look(lambda: output("the next command"))
    assert shown[-1] == ("the next command", 16)


def test_command_of_this_host_is_watched_in_its_thread(tmp_path: object) -> None:
    """R-129: from the beginning on, and not after the block."""
    shown: list[str] = []
    executor = HostExecutor(cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin"})
    with use_watch(OutputWatch(lambda tail, _size: shown.append(tail))):
        executor.run("echo first; sleep 1; echo last", timeout_s=20)
        executor.run_many(())
    assert shown[0] == "first\n"
    assert current_watch() is None
    executor.close()
