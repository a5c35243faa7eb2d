"""Sub-agents in `odek serve`: their questions together, one ended alone, all gone with the session."""

from __future__ import annotations

import json
from typing import Any

from fakes.model_server import calls, text
from fakes.task_server import TaskServer
from support.docker_engine import Engine
from support.odek_process import Odek
from support.serve_process import serving_process, stream_of, wait_until

PARENT = "the task of the parent"
KINDS = {"task_started": (1, 2, 3), "task_ended": (1, 2, 3), "approval_asked": (2, 3), "approval_settled": (2, 3)}
"""kinds of events, and which tasks have one each"""


def test_questions_together_and_one_task_cancelled(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """W-22, W-10, R-225, R-226, R-229, P-42, P-43: both cards are open at once, each with its task and container;
    one task ends alone, while its neighbour goes on; deleting the session leaves neither container nor transcript.
    """
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    before = docker_engine.labelled()
    kill = {"command": "kill -9 -1", "description": "end all"}
    tasks = [{"goal": f"goal {n}", "readonly": True} for n in (1, 2, 3)]
    scripts: dict[str, list[Any]] = {
        PARENT: [calls(("delegate_tasks", {"tasks": tasks})), text("all ended")],
        "goal 1": [calls(("shell", {"command": "sleep 600"})), text("never")],
        "goal 2": [calls(("shell", kill)), text("two")],
        "goal 3": [calls(("shell", kill)), text("three")],
    }
    with TaskServer(scripts) as model, serving_process(odek, "--base-url", model.base_url, "--model", "m") as server:
        created = server.ask("POST", "/api/sessions", {"text": PARENT, "request_id": "r1"})
        session = f"/api/sessions/{created.json['id']}"
        with stream_of(server, str(created.json["id"])) as events:

            def open_cards() -> list[dict[str, Any]]:
                return list(server.ask("GET", session).json["approvals"])  # type: ignore[call-overload]

            wait_until(lambda: len(open_cards()) == 2)
            cards = {card["from"]["task"]: card for card in open_cards()}
            assert {number: card["from"]["goal"] for number, card in cards.items()} == {2: "goal 2", 3: "goal 3"}
            names = {card["sandbox"]["container"] for card in cards.values()}
            own = server.ask("GET", session).json["container"]
            assert len(names | {own["container"]}) == 3  # type: ignore[index]
            assert all(card["sandbox"]["container"] in card["place"] for card in cards.values())
            wait_until(lambda: len(docker_engine.labelled() - before) == 4)
            assert server.ask("POST", f"{session}/tasks/call_1%2F1/cancel", {}).status in (200, 202, 204)
            wait_until(lambda: len(docker_engine.labelled() - before) == 3)
            for number in (3, 2):
                card = cards[number]
                answer = {"answer": "deny", "digest": card["digest"]}
                assert server.ask("POST", f"{session}/approvals/{card['id']}", answer).status == 200
            shown = events.read_until(b"event: turn_ended").decode()
        data = [json.loads(line.removeprefix("data: ")) for line in shown.splitlines() if line.startswith("data: {")]
        tasks_of = {kind: sorted(each["task"] for each in data if each.get("event") == kind) for kind in KINDS}
        assert tasks_of == {kind: [f"call_1/{n}" for n in numbers] for kind, numbers in KINDS.items()}
        result = json.dumps(model.of(PARENT)[-1].json)
        assert [f"task {n} of 3: {status}" in result for n, status in ((1, "cancelled"), (2, "done"), (3, "done"))] == [
            True, True, True,
        ]  # fmt: skip
        wait_until(lambda: len(docker_engine.labelled() - before) == 1)
        kept = list((folder / "sessions").glob("*.tasks/*"))
        assert len(kept) == 3
        assert server.ask("DELETE", session).status == 204
        wait_until(lambda: docker_engine.labelled() == before)
        assert not list((folder / "sessions").glob("*.tasks"))
