"""Template tags for all pages: icons, badges, dates, bars, scores, links."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.conf import settings
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from memoryhub.access import redaction
from memoryhub.core import dates
from memoryhub.core.text import collapse_whitespace, shorten, without_title_prefix
from memoryhub.core.vocabulary import TrashReason
from memoryhub.models import Memory
from memoryhub.search.hybrid import Hit, default_weights
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.static_files import file_digest

register = template.Library()

_TRASH_REASONS = {
    TrashReason.FORGOTTEN.value: "thrown away",
    TrashReason.EVICTED.value: "evicted: the project was full",
    TrashReason.COMPRESSED.value: "compressed into a summary",
    TrashReason.MERGED.value: "merged into another",
}
_BREAK_POINTS = re.compile(r"(?<=[:_/.@])(?=\w)")  # the empty match between a separator and the next word
_RELATIVE_DAYS = 30  # older datetimes are shown with their date too


@register.filter
def words(text: str) -> list[str]:
    """Split a text into words, for a loop over a few names."""
    return text.split()


@register.simple_tag
def asset(path: str) -> str:
    """Return the URL of a static file with a digest of its content, so that caches never serve an old one."""
    return f"{static(path)}?v={file_digest(path)}" if not settings.DEBUG else static(path)


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """Render an inline SVG; decorative unless it has a label."""
    return _decorative_icon(name) if not label else _render_icon(name, label)


@lru_cache
def _decorative_icon(name: str) -> SafeString:
    return _render_icon(name, "")


def _render_icon(name: str, label: str) -> SafeString:
    return render_to_string("includes/icon.html", {"path": f"includes/icons/{name}.svg", "label": label})


@register.inclusion_tag("includes/nav_link.html", takes_context=True)
def nav_link(context: dict[str, Any], name: str, text: str, also: str = "") -> dict[str, Any]:
    """Render a link of the main navigation; ``aria-current``: "page" on that page, "true" on pages below it.

    ``also`` names another page that counts as below it.
    """
    href = reverse(name)
    path = getattr(context.get("request"), "path", "")
    below = (path.startswith(href) and name != "home") or bool(also and path.startswith(reverse(also)))
    return {"href": href, "text": text, "current": "page" if path == href else "true" if below else ""}


@register.inclusion_tag("includes/levels_shown.html", takes_context=True)
def levels_shown(context: dict[str, Any]) -> dict[str, Any]:
    """Name the levels above public that are switched on."""
    return {"levels": [switch["level"] for switch in context.get("switches") or [] if switch["on"]]}


@register.inclusion_tag("includes/level_badge.html")
def level_badge(level: str, always: bool = False) -> dict[str, Any]:
    """Render a badge for a level above public; for public too with ``always``."""
    return {"level": level, "always": always}


@register.simple_tag
def type_badge(kind: str) -> SafeString:
    """Render a memory type with its colour."""
    dot = '<span class="type"><span class="dot t-{}" aria-hidden="true"></span>{}</span>'
    return format_html(dot, kind, type_name(kind))


@register.filter
def grouped(number: int) -> str:
    """Format a number like ``1,234,567``."""
    return f"{number:,}"


@register.filter
def type_name(kind: str) -> str:
    """Replace underscores by spaces: ``session_summary`` becomes "session summary"."""
    return kind.replace("_", " ")


@register.filter
def trash_reason(reason: str) -> str:
    """Describe why a memory is in the trash."""
    return _TRASH_REASONS.get(reason, reason or "thrown away")


@register.simple_tag
def memory_url(memory: Memory) -> str:
    return reverse("memory", args=[memory.uid])


@register.filter("called")
def display_title(memory: Memory) -> str:
    """Return the title of a memory, redacted if it is secret."""
    return redaction.display_name(memory)


@register.filter("gist")
def preview_text(memory: Memory) -> str:
    """Return the preview under a title: abstract, else content, without Markdown and without the title."""
    if redaction.is_redacted(memory.sensitivity):
        return redaction.REDACTED_NOTICE
    title = collapse_whitespace(to_plain_text(memory.title))
    for text in (memory.abstract, memory.content):
        rest = without_title_prefix(collapse_whitespace(to_plain_text(text[:4000])), title)
        if rest.strip(" .…:-*#"):
            return shorten(rest.lstrip(" .…:-"), settings.MEMORYHUB.preview_chars)
    return ""


@register.filter
def breakable(name: str) -> SafeString:
    """Allow line breaks between the parts of a name: ``system:``, ``create_``, ``token``."""
    return format_html_join(SafeString("<wbr>"), "{}", ((piece,) for piece in _BREAK_POINTS.split(name)))


@register.filter
def expires_soon(memory: Memory) -> bool:
    """Whether a memory expires within :data:`EXPIRING_DAYS`."""
    end = memory.expires_at
    return end is not None and end <= timezone.now() + timedelta(days=EXPIRING_DAYS)


@register.simple_tag
def moment(at: datetime, dated: bool = True) -> SafeString:
    """Render a relative time with the exact time in the title; ``dated``: with the date if it is far away."""
    here, now = timezone.localtime(at), timezone.now()
    ago = "" if abs((now - at).total_seconds()) >= _RELATIVE_DAYS * 86_400 else " data-ago"
    shown: SafeString | str = _relative_time(at, now)
    if dated and not ago:
        shown = format_html("{} · {}", _mark_language(dates.format_day(here)), shown)
    marked = format_html('<time datetime="{}" title="{}"', _to_iso(at), dates.format_exact(here))
    return format_html("{}{}>{}</time>", marked, ago, shown)


@register.simple_tag
def when(at: date, how: str = "day") -> SafeString:
    """Render a date or datetime in the reader's zone and language; ``how`` is a format of ``core.dates``."""
    if not isinstance(at, datetime):
        return format_html(
            '<time datetime="{}">{}</time>', at.isoformat(), _mark_language(dates.format_date(at, how))
        )
    here = timezone.localtime(at)
    drawn = '<time datetime="{}" title="{}">{}</time>'
    return format_html(
        drawn, _to_iso(at), dates.format_exact(here), _mark_language(dates.format_date(here, how))
    )


