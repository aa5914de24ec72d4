"""Title, tags, importance and level of a memory changed in its row of a list: a part for htmx."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import permission_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_htmx.http import reselect, reswap, retarget

from memoryhub import store
from memoryhub.models import Memory
from memoryhub.web import acts, conflicts, reading
from memoryhub.web.access import actor_of, clearance_of, full_clearance_of, reveal
from memoryhub.web.back import back_of
from memoryhub.web.forms import FieldForm, MemoryForm
from memoryhub.web.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.views.inline import FIELDS


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("memoryhub.change_memory", raise_exception=True)
def memory_row(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """The form, for under the row; POST saves it and leads to ``next``, where a message undoes it."""
    memory = reading.find(request, uid)
    if request.method == "POST":
        return _save(request, memory)
    if not request.htmx:
        return redirect("memory-edit", uid=uid)
    if reading.is_secret(memory.sensitivity):
        reveal(request, memory, "edit")
    form = FieldForm(None, full_clearance_of(request), memory, *FIELDS)
    back = request.htmx.current_url_abs_path or reverse("memories")
    return _shown(request, memory, form, back)


def _save(request: HtmxHttpRequest, memory: Memory) -> HttpResponse:
    back = back_of(request)
    clearance = clearance_of(request)
    typed = FieldForm(request.POST, full_clearance_of(request), memory, *FIELDS)
    form, theirs = conflicts.settle(typed, memory, clearance, *FIELDS)
    if theirs:
        if reading.is_secret(memory.sensitivity):
            reveal(request, memory, "edit")
        return _shown(request, memory, form, back, status=409, theirs=theirs)
    if not form.is_valid():
        return _shown(request, memory, form, back, status=422)
    if form.draft is None:
        return redirect(back)
    values = {name: getattr(form.draft, name) for name in form.draft.given}
    seen = {memory.uid: form.cleaned_data["unchanged_since"]}
    try:
        acted = store.act("set", [memory.uid], actor_of(request), seen=seen, **values)
    except store.StoreError as refusal:
        form.refuse(refusal)
        return _shown(request, memory, form, back, status=422)
    if acted.refused:
        form.refuse(store.StoreError(acted.refused[0][1]))
        return _shown(request, reading.find(request, memory.uid), form, back, status=422)
    acts.tell(request, acted, back)
    return redirect(back)


def _shown(
    request: HtmxHttpRequest, memory: Memory, form: MemoryForm, back: str, status: int = 200, **more: Any
) -> HttpResponse:
    _begin_at_what_is_wrong(form)
    context = {"memory": memory, "form": form, "back": back, **more}
    if not request.htmx:
        return render(
            request, "memory/inline/page.html", context | {"part": "memory/inline/row.html"}, status=status
        )
    # htmx shows what comes with 422, and takes other refusals for failures.
    response = render(request, "memory/inline/row.html", context, status=422 if status == 409 else status)
    patch_vary(response)
    if status != 200:  # in the place of the form, which else brings the list anew
        place = f"#row-{memory.uid}"
        response = reswap(reselect(retarget(response, place), place), "outerHTML")
    return response


def _begin_at_what_is_wrong(form: MemoryForm) -> None:
    """The focus goes to the first field with an error, else to where it goes anyway."""
    wrong = next((field.field for field in form.visible_fields() if field.errors), None)
    if wrong is not None:
        for field in form.fields.values():
            field.widget.attrs.pop("autofocus", None)
        wrong.widget.attrs["autofocus"] = True
