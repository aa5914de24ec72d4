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
from memoryhub.accounts.memberships import is_confined
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

PAGE, ROWS, FAILED = 50, 30, 10  # people, journal rows of one, failed logins

View = Callable[..., HttpResponse]


def for_managers(view: View) -> View:
    """403 for who manages nobody."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not people.may_manage(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return guarded


# The forms of a person's page, by what it calls them: for who changes, about whom, of what was sent.
FORMS: dict[str, Callable[[User, User, QueryDict | None], PlainForm]] = {
    "rights": RightsForm,
    "join": lambda by, user, sent: JoinForm(by, sent),
    "password": lambda by, user, sent: NewPasswordForm(sent),
    "address": lambda by, user, sent: AddressForm(sent, initial={"email": user.email}),
}


def by_form(called: str) -> Callable[[Callable[[User, User, dict[str, Any]], str]], View]:
    """A view out of what writes the values of a valid form and says what is done.

    What is wrong, or is refused, stands in the form, on the person's page.
    """

    def made(write: Callable[[User, User, dict[str, Any]], str]) -> View:
        @require_POST
        @for_managers
        @wraps(write)
        def changed(request: HttpRequest, name: str) -> HttpResponse:
            user, by = _person(name), _by(request)
            form = FORMS[called](by, user, request.POST)
            if form.is_valid():
                try:
                    messages.success(request, write(user, by, form.cleaned_data))
                    return redirect("person", name=name)
                except StoreError as error:
                    form.refuse(error)
            return _page(request, user, **{called: form})

        return changed

    return made


def by_button(write: Callable[[User, User, QueryDict], str]) -> View:
    """The same out of what writes at the press of a button: there is no form to tell what is refused."""

    @require_POST
    @for_managers
    @wraps(write)
    def changed(request: HttpRequest, name: str) -> HttpResponse:
        try:
            messages.success(request, write(_person(name), _by(request), request.POST))
        except StoreError as error:
            messages.error(request, f"Nothing was changed: {error.message}.")
        return redirect("person", name=name)

    return changed


@require_http_methods(["GET", "HEAD", "POST"])
@for_managers
def people_list(request: HttpRequest) -> HttpResponse:
    """Everyone with an account; POST makes one."""
    form = AddPersonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            given = form.cleaned_data
            made = people.add(given["username"], given["password"], _by(request), given.get("email", ""))
        except StoreError as error:
            form.refuse(error)
        else:
            messages.success(request, "The account is made; now say what they may do and see.")
            return redirect("person", name=made.username)
    typed = request.GET.get("q", "").strip()
    rows = User.objects.filter(username__icontains=typed).select_related("profile")
    rows = rows.prefetch_related("groups", "memberships", "user_permissions")
    try:
        page = pagination.page(rows, "pk", PAGE, request.GET.get("cursor"))
    except pagination.BadCursor as error:
        raise BadRequest(str(error)) from None
    context = {
        "page": page,
        "first": not request.GET.get("cursor"),
        "rows": [(user, roles.role_of(user), _projects(user)) for user in page.items],
        "q": typed,
        "form": form,
        "may_add": request.user.has_perm(people.ADD),
        "failed": JournalEntry.objects.failed_logins()[:FAILED],
    }
    return render(request, "people/list.html", context, status=422 if form.errors else 200)


@require_safe
@for_managers
def person(request: HttpRequest, name: str) -> HttpResponse:
    return _page(request, _person(name))


@by_form("rights")
def rights(user: User, by: User, said: dict[str, Any]) -> str:
    people.change(user, by, **said)
    return "Kept."


@by_form("join")
def join(user: User, by: User, said: dict[str, Any]) -> str:
    """Make a membership, or change its level."""
    people.join(user, said["project"], said["clearance"], by)
    return f"{user} is a member of {said['project']}, and sees their own projects alone."


@by_button
def leave(user: User, by: User, sent: QueryDict) -> str:
    project = sent.get("project", "")
    people.leave(user, project, by)
    return f"{user} has left {project}."


@by_button
def open_every_project(user: User, by: User, sent: QueryDict) -> str:
    people.open_every_project(user, by)
    return f"{user} sees every project now."


@by_form("password")
def new_password(user: User, by: User, said: dict[str, Any]) -> str:
    people.set_password(user, said["password"], by)
    return f"{user} has a new password, and is signed out everywhere."


@by_form("address")
def address(user: User, by: User, said: dict[str, Any]) -> str:
    """Set the e-mail address by which the organisation's sign-in knows them the first time."""
    people.set_address(user, said["email"], by)
    return "Kept."


@by_button
def unbind(user: User, by: User, sent: QueryDict) -> str:
    people.unbind(user, by)
    return f"{user} is not bound any more: who next comes with the account's address has it."


def _page(request: HttpRequest, user: User, **forms: PlainForm) -> HttpResponse:
    by = _by(request)
    context = {
        "person": user,
        "within_reach": people.within_reach(by, user),
        "is_own": by.pk == user.pk,
        "role": roles.role_of(user),
        "level": people.level_of(user),
        "memberships": list(Membership.objects.filter(user=user)),
        "confined": is_confined(user),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": getattr(user, "identity", None),
        "journal": JournalEntry.objects.about_person(user.username)[:ROWS],
        **{called: make(by, user, None) for called, make in FORMS.items() if called not in forms},
        **forms,
    }
    return render(request, "people/person.html", context, status=422 if forms else 200)


def _projects(user: Any) -> str:
    """The projects that a person sees, in a few words; their memberships are fetched already."""
    if not is_confined(user):
        return "every project"
    members = user.memberships.all()
    return ", ".join(f"{one.project} ({one.clearance})" if one.clearance else one.project for one in members)


def _person(name: str) -> User:
    found: User = get_object_or_404(User.objects.select_related("profile"), username=name)
    return found


def _by(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the middleware asks for a login before any page
    return request.user
