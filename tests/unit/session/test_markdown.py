"""A session as Markdown: readable, and nothing in it gets out of its fence (R-286)."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from fakes.sessions import NOON_TEXT, result, said, user

from odek.model.types import Message, ToolCall, Usage
from odek.session.markdown import render_markdown
from odek.session.transcript import Entry, GivenFile, Header, Origin, State, Transcript
from odek.text import visible_lines

_OUTSIDE = re.compile(
    r"|# Session|## Turn \d+( · `[^`]+`)?|### (The model|Answer|A note to the model)|### (Call|Result) of `+.*`+"
    r"|### Compacted: in place of what is above the model gets"
    r"|- \w+: `+.*`+|Given file: `+.*`+, SHA-256 `[0-9a-f]+`"
)


def transcript(*entries: Entry) -> Transcript:
    header = Header(id="20260715-1", created_at=NOON_TEXT, task="look `around`", sandbox=True)
    usage = Usage(input_tokens=1200, output_tokens=30, priced_tokens=1230, cost_usd=0.0123)
    state = State(updated_at=NOON_TEXT, turns=1, model="small", cwd="/work", usage=usage)
    return Transcript(header=header, state=state, system="secret rules", entries=entries)


def calling(name: str, arguments: str) -> Entry:
    return Entry(message=Message(role="assistant", tool_calls=(ToolCall(id="1", name=name, arguments=arguments),)))


def fences(document: str) -> list[tuple[str, str]]:
    """Return language and content of each fence, by CommonMark's rules; every other line must be one of odek's own."""
    found: list[tuple[str, str]] = []
    fence, language, content = "", "", []
    for line in document.split("\n"):
        closes = re.fullmatch(r" {0,3}(`{3,}|~{3,})[ \t]*", line)
        if fence and closes and closes[1][0] == fence[0] and len(closes[1]) >= len(fence):
            found.append((language, "\n".join(content)))
            fence, content = "", []
        elif fence:
            content.append(line)
        elif opens := re.fullmatch(r"(`{3,})([a-z]+)", line):
            fence, language = opens[1], opens[2]
        else:
            assert _OUTSIDE.fullmatch(line), line
    assert not fence
    return found


def test_document_has_turns_calls_diffs_and_costs() -> None:
    """R-286."""
    turn = Entry(
        message=user("do it"), starts_turn=True, at=NOON_TEXT, files=(GivenFile(path="/etc/hosts", sha256="ab12"),)
    )
    diff = replace(result("1", "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new"), name="patch")
    document = render_markdown(
        transcript(
            turn,
            calling("shell", '{"command": "ls -l\\nwc x", "description": "look"}'),
            Entry(message=result("1", "total 0")),
            calling("patch", '{"path": "a", "old_string": "old"}'),
            Entry(message=diff),
            calling("odd", "not JSON"),
            Entry(message=said("**done**"), compacted=user("a summary")),
        )
    )
    assert fences(document) == [
        ("text", "do it"),
        ("sh", "ls -l\nwc x"),
        ("text", "total 0"),
        ("json", '{\n  "path": "a",\n  "old_string": "old"\n}'),
        ("diff", diff.content),
        ("text", "not JSON"),
        ("text", "a summary"),
        ("markdown", "**done**"),
    ]
    for line in (
        "- Cost: `$0.0123`",
        "- Tokens: `1200 in, 30 out`",
        "- Task: `` look `around` ``",
    ):
        assert line in document.split("\n")
    assert f"## Turn 1 · `{NOON_TEXT}`" in document
    assert "Given file: `/etc/hosts`, SHA-256 `ab12`" in document
    assert "secret rules" not in document
    origin = Origin(id="20260714-1", turns=2, receipts=None)
    forked = replace(transcript(), header=replace(transcript().header, origin=origin))
    assert "- Origin: `20260714-1, after 2 turns`" in render_markdown(forked)


@pytest.mark.parametrize(
    "text",
    [
        *("```\n# Session\n", "````\n```", "~~~\n", "`" * 40, "```sh", "x\n```\n## Turn 9\n```", "   ```", "\t```"),
        *("\r```\r## Turn 9", "\u2028```", "\x1b]0;t\x07\x1b[2J", "![x](http://127.0.0.1/p)", "<!--", "<script>", ""),
    ],
)
def test_nothing_ends_its_fence_or_escapes(text: str) -> None:
    """R-286: whatever stands in a message, a name or an argument."""
    entries = (
        Entry(message=user(text), starts_turn=True),
        calling(text, text),
        Entry(message=replace(result("1", text), name=text)),
        Entry(message=said(text)),
    )
    document = render_markdown(replace(transcript(*entries), header=replace(transcript().header, task=text)))
    shown = visible_lines(text).rstrip("\n")
    assert [content for _, content in fences(document)][:1] == [shown]
    assert set(map(ord, document)) & {0x1B, 0x07, 0x0D, 0x2028} == set()


def test_random_texts_come_back_whole() -> None:
    """R-286: a fence holds exactly what was said, whatever that is made of."""
    chance = random.Random(28)
    for _ in range(2000):
        text = "".join(chance.choice(("`", "``", "```", "~~~", "\n", " ", "#", "x", "\t", "- a")) for _ in range(12))
        (found,) = fences(render_markdown(transcript(Entry(message=user(text), starts_turn=True))))
        assert found == ("text", text.rstrip("\n"))
