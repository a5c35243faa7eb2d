"""What the user is told, kept for the test to look at."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Notes:
    """Satisfies odek.app.notices.Notices; hints are not kept."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str, hint: str = "") -> None:
        del hint
        self.warnings.append(text)
