"""The settings of a project: mode, pause, ignored files and cap; rename, merge and split."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.forms.models import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance
from memoryhub.accounts.permissions import ADD_RUN, CHANGE_MEMORY
from memoryhub.capture import project_changes, projects
from memoryhub.capture.ignored_paths import MAX_PATTERNS_CHARS
from memoryhub.capture.projects import NAME, ProjectChange, list_identities
from memoryhub.core.form_fields import ConcurrentEditMixin, ShownValuesField, TextField
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.injection.effects import preview_settings
from memoryhub.memories import Forbidden, NotFound, StoreError
from memoryhub.models import Project, ProjectIdentity
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.requests import HtmxHttpRequest, show_success
from memoryhub.web.injections import PREVIEW, effect_context, render_panel, render_refusal

# A mode needs the permission of maintenance runs, a pause that of changing memories.
_MODES = (
    (ProjectMode.AUTOMATIC.value, "Automatic: store and show memories"),
    (ProjectMode.APPROVE.value, "Approve first: review before use"),
    (ProjectMode.OBSERVE.value, "Observe: only count events"),
    (ProjectMode.OFF.value, "Off: store and show nothing"),
)


_MOVED = {
    project_changes.RENAME: "Project renamed",
    project_changes.MERGE: "Projects merged",
    project_changes.SPLIT: "Project split",
}


class SettingsForm(ConcurrentEditMixin, PlainForm):
    mode = forms.ChoiceField(choices=_MODES)
    ignored_paths = TextField(
        label="Ignored files",
        strip=True,
        max_length=MAX_PATTERNS_CHARS,
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false"}),
        help_text="One pattern per line, as in .gitignore. Events about these files are not stored.",
    )
    max_memories = forms.IntegerField(
        label="Maximum memories per owner",
        required=False,
        min_value=0,
        max_value=projects.MAX_CAP,
        help_text="Above this cap, each memory that an owner adds sends the least used one of that owner to"
        " the trash. Enter 0 for no cap. Leave empty to use the cap of the hub.",
    )
    unchanged_since = ShownValuesField()


class MoveForm(PlainForm):
    """Rename, merge or split a project."""

    action = forms.ChoiceField(
        label="Change",
        choices=[
            (project_changes.RENAME, "Rename"),
            (project_changes.MERGE, "Merge into another project"),
            (project_changes.SPLIT, "Split off a part into a new project"),
        ],
    )
    into = forms.CharField(label="New name, or the other project", max_length=200)
    folder = forms.CharField(
        label="Split: sessions of this folder",
        required=False,
        max_length=1000,
        help_text="As an absolute path. Their memories and facts move with them.",
    )
    identities = forms.MultipleChoiceField(
        label="Split: repositories",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Their next sessions are in the new project.",
    )

    def __init__(self, identities: list[ProjectIdentity], data: Any = None) -> None:
        super().__init__(data)
        keys = [(one.key, one.title) for one in identities if not one.key.startswith(NAME)]
        self.set_choices("identities", keys)
        if not keys:
            del self.fields["identities"]


@require_safe
def project_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Show the settings of a project."""
    project = _find_project(request, name)
    return _render_settings(request, project, _settings_form(project))


@require_POST
def project_settings_save(request: HtmxHttpRequest, name: str) -> HttpResponse:
    """Change mode, ignored files and cap. The button ``effect`` previews the mode instead."""
    project = _find_project(request, name)
    form = _settings_form(project, request.POST)
    _require(request, ADD_RUN)
    if not form.is_valid():
        if PREVIEW in request.POST and request.htmx:
            return render_refusal(request, form)
        return _render_settings(request, project, form, 422)
    if PREVIEW in request.POST:
        modes = {name: form.cleaned_data["mode"]}
        context = effect_context(preview_settings(request_clearance(request), modes=modes))
        if request.htmx:
            return render_panel(request, context)
        return _render_settings(request, project, form, **context)
    try:
        changed = projects.configure_project(name, _actor(request), **form.cleaned_data)
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_settings(request, project, form, 422)
    return _show_change(request, changed, "Settings saved")


