"""The Python client of a hub (docs/python.md), and its command line."""

from memoryhub.client.calls import (
    ApiError,
    AuthenticationFailed,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    Memory,
    MemoryhubError,
    NotFound,
    PermissionDenied,
    RateLimited,
    ServerError,
    TimelineEntry,
    UnexpectedAnswer,
)
from memoryhub.client.clients import AsyncClient, Client

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
