"""Whether the file that runs is odek's to replace, and what to do where it is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from odek.text import truncate, visible
from odek.update.release import UpdateError

OFF = "ODEK_NO_UPDATE"
_IN_CONTAINER = ("/.dockerenv", "/run/.containerenv")
_AGENT_MARKS = ("ODEK_CALL", "ODEK_COMMAND_ID")
_WITH_INSTALLER = "or install it elsewhere: sh install.sh --bin-dir DIR"
_MANAGERS = (
    # (parts of a path, whose they are, what to do); one that begins the path, or with … any that is in it
    (("…/Cellar/", "/opt/homebrew/", "/home/linuxbrew/"), "Homebrew", "brew upgrade odek"),
    (("/nix/",), "Nix", "update the package that it comes from"),
    (("/gnu/",), "Guix", "guix upgrade odek"),
    (("/snap/",), "snap", "snap refresh odek"),
    (("/var/lib/flatpak/", "…/flatpak/app/"), "Flatpak", "flatpak update"),
    (("/opt/local/",), "MacPorts", "port upgrade odek"),
    (("…/pipx/venvs/",), "pipx", "pipx upgrade odek"),
    (("…/uv/tools/",), "uv", "uv tool upgrade odek"),
    (("…/site-packages/", "…/dist-packages/"), "pip", "pip install --upgrade odek"),
    (("…/mise/installs/", "…/.asdf/installs/"), "a version manager", "install the new version with it"),
)
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
_LOCAL = ("/usr/local/", "/usr/home/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The file that runs, and what surrounds it."""

    path: str
    """where it is really, no link on the way; of a checkout, the folder of the package"""
    is_file: bool
    """not a checkout"""
    is_regular: bool = True
    switched_off: str = ""
    """what the operator said in ODEK_NO_UPDATE, "" for nothing"""
    agents: bool = False
    """whether it was started by a command of an agent"""
    checkout: str = ""
    """the folder of odek's sources in which the file was built, "" for another place"""
    in_image: bool = False
    """whether it lies in the file system of a container's image"""
    read_only: bool = False
    folder_writable: bool = True
    owner: int = 0
    """uid"""
    user: int = 0
    """uid of this process"""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a file is not odek's to replace, and what to do instead."""

    why: str
    hint: str
    forced: bool = False
    """--force goes on all the same"""
    silent: bool = False
    """not even a request is made"""

    def error(self) -> UpdateError:
        """Return it as the end of a command."""
        return NotReplaceable(self.why, hint=self.hint)


class NotReplaceable(UpdateError):
    """The file is not odek's to replace."""

    code = "not_replaceable"


def find_obstacle(place: Place) -> Obstacle | None:
    """Return why `place` stays as it is, None where it may be replaced. Pure."""
    shown = visible(place.path)
    if place.switched_off:
        said = truncate(visible(place.switched_off), 60)
        return Obstacle(f"updates are switched off here: {OFF}={said}", f"unset {OFF}", silent=True)
    if place.agents:
        return Obstacle("a command of an agent does not update odek", "run `odek update` yourself", silent=True)
    if place.checkout or not place.is_file:
        return _obstacle_of_sources(place)
    manager = _manager_of(place.path)
    if manager is not None:
        return Obstacle(f"{shown} belongs to {manager[0]}", f"{manager[1]}, {_WITH_INSTALLER}")
    if not place.is_regular:
        return Obstacle(f"{shown} is not there any more, or is not a file", "install odek again: sh install.sh")
    if place.read_only:
        return Obstacle(f"{shown} is on a read-only file system", f"update it where that comes from, {_WITH_INSTALLER}")
    if place.owner != place.user and place.user != 0:
        return Obstacle(
            f"{shown} belongs to another user (uid {place.owner})", f"run this as that user, {_WITH_INSTALLER}"
        )
    if not place.folder_writable:
        return Obstacle(
            f"you may not write {visible(os.path.dirname(place.path))}", f"run it as a user that may, {_WITH_INSTALLER}"
        )
    if place.in_image:
        return Obstacle(
            f"this machine is a container and {shown} is in its own file system: the update would be lost with it",
            "make its image again with a newer odek, or --force: it is replaced in this container",
            forced=True,
        )
    return None


def _obstacle_of_sources(place: Place) -> Obstacle:
    shown, checkout = visible(place.path), visible(place.checkout)
    if not place.is_file:
        return Obstacle(f"this odek runs from its sources ({shown})", "update them where they come from: git pull")
    return Obstacle(f"{shown} was built from the sources in {checkout}", "git pull there, then scripts/build")


def _manager_of(path: str) -> tuple[str, str] | None:
    for parts, whose, advice in _MANAGERS:
        if any(part[1:] in path if part[0] == "…" else path.startswith(part) for part in parts):
            return whose, advice
    if path.startswith(_SYSTEM) and not path.startswith(_LOCAL):
        return "the system's packages", "update it with the package manager that brought it"
    return None


def _checkout_of(path: str) -> str:
    """Return the folder of odek's sources in whose `dist` the file lies, "" for another place."""
    folder = os.path.dirname(os.path.dirname(path))
    sources = ("build/zipapp.py", "odek/__init__.py")
    is_built = os.path.basename(os.path.dirname(path)) == "dist"
    return folder if is_built and all(os.path.isfile(os.path.join(folder, name)) for name in sources) else ""


def read_place(path: str, *, is_file: bool, env: Mapping[str, str], user: int) -> Place:
    """Look at the file that runs, and around it."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    off = env.get(OFF, "")
    common = {"switched_off": "" if off in ("0", "false") else off, "agents": any(name in env for name in _AGENT_MARKS)}
    try:
        status = os.lstat(real)
        read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
        in_image = any(map(os.path.exists, _IN_CONTAINER)) and status.st_dev == os.stat("/").st_dev
    except OSError:
        return Place(path=real, is_file=is_file, is_regular=False, **common)  # type: ignore[arg-type]
    return Place(
        path=real,
        is_file=is_file,
        is_regular=stat.S_ISREG(status.st_mode),
        checkout=_checkout_of(real),
        in_image=in_image,
        read_only=read_only,
        folder_writable=os.access(folder, os.W_OK | os.X_OK),
        owner=status.st_uid,
        user=user,
        **common,  # type: ignore[arg-type]
    )
