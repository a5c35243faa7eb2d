"""The Python of the portable binary, compiled from sources: what is downloaded, with what it is compiled, and how.

Used by portable.py. All of it is kept in a cache: downloads, each pinned by digest, and for each target a folder with
what was compiled. A stage is done again when something has changed of what goes into it: its source, its code
here, or an earlier stage.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import platform
import shutil
import string
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from artifact import ROOT, write_executable
from binary import BuildError, run

HERE = Path(__file__).resolve().parent
OWN = HERE / "portable"
OPTIMIZED = "-O2 -g0 -fno-sanitize=undefined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is compiled, as Debian's source packages hold it: upstream's own archive."""

    package: str
    """name of the source package"""
    version: str
    file: str
    sha256: str


SOURCES = {
    "python": Source(
        package="python3.13",
        version="3.13.15-1",
        file="python3.13_3.13.15.orig.tar.xz",
        sha256="1e66a7945a48390ee4c2a4268a0e4185884059a13c4aab6d148aa208deea4a76",
    ),
    "openssl": Source(
        package="openssl",
        version="3.5.7-1~deb13u2",
        file="openssl_3.5.7.orig.tar.gz",
        sha256="a8c0d28a529ca480f9f36cf5792e2cd21984552a3c8e4aa11a24aa31aeac98e8",
    ),
    "zlib": Source(
        package="zlib",
        version="1:1.3.dfsg+really1.3.2-4",
        file="zlib_1.3.dfsg+really1.3.2.orig.tar.gz",
        sha256="7b6903eb019983987b7112eccf90f1703f1c6c0e0cede36564bf611d19ca579d",
    ),
    "libedit": Source(
        package="libedit",
        version="3.1-20250104-1",
        file="libedit_3.1-20250104.orig.tar.gz",
        sha256="23792701694550a53720630cd1cd6167101b5773adddcb4104f7345b73a568ac",
    ),
}
LICENCES = {
    "python": ("LICENSE", "Doc/license.rst"),  # the latter: of what is in it
    "openssl": ("LICENSE.txt",),
    "zlib": ("LICENSE",),
    "libedit": ("COPYING",),
}
"""source → files in it"""
# In Python's own loop around libedit, a terminal that is gone is input without end, and no signal is looked at: make
# it the end of the input.
PATCH = (
    "Modules/readline.c",
    b"#include <errno.h>                // errno\n",
    b"#include <errno.h>\n#include <poll.h>\n",
    b"            rl_callback_read_char();\n        }\n        else if (err == EINTR) {\n",
    b"            struct pollfd terminal = {fileno(rl_instream), 0, 0};\n"
    b"            rl_callback_read_char();\n"
    b"            if (completed_input_string == not_done_reading && poll(&terminal, 1, 0) == 1)\n"
    b"                rlhandler(NULL);\n"
    b"        }\n        else if (err == EINTR) {\n",
)
"""file of Python, and texts in it, each before its replacement"""
SUITES = ("trixie", "sid")
"""where Debian has them; an older one is at its archive of snapshots (MIRROR)"""
ZIG = "0.17.1"
ZIG_SHA256 = {
    "x86_64": "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
    "aarch64": "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
}
MACHINES = tuple(ZIG_SHA256)
"""processors, as `uname -m` has them: this program can run on each, and compile for each"""
TARGETS = {"gnu": "{}-linux-gnu.2.28", "musl": "{}-linux-musl"}

