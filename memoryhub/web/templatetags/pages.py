"""Template tags for facts, sessions, events, maintenance runs and the journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.conf import settings
from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from memoryhub.access import policy
from memoryhub.core.text import collapse_whitespace, format_change, is_uid, readable, without_title_line
from memoryhub.injection import selection
from memoryhub.maintenance import results
from memoryhub.maintenance.operations import find_operation
from memoryhub.maintenance.operations.base import Change
from memoryhub.models import Event, Fact, MaintenanceRun, Memory
from memoryhub.stats.timeline import TimelineEntry
from memoryhub.web.base.labels import (
    BELOW_THRESHOLD,
    event_name,
    instruction_label,
    operation_label,
    session_name,
    session_url,
    skip_reason,
)
from memoryhub.web.base.markdown import render, to_plain_text
from memoryhub.web.facts.views import thing_url
from memoryhub.web.sessions.picture import Mark, Point, SessionPicture

register = template.Library()

_WITHHELD_REASONS = {
    selection.BELOW_FLOOR: "score too low",
    selection.ALREADY_SHOWN: "shown earlier in this session",
    selection.OVER_COUNT: "too many memories",
    selection.OVER_BUDGET: "no tokens left",
    selection.OVER_PINNED_BUDGET: "no tokens left for pinned memories",
    selection.BLOCKED: "reads like an instruction",
}
_END_REASONS = {"prompt_input_exit": "closed by the user", "logout": "signed out", "clear": "cleared"}
_DETAIL_NAMES = {"was": "before", "left": "after", "clearance": "can see"}
# The parts of memorability, with the setting of their weight.
_MEMORABILITY_WEIGHTS = {
    "substance": "substance_weight",
    "salience": "salience_weight",
    "distinctiveness": "distinctiveness_weight",
    "type_weight": "type_weight",
}
_ROUNDING_ERROR = 0.01  # parts are stored with three decimals


@register.filter
def starts_later(fact: Fact) -> bool:
    """Whether a fact becomes valid in the future."""
    return fact.valid_from is not None and fact.valid_from > timezone.now()


@register.filter
def lasted_one_day(fact: Fact) -> bool:
    """Whether a fact began and ended on the same day in the reader's time zone."""
    ends = [timezone.localtime(at).date() for at in (fact.valid_from, fact.valid_until) if at]
    return len(ends) == 2 and ends[0] == ends[1]


@register.simple_tag
def entry_url(entry: TimelineEntry) -> str:
    """Return the URL of a timeline entry on the page of its session; empty without a session."""
    row: Any = entry.row
    where = row if entry.kind in ("memory", "session_start", "session_end") else row.session
    if where is None or not where.session_id:
        return ""
    return f"{session_url(where.session_id, where.project)}&entry={entry.anchor}#{entry.anchor}"


@register.filter
def event_preview(event: Event) -> str:
    """Return the preview of an event, redacted if it became a secret memory."""
    memory = event.memory
    return policy.REDACTED_NOTICE if memory and policy.is_redacted(memory.sensitivity) else event.preview


register.filter(event_name)
register.filter(instruction_label)
register.filter(is_uid)
register.filter(operation_label)
register.filter(session_name)
register.filter(skip_reason)
register.simple_tag(session_url)
register.simple_tag(thing_url)


@register.filter
def detail_items(detail: object, operation: str = "") -> list[tuple[str, str]]:
    """Format the details of a journal entry; empty lists, ids and hashes are omitted (:func:`detail_ids`).

    A reason that repeats the ``operation`` is omitted, too.
    """
    shown = {
        name: value for name, value in _mapping(detail).items() if value != [] and not _is_id(name, value)
    }
    if operation and shown.get("reason") == operation:
        del shown["reason"]
    for name, label in _DETAIL_NAMES.items():
        if name in shown:
            shown[label] = shown.pop(name)
    if isinstance(shown.get("flags"), list):
        shown["flags"] = [instruction_label(flag) for flag in shown["flags"]]
    if shown.get("level") == "":  # of a membership: as on the person's page
        shown["level"] = "same as default"
    return [(name.replace("_", " "), _value_to_text(value)) for name, value in shown.items()]


