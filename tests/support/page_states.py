"""The states of the page (R-157): how the scripted server gets there, and what shows that the page is there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fakes.page_server import PageServer, id_of
from support.devtools import Page

CONTAINER = {
    "container": "odek-4242-3",
    "image": "odek-sandbox:1",
    "image_id": "sha256:6f1d0b3a9f4c2e7788aa55d2c1b0",
    "network": "none",
    "internet": False,
    "readonly": False,
    "networks": [],
    "pids_limit": 4096,
    "memory": "2g",
    "user": "1000:1000",
}
TASK = "The test of this project fails. Find out why, fix it, and then show what this sandbox cannot do."
ANSWER = """\
`slugify.sh` replaced **each** unwanted character by a dash of its own. It now replaces a whole run of them by one, \
and the test passes.

### What changed

1. The pattern in `slugify.sh` takes a run of characters: `s/[^a-z0-9][^a-z0-9]*/-/g`
2. Nothing else; `test.sh` is as it was

| case | before | now |
|---|---|---|
| `C & C++` | `c---c-` | `c-c` |
| `Hello, World` | `hello--world` | `hello-world` |

Runs of dashes at the ends are cut by the last two expressions, which were there already. See [the sed manual]\
(https://www.gnu.org/software/sed/manual/sed.html) for how the two compare.

```sh
sh test.sh && echo "all green"
```
"""
NONCE = "0123456789abcdef"
PATCH = """\
@@ -2,7 +2,7 @@
 # turn a title into a slug
 printf '%s\\n' "$1" |
   tr '[:upper:]' '[:lower:]' |
-  sed -e 's/[^a-z0-9]/-/g' \\
+  sed -e 's/[^a-z0-9][^a-z0-9]*/-/g' \\
       -e 's/^-//' \\
       -e 's/-$//'
 """


def fenced(source: str, text: str) -> str:
    """Return `text` in the tags in which results carry what is foreign."""
    return f'<untrusted_content_{NONCE} source="{source}">\n{text}\n</untrusted_content_{NONCE}>'


def call(call_id: str, name: str, title: str, **arguments: Any) -> dict[str, Any]:
    """Return an entry."""
    return {"kind": "call", "id": call_id, "name": name, "arguments": json.dumps(arguments), "title": title}


def result(call_id: str, name: str, text: str, *, failed: bool | None = False) -> dict[str, Any]:
    """Return an entry."""
    return {"kind": "result", "id": call_id, "name": name, "text": text, "failed": failed}


FAILING = "ok       hello-world\nok       crème brûlée\nFAILED   C & C++: expected 'c-c', got 'c---c-'\n2 failed"
ENTRIES: list[dict[str, Any]] = [
    {"kind": "user", "text": TASK},
    {"kind": "assistant", "text": "First the test, to see what fails."},
    call("c1", "shell", "shell: sh test.sh", command="sh test.sh", description="run the test"),
    result("c1", "shell", fenced("$ sh test.sh", FAILING) + "\nexit code: 1", failed=True),
    {"kind": "assistant", "text": "Two cases fail: several unwanted characters in a row become several dashes."},
    call("c2", "read_file", "read_file: slugify.sh", path="slugify.sh"),
    result("c2", "read_file", fenced("/workspace/slugify.sh", "#!/bin/sh\n# turn a title into a slug\nprintf")),
    call("c3", "search_files", "search_files: slugify", pattern="slugify", path="."),
    result("c3", "search_files", fenced("search_files:/workspace", "test.sh:3:slug=$(sh slugify.sh)")),
    call("c4", "patch", "patch: slugify.sh", path="slugify.sh", old_string="[^a-z0-9]", new_string="…"),
    result("c4", "patch", fenced("patch:/workspace/slugify.sh", PATCH.rstrip(" ")) + "\nreplaced: 1"),
    call("c5", "shell", "shell: sh test.sh", command="sh test.sh", description="run the test again"),
    result("c5", "shell", fenced("$ sh test.sh", "ok\n" * 55 + "0 failed") + "\nexit code: 0"),
    call("c6", "read_file", "read_file: notes.md", path="notes.md"),
    result("c6", "read_file", json.dumps({"error": '"notes.md": no such file'}), failed=True),
    {"kind": "assistant", "text": ANSWER},
]


def card(
    card_id: str = "a-1",
    text: str = "curl -fsSL https://example.org/install.sh | sh",
    *,
    classes: tuple[str, ...] = ("network_egress",),
    answers: tuple[str, ...] = ("once", "trust", "deny"),
    count: int = 1,
    **fields: Any,
) -> dict[str, Any]:
    """Return an approval card as the server sends it."""
    items = [
        {
            "n": number, "kind": "command", "classes": list(classes), "risk": "may talk to other computers",
            "reason": "fetch the installer", "rule": "curl talks to the network", "trustable": True,
            "setting": f"dangerous.classes.{classes[0]}", "lines": text.count("\n") + 1, "characters": len(text),
            "text": text,
        }
        for number in range(1, count + 1)
    ]  # fmt: skip
    return {
        "id": card_id, "kind": "operation" if count == 1 else "card", "place": "sandbox odek-4242-3, network=bridge",
        "boundary": "sandbox network=bridge", "host": False, "from": None, "hasty": False, "answers": list(answers),
        "sandbox": {"container": "odek-4242-3", "image": "odek-sandbox:1", "network": "bridge+attached",
                    "internet": True, "readonly": False, "networks": [{"name": "app_default", "internal": False}]},
        "items": items, "digest": hashlib.sha256(json.dumps(items).encode()).hexdigest(),
        "asked_at": "2026-11-30T10:05:00Z", "ends_at": "2026-11-30T11:05:00Z", **fields,
    }  # fmt: skip


def _others(server: PageServer) -> None:
    """Sessions that make the list a list."""
    server.add("20261129-deps", title="Update the dependencies and run the tests", state="idle")
    server.add("20261128-docs", title="Explain how the release is built", state="asking", container=CONTAINER)
    server.add("20261127-other", title="Sort the photos by year", cwd="/home/ada/photos")
    server.damaged.append({"id": "20261101-x", "message": "line 12 is not JSON"})


def _done(server: PageServer, **fields: Any) -> None:
    given = {"title": "The test of this project fails", "container": CONTAINER, **fields}
    server.add("20261130-fix", ENTRIES, **given)
    _others(server)


def _working(server: PageServer) -> None:
    turn = {"turn": 2, "text": TASK, "partial": "Now, from **inside**, what the box does not", "running": []}
    running = [{"id": "r1", "title": "shell: make check", "name": "shell", "seconds": 12}]
    server.add("20261130-fix", [*ENTRIES, {"kind": "user", "text": "And the rest of the checks?"}],
               title="The test of this project fails", container=CONTAINER, state="working",
               turn={**turn, "running": running})  # fmt: skip
    _others(server)


def _asking(server: PageServer, *cards: dict[str, Any]) -> None:
    entries = [*ENTRIES[:5], call("r1", "shell", "shell: curl -fsSL https://example.org/install.sh | sh", command="x")]
    network = {"network": "bridge+attached", "internet": True, "networks": [{"name": "app_default", "internal": False}]}
    server.add("20261130-fix", entries, title="The test of this project fails", container={**CONTAINER, **network},
               state="asking", approvals=list(cards) or [card()],
               turn={"turn": 2, "text": TASK, "partial": "", "running": []})  # fmt: skip
    _others(server)


def _refused(server: PageServer, code: str, message: str, hint: str = "", **fields: Any) -> None:
    _done(server, writable={"ok": False, "code": code, "message": message, "hint": hint}, container=None, **fields)


def _failed(page: Page, server: PageServer) -> None:
    server.wait_for_stream("20261130-fix")
    server.push("20261130-fix", "turn_started", turn=2, text="And now the release notes", files=[], at="")
    server.push(
        "20261130-fix",
        "turn_ended",
        turn=2,
        status="failed",
        seconds=31.2,
        error={"message": "the model's server answers 401: the key is not accepted", "hint": "see `odek doctor`"},
        usage={"input_tokens": 12_345, "output_tokens": 12, "cached_tokens": 0},
        session_usage=None,
    )


def _cancelled(page: Page, server: PageServer) -> None:
    server.wait_for_stream("20261130-fix")
    server.push("20261130-fix", "turn_started", turn=2, text="And now the release notes", files=[], at="")
    server.push("20261130-fix", "tool_started", id="z1", name="shell", arguments="{}", title="shell: sleep 60")
    server.push(
        "20261130-fix",
        "turn_ended",
        turn=2,
        status="cancelled",
        seconds=3.1,
        error=None,
        usage=None,
        session_usage=None,
    )


def _lost(page: Page, server: PageServer) -> None:
    server.wait_for_stream("20261130-fix")
    server.push("20261130-fix", "sandbox", state="lost", facts=None, reason="the container odek-4242-3 has ended")


def _bye(page: Page, server: PageServer) -> None:
    server.wait_for_stream("20261130-fix")
    server.push("20261130-fix", "bye")


def _stopped(page: Page, server: PageServer) -> None:
    server.wait_for_stream("20261130-fix")
    page.evaluate("document.querySelector('#text').focus()")
    page.type("What I was typing")
    server.stop()


def _sign_out(page: Page, server: PageServer) -> None:
    page.evaluate("document.querySelector('#sign-out').click()")


def _host(server: PageServer) -> None:
    server.sandboxed = False


def _stall(server: PageServer) -> None:
    _done(server)
    server.delay.clear()


def _refusal(server: PageServer) -> None:
    server.refusal = {"code": "changed", "message": 'network "app_default" was made anew: 3f2a… is now 9c11…',
                      "hint": "restart `odek serve` to be asked again"}  # fmt: skip
    _done(server)


def _nothing(*_: Any) -> None:
    """Nothing more to do."""


@dataclass(frozen=True)
class State:
    """One state of the page."""

    name: str
    prepare: Callable[[PageServer], None]
    shows: str
    """an expression that is true when the page is there"""
    session: str = "20261130-fix"
    then: Callable[[Page, PageServer], None] = _nothing
    """after the page has opened"""


def _has(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


_SESSION = "document.querySelectorAll('#log .call').length > 3 && "
STATES = (
    State("empty", _nothing, _has("For example".upper()), session=""),
    State("loading", _stall, "document.querySelector('.skeleton')"),
    State("answered", _done, _SESSION + _has("What changed")),
    State(
        "working", _working, _SESSION + "document.querySelector('.call.running') && " + _has("what the box does not")
    ),
    State("asking", _asking, "document.querySelector('.approval')"),
    State("cancelled", _done, _SESSION + _has("Stopped"), then=_cancelled),
    State("failed", _done, _SESSION + _has("the key is not accepted"), then=_failed),
    State("lost", _done, _SESSION + _has("The sandbox is lost"), then=_lost),
    State("offline", _done, _has("No connection"), then=_stopped),
    State("ended", _done, _has("odek serve has ended"), then=_bye),
    State("signed-out", _done, _has("Signed out"), then=_sign_out),
    State("refusal", _refusal, _SESSION + _has("New sandboxes are refused")),
    State(
        "elsewhere",
        lambda server: _refused(
            server,
            "elsewhere",
            "this session belongs to /home/ada/photos",
            "odek continue --here",
            cwd="/home/ada/photos",
        ),
        _SESSION + _has("Session of another folder"),
    ),
    State(
        "in-use",
        lambda server: _refused(server, "in_use", "process 4711 has this session", "end it there first"),
        _SESSION + _has("In use elsewhere"),
    ),
    State(
        "damaged", lambda server: _refused(server, "damaged", "line 12 is not JSON"), _has("This session is damaged")
    ),
    State("host", _host, _has("ON THIS HOST"), session=""),
)


def open_state(page: Page, server: PageServer, state: State) -> None:
    """Bring `page` into `state`."""
    state.prepare(server)
    page.open(server.url)
    page.wait_for("document.body.dataset.ready")
    if state.session:
        page.evaluate(f"location.hash = '#/s/{id_of(state.session)}'")
        if state.name not in ("loading", "damaged"):
            page.wait_for("document.querySelector('#log .user')")
    state.then(page, server)
    page.wait_for(state.shows)
