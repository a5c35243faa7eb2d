"""Everyday commands of real projects: they run in the sandbox without a question, what harms does not."""

from __future__ import annotations

from support.classifier_report import SHARE_LIMIT, measure, read_entries


def test_everyday_commands_have_the_class_that_a_person_gives_them() -> None:
    """R-84: at least 500 commands of many ecosystems, each with its class."""
    entries = read_entries()
    assert len(entries) >= 500
    assert measure(entries).wrong_class == ()


def test_harmless_commands_rarely_ask_in_the_sandbox() -> None:
    """D-6: at most 2 % of what is harmless asks."""
    report = measure(read_entries())
    assert len(report.asks) <= SHARE_LIMIT * report.harmless


def test_harmful_commands_never_pass_in_the_sandbox() -> None:
    """D-6: work lost, secrets shown, files that the host trusts: all of it asks."""
    assert measure(read_entries()).passes == ()
