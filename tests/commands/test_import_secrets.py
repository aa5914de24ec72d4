"""``import_memories``: a line with a credential is named and left out; the value is not repeated."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]

TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"


def test_a_line_with_a_credential_is_named_and_the_others_are_stored(run, jsonl):
    file = jsonl({"content": "one"}, {"content": f"use\n{TOKEN}"}, {"content": "three"})
    ran = run("import_memories", file)
    assert "line 2" in ran.err
    assert "line 2 of content contains what looks like a GitHub token" in ran.err
    assert TOKEN not in ran.out + ran.err
    assert set(Memory.objects.values_list("content", flat=True)) == {"one", "three"}
