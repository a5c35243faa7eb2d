"""odek sandbox doctor: is this machine fit for the sandbox, and what to mend if not. Judges pure, one function a check.

Every check ends in ok, warn or fail, with what was seen and one thing to do. It starts a real
sandbox in the end, because nothing else proves that one can be had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from odek.process import Completed
from odek.sandbox.docker import quote
from odek.sandbox.facts import ContainerFacts
from odek.text import visible

Verdict = Literal["ok", "warn", "fail"]
OLDEST_ENGINE = (20, 10)  # D-13

INFO_ARGV = ("info", "--format", "{{json .}}")
CLIENT_ARGV = ("version", "--format", "{{.Client.Version}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding."""

    name: str
    verdict: Verdict
    seen: str
    mend: str = ""
    """what to do; "" when there is nothing"""


def judge_client(executable: str | None, path: str) -> Check:
    """Return whether a docker client was found, and where it was looked for."""
    if executable:
        return Check(name="client", verdict="ok", seen=executable)
    return Check(
        name="client",
        verdict="fail",
        seen=f"no docker on PATH ({visible(path)}); folders inside the working directory do not count",
        mend="install Docker; on Debian: apt-get install docker.io",
    )


def judge_versions(client: str, server: str) -> Check:
    """Return whether client and engine are new enough."""
    seen = f"client {visible(client)}, engine {visible(server)}"
    old = [who for who, version in (("client", client), ("engine", server)) if _version(version) < OLDEST_ENGINE]
    if old:
        return Check(
            name="versions", verdict="fail", seen=seen, mend=f"update the {' and the '.join(old)} to 20.10 or newer"
        )
    return Check(name="versions", verdict="ok", seen=seen)


def read_info(done: Completed) -> Mapping[str, Any]:
    """Return what `docker info` says, {} when it says nothing that can be read."""
    try:
        value = json.loads(done.stdout.data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def judge_security(info: Mapping[str, Any]) -> Check:
    """Return whether the engine filters system calls."""
    options = [str(option) for option in info.get("SecurityOptions") or []]
    seen = ", ".join(visible(option) for option in options) or "none reported"
    if not any("name=seccomp" in option or option == "seccomp" for option in options):
        return Check(
            name="security",
            verdict="warn",
            seen=seen,
            mend="without a seccomp filter containers may use every system call; use a kernel and engine with it",
        )
    return Check(name="security", verdict="ok", seen=seen)


def judge_identity(info: Mapping[str, Any]) -> Check:
    """Return whether users in the container are those of this machine."""
    options = " ".join(map(str, info.get("SecurityOptions") or []))
    for sign, what in (("rootless", "a rootless engine"), ("name=userns", "an engine with remapped users")):
        if sign in options:
            return Check(
                name="users",
                verdict="warn",
                seen=f"{what}: your uid in the container is another one on this machine",
                mend="if files cannot be written, set sandbox_user to 0:0, which is you in such an engine",
            )
    return Check(name="users", verdict="ok", seen="the uid in the container is the one of this machine")


def judge_limits(info: Mapping[str, Any]) -> Check:
    """Return whether the engine can enforce the limits."""
    missing = [
        name
        for name, key in (
            ("memory", "MemoryLimit"),
            ("swap", "SwapLimit"),
            ("cpus", "CpuCfsQuota"),
            ("pids", "PidsLimit"),
        )
        if info.get(key) is False
    ]
    version = visible(str(info.get("CgroupVersion", "?")))
    if missing:
        return Check(
            name="limits",
            verdict="warn",
            seen=f"control groups v{version}; not enforced: {', '.join(missing)}",
            mend="a run that asks for such a limit will be refused; enable the controller in the kernel",
        )
    return Check(name="limits", verdict="ok", seen=f"control groups v{version}: memory, swap, cpus, pids")


def judge_place(env: Mapping[str, str], info: Mapping[str, Any]) -> Check:
    """Return where the daemon runs, as far as its address tells."""
    host = env.get("DOCKER_HOST", "")
    name = visible(str(info.get("Name", "?")))
    if host and not host.startswith("unix://"):
        return Check(
            name="daemon",
            verdict="warn",
            seen=f"{name}, reached by DOCKER_HOST={visible(host)}",
            mend="a daemon elsewhere does not see your files; a run proves it with a file and stops if so",
        )
    return Check(name="daemon", verdict="ok", seen=f"{name}{f', DOCKER_HOST={visible(host)}' if host else ''}")


def judge_leftovers(names: tuple[str, ...]) -> Check:
    """Return whether dead odeks left containers behind."""
    if not names:
        return Check(name="leftovers", verdict="ok", seen="none")
    return Check(name="leftovers", verdict="warn", seen=", ".join(names), mend="odek sandbox prune")


def judge_sandbox(facts: ContainerFacts) -> Check:
    """Return what a real sandbox turned out to be."""
    seen = f"started and verified: image {visible(facts.image)}, user {facts.user}, HOME {visible(facts.home)}"
    if not facts.workspace_writable and not facts.readonly:
        return Check(
            name="sandbox",
            verdict="warn",
            seen=f"{seen}; the working directory cannot be written",
            mend=f"let uid {facts.user} write it, or use --sandbox-readonly or another --sandbox-user",
        )
    return Check(name="sandbox", verdict="ok", seen=seen)


def render_checks(checks: tuple[Check, ...], style: Callable[..., str]) -> str:
    """Return the findings for people; `style(text, color)` colours a word."""
    colors = {"ok": "green", "warn": "yellow", "fail": "red"}
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{style(f'{check.verdict:<4}', colors[check.verdict])}  {check.name:<{width}}  {check.seen}")
        if check.mend:
            lines.append(f"{'':<{width + 8}}→ {check.mend}")
    return "\n".join(lines)


def failed_call(name: str, done: Completed, mend: str) -> Check:
    """Return the finding for a docker call that did not do what it should."""
    return Check(name=name, verdict="fail", seen=quote(done).replace("\n", "; ") or "no answer", mend=mend)


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)
