"""Prompts as queries: their informative terms, the memories whose subject they name, injected context."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from memoryhub.backends.fts_query import MAX_CHARS, Query, Term, parse_query
from memoryhub.core.text import (
    CHINESE_FUNCTION_WORDS,
    CHINESE_QUESTION_WORDS,
    CJK,
    STOP_WORDS,
    WORD,
    fold,
    stem,
    words,
)
from memoryhub.models import Label
from memoryhub.search import scoring
from memoryhub.search.lexical import Scores, TermMatches
from memoryhub.search.query_words import (
    LANGUAGES,
    PROMPT_WORDS,
    SPOKEN_WORD,
    find_language,
    remove_relative_times,
    with_endings,
)

MAX_LOOKED_UP_WORDS = 64
MAX_FILES = 3
MAX_NAME_CHARS = 12  # of a name in a text without spaces
MAX_NAME_PARTS_LOOKED_UP = 4000  # parts of such texts that can be names
MAX_NAME_PARTS = 5  # a name with more words is an address or a line of code
# A match of a smaller share of the best one is a coincidence: the prompt clearly means another memory.
MIN_SHARE_OF_BEST, MIN_SHARE_AMONG_MANY_WORDS = 0.6, 0.85
FEW_WORDS, MANY_WORDS = 16, 28  # informative words of a prompt
MIN_SENTENCE_WORDS = 3
CJK_CHARS_OF_WORD = 3  # at least, on average, in scripts without spaces
NAMING_WORDS = 1.6  # rare words of its title that name a memory as well as possible
SUBJECT_MATCH = 0.75  # match of a memory that a prompt names so
SEVERAL_NAMES = 3  # of different subjects in one prompt
UNNAMED_SHARE = 0.4  # of this match in a long prompt if only names, such as "Redis", are clearly subjects


CHATTER = frozenset(map(stem, PROMPT_WORDS.conversation | PROMPT_WORDS.actions))
_ACTIONS = frozenset(map(stem, PROMPT_WORDS.actions))
_QUESTIONS = PROMPT_WORDS.questions.union(
    PROMPT_WORDS.foreign_questions, *(one.questions for one in LANGUAGES)
)
_FOREIGN = frozenset[str]().union(*(one.functions | one.conversation for one in LANGUAGES))
_UNINFORMATIVE = STOP_WORDS.union(*(one.conversation for one in LANGUAGES))
_REMARKS = frozenset(map(stem, PROMPT_WORDS.remarks))
_OBJECTS = frozenset(map(stem, PROMPT_WORDS.objects | PROMPT_WORDS.interjections)) | _REMARKS
_ORDER_WORDS = STOP_WORDS | PROMPT_WORDS.actions | PROMPT_WORDS.interjections | _FOREIGN
_CHATTER_WITHOUT_SPACES = re.compile(rf"(?<!\w)(?:[ぁ-ゟー]|{'|'.join(PROMPT_WORDS.without_spaces)})+(?!\w)")
_PATH = re.compile(r"(?<![\w./@:+-])(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7}(?![\w/])")
_ISSUE = re.compile(r"#\d+")
# Keys of a tracker and identifiers: their words alone are common.
_NAME = re.compile(r"(?<![\w./\-])(?:[A-Z]{2,10}-\d+|[^\W_]+(?:_[^\W_]+)+)(?![\w./\-])")
_UNMARKED_ISSUE = re.compile(r"\b(?:issue|PR|pull request|ticket|GH)[ -](?=\d+\b)", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"(\.[A-Za-z]\w{0,7})(?::\d+){1,2}\b")  # of a path
# A topic that is left out: "not about Kubernetes, but about Redis".
_EXCLUDED = re.compile(
    r"\b(?:not|isn['’]t|nicht) (?:about(?! to\b)|regarding|über)\b.*?(?=[.,;:!?\n]|\b(?:but|sondern)\b|$)",
    re.IGNORECASE,
)
_CONTEXT_FENCE = re.compile(r"<\s*+(?P<end>/?)\s*+memory-context\b[^<>]*>?", re.IGNORECASE)
_ENDING_AFTER_NAME = re.compile(r"(?<=\w\w)['’]\w{1,5}\b")  # Turkish: "Redis'i"
_KATAKANA_WORD = re.compile("[゠-ヿ]{3,}")
_KANA = re.compile("[ぁ-ヿ]")
_HIRAGANA = re.compile("[ぁ-ゟ]")  # endings and particles
_INSIDE_START = re.compile(
    "[゠-ヿ]{2}|[가-힯]{2}|[a-zA-Z0-9]{2}"
)  # a character and the next, both of one word
_INSIDE_END = re.compile("[゠-ヿ]{2}|[a-zA-Z0-9]{2}")
_INNER_CAPITAL = re.compile(r"[^\W_]*(?:[a-z][A-Z]|[A-Za-z]\d)")
_CAPITAL_FOLLOWS = re.compile(r"[.!?]\s|\n")  # the end of a sentence or line
_ASKS_FOR_HABIT = re.compile(r"\b(?:do|should|must) we\b", re.IGNORECASE)  # "Do we squash commits?"
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n+|(?<=[。！？；])")


@dataclass(frozen=True)
class ParsedPrompt:
    """The terms of a prompt, those of each sentence, and the files that it mentions."""

    terms: tuple[Term, ...]
    clauses: tuple[tuple[Term, ...], ...]
    files: tuple[str, ...]
    is_english: bool = True

    @property
    def words(self) -> tuple[str, ...]:
        """Distinct words whose frequencies are needed.

        The first and last sentences come first, because pages of code may be between them.
        """
        inwards = [self.clauses[n // 2 if n % 2 == 0 else -(n + 1) // 2] for n in range(len(self.clauses))]
        found = dict.fromkeys(word for clause in inwards for term in clause for word in term.words)
        return tuple(found)[:MAX_LOOKED_UP_WORDS]


def parse_prompt(prompt: str) -> ParsedPrompt:
    """Parse a prompt. Of a long one only the beginning and the end, which usually contain the request."""
    own = strip_injected_context(prompt)
    text = remove_relative_times(clean_prompt(own)).replace('"', " ")
    text = _NAME.sub(r' "\g<0>" ', text)
    parts = [text] if len(text) <= MAX_CHARS else [text[:MAX_CHARS], text[-MAX_CHARS:]]
    sentences = [clause for part in parts for clause in _SENTENCE_END.split(part) if clause.strip()]
    language = find_language(own[: 8 * MAX_CHARS])
    clauses = [with_endings(_informative_terms(sentence), language) for sentence in sentences]
    terms = dict.fromkeys(term for clause in clauses for term in clause)
    files = _find_files(prompt)
    if _is_order(prompt, terms):
        return ParsedPrompt((), (), files)
    return ParsedPrompt(tuple(terms), tuple(clauses), files, language is None)


def _is_order(text: str, terms: Collection[Term]) -> bool:
    """Return whether a prompt is only an order for the next step, such as "commit this", or a remark.

    All its terms are usual objects of work, and no question comes before them.
    """
    if not terms or not are_objects(terms):
        return False
    if all(_REMARKS.issuperset(term.stems) for term in terms):
        return True
    if _ASKS_FOR_HABIT.search(text):
        return False
    spoken = words(text)
    for word in spoken:
        if word in _QUESTIONS:
            return False
        if word in PROMPT_WORDS.actions or stem(word) in _OBJECTS:
            break
    return not _ORDER_WORDS.isdisjoint(spoken)


def are_objects(terms: Collection[Term]) -> bool:
    """Return whether all terms are usual objects of work, such as "tests"."""
    return all(term.words and _OBJECTS.issuperset(term.stems) for term in terms)


def clean_prompt(prompt: str) -> str:
    """Remove line numbers of paths, excluded topics, conversation without spaces, and foreign function words.

    The latter only from a prompt in their language, and not in capitals. Some are names: "es", "CI".
    """
    prompt = _EXCLUDED.sub(" ", _LINE_NUMBER.sub(r"\1", prompt))
    prompt = _UNMARKED_ISSUE.sub("#", prompt)
    if CJK.search(prompt):
        function_words = CHINESE_QUESTION_WORDS if _KANA.search(prompt) else CHINESE_FUNCTION_WORDS
        prompt = function_words.sub(" ", _CHATTER_WITHOUT_SPACES.sub(" ", prompt))
    language = find_language(prompt)
    if language is None:
        return prompt
    if language.stemmer:
        prompt = _ENDING_AFTER_NAME.sub("", prompt)
    removed = language.removed
    return SPOKEN_WORD.sub(
        lambda word: word[0] if word[0].isupper() or fold(word[0]) not in removed else "", prompt
    )


def without_actions(query: Query) -> Query:
    """Leave the words of orders out of a sentence if others remain: "run black on it".

    Words of conversation remain: without them, a coincidence would be a larger part of what the prompt says.
    """
    terms = tuple(term for term in query.terms if not term.stems or not _ACTIONS.issuperset(term.stems))
    is_sentence = len(words(query.text)) >= MIN_SENTENCE_WORDS
    return replace(query, terms=terms) if terms and is_sentence else query


def _find_files(prompt: str) -> tuple[str, ...]:
    paths = _PATH.findall(prompt[: 8 * MAX_CHARS])
    return tuple(dict.fromkeys(path.removeprefix("./") for path in paths))[:MAX_FILES]


def _informative_terms(text: str) -> tuple[Term, ...]:
    """Return the informative terms of a sentence. A run of katakana is a word."""
    names = [Term((), (), fold(name), name) for name in _KATAKANA_WORD.findall(text)]
    terms = parse_query(_KATAKANA_WORD.sub(" ", text)).terms
    return tuple(dict.fromkeys([*names, *(term for one in terms for term in _split_term(one))]))


def _split_term(term: Term) -> list[Term]:
    """Return the term if it is informative; the words of a line of code."""
    if not term.words:
        is_word = CJK.search(term.literal) or SPOKEN_WORD.fullmatch(term.literal)
        return (
            [term]
            if is_word and not _HIRAGANA.search(term.literal) and term.literal not in _UNINFORMATIVE
            else []
        )
    if not term.literal:
        return [replace(term, at_start=True)] if _is_informative(term.words[0]) else []
    if len(term.words) == 1:
        return [term] if _is_informative(term.words[0]) or _ISSUE.fullmatch(term.literal) else []
    if len(term.words) > MAX_NAME_PARTS:
        return [
            Term((stem(word),), (word,), spelling=word, at_start=True)
            for word in term.words
            if _is_informative(word)
        ]
    return [replace(term, spelling=term.spelling or term.literal)]


def _is_informative(word: str) -> bool:
    return len(word) > 1 and word not in _UNINFORMATIVE and stem(word) not in CHATTER and not word.isdecimal()


def words_query(parsed: ParsedPrompt, max_phrases: int = 0) -> Query:
    """Return a query for the words of a prompt alone, and for its first phrases."""
    variants = {term.words[0]: term.variants for term in parsed.terms if term.variants}
    terms = (Term((stem(word),), (word,), variants=variants.get(word, ())) for word in parsed.words)
    phrases = [term for term in parsed.terms if term.literal and term.words][:max_phrases]
    return Query(" ".join(parsed.words), (*terms, *phrases))


def match_subjects(words: TermMatches, prompt: str) -> Scores:
    """Return the match of memories whose subject a prompt names, however much else the prompt says.

    ``words``: the informative words of the prompt. One word of the title that few other memories contain
    names a subject, or two less rare ones. So does an alias in a text without spaces. If a long prompt spells
    some of them like names or aliases, its other words count less: they are rather about something else.
    """
    rows, length = words.rows, _length_share(len(words.query.words))
    parts, names = _parts_without_spaces(prompt), _words_like_names(prompt)
    in_titles = {word for word, positions in words.titles.items() if len(positions)}
    unclear = in_titles - names if length and len(in_titles) > 1 else ()
    found = _find_aliases([*parts, *unclear])
    aliases = {alias: rows.find(np.array(keys)) for alias, keys in found.items()}
    names |= {alias for alias, positions in aliases.items() if len(positions)}
    named, others = _add_up_titles(words, names)
    if named.any():
        others *= 1 - length * (1 - UNNAMED_SHARE)
    named += others
    for positions in (aliases[part] for part in parts if part in aliases):
        named[positions] += scoring.idf(len(positions), len(rows))
    return np.asarray(np.minimum(named / (NAMING_WORDS * scoring.idf(1, len(rows))), 1.0) * SUBJECT_MATCH)


def _add_up_titles(words: TermMatches, names: set[str]) -> tuple[Scores, Scores]:
    """Return the sums of inverse document frequencies of words in title and aliases of every row.

    The first sum is that of ``names``, the other that of other words. Several names count by the number of
    titles with them: together, they would else be too weak next to texts that mention some of them.
    """
    by_names, by_others = np.zeros((2, len(words.rows)))
    are_several = sum(len(words.titles.get(name, ())) > 0 for name in names) >= SEVERAL_NAMES
    for word, positions in words.titles.items():
        sums = by_names if word in names else by_others
        frequency = len(positions) if word in names and are_several else words.frequencies.of(word)
        sums[positions] += scoring.idf(frequency, len(words.rows))
    return by_names, by_others


def _words_like_names(prompt: str) -> set[str]:
    """Return the folded words that are spelt like names: "Redis" inside a sentence, "ZebraBridge", "k8s".

    Upper-case words next to each other are emphasis or code.
    """
    names: set[str] = set()
    for sentence in _CAPITAL_FOLLOWS.split(prompt[: 8 * MAX_CHARS]):
        found = WORD.findall(sentence)
        names.update(filter(_INNER_CAPITAL.match, found))
        names.update(
            word for before, word in pairwise(found) if word[0].isupper() and not (before + word).isupper()
        )
    return set(map(fold, names))


def _find_aliases(names: Collection[str]) -> dict[str, list[int]]:
    """Return the keys of all memories with each of these aliases, even hidden ones."""
    found: dict[str, list[int]] = defaultdict(list)
    if names:
        aliases = Label.objects.filter(kind=Label.Kind.ALIAS, value__in=names)
        for value, key in aliases.values_list("value", "memory"):
            found[value].append(key)
    return found


def _parts_without_spaces(prompt: str) -> list[str]:
    """Return the parts of words in scripts without spaces that can be names.

    A part does not begin or end inside a run of katakana or Latin letters, nor begin inside one of Hangul,
    where particles follow a name.
    """
    parts: dict[str, None] = {}
    for word in WORD.findall(unicodedata.normalize("NFC", prompt[:MAX_CHARS])):
        if not CJK.search(word):
            continue
        starts = [at for at in range(len(word)) if not _INSIDE_START.match(word[max(at - 1, 0) : at + 1])]
        ends = [at for at in range(1, len(word) + 1) if not _INSIDE_END.match(word[at - 1 : at + 1])]
        parts |= {word[a:b]: None for a in starts for b in ends if 2 <= b - a <= MAX_NAME_CHARS}
    return list(parts)[:MAX_NAME_PARTS_LOOKED_UP]


def min_share_of_best(words: int) -> float:
    """Return the share of the best match below which a match is a coincidence.

    ``words``: number of informative words of the prompt. The more there are, the more a memory shares by
    chance.
    """
    return MIN_SHARE_OF_BEST + _length_share(words) * (MIN_SHARE_AMONG_MANY_WORDS - MIN_SHARE_OF_BEST)


def _length_share(words: int) -> float:
    """Return how long a prompt of so many informative words is, from 0 (a few) to 1 (many)."""
    return min(max((words - FEW_WORDS) / (MANY_WORDS - FEW_WORDS), 0.0), 1.0)


def match_prompt(words_found: TermMatches, prompt: str, match: Scores) -> Scores:
    """Return the match of every row with a prompt, given its match and words with the prompt as a query.

    One word or name (``a.b.c``) is a search query. Two or more words of which none is informative ("go on")
    match nothing, and neither does a word of conversation that is only in other words ("yes" in "Bayes").
    From three words on, matches far below the best one are coincidences.
    """
    rows, query, spoken = words_found.rows, words_found.query, words(prompt)
    count = len(spoken) + len(CJK.findall(prompt)) // CJK_CHARS_OF_WORD
    if spoken and count < 2 and CHATTER.issuperset(map(stem, spoken)) and not words_found.known_words:
        return np.zeros(len(rows))
    if count < 2 or query.is_literal:
        return match
    parsed = parse_prompt(prompt)
    if not parsed.terms:
        return match if words_found.is_dated.any() else np.zeros(len(rows))
    known = None if words_found.is_dated.any() else words_found  # a name of a time occurs in more rows there
    match = np.maximum(match, match_subjects(TermMatches(rows, words_query(parsed), known), prompt))
    if count < MIN_SENTENCE_WORDS:
        return match
    least = min_share_of_best(len(parsed.words)) * match.max(initial=0.0)
    return np.where(match >= least, match, 0.0)


def strip_injected_context(text: str) -> str:
    """Return the text without memory-context blocks, so that injected memories are not captured again.

    Blocks may be nested. A block that is not closed extends to the end of the text.
    """
    parts, depth, start = [], 0, 0
    for fence in _CONTEXT_FENCE.finditer(text):
        if not depth:
            parts.append(text[start : fence.start()])
        depth = max(depth - 1, 0) if fence["end"] else depth + 1
        start = fence.end()
    return "".join(parts) + (text[start:] if not depth else "")


def contains_injected_context(text: str) -> bool:
    return bool(_CONTEXT_FENCE.search(text))
