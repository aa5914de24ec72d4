"""The journal pages: the list of actions, one row, and the verification of the hash chain."""

from __future__ import annotations

import time
from typing import Any

from django.contrib import messages
from django.db.models import Count, Max, Min
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import is_redacted
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance
from memoryhub.audit.journal import verify
from memoryhub.capture.segments import BOUNDARY_PREDICATE
from memoryhub.core.text import format_count, readable
from memoryhub.maintenance import results
from memoryhub.memories.undo import MAX_JOURNAL_ROWS
from memoryhub.models import Fact, JournalEntry, MaintenanceRun
from memoryhub.models.journal import JournalQuerySet
from memoryhub.web.base.forms import JournalFilter
from memoryhub.web.base.labels import OPERATION_LABELS
from memoryhub.web.base.navigation import can_view_runs
from memoryhub.web.base.requests import HtmxHttpRequest, cursor_page
from memoryhub.web.memories.bulk_actions import is_allowed
from memoryhub.web.memories.filters import visible_titles

PAGE_SIZE = 40


@require_safe
def journal(request: HttpRequest) -> HttpResponse:
    """List the visible rows, newest first."""
    form, rows = JournalFilter(request.GET), _visible_rows(request)
    rows = _apply_filter(rows, form) if form.is_valid() else rows.none()
    listed = cursor_page(request, rows, "seq", PAGE_SIZE)
    _attach_titles(request, listed["page"].items)
    context = {"form": form, "operations": OPERATION_LABELS.items(), **listed}
    return render(request, "journal/page.html", context, status=form.http_status)


@require_safe
def journal_row(request: HttpRequest, seq: int) -> HttpResponse:
    """Show one row, with links to the visible rows before and after it.

    Only to viewers of every row: its number counts the others.
    """
    visible = _visible_rows(request)
    row = visible.filter(seq=seq).first() if seq < 2**63 else None
    if row is None or not full_clearance(request).is_whole:
        raise Http404
    _attach_titles(request, [row])
    context = {
        "row": row,
        "rows": [row],
        "before": visible.filter(seq__lt=seq).order_by("-seq").values_list("seq", flat=True).first(),
        "after": visible.filter(seq__gt=seq).order_by("seq").values_list("seq", flat=True).first(),
        "action": _own_action(request, row),
    }
    return render(request, "journal/row.html", context)


def _own_action(request: HttpRequest, row: JournalEntry) -> dict[str, Any] | None:
    """Return the bulk action of this person that a row belongs to, if it can be undone and is not a run."""
    uid = row.detail.get("act")
    if not uid or row.object_type != "memory" or row.actor != request_actor(request).name:
        return None
    # The rows of one action have the same time. A run has its own undo.
    nearby = (row.seq - MAX_JOURNAL_ROWS, row.seq + MAX_JOURNAL_ROWS)
    rows = JournalEntry.objects.filter(seq__range=nearby, at=row.at, actor=row.actor, detail__act=uid)
    undone = JournalEntry.objects.filter(object_id=row.object_id, seq__gt=row.seq, detail__undoes=uid)
    is_run = MaintenanceRun.objects.filter(uid=uid).exists()
    if is_run or "imported" in row.detail or undone.exists() or not is_allowed(request, row.detail["kind"]):
        return None
    found = rows.aggregate(first=Min("seq"), last=Max("seq"), memories=Count("object_id", distinct=True))
    return {
        "id": uid,
        **found,
        "summary": f"This action changed {format_count(found['memories'], 'memory')}.",
    }


@require_POST
def journal_verify(request: HtmxHttpRequest) -> HttpResponse:
    """Verify the hash chain, which reads every row."""
    started = time.perf_counter()
    result = verify()
    seconds = time.perf_counter() - started
    is_whole = full_clearance(request).is_whole
    loss = result.loss if is_whole else None
    context = {"result": result, "seconds": seconds, "sees_every_row": is_whole, "loss": loss}
    if request.htmx:
        return render(request, "journal/page.html#verified", context)
    messages.add_message(
        request,
        messages.SUCCESS if result.ok else messages.ERROR,
        render_to_string("journal/page.html#verdict", context),
    )
    return redirect("journal")


def _visible_rows(request: HttpRequest) -> JournalQuerySet:
    """Return the visible rows, and those about the user's own account, which belong to no project."""
    visible = JournalEntry.objects.visible_to(request_clearance(request))
    return visible | JournalEntry.objects.filter(object_type="person", object_id=request.user.get_username())


def _apply_filter(rows: JournalQuerySet, form: JournalFilter) -> JournalQuerySet:
    if actor := form.value("actor"):
        rows = rows.filter(actor__icontains=actor)
    return rows.filter(**form.given("operation", "object_id", "project")).between(
        "at", form.begin(), form.end()
    )


def _attach_titles(request: HttpRequest, rows: list[JournalEntry]) -> None:
    """Set the titles of visible memories, facts and runs on the rows about them; of secret facts, none."""
    uids = {kind: {row.object_id for row in rows if row.object_type == kind} for kind in ("memory", "fact")}
    titles = visible_titles(request, uids["memory"])
    for fact in Fact.objects.visible_to(request_clearance(request)).filter(uid__in=uids["fact"]):
        if fact.predicate == BOUNDARY_PREDICATE and fact.subject.startswith("session:"):  # an id and JSON
            titles[fact.uid] = "New subject in a session"
        elif not is_redacted(fact.sensitivity):
            titles[fact.uid] = f"{fact.subject} {readable(fact.predicate)} {fact.object}"
    # Rows about several memories have the id of a run, an import or a session.
    several = {row.object_id for row in rows if row.object_type == "memories"}
    if several and can_view_runs(request.user):
        found = results.visible_runs(request_clearance(request)).filter(uid__in=several)
        titles |= dict.fromkeys(found.values_list("uid", flat=True), "memories of a run")
    for row in rows:
        if row.object_id in titles:
            row.title = titles[row.object_id]  # type: ignore[attr-defined]
