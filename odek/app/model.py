"""From settings to a model: a server with either API, or a recording that is played back (R-82, R-87)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odek import safefile
from odek.app.config import Config
from odek.app.server_lessons import ServerLessons
from odek.config.options import Source
from odek.config.provider import DEFAULT_PROVIDER, KNOWN, own_servers, providers_with_keys, start_command
from odek.config.settings import Settings
from odek.errors import ConfigError, KeyMissing, OdekError, StateFileError
from odek.host import Host, project_root
from odek.model.types import Model
from odek.state import StateFolder

if TYPE_CHECKING:
    from odek.model.http import HttpModel
    from odek.model.transport import Limits

REPLAY_PREFIX = "replay:"
_ALL_MODELS = "*"
"""the name under which a server's list is remembered, beside what was learned of each model"""
_MOST_REMEMBERED = 500
_MOST_RECORDED_BYTES = 256 << 20
_OWN_SERVER_S = 1800.0  # measured: SmolLM2-135M on one busy core takes 100 s for the first request, of 3 700 tokens


def make_model(settings: Settings, host: Host, *, notify: Callable[[str], None]) -> Model:
    """Return the model that the settings name: a server, or a recording that is played back (R-87)."""
    wanted = settings.model
    model: Model
    recording = replay_path(wanted.base_url)
    if recording is not None:
        from odek.model.replay import ReplayModel

        model = ReplayModel(os.path.join(host.cwd, recording), _read_text)
    else:
        _require_key(settings, host)
        _require_model(settings)
        model = _http_model(settings, host, notify=notify)
    if wanted.record:
        from odek.model.replay import RecordingModel

        return RecordingModel(model, os.path.join(host.cwd, wanted.record), project=project_root(host))
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """What a server says that it has."""

    address: str
    """of its API, without what may be a key in it"""
    names: tuple[str, ...]


def list_models(settings: Settings, host: Host, *, notify: Callable[[str], None]) -> ModelList:
    """Return what the server lists. Raises OdekError, also when a recording is played back."""
    if replay_path(settings.model.base_url) is not None:
        raise ConfigError("a recording has no list of models", hint="name a server with --base-url or --provider")
    _require_key(settings, host)
    client = _http_model(settings, host, notify=notify)
    return ModelList(names=client.models(), address=client.address)


def remember_models(names: tuple[str, ...], settings: Settings, host: Host) -> None:
    """Keep what the server has listed, for the completion of a shell."""
    memory = _memory(settings.model.base_url, _ALL_MODELS, host)
    if memory is not None:
        memory.keep({"models": names[:_MOST_REMEMBERED]})


def remembered_models(settings: Settings, host: Host) -> tuple[str, ...]:
    """Return what the server listed when it was asked last, as far as that is a few days ago; it is not asked."""
    memory = _memory(settings.model.base_url, _ALL_MODELS, host)
    names = memory.recall().get("models") if memory is not None else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def look_for_models(base_url: str, host: Host) -> tuple[str, ...] | None:
    """Return what a server on this machine lists, None when none that has a model answers at `base_url`."""
    from odek.model.http import HttpModel
    from odek.model.provider import RequestOptions

    try:
        client = HttpModel(base_url=base_url, options=RequestOptions(model=""), env=host.env, on_notice=lambda _: None)
        return client.models() or None
    except OdekError:
        return None


class ModelNames:
    """The names that can follow /model or --model, as far as they are known or a server tells them.

    A server is asked once, when its names are wanted, and for some seconds at most; what it does not say is silence.
    """

    def __init__(
        self, config: Callable[[], Config], host: Host, *, ask: Callable[[Settings], tuple[str, ...]] | None = None
    ) -> None:
        """`ask` returns the names of the server in force, which is asked for them unless it is given."""
        self._config = config
        self._ask = ask or (lambda settings: list_models(settings, host, notify=lambda _: None).names)
        self._listed: dict[str, tuple[str, ...]] = {}

    def __call__(self, beginning: str) -> tuple[str, ...]:
        """Return names that may begin with `beginning`; those of another provider once it holds that one's name."""
        config = self._config()
        entries = config.settings.model.providers
        named = [f"{entry.name}/{model.name}" for entry in entries for model in entry.models]
        providers = [entry.name for entry in entries]
        if config.settings.model.chosen_server or config.settings.source_of("base_url") is Source.DEFAULT:
            providers += [*providers_with_keys(config.environment.env), *own_servers()]
        provider, slash, _ = beginning.partition("/")
        if slash and provider in (*providers, *KNOWN):
            named += [f"{provider}/{name}" for name in self._of_server(config, provider)]
        named += map(config.spell_model, self._of_server(config, ""))
        return tuple(dict.fromkeys((*named, *(f"{name}/" for name in providers))))

    def _of_server(self, config: Config, provider: str) -> tuple[str, ...]:
        """Return what the server of `provider` lists, "" for the one in force; nothing if its name leads elsewhere."""
        try:
            settings = (config.with_model(f"{provider}/any/any", origin="/model") if provider else config).settings
            if provider and settings.model.chosen_server != provider:
                return ()
            address = settings.model.base_url
            if address not in self._listed:
                self._listed[address] = ()
                self._listed[address] = self._ask(settings)
        except OdekError:
            return ()
        return self._listed[address]


