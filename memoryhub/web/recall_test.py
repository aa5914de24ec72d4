"""Recall test: the block that a prompt would get and why, without logging an injection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.accounts.clearance import SWITCHES, actor_of, clearance_of, is_on, may_see, reveal
from memoryhub.injection import context_block, selection
from memoryhub.injection.selection import Governed, HeldBack
from memoryhub.injection.services import Injected, Wanted, inject
from memoryhub.security.prompt_injection import FieldsVerdict
from memoryhub.web.base.fields import unix
from memoryhub.web.base.filters import ProjectField, WordField
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment

LONGEST_PROMPT = 100_000
_FIELDS = {"text": "content"}  # as a person knows them
_WHY = {
    selection.BLOCKED: "Blocked: nothing was left without its orders",
    selection.BEFORE: "Already shown in this session, and not changed since",
    selection.OVER_BUDGET: "No room in the budget of tokens",
    selection.OVER_COUNT: "No place left",
    selection.BELOW: "Below the floor",
}


class PreviewForm(forms.Form):
    """What ``POST /api/v1/inject`` takes."""

    prompt = forms.CharField(
        max_length=LONGEST_PROMPT,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "What would you ask the agent?"}),
        error_messages={"required": "Type a prompt first."},
    )
    project = ProjectField(help_text="With what belongs to the team and to no project.")
    session_id = WordField(label="Session", help_text="What it was shown lately is not shown again.")
    token_budget = forms.IntegerField(min_value=0, max_value=100_000, required=False, label="Tokens at most")
    max_count = forms.IntegerField(min_value=0, max_value=100, required=False, label="Memories at most")

    def __init__(self, data: Any = None) -> None:
        config = settings.MEMORYHUB
        usual = {"token_budget": config.token_budget, "max_count": config.max_inject_count}
        super().__init__(data, label_suffix="", auto_id="for_%s", initial=usual)

    def clean_prompt(self) -> str:
        return unix(self.cleaned_data["prompt"])

    def wanted(self) -> Wanted:
        """Every level is asked for: what the switches leave open is the person's clearance."""
        return Wanted(**self.cleaned_data, allow_private=True, allow_secret=True)


@dataclass(frozen=True)
class Removed:
    """A sentence that the governor took out: of which field, its text, and what it was taken for."""

    field: str
    text: str
    kind: str


@dataclass(frozen=True)
class Share:
    """A memory's part of the budget, in tokens and, for the bar, in hundredths of the budget."""

    governed: Governed
    tokens: int
    x: float
    width: float
    removed: list[Removed]


@dataclass(frozen=True)
class Group:
    """Memories that are held back for one reason."""

    reason: str
    why: str
    rows: list[tuple[HeldBack, list[Removed]]]


def shares(found: Injected, budget: int) -> list[Share]:
    """The memories of the block, in its order."""
    whole = max(budget, found.tokens_used, 1)
    costs = [context_block.tokens(context_block.element(one.passage, one.text)) for one in found.shown]
    at = max(found.tokens_used - sum(costs), 0)
    made = []
    for one, tokens in zip(found.shown, costs, strict=True):
        removed = list(_removed(one.fields, one.verdict))
        made.append(Share(one, tokens, round(100 * at / whole, 2), round(100 * tokens / whole, 2), removed))
        at += tokens
    return made


def groups(found: Injected) -> list[Group]:
    """What is held back, by reason; what was taken out of memories that are shown stands beside them."""
    order = list(_WHY)
    held = [one for one in found.choice.withheld if one.reason in order] if found.choice else []
    held.sort(key=lambda one: order.index(one.reason))
    return [
        Group(reason, _WHY[reason], [(one, _sentences(one)) for one in rows])
        for reason, rows in groupby(held, key=lambda one: one.reason)
    ]


def _sentences(held: HeldBack) -> list[Removed]:
    return list(_removed(held.governed.fields, held.governed.verdict)) if held.governed else []


def _removed(fields: Any, verdict: FieldsVerdict) -> Iterator[Removed]:
    for found in verdict.findings:
        if found.finding.removed:
            value = fields[found.field]
            text = value if found.item is None else value[found.item]
            name = _FIELDS.get(found.field, found.field)
            yield Removed(name, text[found.finding.start : found.finding.end], found.finding.kind)


@require_http_methods(["GET", "HEAD", "POST"])
def preview(request: HtmxHttpRequest) -> HttpResponse:
    """A prompt is posted, for it may be long and private; htmx fills ``#recalled``."""
    posted = request.method == "POST"
    form = PreviewForm(request.POST if posted else None)
    context: dict[str, Any] = {"form": form}
    valid = posted and form.is_valid()
    if valid:
        context |= _recalled(request, form.wanted())
    return page_or_fragment(
        request,
        "preview/page.html",
        context,
        fragment="preview/recalled.html",
        target="recalled",
        status=422 if posted and not valid else 200,
    )


def _recalled(request: HtmxHttpRequest, wanted: Wanted) -> dict[str, Any]:
    actor = actor_of(request)
    found = inject(wanted, actor, record=False)
    for one in found.shown:
        if one.candidate.memory.sensitivity == Sensitivity.SECRET.value:
            reveal(request, one.candidate.memory, "recall preview")
    return {
        "found": found,
        "budget": wanted.budget,
        "most": wanted.count,
        "floor": settings.MEMORYHUB.injection_min_score,
        "shares": shares(found, wanted.budget),
        "groups": groups(found),
        "more": _more(request, wanted, actor, found),
    }


def _more(request: HtmxHttpRequest, wanted: Wanted, actor: Actor, found: Injected) -> list[tuple[str, int]]:
    """For each switch that this person could turn on: how many memories would be shown that are not now.

    Told to nobody else, since the number speaks of memories that they may not see.
    """
    told = []
    shown = {one.uid for one in found.injected}
    for level in SWITCHES:
        if may_see(request.user, level) and not is_on(request, level):
            clearance = clearance_of(request, also=[level])
            wider = inject(wanted, replace(actor, clearance=clearance), record=False)
            if new := len({one.uid for one in wider.injected} - shown):
                told.append((level, new))
    return told
