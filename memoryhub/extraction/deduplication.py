"""Store candidates: compare each with the nearest visible memories, then create, merge or skip it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.conf import settings
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, level_rank, stricter_level
from memoryhub.audit import journal
from memoryhub.backends import vector_index
from memoryhub.core.database import write_transaction
from memoryhub.core.text import STOP_WORDS, words
from memoryhub.core.vocabulary import ALWAYS_MERGED, NEVER_MERGED, SUMMARY_TYPES
from memoryhub.embeddings import Embedder, EmbeddingError, Vectors
from memoryhub.extraction.comparison import (
    ABSTRACT_CHARS,
    OVERVIEW_CHARS,
    Decision,
    Verdict,
    add_to_summary,
    compare_texts,
    merge_texts,
    word_overlap,
)
from memoryhub.extraction.rules.extractor import name_different_people
from memoryhub.memories.rows import (
    LIST_FIELDS,
    PreparedVectors,
    embedding_text,
    hash_content,
    list_values,
    make_abstract,
    resolve_owner,
    resolve_project,
    unite_values,
)
from memoryhub.memories.schemas import MAX_CONTENT, MemoryDraft, MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, journal_refusals, refuse_secrets
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.lexical import likely_rare, rows_sharing_words
from memoryhub.search.semantic import available_embedder, nearest_positions, row_cosines
from memoryhub.search.visible_rows import VisibleRows, load_visible_rows

MAX_NEIGHBOURS = 5  # compared with one candidate
MAX_PROFILE_NEIGHBOURS = 50  # the memory to merge with may rank behind memories about other people
_MAX_RARE_WORDS = 6
_MAX_MEMORIES_READ = 50  # memories that share rare words
_MAX_COMPARED_CHARS = 4000  # of a text whose words are compared


@dataclass(frozen=True)
class Neighbour:
    """A similar memory; the similarity is a cosine or a share of words."""

    memory: Memory
    similarity: float


@dataclass(frozen=True)
class NeighbourQuery:
    """Search parameters, with the candidate's vector computed outside of any transaction."""

    memories: MemoryQuerySet
    content: str
    model: str = ""
    vector: Vectors | None = None
    any_distance: bool = False  # also return dissimilar memories

    @classmethod
    def for_draft(cls, draft: MemoryDraft, actor: Actor, now: datetime) -> NeighbourQuery:
        """Build the query. Raise StoreError if the actor may not write to the destination."""
        memories = Memory.objects.visible_to(actor.clearance).live(now)
        memories = memories.filter(
            project=resolve_project(draft.project, actor),
            scope=draft.scope.value,
            owner=resolve_owner(draft.scope.value, actor),
            category=draft.category,
            sensitivity__in=LEVELS[: level_rank(draft.sensitivity.value) + 1],
        ).exclude(type__in=SUMMARY_TYPES)
        embedder, _ = available_embedder()
        vector = _embed_draft(embedder, draft) if embedder else None
        if embedder and vector is not None:
            vector_index.get_index(embedder.name, len(vector)).view()
        load_visible_rows(memories)  # cached for the transaction, which could not cache them itself
        name = embedder.name if embedder and vector is not None else ""
        return cls(memories, draft.content, name, vector, draft.category == ALWAYS_MERGED)


def find_neighbours(query: NeighbourQuery) -> list[Neighbour]:
    """Return at most ``MAX_NEIGHBOURS`` memories, nearest first.

    Memories without a vector are compared by words. Categories that always merge get
    ``MAX_PROFILE_NEIGHBOURS`` at any distance, newest first at equal distance.
    """
    min_similarity = -1.0 if query.any_distance else settings.MEMORYHUB.near_duplicate_similarity
    limit = MAX_PROFILE_NEIGHBOURS if query.any_distance else MAX_NEIGHBOURS
    neighbours: dict[int, float] = {}
    rows = without = load_visible_rows(query.memories)
    cosines = None
    if query.vector is not None:
        cosines = row_cosines(query.memories, rows, query.vector, query.model, centred=False, limit=limit)
    if cosines is not None:
        nearest = nearest_positions(cosines, limit)
        ranked = zip(rows.pks[nearest].tolist(), cosines[nearest].tolist(), strict=True)
        neighbours = {pk: cosine for pk, cosine in ranked if cosine >= min_similarity}
        without = rows.where(np.isnan(cosines))
    keys = _keys_sharing_rare_words(without, query.content)
    if query.any_distance:
        keys += without.pks[::-1][:limit].tolist()
    # An equal text would be refreshed, whatever its vector.
    equal = query.memories.filter(content_hash=hash_content(query.content))[:1]
    for memory in (*equal, *query.memories.filter(pk__in=keys)):
        similarity = word_overlap(query.content[:_MAX_COMPARED_CHARS], memory.content[:_MAX_COMPARED_CHARS])
        if similarity >= min_similarity:
            neighbours[memory.pk] = max(neighbours.get(memory.pk, min_similarity), similarity)
    best = sorted(neighbours, key=lambda pk: (-neighbours[pk], -pk))[:limit]
    found = query.memories.in_bulk(best)
    return [Neighbour(found[pk], round(min(neighbours[pk], 1.0), 4)) for pk in best if pk in found]


