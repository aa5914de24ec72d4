"""Template tags for all pages and lists: icons, badges, dates, scores, links, bulk actions, the sidebar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.conf import settings
from django.forms import BaseForm
from django.template import Context
from django.template.defaultfilters import floatformat
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.access import policy
from memoryhub.access.policy import LEVELS
from memoryhub.accounts.clearance import full_clearance
from memoryhub.accounts.permissions import ERASE_MEMORY
from memoryhub.core.dates import format_iso
from memoryhub.core.text import collapse_whitespace, readable, shorten, without_title_prefix
from memoryhub.core.vocabulary import SCOPES, TYPES, TrashReason
from memoryhub.injection.candidates import Candidate
from memoryhub.memories.bulk_actions import MAX_MEMORIES
from memoryhub.models import Fact, Memory
from memoryhub.search.hybrid import Hit
from memoryhub.search.lexical import default_weights
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.web import agents
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.navigation import badge_text, navigation_links
from memoryhub.web.base.requests import current_project, page_url
from memoryhub.web.base.static_files import file_digest, render_bundle_tags
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.filters import filter_url
from memoryhub.web.saved_searches import describe_filters, list_address_of, saved_items

register = template.Library()

_PLURAL_ENDING = re.compile(r"(?:ies|s)\b")
_TRASH_REASONS = {
    TrashReason.FORGOTTEN.value: "deleted",
    TrashReason.EVICTED.value: "unused, or over the cap",
    TrashReason.COMPRESSED.value: "compressed into a summary",
    TrashReason.MERGED.value: "merged into another memory",
    TrashReason.UNDONE.value: "removed with its backfill",
}
_CODE = re.compile(r"`+([^`]+)`+")
# The end of a paragraph without a punctuation mark, which would run into the next one in a single line.
_OPEN_PARAGRAPH_END = re.compile(r"(?<=[\w'\x22”’)\]])[ \t]*\n[ \t]*\n(?=\s*[\w`*\[(])")
_BREAK_POINTS = re.compile(r"(?<=[:_/.@])(?=\w)")  # the empty match between a separator and the next word
_MINUTE = "%Y-%m-%d %H:%M"
_ISO_FORMATS = {"month": "%Y-%m", "year": "%Y", "clock": "%H:%M", "second": "%Y-%m-%d %H:%M:%S"}
_ISO_FORMATS |= dict.fromkeys(("minute", "ago", "dated"), _MINUTE)


@register.simple_tag
def asset(path: str) -> str:
    """Return the URL of a static file with a digest of its content, so that caches never serve an old one."""
    return f"{static(path)}?v={file_digest(path)}" if not settings.DEBUG else static(path)


register.simple_tag(render_bundle_tags, name="assets")


@register.simple_tag
@lru_cache
def icon(name: str, label: str = "") -> SafeString:
    """Render an inline SVG; decorative unless it has a label."""
    return render_to_string("includes/icon.html", {"path": f"includes/icons/{name}.svg", "label": label})


@register.inclusion_tag("includes/level_badge.html")
def level_badge(level: str, always: bool = False) -> dict[str, Any]:
    """Render a badge for a level above public; for public too with ``always``."""
    return {"level": level, "always": always}


@register.simple_tag
def type_badge(kind: str) -> SafeString:
    """Render a memory type with its colour."""
    dot = '<span class="type"><span class="dot t-{}" aria-hidden="true"></span>{}</span>'
    return format_html(dot, kind, readable(kind))


@register.filter
def grouped(number: int) -> str:
    """Format a number like ``1,234,567``."""
    return f"{number:,}"


register.filter("readable", readable)


@register.filter
def for_count(words: str, count: int) -> str:
    """Return a label of an import, such as ``memories created``, in the singular if the count is 1."""
    return words if count != 1 else _PLURAL_ENDING.sub(lambda end: "y" if end[0] == "ies" else "", words, 1)


@register.filter
def trash_reason(reason: str) -> str:
    """Describe why a memory is in the trash."""
    return _TRASH_REASONS.get(reason, reason or "deleted")


register.filter("display_name", policy.display_name)


@register.filter
def preview_text(memory: Memory) -> str:
    """Return the preview under a title: abstract, else content, without Markdown and without the title."""
    if policy.is_redacted(memory.sensitivity):
        return policy.REDACTED_NOTICE
    title = collapse_whitespace(to_plain_text(memory.title))
    for text in (memory.abstract, memory.content):
        marked = _OPEN_PARAGRAPH_END.sub(" ·\n\n", text[:4000])
        rest = without_title_prefix(collapse_whitespace(to_plain_text(marked)), title)
        if rest.strip(" .…:-*#·"):
            return shorten(rest.lstrip(" .…:-·"), settings.MEMORYHUB.preview_chars)
    return ""


@register.filter
def breakable(name: str) -> SafeString:
    """Allow line breaks between the parts of a name: ``system:``, ``create_``, ``token``."""
    return format_html_join(SafeString("<wbr>"), "{}", ((piece,) for piece in _BREAK_POINTS.split(name)))


@register.filter
def in_code(text: str) -> SafeString:
    """Set what is between backquotes, single or double, in the font of code."""
    return SafeString(_CODE.sub(r"<code>\1</code>", escape(text)))


@register.filter
def expires_soon(memory: Memory) -> bool:
    """Whether a memory expires within :data:`EXPIRING_DAYS`."""
    return memory.is_expired(timezone.now() + timedelta(days=EXPIRING_DAYS))


@register.simple_tag
def when(at: date, how: str = "day") -> SafeString:
    """Render a date or datetime in ISO format; ``dates.js`` shows it in the viewer's language.

    ``how``: ``day``, ``weekday``, ``whole``, ``short``, ``month``, ``year``; for datetimes also ``minute``,
    ``second``, ``clock``, ``ago`` (relative) and ``dated`` (relative, with the date if it is far away).
    """
    iso_format = _ISO_FORMATS.get(how, "%Y-%m-%d")
    if not isinstance(at, datetime):
        shown = at.strftime(iso_format)
        return format_html('<time datetime="{}" data-format="{}">{}</time>', at.isoformat(), how, shown)
    here = timezone.localtime(at)
    stamp, exact_text = format_iso(at.replace(microsecond=0)), f"{here:%Y-%m-%d %H:%M:%S %Z}"
    element = '<time datetime="{}" title="{}" data-format="{}">{}</time>'
    return format_html(element, stamp, exact_text, how, here.strftime(iso_format))


@register.simple_tag
def moment(at: datetime) -> SafeString:
    return when(at, "dated")


@register.simple_tag(takes_context=True)
def actor(context: Context, name: str, *, link: bool = False) -> SafeString:
    """Render who did something: the name of the agent with its owner, or of the person."""
    return agents.render_actor(context.get("request"), name, link=link)


@register.simple_tag
def exact(at: datetime) -> SafeString:
    """Render a relative time followed by the exact time."""
    return format_html('{} <span class="exact">{}</span>', when(at, "ago"), when(at, "second"))


@register.inclusion_tag("includes/share_bar.html")
def share_bar(value: float, label: str = "", *, as_percent: bool = False) -> dict[str, Any]:
    """Render a number from 0 to 1 as a bar and as text."""
    text = f"{value:.0%}" if as_percent else floatformat(value, 2)
    return {"percent": round(value * 100, 1), "value": text, "label": label}


@register.inclusion_tag("includes/score.html")
def score(hit: Hit | Candidate) -> dict[str, Any]:
    """Render the score as a bar of its four weighted parts, and each part as numbers."""
    weights = default_weights()
    parts: list[dict[str, Any]] = []
    at = 0.0
    for name in ("match", "recency", "importance", "trust"):
        value, weight = getattr(hit.components, name), getattr(weights, name)
        width = round(value * weight * 100, 2)
        numbers = {"value": value, "weight": weight, "points": value * weight}
        shown = {key: f"{number:.2f}" for key, number in numbers.items()}
        parts.append({"name": name, "x": round(at, 2), "width": width, **shown})
        at += width
    memory = hit.memory
    # Search follows the documented sum alone; only the order of an injection uses the factor.
    factor = f"{hit.factor:.3f}" if isinstance(hit, Candidate) and hit.factor != 1 else ""
    return {"total": f"{hit.score:.2f}", "parts": parts, "memory": memory, "factor": factor}


@register.simple_tag
def listing(**filters: str) -> str:
    """Return the URL of the memory list with these filters, empty ones omitted."""
    return page_url("memories", **filters)


@register.simple_tag(takes_context=True)
def may_use_bulk_actions(context: dict[str, Any]) -> bool:
    """Whether this person may do any bulk action: then each row has a checkbox."""
    return any(bulk_actions.allowed_actions(context["request"]).values())


@register.filter
def checkbox_value(row: Memory | Fact) -> str:
    """Return the value of a row's checkbox: the id, and the version that the page shows."""
    return f"{row.uid} {row.updated_at.isoformat()}"


