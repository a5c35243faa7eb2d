"""What `/api/config` shows: the settings in force, what the next session gets, and what each container has (R-142)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odek import __version__
from odek.app.effective_config import effective_config
from odek.app.isolation import decide_sandbox
from odek.sandbox.container.facts import ContainerFacts
from odek.text import visible
from odek.web.place import Serving
from odek.web.session import LiveSession


def planned(serving: Serving) -> dict[str, object]:
    """Return what `config_view` will show in the next session; the container has no name yet."""
    settings = serving.config.settings
    decision = decide_sandbox(serving.profile, settings)
    because = "" if serving.sandboxes else decision.origin
    shown = effective_config(
        settings, decision, serving.expected, on_host_because=because, servers=serving.server_states
    )
    sandbox = shown["sandbox"]
    assert isinstance(sandbox, dict)
    return {**shown, "sandbox": {**sandbox, "container": None}}


def of_server(serving: Serving, live: Sequence[LiveSession], *, grant: str) -> dict[str, object]:
    """Return the settings of the server, and its containers."""
    settings, sandboxes = serving.config.settings, serving.sandboxes
    shown = planned(serving)
    sandbox = shown.pop("sandbox")
    assert isinstance(sandbox, dict)
    refusal = sandboxes.refusal if sandboxes else None
    serve = settings.serve
    return {
        "version": __version__,
        "cwd": visible(serving.runtime.host.cwd),
        "serve": {
            "addr": serve.addr,
            "hosts": list(serve.hosts),
            "max_sandboxes": serve.max_sandboxes,
            "idle_seconds": serve.idle_seconds,
            "approval_seconds": serve.approval_seconds,
        },
        **shown,
        "planned": {**sandbox, "attached": attached(serving.expected)},
        "containers": [entry for session in live if (entry := _container(session)) is not None],
        "grant": {"asked": grant != "none", "how": grant},
        "refusal": refusal and {"code": "changed", "message": refusal.message, "hint": refusal.hint},
    }


def attached(facts: ContainerFacts | None) -> list[dict[str, object]]:
    """Return the attached networks with all that is known of them."""
    return [
        {
            "name": network.name,
            "id": network.id,
            "internal": network.internal,
            "compose_project": network.compose_project or None,
        }
        for network in (facts.networks if facts else ())
    ]


def _container(session: LiveSession) -> Mapping[str, object] | None:
    applied, facts = session.applied(), session.facts
    if applied is None or facts is None:
        return None
    sandbox = applied["sandbox"]
    assert isinstance(sandbox, dict)
    return {"session": session.id, "id": facts.id, **sandbox, "attached": attached(facts)}
