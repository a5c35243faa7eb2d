"""Files, environment and flags to layers (R-10).

The parsing is pure and stands beside the reading: `parse_file`, `parse_environment`, `parse_flags`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from odek.config.danger import parse_dangerous
from odek.config.options import BY_KEY, FORBIDDEN, GLOBAL_FILE, LIVE, OPTIONS, PROJECT_FILE, Option
from odek.config.provider import DEFAULT_PROVIDER, address_of, choose_provider, foreign_key_variables
from odek.config.settings import Source
from odek.config.sources import (
    SECRETS_FILE,
    SecretFile,
    parse_config,
    read_operator_config,
    read_project_config,
    read_secrets,
)
from odek.config.values import check_references, expand, parse_json, parse_text
from odek.errors import ConfigError
from odek.host import Host
from odek.strict_json import described
from odek.text import truncate, visible

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
    shown = f'unknown key "{visible(truncate(name, _SHOWN_CHARS))}" in {origin}'
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


_CHOOSE_PROVIDER = ("provider", "base_url")
_IGNORED_KEYS = ("$schema",)  # what editors look for
_GROUPS = frozenset(option.key.partition(".")[0] for option in OPTIONS if "." in option.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value as a layer has it, typed as values.py says."""

    value: object
    origin: str
    """the file, variable or flag that said it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one source says, by option key."""

    source: Source
    origin: str
    values: Mapping[str, Value]
    unknown: tuple[str, ...] = ()
    """keys of a file that no option has"""
    unused: tuple[str, ...] = ()
    """keys that are known and yet do not count: forbidden to a project, or reserved"""
    warnings: tuple[str, ...] = ()


def read_layers(host: Host, flags: Mapping[str, object]) -> tuple[Layer, ...]:
    """Return every layer, weakest first.

    `flags` holds, by option key, only what the command line said: a bool, a str, or a list of str.
    Raises ConfigError for whatever cannot be read, parsed or typed (R-13).
    """
    where = host.operator_home
    secrets = read_secrets(where)
    env = _with_secrets(host.env, secrets)
    layers: list[Layer] = []
    data = read_operator_config(where, shown=GLOBAL_FILE)
    if data is not None:
        layers.append(parse_file(data, Source.GLOBAL, env))
    data = read_project_config(host.cwd, "odek.json", shown=PROJECT_FILE)
    if data is not None:
        layers.append(parse_file(data, Source.PROJECT, env))
    return with_fallbacks((*layers, parse_environment(env, secrets), parse_flags(flags)), env, secrets)


def with_fallbacks(layers: Sequence[Layer], env: Mapping[str, str], secrets: SecretFile) -> tuple[Layer, ...]:
    """Return `layers` above the weakest one: variables of other programs, asked when nobody says anything.

    They depend on the rest: a key counts only where the API that it belongs to is spoken.
    """
    layers = _without_foreign_key(layers)
    said = {key: value.value for layer in layers for key, value in layer.values.items() if key in _CHOOSE_PROVIDER}
    named = str(said.get("provider", ""))
    base_url = str(said.get("base_url", address_of(named) or BY_KEY["base_url"].default))
    provider = choose_provider(named, base_url)
    return (parse_fallbacks(env, secrets, foreign_key_variables(provider, base_url)), *layers)


