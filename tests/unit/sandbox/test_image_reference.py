"""References of images, and the pinned default."""

from __future__ import annotations

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice, parse_default_dockerfile
from odek.sandbox_grammar import GrammarError, parse_reference

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
PIN = f"alpine:3.22@{DIGEST}"


@pytest.mark.parametrize(
    "text",
    [
        "alpine", "alpine:3.22", PIN, f"alpine@{DIGEST}", DIGEST, "registry.example/library/alpine:3.22",
        "localhost:5000/a/b:c",
        "registry.example.com:443/team/tool_x/y.z:V1.0-rc_1", "python:3.12-slim", "cafe", "a__b", "a---b",
        "127.0.0.1:5000/x",
        "EXAMPLE.com/x", "x:" + "t" * 128, "tagged:x", "localhost/x",
        "[::1]:5000/x", "HOST:5000/x", "docker.io/library/alpine", "library/alpine", "scratch/x", "my/scratch",
        "quay.io/scratch", "example.com", "deadbeef", "facade", "12345:1", f"{DIGEST[7:]}:latest", "decade-2",
        "a" * 237, "registry.example/" + "a" * 238, "1234", "cafe12",
    ],
)  # fmt: skip
def test_reference_is_taken_when_it_is_one(text: str) -> None:
    """R-35, D-12."""
    assert parse_reference(text, "--sandbox-image") == text


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "-x", "--privileged", "Alpine", "alpine:", "alpine:-x", "alpine@", "alpine@sha256:abc",
        f"alpine@{DIGEST}0",
        f"{DIGEST}0", DIGEST.upper(), "sha256:abc", "alpine:3.22\n", "\nalpine", "alpine 3", "a/", "/a", "a//b", "a_",
        "_a", "a..b",
        "a___b", "x:" + "t" * 129, "http://x/y", "alpine:3.22;rm", "${IMAGE}", "ä", "a/B", "host:port/x", "x" * 512,
        "name=N,alias=A",
        f"alpine@{DIGEST}\n", f"{DIGEST}\n", "BUSYBOX:1", "FOO/bar", "Foo.Bar", "library/Alpine", "docker.io/Alpine",
        "scratch", "scratch:latest", "library/scratch", "docker.io/scratch", "docker.io/library/scratch:1",
        "index.docker.io/scratch", f"scratch@{DIGEST}", "a" * 256, "a" * 239, "registry.example/" + "a" * 239,
        "a/" * 128 + "a", "/".join(["a" * 60] * 5), "[::1]/x", "[::g]:1/x", "user@host/x", "a@b", "a:b:c",
        "x@sha512:ab",
        "sha256:" + "g" * 64, f"SHA256:{DIGEST[7:]}", "docker://alpine", "host:99999999999x/y", "ALPINE",
        "x\x00", "\u212a",
    ],
)  # fmt: skip
def test_reference_is_refused_with_its_origin_when_it_is_none(text: str) -> None:
    """A1, R-7, R-8, R-35: before Docker is asked anything."""
    with pytest.raises(GrammarError, match=r"is not an image reference \(--sandbox-image\)") as refused:
        parse_reference(text, "--sandbox-image")
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    "text", [DIGEST[7:], DIGEST[7:19], DIGEST[7:70], "5f8fa5cb8561", "a1b2c3d", "f" * 12, "1234567"]
)
def test_hex_digits_are_taken_for_an_id_that_somebody_copied(text: str) -> None:
    """A1: Docker refuses 64 of them, and takes fewer for the beginning of an ID."""
    with pytest.raises(GrammarError, match=r"looks like an image ID.*\(--sandbox-image\)") as refused:
        parse_reference(text, "--sandbox-image")
    assert "sha256: and all 64 digits" in refused.value.hint


@pytest.mark.parametrize(("ref", "is_id"), [(DIGEST, True), ("alpine", False), (PIN, False)])
def test_choice_knows_whether_it_is_an_id(ref: str, is_id: bool) -> None:
    """D-12: an ID is never pulled."""
    assert ImageChoice(ref=ref, origin="x", chosen_by_project=False).is_id is is_id


@pytest.mark.parametrize(
    "text",
    [
        f"FROM {PIN}", f"FROM {PIN}\n", f"FROM {PIN}\r\n", f"# why\n\n  \nFROM {PIN}  \n# after\n",
        f"#\n# see https://x/?a=b\nFROM {PIN}\n",
        f"# checksum = x\nFROM {PIN}\n",
    ],
)  # fmt: skip
def test_default_dockerfile_gives_its_pin(text: str) -> None:
    """R-35."""
    assert parse_default_dockerfile(text) == PIN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "default.Dockerfile holds no FROM line"),
        ("# FROM x\n", "default.Dockerfile holds no FROM line"),
        (f"FROM {PIN}\nFROM {PIN}\n", "default.Dockerfile line 2: a second FROM"),
        (f"# syntax=evil/x\nFROM {PIN}\n", "default.Dockerfile line 1: directives are not allowed"),
        (f"#SYNTAX = evil/x\nFROM {PIN}\n", "default.Dockerfile line 1: directives are not allowed"),
        (f"FROM {PIN}\n#escape=`\n", "default.Dockerfile line 2: directives are not allowed"),
        (f"# check=skip=all\nFROM {PIN}\n", "default.Dockerfile line 1: directives are not allowed"),
    ],
)
def test_default_dockerfile_is_refused_when_it_says_more_or_less(text: str, message: str) -> None:
    """R-35."""
    with pytest.raises(SandboxConfigError) as refused:
        parse_default_dockerfile(text)
    assert refused.value.message == message


@pytest.mark.parametrize(
    "line",
    [
        "FROM alpine:3.22", f"FROM alpine@{DIGEST}", f"from {PIN}", f"FROM  {PIN}", f" FROM {PIN}", f"FROM {PIN} AS x",
        f"FROM --platform=linux/amd64 {PIN}", "RUN true", "ARG X=1", f"FROM {PIN}\\", f"\ufeffFROM {PIN}",
        f"FROM {PIN[:-1]}",
        f"FROM $X@{DIGEST}", f"\tFROM {PIN}", " # comment with a blank before it", f"FROM {PIN} # x",
        f"FROM {PIN}\x0bRUN x",
    ],
)  # fmt: skip
def test_default_dockerfile_is_refused_with_the_line_that_is_no_pin(line: str) -> None:
    """R-35: an edit that changes the meaning of the pin does not pass unseen."""
    with pytest.raises(SandboxConfigError, match=r"^default.Dockerfile line [12]: expected"):
        parse_default_dockerfile(f"{line}\n")
