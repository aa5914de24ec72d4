"""The revisions of the protocol that are served. Pure."""

from __future__ import annotations

# A client opens with ``initialize``; oldest first.
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# Every request carries its version and the client's capabilities.
STATELESS = ("2026-07-28",)
SUPPORTED = tuple(reversed(HANDSHAKE + STATELESS))
# Said by no header and no handshake, as the revisions before 2025-06-18 left it.
ASSUMED = "2025-03-26"
# The one revision in which several messages may come in one array.
BATCHING = "2025-03-26"

# Where a request says its version itself: in its ``_meta``, beside what the client can do.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


def negotiate(requested: str) -> str:
    """The version of a handshake: the one asked for, or the newest, which the client may decline."""
    return requested if requested in HANDSHAKE else HANDSHAKE[-1]