# what a TLS client does not need: old ciphers and protocols, files and hardware that take part in it
WITHOUT_IN_OPENSSL = (
    "shared pic tests docs apps dso module engine legacy autoload-config afalgeng async ktls sctp quic dtls srtp srp"
    " psk comp cms ts cmp ct ssl3 tls1 tls1_1 weak-ssl-ciphers ssl-trace ui-console gost idea rc2 rc4 rc5 md2 md4 mdc2"
    " seed camellia aria sm2 sm3 sm4 bf cast whirlpool rmd160 siphash ec2m ml-dsa slh-dsa http"
).split()
# C modules of Python that odek does not need, most of them named in excludes.txt
WITHOUT_IN_PYTHON = (
    "_bz2 _lzma _ctypes _curses _curses_panel _dbm _gdbm _sqlite3 _tkinter _uuid _codecs_cn _codecs_hk _codecs_iso2022"
    " _codecs_jp _codecs_kr _codecs_tw _multibytecodec _multiprocessing _posixshmem _elementtree pyexpat _asyncio _csv"
    " _lsprof _interpreters _interpchannels _interpqueues _zoneinfo _statistics _decimal cmath syslog xxsubtype"
    " _testexternalinspection _testimportmultiple _testmultiphase _testsinglephase xxlimited xxlimited_35 _xxtestfuzz"
).split()
# What Python's configure learns by running a program, which one for another processor cannot be. Both kinds of Linux
# answer so; configure itself guesses the rest right.
ANSWERS = {
    "aligned_required": "no",
    "broken_sem_getvalue": "no",
    "buggy_getaddrinfo": "no",
    "computed_gotos": "yes",
    "file__dev_ptc": "no",
    "file__dev_ptmx": "yes",
    "pthread_is_default": "yes",
    "pthread_system_supported": "yes",
    "working_tzset": "yes",
}
SIGNED_WCHAR = {"x86_64": "yes", "aarch64": "no"}
PLAIN = set("/._+-@,=~" + string.ascii_letters + string.digits)
"""characters of a path that a Makefile and a list of options can hold"""
ZLIB_FILES = "adler32 compress crc32 deflate infback inffast inflate inftrees trees uncompr zutil".split()


def cache_folder() -> Path:
    """Return where downloads and what was compiled are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "odek-portable"


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return sha256(file.read())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one build at a time use the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- downloads


def fetch_sources(folder: Path) -> None:
    """Make sure that `folder` holds all SOURCES; a file with another digest is never used. Raises BuildError."""
    folder.mkdir(parents=True, exist_ok=True)
    absent = [one for one in SOURCES.values() if not (folder / one.file).is_file()]
    if absent:
        print(f"portable: fetching {', '.join(one.file for one in absent)}", file=sys.stderr)
        names = [f"{one.package}={one.version}" for one in absent]
        argv = [str(ROOT / "scripts" / "debian-sources"), *SUITES, "--", *names]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            run(argv, env=dict(os.environ), cwd=scratch, what="debian-sources")
            for one in absent:
                if not Path(scratch, one.file).is_file():
                    raise BuildError(
                        f"Debian has no {one.file} any more: put it into {folder}, or set MIRROR to an archive"
                    )
                os.replace(Path(scratch, one.file), folder / one.file)
    for one in SOURCES.values():
        found = digest_of(folder / one.file)
        if found != one.sha256:
            raise BuildError(f"{folder / one.file} is not what it should be: SHA-256 {found} instead of {one.sha256}")


def has_compiler(cache: Path) -> bool:
    """Return whether nothing need be downloaded to compile, but perhaps the sources."""
    return (cache / f"zig-{ZIG}" / "complete").exists()


def prepare_compiler(cache: Path) -> Path:
    """Return the folder of the C compiler, downloaded when it is not there. Raises BuildError."""
    folder = cache / f"zig-{ZIG}"
    if has_compiler(cache):
        return folder / "ziglang"
    print(f"portable: fetching ziglang {ZIG}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = folder / "requirements.txt"
    hashes = " ".join(f"--hash=sha256:{value}" for value in ZIG_SHA256.values())
    wanted.write_text(f"ziglang=={ZIG} {hashes}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    options = ["--require-hashes", "--only-binary", ":all:", "--dest", str(folder), "--requirement", str(wanted)]
    run([*pip, *options], env=dict(os.environ), cwd="/", what="pip download")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202 – known by its digest
    wheel.unlink()
    (folder / "ziglang" / "zig").chmod(0o755)
    (folder / "complete").touch()
    return folder / "ziglang"


# --- compiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where one target is compiled, and with what."""

    folder: Path
    """everything of this target: unpacked sources, and in `dep` what came of the libraries"""
    sources: Path
    target: str
    env: Mapping[str, str]
    native: Workshop | None = None
    """for a target of another processor: where the same is compiled for this one, whose Python takes part"""

    @property
    def machine(self) -> str:
        return self.target.partition("-")[0]

    @property
    def python(self) -> Path:
        """The Python that runs here."""
        return (self.native or self).folder / "python" / "python"

    @property
    def libraries(self) -> Path:
        return self.folder / "dep"

    @property
    def static(self) -> bool:
        return self.target.endswith("musl")

    def unpack(self, name: str) -> Path:
        """Return the folder of a source, as it is in the archive."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        with tarfile.open(self.sources / SOURCES[name].file) as archive:
            top = archive.getnames()[0].partition("/")[0]
            archive.extractall(self.folder)  # noqa: S202 – known by its digest
        (self.folder / top).rename(place)
        self.keep_licences(name, *(place / file for file in LICENCES[name]))
        return place

    def keep_licences(self, name: str, *files: Path) -> None:
        """Remember the licence of a part of the binary."""
        kept = self.folder / "licences"
        kept.mkdir(exist_ok=True)
        (kept / name).write_text("\n".join(file.read_text("utf-8") for file in files), "utf-8")

    def run(self, *argv: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        words = [str(word) for word in argv]
        run(words, env={**self.env, **(env or {})}, cwd=str(cwd), what=" ".join(words[:3]))

    def configure(self, *options: str, cwd: Path, env: Mapping[str, str]) -> None:
        """Run a source's `configure`."""
        if self.native:
            here, there = (one.target.partition(".")[0] for one in (self.native, self))
            options += (f"--build={here}", f"--host={there}")
        self.run("./configure", *options, cwd=cwd, env=env)

    def library(self, name: str, objects: list[Path]) -> None:
        (self.libraries / "lib").mkdir(parents=True, exist_ok=True)
        self.run("odek-ar", "rcs", self.libraries / "lib" / f"lib{name}.a", *objects, cwd=self.folder)

    def headers(self, *files: Path, below: str = ".") -> None:
        place = self.libraries / "include" / below
        place.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, place)


