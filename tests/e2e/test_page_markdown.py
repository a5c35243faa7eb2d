"""Markdown in the page: what it becomes, and that no text takes long or makes HTML."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from fakes.page_server import PageServer
from support.devtools import Browser, Page

pytestmark = pytest.mark.once

DRAW = """
globalThis.draw = (text) => {
  const element = document.createElement("div");
  globalThis.render.appendMarkdown(element, text);
  return element;
};
globalThis.shape = (node) => node.nodeType === 3 ? node.data
  : ["FIGCAPTION", "BUTTON"].includes(node.tagName) ? ""
  : `<${node.tagName.toLowerCase()}>` + [...node.childNodes].map(shape).join("") + `</${node.tagName.toLowerCase()}>`;
"""
LINK = "<a>docs<span> (example.org)</span></a>"
SHAPES = {
    "plain": "<p>plain</p>",
    "one\ntwo": "<p>one\ntwo</p>",
    "one  \ntwo": "<p>one<br></br>two</p>",
    "one\n\ntwo": "<p>one</p><p>two</p>",
    "# A": "<h3>A</h3>",
    "## A ##": "<h4>A</h4>",
    "####### A": "<p>####### A</p>",
    "#A": "<p>#A</p>",
    "A\n===": "<h3>A</h3>",
    "---": "<hr></hr>",
    "* * *": "<hr></hr>",
    "*a* **b** ***c*** ~~d~~": "<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <del>d</del></p>",
    "_a_ __b__ snake_case_name": "<p><em>a</em> <strong>b</strong> snake_case_name</p>",
    "2 * 3 * 4": "<p>2 * 3 * 4</p>",
    "**open": "<p>**open</p>",
    "*a **b* c**": "<p><em>a **b</em> c**</p>",
    r"\*a\* \\ \q": r"<p>*a* \ \q</p>",
    "`a*b*`": "<p><code>a*b*</code></p>",
    "`` a`b ``": "<p><code>a`b</code></p>",
    "`open": "<p>`open</p>",
    "a &amp; &lt;b&gt; &copy;": "<p>a & <b> &copy;</p>",
    "<b>x</b>": "<p><b>x</b></p>",
    "- a\n- b": "<ul><li>a</li><li>b</li></ul>",
    "1. a\n2. b": "<ol><li>a</li><li>b</li></ol>",
    "3) a": "<ol><li>a</li></ol>",
    "- a\n  - b\n    - c": "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li></ul>",
    "- a\n\n  b": "<ul><li><p>a</p><p>b</p></li></ul>",
    "- [ ] a\n- [x] b": "<ul><li>☐ a</li><li>☑ b</li></ul>",
    "1. a\n\n   ```\n   x\n   ```\n2. b": "<ol><li>a<figure><pre><code>x</code></pre></figure></li><li>b</li></ol>",
    "text\n- a": "<p>text</p><ul><li>a</li></ul>",
    "> a\n> b\n\nc": "<blockquote><p>a\nb</p></blockquote><p>c</p>",
    "> > a": "<blockquote><blockquote><p>a</p></blockquote></blockquote>",
    "```py\nx = 1\n```": "<figure><pre><code>x = 1</code></pre></figure>",
    "~~~\n```\n~~~": "<figure><pre><code>```</code></pre></figure>",
    "```\nopen\n\nfence": "<figure><pre><code>open\n\nfence</code></pre></figure>",
    "    indented": "<figure><pre><code>indented</code></pre></figure>",
    "[docs](https://example.org/a_(b))": f"<p>{LINK}</p>",
    '[docs](https://example.org "title")': f"<p>{LINK}</p>",
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>",
    "[x](/relative)": "<p>[x](/relative)</p>",
    "![shot](https://example.org/a.png)": "<p><a>image: shot<span> (example.org)</span></a></p>",
    "![shot](a.png)": "<p><span>shot<span> (image: a.png)</span></span></p>",
    "see https://example.org/x.": "<p>see <a>https://example.org/x</a>.</p>",
    "<https://example.org>": "<p><a>https://example.org</a></p>",
    "ftp://example.org": "<p>ftp://example.org</p>",
    "a\u202eb": "<p>a\\u202eb</p>",
}  # fmt: skip
CELLS = "| a | b |\n|:--|--:|\n| 1 | `x|y` |\n| 2 |"
TABLE = (
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
    "<tbody><tr><td>1</td><td><code>x|y</code></td></tr><tr><td>2</td><td></td></tr></tbody></table></div>"
)
MEGABYTE = 1 << 20
REPEATED = (
    "[ ![ ]( [a]( [](a ** * _ __ ~~ *a _a **a ` `` `a ``` ~~~ < <a <http:// http:// http://) & &amp; \\ \\[ ! | |- > "
    ">> - + 1. # #\t \t * - _ - = (( )) [[]] {{ $$ <!-- --> <?x <![CDATA[ &#x0; *_ _* ~ ~a~ a*b a_b **_ [x](http://a"
).split(" ")
REPEATED_LINES = (
    "- a",
    "> a",
    "  - a",
    "| a | b |",
    "|-|-|",
    "# a",
    "```",
    "1. a",
    "    a",
    "===",
    "---",
    "* * *",
    "",
    " ",
)


@pytest.fixture(scope="module")
def drawing(chromium: Browser) -> Iterator[Page]:
    """A page of the server that has the renderer at hand, under its policy."""
    server = PageServer()
    page = chromium.new_page(server.url)
    page.wait_for("document.body.dataset.ready")
    page.evaluate("import('./render.js').then((one) => { globalThis.render = one; })")
    page.evaluate(DRAW)
    yield page
    assert page.problems() == []
    page.close()
    server.stop()


def test_markdown_becomes_these_elements(drawing: Page) -> None:
    """R-151: each construct; raw HTML is text; links lead to http and https alone and name their host."""
    texts = {**SHAPES, CELLS: TABLE}
    shapes = drawing.evaluate(f"{json.dumps(list(texts))}.map((one) => shape(draw(one)).slice(5, -6))")
    wrong = {text: shape for (text, wanted), shape in zip(texts.items(), shapes, strict=True) if shape != wanted}
    assert wrong == {}
    rel = drawing.evaluate(
        "(() => { const one = draw('[a](https://b.c)').querySelector('a'); return [one.rel, one.target, one.href]; })()"
    )
    assert rel == ["noopener noreferrer", "_blank", "https://b.c/"]


def broken() -> Iterator[str]:
    """Yield some 300 texts: pieces of constructs, put together and cut."""
    pieces = [
        "*a",
        "**",
        "`",
        "[b](",
        "http://c",
        "\n- ",
        "\n> ",
        "\n```",
        "|",
        "\n|-|",
        "<i>",
        "\\",
        "![",
        "]",
        "\n# ",
        "  \n",
    ]
    for one, two in itertools.product(pieces, repeat=2):
        yield f"{one}{two}{one} x{two}"
    yield from ("\n".join(itertools.repeat(piece.strip(), 30)) for piece in pieces)
    yield from (piece * 40 for piece in pieces)


def test_broken_markdown_makes_no_html_and_loses_nothing(drawing: Page) -> None:
    """W-20, R-151: 300 texts without an exception, no element but those of Markdown, and every word is there."""
    texts = list(broken())
    assert len(texts) > 280
    allowed = (
        "DIV P EM STRONG DEL CODE PRE A SPAN UL OL LI BLOCKQUOTE H3 H4 H5 H6 HR BR TABLE THEAD TBODY TR TH TD FIGURE "
        "FIGCAPTION BUTTON svg path"
    )
    found = drawing.evaluate(
        f"{json.dumps(texts)}.map((text) => {{ const element = draw(text);"
        f" const odd = [...element.querySelectorAll('*')].filter((one) => !{json.dumps(allowed.split())}"
        ".includes(one.tagName));"
        " return [odd.map((one) => one.tagName), text.includes('x') && !element.textContent.includes('x')]; })"
    )
    assert [pair for pair in zip(texts, found, strict=True) if pair[1] != [[], False]] == []


def test_a_megabyte_of_anything_is_drawn(drawing: Page) -> None:
    """W-20, R-151: a megabyte of `[`, and much of all else: time grows with the length, or this never ends."""
    drawing.evaluate("globalThis.parse = (text) => render.parseBlocks(text.split('\\n')).length")
    for piece in (*REPEATED, *(f"{line}\n" for line in REPEATED_LINES), "*a **b ", "[](a[](a", "`a``b```c"):
        count = (MEGABYTE if piece == "[" else MEGABYTE >> 4) // max(len(piece), 1)
        assert drawing.evaluate(f"parse({json.dumps(piece)}.repeat({count}))", timeout_s=30) is not None, piece
        inline = (
            f"(() => {{ render.appendInline(document.createElement('p'), {json.dumps(piece)}.repeat({count}));"
            " return 1; })()"
        )
        assert drawing.evaluate(inline, timeout_s=30) == 1, piece
    growing = (
        "(() => { let text = ''; for (let length = 1; length < 1400; length++) text += '`'.repeat(length) + 'a';"
        " render.appendInline(document.createElement('p'), text); return 1; })()"
    )
    assert drawing.evaluate(growing) == 1


def test_a_text_that_grows_is_what_it_is_at_once(drawing: Page) -> None:
    """R-151, R-162: pieces drawn as they come add up to the same elements as the whole text."""
    text = "# T\n\nOne *two*\nthree\n\n- a\n- b\n\n  c\n\n```py\nx\n\ny\n```\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\nend"
    same = drawing.evaluate(
        f"(() => {{ const text = {json.dumps(text)}; const grown = new render.GrowingText();"
        " for (const piece of text) { grown.add(piece); grown.draw(); }"
        " const whole = shape(draw(text));"
        " const parts = [...grown.done.childNodes, ...grown.tail.childNodes].map(shape).join('');"
        " return whole === `<div>${parts}</div>` ? '' : parts; })()"
    )
    assert same == ""
