"""The content security policy of an answer, as a browser reads it: directives in no order."""

from __future__ import annotations

from django.http import HttpResponseBase


def parse_policy(response: HttpResponseBase) -> dict[str, list[str]]:
    """The sources each directive allows, by the directive's name."""
    parts = (part.split() for part in response["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in filter(None, parts)}
