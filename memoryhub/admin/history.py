"""The history page of an object: its rows in the journal and, of a memory, its earlier versions."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from memoryhub.models import JournalEntry, Memory
from memoryhub.retrieval.history import revisions
from memoryhub.team.accounts import clearance_of

_PER_PAGE = 100


def history_page(
    model_admin: ModelAdmin[Any], request: HttpRequest, obj: Any, journal_type: str, uid: str
) -> TemplateResponse:
    """Newest first, as far as the person may see; of versions which fields were replaced, not their texts."""
    clearance = clearance_of(request)
    rows = JournalEntry.objects.visible_to(clearance)
    rows = rows.filter(object_type=journal_type, object_id=uid).order_by("-seq")
    paginator = Paginator(rows, _PER_PAGE)
    page = paginator.get_page(request.GET.get("p"))
    opts = model_admin.opts
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"History of {opts.verbose_name} {uid}",
        "object": obj,
        "uid": uid,
        "opts": opts,
        "module_name": capfirst(str(opts.verbose_name_plural)),
        "rows": page,
        "page_range": paginator.get_elided_page_range(page.number),
        "versions": revisions(obj, clearance)[:_PER_PAGE] if isinstance(obj, Memory) else [],
    }
    return TemplateResponse(request, "admin/memoryhub/object_history.html", context)
