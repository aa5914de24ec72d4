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
MIN_LANGUAGE_WORDS = 3  # one less in a prompt of at least as many words without a function word of English
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
    is_without_english = len(found) >= MIN_LANGUAGE_WORDS and STOP_WORDS.isdisjoint(
        found - language.ambiguous
    )
    return language if best[0] >= MIN_LANGUAGE_WORDS - is_without_english else None


def adapt_to_language(query: Query) -> Query:
    """Leave function words out of a query in another language than English, and match other endings.

    Unless it contains nothing else.
    """
    language = find_language(query.typed)
    if language is None:
        return query
    terms = [term for term in query.terms if (term.literal or term.words[0]) not in language.removed]
    return replace(query, terms=with_endings(terms or query.terms, language))


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
    return replace(term, variants=(*term.variants, WordStart(start)))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)
