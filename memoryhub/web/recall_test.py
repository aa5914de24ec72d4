"""The recall test page: the context that a prompt would get and why, without logging an injection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from memoryhub.access.policy import Actor
from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    is_level_shown,
    may_view_level,
    request_actor,
    request_clearance,
)
from memoryhub.injection import context_block, selection
from memoryhub.injection.requests import InjectionRequest, InjectionResult
from memoryhub.injection.selection import InspectedCandidate, WithheldCandidate
from memoryhub.injection.services import inject_context
from memoryhub.security.prompt_injection import FieldsVerdict
from memoryhub.web.base.forms import PlainForm, ProjectField, WordField, normalize_newlines
from memoryhub.web.base.requests import HtmxHttpRequest, page_or_fragment
from memoryhub.web.memories.queries import reveal_if_secret

MAX_PROMPT_CHARS = 100_000
_FIELD_NAMES = {"text": "content"}  # as shown on the page
WITHHELD_TEXTS = {
    selection.BLOCKED: "blocked: contains only instructions to the agent",
    selection.ALREADY_SHOWN: "already shown in this session, and not changed since",
    selection.OUTDATED: "may be outdated: the code that it is about has changed",
    selection.OVER_BUDGET: "over the token budget",
    selection.OVER_PINNED_BUDGET: "over the budget of pinned memories",
    selection.OVER_COUNT: "over the maximum number of memories",
    selection.BELOW_FLOOR: "below the minimum score",
    selection.REDACTED: "shown without its instructions to the agent",
}


class RecallTestForm(PlainForm):
    """The parameters of ``POST /api/v1/inject``."""

    prompt = forms.CharField(
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "What would you ask the agent?"}),
        error_messages={"required": "Type a prompt first."},
    )
    project = ProjectField(help_text="Team memories and memories without a project are included.")
    session_id = WordField(label="Session", help_text="Memories that it received recently are not repeated.")
    token_budget = forms.IntegerField(min_value=0, max_value=100_000, required=False, label="Maximum tokens")
    max_count = forms.IntegerField(min_value=0, max_value=100, required=False, label="Maximum memories")

    def __init__(self, data: Any = None) -> None:
        config = settings.MEMORYHUB
        initial = {"token_budget": config.token_budget, "max_count": config.max_inject_count}
        super().__init__(data, auto_id="for_%s", initial=initial)

    def clean_prompt(self) -> str:
        return normalize_newlines(self.cleaned_data["prompt"])

    def to_injection_request(self) -> InjectionRequest:
        """Request every level: the clearance of the person limits them."""
        return InjectionRequest(**self.cleaned_data, allow_private=True, allow_secret=True)


@dataclass(frozen=True)
class RemovedSentence:
    """A sentence that the prompt injection detector removed, with its field and the kind of finding."""

    field: str
    text: str
    kind: str


@dataclass(frozen=True)
class BudgetShare:
    """A memory's share of the budget: ``x`` and ``width`` in percent of it."""

    governed: InspectedCandidate
    tokens: int
    x: float
    width: float
    removed: list[RemovedSentence]


@dataclass(frozen=True)
class WithheldGroup:
    """Memories withheld for one reason."""

    reason: str
    why: str
    rows: list[tuple[WithheldCandidate, list[RemovedSentence]]]


def budget_shares(found: InjectionResult, budget: int) -> list[BudgetShare]:
    """Return the injected memories in their order in the context block."""
    total = max(budget, found.tokens_used, 1)
    costs = [
        context_block.count_tokens(context_block.render_entry(one.passage, one.text)) for one in found.shown
    ]
    at = max(found.tokens_used - sum(costs), 0)
    shares = []
    for one, tokens in zip(found.shown, costs, strict=True):
        removed = list(_iter_removed(one.fields, one.verdict))
        x, width = round(100 * at / total, 2), round(100 * tokens / total, 2)
        shares.append(BudgetShare(one, tokens, x, width, removed))
        at += tokens
    return shares


def withheld_groups(found: InjectionResult) -> list[WithheldGroup]:
    """Group the withheld memories by reason, without those that are shown in part."""
    order = [reason for reason in WITHHELD_TEXTS if reason != selection.REDACTED]
    withheld = [one for one in found.choice.withheld if one.reason in order] if found.choice else []
    withheld.sort(key=lambda one: order.index(one.reason))
    return [
        WithheldGroup(reason, WITHHELD_TEXTS[reason], [(one, _removed_sentences(one)) for one in rows])
        for reason, rows in groupby(withheld, key=lambda one: one.reason)
    ]


def _removed_sentences(withheld: WithheldCandidate) -> list[RemovedSentence]:
    inspected = withheld.governed
    return list(_iter_removed(inspected.fields, inspected.verdict)) if inspected else []


def _iter_removed(fields: Any, verdict: FieldsVerdict) -> Iterator[RemovedSentence]:
    for found in verdict.findings:
        if found.finding.removed:
            value = fields[found.field]
            text = value if found.item is None else value[found.item]
            name = _FIELD_NAMES.get(found.field, found.field)
            yield RemovedSentence(name, text[found.finding.start : found.finding.end], found.finding.kind)


@require_http_methods(["GET", "HEAD", "POST"])
def recall_test_page(request: HtmxHttpRequest) -> HttpResponse:
    """Show what a prompt recalls; it is sent by POST because it is long and private."""
    is_posted = request.method == "POST"
    form = RecallTestForm(request.POST if is_posted else None)
    context: dict[str, Any] = {"form": form}
    is_valid = is_posted and form.is_valid()
    if is_valid:
        context |= _result_context(request, form.to_injection_request())
    return page_or_fragment(
        request,
        "preview/page.html",
        context,
        fragment="preview/page.html#recalled",
        target="recalled",
        status=422 if is_posted and not is_valid else 200,
    )


def _result_context(request: HtmxHttpRequest, injection: InjectionRequest) -> dict[str, Any]:
    actor = request_actor(request)
    found = inject_context(injection, actor, record=False)
    for one in found.shown:
        reveal_if_secret(request, one.candidate.memory, "recall preview")
    return {
        "found": found,
        "budget": injection.budget,
        "most": injection.count,
        "floor": settings.MEMORYHUB.injection_min_score,
        "shares": budget_shares(found, injection.budget),
        "groups": withheld_groups(found),
        "more": _hidden_by_switches(request, injection, actor, found),
    }


def _hidden_by_switches(
    request: HtmxHttpRequest, injection: InjectionRequest, actor: Actor, found: InjectionResult
) -> list[tuple[str, int]]:
    """Count the memories that each switch would add, only for switches that this person may turn on."""
    counts = []
    shown = {one.uid for one in found.injected}
    for level in SWITCHABLE_LEVELS:
        if may_view_level(request.user, level) and not is_level_shown(request, level):
            clearance = request_clearance(request, also=[level])
            wider = inject_context(injection, replace(actor, clearance=clearance), record=False)
            if new := len({one.uid for one in wider.injected} - shown):
                counts.append((level, new))
    return counts