@register.filter
def detail_ids(detail: object) -> list[tuple[str, str]]:
    """Return the ids and hashes among the details of a journal entry."""
    found = {name: value for name, value in _mapping(detail).items() if _is_id(name, value)}
    names = {"content_hash": "SHA-256"}
    return [(names.get(name, name.replace("_", " ")), _value_to_text(value)) for name, value in found.items()]


def _mapping(detail: object) -> Mapping[str, Any]:
    """Return the details; nothing if someone changed the row in the database into another value."""
    return detail if isinstance(detail, Mapping) else {}


def _is_id(name: str, value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return name == "content_hash" or (bool(values) and all(map(is_uid, values)))


@register.filter
def withheld_reason(reason: str) -> str:
    """Return in plain words why a memory was not injected."""
    return _WITHHELD_REASONS.get(reason, reason)


@register.filter
def end_reason(reason: str) -> str:
    """Return in words why a session ended, as Claude Code names it."""
    return _END_REASONS.get(reason) or readable(reason)


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
        return ", ".join(f"{readable(name)}: {_value_to_text(one)}" for name, one in value.items())
    return field_value(value)


@register.inclusion_tag("timeline/page.html#memorability")
def memorability(event: Event) -> dict[str, Any]:
    """Render the four parts of an event's memorability as bars, and their total against the threshold.

    Weights and threshold are the current ones; ``changed`` is set if they clearly differed at that time.
    """
    threshold = settings.MEMORYHUB.memorability_threshold
    context = {"gate": floatformat(threshold, 2), "gate_percent": round(100 * threshold, 1)}
    context["reason"] = "" if event.memory else skip_reason(event.skip_reason)
    if event.memorability is None:
        return context
    parts, whole = _memorability_parts(event)
    total = event.memorability
    passes = total >= threshold
    context["parts"] = parts
    context["changed"] = (
        bool(parts and total > whole + _ROUNDING_ERROR)
        or bool(event.memory and not passes)
        or (passes and event.skip_reason == BELOW_THRESHOLD)
    )
    context["total"] = {
        "value": floatformat(total, 2),
        "percent": _to_percent(total),
        "passes": passes,
        "less": len(parts) == len(_MEMORABILITY_WEIGHTS) and total < whole - _ROUNDING_ERROR,
    }
    return context


def _memorability_parts(event: Event) -> tuple[list[dict[str, Any]], float]:
    """Return the stored parts, as shown, and their sum with the current weights."""
    stored = event.memorability_parts if isinstance(event.memorability_parts, dict) else {}
    parts: list[dict[str, Any]] = []
    whole = 0.0
    for name, weight_of in _MEMORABILITY_WEIGHTS.items():
        value, weight = stored.get(name), getattr(settings.MEMORYHUB, weight_of)
        if isinstance(value, int | float):
            whole += value * weight
            numbers = {"value": value, "weight": weight, "points": value * weight}
            shown = {key: floatformat(number, 2) for key, number in numbers.items()}
            parts.append({"name": name.replace("_", " "), "percent": _to_percent(value), **shown})
    return parts, whole


@register.simple_tag
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


@register.inclusion_tag("injections/page.html#budget")
def budget(used: int, budget: int) -> dict[str, Any]:
    """Render the used share of a token budget as a bar and as numbers."""
    share = used / budget if budget else float(bool(used))
    return {"used": used, "budget": budget, "percent": _to_percent(share), "over": used > budget}


def _to_percent(share: float) -> float:
    return round(100 * min(max(share, 0.0), 1.0), 1)


register.filter("run_title", results.run_title)
register.filter("run_state", results.run_state)
register.filter("is_failed", results.is_failed)


@register.filter
def operation_help(name: str) -> str:
    """Describe an operation and what can be undone."""
    operation = find_operation(name)
    return operation.help if operation else ""


@register.filter
def change_action(change: Change, run: MaintenanceRun) -> str:
    """Describe what a run did to a memory, or what a dry run would do."""
    return results.action_label(change.action, run.dry_run)


@register.inclusion_tag("maintenance/page.html#importance_change")
def importance_change(change: Change) -> dict[str, Any]:
    """Render importance before and after as a bar with the gain or loss."""
    before, after = change.before, change.after
    if before is None or after is None or before == after:
        return {"is_shown": False}
    low, high = sorted((before, after))
    before_shown, after_shown = format_change(before, after)
    return {
        "is_shown": True,
        "before": before_shown,
        "after": after_shown,
        "kept": round(low * 100, 1),
        "moved": max(round((high - low) * 100, 1), 0.8),
        "kind": "gain" if after >= before else "loss",
        "was": round(before * 100, 1),
    }


MAX_TEXT_CHARS = 60_000  # of one text, to limit the size of a page
_HEADING_LEVEL = 3  # the level of the heading of an entry


@register.inclusion_tag("sessions/report.html#report_memory")
def report_memory(memory: Memory, summary: Memory | None = None) -> dict[str, Any]:
    """Render a memory with its whole text, or without it if it is the summary at the top of the report."""
    is_summary = summary is not None and memory.pk == summary.pk
    return {"memory": memory, "is_summary": is_summary, **({} if is_summary else whole_text(memory))}


@register.inclusion_tag("sessions/report.html#report_text")
def whole_text(memory: Memory) -> dict[str, Any]:
    """Render the text of a memory without title and details."""
    if policy.is_redacted(memory.sensitivity):
        return {"titled": True, "unopened": policy.REDACTED_NOTICE}
    title = collapse_whitespace(to_plain_text(memory.title))
    text = without_title_line(memory.content, title)
    is_cut_from_text = title.endswith("…") and collapse_whitespace(to_plain_text(text)).startswith(
        title.rstrip("… ")
    )
    return {
        "titled": bool(title) and not is_cut_from_text,
        "html": render(text[:MAX_TEXT_CHARS], below=_HEADING_LEVEL) if text.strip() else "",
        "left_out": max(0, len(text) - MAX_TEXT_CHARS),
    }


@register.simple_tag
def quiet_marks(picture: SessionPicture, titled: bool) -> SafeString:
    """Render each mark with its title, as a link if it has a target.

    Without ``titled``, marks without a target are drawn as one path per lane, without titles.
    """
    single = [mark for mark in picture.quiet if titled or mark.what.href]
    drawn = "\n".join(map(_quiet_mark, single))
    if not titled:
        drawn = _lane_paths(picture) + drawn
    return mark_safe(drawn)  # noqa: S308  numbers, names of lanes, escaped texts


@register.simple_tag
def curve_points(picture: SessionPicture) -> SafeString:
    """Render the points of the curve below the threshold, then those above."""
    drawn = (
        _dots_path(
            f"story-point{' passes' * passes}", [one for one in picture.points if one.passes is passes]
        )
        for passes in (False, True)
    )
    return mark_safe(_nested_svg("".join(drawn), picture))  # noqa: S308  numbers


def _nested_svg(drawn: str, picture: SessionPicture) -> str:
    """Nest an SVG whose units are percent across and pixels down."""
    high = picture.height
    return f'<svg viewBox="0 0 100 {high}" height="{high}" preserveAspectRatio="none">{drawn}</svg>'


def _dots_path(kind: str, points: Sequence[Point]) -> str:
    """Draw dots as round ends of lines without length: a tenth of the size of circles."""
    path = "".join(f"M{point.x:g} {point.y:g}h0" for point in points)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _lane_paths(picture: SessionPicture) -> str:
    by_lane: dict[str, list[str]] = defaultdict(list)
    for mark in picture.quiet:
        if not mark.what.href:
            by_lane[mark.what.lane].append(f"M{mark.x:g} {mark.y - 6:g}v12")
    drawn = (f'<path class="story-line is-{lane}" d="{"".join(d)}"/>' for lane, d in by_lane.items())
    return _nested_svg("".join(drawn), picture)


def _quiet_mark(mark: Mark) -> str:
    what = mark.what
    title = f"<title>{escape(what.title)}</title>"
    drawn = f'<rect class="story-mark is-{what.lane}" x="{mark.x:g}%" y="{mark.y:g}"'
    if what.href:
        return f'<a href="{escape(what.href)}" tabindex="-1">{title}{drawn}/></a>'
    return f"{drawn}>{title}</rect>"
