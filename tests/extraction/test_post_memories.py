"""``deduplicate`` of ``POST /memories``: opt-in, and told by its outcome."""

from __future__ import annotations

from typing import Any

from memoryhub.models import Memory

TEXT = "Ada leads the billing team"


def test_without_it_only_the_same_words_are_the_same(bot: Any) -> None:
    bot.post("/memories", {"content": TEXT})
    assert bot.post("/memories", {"content": f"{TEXT}!"}).status_code == 201
    assert Memory.objects.count() == 2


def test_with_it_what_is_known_is_skipped(bot: Any) -> None:
    kept = bot.post("/memories", {"content": TEXT}).json()["memory"]["id"]
    response = bot.post("/memories", {"content": f"{TEXT}!", "deduplicate": True})
    assert response.status_code == 200
    body = response.json()
    assert (body["outcome"], body["memory"]["id"], body["ignored"]) == ("skipped", kept, [])


def test_with_it_what_adds_is_merged(bot: Any) -> None:
    bot.post("/memories", {"content": TEXT})
    body = bot.post("/memories", {"content": f"{TEXT} from Lisbon", "deduplicate": True}).json()
    assert (body["outcome"], body["memory"]["content"]) == ("merged", f"{TEXT} from Lisbon")


def test_with_it_what_is_new_is_created(bot: Any) -> None:
    assert bot.post("/memories", {"content": TEXT, "deduplicate": True}).status_code == 201


def test_it_must_be_a_flag(bot: Any) -> None:
    response = bot.post("/memories", {"content": TEXT, "deduplicate": "perhaps"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "deduplicate"
