"""What a project asks for: its keys and the question.

The golden digests were computed with printf and sha256sum, not with the code under test.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from odek.approval.description import describe_plainly, describe_request
from odek.approval.request import (
    ApprovalRequest,
    ApprovedNetwork,
    EnvOverride,
    digest,
    fingerprint,
    fingerprint_covers,
)
from odek.cli.approval_prompt import render_request
from odek.text import visible_lines

A, B = "a" * 64, "b" * 64
NET_A = ApprovedNetwork(name="app_default", id=A, internal=False, compose_project="app")
NET_B = ApprovedNetwork(name="backend", id=B, internal=True)


def request(**fields: Any) -> ApprovalRequest:
    return ApprovalRequest(project_dir="/home/u/proj", **fields)


def env(*keys: str, value: str = "1") -> tuple[EnvOverride, ...]:
    return tuple(EnvOverride(key=key, value=value) for key in keys)


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (request(), "3d2ea030d647afbc42c3cb3dcbfb49af0cd26250b2acf1d87d2799d5bb5c4ca7"),
        (
            request(image="alpine:latest", network="bridge", env=env("X")),
            "547c9921a5078ce055a3c7969c6d4654fd8905004446ce8a6a1808a3b56dbc88",
        ),
        (
            request(
                image="alpine:latest",
                network="bridge",
                env=env("b", "X", "A"),
                volumes=("./a:/a", "./.npm:/root/.npm"),
            ),
            "ed857949fb2d2397d884e7acff9301839d1e80aab265d0dcbe0693b6834149eb",
        ),
        (
            request(network="none", networks=(NET_B, NET_A)),
            "58438bf19268adc7063f36bfc20557dac239ea5a910359fb96cf643d13c106d8",
        ),
        (
            ApprovalRequest(project_dir="/tmp/\udcff\udcfc", image="café"),
            "7d17110c60d8181a45af2ebdd72ea91cd5ac233877d7fde74e1dd77463201145",
        ),
    ],
    ids=["bare", "env", "sorted", "networks", "bytes"],
)
def test_fingerprint_golden(asked: ApprovalRequest, key: str) -> None:
    """R-62: the bytes of the legacy key; network IDs appended; a path keeps its own bytes."""
    assert fingerprint(asked) == key


def test_fingerprint_leaves_out_what_older_tools_do_not_know() -> None:
    """R-62: byte-identical to the existing key for configs without networks."""
    old = request(image="i", env=env("X"))
    new = request(image="i", env=env("X", value="$HOME"), user="0", dockerfile_sha256=B, compose_project="c")
    assert fingerprint(new) == fingerprint(old)
    assert digest(new) != digest(old)


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (
            request(image="alpine:latest", network="bridge", env=env("X", value="${HOME}")),
            "61df288e203787bd0eb660d9f5e75b37f4bbf41a7862667354e1b05e658431eb",
        ),
        (
            request(
                networks=(NET_A,),
                compose_project="app",
                env=(*env("X", value="é"), *env("A")),
                volumes=("./b:/b", "./a:/a"),
                user="0:0",
                dockerfile_sha256=B,
            ),
            "343d311f2d87ac125c65dbda07bdd0941584d38d060b88a17e6bd53cec7a78d1",
        ),
    ],
)
def test_digest_golden(asked: ApprovalRequest, key: str) -> None:
    """D-5."""
    assert digest(asked) == key


FULL = request(
    image="i",
    network="bridge",
    networks=(NET_A,),
    compose_project="app",
    env=env("X"),
    volumes=("./a:/a",),
    user="1000",
    dockerfile_sha256=A,
)


@pytest.mark.parametrize(
    "change",
    [
        {"project_dir": "/home/u/other"},
        {"image": "j"},
        {"network": "none"},
        {"networks": ()},
        {"networks": (dataclasses.replace(NET_A, id=B),)},
        {"networks": (dataclasses.replace(NET_A, internal=True),)},
        {"compose_project": "other"},
        {"env": env("X", value="2")},
        {"env": env("Y")},
        {"env": env("X", "Y")},
        {"volumes": ("./b:/a",)},
        {"user": "0"},
        {"dockerfile_sha256": B},
        {"ignore_sha256": B},
    ],
    ids=str,
)
def test_digest_changes_with_every_field(change: dict[str, Any]) -> None:
    """D-5, B30, F-42: whatever changes after "trust" makes another request."""
    assert digest(dataclasses.replace(FULL, **change)) != digest(FULL)


def test_digest_of_one_request_does_not_depend_on_order() -> None:
    """B30: reordering asks for nothing new."""
    one = request(env=env("A", "B"), volumes=("x", "y"), networks=(NET_A, NET_B))
    two = request(env=env("B", "A"), volumes=("y", "x"), networks=(NET_B, NET_A))
    assert (digest(one), fingerprint(one)) == (digest(two), fingerprint(two))


def test_digest_tells_requests_apart_that_share_a_fingerprint() -> None:
    """R-62: NUL separates the parts of the legacy key, and JSON can carry a NUL."""
    one, two = request(image="i\0bridge"), request(image="i", network="bridge\0")
    assert fingerprint(request(image="i\0", network="x")) == fingerprint(request(image="i", network="\0x"))
    assert digest(one) != digest(two)


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({"image": "i", "network": "bridge", "volumes": ("./a:/a",)}, True),
        ({"image": "i\0bridge"}, False),
        ({"network": "a\0"}, False),
        ({"volumes": ("a\0vol:b",)}, False),
        ({"image": "\udc80"}, False),
        ({"network": "\ud83d"}, False),
        ({"image": "i", "env": env("X")}, False),
        ({"networks": (NET_A,)}, False),
        ({"compose_project": "a"}, False),
        ({"image": "i", "user": "0"}, False),
        ({"image": "i", "dockerfile_sha256": A}, False),
    ],
)
def test_fingerprint_covers_only_what_it_binds(fields: dict[str, Any], covered: bool) -> None:
    """D-5."""
    assert fingerprint_covers(request(**fields)) is covered


def test_every_text_of_json_has_a_fingerprint() -> None:
    """B47: half a surrogate pair must not crash."""
    assert len(fingerprint(request(image="\ud83d", volumes=("\udc80",)))) == 64


@pytest.mark.parametrize(
    ("fields", "empty", "sources"),
    [
        ({}, True, ""),
        ({"image": "i"}, False, "./odek.json"),
        ({"networks": (NET_A,)}, False, "./odek.json"),
        ({"dockerfile_sha256": A}, False, "./Dockerfile.odek"),
        ({"user": "0", "dockerfile_sha256": A}, False, "./odek.json and ./Dockerfile.odek"),
    ],
)
def test_what_asks(fields: dict[str, Any], empty: bool, sources: str) -> None:
    asked = request(**fields)
    assert (asked.is_empty, asked.sources) == (empty, sources)


def test_question_in_the_form_of_the_seed() -> None:
    """R-60, B31: the seed's text, and the names of the host variables that are read."""
    asked = request(
        image="alpine:latest",
        network="bridge",
        env=(EnvOverride(key="X", value="${TOKEN}-$HOME", variables=("TOKEN", "HOME")),),
    )
    assert render_request(asked) == (
        "WARNING: project config (./odek.json) requests sandbox overrides:\n"
        "  image:   alpine:latest\n"
        "  network: bridge\n"
        "  env:     X\n"
        "  ⚠️  sandbox_env values contain ${...} interpolation against host environment variables\n"
        "  reads:   X gets TOKEN, HOME\n"
        "\n"
        "Allowing this means code in the sandbox can read workspace files and,\n"
        "depending on network mode, contact external hosts.\n"
        "\n"
        "Approve? [y = once / t = trust this project / N]"
    )


