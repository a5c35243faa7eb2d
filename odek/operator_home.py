"""Where the operator's files are, and whether they are the operator's: decided here and nowhere else.

What they hold rules a run: where the key is sent, what a project may do, which commands need no
question. So they count only where no other user can have written them: never inside the working
directory or a repository around it, and only below folders in which no other user can exchange
anything. Every path is walked from / by descriptors, each folder is checked as it is entered, and a
link is obeyed only where the folder that holds it passes the same checks.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from odek import safefile
from odek.errors import StateFileError
from odek.text import visible

ROOT = ".odek"
VARIABLE = "ODEK_HOME"
CONFIG_VARIABLE = "ODEK_CONFIG"
_REPOSITORIES = (".git", ".hg", ".svn", ".jj", ".bzr")
"""entries that make a folder the root of a checkout"""
_WAY_OUT = f"let {VARIABLE} name a folder of your own outside of every project"


class NoHome(StateFileError):
    """The operator's files have no folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHome:
    """Where the operator's files are, and which places make them a project's."""

    folder: str
    """absolute: ~/.odek, or what ODEK_HOME names; "" when there is neither"""
    uid: int
    """whose files count"""
    workspaces: tuple[str, ...]
    """absolute, links resolved: folders whose files are never the operator's"""
    is_named: bool = False
    """whether ODEK_HOME names it"""
    config_file: str = ""
    """what ODEK_CONFIG names; "" for config.json in `folder`"""

    @property
    def named_settings(self) -> str:
        """the file of settings, where a variable leads to it; "" for the usual one"""
        return self.config_file or (self.path("config.json") if self.is_named else "")

    def path(self, *names: str) -> str:
        """Return the absolute path of something below the folder, for messages."""
        return os.path.join(self.folder, *names)


def find_operator_home(*, home: str, env: Mapping[str, str], uid: int, cwd: str) -> OperatorHome:
    """Return the operator's home of a process in `cwd`, which has its links resolved.

    Raises StateFileError for a variable that is empty or relative: what it would lead to depends on the
    folder odek is started in.
    """
    for name in (VARIABLE, CONFIG_VARIABLE):
        if name in env and not os.path.isabs(env[name]):
            raise StateFileError(f'{name} is "{visible(env[name])}", not an absolute path', hint=f"set or unset {name}")
    named = env.get(VARIABLE, "")
    return OperatorHome(
        folder=os.path.normpath(named) if named else os.path.join(home, ROOT) if home else "",
        uid=uid,
        workspaces=(cwd, *(folder for folder in repositories_around(cwd) if folder != cwd)),
        is_named=bool(named),
        config_file=env.get(CONFIG_VARIABLE, ""),
    )


def repositories_around(folder: str) -> tuple[str, ...]:
    """Return the roots of the checkouts that hold `folder`, the innermost first; / does not count."""
    found = []
    while folder not in ("/", ""):
        if any(os.path.lexists(os.path.join(folder, name)) for name in _REPOSITORIES):
            found.append(folder)
        folder = os.path.dirname(folder)
    return tuple(found)


def open_home(where: OperatorHome, *, make: bool) -> int | None:
    """Return a descriptor of the operator's folder; None when it is missing and not to be made.

    It is made with mode 0700, and given that mode where others could read it (F-60). Raises StateFileError, also where
    others can write it.
    """
    if not where.folder:
        raise NoHome("there is no home directory to keep odek's files in", hint=f"set HOME or {VARIABLE}")
    above, name = os.path.split(where.folder)
    with _Walk(where, shown=where.folder) as walk:
        try:
            walk.go(above)
        except OSError as error:
            raise NoHome(
                f'the home directory "{visible(above)}" cannot be opened: {error.strerror}',
                hint=f"set HOME or {VARIABLE}",
            ) from error
        if not make and not _is_there(name, walk.top):
            return None
        walk.require_trusted(sticky_is_enough=where.is_named)
        descriptor = enter_folder(walk.top, name, where.folder, where.uid, make=make)
        if descriptor is not None:
            try:
                _refuse_place(where, descriptor, where.folder)
            except StateFileError:
                os.close(descriptor)
                raise
    return descriptor


