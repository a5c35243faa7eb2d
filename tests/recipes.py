"""The recipes of build/ as modules: they are programs, and import each other as programs in one folder do."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

BUILD = Path(__file__).resolve().parent.parent / "build"


def load_recipe(name: str) -> ModuleType:
    """Return build/`name`.py; the module of that name in the standard library, if any, is none we use."""
    sys.path.insert(0, str(BUILD))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(BUILD))
    assert module.__file__ == str(BUILD / f"{name}.py")
    return module
