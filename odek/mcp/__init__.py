"""The Model Context Protocol: what both sides of a connection know. The server is the room mcp_server."""
