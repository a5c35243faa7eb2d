"""Which of two APIs base_url speaks, and whose keys go there. Pure."""

from __future__ import annotations

from typing import Literal, cast
from urllib.parse import urlsplit

Provider = Literal["openai", "anthropic"]

PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic")
ANTHROPIC_URL = "https://api.anthropic.com"
"""where requests go when the provider is named and no address is"""
_ANTHROPIC_HOST = "api.anthropic.com"
_ANTHROPIC_PATHS = ("/anthropic", "/anthropic/v1")  # where other providers offer Anthropic's API
_KEY_VARIABLES: dict[Provider, tuple[str, ...]] = {
    "openai": ("DEEPSEEK_API_KEY", "OPENAI_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}


def choose_provider(provider: str, base_url: str) -> Provider:
    """Return `provider` when it is named, else what `base_url` looks like."""
    if provider:
        return cast("Provider", provider)
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:  # refused, with words, where the address is used
        return "openai"
    speaks = host.lower() == _ANTHROPIC_HOST or parts.path.rstrip("/").endswith(_ANTHROPIC_PATHS)
    return "anthropic" if speaks else "openai"


def foreign_key_variables(provider: Provider) -> tuple[str, ...]:
    """Return the variables whose keys belong to another API: no server gets a key that is not meant for it."""
    return tuple(name for other in PROVIDERS if other != provider for name in _KEY_VARIABLES[other])
