"""A memory and its details (labels, files, revisions, vector, evidence), facts, and memory checks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.backends.statements import MatchField
from memoryhub.core.dates import expiry_time
from memoryhub.core.vocabulary import SCOPES, TYPES, MemoryType, Scope, TrashReason
from memoryhub.models.querysets import (
    AccessQuerySet,
    FactQuerySet,
    MemoryQuerySet,
    name_field,
    sensitivity_field,
    share_constraint,
    share_field,
    uid_field,
)


class Memory(models.Model):
    """One thing that an agent remembers. Only ``memoryhub.memories`` writes it.

    Columns that access filters read come first and long texts last: SQLite then filters rows without reading
    the overflow pages of the content.
    """

    uid = uid_field()
    sensitivity = sensitivity_field()
    scope = models.CharField(max_length=10, default=Scope.PROJECT.value, choices=[(s, s) for s in SCOPES])
    owner = name_field(150, help_text="The owner, if the scope is personal.")
    project = name_field()
    type = models.CharField(max_length=20, default=MemoryType.CHANGE.value, choices=[(t, t) for t in TYPES])
    category = models.CharField(max_length=100, default="general")
    deleted_at = models.DateTimeField(null=True, blank=True)
    pinned_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When it was pinned. A pinned memory opens every session of its project and never expires.",
    )
    outdated_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When the code that it refers to changed, so that it may be outdated.",
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    imported_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When a person imported it. Maintenance counts its age from this time.",
    )
    session_id = name_field()
    key = name_field(help_text="Unique within project, scope and owner.")
    importance = share_field(0.5)
    trust = share_field(0.5, help_text="How far the source is trusted, from 0 to 1.")
    confidence = share_field(0.5, help_text="How certain the statement is, from 0 to 1.")
    accessed_count = models.PositiveIntegerField(default=0)
    last_accessed_at = models.DateTimeField(null=True, blank=True)
    shown_count = models.PositiveIntegerField(default=0, help_text="How often it was sent to agents.")
    helped_count = models.PositiveIntegerField(
        default=0, help_text="How often agents used it after it was sent."
    )
    discovery_tokens = models.PositiveIntegerField(null=True, blank=True)
    ttl_days = models.FloatField(
        null=True, blank=True, help_text="Days until it expires. Leave empty to keep it forever."
    )
    author = name_field(help_text="Who stored it first.")
    scale = name_field(10, help_text="The time scale that it was promoted to.")
    consolidated_at = models.DateTimeField(null=True, blank=True)
    consolidated_accesses = models.PositiveIntegerField(
        default=0, help_text="The access count at the last consolidation, so that each access counts once."
    )
    trash_reason = name_field(12, choices=[(r.value, r.value) for r in TrashReason])
    merged_into = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="merged_from"
    )
    superseded_by = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,  # the index memory_superseded contains only the rows that have one
        related_name="supersedes",
        help_text="The memory that replaces this one. Shown only to people who can see that memory.",
    )
    flags = models.JSONField(default=list, blank=True, help_text="Keywords for reviewers.")
    reviewed_at = models.DateTimeField(null=True, blank=True)
    content_hash = models.CharField(max_length=64, editable=False)
    copy = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Above 0 if an identical row exists that the author of this one may not see.",
    )
    title = models.TextField(blank=True, default="")
    subtitle = models.TextField(blank=True, default="")
    abstract = models.TextField(blank=True, default="", help_text="A one-line summary.")
    overview = models.TextField(blank=True, default="", help_text="A summary of one paragraph.")
    content = models.TextField()
    alias_text = models.TextField(
        blank=True,
        default="",
        editable=False,
        help_text="The aliases, one per line, for the full-text index.",
    )
    inspected = models.BinaryField(
        null=True,
        help_text="Digest of the texts in which the prompt injection detector last found nothing.",
    )

    # Set by a write that leaves the memory's quota above ``max_memories`` (``memories.delete``).
    over_cap = False
    # The list-valued fields, if ``memories.rows.attach_lists`` loaded them.
    loaded_lists: dict[str, list[Any]] | None = None

    objects = MemoryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "memories"
        default_permissions = ("add", "change", "delete", "view")
        permissions = [
            ("view_private", "May read private memories"),
            ("view_secret", "May read secret memories"),
            ("repair_unknown", "May see memories of an unknown sensitivity, to repair them"),
            ("erase_memory", "May erase memories for good"),
        ]
        constraints = [
            # Memories with different keys may have the same content.
            models.UniqueConstraint(
                fields=["content_hash", "project", "scope", "owner", "sensitivity", "key", "copy"],
                name="memory_content_once",
            ),
            models.UniqueConstraint(
                fields=["key", "project", "scope", "owner", "sensitivity", "copy"],
                condition=~Q(key=""),
                name="memory_key_once",
            ),
            *[share_constraint("memory", name) for name in ("importance", "trust", "confidence")],
        ]
        indexes = [
            # A covering index for counts, facets and days, which then never read the wide rows.
            models.Index(
                fields=[
                    "deleted_at",
                    "sensitivity",
                    "scope",
                    "project",
                    "type",
                    "category",
                    "owner",
                    "expires_at",
                    "created_at",
                ],
                name="memory_gate",
            ),
            models.Index(fields=["updated_at"], name="memory_updated"),
            models.Index(fields=["importance"], name="memory_importance"),
            models.Index(fields=["accessed_count"], name="memory_accessed"),
            models.Index(fields=["deleted_at"], name="memory_deleted", condition=Q(deleted_at__isnull=False)),
            models.Index(fields=["created_at"], name="memory_created"),
            models.Index(fields=["project", "updated_at"], name="memory_project_updated"),
            models.Index(
                fields=["session_id", "created_at"], name="memory_session", condition=~Q(session_id="")
            ),
            models.Index(fields=["expires_at"], name="memory_expires", condition=Q(expires_at__isnull=False)),
            # The review list (``stats.counts``): few rows, counted on every page.
            models.Index(
                fields=["imported_at"], name="memory_imported", condition=Q(imported_at__isnull=False)
            ),
            models.Index(
                fields=["superseded_by"], name="memory_superseded", condition=Q(superseded_by__isnull=False)
            ),
            models.Index(fields=["pinned_at"], name="memory_pinned", condition=Q(pinned_at__isnull=False)),
            models.Index(
                fields=["outdated_at"], name="memory_outdated", condition=Q(outdated_at__isnull=False)
            ),
            models.Index(fields=["confidence"], name="memory_unsure", condition=Q(confidence__lt=0.4)),
            models.Index(fields=["deleted_at", "sensitivity"], name="memory_flagged", condition=~Q(flags=[])),
        ]

    def __str__(self) -> str:
        return self.title or self.uid

    @property
    def pinned(self) -> bool:
        return self.pinned_at is not None

    @pinned.setter
    def pinned(self, value: bool) -> None:
        if value != self.pinned:
            self.pinned_at = timezone.now() if value else None

    @property
    def may_be_outdated(self) -> bool:
        return self.outdated_at is not None

    @property
    def titled_content(self) -> str:
        """The title and the content as one text."""
        return f"{self.title}\n{self.content}"

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= expiry_time(now)

    def has_ended(self, now: datetime) -> bool:
        """Whether the memory is in the trash or expired: not in ``Memory.objects.live(now)``."""
        return self.deleted_at is not None or self.is_expired(now)


class Label(models.Model):
    """A tag, a concept or an alias of a memory, as an indexed row."""

    class Kind(models.TextChoices):
        TAG = "tag"
        CONCEPT = "concept"
        ALIAS = "alias"

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="labels")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    value = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "value", "memory"], name="label_once")]


class FileLink(models.Model):
    """A file that a memory read or modified. Searched by ``basename`` or by a range over ``path``."""

    class Access(models.TextChoices):
        READ = "read"
        MODIFIED = "modified"

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="files")
    access = models.CharField(max_length=8, choices=Access.choices)
    path = models.CharField(max_length=1000)
    basename = models.CharField(max_length=1000)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["path", "access", "memory"], name="file_once")]
        indexes = [models.Index(fields=["basename"], name="file_basename")]


class CodeReference(models.Model):
    """The lines of a file that a memory is about, as truncated hashes, and which of them are gone.

    For ``memories.freshness`` alone: no answer contains the hashes.
    """

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="code_references")
    path = models.CharField(max_length=1000)
    basename = models.CharField(max_length=1000)
    lines = models.JSONField(default=list, editable=False)
    gone = models.JSONField(
        default=list, editable=False, help_text="Lines that an event showed to be removed."
    )
    dismissed = models.JSONField(
        default=dict, editable=False, help_text="Changes that a person dismissed, by the id of the action."
    )
    as_of = models.DateTimeField(help_text="The time of the event that the lines were last compared with.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["path", "memory"], name="code_reference_once")]
        indexes = [models.Index(fields=["basename"], name="code_reference_basename")]

    def __str__(self) -> str:
        return self.path

    @property
    def compared(self) -> list[str]:
        """The lines that still count: those that no person has dismissed."""
        ignored = {line for lines in self.dismissed.values() for line in lines}
        return [line for line in self.lines if line not in ignored]


class Entity(models.Model):
    """A person, place, thing or concept that a memory names (Memory MCP)."""

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="entities")
    entity = models.CharField(max_length=200)
    entity_type = models.CharField(max_length=50, default="concept")

    class Meta:
        verbose_name_plural = "entities"
        constraints = [
            models.UniqueConstraint(fields=["entity", "entity_type", "memory"], name="entity_once")
        ]


class Revision(models.Model):
    """The values that a change of a memory replaced, and the level that they had."""

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now)
    actor = name_field()
    reason = name_field(
        20,
        help_text="Why the version was replaced: an update, a merge, an upsert by key or a restored version.",
    )
    sensitivity = sensitivity_field()
    before = models.JSONField(default=dict, help_text="The replaced values, by field name.")

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["memory", "number"], name="revision_number_once")]


class AbsenceSpan(models.Model):
    """A time in which a memory was in the trash, or expired, before it came back.

    A trigger (``backends.schema``) writes it when the memory comes back. Searches of the past need it.
    """

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="absences")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()


class Embedding(models.Model):
    """A memory's vector (unit length, little-endian float16) and the name of the model that made it.

    Rows are inserted and deleted, never updated: new rows have higher keys than all earlier ones. Triggers
    (``backends.change_log``) delete the row when a text of the memory changes and list deleted rows, so that
    the index of each process can follow.
    """

    memory = models.OneToOneField(Memory, models.CASCADE, related_name="embedding")
    model = models.CharField(max_length=200)
    vector = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["model", "memory"], name="embedding_model")]


class Evidence(models.Model):
    """A session that stored a memory. Each further session raises the confidence (Mira)."""

    memory = models.ForeignKey(Memory, models.CASCADE, related_name="evidence")
    session_id = models.CharField(max_length=200)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "evidence"
        constraints = [models.UniqueConstraint(fields=["memory", "session_id"], name="evidence_once")]


class MemoryText(models.Model):
    """The FTS5 index of the words of a memory's texts, created by ``backends.schema``."""

    memory = models.OneToOneField(
        Memory, models.DO_NOTHING, primary_key=True, db_column="rowid", related_name="text_index"
    )
    terms = MatchField(db_column="memoryhub_text")
    rank = models.FloatField()

    class Meta:
        managed = False
        db_table = "memoryhub_text"


