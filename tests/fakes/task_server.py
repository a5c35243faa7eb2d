"""A model server for an agent and its sub-agents: each conversation has a script of its own.

    TaskServer({"the parent's task": [calls(("delegate_tasks", {…})), text("done")], "first goal": [text("one")]})

A conversation is known by what its first message of the user contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fakes.model_server import Answer, ModelServer, ServedRequest, Step, status


def first_words(request: ServedRequest) -> str:
    """Return the text of the first message of the user."""
    return str(next(message["content"] for message in request.json["messages"] if message["role"] == "user"))


class TaskServer(ModelServer):
    """A ModelServer that picks the script by the conversation."""

    def __init__(self, scripts: Mapping[str, Sequence[Step]]) -> None:
        super().__init__()
        self.scripts = {key: list(steps) for key, steps in scripts.items()}

    def next_step(self, request: ServedRequest) -> Any:
        """Return the next answer for the conversation of `request`."""
        words = first_words(request)
        with self._lock:
            key = next((key for key in self.scripts if key in words), None)
            if key is None or not self.scripts[key]:
                self.unscripted.append(request)
                return status(500, {"error": {"message": f"the test has no answer for {words[:200]}"}})
            step = self.scripts[key].pop(0)
        return step(request) if callable(step) and not isinstance(step, Answer) else step

    def of(self, key: str) -> list[ServedRequest]:
        """Return the requests of the conversation whose first words contain `key`."""
        return [request for request in self.requests if key in first_words(request)]

    def assert_script_used(self) -> None:
        """As ModelServer's."""
        assert not self.unscripted, f"unscripted requests: {[request.body[-2000:] for request in self.unscripted]}"
        left = {key: len(steps) for key, steps in self.scripts.items() if steps}
        assert not left, f"scripted answers that were not asked for: {left}"
