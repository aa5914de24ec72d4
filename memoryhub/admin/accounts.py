"""Agent tokens, and the accounts and groups of people.

A token is shown once and changed within the user's own rights. Accounts and groups are for superusers only,
because Django's forms can grant any right: administrators manage people on the hub's own pages. Changes in
the admin are journaled together with Django's log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import allauth.account.admin
import allauth.mfa.admin
import allauth.socialaccount.admin  # noqa: F401  they register models
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AdminTextareaWidget
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.forms import SplitDateTimeField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.accounts import people, sign_in, tokens
from memoryhub.accounts.clearance import grantable_clearances, is_confined, request_actor, user_clearance
from memoryhub.accounts.permissions import VIEW_TOKEN, grantable_rights
from memoryhub.accounts.sign_in import record_account_event
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
from memoryhub.core.database import write_transaction
from memoryhub.core.form_fields import ConcurrentEditMixin, ProjectsField, ShownValuesField
from memoryhub.core.text import format_count
from memoryhub.models import AgentToken, Membership, OAuthClient
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


if TYPE_CHECKING:
    _Inline = admin.StackedInline[Membership, User]
    _UserAdmin = UserAdmin[User]
else:
    _Inline = admin.StackedInline
    _UserAdmin = UserAdmin


_RIGHTS_FIELDS = {"groups", "user_permissions", "is_superuser"}  # fields


class SuperusersOnly:
    """Restricts a model to superusers, whatever the permissions."""

    def has_module_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Accounts name projects, so a superuser who is confined to some may not see them either."""
        user = request.user
        return bool(user.is_active and user.is_superuser) and not is_confined(user)

    has_view_permission = has_add_permission = has_module_permission
    has_change_permission = has_delete_permission = has_module_permission


class MembershipInline(SuperusersOnly, _Inline):
    model = Membership
    extra = 0
    fields = (("project", "clearance", "since"),)
    readonly_fields = ("since",)


@admin.action(description="Unlink from the organisation's sign-in", permissions=["change"])
def unbind(model_admin: Any, request: HttpRequest, queryset: Any) -> None:
    """Unbind the selected accounts. The next sign-in with an account's address is bound to it."""
    assert isinstance(request.user, User)  # noqa: S101 the admin asks for a login before any page
    bound = list(queryset.filter(socialaccount__isnull=False).exclude(pk=request.user.pk))
    for person in bound:
        people.unbind_account(person, request.user)
    text = f"Unlinked: {', '.join(map(str, bound)) or 'none of the selected people'}."
    if queryset.filter(pk=request.user.pk).exists():
        text += " Your own account can only be unlinked by another administrator."
    model_admin.message_user(request, text)


class PersonAdmin(SuperusersOnly, _UserAdmin):
    inlines = (MembershipInline,)
    actions = (unbind,)

    def get_inlines(self, request: HttpRequest, obj: User | None) -> Any:
        """Offer memberships for existing accounts only, because the first one confines the account."""
        return self.inlines if obj is not None else ()

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Make the user name read-only, because memories, tokens and the journal refer to it.

        Users cannot change their own address either, because the organisation's sign-in is matched with it.
        The times of an account are records.
        """
        fields = super().get_readonly_fields(request, obj)
        if obj is None:
            return fields
        own = ("email",) if obj == request.user else ()
        return (*fields, "username", "last_login", "date_joined", *own)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set the password of others. Changing one's own requires the old one, on the hub's page."""
        if self.get_object(request, unquote(id)) == request.user:
            messages.error(request, "Nothing was changed. Change your own password here, with the old one.")
            return redirect("you")
        return super().user_change_password(request, id, form_url)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if _RIGHTS_FIELDS & set(form.changed_data):
            _limit_tokens(request, [form.instance.pk])
        if not form.instance.is_active:
            sign_in.end_all_sessions(form.instance)

    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> LogEntry:
        self._note(request, [obj], "account_made")
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: User, message: Any) -> LogEntry:
        self._note(request, [obj], "account_changed", fields=_changed_fields(message))
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        self._note(request, queryset, "account_deleted")
        return super().log_deletions(request, queryset)

    def _note(self, request: HttpRequest, accounts: Iterable[User], operation: str, **detail: Any) -> None:
        with write_transaction():
            for person in accounts:
                record_account_event(person, operation, request.user.get_username(), **detail)


class RoleAdmin(SuperusersOnly, GroupAdmin):
    """The ready-made roles, and other groups."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if "permissions" in form.changed_data:
            _limit_tokens(request, form.instance.user_set.values_list("pk", flat=True))


def _limit_tokens(request: HttpRequest, accounts: Iterable[int]) -> None:
    """Limit the tokens of these people to their current rights."""
    for person in User.objects.filter(pk__in=accounts):
        tokens.reduce_tokens_to_owner(person, request_actor(request))


def _changed_fields(message: Any) -> list[str]:
    """Return the names of changed fields and related objects from Django's log message."""
    if not isinstance(message, list):
        return [str(message)]
    parts = [part for entry in message for part in entry.values()]
    return sorted({name for part in parts for name in part.get("fields", [part.get("name", "")]) if name})


# Second factors and identities are managed on the hub's pages; the other models are not used.
admin.site.unregister([User, Group, EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, RoleAdmin)
