"""What the settings say of tools, by name; the tools themselves take a while to load, and most settings name none."""

from __future__ import annotations

from odek.config.settings import Settings
from odek.errors import ConfigError
from odek.text import truncate, visible

REMOVED = ("head_tail", "checksum", "json_query")
"""tools that odek once had; a setting that names one gets a warning"""
_NEAR = 0.75


def validate_tool_names(settings: Settings) -> tuple[str, ...]:
    """Return warnings about the tools that the settings name. Pure.

    Raises ConfigError for a name that is nearly that of a tool: a policy that the user counts on would not hold (F-2).
    """
    if not (settings.tools_enabled or settings.tools_disabled):
        return ()
    from odek.app.tools import TOOLS
    from odek.tools.delegate import DELEGATE_TASKS

    known = [tool.name for tool in (*TOOLS, DELEGATE_TASKS)]
    servers = {server.name for server in settings.mcp_servers}
    warnings: list[str] = []
    for key, names in (("tools.enabled", settings.tools_enabled or ()), ("tools.disabled", settings.tools_disabled)):
        origin = settings.origin_of(key)
        for name in names:
            if name in known or name.partition("__")[0] in servers:  # the names of its tools are known when it runs
                continue
            if name in REMOVED:
                warnings.append(f'the tool "{name}" was removed, the shell does its work ({origin})')
                continue
            import difflib  # needed only here

            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_NEAR)
            unknown = f'there is no tool "{visible(truncate(name, 60))}" ({origin})'
            if near:
                raise ConfigError(unknown, hint=f'did you mean "{near[0]}"?')
            warnings.append(unknown)
    return tuple(warnings)
