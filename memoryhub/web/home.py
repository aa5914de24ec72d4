"""The home page: new memories, counts, and problems that need attention."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, may_manage_people, request_actor, request_clearance
from memoryhub.audit import journal
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.core.database import write_transaction
from memoryhub.digests import failed_digests
from memoryhub.facts.queries import query_facts
from memoryhub.injection.queries import decided_injections
from memoryhub.memories.delete import Caps
from memoryhub.models import JournalEntry
from memoryhub.models.querysets import live_memories
from memoryhub.stats import counts
from memoryhub.web.base import charts, requests
from memoryhub.web.base.charts import breakdown
from memoryhub.web.base.forms import parse_whole_number
from memoryhub.web.base.navigation import badge_text, can_view_runs, may_review
from memoryhub.web.base.requests import cached_until_change, narrow_to_project, signed_in_user
from memoryhub.web.checks import failed_checks
from memoryhub.web.maintenance import find_faded, find_failed, recent_runs

RECENT_COUNT = 8
MAX_DIGITS = 18  # of the number of a journal entry
VERIFICATION_TIMEOUT = 300  # seconds for which the verification of an unchanged journal is cached


@require_safe
@requests.answers_polls
def home_page(request: HttpRequest) -> HttpResponse:
    clearance = narrow_to_project(request_clearance(request), request.GET.get("project", ""))
    numbers, days, caps = _statistics(request, clearance)
    full = full_clearance(request)
    # Only for viewers of the whole journal: the numbers of lost rows count those of every project.
    loss = cached_until_change(request, "loss", full, journal.pending) if full.is_whole else None
    context: dict[str, Any] = {
        "numbers": numbers,
        "address": request.build_absolute_uri("/"),
        "loss": loss,
        "may_acknowledge": loss is not None and may_manage_people(request.user),
    }
    recent = _recent_memories(request, clearance) if numbers["total"] else []
    attention = _attention(request, clearance, numbers, caps, recent[0].failed_digest) if recent else {}
    if recent:
        context |= {
            "recent": recent,
            "activity": charts.activity(days, timezone.localdate(), request.GET.get("project", "")),
            "projects": breakdown(numbers["by_project"], "project", "Projects"),
            **attention,
        }
    requests.set_etag(
        request, numbers, [(memory.uid, memory.updated_at) for memory in recent], loss, attention
    )
    return render(request, "home.html", context)


def _statistics(request: HttpRequest, clearance: Clearance) -> Any:
    """Return the numbers, the days of the activity chart, and the caps of projects."""
    decided = decided_injections(clearance, timezone.now())
    return cached_until_change(
        request,
        "home",
        clearance,
        lambda: counts.statistics_days_and_caps(
            clearance,
            decided=decided,
            helped=decided.filter(helped=True),
            listed_facts=query_facts(clearance).exclude(BOUNDARY_FACTS),
        ),
        timezone.get_current_timezone_name(),
        depends_on_events=True,  # the number of sessions
    )


def _recent_memories(request: HttpRequest, clearance: Clearance) -> list[Any]:
    """Return the newest memories, each with the id of the person's latest failed digest."""
    newest = live_memories(clearance).order_by("-created_at", "-pk")
    # In the same statement as the memories: Home has a limit of statements.
    failed_digest = failed_digests(signed_in_user(request)).order_by("-failed_at").values("uid")[:1]
    return list(newest.annotate(failed_digest=Subquery(failed_digest))[:RECENT_COUNT])


def _attention(
    request: HttpRequest, clearance: Clearance, numbers: dict[str, Any], caps: Caps, failed_digest: str | None
) -> dict[str, Any]:
    """Return what needs attention: failures, projects near their cap, memories to review."""
    now = timezone.now()
    recent = recent_runs(clearance, now) if can_view_runs(request.user) else []
    return {
        "failed_runs": find_failed(recent),
        "faded": find_faded(recent, clearance, now),
        "failed_checks": failed_checks(clearance),
        "failed_digest": failed_digest,
        "full": _projects_near_cap(numbers["near_cap"], caps),
        "expiring_days": counts.EXPIRING_DAYS,
        "to_review": badge_text(request) if may_review(request.user) else "",
    }


@require_POST
def acknowledge_loss(request: HttpRequest) -> HttpResponse:
    """Stop reporting the lost journal rows that the page showed."""
    if not (may_manage_people(request.user) and full_clearance(request).is_whole):
        raise PermissionDenied
    through = parse_whole_number(request.POST.get("through", ""), MAX_DIGITS)
    if through is None:
        raise BadRequest("through: the number of the journal row that records the loss")
    with write_transaction():
        loss = journal.acknowledge_loss(request_actor(request), through)
    if loss:
        messages.success(request, "Loss of journal rows acknowledged.")
    else:
        messages.warning(request, "Nothing to acknowledge. Someone else may have done so already.")
    return redirect("home")


@require_safe
def journal_health(request: HttpRequest) -> HttpResponse:
    """Return a fragment with the verification of the journal, loaded later because a long one takes a while.

    Its length counts all rows, so it is hidden from viewers who cannot see every row.
    """
    last = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first()
    found, verified_at = requests.cached_while(
        last, "journal-health", "", lambda: (journal.verify(), timezone.now()), VERIFICATION_TIMEOUT
    )
    context = {
        "verification": found,
        "at": verified_at,
        "loss": found.loss if full_clearance(request).is_whole else None,
    }
    return render(request, "includes/journal_health.html", context)


def _projects_near_cap(near: dict[str, int], caps: Caps) -> list[dict[str, Any]]:
    """Return projects near their cap with their fill level in percent."""
    return [
        {
            "project": project,
            "count": count,
            "cap": caps[project],
            "percent": round(100 * count / caps[project]),
        }
        for project, count in near.items()
    ]
