"""The chain of receipts: what was cut, changed, moved or added is found."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace

import pytest

from odek.session.receipts import Receipt, WrittenFile, check_receipts, first_head, receipt_line
from odek.session.transcript import ReceiptHead

SESSION = "20261130-0001"
COMMAND = Receipt(
    at="2026-11-30T09:00:00Z",
    kind="command",
    place="sandbox",
    container="c" * 64,
    image="sha256:" + "d" * 64,
    network="attached",
    networks=("e" * 64,),
    user="1000:1000",
    risk=("network_egress",),
    decision="person",
    command_sha256="1" * 64,
    output_sha256="2" * 64,
    exit_status=0,
)
WRITE = replace(
    COMMAND,
    kind="write",
    risk=("local_write",),
    decision="policy",
    command_sha256="",
    output_sha256="",
    exit_status=None,
    file=WrittenFile(path="src/ü.py", sha256="3" * 64),
)


def chain(*receipts: Receipt, session: str = SESSION) -> tuple[bytes, ReceiptHead]:
    head, data = first_head(session), b""
    for receipt in receipts:
        line, head = receipt_line(receipt, head)
        data += line
    return data, head


def test_a_chain_gives_back_what_was_put_in() -> None:
    data, head = chain(COMMAND, WRITE, COMMAND)
    verdict = check_receipts(data, SESSION, expected=head)
    assert (verdict.receipts, verdict.broken_line) == ((COMMAND, WRITE, COMMAND), None)
    assert check_receipts(b"", SESSION, expected=first_head(SESSION)).broken_line is None


def test_a_line_more_than_the_transcript_knows_is_fine() -> None:
    _, known = chain(COMMAND)
    data, _ = chain(COMMAND, WRITE)
    assert check_receipts(data, SESSION, expected=known).broken_line is None


@pytest.mark.parametrize("kept", range(5))
def test_lines_that_are_missing_at_the_end_are_found_by_the_transcript(kept: int) -> None:
    whole, head = chain(*[COMMAND] * 5)
    lines = whole.splitlines(keepends=True)
    verdict = check_receipts(b"".join(lines[:kept]), SESSION, expected=head)
    assert verdict.broken_line == kept + 1
    assert "5 lines" in verdict.reason


def test_the_chain_of_another_session_is_found() -> None:
    data, _ = chain(COMMAND, session="20261130-0002")
    assert check_receipts(data, SESSION, expected=None).broken_line == 1


def test_a_chain_that_was_made_anew_is_found_by_the_transcript() -> None:
    _, head = chain(COMMAND, COMMAND)
    forged, _ = chain(COMMAND, WRITE)
    assert check_receipts(forged, SESSION, expected=head).broken_line == 2


def test_each_field_of_a_line_counts() -> None:
    data, head = chain(COMMAND, WRITE, COMMAND)
    lines = data.splitlines(keepends=True)
    for key in json.loads(lines[1]):
        value = json.loads(lines[1])
        del value[key]
        changed = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        assert check_receipts(lines[0] + changed + lines[2], SESSION, expected=head).broken_line == 2, key


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("at", 1),
        ("networks", "x"),
        ("networks", [1]),
        ("risk", None),
        ("exit_status", "0"),
        ("exit_status", True),
        ("file", []),
        ("file", {"path": "x"}),
        ("more", "x"),
        ("kind", {}),
    ],
)
def test_a_field_of_a_wrong_type_is_a_break_and_not_a_crash(key: str, wrong: object) -> None:
    data, _ = chain(COMMAND)
    value = {**json.loads(data), key: wrong}
    del value["hash"]
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    value["hash"] = hashlib.sha256(text).hexdigest()
    forged = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    verdict = check_receipts(forged, SESSION, expected=None)
    assert (verdict.broken_line, "fields" in verdict.reason) == (1, True)


@pytest.mark.once
def _mutate(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    place = chance.randrange(len(data))
    line, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(9):
        case 0:  # one bit
            return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
        case 1:  # one byte more
            return data[:place] + bytes([chance.randrange(256)]) + data[place:]
        case 2:  # some bytes less
            return data[:place] + data[place + chance.randrange(1, 40) :]
        case 3:  # cut off
            return data[:place]
        case 4:  # a line less
            return b"".join(lines[:line] + lines[line + 1 :])
        case 5:  # a line twice
            return b"".join([*lines[: line + 1], *lines[line:]])
        case 6:  # two lines exchanged
            lines[line], lines[other] = lines[other], lines[line]
            return b"".join(lines)
        case 7:  # a value exchanged, spelled as odek does
            value = json.loads(lines[line])
            key = chance.choice(sorted(value))
            value[key] = json.loads(lines[other])[key] if chance.random() < 0.5 else "x"
            lines[line] = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
            return b"".join(lines)
        case _:  # a value exchanged, with a hash that fits
            value = json.loads(lines[line])
            del value["hash"]
            value["exit_status"] = chance.randrange(256)
            text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
            value["hash"] = hashlib.sha256(text).hexdigest()
            lines[line] = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
            return b"".join(lines)


def test_ten_thousand_mutations_are_found() -> None:
    chance = random.Random(1)
    receipts = [
        replace(chance.choice((COMMAND, WRITE)), exit_status=number, at=f"2026-11-30T09:00:{number:02}Z")
        for number in range(6)
    ]
    data, head = chain(*receipts)
    tried = 0
    while tried < 10_000:
        mutated = _mutate(data, chance)
        if mutated == data:
            continue
        tried += 1
        verdict = check_receipts(mutated, SESSION, expected=head)
        if mutated.startswith(data):  # something was added behind: that is no line of the chain
            assert verdict.broken_line == 7, mutated
        else:
            assert verdict.broken_line is not None, mutated
