"""What the models share: querysets of visible and live rows, and fields for ids, shares, levels and names.

All conditions of the querysets are in SQL, before any LIMIT.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from typing import Any, Self

from django.apps import apps
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, Greatest, Least
from django.utils import timezone

from memoryhub.access.filters import level_filter, memory_filter, owner_filter, project_filter, waiting_filter
from memoryhub.access.policy import LEVELS, WAITING_LEVELS, Clearance, Sensitivity
from memoryhub.backends import TEXT_COLUMNS
from memoryhub.backends.fts_query import TRIGRAM_LENGTH, parse_query
from memoryhub.backends.statements import (
    CurrentMoment,
    any_trigram,
    keys_of_files,
    title_like_expression,
    trigram_expression,
    word_expression,
)
from memoryhub.core.dates import expiry_time
from memoryhub.core.text import new_uid

DETAIL_RELATIONS = ("labels", "files", "entities")  # the list-valued fields of a memory


def _objects(model: str) -> Any:
    """Return the manager of a model. The models import this module, so it cannot import them."""
    return apps.get_model("memoryhub", model).objects


def _contains_any(texts: Iterable[str]) -> Q:
    found = Q()
    for column, text in product(TEXT_COLUMNS, texts):
        found |= Q(**{f"{column}__icontains": text})
    return found


def is_about_file(path: str, wanted: str) -> bool:
    """Whether ``about_file`` finds a memory by this path."""
    wanted = wanted.strip().removeprefix("./")
    name = posixpath.basename(wanted.rstrip("/"))
    if path == wanted or path.startswith(wanted.rstrip("/") + "/"):
        return True
    fits = name == wanted or path.endswith("/" + wanted.lstrip("/"))
    return bool(name) and posixpath.basename(path.rstrip("/")) == name and fits


def _has_revision_after(moment: datetime) -> Exists:
    return Exists(_objects("Revision").filter(memory=OuterRef("pk"), at__gt=moment))


def unapproved_filter() -> Q:
    """Return the condition on memories that no person has approved, or edited, since the last change."""
    later = _objects("Revision").filter(memory=OuterRef("pk"), at__gt=OuterRef("reviewed_at"))
    return Q(reviewed_at__isnull=True) | Q(Exists(later.exclude(actor__startswith="user:")))


class AccessQuerySet(models.QuerySet[Any]):
    """Rows with the columns ``sensitivity`` and ``project``."""

    def visible_to(self, clearance: Clearance) -> Self:
        """Return the rows that this clearance may see."""
        return self.filter(level_filter(clearance))

    def between(self, column: str, since: datetime | None, until: datetime | None) -> Self:
        """Return the rows with ``since`` ≤ column < ``until``. None means no limit."""
        rows = self if since is None else self.filter(**{f"{column}__gte": since})
        return rows if until is None else rows.filter(**{f"{column}__lt": until})


class MemoryQuerySet(AccessQuerySet):
    """Memories. Every read for a caller starts with ``visible_to``."""

    def visible_to(self, clearance: Clearance) -> Self:
        return self.filter(memory_filter(clearance))

    def hidden_from(self, clearance: Clearance) -> Self:
        """Return the memories that this clearance may not see, so that other reads can exclude them."""
        return self.exclude(memory_filter(clearance))

    def of_unknown_level(self, clearance: Clearance) -> Self:
        """Return memories with an unknown level, which ``visible_to`` hides from everyone. Only for their
        repair.

        Personal memories of others and memories of other projects stay hidden.
        """
        rows = self.exclude(sensitivity__in=(*LEVELS, *WAITING_LEVELS))
        return rows.filter(project_filter(clearance) & owner_filter(clearance))

    def waiting(self, clearance: Clearance) -> Self:
        """Return the memories that wait for approval, discarded ones too, for people who review them.

        ``visible_to`` hides them from everyone.
        """
        return self.filter(waiting_filter(clearance))

    def visible_or_waiting(self, clearance: Clearance) -> Self:
        """Return visible memories and those that wait for approval: for undo and for emptying the trash."""
        return self.filter(memory_filter(clearance) | waiting_filter(clearance))

    def live(self, now: datetime | None = None) -> Self:
        """Return memories that are neither in the trash nor expired: those without ``has_ended(now)``.

        ``now`` defaults to the time when the statement runs.
        """
        moment = expiry_time(now) if now else CurrentMoment()
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=moment), deleted_at__isnull=True)

    def ended(self, now: datetime) -> Self:
        """Return memories in the trash and expired ones: those with ``has_ended(now)``."""
        return self.filter(Q(deleted_at__isnull=False) | Q(expires_at__lte=expiry_time(now)))

    def existed_at(self, moment: datetime) -> Self:
        """Return memories that were stored and neither in the trash nor expired at a moment.

        Erased memories are gone.
        """
        absences = _objects("AbsenceSpan").filter(memory=OuterRef("pk"))
        return self.filter(
            ~Exists(absences.filter(began_at__lte=moment, ended_at__gt=moment)),
            Q(expires_at__isnull=True) | Q(expires_at__gt=moment),
            Q(deleted_at__isnull=True) | Q(deleted_at__gt=moment),
            created_at__lte=moment,
        )

    def changed_since(self, moment: datetime) -> Self:
        """Return memories with a revision that is newer than this."""
        return self.filter(_has_revision_after(moment))

    def unchanged_since(self, moment: datetime) -> Self:
        return self.exclude(_has_revision_after(moment))

    def in_session(self, session_id: Any, **more: Any) -> Self:
        """Return the memories of a session. The exclusion lets the database use the partial index."""
        return self.filter(session_id=session_id, **more).exclude(session_id="")

    def trashed(self) -> Self:
        return self.filter(deleted_at__isnull=False)

    def expired(self, now: datetime | None = None) -> Self:
        """Return expired memories that are not in the trash."""
        return self.filter(expires_at__lte=expiry_time(now or timezone.now()), deleted_at__isnull=True)

    def pinned(self) -> Self:
        return self.filter(pinned_at__isnull=False)

    def unpinned(self) -> Self:
        """Return the memories that maintenance may change or remove."""
        return self.filter(pinned_at__isnull=True)

    def without_replaced(self) -> Self:
        """Return the memories without those that another one of them replaces."""
        replaced = Exists(self.filter(pk=OuterRef("superseded_by")))
        return self.filter(Q(superseded_by__isnull=True) | ~replaced)

    def labelled(self, kind: str, value: str) -> Self:
        """Return memories with this tag, concept or alias."""
        return self.filter(pk__in=_objects("Label").filter(kind=kind, value=value).values("memory"))

    def about_file(self, path: str) -> Self:
        """Return memories of a file, given by path, end of the path, basename or directory."""
        return self.filter(pk__in=keys_of_files([path]))

    def about_entity(self, entity: str) -> Self:
        return self.filter(pk__in=_objects("Entity").filter(entity=entity).values("memory"))

    def matching(self, expression: str) -> Self:
        """Return the matches of a full-text expression, newest first. Lazy.

        The index's rank counts the words of hidden memories too, so nothing is ordered by it.
        """
        if not expression:
            return self.none()
        return self.filter(text_index__terms__match=expression).order_by("-pk")

    def titled_like(self, typed: str) -> Self:
        """Return memories whose title has words that start with all typed words, newest first."""
        return self.matching(title_like_expression(typed))

    def titled_with(self, text: str) -> Self:
        """Return memories with this text in the title, newest first. It must have three characters."""
        if len(text) < TRIGRAM_LENGTH:
            return self.none()
        rows = self.filter(trigram_index__terms__match=trigram_expression([text]), title__icontains=text)
        return rows.order_by("-pk")

    def containing(self, texts: Iterable[str]) -> Self:
        """Return memories that contain any of these texts of at least three characters, newest first."""
        texts = [text for text in texts if len(text) >= TRIGRAM_LENGTH]
        if not texts:
            return self.none()
        rows = self.filter(trigram_index__terms__match=trigram_expression(texts)).order_by("-pk")
        # The index matches all trigrams of a text in any order.
        return rows.filter(_contains_any(texts)) if all(map(str.isascii, texts)) else rows

    def sharing_trigrams(self, texts: Iterable[str]) -> Self:
        """Return memories that share trigrams with these texts, newest first. Lazy."""
        found = {
            text[at : at + TRIGRAM_LENGTH] for text in texts for at in range(len(text) - TRIGRAM_LENGTH + 1)
        }
        if not found:
            return self.none()
        return self.filter(trigram_index__terms__match=any_trigram(sorted(found))).order_by("-pk")

    def containing_any(self, literals: Iterable[str]) -> Self:
        """Return memories that contain any of these texts of any length, newest first. A full scan."""
        # LIKE ignores case only for ASCII.
        forms = {form for literal in literals for form in (literal, literal.upper())}
        return self.filter(_contains_any(forms)).order_by("-updated_at", "-pk")

    def search(self, typed: str) -> Self:
        """Return memories that contain a word of the query, newest first. Lazy.

        ``memoryhub.search`` adds the composite score, substrings and scripts without spaces.
        """
        return self.matching(word_expression(parse_query(typed)))

    def with_details(self) -> Self:
        """Prefetch labels, files and entities in three queries."""
        return self.prefetch_related(*DETAIL_RELATIONS)


@lru_cache(maxsize=256)
def _live_memories(clearance: Clearance) -> MemoryQuerySet:
    found: MemoryQuerySet = _objects("Memory").visible_to(clearance).live()
    return found


def live_memories(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """Return the visible live memories of one project or of all. Lazy.

    Builds its conditions once for each clearance.
    """
    live = _live_memories(clearance)
    return live.filter(project=project) if project else live.all()


def currency_condition(now: datetime | None) -> Q:
    """Return the condition of facts that are valid now."""
    now = now or timezone.now()
    begun = Q(valid_from__isnull=True) | Q(valid_from__lte=now)
    return begun & (Q(valid_until__isnull=True) | Q(valid_until__gt=now))


class FactQuerySet(AccessQuerySet):
    """Facts. A fact of a memory is visible only if the memory is visible and live."""

    def visible_to(self, clearance: Clearance) -> Self:
        return self._with_memory(clearance, _objects("Memory").live())

    def visible_at(self, clearance: Clearance, moment: datetime) -> Self:
        """Return the facts that were stored and valid at a moment, of those that may be seen."""
        existing = _objects("Memory").existed_at(moment)
        return self._with_memory(clearance, existing).filter(created_at__lte=moment).current(moment)

    def hidden_from(self, clearance: Clearance) -> Self:
        """Return the facts that this clearance may not see, even if the memory is in the trash."""
        everything = self.model._default_manager.all()
        known = everything._with_memory(clearance, _objects("Memory").all())
        return self.exclude(pk__in=known.values("pk"))

    def current(self, now: datetime | None = None) -> Self:
        """Return the facts that are valid now."""
        return self.filter(currency_condition(now))

    def ended(self, now: datetime | None = None) -> Self:
        """Return the facts that are no longer valid, usually because another one superseded them."""
        return self.filter(valid_until__lte=now or timezone.now())

    def _with_memory(self, clearance: Clearance, memories: MemoryQuerySet) -> Self:
        seen = memories.visible_to(clearance).filter(pk=OuterRef("memory"))
        return self.filter(level_filter(clearance)).filter(Q(memory__isnull=True) | Exists(seen))


class SessionQuerySet(models.QuerySet[Any]):
    def with_visible_rows(self, clearance: Clearance, now: datetime | None = None) -> Self:
        """Return sessions in open projects with at least one visible memory or event, to count them."""
        memories, events = _visible_rows_of_session(clearance, now)
        rows = self if clearance.projects is None else self.filter(project__in=sorted(clearance.projects))
        return rows.filter(Exists(memories) | Exists(events))

    def visible_to(self, clearance: Clearance, now: datetime | None = None) -> Self:
        """Return :meth:`with_visible_rows`, to show them.

        The columns of a session depend on hidden rows too, so callers show these annotations instead:
        ``first_seen`` and ``last_seen``, the time span of the visible rows; ``agent_seen``; ``event_seen``,
        whether an event is visible and with it the folder and segment; ``ended_seen``, the end if an event or
        everything in the session is visible, else None.
        """
        memories, events = _visible_rows_of_session(clearance, now)
        hidden_memories = _objects("Memory").hidden_from(clearance).in_session(**_SAME_SESSION)
        hidden = Exists(_objects("Event").filter(session=OuterRef("pk"))) | Exists(hidden_memories)
        ended = Q(ended_at__isnull=False) & (Exists(events) | ~hidden)
        author = memories.order_by("created_at", "pk").values("author")[:1]
        return self.with_visible_rows(clearance, now).annotate(
            first_seen=Least(
                _first_moment(memories, "created_at", _LATEST), _first_moment(events, "at", _LATEST)
            ),
            last_seen=Greatest(
                _first_moment(memories, "-created_at", _EARLIEST), _first_moment(events, "-at", _EARLIEST)
            ),
            event_seen=Exists(events),
            agent_seen=Case(When(Exists(events), then=F("agent")), default=Coalesce(author, Value(""))),
            ended_seen=Case(When(ended, then=F("ended_at")), default=None),
        )


_SAME_SESSION = {"session_id": OuterRef("session_id"), "project": OuterRef("project")}


def _visible_rows_of_session(
    clearance: Clearance, now: datetime | None
) -> tuple[MemoryQuerySet, EventQuerySet]:
    """Return the visible live memories, and the visible events, of the session of the outer query."""
    memories = _objects("Memory").visible_to(clearance).live(now).in_session(**_SAME_SESSION)
    return memories, _objects("Event").filter(session=OuterRef("pk")).visible_to(clearance, now)


# Replacements for a missing moment in Least and Greatest.
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _first_moment(rows: QuerySet[Any], order: str, otherwise: datetime) -> Coalesce:
    """Return the first value of a correlated queryset in this order, or a default."""
    return Coalesce(Subquery(rows.order_by(order).values(order.lstrip("-"))[:1]), Value(otherwise))


BACKFILL_MARK = "~"  # first character of a backfilled event's mark; other marks are hexadecimal


class EventQuerySet(models.QuerySet[Any]):
    def live(self) -> Self:
        """Return the events that agents reported when they happened, without the backfilled ones."""
        return self.exclude(mark__startswith=BACKFILL_MARK)

    def visible_to(self, clearance: Clearance, now: datetime | None = None) -> Self:
        """Return events by their own level and their session's project.

        An event that became a memory is visible only with it, because it repeats words of the memory.
        """
        seen = _objects("Memory").visible_to(clearance).live(now).filter(pk=OuterRef("memory"))
        rows = self.filter(level_filter(clearance, "session__project"))
        return rows.filter(Q(memory__isnull=True) | Exists(seen))


class InjectionQuerySet(AccessQuerySet):
    """Injections, by their own level and project. Callers look up which of the named memories are visible."""

    def empty(self) -> Self:
        """Return injections without memories: none found, all withheld, or too late."""
        return self.filter(injected=[])

    def filled(self) -> Self:
        return self.exclude(injected=[])

    def undecided(self) -> Self:
        """Return injections of memories that are not yet known to have helped or not."""
        return self.filled().filter(helped__isnull=True)


class TokenQuerySet(models.QuerySet[Any]):
    def active(self, now: datetime | None = None) -> Self:
        now = now or timezone.now()
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)

    def ever_named(self, name: str) -> Self:
        """Return the tokens of agents that have this name, or had it before they were renamed."""
        rows = _objects("JournalEntry").filter(object_type="token", object_id=OuterRef("uid"))
        return self.filter(Q(name=name) | Exists(rows.filter(detail__name=name)))


def uid_field() -> models.CharField[str, str]:
    return models.CharField("id", max_length=32, unique=True, default=new_uid, editable=False)


def share_field(default: float, **options: Any) -> models.FloatField[float, float]:
    """A number between 0 and 1, enforced by :func:`share_constraint`."""
    return models.FloatField(
        default=default, validators=[MinValueValidator(0), MaxValueValidator(1)], **options
    )


def share_constraint(table: str, name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(**{f"{name}__gte": 0, f"{name}__lte": 1}), name=f"{table}_{name}_between_0_and_1"
    )


def sensitivity_field() -> models.CharField[str, str]:
    """A level without a check constraint: rows with an unknown level are hidden, not refused."""
    return models.CharField(
        max_length=20,
        default=Sensitivity.PUBLIC.value,
        choices=[(level.value, level.value) for level in Sensitivity],
    )


def name_field(max_length: int = 200, **options: Any) -> models.CharField[str, str]:
    """A short text, empty if unknown."""
    return models.CharField(max_length=max_length, blank=True, default="", **options)
