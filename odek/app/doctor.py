"""odek sandbox doctor: is this machine fit for the sandbox, and what to fix if not. One pure function a check.

Every check ends in ok, warn or fail, with what was seen and one thing to do. It starts a real
sandbox in the end, because nothing else proves that one can be had.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from odek.errors import OdekError
from odek.process import Completed
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.docker import docker_output
from odek.sandbox.engine import Engine, EngineRequirements, check_engine, limits_hint
from odek.sandbox.seccomp import filter_of, takes_own_profile
from odek.text import visible

Verdict = Literal["ok", "warn", "fail"]
OLDEST_ENGINE = (20, 10)  # D-13
OLDEST_PODMAN = (4, 3)  # of the answers that podman.py knows

CLIENT_ARGV = ("version", "--format", "{{.Client.Version}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding."""

    name: str
    verdict: Verdict
    seen: str
    fix: str = ""
    """what to do; "" when there is nothing"""


def check_client_settings(path: str, real: str) -> Check:
    """Return the finding about the settings of Docker's client at `path`; `real` is where a link leads, or ""."""
    if not real:
        return Check(name="client settings", verdict="ok", seen=visible(path))
    return Check(
        name="client settings",
        verdict="warn",
        seen=f"{visible(path)} is a link to {visible(real)}; odek takes no plugins from there, but `docker` "
        "itself runs what that file names",
        fix="keep them outside of every project in which an agent works",
    )


def check_client(executable: str | None, path: str) -> Check:
    """Return whether a docker client was found, and where it was looked for."""
    if executable:
        return Check(name="client", verdict="ok", seen=executable)
    return Check(
        name="client",
        verdict="fail",
        seen=f"no docker on PATH ({visible(path)}); folders inside the working directory do not count",
        fix="install Docker; on Debian: apt-get install docker.io",
    )


def check_versions(client: str, server: str, engine: Engine) -> Check:
    """Return whether client and engine are new enough."""
    oldest = OLDEST_PODMAN if engine.podman else OLDEST_ENGINE
    seen = f"client {visible(client)}, engine {visible(server)}"
    old = [who for who, version in (("client", client), ("engine", server)) if _version(version) < oldest]
    if old:
        return Check(
            name="versions",
            verdict="fail",
            seen=seen,
            fix=f"update the {' and the '.join(old)} to {'.'.join(map(str, oldest))} or newer",
        )
    return Check(name="versions", verdict="ok", seen=seen)


def check_security(info: Mapping[str, Any]) -> Check:
    """Return whether the engine filters system calls."""
    options = [str(option) for option in info.get("SecurityOptions") or []]
    seen = ", ".join(visible(option) for option in options) or "none reported"
    name = filter_of(info)
    if name is None:
        return Check(
            name="security",
            verdict="fail",
            seen=seen,
            fix="without a seccomp filter containers may use every system call; use a kernel and engine with it",
        )
    if takes_own_profile(info):
        return Check(name="security", verdict="ok", seen=f"{seen}; odek puts its own seccomp profile in place of it")
    return Check(name="security", verdict="ok", seen=f"{seen}; the engine's seccomp profile stays in force")


def check_engine_kind(engine: Engine) -> Check:
    """Return whether a sandbox can be had of this kind of engine, and whose its files are."""
    try:
        check_engine(engine, EngineRequirements())
    except OdekError as error:
        return Check(name="engine", verdict="fail", seen=error.message, fix=error.hint)
    kind = "podman" if engine.podman else "Docker"
    whose = "rootless: uid 0 in the container is who runs it, and commands get that uid" if engine.rootless else (
        "the uid in the container is the one of this machine"
    )  # fmt: skip
    return Check(name="engine", verdict="ok", seen=f"{kind}, {whose}")


def check_limits(info: Mapping[str, Any], engine: Engine) -> Check:
    """Return whether the engine can enforce the limits; that on processes is always asked for."""
    seen = f"control groups v{visible(str(info.get('CgroupVersion', '?')))}"
    if engine.unenforced:
        return Check(
            name="limits",
            verdict="fail" if "sandbox_pids_limit" in engine.unenforced else "warn",
            seen=f"{seen}; not enforced: {', '.join(engine.unenforced)}",
            fix=f"a run that asks for such a limit is refused; {limits_hint(engine)}",
        )
    swap = "" if info.get("SwapLimit") is not False else "; swap counts for itself"
    return Check(name="limits", verdict="ok", seen=f"{seen}: processes, memory, CPUs{swap}")


def check_place(env: Mapping[str, str], info: Mapping[str, Any]) -> Check:
    """Return where the daemon runs, as far as its address tells."""
    host = env.get("DOCKER_HOST", "")
    name = visible(str(info.get("Name", "?")))
    if host and not host.startswith("unix://"):
        return Check(
            name="daemon",
            verdict="warn",
            seen=f"{name}, reached by DOCKER_HOST={visible(host)}",
            fix="a daemon elsewhere does not see your files; a run proves it with a file and stops if so",
        )
    return Check(name="daemon", verdict="ok", seen=f"{name}{f', DOCKER_HOST={visible(host)}' if host else ''}")


def check_leftovers(names: tuple[str, ...]) -> Check:
    """Return whether dead odeks left containers behind."""
    if not names:
        return Check(name="leftovers", verdict="ok", seen="none")
    return Check(name="leftovers", verdict="warn", seen=", ".join(names), fix="odek sandbox prune")


def check_sandbox(facts: ContainerFacts) -> Check:
    """Return what a real sandbox turned out to be."""
    seen = f"started and verified: image {visible(facts.image)}, user {facts.user}, HOME {visible(facts.home)}"
    if not facts.workspace_writable and not facts.readonly:
        owner = f"; it belongs to {facts.workspace_owner}" if facts.workspace_owner else ""
        as_owner = f"--sandbox-user {facts.workspace_owner} runs the commands as its owner; or " if owner else ""
        uid = facts.user.partition(":")[0]
        return Check(
            name="sandbox",
            verdict="warn",
            seen=f"{seen}; the working directory cannot be written{owner}",
            fix=f"{as_owner}let uid {uid} write it, or use --sandbox-readonly",
        )
    return Check(name="sandbox", verdict="ok", seen=seen)


def check_to_json(check: Check) -> dict[str, str]:
    """Return one finding as JSON; "mend" is what to do."""
    return {"name": check.name, "verdict": check.verdict, "seen": check.seen, "mend": check.fix}


def failed_call(name: str, done: Completed, fix: str) -> Check:
    """Return the finding for a docker call that did not do what it should."""
    return Check(name=name, verdict="fail", seen=docker_output(done).replace("\n", "; ") or "no answer", fix=fix)


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)
