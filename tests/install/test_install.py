"""scripts/install.sh against a release server on this machine, in every shell that is here (R-93)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.load_module import load_recipe
from support.release_server import sums

from .conftest import BINARY, OLD, PROGRAMS, SCRIPT, WHOLE, ZIP, Installer

MACHINE = os.uname().machine
BINARY_NAME = f"odek-linux-{MACHINE}-gnu"
RELEASE = {"odek": ZIP, BINARY_NAME: BINARY}
DIGEST = hashlib.sha256(ZIP).hexdigest()

pytestmark = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="no binary for this machine")


def add_python(installer: Installer, version: str = "3.11", *, name: str = "python3", whole: bool = True) -> None:
    """A Python that says yes to the question whether it is fit, or no: too old, or without its standard library."""
    answer = 3 if version < "3.10" else 0 if whole else 1
    python = installer.path / name
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f"#!/bin/sh\nexit {answer}\n")
    python.chmod(0o755)


def add_program(installer: Installer, name: str, script: str = "") -> None:
    path = installer.path / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def skip_wget_of_busybox(installer: Installer) -> None:
    if installer.shell[0].endswith("busybox"):
        pytest.skip("it takes its own wget whatever is on PATH, and a static one crashes where names are looked up")


# --- what is chosen, and where it goes


@pytest.mark.parametrize(
    ("python", "flags", "content", "name"),
    [
        ("3.11", [], ZIP, "odek"),
        ("", [], BINARY, BINARY_NAME),
        ("3.09", [], BINARY, BINARY_NAME),
        ("3.11", ["--kind", "binary"], BINARY, BINARY_NAME),
        ("", ["--kind", "zip"], ZIP, "odek"),
    ],
)
def test_the_file_that_runs_here_is_installed(
    python: str, flags: list[str], content: bytes, name: str, installer: Installer
) -> None:
    if python:
        add_python(installer, python)
    installer.server.publish(RELEASE)
    done = installer.run(*flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert (installer.target.read_bytes(), installer.target.stat().st_mode & 0o7777) == (content, 0o755)
    assert installer.left() == [".local/bin/odek"]
    assert installer.server.asked == [f"/releases/latest/download/{word}" for word in ("SHA256SUMS", name)]
    assert f'export PATH="{installer.target.parent}:$PATH"' in done.stdout


@pytest.mark.parametrize(
    ("says", "libc"),
    [
        ("glibc 2.28", "gnu"),
        ("glibc 2.36", "gnu"),
        ("glibc 2.100", "gnu"),
        ("glibc 2.27", "musl"),
        ("glibc 2.17", "musl"),
        ("glibc 2.5", "musl"),
    ],
)
def test_the_binary_fits_the_glibc_that_is_here(says: str, libc: str, installer: Installer) -> None:
    """R-316, D1: where glibc is older than the one asks for, the static one is taken."""
    add_program(installer, "getconf", f'case $1 in LONG_BIT) echo 64 ;; GNU_LIBC_VERSION) echo "{says}" ;; esac')
    installer.server.publish({f"odek-linux-{MACHINE}-{each}": BINARY for each in ("gnu", "musl")})
    done = installer.run("--kind", "binary")
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.server.asked[-1].endswith(f"/odek-linux-{MACHINE}-{libc}")


@pytest.mark.parametrize(
    ("flags", "env", "place"),
    [
        (["--bin-dir", "{home}/x y"], {}, "x y"),
        (["--bin-dir", "here"], {}, "here"),
        (["--prefix", "{home}/opt"], {}, "opt/bin"),
        ([], {"ODEK_INSTALL_BIN_DIR": "{home}/v"}, "v"),
        ([], {"XDG_BIN_HOME": "{home}/xdg"}, "xdg"),
        (["--bin-dir", "{home}/flag"], {"ODEK_INSTALL_BIN_DIR": "{home}/v", "XDG_BIN_HOME": "{home}/xdg"}, "flag"),
    ],
)
def test_the_place_can_be_chosen(flags: list[str], env: dict[str, str], place: str, installer: Installer) -> None:
    installer.server.publish(RELEASE)
    fill = {"home": installer.home}
    done = installer.run(
        "--kind", "zip", *(flag.format(**fill) for flag in flags), env={k: v.format(**fill) for k, v in env.items()}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.left() == [f"{place}/odek"]


@pytest.mark.parametrize("version", ["1.2.3", "v1.2.3"])
def test_a_release_can_be_named(version: str, installer: Installer) -> None:
    installer.server.publish(RELEASE)
    assert installer.run("--kind", "zip", "--version", version).returncode == 0
    assert installer.server.asked == [f"/releases/download/v1.2.3/{name}" for name in ("SHA256SUMS", "odek")]


def test_the_script_of_a_release_knows_it(installer: Installer, tmp_path: Path) -> None:
    installer.server.publish(RELEASE)
    stamped = load_recipe("installer").stamp(SCRIPT.read_text(), version="1.2.3", releases=installer.server.address)
    installer.script = tmp_path / "stamped.sh"
    installer.script.write_text(stamped)
    done = installer.run("--kind", "zip", env={"ODEK_INSTALL_BASE_URL": ""})
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.server.asked[0] == "/releases/download/v1.2.3/SHA256SUMS"


def test_a_second_run_downloads_nothing_but_the_sums(installer: Installer) -> None:
    installer.server.publish(RELEASE)
    installer.run("--kind", "zip")
    installer.server.asked.clear()
    done = installer.run("--kind", "zip")
    assert (done.returncode, installer.server.asked) == (0, ["/releases/latest/download/SHA256SUMS"])
    assert "already" in done.stdout


def test_a_pipe_will_do(installer: Installer) -> None:
    """D7: curl … | sh -s -- OPTION…, and so for bash, zsh, ksh."""
    installer.server.publish(RELEASE)
    done = installer.run("--kind", "zip", "--quiet", stdin=SCRIPT.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert installer.left() == [".local/bin/odek"]


def test_a_script_that_was_cut_off_does_nothing(installer: Installer) -> None:
    installer.server.publish(RELEASE)
    whole = SCRIPT.read_bytes().rstrip()
    for length in (700, 2500, 5000, len(whole) // 2, len(whole) - len(b'main "$@"')):
        installer.run("--kind", "zip", stdin=whole[:length])
        assert (installer.left(), installer.server.asked) == ([], [])


def test_dry_run_changes_nothing(installer: Installer) -> None:
    installer.server.publish(RELEASE)
    done = installer.run("--kind", "zip", "--dry-run")
    assert (done.returncode, installer.left()) == (0, [])
    assert done.stdout == (
        f"install: would install odek (SHA-256 {DIGEST}) as {installer.target}\n"
        f"install: would write {installer.home}/.local/share/man/man1/odek.1\n"
    )


def test_wget_serves_where_curl_is_missing(installer: Installer) -> None:
    skip_wget_of_busybox(installer)
    (installer.path / "curl").unlink()
    (installer.path / "wget").symlink_to(shutil.which("wget") or "")
    installer.server.publish(RELEASE)
    assert installer.run("--kind", "zip").returncode == 0
    assert installer.left() == [".local/bin/odek"]


@pytest.mark.parametrize(
    ("says", "flags", "reason"),
    [
        ("wget: note: TLS certificate validation not implemented", [], "does not check the server's certificate"),
        ("wget: note: TLS certificate validation not implemented", ["--sha256", DIGEST], ""),
        ("2026-11-30 URL:http://elsewhere.example/x [9/9] -> x [1]", [], "to an address without encryption"),
        ("2026-11-30 URL:https://elsewhere.example/x?a=http:// [9/9] -> x [1]", [], ""),
    ],
    ids=["busybox", "busybox, known hash", "redirected", "https"],
)
def test_a_wget_that_cannot_know_its_server_is_not_believed(
    says: str, flags: list[str], reason: str, installer: Installer
) -> None:
    """D7, R-93: the sums come from the same server, so they prove nothing then."""
    skip_wget_of_busybox(installer)
    (installer.path / "curl").unlink()
    wget = shutil.which("wget")
    plain = f'url=$(echo "$last" | sed "s|https|http|"); exec {wget} -q -O "$file" "$url"'
    find = 'while [ $# -gt 1 ]; do [ "$1" != -O ] || file=$2; shift; done; last=$1'
    add_program(
        installer, "wget", f"[ $1 != --help ] || exit 0; echo '{says}' >&2; PATH=/usr/bin:/bin; {find}; {plain}"
    )
    installer.server.publish(RELEASE)
    address = installer.server.address.replace("http:", "https:")
    done = installer.run("--kind", "zip", *flags, env={"ODEK_INSTALL_BASE_URL": address})
    if not reason:
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert (done.returncode, installer.left()) == (69, [])
    assert reason in done.stderr


def test_without_a_program_for_downloads_it_says_so(installer: Installer) -> None:
    """D7: what is missing, and both ways out."""
    if installer.shell[0].endswith("busybox"):
        pytest.skip("it has a wget of its own")
    (installer.path / "curl").unlink()
    done = installer.run("--kind", "zip")
    assert (done.returncode, done.stdout, installer.left()) == (69, "", [])
    assert done.stderr == (
        "install: error: neither curl nor wget is here\n"
        "install: hint: install one of them; or copy a release to this machine, and use --from FOLDER\n"
    )


def test_the_reason_of_wget_is_shown(installer: Installer) -> None:
    """D7: not that it failed alone."""
    skip_wget_of_busybox(installer)
    (installer.path / "curl").unlink()
    (installer.path / "wget").symlink_to(shutil.which("wget") or "")
    done = installer.run("--kind", "zip")
    assert done.returncode == 69
    assert "404" in done.stderr


def test_a_proxy_is_used(installer: Installer) -> None:
    installer.server.publish(RELEASE)
    proxy = installer.server.address.removesuffix("/releases")
    env = {"http_proxy": proxy, "no_proxy": "", "ODEK_INSTALL_BASE_URL": "http://releases.invalid/releases"}
    done = installer.run("--kind", "zip", "--sha256", DIGEST, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.server.asked == ["http://releases.invalid/releases/latest/download/odek"]


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("http://releases.invalid/r", False),
        ("ftp://releases.invalid/r", False),
        ("releases.invalid/r", False),
        ("HTTP://127.0.0.1/r", False),
        ("http://127.0.0.1.invalid/r", False),
        ("http://localhost.invalid/r", False),
        ("http://localhost:secret@releases.invalid/r", False),
        ("https://releases.invalid/r", True),
        ("http://localhost/r", True),
        ("http://127.0.0.1:80/r", True),
        ("http://[::1]:80/r", True),
    ],
)
def test_sums_from_a_server_without_tls_are_not_believed(address: str, taken: bool, installer: Installer) -> None:
    """R-93, R-345: file and sums would be those of anyone in between."""
    (installer.path / "curl").unlink()
    if installer.shell[0].endswith("busybox"):
        pytest.skip("it has a wget of its own")
    done = installer.run("--kind", "zip", env={"ODEK_INSTALL_BASE_URL": address})
    assert done.returncode == (69 if taken else 64)
    assert ("neither curl nor wget" in done.stderr, "is not an https address" in done.stderr) == (taken, not taken)
    assert "secret" not in done.stderr


# --- D7: any Python that the launcher takes


@pytest.mark.parametrize(
    ("pythons", "kind"),
    [
        ([("python3", "3.09", True), ("python3.12", "3.12", True)], "zip"),
        ([("python3.10", "3.10", True)], "zip"),
        ([("python3.14", "3.14", True)], "zip"),
        ([("python3.9", "3.09", True)], "binary"),
        ([("python3", "3.09", True), ("python3.11", "3.11", False)], "binary"),
        ([("python3", "3.11", False), ("python3.12", "3.12", True)], "binary"),  # the launcher takes the first
        ([("python3", "3.09", True), ("pyenv/versions/3.12.1/bin/python3.12", "3.12", True)], "zip"),
        ([("pyenv/installs/python/3.13.0/bin/python3.13", "3.13", True)], "zip"),
        ([("pyenv/versions/3.9.1/bin/python3.9", "3.09", True)], "binary"),
        ([("pyenv/shims/python3.12", "3.12", True)], "binary"),  # obeys files of the folder one is in
    ],
)
def test_each_python_that_the_launcher_takes_is_found(
    pythons: list[tuple[str, str, bool]], kind: str, installer: Installer
) -> None:
    """D7: python3 may be too old and a newer one have a name of its own, or be a version manager's."""
    for name, version, whole in pythons:
        add_python(installer, version, name=name, whole=whole)
    installer.server.publish(RELEASE)
    done = installer.run(env={"PATH": f"{installer.path}:relative::{installer.path}/pyenv/shims"})
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.target.read_bytes() == (ZIP if kind == "zip" else BINARY)
    assert ("no Python 3.10 to 3.14" in done.stdout) == (kind == "binary")


