"""The findings of a check-up on terminals of several widths."""

from __future__ import annotations

import pytest

from odek.app.doctor import Check
from odek.cli.checks import check_spans

ID = f"sha256:{'0123456789ab' + '0' * 52}"


def test_findings_are_lines_with_what_to_do_below() -> None:
    checks = (Check(name="a", verdict="ok", seen="fine"), Check(name="bc", verdict="fail", seen="bad", fix="fix it"))
    assert check_spans(checks) == (
        ("ok  ", ("green",)),
        ("  a   fine\n", ()),
        ("fail", ("red",)),
        ("  bc  bad\n          → fix it", ()),
    )


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_findings_fit_the_terminal(columns: int) -> None:
    """C10, R-303: broken between words; of a digest what tells it apart. A pipe gets all of it."""
    checks = (
        Check(name="image", verdict="ok", seen=f"busybox:1 ({ID}) is here, and so is what it was built from"),
        Check(name="client settings", verdict="fail", seen="bad " * 20, fix="fix " * 30),
    )
    text = "".join(part for part, _ in check_spans(checks, columns=columns))
    assert [line for line in text.split("\n") if len(line) > columns] == []
    assert "(sha256:0123456789ab…)" in " ".join(text.split())
    whole = "".join(part for part, _ in check_spans(checks))
    assert (ID in whole, len(whole.split("\n"))) == (True, 3)
