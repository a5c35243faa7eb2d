"""Is the container that was started the one that was asked for? Looked at from outside and from inside (R-37).

From outside `inspect` tells what the engine has made of the options; from inside a command of the
right user tells what it sees. What that command wrote tells whose its files are on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from odek.process import Completed
from odek.sandbox import scripts
from odek.sandbox.argv import exec_argv, inspect_argv
from odek.sandbox.docker import Docker, call, quote, read_array
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.facts import ContainerFacts
from odek.sandbox.folderowner import is_closed_to, other_owner
from odek.sandbox.mountproof import MountsOf, exchanged_error, prove_mounts
from odek.sandbox.mounts import is_inside
from odek.sandbox.networks import service_names
from odek.sandbox.noncefile import NonceFile, require_known_owner
from odek.sandbox.podman import docker_inspect
from odek.sandbox.services import ServiceNames
from odek.sandbox.spec import WORKSPACE, Mount, SandboxSpec
from odek.sandbox.verify import mismatches
from odek.text import visible

_SPARE_HOME = "/dev/shm"


def prove(
    spec: SandboxSpec,
    name: str,
    marker: NonceFile,
    docker: Docker,
    *,
    nonce: str,
    notify: Callable[[str], None],
    mounts_of: MountsOf,
) -> ContainerFacts:
    """Return what is true of the container `name`. Raises SandboxConfigError when it is not the one asked for.

    `nonce` is the one of the start that made it; `notify` takes a sentence for the user. What is told from
    outside comes first: no program of the image runs as the user's before the mounts are the right ones.
    """
    with ExitStack() as cleanup:
        cleanup.callback(marker.remove)
        marker.make()
        inspected = read_inspect(call(docker, *inspect_argv(name)))
        _require_match(spec, docker_inspect(inspected) if spec.engine.podman else inspected, nonce)
        left = prove_mounts(spec, marker.folder, inspected, cleanup, mounts_of=mounts_of, mark=marker.nonce)
        arguments = (marker.name, marker.inode, *(text for volume in left for text in volume))
        asking = exec_argv(name, user=spec.user, script=scripts.CHECK, args=arguments)
        checked = call(docker, *asking, stdin=f"{spec.home}\n#{marker.name}".encode("utf-8", "surrogateescape"))
    observed = _read_check(checked)
    _require_open(spec, observed, checked, marker)
    _require_working(spec, observed, checked, volumes=spec.volumes if left else ())
    require_known_owner(marker.owners, observed.get("uid", ""))
    services = service_names(spec.plan, str(inspected.get("Id", "")), docker)
    for note in services.notes:
        notify(note)
    return _facts(spec, inspected, observed, services, notify, marker)


def read_inspect(done: Completed) -> dict[str, Any]:
    """Return the one container that an `inspect` shows. Raises SandboxConfigError."""
    value = read_array(done)
    if done.code == 0 and value is not None and len(value) == 1:
        return value[0]
    raise SandboxConfigError(
        "Docker does not tell the state of the container it has just started",
        hint="the image may have ended at once; `docker events` shows what happens",
        detail=quote(done),
    )


def _read_check(done: Completed) -> dict[str, str]:
    pairs = (line.partition("=") for line in done.stdout.text.splitlines())
    return {key: value for key, equals, value in pairs if equals}


def _require_match(spec: SandboxSpec, inspected: dict[str, Any], nonce: str) -> None:
    wrong = mismatches(inspected, spec, nonce=nonce)
    if wrong:
        raise SandboxConfigError(
            "the sandbox that Docker started is not the one that was asked for",
            hint="this engine does not enforce a setting; change the setting or the engine",
            detail="\n".join(visible(line) for line in wrong),
        )


def _require_open(spec: SandboxSpec, observed: dict[str, str], checked: Completed, marker: NonceFile) -> None:
    """Refuse a folder that is another user's alone: commands could not even enter it (A20)."""
    if marker.status is None or (checked.code == scripts.CHECKED and observed.get("nonce") == "seen"):
        return
    user = f"{observed['uid']}:{observed.get('gid', '')}" if "uid" in observed else spec.user
    if is_closed_to(marker.status, user, spec.engine):
        owner = other_owner(marker.status, user, spec.engine)
        raise SandboxConfigError(
            f'"{visible(spec.workdir)}" belongs to {marker.status.st_uid}:{marker.status.st_gid}, and is closed to the '
            f"sandbox user {visible(user)}",
            hint=f"--sandbox-user {owner} runs the commands as its owner"
            if owner
            else "open the folder to that user, or choose another one with sandbox_user",
            detail=quote(checked) if checked.code != scripts.CHECKED else "",
        )


