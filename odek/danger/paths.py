"""Whose writable_root a path is: by component, for a given home, working directory and workspace.

Everything is lexical; callers with real paths resolve links first. Sources: runtime 5.4, the home
rule of the sandbox document (the user's own home is ordinary ground whatever its path, except for
start files, credentials and odek's own files), D-6 for files that the host trusts.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

from odek import trusted_files
from odek.danger.risk import Finding, RiskClass
from odek.danger.shell import abstract_text
from odek.patterns import pattern


class Look(Protocol):
    """Looks at the folders of the host when a command is judged. Nothing raises: what cannot be seen is not there."""

    def real(self, path: str) -> str:
        """Return where the absolute `path` leads, links followed."""
        ...

    def kind(self, path: str) -> str:
        """Return "file", "folder", "link", "other", or "" for nothing."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder."""
        ...

    def entries(self, folder: str) -> tuple[tuple[str, str], ...]:
        """Return the names in a folder with their kinds."""
        ...

    def text(self, path: str) -> str | None:
        """Return the text of a small file; None when it cannot be read, or is not small."""
        ...

    def members(self, path: str) -> tuple[str, ...] | None:
        """Return the names in an archive; None when they cannot be seen, or one of them is a link."""
        ...


Parts = tuple[str, ...]
Reading = Literal["contents", "names", "mention"]
"""whether a program shows what is in a file, shows that it is there, or only gets its name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command would run."""

    home: str
    """HOME as the command sees it, absolute; "" for none. The caller has checked that it is the user's own"""
    cwd: str
    """absolute directory in which the command starts"""
    workspace: str
    """absolute root of the project; "/workspace" inside the sandbox"""
    sandboxed: bool = False
    """whether it is a container: reading system files there shows nothing of the host"""
    peers: frozenset[str] = frozenset()
    """names, in lower case, of the container itself and of services on networks that were attached for it"""
    temp: tuple[str, ...] = ("/tmp",)
    """absolute directories for temporary files, $TMPDIR included"""
    look: Look | None = field(default=None, compare=False)
    """the folders of the host themselves; None: paths are taken as they are written"""


_NEUTRAL = frozenset((
    ("dev", "null"), ("dev", "stdout"), ("dev", "stderr"), ("dev", "stdin"), ("dev", "tty"), ("dev", "zero"),
))  # fmt: skip
_KERNEL = frozenset(("boot", "dev", "proc", "sys"))
_SYSTEM = frozenset(
    """
    etc root var run lib lib32 lib64 libx32 usr bin sbin opt srv home Users mnt media Library System
    Applications private Volumes nix snap
    """.split()
)
_MOVABLE = frozenset("root var opt srv home Users mnt media private Volumes".split())
"""system writable_root in which a workspace of one's own is ordinary ground"""
_UNREADABLE = frozenset(("etc", "usr", "bin", "lib", "lib64", "var", "opt", "boot", "sbin"))
_READABLE = (
    ("usr", "include"), ("usr", "share"), ("usr", "lib"), ("usr", "lib64"), ("usr", "src"), ("usr", "local", "include"),
    ("usr", "local", "share"), ("usr", "local", "lib"), ("etc", "os-release"), ("etc", "debian_version"),
    ("etc", "alpine-release"), ("etc", "lsb-release"), ("etc", "redhat-release"), ("etc", "issue"), ("etc", "timezone"),
    ("etc", "localtime"), ("etc", "hostname"), ("etc", "hosts"), ("etc", "resolv.conf"), ("etc", "shells"),
    ("etc", "services"), ("etc", "protocols"), ("etc", "nsswitch.conf"),
)  # fmt: skip
_HOMES = frozenset(("home", "Users"))
_ESSENTIAL = frozenset(
    (folder, name)
    for folder, names in {"usr": "bin sbin lib lib32 lib64 libx32 share", "var": "lib"}.items()
    for name in names.split()
)
"""folders without which a system does not run, below one that a system cannot do without either"""

