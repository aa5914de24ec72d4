"""Accounts and groups, for superusers only, because Django's forms can grant any right.

Administrators manage people on the hub's own pages, within the limits of their own rights. Changes in the
admin are journaled together with Django's log.
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
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from memoryhub.accounts import people, sign_in, tokens
from memoryhub.accounts.clearance import is_confined, request_actor
from memoryhub.accounts.sign_in import record_account_event
from memoryhub.core.database import write_transaction
from memoryhub.models import Membership

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
