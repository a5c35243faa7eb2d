"""How a bundle is laid out: a script, which names each part with its place and SHA-256, then the parts. Pure.

The script (head.sh) checks itself, so its own hash stands in it, computed with that line left empty. Behind
its last line stands text at which every shell stops reading, whatever a damaged byte before it has opened: the parts
must never be read as commands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from odek.errors import OdekError
from odek.packaged import read_packaged
from odek.patterns import pattern
from odek.text import visible

Kind = Literal["installer", "odek", "settings", "image"]
KINDS: tuple[str, ...] = get_args(Kind)
"""in the order in which they stand and are installed"""
LARGEST_HEAD = 1 << 20
_PAGE = 4096
_MARK = b"    #FACTS\n"
_END = b'\nodek_bundle "$@"; exit\n'
_GUARD = b")\n'\n)\n\"\n)\n`\n)\n}\n;;\n)\nfi\nesac\ndone\n)\n"
_HASH_LINE = b"HEAD_SHA256="
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_FACT = pattern(r"([A-Z0-9_]+)='([^'\n]*)'")
_PART = pattern(
    rf"""    "\$1" ({"|".join(KINDS)}) (\d{{1,15}}) (\d{{1,15}}) ([0-9a-f]{{64}}) ({_NAME})"""
    r""" '([a-z0-9:,]*)' '([^'\n]*)'"""
)
_TEXT = pattern(r"[A-Za-z0-9_./:@ ,+-]*")  # nothing that a shell could see anything in


class BundleError(OdekError):
    """A file is not a bundle, or not a whole one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file in a bundle."""

    kind: Kind
    name: str
    size_bytes: int
    sha256: str
    ids: tuple[str, ...] = ()
    """of an image: the IDs under which an engine may know it"""
    tag: str = ""
    """of an image: its name, "" for none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a bundle holds and for which machines it is."""

    made_by: str
    """the odek that made it"""
    machine: str
    """as `uname -m` has it: x86_64 or aarch64; "any" where odek needs a Python"""
    architecture: str
    """of the images, in Docker's words"""
    parts: tuple[Part, ...]
    """as they stand in the file"""


def head_size(contents: Contents) -> int:
    """Return how many bytes come before the first part, whatever sizes and hashes the parts turn out to have."""
    longest = len(_template()) + len(_facts(_at_most(contents), head_bytes=LARGEST_HEAD)) + len(_HASH_LINE) + 66
    return -(-(longest + len(_GUARD)) // _PAGE) * _PAGE


def render_head(contents: Contents) -> bytes:
    """Return the script. Raises ValueError for a text that does not belong into one."""
    for text in (contents.made_by, contents.machine, contents.architecture, *(part.tag for part in contents.parts)):
        if not _TEXT.fullmatch(text):
            raise ValueError(text)
    size = head_size(contents)
    before, _, after = _template().partition(_MARK)
    before, after = before + _HASH_LINE, b"\n" + _facts(contents, head_bytes=size) + after
    room = size - len(before) - 66 - len(after)
    after += (_GUARD * (room // len(_GUARD) + 1))[: room - 1] + b"\n"
    digest = hashlib.sha256(before + after).hexdigest()
    return before + f"'{digest}'".encode() + after


def offsets(contents: Contents) -> tuple[int, ...]:
    """Return where each part begins, and where the file ends."""
    places = [head_size(contents)]
    for part in contents.parts:
        places.append(places[-1] + part.size_bytes)
    return tuple(places)


def parse_head(data: bytes, *, shown: str) -> Contents:
    """Return what the script at the beginning of a bundle says. `data`: at least that, at most LARGEST_HEAD.

    Raises BundleError also where the script is another one than this odek writes for these contents:
    what it would do is then unknown.
    """
    text = data.partition(_END)[0].decode("utf-8", "replace")
    facts = {match[1]: match[2] for match in _FACT.finditer(text)}
    try:
        parts = tuple(_part(match.groups()) for match in _PART.finditer(text))
        contents = Contents(
            made_by=facts["MADE_BY"], machine=facts["MACHINE"], architecture=facts["ARCHITECTURE"], parts=parts
        )
        head = render_head(contents) if parts else b""
    except (KeyError, ValueError) as error:
        raise _not_one(shown) from error
    if not head:
        raise _not_one(shown)
    if data[: len(head)] != head:
        raise BundleError(
            f'the script of "{visible(shown)}" is not the one that this odek writes',
            hint="it is damaged, or another version made it: compare its SHA-256 with the one where it was made",
        )
    return contents


def _not_one(shown: str) -> BundleError:
    return BundleError(f'"{visible(shown)}" is not a bundle', hint="`odek bundle make FILE` makes one")


def _part(groups: Sequence[str]) -> Part:
    kind, _, size, sha256, name, ids, tag = groups
    return Part(
        kind=cast("Kind", kind),
        name=name,
        size_bytes=int(size),
        sha256=sha256,
        ids=tuple(ids.split(",")) if ids else (),
        tag=tag,
    )


def _at_most(contents: Contents) -> Contents:
    return replace(
        contents, parts=tuple(replace(part, size_bytes=10**15 - 1, sha256="0" * 64) for part in contents.parts)
    )


def _template() -> bytes:
    return read_packaged("odek.bundle", "head.sh")


def _facts(contents: Contents, *, head_bytes: int) -> bytes:
    places = [head_bytes]
    for part in contents.parts:
        places.append(places[-1] + part.size_bytes)
    (odek,) = (part for part in contents.parts if part.kind == "odek")
    images = ", ".join(part.tag or part.ids[0] for part in contents.parts if part.kind == "image")
    # what is in the temporary folder at the same time: odek twice (install.sh copies it), or one image
    largest = max(part.size_bytes * (1 if part.kind == "image" else 2) for part in contents.parts)
    lines = [
        *(f"HEAD_SIZE={head_bytes}", f"FILE_SIZE={places[-1]}", f"LARGEST={largest}"),
        *(f"MADE_BY='{contents.made_by}'", f"MACHINE='{contents.machine}'"),
        *(f"ARCHITECTURE='{contents.architecture}'", f"IMAGES='{images}'"),
        *(f"ODEK_NAME='{odek.name}'", f"ODEK_SHA256='{odek.sha256}'"),
        "each_part() { # $1: what is called for each: kind, place, bytes, SHA-256, name, IDs, name of the image",
    ]
    for part, place in zip(contents.parts, places, strict=False):
        where = f"{place} {part.size_bytes} {part.sha256} {part.name}"
        lines.append(f"    \"$1\" {part.kind} {where} '{','.join(part.ids)}' '{part.tag}'")
    return "\n".join([*lines, "}", ""]).encode()
