"""A digest: its content, and how it is sent by e-mail and as a signed request in Slack's format.

The content is new, flagged, expiring and contradicting memories that the recipient may see. Both ways raise
DeliveryFailed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import smtplib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from html import escape
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity, level_rank
from memoryhub.accounts.clearance import user_clearance
from memoryhub.core.dates import expiry_time
from memoryhub.core.http_client import Unreachable, post_json
from memoryhub.core.text import first_line, readable, shorten
from memoryhub.facts.contradictions import Contradiction, find_contradictions
from memoryhub.models import Digest, Fact, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.stats.review_items import FLAGGED, Reviewer, reason_condition

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
