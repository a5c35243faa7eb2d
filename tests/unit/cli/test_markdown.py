"""Markdown for a terminal: what is shown of an answer, in which rows and styles (C4, R-261)."""

from __future__ import annotations

import random
import re

import pytest

from odek.cli.look import Look
from odek.cli.markdown import Markdown
from odek.cli.wrap import width_of
from odek.text import visible_prose

STYLED = Look(colors=16, moves=True, shapes=True)
BARE = Look(shapes=True)
CODES = re.compile(r"\x1b\[[0-9;]*m")
NAMES = {"1": "b", "2": "d", "3": "i", "4": "u", "9": "s", "36": "c", "32": "g", "31": "r"}


def render(text: str, *, look: Look = STYLED, columns: int = 40, step: int = 10_000) -> str:
    made = Markdown(look, lambda: columns)
    return "".join(made.feed(text[at : at + step]) for at in range(0, len(text), step)) + made.end()


def named(rendered: str) -> str:
    """Return `rendered` with <b>…</> for its styles."""

    def name(found: re.Match[str]) -> str:
        codes = found[0][2:-1]
        return "</>" if codes == "0" else "<" + "".join(NAMES[code] for code in codes.split(";")) + ">"

    return CODES.sub(name, rendered)


def characters(rendered: str) -> list[tuple[str, str]]:
    """Return each character with the style that it is shown in, none for blanks."""
    style, found, at = "", [], 0
    for match in re.finditer(r"\x1b\[([0-9;]*)m|.|\n", rendered):
        if match[1] is not None:
            style = "" if match[1] == "0" else match[1]
        else:
            found.append((match[0], style if match[0].strip() else ""))
        at = match.end()
    assert at == len(rendered)
    return found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain", "plain\n"),
        ("one\ntwo\n\n\nthree\n\n", "one\ntwo\n\n\nthree\n"),
        ("# Title\n## Second\n### Third", "<bu>Title</>\n<b>Second</>\n<bi>Third</>\n"),
        ("#none\n#", "#none\n\n"),
        ("a **b** c", "a <b>b</> c\n"),
        ("a *b* _c_ __d__ ***e***", "a <i>b</> <i>c</> <b>d</> <bi>e</>\n"),
        ("**a *b* c**", "<b>a</> <bi>b</> <b>c</>\n"),
        ("~~gone~~", "<s>gone</>\n"),
        ("2*3*4 a_b_c **kwargs, *args", "2*3*4 a_b_c **kwargs, *args\n"),
        ("open **never closed", "open **never closed\n"),
        ("* a * b", "* a * b\n"),
        ("这是**重点**内容", "这是<b>重</><b>点</>内容\n"),
        ("`x*y*` and ``a`b``", "<c>x*y*</> and <c>a`b</>\n"),
        ("`open *and* never", "`open <i>and</> never\n"),
        (r"\*not\* C:\new \[x\]", "*not* C:\\new \\[x\\]\n"),
        ("[text](https://x.org/a_b_c)", "<u>text</><d> (https://x.org/a_b_c)</>\n".replace("<d> (", " <d>(")),
        ("<https://x.org/_a_>", "<https://x.org/_a_>\n"),
        ("[https://x.org](https://x.org)", "<u>https://x.org</>\n"),
        ("![a picture](p.png)", "<u>a</> <u>picture</> <d>(p.png)</>\n"),
        ("[ ] todo [x] done [1]", "[ ] todo [x] done [1]\n"),
        ("[**b** t](u(v))", "<ub>b</> <u>t</> <d>(u(v))</>\n"),
        ("[half](open", "[half](open\n"),
        ("<b>html</b> &amp; <br>", "<b>html</b> &amp; <br>\n".replace("<b>html", "<B>html")),
        ("---\n***\n* * *\n-----", f"<d>{'─' * 40}</>\n" * 4),
        ("-- x\n**b**\n- - -x", "-- x\n<b>b</>\n- - -x\n"),
        ("> quoted\n> > twice", "<d>│ </>quoted\n<d>│ │ </>twice\n"),
        ("```py\na = '**b**'\n```", "<d>```py</>\na = '**b**'\n<d>```</>\n"),
        ("~~~\n```\n~~~", "<d>~~~</>\n```\n<d>~~~</>\n"),
        ("````\n```\n````", "<d>````</>\n```\n<d>````</>\n"),
        ("```\nnever closed", "<d>```</>\nnever closed\n"),
        ("```diff\n+a\n-b\n c\n```", "<d>```diff</>\n<g>+a</>\n<r>-b</>\n c\n<d>```</>\n"),
        ("`` `a` ``", "<c>`a`</>\n"),
        ("1. a\n   ```\n   b\n     c\n   ```\nd", "1. a\n   <d>```</>\n   b\n     c\n   <d>```</>\nd\n"),
        ("> ```\n> a\nb", "<d>│ </><d>```</>\n<d>│ </>a\nb\n"),
        ("a\r\nb\x1b[31mc\u202e", "a\nb\\x1b[31mc\\u202e\n"),
        ("|a|b|\n|-|-:|\n|1|2|\nx", "<b>a</> <d>│</> <b>b</>\n<d>──┼──</>\n1 <d>│</> 2\nx\n"),
        ("| no table\nx", "| no table\nx\n"),
        ("|a|\nx", "|a|\nx\n"),
    ],
)  # fmt: skip
def test_what_is_shown(text: str, shown: str) -> None:
    """C4: whatever the pieces; what is not closed is shown as it is."""
    expected = shown.replace("<B>html", "<b>html")
    for step in (10_000, 1, 2, 5):
        rendered = render(text, step=step)
        assert characters(rendered) == characters(render(text)), step
    assert re.sub(r"</>(\s*)<(\w+)>", lambda m: m[0], named(render(text))) == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "- one two three four five\n  - six seven eight nine\n    ten",
            "- one two three four|  five|  - six seven eight|    nine|    ten",
        ),
        ("10. one two three four", "10. one two three|    four"),
        ("1. a\n  - b c", "1. a|   - b c"),
        ("> one two three four five", "│ one two three four|│ five"),
        ("    deep text that goes on", "    deep text that|    goes on"),
        ("- [ ] one two three four", "- [ ] one two three|  four"),
        ("```\na line of code that is long\n```", "```|a line of code that is long|```"),
        ("# A heading of some words", "A heading of some|words"),
        ("**bold that is wrapped twice here**", "bold that is wrapped|twice here"),
        (
            "!aaa!bbb!ccc!\n!-!-!-!\n!1!2!3!\n!4!5!6 x!",
            "aaa │ bbb │ ccc|────┼─────┼────|1   │ 2   │ 3|4   │ 5   │ 6 x",
        ),
        (
            "!aaaaaaaaaa!bbbbbbbbbb!\n!-!-!\n!1!2!\n!3!4 5 6 7 8 9!",
            "aaaaaaaaaa: 1|bbbbbbbbbb: 2||aaaaaaaaaa: 3|bbbbbbbbbb: 4 5 6 7|  8 9",
        ),
        ("!a!b!\n!:-:!-:!\n!one!`x;y`!\n!2!3!", " a  │   b|────┼────|one │ x;y| 2  │   3"),
        ("!a!日本!\n!-!-!\n!é!x!", "a │ 日本|──┼─────|é │ x"),
    ],
)
def test_rows_of_a_narrow_terminal(text: str, rows: str) -> None:
    """C4: words stay whole and hang below their beginning; code keeps its lines; tables line up where they fit."""
    for step in (10_000, 1, 3):
        shown = CODES.sub("", render(text.replace("!", "|").replace(";", "|"), columns=20, step=step))
        assert shown.removesuffix("\n").split("\n") == [row.replace(";", "|") for row in rows.split("|")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # underlined headings: the line below is as long as they are
        ("Title\n=====\ntext", "Title\n<d>═════</>\ntext\n"),
        ("**T** i\n=\n", "<b>T</> i\n<d>═══</>\n"),
        ("Title\n--\ntext", "Title\n<d>─────</>\ntext\n"),
        ("日本\n---", "日本\n<d>────</>\n"),
        ("w " * 60 + "\n===", "w " * 19 + "w\n" + "w " * 19 + "w\n" + "w " * 19 + "w\n" + f"<d>{'═' * 40}</>\n"),
        ("> Title\n> ===", "<d>│ </>Title\n<d>│ </><d>═════</>\n"),
        ("- Title\n  ---", "- Title\n<d>  ─────</>\n".replace("<d>  ", "  <d>")),
        # and what is none of them
        ("text\n\n===", "text\n\n===\n"),
        ("===\n", "===\n"),
        ("# T\n===", "<bu>T</>\n===\n"),
        ("text\n\n---", f"text\n\n<d>{'─' * 40}</>\n"),
        ("text\n== x", "text\n== x\n"),
        ("- a\n===", "- a\n===\n"),
        # emphasis, code and links over the end of a line
        ("a **b\nc** d", "a <b>b</>\n<b>c</> d\n"),
        ("*one\ntwo\nthree* x", "<i>one</>\n<i>two</>\n<i>three</> x\n"),
        ("`one\ntwo` x", "<c>one</>\n<c>two</> x\n"),
        ("- **a\n  b** c", "- <b>a</>\n  <b>b</> c\n"),
        ("> **a\n> b** c", "<d>│ </><b>a</>\n<d>│ </><b>b</> c\n"),
        ("[text\nmore](u) x", "<u>text</>\n<u>more</> <d>(u)</> x\n"),
        ("**a\nb** *c\nd*\ne", "<b>a</>\n<b>b</> <i>c</>\n<i>d</>\ne\n"),
        # which ends with the paragraph
        ("a **b\n\nc** d", "a **b\n\nc** d\n"),
        ("a **b\n- c** d", "a **b\n- c** d\n"),
        ("a **b\n# c** d", "a **b\n<bu>c** d</>\n"),
        ("a **b\n```\nc** d", "a **b\n<d>```</>\nc** d\n"),
        ("a **b\n> c** d", "a **b\n<d>│ </>c** d\n"),
        ("> a **b\nc** d", "<d>│ </>a **b\nc** d\n"),
        ("a **b\n|x|\n|-|\nc**", "a **b\n<b>x</>\n<d>─</>\nc**\n"),
        ("# a **b\nc** d", "<bu>a **b</>\nc** d\n"),
        ("a **b\n===\nc**", "a **b\n<d>═════</>\nc**\n"),
        ("a **b\n---\nc**", "a **b\n<d>─────</>\nc**\n"),
        ("a **b", "a **b\n"),
        ("2 * 3\n4 * 5", "2 * 3\n4 * 5\n"),
    ],
)
def test_what_goes_over_the_end_of_a_line(text: str, shown: str) -> None:
    """R-378: in whatever pieces it arrives."""
    whole = characters(render(text))

    def spelled(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [
            (character, "".join(sorted(NAMES[code] for code in style.split(";") if code))) for character, style in pairs
        ]

    wanted: list[tuple[str, str]] = []
    style = ""
    for match in re.finditer(r"<([biduscgr]*)>|</>|.|\n", shown):
        if match[0] == "</>":
            style = ""
        elif match[1]:
            style = "".join(sorted(match[1]))
        else:
            wanted.append((match[0], style if match[0].strip() else ""))
    assert spelled(whole) == wanted
    for step in (1, 2, 5):
        assert characters(render(text, step=step)) == whole


def test_open_marker_holds_up_nothing_else() -> None:
    """R-378: what precedes it is shown, and what follows the end of its paragraph."""
    made = Markdown(STYLED, lambda: 40)
    assert CODES.sub("", made.feed("see this **bold\n")) == "see this"
    assert CODES.sub("", made.feed("\n")) == " **bold\n"
    assert CODES.sub("", made.feed("next **" + "word " * 200 + "\n")).count("word") == 200
    assert CODES.sub("", made.end()) == ""


def test_without_colours_markdown_is_its_own_notation() -> None:
    """C4: NO_COLOR, TERM=dumb, --plain; rows are wrapped all the same, and nothing else than ASCII is drawn."""
    text = "# T\na **b** `c` [d](e)\n> q\n---\n- x\n\n|a|b|\n|-|-|\n|**1**|2|"
    assert render(text, look=BARE) == ("# T\na **b** `c` [d](e)\n> q\n---\n- x\n\na     | b\n------|--\n**1** | 2\n")
    assert render("**one two** three four", look=BARE, columns=12) == "**one two**\nthree four\n"


def test_text_is_shown_as_soon_as_its_word_has_ended() -> None:
    """C4: a marker keeps back what may belong to it, and no more than that."""
    made = Markdown(STYLED, lambda: 40)
    pieces = ("He", "llo wor", "ld, **ve", "ry** ", "good\n", "```\nco", "de")
    assert [CODES.sub("", made.feed(piece)) for piece in pieces] == [
        "", "Hello", " world,", " very", " good\n", "```\nco", "de",
    ]  # fmt: skip
    assert CODES.sub("", made.end()) == "\n"
    assert CODES.sub("", made.feed("more") + made.end()) == "more\n"  # after something else was printed


TOKENS = (
    *("word ", "longer-word ", "a", " ", "\n", "\n\n", "**", "*", "_", "__", "`", "``", "~~", "[", "]", "(", ")", "!"),
    *("# ", "- ", "  - ", "    ", "1. ", "> ", "```\n", "```py\n", "~~~\n", "---\n", "\\", "<b>", "日本語", "🙂"),
    *("\x1b[31m", "\x1b]0;x\x07", "\r\n", "\r", "\t", "\u202e", "\u200d", "e\u0301", "https://example.org/a_b"),
)


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("look", [STYLED, BARE], ids=["styled", "bare"])
def test_nothing_is_lost_nothing_escapes_and_rows_fit(seed: int, look: Look) -> None:
    """C4, R-261: any text in any pieces at any width."""
    chance = random.Random(seed)
    for _ in range(25):
        text = "".join(chance.choices(TOKENS, k=chance.randint(0, 60)))
        columns = chance.choice((20, 40, 80, 300))
        rendered = render(text, look=look, columns=columns)
        bare = CODES.sub("", rendered)
        assert [character for character in bare if character < " " and character not in "\n\t"] == []
        assert "\u202e" not in bare
        if "](" not in text:
            shown = visible_prose(text.rstrip("\r") + "\\r" * (len(text) - len(text.rstrip("\r"))))
            assert letters(bare) == letters(shown), text
        assert characters(render(text, look=look, columns=columns, step=chance.randint(1, 9))) == characters(rendered)
        if "``" not in text and "~~~" not in text:
            assert max(width_of(row.expandtabs(4)) for row in bare.split("\n")) <= columns, text


@pytest.mark.parametrize(
    "part",
    ["word ", "*a ", "**b** *", "`", "[", "[a](", "x", "https://x.org/", "|a|b|\n", "> ", "- ", "\x1b", "日", "_"],
)  # fmt: skip
def test_long_answer_takes_time_in_proportion(part: str) -> None:
    """R-261: no text is looked at again and again; counted in steps of the interpreter, not in seconds."""
    import sys

    def steps(size: int) -> int:
        made, count = Markdown(STYLED, lambda: 80), 0

        def note(_frame: object, _event: str, _argument: object) -> object:
            nonlocal count
            count += 1
            return note

        text = part * (size // len(part))
        before = sys.gettrace()
        sys.settrace(note)
        try:
            for at in range(0, len(text), 8):
                made.feed(text[at : at + 8])
            made.end()
        finally:
            sys.settrace(before)
        return count

    assert steps(6_000) < 2.6 * steps(3_000)
