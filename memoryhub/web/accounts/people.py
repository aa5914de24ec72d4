"""The pages on which administrators manage people, within the limits of their own rights."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.accounts import identities, people, second_factors
from memoryhub.accounts.clearance import is_confined, may_manage_people, request_clearance
from memoryhub.accounts.permissions import ADD_USER, user_role
from memoryhub.memories.errors import StoreError
from memoryhub.models import JournalEntry, Membership
from memoryhub.models.querysets import live_memories
from memoryhub.web.accounts.forms import AddressForm, InviteForm, JoinForm, NewPasswordForm, RightsForm
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.requests import cursor_page, require, signed_in_user

PAGE_SIZE, MAX_JOURNAL_ROWS, MAX_FAILED_LOGINS = 50, 30, 10

View = Callable[..., HttpResponse]
managers_only = require(may_manage_people)

# The forms of a person's page, made from the manager, the person and the submitted data.
PERSON_FORMS: dict[str, Callable[[User, User, QueryDict | None], PlainForm]] = {
    "rights": RightsForm,
    "join": lambda manager, user, data: JoinForm(manager, data),
    "password": lambda manager, user, data: NewPasswordForm(data),
    "address": lambda manager, user, data: AddressForm(data, initial={"email": user.email}),
}


def form_view(form_name: str) -> Callable[[Callable[[User, User, dict[str, Any]], str]], View]:
    """Turn a function that applies the values of a valid form and returns a message into a view.

    Errors and refusals are shown in the form, on the person's page.
    """

    def decorate(apply: Callable[[User, User, dict[str, Any]], str]) -> View:
        @require_POST
        @managers_only
        @wraps(apply)
        def view(request: HttpRequest, name: str) -> HttpResponse:
            user, manager = _find_person(name), signed_in_user(request)
            form = PERSON_FORMS[form_name](manager, user, request.POST)
            text = form.submit(lambda: apply(user, manager, form.cleaned_data))
            if text is None:
                return _render_person(request, user, **{form_name: form})
            messages.success(request, text)
            return redirect("person", name=name)

        return view

    return decorate


def button_view(apply: Callable[[User, User, QueryDict], str]) -> View:
    """Do the same for a single button. Without a form, refusals are shown as messages."""

    @require_POST
    @managers_only
    @wraps(apply)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        try:
            messages.success(request, apply(_find_person(name), signed_in_user(request), request.POST))
        except StoreError as error:
            messages.error(request, f"Nothing was changed: {error.message}.")
        return redirect("person", name=name)

    return view


@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
def people_list(request: HttpRequest) -> HttpResponse:
    """List the accounts. POST invites a person and shows the link once."""
    manager = signed_in_user(request)
    form = InviteForm(manager, request.POST if request.method == "POST" else None)
    if invited := form.submit(lambda: people.invite(by=manager, **form.cleaned_data)):
        return _render_link(request, *invited)
    query = request.GET.get("q", "").strip()
    rows = User.objects.filter(username__icontains=query).select_related("profile")
    rows = rows.prefetch_related("groups", "memberships", "user_permissions")
    listed = cursor_page(request, rows, "pk", PAGE_SIZE)
    expiries = people.link_expiries(listed["page"].items)
    context = {
        **listed,
        "rows": [
            (user, user_role(user), _describe_projects(user), expiries.get(user.username))
            for user in listed["page"].items
        ],
        "q": query,
        "form": form,
        "may_add": request.user.has_perm(ADD_USER),
        "failed": JournalEntry.objects.failed_logins()[:MAX_FAILED_LOGINS],
    }
    return render(request, "people/list.html", context, status=422 if form.errors else 200)


@require_safe
@managers_only
def person(request: HttpRequest, name: str) -> HttpResponse:
    return _render_person(request, _find_person(name))


@form_view("rights")
def rights(user: User, manager: User, data: dict[str, Any]) -> str:
    people.change_rights(user, manager, **data)
    return "Saved."


@form_view("join")
def join(user: User, manager: User, data: dict[str, Any]) -> str:
    """Add a membership, or change its level."""
    people.add_membership(user, data["project"], data["clearance"], manager)
    return f"{user} is a member of {data['project']}, and sees only their own projects."


@button_view
def leave(user: User, manager: User, data: QueryDict) -> str:
    project = data.get("project", "")
    people.remove_membership(user, project, manager)
    return f"{user} has left {project}."


@button_view
def open_every_project(user: User, manager: User, data: QueryDict) -> str:
    people.lift_confinement(user, manager)
    return f"{user} now sees all projects."


@form_view("password")
def new_password(user: User, manager: User, data: dict[str, Any]) -> str:
    people.set_password(user, data["password"], manager)
    return f"{user} has a new password, and is signed out everywhere."


@require_POST
@managers_only
def new_invitation(request: HttpRequest, name: str) -> HttpResponse:
    """Replace the link of an invited person and show the new one once."""
    user = _find_person(name)
    try:
        token = people.create_link(user, signed_in_user(request))
    except StoreError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
        return redirect("person", name=name)
    return _render_link(request, user, token)


@button_view
def revoke_invitation(user: User, manager: User, data: QueryDict) -> str:
    people.revoke_link(user, manager)
    return f"The invitation for {user} is revoked."


@form_view("address")
def address(user: User, manager: User, data: dict[str, Any]) -> str:
    """Set the e-mail address that the organisation's first sign-in is matched with."""
    people.set_email(user, data["email"], manager)
    return "Saved."


