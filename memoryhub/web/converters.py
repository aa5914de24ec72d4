"""Session ids in addresses: agents choose them, so they may hold slashes, line breaks or dots alone."""

from __future__ import annotations

import re

# Browsers resolve a segment of one or two dots before they ask; a tilde in front keeps it whole.
_DOTS = re.compile(r"(?<![^/])(~*\.{1,2})(?![^/])")
_KEPT = re.compile(r"(?<![^/])~(~*\.{1,2})(?![^/])")


class SessionIdConverter:
    """Any text but the empty one."""

    regex = r"(?s:.+)"

    def to_python(self, value: str) -> str:
        return _KEPT.sub(r"\1", value)

    def to_url(self, value: str) -> str:
        return _DOTS.sub(r"~\1", value)