_START_FILES = frozenset(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv .zlogin
    .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .xinitrc .xprofile .xsession .xsessionrc
    .pam_environment .vimrc .exrc .tmux.conf .screenrc .gdbinit .lldbinit .pythonrc .irbrc .curlrc .wgetrc
    .mailcap .forward .gitconfig
    """.split()
)
_PROTECTED = tuple(tuple(name.split("/")) for name in (
    ".ssh", ".config", ".gnupg", ".aws", ".kube", ".docker", ".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".pgpass", ".my.cnf", ".mozilla", ".thunderbird", ".password-store", ".local/share/keyrings", ".local/bin",
    ".local/share/systemd", ".azure", ".vault-token", ".terraform.d", ".cargo/credentials", ".cargo/credentials.toml",
    ".cargo/env", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".odek", ".bash_history",
    ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".oh-my-zsh", ".vim", ".emacs.d", ".emacs",
    "library/keychains", "library/launchagents", "library/application support",
))  # fmt: skip
"""below home; one's own programs and secrets, lower case"""

_CREDENTIAL_NAMES = frozenset(
    """
    .ssh .gnupg .netrc .pgpass .git-credentials .pypirc .vault-token .password-store id_rsa id_dsa id_ecdsa
    id_ed25519 authorized_keys .htpasswd
    """.split()
)
"""components that mean a secret wherever they stand, lower case"""
_CREDENTIAL_PATHS = tuple(tuple(name.split("/")) for name in (
    ".aws/credentials", ".aws/config", ".config/gcloud", ".config/gh", ".kube/config", ".docker/config.json",
    "etc/ssl/private", "run/secrets", "etc/shadow", "etc/gshadow", "etc/sudoers", "etc/sudoers.d",
))  # fmt: skip
_SEPARATORS = pattern(r"[\s/\\'\"`(),;:=@]+")
_CREDENTIAL_STARTS = frozenset(path[0] for path in _CREDENTIAL_PATHS)
_PROTECTED_STARTS = frozenset(path[0] for path in _PROTECTED)
_ENV_SAMPLE = pattern(r"\.env\.(?:[a-z]+\.)?(?:example|sample|template|tmpl|dist|defaults?|test|ci)$|\.envrc$")
_BLOCK_DEVICE = pattern(r"(?:sd|nvme|vd|hd|xvd|mmcblk|disk|rdisk|loop|dm-|md|nbd|pmem|mapper$|block$|root$)")
_DISKS = ("sda", "sda1", "vda", "xvda", "hda", "nvme0n1", "mmcblk0", "disk0", "mapper")
"""names that a glob of disks matches"""

_TRUSTED_NAMES = trusted_files.FILES | trusted_files.FOLDERS
_TRUSTED_BY_GLOB = trusted_files.OWN | frozenset(name for name in _TRUSTED_NAMES if name.startswith("."))
"""`*.py` may name sitecustomize.py, but hardly ever does"""


@lru_cache(maxsize=4096)
def resolve(path: str, cwd: str) -> str:
    """Return `path` made absolute against `cwd` and cleaned of `.`, `..` and doubled slashes."""
    if path[:1] in abstract_text.UNKNOWN or path.startswith(abstract_text.BELOW + "/"):
        return abstract_text.ANY  # may be absolute, may begin with ..
    joined = path if path.startswith("/") else f"{cwd}/{path}"
    if joined[:1] in abstract_text.UNKNOWN:
        return abstract_text.ANY
    if any(mark in part for part in joined.split("/../") for mark in abstract_text.UNKNOWN) and "/../" in joined + "/":
        return abstract_text.ANY  # how far .. climbs is unknown
    return "/" + posixpath.normpath(joined).lstrip("/")


def is_known(path: str) -> bool:
    """Return whether a resolved path is known well enough to say in which directory it lies."""
    return not abstract_text.holds_unknown(path) and not any(_may_climb(part) for part in split(path))


@lru_cache(maxsize=4096)
def split(path: str) -> Parts:
    """Return the components of a resolved path."""
    return tuple(part for part in path.split("/") if part)


def is_below(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies in it, component by component."""
    outer = split(folder)
    return split(path)[: len(outer)] == outer


def writable_root(place: Place) -> str:
    """Return the directory in which a run may freely write and delete: the workspace."""
    return place.workspace or place.cwd


def has_ordinary_home(place: Place) -> bool:
    """Return whether home is ground of one's own: no system directory itself, none's ancestor."""
    parts = split(resolve(place.home, "/")) if place.home.startswith("/") else ()
    if not parts or parts[0] in _KERNEL or parts[0] in ("etc", "bin", "sbin", "lib", "lib64", "run"):
        return False
    if parts == ("root",):
        return True
    if parts[0] == "usr":
        return len(parts) > 2
    if parts[:1] in (("var",), ("private",)):
        return len(parts) > 2 or parts == ("var", "www")
    return len(parts) > 1 or parts[0] not in _SYSTEM


@lru_cache(maxsize=4096)
def classify_write(path: str, place: Place) -> Finding:
    """Return what writing, creating or removing the file at a resolved `path` means."""
    if not is_known(path):
        return _finding(RiskClass.SYSTEM_WRITE, "path.unknown", "writes to a place that cannot be known beforehand")
    parts = split(path)
    if parts in _NEUTRAL or parts[:2] == ("dev", "fd"):
        return _finding(RiskClass.SAFE, "path.neutral", "writes to a stream")
    if place.sandboxed and _is_of_container(path, place) and parts[0] != "dev":
        return _finding(RiskClass.LOCAL_WRITE, "path.container", "changes the container, which is gone afterwards")
    if _is_protected(path, place):
        return _finding(RiskClass.SYSTEM_WRITE, "path.protected", f"changes {_shown(path)}, which is trusted or secret")
    if parts[:2] == ("dev", "shm") or is_temporary(path, place):
        return _finding(RiskClass.LOCAL_WRITE, "path.temp", "writes a temporary file")
    if _may_be_disk(path):
        return _finding(RiskClass.BLOCKED, "path.disk", f"overwrites the disk {_shown(path)}")
    if parts and parts[0] in _KERNEL:
        return _finding(RiskClass.DESTRUCTIVE, "path.kernel", f"writes {_shown(path)}, a device or the kernel")
    if _is_own_ground(path, place):
        return _finding(RiskClass.LOCAL_WRITE, "path.local", "changes files")
    if len(parts) < 2 or parts[0] in _SYSTEM:
        return _finding(
            RiskClass.SYSTEM_WRITE, "path.system", f"changes {_shown(path)}, a place of the system or of others"
        )
    return _finding(RiskClass.LOCAL_WRITE, "path.local", "changes files")


@lru_cache(maxsize=4096)
def classify_read(path: str, place: Place, how: Reading = "contents") -> Finding | None:
    """Return what reading the file at a resolved `path` means, None when it is harmless."""
    parts = split(path)
    if place.sandboxed and _is_of_container(path, place):
        return None
    reason = f"reads {_shown(path)}, which may hold secrets"
    if how == "names" and _lists(path, place):
        return None
    if is_secret(path, place) or (how == "contents" and is_env_file(parts)):
        return _finding(RiskClass.SYSTEM_WRITE, "read.secret", reason)
    if parts[:1] == ("dev",) and is_block_device(path):
        return _finding(RiskClass.SYSTEM_WRITE, "read.device", f"reads the disk {_shown(path)}")
    if how == "mention":
        return None
    if not is_known(path) or _is_own_ground(path, place) or any(is_below(path, folder) for folder in place.temp):
        return None
    if parts[:1] == ("root",) or (len(parts) > 1 and parts[0] in _HOMES):
        return _finding(RiskClass.SYSTEM_WRITE, "read.other_home", f"reads {_shown(path)}, another user's home")
    if place.sandboxed or len(parts) < 2 or parts[0] not in _UNREADABLE:
        return None
    if any(parts[: len(readable)] == readable for readable in _READABLE):
        return None
    return _finding(RiskClass.SYSTEM_WRITE, "read.system", f"reads {_shown(path)}, a place of the system")


def is_secret(path: str, place: Place) -> bool:
    """Return whether the name of a resolved path says that it holds secrets."""
    parts = tuple(part.casefold() for part in split(path))
    if parts[-2:-1] == (".ssh",) and re.fullmatch(r"[\w.-]+\.pub", parts[-1]):
        return False  # a public key
    if any(_is_one_of(part, _CREDENTIAL_NAMES) for part in parts):
        return True
    if _may_begin(parts, _CREDENTIAL_STARTS) and any(_contains(parts, secret) for secret in _CREDENTIAL_PATHS):
        return True
    if parts[:1] == ("proc",) and (
        parts == ("proc", "kcore") or any(abstract_text.may_equal(parts[-1], name) for name in ("environ", "mem"))
    ):
        return True
    return _is_protected(path, place) and ".local" not in parts


def _lists(path: str, place: Place) -> bool:
    """Return whether only names are seen below the user's own home, or a public key is: neither is a secret."""
    home = place.home.rstrip("/")
    return bool(home) and has_ordinary_home(place) and is_below(path, home) and abstract_text.is_exact(path)


def names_secret(text: str) -> bool:
    """Return whether program text names a file of secrets; for code that is not parsed."""
    parts = tuple(part for part in _SEPARATORS.split(text.casefold()) if part)
    if not _CREDENTIAL_NAMES.isdisjoint(parts):
        return True
    starts = {
        part for part in parts if part in _CREDENTIAL_STARTS or part == "self" or not abstract_text.is_exact(part)
    }
    return bool(starts) and any(_contains(parts, secret) for secret in (*_CREDENTIAL_PATHS, ("self", "environ")))


def is_block_device(path: str) -> bool:
    """Return whether a resolved path is a disk."""
    parts = split(path)
    return len(parts) > 1 and parts[0] == "dev" and bool(_BLOCK_DEVICE.match(parts[1]))


def _may_be_disk(path: str) -> bool:
    parts = split(path)
    return is_block_device(path) or (
        parts[:1] == ("dev",) and len(parts) == 2 and any(abstract_text.may_equal(parts[1], name) for name in _DISKS)
    )


def is_wipe_target(path: str, place: Place) -> bool:
    """Return whether deleting the tree at a resolved `path` loses more than a part of the project.

    Only what lies strictly inside the workspace or a temporary directory is a part; the repository's
    own history is none, and neither is a glob that takes everything in one of those directories.
    """
    if not is_known(path):
        return True
    parts = split(path)
    if parts and _is_broad(parts[-1]):
        path, parts = "/" + "/".join(parts[:-1]), parts[:-1]
    if any(part.casefold() == ".git" for part in parts[-1:]):
        return True
    root = writable_root(place)
    if is_below(root, path):  # the project itself, also where it lies in a temporary directory
        return True
    if is_below(resolve(place.home or "/", "/"), path) and not place.sandboxed:  # home before it is a temporary file
        return True
    inside = is_below(path, root) and not _is_degenerate(root, place)
    return not inside and not (is_temporary(path, place) and path not in [resolve(t, "/") for t in place.temp])


def is_irreplaceable(path: str, place: Place) -> bool:
    """Return whether deleting the tree at a resolved `path` certainly takes a system or a home with it (R-296).

    That is the root, a folder directly in it that belongs to the system, a whole home, and all that lies in one of
    these. What an unknown part of a path may be does not count: nothing lifts the class that follows from this.
    """
    parts = split(path)
    everything = bool(parts) and _is_broad(parts[-1])
    parts = parts[:-1] if everything else parts
    while parts[:1] == ("proc",) and parts[2:3] == ("root",):  # /proc/self/root
        parts = parts[3:]
    if abstract_text.holds_unknown(path) or any(map(_may_climb, parts)):
        return False
    if _holds_system_or_home(parts, place):
        return True
    if not parts or not place.look or not all(map(abstract_text.is_exact, parts)):
        return False
    led = place.look.real("/" + "/".join(parts if everything else parts[:-1]))  # a link itself can be deleted
    return _holds_system_or_home(split(led) if everything else (*split(led), parts[-1]), place)


def _holds_system_or_home(parts: Parts, place: Place) -> bool:
    if not parts or (len(parts) == 1 and any(abstract_text.may_equal(parts[0], name) for name in _SYSTEM | _KERNEL)):
        return True
    if len(parts) == 2 and (parts in _ESSENTIAL or parts[0] in _HOMES):
        return True
    home = split(resolve(place.home or "/", "/"))
    within = home[: len(parts)] if not place.sandboxed else home
    return len(parts) == len(within) and all(map(abstract_text.may_equal, parts, within))


@lru_cache(maxsize=4096)
def trusted_name(path: str, place: Place) -> str:
    """Return the name, from the workspace on, of a file that the host trusts; "" for any other (D-6)."""
    if not is_known(path) or not is_below(path, writable_root(place)):
        return ""
    parts = split(path)[len(split(writable_root(place))) :]
    folded = tuple(part.casefold() for part in parts)
    if any(
        trusted_files.is_named(part)
        or _is_one_of(part, _TRUSTED_BY_GLOB)
        or trusted_files.is_tail("/".join(folded[:end]))
        for end, part in enumerate(folded, start=1)
    ):
        return abstract_text.rendered("/".join(parts))
    git = next((i for i, part in enumerate(folded) if _matches(part, trusted_files.GIT)), -1)
    if git >= 0:
        rest = folded[git + 1 :]
        if not rest or (rest[0] not in trusted_files.GIT_DATA and not rest[-1].endswith(".lock")):
            return abstract_text.rendered("/".join(parts))
    return ""


def is_temporary(path: str, place: Place) -> bool:
    """Return whether a path is a temporary file, and not one of a home that lies among them (A10)."""
    home = resolve(place.home or "/", "/")
    if (
        not place.sandboxed
        and home != "/"
        and home not in [resolve(t, "/") for t in place.temp]
        and is_below(path, home)
    ):
        return False
    return any(is_below(path, folder) for folder in place.temp)


def _is_of_container(path: str, place: Place) -> bool:
    """Return whether a path certainly lies in the container alone, and not in the project that is mounted there."""
    parts = split(path)
    if not parts or not is_known(path) or not abstract_text.is_exact(parts[0]) or is_below(path, writable_root(place)):
        return False
    return parts[0] != "proc" or not {"cwd", "root"} & set(parts)


def _is_protected(path: str, place: Place) -> bool:
    if not place.home.startswith("/") or any(resolve(place.home, "/") == resolve(t, "/") for t in place.temp):
        return False
    home = resolve(place.home, "/")
    if not is_below(path, home):
        return False
    parts = tuple(part.casefold() for part in split(path)[len(split(home)) :])
    if not parts:
        return False
    if len(parts) == 1 and (_is_one_of(parts[0], _START_FILES) or parts[0].startswith(".env")):
        return True
    return _may_begin(parts[:1], _PROTECTED_STARTS) and any(_starts_with(parts, name) for name in _PROTECTED)


def _is_own_ground(path: str, place: Place) -> bool:
    if has_ordinary_home(place) and is_below(path, resolve(place.home, "/")):
        return True
    root = split(writable_root(place))
    return bool(root) and (root[0] in _MOVABLE or root[0] not in _SYSTEM) and split(path)[: len(root)] == root


def _is_degenerate(root: str, place: Place) -> bool:
    """Return whether the workspace is so much that a directory directly inside it is more than a part."""
    parts = split(root)
    holds_home = place.home.startswith("/") and is_below(place.home, root)
    return not parts or (holds_home and not place.sandboxed) or (len(parts) == 1 and parts[0] in _SYSTEM | _KERNEL)


def is_env_file(parts: Parts) -> bool:
    """Return whether the last component is a file of settings with their secrets, `.env`; samples are not."""
    name = parts[-1].casefold() if parts else ""
    if not abstract_text.is_exact(name):
        return _matches(name, ".env") or name.startswith(".env.")
    return (name == ".env" or name.startswith(".env.")) and not _ENV_SAMPLE.search(name)


def _is_broad(component: str) -> bool:
    """Return whether a glob names (nearly) everything in its directory."""
    return any(mark in component for mark in abstract_text.GLOBS) and not any(
        c.isalnum() or c in "_-" for c in component
    )


def _may_climb(component: str) -> bool:
    """Return whether a glob may match `..`: only one that begins with a dot does."""
    return component[:1] == "." and component[1:2] in abstract_text.GLOBS


def _may_begin(parts: Parts, starts: frozenset[str]) -> bool:
    """Return whether a path of the table can begin at one of `parts`; spares comparing with all of them."""
    return any(part in starts or not abstract_text.is_exact(part) for part in parts)


def _contains(parts: Parts, wanted: Parts) -> bool:
    size = len(wanted)
    return any(
        _matches(part, wanted[0]) and _starts_with(parts[i : i + size], wanted)
        for i, part in enumerate(parts[: len(parts) - size + 1])
    )


def _starts_with(parts: Parts, wanted: Parts) -> bool:
    return len(parts) >= len(wanted) and all(map(_matches, parts, wanted))


def _is_one_of(component: str, names: frozenset[str]) -> bool:
    if not any(mark in component for mark in abstract_text.GLOBS):
        return component in names
    return any(_matches(component, name) for name in names)


def _matches(component: str, name: str) -> bool:
    """Return whether `component`, perhaps a glob, may name `name`; `*` alone means none in particular."""
    if abstract_text.is_exact(component) or not any(mark in component for mark in abstract_text.GLOBS):
        return component == name
    if name.startswith(".") != component.startswith("."):  # globs pass over hidden files
        return False
    if not name.startswith(".") and sum(c not in abstract_text.ALL for c in component) < 3:
        return False
    return abstract_text.may_equal(component, name)


def _shown(path: str) -> str:
    return abstract_text.rendered(path)


def _finding(level: RiskClass, rule: str, reason: str) -> Finding:
    return Finding(level=level, rule=rule, reason=reason)
