"""Test users, and clients in which they are signed in."""

from __future__ import annotations

import functools

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

PASSWORD = "a good password"


def create_person(name: str = "ada", *permissions: str, is_staff: bool = False) -> User:
    """Create a user with these permissions of the hub; the password is :data:`PASSWORD`."""
    user = User.objects.create_user(name, password=PASSWORD, is_staff=is_staff)
    numbers = _permission_numbers()
    assigned = User.user_permissions.through
    assigned.objects.bulk_create(
        assigned(user_id=user.pk, permission_id=numbers[codename]) for codename in set(permissions)
    )
    return user


@functools.cache
def _permission_numbers() -> dict[str, int]:
    """Return the primary keys of the permissions, which no test changes, by name."""
    rows = Permission.objects.filter(content_type__app_label="memoryhub")
    return dict(rows.values_list("codename", "pk"))


def signed_in_client(user: User, *levels: str) -> Client:
    """Return a client of this user that shows these sensitivity levels.

    ``Client.force_login`` and a change of its session take five times as many statements.
    """
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.update({f"show_{level}": True for level in levels})
    session.save()
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client


def turn_on_levels(client: Client, *levels: str) -> Client:
    """Show these sensitivity levels, like the buttons in the header."""
    session = client.session
    for level in levels:
        session[f"show_{level}"] = True
    session.save()
    return client
