"""Test clients of signed-in users."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client


def signed_in_client(user: User, *levels: str) -> Client:
    """Return a client of this user that shows these sensitivity levels."""
    client = Client()
    client.force_login(user)
    return turn_on_levels(client, *levels)


def turn_on_levels(client: Client, *levels: str) -> Client:
    """Show these sensitivity levels, like the buttons in the header."""
    session = client.session
    for level in levels:
        session[f"show_{level}"] = True
    session.save()
    return client
