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

from odek.app.config import load
from odek.app.runtime import random_hex
from odek.app.sandbox import SandboxPlan, plan_sandbox, prepare_sandbox, start_prepared
from odek.app.verification import ATTACK_TIMEOUT_S, attack, find_objection, verification_key, verified_store
from odek.app.workspace import startup_line
from odek.cli.help import fold
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.config.settings import Settings
from odek.host import Host
from odek.sandbox.container.container import Container
from odek.sandbox.docker import Docker, run_docker
from odek.sandbox.probes import Verdict, count, outside_verdict, read_verdicts_of_child
from odek.text import plural

_GONE_WITHIN_S = 5.0
_LEFTOVER = ".odek-probe-"


def parser() -> CommandParser:
    """Return the parser of `odek sandbox verify`."""
    made = CommandParser(
        "sandbox verify",
        "attack the sandbox that a run here would get, and show what holds",
        usage="[--json] [--limits] [OPTION of run…]",
        examples=(
            "odek sandbox verify",
            "odek sandbox verify --limits --sandbox-memory 256m --sandbox-cpus 0.5",
        ),
    )
    made.add_argument("--limits", action="store_true", help="reach the limits as well, which takes seconds")
    made.add_settings(of="run", used=("sandbox*", "json", "no_color"))
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the verdicts; 1 when something is open."""
    made = parser()
    parsed = made.read_flags(arguments)
    config, runtime = load(host, made.flags(parsed), terminal), terminal_runtime(host, terminal)
    plan = plan_sandbox(config, runtime)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _attack_and_wait(plan, terminal, writer, hit_limits=parsed.limits)
    os.close(writer)
    found = _watch(child, reader, host, runtime.docker)
    if found is None:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or 1
    key, verdicts = found
    shown = fold("\n".join(_lines(verdicts)), terminal.answer_columns)
    terminal.answer(_as_json(verdicts) if config.settings.json else shown)
    objection = find_objection(verified_store(runtime).add(key, verdicts), config.settings.required_probes)
    if objection:
        terminal.warn(objection)
    return 1 if objection else 0


def _attack_and_wait(plan: SandboxPlan, terminal: Terminal, writer: int, *, hit_limits: bool) -> None:
    """In the child: start, attack, report to the parent, and wait to be killed. Raises OdekError."""
    container = start_prepared(prepare_sandbox(plan), verify=False)
    host, settings = plan.runtime.host, plan.config.settings
    try:
        terminal.note(startup_line(container.facts))
        verdicts = (*attack(container, hit_limits=hit_limits), _owner(container, host, settings))
        key = verification_key(container.spec, daemon=plan.daemon())
        found = [asdict(verdict) for verdict in verdicts]
        report = {"container": container.facts.id, "key": key, "verdicts": found}
        with open(writer, "w", encoding="utf-8") as stream:
            json.dump(report, stream)
        while True:
            signal.pause()
    finally:  # not after SIGKILL, which is the point
        container.close()


def _watch(child: int, reader: int, host: Host, docker: Docker) -> tuple[str, tuple[Verdict, ...]] | None:
    """Return the key of the sandbox, and what the child has reported and what follows its death.

    None when the child ended without a report.
    """
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
    return report["key"], (*verdicts, _gone(report["container"], docker), _clean(host))


def _owner(container: Container, host: Host, settings: Settings) -> Verdict:
    """Make a file in the sandbox and look at it from here."""
    if settings.sandbox.readonly:
        return outside_verdict("host.owner", "skip", "the workspace is read-only")
    name = f"{_LEFTOVER}{random_hex(8)}"
    container.run(f": >{name}", timeout_s=ATTACK_TIMEOUT_S)
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
