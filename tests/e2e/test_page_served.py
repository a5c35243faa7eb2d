"""The page on the real server: a whole job by keyboard, with a real container, and on in the terminal."""

from __future__ import annotations

import json

from fakes.model_server import ModelServer, calls, text
from support.devtools import Browser
from support.docker_engine import Engine
from support.odek_process import Odek
from support.serve_process import serving_process

CTRL = 2


def test_a_whole_job_by_keyboard(odek: Odek, docker_engine: Engine, base_image: str, chromium: Browser) -> None:
    """W-23, R-157, R-159, R-135: start, stop, approve, read a diff, reload, close, and go on in the terminal."""
    (odek.cwd / "greet.txt").write_text("Hello\n")
    model = ModelServer(
        calls(("shell", {"command": "echo begun; sleep 60"}), content="I wait."),
        calls(("read_file", {"path": "greet.txt"}), content="I read."),
        calls(("patch", {"path": "greet.txt", "old_string": "Hello", "new_string": "Good day"})),
        calls(("shell", {"command": "kill -9 -1", "description": "end all"})),
        text("**Done**, see `greet.txt`."),
        text("from the terminal"),
    )
    arguments = ("--sandbox-image", base_image, "--model", "m")
    with model, serving_process(odek, *arguments, "--base-url", model.base_url) as server:
        page = chromium.new_page(server.url)
        page.wait_for("document.body.dataset.ready")
        page.wait_for("document.querySelector('#badge').innerText.includes('sandbox planned')")
        assert docker_engine.labelled() == frozenset()
        page.key("Tab")  # the skip link
        page.key("Enter")
        page.type("Wait a little")
        page.key("Enter")
        page.wait_for("document.querySelector('.call.running .live')?.innerText.includes('begun')", timeout_s=60)
        assert "sandbox planned" not in page.text("#badge")
        assert "network none" in page.text("#badge")
        page.key(".", modifiers=CTRL, code=190)
        page.wait_for("document.querySelector('.ending')?.innerText.includes('Stopped')")
        page.type("Now the greeting")  # the focus is still in the message
        page.key("Enter")
        page.wait_for("document.querySelector('.approval')", timeout_s=60)
        page.wait_for("!document.querySelector('.approval .answer.yes').disabled")
        for _ in range(60):
            page.key("Tab", modifiers=8)
            if page.evaluate("document.activeElement.classList.contains('no')"):
                break
        page.key(" ")
        page.wait_for("document.querySelector('#dock').hidden")
        assert page.evaluate("document.activeElement.id") == "text"  # the focus is not lost with the button
        page.wait_for("document.querySelector('#log .prose strong')?.innerText === 'Done'", timeout_s=60)
        page.wait_for("!document.querySelector('#stop').offsetParent")
        assert (odek.cwd / "greet.txt").read_text() == "Good day\n"
        before = page.evaluate(
            "[...document.querySelectorAll('.call')].map((one) => one.querySelector('.title').innerText)"
        )
        assert [one.split()[0] for one in before] == ["shell", "read_file", "patch", "shell"]
        page.reload()
        page.wait_for("document.querySelector('#log .prose strong')?.innerText === 'Done'")
        after = page.evaluate(
            "[...document.querySelectorAll('.call')].map((one) => one.querySelector('.title').innerText)"
        )
        assert after == before
        page.evaluate("document.querySelectorAll('.call > button')[2].focus()")
        page.key("Enter")
        page.wait_for("document.querySelector('.diff .added')?.innerText.includes('Good day')")
        page.evaluate("document.querySelector('#badge').focus()")
        page.key("Enter")
        page.wait_for("document.querySelector('#pane .command')")
        session = page.text("#pane .command code").split()[-1]
        shown = page.text("#pane")
        (container,) = docker_engine.labelled()
        assert base_image in shown
        config = json.loads(server.ask("GET", f"/api/config?session={session}").body)
        assert config["sandbox"]["container"] in shown
        page.evaluate(
            "[...document.querySelectorAll('#pane button')].find((one) => one.innerText === 'Close session').focus()"
        )
        page.key("Enter")
        page.wait_for("document.querySelector('#badge').innerText.includes('planned')")
        assert docker_engine.labelled() == frozenset(), container
        gone_on = odek.run("continue", "--id", session, *arguments, "--base-url", model.base_url, "And now?")
        assert (gone_on.code, gone_on.stdout) == (0, "from the terminal\n"), gone_on.stderr
        page.reload()
        page.wait_for("document.querySelector('#log').innerText.includes('from the terminal')")
        assert server.end() == 143
        page.wait_for("/has ended|No connection/.test(document.body.innerText)")
        assert [one for one in page.problems() if "Failed to load" not in one] == []
        assert [url for url in page.requested() if not url.startswith(server.base)] == []
        page.close()
