"""The page on which people confirm an action on the selected rows of a list."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from memoryhub.admin.base import is_key

ActionResponse = HttpResponse | None
MAX_ROWS = 2000
_MAX_NAMED_ROWS = 100  # on the confirmation page, unless it must name all


@dataclass(frozen=True)
class SelectedRow:
    """A selected row with its id, its label and the value that will change."""

    pk: int
    uid: str
    label: str
    value: Any = ""


@dataclass(frozen=True)
class Confirmation:
    """The texts of a confirmation page. ``names_all``: list every row, for actions that cannot be undone."""

    title: str
    explanation: str
    button: str
    names_all: bool = False
    danger: bool = False


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the confirmation page was submitted."""
    return "confirmed" in request.POST


def select_rows(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Any],
    label: str,
    value: str = "pk",
    most: int = MAX_ROWS,
) -> list[SelectedRow]:
    """Return the selected rows; none, with a message, if they are too many or gone."""
    if is_confirmed(request):
        keys = [int(key) for key in request.POST.get("keys", "").split(",") if is_key(key)]
        queryset = queryset.filter(pk__in=keys[: most + 1])
    found = queryset.values_list("pk", "uid", label, value)[: most + 1]
    rows = [SelectedRow(pk, uid, called or uid, now) for pk, uid, called, now in found]
    if len(rows) > most:
        text = f"Nothing was changed: at most {most} at once. Narrow the filters."
        model_admin.message_user(request, text, "ERROR")
        return []
    if not rows:
        model_admin.message_user(
            request, "Nothing was changed: none of these can be changed any more.", "WARNING"
        )
    return rows


def render_confirmation(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    action: str,
    question: Confirmation,
    rows: list[SelectedRow],
    form: forms.Form | None = None,
) -> TemplateResponse:
    shown = rows if question.names_all else rows[:_MAX_NAMED_ROWS]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": question.title,
        "opts": model_admin.opts,
        "question": question,
        "action": action,
        "form": form,
        "rows": shown,
        "more": len(rows) - len(shown),
        "total": len(rows),
        "current": Counter(row.value for row in rows).most_common(12) if form else [],
        "keys": ",".join(str(row.pk) for row in rows),
        "checkbox": ACTION_CHECKBOX_NAME,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/memoryhub/bulk.html", context)
