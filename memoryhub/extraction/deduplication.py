"""Storing what may be known: a candidate is created, merged into a memory that it adds to, or skipped.

Compared are live memories of the same category in the same place (project, scope, owner) that whoever stores
may see, and that are no more hidden than the candidate: nothing that all may read is swallowed by a secret.
They are near from ``near_duplicate_similarity`` on, by the plain cosine of their vectors; where there are no
vectors, by the share of the shorter text's words that both hold.

``profile`` is always merged with the most similar one, however far it is, unless the two name different
people; ``events`` and ``cases`` always stand for themselves: what happened again is another event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from memoryhub import journal, store
from memoryhub.drafts import MAX_CONTENT, MAX_LIST, MemoryDraft, MemoryPatch
from memoryhub.extraction.comparison import Decision, Verdict, compare, merged
from memoryhub.extraction.nearness import MOST, Near, Question, near
from memoryhub.extraction.people import different_people
from memoryhub.models import Memory
from memoryhub.sensitivity import Actor, higher
from memoryhub.store.embedding import Ahead
from memoryhub.store.rows import LISTS, content_hash, listed
from memoryhub.store.screening import MEMORY_FIELDS, noting_refusals, refuse_secrets
from memoryhub.transactions import write
from memoryhub.vocabulary import ALWAYS_MERGED, NEVER_MERGED

SKIP = "dedup_skip"


@dataclass(frozen=True)
class Choice:
    """What becomes of a candidate, and beside which memory (None: beside none)."""

    verdict: Verdict
    memory: Memory | None = None


Chooser = Callable[[MemoryDraft, Sequence[Near]], Choice | None]
_NEW = Choice(Verdict(Decision.CREATE, "nothing like it is known"))


def remember_deduplicated(
    draft: MemoryDraft, actor: Actor, now: datetime | None = None, *, choose: Chooser | None = None
) -> store.Outcome:
    """Store a memory unless it is known: ``created``, ``merged`` or ``skipped``.

    With the very words of a memory it is ``refreshed``, with its key ``updated``, as by ``store.remember``.
    ``choose``: who decides in the place of the rules (None: they do), without holding a transaction; the
    categories' own rules are held against what it says. StoreError when the draft is refused.
    """
    now = now or timezone.now()
    with noting_refusals(draft, actor):
        refuse_secrets(draft, MEMORY_FIELDS)
    if draft.key:
        return store.remember(draft, actor, now)
    question = Question.of(draft, actor, now)
    chosen = None
    if choose and (found := near(question)):
        chosen = choose(draft, found[:MOST])
    vectors = store.embed_ahead([draft])
    checked: set[str] = {""}
    while True:
        with write():
            choice = _held(draft, chosen, question) if chosen else by_rules(draft, near(question))
            is_merge = choice.memory is not None and choice.verdict.decision == Decision.MERGE
            if not is_merge or choice.verdict.content in checked:
                return _carry_out(choice, draft, actor, now, vectors)
        # The merged text has to be checked outside of the transaction. Then the choice is made again.
        content = choice.verdict.content
        with noting_refusals(draft, actor):
            refuse_secrets(MemoryPatch(content=content), ["content"])
        checked.add(content)


def _carry_out(
    choice: Choice, draft: MemoryDraft, actor: Actor, now: datetime, vectors: Ahead
) -> store.Outcome:
    """Skip, merge or create, in the caller's transaction. All texts have been checked for secrets."""
    if choice.memory is not None and choice.verdict.decision == Decision.SKIP:
        return _skip(draft, choice.memory, actor, now)
    if choice.memory is not None and choice.verdict.decision == Decision.MERGE:
        # A conflict: together they equal a third memory. Then the candidate is stored by itself.
        with suppress(store.Conflict):
            return _merge(draft, choice.memory, choice.verdict.content, actor, now)
    [result] = store.remember_many([draft], actor, now, vectors=vectors, refusals=[None])
    if isinstance(result, store.StoreError):
        raise result
    return result


