"""What tools of servers are called."""

from __future__ import annotations

import re

import pytest

from odek.app.tools import TOOLS
from odek.mcp.tool_names import LIMIT, SEPARATOR, tool_names

TAKEN_BY_PROVIDERS = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (("docs", "search"), "docs__search"),
        (("docs", "files.read"), "docs__files_read"),
        (("docs", "a b/c:d"), "docs__a_b_c_d"),
        (("docs", "größe"), "docs__gr__e"),
        (("docs", "\ud800"), "docs___"),
        (("s", "x" * 61), "s__" + "x" * 61),
    ],
)
def test_names_are_server_and_tool(tool: tuple[str, str], name: str) -> None:
    """R-197"""
    assert tool_names([tool]) == {tool: name}


def test_a_long_name_keeps_its_ends() -> None:
    """R-197, P-37: names over 64 characters failed every request; those that differ in the middle stay different."""
    tools = [("server", f"begin{'x' * 60}{middle}{'y' * 60}end") for middle in "abc"]
    names = list(tool_names(tools).values())
    assert len(set(names)) == 3
    for name in names:
        assert TAKEN_BY_PROVIDERS.fullmatch(name)
        assert (name.startswith("server__beginxx"), name.endswith("yyend"), len(name)) == (True, True, LIMIT)


def test_equal_names_get_a_digest_each() -> None:
    """R-197, P-37"""
    names = tool_names([("docs", "a.b"), ("docs", "a b"), ("docs", "a_b_c")])
    assert names[("docs", "a_b_c")] == "docs__a_b_c"
    assert len({*names.values()}) == 3
    assert all(re.fullmatch(r"docs__a_b_[0-9a-f]{8}", names[("docs", tool)]) for tool in ("a.b", "a b"))
    across = tool_names([("a_", "b"), ("a", "_b")])  # both would be a___b
    assert len({*across.values()}) == 2


def test_a_name_that_poses_as_another_takes_nothing_away() -> None:
    """R-197: who knows the digest of another tool can make an equal name; neither is offered then."""
    digest = next(iter(tool_names([("docs", "a.b"), ("docs", "a b")]).values())).removeprefix("docs__a_b_")
    names = tool_names([("docs", "a.b"), ("docs", "a b"), ("docs", f"a_b_{digest}"), ("docs", "other")])
    assert names[("docs", "other")] == "docs__other"
    assert len({*names.values()}) == len(names)


def test_order_is_that_of_the_names() -> None:
    """R-197: requests of two sessions are the same, in whichever order servers list their tools."""
    tools = [("b", "x"), ("a", "z"), ("a", "y")]
    assert list(tool_names(tools).values()) == list(tool_names(tools[::-1]).values()) == ["a__y", "a__z", "b__x"]


def test_no_built_in_tool_can_be_shadowed() -> None:
    """R-197"""
    assert [tool.name for tool in TOOLS if SEPARATOR in tool.name] == []