@require_POST
def project_move(request: HttpRequest, name: str) -> HttpResponse:
    """Rename, merge or split the project."""
    project, actor = _find_project(request, name), _actor(request)
    _require(request, ADD_RUN)
    form = MoveForm(list_identities(name, actor), request.POST)
    unchanged = _settings_form(project)
    if not form.is_valid():
        return _render_settings(request, project, unchanged, 422, form)
    action, into, *part = (form.cleaned_data.get(key) or "" for key in ("action", "into", "folder"))
    try:
        if action == project_changes.SPLIT:
            chosen = form.cleaned_data.get("identities") or ()
            changed = project_changes.split_project(name, into, actor, folder=part[0], identities=chosen)
        else:
            move = project_changes.rename_project
            move = move if action == project_changes.RENAME else project_changes.merge_projects
            changed = move(name, into, actor)
    except Forbidden:
        raise
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_settings(request, project, unchanged, 422, form)
    return _show_change(request, changed, _MOVED[action])


@require_POST
def project_pause(request: HttpRequest, name: str) -> HttpResponse:
    """Pause the project for ``hours``; 0 ends a pause."""
    _find_project(request, name)
    _require(request, CHANGE_MEMORY)
    try:
        hours = float(request.POST.get("hours", ""))
        changed = projects.configure_project(name, _actor(request), pause_hours=hours)
    except (ValueError, StoreError):
        raise BadRequest(f"hours must be 0 to {projects.MAX_PAUSE_HOURS}") from None
    return _show_change(request, changed, projects.mode_note(changed.project).capitalize() or "Resumed")


@require_POST
def project_undo(request: HttpRequest, change: str) -> HttpResponse:
    """Undo a change of settings, with the permission for such a change."""
    _require(request, ADD_RUN, CHANGE_MEMORY)
    may_configure = request.user.has_perm(ADD_RUN)
    allowed = projects.SETTINGS if may_configure else (projects.PAUSE, "off_page_facts")
    try:
        project = project_changes.undo_project_change(change, _actor(request), allowed=allowed)
    except (NotFound, Forbidden):
        raise
    except StoreError as refusal:
        messages.error(request, f"Not undone: {refusal.message}.")
        return redirect("sessions")
    messages.success(request, "Undone.")
    return redirect("project-settings", project.name)


def _settings_form(project: Project, data: Any = None) -> SettingsForm:
    return SettingsForm(data, initial=model_to_dict(project, SettingsForm.base_fields))


def _find_project(request: HttpRequest, name: str) -> Project:
    return projects.get_project(name, _actor(request))


def _actor(request: HttpRequest) -> Any:
    return request_actor(request, full_clearance(request))


def _require(request: HttpRequest, *permissions: str) -> None:
    if not any(map(request.user.has_perm, permissions)):
        raise PermissionDenied


def _show_change(request: HttpRequest, changed: ProjectChange, text: str) -> HttpResponse:
    context = {"change": changed.undo, "text": text}
    show_success(request, "projects/page.html#changed", context)
    return redirect("project-settings", changed.project.name)


def _render_settings(
    request: HttpRequest,
    project: Project,
    form: SettingsForm,
    status: int = 200,
    move_form: MoveForm | None = None,
    **more: Any,
) -> HttpResponse:
    actor = _actor(request)
    identities = list_identities(project.name, actor)
    context = {
        "project": project,
        "form": form,
        "paused": project.is_paused(timezone.now()),
        "counts": projects.count_events(project),
        "may_configure": request.user.has_perm(ADD_RUN),
        "may_pause": request.user.has_perm(CHANGE_MEMORY),
        "may_move": actor.clearance.is_whole,
        "move_form": move_form or MoveForm(identities),
        "identities": identities,
        "moves": [(one, _MOVED[one.operation]) for one in project_changes.list_moves(project.name, actor)],
        "modes": dict(_MODES),
        "waiting": f"{reverse('review')}?tab=waiting",
        **more,
    }
    return render(request, "projects/settings.html", context, status=status)
