"""One conversation through every kind of model server, as a person leads it: `/model` and `odek continue`."""

from __future__ import annotations

import json
from contextlib import ExitStack

from fakes.model_server import Step, calls, text
from fakes.zoo import ZOO, Keeper
from support.odek_process import Odek


def run(*commands: str) -> Step:
    return calls(*(("shell", {"command": command}) for command in commands), content="I look.")


TURN: tuple[Step, ...] = (
    run("true"),
    run("echo a", "echo b"),
    run("rm -rf ./nothing-here"),
    calls(("shell", '{"command": "make te'), finish_reason="length"),
    text("first answer"),
)
"""a call, two at once, one that is refused, a reply that is cut off"""
AGAIN: tuple[Step, ...] = (run("true"), text("second answer"))


def test_conversation_moves_through_the_zoo(odek: Odek) -> None:
    """R-231, B81 to B92: by `/model NAME/m` in one `odek repl`, and back by `odek continue -m NAME/m` for each."""
    with ExitStack() as stack:
        servers = {
            f"s{place}": stack.enter_context(Keeper(kind, *TURN, *AGAIN, streams=bool(place % 2)))
            for place, kind in enumerate(ZOO.values())
        }
        providers = {
            name: {"base_url": server.base_url, "api_key": f"sk-0123456789-{name}", "dialect": server.kind.provider}
            for name, server in servers.items()
        }
        folder = odek.home / ".odek"
        folder.mkdir(mode=0o700)
        (folder / "config.json").write_text(
            json.dumps(
                {
                    "providers": providers,
                    "model": "s0/m",
                    "sandbox": False,
                    "dangerous": {"classes": {"destructive": "deny"}},
                }
            )
        )
        typed = "".join(f"/model {name}/m\nlook around\n" for name in servers)
        first = odek.run("repl", stdin=typed)
        assert (first.code, first.stdout) == (0, "first answer\n" * len(servers)), first.stderr
        for name in servers:
            again = odek.run("continue", "-m", f"{name}/m", "and now build it")
            assert (again.code, again.stdout) == (0, "second answer\n"), again.stderr
        last = odek.run("continue", "once more")  # at the last one, which has nothing left to say
        assert (last.code, "test has no answer" in last.stderr) == (1, True)
        for name, server in servers.items():
            for request in server.requests:
                key = f"sk-0123456789-{name}"
                given = request.headers.get("authorization", "") + request.headers.get("x-api-key", "")
                assert given + request.headers.get("api-key", "") in (key, f"Bearer {key}")
        *others, final = servers.values()
        for server in others:
            server.assert_script_used()
        assert [json.loads(request.body)["model"] for request in final.requests][-1:] == ["m"]