@register.inclusion_tag("includes/bulk_bar.html", takes_context=True)
def bulk_bar(
    context: dict[str, Any],
    total: int = 0,
    ended: bool = False,
    demote: str = "demote",
    outdated: bool = False,
) -> dict[str, Any]:
    """Render the bar.

    ``total``: the number of matches on all pages; 0 if the list cannot be selected as a whole. ``ended``: the
    list is of trashed or expired memories. ``demote``: the action of that button. ``outdated``: the list is
    of memories that may be outdated.
    """
    request = context["request"]
    offered = full_clearance(request).levels_in_any_project()
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "perms": context.get("perms"),
        "may": bulk_actions.allowed_actions(request),
        "ended": ended,
        "demote": demote,
        "outdated": outdated,
        "may_erase": ended and request.user.has_perm(ERASE_MEMORY),
        "total": total,
        "most": MAX_MEMORIES,
        "list": filter_url(request, as_of=timezone.now().isoformat()),
        "levels": [level for level in LEVELS if level in offered],
        "types": [(kind, readable(kind)) for kind in TYPES],
        "scopes": SCOPES,
    }


@register.simple_tag(takes_context=True)
def error_mark(context: template.Context) -> str:
    """Return "Error: " if a submitted form of the page has errors, else nothing.

    A page that reports errors in another way fills the block ``refused`` itself.
    """
    values: Iterable[object] = context.flatten().values()
    has_errors = any(isinstance(one, BaseForm) and one.is_bound and bool(one.errors) for one in values)
    return "Error: " if has_errors else ""


@register.inclusion_tag("includes/sidebar.html", takes_context=True)
def sidebar(context: dict[str, Any]) -> dict[str, Any]:
    """Render the main navigation, with the number of items to review and the saved searches."""
    request = context["request"]
    sections = navigation_links(request.user, request.path)
    may_review = any(section.name == "review" for section in sections)
    is_memories = any(section.name == "memories" and section.current == "page" for section in sections)
    return {
        "sections": sections,
        "waiting": badge_text(request) if may_review else "",
        "project": current_project(request),
        "saved": saved_items(request.user, "memories") if is_memories else [],
        "request": request,
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("saved/page.html#here", takes_context=True)
def saved_here(context: dict[str, Any]) -> dict[str, Any]:
    """Render the menu; empty on a page that cannot be saved. The page needs ``{% assets "lists" %}``."""
    return {"place": list_address_of(context["request"])}


@register.simple_tag(takes_context=True)
def filters_in_words(context: Context) -> str:
    """Describe the filters of this list, or the project of another page; empty without any."""
    return describe_filters(context["request"]) if "request" in context else ""
