"""From an image reference to the full ID that is run: inspect, else pull (run by ID: M-13)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odek.events import Notice, Sink
from odek.patterns import pattern
from odek.process import Completed
from odek.sandbox.argv import pull_argv
from odek.sandbox.docker import (
    OWN_FAILURES,
    PROBE_ARGV,
    Docker,
    describe_end,
    docker_output,
    find_image_argv,
    inspect,
    run_docker,
    run_long,
)
from odek.sandbox.errors import ImageUnavailable, SandboxConfigError, SandboxError, SandboxLost
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.volumes import read_volumes
from odek.text import visible

PULL_TIMEOUT_S = 900.0
# A pull that failed here and not at the registry. Docker's words are read only to refuse more.
_NOT_THE_REGISTRY = pattern(
    r"invalid reference format|invalid repository name|reserved name|repository name must"
    r"|no space left on device|read-only file system|input/output error|disk quota exceeded"
    r"|failed to (?:register|extract) layer|error processing tar|failed to prepare extraction"
    r"|fail\w* verification|verification failed|unexpected commit digest|wrong diff id|does not match digest",
    re.IGNORECASE,
)
# The client's own words for a daemon that it could not ask, or that went away in between; behind "Error
# response from daemon" they are the daemon's, of its registry.
_NOT_ASKED = pattern(
    r"\A(?!.*Error response from daemon).*(?:Cannot connect to the Docker daemon|failed to connect to the docker API"
    r"|error during connect|permission denied while trying to connect|unexpected EOF|Cannot connect to Podman"
    r"|unable to connect to Podman)",
    re.DOTALL | re.IGNORECASE,
)
_ABSENT = pattern(
    r"no such (?:image|object)|image not known|reference does not exist|does not provide the (?:specified )?platform",
    re.IGNORECASE,
)
"""how Docker and podman say that an image is not there, or not for this machine"""
_NO_SUCH_PLATFORM = pattern(
    r"no matching manifest for (?P<docker>\S+)|no match for platform in manifest"
    r"|image operating system \"?(?P<system>\w+)"
    r"|no image found in (?:manifest list|image index) for architecture \"?(?P<podman>\w+)"
    r"|does not provide the (?:specified )?platform \(?(?P<store>[\w/]+)",
    re.IGNORECASE,
)
"""how Docker, its containerd store and podman say that a registry has the image, but not for this machine"""
OTHER_PROCESSOR = pattern(r"exec format error", re.IGNORECASE)
"""what runc, crun and shells say of a program for another processor"""
_ID = pattern(r"(?:sha256:)?([0-9a-f]{64})")
_FOUND = pattern(rf"{_ID.pattern}(?: (null|\{{.*\}}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """A local image that can be run."""

    id: str
    """"sha256:" and 64 hex digits"""
    volumes: tuple[str, ...] = ()
    """absolute, sorted: where it declares volumes"""


HIDDEN_TRIGGERS = "?"
"""podman runs the ONBUILD instructions of an image in Docker's format, and `inspect` does not show them (M-28)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """A local image."""

    id: str
    """"sha256:" and 64 hex digits"""
    labels: Mapping[str, str] = field(default_factory=dict)
    triggers: tuple[str, ...] = ()
    """its ONBUILD instructions; HIDDEN_TRIGGERS where there may be some"""
    architecture: str = ""
    """the processor that it is for, in Docker's words: amd64, arm/v7, …; "" where that is not known"""
    volumes: tuple[str, ...] = ()
    """absolute, sorted"""


def find_or_pull(
    choice: ImageChoice,
    docker: Docker,
    *,
    emit: Sink,
    clock: Callable[[], float] = time.monotonic,
) -> FoundImage:
    """Return the image, pulling it when it is not there.

    Raises ImageUnavailable when no registry gives it while the daemon answers; SandboxConfigError when
    it could never be pulled, or was and could not be kept; SandboxLost when the daemon went away
    meanwhile, which is never read as "no daemon" (D-11).
    """
    return look_up_choice(choice, docker) or pull_image(choice, docker, emit=emit, clock=clock)


def require_pullable(choice: ImageChoice) -> None:
    """Refuse an image that is not here and that no registry could give. Pure. Raises SandboxConfigError."""
    if choice.is_id:  # nothing that another day would change
        raise SandboxConfigError(
            f'no local image has the ID "{choice.ref}" ({choice.origin})',
            hint="an image named by its ID is never pulled: bring it with `odek sandbox image load FILE --id ID`",
        )


