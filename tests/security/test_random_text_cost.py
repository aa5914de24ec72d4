"""Texts of random alphabets cost at most five times as much as ordinary text of the same length."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.backends.fts_query import parse_query
from memoryhub.search.text_matching import extract_snippet
from memoryhub.security.prompt_injection import inspect
from memoryhub.security.prompt_injection.role_prefixes import strip_role_prefixes
from memoryhub.security.secrets import CheckTooCostly, find_secrets
from memoryhub.web.base.diffs import compare
from memoryhub.web.base.markdown import render, to_plain_text
from tests.cases import examples
from tests.cost import cost_ratio, ordinary_text

LENGTH = 10_000
EARLIER = ordinary_text(LENGTH)
ORDINARY = EARLIER.replace(" the ", " a ")
SIGNS = " \n\t:=<>[](){}|\\/*_~`'\"#&@!?.,;-+%$0123456789"
WORDS = [
    "system: ",
    "user: x\n",
    "<|im_start|>",
    "&#105;",
    "\\u0069",
    "%69",
    "ignore ",
    "password=",
    "aB3",
    "a b ",
]


def scan(text: str) -> None:
    with suppress(CheckTooCostly):
        find_secrets(text)


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "find_secrets": scan,
    "inspect": inspect,
    "strip_role_prefixes": strip_role_prefixes,
    "render": render,
    "to_plain_text": to_plain_text.__wrapped__,
    "compare": partial(compare, EARLIER),
    "extract_snippet": partial(extract_snippet, parse_query("harbour table answer")),
}


@st.composite
def random_texts(draw: st.DrawFn) -> str:
    """Return a text of characters of a few ranges of Unicode, signs and words, in random order."""
    ranges = draw(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(1, 0x8000)), max_size=4))
    pieces = [*draw(st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=6))]
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    for first, size in ranges:
        codes = [min(first + chance.randrange(size), 0x10FFFF) for _ in range(3000)]
        pieces += [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    rare = pieces or ["a"]
    common = draw(st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=3)) or rare
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    chosen = (chance.choice(common if chance.random() < share else rare) for _ in range(LENGTH))
    return "".join(chosen)[:LENGTH]


def every_character(seed: int) -> str:
    codes = (random.Random(seed).randrange(0x110000) for _ in range(LENGTH))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_of_a_random_alphabet_takes_at_most_five_times_as_long_as_ordinary_text(name: str) -> None:
    run = FUNCTIONS[name]

    @given(random_texts())
    @settings(max_examples=examples(20, exploring=60), deadline=None)
    def check(text: str) -> None:
        assert cost_ratio(run, text, ORDINARY, enough=5) <= 5

    check()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_distinct_characters_take_at_most_five_times_as_long_as_ordinary_text(name: str) -> None:
    run = FUNCTIONS[name]
    for seed in range(8):  # more characters than a table or a cache may contain
        run(every_character(seed))
    assert cost_ratio(run, every_character(9) + ":[<", ORDINARY, enough=5) <= 5
