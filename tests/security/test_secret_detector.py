"""The detector: what it finds, what it leaves alone, and that no text makes it slow."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.security.secrets import REDACTED, find_secrets, redact
from tools.secret_examples import examples
from tools.secret_examples import fill as filled

CHANCE = random.Random(11)


def fill(template: str) -> str:
    return filled(template, CHANCE)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("datadog_api_key = {h32}", "Datadog key"),
        ("our Algolia admin key is {h32}", "Algolia key"),
        ('newRelicLicenseKey: "{h40}"', "New Relic key"),
        ("HEROKU_API_KEY={uuid}", "Heroku key"),
        ("<algoliaToken>\n  {l32}\n</algoliaToken>", "Algolia key"),
    ],
)
def test_a_value_without_a_mark_is_known_by_the_service_named_before_it(text: str, kind: str) -> None:
    assert kind in [found.kind for found in find_secrets(fill(text))]


@pytest.mark.parametrize(
    "text",
    [
        "datadog trace id = {h32}",
        "github commit: {h40}",
        "sentry release {h40} is out",
        "heroku app id: {uuid}",
        "the key of the algolia index is its name",
        "jenkins build hash = {h40}",
    ],
)
def test_an_id_or_a_hash_beside_a_service_is_left_alone(text: str) -> None:
    assert find_secrets(fill(text)) == []


def test_several_lines_are_told_in_order() -> None:
    text = fill("one\nAuthorization: Bearer {a40}\nthree\nredis://:{a24}@cache/0")
    assert [line for _, line in find_secrets(text)] == [2, 4]


def test_behind_a_stand_in_the_search_goes_on() -> None:
    text = 'secret: "api_key=' + fill("{a32}") + '"'
    assert find_secrets(text) != []


def test_nothing_of_a_value_is_left_after_redaction() -> None:
    for one in examples(3):
        if one.kind and find_secrets(one.text):
            assert REDACTED in redact(one.text), one.kind


def test_what_was_redacted_holds_nothing_more_to_find() -> None:
    left = [
        (one.kind, redact(one.text)) for one in examples(3) if one.kind and find_secrets(redact(one.text))
    ]
    assert left == []


@given(st.text(max_size=3000))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for _, line in find_secrets(text))
    assert isinstance(redact(text), str)


PARTS = (
    *(
        "A",
        "aB1",
        "password",
        "pass=",
        "secret=aB1-",
        "key: ",
        "token",
        "datadog key ",
        "x-api-key: ",
        "?key=",
    ),
    *("://a:", "jdbc:x;", "server=a;", "user=", "eyJ", "eyJ.", "-----BEGIN A ", "ghp_", "sk-", "hf_", "A3-"),
    *(
        "curl -u a:",
        " -H 'a",
        "login a password ",
        "kind: secret\n a: aaaaaaaaaaaa\n",
        "a/b.c-",
        "1:",
        "é",
        "=",
    ),
    *(
        "AKIA",
        "aws secret ",
        "T3Blbk",
        "AzFu",
        "xoxb-1-",
        "office.com/webhook/",
        "--password ",
        "\\n",
        "\t",
        "'",
    ),
)


@pytest.mark.parametrize("part", PARTS)
def test_no_repetition_makes_it_slow(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * (length // len(part) + 1))[:length]
        spent = []
        for _ in range(2):
            start = time.thread_time()
            find_secrets(text)
            spent.append(time.thread_time() - start)
        return min(spent)

    assert seconds(40_000) < 16 * seconds(5_000) + 0.02  # eight times the text; a square would take 64 times


@pytest.mark.parametrize(
    "value", ["a" * 4000, "aB" * 2000, "a1" * 2000, "-" * 4000, "Ab_" * 1300 + "é", "A" * 200 + "1" * 9]
)
def test_no_value_makes_it_slow(value: str) -> None:
    began = time.thread_time()
    for name in ("password", "api_key", "token", "secret"):
        find_secrets(f"{name} = '{value}'")
        find_secrets(f"{name}={value}")
    assert time.thread_time() - began < 0.5


def test_a_memory_of_usual_length_takes_less_than_three_milliseconds() -> None:
    whole = "\n".join(one.text for one in examples(5) if not one.kind)
    texts = [whole[at : at + 2000] for at in range(0, len(whole) - 2000, 2000)]
    spent = []
    for _ in range(3):
        began = time.thread_time()
        for text in texts:
            find_secrets(text)
        spent.append((time.thread_time() - began) / len(texts))
    assert min(spent) < 0.003
