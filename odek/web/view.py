"""What a page sees of one session: entries, the turn under way, its place of work. Derived from the events (R-131),
which have no secrets any more.

The lock of the session's log is held whenever something here is read or changed, so that a snapshot and the id of the
last event fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odek.model.types import Message
from odek.web.entries import Entry, entries_of

_NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}


class View:
    """See the module."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.entries: list[Entry] = []
        """without their numbers"""
        self.turn: dict[str, object] | None = None
        """the one under way"""
        self._partial: list[str] = []
        self.running: list[dict[str, object]] = []
        self.tasks: dict[str, dict[str, object]] = {}
        """sub-agents of the turn, by their names"""
        self.container: Mapping[str, object] | None = None
        self.lost = False
        self.usage: Mapping[str, object] = _NO_USAGE
        self.tokens = 0
        """of the last request and its reply: how full the window is"""
        self.window: int | None = None
        """how many tokens the model takes, where that is known"""
        self._failed: dict[str, bool] = {}
        self._base = 0
        """how many entries there were before the turn"""

    @property
    def partial(self) -> str:
        """what the model has written of its present reply"""
        return "".join(self._partial)

    @property
    def context(self) -> dict[str, object]:
        """how full the window is"""
        return {"tokens": self.tokens, "window": self.window}

    def begin(self, messages: Sequence[Message], usage: Mapping[str, object]) -> None:
        """Show the conversation as it is stored."""
        self.entries = entries_of(messages, {}, self._redact)
        self.usage = usage
        self.turn, self._partial, self.running = None, [], []

    def end_turn(self, messages: Sequence[Message]) -> None:
        """Show the turn as it is stored; `messages` are those since it began."""
        self.entries[self._base :] = entries_of(messages, self._failed, self._redact)
        self.turn, self._partial, self.running, self.tasks = None, [], [], {}
        self._base = len(self.entries)

    def keep(self, messages: Sequence[Message]) -> None:
        """Show no more than `messages`, which the conversation began with; what is known of their calls stays."""
        del self.entries[len(entries_of(messages, {})) :]

    def take(self, event: Mapping[str, object]) -> None:
        """Change with one event, in the form of `--json`."""
        if "task" in event:
            self._take_of_task(event)
            return
        match event["event"]:
            case "turn_started":
                self._base, self._failed = len(self.entries), {}
                self.turn = {"turn": event["turn"], "text": event["text"], "files": event["files"], "at": event["at"]}
                self.entries.append({"kind": "user", "text": event["text"], "files": event["files"]})
            case "model_asked" | "text_voided":
                self._partial = []
            case "text":
                self._partial.append(str(event["text"]))  # joined when it is asked for: a reply may have 100,000 pieces
            case "model_replied":
                self._replied(event)
            case "tool_started":
                self.running.append({"id": event["id"], "title": event["title"]})
                fields = {key: event[key] for key in ("id", "name", "arguments", "title")}
                self.entries.append({"kind": "call", **fields})
            case "tool_finished":
                self._finished(event)
            case "sandbox":
                self._placed(event)
            case "turn_ended":
                usage = event["session_usage"]
                assert isinstance(usage, Mapping)
                self.usage = usage

    def _replied(self, event: Mapping[str, object]) -> None:
        self._partial = []
        content, usage = str(event["content"]), event["usage"]
        if content.strip():
            self.entries.append({"kind": "assistant", "text": content})
        if isinstance(usage, Mapping) and usage["input_tokens"]:
            self.tokens = int(usage["input_tokens"]) + int(usage["output_tokens"])

    def _finished(self, event: Mapping[str, object]) -> None:
        self.running = [each for each in self.running if each["id"] != event["id"]]
        self._failed[str(event["id"])] = bool(event["failed"])
        fields = {"id": event["id"], "name": event["name"], "text": event["result"], "failed": event["failed"]}
        self.entries.append({"kind": "result", **fields})

    def _placed(self, event: Mapping[str, object]) -> None:
        facts = event["facts"]
        self.container = facts if isinstance(facts, Mapping) else None
        self.lost = event["state"] == "lost"

    def _take_of_task(self, event: Mapping[str, object]) -> None:
        name = str(event["task"])
        match event["event"]:
            case "task_started":
                self.tasks[name] = {"task": name, "of": event["of"], "goal": event["goal"], "status": "working"}
            case "task_ended" if name in self.tasks:
                self.tasks[name]["status"] = event["status"]
            case _:
                pass
