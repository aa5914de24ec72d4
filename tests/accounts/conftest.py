"""Members of projects, and memories in three projects at three levels with everything attached to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils import timezone
from django.utils.datastructures import MultiValueDict

from memoryhub.access.policy import LEVELS, system_actor
from memoryhub.http import authentication
from memoryhub.maintenance import results
from memoryhub.models import (
    Event,
    Fact,
    FileLink,
    Injection,
    Label,
    MaintenanceRun,
    Membership,
    Memory,
    Revision,
    Session,
)
from tests.accounts.provider import CLIENT, SECRET, Provider, serve
from tests.clients import create_person

PROJECTS = ("barn", "farm", "zoo")


@pytest.fixture
def member(db: None) -> Callable[..., User]:
    """``member("view_private", farm="secret", barn="")``: ada with these permissions and memberships."""

    def make(*permissions: str, name: str = "ada", staff: bool = False, **projects: str) -> User:
        user = create_person(name, *permissions, is_staff=staff)
        for project, clearance in projects.items():
            Membership.objects.create(user=user, project=project, clearance=clearance)
        return User.objects.get(pk=user.pk)

    return make


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the form fields and query parameters that views have read."""
    names: set[str] = set()
    find = MultiValueDict.__getitem__

    def read(sent: QueryDict, name: str) -> Any:
        names.add(name)
        return find(sent, name)

    monkeypatch.setattr(QueryDict, "__getitem__", read)
    return names


def word(project: str, level: str) -> str:
    """Return a word that only the memory of this project and level contains."""
    return f"{project}{level}words"


def seen(text: str) -> set[tuple[str, str]]:
    """Return the projects and levels whose words are in a text."""
    return {(p, level) for p in PROJECTS for level in LEVELS if word(p, level) in text}


@pytest.fixture
def world(remember: Callable[..., Memory]) -> dict[tuple[str, str], Memory]:
    """Nine memories with everything attached to them, and a session in each project."""
    return {(p, level): _create_with_everything(remember, p, level) for p in PROJECTS for level in LEVELS}


def _create_with_everything(remember: Callable[..., Memory], project: str, level: str) -> Memory:
    unique = word(project, level)
    memory = remember(
        f"zebra {unique}",
        title=f"zebra {unique}",
        project=project,
        sensitivity=level,
        category=f"cat{unique}",
        session_id=f"safari-{project}",
        entities=[{"entity": f"ent{unique}"}],
    )
    session = Session.objects.get(session_id=f"safari-{project}")
    gate = {"project": project, "sensitivity": level}
    Label.objects.create(memory=memory, kind="tag", value=f"tag{unique}")
    Label.objects.create(memory=memory, kind="concept", value=f"con{unique}")
    FileLink.objects.create(memory=memory, access="read", path=f"src/{unique}.py", basename=f"{unique}.py")
    Fact.objects.create(subject="zebra", predicate="has", object=unique, memory=memory, **gate)
    Fact.objects.create(subject=f"sub{unique}", predicate="is", object="x", **gate)
    Revision.objects.create(memory=memory, number=1, sensitivity=level, before={"title": f"old{unique}"})
    Event.objects.create(session=session, event="tool:post", sensitivity=level, preview=f"ev{unique}")
    shown: Any = [{"id": memory.uid, "score": 0.9, "scale": "recent"}]
    Injection.objects.create(
        session=session, prompt_preview=f"in{unique}", injected=shown, at=timezone.now(), **gate
    )
    MaintenanceRun.objects.create(
        operation="consolidate",
        project=project,
        params={"project": project},
        reach=results.clearance_to_json(system_actor("tests").clearance),
    )
    return memory


@pytest.fixture(autouse=True)
def full_buckets() -> None:
    """Tests share addresses."""
    authentication.reset_limits()


@pytest.fixture
def provider(settings: Any, db: None) -> Iterator[Provider]:
    """A configured provider; ada has an account with her address."""
    one = Provider()
    server = serve(one)
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = one.issuer, CLIENT, SECRET
    User.objects.create_user("ada", email="Ada@example.org")
    yield one
    server.shutdown()
    server.server_close()
