"""The settings actually applied to a session, for the model and for the user (R-19).

What the container really has comes from its facts, not from what was asked for; a value of a secret
or of `sandbox_env` is never in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from odek.app.config import Config
from odek.app.isolation import CommandProfile, SandboxDecision, decide_sandbox
from odek.app.project_approval import approval_request
from odek.app.sandbox_image import default_image
from odek.app.sandbox_request import limits_of
from odek.approval.store import ApprovalStore
from odek.config.settings import Settings
from odek.config.view import view
from odek.errors import OdekError
from odek.host import Host
from odek.operator_home import CONFIG_VARIABLE, VARIABLE
from odek.sandbox.build import context
from odek.sandbox.build.dockerfile import NAME, REPOSITORY
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.network.plan import NetworkPlan
from odek.state import StateFolder

_RUN = CommandProfile(command="run")
_NETWORK_KEYS = frozenset(("sandbox_networks", "sandbox_compose_project"))


def settings_of_a_run(config: Config, host: Host) -> dict[str, dict[str, object]]:
    """Return `view` with what `odek run` here would apply where nothing is set, Docker not asked.

    "pending" is true for what the project asks and the operator has not approved; of networks that
    cannot be known here: an approval binds the IDs that they have when a run begins.
    """
    settings = config.settings
    shown = {**dict(_operator_files(host)), **view(settings)}
    for key, value, origin in _unset(settings, host):
        shown[key] |= {"value": value, "origin": origin}
    decision = decide_sandbox(_RUN, settings)
    decider = "no_sandbox" if decision.origin == "ODEK_NO_SANDBOX" else "sandbox"
    shown["sandbox"] = {**shown[decider], "value": decision.sandboxed, "origin": decision.origin}
    for key in _pending(config, host):
        shown[key]["pending"] = True
    if settings.mcp_servers and not settings.approve_mcp:
        from odek.app.mcp_approval import are_approved  # few have any

        if not are_approved(settings.mcp_servers, host):
            shown["mcp_servers"]["pending"] = True
    return shown


def _operator_files(host: Host) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield where the operator's files are, and which variable says so; no other source can."""
    home = host.operator_home
    by = {"source": "environment", "origin": VARIABLE} if home.is_named else {"source": "default", "origin": "HOME"}
    yield "odek_home", {"value": home.folder or None, **by}
    if home.config_file:
        by = {"source": "environment", "origin": CONFIG_VARIABLE}
    yield "odek_config", {"value": home.config_file or (home.path("config.json") if home.folder else None), **by}


def _unset(settings: Settings, host: Host) -> Iterator[tuple[str, object, str]]:
    """Yield key, value and origin of what is worked out where no layer says it."""
    if not settings.sandbox.image:
        yield "sandbox_image", *_own_image(host)
    if not settings.sandbox.user:
        yield "sandbox_user", f"{host.uid}:{host.gid}", "who started odek"
    if settings.sandbox.memory and not settings.was_set("sandbox_tmp_size"):
        yield "sandbox_tmp_size", str(limits_of(settings).tmp_bytes), "half of sandbox_memory, or 1g"


def _own_image(host: Host) -> tuple[str, str]:
    try:
        dockerfile = context.read_dockerfile(host.cwd)
    except OdekError as error:  # a run stops for it, and says the rest
        return f"cannot be built: {error.message}", f"./{NAME}"
    return (default_image(), "the pinned default") if dockerfile is None else (dockerfile.tag, f"./{NAME}")


def _pending(config: Config, host: Host) -> Sequence[str]:
    settings, overrides = config.settings, config.overrides
    keys = [override.key for override in overrides]
    if not keys or settings.approve_project_sandbox:
        return ()
    if not _NETWORK_KEYS.intersection(keys):
        try:
            dockerfile = None if settings.sandbox.image else context.read_dockerfile(host.cwd)
            request = approval_request(overrides, NetworkPlan(mode="none"), host, dockerfile)
            if ApprovalStore(StateFolder(host.operator_home)).holds(request):
                return ()
        except OdekError:  # approvals that cannot be trusted approve nothing
            pass
    return keys


def effective_config(
    settings: Settings,
    decision: SandboxDecision,
    facts: ContainerFacts | None,
    *,
    on_host_because: str = "",
    servers: Sequence[Mapping[str, object]] = (),
) -> dict[str, object]:
    """Return one JSON object; `facts` is None when commands run on the host, which has the reason `on_host_because`.

    `servers` are the MCP servers, as ToolServers.states has them.

    `source` holds for every setting who set it: default, global, project, environment or flag.
    """
    shown = view(settings)
    if facts is not None and not settings.sandbox.image and facts.image.startswith(f"{REPOSITORY}:"):
        shown["sandbox_image"]["source"] = "project"  # it is built from ./Dockerfile.odek
    place = {"place": "host" if facts is None else "sandbox", "reason": on_host_because or None}
    named = ("model", "api_key", "max_iterations", "interaction_mode", "dangerous")
    return {
        **{key: shown[key]["value"] for key in named},
        "base_url": _host_of(settings.model.base_url),
        "tools": {"enabled": shown["tools.enabled"]["value"], "disabled": list(settings.withheld_tools)},
        "sandbox": {
            "enabled": facts is not None,
            "explicit": decision.explicit,
            **place,
            **_container(settings, facts),
        },
        "mcp_servers": list(servers),
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
        "memory": sandbox.memory.text if sandbox.memory else None,
        "cpus": sandbox.cpus.text if sandbox.cpus else None,
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
