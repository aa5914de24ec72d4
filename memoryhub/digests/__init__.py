"""Create, change and send digests: the news of a person's memories, by e-mail or webhook. The only writer.

A run of :class:`SendDigests` sends those that are due. It first moves ``next_at`` to the time of the next
attempt. The process that moves it sends the digest, so that one period brings one digest however many
processes there are, and a failed attempt is repeated.

The content is new, flagged, expiring and contradicting memories that the recipient may see. A webhook gets it
as a signed request in Slack's format. Both ways raise DeliveryFailed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
import smtplib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from functools import partial
from html import escape
from typing import Any
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db.models import F, Q, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from pydantic import BaseModel, ConfigDict

from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity, level_rank, system_actor
from memoryhub.accounts.clearance import may_view_level, user_clearance
from memoryhub.accounts.sign_in import PERSON_TYPE, record_account_event
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import expiry_time
from memoryhub.core.network import Unreachable, is_valid_url, may_be_public, post_json
from memoryhub.core.text import first_line, readable, shorten
from memoryhub.facts.contradictions import Contradiction, find_contradictions
from memoryhub.maintenance import operations
from memoryhub.maintenance.operations.base import Operation, Step
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import Digest, Fact, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats.counts import EXPIRING_DAYS, FLAGGED, Reviewer, reason_condition

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
    digest.secret = new_secret() if channel == Digest.WEBHOOK else ""
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
        digest.secret = new_secret()
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
    zone = time_zone(digest)
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
    send(digest, content, now)
    return content


def deliver(pk: int, now: datetime) -> None:
    """Send a digest if it is still due. Nothing is sent if there is nothing to report."""
    digest = _claim(pk, now)
    if digest is None:
        return
    content = collect_content(digest, now)
    try:
        if content.sections:
            send(digest, content, now)
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


WEBHOOK_SECONDS, MAX_ANSWER_BYTES = 15.0, 100_000
_SECRET_PREFIX = "whsec_"  # noqa: S105 as libraries for Standard Webhooks expect it


class DeliveryFailed(Exception):
    """A digest was not delivered. The text is for its owner and contains no address and no password."""


def send(digest: Digest, content: Content, now: datetime) -> None:
    """Send a digest through its channel."""
    if digest.channel == Digest.WEBHOOK:
        _post_webhook(digest, content, now)
    else:
        _send_mail(digest, content)


def delivery_id(digest: Digest) -> str:
    """Return an id that all attempts for one period share, so that receivers can ignore repetitions."""
    return f"{digest.uid}-{int(digest.since.timestamp())}"


def hub_url(digest: Digest) -> str:
    return str(settings.PUBLIC_URL or digest.hub_url)


def settings_url(digest: Digest) -> str:
    return hub_url(digest) + reverse("digest", args=[digest.uid])


def time_zone(digest: Digest) -> ZoneInfo:
    """Return the time zone of the person, or that of the hub."""
    profile = getattr(digest.user, "profile", None)
    return ZoneInfo((profile and profile.time_zone) or settings.TIME_ZONE)


def describe_period(digest: Digest) -> str:
    """Return where the digest starts, such as ``since Monday 23 November 2026``."""
    start = digest.since.astimezone(time_zone(digest))
    return f"since {start:%A} {start.day} {start:%B %Y}"


# --- E-mail -------------------------------------------------------------------------------------------------


def subject(digest: Digest, content: Content) -> str:
    about = f" · {digest.project}" if digest.project else ""
    return f"Memories{about}: {content.summary or 'nothing new'}"


def _send_mail(digest: Digest, content: Content) -> None:
    if not settings.EMAIL_HOST:
        raise DeliveryFailed(
            "e-mail is not set up on this hub; ask an administrator to set MEMORYHUB_EMAIL_URL"
        )
    if not digest.user.email:
        raise DeliveryFailed("your account has no e-mail address; ask an administrator to add it")
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2]
    mail = EmailMultiAlternatives(
        subject(digest, content),
        plain_text(digest, content),
        to=[digest.user.email],
        headers={
            "Message-ID": f"<{delivery_id(digest)}@{domain}>",
            "List-Unsubscribe": f"<{settings_url(digest)}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    mail.attach_alternative(html_text(digest, content), "text/html")
    mail.connection = get_connection()
    try:
        mail.send()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise DeliveryFailed(describe_mail_error(error)) from None
    finally:
        mail.connection.close()  # Django leaves it open if the server refuses the login


def describe_mail_error(error: Exception) -> str:
    """Describe a failure without the words of the server, which may repeat addresses and passwords."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return "the mail server refuses the username or the password"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the mail server refuses the recipient's address"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the mail server returned the error {error.smtp_code}"
    if isinstance(error, TimeoutError):
        return "the mail server does not answer in time"
    if isinstance(error, smtplib.SMTPException):
        return f"the mail server does not accept the e-mail ({type(error).__name__})"
    if isinstance(error, OSError):
        return f"the mail server cannot be reached: {error.strerror or type(error).__name__}"
    return "the e-mail cannot be written; ask an administrator to check your e-mail address"


