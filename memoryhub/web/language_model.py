"""The language model page: provider, daily budget, usage, queue and recent problems."""

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
from memoryhub.llm import LlmSettings, find_problems, sends_in_clear
from memoryhub.maintenance.forms import can_view_runs

MAX_DAYS, MAX_TROUBLES = 14, 10


@dataclass(frozen=True)
class BudgetShare:
    """Today's use of a limit; 0 means unlimited."""

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
    """Show the state of the language model, without its API key or any prompts."""
    if not can_view_runs(request.user):
        raise PermissionDenied
    chosen = LlmSettings.now()
    config, confined = settings.MEMORYHUB, is_confined(request.user)
    days = llm_budget.recent_usage(MAX_DAYS)
    today = days[0][1]
    shares = [
        BudgetShare("calls", today.calls, config.llm_daily_calls),
        BudgetShare("tokens", today.tokens, config.llm_daily_tokens),
    ]
    context = {
        "chosen": chosen,
        "host": urlsplit(chosen.url).netloc,
        "problems": find_problems(chosen),
        "in_clear": sends_in_clear(chosen),
        "config": config,
        # Usage counts every project. Users confined to some projects only see whether it is used up.
        "confined": confined,
        "shares": [] if confined else shares,
        "is_spent": any(share.is_spent for share in shares),
        "days": [] if confined else [(day, spent) for day, spent in days if spent.calls],
        "most_days": MAX_DAYS,
        "counts": queue.count_by_status(request_clearance(request)),
        "troubles": list(queue.find_with_notes(request_clearance(request))[:MAX_TROUBLES]),
    }
    return render(request, "language_model/page.html", context)