def pull_image(
    choice: ImageChoice,
    docker: Docker,
    *,
    emit: Sink,
    clock: Callable[[], float] = time.monotonic,
) -> FoundImage:
    """Pull an image that is not here and return it. Raises as `find_or_pull` does."""
    require_pullable(choice)
    doing = f"pulling image {visible(choice.ref)}"
    emit(Notice(doing))
    pulled = run_long(docker, *pull_argv(choice.ref), doing=doing, emit=emit, timeout_s=PULL_TIMEOUT_S, clock=clock)
    if pulled.code != 0 or pulled.timed_out:
        raise _pull_error(choice, pulled, docker)
    found = look_up(choice.ref, docker)
    if found is None:
        raise SandboxConfigError(
            f'Docker pulled "{visible(choice.ref)}" but does not find it ({choice.origin})',
            hint=f"check `docker image inspect {visible(choice.ref)}`",
        )
    return found


def resolve_image(choice: ImageChoice, docker: Docker) -> str:
    """Return the ID of what `look_up_choice` finds, or "" when there is none."""
    found = look_up_choice(choice, docker)
    return found.id if found else ""


def look_up_choice(choice: ImageChoice, docker: Docker) -> FoundImage | None:
    """Return the local image that `choice` stands for, or None when there is none.

    Where the reference is not known, as after `docker load`, only an image of one of the IDs that
    are the same content for the daemon's processor counts; a name never does (D-12).
    """
    found = look_up(choice.ref, docker)
    if found or not choice.local_ids:
        return found
    machine = daemon_machine(docker)
    ids = (image_id for architecture, image_id in choice.local_ids if architecture in ("", machine))
    images = ((image_id, look_up(image_id, docker)) for image_id in ids)
    return next((image for image_id, image in images if image and image.id == image_id), None)


def daemon_machine(docker: Docker) -> str:
    """Return the processor of the daemon in Docker's words: amd64, arm64, …; "" where it does not tell."""
    for asked in (".Server.Arch", ".Server.OsArch"):  # podman's: linux/amd64
        answer = run_docker(docker, "version", "--format", f"{{{{{asked}}}}}")
        if answer.code == 0:
            return answer.stdout.text.strip().rpartition("/")[2]
    return ""


def find_image(ref: str, docker: Docker) -> str:
    """Return the ID of what `look_up` finds, or "" when there is none."""
    found = look_up(ref, docker)
    return found.id if found else ""


def look_up(ref: str, docker: Docker) -> FoundImage | None:
    """Return a local image, or None when there is none; nothing is pulled.

    Only Docker's word that there is none counts as that: what is not known to be missing may be here, and a
    pull that fails then would lead to the host. Raises SandboxConfigError when it says neither, and
    SandboxLost when it does not answer in time.
    """
    done = run_docker(docker, *find_image_argv(ref))
    if done.timed_out:
        raise SandboxLost(
            "the Docker daemon stopped answering while an image was looked up",
            hint="restart Docker; `docker version` must print a server version",
        )
    # the last line: a client may chatter before it (B25)
    found = _read_found(done.stdout.text.strip().rpartition("\n")[2]) if done.code == 0 else None
    if found is not None:
        return found
    if done.code in OWN_FAILURES and _ABSENT.search(done.stderr.text):
        return None
    raise SandboxConfigError(
        f'Docker does not say whether it has the image "{visible(ref)}" ({describe_end(done)})',
        hint=f"try again; `docker image inspect {visible(ref)}` shows what it says",
        detail=docker_output(done),
    )


def _read_found(line: str) -> FoundImage | None:
    """Return what a line of `find_image_argv` tells, None when it is not such a line."""
    match = _FOUND.fullmatch(line)
    try:
        volumes = read_volumes(json.loads(match.group(2) or "null")) if match else ()
    except (ValueError, RecursionError, TypeError):
        return None
    return FoundImage(id=f"sha256:{match.group(1)}", volumes=volumes) if match else None