def html_text(digest: Digest, content: Content) -> str:
    context = {
        "content": content,
        "digest": digest,
        "subject": subject(digest, content),
        "period": describe_period(digest),
        "hub": hub_url(digest),
        "settings": settings_url(digest),
    }
    return render_to_string("digests/mail.html", context)


def plain_text(digest: Digest, content: Content) -> str:
    """Return the text of the e-mail for readers without HTML."""
    hub, scope = hub_url(digest), digest.project or "all your projects"
    news = "Changes" if content.sections else "Nothing new"
    lines = [f"{news} in {scope} {describe_period(digest)}", ""]
    for section in content.sections:
        lines += [f"{section.title} ({section.count:,})", ""]
        for entry in section.entries:
            about = f" [{entry.project}]" if entry.project and not digest.project else ""
            lines += [f"* {entry.text}{about}", f"  {hub}{entry.path}"]
        if section.more:
            lines += [f"and {section.more:,} more: {hub}{section.path}"]
        lines += [""]
    lines += ["--", f"Change or turn off this {digest.period} digest: {settings_url(digest)}", ""]
    return "\n".join(lines)


# --- Webhook ------------------------------------------------------------------------------------------------


def new_secret() -> str:
    """Return a signing secret in the form of Standard Webhooks."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def sign(secret: str, message_id: str, timestamp: str, body: str) -> str:
    """Return the value of ``webhook-signature`` (Standard Webhooks): HMAC-SHA256 of id, time and body."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def slack_text(digest: Digest, content: Content) -> str:
    """Return the digest in Slack's markup. Titles are escaped, so that none makes a link or a mention."""
    hub = hub_url(digest)
    about = f" in {_slack_escape(digest.project)}" if digest.project else ""
    lines = [f"*Memories{about}* {describe_period(digest)}: {content.summary or 'nothing new'}"]
    for section in content.sections:
        lines += [f"*{section.title}*"]
        for entry in section.entries:
            project = f" ({_slack_escape(entry.project)})" if entry.project and not digest.project else ""
            lines += [f"• <{escape(hub + entry.path, quote=False)}|{_slack_escape(entry.text)}>{project}"]
        if section.more:
            lines += [f"<{escape(hub + section.path, quote=False)}|and {section.more:,} more>"]
    return "\n".join(lines)


def _slack_escape(text: str) -> str:
    """Escape as Slack asks for, and replace the marks of bold, code, struck text and links by look-alikes."""
    return escape(text.translate(str.maketrans("*`|~_", "∗ˋ¦∼ˍ")), quote=False)


def _post_webhook(digest: Digest, content: Content, now: datetime) -> None:
    body = json.dumps({"text": slack_text(digest, content)})
    message_id, timestamp = delivery_id(digest), str(int(now.timestamp()))
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(digest.secret, message_id, timestamp, body),
    }
    private = settings.MEMORYHUB.webhook_private_addresses
    try:
        answer = post_json(
            digest.url,
            body,
            "",
            WEBHOOK_SECONDS,
            MAX_ANSWER_BYTES,
            private_names=private,
            public_only=not private,
            headers=headers,
        )
    except Unreachable as error:
        raise DeliveryFailed(f"the webhook {error}") from None
    if not 200 <= answer.status < 300:
        redirects = "; use the address that it redirects to" if 300 <= answer.status < 400 else ""
        raise DeliveryFailed(f"the webhook returned status {answer.status}{redirects}")


MAX_ENTRIES = 10  # listed in each section
MAX_TEXT = 140


@dataclass(frozen=True)
class Entry:
    """A line of a digest. ``path``: its page on the hub."""

    text: str
    path: str
    project: str = ""


@dataclass(frozen=True)
class Section:
    """Entries of one kind. ``count``: how many there are, ``path``: the page that lists them."""

    name: str
    title: str
    count: int
    entries: tuple[Entry, ...]
    path: str

    @property
    def more(self) -> int:
        return self.count - len(self.entries)


