"""Runs the tests that need a container engine on each engine there is, and keeps a table of what was run (D11).

    scripts/engine-matrix [--only NAME]… [--tests PATH]… [--limit-s N] [--again] [--list] [--table]

--only     this engine (all of ENGINES)           --tests  files or folders (all that have tests with an engine)
--limit-s  seconds for one engine (7200)          --again  also what has been run and passed on this code
--list     the names of the engines               --table  writes the table from what has been run, and runs nothing

Each engine runs in the Debian that has it (scripts/chroot engine) and in a place of its own (scripts/isolated), one
after the other. What fails is run once more, for a busy machine stretches every wait. Each file of tests is remembered
in .cache/engine-matrix with its commit, so a run that was ended goes on where it was, and what passed at a commit since
which nothing that it uses has changed (SOURCES) is not run again. The row in docs/DOCKER.md is written when an engine
is done. An engine that was started here is ended here. Needs root on Linux.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".cache" / "engine-matrix"
DOCUMENT = ROOT / "docs" / "DOCKER.md"
BEGIN, END = "<!-- engine-matrix: begin -->", "<!-- engine-matrix: end -->"
HEAD = ("name", "engine", "runtime, storage, control groups", "builders", "passed", "failed", "skipped", "run")
TESTS = ("tests/integration", "tests/security", "tests/e2e")
FETCHING = ("tests/security/test_mcp_client.py", "tests/e2e/test_mcp_clients.py")
"""fetch packages, which a place of its own cannot; they are about other programs' MCP, not about engines"""
DOCKER_TESTS, PODMAN_TESTS = "docker", "(docker and not docker_only) or podman"
SOURCES = ("odek", "build", "scripts", "tests/support", "tests/fakes", "tests/conftest.py", "tests/*/conftest.py")
"""what the outcome of any file of tests depends on, as git's paths"""
STOPPED = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixEngine:
    """An engine that the tests are run on."""

    name: str
    release: str
    """of Debian, that has it"""
    claim: str
    """the row of "Which engines" in docs/SANDBOXING.md that it stands for"""
    podman: bool = False
    daemon: Mapping[str, Any] = field(default_factory=dict)
    """daemon.json"""
    rootless: bool = False


