"""No cut of a tool lets a part of a secret through, wherever it falls (E6)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from fakes.layering import bare_host, make_layers
from fakes.tools import carry_out

from odek.app.tools import make_toolbox
from odek.config.resolve import resolve
from odek.executor import CommandResult
from odek.model.types import ToolCall
from odek.process import Capture, Output
from odek.redact import MARK, Redactor
from odek.tools.registry import Toolbox
from odek.tools.shell import render_output
from odek.tools.unsecret import redact_output
from tests.fakes.executor import FakeExecutor, command_result, whole

KNOWN = 'zQ7"v/kX3+Lm9?pW2'
KEY = "sk-" + "a1B2c3D4" * 5  # in no list of values: only its form says what it is
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(["QUJDREVGR0hJSktMTU5P" * 3] * 4) + "\n-----END PRIVATE KEY-----"
FORMS = {
    "plain": KNOWN,
    "json": json.dumps(KNOWN)[1:-1],
    "percent": quote(KNOWN, safe=""),
    "base64": base64.b64encode(KNOWN.encode() + b"!").decode(),
    "hex": KNOWN.encode().hex(),
    "key": KEY,
}
REDACT = Redactor((KNOWN,))
FEW = 3  # characters of a secret that may be seen: base64 shares its last ones with what comes next


def leaks(text: str, secret: str) -> bool:
    """Return whether more than FEW characters of `secret` in a row, which nothing else has, are in `text`."""
    size, secret = FEW + 1, secret.removeprefix("sk-")
    return any(secret[start : start + size] in text for start in range(len(secret) - size - 3))


def captured(data: bytes, limit_bytes: int) -> Output:
    capture = Capture(limit_bytes)
    for start in range(0, len(data), 7):
        capture.feed(data[start : start + 7])
    return capture.output()


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_across_the_cut_of_an_output_is_not_shown(form: str) -> None:
    """E6: at each position of head and tail."""
    secret, limit = FORMS[form], 200
    for before in range(limit // 2 - len(secret) - 5, limit // 2 + 5):
        for text in ("." * before + f" {secret} " + "." * 300, "." * 300 + f" {secret} " + "." * before):
            shown = render_output(redact_output(whole(text.encode()), REDACT), limit=limit)
            assert not leaks(shown, secret), (before, shown)  # by itself, whatever looks at it once more
            assert not leaks(REDACT(shown), secret), (before, shown)


@pytest.mark.once
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_across_the_gap_of_what_was_kept_is_not_shown(form: str) -> None:
    """E6: what was dropped while a command ran tells nothing of what remains at both sides, even where it shrank."""
    secret, kept = FORMS[form], 1 << 16
    shrinking = f"{KNOWN}\n" * 200
    for shift in range(len(secret) + 2):
        filler = shrinking + "." * (kept // 2 - len(shrinking) - shift)
        data = f"{filler}{secret}{'.' * kept}{secret}{filler}"
        shown = render_output(redact_output(captured(data.encode(), kept), REDACT), limit=1 << 20)
        assert not leaks(shown, secret), shift
        assert not leaks(REDACT(shown), secret), shift
        assert MARK in shown


def test_sizes_are_of_what_remains() -> None:
    data = f"a {KNOWN}\n".encode()
    assert redact_output(whole(data), REDACT) == whole(f"a {MARK}\n".encode())


def tools_with(files: dict[str, bytes], commands: dict[str, CommandResult]) -> Toolbox:
    return make_toolbox(
        resolve(make_layers(operator={"dangerous": {"action": "allow"}})),
        FakeExecutor(files=files, commands=commands),
        None,
        bare_host("/workspace"),
        person=None,
        wrap=lambda text, *, source: f"<{source}>\n{text}\n</>" if text else "",
        redact=REDACT,
        environment_block="",
        applied=dict,
    )


def call(tools: Toolbox, name: str, **arguments: object) -> str:
    return carry_out(tools, ToolCall(id="1", name=name, arguments=json.dumps(arguments))).text


LONG = 10_000  # characters of a line that are shown


@pytest.mark.once
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        (lambda at: "x" * (LONG - at), "read_file", {"path": "a"}),
        (lambda at: "x" * (LONG - at), "batch_read", {"files": [{"path": "a"}]}),
        (lambda at: "." * (20_000 - 24 - at), "patch", {"path": "a", "old_string": "EDIT", "new_string": "EDITED"}),
    ],
    ids=["read_file", "batch_read", "patch"],
)
def test_no_tool_cuts_a_secret_in_two(
    form: str, line: Callable[[int], str], name: str, arguments: dict[str, object]
) -> None:
    """E6: a limit on lines, on a diff."""
    secret = FORMS[form]
    for at in range(len(secret) + 4):
        content = f"{'EDIT ' if name == 'patch' else ''}{line(at)} {secret} {'.' * 12_000} end\n"
        tools = tools_with({"a": content.encode()}, {})
        shown = call(tools, name, **arguments)
        assert not leaks(shown, secret), (at, shown[-400:])
        assert "\n" in shown


@pytest.mark.parametrize("form", FORMS)
def test_no_search_cuts_a_secret_in_two(form: str) -> None:
    """E6: what is around a match, at each position, before it and behind it."""
    secret = FORMS[form]
    lines = [
        line
        for at in range(len(secret) + 4)
        for line in (
            f"NEEDLE{'.' * (198 - at)} {secret} {'.' * 900}",
            f"{'.' * 900} {secret} {'.' * (102 - at)}NEEDLE{'.' * 900}",
        )
    ]
    tools = tools_with({"a": "\n".join(lines).encode()}, {})
    shown = call(tools, "search_files", pattern="NEEDLE", limit=500)
    assert f"matches: {len(lines)}," in shown
    assert "left out" not in shown
    assert not leaks(shown, secret)


@pytest.mark.parametrize("form", FORMS)
def test_commands_at_the_same_time_have_cuts_of_their_own(form: str) -> None:
    """E6: parallel_shell divides what is shown among its commands, and among their streams."""
    secret = FORMS[form]
    for at in range(len(secret) + 4):
        text = f"{'.' * (3_750 - at)} {secret} {'.' * 9_000} {secret} {'.' * (3_750 - at)}".encode()
        tools = tools_with({}, {"a": command_result(text, stderr=text), "b": command_result(text, stderr=text)})
        shown = call(tools, "parallel_shell", commands=[{"command": "a"}, {"command": "b"}])
        assert not leaks(shown, secret), at


def test_a_range_of_lines_inside_a_key_shows_none_of_it_and_keeps_its_numbers() -> None:
    """E6: line 3 of a private key, with neither its first line nor its last in sight."""
    tools = tools_with({"a": f"one\n{PEM}\nnine\nten\n".encode()}, {})
    assert f"3|{MARK}" in call(tools, "read_file", path="a", offset=3, limit=2)
    assert "8|nine\n9|ten" in call(tools, "read_file", path="a", offset=8)


@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_a_secret_at_a_mark_is_one(form: str) -> None:
    """E6: the second look, at what somebody else has cut: errors, titles, descriptions."""
    secret = FORMS[form]
    for size in range(5, len(secret) - 4):
        for cut in ("…", "[40 characters left out]", "\n[… 12 bytes left out …]\n"):
            assert not leaks(REDACT(f"error: {secret[:size]}{cut}"), secret), (size, cut)
            if form != "key":  # the end of a key has no form
                assert not leaks(REDACT(f"{cut}{secret[size:]} is bad"), secret) or form == "base64", (size, cut)


def test_marks_in_innocent_text_change_nothing() -> None:
    for text in ("and so on… and on", "[12 bytes left out]", "…", "sk-… is what keys begin with", "a…b…c"):
        assert REDACT(text) == text
