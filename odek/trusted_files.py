"""Files of a working directory that this machine trusts later (git hooks, editor tasks, odek's own settings).

The sandbox may write the working directory, and a hook that it plants there runs on the host at the
next `git commit`. Two things are done about it, and both go by the list below: writing such a file needs
the operator's approval (D-6, danger/paths.py), and a session ends by naming those that changed (B55).
All names are in lower case and cover every spelling: some file systems know one only.

The list has what a program runs, loads or obeys merely because it is started in the folder, or the
folder is opened with it: shells, version control, editors, debuggers, interpreters, package managers,
other agents, and a server after a push. It leaves out what is asked for by name, as a build, a test or
a linter is (Makefile, package.json, conftest.py); a list of all that would name every piece of work.

For the changes, the working directory is scanned before and after, and the two snapshots are compared by
identity (the inode, and for a file the time of its last change, which a container cannot set back). So a
folder that was moved to another name shows, however old everything in it is. What runs in the working
directory may exchange anything in it meanwhile: every folder is opened by a path that cannot lead out of
it, and whatever the file system answers is a finding, not an error.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from odek import gitconfig
from odek.safefile import Inside
from odek.text import truncate, visible

OWN = frozenset(("odek.json", "dockerfile.odek", "agents.md"))
"""what odek itself reads in a working directory"""
FILES = OWN | frozenset(
    (
        # shells and version managers that look into the folder they are started in
        ".envrc", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", "mise.toml", ".mise.toml", "mise.local.toml",
        ".mise.local.toml", ".rtx.toml", ".tool-versions",
        # package managers: where programs come from, and code that they load themselves
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", "bunfig.toml", ".bazelrc", ".condarc",
        "nuget.config",
        # … and which toolchain or launcher that is, which may be one in the folder
        "rust-toolchain", "rust-toolchain.toml", "global.json", ".bazelversion", ".bazeliskrc", ".sbtopts", ".jvmopts",
        # interpreters and debuggers
        "sitecustomize.py", "usercustomize.py", ".rprofile", ".renviron", ".irbrc", ".pryrc", ".ghci", ".iex.exs",
        ".octaverc", ".ocamlinit", ".gdbinit", ".gdbearlyinit", ".lldbinit", ".radare2rc", ".perldb",
        ".jdbrc", ".ctags",
        # editors
        ".exrc", ".vimrc", ".gvimrc", ".lvimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el",
        ".devcontainer.json",
        # version control and its hooks
        ".gitattributes", ".gitmodules", ".lfsconfig", ".hgsub", ".arcconfig", ".pre-commit-config.yaml",
        ".pre-commit-config.yml", ".overcommit.yml", "lefthook.yml", ".lefthook.yml", "husky.config.js",
        "captainhook.json", "grumphp.yml", "prek.toml",
        # other agents
        "agent.md", "claude.md", "claude.local.md", "gemini.md", "codex.md", "qwen.md", ".mcp.json", "mcp.json",
        ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints", ".rules", "opencode.json",
        "opencode.jsonc", "crush.json", ".crush.json",
        # what a server runs after a push
        ".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml", ".appveyor.yml",
        "appveyor.yml", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "cloudbuild.yaml",
    )
)  # fmt: skip
"""wherever they are"""
BEGINNINGS = ("lefthook.", "lefthook-local.", ".lefthook", ".aider", ".huskyrc", ".simple-git-hooks.", "jenkinsfile.")
ENDINGS = (".code-workspace", ".sublime-project")
"""the same, for names of which this is a part"""
FOLDERS = frozenset(
    (
        # editors
        ".vscode", ".idea", ".run", ".zed", ".fleet", ".vs", ".nova", ".theia", ".vim", ".nvim", ".helix",
        ".devcontainer",
        # version control, its hooks, and servers
        ".husky", ".githooks", ".git-hooks", ".lefthook", ".github", ".gitlab", ".gitea", ".forgejo", ".circleci",
        ".buildkite", ".woodpecker", ".semaphore", ".teamcity", ".azure-pipelines",
        # package and version managers
        ".cargo", ".mise", ".mvn", ".poetry", ".pdm-plugins", ".ctags.d",
        # other agents
        ".odek", ".claude", ".cursor", ".gemini", ".codex", ".qwen", ".continue", ".windsurf", ".opencode", ".crush",
        ".cline", ".clinerules", ".roo", ".kilocode", ".kiro", ".amazonq", ".goose", ".augment", ".junie", ".trae",
        ".agent", ".agents", ".openhands", ".factory", ".amp", ".copilot", ".codeium", ".tabnine",
    )
)  # fmt: skip
"""wherever they are, every file in them counts"""
TAILS = (
    ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".jj/workspace-config.toml",
    ".yarn/releases", ".yarn/plugins", ".bundle/config", ".bundle/plugin", ".config/mise", ".config/mise.toml",
    "tools/bazel",
)  # fmt: skip
"""ends of paths that count, files or folders; what else is in these folders is daily work"""
HOLDERS = frozenset(tail.partition("/")[0] for tail in TAILS)
"""folders that hold such a thing: they count when they are put there as a whole"""

GIT = ".git"
"""git's own folder, or the file that says where that is"""
GIT_DATA = frozenset(
    ("objects", "refs", "logs", "index", "commit_editmsg", "merge_msg", "orig_head", "fetch_head")
)  # fmt: skip
"""what git keeps in its folder and neither runs nor obeys"""
GIT_FILES = frozenset(("config", "config.worktree", "commondir"))
"""what git obeys in its folder; daily work leaves them alone"""
GIT_FOLDERS = frozenset(("hooks", "info"))
"""the same, every file in them"""


