"""Facts: looked through and added; before one is deleted, a page that asks."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub import fact_names, store
from memoryhub import facts as fact_store
from memoryhub.encoding import segmentation
from memoryhub.models import Fact
from memoryhub.querysets import FactQuerySet
from memoryhub.retrieval import paging
from memoryhub.sensitivity import Clearance
from memoryhub.web.access import actor_of, clearance_of, full_clearance_of
from memoryhub.web.back import back_of
from memoryhub.web.fact_filters import GraphAddress, suggested_predicates
from memoryhub.web.filters import FactFilter
from memoryhub.web.forms import FactForm
from memoryhub.web.graph_index import key_of

PAGE = 30
_CHANGE = "memoryhub.change_fact"
_PREFILLED = ("subject", "predicate", "object", "project", "session_id", "memory_id")


@require_http_methods(["GET", "HEAD", "POST"])
def facts(request: HttpRequest) -> HttpResponse:
    """The table; POST stores a fact."""
    if request.method == "POST":
        return _add(request)
    return _table(request, FactForm(None, full_clearance_of(request), initial=_start(request)))


@permission_required("memoryhub.add_fact", raise_exception=True)
def _add(request: HttpRequest) -> HttpResponse:
    form = FactForm(request.POST, full_clearance_of(request))
    if form.is_valid():
        try:
            fact, is_new = fact_store.store_fact(form.draft, actor_of(request))
        except store.StoreError as refusal:
            form.refuse(refusal)
        else:
            told = "Stored." if is_new else "This fact was there already: its confidence is updated."
            messages.success(request, told + _out_of_sight(request, fact))
            return redirect("memory", uid=fact.memory.uid) if fact.memory else redirect("facts")
    return _table(request, form, status=422)


def _out_of_sight(request: HttpRequest, fact: Fact) -> str:
    """What brings a fact into sight that was stored under a level whose switch is off."""
    if clearance_of(request).opens(fact.project, fact.sensitivity):
        return ""
    return f" It is {fact.sensitivity}: turn on the switch of that level to see it."


def _start(request: HttpRequest) -> dict[str, Any]:
    """What the address fills into the form, when it says ``add``."""
    if "add" not in request.GET:
        return {}
    return {name: request.GET[name] for name in _PREFILLED if request.GET.get(name)}


def _table(request: HttpRequest, add: FactForm, status: int = 200) -> HttpResponse:
    form = FactFilter({} if "add" in request.GET or request.method == "POST" else request.GET)
    valid = form.is_valid()
    rows = _select(clearance_of(request), form) if valid else Fact.objects.none()
    cursor = request.GET.get("cursor")
    try:
        page = paging.page(rows, "updated_at", PAGE, cursor)
    except paging.BadCursor as error:
        raise BadRequest(str(error)) from None
    context = {
        "form": form,
        "add": add,
        "add_open": add.is_bound or "add" in request.GET,
        "page": page,
        "first": not cursor,
        "hidden_marks": valid and form.leaves_out_marks() and _has_marks(request),
        "graph": _graph(request, form) if valid else "",
        "conflicts": GraphAddress(request.GET).conflicts(subject=form.value("subject")) if valid else "",
        "predicates": suggested_predicates(clearance_of(request), form.value("project") if valid else ""),
        "may_reinstate": valid and bool(form.value("state")) and request.user.has_perm(_CHANGE),
    }
    return render(request, "facts/page.html", context, status=status if valid else 422)


def _has_marks(request: HttpRequest) -> bool:
    return Fact.objects.visible_to(clearance_of(request)).filter(segmentation.MARKS).exists()


def _graph(request: HttpRequest, form: FactFilter) -> str:
    """The same facts as a graph, as far as it has these filters."""
    opened = form.value("thing") or form.value("subject")
    return GraphAddress(request.GET).of([key_of(opened)] if opened else [])


def _select(clearance: Clearance, form: FactFilter) -> FactQuerySet:
    """Names are found however they are written; an object exactly when that is asked for."""
    exact, subject, predicate = form.value("how") == "exact", form.value("subject"), form.value("predicate")
    rows = fact_store.query_facts(
        clearance,
        **{name: form.value(name) for name in ("project", "session_id")},
        object=form.value("object") if exact else "",
        min_confidence=form.value("min_confidence") or 0.0,
        ended={"": False, "ended": True}.get(form.value("state")),
    )
    if form.leaves_out_marks():
        rows = rows.exclude(segmentation.MARKS)
    if subject:
        rows = rows.filter(fact_names.named("subject", subject))
    if predicate:
        rows = fact_names.saying(rows, predicate)
    if form.value("thing"):
        rows = rows.filter(fact_names.about(form.value("thing")))
    return rows if exact or not form.value("object") else rows.filter(object__icontains=form.value("object"))


@require_safe
def fact(request: HttpRequest, uid: str) -> HttpResponse:
    """One fact, and where to look on from it."""
    visible = Fact.objects.visible_to(clearance_of(request)).select_related("memory", "superseded_by")
    found = visible.filter(uid=uid).first()
    if found is None:
        raise Http404
    context = {"fact": found, "facts": [found], "may_reinstate": request.user.has_perm(_CHANGE)}
    return render(request, "facts/one.html", context)


@require_POST
@permission_required("memoryhub.delete_fact", raise_exception=True)
def fact_delete(request: HttpRequest, uid: str) -> HttpResponse:
    """Ask whether this fact is to be deleted for good; the answer goes where many are deleted at once."""
    found = Fact.objects.visible_to(clearance_of(request)).filter(uid=uid).first()
    if found is None:
        raise Http404
    context = {"chosen": [found], "back": back_of(request, "/facts/"), "action": reverse("facts-delete")}
    return render(request, "facts/delete.html", context)
