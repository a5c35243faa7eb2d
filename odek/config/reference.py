"""The table of all settings in docs/CONFIG.md, from OPTIONS (R-12). Pure.

A test compares the document with it; write it anew with
`python3 -c 'from odek.config.reference import render_reference; print(render_reference(), end="")'`.
"""

from __future__ import annotations

from odek.config.options import APPROVE, FORBIDDEN, FREE, LIVE, LOWER_ONLY, ONLY_TRUE, OPTIONS, Option

_RULES = {
    FREE: "yes",
    APPROVE: "after approval",
    LOWER_ONLY: "only lower",
    ONLY_TRUE: "only `true`",
    FORBIDDEN: "no",
}
_HEAD = "| Key | Type | Default | Variable | Flag | Project | Meaning |\n|---|---|---|---|---|---|---|\n"


def render_reference() -> str:
    """Return the table in Markdown, and below it the names that are kept for later."""
    reserved = ", ".join(f"`{option.key}`" for option in OPTIONS if option.reserved)
    rows = "".join(_row(option) for option in LIVE)
    return f"{_HEAD}{rows}\nReserved names, accepted in the operator's file and ignored: {reserved}.\n"


def _row(option: Option) -> str:
    cells = (
        f"`{option.key}`" if option.in_file else "–",
        option.kind,
        _default(option),
        _codes((*option.env, *option.fallback_env)),
        _flags(option),
        _RULES[option.project] if option.in_file else "no",
        option.help,
    )
    return "| " + " | ".join(cells) + " |\n"


def _default(option: Option) -> str:
    if option.default is None or option.default in ("", ()):
        return "–"
    return f"`{str(option.default).lower() if option.kind == 'bool' else option.default}`"


def _flags(option: Option) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    names = [name + value for name in (option.flag, option.short) if name]
    return _codes((*names, option.off_flag))


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names if name) or "–"
