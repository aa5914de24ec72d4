"""A project's settings (mode, pause, ignored files, cap; rename, merge, split) and its page.

The page is read and corrected, and previews what the next session receives.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, get_args

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import Actor, Clearance, format_display_name, is_redacted
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import ADD_MEMORY, ADD_RUN, CHANGE_FACT, CHANGE_MEMORY
from memoryhub.accounts.tokens import token_actor
from memoryhub.capture import project_changes, projects
from memoryhub.capture.ignored_paths import MAX_PATTERNS_CHARS
from memoryhub.capture.page_corrections import Action, Corrected, Correction, correct_page
from memoryhub.capture.projects import NAME, ProjectChange, list_identities
from memoryhub.core.form_fields import ConcurrentEditMixin, ShownValuesField, TextField, to_sentence
from memoryhub.core.text import collapse_whitespace, estimate_tokens, readable
from memoryhub.core.vocabulary import ProjectMode, Right
from memoryhub.injection import context_block, selection
from memoryhub.injection.effects import preview_settings
from memoryhub.injection.project_page import (
    OFF_PAGE,
    SECTIONS,
    PageEntry,
    build_page,
    page_memories,
    record_page_reveals,
)
from memoryhub.injection.requests import InjectionResult
from memoryhub.injection.services import preview_session_start
from memoryhub.memories import Forbidden, NotFound, StoreError
from memoryhub.models import AgentToken, Fact, Project, ProjectIdentity
from memoryhub.web.accounts.profile import own_tokens
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.labels import session_url
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.requests import HtmxHttpRequest, show_success
from memoryhub.web.injections import PREVIEW, WITHHELD_TEXTS, effect_context, render_panel, render_refusal
from memoryhub.web.memories.bulk_actions import add_result_messages, allowed_actions, is_allowed

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


MAX_LEFT_OUT = 50  # memories listed as left out
_TYPE_REASONS = {
    "bugfix": "a fix",
    "change": "a change",
    "context": "background of the project",
    "decision": "a decision",
    "feature": "a feature",
    "preference": "a preference",
    "session_summary": "summary of a session",
}
_KIND_OF_ACTION = {"reword": "set", "pin": "pin", "unpin": "unpin", "leave_out": "tag", "not_true": "trash"}


@dataclass(frozen=True)
class PageLine:
    """A line without Markdown, its reason in words, and the address of its source.

    Neither ``text`` nor ``source`` (the line as Markdown) contains that of a secret.
    """

    entry: PageEntry
    text: str
    source: str
    reason: str
    url: str
    is_hidden: bool


@dataclass(frozen=True)
class SentItem:
    """A part of the block that a session receives: its name, address, tokens, and why it is there."""

    text: str
    url: str
    tokens: int
    reason: str
    part: str


@require_safe
def project_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page with the reason of each line, and the forms that correct it."""
    return _render_page(request, _find_visible_project(request, name))


def _render_page(
    request: HttpRequest, project: Project, refused: Correction | None = None, error: str = ""
) -> HttpResponse:
    """Render the page. A ``refused`` correction keeps its text in its form, with the error."""
    clearance, now, name = request_clearance(request), timezone.now(), project.name
    page = build_page(name, clearance, now)
    markdown = page.to_markdown()
    context = {
        "project": project,
        "sections": [
            (section, [_page_line(one, name) for one in entries]) for section, entries in page.sections()
        ],
        "all_sections": SECTIONS,
        "shell_name": shlex.quote(name),
        "tokens": estimate_tokens(markdown),
        "withheld": [(_page_line(one, name), reason) for one, reason in page.withheld],
        "left_out": page_memories(name, clearance, now).filter(labels__value=OFF_PAGE)[:MAX_LEFT_OUT],
        "left_out_facts": Fact.objects.visible_to(clearance).filter(uid__in=project.off_page_facts),
        "off_page": OFF_PAGE,
        "acts": allowed_actions(request),
        "may_add": request.user.has_perm(ADD_MEMORY),
        "may_change_facts": request.user.has_perm(CHANGE_FACT),
        "may_configure": request.user.has_perm(ADD_RUN),
        "refused": refused,
        "error": error,
    }
    return render(request, "projects/page.html", context, status=422 if refused else 200)


