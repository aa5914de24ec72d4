"""Reads: who may see which rows, which are alive, which fit a filter. All of it is SQL, before any LIMIT."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import product
from typing import Any, Self

from django.apps import apps
from django.db import models
from django.db.models import (
    Case,
    Exists,
    F,
    FloatField,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest, Least
from django.utils import timezone

from memoryhub.access.filters import (
    hidden_session_filter,
    journal_filter,
    level_filter,
    memory_filter,
    owner_filter,
    project_filter,
    token_filter,
)
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.backends.fts_query import (
    TRIGRAM_LENGTH,
    match_any,
    parse_query,
    title_expression,
    title_like_expression,
    trigram_expression,
    word_expression,
)
from memoryhub.backends.lookups import DocumentContains
from memoryhub.backends.schema import TEXT_COLUMNS

# An expression, not the column: FTS5 would rank and sort all that match, and only then be asked which of them
# may be seen (up to ten times slower where few may).
_RANK = Func(F("text_index__rank"), template="+%(expressions)s", output_field=FloatField())
_TRIGRAM_RANK = Func(F("trigram_index__rank"), template="+%(expressions)s", output_field=FloatField())
DETAIL_RELATIONS = ("labels", "files", "entities")  # what belongs to a memory in tables of its own


def _contains_any(texts: Iterable[str]) -> Q:
    found = Q()
    for column, text in product(TEXT_COLUMNS, texts):
        found |= Q(**{f"{column}__icontains": text})
    return found


def file_links(path: str) -> QuerySet[Any]:
    """The links of all memories, hidden ones too, to a file: see :meth:`MemoryQuerySet.about_file`."""
    path = path.strip().removeprefix("./")
    folder = path.rstrip("/") + "/"
    name = posixpath.basename(path.rstrip("/"))
    # The range [folder, folder with the next character) is what an index can serve; '0' follows '/'.
    fits = Q(path=path) | Q(path__gte=folder, path__lt=folder[:-1] + "0")
    if name:
        fits |= Q(basename=name) if name == path else Q(basename=name, path__endswith="/" + path.lstrip("/"))
    links: QuerySet[Any] = apps.get_model("memoryhub", "FileLink").objects.filter(fits)
    return links


def unapproved_filter() -> Q:
    """Of memories: nobody has approved of it, or what it says was changed since, and not by a person."""
    revision = apps.get_model("memoryhub", "Revision")
    later = revision.objects.filter(memory=OuterRef("pk"), at__gt=OuterRef("reviewed_at"))
    return Q(reviewed_at__isnull=True) | Q(Exists(later.exclude(actor__startswith="user:")))


class AccessQuerySet(models.QuerySet[Any]):
    """Rows that carry ``sensitivity`` and ``project``."""

    def visible_to(self, clearance: Clearance) -> Self:
        """Only what this clearance may see: an allowlist of levels, and the projects it is confined to."""
        return self.filter(level_filter(clearance))

    def between(self, column: str, since: datetime | None, until: datetime | None) -> Self:
        """``since`` ≤ column < ``until``; either may be open."""
        rows = self if since is None else self.filter(**{f"{column}__gte": since})
        return rows if until is None else rows.filter(**{f"{column}__lt": until})


class MemoryQuerySet(AccessQuerySet):
    """Memories. A read for anyone begins with ``visible_to``."""

    def visible_to(self, clearance: Clearance) -> Self:
        return self.filter(memory_filter(clearance))

    def hidden_from(self, clearance: Clearance) -> Self:
        """The rest: for reads about memories that must leave these out."""
        return self.exclude(memory_filter(clearance))

    def of_unknown_level(self, clearance: Clearance) -> Self:
        """Under a level that nobody knows, which ``visible_to`` denies to everyone: for its repair alone.

        Personal memories of others and projects out of reach stay hidden here too.
        """
        rows = self.exclude(sensitivity__in=LEVELS)
        return rows.filter(project_filter(clearance) & owner_filter(clearance))

    def live(self, now: datetime | None = None) -> Self:
        """Neither in the trash nor expired."""
        now = now or timezone.now()
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), deleted_at__isnull=True)

    def in_session(self, session_id: Any, **more: Any) -> Self:
        """Of one session; the second condition lets SQLite use the index, which has only memories in one."""
        return self.filter(session_id=session_id, **more).exclude(session_id="")

    def trashed(self) -> Self:
        return self.filter(deleted_at__isnull=False)

    def expired(self, now: datetime | None = None) -> Self:
        """Past their time and not in the trash."""
        return self.filter(expires_at__lte=now or timezone.now(), deleted_at__isnull=True)

    def labelled(self, kind: str, value: str) -> Self:
        """With this tag or concept."""
        label = apps.get_model("memoryhub", "Label")
        return self.filter(pk__in=label.objects.filter(kind=kind, value=value).values("memory"))

    def about_file(self, path: str) -> Self:
        """Linked to a file: its path, the end of its path, its basename, or a directory above it."""
        return self.filter(pk__in=file_links(path).values("memory"))

    def about_entity(self, entity: str) -> Self:
        return self.filter(
            pk__in=apps.get_model("memoryhub", "Entity").objects.filter(entity=entity).values("memory")
        )

    def matching(self, expression: str) -> Self:
        """Rows of the word index that match an FTS5 expression, best bm25 first. Lazy."""
        if not expression:
            return self.none()
        return self.filter(text_index__terms__match=expression).order_by(_RANK)

    def titled(self, title: str) -> Self:
        """Rows with this very title, with or without a full stop, in any case."""
        bare = title.rstrip(" .")
        exact = Q(title__iexact=bare) | Q(title__iexact=f"{bare}.")
        return self.matching(title_expression(bare)).filter(exact).order_by("-pk")

    def titled_like(self, typed: str) -> Self:
        """Rows with words in their title that begin like all that were typed, newest row first."""
        return self.matching(title_like_expression(typed)).order_by("-pk")

    def titled_with(self, text: str) -> Self:
        """Rows with this text somewhere in their title, newest row first; none for less than a trigram."""
        if len(text) < TRIGRAM_LENGTH:
            return self.none()
        rows = self.filter(trigram_index__terms__match=trigram_expression([text]), title__icontains=text)
        return rows.order_by("-pk")

    def worthiest(self, recency: float, importance: float, trust: float) -> Self:
        """Most worth first, by these shares of recency, importance and trust, whatever the match.

        Recency falls in a straight line here, to nothing after nine weeks, which SQL computes by itself.
        """
        age = Func(Value("now"), function="julianday", output_field=FloatField()) - Func(
            F("updated_at"), function="julianday", output_field=FloatField()
        )
        fresh = Greatest(Value(0.0), Value(1.0) - age / Value(63.0), output_field=FloatField())
        worth = fresh * recency + F("importance") * importance + F("trust") * trust
        return self.order_by(worth.desc(), "-pk")

    def containing(self, texts: Iterable[str]) -> Self:
        """Rows that hold any of these texts that is long enough for the trigram index, newest row first."""
        texts = [text for text in texts if len(text) >= TRIGRAM_LENGTH]
        if not texts:
            return self.none()
        rows = self.filter(trigram_index__terms__match=trigram_expression(texts)).order_by("-pk")
        # The index knows that all trigrams are there, not that they stand together.
        return rows.filter(_contains_any(texts)) if all(map(str.isascii, texts)) else rows

    def sharing_trigrams(self, texts: Iterable[str]) -> Self:
        """Rows that share trigrams with these texts, those with most of the rare ones first. Lazy."""
        found = {
            text[at : at + TRIGRAM_LENGTH] for text in texts for at in range(len(text) - TRIGRAM_LENGTH + 1)
        }
        if not found:
            return self.none()
        return self.filter(trigram_index__terms__match=match_any(sorted(found))).order_by(_TRIGRAM_RANK)

    def holding(self, literal: str) -> Self:
        """Rows that hold a text of any length, newest first, by a plain scan: for what no index finds."""
        # LIKE knows upper and lower case of ASCII alone.
        return self.filter(_contains_any({literal, literal.upper()})).order_by("-updated_at")

    def search(self, typed: str) -> Self:
        """Rows that hold any useful word of what was typed, best bm25 first: an ordinary lazy queryset.

        The composite score, substrings and scripts without spaces are ``retrieval.search``'s.
        """
        return self.matching(word_expression(parse_query(typed)))

    def with_details(self) -> Self:
        """Labels, files and entities in three queries for any number of rows."""
        return self.prefetch_related(*DETAIL_RELATIONS)


class FactQuerySet(AccessQuerySet):
    """Facts; one that hangs on a memory shows no more widely than the memory does, and ends with it."""

    def visible_to(self, clearance: Clearance) -> Self:
        return self._with_memory(clearance, apps.get_model("memoryhub", "Memory").objects.live())

    def hidden_from(self, clearance: Clearance) -> Self:
        """What a clearance may not know of, be its memory alive or in the trash."""
        everything = self.model._default_manager.all()
        known = everything._with_memory(clearance, apps.get_model("memoryhub", "Memory").objects.all())
        return self.exclude(pk__in=known.values("pk"))

    def current(self, now: datetime | None = None) -> Self:
        """Those that hold now: they have begun, and have not ended."""
        now = now or timezone.now()
        begun = Q(valid_from__isnull=True) | Q(valid_from__lte=now)
        return self.filter(begun, Q(valid_until__isnull=True) | Q(valid_until__gt=now))

    def ended(self, now: datetime | None = None) -> Self:
        """Those that ceased to hold, as a rule because another one superseded them."""
        return self.filter(valid_until__lte=now or timezone.now())

    def _with_memory(self, clearance: Clearance, memories: MemoryQuerySet) -> Self:
        seen = memories.visible_to(clearance).filter(pk=OuterRef("memory"))
        return self.filter(level_filter(clearance)).filter(Q(memory__isnull=True) | Exists(seen))


class SessionQuerySet(models.QuerySet[Any]):
    def visible_to(self, clearance: Clearance, now: datetime | None = None) -> Self:
        """In a project that is open to this clearance, with something in it that may be seen.

        A session's own columns tell of hidden rows too, so what is shown of it is annotated:
        ``first_seen`` and ``last_seen``, the span of what may be seen; ``agent_seen``; ``event_seen``,
        whether an event may be seen, and with it what events brought (folder, segment); ``ended_seen``,
        when it ended, for who may see an event or everything in it, else None.
        """
        memory = apps.get_model("memoryhub", "Memory")
        same = {"session_id": OuterRef("session_id"), "project": OuterRef("project")}
        memories = memory.objects.visible_to(clearance).live(now).in_session(**same)
        all_events = apps.get_model("memoryhub", "Event").objects.filter(session=OuterRef("pk"))
        events = all_events.visible_to(clearance, now)
        hidden = Exists(all_events) | Exists(memory.objects.hidden_from(clearance).in_session(**same))
        ended = Q(ended_at__isnull=False) & (Exists(events) | ~hidden)
        author = memories.order_by("created_at", "pk").values("author")[:1]
        rows = self if clearance.projects is None else self.filter(project__in=sorted(clearance.projects))
        return rows.filter(Exists(memories) | Exists(events)).annotate(
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


# What stands for a moment that is not there, where the least or the greatest of two is taken.
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _first_moment(rows: QuerySet[Any], order: str, otherwise: datetime) -> Coalesce:
    """The first moment of a correlated queryset in an order that an index has."""
    return Coalesce(Subquery(rows.order_by(order).values(order.lstrip("-"))[:1]), Value(otherwise))


class EventQuerySet(models.QuerySet[Any]):
    def visible_to(self, clearance: Clearance, now: datetime | None = None) -> Self:
        """By its own level and its session's project; one that became a memory shows no more than that.

        Its preview, files and keywords are words of the memory: while that lies in the trash or has expired,
        they are as invisible as the memory itself, and come back with it.
        """
        memory = apps.get_model("memoryhub", "Memory")
        seen = memory.objects.visible_to(clearance).live(now).filter(pk=OuterRef("memory"))
        rows = self.filter(level_filter(clearance, "session__project"))
        return rows.filter(Q(memory__isnull=True) | Exists(seen))


class InjectionQuerySet(AccessQuerySet):
    """Injections. The memories they name have gates of their own: ``retrieval.injections`` looks them up.

    ``visible_to`` goes by the injection's own level and project, as for everything with both columns.
    """

    def empty(self) -> Self:
        """Where the agent got nothing: nothing was found, all of it was held back, or it took too long."""
        return self.filter(injected=[])

    def filled(self) -> Self:
        return self.exclude(injected=[])


# What ends an object for good; a memory's "delete" is a move to the trash.
_END_OPERATIONS = Q(operation__in=("erase", "purge")) | Q(operation="delete", object_type="fact")


class JournalQuerySet(AccessQuerySet):
    def visible_to(self, clearance: Clearance) -> Self:
        """By the level, project and owner the object had then, and none about what is hidden now.

        An object that is gone stays as hidden as it was at its end: what was public once and became secret
        does not show again because it was erased.
        """
        memory, fact = apps.get_model("memoryhub", "Memory"), apps.get_model("memoryhub", "Fact")
        ended_hidden = self.model.objects.filter(_END_OPERATIONS).exclude(journal_filter(clearance))
        return (
            self.of_reach(clearance)
            .exclude(self._names_hidden(clearance, ended_hidden))
            .exclude(object_type="memory", object_id__in=memory.objects.hidden_from(clearance).values("uid"))
            .exclude(object_type="fact", object_id__in=fact.objects.hidden_from(clearance).values("uid"))
            .exclude(object_id__in=ended_hidden.values("object_id"))
            .exclude(hidden_session_filter(clearance))
        )

    def of_reach(self, clearance: Clearance) -> Self:
        """By the level, project and owner the object had then, and nothing else: not for showing."""
        return self.filter(journal_filter(clearance), token_filter(clearance))

    def _names_hidden(self, clearance: Clearance, ended_hidden: Self) -> Q:
        """A row about several memories, one of which is hidden now and was not when the row was written.

        Documents are read only where there is such a memory: one with a row of its own that may be seen.
        """
        memory = apps.get_model("memoryhub", "Memory")
        rows = self.model.objects.of_reach(clearance).filter(object_type="memory")
        hidden = memory.objects.hidden_from(clearance).filter(Exists(rows.filter(object_id=OuterRef("uid"))))
        ended = ended_hidden.filter(Exists(rows.filter(object_id=OuterRef("object_id"))))
        found = Q()
        for uids in (hidden.values("uid"), ended.values("object_id")):
            found |= Q(Exists(uids)) & Q(DocumentContains("detail", uids))
        return Q(object_type="memories") & found

    def about(self, memory: Any, clearance: Clearance) -> Self:
        """Rows about one memory that is there and that the caller has found behind the gate.

        The same rows as :meth:`visible_to` gives, without asking which other memories are hidden.
        """
        return self.of_reach(clearance).filter(object_type="memory", object_id=memory.uid)

    def about_person(self, name: str) -> Self:
        """What an account did at its doors and what was done to it, newest first: for who manages people."""
        return self.filter(object_type="person", object_id=name).order_by("-seq")

    def failed_logins(self) -> Self:
        """Wrong passwords, and people of the organisation who were not let in, newest first, under names that
        are nobody's too: for who manages people.
        """
        return self.filter(operation__in=("login_failed", "login_refused"), object_type="person").order_by(
            "-seq"
        )


class TokenQuerySet(models.QuerySet[Any]):
    def active(self, now: datetime | None = None) -> Self:
        now = now or timezone.now()
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)