_DOCKER, _PODMAN = "Docker from 20.10 on, run by root", "podman from 4.3 on, through `podman-docker`"
_ROOTLESS = "rootless Docker, rootless podman"
ENGINES = (
    MatrixEngine(name="docker-20.10", release="bookworm", claim=_DOCKER),
    MatrixEngine(name="docker-26.1", release="trixie", claim=_DOCKER),
    MatrixEngine(name="docker-28.5", release="forky", claim=_DOCKER),
    MatrixEngine(
        name="docker-28.5-containerd", release="forky", claim=_DOCKER,
        daemon={"features": {"containerd-snapshotter": True}},
    ),
    MatrixEngine(name="podman-4.3", release="bookworm", claim=_PODMAN, podman=True),
    MatrixEngine(name="podman-5.4", release="trixie", claim=_PODMAN, podman=True),
    MatrixEngine(name="podman-5.8", release="forky", claim=_PODMAN, podman=True),
    MatrixEngine(name="docker-rootless", release="forky", claim=_ROOTLESS, rootless=True),
    MatrixEngine(name="podman-rootless", release="forky", claim=_ROOTLESS, podman=True, rootless=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How tests ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            passed=self.passed + other.passed, failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped, failures=self.failures + other.failures,
        )  # fmt: skip


def read_counts(report: str) -> Counts:
    """Return what a report in JUnit's format counts. Pure."""
    passed = skipped = 0
    failures: dict[str, None] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        if kinds & {"failure", "error"}:
            failures[name] = None  # one that failed may also have left something behind
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Counts(passed=passed, failed=len(failures), skipped=skipped, failures=tuple(failures))


def second_chance(first: Counts, second: Counts | None) -> Counts:
    """Return the counts of tests of which those that had failed were run once more; without that they failed. Pure."""
    if second is None or second.passed + second.failed < first.failed:
        return first
    good = first.failed - second.failed
    return Counts(passed=first.passed + good, failed=second.failed, skipped=first.skipped, failures=second.failures)


def files_named(collected: str) -> frozenset[str]:
    """Return the files in what `pytest --collect-only -q` prints. Pure."""
    return frozenset(line.partition("::")[0] for line in collected.splitlines() if "::" in line)


def when(records: Sequence[Mapping[str, Any]], files: Sequence[str]) -> str:
    """Return when files of tests with an engine were run, how many there is no record of, and the commits. Pure."""
    used = [each for each in records if each["passed"] or each["failed"]]
    missing = len(set(files) - {each["tests"] for each in records})
    latest = max(str(each["date"]) for each in used)
    commits = " ".join(sorted({str(each["commit"]) for each in used}))
    return f"{latest}, {len(used)} files, {f'{missing} missing' if missing else 'complete'}, {commits}"


def row(name: str, facts: Mapping[str, str], counts: Counts, when: str) -> tuple[str, ...]:
    """Return the cells of a row. Pure."""
    cells = (facts.get("engine", ""), facts.get("runtime", ""), facts.get("builders", ""))
    return (f"`{name}`", *cells, str(counts.passed), str(counts.failed), str(counts.skipped), when)


def not_run(name: str, why: str) -> tuple[str, ...]:
    """Return the row of an engine that was not run. Pure."""
    return (f"`{name}`", f"not run: {why}", *[""] * (len(HEAD) - 2))


def read_table(document: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of the table in a document by name. Pure."""
    _, _, rest = document.partition(BEGIN)
    lines = [line for line in rest.partition(END)[0].splitlines() if line.startswith("| `")]
    rows = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)
    return {cells[0].strip("`"): cells for cells in rows}


def write_table(document: str, rows: Mapping[str, tuple[str, ...]]) -> str:
    """Return a document with the rows of all ENGINES; one without a row has not been run. Pure."""
    before, _, rest = document.partition(BEGIN)
    known = {**read_table(document), **rows}
    cells = [known.get(each.name) or not_run(each.name, "not yet") for each in ENGINES]
    lines = [f"| {' | '.join(line)} |" for line in (HEAD, ["---"] * len(HEAD), *cells)]
    return "\n".join(
        [f"{before}{BEGIN}", *(re.sub(r" +", " ", line) for line in lines), f"{END}{rest.partition(END)[2]}"]
    )


def why_not(engine: MatrixEngine) -> str:
    """Return why an engine cannot be run on this machine, "" when it can."""
    if engine.rootless and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "limits need control groups v2 with controllers delegated to the user, and this machine has v1"
    return "no user with delegated control groups is set up here" if engine.rootless else ""


# What runs in the place of an engine.

_PODMAN_FOLDER = Path("/run/odek-podman")
# as the package podman-docker has it; a runtime and limits that work in any place
_PODMAN_CLIENT = """\
#!/bin/sh
export CONTAINERS_CONF={folder}/containers.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1
echo "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg." >&2
command=$1
shift
case $command in
run | build) set -- --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" ;;
esac
exec podman "$command" "$@"
"""
_PODMAN_SETTINGS = """\
[engine]
runtime = "runc"
"""


def prepare(engine: MatrixEngine) -> None:
    """Set up the engine in the namespaces of scripts/isolated, where nothing of it outlives them."""
    if engine.daemon:
        settings = Path("/etc/docker")
        settings.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(settings)], check=True)
        (settings / "daemon.json").write_text(json.dumps(engine.daemon))
    if engine.podman:
        _PODMAN_FOLDER.mkdir()
        (_PODMAN_FOLDER / "containers.conf").write_text(_PODMAN_SETTINGS)
        client = _PODMAN_FOLDER / "docker"
        client.write_text(_PODMAN_CLIENT.format(folder=_PODMAN_FOLDER))
        client.chmod(0o755)
        os.environ["PATH"] = f"{_PODMAN_FOLDER}:{os.environ['PATH']}"


def said(*argv: str) -> str:
    """Return what a program prints on stdout; "" where it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def facts_of(engine: MatrixEngine) -> dict[str, str]:
    """Return what an engine that answers says of itself, in the words of the table."""
    info = json.loads(said("docker", "info", "--format", "{{json .}}"))
    runc = (re.search(r"runc version ([0-9.]+)", said("runc", "--version")) or ["", "?"])[1]
    if engine.podman:
        host, version = info["host"], info["version"]["Version"]
        runtime = f"runc {runc}, {info['store']['graphDriverName']}, {host['cgroupVersion']}"
        return {"engine": f"podman {version}, Debian {engine.release}", "runtime": runtime, "builders": "buildah"}
    version = re.match(r"[0-9.]+", info["ServerVersion"])
    buildx = re.search(r" v?([0-9.]+)", said("docker", "buildx", "version"))
    return {
        "engine": f"Docker {version[0] if version else '?'}, Debian {engine.release}",
        "runtime": f"runc {runc}, {info['Driver']}, v{info['CgroupVersion']}",
        "builders": f"classic, BuildKit ({f'buildx {buildx[1]}' if buildx else 'built in'})",
    }


def run_inside(engine: MatrixEngine, tests: Sequence[str]) -> None:
    """Run the tests in files one by one, and remember each; called in the engine's place."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    prepare(engine)
    if subprocess.run(["scripts/engine", "start"], stdout=subprocess.PIPE).returncode:
        sys.exit(1)
    try:
        facts = facts_of(engine)
        odek = ROOT / ".cache" / "engine-matrix-odek"
        build = ["scripts/build", "--python", sys.executable, "--output", str(odek)]
        subprocess.run(["scripts/busybox"], stdout=sys.stderr, check=True)
        subprocess.run(build, stdout=sys.stderr, check=True)
        os.environ |= {"ODEK_BIN": str(odek), "ODEK_REQUIRE_DOCKER": "1"}
        wanted = PODMAN_TESTS if engine.podman else DOCKER_TESTS
        collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", wanted, *TESTS]
        used = files_named(subprocess.run(collect, stdout=subprocess.PIPE, text=True, check=True).stdout)
        for each in sorted(set(files_of(TESTS)) - used) + [each for each in tests if each in used]:
            counts = run_file(wanted, each) if each in used else Counts()
            record = {"facts": facts, "tests": each, "passed": counts.passed, "failed": counts.failed,
                      "skipped": counts.skipped, "failures": counts.failures}  # fmt: skip
            print(f"engine-matrix: {json.dumps(record)}", flush=True)
    finally:
        subprocess.run(["scripts/engine", "stop"])


def run_file(wanted: str, tests: str) -> Counts:
    report = ROOT / ".cache" / "engine-matrix.xml"
    counts: list[Counts] = []
    for again in ((), ("--last-failed", "--last-failed-no-failures=none")):
        report.unlink(missing_ok=True)
        # a cache of this place: what another engine's run has seen fail is not what is run again
        options = ["-q", "-o", "cache_dir=.cache/engine-matrix-pytest", "-m", wanted, f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options, *again, tests]
        subprocess.run(command, stdout=sys.stderr)
        if not report.exists():
            return Counts(failed=1, failures=(f"{tests}: no report",))
        counts.append(read_counts(report.read_text()))
        if not counts[-1].failed:
            break
    return second_chance(counts[0], counts[1] if len(counts) > 1 else None)


# What runs outside.


def files_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files of tests below some paths, also those in which no test asks for an engine."""
    found: list[str] = []
    for path in map(Path, paths):
        files = [path] if path.is_file() else sorted((ROOT / path).glob("test_*.py"))
        found += [str(file.relative_to(ROOT) if file.is_absolute() else file) for file in files]
    return tuple(file for file in found if file not in FETCHING)


def record_path(engine: MatrixEngine, tests: str) -> Path:
    return RESULTS / engine.name / f"{tests.replace('/', '-')}.json"


def read_record(engine: MatrixEngine, tests: str) -> dict[str, Any]:
    path = record_path(engine, tests)
    return json.loads(path.read_text()) if path.exists() else {}


def still_holds(record: Mapping[str, Any], tests: str, root: Path = ROOT) -> bool:
    """Return whether a file of tests passed, and nothing that it uses has changed since."""
    if not record or record["failed"]:
        return False
    command = ["git", "-C", str(root), "diff", "--quiet", record["commit"], "--", *SOURCES, tests]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def run_engine(engine: MatrixEngine, tests: Sequence[str], *, commit: str, limit_s: float) -> bool:
    """Run tests on an engine, all in one place; return whether its time was enough."""
    command = ["scripts/isolated", "--release", engine.release, "--place", engine.name,
               "scripts/engine-matrix", "--inside", engine.name]  # fmt: skip
    child = subprocess.Popen([*command, *tests], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    deadline = time.monotonic() + limit_s
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child.pid, signal.SIGTERM))
    signal.alarm(max(int(limit_s), 1))
    try:
        for line in child.stdout:
            _, ours, text = line.partition("engine-matrix: ")
            if ours:
                record = json.loads(text) | {"commit": commit, "date": datetime.date.today().isoformat()}
                path = record_path(engine, record["tests"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(record, indent=1))
                if record["passed"] or record["failed"]:
                    say(f"{engine.name}: {record['tests']}: {record['passed']} passed, {record['failed']} failed")
        child.wait()
    finally:
        signal.alarm(0)
        end(child)
    return time.monotonic() < deadline


def end(child: subprocess.Popen[str]) -> None:
    """End what was started, which ends its engine; kill what does not go within a minute."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def row_of(engine: MatrixEngine) -> tuple[str, ...] | None:
    """Return the row of what has been run on an engine, whenever that was; None where nothing was."""
    files = files_of(TESTS)
    records = [record for record in (read_record(engine, file) for file in files) if record]
    total = sum((Counts(passed=each["passed"], failed=each["failed"], skipped=each["skipped"],
                        failures=tuple(each["failures"])) for each in records), Counts())  # fmt: skip
    if total == Counts():
        return None
    return row(engine.name, max(records, key=lambda each: str(each["date"]))["facts"], total, when(records, files))


def say(text: str) -> None:
    print(f"engine-matrix: {text}", file=sys.stderr, flush=True)


def update_document(engines: Sequence[MatrixEngine]) -> None:
    rows: dict[str, tuple[str, ...]] = {}
    for engine in engines:
        why = why_not(engine)
        made = not_run(engine.name, why) if why else row_of(engine)
        if made is not None:
            rows[engine.name] = made
    DOCUMENT.write_text(write_table(DOCUMENT.read_text(), rows))


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--inside"]:
        run_inside(next(each for each in ENGINES if each.name == arguments[1]), arguments[2:])
        return 0
    parser = argparse.ArgumentParser(description="see tests/support/engine_matrix.py")
    parser.add_argument("--only", action="append", choices=[each.name for each in ENGINES])
    parser.add_argument("--tests", action="append")
    parser.add_argument("--limit-s", type=float, default=7200)
    for flag in ("--again", "--list", "--table"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args(arguments)
    chosen = [each for each in ENGINES if asked.only is None or each.name in asked.only]
    if asked.list:
        print(*(each.name for each in chosen), sep="\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    commit = said("git", "rev-parse", "--short", "HEAD")
    failures: list[str] = []
    for engine in () if asked.table else chosen:
        if why_not(engine):
            say(f"{engine.name}: not run: {why_not(engine)}")
            continue
        files = files_of(asked.tests or TESTS)
        records = {file: read_record(engine, file) for file in files}
        todo = [file for file in files if asked.again or not still_holds(records[file], file)]
        if todo and not run_engine(engine, todo, commit=commit, limit_s=asked.limit_s):
            say(f"{engine.name}: not finished within {asked.limit_s:.0f} s; the next run goes on")
        failures += [
            f"{engine.name}: {name}" for file in files for name in read_record(engine, file).get("failures", ())
        ]
        update_document([engine])
    if asked.table:
        update_document(chosen)
    for failure in failures:
        say(f"FAILED {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