def replay_path(base_url: str) -> str | None:
    """Return the file of a `replay:FILE` base URL, None for any other."""
    return base_url[len(REPLAY_PREFIX) :] if base_url.startswith(REPLAY_PREFIX) else None


def _http_model(settings: Settings, host: Host, *, notify: Callable[[str], None]) -> HttpModel:
    """Return the client of a server; the model's profile fills in what is not set."""
    from odek.model.http import HttpModel
    from odek.model.profiles import find_profile
    from odek.model.provider import RequestOptions

    wanted = settings.model
    profile, said = find_profile(wanted.model), wanted.model_entry
    options = RequestOptions(
        model=wanted.model,
        temperature=wanted.temperature,
        thinking=wanted.thinking or profile.thinking,
        thinking_budget=wanted.thinking_budget,
        caching=wanted.prompt_caching,
        output_tokens=profile.output_tokens,
        optional=frozenset(key for key in ("temperature", "thinking") if not settings.was_set(key)),
    )
    return HttpModel(
        base_url=wanted.base_url,
        options=options,
        provider=wanted.provider,
        api_key=wanted.api_key,
        window=(said.window if said else None) or profile.window,
        allow_plain_http=settings.may_use_plain_http,
        env=host.env,
        on_notice=notify,
        limits=choose_limits(wanted.base_url, profile.timeout_s),
        memory=_memory(wanted.base_url, wanted.model, host),
        start=start_command(wanted.chosen_server, wanted.base_url),
    )


def _memory(base_url: str, model: str, host: Host) -> ServerLessons | None:
    """Return where what is learned of a server is kept; None: there is no folder of the operator's."""
    try:
        where = host.operator_home
        return ServerLessons(StateFolder(where), base_url=base_url, model=model) if where.folder else None
    except StateFileError:
        return None


def choose_limits(base_url: str, silence_s: float) -> Limits:
    """Return how long the server at `base_url` may take; `silence_s` is what the model's profile allows.

    A server without TLS is one's own: on this machine, or where ~/.odek/config.json says so. Without
    a GPU it reads the first request for minutes, in silence, and would begin again at each retry.
    """
    from odek.model.transport import Limits

    if base_url.lower().startswith("http:"):
        return Limits(idle_s=_OWN_SERVER_S, total_s=_OWN_SERVER_S)
    return Limits(idle_s=silence_s)


def _read_text(path: str) -> str:
    # the operator has named it: links count
    return safefile.read_regular(os.path.realpath(path), limit_bytes=_MOST_RECORDED_BYTES).decode("utf-8")


def _require_key(settings: Settings, host: Host) -> None:
    """A key is needed unless another server is named, which then decides for itself."""
    wanted = settings.model
    if wanted.api_key:
        return
    entry = wanted.entry if wanted.chosen_server else None
    if entry is not None and entry.api_key_variable:
        raise KeyMissing(
            f"the key of {entry.name} is not set: the variable {entry.api_key_variable} (~/.odek/config.json: "
            f"providers.{entry.name}.api_key_variable)",
            hint=f"put {entry.api_key_variable}=… into ~/.odek/secrets.env",
        )
    known = KNOWN.get(wanted.chosen_server or DEFAULT_PROVIDER)
    if known is None or not known.variable or wanted.base_url != known.base_url:
        return
    others = [name for name in providers_with_keys(host.env) if name != wanted.chosen_server]
    found = (
        f"{KNOWN[others[0]].variable} is set: --provider {others[0]}, with --model, uses it; else " if others else ""
    )
    raise KeyMissing(
        f"there is no key for {wanted.base_url}",
        hint=f"{found}set {known.variable} or ODEK_API_KEY, or name another server with --base-url or --provider; "
        "`odek setup` asks for what is needed, `odek demo` works without",
    )


def _require_model(settings: Settings) -> None:
    """A provider has no model of its own but the default one."""
    named = settings.model.chosen_server
    if named and named != DEFAULT_PROVIDER and not settings.was_set("model"):
        raise ConfigError(
            f"no model is named for {named}", hint=f"name one with --model; `odek models --provider {named}` lists them"
        )
