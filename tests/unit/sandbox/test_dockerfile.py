"""The lint of Dockerfile.odek: every spelling of a fetch is refused, and ordinary files pass."""

from __future__ import annotations

import hashlib

import pytest

from odek.errors import OdekError
from odek.sandbox.build.dockerfile import Dockerfile, Inputs, image_tag, lint, read_inputs
from odek.sandbox.errors import SandboxConfigError

BASE = "FROM alpine:3.22\n"

ORDINARY = {
    "one FROM": BASE,
    "byte order mark and CRLF": "\ufeffFROM alpine\r\nRUN true && \\\r\n  echo yes\r\n",
    "lower case": "from alpine as one\nrun true\nfrom b\ncopy --from=one /a /b\n",
    "comments": "#!/usr/bin/env odek\n# the name=value of things\n\n# syntax: ours\nFROM alpine\n# syntax=late\n",
    "stages by name and number": "FROM a AS one\nFROM b AS Two\nCOPY --from=ONE /x /\nCOPY --from=0 /x /\n"
    "FROM two\nCOPY --chown=1:2 --from=two /x /\n",
    "files of the project": BASE + 'COPY . /src\nADD data.tar.gz /data\nCOPY ["a b", "/c"]\nADD --chown=1:2 x /x\n',
    "here-documents": BASE + "RUN <<EOF\nset -e\nadd-user me\nfrom x import y\nEOF\n"
    "COPY <<'A' <<-B /x/\nany thing\nA\n\tB\nRUN python3 - <<END\nfrom os import path\nEND\n",
    "mounts of no image": "FROM a AS s\nRUN --mount=type=cache,target=/c true\n"
    "FROM b\nRUN --mount=type=bind,from=s,target=/s --mount=target=/w --network=none true\n",
    "everything else": BASE
    + "ARG A=1\nENV B=http://x C=$A\nLABEL l=https://l\nUSER 1\nWORKDIR /w\nEXPOSE 80\nVOLUME /v\n"
    'CMD ["x"]\nENTRYPOINT ["y"]\nSHELL ["/bin/sh"]\nSTOPSIGNAL 9\nHEALTHCHECK NONE\nMAINTAINER me\n',
    "an address in a RUN, which has no network": BASE + "RUN wget http://example.com\n",
    "shift in arithmetic": BASE + "RUN echo $((1<<2)) && cat x<<<y\n",
    "continued over blanks and comments": BASE + "RUN true \\\n\n  # ADD http://x /\n\n  && true\n",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_files_pass(text: str) -> None:
    """D-2: what does not fetch is nobody's business."""
    lint(text.encode())


# spelling → (line, what the message quotes)
DIRECTIVES = {
    "plain": "# syntax=evil/front",
    "no blank": "#syntax=evil/front",
    "many blanks and tabs": "#  \t syntax \t = \tevil/front",
    "upper case": "# SYNTAX=evil/front",
    "indented": "  # syntax=evil/front",
    "two slashes": "//syntax=evil/front",
    "two slashes and blanks": "// Syntax = evil/front",
    "double hash": "## syntax=evil/front",
    "escape": "# escape=`",
    "check": "# check=skip=all",
}


@pytest.mark.parametrize(
    "before", ["", "\ufeff", "#!/usr/bin/env docker\n", "\n\n", "# a comment\n", "# escape=\\\n", "\r\n"]
)
@pytest.mark.parametrize("directive", DIRECTIVES.values(), ids=DIRECTIVES.keys())
def test_parser_directives_are_refused_in_every_spelling(directive: str, before: str) -> None:
    """B17, D-2: a front end is an image that is pulled and run with the network."""
    with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek line \d+: .*is a parser directive"):
        lint((before + directive + "\n" + BASE).encode())


ATTACKS = {
    "ADD of an address": "ADD http://127.0.0.1:1/p /p",
    "lower case": "add https://example.com/p /p",
    "mixed case and tabs": "aDd\t\thttp://example.com/p\t/p",
    "indented": "   ADD http://example.com/p /p",
    "no-break space before it": "\u00a0ADD http://example.com/p /p",
    "continued": "ADD \\\n  http://example.com/p \\\n  /p",
    "continued inside the word": "AD\\\nD http://example.com/p /p",
    "continued inside the address": "ADD htt\\\np://example.com/p /p",
    "continued with blanks after the backslash": "ADD \\  \t\n http://example.com/p /p",
    "continued over comments and blank lines": "ADD \\\n# x\n\n   # y\n http://example.com/p /p",
    "a backslash alone": "\\\nADD http://example.com/p /p",
    "JSON form": 'ADD ["http://example.com/p", "/p"]',
    "JSON form with an escape": 'ADD ["http\\u003a//example.com/p", "/p"]',
    "in quotes": 'ADD "http://example.com/p" /p',
    "with a backslash": "ADD http\\://example.com/p /p",
    "by a variable": "ARG U\nADD $U /p",
    "by a variable in braces": "ENV U=http://example.com\nADD ${U} /p",
    "git": "ADD https://example.com/x.git#main /g",
    "git over ssh": "ADD git@example.com:x/y.git /g",
    "git protocol": "ADD git://example.com/x /g",
    "short name of a git host": "ADD github.com/x/y /g",
    "after flags": "ADD --chown=1:2 --keep-git-dir=true https://example.com/x.git /g",
    "after a file": "ADD local.txt http://example.com/p /p/",
    "COPY of an image": "COPY --from=evil/image / /",
    "COPY of an image, lower case": "copy --from=evil/image / /",
    "COPY of an image at a registry": "COPY --from=127.0.0.1:5000/img / /",
    "COPY after another flag": "COPY --chown=1:2 --from=evil / /",
    "COPY, continued": "COPY \\\n --from=evil \\\n / /",
    "COPY of a stage to come": "COPY --from=later / /\nFROM b AS later",
    "COPY of this very stage": "FROM b AS me\nCOPY --from=me / /",
    "COPY of this very number": "COPY --from=0 / /",
    "COPY of a number too high": "COPY --from=7 / /",
    "COPY of a number in another form": "COPY --from=00 / /",
    "COPY by a variable": "ARG S=evil\nCOPY --from=$S / /",
    "COPY with a quoted flag": 'COPY --from="evil" / /',
    "COPY with a quote inside the flag": "COPY --fr'o'm=evil / /",
    "COPY with a backslash inside the flag": "COPY --fr\\om=evil / /",
    "COPY with a strange blank between flags": "COPY --link\u00a0--from=evil / /",
    "mount of an image": "RUN --mount=type=bind,from=evil,target=/m cp /m/x /x",
    "mount of an image, other order and case": "RUN --mount=target=/m,FROM=Evil true",
    "mount after another": "RUN --mount=type=cache,target=/c --mount=from=evil,target=/m true",
    "mount in quotes": 'RUN --mount=type=bind,"from=evil",target=/m true',
    "mount by a variable": "RUN --mount=type=bind,from=$X,target=/m true",
    "mount, continued": "RUN \\\n--mount=type=bind,from=evil,target=/m \\\ntrue",
    "network": "RUN --network=default wget http://example.com",
    "network of the host": "run --network=host true",
    "ONBUILD": "ONBUILD ADD http://example.com/p /p",
    "ONBUILD, harmless today": "onbuild run true",
    "another platform": "FROM --platform=linux/s390x evil",
    "a line after two backslashes (new builders)": "RUN echo \\\\\nADD http://example.com/p /p",
    "after a comment that ends in a backslash": "# comment \\\nADD http://example.com/p /p",
    "in a here-document (old builders)": "RUN <<EOF\nADD http://example.com/p /p\nEOF",
    "in a here-document, continued": "RUN <<EOF\nAD\\\nD http://example.com/p /p\nEOF",
    "after a here-document": "RUN <<EOF\nx\nEOF\nADD http://example.com/p /p",
    "after a here-document that ends in a backslash": "RUN <<EOF\nx \\\nEOF\nADD http://example.com/p /p",
    "stage that only a here-document holds": "RUN <<EOF\nFROM x AS evil\nEOF\nFROM b\nCOPY --from=evil / /",
    "here-document in quotes": 'RUN echo "a <<EOF b"\nFROM x AS evil\nEOF\nCOPY --from=evil / /',
    "here-document after quotes": "RUN 'x' <<A\nRUN <<B\nA\nFROM x AS evil\nB\nCOPY --from=evil / /",
    "here-document whose name ends in a backslash": "RUN <<'E\\'\nx\nE\\\nADD http://example.com/p /p",
    "here-document by number": "RUN echo 1 2<<2\nx\n2\nRUN true",
    "here-document without an end": "RUN <<EOF\nRUN true",
    "an instruction nobody knows": "FETCH http://example.com/p",
    "JSON that names a front end": '{"syntax": "evil/front"}',
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS.keys())
def test_fetches_of_the_daemon_are_refused_by_line_and_text(text: str) -> None:
    """B17, D-2: `--network=none` binds RUN only; each other way to the network is refused."""
    with pytest.raises(SandboxConfigError) as refused:
        lint((BASE + text + "\n").encode())
    assert refused.value.message.startswith("Dockerfile.odek line ")
    assert '"' in refused.value.message
    assert refused.value.hint


def test_message_names_line_text_and_the_way_out() -> None:
    """B17: the line is quoted, what it hides is shown."""
    with pytest.raises(OdekError) as refused:
        lint(b"FROM a\n\nADD http://127.0.0.1:1/\xe2\x80\xae /p\n")
    assert refused.value.message == (
        'Dockerfile.odek line 3: "ADD http://127.0.0.1:1/\\u202e /p" may fetch from an address'
    )
    assert refused.value.hint == (
        "bring the files into the project and COPY them, "
        "or allow the build the network with ODEK_SANDBOX_BUILD_NETWORK=1"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Dockerfile.odek holds no FROM"),
        (b"# only a comment\n", "Dockerfile.odek holds no FROM"),
        (b"FROM a\nRUN \xff\n", "Dockerfile.odek line 2 is not UTF-8"),
        (b"FROM a\nRUN x\0y\n", 'Dockerfile.odek line 2: "RUN x\\x00y" holds a control character'),
        (b"FROM a\rADD http://x /\n", 'Dockerfile.odek line 1: "FROM a\\rADD http://x /" holds a control character'),
        (b"FROM a\nRUN x\x0bADD y\n", 'Dockerfile.odek line 2: "RUN x\\x0bADD y" holds a control character'),
        (b"FROM a\nRUN x\xc2\x85ADD y\n", 'Dockerfile.odek line 2: "RUN x\\x85ADD y" holds a control character'),
        (b"FROM a AS\n", 'Dockerfile.odek line 1: "FROM a AS" is not a FROM'),
    ],
)
def test_text_that_cannot_be_read_the_same_by_everybody_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SandboxConfigError) as refused:
        lint(data)
    assert refused.value.message == message