def test_names_of_pythons_are_those_of_the_launcher() -> None:
    """D7: so that a Python of next year is entered in both."""
    names = re.compile(r"for name in (python3 [^;]*); do")
    launcher = (SCRIPT.parents[1] / "build" / "launcher.sh").read_text()
    assert names.findall(SCRIPT.read_text()) == names.findall(launcher) != []


# --- D7: a machine with musl


@pytest.mark.parametrize(
    ("ldd", "glibc", "said"),
    [
        ("echo 'musl libc (x86_64)' >&2; exit 1", "exit 1", "this machine has musl"),
        ("echo 'musl libc (x86_64)' >&2; exit 1", "echo glibc 2.36", "this machine has musl"),
        ("echo 'ldd (GNU libc) 2.27'", "echo glibc 2.27", "this machine has glibc 2.27, which is older than 2.28"),
    ],
    ids=["Alpine", "gcompat", "old glibc"],
)
def test_musl_is_named_and_what_runs_there(ldd: str, glibc: str, said: str, installer: Installer) -> None:
    """D7: it is said why the static binary is taken, also where glibc's loader is there but is not the machine's."""
    add_program(installer, "ldd", ldd)
    add_program(installer, "getconf", f'[ "$1" != LONG_BIT ] || {{ echo 64; exit; }}; {glibc}')
    static = f"odek-linux-{MACHINE}-musl"
    installer.server.publish({static: BINARY})
    done = installer.run()
    assert (done.returncode, done.stderr, installer.target.read_bytes()) == (0, "", BINARY)
    assert f"{said}: {static} runs here" in done.stdout


