"""The importer of the one-file odek: a package from one member of the archive, held in memory.

One read instead of many is faster than zipimport, and an upgrade that replaces the file does not
disturb an odek at work. Imports only what is built in: it runs before every command.
"""

from __future__ import annotations

import _imp
import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from zipimport import zipimporter


def install(
    file: str, archive: zipimporter, modules: Mapping[str, tuple[bool, bytes, bytes]], data: Mapping[str, bytes]
) -> None:
    """Import the package from `modules`, and the standard library from where it is."""
    sys.path.remove(file)
    sys.meta_path.insert(0, PackageLoader(file, archive, modules, data))


class PackageLoader:
    """Finder and loader of the package's modules and of the data files beside them."""

    def __init__(
        self,
        file: str,
        archive: zipimporter,
        modules: Mapping[str, tuple[bool, bytes, bytes]],
        data: Mapping[str, bytes],
    ) -> None:
        self.file = file
        """path of the one-file odek"""
        self.archive = archive
        self.modules = modules
        """name → is it a package, its marshalled code, the marshalled methods of its data classes or b"" """
        self.data = data
        """name in the archive → bytes"""
        self.methods: dict[str, CodeType] = {}
        """source text → code, of the data classes in the modules imported so far"""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return where the module is, or None when it is none of ours."""
        if name not in self.modules:
            return None
        is_package = self.modules[name][0]
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
        _, packed, methods = self.modules[module.__name__]
        if methods:
            self.provide(methods)
        code = marshal.loads(packed)
        # as importlib does for any compiled file: the code gets the path that it has here. It is one
        # below a file and so can never exist: a traceback never quotes a file of the current folder
        _imp._fix_co_filename(code, module.__file__)  # type: ignore[attr-defined]
        exec(code, module.__dict__)

    def provide(self, methods: bytes) -> None:
        """Have dataclasses take methods from here, where the very text that it would compile is known.

        It writes them as text and gives that to `exec`; a name of its own hides the built-in one.
        """
        import dataclasses

        if not self.methods:
            dataclasses.exec = self.exec_method  # type: ignore[attr-defined]
        self.methods.update(marshal.loads(methods))

    def exec_method(self, text: str, *scopes: dict[str, object]) -> None:
        exec(self.methods.get(text, text), *scopes)

    def get_data(self, path: str) -> bytes:
        """Return a data file, given as the folder of a module's `__file__`, a slash and its name."""
        prefix = self.file + "/"
        name = path[len(prefix) :]
        if not path.startswith(prefix) or name not in self.data:
            raise OSError(2, "no such data file in odek", path)
        return self.data[name]

    def get_source(self, name: str) -> str | None:
        """Return a module's source, for tracebacks; None when the file is no longer there or no longer ours."""
        try:
            return self.archive.get_data(sys.modules[name].__file__ or "").decode()
        except (ImportError, OSError, EOFError, ValueError):
            return None
