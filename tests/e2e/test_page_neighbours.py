"""Other programs on this machine: a page of another port, and a service worker that one has left on ours."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fakes.page_server import PageServer
from support.devtools import Browser

pytestmark = pytest.mark.once

ATTACK = """
const target = TARGET;
const report = {};
const shown = (answer) => answer.text().then((text) => `${answer.type} ${answer.status} ${text.slice(0, 40)}`);
const note = (name, promise) => promise.then(shown).catch(() => "failed").then((what) => (report[name] = what));
const body = JSON.stringify({ text: "owned", files: [], request_id: "evil" });
const types = ["text/plain", "application/json", "application/x-www-form-urlencoded", "multipart/form-data"];
const all = [];
for (const mode of ["cors", "no-cors", "same-origin"]) {
  for (const credentials of ["include", "omit"]) {
    all.push(note(`${mode} ${credentials} state`, fetch(`${target}api/state`, { mode, credentials })));
    for (const type of types) {
      for (const path of ["api/sessions", "api/login"]) {
        const headers = { "Content-Type": type };
        const asked = fetch(target + path, { method: "POST", body, mode, credentials, headers });
        all.push(note(`${mode} ${credentials} ${type} ${path}`, asked));
      }
    }
  }
}
const sink = document.createElement("iframe");
sink.name = "sink";
const form = document.createElement("form");
Object.assign(form, { method: "post", action: `${target}api/sessions`, enctype: "text/plain", target: "sink" });
const field = document.createElement("input");
Object.assign(field, { name: '{"text":"owned","x":"', value: '"}' });
form.append(field);
document.body.append(sink, form);
form.submit();
const image = new Image();
all.push(new Promise((done) => (image.onerror = image.onload = (event) => done((report.image = event.type)))));
image.src = `${target}api/state`;
const frame = document.createElement("iframe");
all.push(new Promise((done) => (frame.onload = done)));
frame.src = target;
document.body.append(frame);
Promise.all(all).then(() => {
  try {
    report.frame = frame.contentDocument?.body?.innerText ?? "closed";
  } catch {
    report.frame = "closed";
  }
  setTimeout(() => (globalThis.report = report), 300);
});
"""
WORKER = """
self.addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") event.respondWith(new Response("captured"));
});
self.addEventListener("install", () => skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
"""


class _Foreign(BaseHTTPRequestHandler):
    """Another program's server on this machine: a page and a service worker, and it notes the cookies it gets."""

    script = ""
    cookies: list[str] = []  # noqa: RUF012

    def log_message(self, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("Cookie") or "")
        kinds = {"/sw.js": ("text/javascript", self.script), "/": ("text/html", "<!doctype html><body>foreign")}
        kind, text = kinds.get(self.path, kinds["/"])
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def foreign() -> Iterator[Callable[..., ThreadingHTTPServer]]:
    """Starts servers of other programs."""
    started: list[ThreadingHTTPServer] = []

    def start(port: int = 0, *, script: str = "") -> ThreadingHTTPServer:
        handler = type("Handler", (_Foreign,), {"script": script, "cookies": []})
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_a_page_of_another_port_starts_and_reads_nothing(
    chromium: Browser, server: PageServer, foreign: Callable[..., ThreadingHTTPServer]
) -> None:
    """W-3, P-1, P-3, P-4: in the browser that is signed in it can do nothing; its server gets the cookie half."""
    page = chromium.new_page(server.url)
    page.wait_for("document.body.dataset.ready")
    evil = foreign()
    tab = chromium.new_tab(f"http://127.0.0.1:{evil.server_address[1]}/", context=page.context)
    tab.evaluate(f"(() => {{ {ATTACK.replace('TARGET', json.dumps(server.origin))} }})()")
    tab.wait_for("globalThis.report")
    report = tab.evaluate("report")
    read = {
        name: value
        for name, value in report.items()
        if value not in ("failed", "closed", "error") and not value.startswith("opaque 0 ")
    }
    assert read == {}
    assert report["frame"] == "closed"
    assert server.calls == []
    cookie = next(one for one in evil.RequestHandlerClass.cookies if one)  # the same host: cookies know no ports
    tab.close()
    page.close()
    for path, method in (("state", "GET"), ("sessions", "POST")):
        ask = urllib.request.Request(
            f"{server.origin}api/{path}", method=method, data=b"{}" if method == "POST" else None
        )
        ask.add_header("Cookie", cookie)
        ask.add_header("Content-Type", "application/json")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(ask)
        assert refused.value.code == 401
    assert server.calls == []


def test_a_worker_of_another_program_is_gone_after_a_visit(
    chromium: Browser, server: PageServer, foreign: Callable[..., ThreadingHTTPServer]
) -> None:
    """W-27, P-6: a service worker that answers for every page of the port leaves when its script is asked for again."""
    server.stop()
    other = foreign(script=WORKER)
    port = other.server_address[1]
    page = chromium.new_page(f"http://127.0.0.1:{port}/")
    page.evaluate("navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready).then(() => 1)")
    page.open(f"http://127.0.0.1:{port}/x")
    assert page.text() == "captured"
    other.shutdown()
    other.server_close()
    server.restart(port)
    page.open(server.origin)  # the old worker still answers; the browser looks for a new script meanwhile
    page.wait_for("document.body && !document.body.innerText.includes('captured')")
    page.open("about:blank")
    page.open(server.url)
    page.wait_for("document.body.dataset.ready")
    assert page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
    page.close()