# --- D7: what is another's stays


def test_another_program_of_that_name_is_not_overwritten(installer: Installer, tmp_path: Path) -> None:
    """D7: whatever it is, nothing is downloaded; --force replaces it, a link and not what it leads to."""
    installer.server.publish(RELEASE)
    installer.target.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"\x7fELF another program, odek.cli")
    foreign: list[Callable[[], object]] = [
        lambda: installer.target.write_text("#!/bin/sh\necho something else\n"),
        lambda: installer.target.write_bytes(elsewhere.read_bytes()),
        lambda: installer.target.write_bytes(b""),
        lambda: installer.target.symlink_to(elsewhere),
        lambda: installer.target.symlink_to("nowhere"),
        lambda: os.mkfifo(installer.target),
    ]
    for make in foreign:
        make()
        before = os.lstat(installer.target)
        done = installer.run("--kind", "zip")
        assert (done.returncode, done.stdout, installer.server.asked) == (77, "", [])
        assert f"{installer.target} is there, and is another program" in done.stderr
        assert "--force" in done.stderr
        assert os.lstat(installer.target) == before
        installer.target.unlink()
    installer.target.symlink_to(elsewhere)
    assert installer.run("--kind", "zip", "--force").returncode == 0
    assert (installer.target.is_symlink(), installer.target.read_bytes()) == (False, ZIP)
    assert elsewhere.read_bytes().startswith(b"\x7fELF another")


