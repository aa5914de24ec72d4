"""The words the governor weighs, by language and by the part they play in an order. Pure data.

Each entry is a word or a phrase, separated by commas; a trailing ``*`` stands for any ending, and of two
phrases that fit the longer one wins. A word may play several parts; what they mean together is said in
``evidence/``. Words are written with their accents and are normalised like the texts they are looked for
in.

Parts that need a word: ``ignoreend``, ``showend``, ``answerend``, ``sendend`` and ``whatend`` are verbs and
questions that stand after their object; ``heed`` with ``neg`` is "beachte ... nicht"; ``tellnot`` "tell
nobody" in one word.
"""

from memoryhub.security.prompt_injection.words import (
    agents,
    arabic,
    chinese,
    dutch,
    english_orders,
    english_personas,
    english_secrets,
    english_speech,
    french,
    german,
    hindi,
    italian,
    japanese,
    korean,
    nordic,
    others,
    polish,
    portuguese,
    russian,
    spanish,
    turkish,
)

ENGLISH: tuple[dict[str, str], ...] = (
    english_orders.WORDS,
    english_personas.WORDS,
    english_secrets.WORDS,
    english_speech.WORDS,
    agents.ENGLISH,
)
FOREIGN: tuple[dict[str, str], ...] = (
    german.WORDS,
    french.WORDS,
    spanish.WORDS,
    portuguese.WORDS,
    italian.WORDS,
    dutch.WORDS,
    polish.WORDS,
    russian.WORDS,
    korean.WORDS,
    turkish.WORDS,
    arabic.WORDS,
    hindi.WORDS,
    nordic.SWEDISH,
    nordic.DANISH,
    nordic.NORWEGIAN,
    nordic.FINNISH,
    nordic.ICELANDIC,
    agents.GERMAN,
    agents.FRENCH,
    agents.SPANISH,
    agents.PORTUGUESE,
    agents.ITALIAN,
    agents.DUTCH,
    agents.POLISH,
    agents.RUSSIAN,
    others.CZECH,
    others.CROATIAN,
    others.ROMANIAN,
    others.VIETNAMESE,
    others.INDONESIAN,
    others.UKRAINIAN,
)
# Written without spaces: entries are found anywhere.
UNSPACED: tuple[dict[str, str], ...] = (chinese.WORDS, japanese.WORDS, agents.CHINESE)

__all__ = ["ENGLISH", "FOREIGN", "UNSPACED"]
