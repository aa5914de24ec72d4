"""Create, change and send digests: the news of a person's memories, by e-mail or webhook. The only writer.

A run of :class:`SendDigests` sends those that are due. It first moves ``next_at`` to the time of the next
attempt. The process that moves it sends the digest, so that one period brings one digest however many
processes there are, and a failed attempt is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.utils import timezone
from pydantic import BaseModel, ConfigDict

from memoryhub.access.policy import Actor, Sensitivity, system_actor
from memoryhub.accounts.clearance import may_view_level, user_clearance
from memoryhub.accounts.sign_in import PERSON_TYPE, record_account_event
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.http_client import is_valid_url, may_be_public
from memoryhub.digests import messages
from memoryhub.digests.messages import Content, DeliveryFailed, collect_content, digest_clearance
from memoryhub.maintenance import operations
from memoryhub.maintenance.operations.base import Operation, Step
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import Digest, Memory

logger = logging.getLogger(__name__)
DIGESTS_ACTOR = system_actor("digests")
MAX_DIGESTS = 20  # per person
SEND_AT = time(7)  # in the person's time zone; weekly ones on Mondays
PERIODS = {Digest.DAILY: timedelta(days=1), Digest.WEEKLY: timedelta(days=7)}
# After the first, second and further failures. Then the digest waits for its next period, which covers both.
RETRY_PAUSES = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4))
TEST_PAUSE = timedelta(seconds=30)


def list_digests(user: User) -> QuerySet[Digest]:
    """Return the digests of a person, oldest first."""
    return Digest.objects.filter(user=user).select_related("user__profile")


def failed_digests(user: User) -> QuerySet[Digest]:
    """Return the digests of a person whose last delivery failed."""
    return list_digests(user).filter(enabled=True).exclude(error="")


def get_digest(user: User, uid: str) -> Digest:
    digest = list_digests(user).filter(uid=uid).first()
    if digest is None:
        raise NotFound("there is no such digest")
    return digest


def create_digest(
    user: User, *, project: str, channel: str, period: str, level: str, url: str, hub: str
) -> Digest:
    """Create a digest. ``hub``: the address of the hub, for links. The first one covers a whole period."""
    now = timezone.now()
    digest = Digest(user=user, channel=channel, hub_url=hub, since=now - PERIODS[period], created_at=now)
    digest.secret = messages.new_secret() if channel == Digest.WEBHOOK else ""
    with write_transaction():
        others = list_digests(user)
        if others.count() >= MAX_DIGESTS:
            raise Conflict(f"you have {MAX_DIGESTS} digests already; delete one first", "channel")
        if others.filter(project=project, channel=channel, url=url).exists():
            raise Conflict("you have this digest already; change that one", "project")
        return _save(digest, project, period, level, url, "digest_created")


def change_digest(
    user: User, uid: str, *, project: str, period: str, level: str, url: str, enabled: bool
) -> Digest:
    """Change a digest. One that is turned on again covers the last period only."""
    with write_transaction():
        digest = get_digest(user, uid)
        if enabled and not digest.enabled:
            digest.since = max(digest.since, timezone.now() - PERIODS[period])
        digest.enabled, digest.error, digest.attempts = enabled, "", 0
        return _save(digest, project, period, level, url, "digest_changed")


def delete_digest(user: User, uid: str) -> Digest:
    """Delete and return a digest, so that it can be created again."""
    with write_transaction():
        digest = get_digest(user, uid)
        _record(digest, "digest_deleted")
        digest.delete()
    return digest


def replace_secret(user: User, uid: str) -> Digest:
    """Give a webhook a new signing secret; the old one is no longer used."""
    with write_transaction():
        digest = get_digest(user, uid)
        if digest.channel != Digest.WEBHOOK:
            raise Conflict("only webhooks are signed")
        digest.secret = messages.new_secret()
        digest.save(update_fields=["secret"])
        _record(digest, "digest_secret")
    return digest


def _save(digest: Digest, project: str, period: str, level: str, url: str, operation: str) -> Digest:
    is_moved = project != digest.project
    digest.project, digest.period, digest.url = project, period, url
    digest.level = level if digest.channel == Digest.EMAIL else Sensitivity.PUBLIC.value
    _refuse(digest)
    if project and is_moved:  # one whose project is gone can still be turned off
        _refuse_unknown_project(digest)
    digest.next_at = next_time(digest, timezone.now())
    digest.save()
    _record(digest, operation)
    return digest


def _refuse(digest: Digest) -> None:
    if digest.level != Sensitivity.PUBLIC.value and not may_view_level(digest.user, digest.level):
        raise Forbidden("you cannot see this level; choose a lower one", "level")
    if len(digest.project) > 200 or not digest.project.isprintable():
        raise StoreError("must be at most 200 printable characters", "project")
    if digest.project and not digest_clearance(digest).includes_project(digest.project):
        raise Forbidden("you have no access to this project; choose one of yours", "project")
    if digest.channel == Digest.WEBHOOK:
        _check_url(digest.url)
    elif not settings.EMAIL_HOST:
        raise StoreError(
            "e-mail is not set up on this hub; use a webhook, or ask an administrator", "channel"
        )
    elif not digest.user.email:
        raise StoreError("your account has no e-mail address; ask an administrator to add it", "channel")


def _refuse_unknown_project(digest: Digest) -> None:
    """Refuse a project in which the person sees no memory, unless they are a member of it."""
    clearance = user_clearance(digest.user)
    seen = Memory.objects.visible_to(clearance).filter(project=digest.project)
    if clearance.projects is None and not seen.exists():
        raise StoreError(
            "there is no project of this name with memories that you can see; choose one of the suggestions,"
            " or leave it empty for all projects",
            "project",
        )


def _check_url(url: str) -> None:
    private = settings.MEMORYHUB.webhook_private_addresses
    if not is_valid_url(url) or urlsplit(url).username is not None:
        raise StoreError("must be an address such as https://hooks.example.org/abc", "url")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and private):
        raise StoreError("must be an https address", "url")
    if not private and not may_be_public(parts.hostname or ""):
        raise StoreError("leads to a private address; use a public one, or ask an administrator", "url")


def next_time(digest: Digest, after: datetime) -> datetime:
    """Return the next time to send: 07:00 where the person is, on Mondays for weekly digests."""
    zone = messages.time_zone(digest)
    day = after.astimezone(zone).date()
    moment = datetime.combine(day, SEND_AT, zone)
    while moment <= after or (digest.period == Digest.WEEKLY and day.weekday() != 0):
        day += timedelta(days=1)
        moment = datetime.combine(day, SEND_AT, zone)
    return moment


# --- Sending ------------------------------------------------------------------------------------------------


def send_test(user: User, uid: str) -> Content:
    """Send what the next digest would contain now, without counting it as sent. Raise DeliveryFailed."""
    now = timezone.now()
    digest = get_digest(user, uid)
    with write_transaction():
        waiting = list_digests(user).filter(tested_at__gt=now - TEST_PAUSE)
        if waiting.exists():
            raise Conflict(f"wait {TEST_PAUSE.seconds} seconds between two tests")
        Digest.objects.filter(pk=digest.pk).update(tested_at=now)
    content = collect_content(digest, now)
    if not content.is_open:
        raise Forbidden("you no longer have access to this project; choose another one")
    messages.send(digest, content, now)
    return content


def deliver(pk: int, now: datetime) -> None:
    """Send a digest if it is still due. Nothing is sent if there is nothing to report."""
    digest = _claim(pk, now)
    if digest is None:
        return
    content = collect_content(digest, now)
    try:
        if content.sections:
            messages.send(digest, content, now)
    except DeliveryFailed as error:
        _note_failure(digest, str(error), now)
        return
    values: dict[str, Any] = {"since": now, "next_at": next_time(digest, now), "attempts": 0, "error": ""}
    with write_transaction():
        if content.sections:
            values["sent_at"] = now
            counts = {one.name: one.count for one in content.sections}
            _record(digest, "digest_sent", DIGESTS_ACTOR, **counts)
        _not_sent_since(digest).update(**values)


def _not_sent_since(digest: Digest) -> QuerySet[Digest]:
    """Return the digest unless another process has sent it, because this one was stopped for long."""
    return Digest.objects.filter(pk=digest.pk, since=digest.since)


def _claim(pk: int, now: datetime) -> Digest | None:
    """Move a due digest to its next attempt, and return it; None if another process has done so."""
    with write_transaction():
        digest = Digest.objects.due(now).select_related("user__profile").filter(pk=pk).first()
        if digest is None:
            return None
        pause = RETRY_PAUSES[min(digest.attempts, len(RETRY_PAUSES) - 1)]
        Digest.objects.filter(pk=pk).update(next_at=now + pause, attempts=F("attempts") + 1)
        digest.attempts += 1
    return digest


def _note_failure(digest: Digest, error: str, now: datetime) -> None:
    values: dict[str, Any] = {"error": error[:500], "failed_at": now}
    if digest.attempts > len(RETRY_PAUSES):
        values |= {"attempts": 0, "next_at": next_time(digest, now)}
    logger.warning("digest %s was not delivered: %s", digest.uid, error)
    with write_transaction():
        _not_sent_since(digest).update(**values)
        _record(digest, "digest_failed", DIGESTS_ACTOR, error=error, attempt=digest.attempts)


def _record(digest: Digest, operation: str, actor: Actor | None = None, **detail: Any) -> None:
    """Journal an event of a digest, visible to its owner and to people who manage accounts."""
    detail = {"digest": digest.uid, "channel": digest.channel, "in_project": digest.project, **detail}
    if actor is None:
        record_account_event(digest.user, operation, **detail, period=digest.period, enabled=digest.enabled)
        return
    name = digest.user.get_username()
    journal.record(actor, [journal.Change(operation, PERSON_TYPE, name, detail, owner=name)])


class NoParams(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SendDigests(Operation[NoParams]):
    name = operations.SEND_DIGESTS
    label = "Send digests"
    help = "Sends the digests that are due. Memories do not change, so there is nothing to undo."
    whole_store = True
    Params = NoParams

    def total(self, params: NoParams, actor: Actor, now: datetime) -> int:
        return Digest.objects.due(now).count()

    def steps(
        self, params: NoParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        """Yield a step for each digest. It is sent after the step's transaction."""
        for pk in list(Digest.objects.due(now).values_list("pk", flat=True)):
            yield Step((), {}, 1, chore=True, afterwards=partial(lambda pk: deliver(pk, timezone.now()), pk))


SEND_DIGESTS = SendDigests()
