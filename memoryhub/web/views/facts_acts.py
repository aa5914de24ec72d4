"""Many facts at once: they hold no more, which can be undone, or are deleted for good, which cannot."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST

from memoryhub import facts as fact_store
from memoryhub.models import Fact
from memoryhub.store import NotFound, StoreError
from memoryhub.web.access import actor_of, clearance_of
from memoryhub.web.acts import number, were_changed
from memoryhub.web.back import back_of
from memoryhub.web.htmx import HtmxHttpRequest
from memoryhub.web.selection import ticked

_HOME = "/facts/"


@require_POST
@permission_required("memoryhub.change_fact", raise_exception=True)
def facts_end(request: HtmxHttpRequest) -> HttpResponse:
    """``uid``: the facts that hold no more from now on."""
    back = back_of(request, _HOME)
    try:
        found = ticked(request.POST.getlist("uid"))
        ended = fact_store.end_facts(found.uids, actor_of(request), seen=found.seen)
    except StoreError as refusal:
        messages.error(request, f"Nothing was changed: {refusal.message}.")
        return redirect(back)
    if ended.facts:
        context = {"ended": ended, "told": _facts(len(ended.facts), "holds", "hold"), "back": back}
        messages.success(request, render_to_string("facts/ended.html", context, request=request))
    elif not ended.outdated:
        messages.warning(request, "Nothing was chosen that holds now; tick what holds no more.")
    _tell_changed(request, len(ended.outdated))
    return redirect(back)


@require_POST
@permission_required("memoryhub.change_fact", raise_exception=True)
def facts_end_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """``first`` and ``last``: the journal numbers; only who ended the facts takes it back."""
    first, last = (number(request.POST.get(name, "")) for name in ("first", "last"))
    try:
        again = fact_store.begin_again(uid, actor_of(request), first, last)
    except NotFound:
        raise Http404 from None
    if again:
        messages.success(request, f"Taken back: {_facts(len(again), 'holds', 'hold')} again.")
    else:
        messages.warning(request, "Nothing was taken back: it was changed since.")
    return redirect(back_of(request, _HOME))


@require_POST
@permission_required("memoryhub.delete_fact", raise_exception=True)
def facts_delete(request: HttpRequest) -> HttpResponse:
    """``uid``: the facts to delete for good. Asks first, and names them as they are now."""
    back = back_of(request, _HOME)
    found = ticked(request.POST.getlist("uid")[: fact_store.MOST])
    there = Fact.objects.visible_to(clearance_of(request)).filter(uid__in=found.uids)
    if request.POST.get("confirmed") == "yes":
        gone = fact_store.delete_facts(found.uids, actor_of(request), seen=found.seen)
        messages.success(request, f"{_facts(len(gone), 'is', 'are')} deleted for good.")
        _tell_changed(request, there.count())
        return redirect(_HOME if back in {reverse("fact", args=[fact.uid]) for fact in gone} else back)
    chosen = list(there.order_by("-pk"))
    if not chosen:
        messages.warning(request, "Nothing was chosen; tick what is to be deleted.")
        return redirect(back)
    return render(request, "facts/delete.html", {"chosen": chosen, "back": back, "action": request.path})


def _tell_changed(request: HttpRequest, count: int) -> None:
    if count:
        messages.warning(request, were_changed(_facts(count), count))


def _facts(count: int, one: str = "", more: str = "") -> str:
    return (f"1 fact {one}" if count == 1 else f"{count} facts {more}").rstrip()
