"""The `providers` object: servers of the operator's by name, each value checked (R-13). Pure.

Of a provider that odek knows by name only what differs need stand there: `{"deepseek": {"models": {…}}}`.
A variable in `api_key` is looked up when the provider is used, so that a key that is not set stops the runs that need
it and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from odek.config.provider import KNOWN, Provider, choose_provider
from odek.config.values import (
    Kind,
    check_characters,
    check_references,
    require_known_keys,
    require_object,
    shown_url,
)
from odek.errors import ConfigError
from odek.patterns import pattern
from odek.secret_names import is_secret_name
from odek.strict_json import described, kind_of, quoted

FIELDS = ("base_url", "api_key", "api_key_variable", "dialect", "models")
MODEL_FIELDS = ("window", "input_usd_per_million", "cached_usd_per_million", "output_usd_per_million", "images")
DIALECTS: tuple[Provider, ...] = ("openai", "anthropic")
NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_MODEL = pattern(r"[!-~]{1,128}")
_LARGEST_WINDOW = 10**9
_DEAREST = 1_000_000.0
"""USD a million tokens; more is a mistake"""


@dataclass(frozen=True, slots=True)
class Prices:
    """USD a million tokens."""

    input: float
    output: float
    cached: float
    """of tokens that the server had in its cache"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """What the operator says of one model."""

    name: str
    window: int | None = None
    """tokens"""
    prices: Prices | None = None
    images: bool | None = None
    """whether it takes images; None: not said"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """What the operator says of one provider; "" where nothing is said."""

    name: str
    base_url: str
    """where none is said, the address that odek knows"""
    api_key: str = ""
    """as it is written; holds a secret"""
    api_key_variable: str = ""
    dialect: Literal["openai", "anthropic", ""] = ""
    models: tuple[ModelEntry, ...] = ()

    @property
    def only_adds(self) -> bool:
        """whether it says no more of a known provider than what models it has"""
        known = KNOWN.get(self.name)
        return known is not None and self.base_url == known.base_url and not (self.api_key or self.api_key_variable)

    @property
    def api(self) -> Provider:
        """which of two APIs is spoken"""
        return self.dialect or choose_provider(self.name if self.name in KNOWN else "", self.base_url)

    def find_model(self, name: str) -> ModelEntry | None:
        """Return what is said of the model called `name`."""
        return next((entry for entry in self.models if entry.name == name), None)


class ProvidersKind(Kind[tuple[ProviderEntry, ...]]):
    """The `providers` object, which only the operator's file can give."""

    name = "object"
    schema: Mapping[str, object] = {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "base_url": {"type": "string"},
                "api_key": {"type": "string"},
                "api_key_variable": {"type": "string"},
                "dialect": {"enum": ["", *DIALECTS]},
                "models": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {
                            "window": {"type": "integer", "minimum": 1, "maximum": _LARGEST_WINDOW},
                            **{field: {"type": "number", "minimum": 0} for field in MODEL_FIELDS[1:4]},
                            "images": {"type": "boolean"},
                        },
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
    }

    def from_json(self, raw: object, origin: str) -> tuple[ProviderEntry, ...] | None:
        return None if raw is None else parse_providers(raw, origin)

    def shown(self, value: object) -> object:
        return {entry.name: _shown(entry) for entry in cast("tuple[ProviderEntry, ...]", value)}

    def initial(self, default: object) -> object | None:  # noqa: ARG002 - a template has none
        return None


def parse_providers(value: object, origin: str) -> tuple[ProviderEntry, ...]:
    """Return the providers that `value` describes. Raises ConfigError with the path of what is wrong."""
    entries = []
    for name, raw in require_object(value, origin).items():
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{quoted(name)} is not a name of a provider ({origin})", hint="use letters, digits and . _ -"
            )
        entries.append(_entry(name, raw, f"{origin}.{name}"))
    folded = [entry.name.lower() for entry in entries]
    if len(set(folded)) < len(folded):
        raise ConfigError(f"two names in {origin} differ in capitals only", hint="rename one of them")
    return tuple(entries)