def way_out_of(error: OSError, otherwise: str) -> str:
    """Return what helps where a file of the operator's cannot be made or written. Pure."""
    if error.errno == errno.EROFS:
        return f"nothing can be written there; let {VARIABLE} name a folder where that is possible"
    return "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


def enter_folder(parent: int, name: str, path: str, uid: int, *, make: bool) -> int | None:
    """Return a descriptor of the operator's folder `name` in `parent`, not a link; None as `open_home` does.

    Raises StateFileError.
    """
    shown = visible(path)
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, safefile.FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError as error:
        if not make:
            return None
        raise StateFileError(f'"{shown}" cannot be made', hint="check HOME") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise StateFileError(
                f'"{shown}" is a link or no folder',
                hint=f"move it out of the way, or let {VARIABLE} name the folder itself",
            ) from error
        hint = way_out_of(error, "check its owner")
        raise StateFileError(f'"{shown}" cannot be opened: {error.strerror}', hint=hint) from error
    status = os.fstat(descriptor)
    if status.st_uid != uid:
        os.close(descriptor)
        raise StateFileError(f'"{shown}" belongs to another user', hint=f"check HOME, or {_WAY_OUT}")
    if status.st_mode & 0o022:  # what is in there may have been planted, and what is missing removed
        os.close(descriptor)
        raise StateFileError(
            f'"{shown}" can be written by {_writers(status)}',
            hint=f'check what it holds, then chmod 700 "{shown}", or {_WAY_OUT}',
        )
    if status.st_mode & 0o077:  # others could read its names, and nothing more
        os.fchmod(descriptor, 0o700)
    return descriptor


def read_config_file(where: OperatorHome, *, shown: str, limit_bytes: int) -> bytes | None:
    """Return the bytes of the operator's settings, None when there are none.

    The file may be a link, as dotfiles are, to one that lies outside of every workspace. Others may read it;
    only the operator may write it. Raises StateFileError for what is not the operator's, and OSError for
    what cannot be read.
    """
    if where.config_file:
        return _read_at(where, where.config_file, shown=shown, limit_bytes=limit_bytes)
    try:
        folder = open_home(where, make=False)
    except NoHome:
        if where.is_named:
            raise
        return None
    if folder is None:
        return None
    try:
        is_there = _is_there("config.json", folder)
    finally:
        os.close(folder)
    return _read_at(where, where.path("config.json"), shown=shown, limit_bytes=limit_bytes) if is_there else None