def test_an_odek_that_is_there_is_replaced(installer: Installer) -> None:
    """D7: an upgrade needs no --force; a binary is known by what it holds."""
    installer.server.publish(RELEASE)
    installer.target.parent.mkdir(parents=True)
    for content in (OLD.encode(), b"\x7fELF" + bytes(200) + b"odek.cli.main"):
        installer.target.write_bytes(content)
        done = installer.run("--kind", "zip")
        assert (done.returncode, done.stderr, installer.target.read_bytes()) == (0, "", ZIP)


def test_an_odek_that_comes_first_on_path_is_named(installer: Installer) -> None:
    """D7: what was installed is not what would run."""
    installer.server.publish(RELEASE)
    add_program(installer, "odek", "echo another")
    done = installer.run("--kind", "zip", env={"PATH": f"{installer.path}:{installer.target.parent}"})
    assert f"another odek comes first on PATH: {installer.path}/odek" in done.stdout
    done = installer.run("--kind", "zip", env={"PATH": f"{installer.target.parent}:{installer.path}"})
    assert "comes first" not in done.stdout


# --- D7: manual page and completions

EXTRAS = {
    ".local/share/man/man1/odek.1": ".TH ODEK 1",
    ".local/share/bash-completion/completions/odek": "# bash completion for odek",
    ".config/fish/completions/odek.fish": "# fish completion for odek",
    ".local/share/zsh/site-functions/_odek": "#compdef odek",
}


