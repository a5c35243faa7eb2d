"""Dockerfile.odek of this repository: odek accepts it, and it has the tools that scripts/check runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from odek.app.sandbox_image import require_buildable
from odek.sandbox.build.dockerfile import Dockerfile, read_inputs
from odek.sandbox.errors import SandboxConfigError

ROOT = Path(__file__).resolve().parents[2]
CONTENT = (ROOT / "Dockerfile.odek").read_bytes()


def test_odek_accepts_it() -> None:
    """One base, nothing copied from the project: a change of a source makes no new image."""
    require_buildable(Dockerfile(data=CONTENT))
    inputs = read_inputs(CONTENT)
    assert (len(inputs.bases), inputs.sources) == (1, ())


def test_a_line_that_reaches_out_would_be_refused() -> None:
    """The test above can fail."""
    with pytest.raises(SandboxConfigError):
        require_buildable(Dockerfile(data=CONTENT + b"ADD http://host.example/file /file\n"))


@pytest.mark.parametrize("tool", ["pytest", "ruff", "mypy", "shellcheck"])
def test_it_has_the_tools_of_the_checks(tool: str) -> None:
    assert tool in (ROOT / "scripts" / "check").read_text() or tool == "pytest"
    assert tool.encode() in CONTENT
