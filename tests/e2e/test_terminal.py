"""What a person sees of `run` and `repl`, and types, at a pseudo-terminal (C3 to C6, R-260 to R-263)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping

import pytest
from fakes.model_server import ModelServer, Step, calls, delta, raw, text
from support.odek_process import Odek
from support.pty_session import Talk

from odek.cli.wrap import width_of

ANSWER = """# What was found

The tests fail because **`add` subtracts**: see *line two* of `app.py`, or the [report](https://example.org/ci/123).
Nothing else is wrong with 2*3*4, snake_case_names or **kwargs, and an unbalanced **marker stays.

## What to do

1. Change the sign in the function that adds, which is called from several places
   - a nested point that is long enough to be wrapped on a terminal of forty columns
2. Run the tests again
- [ ] an open point with [brackets] and <b>html</b> &amp; ~~nothing~~ more

> A quotation that goes on for long enough to need a second row on a narrow terminal.
>
> - with a point of its own

```python
def add(a, b):
    return a + b  # **not bold**, `not code`
```

| file | lines | note |
|------|------:|:----:|
| `app.py` | 1 | changed |
| notes.md | 12 | 日本語 |

---
日本語のテキストはここで折り返されますか。 Evil \x1b[2J\x1b]0;title\x07 text, naïve e\u0301 and 👩\u200d💻.
"""
SHOWN = re.compile(r"\x1b\[[0-9;]*m")
MOVES = re.compile(r"\x1b\[\?2004[hl]|\x1b\[K|\x1b\[J|\x1b\[\d+A|\x1b\[\?1034h|\r")
MARKERS = re.compile(r"[^\w@./:]+")


def streamed(answer: str, *, gap_s: float = 0.0, size: int = 11) -> Step:
    pieces = [delta(content=answer[at : at + size]) for at in range(0, len(answer), size)]
    return raw(*(f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces), b"data: [DONE]\n\n", gap_s=gap_s)


def words_of(shown: str) -> list[str]:
    """Return the words of ASCII in a text, without the signs of Markdown around them."""
    words = (word.strip("./:") for word in MARKERS.split(shown))
    return [word for word in words if word.isascii() and len(word) > 1]


def show(odek: Odek, command: str, *, columns: int, env: Mapping[str, str], flags: tuple[str, ...] = ()) -> str:
    """Return all that a terminal gets of one turn whose answer has everything that Markdown has."""
    with ModelServer(streamed(ANSWER)) as server:
        task = ("say it",) if command == "run" else ()
        with Talk(odek, command, "--base-url", server.base_url, *flags, *task, env=env, columns=columns) as talk:
            if command == "repl":
                talk.see("odek 1> ")
                talk.say("say it")
                talk.see("1 model call")
                talk.see("odek 2> ")
                talk.type("\x04")
            assert talk.end()[0] == 0, talk.raw
            return talk.raw.decode()


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("color", ["256", "16", "none", "plain"])
@pytest.mark.parametrize("command", ["run", "repl"])
def test_every_kind_of_text_at_every_width(on_host: Odek, command: str, color: str, columns: int) -> None:
    """C1, C3, C4: no escape is seen and none gets through, no word is cut, no row too wide, nothing missing."""
    env = {"TERM": "xterm-256color" if color == "256" else "xterm"} | ({"NO_COLOR": "1"} if color == "none" else {})
    shown = show(on_host, command, columns=columns, env=env, flags=("--plain",) if color == "plain" else ())
    assert [found for found in re.findall(r"\\x1b\S*", shown) if not found.startswith(("\\x1b[2J", "\\x1b]0;"))] == []
    assert ("\\x1b[2J\\x1b]0;title\\x07" in shown, "\x1b" in MOVES.sub("", SHOWN.sub("", shown))) == (True, False)
    assert bool(SHOWN.search(shown)) == (color in ("256", "16"))
    assert bool(re.search(r"\x1b\[[0-9;]*38;5;", shown)) == (color == "256")
    seen = MOVES.sub("", SHOWN.sub("", shown))
    answer = seen[seen.index("What was found") : seen.index("1 model call")]
    code = "    return a + b  # **not bold**, `not code`"
    rows = [row for row in answer.split("\n") if code not in row and "say it" not in row]
    assert max(map(width_of, rows)) <= columns, max(rows, key=width_of)
    assert code in answer
    found = words_of(answer)
    assert [word for word in words_of(ANSWER) if word not in found and "x1b" not in word] == []
    if color == "plain":
        assert re.findall(r"[\u2500-\u257f●]", seen.replace("\u2502", "")) == []
    statistics = seen.index("1 model call")
    assert statistics > seen.index("naïve")  # they come last (C3)


def test_pipe_gets_the_answer_and_nothing_else(on_host: Odek) -> None:
    """C3: not a byte is different, whatever the model wrote, with a terminal on stderr or without."""
    with ModelServer(streamed(ANSWER)) as server:
        outcome = on_host.run("run", "--base-url", server.base_url, "say it")
    assert (outcome.code, outcome.stdout) == (0, ANSWER), outcome.stderr


def test_answer_arrives_as_it_is_written_and_ctrl_c_keeps_it(on_host: Odek) -> None:
    """C3: words that were shown stay, the begun one included; then the turn ends as it does."""
    with (
        ModelServer(streamed("one **two** three " * 40, gap_s=0.1, size=9)) as server,
        Talk(on_host, "run", "--base-url", server.base_url, "say it") as talk,
    ):
        talk.see("one two three one")
        talk.type("\x03")
        code, rest = talk.end()
        assert (code, "stopped by SIGINT" in rest, "two" in rest) == (130, True, True)
        assert "model call" not in rest


def test_width_that_changes_counts_from_the_next_row(on_host: Odek) -> None:
    """C4."""
    with (
        ModelServer(streamed("word " * 60, gap_s=0.05, size=5)) as server,
        Talk(on_host, "run", "--base-url", server.base_url, "say it", columns=100) as talk,
    ):
        talk.see("word word word")
        talk.resize(30)
        code, _ = talk.end()
        rows = SHOWN.sub("", MOVES.sub("", talk.raw.decode())).split("\n")
        widths = [len(row) for row in rows if row.startswith("word")]
        assert (code, widths[0] > 90, {*widths[1:-1]}) == (0, True, {29})


RUNNING = "for i in 1 2 3 4 5 6 7 8; do echo live-$i; sleep 0.3; done; rm -f gone"


def test_running_command_shows_its_last_lines_and_takes_them_back(on_host: Odek) -> None:
    """C4, R-262: while it runs; the model gets the same result, and --plain and a narrow terminal have none of it."""
    results = []
    for columns, flags in ((100, ()), (100, ("--plain",)), (39, ())):
        with (
            ModelServer(calls(("shell", {"command": RUNNING})), text("done")) as server,
            Talk(on_host, "run", "--base-url", server.base_url, *flags, "x", columns=columns) as talk,
        ):
            assert talk.end()[0] == 0
            raw_text = talk.raw.decode()
            shown = bool(re.search(r"live-3\r\n[^●]*running, \d s", SHOWN.sub("", raw_text)))
            assert shown == (columns == 100 and not flags), raw_text
            if shown:
                assert re.search(r"\r\x1b\[\dA\x1b\[J", raw_text)
                assert raw_text.rindex("\x1b[J") < raw_text.rindex("live-8")
            else:
                assert raw_text.count("live-8") == 1
            results.append(server.requests[1].json["messages"][-1]["content"])
    assert len({re.sub("[0-9a-f]{16}", "", result) for result in results}) == 1


def test_what_a_tool_wrote_is_shown_as_a_diff(on_host: Odek) -> None:
    """C4, R-263."""
    (on_host.cwd / "a.txt").write_text("one\ntwo\n")
    asked = calls(("write_file", {"path": "a.txt", "content": "one\n2\n"}))
    with (
        ModelServer(asked, text("done")) as server,
        Talk(on_host, "run", "--base-url", server.base_url, "x") as talk,
    ):
        assert "a.txt +1 -1\n  │ @@ -1,2 +1,2 @@\n  │  one\n  │ -two\n  │ +2\n" in talk.see("done")
        assert talk.end()[0] == 0
        assert '{"success":true' in server.requests[1].json["messages"][-1]["content"]
        assert "two" not in server.requests[1].json["messages"][-1]["content"]
    assert b"\x1b[31m-two" in talk.raw


def test_typing_during_a_turn_is_kept_for_the_next_prompt(on_host: Odek) -> None:
    """C5, R-264: not a letter of it is in the answer; a whole line is the next entry, a part of one its beginning."""
    with (
        ModelServer(streamed("slowly " * 12, gap_s=0.1, size=7), text("second"), text("third")) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see("odek 1> ")
        talk.say("first")
        talk.see("slowly slowly")
        assert not talk.echoes
        talk.type("\x1a")  # Ctrl-Z is for a shell, which is not there
        talk.type("typed ahead\rand half")
        assert "typed" not in talk.see("1 model call")
        assert "typed ahead" in talk.see("second")
        talk.see("odek 3> and half")
        talk.say(" a line")
        talk.see("third")
        talk.see("odek 4> ")
        talk.type("\x04")
        assert talk.end()[0] == 0
        spoken = [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "user"]
        assert spoken == ["first", "typed ahead", "and half a line"]


@pytest.mark.parametrize("how", ["answer", "ctrl-c", "at once"])
def test_terminal_echoes_again_whatever_ends_a_run(on_host: Odek, how: str) -> None:
    """C5: also where no block of the program is left in order."""
    hang = 'trap "" TERM INT; sleep 8 & wait'
    with (
        ModelServer(calls(("shell", {"command": "sleep 1" if how == "answer" else hang})), text("done")) as server,
        Talk(on_host, "run", "--base-url", server.base_url, "x") as talk,
    ):
        assert talk.echoes
        talk.see("● shell")
        assert not talk.echoes
        if how != "answer":
            time.sleep(0.3)
            talk.type("\x03")
        if how == "at once":
            time.sleep(0.7)
            talk.type("\x03")
        code, _ = talk.end()
        assert code == (0 if how == "answer" else 130)
        assert talk.echoes


def test_typing_ahead_does_not_answer_a_question(on_host: Odek) -> None:
    """C5, B33: it is discarded by the question, whose answer is seen while it is typed."""
    folder = on_host.home / ".odek"
    (folder / "config.json").write_text(json.dumps({"sandbox": False, "dangerous": {"action": "prompt"}}))
    with (
        ModelServer(calls(("shell", {"command": "rm -rf build"})), text("done")) as server,
        Talk(on_host, "run", "--base-url", server.base_url, "x") as talk,
    ):
        talk.type("y\ry\r")
        talk.see("Approve?")
        talk.see("] ")
        assert talk.echoes
        talk.type("n\r")
        assert talk.see("done").startswith("n\n")
        assert talk.end()[0] == 0
        assert "denied by user" in server.requests[1].json["messages"][-1]["content"]


def test_ctrl_c_after_typing_does_not_leave(on_host: Odek) -> None:
    """C6: also a line that was not entered takes the first Ctrl-C back, and so does the first part of an entry."""
    with ModelServer() as server, Talk(on_host, "repl", "--base-url", server.base_url) as talk:
        talk.see("odek 1> ")
        for typed in ("", "half a line", "goes on\\\r", "x"):
            talk.type(typed)
            time.sleep(0.3)
            talk.type("\x03")
            talk.see("Ctrl-C once more leaves")
            talk.see("odek 1> ")
        time.sleep(0.3)
        talk.type("\x03")
        assert talk.end()[0] == 130


def test_pasted_line_ends_are_not_doubled(on_host: Odek) -> None:
    """C6: CRLF, CR and LF; what is typed behind the paste belongs to the entry."""
    with (
        ModelServer(text("got it")) as server,
        Talk(on_host, "repl", "--base-url", server.base_url) as talk,
    ):
        talk.see("odek 1> ")
        talk.type("\x1b[200~first ü\r\nsecond\r\n\r\nthird\rfourth\x1b[201~ and more")
        time.sleep(0.3)
        talk.type("\r")
        talk.see("got it")
        talk.see("odek 2> ")
        talk.type("/he\t\r")  # completion works as before
        talk.see("this list")
        talk.see("odek 2> ")
        talk.type("\x04")
        assert talk.end()[0] == 0
        assert server.requests[0].json["messages"][-1]["content"] == "first ü\nsecond\n\nthird\nfourth and more"


@pytest.mark.parametrize("arguments", [("run", "-"), ("run", "--ctx", "-", "look"), ("subagent",)])
def test_who_waits_for_stdin_at_a_terminal_says_so(on_host: Odek, arguments: tuple[str, ...]) -> None:
    """C6."""
    with Talk(on_host, *arguments, env={"OPENAI_API_KEY": "x"}) as talk:
        talk.see("is read from this terminal; Ctrl-D at the beginning of a line ends it")
        talk.type("\x03")
        talk.end()
