"""Candidate memories for a prompt, found by its salient terms and the files that it names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends.fts_query import MAX_CHARS, Query, Term, parse_query
from memoryhub.core.text import CJK, STOP_WORDS, fold, stem
from memoryhub.core.vocabulary import Scope
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import default_weights
from memoryhub.search.lexical import ScoredCandidate, SearchEffort, rank_by_words
from memoryhub.search.scoring import idf
from memoryhub.search.term_frequencies import TermFrequencies, load_term_frequencies

MAX_TERMS = 8  # of a query; a normal search has about as many
MAX_UNKNOWN_TERMS = (
    1  # of these, words that no memory holds: a prompt that is about something else finds less
)
MAX_LOOKED_UP_WORDS = 64  # distinct words whose frequencies are looked up
MAX_CLAUSES = 3  # sentences that are answered each by itself
MAX_FILES = 3
MAX_NAME_PARTS = 5  # words of a name; a longer one is an address or a line of code
NAME_BONUS = 1.3
# Memories that may share the same words with a prompt by chance; what so many share is what all are about.
CHANCE_MATCHES = 20
CHANCE_MATCHES_OF_ONE = 4
SMALL_STORE, SMALL_STORE_FOR_ONE = (
    256,
    64,
)  # memories; in a store of no more, what all are about is not held against them
SMALL_STORE_SLOPE = 1.9
MIN_SUBSTRING_LENGTH = 5  # letters of a word that is worth looking for inside others
# What people say to an agent whatever they are working on.
CHATTER = frozenset(
    stem(word)
    for word in """
    add again ahead alright anything aside awesome back bit bug change check code commit could course
    create currently decide decided do done else everything exactly example explain file find fine first
    fix follow following get give go going good got great hello help hey hi idea implement improve
    instead interesting issue just keep know last let like line look looks lot lovely make makes maybe
    mean mind morning need never new next nice ok okay one ones please problem properly push question
    quick quickly quite ready really recall remember remove right run said say see seem seems sense show
    simply something start still sure take tell thank thanks thing things think thought today tomorrow
    try trying understand update use used using want way well without wonder work working works would
    write wrong yeah yep yes yesterday yet
    """.split()
)
_PATH = re.compile(r"(?<![\w./@:+-])(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7}(?![\w/])")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n+|(?<=[。！？；])")
_CONTEXT_BLOCK = re.compile(r"<memory-context\b.*?(?:</memory-context>|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class ParsedPrompt:
    """A prompt read: its terms in order, those of each sentence, and the files it names.

    Its last sentence and its first ones count most: between them there may be pages of code.
    """

    terms: tuple[Term, ...]
    clauses: tuple[tuple[Term, ...], ...]
    files: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words whose frequencies say which terms are telling."""
        inwards = [self.clauses[n // 2 if n % 2 == 0 else -(n + 1) // 2] for n in range(len(self.clauses))]
        found = dict.fromkeys(word for clause in inwards for term in clause for word in term.words)
        return tuple(found)[:MAX_LOOKED_UP_WORDS]


@dataclass(frozen=True)
class PromptQuery:
    """The query that stands for a prompt, and the parts of it that stand in one sentence each."""

    query: Query
    clauses: tuple[Query, ...]


def strip_context_blocks(prompt: str) -> str:
    """What was asked: what was injected before is not part of it."""
    return _CONTEXT_BLOCK.sub(" ", prompt)


def parse_prompt(prompt: str) -> ParsedPrompt:
    """The terms of a prompt: of a long one those of its beginning and its end, where the asking is done."""
    text = strip_context_blocks(prompt).replace('"', " ")
    parts = [text] if len(text) <= MAX_CHARS else [text[:MAX_CHARS], text[-MAX_CHARS:]]
    clauses = [
        _informative_terms(clause) for part in parts for clause in _SENTENCE_END.split(part) if clause.strip()
    ]
    terms = dict.fromkeys(term for clause in clauses for term in clause)
    return ParsedPrompt(tuple(terms), tuple(clauses), tuple(_find_files(prompt)))


def _informative_terms(text: str) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(term for one in parse_query(text).terms for term in _split_term(one)))


def build_query(asked: ParsedPrompt, frequencies: Mapping[str, int], total: int) -> PromptQuery | None:
    """The few terms to search for; None when the prompt has none that tells anything."""
    terms = [term for term in asked.terms if not term.stems or any(s in frequencies for s in term.stems)]
    weights = {term: _term_weight(term, frequencies, total) for term in terms}
    unknown = [term for term in terms if term.stems and not any(frequencies.get(s) for s in term.stems)]
    known = sorted(weights.keys() - set(unknown), key=lambda term: -weights[term])
    # A word that nobody used may stand inside one that somebody did: deploy in deployment.
    others = (
        unknown[:MAX_UNKNOWN_TERMS]
        if known
        else [term for term in unknown if len(term.words[0]) >= MIN_SUBSTRING_LENGTH]
    )
    chosen = {*known[: MAX_TERMS - MAX_UNKNOWN_TERMS], *others[:MAX_TERMS]}
    if not chosen:
        return None
    clauses = [[term for term in clause if term in chosen] for clause in asked.clauses]
    parts = {_as_query(clause) for clause in clauses if 1 < len(clause) < len(chosen)}
    return PromptQuery(
        _as_query([term for term in terms if term in chosen]),
        tuple(sorted(parts, key=lambda part: -sum(weights[term] for term in part.terms))[:MAX_CLAUSES]),
    )


def min_shared_weight(total: int, *, lone: bool = False) -> float:
    """The weight of shared terms from which on they are no chance: few of so many memories share them.

    In a small store, where all may be about the same, any term will do. ``lone``: it is one of several terms
    alone, which must be rarer.
    """
    chance, small = (CHANCE_MATCHES_OF_ONE, SMALL_STORE_FOR_ONE) if lone else (CHANCE_MATCHES, SMALL_STORE)
    return max(
        min(math.log(max(total, 1) / chance), SMALL_STORE_SLOPE * math.log(max(total, 1) / small)), 0.0
    )


def _as_query(terms: Sequence[Term]) -> Query:
    text = " ".join(term.spelling or " ".join(term.words) for term in terms)
    return Query(fold(text), tuple(terms), text)


def _split_term(term: Term) -> Iterable[Term]:
    """The term, if it may tell something; a line of code as its words."""
    if not term.words:
        return [term] if CJK.search(term.literal) else []
    if not term.literal:
        return [replace(term, at_start=True)] if _is_informative(term.words[0]) else []
    if len(term.words) == 1:
        return [term] if _is_informative(term.words[0]) else []
    if len(term.words) > MAX_NAME_PARTS:
        singles = (Term((stem(word),), (word,), spelling=word, at_start=True) for word in term.words)
        return [one for one in singles if _is_informative(one.words[0])]
    return [replace(term, spelling=term.spelling or term.literal)]


def _is_informative(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and stem(word) not in CHATTER and not word.isdecimal()


def _term_weight(term: Term, frequencies: Mapping[str, int], total: int) -> float:
    if not term.stems:
        return idf(0, total) / 2
    rarest = max(idf(frequencies.get(one, 0), total) for one in term.stems)
    return rarest * NAME_BONUS if term.literal else rarest


def _find_files(prompt: str) -> list[str]:
    """Paths and file names in the text."""
    found = dict.fromkeys(path.removeprefix("./") for path in _PATH.findall(prompt[: 8 * MAX_CHARS]))
    return list(found)[:MAX_FILES]


# An injection must be quick, and shows few. Who holds no more than 0.35 of the query stays below LEAST_MATCH.
INJECTION_EFFORT = SearchEffort(pool=60, spare=0.35, posted=5000, weighed=0, thorough=False)
MAX_FILE_CANDIDATES = 30  # memories about the files that a prompt names, beside these
MAX_CANDIDATES = 40  # candidates that are weighed against each other
MIN_MATCH = 0.12  # a new memory passes the floor by its age alone: it must share about half of what is asked
MAX_MEMORIES_PER_FILE = 200  # memories about one file; a file that more are about tells nothing
FEW_MEMORIES_PER_FILE = 5  # memories about a file of which each is worth seeing
FILE_MATCH = 0.4  # match of a memory about a file that the prompt names, if they share nothing else


@dataclass(frozen=True)
class Candidate:
    """A memory that shares something with the prompt, and its score."""

    memory: Memory
    score: float
    components: scoring.Components


def injectable_memories(clearance: Clearance, project: str, now: datetime) -> MemoryQuerySet:
    """What an injection may draw on: the project's memories, the team's, and those of no project.

    Without a project all that the clearance reaches. What has expired by now is not shown for a prompt of
    earlier that is told late. Lazy.
    """
    memories = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    if project:
        memories = memories.filter(Q(project__in=(project, "")) | Q(scope=Scope.TEAM.value))
    return memories


def find_candidates(memories: MemoryQuerySet, prompt: str, now: datetime) -> list[Candidate]:
    """The best first, those below the floor included; none when the prompt tells nothing."""
    asked = parse_prompt(prompt)
    counted = load_term_frequencies(memories, asked.words)
    wanted = build_query(asked, counted.of_stems, counted.total)
    if wanted is None:
        return []
    files = _memories_about_files(memories, asked.files, counted.total)
    scored = _score_candidates(memories, wanted, counted, files, now)
    best = sorted(scored, key=lambda one: (-one.score, -one.parts.match, -one.pk))[:MAX_CANDIDATES]
    rows = Memory.objects.in_bulk([one.pk for one in best])
    return [Candidate(rows[one.pk], one.score, one.parts) for one in best if one.pk in rows]


def _memories_about_files(memories: MemoryQuerySet, files: tuple[str, ...], total: int) -> dict[int, float]:
    """The memories about the files that the prompt names, each with the weight of that: a file that many
    are about tells nothing."""
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
    wanted: PromptQuery,
    counted: TermFrequencies,
    files: dict[int, float],
    now: datetime,
) -> list[ScoredCandidate]:
    """Those that share enough with the prompt for it to be no chance."""
    total = counted.total
    latest = sorted(files, key=lambda pk: -files[pk])[:MAX_FILE_CANDIDATES]
    found = rank_by_words(
        memories,
        wanted.query,
        default_weights(),
        now,
        effort=INJECTION_EFFORT,
        beside=memories.filter(pk__in=latest) if latest else None,
        clauses=wanted.clauses,
        counted=counted,
        # A word that nobody used is taken for no rarer than the rarest that somebody did.
        least=_rarest_frequency(wanted, counted),
    )
    several = len(wanted.query.terms) > 1
    scored = []
    for one in found:
        file = files.get(one.pk, 0.0)
        lone = several and one.held.held == 1 and not file
        if one.held.weight + file >= min_shared_weight(total, lone=lone):
            scored.append(
                _add_file_match(one, min(file / scoring.idf(FEW_MEMORIES_PER_FILE, total), 1.0))
                if file
                else one
            )
    return [one for one in scored if one.parts.match >= MIN_MATCH]


def _rarest_frequency(wanted: PromptQuery, counted: TermFrequencies) -> int:
    """How many memories hold the rarest word of the query that any holds."""
    return min(filter(None, map(counted.of, wanted.query.words)), default=0)


def _add_file_match(one: ScoredCandidate, share: float) -> ScoredCandidate:
    """A memory about a file that was named: of what its words leave open, the file fills in part."""
    match = round(1 - (1 - one.parts.match) * (1 - FILE_MATCH * share), 4)
    parts = replace(one.parts, match=match)
    return ScoredCandidate(
        one.pk, round(scoring.composite_score(parts, default_weights()), 4), parts, one.held
    )