def _keys_sharing_rare_words(rows: VisibleRows, text: str) -> list[int]:
    """Return the keys of the rows that contain one of the text's rarest words."""
    likely = likely_rare(word for word in words(text[:_MAX_COMPARED_CHARS]) if word not in STOP_WORDS)
    return rows_sharing_words(rows, likely, max_words=_MAX_RARE_WORDS, limit=_MAX_MEMORIES_READ)


def _embed_draft(embedder: Embedder, draft: MemoryDraft) -> Vectors | None:
    """Return the vector, or None if the provider fails; the words are compared instead."""
    text = embedding_text(draft)
    try:
        vector = embedder.documents([text])[0] if embedder.in_process else embedder.query(text)
    except EmbeddingError:
        return None
    return vector if vector.any() else None


SKIP_OPERATION = "dedup_skip"


@dataclass(frozen=True)
class DedupDecision:
    """The action for a candidate, and the memory it concerns (if any)."""

    verdict: Verdict
    memory: Memory | None = None


DecisionMaker = Callable[[MemoryDraft, Sequence[Neighbour]], DedupDecision | None]
_CREATE_NEW = DedupDecision(Verdict(Decision.CREATE, "nothing similar is known"))


def create_deduplicated(
    draft: MemoryDraft, actor: Actor, *, choose: DecisionMaker | None = None
) -> memories.StoreResult:
    """Store a memory unless it is known; the outcome is ``created``, ``merged`` or ``skipped``.

    Identical content is ``refreshed`` and an existing key is ``updated``, as in ``create_memory``. ``choose``
    may decide instead of the rules, outside of any transaction; the category rules still apply. Raise
    StoreError if the draft is refused.
    """
    now = timezone.now()
    with journal_refusals(draft, actor):
        refuse_secrets(draft, MEMORY_FIELDS)
    if draft.key:
        return memories.create_memory(draft, actor, now)
    query = NeighbourQuery.for_draft(draft, actor, now)
    chosen = None
    if choose and (neighbours := find_neighbours(query)):
        chosen = choose(draft, neighbours[:MAX_NEIGHBOURS])
    vectors = memories.embed_drafts([draft])
    checked: list[dict[str, str]] = [{}]
    while True:
        with write_transaction():
            decision = (
                _checked_decision(draft, chosen, query)
                if chosen
                else decide_by_rules(draft, find_neighbours(query))
            )
            texts = _merged_texts(draft, decision)
            if texts in checked:
                return _apply_decision(decision, texts, draft, actor, now, vectors)
        # Check the merged texts for secrets outside of the transaction, then decide again.
        with journal_refusals(draft, actor):
            refuse_secrets(MemoryPatch.model_validate(texts), list(texts))
        checked.append(texts)


def _merged_texts(draft: MemoryDraft, decision: DedupDecision) -> dict[str, str]:
    """Return the content, abstract and overview that the memory gets, as far as they change."""
    memory = decision.memory
    if memory is None or decision.verdict.decision == Decision.CREATE:
        return {}
    is_merge = decision.verdict.decision == Decision.MERGE
    abstract = draft.abstract or (make_abstract(draft.content) if is_merge else "")
    # The overview is a paragraph and contains all facts; the abstract has room for only some of them.
    overview = draft.overview or (abstract if memory.overview or is_merge else "")
    known = memory.content if len(memory.content) <= OVERVIEW_CHARS else memory.abstract
    texts = {
        "content": decision.verdict.content if is_merge else "",
        "abstract": add_to_summary(abstract, memory.abstract, ABSTRACT_CHARS),
        "overview": add_to_summary(overview, memory.overview or known, OVERVIEW_CHARS) if overview else "",
    }
    return {name: text for name, text in texts.items() if text and text != getattr(memory, name)}


def _apply_decision(
    decision: DedupDecision,
    texts: dict[str, str],
    draft: MemoryDraft,
    actor: Actor,
    now: datetime,
    vectors: PreparedVectors,
) -> memories.StoreResult:
    """Skip, merge or create in the caller's transaction. All texts are already checked for secrets."""
    if decision.memory is not None and decision.verdict.decision == Decision.SKIP:
        return _skip_draft(draft, decision.memory, texts, actor, now)
    if decision.memory is not None and decision.verdict.decision == Decision.MERGE:
        # If the merged text equals a third memory, store the candidate separately.
        with suppress(memories.Conflict):
            return _merge_draft(draft, decision.memory, texts, actor, now)
    [result] = memories.create_memories([draft], actor, now, vectors=vectors, refusals=[None])
    if isinstance(result, memories.StoreError):
        raise result
    return result


