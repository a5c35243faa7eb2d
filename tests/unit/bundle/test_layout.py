"""How a bundle is laid out, and that only what odek itself writes is taken for one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.bundles import ID, SETTINGS, TAG, make_bundle

from odek.bundle.file import Source, open_part, read_bundle, write_bundle
from odek.bundle.layout import BundleError, Contents, Part, head_size, offsets, parse_head, render_head

PARTS = (
    Part(kind="installer", name="install.sh", size_bytes=3, sha256="1" * 64),
    Part(kind="odek", name="odek", size_bytes=5, sha256="2" * 64),
    Part(kind="image", name="image-1.tar.gz", size_bytes=7, sha256="3" * 64, ids=(ID,), tag=TAG),
)
CONTENTS = Contents(made_by="odek 1.2.3", machine="any", architecture="arm/v7", parts=PARTS)


def test_head_says_where_each_part_is() -> None:
    """R-320: its own size does not depend on the sizes of the parts, which are known last."""
    head = render_head(CONTENTS)
    assert len(head) == head_size(CONTENTS) == offsets(CONTENTS)[0]
    assert offsets(CONTENTS)[1:] == (len(head) + 3, len(head) + 8, len(head) + 15)
    grown = replace(CONTENTS, parts=tuple(replace(part, size_bytes=10**12) for part in PARTS))
    assert head_size(grown) == len(render_head(grown)) == len(head)
    assert parse_head(head + b"more", shown="f") == CONTENTS


@pytest.mark.parametrize("text", ["$(touch made)", "a'b", 'a"b', "a`b", "a\nb", "a\\b", "é", "a;b"])
@pytest.mark.parametrize("field", ["made_by", "machine", "architecture", "tag"])
def test_nothing_that_a_shell_could_read_gets_into_the_head(field: str, text: str) -> None:
    """R-322: names of images are others' words."""
    if field == "tag":
        contents = replace(CONTENTS, parts=(*PARTS[:2], replace(PARTS[2], tag=text)))
    else:
        contents = replace(CONTENTS, **{field: text})
    with pytest.raises(ValueError, match=r"a|touch|é"):
        render_head(contents)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"exec ", b"eval ", "not the one that this odek writes"),
        (b"'odek 1.2.3'", b"'odek 1.2.4'", "not the one that this odek writes"),
        (b"    each_part check_part\n", b"", "not the one that this odek writes"),
        (b"MADE_BY", b"MADE_BX", "is not a bundle"),
        (b'"$1" odek', b'"$1" OdeK', "is not a bundle"),
    ],
)
def test_another_script_is_not_trusted(old: bytes, new: bytes, words: str) -> None:
    """R-323: `verify` says what a bundle would do only if it would do that."""
    head = render_head(CONTENTS)
    assert old in head
    with pytest.raises(BundleError, match=words):
        parse_head(head.replace(old, new), shown="f")


@pytest.mark.parametrize("data", [b"", b"\0" * 100_000, b"#!/bin/sh\necho\n", b"\x7fELF" + b"\xff" * 9000])
def test_other_file_is_not_a_bundle(data: bytes) -> None:
    """R-323"""
    with pytest.raises(BundleError, match="is not a bundle"):
        parse_head(data, shown="f")


def test_every_byte_is_read(tmp_path: Path) -> None:
    """R-323: a flipped one of a part, one too many or too few."""
    path = tmp_path / "b.sh"
    made = make_bundle(path, settings=SETTINGS)
    assert read_bundle(str(path), shown="f") == made
    whole = path.read_bytes()
    for place in (*offsets(made.contents)[:-1], len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(BundleError, match="does not have its SHA-256"):
            read_bundle(str(path), shown="f")
    for changed in (whole + b"\n", whole[:-1]):
        path.write_bytes(changed)
        with pytest.raises(BundleError, match=f"{len(changed)} bytes instead of {len(whole)}"):
            read_bundle(str(path), shown="f")
    path.write_bytes(whole)
    with open_part(str(path), made.contents, made.contents.parts[2]) as file:
        assert file.read(5) == SETTINGS[:5]
        file.seek(0)
        assert file.read() == SETTINGS


def test_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """R-320: nothing is left of one that could not be written."""
    path = tmp_path / "b.sh"
    with pytest.raises(ValueError, match="mips;"):
        make_bundle(path, machine="mips;")
    assert list(tmp_path.iterdir()) == []
    other = tmp_path / "b.sh.part"
    other.write_text("of another one that is being made")
    with pytest.raises(FileExistsError):
        make_bundle(path)
    assert list(tmp_path.iterdir()) == [other]


def test_odek_that_changes_while_it_is_packed_ends_it(tmp_path: Path) -> None:
    """R-320: what was compared with SHA256SUMS is what goes in."""
    odek = tmp_path / "odek"
    odek.write_bytes(b"new")
    part = Part(kind="odek", name="odek", size_bytes=0, sha256=hashlib.sha256(b"old").hexdigest())
    with pytest.raises(BundleError, match="has changed while it was packed"):
        write_bundle(str(tmp_path / "b.sh"), CONTENTS, (Source(part=part, path=str(odek)),))
    assert list(tmp_path.iterdir()) == [odek]
