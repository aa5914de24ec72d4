"""A browser in which somebody is signed in."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client


def signed_in_client(user: User, *levels: str) -> Client:
    """This person's browser, with the switches of these levels on."""
    client = Client()
    client.force_login(user)
    return turn_on_levels(client, *levels)


def turn_on_levels(client: Client, *levels: str) -> Client:
    """Turn on the switches of these levels, as the header's buttons do."""
    session = client.session
    for level in levels:
        session[f"show_{level}"] = True
    session.save()
    return client
