"""What only the binary can get wrong: it unpacks itself, and runs as two processes. Needs ODEK_BIN to name one."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import time
import zlib
from pathlib import Path

import pytest
from support.load_module import ROOT, load_recipe
from support.mounted import with_mounts, without
from support.odek_process import Odek, program_kind
from support.pty_session import Talk
from support.recordings import allow_everything, write_recording

GONE_WITHIN_S = 10.0

pytestmark = pytest.mark.skipif(program_kind() != "binary", reason="ODEK_BIN names no binary (scripts/build --binary)")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("mounts", "reason"),
    [
        (
            "mount -t tmpfs -o noexec none /tmp; mount -t tmpfs -o noexec none /var/tmp",
            r"cannot load its Python: \S+: .*failed to map segment",
        ),
        ("mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /var/tmp", "no temporary folder can be written"),
        ("mount -t tmpfs -o size=1m none /tmp", r"cannot unpack \S+: is the disk full\?"),
    ],
    ids=["noexec", "read-only", "full"],
)
def test_tmp_that_cannot_be_used_is_one_sentence_that_helps(mounts: str, reason: str, odek: Odek) -> None:
    """R-317, D3, B53: a /tmp that is read-only, noexec or full: the true cause."""
    # the program itself may lie below /tmp, which is about to be hidden
    hidden = f"mount -t tmpfs none /mnt; cp {odek.argv[0]} /mnt/odek; {mounts}"
    done = with_mounts(odek, f'{hidden}; shift; set -- /mnt/odek "$@"', "version")
    assert (done.returncode, done.stdout) == (255, "")
    assert re.match(r"odek \d+ error: " + reason, done.stderr), done.stderr
    assert "TMPDIR" not in done.stderr


def test_it_brings_its_own_libz(odek: Odek) -> None:
    """The bootloader could do with one of the machine; it must not, also where all is looked up at once."""
    done = with_mounts(odek, f"{without('libz.so.1')}\nexport LD_BIND_NOW=1", "selftest")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_conversation_needs_no_readline_of_the_machine(odek: Odek, tmp_path: Path) -> None:
    """The terminal's own line editing has to do."""
    recording = write_recording(tmp_path / "recording.jsonl", "true")
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can mount")
    script = f'{without("libreadline.so.8")}\nexec "$@"'
    odek.argv = ("unshare", "--mount", "sh", "-ec", script, "sh", *odek.argv)
    with Talk(odek, "repl", "--no-sandbox", "--base-url", recording) as talk:
        talk.see("odek 1> ")
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_another_temporary_folder_helps(odek: Odek) -> None:
    done = with_mounts(
        odek, "mount -t tmpfs none /mnt; export TMPDIR=/mnt; mount -t tmpfs -o noexec none /var/tmp", "version"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def sleeper(odek: Odek, scratch: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """An odek whose model has asked for a command that takes long, and that is at it."""
    allow_everything(odek)
    recording = write_recording(tmp_path / "recording.jsonl", "touch started; exec sleep 600")
    process = odek.start("run", "--no-sandbox", "--base-url", recording, "x", env={"TMPDIR": str(scratch)})
    wait_for(lambda: (odek.cwd / "started").exists(), "the command starts")
    return process


def test_killing_the_bootloader_ends_odek(sleeper: subprocess.Popen[str]) -> None:
    """What `kill -9` and runners do to the process that they know must not leave an odek at work."""
    (child,) = children_of(sleeper.pid)
    commands = children_of(child)  # the command, and the watcher that ends it
    assert commands
    sleeper.send_signal(signal.SIGKILL)
    for pid in (child, *commands):
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"process {pid} goes on")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("to_group", [False, True], ids=["to the process", "to the group"])
def test_a_signal_ends_odek_once_and_nothing_is_left(
    to_group: bool, number: signal.Signals, sleeper: subprocess.Popen[str], scratch: Path
) -> None:
    """A terminal sends Ctrl-C to the group: odek gets it twice, from the kernel and from the bootloader."""
    if to_group:
        os.killpg(sleeper.pid, number)
    else:
        sleeper.send_signal(number)
    _, stderr = sleeper.communicate(timeout=60)
    assert (sleeper.returncode, list(scratch.iterdir())) == (128 + number, []), stderr
    assert "Traceback" not in stderr


def test_the_next_start_removes_what_a_killed_one_left(
    sleeper: subprocess.Popen[str], odek: Odek, scratch: Path
) -> None:
    """R-317, D4: not while it is in use, and then all of it."""
    assert odek.run("version", env={"TMPDIR": str(scratch)}).code == 0
    (unpacked,) = scratch.glob("_MEI*")
    assert (unpacked / "base_library.zip").exists()
    (child,) = children_of(sleeper.pid)
    for pid in (sleeper.pid, child):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "the child ends")
    assert unpacked.exists()
    assert odek.run("version", env={"TMPDIR": str(scratch)}).code == 0
    assert list(scratch.glob("_MEI*")) == []


def test_it_may_be_started_with_almost_no_environment(odek: Odek) -> None:
    done = subprocess.run([*odek.argv, "version"], env={}, cwd="/", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1", "ja_JP.EUC-JP", "zh_CN.GB18030"])
def test_it_starts_in_any_locale(locale: str, odek: Odek) -> None:
    outcome = odek.run("selftest", env={"LC_ALL": locale})
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.stdout


def test_it_holds_no_docstring_of_odek(odek: Odek) -> None:
    """R-390: its modules are stripped as the zip's are: what only readers of the source need took a megabyte."""
    archive = load_recipe("archive")
    members = archive.read_members(Path(odek.argv[0]).read_bytes())
    modules: dict[str, bytes] = {}
    for member in members:
        if member.kind == archive.MODULES:
            modules |= archive.read_modules(member.content)
    sources = [path.relative_to(ROOT) for path in (ROOT / "odek").rglob("*.py") if path.name != "__init__.py"]
    kept = []
    for path in sources:
        purpose = ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8"))) or ""
        code = zlib.decompress(modules[".".join(path.with_suffix("").parts)])
        kept += [path] if purpose.encode() in code else []
    assert (kept, len(sources) > 100) == ([], True)
    assert [member.name for member in members if "_decimal" in member.name] == []


def test_what_was_made_smaller_still_works(odek: Odek) -> None:
    """R-390: encodings that no start needs, and exact numbers without the C module for them."""
    code = "from fractions import Fraction; print(b'\\x80'.decode('cp437'), Fraction('0.3') / Fraction('0.1'))"
    done = subprocess.run([*odek.argv, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Ç 3\n", "")
