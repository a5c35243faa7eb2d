"""Which places a command may read, list and change on the host without a question.

A place is judged where it really leads, as far as the folders can be looked at (`Place.look`), and by what a
reader of a whole tree would come across there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator, Sequence
from fnmatch import fnmatchcase

from odek import trusted_files
from odek.danger.paths import (
    Place,
    classify_read,
    classify_write,
    has_ordinary_home,
    is_below,
    is_env_file,
    is_secret,
    is_temporary,
    is_wipe_target,
    resolve,
    split,
    trusted_name,
    writable_root,
)
from odek.danger.risk import NotUnderstood, RiskClass
from odek.danger.shell import abstract_text
from odek.patterns import pattern

MAX_MATCHES = 2000  # names that one glob may give
MAX_RELIED_ON = 400  # files that decide what programs run
MAX_ENTRIES = 20_000  # files of a tree that are looked at
_STREAMS = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"))
_SOURCES = _STREAMS | {"/dev/zero", "/dev/urandom", "/dev/random", "/dev/fd/63"}
_SYSTEM_FACTS = pattern(
    r"/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|stat|filesystems|partitions|swaps|mdstat)|"
    r"/etc/(?:hosts|os-release|debian_version|alpine-release|lsb-release|redhat-release|issue|timezone|localtime|"
    r"hostname|resolv\.conf|shells|services|protocols|nsswitch\.conf|ld\.so\.conf)|"
    r"/sys/(?:class|devices|block)/[\w./:-]+|/usr/(?:local/)?(?:include|share|lib|lib64|src)(?:/[^\0-\6]*)?"
)
_DEPENDENCIES = frozenset((".git", "node_modules", ".venv", "venv", "target", "__pycache__", ".tox", "site-packages"))
_PATCH_NAMES = pattern(
    r"(?m)^(?:diff --git|\+\+\+|---|rename to|copy to|new file mode|old mode|new mode|\*\*\*|Index:) ?(.*)$"
)
_PUBLIC_KEY = pattern(r"/\.ssh/[\w.-]+\.pub$")
_ED_SCRIPT = pattern(r"(?m)^[0-9]+(?:,[0-9]+)?[acdi]\r?$")
_ODD = pattern(r"[\s'\"\\*?\[\]{}~$`]|^-")


class Places:
    """Refuses by raising NotUnderstood."""

    def __init__(self, place: Place, asked: Container[str]) -> None:
        """`asked`: names of trusted files that are asked about already, by that name (D-6)."""
        self._place = place
        self._asked = asked
        self._look = place.look
        self.contents_unknown = False
        """whether files may by now hold something else than what was seen"""
        self._seen: set[str] = set()
        self._written: set[str] = set()
        self._harmless: set[tuple[str, str]] = set()
        """places that a decision rests on, and places that the command line writes, in whatever order"""

    def read(self, path: str, cwds: Sequence[str]) -> None:
        """`path` is a file whose contents are shown."""
        if path.startswith(("@", "+")):  # some programs read more arguments from @FILE, or commands from +…
            raise NotUnderstood(f"the operand {_shown(path)} is not known to be harmless")
        for whole in self._whole(path, cwds, "reads"):
            for real in self._real(whole):
                self._readable(real, whole)

    def names(self, path: str, cwds: Sequence[str]) -> None:
        """`path` is listed or looked at; what is in files is not shown."""
        for _whole in self._whole(path, cwds, "looks at"):
            return

    def tree(
        self,
        path: str,
        cwds: Sequence[str],
        *,
        follows: bool = False,
        hidden: bool = True,
        excluded: tuple[str, ...] = (),
    ) -> None:
        """All files below `path` are read. `follows`: links among them, too; `hidden`: hidden ones as well."""
        for whole in self._whole(path, cwds, "reads"):
            for real in self._real(whole):
                self._readable(real, whole)
                if real in _SOURCES:
                    continue
                if not self._is_ours(real) and self._kind(real) != "file":
                    raise NotUnderstood(f"reads everything below {_shown(resolve(whole, '/'))}")
                self._search(real, follows=follows, hidden=hidden, excluded=excluded)

    def write(self, path: str, cwds: Sequence[str], *, removes: bool = False) -> None:
        """`path` is a file or folder that is made or changed. `removes`: or deleted."""
        for whole in self._whole(path, cwds, "changes"):
            if posixpath.basename(whole).startswith("-"):
                raise NotUnderstood(f"makes {_shown(whole)}, which other commands take for an option")
            for real in self._real(whole):
                self._writable(real, whole, removes=removes)
                self._written.add(real)
                if any(_touches(real, seen) for seen in self._seen):
                    raise NotUnderstood(f"changes {_shown(whole)}, which another part of the command obeys")

    def remove_tree(self, path: str, cwds: Sequence[str]) -> None:
        """Everything below `path` is deleted."""
        self.write(path, cwds, removes=True)
        for whole in self._whole(path, cwds, "deletes"):
            for real in self._real(whole):
                if is_wipe_target(
                    resolve(path, "/") if abstract_text.NAME in path and path.startswith("/") else real, self._place
                ):
                    raise NotUnderstood(f"deletes all of {_shown(whole)}")

    def has_option_names(self, path: str, cwds: Sequence[str]) -> bool:
        """Return whether what the glob `path` matches may be taken for options."""
        if self._look is None:
            return not re.search(r"[A-Za-z0-9_]\.?[A-Za-z0-9_]+/?$|/$", path) or path[-2:-1] in abstract_text.GLOBS
        folders = [resolve(".", cwd) for cwd in cwds]
        if any(not abstract_text.is_exact(folder) for folder in folders):
            return True
        first = path.partition("/")[0]
        return any(name.startswith("-") and _matches(name, first) for folder in folders for name in self._names(folder))

    def made_of_links(self, path: str, cwds: Sequence[str]) -> bool:
        """Return whether `path` is a link or a folder, as far as can be seen: moving one moves where it leads."""
        return self._look is not None and any(
            self._look.kind(whole) in ("link", "folder") for whole in self._whole(path, cwds, "moves")
        )

    def listed(self, roots: Sequence[str], ending: str, cwds: Sequence[str]) -> None:
        """Names that a search below `roots` printed are operands: of the project, and none may be split."""
        for cwd in cwds:
            for root in roots:
                whole = resolve(root, cwd)
                if not abstract_text.is_exact(whole) or not self._is_ours(whole):
                    raise NotUnderstood("works on files that cannot be known beforehand")
                self._search(whole, follows=True, odd=True, ending=ending)

    def require_ours(self, path: str, cwds: Sequence[str]) -> None:
        """`path` must lie in the project or be a temporary file."""
        for whole in self._whole(path, cwds, "changes"):
            for real in self._real(whole):
                if not self._is_ours(real):
                    raise NotUnderstood(f"changes {_shown(whole)}, which is not in the project")

    def is_ours(self, path: str, cwds: Sequence[str]) -> bool:
        """Return whether `path` lies in the project or is a temporary file."""
        try:
            self.require_ours(path, cwds)
        except NotUnderstood:
            return False
        return True

    def require_untrusted(self, roots: Sequence[str], ending: str, cwds: Sequence[str]) -> None:
        """No file below `roots` whose name ends with `ending` may be one that this machine trusts."""
        for root in roots:
            self.require_ours(root, cwds)
            for cwd in cwds if self._look else ():
                for path, _ in self._walk(resolve(root, cwd)):
                    if path.endswith(ending) and trusted_name(path, self._place):
                        raise NotUnderstood(f"may change {_shown(path)}, which this machine trusts later")

    def require_without(self, path: str, pattern: str, cwds: Sequence[str]) -> None:
        """The text of the file `path` must be there, and must not match `pattern`."""
        for whole in [resolve(path, cwd) for cwd in cwds]:
            self._require_plain(whole, pattern, path)

    def require_harmless(self, whole: str, pattern: str) -> None:
        """The file `whole` must not be there, or, with a `pattern`, must not match it."""
        if (whole, pattern) in self._harmless and not self.contents_unknown:
            return
        if self._look is None or self._look.kind(whole):
            self._require_plain(whole, pattern, posixpath.basename(whole))
        else:
            self._rely_on(whole)
        self._harmless.add((whole, pattern))

    def _require_plain(self, whole: str, pattern: str, shown: str) -> None:
        if self._look is None:
            return
        self._rely_on(whole)
        text = self._look.text(whole)
        if text is None or re.search(pattern, text):
            raise NotUnderstood(f"obeys {_shown(shown)}, which may run a program or lead elsewhere")

    def _rely_on(self, whole: str) -> None:
        """Note that a decision rests on what is, or is not, at `whole`."""
        assert self._look is not None
        if len(self._seen) > MAX_RELIED_ON:
            raise NotUnderstood("obeys more files than are looked at")
        for path in (whole, self._look.real(whole)):
            self._seen.add(path)
            if self.contents_unknown or any(_touches(written, path) for written in self._written):
                raise NotUnderstood(f"obeys {_shown(whole)}, which another part of the command may change")

    def require_new_name(self, path: str) -> None:
        """The file that is made at `path`, a name with unknown parts, must be none that this machine trusts."""
        if path.endswith("/"):
            return
        name = posixpath.basename(path)
        if not abstract_text.is_exact(name) and any(_matches(known, name.casefold()) for known in trusted_files.FILES):
            raise NotUnderstood(f"makes {_shown(path)}, which this machine may trust later")

    def require_no_secret(self, path: str, cwds: Sequence[str]) -> None:
        """The name of `path` must not say that it holds secrets."""
        for cwd in cwds:
            whole = resolve(path.replace(abstract_text.NAME, abstract_text.STAR), cwd) if path else "/"
            if is_secret(whole, self._place) or is_env_file(split(whole)):
                raise NotUnderstood(f"reads {_shown(path)}, which may hold secrets")

    def require_plain_members(self, archive: str, folder: str, cwds: Sequence[str]) -> None:
        """What `archive` holds must stay in `folder`, and be nothing that this machine trusts."""
        self.require_ours(f"{folder}/x", cwds)
        if archive == "-" or not abstract_text.is_exact(archive):
            raise NotUnderstood("unpacks an archive that cannot be known beforehand")
        for cwd in cwds if self._look else ():
            assert self._look is not None
            self._rely_on(resolve(archive, cwd))
            names = self._look.members(resolve(archive, cwd))
            if names is None:
                raise NotUnderstood(f"unpacks {archive}, whose files cannot be seen, or hold links")
            for name in names:
                place = resolve(f"{folder}/{name}", cwd)
                if name.startswith("/") or ".." in name.split("/") or trusted_name(place, self._place):
                    raise NotUnderstood(f"unpacks {name}, which this machine may trust")
                self._writable(self._look.real(place), name, removes=False)

    def require_plain_patch(self, patch: str, cwds: Sequence[str]) -> None:
        """The files that `patch` changes must be nothing that this machine trusts."""
        for cwd in cwds if self._look else ():
            assert self._look is not None
            self._rely_on(resolve(patch, cwd))
            text = self._look.text(resolve(patch, cwd))
            if text is None:
                raise NotUnderstood(f"applies {patch}, which cannot be seen")
            self.require_plain_patch_text(text, cwds)

    def require_plain_patch_text(self, text: str, cwds: Sequence[str]) -> None:
        """As require_plain_patch, for the text itself."""
        if _ED_SCRIPT.search(text):
            raise NotUnderstood("applies a patch that is a script for ed")
        for line in _PATCH_NAMES.findall(text):
            for name in line.split():
                places = [resolve(part, cwd) for part in (name, name.partition("/")[2]) for cwd in cwds]
                if any(trusted_name(place, self._place) for place in places) or ".." in name or "120000" in line:
                    raise NotUnderstood(f"applies a patch that changes {name}")

    # where it leads

    def _whole(self, path: str, cwds: Sequence[str], verb: str) -> list[str]:
        """Return what `path` is in each of `cwds`, as written; globs stay marks."""
        if not path:
            return []
        if abstract_text.holds_unknown(path) or abstract_text.BELOW in path or abstract_text.EITHER in path:
            raise NotUnderstood(f"{verb} a place that cannot be known beforehand")
        path = path.replace(abstract_text.NAME, abstract_text.STAR)
        found = []
        for cwd in cwds:
            whole = path if path.startswith("/") else f"{cwd}/{path}"
            if abstract_text.holds_unknown(whole) or not resolve(path, cwd).startswith("/"):
                raise NotUnderstood(f"{verb} a place that cannot be known beforehand")
            if any(part[:1] == "." and part[1:2] in abstract_text.GLOBS for part in split(whole)):
                raise NotUnderstood(f"{verb} {_shown(path)}, which may lead out of the folder")
            found.append(whole)
        return found

    def _real(self, whole: str) -> Iterator[str]:
        """Give the places to which `whole` leads, and the one that it names."""
        yield resolve(whole, "/")
        if self._look is None:
            return
        for match in self._expanded(whole):
            yield self._look.real(match)

    def _expanded(self, whole: str) -> Iterator[str]:
        """Give the paths that a glob matches; what holds no glob is itself."""
        assert self._look is not None
        waiting: list[tuple[str, tuple[str, ...]]] = [("/", tuple(part for part in whole.split("/") if part))]
        given = 0
        while waiting:
            base, parts = waiting.pop()
            fixed = 0
            while fixed < len(parts) and abstract_text.is_exact(parts[fixed]):
                fixed += 1
            base = posixpath.join(base, *parts[:fixed])
            if fixed == len(parts):
                yield base
                given += 1
                if given > MAX_MATCHES:
                    raise NotUnderstood(f"{_shown(whole)} names more files than are looked at")
                continue
            pattern, rest = parts[fixed], parts[fixed + 1 :]
            waiting += [(f"{base}/{name}", rest) for name in self._names(base) if _matches(name, pattern)]

    def _names(self, folder: str) -> tuple[str, ...]:
        return self._look.names(folder) if self._look else ()

    # what may be done there

    def _is_ours(self, path: str) -> bool:
        root = writable_root(self._place)
        return (root not in ("", "/") and is_below(path, root)) or is_temporary(path, self._place)

    def _readable(self, path: str, shown: str) -> None:
        if path in _SOURCES or _SYSTEM_FACTS.fullmatch(path):
            return
        finding = classify_read(path, self._place)
        if finding is not None:
            raise NotUnderstood(finding.reason)
        if self._is_ours(path):
            return
        if _PUBLIC_KEY.search(path):
            return
        home = resolve(self._place.home, "/") if has_ordinary_home(self._place) else ""
        inside = split(path)[len(split(home)) :] if home and is_below(path, home) else ()
        if not inside or any(part.startswith(".") or part[:1] in abstract_text.GLOBS for part in inside):
            raise NotUnderstood(f"reads {_shown(shown)}, which is not in the project")

    def _writable(self, path: str, shown: str, *, removes: bool) -> None:
        if path in _STREAMS or path.startswith("/dev/fd/"):
            return
        finding = classify_write(path, self._place)
        if finding.level > RiskClass.LOCAL_WRITE:
            raise NotUnderstood(finding.reason)
        if name := trusted_name(path, self._place):
            if name not in self._asked:
                raise NotUnderstood(f"changes {name}, which this machine trusts later")
            return
        root, home = writable_root(self._place), resolve(self._place.home or "/", "/")
        inside = split(path)[len(split(home)) :] if is_below(path, home) else ()
        hidden = bool(inside) and (inside[0].startswith(".") or inside[0][:1] in abstract_text.GLOBS)
        if self._is_ours(path):
            if hidden and not _is_within(root, home):
                raise NotUnderstood(f"changes {_shown(shown)}, which programs of the home may obey")
            if not (removes and path in (root, *self._place.temp)):
                return
        elif len(inside) == 1 and not hidden and abstract_text.is_exact(path) and self._kind(path) in ("", "file"):
            return
        raise NotUnderstood(f"changes {_shown(shown)}, which is not in the project")

    def _kind(self, path: str) -> str:
        return self._look.kind(path) if self._look else ""

    def _search(
        self,
        root: str,
        *,
        follows: bool,
        odd: bool = False,
        hidden: bool = True,
        excluded: tuple[str, ...] = (),
        ending: str = "",
    ) -> None:
        """Look through the tree at `root` for secrets, links that lead out (`follows`) and names that shells split."""
        if self._look is None or self._look.kind(root) != "folder":
            return
        for path, kind in self._walk(root):
            name = posixpath.basename(path)
            if odd and _ODD.search(name):
                raise NotUnderstood(f"may come across {_shown(path)}, a name that shells split")
            if kind != "folder" and not name.endswith(ending):
                continue
            if not hidden and any(part.startswith(".") for part in split(path)[len(split(root)) :]):
                continue
            if kind == "file" and any(fnmatchcase(name, pattern) for pattern in excluded):
                continue
            if is_secret(path, self._place) or is_env_file(split(path)):
                raise NotUnderstood(f"reaches {_shown(path)}, which may hold secrets")
            if kind == "link" and follows and not self._is_ours(self._look.real(path)):
                raise NotUnderstood(f"may follow the link {_shown(path)} out of the project")

    def _walk(self, root: str) -> Iterator[tuple[str, str]]:
        """Give the paths below `root` with their kinds, folders of dependencies left out."""
        waiting, seen = [root], 0
        while waiting and self._look:
            folder = waiting.pop(0)
            for name, kind in self._look.entries(folder):
                path, seen = f"{folder}/{name}", seen + 1
                if seen > MAX_ENTRIES:
                    raise NotUnderstood(f"{_shown(root)} holds more files than are looked at")
                yield path, kind
                if kind == "folder" and name not in _DEPENDENCIES:
                    waiting.append(path)


def _is_within(root: str, home: str) -> bool:
    """Return whether the project lies inside the home, and not the other way round."""
    return root != home and is_below(root, home)


def _matches(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False  # as shells have it
    plain = "".join(
        "*"
        if c in (abstract_text.STAR, abstract_text.NAME)
        else "?*"
        if c == abstract_text.ONE
        else f"[{c}]"
        if c in "*?["
        else c
        for c in pattern
    )
    return fnmatchcase(name, plain)


def _touches(written: str, seen: str) -> bool:
    """Return whether writing `written`, perhaps with unknown parts, may change what is at `seen`."""
    return seen == written or seen.startswith(f"{written}/") or abstract_text.may_equal(written, seen)


def _shown(path: str) -> str:
    return abstract_text.rendered(path)
