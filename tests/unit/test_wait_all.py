from __future__ import annotations

from odek.process import Follower, wait_all


class Child:
    """Counts how it is pumped."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def pump(self, timeout_s: float) -> None:
        self.waits.append(timeout_s)


def steps(count: int, *, ended: bool = True, wait_s: float = 9) -> Follower:
    for _ in range(count):
        yield wait_s
    return ended


def test_each_job_is_told_when_it_is_done_with_its_result() -> None:
    jobs = {7: (Child().pump, steps(2)), 8: (Child().pump, steps(0, ended=False)), 9: (Child().pump, steps(1))}
    assert list(wait_all(jobs)) == [(8, False), (9, True), (7, True)]


def test_lone_job_is_waited_for_as_long_as_it_says() -> None:
    child = Child()
    list(wait_all({0: (child.pump, steps(2, wait_s=3.5))}))
    assert child.waits == [3.5, 3.5]


def test_several_jobs_are_pumped_in_turn_with_a_short_pause() -> None:
    """No child waits for another's silence, and a loop over silent ones does not spin."""
    first, second = Child(), Child()
    list(wait_all({0: (first.pump, steps(2)), 1: (second.pump, steps(2))}))
    assert (first.waits, second.waits) == ([0, 0.005, 0, 0.005], [0, 0])


def test_pause_is_no_longer_than_the_nearest_deadline() -> None:
    first, second = Child(), Child()
    list(wait_all({0: (first.pump, steps(1)), 1: (second.pump, steps(1, wait_s=0.001))}))
    assert first.waits == [0, 0.001]
