"""Names in prompts that consist of common words or numbers, and names in prompts in another script."""

from __future__ import annotations

import pytest
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.injection.candidates import find_candidates, injectable_memories
from tests.cases import each


def shown(result):
    return [one.candidate.memory.title for one in result.shown]


@each(
    "prompt",
    ["#2831", "fix #2831", "What did we do for #2831?", "continue with issue 2831", "GH-2831 (again)"],
)
def test_the_number_of_an_issue_brings_its_memories(ask, remember, prompt):
    remember("The catalog is refreshed in one transaction. Refs #2831", title="Atomic refresh")
    remember("Lists have a cursor. Refs #2832", title="Cursors")
    assert shown(ask(prompt)) == ["Atomic refresh"]


def test_other_numbers_name_nothing(ask, remember):
    remember("It took 2831 seconds to build the image.")
    assert not ask("Do that 2831 times").shown


def test_the_key_of_an_issue_brings_its_memory(ask, remember):
    for number in (12, 13):
        remember(f"Closes SHOP-{number}, which a customer reported.", title=f"Fix {number}")
    assert shown(ask("Why did we close SHOP-12?")) == ["Fix 12"]


def test_an_identifier_of_common_words_is_a_name(ask, remember):
    wanted = remember("execute_write() waits for the writer thread.")
    for text in ("Execute the script in a shell.", "Write a changelog.", "Execute it, then write a report."):
        remember(text)
    assert shown(ask("Why is execute_write slow?"))[0] == wanted.title


@pytest.mark.parametrize("prompt", ["Почему facets медленные?", "لماذا الاقتراحات بطيئة في facets"])
def test_a_name_is_found_in_a_prompt_in_another_script(ask, remember, prompt):
    for number in range(300):
        remember(f"Note {number} about something else", title=f"Note {number}")
    remember("Suggested facets time out after 50 ms.", title="Facets time out")
    for number in range(4):
        remember(f"Page {number} lists facets.", title=f"Facets of page {number}")
    assert shown(ask(prompt))


def test_every_memory_that_is_about_the_whole_prompt_is_a_candidate(remember):
    for number in range(270):
        remember(f"Note {number} about something else")
    for number in range(30):
        remember(
            "How we deploy there." + " Again." * number, title=f"Heroku {'in the ' * (number % 7)}{number}"
        )
    memories = injectable_memories(Clearance(), "", timezone.now())
    assert len(find_candidates(memories, "tell me about heroku", timezone.now())) == 30
