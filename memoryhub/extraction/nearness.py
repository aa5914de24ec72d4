"""The memories that are near a candidate, behind the gate of whoever stores it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef

from memoryhub.drafts import MemoryDraft
from memoryhub.embeddings import Embedder, EmbeddingError, Vectors
from memoryhub.extraction.comparison import likeness
from memoryhub.models import Embedding, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.likeness import provider
from memoryhub.retrieval.semantic import nearest
from memoryhub.search import vectors
from memoryhub.search.query import any_of
from memoryhub.search.rarity import rare_words
from memoryhub.sensitivity import LEVELS, Actor, rank
from memoryhub.store.embedding import passage
from memoryhub.store.rows import content_hash, owner_for, project_for
from memoryhub.text import STOP_WORDS, words
from memoryhub.vocabulary import ALWAYS_MERGED, SUMMARIES

MOST = 5  # memories that a candidate is compared with
MOST_PROFILES = 50  # there is always one to merge with, and it may be behind those of others
_LOOKED_UP, _RARE, _READ = 30, 6, 50  # words whose rarity is asked, of these searched, memories read
_COMMON = 2000  # memories that hold a word at which it stops being rare
_CHARS = 4000  # of a text whose words are compared


@dataclass(frozen=True)
class Near:
    """A memory and how near it is: a cosine, or a share of words."""

    memory: Memory
    similarity: float


@dataclass(frozen=True)
class Question:
    """Where to look for what, and the candidate's vector, made before any transaction is open."""

    memories: MemoryQuerySet
    content: str
    model: str = ""
    vector: Vectors | None = None
    always: bool = False  # what is nearest is wanted however far it is

    @classmethod
    def of(cls, draft: MemoryDraft, actor: Actor, now: datetime) -> Question:
        """StoreError when the actor may not write to that place."""
        memories = Memory.objects.visible_to(actor.clearance).live(now)
        memories = memories.filter(
            project=project_for(draft.project, actor),
            scope=draft.scope.value,
            owner=owner_for(draft.scope.value, actor),
            category=draft.category,
            sensitivity__in=LEVELS[: rank(draft.sensitivity.value) + 1],
        ).exclude(type__in=SUMMARIES)
        embedder, _ = provider()
        vector = _vector(embedder, draft) if embedder else None
        if embedder and vector is not None:
            # Out of any transaction, in which what came since the last look would be read again each time.
            vectors.index(embedder.name, len(vector)).view()
        name = embedder.name if embedder and vector is not None else ""
        return cls(memories, draft.content, name, vector, draft.category == ALWAYS_MERGED)


def near(question: Question) -> list[Near]:
    """The nearest first, at most :data:`MOST`; by words those that have no vector (yet).

    For what is always merged :data:`MOST_PROFILES`, however far; of those as far the newest first.
    """
    least = -1.0 if question.always else settings.MEMORYHUB.near_duplicate_similarity
    most = MOST_PROFILES if question.always else MOST
    found: dict[int, float] = {}
    without = question.memories
    if question.vector is not None:
        ranked = nearest(question.memories, question.vector, question.model, most, centred=False)
        found = {pk: cosine for pk, cosine in ranked if cosine >= least}
        own = Embedding.objects.filter(memory=OuterRef("pk"), model=question.model)
        without = without.filter(~Exists(own))
    by_words = without.order_by("-pk")[:most] if question.always else ()
    for memory in (*_same_words(question), *_sharing_words(without, question.content), *by_words):
        similarity = likeness(question.content[:_CHARS], memory.content[:_CHARS])
        if similarity >= least:
            found[memory.pk] = max(found.get(memory.pk, least), similarity)
    best = sorted(found, key=lambda pk: (-found[pk], -pk))[:most]
    rows = question.memories.in_bulk(best)
    return [Near(rows[pk], round(min(found[pk], 1.0), 4)) for pk in best if pk in rows]


def _same_words(question: Question) -> Iterable[Memory]:
    """What the store would refresh: it is nearest, whatever its vector says."""
    same: MemoryQuerySet = question.memories.filter(content_hash=content_hash(question.content))
    return same[:1]


def _sharing_words(memories: MemoryQuerySet, text: str) -> list[Memory]:
    """Memories that hold one of the text's rarest words."""
    useful = [word for word in dict.fromkeys(words(text[:_CHARS])) if word not in STOP_WORDS]
    likely = sorted(useful, key=lambda word: (-any(map(str.isdigit, word)), -len(word)))[:_LOOKED_UP]
    counted = rare_words(likely, _COMMON)
    rare = sorted(counted, key=lambda word: (counted[word], word))[:_RARE]
    return list(memories.matching(any_of(rare))[:_READ]) if rare else []


def _vector(embedder: Embedder, draft: MemoryDraft) -> Vectors | None:
    """None where the provider fails now: words are compared then."""
    text = passage(draft)
    try:
        vector = embedder.documents([text])[0] if embedder.in_process else embedder.query(text)
    except EmbeddingError:
        return None
    return vector if vector.any() else None
