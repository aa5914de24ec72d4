"""Candidate memories: for a prompt by its terms and files, for a tool call by its files or its failure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends.fts_query import Query, Term
from memoryhub.backends.statements import read_about_files
from memoryhub.core.database import DeadlinePassed
from memoryhub.core.text import fold
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType, Scope
from memoryhub.injection.project_page import PageEntry
from memoryhub.memories.replacements import existing_keys
from memoryhub.memories.rows import load_memories
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.search import scoring
from memoryhub.search.fallback import correct_spelling
from memoryhub.search.lexical import (
    RowScorer,
    Scores,
    TermMatches,
    best_positions,
    default_weights,
    find_substrings,
    match_texts,
    score_parts,
)
from memoryhub.search.prompts import (
    SUBJECT_MATCH,
    ParsedPrompt,
    are_objects,
    match_subjects,
    min_share_of_best,
    parse_prompt,
    words_query,
)
from memoryhub.search.text_matching import TextMatch
from memoryhub.search.visible_rows import is_loading

# Limits of the parsed prompt.
MAX_TERMS = 8  # about as many as in a normal search
MAX_PARTS = 12  # terms of a query in a script without spaces, where several terms are one word
MAX_UNKNOWN_TERMS = 1  # of these, terms that no memory contains; they lower the match of other topics
MAX_CLAUSES = 3  # sentences that are matched alone
MAX_LOOKED_UP_PHRASES = 16  # names such as "foo.bar", together with the words
MAX_CORRECTED_WORDS = 4  # informative words of a prompt in which typing errors are corrected
MIN_SUBSTRING_LENGTH = 5  # letters of a word that is searched inside other words
NAME_BONUS = 1.3
# About this many memories share terms, or a single one of several terms, with any prompt by chance.
CHANCE_MATCHES, CHANCE_MATCHES_OF_ONE = 20, 4
# In a store of at most this many memories, all may have the same topic, so common terms count too.
SMALL_STORE, SMALL_STORE_FOR_ONE = 256, 64
SMALL_STORE_SLOPE = 1.9
# Limits of the candidates. An injection must be fast and shows few memories.
MAX_COMPARED = 40  # memories whose text is compared with the prompt
MAX_CANDIDATES = 40
# A new memory passes the minimum score by its recency alone, so it must match about half of the query.
MIN_MATCH = 0.31
MAX_FILE_CANDIDATES = 30
MAX_MEMORIES_PER_FILE = 200  # a file of more memories is not informative
FEW_MEMORIES_PER_FILE = 5  # each memory of such a file is relevant
FILE_MATCH = 0.4  # match of a memory that shares only a file with the prompt
OUTDATED_FACTOR = 0.85  # for the rank of a memory that may be outdated


@dataclass(frozen=True, eq=False)
class Candidate:
    """A memory that shares something with the prompt, and its score."""

    memory: Memory
    score: float
    components: scoring.Components

    @property
    def factor(self) -> float:
        """The factor for the rank: how often the memory helped, and whether it may be outdated."""
        helped = scoring.helpfulness(self.memory.shown_count, self.memory.helped_count)
        return round(helped * OUTDATED_FACTOR, 3) if self.memory.may_be_outdated else helped

    @property
    def rank(self) -> float:
        """The sort key of candidates. Limits compare the score, which is the documented sum."""
        return round(self.score * self.factor, 4)


def full_match(memory: Memory, now: datetime) -> Candidate:
    """Return a candidate that is relevant whatever its words are, such as a pinned memory."""
    parts = score_parts(memory, 1.0, now)
    return Candidate(memory, scoring.composite_score(parts, default_weights()), parts)


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of an injection. Pinned candidates come first and have their own budget.

    ``page``: lines of the project's page, which come next.
    """

    ranked: list[Candidate] = field(default_factory=list)
    pinned: list[Candidate] = field(default_factory=list)
    page: list[PageEntry] = field(default_factory=list)


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate with its score, the parts of the score, and its text match."""

    pk: int
    score: float
    parts: scoring.Components
    text_match: TextMatch


@dataclass(frozen=True)
class PromptQuery:
    """The search query for a prompt, and parts of it that are in one sentence each."""

    query: Query
    clauses: tuple[Query, ...]

    def without(self, terms: Collection[Term]) -> PromptQuery:
        """Return the query without some of its terms."""
        left = (_to_query([one for one in part.terms if one not in terms]) for part in self.clauses)
        clauses = tuple(part for part in left if len(part.terms) > 1)
        return PromptQuery(_to_query([one for one in self.query.terms if one not in terms]), clauses)


def injectable_memories(clearance: Clearance, project: str, now: datetime) -> MemoryQuerySet:
    """Return the live memories of the project, of the team and of no project; without a project, all.

    A prompt may arrive late with an earlier ``now``; memories that have expired since are excluded.
    """
    memories = _injectable_memories(clearance, project)
    return memories.live(now) if now > timezone.now() else memories.all()


@lru_cache(maxsize=256)
def _injectable_memories(clearance: Clearance, project: str) -> MemoryQuerySet:
    memories = live_memories(clearance)
    if project:
        memories = memories.filter(Q(project__in=(project, "")) | Q(scope=Scope.TEAM.value))
    return memories


def require_loaded(memories: MemoryQuerySet) -> None:
    """Raise DeadlinePassed while another thread reads the rows of a large store for their first search."""
    if is_loading(memories):
        raise DeadlinePassed("until the memories are loaded")


def find_candidates(memories: MemoryQuerySet, prompt: str, now: datetime) -> list[Candidate]:
    """Return the best candidates, even those below the minimum score; none if no term is informative."""
    parsed = parse_prompt(prompt)
    words = TermMatches.load(memories, words_query(parsed, MAX_LOOKED_UP_PHRASES))
    if not len(words.rows):
        return []
    if parsed.is_english and 0 < len(words.known_words) < len(parsed.words) <= MAX_CORRECTED_WORDS:
        correction = correct_spelling(memories, prompt, fields=("title", "alias_text"))
        if correction is not None:
            parsed = parse_prompt(correction.typed)
            words = TermMatches(words.rows, words_query(parsed, MAX_LOOKED_UP_PHRASES), words)
    rows = words.rows
    prompt_query = build_query(parsed, words.frequencies.of_stems, len(rows))
    if prompt_query is None:
        return []
    file_weights = _memories_about_files(memories, parsed.files, len(rows))
    subject = match_subjects(words, prompt)
    scored = _score_candidates(memories, words, prompt_query, subject, file_weights, now)
    best_match = max((row.parts.match for row in scored), default=0.0)
    min_match = max(MIN_MATCH, min_share_of_best(len(parsed.words)) * best_match)
    scored = [row for row in scored if row.parts.match >= min_match]
    best = sorted(scored, key=lambda row: (-row.score, -row.parts.match, -row.pk))[:MAX_CANDIDATES]
    loaded = load_memories((row.pk for row in best), memories)
    candidates = [Candidate(loaded[row.pk], row.score, row.parts) for row in best if row.pk in loaded]
    return sorted(candidates, key=lambda candidate: -candidate.rank)


def build_query(parsed: ParsedPrompt, frequencies: Mapping[str, int], total: int) -> PromptQuery | None:
    """Choose the few terms to search for; None if no term is informative."""
    terms = [
        term for term in parsed.terms if not term.stems or any(stem in frequencies for stem in term.stems)
    ]
    weights = {term: _term_weight(term, frequencies, total) for term in terms}
    unknown = [term for term in terms if term.stems and not any(frequencies.get(stem) for stem in term.stems)]
    others = set(unknown)
    # Of equally rare terms the last ones, because most prompts end with the request.
    known = sorted((term for term in reversed(terms) if term not in others), key=lambda term: -weights[term])
    # An unknown word may be part of a known one: deploy in deployment. One of another language or script than
    # that of the known ones is no sign of another topic, unless these are usual objects: "corrige les tests".
    if known:
        is_latin = all(word.isascii() for term in known for word in term.words)
        is_sign = parsed.is_english or are_objects(known)
        unknown = [term for term in unknown if (is_sign and term.words[0].isascii()) or not is_latin]
        unknown = unknown[:MAX_UNKNOWN_TERMS]
    else:
        unknown = [term for term in unknown if len(term.words[0]) >= MIN_SUBSTRING_LENGTH]
    parts = [term for term in known if not term.stems][:MAX_PARTS]
    known = [term for term in known if term.stems][: MAX_TERMS - MAX_UNKNOWN_TERMS]
    chosen = {*known, *parts[: MAX_PARTS - len(known)], *unknown[:MAX_TERMS]}
    if not chosen:
        return None
    clauses = [[term for term in clause if term in chosen] for clause in parsed.clauses]
    queries = dict.fromkeys(_to_query(clause) for clause in clauses if 1 < len(clause) < len(chosen))
    return PromptQuery(
        _to_query([term for term in terms if term in chosen]),
        tuple(sorted(queries, key=lambda part: -sum(weights[term] for term in part.terms))[:MAX_CLAUSES]),
    )


def _term_weight(term: Term, frequencies: Mapping[str, int], total: int) -> float:
    if not term.stems:
        return scoring.idf(0, total) / 2
    rarest = max(scoring.idf(frequencies.get(stem, 0), total) for stem in term.stems)
    return rarest * NAME_BONUS if term.literal else rarest


def _to_query(terms: Sequence[Term]) -> Query:
    text = " ".join(term.spelling or " ".join(term.words) for term in terms)
    return Query(fold(text), tuple(terms), text)


def _memories_about_files(memories: MemoryQuerySet, files: tuple[str, ...], total: int) -> dict[int, float]:
    """Return the memories about the files of a prompt, weighted by the rarity of their file."""
    weights: dict[int, float] = {}
    for path in files:
        about = list(
            memories.order_by().about_file(path).values_list("pk", flat=True)[:MAX_MEMORIES_PER_FILE]
        )
        if len(about) < MAX_MEMORIES_PER_FILE:
            weights |= {pk: max(weights.get(pk, 0.0), scoring.idf(len(about), total)) for pk in about}
    return weights


def _score_candidates(
    memories: MemoryQuerySet,
    words: TermMatches,
    prompt_query: PromptQuery,
    subject: Scores,
    file_weights: dict[int, float],
    now: datetime,
) -> list[ScoredCandidate]:
    """Score the memories that share enough with the prompt to exclude coincidence."""
    total = len(words.rows)
    about_files = sorted(file_weights, key=lambda pk: -file_weights[pk])[:MAX_FILE_CANDIDATES]
    scored = []
    for row in _match_candidates(memories, words, prompt_query, subject, about_files, now):
        file_weight = file_weights.get(row.pk, 0.0)
        is_lone = len(prompt_query.query.terms) > 1 and row.text_match.found_terms == 1 and not file_weight
        match = row.parts.match
        is_named = match >= SUBJECT_MATCH or match > round(row.text_match.match, 4)
        if is_named or row.text_match.weight + file_weight >= min_shared_weight(total, is_lone=is_lone):
            share = min(file_weight / scoring.idf(FEW_MEMORIES_PER_FILE, total), 1.0)
            scored.append(_add_file_match(row, share) if file_weight else row)
    return scored


def _known_weights(matches: TermMatches) -> list[float]:
    """Return the weights of the terms. An unknown word counts as no rarer than the rarest known one."""
    frequencies = matches.frequencies.of_stems
    rarest = min(filter(None, frequencies.values()), default=0)
    counts = {stem: max(count, rarest) for stem, count in frequencies.items()}
    return scoring.term_weights(matches.query, counts, len(matches.rows), matches.phrase_frequencies)


def _match_candidates(
    memories: MemoryQuerySet,
    words: TermMatches,
    prompt_query: PromptQuery,
    subject: Scores,
    about_files: Sequence[int],
    now: datetime,
) -> list[ScoredCandidate]:
    """Match the prompt with the texts of the best rows by words, and with those about its files."""
    query, rows = prompt_query.query, words.rows
    matches = TermMatches(rows, query, words)
    weights = _known_weights(matches)
    parts = [[query.terms.index(term) for term in part.terms] for part in (query, *prompt_query.clauses)]
    by_words = [matches.add_up([(number, weights[number]) for number in part]) for part in parts]
    scorer = RowScorer(rows, default_weights(), now)
    match = np.max([*(part.match for part in by_words), subject], axis=0)
    best = best_positions(scorer.scores(match) * (match > 0), MAX_COMPARED)
    # Reading a text is worthwhile only if its words can match well enough.
    max_matches = [scoring.max_word_match(part.covered[best], part.total) for part in by_words]
    best = best[np.max(max_matches, axis=0) >= MIN_MATCH]
    inside = find_substrings(memories, matches, MAX_COMPARED, thorough=False)
    about = rows.find(np.array(about_files, np.int64))
    candidates = np.unique(np.concatenate([best, inside, about]))
    compared = match_texts(matches, candidates, weights, prompt_query.clauses)
    if unknown := _unknown_parts(query, compared):
        return _match_candidates(memories, words, prompt_query.without(unknown), subject, about_files, now)
    matched = np.zeros(len(rows))
    matched[candidates] = [text_match.match for text_match in compared]
    matched = np.round(rows.move_to_replacements(np.maximum(matched, subject)), 4)
    texts = dict(zip(candidates.tolist(), compared, strict=True))
    # The match of a row about a file of the prompt is raised later.
    chosen = np.union1d(best_positions(matched * (matched >= MIN_MATCH), MAX_COMPARED), about)
    chosen = chosen[matched[chosen] > 0]
    return [
        ScoredCandidate(pk, round(score, 4), own, texts.get(position, TextMatch()))
        for position, pk, score, own in zip(
            chosen.tolist(),
            rows.pks[chosen].tolist(),
            scorer.scores(matched)[chosen].tolist(),
            scorer.parts(chosen, matched),
            strict=True,
        )
    ]


def _unknown_parts(query: Query, compared: Sequence[TextMatch]) -> list[Term]:
    """Return the parts of texts without spaces that no text contains, except one, which lowers the match.

    Most are no word, but the end of one and the beginning of the next.
    """
    found = {number for match in compared for number, share in enumerate(match.terms) if share}
    unknown = [term for number, term in enumerate(query.terms) if not term.stems and number not in found]
    return unknown[MAX_UNKNOWN_TERMS:] if found else []


def min_shared_weight(total: int, *, is_lone: bool) -> float:
    """Return the minimum weight of shared terms that are not a coincidence among ``total`` memories.

    In a small store, where all memories may have the same topic, it is 0. ``is_lone``: only one of several
    terms is shared; it must be rarer.
    """
    chance, small = (CHANCE_MATCHES_OF_ONE, SMALL_STORE_FOR_ONE) if is_lone else (CHANCE_MATCHES, SMALL_STORE)
    total = max(total, 1)
    return max(min(math.log(total / chance), SMALL_STORE_SLOPE * math.log(total / small)), 0.0)


def _add_file_match(scored: ScoredCandidate, share: float) -> ScoredCandidate:
    """Raise the match of a memory about a mentioned file."""
    match = round(1 - (1 - scored.parts.match) * (1 - FILE_MATCH * share), 4)
    parts = replace(scored.parts, match=match)
    return replace(scored, score=scoring.composite_score(parts, default_weights()), parts=parts)


MAX_SHOWN_FOR_TOOL = 3  # memories in one block
MAX_FILES = 3  # of one call
MAX_READ = 20  # memories about these files
MAX_FILES_OF_MEMORY = 12  # a memory that lists more files is not about one of them
MIN_IMPORTANCE = 0.7  # of other types than those below
MIN_REPAIR_MATCH = 0.5  # a weaker match is another failure
MIN_UNNAMED_MATCH = 0.75  # for a failure without a name in it
# Names in a failure: quoted words, and words with a dot, an underscore or a slash inside, except measures.
_FAILURE_NAME = re.compile(r"['\"`]([^'\"`\s]{2,100})['\"`]|\b(\w[\w-]{0,100}[._/][\w./-]{0,100}\w)")
_LOCATION = re.compile(r"\([^()\s]*/[^()\s]*\)")  # of a module, after its name
_MEASURE = re.compile(r"\d[\d.:_-]*(?:[a-z]{1,2})?", re.IGNORECASE)
# What a colleague would mention about a file: decisions, past failures, discoveries.
_TYPE_ORDER = (MemoryType.DECISION.value, MemoryType.BUGFIX.value, MemoryType.DISCOVERY.value)


def find_about_files(
    clearance: Clearance, files: Sequence[str], root: str, project: str, session_id: str, now: datetime
) -> list[Candidate]:
    """Return pinned memories, decisions and past failures about these files, the most useful first.

    Memories of the session itself are left out, because its agent knows them. So are those of other projects,
    even team memories, because the same path is another file there. ``root``: see :func:`read_about_files`.
    """
    if not clearance.levels_in(project):
        return []
    now_or_later = max(now, timezone.now())
    query, params = _informative_memories(clearance, project)
    paths = files[:MAX_FILES]
    rows = read_about_files(query, params, paths, root, session_id, now_or_later, MAX_READ)
    replacements = dict(rows)
    visible = existing_keys(injectable_memories(clearance, project, now), replacements.values())
    keys = (pk for pk, replacement in replacements.items() if replacement not in visible)
    loaded = load_memories(keys, Memory.objects.visible_to(clearance))
    about = [memory for memory in loaded.values() if _count_files_of(memory) <= MAX_FILES_OF_MEMORY]
    return [full_match(memory, now) for memory in sorted(about, key=_usefulness)]


@lru_cache(maxsize=256)
def _informative_memories(clearance: Clearance, project: str) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL for memories that a tool call may show. Compiling it takes longer than running it."""
    informative = Q(pinned_at__isnull=False) | Q(type__in=_TYPE_ORDER) | Q(importance__gte=MIN_IMPORTANCE)
    memories = Memory.objects.visible_to(clearance).filter(informative, project=project)
    rows = memories.exclude(type__in=SUMMARY_TYPES).order_by().values_list("pk", "superseded_by")
    return rows.query.sql_with_params()


