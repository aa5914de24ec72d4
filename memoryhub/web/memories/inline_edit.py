"""Change single fields of a memory on its page or in its list row."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect, reselect, reswap, retarget, trigger_client_event

from memoryhub import memories
from memoryhub.accounts.clearance import actor_of, clearance_of, full_clearance_of, reveal
from memoryhub.memories.versions import current
from memoryhub.models import Memory
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import back_of
from memoryhub.web.memories import bulk_actions, edit_conflicts, queries
from memoryhub.web.memories.forms import FieldForm, MemoryForm
from memoryhub.web.memories.revisions import FieldChange
from memoryhub.web.memories.versions import shown, undo_form

FIELDS = ("title", "tags", "importance", "sensitivity")
_CALLED = {"sensitivity": "level"}
_NOTHING = "Nothing was changed."
_PART = "memory/inline/form.html"


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("memoryhub.change_memory", raise_exception=True)
def memory_field(request: HtmxHttpRequest, uid: str, name: str) -> HttpResponse:
    """The form of one field, or the field as text with ``leave``; POST saves it."""
    memory = queries.find(request, uid)
    if request.method == "POST":
        return _save(request, memory, name)
    if not request.htmx:
        return redirect(f"{reverse('memory-edit', args=[uid])}#id_{name}")
    if "leave" in request.GET:
        return _text(request, memory, name)
    if queries.is_secret(memory.sensitivity):
        reveal(request, memory, "edit")
    return _form(request, memory, FieldForm(None, full_clearance_of(request), memory, name), name)


def _save(request: HtmxHttpRequest, memory: Memory, name: str) -> HttpResponse:
    clearance = clearance_of(request)
    typed = FieldForm(request.POST, full_clearance_of(request), memory, name)
    form, theirs = edit_conflicts.settle(typed, memory, clearance, name)
    if theirs:
        if queries.is_secret(memory.sensitivity):
            reveal(request, memory, "edit")
        return _form(request, memory, form, name, status=409, theirs=theirs[0])
    if not form.is_valid():
        return _form(request, memory, form, name, status=422)
    if form.draft is None:
        return _done(request, memory, name, changed=False)
    opened = form.cleaned_data["unchanged_since"]
    try:
        saved = memories.update(memory.uid, form.draft, actor_of(request), unchanged_since=opened)
    except memories.NotFound:
        raise Http404 from None
    except memories.StoreError as refusal:
        if refusal.field == "updated_at":  # somebody was quicker by a moment
            return _save(request, queries.find(request, memory.uid), name)
        form.refuse(refusal)
        return _form(request, memory, form, name, status=422)
    return _done(request, saved, name, changed=saved.updated_at != opened)


def _done(request: HtmxHttpRequest, memory: Memory, name: str, *, changed: bool) -> HttpResponse:
    """The field as text with a button that undoes the change; or elsewhere, when it may not be seen now."""
    said = undo_form(request, memory, _saved(name)) if changed else _NOTHING
    is_seen = clearance_of(request).opens(memory.project, memory.sensitivity)
    messages.add_message(request, messages.SUCCESS if changed else messages.INFO, said)
    if request.htmx and is_seen:
        response = _text(request, queries.find(request, memory.uid), name, done=True, changed=changed)
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


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("memoryhub.change_memory", raise_exception=True)
def memory_row(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """The form, for under the row; POST saves it and leads to ``next``, where a message undoes it."""
    memory = queries.find(request, uid)
    if request.method == "POST":
        return _save_row(request, memory)
    if not request.htmx:
        return redirect("memory-edit", uid=uid)
    if queries.is_secret(memory.sensitivity):
        reveal(request, memory, "edit")
    form = FieldForm(None, full_clearance_of(request), memory, *FIELDS)
    back = request.htmx.current_url_abs_path or reverse("memories")
    return _shown(request, memory, form, back)


def _save_row(request: HtmxHttpRequest, memory: Memory) -> HttpResponse:
    back = back_of(request)
    clearance = clearance_of(request)
    typed = FieldForm(request.POST, full_clearance_of(request), memory, *FIELDS)
    form, theirs = edit_conflicts.settle(typed, memory, clearance, *FIELDS)
    if theirs:
        if queries.is_secret(memory.sensitivity):
            reveal(request, memory, "edit")
        return _shown(request, memory, form, back, status=409, theirs=theirs)
    if not form.is_valid():
        return _shown(request, memory, form, back, status=422)
    if form.draft is None:
        return redirect(back)
    values = {name: getattr(form.draft, name) for name in form.draft.given}
    seen = {memory.uid: form.cleaned_data["unchanged_since"]}
    try:
        acted = memories.act("set", [memory.uid], actor_of(request), seen=seen, **values)
    except memories.StoreError as refusal:
        form.refuse(refusal)
        return _shown(request, memory, form, back, status=422)
    if acted.refused:
        form.refuse(memories.StoreError(acted.refused[0][1]))
        return _shown(request, queries.find(request, memory.uid), form, back, status=422)
    bulk_actions.tell(request, acted, back)
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
