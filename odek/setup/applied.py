"""The settings actually applied to a session, for the model and for whoever looks at one (R-19). Pure.

What the container really has comes from its facts, not from what was asked for; a value of a secret
or of `sandbox_env` is never in it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from odek.config.settings import Settings
from odek.config.view import view
from odek.isolation import Intent
from odek.sandbox.facts import ContainerFacts
from odek.setup.toolnames import disabled_tools


def applied_settings(settings: Settings, intent: Intent, facts: ContainerFacts | None) -> dict[str, object]:
    """Return one JSON object; `facts` is None when commands run on the host.

    `source` holds for every setting who set it: default, global, project, environment or flag.
    """
    shown = view(settings)
    named = ("model", "api_key", "max_iterations", "interaction_mode", "dangerous")
    return {
        **{key: shown[key]["value"] for key in named},
        "base_url": _host_of(settings.model.base_url),
        "tools": {"enabled": shown["tools.enabled"]["value"], "disabled": list(disabled_tools(settings))},
        "sandbox": {"enabled": facts is not None, "explicit": intent.explicit, **_container(settings, facts)},
        "source": {key: entry["source"] for key, entry in shown.items()},
    }


def _container(settings: Settings, facts: ContainerFacts | None) -> dict[str, object]:
    if facts is None:
        return {"container": None, "network": None}
    sandbox = settings.sandbox
    return {
        "container": facts.name,
        "network": facts.network,
        "internet": facts.internet,
        "networks": [network.name for network in facts.networks],
        "image": facts.image,
        "image_id": facts.image_id,
        "pids_limit": facts.pids_limit,
        "memory": sandbox.memory or None,
        "cpus": sandbox.cpus or None,
        "tmp_bytes": facts.tmp_bytes,
        "readonly": facts.readonly,
        "user": facts.user,
        "home": None if "HOME" in dict(sandbox.env) else facts.home,
        "env_keys": [name for name, _ in sandbox.env],
        "volumes": list(sandbox.volumes),
    }


def _host_of(url: str) -> str:
    """Return the host and port of `url`: neither a password nor a path that may hold a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    return "replay" if parts.scheme == "replay" else parts.netloc.rpartition("@")[2]