def add_shells(installer: Installer) -> None:
    for name in ("bash", "fish", "zsh"):
        add_program(installer, name)


def test_manual_page_and_completions_come_along(installer: Installer) -> None:
    """D7: into the user's folders, each is named, and so is the way to take all of it away."""
    add_shells(installer)
    installer.server.publish({"odek": WHOLE})
    done = installer.run("--kind", "zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert installer.left() == sorted([".local/bin/odek", *EXTRAS])
    for name, start in EXTRAS.items():
        assert (installer.home / name).read_text().startswith(start)
        assert (installer.home / name).stat().st_mode & 0o7777 == 0o644
        assert f"install: wrote {installer.home}/{name}\n" in done.stdout
    assert f'fpath=("{installer.home}/.local/share/zsh/site-functions" $fpath)' in done.stdout
    assert done.stdout.endswith("install: to remove it again: this script with --uninstall\n")
    assert "wrote" not in installer.run("--kind", "zip").stdout  # they are what they should be
    assert installer.run("--uninstall", "--dry-run").stdout.count("would remove") == 5
    assert (installer.run("--uninstall").returncode, installer.left()) == (0, [])


@pytest.mark.parametrize(
    ("flags", "env", "places"),
    [
        (["--no-extras"], {}, []),
        ([], {}, [".local/share/man/man1/odek.1"]),  # no shell is here that completes
        ([], {"XDG_DATA_HOME": "{home}/data"}, ["data/man/man1/odek.1"]),
        ([], {"XDG_DATA_HOME": "relative"}, [".local/share/man/man1/odek.1"]),
        (["--prefix", "opt"], {}, ["opt/share/man/man1/odek.1"]),
        (["--bin-dir", "opt"], {}, [".local/share/man/man1/odek.1"]),
        (["--bin-dir", "opt"], {"HOME": ""}, []),
    ],
)
def test_where_they_go(flags: list[str], env: dict[str, str], places: list[str], installer: Installer) -> None:
    """D7: a prefix has its own share, the user's folders are those of the XDG standard; --uninstall finds them."""
    installer.server.publish({"odek": WHOLE})
    filled = {key: value.format(home=installer.home) for key, value in env.items()}
    done = installer.run("--kind", "zip", *flags, env=filled)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in installer.left() if not name.endswith("/odek") and name != "opt/odek"] == places
    again = [flag for flag in flags if flag != "--no-extras"]
    quoted = f' {again[0]} "{again[1]}"' if again else ""
    assert done.stdout.endswith(f"this script with{quoted} --uninstall\n")
    assert installer.run(*again, "--uninstall", env=filled).returncode == 0
    assert installer.left() == []


