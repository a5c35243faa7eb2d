"""odek setup: which servers can be had here, and the two files for the one that is chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from odek import strict_json
from odek.app.config import Config
from odek.config.layers import Layer, Value
from odek.config.options import GLOBAL_FILE, Source
from odek.config.provider import KNOWN
from odek.config.provider_entries import NAME, ProviderEntry
from odek.config.server import written_name
from odek.errors import ConfigError
from odek.patterns import pattern
from odek.text import plural, visible

# where servers of one's own usually listen, besides those that have a name in KNOWN
_USUAL_PLACES = (
    ("jan", "http://127.0.0.1:1337/v1"),
    ("litellm", "http://127.0.0.1:4000/v1"),
    ("gpt4all", "http://127.0.0.1:4891/v1"),
    ("textgen", "http://127.0.0.1:5000/v1"),
    ("koboldcpp", "http://127.0.0.1:5001/v1"),
    ("docker-model-runner", "http://127.0.0.1:12434/engines/v1"),
    ("sglang", "http://127.0.0.1:30000/v1"),
)
LOCAL_SERVERS = (
    *((name, known.base_url) for name, known in KNOWN.items() if not known.variable),
    *_USUAL_PLACES,
)
"""name and address of each"""
_NOT_FOR_CHAT = pattern(
    r"embed|whisper|tts|dall-e|moderation|rerank|transcri|realtime|-audio|image|speech|ocr|guard|sora|veo|imagen", re.I
)
_SHOWN_KEY_CHARS = 4
_REPLACED = ("base_url", "api_key")
"""settings of another server, which would lead the model or its key elsewhere"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A server that can be chosen."""

    name: str
    base_url: str
    why: str
    """what speaks for it, for people"""
    variable: str = ""
    """where its key is, or belongs; "" for one without"""
    has_key: bool = False
    """whether that variable is set"""
    models: tuple[str, ...] = ()
    """as far as they were asked for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is to be written."""

    server: Found
    model: str
    key: str = ""
    """to be kept in secrets.env; "": it is in the environment, or there is none"""


def find_servers(
    env: Mapping[str, str],
    look: Callable[[str], tuple[str, ...] | None],
    *,
    places: Sequence[tuple[str, str]] = LOCAL_SERVERS,
) -> tuple[Found, ...]:
    """Return what answers on this machine, then the providers whose key is set.

    `look` returns the models of the server at an address, None when none answers there.
    """
    found = []
    for name, base_url in places:
        models = look(base_url)
        if models is not None:
            why = f"answers at {base_url}, has {plural(len(models), 'model')}"
            found.append(Found(name=name, base_url=base_url, why=why, models=models))
    for name, known in KNOWN.items():
        if known.variable and env.get(known.variable):
            why, variable = f"{known.variable} is set", known.variable
            found.append(Found(name=name, base_url=known.base_url, why=why, variable=variable, has_key=True))
    return tuple(found)


def known_server(name: str, env: Mapping[str, str]) -> Found:
    """Return a provider that odek knows."""
    known = KNOWN[name]
    return Found(
        name=name,
        base_url=known.base_url,
        why="",
        variable=known.variable,
        has_key=bool(known.variable and env.get(known.variable)),
    )


def own_server(base_url: str, env: Mapping[str, str]) -> Found:
    """Return the server at an address, with a name made of its host. Raises ConfigError for what is not an address."""
    from odek.model.endpoint import parse_base_url

    parse_base_url(base_url, allow_plain_http=True)
    host = urlsplit(base_url).hostname or ""
    labels = [label for label in host.split(".") if label not in ("www", "api", "llm", "ai")]
    name = re.sub(r"[^A-Za-z0-9_-]", "-", "own" if re.fullmatch(r"[0-9.:]+", host) else labels[0] if labels else host)
    if not NAME.fullmatch(name) or name in KNOWN:
        name = "own"
    variable = re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_MODEL_KEY"
    return Found(name=name, base_url=base_url, why="", variable=variable, has_key=bool(env.get(variable)))


