"""Previews of the effect of a change on logged prompts, and the page that tries other thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from memoryhub.accounts.clearance import request_clearance
from memoryhub.injection.effects import Effect, Thresholds, preview_settings
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.requests import HtmxHttpRequest, patch_vary

MAX_LISTED = 50  # changed prompts on a page
PREVIEW = "effect"  # value of the button that previews a form instead of saving it


def effect_context(effect: Effect, uids: Sequence[str] = (), noun: str = "a memory") -> dict[str, Any]:
    """Return the context of ``effects/panel.html``."""
    return {
        "effect": effect,
        "effect_summary": effect.summary(uids, noun),
        "effect_prompts": effect.changed[:MAX_LISTED],
        "effect_more": max(len(effect.changed) - MAX_LISTED, 0),
    }


def render_panel(request: HtmxHttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Return the panel alone for htmx, else a page with it."""
    page = "effects/page.html#panel" if request.htmx else "effects/page.html"
    response = render(request, page, context, status=status)
    patch_vary(response)
    return response


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

    min_score = forms.FloatField(
        label="Minimum score",
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text="injection_min_score: nothing below this score is injected.",
    )
    max_count = forms.IntegerField(
        label="Maximum memories",
        min_value=0,
        max_value=100,
        help_text="max_inject_count: memories in one block.",
    )
    token_budget = forms.IntegerField(
        label="Maximum tokens", min_value=0, max_value=100_000, help_text="token_budget: tokens of one block."
    )

    def __init__(self, data: Any = None) -> None:
        config = settings.MEMORYHUB
        initial = {
            "min_score": config.injection_min_score,
            "max_count": config.max_inject_count,
            "token_budget": config.token_budget,
        }
        super().__init__(data, auto_id="for_%s", initial=initial)


@require_http_methods(["GET", "HEAD", "POST"])
def thresholds_page(request: HtmxHttpRequest) -> HttpResponse:
    """Show which logged prompts would get another answer with other thresholds. Changes nothing."""
    form = ThresholdForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        effect = preview_settings(request_clearance(request), thresholds=Thresholds(**form.cleaned_data))
        context |= effect_context(effect)
    is_wrong = form.is_bound and not form.is_valid()
    if request.htmx and form.is_bound:
        return render_refusal(request, form) if is_wrong else render_panel(request, context)
    response = render(request, "effects/thresholds.html", context, status=422 if is_wrong else 200)
    patch_vary(response)
    return response
