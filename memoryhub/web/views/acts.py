"""One thing done to many memories, and taken back: what every list's bar and a review post to."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from memoryhub import store
from memoryhub.models import Memory
from memoryhub.web import acts
from memoryhub.web.access import actor_of, clearance_of, full_clearance_of
from memoryhub.web.back import back_of
from memoryhub.web.selection import chosen


@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """``act``: what to do; ``uid``: to which memories, many; values by name; ``next``: where to go on.

    A ``uid`` may say which version was read (:func:`memoryhub.web.selection.ticked`): what was changed since
    is left as it is. With ``every``: to all memories that the list at the address ``list`` shows, on all of
    its pages.

    Leads to ``next``, where a message tells what was done and undoes it; htmx follows and takes from that
    page what it needs. A single memory that may not be seen is not there.
    """
    back = back_of(request)
    seen = clearance_of(request)
    try:
        wanted = acts.asked(request.POST, full_clearance_of(request))
        if wanted.kind in acts.PERMISSIONS and not acts.may(request, wanted.kind):
            raise PermissionDenied
        found = chosen(request.POST, seen)
        if not found.uids:
            raise store.StoreError("nothing was chosen; tick what it is to be done to", "uid")
        acted = store.act(wanted.kind, found.uids, actor_of(request), seen=found.seen, **wanted.values)
    except store.StoreError as refusal:
        messages.error(request, f"Nothing was changed: {refusal.message}.")
        return redirect(back)
    if len(found.uids) == 1 and acted.refused and not _is_there(request, found.uids[0]):
        raise Http404
    acts.tell(request, acted, back)
    return redirect(back)


@require_POST
def act_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """``first`` and ``last``: the journal numbers that came with the act; only who did it takes it back."""
    first, last = (acts.number(request.POST.get(name, "")) for name in ("first", "last"))
    undone = acts.taken_back(request, uid, first, last)
    acts.tell_undone(request, undone)
    return redirect(back_of(request))


def _is_there(request: HttpRequest, uid: str) -> bool:
    return bool(Memory.objects.visible_to(clearance_of(request)).filter(uid=uid).exists())