@dataclass(frozen=True)
class Content:
    """The sections that are not empty. ``is_open``: False once the person has lost access to the project."""

    sections: tuple[Section, ...] = ()
    is_open: bool = True

    @property
    def summary(self) -> str:
        """The counts, such as ``3 new, 1 flagged``."""
        return ", ".join(f"{one.count:,} {one.name}" for one in self.sections)


def digest_clearance(digest: Digest) -> Clearance:
    """Return what a digest may contain: never secrets; public and shared memories for a webhook."""
    if digest.channel == Digest.WEBHOOK:
        clearance = user_clearance(digest.user, [Sensitivity.PUBLIC.value])
        return replace(clearance, owner="")  # others read the channel, so no personal memories
    most = min(level_rank(digest.level), level_rank(Sensitivity.PRIVATE.value))
    return user_clearance(digest.user, LEVELS[: most + 1])


def collect_content(digest: Digest, now: datetime) -> Content:
    """Return what has happened since the last digest, with what its recipient may see now."""
    clearance, project = digest_clearance(digest), digest.project
    if project and not clearance.includes_project(project):
        return Content(is_open=False)
    live = Memory.objects.visible_to(clearance).live(now)
    sections = (
        *_memory_sections(live.filter(project=project) if project else live, digest, now),
        _contradictions(clearance, digest, now),
    )
    return Content(tuple(one for one in sections if one.count))


def _memory_sections(live: MemoryQuerySet, digest: Digest, now: datetime) -> Iterator[Section]:
    since, reader = digest.since, Reviewer(f"user:{digest.user.get_username()}", digest.since)
    arrived = Q(created_at__gt=since, created_at__lte=now) | Q(imported_at__gt=since, imported_at__lte=now)
    new = live.filter(arrived).exclude(author=reader.name).order_by("-pk")
    flagged = live.filter(reason_condition(FLAGGED, reader), updated_at__gt=since)
    soon = timedelta(days=EXPIRING_DAYS)
    is_announced = Q(expires_at__lte=expiry_time(since) + soon) & ~arrived
    expiring = live.filter(expires_at__lte=expiry_time(now) + soon).exclude(is_announced)
    listed = reverse("memories")
    yield _section("new", "New memories", new, _address(listed, digest, order="-created_at"))
    yield _section(
        "flagged",
        "Flagged as possible prompt injection",
        flagged.order_by("-updated_at", "-pk"),
        reverse("review"),
    )
    yield _section(
        "expiring",
        f"Expiring within {EXPIRING_DAYS} days",
        expiring.order_by("expires_at", "pk"),
        _address(listed, digest, expiring="1"),
    )


def _section(name: str, title: str, rows: MemoryQuerySet, path: str) -> Section:
    return Section(name, title, rows.count(), tuple(map(_entry, rows[:MAX_ENTRIES])), path)


def _entry(memory: Memory) -> Entry:
    text = one_line(memory.title or first_line(memory.content)) or "Untitled memory"
    return Entry(text, reverse("memory", args=[memory.uid]), memory.project)


def _contradictions(clearance: Clearance, digest: Digest, now: datetime) -> Section:
    """Return open contradictions with a fact that is newer than the last digest."""
    found = find_contradictions(clearance, project=digest.project, now=now).open
    keys = [row.pk for group in found for row in group.rows]
    newer = Fact.objects.filter(pk__in=keys, created_at__gt=digest.since)
    recent = set(newer.values_list("pk", flat=True))
    new = [group for group in found if any(row.pk in recent for row in group.rows)]
    path = _address(reverse("fact-conflicts"), digest)
    entries = tuple(map(_contradiction_entry, new[:MAX_ENTRIES]))
    return Section("contradicting", "Contradicting facts", len(new), entries, path)


def _contradiction_entry(group: Contradiction) -> Entry:
    newest = group.newest
    objects = " or ".join(dict.fromkeys(row.object for row in group.rows))
    text = one_line(f"{newest.subject} {readable(newest.predicate)}: {objects}")
    query = urlencode({"subject": newest.subject, "predicate": newest.predicate})
    return Entry(text, f"{reverse('fact-conflicts')}?{query}", newest.project)


def _address(path: str, digest: Digest, **query: str) -> str:
    asked = {**query, **({"project": digest.project} if digest.project else {})}
    return f"{path}?{urlencode(asked)}" if asked else path


def one_line(text: str) -> str:
    """Return one short line without control characters and without marks that reorder text."""
    return shorten("".join(char if char.isprintable() else " " for char in text), MAX_TEXT)