def decide_by_rules(draft: MemoryDraft, neighbours: Sequence[Neighbour]) -> DedupDecision:
    """Decide by rules: skip a known text, merge an addition, create anything else."""
    if any(one.memory.content_hash == hash_content(draft.content) for one in neighbours):
        return _CREATE_NEW  # the store refreshes identical content
    if draft.category == ALWAYS_MERGED:
        return _merge_into_profile(draft, neighbours)
    merge: DedupDecision | None = None
    for one in neighbours:
        decision = _apply_category_rules(
            draft, DedupDecision(compare_texts(draft.content, one.memory.content), one.memory)
        )
        if decision.verdict.decision == Decision.SKIP:
            return decision
        if decision.verdict.decision == Decision.MERGE and merge is None:
            merge = decision
    return merge or _CREATE_NEW


def _merge_into_profile(draft: MemoryDraft, neighbours: Sequence[Neighbour]) -> DedupDecision:
    """Merge with the most similar memory that has room and is not about another person."""
    for one in neighbours:
        if not name_different_people(draft.content, one.memory.content):
            content = merge_texts(draft.content, one.memory.content)
            verdict = Verdict(Decision.MERGE, "a profile is always merged", content)
            decision = _apply_category_rules(draft, DedupDecision(verdict, one.memory))
            if decision.verdict.decision == Decision.MERGE:
                return decision
    return _CREATE_NEW


def _checked_decision(draft: MemoryDraft, chosen: DedupDecision, query: NeighbourQuery) -> DedupDecision:
    """Return the given decision if it still applies to its memory, else decide by rules."""
    neighbours = find_neighbours(query)
    if chosen.memory is None or chosen.verdict.decision == Decision.CREATE:
        known = draft.category == ALWAYS_MERGED and neighbours
        return decide_by_rules(draft, neighbours) if known else chosen
    current = next((one.memory for one in neighbours if one.memory.pk == chosen.memory.pk), None)
    if current is None or current.updated_at != chosen.memory.updated_at:
        return decide_by_rules(draft, neighbours)
    if current.content_hash == hash_content(draft.content):
        return _CREATE_NEW
    if draft.category == ALWAYS_MERGED and (
        chosen.verdict.decision == Decision.SKIP or name_different_people(draft.content, current.content)
    ):
        return decide_by_rules(draft, neighbours)
    return _apply_category_rules(draft, chosen)


def _apply_category_rules(draft: MemoryDraft, decision: DedupDecision) -> DedupDecision:
    """Apply the rules of the category and the content limit to a decision."""
    verdict, memory = decision.verdict, decision.memory
    if memory is None or verdict.decision == Decision.CREATE:
        return decision
    if draft.category in NEVER_MERGED:
        return DedupDecision(Verdict(Decision.CREATE, f"{draft.category} are never merged"))
    if verdict.decision == Decision.MERGE:
        if len(verdict.content) > MAX_CONTENT:
            return DedupDecision(Verdict(Decision.CREATE, "together they are too long for one memory"))
        if memory.sensitivity != draft.sensitivity:
            return DedupDecision(Verdict(Decision.CREATE, "a merge would change its access"))
    return decision


def _skip_draft(
    draft: MemoryDraft, memory: Memory, texts: dict[str, str], actor: Actor, now: datetime
) -> memories.StoreResult:
    """Keep the content, add to the summaries, and journal the hash of the skipped text.

    The row gets the stricter level of both texts, because readers of a hash can verify guesses of the text.
    """
    level = draft.sensitivity.value
    skipped = {"candidate_hash": hash_content(draft.content), "candidate_sensitivity": level}
    change = journal.memory_change(SKIP_OPERATION, memory, **skipped)
    change = replace(change, sensitivity=stricter_level(memory.sensitivity, level))
    journal.record(actor, [change], now)
    if texts:
        patch = MemoryPatch.model_validate(texts)
        memory = memories.update_memory(memory.uid, patch, actor, now, reason="merge", checked=True)
    return memories.StoreResult("skipped", memory)


def _merge_draft(
    draft: MemoryDraft, memory: Memory, texts: dict[str, str], actor: Actor, now: datetime
) -> memories.StoreResult:
    """Add the candidate's texts to the memory; the previous content stays as a revision."""
    values: dict[str, object] = {"content": memory.content, **texts}
    if draft.subtitle and not memory.subtitle:
        values["subtitle"] = draft.subtitle
    for name in LIST_FIELDS:
        brought = [v.model_dump() if hasattr(v, "model_dump") else v for v in getattr(draft, name)]
        values[name] = unite_values(name, list_values(memory, name), brought)
    for name in ("importance", "trust", "confidence"):
        if name in draft.given:
            values[name] = max(getattr(memory, name), getattr(draft, name))
    patch = MemoryPatch.model_validate(values)
    return memories.StoreResult(
        "merged", memories.update_memory(memory.uid, patch, actor, now, reason="merge", checked=True)
    )