def _read_at(where: OperatorHome, path: str, *, shown: str, limit_bytes: int) -> bytes:
    with _Walk(where, shown=shown) as walk:
        name = walk.go_to_file(path)
        walk.require_trusted(sticky_is_enough=True)
        descriptor = safefile.open_regular(name, dir_fd=walk.top)
        try:
            _refuse_writable(os.fstat(descriptor), shown, where.uid)
            return safefile.read_limited(descriptor, limit_bytes)
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class _Walk:
    """The folders from / to where a path leads, open; what is wrong with each is kept until it matters."""

    where: OperatorHome
    shown: str
    stack: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    links: int = 0
    through_link: StateFileError | None = None
    """what is wrong with a folder that held a link on the way"""

    def __enter__(self) -> _Walk:
        self.stack.append(os.open("/", safefile.WALK_FLAGS))
        return self

    def __exit__(self, *_: object) -> None:
        while self.stack:
            os.close(self.stack.pop())

    @property
    def top(self) -> int:
        return self.stack[-1]

    def go(self, path: str) -> None:
        """Enter every folder of the absolute `path`, links followed. Raises OSError."""
        last = self._follow(path, to_file=False)
        assert last == ""

    def go_to_file(self, path: str) -> str:
        """Enter the folder of the file that the absolute `path` leads to; return its name. Raises OSError."""
        name = self._follow(path, to_file=True)
        if not name:
            raise safefile.NotRegular
        return name

    def require_trusted(self, *, sticky_is_enough: bool) -> None:
        """Raise StateFileError if another user can exchange what the folder on top holds.

        A folder above may be writable by all if it is sticky, as /tmp is; the one on top only with `sticky_is_enough`.
        """
        if self.through_link is not None:
            raise self.through_link
        fault = self._fault(sticky_is_enough=sticky_is_enough)
        if fault is not None:
            raise fault

    def _follow(self, path: str, *, to_file: bool) -> str:
        pending = _steps(path)
        while pending:
            part = pending.pop()
            if part == "..":
                self._leave()
                continue
            target = self._link_at(part)
            if target:
                pending += _steps(target)
            elif pending or not to_file:
                self.stack.append(os.open(part, safefile.WALK_FLAGS, dir_fd=self.top))
                self.names.append(part)
            else:
                return part
        return ""

    def _leave(self) -> None:
        if self.names:
            self.names.pop()
            os.close(self.stack.pop())

    def _link_at(self, name: str) -> str:
        status = os.stat(name, dir_fd=self.top, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            return ""
        self.links += 1
        if self.links > safefile.MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP).lower())
        self.through_link = self.through_link or self._fault(sticky_is_enough=True)
        target = os.readlink(name, dir_fd=self.top)
        if target.startswith("/"):
            while self.names:
                self._leave()
        return target

    def _fault(self, *, sticky_is_enough: bool) -> StateFileError | None:
        try:
            for descriptor in self.stack:
                _refuse_place(self.where, descriptor, self.shown)
        except StateFileError as error:
            return error
        statuses = [os.fstat(descriptor) for descriptor in self.stack]
        trusted = {0, self.where.uid, statuses[0].st_uid}  # who owns / owns all; in a user namespace that is not 0
        for depth, status in enumerate(statuses):
            path = "/" + "/".join(self.names[:depth])
            if status.st_uid not in trusted:
                return _replaceable(path, f"belongs to uid {status.st_uid}", self.shown)
            is_sticky = bool(status.st_mode & stat.S_ISVTX) and (sticky_is_enough or depth + 1 < len(statuses))
            if status.st_mode & 0o022 and not is_sticky:
                return _replaceable(path, f"can be written by {_writers(status)}", self.shown, mode_is_it=True)
        return None


def _steps(path: str) -> list[str]:
    """Return the components of `path`, the next one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _refuse_place(where: OperatorHome, descriptor: int, shown: str) -> None:
    """Raise StateFileError when the open folder is one of the workspaces, by any of its names."""
    here = _identity(os.fstat(descriptor))
    for number, workspace in enumerate(where.workspaces):
        try:
            is_same = _identity(os.stat(workspace)) == here
        except OSError:  # gone: nothing lies in it
            continue
        if is_same:
            place = "the working directory" if number == 0 else "the repository around the working directory"
            raise StateFileError(
                f'"{visible(shown)}" lies in {place}, "{visible(workspace)}": what a project holds is not an '
                "operator's",
                hint=f"{_WAY_OUT}, or change into the folder of a project" if number == 0 else _WAY_OUT,
            )


def _refuse_writable(status: os.stat_result, shown: str, uid: int) -> None:
    if status.st_uid not in (uid, 0):
        raise StateFileError(
            f'"{visible(shown)}" belongs to uid {status.st_uid}', hint="replace it by a file of your own"
        )
    if status.st_mode & 0o022:
        raise StateFileError(
            f'"{visible(shown)}" can be written by {_writers(status)}',
            hint=f"check what it holds, then chmod go-w {visible(shown)}",
        )


def _replaceable(path: str, why: str, shown: str, *, mode_is_it: bool = False) -> StateFileError:
    hint = f'chmod go-w "{visible(path)}", or {_WAY_OUT}' if mode_is_it else f"check HOME, or {_WAY_OUT}"
    return StateFileError(f'"{visible(path)}" {why}, and so "{visible(shown)}" can be exchanged', hint=hint)


def _writers(status: os.stat_result) -> str:
    """Return who but the owner can write, for a sentence; a group counts, even an empty one."""
    mode = f"(mode {stat.S_IMODE(status.st_mode):04o})"
    if status.st_mode & stat.S_IWOTH:
        return f"all users {mode}"
    import grp  # few runs get here

    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return f'the group "{visible(group)}" {mode}'


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
