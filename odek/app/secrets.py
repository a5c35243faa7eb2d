"""What odek knows to be secret in a session: the values that `redact` looks for (runtime contract 4.4)."""

from __future__ import annotations

from odek.config.settings import OPTIONS, Settings
from odek.config.sources import read_secrets
from odek.config.values import variables_in
from odek.host import Host
from odek.redact import secrets_in
from odek.secret_names import is_secret_name

# Settings may stand in secrets.env as well; the name of a model there is no secret.
_PLAIN = frozenset(
    name for option in OPTIONS if not option.kind.is_secret for name in (*option.env, *option.fallback_env)
)


def collect_secrets(settings: Settings, host: Host) -> tuple[str, ...]:
    """Return the API key, what the environment and sandbox_env call a secret, and all of secrets.env.

    Raises ConfigError when secrets.env cannot be read or trusted.
    """
    sandbox_env = dict(settings.sandbox.env)
    named = [
        variable
        for name in settings.sandbox.raw_env
        if is_secret_name(name)
        for variable in variables_in(sandbox_env[name])
    ]
    return (
        settings.model.api_key,
        *secrets_in(host.env),
        *secrets_in(sandbox_env),
        *(host.env[variable] for variable in named if variable in host.env),
        *_file_values(host),
    )


def _file_values(host: Host) -> tuple[str, ...]:
    found = read_secrets(host.operator_home).values
    return tuple(value for name, value in found.items() if name not in _PLAIN)
