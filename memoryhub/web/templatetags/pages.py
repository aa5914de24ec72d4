"""What the content pages show in the same way: exact moments, sessions, details of the journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from memoryhub.web.templatetags.hub import moment

register = template.Library()

_HASH_CHARS = 12


@register.simple_tag
def exact(at: datetime) -> SafeString:
    """A moment twice: how long ago, and to the second."""
    here = timezone.localtime(at)
    shown = f"{here:%Y-%m-%d %H:%M:%S} {here.tzname()}"
    return format_html('{} <span class="exact">{}</span>', moment(at), shown)


@register.simple_tag
def session_url(session_id: str, project: str) -> str:
    """The address of one session's page."""
    return f"{reverse('session', args=[session_id])}?{urlencode({'project': project})}"


@register.filter
def detail_items(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The details of a journal row, as names and texts; the hash last and short."""
    hashes = {"content_hash"}
    items = [(name.replace("_", " "), _plain(value)) for name, value in detail.items() if name not in hashes]
    return items + [("SHA-256", f"{str(detail[name])[:_HASH_CHARS]}…") for name in hashes & detail.keys()]


@register.filter
def field_value(value: Any) -> str:
    """A plain value of a field as people read it."""
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    return field_value(value)
