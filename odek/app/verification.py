"""Whether the sandbox of these settings was attacked and held: `odek sandbox verify`, remembered for later starts.

What was found is kept in ~/.odek/verified.json by a digest of all that it depends on: the probes of this odek, the
engine's version and kind, the kernel, and the `docker run` line of the sandbox. The folder does not count, nor what a
variable or a volume holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odek.app.runtime import Runtime
from odek.config.settings import Settings
from odek.errors import UsageError
from odek.events import Notice
from odek.packaged import read_packaged
from odek.sandbox.argv import run_argv
from odek.sandbox.container.container import Container
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.probes import CALLS, HIT, INSIDE, OUTSIDE, Circumstances, Verdict, count, read_verdicts, render_script
from odek.sandbox.spec import Mount, SandboxSpec
from odek.state import StateFolder
from odek.text import plural, truncate, visible

FILE = "verified.json"
ATTACK_TIMEOUT_S = 120.0
_MOST = 64  # sandboxes that are remembered
_INSIDE = frozenset({*(probe.id for probe in INSIDE), *(call.id for call in CALLS)})
_ALL = _INSIDE | {probe.id for probe in (*HIT, *OUTSIDE)}

Statuses = Mapping[str, str]
"""id of a probe → its status"""


def require_known_probes(settings: Settings) -> None:
    """Raise UsageError for a probe in `--require` that `odek sandbox verify` does not have."""
    for name in settings.required_probes:
        if name not in _ALL:
            raise UsageError(
                f'"{visible(truncate(name, 60))}" is not a probe ({settings.origin_of("require")})',
                hint="`odek sandbox verify` lists them",
            )


def attack(container: Container, *, hit_limits: bool) -> tuple[Verdict, ...]:
    """Attack `container` from inside and return what was found. Raises SandboxLost."""
    circumstances = Circumstances(
        networks=container.facts.network != "none",
        readonly=container.spec.readonly,
        hit_limits=hit_limits,
        volumes=tuple(volume.target for volume in container.spec.volumes),
        memory_limited=container.spec.limits.memory_bytes is not None,
        cpu_limited=container.spec.limits.nano_cpus is not None,
    )
    script = render_script(read_packaged("odek.sandbox", "probes.sh").decode(), circumstances)
    done = container.run(script, timeout_s=ATTACK_TIMEOUT_S)
    return read_verdicts(done.output.text, circumstances)


def require_verified(container: Container, settings: Settings, runtime: Runtime, *, daemon: str) -> None:
    """Let `container` be used only if what is known of such a sandbox, or is found now, satisfies the settings.

    `daemon` is the version of the engine. Raises SandboxConfigError, and StateFileError for a file that cannot be
    trusted.
    """
    store, key = verified_store(runtime), verification_key(container.spec, daemon=daemon)
    known = store.find(key)
    if find_objection(known, settings.required_probes):
        verdicts = attack(container, hit_limits=False)
        known = store.add(key, verdicts)
        opened = count(verdicts)["OPEN"]
        runtime.emit(Notice(f"the sandbox was attacked: {plural(len(verdicts), 'probe')}, {opened or 'none'} open"))
    objection = find_objection(known, settings.required_probes)
    if objection:
        raise SandboxConfigError(
            f"{objection} ({settings.verification_asked_by})",
            hint="`odek sandbox verify` with the same options shows what each probe sees; --limits reaches the limits",
        )


def find_objection(known: Statuses, required: Sequence[str]) -> str:
    """Return why a sandbox of which the verdicts `known` are known is not to be used; "" when it is."""
    opened = sorted(name for name, status in known.items() if status == "OPEN")
    if opened:
        return f"the sandbox is open: {', '.join(opened)}"
    if not known.keys() >= _INSIDE:
        return "the sandbox was not attacked yet"
    lacking = sorted(name for name in required if known.get(name) != "ok")
    if lacking:
        seen = "; ".join(f"{name}: {known.get(name, 'not tried')}" for name in lacking)
        return f"probes that are required did not find the sandbox closed: {seen}"
    return ""


def verification_key(spec: SandboxSpec, *, daemon: str) -> str:
    """Return the digest of all that the verdicts about a sandbox like `spec` depend on."""
    any_folder = replace(
        spec,
        workdir="/",
        workdir_id=None,
        volumes=tuple(Mount(source="/", target=each.target, readonly=each.readonly) for each in spec.volumes),
        git=Mount(source="/", target=spec.git.target, readonly=spec.git.readonly) if spec.git else None,
        seccomp_file="odek's" if spec.seccomp_file else "",
    )
    everywhere = Circumstances(networks=True, readonly=False, hit_limits=True)
    probes = render_script(read_packaged("odek.sandbox", "probes.sh").decode(), everywhere)
    kernel = os.uname()
    parts = {
        "probes": hashlib.sha256(probes.encode()).hexdigest(),
        "filter": hashlib.sha256(read_packaged("odek.sandbox", "seccomp.json")).hexdigest(),
        "engine": [daemon, repr(spec.engine)],
        "kernel": [kernel.release, kernel.version, kernel.machine],
        "start": run_argv(any_folder, name="", labels=()),
        "networks": [network.id for network in spec.networks.attached],
        "commands": [spec.user, [name for name, _ in spec.env], spec.attachments],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class VerifiedStore:
    """~/.odek/verified.json: key → {"at": when, "verdicts": {id: status}}, the newest ones."""

    def __init__(self, folder: StateFolder, clock: Callable[[], float]) -> None:
        """`clock` gives seconds since the epoch."""
        self._folder = folder
        self._clock = clock

    def find(self, key: str) -> Statuses:
        """Return what is known of a sandbox. Raises StateFileError for a file that cannot be trusted."""
        return _statuses(self._read().get(key))

    def add(self, key: str, verdicts: Sequence[Verdict]) -> Statuses:
        """Remember `verdicts`; a probe that was not tried now keeps its last one. Raises StateFileError."""
        with self._folder.locked(FILE):
            entries = self._read()
            statuses = {**_statuses(entries.get(key)), **{each.id: each.status for each in verdicts}}
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
            entries[key] = {"at": at, "verdicts": statuses}
            newest = sorted(entries, key=lambda each: _at(entries[each]), reverse=True)[:_MOST]
            self._folder.write_json(FILE, {each: entries[each] for each in newest})
        return statuses

    def _read(self) -> dict[str, object]:
        value = self._folder.read_json(FILE)
        return dict(value) if isinstance(value, dict) else {}


def verified_store(runtime: Runtime) -> VerifiedStore:
    """Return the store of the operator."""
    return VerifiedStore(StateFolder(runtime.host.operator_home), runtime.clock)


def _statuses(entry: object) -> Statuses:
    verdicts = entry.get("verdicts") if isinstance(entry, dict) else None
    return {str(key): str(value) for key, value in verdicts.items()} if isinstance(verdicts, dict) else {}


def _at(entry: object) -> str:
    return str(entry.get("at", "")) if isinstance(entry, dict) else ""
