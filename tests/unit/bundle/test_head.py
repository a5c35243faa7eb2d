"""The script of a bundle in each shell that is here: what it does, and that a damaged one does nothing."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from support.bundles import ARCHITECTURE, ID, IMAGE, MACHINE, ODEK, OTHER_ID, SETTINGS, SHELLS, TAG, Target, make_bundle

from odek.bundle import layout

pytestmark = pytest.mark.once
HEAD = Path(layout.__file__).with_name("head.sh")
FLIPS = 40  # in each shell; all 100,000 of a file take half an hour
LOAD = f"sandbox image load --id {ID},{OTHER_ID} --tag {TAG}"


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    return Target(shell=request.param, folder=tmp_path / "there")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    made = tmp_path / "odek bundle.sh"  # with a blank
    make_bundle(made, settings=SETTINGS, images=2)
    return made


def test_one_step_installs_loads_and_asks_the_doctor(bundle: Path, target: Target) -> None:
    """R-321: in this order; the first image is set; again it changes nothing."""
    done = target.run(bundle)
    assert done.returncode == 0, done.stderr
    installed = target.home / ".local" / "bin" / "odek"
    assert installed.read_bytes() == ODEK
    assert stat.S_IMODE(installed.stat().st_mode) == 0o755
    assert target.calls() == [f"{LOAD} --set", f"{LOAD} ", "doctor"]
    assert (target.home / "loaded").read_bytes() == IMAGE * 2
    settings = target.home / ".odek" / "config.json"
    assert settings.read_bytes() == SETTINGS
    assert (stat.S_IMODE(settings.stat().st_mode), stat.S_IMODE(settings.parent.stat().st_mode)) == (0o600, 0o700)
    assert list((target.folder / "tmp").iterdir()) == []
    # another engine knows the image under another ID, which `load --set` has written meanwhile
    settings.write_bytes(SETTINGS.replace(ID.encode(), OTHER_ID.encode()))
    again = target.run(bundle, "--no-doctor", "--prefix", str(target.folder / "opt"))
    assert again.returncode == 0, again.stderr
    assert (target.folder / "opt" / "bin" / "odek").read_bytes() == ODEK
    assert target.calls()[-1] == f"{LOAD} "
    assert sorted(path.name for path in settings.parent.iterdir()) == ["config.json"]


def test_doctor_decides_on_the_exit_status(bundle: Path, target: Target) -> None:
    """R-321"""
    done = target.run(bundle, env={"DOCTOR": "1"})
    assert (done.returncode, "`odek doctor` found" in done.stderr) == (1, True)


def test_list_and_extract_install_nothing(bundle: Path, target: Target) -> None:
    """R-321: both check every byte; what is extracted has its hash in SHA256SUMS."""
    listed = target.run(bundle, "--list")
    assert listed.returncode == 0, listed.stderr
    kinds = [line.split()[0] for line in listed.stdout.splitlines() if line[0] != " "]
    assert kinds == ["installer", "odek", "settings", "image", "image"]
    assert TAG in listed.stdout
    done = target.run(bundle, "--extract", "out")
    assert done.returncode == 0, done.stderr
    folder = target.folder / "cwd" / "out"
    names = ["SHA256SUMS", "config.json", "image-1.tar.gz", "image-2.tar.gz", "install.sh", "odek"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True).returncode == 0
    assert target.run(bundle, "--extract", "out").returncode == 73
    assert target.run(bundle, "--help").stdout.startswith("Usage: sh FILE")
    assert target.is_untouched()


@pytest.mark.parametrize(
    ("settings", "arguments", "code"),
    [
        ('{"model": "mine"}', (), 73),
        ('{"model": "mine"}', ("--force",), 0),
        ("", (), 73),
    ],
)
def test_settings_that_are_there_are_never_lost(
    settings: str, arguments: tuple[str, ...], code: int, bundle: Path, target: Target
) -> None:
    """R-321: other ones stop it before anything is installed; --force keeps them next to the new ones, each time."""
    folder = target.home / ".odek"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(settings)
    for number in range(2):
        done = target.run(bundle, *arguments)
        assert done.returncode == code, done.stderr
        if code:
            assert not (target.home / ".local").exists()
            assert (folder / "config.json").read_text() == settings
            assert "--force" in done.stderr
        else:
            assert (folder / f"config.json.before-bundle{'-2' * number}").read_text() == settings
            assert (folder / "config.json").read_bytes() == SETTINGS
            (folder / "config.json").write_text(settings)


def test_settings_that_a_variable_names_are_left_alone(bundle: Path, target: Target) -> None:
    """R-321: `load --set` would not write there; ODEK_HOME is where they go."""
    assert target.run(bundle, env={"ODEK_CONFIG": "/etc/odek.json"}).returncode == 73
    assert target.is_untouched()
    done = target.run(bundle, env={"ODEK_HOME": str(target.folder / "own")})
    assert done.returncode == 0, done.stderr
    assert (target.folder / "own" / "config.json").read_bytes() == SETTINGS


def test_settings_are_shown_before_they_count(target: Target, tmp_path: Path) -> None:
    """R-321: whatever a bundle brings is seen, by --list and before it is written; a terminal obeys nothing of it."""
    bundle = tmp_path / "odek.sh"
    make_bundle(bundle, settings='{\n\t"sandbox": false,\n  "x": "\x1b[2K\u202e\u009b"\n}\n'.encode())
    for done in (target.run(bundle, "--list"), target.run(bundle)):
        shown = done.stdout + done.stderr
        assert (done.returncode, '           "sandbox": false,' in shown) == (0, True), shown
        assert "?[2K???" in shown
        assert not {"\x1b", "\u202e", "\u009b"} & set(shown)


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ({"TMPDIR": "there"}, 0),
        ({"TMPDIR": "../cwd/-x"}, 0),
        ({"TMPDIR": "-x"}, 0),
        ({"ODEK_HOME": "there"}, 78),
        ({"HOME": "there"}, 78),
    ],
)
def test_relative_places(env: dict[str, str], code: int, bundle: Path, target: Target) -> None:
    """R-321: programs run elsewhere than it was started in; a place for settings that odek refuses ends it early."""
    for name in ("there", "-x"):
        (target.folder / "cwd" / name).mkdir(parents=True)
    done = target.run(bundle, env=env)
    assert done.returncode == code, done.stderr
    assert (target.home / "loaded").exists() == (not code)
    assert sorted(path.name for path in (target.folder / "cwd").rglob("*")) == ["-x", "there"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_another_user_is_left_alone(bundle: Path, target: Target) -> None:
    """R-321: as after a sudo that keeps HOME; odek would refuse it, when all is written."""
    target.home.mkdir(parents=True)
    own = target.folder / "own"
    own.mkdir()
    for taken, env in ((target.home, {}), (own, {"ODEK_HOME": str(own)}), (own, {"ODEK_HOME": str(own / "x")})):
        os.chown(taken, 65534, 65534)
        done = target.run(bundle, "--prefix", str(target.folder / "opt"), env=env)
        assert (done.returncode, "belongs to another user" in done.stderr) == (78, True), done.stderr
        os.chown(taken, 0, 0)
    assert not (target.folder / "opt").exists()
    assert target.is_untouched()


def test_no_program_of_the_folder_that_it_lies_in_is_run(bundle: Path, target: Target) -> None:
    """R-322: though PATH says so: "." and what is empty."""
    here = target.folder / "cwd"
    (here / "here").mkdir(parents=True)
    for place in (here, here / "here"):
        for name in ("sha256sum", "docker", "mktemp", "head", "tr", "sh", "uname", "dirname"):
            (place / name).write_text(f"#!/bin/sh\n: >{target.folder}/ran\n")
            (place / name).chmod(0o755)
    path = f"here:.::{target.folder / 'bin'}:{os.environ['PATH']}:"
    done = target.run(bundle, env={"PATH": path})
    assert (done.returncode, (target.folder / "ran").exists()) == (0, False), done.stderr


def test_nothing_is_written_through_a_link(bundle: Path, target: Target, tmp_path: Path) -> None:
    """R-322: into a folder that others can write, or have made; the names hold only the number of the process."""
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    places = [target.home / ".odek" / ".config.json.{}", target.home / ".local" / "bin" / ".odek.{}"]
    for place in places:
        place.parent.mkdir(parents=True)
    # the shell's number is known only to itself: it makes the links, then goes on as the bundle
    links = " ".join(f"ln -s {kept} {str(place).format('$$')};" for place in places)
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(f'{links} set -- "{bundle}"; . "$1"\n'.replace('. "$1"', f'exec {" ".join(target.shell)} "$1"'))
    done = target.run(wrapper)
    assert done.returncode == 73, done.stderr
    assert kept.read_text() == "as it was"
    folder = target.folder / "cwd" / "out"
    folder.symlink_to(tmp_path / "elsewhere")
    assert target.run(bundle, "--extract", "out").returncode == 73
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("machine", "docker", "code", "words"),
    [
        ("mips", ARCHITECTURE, 70, "odek in it is for mips"),
        ("any", "riscv64", 70, "Docker's machine is riscv64"),
        (MACHINE, "riscv64", 70, "Docker's machine is riscv64"),
        ("any", "linux/riscv64", 70, "Docker's machine is riscv64"),
        ("any", f"linux/{ARCHITECTURE}", 0, "are ready"),
        ("any", "", 69, "Docker does not answer"),
    ],
)
def test_another_kind_of_machine_is_found_before_anything_is_done(
    machine: str, docker: str, code: int, words: str, tmp_path: Path, target: Target
) -> None:
    """R-321: only without Docker is odek installed, and then it says how to go on."""
    bundle = tmp_path / "b.sh"
    make_bundle(bundle, machine=machine)
    elsewhere = Target(shell=target.shell, folder=target.folder, docker=docker)
    done = elsewhere.run(bundle)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert (elsewhere.calls() == []) == (code != 0)
    if code == 0:
        return
    if code == 69:
        assert (target.home / ".local" / "bin" / "odek").exists()
        assert f"go on with: sh {bundle}" in done.stderr
        assert target.run(bundle).returncode == 0
    else:
        assert elsewhere.is_untouched()


@pytest.mark.parametrize("arguments", [("--nonsense",), ("",), ("--prefix",), ("--extract", "")])
def test_wrong_options_end_it(arguments: tuple[str, ...], bundle: Path, target: Target) -> None:
    """R-321"""
    assert target.run(bundle, *arguments).returncode == 64
    assert target.is_untouched()


def test_flipped_byte_anywhere_ends_it(bundle: Path, target: Target) -> None:
    """R-322: of the script, of what stands behind it, of each part; nothing is installed, run or left."""
    whole = bundle.read_bytes()
    end = whole.index(b'odek_bundle "$@"; exit\n')
    chance = random.Random(0)
    places = [
        *chance.sample(range(end), FLIPS // 2),
        *range(whole.index(b"HEAD_SHA256="), whole.index(b"HEAD_SHA256=") + 80, 9),
        *range(end, end + 24, 3),
        *chance.sample(range(end, len(whole)), FLIPS // 4),
        len(whole) - 1,
    ]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= chance.randrange(1, 256)
        bundle.write_bytes(flipped)
        done = target.run(bundle)
        assert done.returncode != 0, (place, flipped[place])
        assert target.is_untouched(), (place, flipped[place], done.stderr)


def test_cut_off_or_longer_file_ends_it(bundle: Path, target: Target) -> None:
    """R-322: a download that stopped, at whatever byte but the first ones, and one with something behind it."""
    whole = bundle.read_bytes()
    end = whole.index(b'odek_bundle "$@"; exit\n')
    cuts = [*range(20, end, 1201), *range(end - 2, end + 26, 3), *range(end + 26, len(whole), 4001), len(whole) - 1]
    for cut in cuts:
        bundle.write_bytes(whole[:cut])
        assert target.run(bundle).returncode != 0, cut
        assert target.is_untouched(), cut
    for extra in (b"\n", b"echo more\n"):
        bundle.write_bytes(whole + extra)
        assert target.run(bundle).returncode == 65
        assert target.is_untouched()


def test_script_that_does_not_check_lets_a_flipped_byte_pass(bundle: Path, target: Target) -> None:
    """R-322: so the two tests above can fail."""
    whole = bytearray(bundle.read_bytes())
    whole[whole.rindex(b"\x1f\x8b\x08") + 4] ^= 1  # the time in the head of gzip, which changes no content
    for written, code in ((b'damaged() { die 65 "', 65), (b'damaged() { :   65 "', 0)):
        bundle.write_bytes(whole.replace(b'damaged() { die 65 "', written))
        done = target.run(bundle)
        assert (done.returncode, target.is_untouched()) == (code, code == 65), done.stderr


def test_piped_script_says_that_it_must_be_a_file(bundle: Path, target: Target) -> None:
    """R-322"""
    target.run(bundle, "--help")
    done = subprocess.run(
        target.shell,
        input=bundle.read_bytes(),
        cwd=target.folder / "cwd",
        capture_output=True,
        env={"PATH": "/bin:/usr/bin"},
    )
    assert (done.returncode != 0, b"save it" in done.stderr) == (True, True)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here")
def test_head_has_no_findings() -> None:
    done = subprocess.run(
        ["shellcheck", "--exclude", "SC2086,SC2154,SC2317", str(HEAD)], capture_output=True, encoding="utf-8"
    )
    assert done.stdout == ""
