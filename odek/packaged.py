"""Files that are packaged with odek: read through the loader, which knows a folder, the one file and a binary alike."""

from __future__ import annotations

import os
import sys
from typing import Protocol, cast


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


def read_packaged(package: str, name: str) -> bytes:
    """Return the file `name` of an imported `package`. Raises OSError when it is not there."""
    module = sys.modules[package]
    loader = cast("_Loader", module.__loader__)
    return loader.get_data(os.path.join(os.path.dirname(module.__file__ or ""), name))