def test_tag_and_digest_are_those_of_the_bytes() -> None:
    """R-36: the first 12 hex digits in the tag, all 64 in the label."""
    data = b"FROM alpine\n"
    digest = hashlib.sha256(data).hexdigest()
    made = Dockerfile(data=data)
    assert (made.sha256, made.tag, image_tag(data)) == (
        digest,
        f"odek-sandbox:{digest[:12]}",
        f"odek-sandbox:{digest[:12]}",
    )


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("FROM a:1\n", Inputs(bases=("a:1",), sources=())),
        ("FROM a AS s\nFROM S\nFROM scratch\nFROM b\nFROM a\n", Inputs(bases=("a", "b"), sources=())),
        ("ARG V=3.12 W='x'\nARG N=\"py\"\nFROM $N:${V}\nFROM c:$W\n", Inputs(bases=("py:3.12", "c:x"), sources=())),
        ("FROM a\nCOPY x y/z /d\nADD w /d\n", Inputs(bases=("a",), sources=("x", "y/z", "w"))),
        ('FROM a\nCOPY --chown=1:2 ["x y", "/d"]\n', Inputs(bases=("a",), sources=("x y",))),
        ("FROM a\nCOPY . /d\nCOPY x /d\n", Inputs(bases=("a",), sources=(".",))),
        ("FROM a\nCOPY $X /d\n", Inputs(bases=("a",), sources=(".",))),
        ("FROM a AS s\nFROM b\nCOPY --from=s /x /d\n", Inputs(bases=("a", "b"), sources=())),
        ("FROM a\nRUN --mount=type=bind,target=/x true\n", Inputs(bases=("a",), sources=(".",))),
        ("FROM a\nRUN --mount=target=/x true\n", Inputs(bases=("a",), sources=(".",))),
        ("FROM a\nRUN --mount=type=cache,target=/x true\n", Inputs(bases=("a",), sources=())),
        ("FROM a\nRUN true \\\\\nCOPY x /d\n", Inputs(bases=("a",), sources=(".",))),
        ("FROM a\nCOPY <<EOF /d\nFROM b\nEOF\n", Inputs(bases=("a",), sources=())),
    ],
)
def test_inputs_of_a_build_are_its_bases_and_sources(text: str, inputs: Inputs) -> None:
    """B18: what a build depends on besides the Dockerfile."""
    assert read_inputs(text.encode()) == inputs


@pytest.mark.parametrize(
    "text", ["FROM $X\n", "ARG X\nFROM $X\n", "FROM a\nARG X=b\nFROM $X\n", "ARG X=${Y}\nFROM a$X\n"]
)
def test_base_that_cannot_be_told_is_refused(text: str) -> None:
    """B17: the ONBUILD instructions of an image that nobody can name before the build would run unseen."""
    with pytest.raises(SandboxConfigError, match="does not say which image it builds on"):
        read_inputs(text.encode())


def test_base_that_is_no_reference_is_refused() -> None:
    with pytest.raises(SandboxConfigError, match=r'"Not-A-Ref:/" is not an image reference \(Dockerfile.odek line 1\)'):
        read_inputs(b"FROM Not-A-Ref:/\n")
