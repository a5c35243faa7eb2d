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
_OWN_DOMAINS = {"DEEPSEEK_API_KEY": "deepseek.com", "OPENAI_API_KEY": "openai.com"}


def choose_provider(provider: str, base_url: str) -> Provider:
    """Return `provider` when it is named, else what `base_url` looks like."""
    if provider:
        return cast("Provider", provider)
    host = _host(base_url)
    path = urlsplit(base_url).path.rstrip("/") if host else ""
    speaks = host == _ANTHROPIC_HOST or path.endswith(_ANTHROPIC_PATHS)
    return "anthropic" if speaks else "openai"


def foreign_key_variables(provider: Provider, base_url: str) -> tuple[str, ...]:
    """Return the variables whose keys belong elsewhere: no server gets a key that is not meant for it.

    DeepSeek's own servers get DeepSeek's key and OpenAI's own OpenAI's. Any other server of the
    OpenAI kind that the operator names gets either, as programs of this kind do.
    """
    foreign = [name for other in PROVIDERS if other != provider for name in _KEY_VARIABLES[other]]
    if provider == "openai":
        host = _host(base_url)
        owners = [name for name, domain in _OWN_DOMAINS.items() if host == domain or host.endswith(f".{domain}")]
        if owners:
            foreign += [name for name in _KEY_VARIABLES["openai"] if name not in owners]
    return tuple(foreign)


def _host(base_url: str) -> str:
    try:
        return (urlsplit(base_url).hostname or "").lower()
    except ValueError:  # refused, with words, where the address is used
        return ""
