"""Parse the content security policy of a response."""

from __future__ import annotations

from django.http import HttpResponseBase


def parse_policy(response: HttpResponseBase) -> dict[str, list[str]]:
    """Return the allowed sources by directive."""
    parts = (part.split() for part in response["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in filter(None, parts)}
