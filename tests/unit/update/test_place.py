"""Where odek leaves its file alone, and what it says (R-344)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from odek.update.place import NotReplaceable, Place, find_obstacle, read_place

OWN = Place(path="/home/me/.local/bin/odek", is_file=True, owner=1000, user=1000)


def at(path: str) -> Place:
    return replace(OWN, path=path)


@pytest.mark.parametrize(
    "place",
    [
        OWN,
        at("/usr/local/bin/odek"),
        at("/opt/odek/odek"),
        at("/app/odek"),
        at("/usr/home/me/.local/bin/odek"),
        at("/opt/homebrewed/odek"),
        at("/home/nix/odek"),
        at("/home/me/usr/bin/odek"),
        replace(OWN, owner=1000, user=0),
    ],
)
def test_a_file_of_ones_own_may_be_replaced(place: Place) -> None:
    """R-344: root keeps the owner."""
    assert find_obstacle(place) is None


@pytest.mark.parametrize(
    ("place", "why", "hint"),
    [
        (replace(OWN, switched_off="by us"), "switched off here: ODEK_NO_UPDATE=by us", "unset"),
        (replace(OWN, agents=True), "a command of an agent", "yourself"),
        (replace(OWN, path="/src/odek", is_file=False), "runs from its sources (/src/odek)", "git pull"),
        (at("/usr/bin/odek"), "belongs to the system's packages", "package manager"),
        (at("/usr/lib/odek/odek"), "the system's packages", "package manager"),
        (at("/bin/odek"), "the system's packages", "package manager"),
        (at("/nix/store/abc-odek/bin/odek"), "belongs to Nix", "sh install.sh"),
        (at("/gnu/store/abc-odek/bin/odek"), "belongs to Guix", "guix upgrade"),
        (at("/opt/homebrew/bin/odek"), "belongs to Homebrew", "brew upgrade odek"),
        (at("/usr/local/Cellar/odek/0.1.0/bin/odek"), "belongs to Homebrew", "brew upgrade odek"),
        (at("/home/linuxbrew/.linuxbrew/bin/odek"), "belongs to Homebrew", "brew upgrade odek"),
        (at("/snap/odek/1/odek"), "belongs to snap", "snap refresh"),
        (at("/var/lib/flatpak/app/odek/files/bin/odek"), "belongs to Flatpak", "flatpak update"),
        (at("/opt/local/bin/odek"), "belongs to MacPorts", "port upgrade"),
        (at("/home/me/.local/pipx/venvs/odek/bin/odek"), "belongs to pipx", "pipx upgrade odek"),
        (at("/home/me/.local/share/uv/tools/odek/bin/odek"), "belongs to uv", "uv tool upgrade"),
        (at("/usr/local/lib/python3.11/dist-packages/odek/odek"), "belongs to pip", "pip install"),
        (at("/home/me/.local/share/mise/installs/odek/1/odek"), "a version manager", "the new version"),
        (replace(OWN, is_regular=False), "is not there any more, or is not a file", "install"),
        (replace(OWN, read_only=True), "on a read-only file system", "--bin-dir"),
        (replace(OWN, owner=0), "belongs to another user (uid 0)", "as that user"),
        (replace(OWN, folder_writable=False), "you may not write /home/me/.local/bin", "--bin-dir"),
        (
            replace(OWN, in_image=True),
            "this machine is a container and /home/me/.local/bin/odek is in its own",
            "--force",
        ),
        (replace(OWN, checkout="/src"), "was built from the sources in /src", "git pull there, then scripts/build"),
        (at("/opt/od\x1b[31mek"), "", ""),
    ],
)
def test_what_is_not_odeks_to_replace_has_its_reason_and_a_way(place: Place, why: str, hint: str) -> None:
    """R-344: one sentence each, and what to do instead."""
    obstacle = find_obstacle(place)
    if not why:
        assert obstacle is None
        return
    assert obstacle is not None
    assert why in obstacle.why
    assert hint in obstacle.hint
    assert "\n" not in obstacle.why
    assert isinstance(obstacle.error(), NotReplaceable)
    assert obstacle.forced == place.in_image
    assert obstacle.silent == bool(place.switched_off or place.agents)


def test_the_place_is_that_of_the_file_itself(tmp_path: Path) -> None:
    """R-346: through links, of which the last one may lead into a package manager's folder."""
    real = tmp_path / "Cellar" / "odek"
    real.parent.mkdir()
    real.write_text("")
    (tmp_path / "link").symlink_to("Cellar/odek")
    (tmp_path / "second").symlink_to(tmp_path / "link")
    found = read_place(str(tmp_path / "second"), is_file=True, env={}, user=os.geteuid())
    assert (found.path, found.is_regular, found.owner) == (str(real), True, os.geteuid())
    assert (found.switched_off, found.agents, found.read_only, found.folder_writable) == ("", False, False, True)
    obstacle = find_obstacle(found)
    assert obstacle is not None
    assert "Homebrew" in obstacle.why


@pytest.mark.parametrize("missing", ["", "build/zipapp.py", "odek/__init__.py", "dist"])
def test_a_file_that_was_built_in_a_checkout_is_of_its_sources(missing: str, tmp_path: Path) -> None:
    """R-344: in a container, too, whose file system is not why; another folder `dist` is no checkout."""
    for name in ("build/zipapp.py", "odek/__init__.py", "dist/odek", "odek.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    if missing and missing != "dist":
        (tmp_path / missing).unlink()
    path = tmp_path / ("odek.bin" if missing == "dist" else "dist/odek")
    found = read_place(str(path), is_file=True, env={}, user=os.geteuid())
    assert found.checkout == ("" if missing else str(tmp_path))
    obstacle = find_obstacle(replace(found, in_image=True))
    assert obstacle is not None
    assert ("built from the sources" in obstacle.why) == (not missing)


@pytest.mark.parametrize(
    ("env", "off", "agents"),
    [
        ({"ODEK_NO_UPDATE": "1"}, "1", False),
        ({"ODEK_NO_UPDATE": "setup-odek pins it"}, "setup-odek pins it", False),
        ({"ODEK_NO_UPDATE": "0"}, "", False),
        ({"ODEK_NO_UPDATE": ""}, "", False),
        ({"ODEK_CALL": "x"}, "", True),
        ({"ODEK_COMMAND_ID": "x"}, "", True),
    ],
)
def test_what_the_environment_says(env: dict[str, str], off: str, agents: bool, tmp_path: Path) -> None:
    """R-344: also where the file is gone."""
    for name in ("odek", "gone"):
        (tmp_path / "odek").write_text("")
        found = read_place(str(tmp_path / name), is_file=True, env=env, user=0)
        assert (found.switched_off, found.agents, found.is_regular) == (off, agents, name == "odek")


def test_a_read_only_file_system_and_a_folder_are_seen(tmp_path: Path) -> None:
    """R-344: /proc is never written; a folder is no file."""
    assert read_place("/sys/kernel/notes", is_file=True, env={}, user=0).is_regular
    assert not read_place(str(tmp_path), is_file=True, env={}, user=0).is_regular
