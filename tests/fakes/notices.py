"""A sink that keeps what the user is shown, for the test to look at."""

from __future__ import annotations

from dataclasses import dataclass, field

from odek.events import Event, Notice, Progress, SandboxStarted, Sink, WarningIssued


@dataclass
class Notes:
    """A sink of events; hints are not kept."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        match event:
            case WarningIssued():
                self.warnings.append(event.text)
            case Notice() | Progress():
                self.notes.append(event.text)
            case SandboxStarted():
                self.notes.append(event.line)
            case _:
                raise AssertionError(f"not a notice: {event}")


def texts_to(texts: list[str]) -> Sink:
    """Return a sink that appends the text of each event to `texts`."""

    def keep(event: Event) -> None:
        assert isinstance(event, Notice | Progress | WarningIssued), event
        texts.append(event.text)

    return keep
