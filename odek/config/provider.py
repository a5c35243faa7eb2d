"""The providers that odek knows by name: their addresses, which of two APIs they speak, whose keys go there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from odek.patterns import pattern

if TYPE_CHECKING:
    import re

Provider = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Known:
    """One provider."""

    base_url: str
    variable: str = ""
    """where programs of this kind look for its key; "" for a server of one's own, which wants none"""
    domain: str = ""
    """of the servers that get that key"""
    api: Provider = "openai"
    namespaces: tuple[str, ...] = ()
    """of the names in this table, those that its own models' names begin with: `openai/gpt-oss-120b` of Groq"""
    named_after_it: re.Pattern[str] | None = None
    """what follows the provider's own name in names of its models: `openrouter/auto` is the whole name of one"""
    start: str = ""
    """the command that starts a server of one's own"""


KNOWN: dict[str, Known] = {
    "openai": Known("https://api.openai.com/v1", "OPENAI_API_KEY", "openai.com"),
    "anthropic": Known("https://api.anthropic.com", "ANTHROPIC_API_KEY", "anthropic.com", "anthropic"),
    "deepseek": Known("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek.com"),
    "gemini": Known(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "generativelanguage.googleapis.com"
    ),
    "openrouter": Known(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "openrouter.ai",
        namespaces=("openai", "anthropic", "deepseek", "mistral", "minimax"),
        named_after_it=pattern(r"[^/]+"),
    ),
    "mistral": Known("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral.ai"),
    "groq": Known(
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "groq.com",
        namespaces=("openai",),
        named_after_it=pattern(r"compound(-mini)?"),
    ),
    "xai": Known("https://api.x.ai/v1", "XAI_API_KEY", "x.ai"),
    "moonshot": Known("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "moonshot.ai"),
    "dashscope": Known("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", "aliyuncs.com"),
    "minimax": Known("https://api.minimax.io/v1", "MINIMAX_API_KEY", "minimax.io"),
    "ollama": Known("http://127.0.0.1:11434/v1", start="ollama serve"),
    "lmstudio": Known(
        "http://127.0.0.1:1234/v1", namespaces=("openai", "deepseek", "mistral", "minimax"), start="lms server start"
    ),
    "llama.cpp": Known("http://127.0.0.1:8080/v1", namespaces=("openai",), start="llama-server -m MODEL.gguf"),
    "vllm": Known("http://127.0.0.1:8000/v1", namespaces=("openai",), start="vllm serve MODEL"),
}
DEFAULT_PROVIDER = "deepseek"
"""whose address and model are the defaults of their options"""
_ANYWHERE = ("DEEPSEEK_API_KEY", "OPENAI_API_KEY")
"""keys that a server of the OpenAI kind gets when it is none of those above, as programs of this kind do"""
_ANTHROPIC_HOST = "api.anthropic.com"
_ANTHROPIC_PATHS = ("/anthropic", "/anthropic/v1")  # where other providers offer Anthropic's API


def choose_provider(provider: str, base_url: str) -> Provider:
    """Return `provider` when it is named, else what `base_url` looks like."""
    if provider in KNOWN:
        return KNOWN[provider].api
    host, path = _split(base_url)
    speaks = host == _ANTHROPIC_HOST or path.endswith(_ANTHROPIC_PATHS)
    return "anthropic" if speaks else "openai"


def address_of(provider: str) -> str:
    """Return the address that a provider brings when no other is said, "" for none."""
    return KNOWN[provider].base_url if provider in KNOWN else ""


def foreign_key_variables(provider: Provider, base_url: str) -> tuple[str, ...]:
    """Return the variables whose keys belong elsewhere: no server gets a key that is not meant for it.

    The servers of a known provider get its own. Any other server of the OpenAI kind that the operator names gets
    DeepSeek's or OpenAI's, any other of Anthropic's kind Anthropic's.
    """
    host, _ = _split(base_url)
    owned = [known.variable for known in KNOWN.values() if _is_of(host, known.domain) and known.api == provider]
    allowed = owned or (["ANTHROPIC_API_KEY"] if provider == "anthropic" else _ANYWHERE)
    return tuple(known.variable for known in KNOWN.values() if known.variable and known.variable not in allowed)


def providers_with_keys(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of those whose key is in `env`."""
    return tuple(name for name, known in KNOWN.items() if known.variable and env.get(known.variable))


def own_servers() -> tuple[str, ...]:
    """Return the names of those that run on one's own machine and want no key."""
    return tuple(name for name, known in KNOWN.items() if not known.variable)


def start_command(provider: str, base_url: str) -> str:
    """Return what starts the server of `provider`, or the one at `base_url` whose port no other has; "": not known."""
    if provider in KNOWN:
        return KNOWN[provider].start
    from urllib.parse import urlsplit

    try:
        port = urlsplit(base_url).port
    except ValueError:
        return ""
    own = ("ollama", "lmstudio")  # servers of all kinds listen at 8000 and 8080
    return next((KNOWN[name].start for name in own if KNOWN[name].base_url.endswith(f":{port}/v1")), "")


def _is_of(host: str, domain: str) -> bool:
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _split(base_url: str) -> tuple[str, str]:
    """Return host and path, both "" where there is no host."""
    from urllib.parse import urlsplit  # not for a start that finds no key of another program

    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").lower()
    except ValueError:  # refused, with words, where the address is used
        return "", ""
    return host, parts.path.rstrip("/") if host else ""