def _page_line(entry: PageEntry, project: str) -> PageLine:
    hidden = is_redacted(entry.sensitivity)
    source = format_display_name("", entry.uid, entry.sensitivity) if hidden else entry.line
    text = source if hidden else _plain_line(entry)
    is_session = entry.kind == "session"
    url = session_url(entry.uid, project) if is_session else reverse(entry.kind, args=[entry.uid])
    return PageLine(entry, text, source, _reason_in_words(entry.reason), url, hidden)


def _plain_line(entry: PageEntry) -> str:
    """Return the line without Markdown, which facts and paths of files do not have."""
    plain = to_plain_text(entry.line) if entry.kind == "memory" else entry.line
    return collapse_whitespace(plain) or entry.line


def _reason_in_words(reason: str) -> str:
    """Return the reason of an entry as a person would say it; the API returns the one of the rules."""
    is_pinned, reason = reason.startswith("pinned"), reason.removeprefix("pinned").removeprefix(", ")
    if reason.startswith("type "):
        kind = reason.removeprefix("type ")
        reason = _TYPE_REASONS.get(kind, readable(kind))
    elif reason.startswith("“"):
        reason = f"labelled {reason}"
    elif reason == "its wording":
        reason = "recognised by its wording"
    return ", ".join(filter(None, ("pinned" if is_pinned else "", reason)))


@require_POST
def project_page_correct(request: HttpRequest, name: str) -> HttpResponse:
    """Apply one correction, with a message that can undo it."""
    project, fields = _find_visible_project(request, name), request.POST
    action, kind = fields.get("action", ""), fields.get("kind", "memory")
    if action not in get_args(Action) or kind not in ("memory", "fact"):
        raise BadRequest("unknown correction")
    _require_permission(request, action, kind)
    wanted = Correction(
        action,  # type: ignore[arg-type]
        kind,  # type: ignore[arg-type]
        fields.get("id", ""),
        fields.get("section", ""),
        fields.get("text", ""),
    )
    back = reverse("project-page", args=[project.name])
    try:
        _add_messages(request, correct_page(name, wanted, request_actor(request)), back)
    except NotFound:
        messages.warning(request, "This line is no longer on the page.")
    except StoreError as refusal:
        if refusal.field == "text":
            return _render_page(request, project, wanted, to_sentence(refusal.message))
        messages.error(request, f"Nothing was changed: {refusal.message}.")
    return redirect(back)


def _require_permission(request: HttpRequest, action: str, kind: str) -> None:
    if action == "add":
        allowed = request.user.has_perm(ADD_MEMORY)
    elif kind == "fact":
        allowed = request.user.has_perm(CHANGE_FACT)
        allowed = allowed and (action != "reword" or request.user.has_perm(ADD_MEMORY))
    else:
        allowed = is_allowed(request, _KIND_OF_ACTION[action])
    if not allowed:
        raise PermissionDenied


def _add_messages(request: HttpRequest, done: Corrected, back: str) -> None:
    if done.change:
        add_result_messages(request, done.change, back)
    if done.memory and not done.change:
        messages.success(request, "The line is stored as a pinned memory.")
    if done.ended and done.ended.facts:
        context = {"ended": done.ended, "summary": "1 fact has ended", "back": back}
        show_success(request, "facts/page.html#ended", context)
    if done.settings:
        context = {"change": done.settings, "text": "The fact is left out of the page"}
        show_success(request, "projects/page.html#changed", context)


