"""git on the host: in the checkout that the project is, when nothing that it obeys there runs a program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odek.danger.host.table import Layout
from odek.danger.paths import Place, is_below, resolve, writable_root
from odek.danger.risk import NotUnderstood
from odek.danger.shell import abstract_text
from odek.patterns import pattern

if TYPE_CHECKING:
    from odek.danger.host.command import At
    from odek.danger.host.places import Places

_SECTION = pattern(r"\[([A-Za-z0-9.-]+)(?:[ \t]+\"((?:[^\"\\\n]|\\.)*)\")?\]")
_PLAIN_KEYS = pattern(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode|autocrlf|eol|"
    r"safecrlf|quotepath|abbrev|compression|untrackedcache|splitindex|longpaths|preloadindex|commentchar|checkstat)|"
    r"user\..*|color\..*|branch\.(?:merge|remote|rebase|description|pushremote|vscode-merge-base|gh-merge-base)|"
    r"remote\.(?:url|fetch|pushurl|mirror|tagopt|prune|gh-resolved|promisor|partialclonefilter|skipdefaultupdate)|"
    r"submodule\.(?:url|active|branch|ignore|recurse)|push\..*|pull\..*|rebase\.[a-z]+|merge\.(?:ff|conflictstyle|renames)|"
    r"fetch\.prune|init\.defaultbranch|diff\.(?:renames|algorithm|noprefix)|advice\..*|status\..*|log\.(?:date|decorate)|"
    r"commit\.(?:gpgsign|verbose)|tag\.(?:sort|gpgsign)|gc\..*|pack\..*|feature\..*|index\..*|rerere\..*|"
    r"extensions\.(?:objectformat|worktreeconfig|partialclone)|lfs\.repositoryformatversion|maintenance\..*|gui\..*|"
    r"column\..*|blame\..*|versionsort\..*|http\.postbuffer|fsck\..*|receive\.fsckobjects|transfer\.fsckobjects"
)
_RUNS_HOOKS = {
    "commit": ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-auto-gc"),
    "merge": ("pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge"),
    "checkout": ("post-checkout",),
    "switch": ("post-checkout",),
    "worktree": ("post-checkout",),
    "rebase": ("pre-rebase", "post-checkout", "post-rewrite", "prepare-commit-msg", "commit-msg", "post-commit"),
    "cherry-pick": ("prepare-commit-msg", "commit-msg", "post-commit"),
    "revert": ("prepare-commit-msg", "commit-msg", "post-commit"),
    "am": ("applypatch-msg", "pre-applypatch", "post-applypatch"),
}
_EVERY_CHANGE = ("reference-transaction", "post-index-change", "fsmonitor-watchman")
_MAX_PARENTS = 64


class Checkout:
    """Refuses by raising NotUnderstood."""

    def __init__(self, place: Place, places: Places) -> None:
        self._place = place
        self._places = places
        self._look = place.look
        self._found_plain: set[tuple[str, str]] = set()

    def enter(self, layout: Layout, at: At) -> tuple[str, ...]:
        """Return the directories in which git works after its own options, `-C` and `-c`."""
        cwds = at.cwds
        for option, _, value in layout.values:
            if option == "-C":
                if not abstract_text.is_exact(value):
                    raise NotUnderstood("git works in a folder that cannot be known beforehand")
                cwds = tuple(resolve(value, cwd) for cwd in cwds)
        return cwds

    def require(self, path: str, at: At) -> None:
        """Return if `git …` in the directories of `at` obeys this checkout alone. `path`: "git stash list"."""
        if path in ("git init", "git version", "git help"):
            return
        for cwd in at.cwds:
            if not abstract_text.is_exact(cwd):
                raise NotUnderstood("git works in a folder that cannot be known beforehand")
            command = path.split()[1]
            if (cwd, command) not in self._found_plain:
                self._require_own(cwd, command)
                self._found_plain.add((cwd, command))

    def _require_own(self, cwd: str, command: str) -> None:
        root = resolve(writable_root(self._place), "/")
        if self._look is None:
            if resolve(cwd, "/") != root:
                raise NotUnderstood("git works in another folder than the project's own")
            return
        folder = self._look.real(cwd)
        for _ in range(_MAX_PARENTS):
            kind = self._look.kind(f"{folder}/.git")
            if kind:
                self._require_plain(folder, kind, root, command)
                return
            if {"HEAD", "objects", "refs"} <= set(self._look.names(folder)) or self._look.kind(f"{folder}/commondir"):
                raise NotUnderstood(f"git would take {folder} for a repository of its own")
            if folder == "/":
                return  # there is no checkout: git only reports that
            folder = posixpath.dirname(folder)

    def _require_plain(self, folder: str, kind: str, root: str, command: str) -> None:
        """The folder with `.git` must be the project's, or one that the project lies in."""
        assert self._look is not None
        if not is_below(root, folder):
            raise NotUnderstood(f"git would obey {folder}/.git, which is not the project's own")
        git = f"{folder}/.git"
        if kind != "folder":
            git = self._pointed(git, folder)
        common = (self._look.text(f"{git}/commondir") or "").strip()
        homes = [git, posixpath.normpath(posixpath.join(git, common))] if common else [git]
        for home in homes:
            for name in ("config", "config.worktree"):
                self._require_config(f"{home}/{name}", required=name == "config" and home == homes[-1])
        self._require_no_hooks(homes[-1], command)

    def _pointed(self, path: str, folder: str) -> str:
        """Return the folder that a `.git` file names, as worktrees and submodules have it."""
        assert self._look is not None
        text = self._look.text(path) or ""
        match = re.fullmatch(r"gitdir: ([^\n]+)\n?", text)
        target = self._look.real(posixpath.join(folder, match[1])) if match else ""
        if not target or (is_below(target, folder) and "/.git/" not in target):
            raise NotUnderstood(f"git would obey {path}, which leads to a folder that is not the project's own")
        return target

    def _require_config(self, path: str, *, required: bool) -> None:
        assert self._look is not None
        text = self._look.text(path)
        if text is None:
            if required:
                raise NotUnderstood(f"git would obey {path}, which cannot be read")
            return
        for key in config_keys(text):
            if not _PLAIN_KEYS.fullmatch(key):
                raise NotUnderstood(f"git would obey {key} in {path}, which may run a program")

    def _require_no_hooks(self, git: str, command: str) -> None:
        assert self._look is not None
        hooks = set(self._look.names(f"{git}/hooks"))
        found = sorted(hooks & {*_RUNS_HOOKS.get(command, ()), *_EVERY_CHANGE})
        if found:
            raise NotUnderstood(f"git would run its hook {found[0]}")


def config_keys(text: str) -> Sequence[str]:
    """Return the keys that a git config sets, "section.name" in lower case; "?" for a line that is not understood."""
    keys: list[str] = []
    section = ""
    for line in re.sub(r"\\\n", "", text).splitlines():
        line = line.strip()
        if match := _SECTION.match(line):
            section, line = match[1].lower(), line[match.end() :].strip()
            if "." in section:
                section = section.partition(".")[0]
        if not line or line[0] in "#;":
            continue
        name = re.match(r"[A-Za-z][A-Za-z0-9-]*", line)
        keys.append(f"{section}.{name[0].lower()}" if name and section else "?")
    return keys
