"""Forms for the user's own account and tokens, and for managing people."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from memoryhub.accounts import people, sign_in
from memoryhub.accounts.clearance import grantable_clearances, is_confined, user_clearance
from memoryhub.accounts.permissions import grantable_rights, user_role
from memoryhub.accounts.tokens import suggest_name
from memoryhub.core import dates
from memoryhub.core.form_fields import ConcurrentEditMixin, ProjectsField, ShownValuesField
from memoryhub.core.text import format_count
from memoryhub.models import OAuthClient
from memoryhub.models.account import default_rights
from memoryhub.web.base.forms import LongSelect, PlainForm

LEVEL_LABELS = {
    "public": "public memories only",
    "private": "public and private memories",
    "secret": "all memories, including secret ones",
}


def _level_choices(levels: Iterable[str]) -> list[tuple[str, str]]:
    return [(level, LEVEL_LABELS[level].capitalize()) for level in levels]


def _role_choices(roles: Iterable[str]) -> list[tuple[str, str]]:
    return [("", "None"), *((role, role.capitalize()) for role in roles)]


class PreferencesForm(PlainForm):
    theme = forms.ChoiceField(
        choices=[("", "Same as the device"), ("light", "Light"), ("dark", "Dark")], required=False
    )
    time_zone = forms.ChoiceField(required=False, widget=LongSelect)
    language = forms.ChoiceField(
        label="Dates", choices=list(dates.LANGUAGES.items()), required=False, help_text="The format of dates."
    )

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        named = ((name, name.replace("_", " ")) for name in dates.time_zones())
        self.set_choices("time_zone", [("", "Same as the browser"), *named])


class PasswordField(forms.CharField):
    def __init__(self, label: str, autocomplete: str = "new-password", **options: Any) -> None:
        widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
        super().__init__(label=label, strip=False, widget=widget, **options)


class NewPasswordForm(PlainForm):
    """Sets the password of another person."""

    password = PasswordField(
        "New password", help_text="At least 8 characters, not a common word, not similar to the username."
    )


class FirstPasswordForm(NewPasswordForm):
    """Sets the password of an invited person."""

    again = PasswordField("New password again")

    def clean_again(self) -> str:
        if self.cleaned_data["again"] != self.cleaned_data.get("password"):
            raise forms.ValidationError("The passwords do not match.")
        return str(self.cleaned_data["again"])


class PasswordForm(FirstPasswordForm):
    """Changes the user's own password, which requires the old one."""

    field_order = ("old", "password", "again")
    wait = 0  # seconds until the next attempt, after too many wrong passwords

    old = PasswordField("Current password", "current-password")

    def __init__(self, request: HttpRequest, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.request = request

    def clean_old(self) -> str:
        """Check the password with the throttling of a sign-in, so that an open session helps no guessing."""
        name, old = self.request.user.get_username(), str(self.cleaned_data["old"])
        if authenticate(self.request, username=name, password=old) is not None:
            return old
        if not getattr(self.request, "login_throttled", False):
            raise forms.ValidationError("This is not your password.")
        self.wait = max(sign_in.login_wait(self.request, name), 1)
        wait = format_count(-(-self.wait // 60), "minute")
        raise forms.ValidationError(f"Too many wrong passwords. Wait {wait}, then try again.")

    def passwords(self) -> tuple[str, str]:
        """Return the old and the new password of a valid form."""
        return self.cleaned_data["old"], self.cleaned_data["password"]


RIGHT_LABELS = {
    "read": "Read: search and list memories and facts",
    "write": "Write: store, change and delete them",
    "maintain": "Maintain: start maintenance runs",
}


class TokenForm(PlainForm):
    """A token for one of the user's agents. ``once`` differs in each form, so that it issues one token."""

    name = forms.CharField(max_length=100, help_text="The agent's name in the journal.")
    clearance = forms.ChoiceField(label="Can see", help_text="At most what you can see yourself.")
    rights = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple)
    projects = ProjectsField(forms.Textarea({"rows": 3}))
    days = forms.IntegerField(
        label="Expires after (days)",
        required=False,
        min_value=1,
        max_value=3650,
        help_text="Leave empty for no expiry.",
    )
    once = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput())

    def __init__(self, user: User, data: Mapping[str, Any] | None = None) -> None:
        rights = grantable_rights(user)
        initial = {"once": secrets.token_urlsafe(12), "rights": rights[:2], "name": "agent"}
        super().__init__(data, initial=initial)
        self.set_choices("clearance", _level_choices(grantable_clearances(user)))
        self.set_choices("rights", ((right, RIGHT_LABELS[right]) for right in rights))
        if is_confined(user):
            mine = [(name, name) for name in sorted(user_clearance(user).projects or ())]
            self.fields["projects"] = forms.MultipleChoiceField(
                choices=mine, widget=forms.CheckboxSelectMultiple
            )

    def values(self) -> dict[str, Any]:
        """Return the arguments of ``tokens.issue_token`` from a valid form."""
        days = self.cleaned_data["days"]
        return {
            "name": self.cleaned_data["name"],
            "clearance": self.cleaned_data["clearance"],
            "rights": self.cleaned_data["rights"],
            "projects": self.cleaned_data["projects"] or None,
            "expires_at": timezone.now() + timedelta(days=days) if days else None,
        }


class ConsentForm(TokenForm):
    """What a person grants to an OAuth client: at most the rights that it asks for, and at most their own."""

    def __init__(
        self, user: User, scopes: list[str], client: OAuthClient, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(user, data)
        del self.fields["once"]
        offered = [right for right in grantable_rights(user) if right in scopes]
        self.set_choices("rights", ((right, RIGHT_LABELS[right]) for right in offered))
        chosen = [right for right in default_rights() if right in offered]
        name = suggest_name(client.name, user.get_username())
        self.initial = {"name": name, "rights": chosen, "days": 90}


_ROLE_HINT = (
    "Viewers read. Curators also write and correct. Maintainers also run maintenance and erase permanently."
    " Administrators also manage people."
)


class InviteForm(PlainForm):
    """Invites a person, with at most the rights of the inviter."""

    username = forms.CharField(max_length=150, label="Username", help_text="Letters, digits and @ . + - _")
    email = forms.EmailField(
        label="E-mail address", required=False, help_text="Optional. For digests that the person turns on."
    )
    role = forms.ChoiceField(required=False, help_text=_ROLE_HINT, initial="viewer")
    level = forms.ChoiceField(label="Can see")
    projects = ProjectsField(forms.Textarea({"rows": 3}))
    clearance = forms.ChoiceField(label="Can see in these projects", required=False)

    def __init__(self, inviter: User, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        if settings.OIDC_ISSUER:
            hint = "Optional. For your organisation's sign-in, and for digests that the person turns on."
            self.fields["email"].help_text = hint
        levels = _level_choices(people.grantable_levels(inviter))
        self.set_choices("role", _role_choices(people.grantable_roles(inviter)))
        self.set_choices("level", levels)
        self.set_choices("clearance", [("", "Same as default"), *levels])


class AddressForm(PlainForm):
    email = forms.EmailField(
        label="E-mail address",
        required=False,
        help_text="Identifies the person at their first sign-in through your organisation.",
    )


def _including(grantable: Iterable[str], current: str) -> list[str]:
    """Return the values that may be granted and the current one, which may always stay."""
    return list(dict.fromkeys([*grantable, current]))


class RightsForm(ConcurrentEditMixin, PlainForm):
    role = forms.ChoiceField(required=False, help_text=_ROLE_HINT)
    level = forms.ChoiceField(
        label="Can see", help_text="The default. A project can have its own level, set below."
    )
    is_staff = forms.BooleanField(label="Can use the admin", required=False)
    is_active = forms.BooleanField(
        label="Active", required=False, help_text="The person can sign in, and their tokens work."
    )
    unchanged_since = ShownValuesField()

    def __init__(self, manager: User, user: User, data: Mapping[str, Any] | None = None) -> None:
        now = {"role": user_role(user), "level": people.permitted_level(user)}
        super().__init__(data, initial={**now, "is_staff": user.is_staff, "is_active": user.is_active})
        offered = [name for name in _including(people.grantable_roles(manager), now["role"]) if name]
        self.set_choices("role", _role_choices(offered))
        levels = _including(people.grantable_levels(manager), now["level"])
        self.set_choices("level", _level_choices(levels))


class JoinForm(PlainForm):
    project = forms.CharField(max_length=200, widget=forms.TextInput(attrs={"list": "projects"}))
    clearance = forms.ChoiceField(label="Can see in this project", required=False)

    def __init__(self, manager: User, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        levels = _level_choices(people.grantable_levels(manager))
        self.set_choices("clearance", [("", "Same as default"), *levels])
