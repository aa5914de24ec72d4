"""A person with digests, a mail server and a receiver of webhooks, both real and on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import digests
from memoryhub.models import Digest, Membership
from tests.clients import create_person
from tests.digests import mail_server
from tests.embeddings import servers

HUB = "https://hub.example.org"


@pytest.fixture
def ada(db: None) -> User:
    """Ada may see private memories, but no secret ones."""
    user = create_person("ada", "view_private")
    user.email = "ada@example.org"
    user.save()
    return User.objects.get(pk=user.pk)


@pytest.fixture
def mail(settings: Any) -> Iterator[mail_server.MailServer]:
    with mail_server.serving() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.DEFAULT_FROM_EMAIL = "hub@example.org"
        yield server


@pytest.fixture
def receiver(configure: Callable[..., None]) -> Iterator[servers.Endpoint]:
    """A receiver of webhooks. The hub is allowed to post to private addresses."""
    configure(webhook_private_addresses=True)
    with servers.serving() as server:
        server.usual = servers.raw(b"ok")
        yield server


@pytest.fixture
def subscribe(ada: User) -> Callable[..., Digest]:
    """``subscribe(channel="email", project="p")`` creates a digest that is due."""

    def create(user: User | None = None, **values: Any) -> Digest:
        usual = {"project": "", "channel": "email", "period": "daily", "level": "public", "url": ""}
        digest = digests.create_digest(user or ada, **{**usual, **values}, hub=HUB)
        return make_due(digest)

    return create


def make_due(digest: Digest) -> Digest:
    Digest.objects.filter(pk=digest.pk).update(next_at=timezone.now())
    digest.refresh_from_db()
    return digest


def deliver(digest: Digest) -> Digest:
    digests.deliver(digest.pk, timezone.now())
    digest.refresh_from_db()
    return digest


def confine(user: User, **projects: str) -> None:
    for project, clearance in projects.items():
        Membership.objects.create(user=user, project=project, clearance=clearance)
