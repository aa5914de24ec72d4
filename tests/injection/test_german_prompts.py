"""Prompts in German about English memories, and prompts that name a topic to leave out."""

from __future__ import annotations

import pytest

from tests.cases import each

CONTENTS = (
    "Deployment happens every Tuesday with Ansible",
    "The migration of the login service starts in March",
    "Code reviews need two approvals",
    "The test data is anonymised",
    "The web shop stores sessions in Redis",
    "Kubernetes runs on three machines",
    "The API gateway limits requests",
    "Die casting needs another supplier, the man from Hat Yai said in the war room",
)


@pytest.fixture(autouse=True)
def team(remember):
    for content in CONTENTS:
        remember(content)


def shown(result):
    return [one.candidate.memory.content for one in result.shown]


@each(
    "prompt, number",
    [
        ("Wie läuft das Deployment bei uns?", 0),
        ("Wann startet die Migration vom Login Service?", 1),
        ("Zeig mir die API Gateway Limits", 6),
        ("Die casting supplier, who is the man we talked to?", 7),
        ("This is not about Kubernetes, but about Redis sessions", 4),
        ("Es geht nicht um das Wetter, sondern um Kubernetes", 5),
        ("Don't use Redis for the queue", 4),
        ("I am not about to move the Redis sessions", 4),
        ("Warum ist Redis im Web Shop nicht zu erreichen", 4),
        ("Bitte nicht zu viele Redis Sessions anlegen", 4),
    ],
)
def test_shared_words_bring_one_memory(ask, prompt, number):
    assert shown(ask(prompt)) == [CONTENTS[number]]


@each(
    "prompt",
    [
        "Lass die Tests laufen",
        "Schreib einen Test dafür",
        "Ich habe ein Problem mit dem Test",
        "Mach mal ein Review",
        "Wann war die Feier, zu der man dir den Hut gab?",
        "not about Kubernetes",
        "Das ist nicht über Kubernetes",
    ],
)
def test_function_words_orders_and_excluded_topics_bring_nothing(ask, prompt):
    assert shown(ask(prompt)) == []
