"""What the content pages show in the same way: exact moments, sessions, details of the journal."""

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
# The parts of memorability, with the setting that weighs each.
_MEMORABILITY_WEIGHTS = {
    "substance": "substance_weight",
    "salience": "salience_weight",
    "distinctiveness": "distinctiveness_weight",
    "type_weight": "type_weight",
}
BELOW_THRESHOLD = "below the gate"  # the reason that capture gives
_ROUNDING_ERROR = 0.01  # parts are stored with three decimals


@register.simple_tag
def exact(at: datetime) -> SafeString:
    """A moment twice: how long ago, and to the second."""
    shown = dates.format_exact(timezone.localtime(at))
    return format_html('{} <span class="exact">{}</span>', moment(at, dated=False), shown)


@register.filter
def yet_to_begin(fact: Fact) -> bool:
    """Whether a fact is known already and does not hold before a day to come."""
    return fact.valid_from is not None and fact.valid_from > timezone.now()


@register.filter
def held_within_a_day(fact: Fact) -> bool:
    """Whether a fact began and ended on one day in the reader's time zone."""
    ends = [timezone.localtime(at).date() for at in (fact.valid_from, fact.valid_until) if at]
    return len(ends) == 2 and ends[0] == ends[1]


@register.simple_tag
def session_url(session_id: str, project: str) -> str:
    """The address of one session's page."""
    return f"{reverse('session', args=[session_id])}?{urlencode({'project': project})}"


@register.simple_tag
def entry_url(entry: TimelineEntry) -> str:
    """The address of an entry of a timeline in the page of its session; empty for one of no session."""
    row: Any = entry.row
    where = row if entry.kind in ("memory", "session_start", "session_end") else row.session
    if where is None or not where.session_id:
        return ""
    return f"{session_url(where.session_id, where.project)}&entry={entry.anchor}#{entry.anchor}"


@register.simple_tag
def thing_url(name: str) -> str:
    """The address of the graph with this subject or object opened."""
    return f"{reverse('facts-graph')}?{urlencode({'node': node_key(name)})}"


@register.filter
def event_name(event: Event) -> str:
    """The tool that was called, or in words what else happened."""
    return event.tool_name or _EVENT_NAMES.get(event.event, event.event)


@register.filter
def preview_told(event: Event) -> str:
    """What an event showed; where it became a secret memory, the memory's own page tells."""
    became = event.memory
    return (
        redaction.REDACTED_NOTICE if became and redaction.is_redacted(became.sensitivity) else event.preview
    )


@register.filter
def detail_items(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The details of a journal row, as names and texts; the hash last and short, empty lists not at all."""
    hashes = {"content_hash"}
    told = {name: value for name, value in detail.items() if name not in hashes and value != []}
    if told.get("level") == "":  # of a membership: in the words of the person's page
        told["level"] = "as elsewhere"
    items = [(name.replace("_", " "), _value_to_text(value)) for name, value in told.items()]
    return items + [("SHA-256", f"{str(detail[name])[:_HASH_CHARS]}…") for name in hashes & detail.keys()]


@register.filter
def field_value(value: Any) -> str:
    """A plain value of a field as people read it."""
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value_to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        if any(isinstance(one, list) for one in value):  # of each memory: too much for a line
            return str(len(value))
        return ", ".join(map(_value_to_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value_to_text(one)}" for name, one in value.items())
    return field_value(value)


@register.inclusion_tag("timeline/memorability.html")
def memorability(event: Event) -> dict[str, Any]:
    """The four parts of an event's memorability as bars, and their total against the gate.

    Weights and gate are those of today; where they were clearly others then, ``changed`` says so.
    """
    config = settings.MEMORYHUB
    gate = config.memorability_threshold
    context = {"gate": f"{gate:.2f}", "gate_percent": round(100 * gate, 1)}
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
    passes = total >= gate
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


@register.simple_tag
def handlers_said(event: Event) -> list[dict[str, Any]]:
    """What the handlers of the hook said to an event and its line does not say already.

    The reason why it was not kept stands there; of the segment it is told where it begins.
    """
    said = event.handlers if isinstance(event.handlers, list) else []
    names = ("name", "priority", "status", "detail")
    told = [] if event.boundary else [("ok", f"segment {event.segment}")]
    told += [("skipped", f"not kept: {event.skip_reason}")] if event.skip_reason else []
    found = [{name: one.get(name, "") for name in names} for one in said if isinstance(one, dict)]
    return [one for one in found if (one["status"], one["detail"]) not in told]


@register.inclusion_tag("injections/budget.html")
def budget(used: int, budget: int) -> dict[str, Any]:
    """How much of a budget of tokens was used, as a bar and in figures."""
    share = used / budget if budget else float(bool(used))
    return {"used": used, "budget": budget, "percent": _to_percent(share), "over": used > budget}


def _to_percent(share: float) -> float:
    return round(100 * min(max(share, 0.0), 1.0), 1)
