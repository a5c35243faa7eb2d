"""The operator's home of a test: a folder of its own, no workspace around it."""

from __future__ import annotations

import os
from pathlib import Path

from odek.operator_home import ROOT, OperatorHome


def operator_home(home: Path | str, *, uid: int = os.getuid(), workspaces: tuple[str, ...] = ()) -> OperatorHome:
    """Return what HOME=`home` means; "" is no home at all."""
    return OperatorHome(folder=os.path.join(home, ROOT) if str(home) else "", uid=uid, workspaces=workspaces)
