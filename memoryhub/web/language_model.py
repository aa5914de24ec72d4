"""The language model: who reads conversations, what that may cost in a day, what it did, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import clearance_of
from memoryhub.accounts.memberships import is_confined
from memoryhub.extraction import llm_budget, queue
from memoryhub.extraction.llm_budget import Spent
from memoryhub.llm.settings import Chosen, problems, sends_in_clear
from memoryhub.maintenance.run_forms import may_look

DAYS, TROUBLES = 14, 10


@dataclass(frozen=True)
class Share:
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
    if not may_look(request.user):
        raise PermissionDenied
    chosen = Chosen.now()
    days = llm_budget.days(DAYS)
    shares, confined = _shares(days[0][1]), is_confined(request.user)
    context = {
        "chosen": chosen,
        "host": urlsplit(chosen.url).netloc,
        "problems": problems(chosen),
        "in_clear": sends_in_clear(chosen),
        "config": settings.MEMORYHUB,
        # What was spent tells of every project: who sees some of them is told whether there is any left.
        "confined": confined,
        "shares": [] if confined else shares,
        "is_spent": any(share.is_spent for share in shares),
        "days": [] if confined else [(day, spent) for day, spent in days if spent.calls],
        "most_days": DAYS,
        "counts": queue.counts(clearance_of(request)),
        "troubles": list(queue.troubled(clearance_of(request))[:TROUBLES]),
    }
    return render(request, "language_model/page.html", context)


def _shares(today: Spent) -> list[Share]:
    config = settings.MEMORYHUB
    return [
        Share("calls", today.calls, config.llm_daily_calls),
        Share("tokens", today.tokens, config.llm_daily_tokens),
    ]
