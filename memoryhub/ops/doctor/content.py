"""Content checks: levels, caps, expiry, times, people and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone

from memoryhub.access.policy import LEVELS
from memoryhub.memories.quotas import count_by_quota, fullest
from memoryhub.models import AgentToken, JournalEntry, Memory
from memoryhub.ops.doctor.registry import Finding, check, fail, ok, warn
from memoryhub.stats.counts import projects_near_cap

SOON = timedelta(days=14)
# Clocks differ by seconds; an import may contain times up to a day ahead.
_CLOCK_TOLERANCE, _DATE_TOLERANCE = timedelta(minutes=5), timedelta(days=1)
_RELEASED = datetime(2025, 1, 1, tzinfo=UTC)
_GATED = ("Memory", "Fact", "Event", "JournalEntry", "Injection", "Revision")


@check("sensitivity", needs="tables")
def levels() -> Iterator[Finding]:
    found = {
        name.lower(): n
        for name in _GATED
        if (n := apps.get_model("memoryhub", name).objects.exclude(sensitivity__in=LEVELS).count())
    }
    for name, n in found.items():
        yield warn(
            f"{n:,} rows of {name} are of an unknown level, and hidden from everyone",
            "Someone with the permission repair_unknown can give them a level in the admin.",
        )
    if not found:
        yield ok("every row is of a known level")


@check("cap", needs="tables")
def cap() -> Iterator[Finding]:
    cap = settings.MEMORYHUB.max_memories
    near = projects_near_cap(Memory.objects.live())
    for project, n in near.items():
        name = project or "(no project)"
        if n > cap:
            text = (
                f"{name} holds {n:,} memories of one owner, over the cap of {cap:,}: a new one evicts another"
            )
        else:
            text = f"{name} holds {n:,} memories of one owner, of at most {cap:,}"
        yield warn(text, "Raise max_memories in the configuration (0: no cap).")
    if not near:
        most = max(fullest(count_by_quota(Memory.objects.live())).values(), default=0)
        yield ok(
            f"at most {most:,} memories of one owner in a project, "
            + (f"the cap is {cap:,}" if cap else "no cap")
        )


@check("expiry", needs="tables")
def expiry() -> Iterator[Finding]:
    now = timezone.now()
    expired = Memory.objects.expired(now).count()
    overdue = Memory.objects.expired(now - timedelta(days=settings.MEMORYHUB.expiry_grace_days)).count()
    if overdue:
        yield warn(
            f"{overdue:,} memories expired longer ago than they are kept revivable",
            "Have manage.py purge_expired --scheduled run every day.",
        )
    else:
        yield ok(
            f"{expired:,} expired memories, all of them revivable still" if expired else "none is waiting"
        )


@check("clock", needs="tables")
def clock() -> Iterator[Finding]:
    now = timezone.now()
    newest = JournalEntry.objects.order_by("-seq").values_list("at", flat=True).first()
    ahead = Memory.objects.filter(created_at__gt=now + _DATE_TOLERANCE).count()
    set_clock = "Set this machine's clock (timedatectl set-ntp true)."
    if now < _RELEASED:
        yield fail(f"the clock says {now:%Y-%m-%d}", set_clock)
    if newest and newest > now + _CLOCK_TOLERANCE:
        yield warn(f"the journal's newest row is of {newest:%Y-%m-%d %H:%M} UTC, in the future", set_clock)
    if ahead:
        yield warn(f"{ahead:,} memories were created in the future: they stay on top", "Correct their dates.")
    if now >= _RELEASED and not ahead and not (newest and newest > now + _CLOCK_TOLERANCE):
        yield ok(f"{now:%Y-%m-%d %H:%M} UTC")


@check("administrator", needs="tables")
def administrator() -> Iterator[Finding]:
    people = get_user_model().objects.filter(is_active=True)
    admins = people.filter(is_superuser=True).count()
    if admins:
        yield ok(f"{admins} of {people.count()} who can log in")
    else:
        yield warn("there is no administrator", "manage.py createsuperuser")


@check("tokens", needs="tables")
def tokens() -> Iterator[Finding]:
    now = timezone.now()
    active = AgentToken.objects.active(now)
    if not active:
        yield warn("no agent has a token that is valid", "manage.py create_token NAME")
        return
    soon = active.filter(expires_at__lte=now + SOON).order_by("expires_at")
    for token in soon:
        yield warn(f"the token {token} expires on {token.expires_at:%Y-%m-%d}", "manage.py create_token NAME")
    if not soon:
        yield ok(f"{active.count()} valid")
