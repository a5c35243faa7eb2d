"""odek sandbox verify: attack the sandbox that a run here would get, and show what holds.

A forked child is an odek like any other: it starts the sandbox and attacks it from inside. This process
watches from outside, kills that child by SIGKILL in the end, and looks whether the sandbox goes with it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from odek.app.bootstrap import startup_line
from odek.app.sandbox import SandboxRequest, build_request, start_sandbox
from odek.cli.approval_prompt import find_terminal_user
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.session import random_hex, real_docker
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.resolve import project_overrides, resolve
from odek.config.settings import Settings
from odek.host import Host
from odek.sandbox.container.container import Container
from odek.sandbox.docker import Docker, run_docker
from odek.sandbox.probes import (
    Circumstances,
    Verdict,
    count,
    outside_verdict,
    read_verdicts,
    read_verdicts_of_child,
    render_script,
)
from odek.text import plural

_ATTACK_TIMEOUT_S = 120.0
_GONE_WITHIN_S = 5.0
_LEFTOVER = ".odek-probe-"


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the verdicts; 1 when something is open."""
    parser = CommandParser(
        "sandbox verify",
        "attack the sandbox that a run here would get, and show what holds",
        usage="[--json] [--limits] [OPTION of run…]",
        examples=(
            "odek sandbox verify",
            "odek sandbox verify --limits --sandbox-memory 256m --sandbox-cpus 0.5 --sandbox-pids-limit 128",
        ),
    )
    parser.add_argument("--limits", action="store_true", help="reach the limits as well, which takes seconds")
    parser.add_settings(of="run")
    parsed = parser.read_flags(arguments)
    layers = read_layers(host, parser.flags(parsed))
    settings = resolve(layers)
    for warning in settings.warnings:
        terminal.warn(warning)
    draft = build_request(settings, host, partial(print_notice, terminal))
    docker = real_docker(host)

    def start() -> Container:
        return start_sandbox(
            draft,
            settings,
            project_overrides(layers),
            host,
            docker=docker,
            operator=find_terminal_user(),
            emit=partial(print_notice, terminal),
            new_nonce=partial(random_hex, 16),
            sleep=time.sleep,
        )

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _attack_and_wait(start(), draft, settings, host, terminal, writer, hit_limits=parsed.limits)
    os.close(writer)
    verdicts = _watch(child, reader, host, docker)
    if verdicts is None:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or 1
    terminal.answer(_as_json(verdicts) if settings.json else "\n".join(_lines(verdicts)))
    return 1 if count(verdicts)["OPEN"] else 0


def _attack_and_wait(
    container: Container,
    draft: SandboxRequest,
    settings: Settings,
    host: Host,
    terminal: Terminal,
    writer: int,
    *,
    hit_limits: bool,
) -> None:
    """In the child: attack, report to the parent, and wait to be killed. Raises OdekError."""
    try:
        terminal.note(startup_line(container.facts))
        circumstances = Circumstances(
            networks=container.facts.network != "none",
            readonly=settings.sandbox.readonly,
            hit_limits=hit_limits,
            volumes=tuple(volume.target for volume in draft.volumes),
        )
        done = container.run(render_script(_script(), circumstances), timeout_s=_ATTACK_TIMEOUT_S)
        verdicts = (*read_verdicts(done.output.text, circumstances), _owner(container, host, settings))
        report = {"container": container.facts.id, "verdicts": [asdict(verdict) for verdict in verdicts]}
        with open(writer, "w", encoding="utf-8") as stream:
            json.dump(report, stream)
        while True:
            signal.pause()
    finally:  # not after SIGKILL, which is the point
        container.close()


def _watch(child: int, reader: int, host: Host, docker: Docker) -> tuple[Verdict, ...] | None:
    """Return what the child has reported and what follows its death; None when it ended without a report."""
    try:
        with open(reader, encoding="utf-8") as stream:
            text = stream.read()
        if not text:
            return None
        report = json.loads(text)
        verdicts = read_verdicts_of_child(report["verdicts"])
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return (*verdicts, _gone(report["container"], docker), _clean(host))


def _owner(container: Container, host: Host, settings: Settings) -> Verdict:
    """Make a file in the sandbox and look at it from here."""
    if settings.sandbox.readonly:
        return outside_verdict("host.owner", "skip", "the workspace is read-only")
    name = f"{_LEFTOVER}{random_hex(8)}"
    container.run(f": >{name}", timeout_s=_ATTACK_TIMEOUT_S)
    try:
        owner = os.stat(os.path.join(host.cwd, name), follow_symlinks=False).st_uid
        os.unlink(os.path.join(host.cwd, name))
    except OSError as error:
        return outside_verdict("host.owner", "OPEN", f"no file came out: {error.strerror}")
    expected = str(host.uid) if container.facts.user.startswith("0:") else container.facts.user.partition(":")[0]
    return outside_verdict("host.owner", "ok" if str(owner) in (expected, str(host.uid)) else "OPEN", f"uid {owner}")


def _gone(container: str, docker: Docker) -> Verdict:
    """Wait for the container of the killed child to go."""
    killed = time.monotonic()
    argv = ("ps", "--all", "--quiet", "--no-trunc", "--filter", f"id={container}")
    while time.monotonic() - killed < _GONE_WITHIN_S:
        listed = run_docker(docker, *argv)
        if listed.code == 0 and not listed.stdout.text.strip():
            return outside_verdict("host.sigkill", "ok", f"gone after {time.monotonic() - killed:.1f} s")
        time.sleep(0.05)
    return outside_verdict("host.sigkill", "OPEN", f"{container[:12]} is still there; `docker rm -f` removes it")


def _clean(host: Host) -> Verdict:
    left = sorted(name for name in os.listdir(host.cwd) if name.startswith((_LEFTOVER, ".odek-nonce")))
    return outside_verdict("host.clean", "OPEN" if left else "ok", ", ".join(left) or "nothing")


def _script() -> str:
    import odek.sandbox

    loader = odek.sandbox.__loader__
    path = os.path.join(os.path.dirname(odek.sandbox.__file__), "probes.sh")
    data: bytes = loader.get_data(path)  # type: ignore[union-attr]
    return data.decode()


def _lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what a person reads: what is open last, where it is seen."""
    width = max(len(verdict.id) for verdict in verdicts)
    for verdict in sorted(verdicts, key=lambda verdict: verdict.status == "OPEN"):
        promise = f" [{verdict.promise}]" if verdict.promise else ""
        yield f"{verdict.status:<4} {verdict.id:<{width}}  {verdict.claim}: {verdict.seen}{promise}"
    counted = count(verdicts)
    yield ""
    yield (
        f"{counted['ok']} closed, {counted['OPEN']} open, {counted['info']} to know, "
        f"{plural(counted['skip'], 'probe')} skipped"
    )


def _as_json(verdicts: Sequence[Verdict]) -> str:
    return json.dumps({"counts": count(verdicts), "verdicts": [asdict(verdict) for verdict in verdicts]}, indent=2)
