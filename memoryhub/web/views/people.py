"""People and their rights: for administrators, and only as far as their own rights go."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.models import JournalEntry, Membership
from memoryhub.retrieval import paging
from memoryhub.store.errors import StoreError
from memoryhub.team import people, roles
from memoryhub.team.membership import is_confined
from memoryhub.web.person_forms import (
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
        page = paging.page(rows, "pk", PAGE, request.GET.get("cursor"))
    except paging.BadCursor as error:
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


@require_POST
@for_managers
def rights(request: HttpRequest, name: str) -> HttpResponse:
    user = _person(name)
    form = RightsForm(_by(request), user, request.POST)
    if form.is_valid():
        values = {key: form.cleaned_data[key] for key in ("role", "level", "is_active", "is_staff")}
        if _written(form, lambda: people.change(user, _by(request), **values)):
            messages.success(request, "Kept.")
            return redirect("person", name=name)
    return _page(request, user, rights=form)


@require_POST
@for_managers
def join(request: HttpRequest, name: str) -> HttpResponse:
    """Make a membership, or change its level."""
    user = _person(name)
    form = JoinForm(_by(request), request.POST)
    if form.is_valid():
        project, level = form.cleaned_data["project"], form.cleaned_data["clearance"]
        if _written(form, lambda: people.join(user, project, level, _by(request))):
            messages.success(request, f"{user} is a member of {project}, and sees their own projects alone.")
            return redirect("person", name=name)
    return _page(request, user, join=form)


@require_POST
@for_managers
def leave(request: HttpRequest, name: str) -> HttpResponse:
    user, project = _person(name), request.POST.get("project", "")
    return _tell(
        request, name, lambda: people.leave(user, project, _by(request)), f"{user} has left {project}."
    )


@require_POST
@for_managers
def open_every_project(request: HttpRequest, name: str) -> HttpResponse:
    user = _person(name)
    write = lambda: people.open_every_project(user, _by(request))  # noqa: E731
    return _tell(request, name, write, f"{user} sees every project now.")


@require_POST
@for_managers
def new_password(request: HttpRequest, name: str) -> HttpResponse:
    user = _person(name)
    form = NewPasswordForm(request.POST)
    if form.is_valid() and _written(
        form, lambda: people.set_password(user, form.cleaned_data["password"], _by(request))
    ):
        messages.success(request, f"{user} has a new password, and is signed out everywhere.")
        return redirect("person", name=name)
    return _page(request, user, password=form)


@require_POST
@for_managers
def address(request: HttpRequest, name: str) -> HttpResponse:
    """Set the e-mail address by which the organisation's sign-in knows them the first time."""
    user = _person(name)
    form = AddressForm(request.POST)
    if form.is_valid() and _written(
        form, lambda: people.set_address(user, form.cleaned_data["email"], _by(request))
    ):
        messages.success(request, "Kept.")
        return redirect("person", name=name)
    return _page(request, user, address=form)


@require_POST
@for_managers
def unbind(request: HttpRequest, name: str) -> HttpResponse:
    user = _person(name)
    done = f"{user} is not bound any more: who next comes with the account's address has it."
    return _tell(request, name, lambda: people.unbind(user, _by(request)), done)


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
        "rights": forms.get("rights") or RightsForm(by, user),
        "join": forms.get("join") or JoinForm(by),
        "password": forms.get("password") or NewPasswordForm(),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": getattr(user, "identity", None),
        "address": forms.get("address") or AddressForm(initial={"email": user.email}),
        "journal": JournalEntry.objects.about_person(user.username)[:ROWS],
    }
    return render(request, "people/person.html", context, status=422 if forms else 200)


def _projects(user: Any) -> str:
    """The projects that a person sees, in a few words; their memberships are fetched already."""
    if not is_confined(user):
        return "every project"
    members = user.memberships.all()
    return ", ".join(f"{one.project} ({one.clearance})" if one.clearance else one.project for one in members)


def _written(form: PlainForm, write: Callable[[], Any]) -> bool:
    """Whether the core did it; what it refuses stands in the form."""
    try:
        write()
    except StoreError as error:
        form.refuse(error)
        return False
    return True


def _tell(request: HttpRequest, name: str, write: Callable[[], Any], done: str) -> HttpResponse:
    try:
        write()
    except StoreError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
    else:
        messages.success(request, done)
    return redirect("person", name=name)


def _person(name: str) -> User:
    found: User = get_object_or_404(User.objects.select_related("profile"), username=name)
    return found


def _by(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the middleware asks for a login before any page
    return request.user
