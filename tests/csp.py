"""Parse the content security policy of a response."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.http.response import ResponseHeaders


def parse_policy(headers: HttpResponseBase | ResponseHeaders) -> dict[str, list[str]]:
    """Return the allowed sources by directive."""
    parts = (part.split() for part in headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in filter(None, parts)}