class MemoryTrigram(models.Model):
    """The FTS5 index of trigrams, for substrings and scripts without spaces."""

    memory = models.OneToOneField(
        Memory, models.DO_NOTHING, primary_key=True, db_column="rowid", related_name="trigram_index"
    )
    terms = MatchField(db_column="memoryhub_trigram")
    rank = models.FloatField()

    class Meta:
        managed = False
        db_table = "memoryhub_trigram"


class Fact(models.Model):
    """One fact. Only ``memoryhub.facts.services`` writes it. Storing it again updates its confidence."""

    uid = uid_field()
    subject = models.CharField(max_length=500)
    predicate = models.CharField(max_length=200)
    object = models.TextField()
    confidence = share_field(1.0)
    project = name_field()
    session_id = name_field()
    sensitivity = sensitivity_field()
    memory = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="facts")
    author = name_field()
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now, db_index=True)
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    superseded_by = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="supersedes"
    )
    copy = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Above 0 if an identical row exists that the author of this one may not see.",
    )

    objects = FactQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "predicate", "object", "project", "sensitivity", "copy"], name="fact_once"
            ),
            share_constraint("fact", "confidence"),
        ]
        indexes = [
            models.Index(fields=["predicate", "subject"], name="fact_predicate"),
            models.Index(fields=["object"], name="fact_object"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.predicate} {self.object}"


class CheckQuerySet(AccessQuerySet):
    def visible_to(self, clearance: Clearance) -> Self:
        """Return checks of visible levels and projects, without those that name a hidden memory."""
        hidden = Memory.objects.hidden_from(clearance)
        named = CheckedMemory.objects.filter(check_ref=OuterRef("pk"), memory__in=hidden)
        return super().visible_to(clearance).filter(~Exists(named))


class MemoryCheck(models.Model):
    """A prompt with expectations. Only ``memoryhub.checks`` writes it.

    ``level``: up to which level the prompt asks. ``sensitivity``: the strictest of that and of the memories
    that it names. ``result``: of the last run with the owner's clearance, without texts.
    """

    uid = uid_field()
    owner = models.CharField(
        max_length=150, help_text="The person whose clearance limits what a run can see."
    )
    project = name_field()
    sensitivity = sensitivity_field()
    prompt = models.TextField()
    level = models.CharField(
        max_length=10, default=Sensitivity.PUBLIC.value, choices=[(level, level) for level in LEVELS]
    )
    must_words = models.JSONField(default=list, blank=True)
    never_words = models.JSONField(default=list, blank=True)
    never_projects = models.JSONField(default=list, blank=True)
    never_level = name_field(10, help_text="This level and all more sensitive levels.")
    enabled = models.BooleanField(default=True)
    passed = models.BooleanField(null=True, editable=False)
    result = models.JSONField(default=dict, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = CheckQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["project"], name="memory_check_project")]

    def __str__(self) -> str:
        return f"check {self.uid}"

    def uids(self, rule: str) -> list[str]:
        """Return the ids of the memories of a rule, in the order in which they were given."""
        return [one.uid for one in self.memories.all() if one.rule == rule]


class CheckedMemory(models.Model):
    """A memory that a check must bring, or must never bring. The id stays when the memory is erased."""

    MUST, NEVER = "must", "never"

    check_ref = models.ForeignKey(MemoryCheck, models.CASCADE, related_name="memories")
    memory = models.ForeignKey(Memory, models.SET_NULL, null=True, blank=True, related_name="+")
    uid = models.CharField(max_length=32)
    rule = models.CharField(max_length=5, choices=[(MUST, MUST), (NEVER, NEVER)])

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "checked memories"

    def __str__(self) -> str:
        return f"{self.rule} bring {self.uid}"
