"""Whose container is it, and which leftovers may go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from odek.sandbox.container.owner import LIST_TEMPLATE, Owner, choose_leftovers, parse_listing

ME = Owner(pid=100, start="5000", boot="boot-1", pidns="pid:[1]", uid=1000)
ID = "c" * 64
OTHER_ID = "d" * 64


def line(container: str = ID, **changes: str) -> str:
    fields = {"pid": "7", "start": "42", "boot": "boot-1", "pidns": "pid:[1]", "uid": "1000"} | changes
    return "\t".join((container, *(f'"{value}"' for value in fields.values()))) + "\n"


def nobody(pid: int) -> str | None:
    return None


def alive(start: str) -> Callable[[int], str | None]:
    return lambda pid: start if pid == 7 else None


def test_labels_name_the_process() -> None:
    """R-38."""
    assert ME.labels("n0nce") == (
        ("io.odek.sandbox", "1"),
        ("io.odek.nonce", "n0nce"),
        ("io.odek.pid", "100"),
        ("io.odek.start", "5000"),
        ("io.odek.boot", "boot-1"),
        ("io.odek.pidns", "pid:[1]"),
        ("io.odek.uid", "1000"),
    )


def test_template_has_one_quoted_field_for_each_part_of_the_owner() -> None:
    """R-38, D-13: quoted, so that no label can begin a line or a field of its own; podman has a map of labels."""
    head, *fields = LIST_TEMPLATE.split("\t")
    assert head == '{{$text := eq (printf "%T" .Labels) "string"}}{{.ID}}'
    assert fields == [
        f'{{{{if $text}}}}{{{{json (.Label "{label}")}}}}{{{{else}}}}{{{{json (index .Labels "{label}")}}}}{{{{end}}}}'
        for label in ("io.odek.pid", "io.odek.start", "io.odek.boot", "io.odek.pidns", "io.odek.uid")
    ]


def test_listing_is_read_line_by_line() -> None:
    """R-38."""
    text = line() + "\n" + line(OTHER_ID, pid="8", uid="0")
    first = Owner(pid=7, start="42", boot="boot-1", pidns="pid:[1]", uid=1000)
    assert parse_listing(text) == ((ID, first), (OTHER_ID, replace(first, pid=8, uid=0)))
    assert parse_listing("") == ()


@pytest.mark.parametrize(
    "text",
    [
        ID, f"{ID}\t", line().rstrip() + '\t"more"', line(pid=""), line(pid="x"), line(pid="-7"), line(pid="²"),
        line(pid="٧"),
        line(pid="7 "), line(uid=""), line(uid="1000.0"), line(pid="9" * 20), line(uid="9" * 5000), line(pid='7"'),
        line().replace('"', ""),
        line().replace('"7"', "7"), line().replace('"7"', "[7]"),
    ],
)  # fmt: skip
def test_container_without_readable_owner_has_none(text: str) -> None:
    """B07: unreadable owner data means keep; it is never an error either."""
    assert parse_listing(text) == ((ID, None),)


@pytest.mark.parametrize("container", ["name", "c" * 63, "c" * 65, "C" * 64, "--all", "", f"{ID} {ID}"])
def test_line_that_begins_with_no_full_id_is_passed_over(container: str) -> None:
    """R-38: nothing but full IDs is ever removed."""
    assert parse_listing(line(container)) == ()


def test_label_cannot_forge_a_line() -> None:
    """R-38: an image can bring labels with line ends and tabs."""
    forged = line().strip().replace('"42"', '"42\\n' + OTHER_ID + '\\t\\"8\\""')
    assert [container for container, _ in parse_listing(forged)] == [ID]


@pytest.mark.parametrize(
    ("changes", "start_of", "swept"),
    [
        ({}, nobody, True),
        ({}, alive("43"), True),  # the pid belongs to another process now
        ({}, alive("42"), False),
        ({"boot": "boot-0"}, nobody, False),
        ({"boot": ""}, nobody, False),
        ({"pidns": "pid:[2]"}, nobody, False),
        ({"pidns": ""}, nobody, False),
        ({"uid": "0"}, nobody, False),
        ({"start": ""}, nobody, False),
        ({"pid": "x"}, nobody, False),
    ],
)
def test_leftover_is_swept_only_when_its_owner_is_certainly_dead(
    changes: dict[str, str], start_of: Callable[[int], str | None], swept: bool
) -> None:
    """R-38, B07."""
    found = choose_leftovers(parse_listing(line(**changes)), me=ME, start_of=start_of)
    assert found == ((ID,) if swept else ())


@pytest.mark.parametrize("field", ["boot", "pidns"])
def test_nothing_is_swept_by_a_process_that_does_not_know_itself(field: str) -> None:
    """B07: two unknown machines are not the same machine."""
    me = replace(ME, **{field: ""})
    assert choose_leftovers(parse_listing(line(**{field: ""})), me=me, start_of=nobody) == ()


def test_own_container_is_not_swept() -> None:
    """R-38: `serve` has several at a time."""
    text = line(pid="100", start="5000")
    assert choose_leftovers(parse_listing(text), me=ME, start_of=lambda pid: "5000" if pid == 100 else None) == ()
