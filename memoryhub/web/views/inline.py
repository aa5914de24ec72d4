"""Changing one field of a memory where it stands on its page: a fragment for htmx, a page without."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event

from memoryhub import store
from memoryhub.models import Memory
from memoryhub.store.versions import current
from memoryhub.web import conflicts, reading
from memoryhub.web.access import actor_of, clearance_of, full_clearance_of, reveal
from memoryhub.web.forms import FieldForm, MemoryForm
from memoryhub.web.history import FieldChange
from memoryhub.web.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.views.versions import shown, undo_form

FIELDS = ("title", "tags", "importance", "sensitivity")
_CALLED = {"sensitivity": "level"}
_NOTHING = "Nothing was changed."
_PART = "memory/inline/form.html"


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("memoryhub.change_memory", raise_exception=True)
def memory_field(request: HtmxHttpRequest, uid: str, name: str) -> HttpResponse:
    """The form of one field, or the field as text with ``leave``; POST saves it."""
    memory = reading.find(request, uid)
    if request.method == "POST":
        return _save(request, memory, name)
    if not request.htmx:
        return redirect(f"{reverse('memory-edit', args=[uid])}#id_{name}")
    if "leave" in request.GET:
        return _text(request, memory, name)
    if reading.is_secret(memory.sensitivity):
        reveal(request, memory, "edit")
    return _form(request, memory, FieldForm(None, full_clearance_of(request), memory, name), name)


def _save(request: HtmxHttpRequest, memory: Memory, name: str) -> HttpResponse:
    clearance = clearance_of(request)
    typed = FieldForm(request.POST, full_clearance_of(request), memory, name)
    form, theirs = conflicts.settle(typed, memory, clearance, name)
    if theirs:
        if reading.is_secret(memory.sensitivity):
            reveal(request, memory, "edit")
        return _form(request, memory, form, name, status=409, theirs=theirs[0])
    if not form.is_valid():
        return _form(request, memory, form, name, status=422)
    if form.draft is None:
        return _done(request, memory, name, changed=False)
    opened = form.cleaned_data["unchanged_since"]
    try:
        saved = store.update(memory.uid, form.draft, actor_of(request), unchanged_since=opened)
    except store.NotFound:
        raise Http404 from None
    except store.StoreError as refusal:
        if refusal.field == "updated_at":  # somebody was quicker by a moment
            return _save(request, reading.find(request, memory.uid), name)
        form.refuse(refusal)
        return _form(request, memory, form, name, status=422)
    return _done(request, saved, name, changed=saved.updated_at != opened)


def _done(request: HtmxHttpRequest, memory: Memory, name: str, *, changed: bool) -> HttpResponse:
    """The field as text with a button that undoes the change; or elsewhere, when it may not be seen now."""
    said = undo_form(request, memory, _saved(name)) if changed else _NOTHING
    is_seen = clearance_of(request).opens(memory.project, memory.sensitivity)
    messages.add_message(request, messages.SUCCESS if changed else messages.INFO, said)
    if request.htmx and is_seen:
        response = _text(request, reading.find(request, memory.uid), name, done=True, changed=changed)
        return trigger_client_event(response, "memory-changed") if changed else response
    response = shown(request, memory)
    return HttpResponseClientRedirect(response["Location"]) if request.htmx else response


def _saved(name: str) -> str:
    return f"The {_CALLED.get(name, name)} {'are' if name == 'tags' else 'is'} saved."


def _text(request: HtmxHttpRequest, memory: Memory, name: str, **more: Any) -> HttpResponse:
    context = {"memory": memory, "name": name, "shown_by": f"memory/inline/{name}.html", **more}
    if name == "tags":
        context["tags"] = current(memory, name)
    response = render(request, "memory/inline/shown.html", context)
    patch_vary(response)
    return response


def _form(
    request: HtmxHttpRequest,
    memory: Memory,
    form: MemoryForm,
    name: str,
    status: int = 200,
    theirs: FieldChange | None = None,
) -> HttpResponse:
    element = SafeString("dd" if request.htmx and name != "title" else "div")
    context = {
        "memory": memory,
        "name": name,
        "form": form,
        "field": form[name],
        "element": element,
        "theirs": theirs,
        "part": _PART,
    }
    template = _PART if request.htmx else "memory/inline/page.html"
    # htmx shows what comes with 422, and takes other refusals for failures.
    response = render(request, template, context, status=422 if request.htmx and status == 409 else status)
    patch_vary(response)
    return response
