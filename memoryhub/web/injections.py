"""Pages of injections: the log, the recall test of one prompt, and previews of changes on logged prompts.

The recall test and the previews show what prompts would get and why, without logging an injection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub.access.policy import Actor
from memoryhub.accounts.clearance import (
    SWITCHABLE_LEVELS,
    is_level_shown,
    may_view_level,
    request_actor,
    request_clearance,
    reveal_if_secret,
)
from memoryhub.core.form_fields import TextField
from memoryhub.core.text import estimate_tokens
from memoryhub.injection import context_block, selection
from memoryhub.injection.effects import Effect, Thresholds, preview_settings
from memoryhub.injection.queries import load_reports
from memoryhub.injection.requests import InjectionRequest, InjectionResult
from memoryhub.injection.selection import InspectedCandidate, WithheldCandidate
from memoryhub.injection.services import inject_context
from memoryhub.models import Injection
from memoryhub.models.querysets import InjectionQuerySet
from memoryhub.security.prompt_injection import FieldsVerdict
from memoryhub.web.base.forms import InjectionFilter, PlainForm, ProjectField, WordField
from memoryhub.web.base.labels import name_sessions
from memoryhub.web.base.requests import HtmxHttpRequest, cursor_page, page_or_fragment

INJECTIONS_PER_PAGE = 8


@require_safe
def injection_list(request: HttpRequest) -> HttpResponse:
    """List the visible injections, newest first; each shows only its visible memories."""
    form = InjectionFilter(request.GET)
    clearance = request_clearance(request)
    visible = Injection.objects.visible_to(clearance).select_related("session")
    rows = _filter_injections(visible, form) if form.is_valid() else visible.none()
    listed = cursor_page(request, rows, "at", INJECTIONS_PER_PAGE)
    name_sessions([row.session for row in listed["page"].items if row.session], clearance)
    context = {"form": form, "logs": load_reports(listed["page"].items, clearance), **listed}
    return render(request, "injections/page.html", context, status=form.http_status)


@require_safe
def injection(request: HttpRequest, uid: str) -> HttpResponse:
    """Show the visible part of one injection."""
    clearance = request_clearance(request)
    visible = Injection.objects.visible_to(clearance).select_related("session").filter(uid=uid)
    logs = load_reports(visible, clearance)
    if not logs:
        raise Http404
    name_sessions([log.injection.session for log in logs if log.injection.session], clearance)
    return render(request, "injections/one.html", {"log": logs[0]})


def _filter_injections(rows: InjectionQuerySet, form: InjectionFilter) -> InjectionQuerySet:
    rows = rows.filter(**form.given("project")).between("at", form.begin(), form.end())
    if outcome := form.value("outcome"):
        rows = rows.empty() if outcome == "empty" else rows.filled()
    if query := form.value("q"):
        rows = rows.filter(prompt_preview__icontains=query)
    if session_id := form.value("session_id"):
        rows = rows.filter(session__session_id=session_id)
    return rows


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

    ids = "for_%s"

    prompt = TextField(
        required=True,
        strip=True,
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "What would you ask the agent?"}),
        error_messages={"required": "Type a prompt first."},
    )
    project = ProjectField(help_text="Team memories and memories without a project are included.")
    session_id = WordField(label="Session", help_text="Memories that it received recently are not repeated.")
    token_budget = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label="Maximum tokens",
        initial=lambda: settings.MEMORYHUB.token_budget,
    )
    max_count = forms.IntegerField(
        min_value=0,
        max_value=100,
        required=False,
        label="Maximum memories",
        initial=lambda: settings.MEMORYHUB.max_inject_count,
    )

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
    costs = [estimate_tokens(context_block.render_entry(one.passage, one.text)) for one in found.shown]
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
    """Show what a prompt recalls; it is sent by POST because it is long and private.

    The query string of a link fills in the form.
    """
    is_posted = request.method == "POST"
    form = RecallTestForm(request.POST) if is_posted else RecallTestForm(initial=request.GET.dict())
    context: dict[str, Any] = {"form": form}
    is_valid = is_posted and form.is_valid()
    if is_valid:
        context |= _result_context(request, form.to_injection_request())
    status = 422 if is_posted and not is_valid else 200
    return page_or_fragment(request, "preview/page.html", context, target="recalled", status=status)


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
        # After a search that did not finish, every memory would count as one that a switch adds.
        "more": [] if found.choice is None else _hidden_by_switches(request, injection, actor, found),
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


MAX_CHANGED_PROMPTS = 50  # on a page
PREVIEW = "effect"  # value of the button that previews a form instead of saving it


def effect_context(effect: Effect, uids: Sequence[str] = (), noun: str = "a memory") -> dict[str, Any]:
    """Return the context of ``effects/panel.html``."""
    return {
        "effect": effect,
        "effect_summary": effect.summary(uids, noun),
        "effect_prompts": effect.changed[:MAX_CHANGED_PROMPTS],
        "effect_more": max(len(effect.changed) - MAX_CHANGED_PROMPTS, 0),
    }


def render_panel(request: HtmxHttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Return the panel alone for htmx, else a page with it."""
    page = "effects/page.html#panel" if request.htmx else "effects/page.html"
    return render(request, page, context, status=status)


def render_refusal(request: HtmxHttpRequest, form: forms.Form, error: str = "") -> HttpResponse:
    """Return the panel with what is wrong with a form, for htmx."""
    errors = [
        f"{form[name].label}: {' '.join(map(str, texts))}"
        for name, texts in form.errors.items()
        if name in form.fields
    ]
    errors += map(str, form.non_field_errors())
    return render_panel(request, {"effect_errors": [error] if error else errors}, 422)


class ThresholdForm(PlainForm):
    """Other values of the settings of an injection."""

    ids = "for_%s"

    min_score = forms.FloatField(
        label="Minimum score",
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "any"}),
        initial=lambda: settings.MEMORYHUB.injection_min_score,
        help_text="Nothing below this score is injected. Setting: injection_min_score",
    )
    max_count = forms.IntegerField(
        label="Maximum memories",
        min_value=0,
        max_value=100,
        initial=lambda: settings.MEMORYHUB.max_inject_count,
        help_text="Memories in one block. Setting: max_inject_count",
    )
    token_budget = forms.IntegerField(
        label="Maximum tokens",
        min_value=0,
        max_value=100_000,
        initial=lambda: settings.MEMORYHUB.token_budget,
        help_text="Tokens of one block. Setting: token_budget",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def thresholds_page(request: HtmxHttpRequest) -> HttpResponse:
    """Show which logged prompts would receive other memories with other thresholds. Changes nothing."""
    form = ThresholdForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        effect = preview_settings(request_clearance(request), thresholds=Thresholds(**form.cleaned_data))
        context |= effect_context(effect)
    is_wrong = form.is_bound and not form.is_valid()
    if request.htmx and form.is_bound:
        return render_refusal(request, form) if is_wrong else render_panel(request, context)
    return render(request, "effects/thresholds.html", context, status=422 if is_wrong else 200)
