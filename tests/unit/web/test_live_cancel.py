"""A cancel at each stage of a turn, with a model behind real HTTP (W-10)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.layering import make_layers
from fakes.model_server import Answer, ModelServer, Step, calls, delta, events, status, text
from support.served import Served, wait_for

from odek.app.config import config_of
from odek.app.model import make_model

TOOK_S = 3.0


@dataclass(frozen=True)
class Stage:
    """What the model's server does, and how one sees that it has come to it."""

    step: Step
    reached: Callable[[Served, str, ModelServer], object]


def asked(_: Served, __: str, server: ModelServer) -> object:
    return server.requests


def writing(served: Served, session: str, _: ModelServer) -> object:
    turn = served.live.snapshot(session)["turn"]
    return turn and turn["partial"]  # type: ignore[index]


def running(served: Served, session: str, _: ModelServer) -> object:
    turn = served.live.snapshot(session)["turn"]
    return turn and turn["running"]  # type: ignore[index]


def asking(served: Served, session: str, _: ModelServer) -> object:
    return served.live.snapshot(session)["approvals"]


STAGES = {
    "first byte": Stage(Answer(delay_s=60), asked),
    "streaming": Stage(events(delta(content="I begin"), delta(content="…"), gap_s=60), writing),
    "retry wait": Stage(status(503, headers=(("Retry-After", "60"),)), asked),
    "command": Stage(calls(("shell", {"command": "sleep 60"})), running),
    "several commands": Stage(calls(("parallel_shell", {"commands": [{"command": "sleep 60"}] * 2})), running),
    "open card": Stage(calls(("shell", {"command": "make x"})), asking),
}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_cancel_at_each_stage(tmp_path: Path, stage: Stage) -> None:
    """W-10, R-145: the turn ends, what was said stays, and the next turn works; requests stay well-formed."""
    with ModelServer(stage.step, text("well")) as server:
        served = Served(tmp_path, operator={"dangerous": {"classes": {"safe": "allow"}}})
        settings = {"base_url": server.base_url, "model": "m"}
        config = config_of(make_layers(operator=settings, flags={"sandbox": False}))
        served.models.append(make_model(config.settings, served.host, notify=lambda _: None))
        live = served.open()
        session = str(live.create("go", (), "r1")["id"])
        wait_for(lambda: stage.reached(served, session, server))
        began = time.monotonic()
        assert live.cancel(session, 1)
        snapshot = served.settled(session)
        assert time.monotonic() - began < 10 * TOOK_S, "a wait of sixty seconds was left"
        ended = served.until(session, "turn_ended", after=snapshot["last_event"].split(".")[0] + ".0")[-1]
        assert (ended["status"], ended["error"], snapshot["approvals"]) == ("cancelled", None, [])
        _, snapshot = served.finish("on", session)
        assert snapshot["entries"][-1]["text"] == "well"
        roles = [message["role"] for message in server.requests[-1].json["messages"]]
        assert roles[-2:] == ["assistant", "user"]
        served.close()
