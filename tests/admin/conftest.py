"""Users of the admin: a superuser, and staff with the permissions that a test names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from tests.clients import create_person, signed_in_client

CURATOR = ("view_memory", "add_memory", "change_memory", "delete_memory")


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """``staff("view_memory")`` logs in ``cleo`` with this permission and returns the client."""

    def make(*permissions: str, username: str = "cleo") -> Client:
        return signed_in_client(create_person(username, *permissions, is_staff=True))

    return make


@pytest.fixture
def curator(staff: Callable[..., Client]) -> Client:
    """Staff with all permissions on public memories except erasing."""
    return staff(*CURATOR)


@pytest.fixture
def boss(db: None) -> Client:
    """A superuser with all switches off."""
    return signed_in_client(User.objects.create_superuser("boss"))


def page(model: type[Model] | str, view: str = "changelist", *args: Any) -> str:
    name = model if isinstance(model, str) else model._meta.model_name
    return reverse(f"admin:memoryhub_{name}_{view}", args=args)


def act(client: Client, action: str, *objects: Model, query: str = "", **extra: Any) -> Any:
    """Choose an action for rows of a list, as its form does."""
    data = {"action": action, "_selected_action": [obj.pk for obj in objects], **extra}
    return client.post(page(type(objects[0])) + query, data)


def confirm(client: Client, response: Any, query: str = "", **values: Any) -> Any:
    """Send the form of an intermediate page."""
    context = response.context
    data = {
        "action": context["action"],
        "_selected_action": context["keys"].split(",")[0],
        "select_across": "1",
        "confirmed": "yes",
        "keys": context["keys"],
        **values,
    }
    return client.post(page(context["opts"].model) + query, data)


def shown_messages(client: Client, response: Any) -> list[str]:
    """Return the messages that the next page shows."""
    return [str(message) for message in client.get(response.url).context["messages"]]
