"""The language model: who reads conversations, what that may cost in a day, what it did, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import is_confined, request_clearance
from memoryhub.extraction import llm_budget, queue
from memoryhub.extraction.llm_budget import DailyUsage
from memoryhub.llm.settings import LlmSettings, find_problems, sends_in_clear
from memoryhub.maintenance.forms import can_view_runs

MAX_DAYS, MAX_TROUBLES = 14, 10


@dataclass(frozen=True)
class BudgetShare:
    """What is used of a limit today; a limit of 0 is none."""

    words: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        return min(self.used / self.limit, 1.0) if self.limit else 0.0

    @property
    def is_spent(self) -> bool:
        return bool(self.limit) and self.used >= self.limit


@require_safe
def language_model(request: HttpRequest) -> HttpResponse:
    """For those who look after the memory. No key, and none of what was asked."""
    if not can_view_runs(request.user):
        raise PermissionDenied
    chosen = LlmSettings.now()
    days = llm_budget.recent_usage(MAX_DAYS)
    shares, confined = _budget_shares(days[0][1]), is_confined(request.user)
    context = {
        "chosen": chosen,
        "host": urlsplit(chosen.url).netloc,
        "problems": find_problems(chosen),
        "in_clear": sends_in_clear(chosen),
        "config": settings.MEMORYHUB,
        # What was spent tells of every project: who sees some of them is told whether there is any left.
        "confined": confined,
        "shares": [] if confined else shares,
        "is_spent": any(share.is_spent for share in shares),
        "days": [] if confined else [(day, spent) for day, spent in days if spent.calls],
        "most_days": MAX_DAYS,
        "counts": queue.count_by_status(request_clearance(request)),
        "troubles": list(queue.find_with_notes(request_clearance(request))[:MAX_TROUBLES]),
    }
    return render(request, "language_model/page.html", context)


def _budget_shares(today: DailyUsage) -> list[BudgetShare]:
    config = settings.MEMORYHUB
    return [
        BudgetShare("calls", today.calls, config.llm_daily_calls),
        BudgetShare("tokens", today.tokens, config.llm_daily_tokens),
    ]
