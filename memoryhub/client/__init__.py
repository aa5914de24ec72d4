"""The Python client of a hub (docs/python.md), and its command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memoryhub.client.calls import Memory, TimelineEntry
    from memoryhub.client.clients import AsyncClient, Client
    from memoryhub.client.errors import (
        ApiError,
        AuthenticationFailed,
        ConfigurationError,
        Conflict,
        ConnectionFailed,
        InvalidRequest,
        MemoryhubError,
        NotFound,
        PermissionDenied,
        RateLimited,
        ServerError,
        UnexpectedAnswer,
    )

__all__ = [
    "ApiError",
    "AsyncClient",
    "AuthenticationFailed",
    "Client",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "InvalidRequest",
    "Memory",
    "MemoryhubError",
    "NotFound",
    "PermissionDenied",
    "RateLimited",
    "ServerError",
    "TimelineEntry",
    "UnexpectedAnswer",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: management commands import this package, but not httpx."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (import_module(f"memoryhub.client.{module}") for module in ("errors", "calls", "clients"))
    return next(vars(module)[name] for module in modules if name in vars(module))
