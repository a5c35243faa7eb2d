"""The lines of a session file, and what is made of a file that is not whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.sessions import NOON_TEXT, calls, check_pairing, interrupted, result, said, user

from odek.model.types import Message, ToolCall, Usage
from odek.session.codec import (
    Parsed,
    encode_file,
    entry_line,
    header_line,
    parse_ends,
    parse_file,
    state_line,
    system_line,
    undo_line,
)
from odek.session.groups import history, pair_results
from odek.session.transcript import Entry, GivenFile, Header, State, Summary, Transcript

HEADER = Header(id="s", created_at=NOON_TEXT, task="look", sandbox=True)


def state(turns: int) -> State:
    return State(updated_at=NOON_TEXT, turns=turns, model="small", cwd="/work", usage=Usage(input_tokens=3))


def turn(text: str) -> Entry:
    return Entry(message=user(text), starts_turn=True, at=NOON_TEXT)


def more(*messages: Message) -> tuple[Entry, ...]:
    return tuple(Entry(message=message) for message in messages)


WHOLE = Transcript(
    header=HEADER,
    state=state(2),
    system="be brief",
    entries=(
        turn("list the files\nplease"),
        *more(calls("a", "b"), result("a"), result("b", "größer\u2028")),
        *more(said("two")),
        turn("and now?"),
        *more(said("")),
    ),
)


def test_lines_are_exactly_these() -> None:
    """R-85: the layout is documented; other programs may read it."""
    called = Message(
        role="assistant",
        content="so",
        reasoning="hm",
        reasoning_field="reasoning",
        extra='{"x": [1]}',
        tool_calls=(
            ToolCall(id="a", name="shell", arguments='{"command": "ls', extra='{"extra_content": {"s": "=="}}'),
        ),
    )
    transcript = Transcript(
        header=Header(id="s", created_at=NOON_TEXT, task="ä", sandbox=False, extra={"auth_token": "00"}),
        state=state(1),
        system="be brief",
        entries=(turn("hi"), Entry(message=called), *more(result("a"))),
    )
    assert encode_file(transcript).decode().split("\n") == [
        '{"kind":"session","format":1,"id":"s","created_at":"2026-07-15T12:00:00.000000Z","task":"ä","sandbox":false,'
        '"extra":{"auth_token":"00"}}',
        '{"kind":"system","content":"be brief"}',
        '{"kind":"turn","at":"2026-07-15T12:00:00.000000Z","message":{"role":"user","content":"hi"}}',
        '{"kind":"message","message":{"role":"assistant","content":"so","reasoning_content":"hm",'
        '"reasoning_field":"reasoning","tool_calls":[{"id":"a","type":"function","function":{"name":"shell","arguments":'
        '"{\\"command\\": \\"ls"},"extra_content":{"s":"=="}}],"x":[1]}}',
        '{"kind":"message","message":{"role":"tool","content":"done","tool_call_id":"a","name":"shell"}}',
        '{"kind":"state","updated_at":"2026-07-15T12:00:00.000000Z","turns":1,"model":"small","cwd":"/work",'
        '"usage":{"input_tokens":3,"output_tokens":0,"cached_tokens":0}}',
        "",
    ]
    assert parse_file(encode_file(transcript)).transcript == transcript


def test_whole_file_reads_back_exactly() -> None:
    """R-85."""
    data = encode_file(WHOLE)
    assert parse_file(data) == Parsed(transcript=WHOLE, size_bytes=len(data), torn_bytes=0)


@pytest.mark.parametrize(
    "text",
    [
        "\ud83d",
        "a\udcffb",
        "\udcff.",
        "\\ud83d \ud83d",
        '"\ud83d\\',
        "\0\x1b]0;x\x07\x85\u2028\u2029",
        "e\u0301é",
        "\U0001f600",
    ],
    ids=ascii,
)
def test_any_text_survives_as_valid_utf_8(text: str) -> None:
    """B47: lone surrogates, of a model or of a name that is not UTF-8, neither raise nor change."""
    entry = Entry(
        message=Message(role="tool", content=text, tool_call_id=text, name=text, reasoning=text),
        extra={"x": text},
    )
    header = Header(id="s", created_at=NOON_TEXT, task=text, sandbox=True)
    whole = Transcript(header=header, state=state(0), system=text, entries=(entry,))
    data = encode_file(whole)
    assert data.decode("utf-8").count("\n") == 4
    assert parse_file(data).transcript == whole


def test_surrogate_pair_in_two_halves_becomes_the_character() -> None:
    """B47: JSON cannot tell the halves from the whole."""
    line = entry_line(Entry(message=said("\ud83d\ude00")))
    assert parse_file(header_line(HEADER) + line).transcript.entries == more(said("\U0001f600"))


def test_file_cut_at_any_byte_is_a_prefix_that_a_provider_accepts() -> None:
    """R-85, B44: SIGKILL at any byte of any write."""
    data = encode_file(WHOLE)
    first = len(header_line(HEADER))
    for size in range(first, len(data)):
        parsed = parse_file(data[:size])
        entries = parsed.transcript.entries
        assert entries == WHOLE.entries[: len(entries)]
        assert data[:size].rfind(b"\n") + 1 == parsed.size_bytes == size - parsed.torn_bytes
        check_pairing(history(parsed.transcript))
    for size in range(first):
        with pytest.raises(ValueError, match="cut off" if size else "it is empty"):
            parse_file(data[:size])


@pytest.mark.parametrize(
    "torn",
    [
        b"\0" * 700,
        b"\0" * 50 + b"\n",
        b'{"kind":"message","mess',
        b'{"kind":"message"}\n',
        b"\xff\n",
        b"[]\n",
        b"\n",
        b"{}\n",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("ending", [b"", state_line(state(9))], ids=["alone", "before its state"])
def test_damage_in_the_last_write_is_dropped(torn: bytes, ending: bytes) -> None:
    """R-85, B46: what a power cut leaves, pages of zeros before good ones included."""
    data = encode_file(WHOLE)
    assert parse_file(data + torn + ending) == Parsed(
        transcript=WHOLE, size_bytes=len(data), torn_bytes=len(torn + ending)
    )


def test_states_that_two_others_follow_are_not_even_read() -> None:
    """R-85: a step adds one, so that they are half of the lines of a long session."""
    old = b'{"kind":"state",spoiled\n'
    parsed = parse_file(
        data := header_line(HEADER) + old + state_line(state(1)) + entry_line(turn("x")) + state_line(state(2))
    )
    assert (parsed.transcript.entries, parsed.size_bytes, parsed.torn_bytes) == ((turn("x"),), len(data), 0)


@pytest.mark.parametrize("tail", [state_line(state(2)) * 2, state_line(state(2)) + b'{"kind'])
def test_damage_before_the_last_write_is_reported_with_its_line(tail: bytes) -> None:
    """R-85: nothing that was saved is thrown away without a word."""
    data = header_line(HEADER) + state_line(state(0)) + b"spoiled\n" + tail
    with pytest.raises(ValueError, match=r"^line 3 cannot be read$"):
        parse_file(data)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"\n", "it is empty"),
        (b"null\n", "it does not begin as a session does"),
        (b"\0" * 100 + b"\n", "it does not begin as a session does"),
        (b'{"kind":"session",\n', "line 1, column "),
        (b'{"kind":"session","format":2}\n', "its format is unknown; it may come from a newer odek"),
        (b'{"kind":"session","format":1,"id":3}\n', 'its field "id" is not a text'),
        (b'{"kind":"session","format":1,"id":"s","created_at":"today"}\n', 'its field "created_at" is not a time'),
        (header_line(HEADER).replace(b"true", b'"no"'), 'its field "sandbox" is neither true nor false'),
        (header_line(HEADER).replace(b"true", b'true,"extra":[]'), "it is not a JSON object"),
    ],
)
def test_file_without_a_header_is_damaged(first: bytes, reason: str) -> None:
    """B46: zero bytes, half a JSON, null."""
    with pytest.raises(ValueError) as caught:
        parse_file(first + state_line(state(0)))
    assert str(caught.value).startswith(reason)


def test_header_without_a_sandbox_bit_counts_as_sandboxed() -> None:
    """R-2: what is not said is the closed side."""
    assert parse_file(header_line(HEADER).replace(b',"sandbox":true', b"")).transcript.header == HEADER


def test_files_of_a_turn_are_kept_with_it() -> None:
    """R-43, B47: where each lay and what it was, whatever its name is; a turn of an older odek has none."""
    files = (GivenFile(path="/etc/hosts", sha256="00"), GivenFile(path="/we\udcffird", sha256="ff"))
    whole = replace(WHOLE, entries=(replace(turn("x"), files=files), turn("y")))
    data = encode_file(whole)
    assert b',"files":[{"path":"/etc/hosts","sha256":"00"},{"path":"/we\\udcffird","sha256":"ff"}]}\n' in data
    assert parse_file(data).transcript == replace(whole, state=replace(whole.state, turns=2))
    with pytest.raises(ValueError, match=r"^line 3 cannot be read$"):
        parse_file(data.replace(b'"path":"/etc/hosts"', b'"path":3') + state_line(state(2)))


def test_last_system_message_and_last_state_count() -> None:
    data = b"".join(
        [header_line(HEADER), system_line("old"), state_line(state(7)), system_line("new"), entry_line(turn("x"))]
    )
    last = State(updated_at=NOON_TEXT, turns=0, model="large", cwd="/", usage=Usage(output_tokens=1))
    transcript = parse_file(data + state_line(last)).transcript
    assert transcript.system == "new"
    assert transcript.state == State(
        updated_at=NOON_TEXT, turns=1, model="large", cwd="/", usage=Usage(output_tokens=1)
    )


@pytest.mark.parametrize(("undone", "left"), [(0, 7), (1, 5), (2, 0), (3, 0)])
def test_undo_takes_whole_turns_back(undone: int, left: int) -> None:
    transcript = parse_file(encode_file(WHOLE) + undo_line() * undone).transcript
    assert transcript.entries == WHOLE.entries[:left]
    assert transcript.state.turns == max(2 - undone, 0)


def test_lines_of_a_later_odek_are_passed_over() -> None:
    data = header_line(HEADER) + b'{"kind":"receipt","hash":"00"}\n' + entry_line(turn("x")) + state_line(state(1))
    assert parse_file(data).transcript.entries == (turn("x"),)


def test_ends_tell_what_a_list_shows() -> None:
    lines = encode_file(WHOLE).split(b"\n", 1)
    summary = Summary(header=HEADER, state=state(2))
    assert parse_ends(lines[0], lines[1][-200:]) == summary
    assert parse_ends(lines[0], lines[1][-200:] + b'{"kind":"mess') == summary


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        state_line(state(2))[5:],
        state_line(state(2)),
        b"x\n" + state_line(state(2))[:-1],
        b"x\n" + b'{"kind":"state","turns":-1}\n',
    ],
)
def test_tail_without_a_whole_state_tells_nothing(tail: bytes) -> None:
    """R-85: then the whole file is read."""
    assert parse_ends(header_line(HEADER)[:-1], tail) is None


def test_call_that_was_running_is_marked_interrupted_and_finished_ones_are_kept() -> None:
    """B44: three calls, killed in the second."""
    assert [entry.message for entry in pair_results(more(user("x"), calls("a", "b", "c"), result("a", "kept")))] == [
        user("x"),
        calls("a", "b", "c"),
        result("a", "kept"),
        interrupted("b"),
        interrupted("c"),
    ]
