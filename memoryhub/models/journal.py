"""The journal: append-only by database triggers, a chain of hashes."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

from django.db import models
from django.db.models import Exists, OuterRef, Q

from memoryhub.access.filters import hidden_session_filter, journal_filter, token_filter
from memoryhub.access.policy import Clearance
from memoryhub.backends import AS_TEXT
from memoryhub.backends.statements import DocumentContains
from memoryhub.models.memory import Fact, Memory, Revision
from memoryhub.models.querysets import AccessQuerySet, name_field, sensitivity_field

# Operations that delete an object. The "delete" of a memory is a move to the trash.
_END_OPERATIONS = Q(operation__in=("erase", "purge")) | Q(operation="delete", object_type="fact")


def _is_memory_hash(row: Any) -> bool:
    """Whether the row has the hash of a memory's text. Deferred columns are not loaded."""
    detail = row.__dict__.get("detail")
    return (
        row.__dict__.get("object_type") == "memory" and isinstance(detail, dict) and "content_hash" in detail
    )


MAX_HASHED_VERSIONS = 500  # for a page of the journal; hashes of older ones are omitted


def _earlier_hashes(uids: Iterable[str]) -> dict[tuple[str, str], set[str]]:
    """Return the levels under which the versions of memories store a text, by id and hash of the text."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    if not uids:
        return found
    revisions = Revision.objects.filter(memory__uid__in=uids, before__has_key="content")
    # The whole document: SQLite cannot return every text of it, such as half of a surrogate pair.
    rows = revisions.order_by("-pk").values_list("memory__uid", "before", "sensitivity")
    for uid, before, level in rows[:MAX_HASHED_VERSIONS].iterator():
        if isinstance(content := before["content"], str):  # an import may bring anything
            digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
            found[uid, digest].add(level)
    return found


class JournalQuerySet(AccessQuerySet):
    """Journal rows. Rows for a reader are loaded without the hashes of texts that the reader cannot read."""

    _reader: Clearance | None = None
    _hashes: Mapping[str, str] = {}  # of the texts of loaded memories, by id

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]
        clone._reader, clone._hashes = self._reader, self._hashes
        return clone

    def _fetch_all(self) -> None:
        is_new = self._result_cache is None
        super()._fetch_all()
        if is_new and self._reader is not None:
            self._omit_hashes(self._result_cache or (), self._reader)

    def _omit_hashes(self, rows: Iterable[Any], reader: Clearance) -> None:
        """Omit ``content_hash`` unless it is of the memory's text, or of an earlier one in a visible version.

        A hash verifies a guess. The text can be gone since: redacted, erased or purged.
        """
        hashed = [row for row in rows if isinstance(row, self.model) and _is_memory_hash(row)]
        current = dict(self._hashes)
        if uids := {row.object_id for row in hashed} - current.keys():
            memories = Memory.objects.filter(uid__in=uids)
            current |= memories.values_list("uid", "content_hash")
        unknown = [row for row in hashed if row.detail["content_hash"] != current.get(row.object_id)]
        texts = _earlier_hashes({row.object_id for row in unknown} & current.keys())
        for row in unknown:
            levels = texts.get((row.object_id, str(row.detail["content_hash"])), set())
            if levels.isdisjoint(reader.levels_in(row.project)):
                row.detail = {name: value for name, value in row.detail.items() if name != "content_hash"}

    def _for_reader(self, clearance: Clearance) -> Self:
        rows = self._clone()
        rows._reader = clearance
        return rows

    def visible_to(self, clearance: Clearance) -> Self:
        """Return rows that were visible when they were written, except those about objects that are hidden
        now.

        A deleted object stays as hidden as it was when it was deleted: erasing a secret memory does not
        reveal the rows from the time when it was public.
        """
        ended_hidden = self.model.objects.filter(_END_OPERATIONS).exclude(journal_filter(clearance))
        return (
            self.visible_as_recorded(clearance)
            .exclude(self._names_hidden(clearance, ended_hidden))
            .exclude(object_type="memory", object_id__in=Memory.objects.hidden_from(clearance).values("uid"))
            .exclude(object_type="fact", object_id__in=Fact.objects.hidden_from(clearance).values("uid"))
            .exclude(object_id__in=ended_hidden.values("object_id"))
            .exclude(hidden_session_filter(clearance))
            ._for_reader(clearance)
        )

    def visible_as_recorded(self, clearance: Clearance) -> Self:
        """Return rows by the level, project and owner of the object at that time. Not for display."""
        return self.filter(journal_filter(clearance), token_filter(clearance))

    def _names_hidden(self, clearance: Clearance, ended_hidden: Self) -> Q:
        """Return the condition on rows about several memories, one of which is hidden now but was not then.

        Searches the JSON documents only if there is such a memory: one that has a visible row of its own.
        """
        rows = self.model.objects.visible_as_recorded(clearance).filter(object_type="memory")
        hidden = Memory.objects.hidden_from(clearance).filter(Exists(rows.filter(object_id=OuterRef("uid"))))
        ended = ended_hidden.filter(Exists(rows.filter(object_id=OuterRef("object_id"))))
        found = Q()
        for uids in (hidden.values("uid"), ended.values("object_id")):
            found |= Q(Exists(uids)) & Q(DocumentContains("detail", uids))
        return Q(object_type="memories") & found

    def about(self, memory: Any, clearance: Clearance) -> Self:
        """Return rows about a stored memory that the caller may see.

        The same rows as with :meth:`visible_to`, without the search for hidden objects.
        """
        rows = self.visible_as_recorded(clearance).filter(object_type="memory", object_id=memory.uid)
        rows._hashes = {memory.uid: memory.content_hash}
        return rows._for_reader(clearance)

    def about_person(self, name: str) -> Self:
        """Return the sign-ins of an account and the changes to it, newest first. For people managers."""
        return self.filter(object_type="person", object_id=name).order_by("-seq")

    def failed_logins(self) -> Self:
        """Return failed and refused sign-ins, newest first, including unknown names. For people managers."""
        return self.filter(operation__in=("login_failed", "login_refused"), object_type="person").order_by(
            "-seq"
        )


def read_detail(detail: dict[str, Any]) -> Any:
    """Return the document, also if PostgreSQL could only store it as a text."""
    return json.loads(detail[AS_TEXT]) if detail.keys() == {AS_TEXT} else detail


class JournalEntry(models.Model):
    """One change. Only ``memoryhub.audit.journal`` writes it. Never contains the text of a memory."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    operation = models.CharField(max_length=40)
    object_type = models.CharField(max_length=20)
    object_id = name_field(300)
    # The object's values at that time. They decide the visibility of this row.
    project = name_field()
    sensitivity = sensitivity_field()
    owner = name_field(150)
    detail = models.JSONField(default=dict)
    hash = models.CharField(max_length=64)

    objects = JournalQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "journal"
        ordering = ["-seq"]
        indexes = [
            models.Index(fields=["object_id", "seq"], name="journal_object"),
            models.Index(fields=["operation", "seq"], name="journal_operation"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.operation} {self.object_id}"

    @classmethod
    def from_db(cls, *args: Any, **options: Any) -> Self:
        """Load a row without the hash of a skipped text, unless the row has the level of that text.

        Old rows can be visible below that level, and the journal cannot be changed.
        """
        row = super().from_db(*args, **options)
        detail = row.__dict__.get("detail")  # missing if the field is deferred
        if isinstance(detail, dict):
            row.detail = read_detail(detail)
            if "candidate_sensitivity" not in row.detail:
                row.detail.pop("candidate_hash", None)
        return row


class ClockState(models.Model):
    """The one row about the clock. Only ``memoryhub.audit.clock`` writes it."""

    at = models.DateTimeField(help_text="The wall clock at the last reading.")
    boot = models.CharField(max_length=64, help_text="The id of the boot. Empty if the system has none.")
    seconds = models.FloatField(help_text="Seconds from the boot to the last reading.")
    ahead = models.FloatField(default=0, help_text="Unconfirmed seconds by which the wall clock is ahead.")
    proven = models.BooleanField(default=False, help_text="Less time has passed than the wall clock shows.")
    waited = models.FloatField(default=0, help_text="Seconds of uptime since the clock was found ahead.")
    days = models.JSONField(default=list, help_text="The days on which the clock was read, in order.")

    def __str__(self) -> str:
        return f"clock at {self.at:%Y-%m-%d %H:%M}"
