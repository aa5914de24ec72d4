"""The words of prompts that name no subject, the language of a prompt, and other forms of its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import Stemmer

from memoryhub.backends.fts_query import Query, Term, WordStart
from memoryhub.core.rule_files import RuleSchema, Words, load_rule_file
from memoryhub.core.text import STOP_WORDS, fold

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