def open_workshop(cache: Path, kind: str, machine: str = "") -> Workshop:
    """Return the place for a target: one for each digest of what goes into it; `machine` is one of MACHINES, by
    default this one. Raises BuildError."""
    if not set(str(cache)) <= PLAIN:
        raise BuildError(f'"{cache}" has characters that make and configure cannot handle: choose another --cache')
    compiler = prepare_compiler(cache)
    here = platform.machine()
    target = TARGETS[kind].format(machine or here)
    folder = cache / target
    tools = folder / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    flags = f"-target {target} -ffile-prefix-map={folder}=."
    # plain names, for OpenSSL notes what it was compiled with
    for name, words in (("odek-cc", f"cc {flags}"), ("odek-ar", "ar"), ("odek-ranlib", "ranlib")):
        write_executable(tools / name, f'#!/bin/sh\nexec "{compiler}/zig" {words} "$@"\n'.encode())
    env = {
        "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "LC_ALL": "C",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "1577836800",  # what Python and OpenSSL say of their own build
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ZIG_GLOBAL_CACHE_DIR": str(cache / "zig-cache"),
        "ZIG_LOCAL_CACHE_DIR": str(cache / "zig-cache"),
        "CC": "odek-cc",
        "AR": "odek-ar",
        "RANLIB": "odek-ranlib",
    }
    native = open_workshop(cache, kind) if machine not in ("", here) else None
    shop = Workshop(folder=folder, sources=cache / "sources", target=target, env=env, native=native)
    if shop.static:
        shop.keep_licences("musl", compiler / "lib" / "libc" / "musl" / "COPYRIGHT")
    return shop


def compile_zlib(shop: Workshop) -> None:
    source = shop.unpack("zlib")
    for name in ZLIB_FILES:
        options = [*OPTIMIZED.split(), "-DHAVE_UNISTD_H", "-DHAVE_HIDDEN"]
        shop.run("odek-cc", *options, "-c", f"{name}.c", "-o", f"{name}.o", cwd=source)
    shop.library("z", [source / f"{name}.o" for name in ZLIB_FILES])
    shop.headers(source / "zlib.h", source / "zconf.h")


def compile_libedit(shop: Workshop) -> None:
    """Line editing; portable/termcap.c takes the place of a database of terminals."""
    own = shop.folder / "termcap.o"
    shop.run("odek-cc", *OPTIMIZED.split(), "-c", OWN / "termcap.c", "-o", own, cwd=shop.folder)
    shop.library("termcap", [own])
    shop.headers(OWN / "termcap.h")
    source = shop.unpack("libedit")
    env = {
        # Linux' wchar_t is Unicode, which this compiler does not say
        "CFLAGS": f"{OPTIMIZED} -D__STDC_ISO_10646__=201103L -I{shop.libraries}/include",
        "LDFLAGS": f"-L{shop.libraries}/lib",
    }
    options = ["--disable-shared", "--enable-static", "--disable-examples", "--prefix=/usr"]
    shop.configure(*options, cwd=source, env=env)
    shop.run("make", "-C", "src", cwd=source)
    shutil.copy(source / "src" / ".libs" / "libedit.a", shop.libraries / "lib")
    shop.headers(source / "src" / "editline" / "readline.h", below="editline")


