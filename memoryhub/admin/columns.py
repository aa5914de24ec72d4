"""Cells of the lists, as safe HTML."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub import dates
from memoryhub.sensitivity import LEVELS

EMPTY = "–"


def level_badge(level: str) -> SafeString:
    """A level, coloured; one that nobody knows is marked as such."""
    kind = level if level in LEVELS else "unknown"
    return format_html('<span class="hub-level hub-level-{}">{}</span>', kind, level)


def link(address: str, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, text)


def moment(at: datetime | None) -> str:
    """A moment that stays on one line."""
    if at is None:
        return EMPTY
    local = timezone.localtime(at)
    return format_html(
        '<time class="hub-moment" datetime="{}">{}</time>',
        local.isoformat(),
        dates.told(local, "minute"),
    )


def pretty(value: Any) -> SafeString:
    """JSON, readable."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="hub-json">{}</pre>', text)
