"""Fixtures: signed-in persons with permissions and switches, and memories."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.models import Memory
from tests.clients import create_person, signed_in_client
from tests.web.duplicates_page import CURATOR_PERMISSIONS, DUPLICATE_TEXT
from tests.web.maintenance_pages import set_age

SignIn = Callable[..., Client]
MakePerson = Callable[..., User]


@pytest.fixture
def person(db: None) -> MakePerson:
    """``person("ada", "add_memory", "view_private")`` creates a user with these permissions."""
    return create_person


@pytest.fixture
def sign_in(person: MakePerson) -> SignIn:
    """``sign_in("view_private", on=["private"])``: a client signed in as ada, with switches turned on."""

    def enter(*permissions: str, on: tuple[str, ...] | list[str] = (), name: str = "ada") -> Client:
        return signed_in_client(person(name, *permissions), *on)

    return enter


@pytest.fixture
def reviewer(sign_in: SignIn) -> Client:
    """A browser of a person with permission to open the review, but not to change a memory."""
    return sign_in("change_fact")


@pytest.fixture
def visitor(sign_in: SignIn) -> Client:
    """A signed-in person without permissions."""
    return sign_in()


@pytest.fixture
def overseer(sign_in: SignIn) -> Client:
    """A person with permission to see everything, with all switches off."""
    return sign_in("view_private", "view_secret", name="overseer")


@pytest.fixture
def insider(sign_in: SignIn) -> Client:
    """A person with permission to see everything, with all switches on."""
    return sign_in("view_private", "view_secret", on=["private", "secret"])


@pytest.fixture
def writer(sign_in: SignIn) -> Client:
    """A person with permission to add, change and trash memories."""
    return sign_in("add_memory", "change_memory", "delete_memory")


@pytest.fixture
def keeper(sign_in: SignIn) -> Client:
    """A person with permission to run maintenance and to trash memories, who sees public ones."""
    return sign_in("add_maintenancerun", "view_maintenancerun", "delete_memory")


@pytest.fixture
def curator(sign_in: SignIn) -> Client:
    """A person with permission to merge near-duplicates and sees public memories."""
    return sign_in(*CURATOR_PERMISSIONS)


@pytest.fixture
def alike(remember: Callable[..., Memory]) -> list[Memory]:
    """Two near-duplicates; the longer one would be kept."""
    return [
        remember(f"{DUPLICATE_TEXT} at two", project="p"),
        remember(DUPLICATE_TEXT, project="p", tags=["t"]),
    ]


@pytest.fixture
def unsure(remember: Callable[..., Memory]) -> Memory:
    """A memory in the review queue, as new and with low confidence."""
    return remember("The moon is made of cheese", title="About the moon", confidence=0.2, project="p")


@pytest.fixture
def faded(remember: Callable[..., Memory]) -> list[Memory]:
    """Three memories that consolidation will lower from 0.5 to 0.4."""
    made = [remember(f"faded paint {number}", project="attic") for number in range(3)]
    set_age(made, 5)
    return made