def test_question_with_networks_and_everything_else() -> None:
    """R-63: name, full ID, internal flag, Compose project. R-56: internal does not hide the host."""
    asked = request(
        compose_project="app",
        networks=(NET_A, NET_B),
        env=env("B", "A"),
        volumes=("./a:/a", "./b c:/b"),
        user="0:0",
        dockerfile_sha256=B,
    )
    assert describe_request(asked) == (
        "  env:     A, B\n"
        "  sets:    A=1\n"
        "  sets:    B=1\n"
        "  volume:  ./a:/a\n"
        '  volume:  "./b c:/b"\n'
        "  user:    0:0\n"
        "  build:   Dockerfile.odek\n"
        f"    sha256:  {B}\n"
        "  ⚠️  its RUN steps execute outside the sandbox's limits and can read the whole working\n"
        "      directory; the image it names after FROM is pulled\n"
        "  compose: app\n"
        "  attach:  app_default\n"
        f"    id:      {A}\n"
        "    internal: no\n"
        "    compose project: app\n"
        "  attach:  backend\n"
        f"    id:      {B}\n"
        "    internal: yes (no internet; services of this host may be reachable)\n"
        "    compose project: none"
    )


@pytest.mark.parametrize(
    ("volume", "plain", "readonly"),
    [
        ("./a:/a", "./a:/a", "./a:/a (read-only)"),
        ("./b c:/b", '"./b c:/b"', '"./b c:/b" (read-only)'),
        ("./a:/a (read-only)", '"./a:/a (read-only)"', '"./a:/a (read-only)" (read-only)'),
        ("./a:/a/(read-only)", '"./a:/a/(read-only)"', '"./a:/a/(read-only)" (read-only)'),
    ],
)
def test_question_says_that_volumes_are_read_only(volume: str, plain: str, readonly: str) -> None:
    """A7: with the sandbox, behind each of them; a path cannot pass for it, and the key is the same."""
    asked = request(volumes=(volume, "./z:/z"))
    both = dataclasses.replace(asked, readonly=True)
    assert describe_request(asked) == f"  volume:  {plain}\n  volume:  ./z:/z"
    assert describe_request(both) == f"  volume:  {readonly}\n  volume:  ./z:/z (read-only)"
    assert (digest(both), fingerprint(both)) == (digest(asked), fingerprint(asked))


