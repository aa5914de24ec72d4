"""Agent tokens: issued and shown once, changed within the user's own rights, revoked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.widgets import AdminTextareaWidget
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.forms import SplitDateTimeField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.accounts import tokens
from memoryhub.accounts.clearance import grantable_clearances, is_confined, request_actor, user_clearance
from memoryhub.accounts.permissions import VIEW_TOKEN, grantable_rights
from memoryhub.admin.base import (
    ActionResponse,
    Confirmation,
    DraftAdmin,
    ReadOnlyAdmin,
    ServiceForm,
    admin_url,
    column,
    format_moment,
    is_confirmed,
    level_badge,
    moment_column,
    render_confirmation,
    select_rows,
    value_column,
)
from memoryhub.core.form_fields import ConcurrentEditMixin, ProjectsField, ShownValuesField
from memoryhub.core.text import format_count
from memoryhub.models import AgentToken, OAuthClient
from memoryhub.models.account import default_rights


def may_change_token(request: HttpRequest, token: AgentToken) -> bool:
    """Return whether the user may change this token; revoking only needs the permission."""
    if request.user.is_superuser and not is_confined(request.user):
        return True
    own = token.owner == request.user.get_username() and token.clearance in grantable_clearances(request.user)
    return own and user_clearance(request.user).covers(token.full_clearance())


class TokenForm(ConcurrentEditMixin, ServiceForm):
    """The name and rights of a token. The choices are limited to those that the user may grant."""

    owners: list[str] = []
    clearances: list[str] = []
    may: list[str] = []

    owner = forms.ChoiceField(help_text="The person whose personal memories the agent reads and writes.")
    clearance = forms.ChoiceField(help_text="The highest level that the agent can read.")
    rights = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple)
    projects = ProjectsField(AdminTextareaWidget({"rows": 3}))
    unchanged_since = ShownValuesField()

    class Meta:
        model = AgentToken
        fields = ("name", "owner", "clearance", "rights", "projects", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._offer("clearance", self.clearances)
        self._offer("owner", self.owners)
        self._offer("rights", self.may)
        if not self.instance.pk:
            self.initial = {
                "owner": self.owners[0],
                "rights": [right for right in default_rights() if right in self.may],
                **self.initial,
            }

    def _offer(self, name: str, choices: list[str]) -> None:
        """Set the choices of a field. Read-only fields are not in the form."""
        if field := self.fields.get(name):
            field.choices = [(choice, choice) for choice in choices]  # type: ignore[attr-defined]


@admin.action(description="Revoke…", permissions=["change"])
def revoke(
    model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[AgentToken]
) -> ActionResponse:
    """Revoke tokens after a confirmation, because this cannot be undone."""
    rows = select_rows(model_admin, request, queryset.filter(revoked_at=None), "name")
    if not rows:
        return None
    if not is_confirmed(request):
        explanation = f"{format_count(len(rows), 'token')} will be refused permanently."
        question = Confirmation("Revoke tokens", explanation, "Revoke", names_all=True, danger=True)
        return render_confirmation(model_admin, request, "revoke", question, rows)
    for row in rows:
        tokens.revoke_token(row.uid, request_actor(request))
    model_admin.message_user(request, f"{format_count(len(rows), 'token')} revoked.")
    return None


@admin.register(AgentToken)
class TokenAdmin(DraftAdmin):
    form = TokenForm
    journal_type = "token"
    list_display = (
        *("name", "start", "owner", "clearance_shown", "rights_shown", "projects_shown", "state"),
        *("last_used", "expires"),
    )
    search_fields = ("name", "owner", "=prefix", "=uid")
    ordering = ("-created_at",)
    actions = (revoke,)
    readonly_fields = (
        *("id_shown", "start", "state", "created_at", "revoked_at", "last_used_at", "last_used_from"),
        "waiting_events",
    )

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        """Show every token, or to users confined to some projects only their own."""
        rows: QuerySet[Any] = AgentToken.objects.all()
        return rows.filter(owner=request.user.get_username()) if is_confined(request.user) else rows

    def get_fieldsets(self, request: HttpRequest, obj: AgentToken | None = None) -> Any:
        editable = (None, {"fields": TokenForm.Meta.fields})
        return (editable,) if obj is None else (editable, ("Record", {"fields": self.readonly_fields}))

    def get_readonly_fields(self, request: HttpRequest, obj: AgentToken | None = None) -> Any:
        return () if obj is None else (*self.readonly_fields, "owner")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Label the date and the time field of a moment, which Django's label does not cover."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(field, SplitDateTimeField):
            for part, widget in zip(("date", "time"), field.widget.widgets, strict=True):
                widget.attrs["aria-label"] = f"{db_field.verbose_name}: {part}".capitalize()
        return field

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(
            form.__name__,
            (form,),
            {
                "owners": _possible_owners(request),
                "clearances": grantable_clearances(request.user),
                "may": grantable_rights(request.user),
            },
        )

    def has_change_permission(self, request: HttpRequest, obj: AgentToken | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or (obj.revoked_at is None and may_change_token(request, obj)))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked instead, because the journal refers to them."""
        return False

    def save_model(self, request: HttpRequest, obj: AgentToken, form: TokenForm, change: bool) -> None:
        # In the form an empty list means all projects.
        values = {**form.cleaned_data, "projects": form.cleaned_data["projects"] or None}
        values["within"] = user_clearance(request.user)
        if change:
            stored = tokens.change_token(obj.uid, request_actor(request), **values)
        else:
            # Stored on the request only, for the one response that shows it.
            stored, request.new_token = tokens.issue_token(**values, actor=request_actor(request))  # type: ignore[attr-defined]
        self.adopt(obj, stored)

    def response_add(
        self, request: HttpRequest, obj: AgentToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token once. No message, log or other page contains it."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Token created",
            "opts": self.opts,
            "token": obj,
            "secret": request.new_token,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/memoryhub/agenttoken/issued.html", context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> Any:
        obj: AgentToken | None = options.get("obj")
        if obj is not None and obj.revoked_at is None and "revoke" in self.get_actions(request):
            context["single_actions"] = [("revoke", "Revoke…")]
            context["all_states"] = admin_url(AgentToken, "changelist")
        return super().render_change_form(request, context, *args, **options)

    @column("starts with")
    def start(self, token: AgentToken) -> str:
        return f"{token.prefix}…"

    clearance_shown = value_column("clearance", "clearance", level_badge, order="clearance")
    rights_shown = value_column("rights", "rights", ", ".join)

    @column("projects")
    def projects_shown(self, token: AgentToken) -> str:
        return ", ".join(token.projects) or "all projects"

    @column("state")
    def state(self, token: AgentToken) -> str:
        if token.revoked_at:
            return "revoked"
        return "expired" if token.has_ended(timezone.now()) else "active"

    @column("last used", order="last_used_at")
    def last_used(self, token: AgentToken) -> str:
        used = format_moment(token.last_used_at) if token.last_used_at else "never"
        return (
            f"{used}; {format_count(token.waiting_events, 'event')} waiting" if token.waiting_events else used
        )

    @column("expires", order="expires_at")
    def expires(self, token: AgentToken) -> str:
        return format_moment(token.expires_at) if token.expires_at else "never"

    id_shown = value_column("id", "uid")


@admin.register(OAuthClient)
class OAuthClientAdmin(ReadOnlyAdmin):
    """The apps that registered themselves. People approve and remove them on pages of the hub."""

    journal_type = "client"
    list_display = ("name", "hosts_shown", "state", "registered", "registered_from", "approved_by")
    search_fields = ("name", "=uid")
    search_help_text = "Search by name or id."
    fields = (
        *("name", "uid", "redirect_uris", "auth_method", "registered_at", "registered_from"),
        *("approved_at", "approved_by", "removed_at"),
    )
    registered = moment_column("registered", "registered_at")

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        """Return every client to people who see everyone's tokens."""
        return OAuthClient.objects.all() if clearance.every_token else OAuthClient.objects.none()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(VIEW_TOKEN)

    hosts_shown = value_column("redirects to", "hosts", ", ".join)

    @column("state")
    def state(self, client: OAuthClient) -> str:
        if client.removed_at:
            return "removed"
        return "approved" if client.approved_at else "waits for approval"


def _possible_owners(request: HttpRequest) -> list[str]:
    """Return the user and, for superusers, all other active users."""
    mine = request.user.get_username()
    if not request.user.is_superuser or is_confined(request.user):
        return [mine]
    others = get_user_model()._default_manager.filter(is_active=True).order_by("username")
    return [mine, *others.exclude(username=mine).values_list("username", flat=True)]
