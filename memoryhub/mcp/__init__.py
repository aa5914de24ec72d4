"""The toolsets as MCP servers (docs/tools.md). ``server`` and ``jsonrpc`` are independent of the transport.

Two generations of the protocol are served. Up to version 2025-11-25, a client starts with ``initialize``.
Since 2026-07-28, every request carries its version and the server keeps no state between requests.
"""
