"""The page's files: what must not occur in them, their size, and the contrast of their colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odek.web.static import FILES

PAGE = Path(__file__).parents[3] / "odek" / "web" / "page"
NAMES = sorted(name for name, _ in FILES.values())
TEXTS = {name: (PAGE / name).read_text(encoding="utf-8") for name in NAMES}
LARGEST_BYTES = 160 << 10
NEVER = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|srcdoc",
    r"setHTML|DOMParser|javascript:|importScripts|serviceWorker|XMLHttpRequest|EventSource|WebSocket|sendBeacon",
    r"""\bon(?:click|load|error|input|submit)\s*=\s*["']""",
    r"""\sstyle\s*=\s*["']""",
    r"setAttribute\(\s*[\"']style",
)
TOKEN = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
TEXT = 4.5
CONTROL = 3.0
ON_ALL = ("bg", "panel", "raised")
PAIRS = (
    *(("ink", ground, TEXT) for ground in (*ON_ALL, "warn-bg", "bad-bg", "safe-bg", "mark")),
    *(("dim", ground, TEXT) for ground in (*ON_ALL, "warn-bg", "bad-bg", "safe-bg")),
    *(("accent", ground, TEXT) for ground in ON_ALL),
    *((name, ground, TEXT) for name in ("safe", "warn", "bad") for ground in ("bg", "panel", "raised")),
    *((name, f"{name}-bg", TEXT) for name in ("safe", "warn", "bad")),
    ("warn", "raised", TEXT),
    ("bad", "warn-bg", TEXT),
    ("on-accent", "accent", TEXT),
    ("bg", "ink", TEXT),
    *(("edge", ground, CONTROL) for ground in (*ON_ALL, "warn-bg")),
)


def themes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\n *\}", TEXTS["style.css"], re.DOTALL)
    first = dict(TOKEN.findall(light))
    return {"light": first, "dark": first | dict(TOKEN.findall(dark))}


def luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_page_is_five_small_files() -> None:
    """R-150: five files by hand, within their limit."""
    assert sorted(path.name for path in PAGE.iterdir() if path.is_file()) == NAMES
    assert sum(len(text.encode()) for text in TEXTS.values()) <= LARGEST_BYTES


@pytest.mark.parametrize("pattern", NEVER)
def test_nothing_in_the_page_makes_html_of_text(pattern: str) -> None:
    """R-150, P-16: no sink for HTML or code, no inline handler, no style attribute."""
    assert [name for name, text in TEXTS.items() if re.search(pattern, text)] == []


def test_the_page_asks_nothing_but_its_origin() -> None:
    """R-150: every address is relative, so that a prefix of a proxy works as well."""
    references = re.findall(
        r"""(?:src|href|url\(|from|fetch\()\s*=?\s*["'`]?((?:https?:)?//[^"'`)\s]*)""", "".join(TEXTS.values())
    )
    assert references == []
    assert re.findall(r"""(?:src|href)="(/[^"]*)""", TEXTS["index.html"]) == []
    assert "@import" not in TEXTS["style.css"]
    assert "@font-face" not in TEXTS["style.css"]


def test_the_page_uses_the_documented_routes() -> None:
    """R-163: what the page asks for are routes that programs have too."""
    from odek.web.routes import ROUTES

    known = {(route.method, re.sub(r"\{\w+\}", "*", route.path.removeprefix("/api/"))) for route in ROUTES}
    asked = re.findall(r"""ask\("(\w+)", ["`]([^"`]+)["`]""", TEXTS["app.js"])
    assert len(asked) > 12
    variables = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
    found = {
        (method, variables.sub("*", path).split("?")[0].rstrip("*") if "?" in path else variables.sub("*", path))
        for method, path in asked
    }
    found.discard(("POST", "*"))  # a message: sessions, or the turns of one
    assert found - known == set()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_controls_have_contrast(theme: str) -> None:
    """R-160: 4.5 for text, 3 for the edges of controls, in both themes."""
    colors = themes()[theme]
    low = {
        (one, other): round(ratio, 2)
        for one, other, least in PAIRS
        if (ratio := contrast(colors[one], colors[other])) < least
    }
    assert low == {}