@button_view
def unbind(user: User, manager: User, data: QueryDict) -> str:
    people.unbind_account(user, manager)
    return f"{user} is unlinked. The next sign-in with the account's address is linked to it."


@button_view
def remove_second_factors(user: User, manager: User, data: QueryDict) -> str:
    people.remove_second_factors(user, manager)
    return f"The second factors of {user} are removed, and their sessions have ended."


@never_cache
def _render_link(request: HttpRequest, user: User, token: str) -> HttpResponse:
    link = request.build_absolute_uri(reverse("invitation", args=[user.pk, token]))
    context = {"person": user, "link": link, "expires": people.link_expiries([user]).get(user.username)}
    return render(request, "people/invited.html", context)


def _render_person(request: HttpRequest, user: User, **forms: PlainForm) -> HttpResponse:
    manager, identity = signed_in_user(request), identities.find_identity(user)
    memberships = list(Membership.objects.filter(user=user))
    # A misspelt project looks like a new one: the page shows which have no memories.
    live = live_memories(request_clearance(request))
    known = live.filter(project__in=[one.project for one in memberships])
    context = {
        "person": user,
        "may_change_account": people.may_change_account(manager, user),
        "can_invite": people.awaits_first_sign_in(user),
        "link_expires": people.link_expiries([user]).get(user.username),
        "is_own": manager.pk == user.pk,
        "has_second_factor": second_factors.has_second_factor(user),
        "role": user_role(user),
        "level": people.permitted_level(user),
        "memberships": memberships,
        "known_projects": set(known.order_by().values_list("project", flat=True).distinct()),
        "confined": is_confined(user),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": identity,
        "identity_signs_in": identities.signs_in(identity),
        "journal": JournalEntry.objects.about_person(user.username)[:MAX_JOURNAL_ROWS],
        **{name: make(manager, user, None) for name, make in PERSON_FORMS.items() if name not in forms},
        **forms,
    }
    return render(request, "people/person.html", context, status=422 if forms else 200)


def _describe_projects(user: Any) -> str:
    if not is_confined(user):
        return "All projects"
    return ", ".join(
        f"{member.project} ({member.clearance})" if member.clearance else member.project
        for member in user.memberships.all()
    )


def _find_person(name: str) -> User:
    return get_object_or_404(User.objects.select_related("profile"), username=name)
