"""The importer of the one-file odek: a package from a few members of the archive, held in memory.

Few reads instead of many are faster than zipimport, and an upgrade that replaces the file does not
disturb an odek at work. Imports only what is built in, and zlib: it runs before every command.
"""

from __future__ import annotations

import _imp
import _thread
import marshal
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any, NoReturn
    from zipimport import zipimporter

    Modules = dict[str, tuple[bool, CodeType]]
    """name → is it a package, its code"""

_GZIP = 31  # as zlib calls it


def install(file: str, archive: zipimporter, modules: Modules, magic: str) -> None:
    """Import the package from `modules`, then from what `archive` holds for `magic`, then from its sources; and the
    standard library from where it is. Without `magic`, nothing was compiled for this Python."""
    sys.meta_path.insert(0, Loader(file, archive, modules, magic))


def split(content: bytes) -> dict[str, bytes]:
    """Return name → content of files that stand behind their names and sizes."""
    index, _, content = content.partition(b"\n\n")
    files = {}
    at = 0
    for line in index.decode().split("\n"):
        name, _, size = line.partition(" ")
        files[name] = content[at : at + int(size)]
        at += int(size)
    return files


class LateInspect(type(sys)):
    """`inspect`, loaded when something of it is used.

    dataclasses imports it, with a parser and a disassembler, for the docstrings of classes that have none.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get("inspect") is self:
            del sys.modules["inspect"]
        import inspect

        return getattr(inspect, name)

    @staticmethod
    def get_annotations(made: type) -> dict[str, object]:
        """Return what the real one does for a class: of this class alone, as it is written."""
        return dict(made.__dict__.get("__annotations__") or {})  # noqa: RUF063 – this takes the place of that

    @staticmethod
    def unwrap(function: object) -> object:
        """Return what the real one does: dataclasses asks it from Python 3.14 on, of each member of a class."""
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        return function


class Loader:
    """Finder and loader of the package's modules and of the data files next to them.

    All that may be wanted later is read from the file when the first module is asked for that a start does
    not need, which every command does that goes on for longer; from then on, nothing is read from it.
    """

    def __init__(self, file: str, archive: zipimporter, modules: Modules, magic: str) -> None:
        self.file = file
        """path of the one-file odek"""
        self.archive = archive
        self.magic = magic
        self.modules = modules
        """what was compiled, as far as it has been read"""
        self.data: dict[str, bytes] = {}
        """name in the archive → content, of the data files that `odek run` reads, once one was wanted"""
        self.texts = b""
        """what was compiled begins with these"""
        self.parts: list[tuple[str, bytes]] = []
        """name and content of what was compiled and was not wanted yet, in the order in which starts want it"""
        self.packed = [b"", b"", b"", b""]
        """the data files that `odek run` reads, the sources of what was not compiled with the other ones, those of what
        was, and what reads these without LZMA, once they have been read"""
        self.sources: dict[str, bytes] = {}
        """name in the archive → content, once one of them was wanted"""
        self.all_sources: dict[str, bytes] = {}
        """with those of what was compiled, once one of these was wanted"""
        self.lock = _thread.allocate_lock()
        self.ahead: dict[str, bytes | Exception] = {}
        """the parts in LZMA as they were before, once another thread has made them"""
        self.awaited: dict[str, LockType] = {}
        """a lock for each of these, held until it is there"""

    # --- what Python asks

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return where the module is, or None when it is none of ours."""
        is_package = self.is_package(name)
        if is_package is None:
            return None
        place = self.file + "/" + name.replace(".", "/")
        origin = place + ("/__init__.py" if is_package else ".py")
        # importlib.machinery would cost what this module is here to save
        spec: ModuleSpec = sys.modules["_frozen_importlib"].ModuleSpec(name, self, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [place]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        code = self.code(module.__name__)
        # as importlib does for any compiled file: the code gets the path that it has here. It is one
        # below a file and so can never exist: a traceback never quotes a file of the current folder
        _imp._fix_co_filename(code, module.__file__)  # type: ignore[attr-defined]
        exec(code, module.__dict__)

    def get_data(self, path: str) -> bytes:
        """Return a data file, given as the folder of a module's `__file__`, a slash and its name."""
        name = path[len(self.file) + 1 :]
        self.read()
        self.data = self.data or self.needed(lambda: split(zlib.decompress(self.packed[0], _GZIP)))
        content = self.data.get(name) or self.read_sources().get(name)
        if content is None or not path.startswith(self.file + "/"):
            raise OSError(2, "no such data file in odek", path)
        return content

    def get_source(self, name: str) -> str | None:
        """Return a module's source, for tracebacks; None when the file is no longer there or no longer ours."""
        origin = sys.modules[name].__file__ or ""
        try:
            return self.read_all_sources()[origin[len(self.file) + 1 :]].decode()
        except (ImportError, OSError, EOFError, KeyError, ValueError, zlib.error):
            return None

    # --- what `odek selftest` asks

    def module_names(self) -> list[str]:
        """Return the package's modules."""
        return [
            name[: -len(".py")].replace("/", ".").removesuffix(".__init__")
            for name in self.needed(self.read_all_sources)
            if name.endswith(".py")
        ]

    # --- what is where

    def read(self) -> None:
        """Read what the first member of the archive does not hold, once."""
        with self.lock:
            if self.packed[1]:
                return
            sys.modules.setdefault("inspect", LateInspect("inspect"))
            packed = [self.archive.get_data(self.file + "/" + name) for name in ("data.gz", "source.gz")]
            try:
                packed += [self.archive.get_data(self.file + "/" + name) for name in ("source.lzma", "odekslow.py")]
            except OSError:  # in a binary, all are in source.gz
                packed += [b"", b""]
            compiled = self.file + "/compiled/"
            try:
                base = self.archive.get_data(compiled + self.magic + ".base")
            except OSError:  # for this Python no more was compiled than what every start needs
                pass
            else:
                names = ("texts", self.magic + ".run", "later")
                self.parts = [
                    ("texts.base", self.archive.get_data(compiled + "texts.base")),
                    (self.magic + ".base", base),
                    *((name, self.archive.get_data(compiled + name)) for name in names),
                ]
                if sys.argv[1:2] != ["mcp"]:  # which answers first, and may not need them
                    self.begin_ahead()
            self.packed = packed

    def add(self, name: str, content: bytes) -> None:
        """Know the modules of a part. The texts that the code refers to come before it."""
        try:
            part = self.take_ahead(name) if name in self.awaited else zlib.decompress(content, -15)
            if name.startswith("texts"):
                self.texts += part
                return
            *_, modules = marshal.loads(self.texts + part)
        except ImportError:  # a Python that was built without LZMA compiles these from the sources
            return
        except Exception:
            self.end_damaged()
        self.modules = {**self.modules, **modules}

    def end_damaged(self) -> NoReturn:
        """End a command, which needs what cannot be read."""
        sys.stderr.write(f"odek: error: this copy of odek is damaged: {self.file}\nodek: hint: get it again\n")
        raise SystemExit(1)

    def unchain(self, content: bytes) -> bytes:
        """Return this Python's part of those that are in one stream. Raises ImportError."""
        index, _, stream = content.partition(b"\n")
        if not index:  # in a binary, which has one Python, without LZMA
            return zlib.decompress(stream, -15)
        from _lzma import LZMADecompressor  # nothing is looked for where it was imported before

        words = index.decode().split()
        place = words.index(self.magic)
        begin = sum(map(int, words[1:place:2]))
        filters = [{"id": 0x21, "dict_size": 1 << 22}]
        return LZMADecompressor(format=3, filters=filters).decompress(stream, begin + int(words[place + 1]))[begin:]

    def begin_ahead(self) -> None:
        """Let another thread undo the compression of the parts in LZMA, while what comes before them is imported.

        It holds the interpreter's lock for moments only, and imports nothing: who waits for it does so in an import.
        """
        import atexit

        packed = self.parts[-2:]
        locks = {name: _thread.allocate_lock() for name, _ in packed}
        for lock in locks.values():
            lock.acquire()
        self.awaited = locks
        try:
            if not packed[0][1].startswith(b"\n"):  # see unchain
                import _lzma  # noqa: F401
            _thread.start_new_thread(self.make_ahead, (packed,))
        except (ImportError, RuntimeError):  # a thread would look for it again, or none can be started
            self.make_ahead(packed)
        atexit.register(self.wait)  # an interpreter that is taken apart under a thread may crash

    def wait(self) -> None:
        """Wait for that thread; `leave` of odek.cli.streams need not."""
        self.awaited["later"].acquire()

    def make_ahead(self, packed: list[tuple[str, bytes]]) -> None:
        for name, content in packed:
            try:
                self.ahead[name] = self.unchain(content)
            except Exception as error:
                self.ahead[name] = error
            finally:
                self.awaited[name].release()

    def take_ahead(self, name: str) -> bytes:
        """Return what that thread has made. Raises what it raised."""
        with self.awaited[name]:
            part = self.ahead.pop(name)
        if isinstance(part, Exception):
            raise part
        return part

    def has(self, name: str) -> bool:
        """Return whether a module was compiled; if so, it is known from now on."""
        if name not in self.modules:
            self.read()
            with self.lock:
                while self.parts and name not in self.modules:
                    if not self.awaited and self.parts[0][0].endswith(".run"):
                        self.begin_ahead()
                    self.add(*self.parts.pop(0))
        return name in self.modules

    def needed(self, read: Callable[[], dict[str, bytes]]) -> dict[str, bytes]:
        try:
            return read()
        except (OSError, EOFError, IndexError, ValueError, zlib.error):
            self.end_damaged()
        except Exception as error:
            if type(error).__name__ != "LZMAError":
                raise
            self.end_damaged()

    def read_sources(self) -> dict[str, bytes]:
        self.read()
        if not self.sources:
            self.sources = split(zlib.decompress(self.packed[1], _GZIP))
        return self.sources

    def read_all_sources(self) -> dict[str, bytes]:
        if not self.all_sources:
            self.all_sources = {**self.read_sources(), **self.unpack_sources(self.packed[2])}
        return self.all_sources

    def unpack_sources(self, packed: bytes) -> dict[str, bytes]:
        if not packed:
            return {}
        try:
            from _lzma import LZMADecompressor
        except ImportError:  # a Python that was built without it takes a second
            scope: dict[str, Any] = {"__name__": "odekslow"}
            exec(zlib.decompress(self.packed[3], -15), scope)
            return split(scope["decompress"](packed))
        return split(LZMADecompressor(format=2).decompress(packed))

    def find_source(self, name: str) -> tuple[str, bytes] | None:
        """Return name in the archive and content of the file that holds the module, None when there is none."""
        place = name.replace(".", "/")
        for read in (self.read_sources, self.read_all_sources):
            sources = self.needed(read)
            for found in (place + "/__init__.py", place + ".py"):
                if found in sources:
                    return found, sources[found]
        return None

    def is_package(self, name: str) -> bool | None:
        """Return None when the module is none of ours."""
        if name.partition(".")[0] not in ("odek", "odeklite"):
            return None
        if self.has(name):
            return self.modules[name][0]
        found = self.find_source(name)
        return found and found[0].endswith("/__init__.py")

    def code(self, name: str) -> CodeType:
        """Return the code of the module, which is there."""
        if not self.has(name):
            place, content = self.find_source(name) or (name, b"")
            code: CodeType = compile(content, place, "exec", dont_inherit=True)
            return code
        return self.modules[name][1]
