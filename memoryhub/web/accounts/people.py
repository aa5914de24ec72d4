"""People and their rights: for administrators, and only as far as their own rights go."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.accounts import people, roles
from memoryhub.accounts.clearance import is_confined
from memoryhub.core import pagination
from memoryhub.memories.errors import StoreError
from memoryhub.models import JournalEntry, Membership
from memoryhub.web.accounts.forms import (
    AddPersonForm,
    AddressForm,
    JoinForm,
    NewPasswordForm,
    PlainForm,
    RightsForm,
)
from memoryhub.web.base.users import signed_in_user

PAGE_SIZE, MAX_JOURNAL_ROWS, MAX_FAILED_LOGINS = 50, 30, 10  # people, journal rows of one, failed logins

View = Callable[..., HttpResponse]


def managers_only(view: View) -> View:
    """403 for who manages nobody."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not people.may_manage_people(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return guarded


# The forms of a person's page, by what it calls them: for who changes, about whom, of what was sent.
PERSON_FORMS: dict[str, Callable[[User, User, QueryDict | None], PlainForm]] = {
    "rights": RightsForm,
    "join": lambda by, user, sent: JoinForm(by, sent),
    "password": lambda by, user, sent: NewPasswordForm(sent),
    "address": lambda by, user, sent: AddressForm(sent, initial={"email": user.email}),
}


def form_view(called: str) -> Callable[[Callable[[User, User, dict[str, Any]], str]], View]:
    """A view out of what writes the values of a valid form and says what is done.

    What is wrong, or is refused, stands in the form, on the person's page.
    """

    def made(write: Callable[[User, User, dict[str, Any]], str]) -> View:
        @require_POST
        @managers_only
        @wraps(write)
        def changed(request: HttpRequest, name: str) -> HttpResponse:
            user, by = _find_person(name), signed_in_user(request)
            form = PERSON_FORMS[called](by, user, request.POST)
            if form.is_valid():
                try:
                    messages.success(request, write(user, by, form.cleaned_data))
                    return redirect("person", name=name)
                except StoreError as error:
                    form.refuse(error)
            return _render_person(request, user, **{called: form})

        return changed

    return made


def button_view(write: Callable[[User, User, QueryDict], str]) -> View:
    """The same out of what writes at the press of a button: there is no form to tell what is refused."""

    @require_POST
    @managers_only
    @wraps(write)
    def changed(request: HttpRequest, name: str) -> HttpResponse:
        try:
            messages.success(request, write(_find_person(name), signed_in_user(request), request.POST))
        except StoreError as error:
            messages.error(request, f"Nothing was changed: {error.message}.")
        return redirect("person", name=name)

    return changed


@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
def people_list(request: HttpRequest) -> HttpResponse:
    """Everyone with an account; POST makes one."""
    form = AddPersonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            given = form.cleaned_data
            made = people.create_account(
                given["username"], given["password"], signed_in_user(request), given.get("email", "")
            )
        except StoreError as error:
            form.refuse(error)
        else:
            messages.success(request, "The account is made; now say what they may do and see.")
            return redirect("person", name=made.username)
    typed = request.GET.get("q", "").strip()
    rows = User.objects.filter(username__icontains=typed).select_related("profile")
    rows = rows.prefetch_related("groups", "memberships", "user_permissions")
    try:
        page = pagination.paginate(rows, "pk", PAGE_SIZE, request.GET.get("cursor"))
    except pagination.InvalidCursor as error:
        raise BadRequest(str(error)) from None
    context = {
        "page": page,
        "first": not request.GET.get("cursor"),
        "rows": [(user, roles.user_role(user), _describe_projects(user)) for user in page.items],
        "q": typed,
        "form": form,
        "may_add": request.user.has_perm(people.ADD_PERMISSION),
        "failed": JournalEntry.objects.failed_logins()[:MAX_FAILED_LOGINS],
    }
    return render(request, "people/list.html", context, status=422 if form.errors else 200)


@require_safe
@managers_only
def person(request: HttpRequest, name: str) -> HttpResponse:
    return _render_person(request, _find_person(name))


@form_view("rights")
def rights(user: User, by: User, said: dict[str, Any]) -> str:
    people.change_rights(user, by, **said)
    return "Kept."


@form_view("join")
def join(user: User, by: User, said: dict[str, Any]) -> str:
    """Make a membership, or change its level."""
    people.add_membership(user, said["project"], said["clearance"], by)
    return f"{user} is a member of {said['project']}, and sees their own projects alone."


@button_view
def leave(user: User, by: User, sent: QueryDict) -> str:
    project = sent.get("project", "")
    people.remove_membership(user, project, by)
    return f"{user} has left {project}."


@button_view
def open_every_project(user: User, by: User, sent: QueryDict) -> str:
    people.lift_confinement(user, by)
    return f"{user} sees every project now."


@form_view("password")
def new_password(user: User, by: User, said: dict[str, Any]) -> str:
    people.set_password(user, said["password"], by)
    return f"{user} has a new password, and is signed out everywhere."


@form_view("address")
def address(user: User, by: User, said: dict[str, Any]) -> str:
    """Set the e-mail address by which the organisation's sign-in knows them the first time."""
    people.set_email(user, said["email"], by)
    return "Kept."


@button_view
def unbind(user: User, by: User, sent: QueryDict) -> str:
    people.unbind_account(user, by)
    return f"{user} is not bound any more: who next comes with the account's address has it."


def _render_person(request: HttpRequest, user: User, **forms: PlainForm) -> HttpResponse:
    by = signed_in_user(request)
    context = {
        "person": user,
        "within_reach": people.may_change_account(by, user),
        "is_own": by.pk == user.pk,
        "role": roles.user_role(user),
        "level": people.permitted_level(user),
        "memberships": list(Membership.objects.filter(user=user)),
        "confined": is_confined(user),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": getattr(user, "identity", None),
        "journal": JournalEntry.objects.about_person(user.username)[:MAX_JOURNAL_ROWS],
        **{called: make(by, user, None) for called, make in PERSON_FORMS.items() if called not in forms},
        **forms,
    }
    return render(request, "people/person.html", context, status=422 if forms else 200)


def _describe_projects(user: Any) -> str:
    """The projects that a person sees, in a few words; their memberships are fetched already."""
    if not is_confined(user):
        return "every project"
    members = user.memberships.all()
    return ", ".join(f"{one.project} ({one.clearance})" if one.clearance else one.project for one in members)


def _find_person(name: str) -> User:
    found: User = get_object_or_404(User.objects.select_related("profile"), username=name)
    return found