def test_a_completion_of_ones_own_stays(installer: Installer, tmp_path: Path) -> None:
    """D7: also a link to one, and a place that cannot be written fails nothing."""
    add_shells(installer)
    installer.server.publish({"odek": WHOLE})
    man, bash, fish, zsh = (installer.home / name for name in EXTRAS)
    for file in (bash, fish, man.parent):
        file.parent.mkdir(parents=True)
    bash.write_text("my own\n")
    (tmp_path / "dotfiles").write_text("# fish completion for odek; put it under version control\n")
    fish.symlink_to(tmp_path / "dotfiles")
    man.parent.write_text("not a folder")
    done = installer.run("--kind", "zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert (bash.read_text(), fish.is_symlink(), zsh.exists()) == ("my own\n", True, True)
    assert f"{man} cannot be written, and is left out" in done.stdout
    assert done.stdout.count("--force replaces it") == 2
    assert installer.run("--uninstall").returncode == 0
    assert (bash.exists(), fish.is_symlink(), zsh.exists(), installer.target.exists()) == (True, True, False, False)


# --- what is not what it should be is not installed


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (sums({"odek": ZIP + b"#"}), "is not what it should be"),
        (b"", "SHA256SUMS does not name odek"),
        (sums({"not-odek": ZIP, "odek.sig": ZIP}), "SHA256SUMS does not name odek"),
        (sums({"odek": ZIP}).replace(b"  odek", b"  odek odek"), "SHA256SUMS does not name odek"),
        (b"<html>odek</html>\n", "SHA256SUMS does not name odek"),
        (b"abc  odek\n", "SHA256SUMS holds no hash for odek"),
        (b"z" * 64 + b"  odek\n", "SHA256SUMS holds no hash for odek"),
        (sums({"odek": ZIP}) + sums({"odek": BINARY}), "SHA256SUMS names odek twice"),
    ],
    ids=["another hash", "empty", "longer names", "two names", "a page", "too short", "no digits", "twice"],
)
def test_a_wrong_hash_is_refused(listed: bytes, reason: str, installer: Installer) -> None:
    """And what was there before stays."""
    installer.server.publish(RELEASE)
    installer.server.files["/releases/latest/download/SHA256SUMS"] = listed
    installer.target.parent.mkdir(parents=True)
    installer.target.write_text(OLD)
    done = installer.run("--kind", "zip")
    assert (done.returncode, done.stdout) == (65, "")
    assert reason in done.stderr
    assert installer.target.read_text() == OLD
    assert installer.left() == [".local/bin/odek"]


@pytest.mark.parametrize("line", ["{digest} *odek\n", "{upper}  odek\n", "{digest}  odek"])
def test_other_ways_to_write_the_sums(line: str, installer: Installer) -> None:
    installer.server.publish(RELEASE)
    text = line.format(digest=DIGEST, upper=DIGEST.upper())
    installer.server.files["/releases/latest/download/SHA256SUMS"] = text.encode()
    assert installer.run("--kind", "zip").returncode == 0


@pytest.mark.parametrize("missing", ["SHA256SUMS", "odek"])
def test_what_cannot_be_downloaded_is_named(missing: str, installer: Installer) -> None:
    installer.server.publish(RELEASE)
    del installer.server.files[f"/releases/latest/download/{missing}"]
    done = installer.run("--kind", "zip")
    assert (done.returncode, installer.left()) == (69, [])
    assert f"{installer.server.address}/latest/download/{missing} cannot be downloaded" in done.stderr


