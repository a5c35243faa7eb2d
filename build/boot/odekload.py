"""The importer of the one-file odek: a package from one member of the archive, held in memory.

One read instead of many is faster than zipimport, and an upgrade that replaces the file does not
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
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from zipimport import zipimporter

    Place = tuple[bool, int, int, int]
    """is it a package, where its code starts and ends, where the methods of its data classes end"""

_CHUNK = 8192


def install(file: str, archive: zipimporter, modules: Mapping[str, Place], stream: bytes) -> None:
    """Import the package from `stream`, as far as `modules` says, then from the archive, and the standard
    library from where it is."""
    sys.path.remove(file)
    sys.meta_path.insert(0, CompiledLoader(file, archive, modules, stream))


def install_sources(file: str, archive: zipimporter) -> None:
    """The same for a Python that nothing was compiled for."""
    sys.path.remove(file)
    sys.meta_path.insert(0, SourceLoader(file, archive))


def read_tar(content: bytes) -> dict[str, bytes]:
    """Return name → content of the files in a tar archive that holds nothing but files with short names."""
    files = {}
    at = 0
    while content[at : at + 1] not in (b"", b"\0"):
        name = content[at : at + 100].rstrip(b"\0").decode()
        size = int(content[at + 124 : at + 135], 8)
        at += 512
        files[name] = content[at : at + size]
        at += -(-size // 512) * 512
    return files


class PackageLoader:
    """Finder and loader of the package's modules and of the data files beside them."""

    def __init__(self, file: str, archive: zipimporter) -> None:
        self.file = file
        """path of the one-file odek"""
        self.archive = archive

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
        prefix = self.file + "/"
        content = self.content(path[len(prefix) :]) if path.startswith(prefix) else None
        if content is None:
            raise OSError(2, "no such data file in odek", path)
        return content

    def get_source(self, name: str) -> str | None:
        """Return a module's source, for tracebacks; None when the file is no longer there or no longer ours."""
        origin = sys.modules[name].__file__ or ""
        try:
            return self.sources()[origin[len(self.file) + 1 :]].decode()
        except (ImportError, OSError, EOFError, KeyError, ValueError, zlib.error):
            return None

    def sources(self) -> dict[str, bytes]:
        """Return name in the archive → content of all source files."""
        return read_tar(self.archive.get_data(self.file + "/source.tar"))

    def module_names(self) -> list[str]:
        """Return the package's modules; `odek selftest` imports them all."""
        raise NotImplementedError

    def is_package(self, name: str) -> bool | None:
        """Return None when the module is none of ours."""
        raise NotImplementedError

    def code(self, name: str) -> CodeType:
        """Return the code of the module, which is there."""
        raise NotImplementedError

    def content(self, name: str) -> bytes | None:
        """Return the data file with this name in the archive."""
        raise NotImplementedError


class Stream:
    """A deflated stream that is inflated as far as it is needed."""

    def __init__(self, deflated: bytes) -> None:
        self.deflated = deflated
        self.taken = 0
        self.inflated = bytearray()
        self.inflater = zlib.decompressobj(-15)
        self.lock = _thread.allocate_lock()

    def read(self, start: int, end: int) -> bytes:
        """Return a part of what was deflated."""
        with self.lock:
            while len(self.inflated) < end:
                self.inflated += self.inflater.decompress(self.deflated[self.taken : self.taken + _CHUNK])
                self.taken += _CHUNK
            return bytes(self.inflated[start:end])


class CompiledLoader(PackageLoader):
    """Takes the package from two streams: a short one for a start, and another one for all the rest.

    The second one is read when the first module of it is asked for, which every command does that goes
    on for longer; from then on, nothing is read from the file.
    """

    def __init__(self, file: str, archive: zipimporter, modules: Mapping[str, Place], deflated: bytes) -> None:
        super().__init__(file, archive)
        stream = Stream(deflated)
        self.modules = {name: (stream, place) for name, place in modules.items()}
        """name → what it is in, where in it"""
        self.data: dict[str, tuple[int, int]] = {}
        """name in the archive → where it starts and ends in the second stream"""
        self.rest: Stream | None = None
        self.lock = _thread.allocate_lock()
        self.methods: dict[bytes, CodeType] = {}
        """siphash of the source text → code, of the data classes in the modules imported so far"""

    def read_rest(self) -> Stream:
        """Return the second stream; where all is, is known by then."""
        with self.lock:
            if self.rest is None:
                magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER.hex()
                packed = self.archive.get_data(self.file + "/compiled/" + magic + ".rest")
                modules, self.data, deflated = marshal.loads(packed)
                stream = Stream(deflated)
                self.modules.update((name, (stream, place)) for name, place in modules.items())
                self.rest = stream
            return self.rest

    def module_names(self) -> list[str]:
        self.read_rest()
        return list(self.modules)

    def is_package(self, name: str) -> bool | None:
        if name not in self.modules and name.partition(".")[0] == "odek":
            self.read_rest()
        return self.modules[name][1][0] if name in self.modules else None

    def code(self, name: str) -> CodeType:
        stream, (_, start, middle, end) = self.modules[name]
        if end > middle:
            self.provide(stream.read(middle, end))
        code: CodeType = marshal.loads(stream.read(start, middle))
        return code

    def content(self, name: str) -> bytes | None:
        stream = self.read_rest()
        return stream.read(*self.data[name]) if name in self.data else None

    def provide(self, methods: bytes) -> None:
        """Have dataclasses take methods from here, where the very text that it would compile is known.

        It writes them as text and gives that to `exec`; a name of its own hides the built-in one.
        """
        import dataclasses

        if not self.methods:
            dataclasses.exec = self.exec_method  # type: ignore[attr-defined]
        self.methods.update(marshal.loads(methods))

    def exec_method(self, text: str, *scopes: dict[str, object]) -> None:
        # 64 bits; and all the text that comes here is known to the build, or else made of names
        exec(self.methods.get(_imp.source_hash(0, text.encode()), text), *scopes)


class SourceLoader(PackageLoader):
    """Compiles the package at each start."""

    def __init__(self, file: str, archive: zipimporter) -> None:
        super().__init__(file, archive)
        self.files = self.sources()

    def place(self, name: str) -> str:
        """Return the name in the archive of the file that holds the module."""
        place = name.replace(".", "/")
        package = place + "/__init__.py"
        return package if package in self.files else place + ".py"

    def module_names(self) -> list[str]:
        return [
            name[: -len(".py")].replace("/", ".").removesuffix(".__init__")
            for name in self.files
            if name.endswith(".py")
        ]

    def is_package(self, name: str) -> bool | None:
        place = self.place(name)
        return place.endswith("/__init__.py") if place in self.files else None

    def code(self, name: str) -> CodeType:
        place = self.place(name)
        code: CodeType = compile(self.files[place], place, "exec", dont_inherit=True)
        return code

    def content(self, name: str) -> bytes | None:
        return self.files.get(name)