def find_repairs(memories: MemoryQuerySet, failure: str, now: datetime) -> list[Candidate]:
    """Return memories about earlier repairs of the same failure, the best match first.

    They contain every name in the failure, because another module or test is another failure.
    """
    bugfixes = memories.filter(type=MemoryType.BUGFIX.value)
    require_loaded(bugfixes)
    candidates = find_candidates(bugfixes, failure, now)
    names = _find_names(failure)
    min_match = MIN_REPAIR_MATCH if names else MIN_UNNAMED_MATCH
    repairs = [
        candidate
        for candidate in candidates
        if candidate.components.match >= min_match
        and all(name in fold(candidate.memory.titled_content) for name in names)
    ]
    visible = existing_keys(memories, (repair.memory.superseded_by_id for repair in repairs))
    return [repair for repair in repairs if repair.memory.superseded_by_id not in visible]


def _find_names(failure: str) -> set[str]:
    """Return the folded names in a failure; of absolute paths, which differ by machine, the last part."""
    names, failure = set(), _LOCATION.sub("", failure)
    for found in _FAILURE_NAME.finditer(failure):
        name = found[1] or found[2]
        is_absolute = name.startswith(("/", "~")) or failure[: found.start()].endswith(("/", "~/"))
        if found[1] or not _MEASURE.fullmatch(name):
            names.add(fold(name.rstrip("/").rpartition("/")[2] if is_absolute else name))
    return names - {""}


def _count_files_of(memory: Memory) -> int:
    lists = memory.loaded_lists or {}
    return len({*lists["files_read"], *lists["files_modified"]})


def _usefulness(memory: Memory) -> tuple[bool, bool, int, float, float]:
    order = _TYPE_ORDER.index(memory.type) if memory.type in _TYPE_ORDER else len(_TYPE_ORDER)
    return (
        not memory.pinned,
        memory.may_be_outdated,
        order,
        -memory.importance,
        -memory.updated_at.timestamp(),
    )
