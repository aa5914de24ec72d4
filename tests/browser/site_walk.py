"""Addresses of every page: all URL patterns with matching objects, and important states of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Count, Model
from django.test import Client
from django.urls import URLPattern, reverse

from memoryhub.models import (
    AgentToken,
    Digest,
    Fact,
    Injection,
    MaintenanceRun,
    Memory,
    MemoryCheck,
    SavedSearch,
    Session,
)
from memoryhub.transfer import jobs
from memoryhub.web import urls
from tests.browser import full_store
from tests.http.url_walk import invite

# More states of a page, by the name of its pattern.
STATES = {
    "review": [
        f"?tab={tab}"
        for tab in ("new", "unsure", "flagged", "outdated", "alike", "alike&look=1", "contradictions")
    ],
    "memory-compare": ["?from=1&to=now"],
    "memories": [
        *("?project=nowhere", "?tag=data", "?type=bugfix"),
        *("?q=tide&project=harbor-board", "?q=nothing+at+all", "?q=a&since=never", "?q=tiide+tabels"),
        *("?q=tide&order=-created_at", "?on=2020-01-01"),
    ],
    "preview": ["?prompt=Why+are+the+tide+heights+wrong%3F"],
    "sessions": ["?project=greenhouse"],
    "timeline": ["?project=greenhouse", "?month=never"],
    "timeline-entries": ["?project=harbor-board", "?since=never"],
    "facts": ["?min_confidence=2", "?subject=harbor-board"],
    "facts-graph": ["?thing=harbor-board", "?project=nowhere"],
    "thing": ["?name=harbor-board"],
    "journal": ["?operation=update", "?operation=never"],
    "duplicates-all": ["?similarity=0.97", "?project=nowhere"],
    "duplicates": ["?similarity=0.1", "?similarity=2", "?project=nowhere"],
    "injections": ["?project=nowhere"],
    "runs": ["?status=failed", "?operation=nothing"],
    "connect-snippet": ["?toolset=mira"],
    "session": ["?kind=event&order=newest&kept=skipped", "?kind=injection", "?kind=kept", "?project=shop"],
}
NOT_FOUND = "/nowhere/"
# Of the API: many parameters, a large body, a file, no token.
OPERATIONS = ("search_by_query", "store_memory", "import_file", "healthz")


class SiteWalk:
    """The addresses of all pages for this person; a pattern for which no object is known fails the test."""

    def __init__(self, client: Client, user: User) -> None:
        self.client, self.user = client, user

    def addresses(self) -> list[str]:
        found = [address for pattern in urls.urlpatterns for address in self._of(pattern)]
        of_api = [reverse("api-docs"), *(reverse("api-operation", args=[name]) for name in OPERATIONS)]
        of_people = [
            reverse("admin:auth_group_add"),
            reverse("admin:auth_user_change", args=[self._member()]),
        ]
        return [*found, *self._of_admin(), *of_people, *of_api, NOT_FOUND]

    def plain(self) -> list[str]:
        """The pages that are about no one object."""
        found = [one for one in urls.urlpatterns if not one.pattern.converters]
        return [address for pattern in found for address in self._of(pattern)]

    def _of(self, pattern: URLPattern) -> Iterator[str]:
        name = str(pattern.name or pattern.pattern)
        arguments: list[dict[str, str]] = [{}]
        if pattern.pattern.converters:
            if self._answers(pattern, dict.fromkeys(pattern.pattern.converters, "1")) == 405:
                return  # it takes what forms send and is no page
            arguments = self._arguments(pattern, name)
        for known in arguments:
            address = reverse(name, kwargs=known) if pattern.name else f"/{pattern.pattern}"
            if self._is_page(address):
                yield address
                yield from (address + query for query in STATES.get(name, []))

    def _answers(self, pattern: URLPattern, known: dict[str, str]) -> int:
        return int(self.client.get(reverse(str(pattern.name), kwargs=known)).status_code)

    def _arguments(self, pattern: URLPattern, name: str) -> list[dict[str, Any]]:
        """Objects for the address of a page about one of them."""
        about = str(pattern.pattern).partition("/")[0]
        if name == "memory-as":
            return [{"uid": self._memories()[0], "form": "markdown"}]
        if name == "mfa_remove_webauthn":
            return list(Authenticator.objects.filter(user=self.user, type="webauthn").values("pk"))
        if name == "digest":
            return [{"uid": uid} for uid in Digest.objects.values_list("uid", flat=True)]
        if name == "invitation":
            return [invite(self.user)]
        known: dict[str, Any] = {
            "memories": lambda: self._memories()[: None if name == "memory" else 2],
            "review": lambda: self._memories()[:1],
            "facts": lambda: list(Fact.objects.values_list("uid", flat=True)[:1]),
            "transfer": lambda: self._runs(imports=True),
            "maintenance": lambda: self._runs(imports=False),
            "you": lambda: list(AgentToken.objects.filter(owner=self.user).values_list("uid", flat=True)[:1]),
            "injections": lambda: list(Injection.objects.values_list("uid", flat=True)[:1]),
            "journal": lambda: ["1"],
            "people": lambda: ["kenji"],
            "project-settings": lambda: ["greenhouse"],
            "project-page": lambda: ["greenhouse"],
            "sessions": lambda: [*self._sessions(), full_store.SHARED_SESSION_ID],
            "reports": lambda: self._sessions()[:1],
            "checks": lambda: list(MemoryCheck.objects.values_list("uid", flat=True)[:1]),
            "connect": lambda: ["claude-code"],
            "agents": lambda: list(AgentToken.objects.values_list("name", flat=True)[:1]),
            "searches": lambda: list(SavedSearch.objects.values_list("uid", flat=True)[:1]),
        }
        if about not in known or len(pattern.pattern.converters) != 1:
            pytest.fail(f"the walk does not know how to open {name}: name an object in {__file__}")
        (argument,) = pattern.pattern.converters
        return [{argument: value} for value in known[about]()]

    def _member(self) -> int:
        """A person with memberships, whose page in the admin lists them."""
        return int(User.objects.filter(memberships__isnull=False).earliest("pk").pk)

    def _sessions(self) -> list[str]:
        """The longest, and another."""
        by_length = Session.objects.annotate(length=Count("events")).order_by("-length", "pk")
        assert by_length[0].length > 150
        return list(by_length.values_list("session_id", flat=True)[:2])

    def _memories(self) -> list[str]:
        """Memories with versions, trashed, expired, secret, with a long name, with every field."""
        by_change = Memory.objects.filter(revisions__isnull=False, deleted_at=None).order_by("pk")
        chosen = [
            by_change.first(),
            Memory.objects.trashed().order_by("pk").first(),
            Memory.objects.get(content__startswith="Old milk"),
            Memory.objects.filter(sensitivity="secret", deleted_at=None).first(),
            Memory.objects.get(title__startswith="a_name_without"),
            Memory.objects.get(title=full_store.FULL_TITLE),
        ]
        assert all(chosen)
        return [memory.uid for memory in chosen if memory]

    def _runs(self, *, imports: bool) -> list[str]:
        """One of each kind of run: operation, dry or not, and how it ended."""
        rows = MaintenanceRun.objects.order_by("-pk")
        rows = (
            rows.filter(operation=jobs.OPERATION_NAME)
            if imports
            else rows.exclude(operation=jobs.OPERATION_NAME)
        )
        kinds = {(row.operation, row.dry_run, row.status): row.uid for row in rows}
        return list(kinds.values())

    def _of_admin(self) -> Iterator[str]:
        """The hub's own part of the admin: of each kind of row the list, the form, one row, its history."""
        yield from filter(self._is_page, (reverse("admin:index"), reverse("admin:login")))
        for model in filter(_is_ours, admin.site._registry):
            name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
            row = model._default_manager.order_by("pk").first()
            plain = [f"{name}_changelist", f"{name}_add"]
            about = ("change", "history", "delete") if row else ()
            of_row = [reverse(f"{name}_{page}", args=[row.pk]) for page in about if row]
            yield from filter(self._is_page, [*map(reverse, plain), *of_row])

    def _is_page(self, address: str) -> bool:
        """Return whether the address is a whole page: no fragment, download or redirect."""
        response = self.client.get(address)
        if response.status_code in (302, 301, 403, 404, 405):
            return False
        assert response.status_code == 200, (address, response.status_code)
        text = response.headers["Content-Type"].startswith("text/html") and not response.streaming
        return text and b"<html" in response.content[:500]


def _is_ours(model: type[Model]) -> bool:
    """Accounts and groups are Django's own pages."""
    return model._meta.app_label == "memoryhub"