def _entry(name: str, raw: object, origin: str) -> ProviderEntry:
    document = require_object(raw, origin)
    require_known_keys(document, FIELDS, origin)
    base_url = _text(document, "base_url", origin) or (KNOWN[name].base_url if name in KNOWN else "")
    if not base_url:
        raise ConfigError(
            f"{origin} has no base_url", hint=f"{quoted(name)} is not one of {', '.join(KNOWN)}: give its address"
        )
    _check_address(base_url, f"{origin}.base_url")
    api_key, variable = _text(document, "api_key", origin, secret=True), _text(document, "api_key_variable", origin)
    if api_key and variable:
        raise ConfigError(f"{origin} has both api_key and api_key_variable", hint="leave one of them out")
    if variable and not _VARIABLE.fullmatch(variable):  # not shown: it may be the key itself
        raise ConfigError(
            f"{origin}.api_key_variable is not a name of a variable", hint='such as "WORK_API_KEY"; a key is an api_key'
        )
    if variable and not is_secret_name(variable):  # commands on the host would be given it
        raise ConfigError(
            f"{origin}.api_key_variable does not name a secret", hint="let the name end in _KEY or _TOKEN"
        )
    check_references(api_key, origin=f"{origin}.api_key")
    return ProviderEntry(
        name=name,
        base_url=base_url,
        api_key=api_key,
        api_key_variable=variable,
        dialect=_dialect(document, origin),
        models=tuple(_models(document.get("models"), f"{origin}.models")),
    )


def _check_address(base_url: str, origin: str) -> None:
    """Refuse what cannot be an address."""
    if not base_url.startswith(("https://", "http://")):
        raise ConfigError(
            f"{quoted(shown_url(base_url))} is not an http or https address ({origin})",
            hint="give an address like https://api.example.com/v1",
        )
    if "@" in base_url.partition("://")[2].partition("/")[0]:  # not shown: it may be a password
        raise ConfigError(f"{origin} must not hold a user or a password", hint="put the key into api_key")


def _dialect(document: dict[str, object], origin: str) -> Literal["openai", "anthropic", ""]:
    text = _text(document, "dialect", origin)
    if text and text not in DIALECTS:
        raise ConfigError(f"{origin}.dialect is {quoted(text)}", hint=f"use {' or '.join(DIALECTS)}")
    return text


def _models(value: object, origin: str) -> Iterator[ModelEntry]:
    if value is None:
        return
    for name, raw in require_object(value, origin).items():
        if not _MODEL.fullmatch(name):
            raise ConfigError(f"{quoted(name)} is not a name of a model ({origin})", hint="use the server's own name")
        where = f"{origin}.{name}"
        document = require_object(raw, where)
        require_known_keys(document, MODEL_FIELDS, where)
        yield ModelEntry(
            name=name, window=_window(document, where), prices=_prices(document, where), images=_images(document, where)
        )


def _window(document: dict[str, object], origin: str) -> int | None:
    value = document.get("window")
    if value is None:
        return None
    if type(value) is not int or not 0 < value <= _LARGEST_WINDOW:
        raise ConfigError(f"{origin}.window is {described(value)}", hint="give the whole number of its tokens")
    return value


def _images(document: dict[str, object], origin: str) -> bool | None:
    value = document.get("images")
    if value is not None and type(value) is not bool:
        raise ConfigError(f"{origin}.images is {described(value)}", hint="use true or false")
    return value


def _prices(document: dict[str, object], origin: str) -> Prices | None:
    """Return the prices; with one of input and output alone a cost could not be told."""
    found = {field: _price(document.get(field), f"{origin}.{field}") for field in MODEL_FIELDS[1:4]}
    of_input, cached, output = found.values()
    if of_input is None and cached is None and output is None:
        return None
    if of_input is None or output is None:
        missing = "input_usd_per_million" if of_input is None else "output_usd_per_million"
        raise ConfigError(f"{origin} has a price and no {missing}", hint="give both; 0 is a price")
    return Prices(of_input, output, of_input if cached is None else cached)


def _price(value: object, origin: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _DEAREST:
        raise ConfigError(f"{origin} is {described(value)}", hint="give the USD that a million tokens cost")
    return float(value)


def _text(document: dict[str, object], key: str, origin: str, *, secret: bool = False) -> str:
    value = document.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        found = kind_of(value) if secret else described(value)
        raise ConfigError(f"{origin}.{key} must be a string, not {found}", hint=f"correct {origin}.{key}")
    check_characters(value, f"{origin}.{key}")
    return value.strip()


def _shown(entry: ProviderEntry) -> dict[str, object]:
    return {"base_url": shown_url(entry.base_url), "models": [model.name for model in entry.models]}
