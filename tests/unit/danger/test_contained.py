"""What is the container's own affair."""

from __future__ import annotations

from pathlib import Path

import pytest

from odek.danger import contained


@pytest.mark.parametrize("reason", sorted({*contained.REASONS, contained.SHOWS_VALUE}))
def test_reasons_are_those_of_rules(reason: str) -> None:
    """A reason that is worded anew must be worded anew here."""
    rules = Path(contained.__file__).parent / "rules"
    assert any(reason in path.read_text(encoding="utf-8") for path in rules.glob("*.py"))
