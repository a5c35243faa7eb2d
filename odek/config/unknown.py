"""Names that no option has: a warning with the nearest known one, or a stop (R-13, F-2, B29). Pure.

A name that looks like a setting of the sandbox or of the danger policy stops the run: whoever
wrote it counts on something that would not be in force.
"""

from __future__ import annotations

from collections.abc import Iterable

from odek.config.options import LIVE, OPTIONS
from odek.errors import ConfigError
from odek.text import clip, visible

_FILE_KEYS = (
    *dict.fromkeys(option.key.partition(".")[0] for option in OPTIONS if option.in_file),
    *(option.key for option in LIVE if option.key.startswith("limits.")),
)
_VARIABLES = tuple(name for option in LIVE for name in option.env)
_SWITCHES = {option.key: option.env[0] for option in LIVE if option.env and not option.in_file}
_SECURITY = ("sandbox", "danger")
_NEAR = 0.75
_NEAR_VARIABLE = 0.85
_NO_MISTAKE = ("ODEK_API_KEY_FD",)  # another version's hand-over to a sub-agent, not a misspelt ODEK_API_KEY
_SHOWN_CHARS = 60


def explain_unknown_key(name: str, origin: str) -> str:
    """Return the warning for a key of a file that is ignored.

    Raises ConfigError when the key looks like a security setting.
    """
    shown = f'unknown key "{visible(clip(name, _SHOWN_CHARS))}" in {origin}'
    squeezed = _squeeze(name)
    near = _nearest(squeezed, _FILE_KEYS, _NEAR)
    if any(word in squeezed + _squeeze(near) for word in _SECURITY) or name.startswith("tools."):
        raise ConfigError(shown, hint=_security_hint(name, squeezed, near))
    return f"{shown} is ignored" + (f'; did you mean "{near}"?' if near else "")


def explain_unknown_variables(names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each ODEK_ variable of `names` that is nearly one of ours.

    Raises ConfigError for one that speaks of the sandbox.
    """
    warnings = []
    for name in sorted(names):
        if not name.startswith("ODEK_") or name in (*_VARIABLES, *_NO_MISTAKE):
            continue
        near = _nearest(_squeeze(name), _VARIABLES, _NEAR_VARIABLE)
        if "SANDBOX" in name:
            raise ConfigError(
                f"unknown variable {visible(name)}", hint=f"did you mean {near}?" if near else f"unset {visible(name)}"
            )
        if near:
            warnings.append(f"unknown variable {visible(name)} is ignored; did you mean {near}?")
    return tuple(warnings)


def _security_hint(name: str, squeezed: str, near: str) -> str:
    if name.startswith("tools."):
        return 'write "tools": {"enabled": […]} or "tools": {"disabled": […]}'
    for key, variable in _SWITCHES.items():
        if squeezed == _squeeze(key):
            return f"no file can set that; set {variable} in the environment"
    return f'did you mean "{near}"?' if near else "remove it: odek has no such setting"


def _squeeze(name: str) -> str:
    """Return the letters and digits of `name` alone, in one case and one width."""
    import unicodedata  # needed only when a name is unknown

    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(character for character in folded if character.isalnum())


def _nearest(squeezed: str, known: tuple[str, ...], cutoff: float) -> str:
    import difflib  # needed only when a name is unknown

    by_squeezed = {_squeeze(name): name for name in known}
    found = difflib.get_close_matches(squeezed, by_squeezed, n=1, cutoff=cutoff)
    return by_squeezed[found[0]] if found else ""