def _without_foreign_key(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Drop the operator's `api_key` where a variable or flag names another provider, which brings its own address.

    The file's key is for the server that the file leads to (D-26). An address that is said keeps it: who says where to
    send it means it.
    """
    if any("base_url" in layer.values for layer in layers):
        return tuple(layers)
    named = [layer.values["provider"].value for layer in layers if "provider" in layer.values]
    kept = []
    for layer in layers:
        own = layer.values["provider"].value if "provider" in layer.values else DEFAULT_PROVIDER
        if layer.source is Source.GLOBAL and "api_key" in layer.values and named and named[-1] != own:
            values = {key: value for key, value in layer.values.items() if key != "api_key"}
            warning = f"api_key in {layer.origin} is for the provider {own} and not sent to {named[-1]}"
            layer = replace(layer, values=values, warnings=(*layer.warnings, warning))
        kept.append(layer)
    return tuple(kept)


def parse_file(data: bytes, source: Source, env: Mapping[str, str]) -> Layer:
    """Return the layer of a file: the operator's (Source.GLOBAL) or the project's (Source.PROJECT).

    Only the operator's file may name variables of `env`; a project's text stays as it is (R-17).
    """
    shown = GLOBAL_FILE if source is Source.GLOBAL else PROJECT_FILE
    values: dict[str, Value] = {}
    unknown, unused = [], []
    for key, option, raw in _members(parse_config(data, shown=shown), shown):
        if option is None or not option.in_file:
            unknown.append(key)
        elif option.reserved or (source is Source.PROJECT and option.project == FORBIDDEN):
            unused.append(key)
        else:
            value = _file_value(option, raw, f"{shown}: {key}", env if source is Source.GLOBAL else None)
            if value is not None:
                values[key] = Value(value=value, origin=shown)
    return Layer(source=source, origin=shown, values=values, unknown=tuple(unknown), unused=tuple(unused))


def parse_environment(env: Mapping[str, str], secrets: SecretFile) -> Layer:
    """Return the layer of the ODEK_ variables; `secrets` tells which of them a file added to `env`."""
    values: dict[str, Value] = {}
    for option in LIVE:
        found = _first_variable(option, option.env, env, secrets)
        if found is not None:
            values[option.key] = found
    return Layer(
        source=Source.ENVIRONMENT,
        origin="environment",
        values=values,
        warnings=(*secrets.warnings, *explain_unknown_variables(env)),
    )


def parse_fallbacks(env: Mapping[str, str], secrets: SecretFile, foreign: tuple[str, ...]) -> Layer:
    """Return the layer of other programs' variables but for `foreign`."""
    values: dict[str, Value] = {}
    for option in LIVE:
        names = tuple(name for name in option.fallback_env if name not in foreign)
        found = _first_variable(option, names, env, secrets)
        if found is not None:
            values[option.key] = found
    return Layer(source=Source.ENVIRONMENT, origin="environment", values=values)


def parse_flags(flags: Mapping[str, object]) -> Layer:
    """Return the layer of the command line."""
    values: dict[str, Value] = {}
    for key, given in flags.items():
        option = BY_KEY[key]
        origin = (option.off_flag if given is False else "") or option.flag
        values[key] = Value(value=_flag_value(option, given, origin), origin=origin)
    return Layer(source=Source.FLAG, origin="command line", values=values)


def _with_secrets(env: Mapping[str, str], secrets: SecretFile) -> dict[str, str]:
    return {**env, **{name: value for name, value in secrets.values.items() if not env.get(name)}}


def _members(document: dict[str, object], shown: str) -> list[tuple[str, Option | None, object]]:
    """Return name, option and value of each member, those inside "tools" as "tools.enabled"."""
    members: list[tuple[str, Option | None, object]] = []
    for key, value in document.items():
        if key in _GROUPS:
            inner = _group(key, value, shown)
            members += [(f"{key}.{name}", BY_KEY.get(f"{key}.{name}"), member) for name, member in inner.items()]
        elif key not in _IGNORED_KEYS:
            # a top-level key that is written "tools.enabled" is not the nested one
            members.append((key, None if "." in key else BY_KEY.get(key), value))
    return members


def _group(key: str, value: object, shown: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{shown}: {key} must be an object, not {described(value)}", hint=f"correct {shown}: {key}")
    return value


def _file_value(option: Option, raw: object, where: str, env: Mapping[str, str] | None) -> object | None:
    """Return the typed value; `env` is None in a project's file."""
    if option.kind == "object":
        return None if raw is None else parse_dangerous(raw, where)
    if option.expands and env is not None:
        raw = _expanded(raw, env, where)
    if option.kind == "map" and env is None and isinstance(raw, dict):
        for name, text in raw.items():
            check_references(text if isinstance(text, str) else "", origin=f"{where}.{name}")
    return parse_json(option, raw, where)


def _expanded(raw: object, env: Mapping[str, str], where: str) -> object:
    """Return `raw` with the variables replaced in itself, in its entries or in the values of its map."""
    if isinstance(raw, list):
        return [_expanded_text(entry, env, f"{where}[{index}]") for index, entry in enumerate(raw)]
    if isinstance(raw, dict):
        return {name: _expanded_text(entry, env, f"{where}.{name}") for name, entry in raw.items()}
    return _expanded_text(raw, env, where)


def _expanded_text(raw: object, env: Mapping[str, str], where: str) -> object:
    return expand(raw, env, origin=where) if isinstance(raw, str) else raw


def _first_variable(
    option: Option, names: tuple[str, ...], env: Mapping[str, str], secrets: SecretFile
) -> Value | None:
    for name in names:
        if name not in env:
            continue
        from_file = name in secrets.values and env[name] == secrets.values[name]
        origin = f"{name} in {SECRETS_FILE}" if from_file else name
        value = _variable_value(option, name, env[name], origin)
        if value is not None:
            return Value(value=value, origin=origin)
    return None


def _variable_value(option: Option, name: str, text: str, origin: str) -> object | None:
    if name == "NO_COLOR":  # no-color.org: any text but the empty one
        return True if text else None
    if not text and name not in option.env:  # another program's variable: "" is unset to most of them
        return None
    return parse_text(option, text, origin)


def _flag_value(option: Option, given: object, origin: str) -> object:
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        return parse_text(option, given, origin)
    assert isinstance(given, (list, tuple))
    if option.off_word in given and len(given) > 1:
        raise ConfigError(f"{origin} is given as {option.off_word} and with names", hint="leave one of them out")
    return tuple(entry for text in given for entry in _entries(option, text, origin))


def _entries(option: Option, text: str, origin: str) -> tuple[str, ...]:
    value = parse_text(option, text, origin)
    assert isinstance(value, tuple)
    return value
