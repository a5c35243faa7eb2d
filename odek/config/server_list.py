"""The kind of the setting `mcp_servers`. What it means is loaded when a file has it: most runs have no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.config.values import Kind


class ServerList(Kind[tuple[Any, ...]]):
    """MCP servers by name, which only a file can give; the values are `mcp_servers.McpServer`."""

    name = "object"

    @property
    def schema(self) -> Mapping[str, object]:  # type: ignore[override]
        from odek.config.mcp_servers import servers_schema

        return servers_schema()

    def from_file(self, raw: object, origin: str, env: Mapping[str, str] | None) -> tuple[Any, ...] | None:
        """Return the entries of a file; `env` as for `parse_servers`."""
        if raw is None:
            return None
        from odek.config.mcp_servers import parse_servers

        return parse_servers(raw, origin, env=env)

    def shown(self, value: object) -> object:
        return [server.name for server in value] if isinstance(value, tuple) else value

    def initial(self, default: object) -> object | None:  # noqa: ARG002 - an object, not the list of names
        return {}