def _require_working(
    spec: SandboxSpec, observed: dict[str, str], checked: Completed, *, volumes: tuple[Mount, ...]
) -> None:
    if checked.code != scripts.CHECKED:
        if "missing" in observed:
            raise SandboxConfigError(
                f'image "{visible(spec.image)}" has no `{visible(observed["missing"])}`',
                hint="use an image with the usual shell programs",
            )
        if "broken" in observed:
            raise SandboxConfigError(
                f'`{visible(observed["broken"])}` of image "{visible(spec.image)}" does not print what it is given',
                hint="use an image whose usual shell programs work",
                detail=quote(checked),
            )
        raise SandboxConfigError(
            f'commands cannot run in image "{visible(spec.image)}" as user "{visible(spec.user)}"',
            hint="the user must exist in the image when given by name, and /workspace must be open to it",
            detail=quote(checked),
        )
    if observed.get("uid") == spec.helper_user.partition(":")[0]:
        raise SandboxConfigError(
            f'user "{visible(spec.user)}" of image "{visible(spec.image)}" is the one that odek\'s own processes need',
            hint="choose another user for the commands with sandbox_user, by number",
        )
    if observed.get("nonce") != "seen":
        raise unseen_error(spec)
    for number, volume in enumerate(volumes, start=1):
        if observed.get(f"volume{number}") != "same":
            raise exchanged_error(volume)


def unseen_error(spec: SandboxSpec) -> SandboxConfigError:
    """Return the refusal of a daemon that has other files than odek: elsewhere, or around odek's own container."""
    return SandboxConfigError(
        f'the Docker daemon does not see "{visible(spec.workdir)}": on its machine it is another folder, or none',
        hint="use a daemon that shares this file system (DOCKER_HOST, `docker context ls`); from within a container, "
        "the folder must have the same path outside",
    )


def _facts(
    spec: SandboxSpec,
    inspected: dict[str, Any],
    observed: dict[str, str],
    services: ServiceNames,
    notify: Callable[[str], None],
    marker: NonceFile,
) -> ContainerFacts:
    home = spec.home
    if observed.get("home") != "writable":
        if observed.get("spare") != "writable":
            raise SandboxConfigError(
                f'HOME "{visible(home)}" of image "{visible(spec.image)}" is not open to user "{visible(spec.user)}"',
                hint="give the sandbox a HOME that is, with sandbox_env, or another sandbox_user",
            )
        why = _why_no_home(spec, observed.get("nohome", ""))
        notify(f"HOME {visible(home)} {why}; commands get HOME={_SPARE_HOME}")
        home = _SPARE_HOME
    writable = observed.get("workspace") == "writable"
    user = f"{observed.get('uid', '?')}:{observed.get('gid', '?')}"
    if not writable and not spec.readonly:
        notify(
            f"the working directory is not writable for the sandbox user {user}: commands can only read it"
            + _as_owner(marker, user, spec)
        )
    return ContainerFacts(
        name=str(inspected.get("Name", "")).removeprefix("/"),
        id=str(inspected.get("Id", "")),
        image=spec.image,
        image_id=spec.image_id,
        user=user,
        home=home,
        network=spec.plan.label,
        internet=_reaches_internet(spec, observed, notify),
        networks=spec.attached,
        service_names=services.names,
        shared_names=services.shared,
        pids_limit=spec.limits.pids,
        tmp_bytes=spec.limits.tmp_bytes,
        readonly=spec.readonly,
        left_out=spec.left_out,
        git_outside=spec.git_outside,
        workspace_writable=writable,
        started_at=_started_at(inspected),
        init_start=_init_start(observed),
    )


def _why_no_home(spec: SandboxSpec, seen: str) -> str:
    """Return why the HOME that was asked for cannot be kept; `seen` is what CHECK found in its place (A18). Pure."""
    if spec.readonly and is_inside(spec.home, WORKSPACE):
        return "lies in the working directory, which is read-only"
    if seen == "file":
        return "is not a folder"
    if seen == "missing" and any(is_inside(spec.home, folder) for folder in ("/tmp", _SPARE_HOME, WORKSPACE)):
        return f"could not be made by user {visible(spec.user)}"
    if seen == "missing":
        return f"is not in this image, and a folder is made for it only below /tmp, {_SPARE_HOME} and {WORKSPACE}"
    return "is not writable in this image"


def _as_owner(marker: NonceFile, user: str, spec: SandboxSpec) -> str:
    """Return who could write the folder: where odek can, too, and so can clear away what a start makes in it."""
    owner = other_owner(marker.status, user, spec.engine) if marker.status else ""
    if not owner or (marker.status and marker.owners[0] == marker.status.st_uid):  # the operator chose another user
        return ""
    return f"; --sandbox-user {owner} runs them as its owner" if not marker.inode else f"; it belongs to {owner}"


def _started_at(inspected: dict[str, Any]) -> str:
    state = inspected.get("State")
    return str(state.get("StartedAt") or "") if isinstance(state, dict) else ""


def _init_start(observed: dict[str, str]) -> str:
    """Return field 22 of proc(5)'s stat; what is printed begins with field 3."""
    fields = observed.get("init", "").split()
    return fields[19] if len(fields) > 19 and fields[19].isdecimal() else ""


def _reaches_internet(spec: SandboxSpec, observed: dict[str, str], notify: Callable[[str], None]) -> bool:
    """Return whether the internet counts as reachable: by what was asked for, or by what was seen inside."""
    if spec.plan.internet or "ipv6" not in observed:
        return spec.plan.internet
    notify(
        "a network that is internal has a way out by IPv6 in the sandbox, which this engine may not filter: commands "
        "that use the network are asked about"
    )
    return True