def for_chat_first(models: Sequence[str]) -> tuple[str, ...]:
    """Return `models` with those at the end that are hardly meant for a conversation."""
    return tuple(sorted(models, key=lambda name: bool(_NOT_FOR_CHAT.search(name))))


def with_choice(config: Config, choice: Choice, env: Mapping[str, str]) -> Config:
    """Return the settings that would be in force, for a trial before anything is written."""
    server, origin = choice.server, "odek setup"
    entry = ProviderEntry(name=server.name, base_url=server.base_url)
    said: dict[str, object] = {"provider": server.name, "base_url": server.base_url, "model": choice.model}
    said["providers"] = (*(other for other in config.settings.model.providers if other.name != server.name), entry)
    said["api_key"] = choice.key or (env.get(server.variable, "") if server.variable else "")
    values = {key: Value(value=value, origin=origin) for key, value in said.items()}
    return config.with_layer(Layer(source=Source.GLOBAL, origin=origin, values=values))


def new_config(existing: bytes | None, choice: Choice) -> tuple[bytes, tuple[str, ...]]:
    """Return the operator's file with the choice in it, and which of its settings that takes out.

    Raises ConfigError when the file that is there cannot be read.
    """
    document = _document(existing)
    removed = tuple(key for key in _REPLACED if key in document)
    kept = {key: value for key, value in document.items() if key not in (*_REPLACED, "provider", "model", "providers")}
    server = choice.server
    providers = {} if document.get("providers") is None else document["providers"]
    if not isinstance(providers, dict):
        raise ConfigError(f"{GLOBAL_FILE}: providers must be an object", hint="correct it, then run `odek setup` again")
    if server.name not in KNOWN or KNOWN[server.name].base_url != server.base_url:
        entry = {"base_url": server.base_url}
        if choice.key or server.has_key:
            entry["api_key_variable"] = server.variable
        providers = {**providers, server.name: entry}
    written: dict[str, object] = {"provider": server.name, "model": written_name(choice.model, server.name)}
    written |= {"providers": providers} if providers else {}
    return (json.dumps({**written, **kept}, indent=2, ensure_ascii=False) + "\n").encode(), removed


def with_sandbox_image(existing: bytes | None, image: str) -> tuple[bytes, str]:
    """Return the operator's file with this image for the sandbox, and the image that it named so far, "" for none.

    Raises ConfigError when the file that is there cannot be read.
    """
    document = _document(existing)
    before = document.get("sandbox_image")
    document["sandbox_image"] = image
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return text.encode(), "" if before is None else str(before)


def new_secrets(existing: bytes | None, name: str, value: str) -> bytes:
    """Return secrets.env with this variable; every other line stays as it is."""
    lines = (existing or b"").decode("utf-8-sig", errors="surrogateescape").split("\n")
    assigns = re.compile(rf"\s*(?:export[ \t]+)?{re.escape(name)}[ \t]*=")
    kept = [line for line in lines if not assigns.match(line)]
    while kept and not kept[-1].strip():
        kept.pop()
    return "\n".join([*kept, f"{name}={value}", ""]).encode("utf-8", errors="surrogateescape")


def shown_key(key: str) -> str:
    """Return a key as it may be shown: its last characters, if it is long enough not to be told by them."""
    return f"…{visible(key[-_SHOWN_KEY_CHARS:])}" if len(key) >= 4 * _SHOWN_KEY_CHARS else "…"


def checked_key(text: str) -> str:
    """Return a key that was typed or pasted. Raises ConfigError, without showing it."""
    key = text.strip().strip("'\"")
    if not re.fullmatch("[!-~]*", key):
        raise ConfigError("that holds blanks or characters that no key has", hint="copy the key again, on one line")
    return key


def _document(existing: bytes | None) -> dict[str, object]:
    if existing is None or not existing.strip():
        return {}
    try:
        document = strict_json.parse(existing)
    except strict_json.JsonError as error:
        raise ConfigError(f"cannot read {GLOBAL_FILE}: {error}", hint=error.hint or f"correct {GLOBAL_FILE}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{GLOBAL_FILE} does not hold an object", hint=f"correct {GLOBAL_FILE}, or remove it")
    return document
