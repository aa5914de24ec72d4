"""Template tags for facts, sessions, events and the journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from memoryhub.access import redaction
from memoryhub.core import dates
from memoryhub.facts.graph_index import node_key
from memoryhub.models import Event, Fact
from memoryhub.stats.timeline import TimelineEntry
from memoryhub.web.templatetags.hub import moment

register = template.Library()

_HASH_CHARS = 12
_EVENT_NAMES = {
    "prompt:submit": "Prompt",
    "session:start": "Session start",
    "session:end": "Session end",
    "session:checkpoint": "Checkpoint",
}
# The parts of memorability, with the setting of their weight.
_MEMORABILITY_WEIGHTS = {
    "substance": "substance_weight",
    "salience": "salience_weight",
    "distinctiveness": "distinctiveness_weight",
    "type_weight": "type_weight",
}
BELOW_THRESHOLD = "below the gate"  # the reason given by capture
_ROUNDING_ERROR = 0.01  # parts are stored with three decimals


@register.simple_tag
def exact(at: datetime) -> SafeString:
    """Render a relative time followed by the exact time."""
    shown = dates.format_exact(timezone.localtime(at))
    return format_html('{} <span class="exact">{}</span>', moment(at, dated=False), shown)


@register.filter("yet_to_begin")
def starts_later(fact: Fact) -> bool:
    """Whether a fact becomes valid in the future."""
    return fact.valid_from is not None and fact.valid_from > timezone.now()


@register.filter("held_within_a_day")
def lasted_one_day(fact: Fact) -> bool:
    """Whether a fact began and ended on the same day in the reader's time zone."""
    ends = [timezone.localtime(at).date() for at in (fact.valid_from, fact.valid_until) if at]
    return len(ends) == 2 and ends[0] == ends[1]


@register.simple_tag
def session_url(session_id: str, project: str) -> str:
    return f"{reverse('session', args=[session_id])}?{urlencode({'project': project})}"


@register.simple_tag
def entry_url(entry: TimelineEntry) -> str:
    """Return the URL of a timeline entry on the page of its session; empty without a session."""
    row: Any = entry.row
    where = row if entry.kind in ("memory", "session_start", "session_end") else row.session
    if where is None or not where.session_id:
        return ""
    return f"{session_url(where.session_id, where.project)}&entry={entry.anchor}#{entry.anchor}"


@register.simple_tag
def thing_url(name: str) -> str:
    """Return the URL of the graph with this subject or object opened."""
    return f"{reverse('facts-graph')}?{urlencode({'node': node_key(name)})}"


@register.filter
def event_name(event: Event) -> str:
    """Return the tool that was called, or a label of the event."""
    return event.tool_name or _EVENT_NAMES.get(event.event, event.event)


@register.filter("preview_told")
def event_preview(event: Event) -> str:
    """Return the preview of an event, redacted if it became a secret memory."""
    memory = event.memory
    return (
        redaction.REDACTED_NOTICE if memory and redaction.is_redacted(memory.sensitivity) else event.preview
    )


@register.filter
def detail_items(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Format the details of a journal entry: the hash last and short, empty lists omitted."""
    hashes = {"content_hash"}
    shown = {name: value for name, value in detail.items() if name not in hashes and value != []}
    if shown.get("level") == "":  # of a membership: as on the person's page
        shown["level"] = "as elsewhere"
    items = [(name.replace("_", " "), _value_to_text(value)) for name, value in shown.items()]
    return items + [("SHA-256", f"{str(detail[name])[:_HASH_CHARS]}…") for name in hashes & detail.keys()]


@register.filter
def field_value(value: Any) -> str:
    """Format the value of a field."""
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value_to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        if any(isinstance(one, list) for one in value):  # one list per memory is too much for a line
            return str(len(value))
        return ", ".join(map(_value_to_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value_to_text(one)}" for name, one in value.items())
    return field_value(value)


@register.inclusion_tag("timeline/memorability.html")
def memorability(event: Event) -> dict[str, Any]:
    """Render the four parts of an event's memorability as bars, and their total against the threshold.

    Weights and threshold are the current ones; ``changed`` is set if they clearly differed at that time.
    """
    config = settings.MEMORYHUB
    threshold = config.memorability_threshold
    context = {"gate": f"{threshold:.2f}", "gate_percent": round(100 * threshold, 1)}
    context["reason"] = "" if event.memory else event.skip_reason
    if event.memorability is None:
        return context
    stored = event.memorability_parts if isinstance(event.memorability_parts, dict) else {}
    parts: list[dict[str, Any]] = []
    whole = 0.0
    for name, weight_of in _MEMORABILITY_WEIGHTS.items():
        value, weight = stored.get(name), getattr(config, weight_of)
        if isinstance(value, int | float):
            whole += value * weight
            shown = {"value": f"{value:.2f}", "weight": f"{weight:.2f}", "points": f"{value * weight:.2f}"}
            parts.append({"name": name.replace("_", " "), "percent": _to_percent(value), **shown})
    total = event.memorability
    passes = total >= threshold
    context["parts"] = parts
    context["changed"] = (
        bool(parts and total > whole + _ROUNDING_ERROR)
        or bool(event.memory and not passes)
        or (passes and event.skip_reason == BELOW_THRESHOLD)
    )
    context["total"] = {
        "value": f"{total:.2f}",
        "percent": _to_percent(total),
        "passes": passes,
        "less": len(parts) == len(_MEMORABILITY_WEIGHTS) and total < whole - _ROUNDING_ERROR,
    }
    return context


@register.simple_tag(name="handlers_said")
def handler_results(event: Event) -> list[dict[str, Any]]:
    """Return the results of the hook handlers, without those that the line of the event shows already.

    The line shows why an event was not stored, and the segment where one begins.
    """
    results = event.handlers if isinstance(event.handlers, list) else []
    names = ("name", "priority", "status", "detail")
    on_line = [] if event.boundary else [("ok", f"segment {event.segment}")]
    on_line += [("skipped", f"not kept: {event.skip_reason}")] if event.skip_reason else []
    found = [{name: one.get(name, "") for name in names} for one in results if isinstance(one, dict)]
    return [one for one in found if (one["status"], one["detail"]) not in on_line]


@register.inclusion_tag("injections/budget.html")
def budget(used: int, budget: int) -> dict[str, Any]:
    """Render the used share of a token budget as a bar and as numbers."""
    share = used / budget if budget else float(bool(used))
    return {"used": used, "budget": budget, "percent": _to_percent(share), "over": used > budget}


def _to_percent(share: float) -> float:
    return round(100 * min(max(share, 0.0), 1.0), 1)
