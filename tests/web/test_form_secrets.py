"""Secrets entered into a form are refused at their field."""

from __future__ import annotations

from typing import Any

from memoryhub.models import Fact, Memory
from tests.cases import each
from tests.web.markup import main

TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
NEW = {"content": "new words", "type": "change", "sensitivity": "public", "scope": "project"}


@each(
    "field, typed, place",
    [
        ("content", f"one\n{TOKEN}", "Line 2 of content"),
        ("tags", f"fine, {TOKEN}", "Item 2 of tags"),
        ("aliases", f"fine, {TOKEN}", "Item 2 of aliases"),
    ],
)
def test_new_memory_with_a_secret_is_refused_at_the_field(
    sign_in: Any, field: str, typed: str, place: str
) -> None:
    response = sign_in("add_memory").post("/memories/new/", NEW | {field: typed})
    assert response.status_code == 422
    [shown] = response.context["form"].errors[field]
    assert shown.startswith(f"{place} contains what looks like a GitHub token")
    assert TOKEN not in shown
    assert place in main(response).words
    assert not Memory.objects.exists()


def test_change_with_a_secret_is_refused_at_the_field(sign_in: Any, remember: Any) -> None:
    memory = remember("words", title="old")
    client = sign_in("change_memory")
    form = client.get(f"/memories/{memory.uid}/edit/").context["form"]
    typed = {name: form.fields[name].prepare_value(form[name].value()) or "" for name in form.fields}
    response = client.post(f"/memories/{memory.uid}/edit/", typed | {"title": TOKEN})
    assert response.status_code == 422
    assert "title" in response.context["form"].errors
    memory.refresh_from_db()
    assert memory.title == "old"


def test_fact_with_a_secret_is_refused_at_the_field(sign_in: Any) -> None:
    fact = {"subject": "ci", "predicate": "uses", "object": TOKEN, "sensitivity": "public", "confidence": "1"}
    response = sign_in("add_fact").post("/facts/", fact)
    assert response.status_code == 422
    assert "GitHub token" in response.context["add"].errors["object"][0]
    assert not Fact.objects.exists()
