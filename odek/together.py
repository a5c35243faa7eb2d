"""Several children followed at the same time, by one thread.

What is waited for differs by place (sandbox, host); a follower says it one step at a time, and the
loop here moves the bytes of all of them meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Protocol

Follower = Generator[float, None, bool]
"""yields how long its child may be waited for, in seconds; returns whether the child ended by itself"""

# Between two rounds: long enough to cost nothing while all are silent, short enough for a full pipe
# of each child (64 KiB) to be emptied at 13 MB/s.
_PAUSE_S = 0.005


class Pumped(Protocol):
    """The part of process.Running that is needed here."""

    def pump(self, timeout_s: float) -> None: ...


def follow_all(jobs: Mapping[int, tuple[Pumped, Follower]]) -> Iterator[tuple[int, bool]]:
    """Yield the key of each job when its follower is done, with what that returned."""
    active = dict(jobs)
    while active:
        alone = len(active) == 1
        pause_s = _PAUSE_S
        for key, (child, follower) in tuple(active.items()):
            try:
                wait_s = next(follower)
            except StopIteration as stop:
                del active[key]
                yield key, stop.value
                continue
            child.pump(wait_s if alone else 0)
            pause_s = min(pause_s, wait_s)
        if not alone and active:
            child, _ = next(iter(active.values()))
            child.pump(pause_s)