def is_repository(names: frozenset[str]) -> bool:
    """Return whether git would take the folder that holds `names`, in lower case, for one of its own.

    It needs no special name for that: calling git in such a folder runs what its `config` names.
    """
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


def may_count(name: str) -> bool:
    """Return whether `name`, in lower case, can mean anything here; quick, for the many that cannot."""
    return name in _ANY or name.startswith(BEGINNINGS) or name.endswith(ENDINGS)


def is_named(name: str) -> bool:
    """Return whether a file or folder called `name`, in lower case, counts wherever it is; .git is not covered."""
    return name in _NAMES or name.startswith(BEGINNINGS) or name.endswith(ENDINGS)


def is_folder(name: str) -> bool:
    """Return whether every file in a folder called `name`, in lower case, counts."""
    return name in FOLDERS or name.startswith(BEGINNINGS)


def is_tail(path: str) -> bool:
    """Return whether the end of `path`, in lower case, is one of TAILS."""
    name = path[path.rfind("/") + 1 :]
    return name in _LAST and any(path == tail or path.endswith(f"/{tail}") for tail in TAILS)


_NAMES = FILES | FOLDERS
_LAST = frozenset(tail.rpartition("/")[2] for tail in TAILS)
_ANY = _NAMES | HOLDERS | _LAST | GIT_FILES | GIT_FOLDERS | {GIT}


