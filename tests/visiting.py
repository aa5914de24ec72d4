"""A browser in which somebody is signed in."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client


def enter(user: User, *levels: str) -> Client:
    """This person's browser, with the switches of these levels on."""
    client = Client()
    client.force_login(user)
    return show(client, *levels)


def show(client: Client, *levels: str) -> Client:
    """Turn on the switches of these levels, as the header's buttons do."""
    session = client.session
    for level in levels:
        session[f"show_{level}"] = True
    session.save()
    return client
