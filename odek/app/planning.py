"""Turns that only plan: what they may not, as one layer of settings (R-281). Pure.

Read-only is the setting, so all that follows from it (D-22) holds: no fall back to the host, no `--no-sandbox`, every
path of this machine. Sub-agents get their parent's place and tools, and so cannot write either.
"""

from __future__ import annotations

from odek.app.config import Config
from odek.config.layers import Layer, Value
from odek.config.options import Source

PLAN = "--plan"
"""who says so, in messages"""
WRITING_TOOLS = ("write_file", "patch", "batch_patch")


def planned(config: Config) -> Config:
    """Return the settings with which nothing can be written."""
    values: dict[str, object] = {"sandbox_readonly": True, "tools.disabled": WRITING_TOOLS}
    said = {key: Value(value=value, origin=PLAN) for key, value in values.items()}
    return config.with_layer(Layer(source=Source.FLAG, origin=PLAN, values=said))