MAX_FOLDERS = 3000  # for each snapshot; a start must not wait for it, and 3000 folders of 20 files take 0.1 s
SLACK_NS = 100_000_000  # file systems stamp with a clock that lags by some ticks
_SHOWN = 12
_FIRST_LEVELS = 2
_MAX_INCLUDES = 8
_IN_GIT = GIT_FILES | GIT_FOLDERS
_PASSED_OVER = frozenset(("node_modules", "__pycache__", ".venv", ".tox", ".cache"))
_PASSED_OVER_IN_GIT = GIT_DATA | {"lfs", "annex"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """What distinguishes one file from another."""

    identity: tuple[int, ...]
    """device and inode; and the time of the last change, except for folders"""
    ctime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files and folders that count, as they were at one time."""

    found: Mapping[str, FileStamp]
    """by path, relative to the folder that was looked through"""
    whole: bool
    """False: there are more than MAX_FOLDERS folders, and some were left out"""
    taken_ns: int
    """wall-clock time before it began"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    path: str
    """relative; "" is the first one"""
    is_git: bool = False
    counts: bool = False
    """whether every file in it does"""
    level: int = 0
    """names of the list on the way to it, its own included"""
    goes_first: bool = False


def take_snapshot(
    folder: str, *, now_ns: int, since_ns: int | None = None, skipped: frozenset[str] = frozenset()
) -> Snapshot:
    """Return what counts in `folder`, an absolute path without links; a folder that cannot be listed counts as such.

    Links are followed where they stand for something that counts and lead to something in `folder`. Of a
    tree too large to look through, the folders nearest to the top are taken; those that count, before all
    others, or a flood of folders next to them would hide them. With `since_ns`, a wall-clock time, programs
    that run as their owner (setuid) and changed after it count as well. `skipped` are folders, relative to
    `folder`, that hold no files: a /proc that is mounted there has more folders than any tree.
    """
    try:
        inside = Inside(folder)
    except OSError:  # gone, or exchanged for a link: there is nothing to look at
        return Snapshot(found={}, whole=True, taken_ns=now_ns)
    with inside:
        walk = _Scan(inside=inside, top=folder.rstrip("/"), since_ns=since_ns, skipped=skipped)
        whole = walk.run()
    return Snapshot(found=walk.found, whole=whole, taken_ns=now_ns)


def diff_snapshots(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return, sorted, the paths that changed: made, replaced, written or gone. Pure.

    A new folder is named instead of all that is in it.
    """
    changed = {path for path, stamp in after.found.items() if _is_new(path, stamp, before)}
    if after.whole:
        changed |= before.found.keys() - after.found.keys()
    return tuple(sorted(path for path in changed if changed.isdisjoint(_folders_above(path))))


def describe_changes(before: Snapshot, after: Snapshot) -> str:
    """Return the sentence for the user, "" when there is nothing to say. Pure."""
    paths = diff_snapshots(before, after)
    left_out = f"only {MAX_FOLDERS} folders were looked into, there are more{' now' if before.whole else ''}"
    if not paths:
        return "" if after.whole else f"not every file was looked at that this machine may trust later: {left_out}"
    shown = ", ".join(truncate(visible(path), 100) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    rest = "" if after.whole else f" ({left_out})"
    return f"files changed that this machine may run or trust later: {shown}{more}{rest}"


def _is_new(path: str, stamp: FileStamp, before: Snapshot) -> bool:
    if path in before.found:
        return before.found[path].identity != stamp.identity
    return before.whole or stamp.ctime_ns >= before.taken_ns - SLACK_NS


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


@dataclass(slots=True, kw_only=True)
class _Scan:
    """A snapshot that is being taken."""

    inside: Inside
    top: str
    since_ns: int | None
    skipped: frozenset[str]
    found: dict[str, FileStamp] = field(default_factory=dict)
    includes: int = 0

    def run(self) -> bool:
        """Look into one folder after the other; return whether all were."""
        first, others = deque([_Folder(path="")]), deque[_Folder]()
        for _ in range(MAX_FOLDERS):
            if not first and not others:
                break
            for below in self._look_into((first or others).popleft()):
                (first if below.goes_first else others).append(below)
        return not first and not others

    def _look_into(self, here: _Folder) -> Iterator[_Folder]:
        """Add what counts in `here`, and yield the folders in it that are to be looked into."""
        try:
            descriptor = self.inside.open_folder(here.path)
        except (FileNotFoundError, NotADirectoryError):  # gone meanwhile
            return
        except OSError:
            # who knows the name of a file in it, as git and editors do, can open that all the same
            self.found.update((path or ".", _closed(stamp)) for path, stamp in self._stamps_at(here.path).items())
            return
        try:
            yield from self._look_at(here, descriptor)
        except OSError:
            self.found.update((path or ".", _closed(stamp)) for path, stamp in self._stamps_at(here.path).items())
        finally:
            os.close(descriptor)

    def _look_at(self, here: _Folder, descriptor: int) -> Iterator[_Folder]:
        with os.scandir(descriptor) as listing:
            entries = [(entry.name.casefold(), entry) for entry in listing]
        is_git = here.is_git or is_repository(frozenset(name for name, _ in entries))
        if is_git and here.path:  # a repository by any other name counts as well
            self.found.update(self._stamps_at(here.path))
        passed_over = _PASSED_OVER | _PASSED_OVER_IN_GIT if is_git and here.path else _PASSED_OVER
        above = here.path.casefold()
        for name, entry in entries:
            listed = may_count(name) and (
                is_named(name)
                or name == GIT
                or name in HOLDERS
                or (is_git and name in _IN_GIT)
                or is_tail(_join(above, name))
            )
            if listed or here.counts:
                self.found.update(self._stamps_at(_join(here.path, entry.name)))
            elif self.since_ns is not None:
                self._look_at_rights(here.path, entry)
            if listed and is_git and name in GIT_FILES:
                yield from self._named_by(_join(here.path, entry.name), worktree=_worktree(here.path), depth=0)
            level = here.level + listed
            path = _join(here.path, entry.name)
            if (
                name not in passed_over
                and path not in self.skipped
                and self._is_folder(entry, here.path, follow=listed and level <= _FIRST_LEVELS)
            ):
                yield _Folder(
                    path=path,
                    is_git=name == GIT,
                    counts=here.counts
                    or (listed and (is_folder(name) or is_tail(_join(above, name))))
                    or (is_git and name in GIT_FOLDERS),
                    level=level,
                    # spelt as listed: other spellings can be made without end, and so can folders in each other
                    goes_first=listed and entry.name == name and level <= _FIRST_LEVELS,
                )

    def _look_at_rights(self, folder: str, entry: os.DirEntry[str]) -> None:
        """Add a program that runs as its owner or group, if it became one since the start."""
        assert self.since_ns is not None
        try:
            if not entry.is_file(follow_symlinks=False):
                return
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and status.st_ctime_ns >= self.since_ns - SLACK_NS:
            self.found[_join(folder, entry.name)] = _stamp_of(status)

    def _named_by(self, config: str, *, worktree: str, depth: int) -> Iterator[_Folder]:
        """Add what a file of git's settings names in the folder, and yield the folders of it."""
        try:
            text = self.inside.read(config, limit_bytes=gitconfig.LIMIT_BYTES).decode("utf-8", "surrogateescape")
        except OSError:
            return
        for word in gitconfig.named(text):
            for base in dict.fromkeys((worktree, posixpath.dirname(config))):
                path = self._within(word, base)
                # the folder of a whole checkout is not reported: `core.hooksPath = .`
                stamps = self._stamps_at(path) if path else {}
                if stamps and path not in self.found:
                    self.found.update(stamps)
                    yield _Folder(path=path, counts=True, level=_FIRST_LEVELS, goes_first=True)
        for word in gitconfig.included(text):
            path = self._within(word, posixpath.dirname(config))
            if path and depth < _MAX_INCLUDES and self.includes < _MAX_INCLUDES:
                self.includes += 1
                yield from self._named_by(path, worktree=worktree, depth=depth + 1)

    def _within(self, word: str, base: str) -> str:
        """Return the path of what git's settings call `word`, relative to the top; "" when that is outside."""
        if word.startswith("/"):
            path = posixpath.normpath(word)
            return path[len(self.top) + 1 :] if path.startswith(self.top + "/") else ""
        path = posixpath.normpath(_join(base, word))
        return "" if path == "." or path.startswith("../") or path == ".." else path

    def _is_folder(self, entry: os.DirEntry[str], folder: str, *, follow: bool) -> bool:
        try:
            if entry.is_dir(follow_symlinks=False):
                return True
            if not follow or not entry.is_symlink():
                return False
            return stat.S_ISDIR(self.inside.status(_join(folder, entry.name), follow=True).st_mode)
        except OSError:
            return False

    def _stamps_at(self, path: str) -> dict[str, FileStamp]:
        """Return the stamp of `path`, by that path; nothing when it is gone."""
        try:
            status = self.inside.status(path)
        except OSError:
            return {}
        stamp = _stamp_of(status)
        if stat.S_ISLNK(status.st_mode):
            try:
                target = _stamp_of(self.inside.status(path, follow=True))
            except OSError:  # it may lead nowhere, out of the folder, or round
                return {path: stamp}
            stamp = FileStamp(
                identity=(*stamp.identity, *target.identity), ctime_ns=max(stamp.ctime_ns, target.ctime_ns)
            )
        return {path: stamp}


def _worktree(git: str) -> str:
    """Return the folder whose repository is `git`, as paths in its settings mean it."""
    return posixpath.dirname(git) if posixpath.basename(git).casefold() == GIT else git


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _stamp_of(status: os.stat_result) -> FileStamp:
    # daily work inside of a folder changes its time
    when = () if stat.S_ISDIR(status.st_mode) else (status.st_ctime_ns,)
    return FileStamp(identity=(status.st_dev, status.st_ino, *when), ctime_ns=status.st_ctime_ns)


def _closed(stamp: FileStamp) -> FileStamp:
    return replace(stamp, identity=(*stamp.identity, -1))
