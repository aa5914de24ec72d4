"""Texts in lists, without the marks of Markdown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web.base.markdown import plain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("We *convert* once.", "We convert once."),
        ("built in **1983**, sold", "built in 1983, sold"),
        ("***both*** at once", "both at once"),
        ("**a *b* c** and **`d`**", "a b c and d"),
        ("**over\ntwo lines**", "over\ntwo lines"),
        ("_never_ and __not at all__", "never and not at all"),
        ("~~gone~~ kept", "gone kept"),
        ("call `run()` or ``go``", "call run() or go"),
        ("# Title\n\n> said\n> again", "Title\n\nsaid\nagain"),
        ("* one\n+ two\n- three", "- one\n- two\n- three"),
        ("one\n\n---\n\ntwo", "one\n\n\n\ntwo"),
        ("a | b\n--|--\n1 | 2", "a | b\n\n1 | 2"),
        ('see [b](https://example.org "A title") now', "see b now"),
        ("see [the *plan*](https://example.org/x_y_z) now", "see the plan now"),
        ("![a map](map.png)", "a map"),
        ("before\n```go\nx := *p\n```\nafter", "before\nx := *p\nafter"),
        ("before ```go x := *p``` after", "before go x := *p after"),
    ],
)
def test_marks_are_left_out_and_words_stay(text: str, said: str) -> None:
    assert plain(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4 = 24, and 2*3*4 too",
        "snake_case, __init__, _private and __all__",
        "f(*args, **kwargs) or **kwargs alone",
        "src/*.py and tests/*.py, **/*.md",
        "char *a, int *b",
        "#42 is not a heading, and 1 > 0",
        "a [list] (of things)",
        "a ` alone",
        "",
    ],
)
def test_what_may_be_meant_as_it_stands_stays(text: str) -> None:
    assert plain(text) == text


def test_code_stays_letter_by_letter() -> None:
    assert plain("`*args, **kwargs*` and `__x y__`") == "*args, **kwargs* and __x y__"
    assert plain("```\n# not *a* heading\n[x](y)\n```") == "# not *a* heading\n[x](y)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the **plan is…", "the plan is…"),
        ("call `run and…", "call run and…"),
        ("see [the plan](https://exam…", "see the plan…"),
        ("so: ```go func main…", "so:  func main…"),
        ("so:\n```go\nfunc *main", "so:\nfunc *main"),
        ("passing **kwargs and more", "passing **kwargs and more"),
    ],
)
def test_a_mark_whose_end_was_cut_off_is_left_out(text: str, said: str) -> None:
    assert plain(text) == said


@given(st.text("*_`~[]()<>#|!- \nab…\\", max_size=60))
def test_no_letter_is_lost_or_made_up_outside_of_addresses(text: str) -> None:
    text = text.replace("(", "").replace("`", "")  # addresses, and names of languages, are left out
    assert [c for c in plain(text) if c in "ab<"] == [c for c in text if c in "ab<"]


@pytest.mark.parametrize(
    "piece", ["**a ", "*a", "`a ``b ", "[a", "```a\n", "__a ", "> ", "> # ", "- ", "![](", "*a*"]
)
def test_a_hostile_text_takes_no_more_than_its_length_allows(piece: str) -> None:
    def spent(times: int) -> float:
        began = time.process_time()
        plain(piece * times)
        return time.process_time() - began

    assert spent(20_000) < 60 * max(spent(1_000), 0.005)
