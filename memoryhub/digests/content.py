"""The content of a digest: new, flagged, expiring and contradicting memories that its recipient may see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity, level_rank
from memoryhub.accounts.clearance import user_clearance
from memoryhub.core.dates import expiry_time
from memoryhub.core.text import first_line, shorten
from memoryhub.facts.contradictions import Contradiction, find_contradictions
from memoryhub.models import Digest, Fact, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.stats.review_items import FLAGGED, Reviewer, reason_condition

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
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    sections = (
        *_memory_sections(live.filter(project=project) if project else live, digest, now),
        _contradictions(clearance, digest, now),
    )
    return Content(tuple(one for one in sections if one.count))


def _memory_sections(live: MemoryQuerySet, digest: Digest, now: datetime) -> Iterator[Section]:
    since, reader = digest.since, Reviewer(f"user:{digest.user.get_username()}", digest.since)
    arrived = Q(created_at__gt=since, created_at__lte=now) | Q(imported_at__gt=since, imported_at__lte=now)
    new = live.filter(arrived).exclude(author=reader.name).order_by("-pk")
    flagged = live.filter(reason_condition(FLAGGED, reader), updated_at__gt=since).order_by("-updated_at")
    soon = timedelta(days=EXPIRING_DAYS)
    is_announced = Q(expires_at__lte=expiry_time(since) + soon) & ~arrived
    expiring = live.filter(expires_at__lte=expiry_time(now) + soon).exclude(is_announced)
    listed = reverse("memories")
    yield _section("new", "New memories", new, _address(listed, digest, order="-created_at"))
    yield _section("flagged", "Flagged as possible prompt injection", flagged, reverse("review"))
    yield _section(
        "expiring",
        f"Expiring within {EXPIRING_DAYS} days",
        expiring.order_by("expires_at"),
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
    text = one_line(f"{newest.subject} {newest.predicate}: {objects}")
    query = urlencode({"subject": newest.subject, "predicate": newest.predicate})
    return Entry(text, f"{reverse('fact-conflicts')}?{query}", newest.project)


def _address(path: str, digest: Digest, **query: str) -> str:
    asked = {**query, **({"project": digest.project} if digest.project else {})}
    return f"{path}?{urlencode(asked)}" if asked else path


def one_line(text: str) -> str:
    """Return one short line without control characters and without marks that reorder text."""
    return shorten("".join(char if char.isprintable() else " " for char in text), MAX_TEXT)