def by_rules(draft: MemoryDraft, found: Sequence[Near]) -> Choice:
    """The deterministic decision: what is known is skipped, what adds is merged, all else is created."""
    if any(one.memory.content_hash == content_hash(draft.content) for one in found):
        return _NEW  # the store refreshes what has these very words
    if draft.category == ALWAYS_MERGED:
        return _into_profile(draft, found)
    merge: Choice | None = None
    for one in found:
        choice = _fitting(draft, Choice(compare(draft.content, one.memory.content), one.memory))
        if choice.verdict.decision == Decision.SKIP:
            return choice
        if choice.verdict.decision == Decision.MERGE and merge is None:
            merge = choice
    return merge or _NEW


def _into_profile(draft: MemoryDraft, found: Sequence[Near]) -> Choice:
    """Merged with the most similar memory that can take it and is not about somebody else."""
    for one in found:
        if not different_people(draft.content, one.memory.content):
            content = merged(draft.content, one.memory.content)
            verdict = Verdict(Decision.MERGE, "a profile is always merged", content)
            choice = _fitting(draft, Choice(verdict, one.memory))
            if choice.verdict.decision == Decision.MERGE:
                return choice
    return _NEW


def _held(draft: MemoryDraft, chosen: Choice, question: Question) -> Choice:
    """What somebody decided, if the memory it names is as it was then, and may be merged; else the rules."""
    found = near(question)
    if chosen.memory is None or chosen.verdict.decision == Decision.CREATE:
        known = draft.category == ALWAYS_MERGED and found
        return by_rules(draft, found) if known else chosen
    current = next((one.memory for one in found if one.memory.pk == chosen.memory.pk), None)
    if current is None or current.updated_at != chosen.memory.updated_at:
        return by_rules(draft, found)
    if current.content_hash == content_hash(draft.content):
        return _NEW
    if draft.category == ALWAYS_MERGED and (
        chosen.verdict.decision == Decision.SKIP or different_people(draft.content, current.content)
    ):
        return by_rules(draft, found)
    return _fitting(draft, chosen)


def _fitting(draft: MemoryDraft, choice: Choice) -> Choice:
    """The categories' own rules, and what no memory can hold."""
    verdict, memory = choice.verdict, choice.memory
    if memory is None or verdict.decision == Decision.CREATE:
        return choice
    if draft.category in NEVER_MERGED:
        return Choice(Verdict(Decision.CREATE, f"{draft.category} always stand for themselves"))
    if verdict.decision == Decision.MERGE:
        if len(verdict.content) > MAX_CONTENT:
            return Choice(Verdict(Decision.CREATE, "together they are too long for one memory"))
        if memory.sensitivity != draft.sensitivity:
            return Choice(Verdict(Decision.CREATE, "merged, it would be seen by others than it may"))
    return choice


def _skip(draft: MemoryDraft, memory: Memory, actor: Actor, now: datetime) -> store.Outcome:
    """Change nothing, and journal the hash of the text that was left out.

    The row has the higher level of both texts: a hash lets its readers check guesses of the text.
    """
    level = draft.sensitivity.value
    skipped = {"candidate_hash": content_hash(draft.content), "candidate_sensitivity": level}
    change = journal.of_memory(SKIP, memory, **skipped)
    change = replace(change, sensitivity=higher(memory.sensitivity, level))
    journal.record(actor, [change], now)
    return store.Outcome("skipped", memory)


def _merge(draft: MemoryDraft, memory: Memory, content: str, actor: Actor, now: datetime) -> store.Outcome:
    """The memory takes over what the candidate adds; what it said stays as a revision."""
    values: dict[str, object] = {"content": content or memory.content}
    values |= {name: getattr(draft, name) for name in ("subtitle", "overview") if not getattr(memory, name)}
    for name in LISTS:
        own = listed(memory, name)
        brought = [v.model_dump() if hasattr(v, "model_dump") else v for v in getattr(draft, name)]
        values[name] = [*own, *(value for value in brought if value not in own)][:MAX_LIST]
    for name in ("importance", "trust", "confidence"):
        if name in draft.given:
            values[name] = max(getattr(memory, name), getattr(draft, name))
    patch = MemoryPatch.model_validate(values)
    return store.Outcome("merged", store.update(memory.uid, patch, actor, now, reason="merge", checked=True))