@pytest.mark.parametrize("program", ["curl", "wget"])
def test_a_download_that_is_cut_off_is_not_installed(program: str, installer: Installer) -> None:
    if program == "wget":
        skip_wget_of_busybox(installer)
    (installer.path / "curl").unlink()
    script = installer.path / program
    found = shutil.which(program)
    # not three times, with pauses between
    quick = {"curl": '--retry 0 "$@" --retry 0', "wget": '--tries=1 "$@"'}[program]
    script.write_text(f"#!/bin/sh\nexec {found} {quick}\n")
    script.chmod(0o755)
    installer.server.publish(RELEASE)
    installer.server.cut_off.add("/releases/latest/download/odek")
    done = installer.run("--kind", "zip")
    assert (done.returncode, installer.left()) in ((69, []), (65, []))
    assert done.stderr.startswith(("install: error: ", "curl: "))


def test_what_does_not_run_here_is_not_installed(installer: Installer) -> None:
    """What was there before stays."""
    broken = b"#!/bin/sh\n# one-file odek\necho 'needs something' >&2\nexit 127\n"
    installer.server.publish({"odek": broken, BINARY_NAME: broken})
    installer.target.parent.mkdir(parents=True)
    installer.target.write_text(OLD)
    done = installer.run("--kind", "zip")
    assert done.returncode == 70
    assert "needs something" in done.stderr
    assert installer.target.read_text() == OLD
    assert installer.left() == [".local/bin/odek"]


def test_the_binary_is_tried_when_the_zip_does_not_run(installer: Installer) -> None:
    add_python(installer)
    installer.server.publish({"odek": b"#!/bin/sh\nexit 1\n", BINARY_NAME: BINARY})
    done = installer.run()
    assert (done.returncode, installer.target.read_bytes()) == (0, BINARY)


# --- offline


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_offline(kind: str, installer: Installer, tmp_path: Path) -> None:
    release = tmp_path / "a release"
    release.mkdir()
    for name, content in {**RELEASE, "SHA256SUMS": sums(RELEASE)}.items():
        (release / name).write_bytes(content)
    where = release if kind == "folder" else release / "odek"
    (installer.path / "curl").unlink()
    done = installer.run("--kind", "zip", "--from", str(where))
    assert (done.returncode, done.stderr) == (0, "")
    assert (installer.target.read_bytes(), installer.server.asked) == (ZIP, [])


def test_offline_with_a_hash_from_elsewhere(installer: Installer, tmp_path: Path) -> None:
    (tmp_path / "odek").write_bytes(ZIP)
    good = installer.run("--from", str(tmp_path / "odek"), "--sha256", DIGEST)
    assert (good.returncode, good.stderr) == (0, "")
    bad = installer.run("--from", str(tmp_path / "odek"), "--sha256", "0" * 64)
    assert bad.returncode == 65


def test_offline_without_sums_is_refused(installer: Installer, tmp_path: Path) -> None:
    """Nothing is installed unchecked."""
    (tmp_path / "odek").write_bytes(ZIP)
    for place in (tmp_path / "odek", tmp_path):
        done = installer.run("--kind", "zip", "--from", str(place))
        assert (done.returncode, installer.left()) == (66, [])
        assert "SHA256SUMS" in done.stderr
        assert "--sha256" in done.stderr.splitlines()[1], "it names the way out"


# --- places that cannot be written


def as_root_with(installer: Installer, mounts: str) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can mount")
    installer.wrapper = [
        "/usr/bin/unshare",
        "--mount",
        "/bin/sh",
        "-ec",
        f'PATH=/usr/bin:/bin; {mounts}; exec "$@"',
        "sh",
    ]
    installer.wrapper[4] = f'saved=$PATH; PATH=/usr/sbin:/usr/bin:/sbin:/bin; {mounts}; PATH=$saved; exec "$@"'


@pytest.mark.parametrize(
    ("mount", "code", "hint"),
    [("ro", 77, "--bin-dir"), ("noexec", 70, "noexec"), ("size=4k,nr_inodes=3", 77, "--bin-dir")],
)
def test_a_place_that_will_not_do_is_one_clear_error(mount: str, code: int, hint: str, installer: Installer) -> None:
    place = installer.home / "place"
    place.mkdir()
    installer.server.publish({"odek": ZIP + b"#" * 9000})
    as_root_with(installer, f"mount -t tmpfs -o {mount} none {place}")
    done = installer.run("--kind", "zip", "--bin-dir", str(place))
    assert (done.returncode, installer.left()) == (code, [])
    assert hint in done.stderr


