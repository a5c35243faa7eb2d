"""The data files of the rules: text read through the loader, cut into rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

from odek.packaged import read_packaged


def read_data(package: ModuleType, name: str) -> str:
    """Return the text of the file `name` of `package`: from the folder, the one-file archive or the binary."""
    return read_packaged(package.__name__, name).decode()


def rows_of(text: str) -> Iterator[str]:
    """Yield the rows in `text`; `#` begins a comment, and a line that begins with blanks continues the one before."""
    joined = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^#.*\n", "", text))
    yield from filter(str.strip, joined.splitlines())
