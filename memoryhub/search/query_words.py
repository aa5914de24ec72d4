"""Words of a query with a part of their own: those that name no subject, those of its language, times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import Stemmer
from django.utils import timezone

from memoryhub.backends.fts_query import Query, Term, WordStart
from memoryhub.core.dates import next_month
from memoryhub.core.rule_files import RuleSchema, Words, load_rule_file
from memoryhub.core.text import STOP_WORDS, fold, words

# Different function words of a prompt in another language than English. Words of conversation and questions
# count twice, all those together that are also English words once; these decide between similar languages.
# Letters that English does not have count as one word.
# One less in a text without function words of English if it has a question word or letters of the language.
MIN_LANGUAGE_WORDS = 3
MIN_STEM_CHARS = 4  # a shorter stem is the beginning of too many words
MIN_SHARE_IN_SCRIPT = 0.5  # of the words, for the language of an own script
_ACCENTED = re.compile("[¿¡À-ÖØ-öø-ɏ]")
# A vowel sign of Hindi and other scripts of India is part of a word here, unlike in the index.
SPOKEN_WORD = re.compile("[\u0900-\u0963\u0966-\u0dff]+|(?:(?![\u0900-\u0dff])[^\\W_])+")


class LanguageWords(RuleSchema):
    """Words that show the language of a prompt. Those of conversation name no subject in any prompt."""

    functions: Words
    conversation: Words
    ambiguous: Words
    questions: Words = frozenset()
    script: str = ""
    stemmer: str = ""

    @property
    def removed(self) -> frozenset[str]:
        """The words that say nothing in this language, except those of conversation."""
        return self.functions | self.ambiguous | self.questions | PROMPT_WORDS.foreign_questions

    def is_script_of(self, spoken: Sequence[str]) -> bool:
        """Return whether these words are in the own script of the language."""
        count = sum(bool(re.search(f"[{self.script}]", word.lower())) for word in spoken)
        return count > 0 and count >= MIN_SHARE_IN_SCRIPT * len(spoken)


class PromptWords(RuleSchema):
    """Words that name no subject: on their own, or in an order such as "run the tests"."""

    conversation: Words
    actions: Words
    interjections: Words
    objects: Words
    remarks: Words
    questions: Words
    foreign_questions: Words
    without_spaces: tuple[str, ...]
    languages: dict[str, LanguageWords]


PROMPT_WORDS = load_rule_file(Path(__file__).with_name("prompt_words.toml"), PromptWords)
LANGUAGES = tuple(PROMPT_WORDS.languages.values())
_CLEAR_WORDS = tuple(
    (one.conversation | one.questions | PROMPT_WORDS.foreign_questions) - STOP_WORDS - one.functions
    for one in LANGUAGES
)


def find_language(prompt: str) -> LanguageWords | None:
    """Return the words of the language of a prompt; None for English and unknown languages."""
    spoken = SPOKEN_WORD.findall(prompt)
    found, has_accents = set(map(fold, spoken)), bool(_ACCENTED.search(prompt))
    counts = []
    for one, clear in zip(LANGUAGES, _CLEAR_WORDS, strict=True):
        count, ambiguous = len(found & one.functions) + 2 * len(found & clear), len(found & one.ambiguous)
        if one.script and not prompt.isascii() and one.is_script_of(spoken):
            count += MIN_LANGUAGE_WORDS
        counts.append((count + (ambiguous > 0) + has_accents, ambiguous))
    best = max(counts)
    language = LANGUAGES[counts.index(best)]
    is_clear = (
        len(found) >= MIN_LANGUAGE_WORDS
        and bool(language.stemmer)
        and (has_accents or not language.questions.isdisjoint(found))
        and STOP_WORDS.isdisjoint(found - language.ambiguous)
    )
    return language if best[0] >= MIN_LANGUAGE_WORDS - is_clear else None


def adapt_to_language(query: Query) -> Query:
    """Leave function words out of a query, unless it contains nothing else, and match other endings.

    Queries in languages that are similar to English stay as they are: "sin tan table" could be Spanish.
    """
    language = find_language(query.typed)
    if language is None or not (language.script or language.stemmer):
        return query
    terms = [term for term in query.terms if not _is_removed(term, language)]
    return replace(query, terms=with_endings(terms or query.terms, language))


def _is_removed(term: Term, language: LanguageWords) -> bool:
    is_phrase = bool(term.literal and term.words)
    return not is_phrase and (term.literal or term.words[0]) in language.removed


def with_endings(terms: Iterable[Term], language: LanguageWords | None) -> tuple[Term, ...]:
    """Let words also match the other forms of their stem, if the language has a stemmer."""
    if language is None or not language.stemmer:
        return tuple(terms)
    return tuple(_with_ending(term, language.stemmer) for term in terms)


def _with_ending(term: Term, stemmer: str) -> Term:
    if term.literal or not term.words:
        return term
    start = fold(_stemmer(stemmer).stemWord(term.spelling or term.words[0]))
    if len(start) < MIN_STEM_CHARS or not term.words[0].startswith(start):
        return term
    # The index has an i instead of a final y.
    return replace(term, variants=(*term.variants, WordStart(start.removesuffix("y"))))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


MAX_PERIODS = 16  # that are read from one query
LATEST_YEARS = 6  # in any of which a month without a year may be
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


class TimeWords(RuleSchema):
    months: tuple[str, ...]
    times: Words


_RULES = load_rule_file(Path(__file__).with_name("time_words.toml"), TimeWords)
_MONTH, _UNIT = "|".join(_RULES.months), "|".join(_UNIT_DAYS)
_DAY = r"(?:(\d\d?)(?:st|nd|rd|th)?)"
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_MONTH_DATE = re.compile(
    rf"\b(?:{_DAY} (?:of )?|(in |since ))?({_MONTH})\b(?: {_DAY}\b)?(?:,? ((?:19|20)\d\d)\b)?"
)
_YEAR = re.compile(r"(?<![\w.:/-])((?:19|20)\d\d)(?![\w:/-]|\.\d)")
_RELATIVE = re.compile(
    r"\b(?:(today|yesterday)|(this|last|past) (week|month|year))\b(?! of\b)", re.IGNORECASE
)
_AGO = re.compile(rf"\b(\d\d?|an?|one) ({_UNIT})s? ago\b", re.IGNORECASE)
_ASKS_FOR_TIME = re.compile(r"when\b|how long\b|(?:(?:on|in|at) )?(?:what|which) (?:date|day|month|year)\b")
_AMBIGUOUS_MONTHS = ("march", "may")  # other words unless there is a number or a preposition
# Moments from which every time of a query can be counted.
_EARLIEST, _LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Period(NamedTuple):
    """The days from ``start`` to before ``end``, and the words of the query that name them."""

    start: date
    end: date
    words: frozenset[str]


def asks_for_time(query: str) -> bool:
    """Return whether a folded query asks when something happened."""
    return bool(_ASKS_FOR_TIME.match(query))


def names_time(text: str) -> bool:
    """Return whether a text says when something happened."""
    return not _RULES.times.isdisjoint(words(text)) or bool(_YEAR.search(text))


def remove_relative_times(text: str) -> str:
    """Remove times counted from now, such as "last week": no memory is about them."""
    return _AGO.sub(" ", _RELATIVE.sub(" ", text))


def find_periods(query: str, now: datetime) -> list[Period]:
    """Return the periods that a folded query names: dates, times counted from ``now``, then years."""
    today = timezone.localdate(min(max(now, _EARLIEST), _LATEST))
    return list(islice(_periods(query, today), MAX_PERIODS))


def _periods(query: str, today: date) -> Iterator[Period]:
    dates = [*_ISO_DATE.finditer(query), *_MONTH_DATE.finditer(query)]
    for found in dates:
        yield from _date_periods(found, today)
    for found in _RELATIVE.finditer(query):
        yield Period(*_relative_days(found, today), frozenset(words(found[0])))
    for found in _AGO.finditer(query):
        length = _UNIT_DAYS[found[2]]
        day = today - timedelta(days=length * (int(found[1]) if found[1].isdecimal() else 1))
        around = timedelta(days=length // 2)
        yield Period(day - around, day + around + timedelta(days=1), frozenset(words(found[0])))
    for found in _YEAR.finditer(query):
        if not any(one.start() <= found.start() < one.end() for one in dates):
            year = int(found[1])
            yield Period(date(year, 1, 1), date(year + 1, 1, 1), frozenset({found[1]}))


def _date_periods(found: re.Match[str], today: date) -> Iterator[Period]:
    """Yield a day or a month; of a month without a year, that of each of the latest years."""
    if found.re is _ISO_DATE:
        year, month, day = found[1], int(found[2]), found[3]
    else:
        before, preposition, name, after, year = found.groups()
        if name in _AMBIGUOUS_MONTHS and not (before or preposition or after or year):
            return
        month, day = _RULES.months.index(name) + 1, before or after
    for one in [int(year)] if year else range(today.year, today.year - LATEST_YEARS, -1):
        with suppress(ValueError):  # no such day
            start = date(one, month, int(day or 1))
            end = start + timedelta(days=1) if day else next_month(start)
            yield Period(start, end, frozenset(words(found[0])))


def _relative_days(found: re.Match[str], today: date) -> tuple[date, date]:
    """Return the first day and the day after the last of "today", "last week" and the like."""
    which, unit = found[2], found[3]
    if found[1]:
        start = today - timedelta(days=found[1] == "yesterday")
        return start, start + timedelta(days=1)
    if which == "past":
        return today - timedelta(days=_UNIT_DAYS[unit]), today + timedelta(days=1)
    if unit == "week":
        start = today - timedelta(days=today.weekday() + 7 * (which == "last"))
        return start, start + timedelta(days=7)
    if unit == "month":
        start = today.replace(day=1)
        if which == "last":
            return (start - timedelta(days=1)).replace(day=1), start
        return start, next_month(start)
    year = today.year - (which == "last")
    return date(year, 1, 1), date(year + 1, 1, 1)
