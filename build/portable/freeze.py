"""What the Python of the portable binary runs once: the modules of the standard library that odek needs, as C.

    python freeze.py ROOT TARGET

Finds what odek (below ROOT) imports, without what build/excludes.txt names, compiles it, and writes into the folder
TARGET: frozen.bin, all code behind each other; frozen.h and frozen.c, the table that Python reads; frozen.s, which
holds frozen.bin; frozen.txt, the names with their
SHA-256. The same each time (R-91).
"""

from __future__ import annotations

import hashlib
import marshal
import modulefinder
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# imported by C code of Python, where no one sees it
HIDDEN = ("_pylong", "_strptime", "copyreg", "encodings", "io", "linecache", "traceback", "warnings")
ALIGNMENT = 16

HEADER = """\
#include <Python.h>
extern const struct _frozen odek_frozen[];
"""
ASSEMBLY = """\
.section .rodata
.balign 16
.global odek_frozen_code
odek_frozen_code:
.incbin "frozen.bin"
.section .note.GNU-stack,"",%progbits
"""


def excluded(root: Path) -> set[str]:
    """Return the modules of excludes.txt."""
    lines = (root / "build" / "excludes.txt").read_text("utf-8").splitlines()
    return {name for line in lines if (name := line.split("#")[0].strip())}


def modules_of(root: Path, package: str) -> Iterator[str]:
    """Yield every module of a package in `root`."""
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_modules(root: Path, library: Path) -> dict[str, Path]:
    """Return name → file of the modules of the standard library that odek needs."""
    boot = root / "build" / "boot"
    encodings = {name: is_usable(library / f"{name.replace('.', '/')}.py") for name in modules_of(library, "encodings")}
    without = excluded(root) | {name for name, usable in encodings.items() if not usable}
    finder = modulefinder.ModuleFinder([str(root), str(boot), str(library)], excludes=sorted(without))
    own = [*modules_of(root, "odek"), *(path.stem for path in sorted(boot.glob("odek*.py")))]
    hidden = [name for name in HIDDEN if (library / f"{name}.py").is_file() or (library / name).is_dir()]
    for name in (*own, *hidden, *(name for name in encodings if name not in without)):
        finder.import_hook(name)
    found = sorted((name, Path(module.__file__)) for name, module in finder.modules.items() if module.__file__)
    return {name: path for name, path in found if path.is_relative_to(library)}


def is_usable(encoding: Path) -> bool:
    """Whether an encoding is there on Linux, and needs none of the tables of East Asia (excludes.txt)."""
    if not encoding.is_file():  # the package
        return True
    text = encoding.read_text("utf-8")
    return not any(word in text for word in ("_codecs_", "mbcs_encode", "oem_encode"))


def compile_all(files: Mapping[str, Path]) -> dict[str, tuple[bool, bytes]]:
    """Return name → is it a package, and its marshalled code."""
    return {
        name: (
            path.name == "__init__.py",
            marshal.dumps(compile(path.read_bytes(), f"<frozen {name}>", "exec", dont_inherit=True, optimize=0)),
        )
        for name, path in files.items()
    }


def write(compiled: Mapping[str, tuple[bool, bytes]], target: Path) -> None:
    """Write the files of the docstring."""
    blob, rows = bytearray(), []
    for name, (is_package, code) in compiled.items():
        blob += bytes(-len(blob) % ALIGNMENT)
        rows.append(f'    {{"{name}", odek_frozen_code + {len(blob)}, {len(code)}, {int(is_package)}}},')
        blob += code
    table = (
        '#include "frozen.h"\nextern const unsigned char odek_frozen_code[];\nconst struct _frozen odek_frozen[] = {\n'
    )
    (target / "frozen.bin").write_bytes(blob)
    (target / "frozen.h").write_text(HEADER)
    (target / "frozen.s").write_text(ASSEMBLY)
    (target / "frozen.c").write_text(table + "\n".join(rows) + "\n    {0, 0, 0, 0},\n};\n")
    names = (f"{name} {hashlib.sha256(code).hexdigest()}\n" for name, (_, code) in compiled.items())
    (target / "frozen.txt").write_text("".join(names))


if __name__ == "__main__":
    standard = Path(modulefinder.__file__).parent
    write(compile_all(find_modules(Path(sys.argv[1]), standard)), Path(sys.argv[2]))
