#!/usr/bin/env python3
"""The table of all settings in docs/CONFIG.md, from the rows in odek/config/settings.py (R-12).

    build/config_reference.py           write the table into docs/CONFIG.md
    build/config_reference.py --print   show it

A test compares the document with it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from odek.config.options import Option, ProjectRule  # noqa: E402 - the source beside this file
from odek.config.settings import OPTIONS, RESERVED  # noqa: E402

DOCUMENT = ROOT / "docs" / "CONFIG.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->"
_RULES = {
    ProjectRule.ALLOWED: "yes",
    ProjectRule.NEEDS_APPROVAL: "after approval",
    ProjectRule.ASKS_ITSELF: "after approval",
    ProjectRule.CAN_LOWER: "only lower",
    ProjectRule.CAN_ENABLE: "only `true`",
    ProjectRule.FORBIDDEN: "no",
}
_HEAD = "| Key | Type | Default | Variable | Flag | Project | Meaning |\n|---|---|---|---|---|---|---|\n"


def render_reference() -> str:
    """Return the table in Markdown, and below it the names that are kept for later."""
    reserved = ", ".join(f"`{key}`" for key in RESERVED)
    rows = "".join(_row(option) for option in OPTIONS)
    return f"{_HEAD}{rows}\nReserved names, accepted in the operator's file and ignored: {reserved}.\n"


def _row(option: Option[Any]) -> str:
    cells = (
        f"`{option.key}`" if option.in_file else "–",
        option.kind.name,
        _default(option),
        _codes((*option.env, *option.fallback_env)),
        _flags(option),
        _RULES[option.project] if option.in_file else "no",
        option.help,
    )
    return "| " + " | ".join(cells) + " |\n"


def _default(option: Option[Any]) -> str:
    default = option.kind.initial(option.default)
    if not isinstance(default, (bool, int, float, str)) or default == "":
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _flags(option: Option[Any]) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    names = [name + value for name in (option.flag, option.short) if name]
    return _codes((*names, option.off_flag))


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names if name) or "–"


def main() -> int:
    """Write the table into the document, or print it."""
    if sys.argv[1:] == ["--print"]:
        print(render_reference(), end="")
        return 0
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}{render_reference()}{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
