"""Starting a run of maintenance from the admin: one form for all operations, and a question before a loss."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from memoryhub.admin.base import admin_url
from memoryhub.admin.bulk import counted, is_confirmed, say
from memoryhub.lifecycle import runs, telling
from memoryhub.lifecycle.asking import FOR_GOOD, form_fields, given, loss, may_run
from memoryhub.lifecycle.operations import OPERATIONS
from memoryhub.models import MaintenanceRun
from memoryhub.store.errors import StoreError
from memoryhub.team.accounts import actor_of

_OWN = ("operation", "dry_run")


class StartForm(forms.Form):
    """The operation, whether it is a dry run, and the parameters of all operations: each takes its own."""

    operation = forms.ChoiceField()
    dry_run = forms.BooleanField(
        required=False, initial=True, help_text="Lists what would change, and changes nothing"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        on = [one for one in OPERATIONS.values() if not runs.switched_off(one.name)]
        self.fields["operation"].choices = [(one.name, one.label) for one in on]  # type: ignore[attr-defined]
        helps: dict[str, dict[str, list[str]]] = {}
        for operation in on:
            for name, field in form_fields(operation.Params).items():
                self.fields.setdefault(name, field)
                helps.setdefault(name, {}).setdefault(str(field.help_text), []).append(operation.label)
        for name, told in helps.items():
            if sum(map(len, told.values())) < len(on):
                lines = (f"{', '.join(labels)}: {text}" for text, labels in told.items())
                self.fields[name].help_text = " ".join(lines)

    def params(self) -> dict[str, Any]:
        return given({name: value for name, value in self.cleaned_data.items() if name not in _OWN})

    def begin(self, request: HttpRequest, *, confirmed: bool) -> MaintenanceRun | int | None:
        """The run. What would be lost for good by it, before that is confirmed. None when it was refused."""
        chosen, dry_run = self.cleaned_data["operation"], self.cleaned_data["dry_run"]
        if not may_run(request.user, chosen, dry_run=dry_run):
            self.add_error("operation", "This removes memories for good, which only those may who may erase.")
            return None
        try:
            if chosen in FOR_GOOD and not dry_run and not confirmed:
                return loss(OPERATIONS[chosen], self.params(), actor_of(request))
            return runs.start(chosen, self.params(), actor_of(request), dry_run=dry_run)
        except StoreError as refusal:
            known = refusal.field in self.fields
            self.add_error(refusal.field if known else None, refusal.message)
            return None


def start_page(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """The form; a question when memories would be lost for good; else on to the run that was started."""
    form = StartForm(request.POST if request.method == "POST" else None)
    begun = form.begin(request, confirmed=is_confirmed(request)) if form.is_valid() else None
    if isinstance(begun, MaintenanceRun):
        say(model_admin, request, f"{telling.title(begun)} waits for a worker, which begins at once.")
        return redirect(admin_url(MaintenanceRun, "change", begun.pk))
    title = "Run maintenance"
    if begun is not None:
        title = f"Lose {counted(begun, 'memory', 'memories')} for good?"
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "opts": model_admin.opts,
        "form": form,
        "operations": OPERATIONS.values(),
        "asks": begun is not None,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/memoryhub/maintenancerun/start.html", context)
