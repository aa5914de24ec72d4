"""Edit single fields of a memory inline, on its page or in a list row."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect, reselect, reswap, retarget, trigger_client_event

from memoryhub import memories
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import CHANGE_MEMORY
from memoryhub.memories.rows import list_values
from memoryhub.models import Memory
from memoryhub.web.base.requests import HtmxHttpRequest, return_url
from memoryhub.web.memories import bulk_actions, edit, queries
from memoryhub.web.memories.forms import FieldForm, MemoryForm
from memoryhub.web.memories.versions import FieldChange, redirect_to_memory, undo_form

FIELDS = ("title", "tags", "importance", "sensitivity")
_FIELD_LABELS = {"sensitivity": "level"}
_FORM_TEMPLATE = "memory/inline.html#form"


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def memory_field(request: HtmxHttpRequest, uid: str, name: str) -> HttpResponse:
    """Show the form of one field, or its value with ``leave``; POST saves it."""
    memory = queries.get_visible_memory(request, uid)
    if request.method == "POST":
        return _save(request, memory, name)
    if not request.htmx:
        return redirect(f"{reverse('memory-edit', args=[uid])}#id_{name}")
    if "leave" in request.GET:
        return _text_response(request, memory, name)
    reveal_if_secret(request, memory, "edit")
    return _form_response(request, memory, FieldForm(None, full_clearance(request), memory, name), name)


def _save(request: HtmxHttpRequest, memory: Memory, name: str) -> HttpResponse:
    form, theirs = _submitted_form(request, memory, name)
    if theirs:
        return _form_response(request, memory, form, name, status=409, theirs=theirs[0])
    if not form.is_valid():
        return _form_response(request, memory, form, name, status=422)
    if form.draft is None:
        return _saved_response(request, memory, name, changed=False)
    opened = form.cleaned_data["unchanged_since"]
    try:
        saved = memories.update_memory(memory.uid, form.draft, request_actor(request), unchanged_since=opened)
    except memories.NotFound:
        raise
    except memories.StoreError as refusal:
        if refusal.field == "updated_at":  # a concurrent change, found while saving
            return _save(request, queries.get_visible_memory(request, memory.uid), name)
        form.refuse(refusal)
        return _form_response(request, memory, form, name, status=422)
    return _saved_response(request, saved, name, changed=saved.updated_at != opened)


def _submitted_form(
    request: HtmxHttpRequest, memory: Memory, *names: str
) -> tuple[MemoryForm, list[FieldChange]]:
    """Return the form merged with concurrent changes, and the conflicts, which reveal a secret."""
    form: MemoryForm = FieldForm(request.POST, full_clearance(request), memory, *names)
    if not form.is_valid() or memory.updated_at == form.cleaned_data["unchanged_since"]:
        return form, []
    form, conflicts = edit.merge_edits(form, memory, request_clearance(request), *names)
    if conflicts:
        reveal_if_secret(request, memory, "edit")
    return form, conflicts


def _saved_response(request: HtmxHttpRequest, memory: Memory, name: str, *, changed: bool) -> HttpResponse:
    """Show the value with an undo message; redirect if the memory is hidden now, or without htmx."""
    if changed:
        text = f"The {_FIELD_LABELS.get(name, name)} {'are' if name == 'tags' else 'is'} saved."
        messages.success(request, undo_form(request, memory, text))
    else:
        messages.info(request, "Nothing was changed.")
    if request.htmx and request_clearance(request).allows(memory.project, memory.sensitivity):
        response = _text_response(
            request, queries.get_visible_memory(request, memory.uid), name, done=True, changed=changed
        )
        return trigger_client_event(response, "memory-changed") if changed else response
    response = redirect_to_memory(request, memory)
    return HttpResponseClientRedirect(response["Location"]) if request.htmx else response


def _text_response(request: HtmxHttpRequest, memory: Memory, name: str, **more: Any) -> HttpResponse:
    context = {"memory": memory, "name": name, "shown_by": f"memory/inline.html#{name}", **more}
    if name == "tags":
        context["tags"] = list_values(memory, name)
    return render(request, "memory/inline.html#shown", context)


def _form_response(
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
        "back": return_url(request, "", fields=request.POST or request.GET),
        "part": _FORM_TEMPLATE,
    }
    template = _FORM_TEMPLATE if request.htmx else "memory/inline.html"
    # htmx swaps in a 422 response, and treats other 4xx codes as failures.
    return render(request, template, context, status=422 if request.htmx and status == 409 else status)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def memory_row(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """Show the form below the row; POST saves it and redirects to ``next``, with an undo message."""
    memory = queries.get_visible_memory(request, uid)
    if request.method == "POST":
        return _save_row(request, memory)
    if not request.htmx:
        return redirect("memory-edit", uid=uid)
    reveal_if_secret(request, memory, "edit")
    form = FieldForm(None, full_clearance(request), memory, *FIELDS)
    back = request.htmx.current_url_abs_path or reverse("memories")
    return _row_response(request, memory, form, back)


def _save_row(request: HtmxHttpRequest, memory: Memory) -> HttpResponse:
    back = return_url(request)
    form, theirs = _submitted_form(request, memory, *FIELDS)
    if theirs:
        return _row_response(request, memory, form, back, status=409, theirs=theirs)
    if not form.is_valid():
        return _row_response(request, memory, form, back, status=422)
    if form.draft is None:
        return redirect(back)
    values = {name: getattr(form.draft, name) for name in form.draft.given}
    seen = {memory.uid: form.cleaned_data["unchanged_since"]}
    try:
        acted = memories.apply_bulk_action("set", [memory.uid], request_actor(request), seen=seen, **values)
    except memories.StoreError as refusal:
        form.refuse(refusal)
        return _row_response(request, memory, form, back, status=422)
    if acted.refused:
        form.refuse(memories.StoreError(acted.refused[0][1]))
        return _row_response(request, queries.get_visible_memory(request, memory.uid), form, back, status=422)
    bulk_actions.add_result_messages(request, acted, back)
    return redirect(back)


def _row_response(
    request: HtmxHttpRequest, memory: Memory, form: MemoryForm, back: str, status: int = 200, **more: Any
) -> HttpResponse:
    _focus_first_error(form)
    context = {"memory": memory, "form": form, "back": back, **more}
    if not request.htmx:
        return render(
            request, "memory/inline.html", context | {"part": "memory/inline.html#row"}, status=status
        )
    # htmx swaps in a 422 response, and treats other 4xx codes as failures.
    response = render(request, "memory/inline.html#row", context, status=422 if status == 409 else status)
    if status != 200:  # replace the form instead of the list
        target = f"#row-{memory.uid}"
        response = reswap(reselect(retarget(response, target), target), "outerHTML")
    return response


def _focus_first_error(form: MemoryForm) -> None:
    """Move the focus to the first field with an error, if any."""
    invalid = next((field.field for field in form.visible_fields() if field.errors), None)
    if invalid is not None:
        for field in form.fields.values():
            field.widget.attrs.pop("autofocus", None)
        invalid.widget.attrs["autofocus"] = True