@require_POST
def project_page_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Send the page at the start of sessions or not, or include the facts again that it leaves out."""
    _find_visible_project(request, name)
    if not request.user.has_perm(ADD_RUN):
        raise PermissionDenied
    changes: dict[str, Any] = {}
    if request.POST.get("sends") in ("yes", "no"):
        changes["sends_page"] = request.POST["sends"] == "yes"
    if request.POST.get("facts") == "all":
        changes["off_page_facts"] = []
    if not changes:
        raise BadRequest("sends must be yes or no")
    changed = projects.configure_project(name, request_actor(request), **changes)
    context = {"change": changed.undo, "text": "Settings saved"}
    show_success(request, "projects/page.html#changed", context)
    return redirect("project-page", name)


class PreviewForm(PlainForm):
    """Whose session, and the levels that its hook asks for."""

    token = forms.ChoiceField(label="Agent", required=False)
    private = forms.BooleanField(label="Include private memories, if its hook asks for them", required=False)
    secret = forms.BooleanField(label="Include secret memories, if its hook asks for them", required=False)

    def __init__(self, data: Any, tokens: list[AgentToken]) -> None:
        super().__init__(data, auto_id="for_%s")
        self.tokens = {token.uid: token for token in tokens}
        named = ((token.uid, token.name) for token in tokens)
        self.set_choices("token", [("", "An agent with your access"), *named])


@require_safe
def project_page_preview(request: HttpRequest, name: str) -> HttpResponse:
    """Show exactly what the next session of an agent receives, and why."""
    project = _find_visible_project(request, name)
    form = PreviewForm(request.GET, list(own_tokens(request)))
    if not form.is_valid():
        raise Http404
    token = form.tokens.get(form.cleaned_data["token"])
    levels = {level: form.cleaned_data[level] for level in ("private", "secret")}
    actor = token_actor(token) if token else request_actor(request)
    problem = _preview_problem(request, project, token, actor, levels)
    found = InjectionResult() if problem else preview_session_start(name, actor, **levels)
    record_page_reveals(found.page, request_actor(request), "session preview")
    for one in found.shown:
        reveal_if_secret(request, one.candidate.memory, "session preview")
    context = {
        "project": project,
        "form": form,
        "problem": problem,
        "found": found,
        "items": _sent_items(found, name),
        "withheld": [
            (one.memory, WITHHELD_TEXTS.get(one.reason, one.reason))
            for one in (found.choice.withheld if found.choice else [])
        ],
    }
    return render(request, "projects/preview.html", context)


def _preview_problem(
    request: HttpRequest, project: Project, token: AgentToken | None, actor: Actor, levels: dict[str, bool]
) -> str:
    """Return why nothing is previewed, because the session receives nothing or the person may not see it."""
    if token and Right.READ.value not in token.rights:
        return "This token lacks the right “read”, so its sessions receive nothing."
    if not project.records_events(timezone.now()):
        note = projects.mode_note(project)
        return f"Memory is {note} in this project, so its sessions receive nothing."
    if not actor.clearance.includes_project(project.name):
        return "This token has no access to the project, so its sessions receive nothing of it."
    wanted: Clearance = actor.clearance.limited_to(**levels)
    own, places = request_clearance(request), (project.name, "")
    # A session also opens with the pinned memories of no project.
    missing = {level for place in places for level in wanted.levels_in(place) - own.levels_in(place)}
    if missing:
        return f"Show {' and '.join(sorted(missing))} memories in the Visibility menu to see this."
    return ""


def _sent_items(found: InjectionResult, project: str) -> list[SentItem]:
    """Return the parts of the block in its order, with the reason of each."""
    items = []
    for one in found.shown:
        memory = one.candidate.memory
        tokens = estimate_tokens(context_block.render_entry(one.passage, one.text))
        if one.scale == selection.PINNED:
            part, reason = "Pinned", "pinned, so every session opens with it"
        elif memory.type == "session_summary":
            part, reason = "Memory", "summary of the latest session"
        else:
            part = "Memory"
            reason = f"important ({memory.importance:.2f}) and recent, score {one.candidate.score:.2f}"
        url = reverse("memory", args=[memory.uid])
        items.append(SentItem(memory.title or memory.uid, url, tokens, reason, part))
    titles = {section.key: section.title for section in SECTIONS}
    lines = []
    for entry in found.page:
        line, tokens = _page_line(entry, project), estimate_tokens(entry.line)
        lines.append(SentItem(_plain_line(entry), line.url, tokens, line.reason, titles[entry.section]))
    pinned = sum(one.scale == selection.PINNED for one in found.shown)
    return [*items[:pinned], *lines, *items[pinned:]]


def _find_visible_project(request: HttpRequest, name: str) -> Project:
    return projects.get_project(name, request_actor(request))
