"""The toolsets as MCP servers (docs/mcp.md): messages and methods here know nothing of how they travel.

Two eras of the protocol are served side by side. Up to 2025-11-25 a client shakes hands with ``initialize``;
since 2026-07-28 every request says its version itself and nothing is remembered between two of them.
"""