def test_a_folder_in_its_place_is_left_alone(installer: Installer) -> None:
    installer.target.mkdir(parents=True)
    done = installer.run("--kind", "zip")
    assert (done.returncode, installer.target.is_dir()) == (77, True)


# --- words


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (["--no-such"], {}, 64),
        (["--version"], {}, 64),
        (["--version", "../../x"], {}, 64),
        (["--version", "1 2"], {}, 64),
        (["--kind", "rpm"], {}, 64),
        (["--sha256", "abc"], {}, 64),
        (["--from", "/nowhere"], {}, 66),
        ([], {"HOME": ""}, 78),
        ([], {"HOME": "/"}, 78),
        ([], {"ODEK_INSTALL_BASE_URL": ""}, 64),
        (["--kind", "zip"], {"TMPDIR": "/nowhere"}, 73),
    ],
)
def test_wrong_words_and_missing_places(
    arguments: list[str], env: dict[str, str], code: int, installer: Installer
) -> None:
    done = installer.run(*arguments, env=env)
    assert (done.returncode, done.stdout, installer.server.asked) == (code, "", [])
    assert "install: error: " in done.stderr


def test_help_prints_the_usage(installer: Installer) -> None:
    done = installer.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: sh install.sh ")


# --- uninstalling


def test_uninstall_removes_the_file_and_keeps_the_sessions(installer: Installer) -> None:
    installer.server.publish(RELEASE)
    installer.run("--kind", "zip")
    (installer.home / ".odek").mkdir()
    (installer.home / ".odek" / "config.json").write_text("{}")
    assert (installer.run("--uninstall", "--dry-run").returncode, len(installer.left())) == (0, 2)
    done = installer.run("--uninstall")
    assert (done.returncode, installer.left()) == (0, [".odek/config.json"])
    assert installer.run("--uninstall").returncode == 0  # a second time


def test_uninstall_leaves_what_is_not_odek(installer: Installer) -> None:
    installer.target.parent.mkdir(parents=True)
    installer.target.write_text("#!/bin/sh\necho something else\n")
    done = installer.run("--uninstall")
    assert (done.returncode, installer.left()) == (77, [".local/bin/odek"])


# --- the script itself


def test_it_is_plain_sh() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck here")
    done = subprocess.run(["shellcheck", "--shell", "sh", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_real_file_is_installed_and_recognised(installer: Installer) -> None:
    """Not a stand-in: dist/odek, or what ODEK_BIN names."""
    built = os.environ.get("ODEK_BIN")
    if not built:
        pytest.skip("ODEK_BIN names no file")
    release = installer.home / "release"
    release.mkdir()
    name = "odek" if Path(SCRIPT.parents[1] / built).read_bytes()[:2] == b"#!" else BINARY_NAME
    shutil.copy(SCRIPT.parents[1] / built, release / name)
    (release / "SHA256SUMS").write_bytes(sums({name: (release / name).read_bytes()}))
    (installer.path / "python3").symlink_to(os.path.realpath(sys.executable))
    flags = ["--kind", "zip" if name == "odek" else "binary", "--from", str(release)]
    assert installer.run(*flags).returncode == 0
    assert installer.target.exists()
    man = installer.home / ".local/share/man/man1/odek.1"
    assert man.read_text().startswith(".TH ODEK 1")
    assert installer.run("--uninstall").returncode == 0
    assert not installer.target.exists()
    assert not man.exists()


def test_the_programs_it_calls_are_the_ones_of_the_tests() -> None:
    """So that a new one is noticed: a small machine may not have it."""
    assert "install" not in PROGRAMS
    assert "awk" not in PROGRAMS
