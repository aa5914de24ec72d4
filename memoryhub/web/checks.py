"""Memory checks: their page, the form, and running them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub import checks
from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.accounts.permissions import CHANGE_MEMORY
from memoryhub.checks import MAX_PROMPT, CheckDraft
from memoryhub.core.form_fields import (
    ConcurrentEditMixin,
    LinesField,
    ShownValuesField,
    TextField,
    make_draft,
)
from memoryhub.core.text import is_uid
from memoryhub.memories.rows import fetch_by_uids
from memoryhub.models import Memory, MemoryCheck
from memoryhub.search.hybrid import search_memories
from memoryhub.web.base.forms import PlainForm, ProjectField
from memoryhub.web.base.requests import cursor_page

PAGE_SIZE, MAX_ON_HOME, MAX_READ_FOR_HOME = 50, 5, 100
MAX_MATCHES, MAX_SEARCH_CHARS = 8, 400  # of the search for a memory in the form
_LINES = "One per line."
_SEARCH = "Search by words of the memory, or enter its id."


def _lines_field(label: str, help_text: str = _LINES) -> LinesField:
    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})
    return LinesField(max_length=5000, label=label, help_text=help_text, widget=widget)


class MemoriesInput(forms.Textarea):
    """Ids of memories: those of ticked boxes or of lines, and those in the search box ``NAME_search``."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        typed = data.get(f"{name}_search", "")[:MAX_SEARCH_CHARS].split()
        return "\n".join([*data.getlist(name), *filter(is_uid, typed)])


def _memories_field(label: str) -> LinesField:
    return LinesField(max_length=5000, label=label, help_text=_SEARCH, widget=MemoriesInput)


