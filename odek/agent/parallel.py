"""Several pieces of work at the same time: the only place of the agent that starts threads.

The main thread waits, and is the one that a signal reaches; whatever ends its waiting calls the rest
off and waits until it has stopped, so that no command outlives the turn that asked for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from odek.calloff import CallOff, heed
from odek.errors import Interrupted

T = TypeVar("T")

# Longer than the executors take to stop a command (sandbox.commands: 15 s for each of two tries).
_STOP_PATIENCE_S = 35.0


class Batch(Generic[T]):
    """Work done by a bounded number of threads."""

    def __init__(self, tasks: Sequence[Callable[[], T]], *, limit: int) -> None:
        """Prepare to do `tasks`, at most `limit` at once, begun in their order."""
        self.results: dict[int, T] = {}
        """what is done, by the place of its task"""
        self._tasks = tasks
        self._limit = limit
        self._begun = iter(range(len(tasks)))
        self._begin = threading.Lock()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._call_off = CallOff()

    def run(self, on_result: Callable[[], None]) -> None:
        """Do the work; `on_result` is called, in this thread, whenever a result has been added.

        What a task or `on_result` raises ends everything and is raised here, as is what the waiting is
        ended by. `results` may then hold more than `on_result` was told of.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in self._tasks[: self._limit]]
        try:
            for thread in threads:
                thread.start()
            for _ in self._tasks:
                error = self._ended.get()
                if error is not None:
                    raise error
                on_result()
        except BaseException as error:
            self._call_off.call(error.signal_number if isinstance(error, Interrupted) else 0)
            raise
        finally:
            _join(threads)

    def _work(self) -> None:
        heed(self._call_off)
        while self._call_off.signal_number is None:
            with self._begin:
                place = next(self._begun, None)
            if place is None:
                return
            try:
                self.results[place] = self._tasks[place]()
            except BaseException as error:  # raised again in the thread that waits
                self._ended.put(error)
                return
            self._ended.put(None)


def _join(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + _STOP_PATIENCE_S
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(deadline - time.monotonic(), 0))
