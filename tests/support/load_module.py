"""The programs of scripts/ and build/ as modules."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def load_script(name: str) -> ModuleType:
    """Return scripts/`name`, loaded and not run."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def load_recipe(name: str) -> ModuleType:
    """Return build/`name`.py; the recipes import each other as programs in one folder do."""
    sys.path.insert(0, str(BUILD))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(BUILD))
    assert module.__file__ == str(BUILD / f"{name}.py")  # and not a module of the standard library
    return module