@register.filter("told")
def format_date(at: date, how: str) -> str:
    """Return the text of :func:`when` without markup, for a title or a label."""
    return dates.format_date(timezone.localtime(at) if isinstance(at, datetime) else at, how)


@register.filter("exactly")
def format_exact_time(at: datetime) -> str:
    """Format a datetime to the second, for a title."""
    return dates.format_exact(timezone.localtime(at))


def _mark_language(words: str) -> SafeString | str:
    """Mark the language of a text that is not English, for screen readers."""
    language = dates.active_language()
    is_foreign = bool(language) and not language.startswith("en")
    return format_html('<span lang="{}">{}</span>', language, words) if is_foreign else words


def _to_iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _relative_time(at: datetime, now: datetime) -> str:
    seconds = (now - at).total_seconds()
    if abs(seconds) < 60:
        return "just now" if seconds >= 0 else "in a moment"
    return f"{timesince(at, now, depth=1)} ago" if seconds > 0 else f"in {timesince(now, at, depth=1)}"


@register.inclusion_tag("includes/share_bar.html")
def share_bar(value: float, label: str = "") -> dict[str, Any]:
    """Render a number from 0 to 1 as a bar and as text."""
    return {"percent": round(value * 100, 1), "value": f"{value:.2f}", "label": label}


@register.inclusion_tag("includes/score.html")
def score(hit: Hit) -> dict[str, Any]:
    """Render the score as a bar of its four weighted parts, and each part as numbers."""
    weights = default_weights()
    parts: list[dict[str, Any]] = []
    at = 0.0
    for name in ("match", "recency", "importance", "trust"):
        value, weight = getattr(hit.components, name), getattr(weights, name)
        width = round(value * weight * 100, 2)
        shown = {"value": f"{value:.2f}", "weight": f"{weight:.2f}", "points": f"{value * weight:.2f}"}
        parts.append({"name": name, "x": round(at, 2), "width": width, **shown})
        at += width
    return {"total": f"{hit.score:.2f}", "parts": parts}


@register.simple_tag
def listing(**filters: str) -> str:
    """Return the URL of the memory list with these filters, empty ones omitted."""
    return f"{reverse('memories')}?{urlencode({name: value for name, value in filters.items() if value})}"