class CheckForm(ConcurrentEditMixin, PlainForm):
    """The fields of :class:`CheckDraft`."""

    ids = "for_%s"

    prompt = TextField(
        required=True,
        strip=True,
        max_length=MAX_PROMPT,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Type what an agent would be asked."},
    )
    project = ProjectField(help_text="The project of the prompt.")
    level = forms.ChoiceField(label="Highest level", choices=[(one, one.capitalize()) for one in LEVELS])
    must_bring = _memories_field("Must return these memories")
    must_words = _lines_field("Must return a memory with these words", "One word or phrase per line.")
    never_bring = _memories_field("Must never return these memories")
    never_words = _lines_field("Must never return a memory with these words", "One word or phrase per line.")
    never_projects = _lines_field("Must never return memories of these projects")
    never_level = forms.ChoiceField(
        label="Must never return memories of this level",
        required=False,
        choices=[("", "None"), ("private", "Private or secret"), ("secret", "Secret")],
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Run it daily and after maintenance")
    unchanged_since = ShownValuesField()

    def clean(self) -> dict[str, Any]:
        super().clean()
        if not any(self.data.get(name) or self.cleaned_data.get(name) for name in checks.EXPECTATIONS):
            raise forms.ValidationError("Add at least one memory, word, project or level to check for.")
        return self.cleaned_data


@dataclass(frozen=True)
class MemoryChoice:
    """The memories that a field of the form offers: the chosen ones and the matches of its search.

    ``erased``: chosen ids of which no memory is visible.
    """

    chosen: list[Memory]
    erased: list[str]
    matches: list[Memory]
    typed: str


@dataclass(frozen=True)
class CheckRow:
    """A check for display. ``failures`` is None if the viewer may not see the result or there is none."""

    check: MemoryCheck
    must: list[tuple[str, str]]
    never: list[tuple[str, str]]
    never_projects: list[str]
    failures: list[str] | None
    is_hidden: bool


@require_safe
def checks_page(request: HttpRequest) -> HttpResponse:
    """List the checks of the projects that the person sees."""
    clearance = request_clearance(request)
    listed = cursor_page(request, checks.visible_checks(clearance), "created_at", PAGE_SIZE)
    context = {
        **listed,
        "rows": _rows(listed["page"].items, clearance),
        "may_change": request.user.has_perm(CHANGE_MEMORY),
    }
    return render(request, "checks/page.html", context)


def _rows(shown: list[MemoryCheck], clearance: Clearance) -> list[CheckRow]:
    named = [one.uid for check in shown for one in check.memories.all()]
    memories = Memory.objects.visible_to(clearance).filter(uid__in=named)
    titles = {one.uid: policy.display_name(one) for one in memories}
    return [_row(check, clearance, titles) for check in shown]


def _row(check: MemoryCheck, clearance: Clearance, titles: dict[str, str]) -> CheckRow:
    may_see = checks.may_see_result(check, clearance)
    failures = None
    if may_see and check.passed is not None:
        failures = checks.describe_failures(check.result.get("failures", []), clearance)
    must, never = ([(uid, titles.get(uid, "")) for uid in check.uids(rule)] for rule in ("must", "never"))
    projects = [one for one in check.never_projects if clearance.includes_project(one)]
    return CheckRow(check, must, never, projects, failures, not may_see)


def failed_checks(clearance: Clearance) -> list[CheckRow]:
    """Return checks that failed, for Home: only those whose result the viewer may see."""
    failed = checks.visible_checks(clearance).filter(enabled=True, passed=False)[:MAX_READ_FOR_HOME]
    rows = [row for row in _rows(list(failed), clearance) if row.failures]
    return rows[:MAX_ON_HOME]


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def check_new(request: HttpRequest) -> HttpResponse:
    """Create a check. With ``start``, the form begins with a prompt of the recall preview."""
    if request.method != "POST":
        return _render_form(request, CheckForm())
    if "start" in request.POST:
        return _render_form(request, _typed_form(request, "prompt", "project", "must_bring"))
    return _save(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required(CHANGE_MEMORY, raise_exception=True)
def check_edit(request: HttpRequest, uid: str) -> HttpResponse:
    """Change a check. The person who saves it becomes its owner."""
    check = _find(request, uid)
    if request.method == "POST":
        return _save(request, check)
    return _render_form(request, CheckForm(initial=checks.to_draft(check)), check)


def _typed_form(request: HttpRequest, *names: str) -> CheckForm:
    """Return a form that starts with the submitted values, all of them or those with these names."""
    fields = CheckForm().fields
    typed = {
        name: fields[name].widget.value_from_datadict(request.POST, request.FILES, name)
        for name in names or fields
    }
    return _form_with(typed, request.POST.get("unchanged_since", ""))


def _form_with(values: Mapping[str, Any], unchanged_since: str = "") -> CheckForm:
    """Return a form with values that may differ from those that ``unchanged_since`` identifies."""
    form = CheckForm(initial=values)
    form.initial["unchanged_since"] = unchanged_since
    return form


def _save(request: HttpRequest, check: MemoryCheck | None) -> HttpResponse:
    """Save a check. With ``find``, show the memories that match the search boxes instead."""
    if "find" in request.POST:
        return _render_form(request, _typed_form(request), check)
    before = checks.to_draft(check) if check else None
    form, actor = CheckForm(request.POST, initial=before), request_actor(request)

    def save() -> MemoryCheck | None:
        draft = make_draft(form, CheckDraft, form.cleaned_data)
        if draft is None:
            return None
        return checks.update_check(check.uid, draft, actor) if check else checks.create_check(draft, actor)

    if (saved := form.submit(save)) is None:
        return _render_form(request, form, check, 422)
    failures = checks.run_check(saved, actor.clearance)
    done = f"Check saved. {'It fails.' if failures else 'It passes.'}"
    if before:
        stored = CheckForm(initial=checks.to_draft(_find(request, saved.uid)))
        undo = _form_with(before, stored.initial["unchanged_since"])
        done = _undo_message(request, undo, done, check)
    messages.success(request, done)
    return redirect("memory-checks")


def _undo_message(
    request: HttpRequest, before: CheckForm, done: str, check: MemoryCheck | None = None
) -> str:
    """Return a message with a form that restores the values of a check, or creates it again."""
    context = {"form": before, "done": done, "check": check}
    return render_to_string("checks/page.html#undo", context, request=request)


@require_POST
@permission_required(CHANGE_MEMORY, raise_exception=True)
def check_delete(request: HttpRequest, uid: str) -> HttpResponse:
    """Delete a check, with a message that can create it again."""
    form = _form_with(checks.to_draft(_find(request, uid)))
    checks.delete_check(uid, request_actor(request))
    messages.success(request, _undo_message(request, form, "Check deleted."))
    return redirect("memory-checks")


@require_POST
def check_run(request: HttpRequest, uid: str) -> HttpResponse:
    """Run a check now, as far as both its owner and this person may see."""
    clearance = request_clearance(request)
    failures = checks.run_check(_find(request, uid), clearance)
    for text in checks.describe_failures(failures, clearance):
        messages.warning(request, text)
    if not failures:
        messages.success(request, "The check passes.")
    return redirect("memory-checks")


def _find(request: HttpRequest, uid: str) -> MemoryCheck:
    return checks.get_check(uid, request_clearance(request))


def _render_form(
    request: HttpRequest, form: CheckForm, check: MemoryCheck | None = None, status: int = 200
) -> HttpResponse:
    choices = {
        name: _memory_choice(request, form, name)
        for name, field in form.fields.items()
        if isinstance(field.widget, MemoriesInput)
    }
    rows = [(field, choices.get(field.name)) for field in form.visible_fields()]
    return render(request, "checks/form.html", {"form": form, "rows": rows, "check": check}, status=status)


def _memory_choice(request: HttpRequest, form: CheckForm, name: str) -> MemoryChoice:
    visible = Memory.objects.visible_to(request_clearance(request))
    uids = form.fields[name].clean(form[name].value() or "")[: checks.MAX_RULES]
    chosen = {one.uid: one for one in fetch_by_uids(visible, uids)}
    erased = [uid for uid in dict.fromkeys(uids) if uid not in chosen]
    typed = request.POST.get(f"{name}_search", "")[:MAX_SEARCH_CHARS].strip()
    if all(map(is_uid, typed.split())):  # nothing was typed, or ids, which are chosen now
        return MemoryChoice(list(chosen.values()), erased, [], "")
    others = visible.live().exclude(uid__in=uids)
    hits = search_memories(others, typed, limit=MAX_MATCHES, snippets=False).hits
    return MemoryChoice(list(chosen.values()), erased, [hit.memory for hit in hits], typed)
