"""Every command at terminals of several widths: with colours, with each way to say that there shall be none, in a pipe.

`scripts/smoke-terminal` runs every width with every way.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.odek_process import Odek
from support.terminals import COLOR, COLORED, CONTROL, LINES, AllAtTerminals, at_terminals, too_wide

WIDTHS = (40, 80, 200)
NO_COLORS: Mapping[str, Mapping[str, str]] = {
    "colour": {},
    "NO_COLOR": {"NO_COLOR": "1"},
    "dumb": {"TERM": "dumb"},
}
IN_FULL = [(columns, way) for columns in WIDTHS for way in NO_COLORS] if os.environ.get("ODEK_SMOKE") == "all" else []
AS_IT_IS = (("completion",), ("config", "schema"), ("session", "export"), ("mcp",), ("init",))
"""what is no text for people: a script, a schema, a protocol"""
# what differs from one run to the next
_VARIES = re.compile(r"\d+|[0-9a-f]{12,}|/tmp/\S*")


def assert_fits(seen: AllAtTerminals, columns: int) -> None:
    """The terminal breaks no line that odek could have broken between words, and no row of a table."""
    shown = {line: text for line, text in seen.shown.items() if not any(line[: len(each)] == each for each in AS_IT_IS)}
    assert {line: wide for line, text in shown.items() if (wide := too_wide(text, columns))} == {}


def spelled(seen: AllAtTerminals) -> dict[tuple[str, ...], str]:
    """Return what shows an escape as text."""
    return {line: text for line, text in seen.shown.items() if "\\x1b" in text or "\\033" in text}


@pytest.mark.parametrize(("columns", "way"), IN_FULL)
def test_each_width_with_and_without_colour(odek: Odek, tmp_path: Path, columns: int, way: str) -> None:
    """R-305: the whole table, for `scripts/smoke-terminal`."""
    seen = at_terminals(odek, tmp_path, env=NO_COLORS[way], columns=columns)
    assert spelled(seen) == {}
    assert_fits(seen, columns)
    colored = [line for line in LINES if COLOR.search(seen.shown[line])]
    assert [line for line in COLORED if line not in colored] == [] if way == "colour" else colored == []
    if way == "dumb":
        assert [line for line in LINES if "\x1b" in seen.shown[line]] == []


def test_nothing_leaks_into_a_pipe_and_nothing_is_broken_that_fits(odek: Odek, tmp_path: Path) -> None:
    """R-305: a pipe gets no control at all, although TERM has colours; a wide terminal shows the same lines."""
    (tmp_path / "pipe").mkdir()
    (tmp_path / "wide").mkdir()
    piped = at_terminals(odek, tmp_path / "pipe", env={}, columns=0)
    assert {line: text for line, text in piped.shown.items() if "\x1b" in text or "\r" in text} == {}
    wide = at_terminals(odek, tmp_path / "wide", env={}, columns=200)
    assert_fits(wide, 200)
    for line in (
        ("config", "view"),
        ("doctor",),
        ("selftest",),
        ("danger", "explain", "rm -rf /"),
        ("approvals", "list"),
    ):
        rows = {_VARIES.sub("#", row) for row in CONTROL.sub("", wide.shown[line]).replace("\r\n", "\n").split("\n")}
        fitting = [row for row in piped.shown[line].split("\n") if len(row) <= 200 and "is not a terminal" not in row]
        assert [row for row in fitting if _VARIES.sub("#", row) not in rows] == []


def test_no_command_shows_an_escape_that_was_meant_as_a_colour(odek: Odek, tmp_path: Path) -> None:
    """V1, C1, R-305: colours are seen as colours, nothing else moves the cursor, and no escape is spelled out."""
    seen = at_terminals(odek, tmp_path, env={}, columns=80)
    assert_fits(seen, 80)
    moved = {line: text for line, text in seen.shown.items() if "\x1b" in CONTROL.sub("", text)}
    assert (spelled(seen), moved) == ({}, {})
    unknown = [line for line, text in seen.shown.items() if "unknown command" in text or "is not an action" in text]
    assert unknown == [("no-such-command",), ("sandbox", "no-such-action")]
    assert [line for line in COLORED if not COLOR.search(seen.shown[line])] == []


@pytest.mark.parametrize(("way", "columns"), [("flag", 40), ("variable", 80), ("file", 200), ("dumb", 40)])
def test_no_color_holds_in_every_command(odek: Odek, tmp_path: Path, way: str, columns: int) -> None:
    """V2, C2, R-305: said by the flag, by the variable, or by the settings file; also in errors of a command line."""
    env = {"variable": {"ODEK_NO_COLOR": "1"}, "dumb": NO_COLORS["dumb"]}.get(way, {})
    if way == "file":
        settings = odek.home / ".odek" / "config.json"
        settings.parent.mkdir(mode=0o700)
        settings.write_text(json.dumps({"no_color": True}))
        settings.chmod(0o600)
    seen = at_terminals(odek, tmp_path, env=env, flags=("--no-color",) if way == "flag" else (), columns=columns)
    assert_fits(seen, columns)
    assert "odek: " in seen.shown["sandbox", "verify"]  # it did run
    assert {line: text for line, text in seen.shown.items() if COLOR.search(text) or "\\x1b" in text} == {}