def compile_openssl(shop: Workshop) -> None:
    source = shop.unpack("openssl")
    options = ["--prefix=/usr", "--libdir=lib", "--openssldir=/etc/ssl"]
    without = [f"no-{name}" for name in WITHOUT_IN_OPENSSL]
    shop.run("perl", "./Configure", f"linux-{shop.machine}", *options, *without, cwd=source)
    shop.run("make", "build_libs", cwd=source)
    for file in ("libcrypto.a", "libssl.a"):
        shutil.copy(source / file, shop.libraries / "lib")
    shop.headers(*(source / "include" / "openssl").glob("*.h"), below="openssl")


def compile_python(shop: Workshop) -> None:
    """All C modules are built into it: a static program can load none."""
    source = shop.unpack("python")
    file, *texts = PATCH
    code = (source / file).read_bytes()
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        if code.count(old) != 1:
            raise BuildError(f"{file} of this Python is another one: look at PATCH")
        code = code.replace(old, new)
    (source / file).write_bytes(code)
    include, lib = f"-I{shop.libraries}/include", f"-L{shop.libraries}/lib"
    env = {
        "MODULE_BUILDTYPE": "static",
        **{f"py_cv_module_{name}": "n/a" for name in WITHOUT_IN_PYTHON},
        "LIBEDIT_CFLAGS": include,
        "LIBEDIT_LIBS": f"{lib} -ledit -ltermcap",
        "ZLIB_CFLAGS": include,
        "ZLIB_LIBS": f"{lib} -lz",
        # a thread's stack as large as glibc's: musl gives 128 KiB, which recursion in Python exceeds
        # the date that Python says of itself is SOURCE_DATE_EPOCH
        "CFLAGS": f"-g0 -fno-sanitize=undefined -Wno-date-time -DTHREAD_STACK_SIZE=0x800000 {include}",
        "LDFLAGS": f"{lib} -static" if shop.static else lib,
    }
    options = ["--prefix=/usr", "--disable-shared", "--without-ensurepip", "--disable-test-modules"]
    options += ["--with-readline=editline", f"--with-openssl={shop.libraries}"]
    if shop.native:
        options.append(f"--with-build-python={shop.python}")
        answers = {**ANSWERS, "wchar_t_signed": SIGNED_WCHAR[shop.machine]}
        env |= {f"ac_cv_{name}": answer for name, answer in answers.items()}
    shop.configure(*options, cwd=source, env=env)
    shop.run("make", "python", cwd=source, env=env)


STAGES: dict[str, tuple[Callable[[Workshop], None], tuple[object, ...]]] = {
    "zlib": (compile_zlib, (ZLIB_FILES,)),
    "libedit": (compile_libedit, tuple(path.read_bytes() for path in sorted(OWN.glob("termcap.*")))),
    "openssl": (compile_openssl, (WITHOUT_IN_OPENSSL,)),
    "python": (compile_python, (WITHOUT_IN_PYTHON, PATCH, ANSWERS, SIGNED_WCHAR)),
}
"""source → what compiles it, and what else goes into it; the last one takes what the others have made"""


def digests(shop: Workshop) -> dict[str, str]:
    """Return stage → digest of all that goes into it."""
    found: dict[str, str] = {}
    native = digests(shop.native)["python"] if shop.native else ""
    for name, (stage, more) in STAGES.items():
        whole = (ZIG, shop.target, OPTIMIZED, SOURCES[name].sha256, inspect.getsource(stage), *more)
        earlier = (*found.values(), native) if name == "python" else ()
        found[name] = sha256(repr((whole, earlier)).encode())
    return found


def missing(shop: Workshop) -> list[str]:
    """Return the stages that are left to do for this target, and not those of its `native`."""
    return [
        name
        for name, digest in digests(shop).items()
        if not (mark := shop.folder / f"{name}.complete").exists() or mark.read_text() != digest
    ]


def compile_all(shop: Workshop) -> None:
    """Compile what has not been compiled yet. Raises BuildError."""
    if shop.native:
        compile_all(shop.native)
    wanted = digests(shop)
    stages = missing(shop)
    if stages:
        fetch_sources(shop.sources)
    for name in stages:
        print(f"portable: compiling {name} for {shop.target}", file=sys.stderr)
        (shop.folder / f"{name}.complete").unlink(missing_ok=True)
        STAGES[name][0](shop)
        (shop.folder / f"{name}.complete").write_text(wanted[name])
