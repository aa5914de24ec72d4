"""Every URL that answers GET: pages, fragments, downloads and the admin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse

from memoryhub.accounts import clearance, people
from memoryhub.models import (
    AgentToken,
    Digest,
    Fact,
    Injection,
    JournalEntry,
    MaintenanceRun,
    Memory,
    MemoryCheck,
    SavedSearch,
    Session,
)
from memoryhub.web import urls
from tests import clients
from tests.accounts.passkey import confirm_session

# Query parameters of the pages; a page uses those it knows.
PARAMETERS = (
    "q query prompt project tag category concept entity file type scope sort order session session_id "
    "subject predicate object thing key operation actor object_id status reason day month since until "
    "page cursor at kind error format next toolset similarity min_confidence min_score from to told level "
    "once name add show"
).split()
FORMS = ("markdown", "json", "md")
INVITED = "invited"  # the user name of a person whose invitation is opened
# URLs that end a session or redirect.
LEADS_AWAY = {"logout", None, "search", "single-sign-on", "single-sign-on-back", "authorize"}


def patterns() -> Iterator[tuple[str, URLPattern]]:
    """Return every URL pattern with its prefix."""
    yield from _below(get_resolver().url_patterns, "")


def _below(found: list[Any], before: str) -> Iterator[tuple[str, URLPattern]]:
    for one in found:
        if isinstance(one, URLResolver):
            yield from _below(one.url_patterns, before + str(one.pattern))
        else:
            yield before + str(one.pattern), one


def invite(inviter: User) -> dict[str, Any]:
    """Return the arguments of the address of an invitation."""
    invited = User.objects.filter(username=INVITED).first()
    if invited:
        return {"account": invited.pk, "token": people.create_link(invited, inviter)}
    rights = {"email": "", "role": "", "level": "public", "projects": ["harbor"], "clearance": ""}
    user, token = people.invite(INVITED, inviter, **rights)
    return {"account": user.pk, "token": token}


class Walk:
    """The URLs that a person can open, found by trying every object of the store in each pattern."""

    def __init__(
        self, client: Client, look: Callable[[str, Any], None] = lambda address, response: None
    ) -> None:
        """``look`` is called with each URL and its response."""
        self.client, self.look = client, look
        self.unopened: list[str] = []
        self.last_status = 0
        # Fragments: without htmx they redirect to a whole page.
        self.fragments: set[str] = set()

    def opens(self, address: str) -> bool:
        response = self.client.get(address)
        if response.status_code == 302:
            response = self.client.get(address, headers={"HX-Request": "true"})
            self.fragments.add(address)
        self.last_status = response.status_code
        if response.status_code == 200:
            self.look(address, response)
        return bool(response.status_code == 200)

    def pages(self, most: int = 5) -> list[str]:
        """``most``: number of objects of each kind; more for memories and sessions."""
        found = []
        for pattern in urls.urlpatterns:
            opened = list(self._of(pattern, most))
            found += opened
            if not opened and pattern.name not in LEADS_AWAY and self._takes_get(pattern):
                self.unopened.append(str(pattern.pattern))
        return found

    def admin(self, most: int = 2) -> list[str]:
        found = [reverse("admin:index"), reverse("admin:app_list", args=["memoryhub"])]
        for model in admin.site._registry:
            name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
            found += [reverse(f"{name}_changelist"), reverse(f"{name}_add")]
            for pk in _spread(model._default_manager.order_by("pk").values_list("pk", flat=True), most):
                found += [reverse(f"{name}_{about}", args=[pk]) for about in ("change", "history", "delete")]
        return [one for one in found if self.opens(one)]

    def _of(self, pattern: URLPattern, most: int) -> Iterator[str]:
        for known in self._arguments(pattern, most):
            try:
                address = reverse(str(pattern.name), kwargs=known) if pattern.name else f"/{pattern.pattern}"
            except NoReverseMatch:  # the argument has another type
                continue
            if self.opens(address):
                yield address
            elif self.last_status == 405:
                return  # the pattern takes forms only, whatever the object

    def _arguments(self, pattern: URLPattern, most: int) -> Iterator[dict[str, str]]:
        names = list(pattern.pattern.converters)
        if not names:
            yield {}
            return
        if pattern.name == "invitation":
            yield from self._invitation()
            return
        first, *others = names
        if pattern.name in ("memory", "session"):
            most *= 8
        for value in self._values(first, str(pattern.pattern), most):
            if others == ["form"]:
                yield from ({first: value, "form": form} for form in FORMS)
            elif others:
                yield {first: value, **dict.fromkeys(others, "1")}
            else:
                yield {first: value}

    def _invitation(self) -> Iterator[dict[str, Any]]:
        """Invite a person in the name of the visitor, if the visitor may do so."""
        inviter = User.objects.get(pk=self.client.session["_auth_user_id"])
        if clearance.may_manage_people(inviter):
            yield invite(inviter)

    def _values(self, name: str, pattern: str, most: int) -> list[str]:
        if name == "client":
            return ["claude-code", "codex"]
        if name == "session_id":
            return _spread(Session.objects.order_by("pk").values_list("session_id", flat=True), most)
        if name == "name":
            return _spread(User.objects.order_by("pk").values_list("username", flat=True), most)
        models: dict[str, Any] = {
            "memories/": Memory,
            "facts/": Fact,
            "journal/": JournalEntry,
            "injections/": Injection,
            "transfer/": MaintenanceRun,
            "maintenance/": MaintenanceRun,
            "you/passkeys/": Authenticator,
            "you/digests/": Digest,
            "you/": AgentToken,
            "searches/": SavedSearch,
            "checks/": MemoryCheck,
        }
        chosen = [model for start, model in models.items() if pattern.startswith(start)] or models.values()
        return [uid for model in chosen for uid in self._some(model, most)]

    def _some(self, model: Any, most: int) -> list[str]:
        field = "uid" if any(one.name == "uid" for one in model._meta.fields) else "pk"
        rows = model._default_manager.order_by("pk").values_list(field, flat=True)
        return [str(uid) for uid in (_spread(rows, most) if model is Memory else rows[:most])]

    def _takes_get(self, pattern: URLPattern) -> bool:
        """Return whether the view answers GET, from its response to some object."""
        try:
            address = reverse(str(pattern.name), kwargs=dict.fromkeys(pattern.pattern.converters, "1"))
        except NoReverseMatch:
            return True
        return self.client.get(address).status_code not in (302, 403, 405)


def _spread(rows: Iterable[Any], most: int) -> list[Any]:
    """Return at most so many, evenly spread from first to last."""
    found = list(rows)
    return found[:: max(1, -(-len(found) // most))]


def enter(user: User) -> Client:
    """Return a browser in which this person sees every level and may change their second factors."""
    return confirm_session(clients.signed_in_client(user, "private", "secret"), user)


def body(response: Any) -> str:
    """Return the whole body, also of a streaming response."""
    try:
        return str(response.getvalue().decode())
    except UnicodeDecodeError:
        pytest.fail(f"not UTF-8: {response.request['PATH_INFO']}")
