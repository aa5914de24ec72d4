"""Views that create, edit, trash, restore and erase a memory; single fields are also edited inline.

Concurrent edits are merged field by field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect, reselect, reswap, retarget, trigger_client_event

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import ADD_MEMORY, CHANGE_MEMORY, DELETE_MEMORY, ERASE_MEMORY
from memoryhub.core.form_fields import to_sentence
from memoryhub.injection import effects
from memoryhub.memories.rows import list_values
from memoryhub.memories.versions import current_value
from memoryhub.models import Memory
from memoryhub.web.base.requests import HtmxHttpRequest, return_url
from memoryhub.web.injections import PREVIEW, effect_context, render_panel, render_refusal
from memoryhub.web.memories import bulk_actions, filters
from memoryhub.web.memories.bulk_actions import is_allowed
from memoryhub.web.memories.forms import FieldForm, MemoryForm
from memoryhub.web.memories.versions import FieldChange, field_change, redirect_to_memory, state_at, undo_form

_PREFILL_FIELDS = ("project", "session_id", "type", "category")
ERASE_WORD = "erase"
OVER_CAP = (
    "The owner of this memory has more than the cap of its project (max_memories). Delete some of them, or"
    " raise the cap in the settings of the project."
)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(ADD_MEMORY, raise_exception=True)
def memory_new(request: HttpRequest) -> HttpResponse:
    """Create a memory; the query string may prefill project, session, type and category."""
    if request.method == "POST":
        form = MemoryForm(request.POST, full_clearance(request))
        result = form.submit(lambda: memories.create_memory(form.draft, request_actor(request)))
        return _created(request, result) if result else _form_page(request, form, status=422)
    initial = {name: request.GET[name] for name in _PREFILL_FIELDS if request.GET.get(name)}
    return _form_page(request, MemoryForm(None, full_clearance(request), initial=initial))


def _created(request: HttpRequest, result: memories.StoreResult) -> HttpResponse:
    """Redirect to the page of a stored memory, or to the list if it is hidden now."""
    text = {"created": "Stored.", "updated": "A memory with this key existed already. It was updated."}.get(
        result.outcome, "This content was already stored. The existing memory has been refreshed."
    )
    if result.memory.over_cap:
        messages.warning(request, OVER_CAP)
    if hidden := filters.hidden_notice(request, [result.memory]):
        messages.warning(request, f"{text} {hidden}")
        return redirect("memories")
    messages.success(request, text)
    return redirect("memory", uid=result.memory.uid)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def memory_edit(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """Edit a memory; changes that someone else made meanwhile are shown, never overwritten unseen.

    ``next`` in the query string: the page of the review to return to. The button ``effect`` previews the
    change instead of saving it.
    """
    memory = filters.get_visible_memory(request, uid)
    if request.method != "POST":
        if memory.deleted_at:
            messages.warning(request, "This memory is in the trash. Restore it to edit it.")
            return redirect("memory", uid=uid)
        reveal_if_secret(request, memory, "edit")
        return _form_page(request, _memory_form(request, None, memory), memory)
    form = _memory_form(request, request.POST, memory)
    if PREVIEW in request.POST:
        return _preview_effect(request, form, memory)
    if form.is_valid():
        if form.draft is None:
            messages.info(request, "Nothing was changed.")
            return redirect(_next_url(request, memory))
        opened = form.cleaned_data["unchanged_since"]
        try:
            saved = memories.update_memory(uid, form.draft, request_actor(request), unchanged_since=opened)
        except memories.NotFound:
            raise
        except memories.StoreError as refusal:
            if refusal.field == "updated_at":
                return _conflict_page(request, uid, form)
            form.refuse(refusal)
        else:
            return _saved(request, saved, is_changed=saved.updated_at != opened)
    return _form_page(request, form, memory, status=422)


def _find_effect(request: HttpRequest, form: MemoryForm, memory: Memory) -> dict[str, Any]:
    """Return the effect of the submitted change on logged prompts. Nothing is saved."""
    opened = form.cleaned_data["unchanged_since"]

    def change() -> object:
        return memories.update_memory(memory.uid, form.draft, request_actor(request), unchanged_since=opened)

    effect = effects.preview_change(request_clearance(request), change)
    return effect_context(effect, [memory.uid], "this memory")


def _preview_effect(request: HtmxHttpRequest, form: MemoryForm, memory: Memory) -> HttpResponse:
    """Show the effect of the submitted change, or why there is none: below the form, which stays as it is."""
    context: dict[str, Any] = {}
    error = ""
    if form.is_valid():
        try:
            error = "" if form.draft else "You have not changed anything yet."
            context = _find_effect(request, form, memory) if form.draft else {}
        except memories.StoreError as refusal:
            error = to_sentence(refusal.message)
    if request.htmx:
        return render_panel(request, context) if context else render_refusal(request, form, error)
    status = 200 if context else 422
    return _form_page(request, form, memory, status, effect_errors=[error] if error else [], **context)


def _memory_form(request: HttpRequest, data: Mapping[str, Any] | None, memory: Memory) -> MemoryForm:
    return MemoryForm(data, full_clearance(request), memory, shown=request_clearance(request))


def _saved(request: HttpRequest, memory: Memory, *, is_changed: bool) -> HttpResponse:
    """Redirect with an undo message; if the memory is hidden now, to the page before it (``from``)."""
    is_hidden = bool(filters.hidden_notice(request, [memory]))
    text = undo_form(request, memory, "Saved.") if is_changed else "Saved."
    messages.success(request, text)
    if memory.over_cap:
        messages.warning(request, OVER_CAP)
    url = _next_url(request, memory)
    is_its_page = url == reverse("memory", args=[memory.uid])
    if is_hidden and is_its_page:
        url = return_url(request, fields={"next": request.GET.get("from", "")})
    return redirect(url)


def _next_url(request: HttpRequest, memory: Memory) -> str:
    """Return the review that linked to the form, else the page of the memory."""
    return return_url(request, reverse("memory", args=[memory.uid]), "/review/", request.GET)


def _conflict_page(request: HttpRequest, uid: str, form: MemoryForm) -> HttpResponse:
    """Merge the submitted values into the stored ones and name every field that both changed."""
    memory = filters.get_visible_memory(request, uid)
    reveal_if_secret(request, memory, "edit")
    merged, collisions = merge_edits(form, memory, request_clearance(request))
    return _form_page(request, merged, memory, status=409, conflict=True, collisions=collisions)


def _form_page(
    request: HttpRequest, form: MemoryForm, memory: Memory | None = None, status: int = 200, **more: Any
) -> HttpResponse:
    context = {"form": form, "memory": memory, **more}
    if memory:
        context["back"] = _next_url(request, memory)
    return render(request, "memory/form.html", context, status=status)


@require_POST
@permission_required(DELETE_MEMORY, raise_exception=True)
def memory_trash(request: HttpRequest, uid: str) -> HttpResponse:
    """Move to the trash, with a message that can undo it."""
    memory = filters.get_visible_memory(request, uid)
    if memories.trash_memories([uid], request_actor(request)):
        undo = render_to_string("memory/page.html#undo", {"memory": memory}, request=request)
        messages.success(request, undo)
    else:
        messages.info(request, "This memory is already in the trash.")
    return redirect("memories")


@require_POST
def memory_restore(request: HttpRequest, uid: str) -> HttpResponse:
    """Restore a memory from the trash, or one that has expired."""
    if not is_allowed(request, "restore"):
        raise PermissionDenied
    filters.get_visible_memory(request, uid)
    if memories.restore_memories([uid], request_actor(request)):
        messages.success(request, "Restored.")
    else:
        messages.info(request, "This memory is neither in the trash nor expired.")
    return redirect("memory", uid=uid)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(ERASE_MEMORY, raise_exception=True)
def memory_erase(request: HttpRequest, uid: str) -> HttpResponse:
    """Erase a memory permanently once the word ``erase`` is entered."""
    memory = filters.get_visible_memory(request, uid)
    typed = request.POST.get("word", "")
    if request.method == "POST" and typed.strip().lower() == ERASE_WORD:
        memories.erase_memories([uid], request_actor(request))
        messages.success(request, "Erased permanently.")
        return redirect("memories")
    is_wrong = request.method == "POST"
    context = {"memory": memory, "word": ERASE_WORD, "typed": typed, "wrong": is_wrong}
    return render(request, "memory/erase.html", context, status=422 if is_wrong else 200)


def merge_edits(
    form: MemoryForm, memory: Memory, clearance: Clearance, *names: str
) -> tuple[MemoryForm, list[FieldChange]]:
    """Return a merged form, and the fields that both sides changed (stored value and submitted value).

    Fields that the person did not change take the stored value; the others keep the submitted one. The new
    form counts as opened now, so saving it again overwrites. ``names``: the fields of the form, if not all.
    """
    opened: datetime = form.cleaned_data["unchanged_since"]
    then = state_at(memory, opened, clearance)
    data = form.data.copy()  # type: ignore[attr-defined]
    fresh = _make_form(None, form.clearance, memory, names, clearance)
    collisions = []
    for name, field in fresh.fields.items():
        stored = fresh.initial.get(name)
        if name == "unchanged_since" or not field.has_changed(stored, form.data.get(name)):
            continue
        is_untouched = name not in form.changed_data
        if is_untouched or not field.has_changed(then.get(name, stored), form.data.get(name)):
            data[name] = field.prepare_value(stored)
        elif name in then:
            collisions.append(
                field_change(name, current_value(memory, name, clearance), form.cleaned_data[name])
            )
        if field.show_hidden_initial:
            data[form.add_initial_prefix(name)] = field.prepare_value(stored)
    data["unchanged_since"] = fresh.initial["unchanged_since"]
    return _make_form(data, form.clearance, memory, names, clearance), collisions


def _make_form(
    data: Mapping[str, Any] | None,
    clearance: Clearance,
    memory: Memory,
    names: Sequence[str],
    shown: Clearance,
) -> MemoryForm:
    if names:
        return FieldForm(data, clearance, memory, *names)
    return MemoryForm(data, clearance, memory, shown=shown)


FIELDS = ("title", "tags", "importance", "sensitivity")
_FIELD_LABELS = {"sensitivity": "level"}
_FORM_TEMPLATE = "memory/inline.html#form"


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def memory_field(request: HtmxHttpRequest, uid: str, name: str) -> HttpResponse:
    """Show the form of one field, or its value with ``leave``; POST saves it."""
    memory = filters.get_visible_memory(request, uid)
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
            return _save(request, filters.get_visible_memory(request, memory.uid), name)
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
    form, conflicts = merge_edits(form, memory, request_clearance(request), *names)
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
            request, filters.get_visible_memory(request, memory.uid), name, done=True, changed=changed
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
    memory = filters.get_visible_memory(request, uid)
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
        return _row_response(request, filters.get_visible_memory(request, memory.uid), form, back, status=422)
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