def inspect_image(ref: str, docker: Docker) -> ImageFacts | None:
    """Return what Docker says of a local image, or None when there is none that it can describe."""
    described: Any = inspect(docker, "image", ref).only or {}
    try:
        config: Any = described.get("Config") or {}
        match = _ID.fullmatch(described.get("Id", ""))
        labels = {str(key): str(value) for key, value in (config.get("Labels") or {}).items()}
        triggers = tuple(map(str, config.get("OnBuild") or ()))
        if not triggers and "docker" in str(described.get("ManifestType")):
            triggers = (HIDDEN_TRIGGERS,)
        architecture = "/".join(str(described[key]) for key in ("Architecture", "Variant") if described.get(key))
        volumes = read_volumes(config.get("Volumes"))
    except (ValueError, LookupError, TypeError, AttributeError):  # unreadable is as good as absent
        return None
    if not match:
        return None
    return ImageFacts(
        id=f"sha256:{match.group(1)}", labels=labels, triggers=triggers, architecture=architecture, volumes=volumes
    )


def explain_processor(images: Sequence[tuple[str, str]], docker: Docker) -> str:
    """Return a hint after "exec format error": which of `images`, (name, ID), is for which processor.

    Two more calls, for a failure only. The first image of another processor than the daemon's counts; what
    Docker does not tell is left out.
    """
    machine = daemon_machine(docker)
    architectures = [(name, facts.architecture) for name, id_ in images if (facts := inspect_image(id_, docker))]
    for name, architecture in architectures:
        if architecture and architecture.partition("/")[0] != machine:
            here = f"Docker's machine has {visible(machine)}" if machine else "Docker's machine has another one"
            return f'the image "{visible(name)}" is for {visible(architecture)}, {here}; choose one for it'
    named = ", ".join(f'"{visible(name)}" says {visible(architecture)}' for name, architecture in architectures)
    if not named or not machine:
        which = f" ({visible(machine)})" if machine else ""
        return f"the image is for another processor; choose one for that of Docker's machine{which}"
    return (
        f"{named}, which Docker's machine ({visible(machine)}) can run, but a program in it is for another processor; "
        "get or build the image again"
    )


def explain_platform(words: str) -> str:
    """Return a hint when `words`, of a failed pull, say that the image is for other machines; else "". Pure."""
    found = _NO_SUCH_PLATFORM.search(words)
    if not found:
        return ""
    if found["system"]:
        return f"the image is one for {visible(found['system'])}; choose one for Linux"
    machine = found["docker"] or found["podman"] or found["store"] or ""
    platform = visible(machine.strip(",:;)(")[:40])
    whose = f"{platform}, the platform" if platform else "the processor"
    return (
        f"the registry has this image, but not for {whose} of Docker's machine; choose another image or tag "
        "(`docker manifest inspect NAME` lists platforms)"
    )


def _pull_error(choice: ImageChoice, pulled: Completed, docker: Docker) -> SandboxError:
    if not pulled.timed_out and pulled.code not in OWN_FAILURES:  # no registry has been heard: nothing is known
        return SandboxConfigError(
            f'the docker client ended before it had pulled "{visible(choice.ref)}" ({describe_end(pulled)})',
            hint="try again; short memory is a frequent cause",
            detail=docker_output(pulled),
        )
    if not pulled.timed_out and _NOT_ASKED.search(pulled.stderr.text):  # also when it is back by now
        return SandboxLost(
            "the Docker daemon went away while an image was pulled", hint="try again", detail=docker_output(pulled)
        )
    again = run_docker(docker, *PROBE_ARGV)
    if again.code != 0 or not again.stdout.text.strip():
        return SandboxLost("the Docker daemon went away while an image was pulled", hint="start Docker and try again")
    if not pulled.timed_out and _NOT_THE_REGISTRY.search(pulled.stderr.text):
        return SandboxConfigError(
            f'Docker could not take in the image "{visible(choice.ref)}" ({choice.origin})',
            hint="its own words stand above: the reference, or the disk of the daemon, needs a look",
            detail=docker_output(pulled),
        )
    why = f"within {PULL_TIMEOUT_S / 60:.0f} minutes" if pulled.timed_out else "by Docker"
    return ImageUnavailable(
        f'image "{visible(choice.ref)}" could not be pulled {why} ({choice.origin})',
        hint=explain_platform(pulled.stderr.text) or _hint_without(choice),
        detail=docker_output(pulled),
    )


def _hint_without(choice: ImageChoice) -> str:
    """Return what to do about an image that cannot be pulled; the machine may reach no registry, for good."""
    if choice.local_ids:
        return (
            "without a registry, `odek sandbox image load FILE --id ID` takes in what `save` wrote where there is one, "
            "`odek sandbox image bootstrap` makes a small one; sandbox_image names another"
        )
    return (
        "check its name; without a registry, carry it here: `odek sandbox image save FILE --image NAME` where there is "
        "one, then `odek sandbox image load FILE --id ID`"
    )
