"""Credentials typed into the admin: the refusal stands at its field, and nothing is stored."""

from __future__ import annotations

from memoryhub.models import Memory
from tests.admin.conftest import page
from tests.admin.test_memory_form import FULL, errors, save

TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"


def test_a_new_memory_is_refused_at_the_field(curator):
    response = curator.post(page(Memory, "add"), FULL | {"overview": f"one\r\n{TOKEN}"})
    [told] = errors(response)["overview"]
    assert told == "line 2 of overview holds what looks like a GitHub token; remove it and store again"
    assert not Memory.objects.exists()


def test_a_change_is_refused_at_the_field(curator, remember):
    memory = remember("words")
    assert "content" in errors(save(curator, memory, content=TOKEN))
    memory.refresh_from_db()
    assert memory.content == "words"
