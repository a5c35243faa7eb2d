"""odek update of the program itself, from a server of releases on this machine (R-341 to R-347)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.odek_process import ROOT, Odek, Outcome, program_kind
from support.pty_process import AtTerminal
from support.release_server import Answer, ReleaseServer, serve_releases

from odek import __version__

NEWER = b"""#!/bin/sh
# The head of the one-file odek, a stand-in
case $* in
version) echo 'odek 99.1.0'; env >"$HOME/env" ;;
'man --roff') echo '.TH ODEK 1 new' ;;
esac
"""
NAMES = ("odek", *(f"odek-linux-{os.uname().machine}{end}" for end in ("", "-gnu", "-musl")))


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with serve_releases() as made:
        made.publish(dict.fromkeys(NAMES, NEWER), version="99.1.0")
        yield made


@pytest.fixture
def installed(odek: Odek, tmp_path: Path) -> Odek:
    """The built file, as a copy of its own."""
    if program_kind() == "source":
        pytest.skip("ODEK_BIN names no file")
    place = tmp_path / "opt" / "bin" / "odek"
    place.parent.mkdir(parents=True)
    shutil.copy(ROOT / os.environ["ODEK_BIN"], place)
    (tmp_path / "link").symlink_to(place)
    return replace(odek, argv=(str(tmp_path / "link"),))


def update(odek: Odek, server: ReleaseServer, *flags: str, env: dict[str, str] | None = None) -> Outcome:
    # the machine of the tests may be a container
    return odek.run("update", "--force", *flags, env={"ODEK_INSTALL_BASE_URL": server.address, **(env or {})})


def test_a_check_says_what_there_is_and_asks_once(odek: Odek, server: ReleaseServer) -> None:
    """R-341: 10 for a newer release, 0 for none; the notes are named."""
    env = {"ODEK_INSTALL_BASE_URL": server.address}
    found = odek.run("update", "--check", env=env)
    assert (found.code, server.asked) == (10, ["/releases/latest/download/release.json"])
    assert found.stdout == f"odek {__version__}; the newest release is 99.1.0\n{server.address}/tag/v99.1.0\n"
    told = json.loads(odek.run("update", "--check", "--json", env=env).stdout)
    assert (told["current"], told["newest"], told["update"]) == (__version__, "99.1.0", True)
    for version, words in (
        (__version__, "is the newest release"),
        ("0.0.1", "is newer than the newest release, 0.0.1"),
    ):
        server.publish({}, version=version)
        same = odek.run("update", "--check", env=env)
        assert (same.code, same.stderr) == (0, "")
        assert words in same.stdout
    server.publish({}, version="99.2.0-rc1")
    before = odek.run("update", "--check", env=env)
    assert (before.code, "is a prerelease: `odek update --version 99.2.0-rc1`" in before.stdout) == (0, True)
    server.answers["/releases/latest/download/release.json"] = Answer(429, headers={"Retry-After": "60"})
    limited = odek.run("update", "--check", env=env)
    assert (limited.code, "429 Too Many Requests" in limited.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "env", "code", "words"),
    [
        (("--version", "../x"), {}, 2, "is not a version"),
        (("--check", "--version", "1.0.0"), {}, 2, "--check looks for the newest release"),
        (("--check",), {"ODEK_NO_UPDATE": "1"}, 1, "updates are switched off here: ODEK_NO_UPDATE=1"),
        (("--check",), {"ODEK_CALL": "1"}, 1, "a command of an agent does not update odek"),
        (("--check", "--base-url", "http://host.example/r"), {}, 1, "is not an https address"),
        (("--check", "--base-url", "file:///etc"), {}, 1, "is not an address"),
    ],
)
def test_where_it_is_off_no_request_leaves(
    arguments: tuple[str, ...], env: dict[str, str], code: int, words: str, odek: Odek, server: ReleaseServer
) -> None:
    """R-344, R-345."""
    done = odek.run("update", *arguments, env={"ODEK_INSTALL_BASE_URL": server.address, **env})
    assert (done.code, done.stdout, server.asked) == (code, "", [])
    assert words in done.stderr


def test_a_checkout_is_not_replaced(odek: Odek, server: ReleaseServer) -> None:
    """R-344: nor is a file that was built in one, or one whose question has no terminal."""
    done = update(odek, server)
    if program_kind() == "source":
        words = "this odek runs from its sources"
    else:
        built_here = (ROOT / os.environ["ODEK_BIN"]).resolve().parent == ROOT.resolve() / "dist"
        words = "was built from the sources in" if built_here else "nothing is updated"
    assert (done.code, words in done.stderr) == (1, True)
    assert "--yes" in done.stderr or "git pull" in done.stderr


def test_the_file_is_replaced_through_a_link_with_its_manual_page(
    installed: Odek, server: ReleaseServer, tmp_path: Path
) -> None:
    """R-342, R-346: the link stays one; the mode is kept; the new one gets no secret."""
    file, page = tmp_path / "opt/bin/odek", tmp_path / "opt/share/man/man1/odek.1"
    page.parent.mkdir(parents=True)
    page.write_text(".TH ODEK 1 old\n")
    file.chmod(0o750)
    done = update(installed, server, "--yes", env={"ODEK_API_KEY": "sk-secret-key"})
    assert (done.code, done.stdout) == (0, f"odek 99.1.0 is installed as {file}\n")
    assert (file.read_bytes(), file.stat().st_mode & 0o7777, (tmp_path / "link").is_symlink()) == (NEWER, 0o750, True)
    assert page.read_text() == ".TH ODEK 1 new\n"
    assert "sk-secret-key" not in (installed.home / "env").read_text()
    assert [path.name for path in file.parent.iterdir()] == ["odek"]
    kind = {"zip": "odek", "binary": NAMES[1]}.get(program_kind(), "")
    asked = [path.rpartition("/")[2] for path in server.asked]
    assert asked[:2] == ["release.json", "SHA256SUMS"]
    assert asked[2:] == [kind] if kind else asked[2] in NAMES[2:]


def test_a_person_is_asked_and_only_a_yes_replaces(installed: Odek, server: ReleaseServer, tmp_path: Path) -> None:
    """R-342: at the terminal, never through a pipe; the question names the file and where the new one comes from."""
    file = tmp_path / "opt/bin/odek"
    for key, code in (("n", 1), ("y", 0)):
        with AtTerminal(installed, "update", "--force", env={"ODEK_INSTALL_BASE_URL": server.address}) as run:
            assert "Replace it?" in run.read_until("[y / N] ")
            run.type(f"{key}\n")
            done = run.end()
        assert (done.code, file.read_bytes() == NEWER) == (code, code == 0)
        assert f"odek {__version__} -> 99.1.0, {file}\n  from {server.address}/download/v99.1.0/odek" in done.stderr


def test_what_is_wrong_or_cut_off_leaves_the_old_one(installed: Odek, server: ReleaseServer, tmp_path: Path) -> None:
    """R-342, R-343: another content, half of it, a release of another version, a downgrade that is not wanted."""
    file = tmp_path / "opt/bin/odek"
    before = file.read_bytes()

    def fails(*flags: str) -> str:
        done = update(installed, server, "--yes", "--json", *flags)
        error = json.loads(done.stdout)
        assert (done.code, error["event"]) == (1, "error")
        assert (file.read_bytes(), [path.name for path in file.parent.iterdir()]) == (before, ["odek"])
        return str(error["message"])

    server.publish(dict.fromkeys(NAMES, NEWER), listed=dict.fromkeys(NAMES, b"another"), version="99.1.0")
    assert "is not what it should be" in fails()
    server.publish(dict.fromkeys(NAMES, NEWER), version="99.1.0")
    server.cut_off |= {f"/releases/download/v99.1.0/{name}" for name in NAMES}
    assert "was cut off" in fails()
    server.cut_off.clear()
    server.publish(dict.fromkeys(NAMES, NEWER), version="99.0.0")
    assert 'says "odek 99.1.0" of itself' in fails("--version", "99.0.0")
    assert "there is no" in fails("--version", "98.0.0")
    server.publish(dict.fromkeys(NAMES, b"another"), version="0.0.1")
    done = installed.run("update", "--yes", env={"ODEK_INSTALL_BASE_URL": server.address})
    assert "is newer than the newest release" in done.stdout or "this machine is a container" in done.stderr
    assert file.read_bytes() == before


def test_a_signal_during_the_download_leaves_nothing(installed: Odek, server: ReleaseServer, tmp_path: Path) -> None:
    """R-343: Ctrl-C."""
    file = tmp_path / "opt/bin/odek"
    before = file.read_bytes()
    # half of it, and then silence
    for name in NAMES:
        server.answers[f"/releases/download/v99.1.0/{name}"] = Answer(body=NEWER, headers={"Content-Length": "999999"})
    server.hold.set()
    process = installed.start("update", "--force", "--yes", env={"ODEK_INSTALL_BASE_URL": server.address})
    until = time.monotonic() + 30
    while not (file.parent / ".odek-update" / "odek").exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    server.hold.clear()
    assert (process.returncode, "stopped by SIGINT" in stderr) == (130, True)
    assert (file.read_bytes(), [path.name for path in file.parent.iterdir()]) == (before, ["odek"])
