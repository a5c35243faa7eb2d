"""What is known of models by their names: a table, and how a server's own data on them is read. Pure.

What the operator sets takes precedence. A model that is not in the table has no known window: its server is asked
for it when that begins to matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odek.patterns import pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What to assume of a model unless a setting says otherwise."""

    window: int | None = None
    """tokens of one request; None: unknown"""
    thinking: str = ""
    timeout_s: float = 120.0
    """how long the server may be silent"""
    output_tokens: int = 8192
    """the most that one reply may have; only Anthropic's API requires it"""


_UNKNOWN = ModelProfile()
_CLAUDE_OUTPUT_TOKENS = 32_000  # what every model from Claude 4 on grants

PROFILES: tuple[tuple[str, ModelProfile], ...] = (
    ("deepseek-v4-pro", ModelProfile(window=1_000_000, thinking="enabled", timeout_s=180.0)),
    ("deepseek-v4-flash", ModelProfile(window=131_072, timeout_s=90.0)),
    ("deepseek-", ModelProfile(window=131_072)),
    ("claude-", ModelProfile(window=200_000, output_tokens=_CLAUDE_OUTPUT_TOKENS)),
    ("claude-3-", ModelProfile(window=200_000, output_tokens=4096)),
    ("claude-3-5-", ModelProfile(window=200_000, output_tokens=8192)),
    ("claude-3-7-", ModelProfile(window=200_000, output_tokens=_CLAUDE_OUTPUT_TOKENS)),
)
"""prefix of the name → profile; the longest prefix counts"""

# How servers call the size of a window, the one in force before the one of the model's training.
_WINDOW_FIELDS = (
    "loaded_context_length",  # LM Studio
    "max_input_tokens",  # Anthropic
    "max_model_len",  # vLLM
    "n_ctx",  # llama.cpp
    "context_length",  # OpenRouter, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral
    "max_context",
    "n_ctx_train",  # llama.cpp
)
_LARGEST_WINDOW = 10**9
# How servers state it when a request is too long for it.
_STATED_WINDOWS = tuple(
    pattern(words)
    for words in (
        r'"n_ctx": ?(\d{1,9})\b',  # llama.cpp
        r"maximum (?:context|prompt|model) length (?:is|of) (\d{1,9})\b",  # OpenAI, vLLM, llama-cpp-python, xAI
        r"context (?:window|size|limit|length)(?: of| is|:)?(?: only)? \(?(\d{1,9})\b(?! \+)",
        r"tokens > (\d{1,9}) maximum",  # Anthropic
        r"token limit: (\d{1,9})\b",  # Moonshot
        r"token count\b.{0,60}? exceeds the (?:limit of|maximum number of tokens allowed \()\s?(\d{1,9})\b",  # Google
        r"model with (\d{1,9}) maximum context length",  # Mistral
        r"input length should be \[1, (\d{1,9})\]",  # DashScope
        r"`max_new_tokens` must be <= (\d{1,9})\b",  # TGI
    )
)


def find_profile(model: str) -> ModelProfile:
    """Return the profile of the longest prefix of `model`, or of its part after a vendor's name and "/"."""
    names = (model.lower(), model.lower().rpartition("/")[2])
    matching = [
        (len(prefix), profile) for prefix, profile in PROFILES if any(name.startswith(prefix) for name in names)
    ]
    return max(matching, key=lambda match: match[0], default=(0, _UNKNOWN))[1]


def parse_window(payload: object, model: str) -> int | None:
    """Return what a server's list of models says about the window of `model`, None when it says nothing.

    The list is under "data" or "models"; a server with a single model may call it as it likes.
    """
    lists = _lists(payload)
    entries = [entry for entries in lists for entry in entries if isinstance(entry, dict)]
    named = [entry for entry in entries if model in (entry.get("id"), entry.get("name"), entry.get("model"))]
    alone = all(len(entries) == 1 for entries in lists)
    for entry in named or (entries if alone else []):
        found = _window_of(entry)
        if found is not None:
            return found
    return None


def list_names(payload: object) -> tuple[str, ...]:
    """Return the names in a server's list of models, in its order."""
    entries = [entry for entries in _lists(payload) for entry in entries]
    names = (entry if isinstance(entry, str) else _name_of(entry) for entry in entries)
    return tuple(dict.fromkeys(name for name in names if name))


def parse_stated_window(refusal: str) -> int | None:
    """Return the window that a server names when it finds a request too long, None when it names none."""
    found = (pattern.search(refusal) for pattern in _STATED_WINDOWS)
    return next((int(match[1]) or None for match in found if match), None)


def _lists(payload: object) -> list[list[Any]]:
    if isinstance(payload, list):  # Together's
        return [payload]
    if not isinstance(payload, dict):
        return []
    # llama.cpp sends both, and only "data" has the sizes
    return [payload[key] for key in ("data", "models") if isinstance(payload.get(key), list)]


def _name_of(entry: object) -> str:
    names = [entry.get(key) for key in ("id", "name", "model")] if isinstance(entry, dict) else []
    return next((name for name in names if isinstance(name, str)), "").removeprefix("models/")


def _window_of(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    for name in _WINDOW_FIELDS:
        for place in (entry, meta if isinstance(meta, dict) else {}):
            value = place.get(name)
            if type(value) is int and 0 < value <= _LARGEST_WINDOW:
                return value
    return None