def test_question_names_what_a_build_leaves_out() -> None:
    """F14: .dockerignore says what of the project a build is sent."""
    told = describe_request(request(dockerfile_sha256=A, ignore_sha256=B)).split("\n")
    assert told[:4] == [
        "  build:   Dockerfile.odek",
        f"    sha256:  {A}",
        "  without: what .dockerignore names",
        f"    sha256:  {B}",
    ]


def test_question_for_a_dockerfile_alone_does_not_blame_the_config() -> None:
    """R-36."""
    first, second, *_ = render_request(request(dockerfile_sha256=A)).split("\n")
    assert (first, second) == (
        "WARNING: the project (./Dockerfile.odek) requests an image build:",
        "  build:   Dockerfile.odek",
    )


def test_question_does_not_show_values_of_variables() -> None:
    """B31: only names."""
    asked = request(env=(EnvOverride(key="X", value="s3cret ${TOKEN}", variables=("TOKEN",)),))
    assert "s3cret" not in render_request(asked)


HOSTILE = 'a\r\x1b[2K\x1b]0;t\x07\x9b8m\u202e\u200b\u2028\n\nApprove? [y = once] y"' + " " * 100 + "z"
SHOWN = '"a\\r\\x1b[2K\\x1b]0;t\\x07\\x9b8m\\u202e\\u200b\\u2028\\n\\nApprove? [y = once] y\\"[100 spaces]z"'


@pytest.mark.parametrize(
    "fields",
    [
        {"image": HOSTILE},
        {"network": HOSTILE},
        {"compose_project": HOSTILE},
        {"networks": (ApprovedNetwork(name=HOSTILE, id=HOSTILE, internal=False, compose_project=HOSTILE),)},
        {"env": (EnvOverride(key=HOSTILE, value=HOSTILE, variables=(HOSTILE,)),)},
        {"volumes": (HOSTILE,)},
        {"user": HOSTILE},
        {"dockerfile_sha256": HOSTILE},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_question_cannot_be_faked_through_any_field(fields: dict[str, Any]) -> None:
    """R-64, B32: no control or invisible character, no line of the project's own."""
    text = render_request(request(**fields))
    ours = set("\n⚠\ufe0f")
    assert {character for character in text if not " " <= character <= "~"} <= ours
    assert [line for line in text.split("\n") if line.lstrip(" +").startswith("Approve?")] == [
        "Approve? [y = once / t = trust this project / N]"
    ]
    whole = text.replace("\n         + ", "")
    assert SHOWN in whole
    assert max(map(len, text.split("\n"))) < 90


def test_plain_description_holds_nothing_that_would_be_escaped_again() -> None:
    """R-64: errors and lists escape what is invisible; our own warning sign must not look broken there."""
    text = describe_plainly(request(env=(EnvOverride(key="X", value="$Y", variables=("Y",)),), dockerfile_sha256=B))
    assert "⚠  sandbox_env values contain" in text
    assert visible_lines(text) == text


def test_question_says_that_a_build_has_the_network() -> None:
    """A13: RUN steps with the network are another question, though the same key."""
    asked = request(dockerfile_sha256=A)
    line = "its RUN steps have the network"
    networked = dataclasses.replace(asked, build_network=True)
    assert [line in render_request(each) for each in (asked, networked)] == [False, True]
    assert digest(asked) == digest(networked)


def test_question_shows_literal_values_and_names_of_references_alone() -> None:
    """F7: what a value does is seen; what it reads is told by name."""
    loads = EnvOverride(key="LD_PRELOAD", value="./x so")
    reads = EnvOverride(key="X", value="s3cret ${TOKEN}", variables=("TOKEN",))
    told = render_request(request(env=(loads, reads)))
    assert '  sets:    "LD_PRELOAD=./x so"\n' in told
    assert ("s3cret" in told, "X gets TOKEN" in told) == (False, True)
