"""What a page weighs: its HTML is sent as it is, beside 105 to 150 kB of fonts, styles and scripts.

``tests/browser/test_every_page.py`` weighs each page of the demo with all that it loads; here are long texts.
"""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub import facts
from memoryhub.drafts import FactDraft
from memoryhub.models import Event, Session
from memoryhub.retrieval.duplicates import Cluster, Found
from memoryhub.web import near

MOST = 110_000  # of 250 kB
SENTENCE = "The tide table of the harbour is read at noon and at midnight by whoever has the watch. "


@pytest.fixture
def much(remember: Any, actor: Any) -> None:
    """More of everything than a page lists, each with long words."""
    place = {"project": "harbour-and-lighthouse-board", "session_id": "the-night-of-the-long-watch"}
    for number in range(70):
        memory = remember(
            f"{number} " + SENTENCE * 12,
            title=f"Watch {number}: {SENTENCE}",
            tags=["tides", "harbour", "night"],
            files_modified=[f"src/harbour/watches/table_{number}.py"],
            type="decision",
            **place,
        )
        draft = FactDraft(
            subject=f"the watch of the night {number}",
            predicate="is told in the morning",
            object=SENTENCE * 5,
            memory_id=memory.uid,
            project=place["project"],
        )
        facts.store_fact(draft, actor)
    session = Session.objects.get()
    for number in range(70):
        Event.objects.create(
            session=session,
            event="tool:post",
            tool_name="Edit",
            files=[f"src/harbour/watches/table_{number}.py"],
            keywords=["tide", "table", "harbour", "watch"],
            skip_reason="below threshold",
            memorability=0.2,
            preview=SENTENCE,
        )


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/search/?q=tide",
        "/memories/",
        "/facts/",
        "/facts/graph/",
        "/timeline/",
        "/timeline/entries/",
        "/sessions/",
        "/sessions/the-night-of-the-long-watch/",
        "/journal/",
        "/review/",
        "/review/?tab=unsure",
    ],
)
def test_a_full_page_of_long_texts_stays_light(sign_in: Any, much: None, path: str) -> None:
    rights = [f"{act}_{model}" for act in ("add", "change", "delete") for model in ("memory", "fact")]
    response = sign_in(*rights, "view_private").get(path)
    assert response.status_code == 200
    assert len(response.content) <= MOST


def test_of_heavy_near_duplicates_the_first_are_shown(remember: Any, actor: Any) -> None:
    pairs = []
    for number in range(4):
        one, other = (remember(f"{number}{end} " + SENTENCE * 90) for end in "ab")
        pairs.append(Cluster(one.pk, ((other.pk, 0.9),), "it is the newer one"))
    shown = near.first(Found(pairs, 8, 8), actor.clearance, 4)
    assert [one.keep.pk for one in shown] == [pair.keep for pair in pairs[:2]]


def test_a_near_duplicate_too_heavy_for_a_page_is_shown_alone(remember: Any, actor: Any) -> None:
    pairs = []
    for number in range(2):
        one, other = (remember(f"{number}{end} " + SENTENCE * 400) for end in "ab")
        pairs.append(Cluster(one.pk, ((other.pk, 0.9),), "it is the newer one"))
    assert len(near.first(Found(pairs, 4, 4), actor.clearance, 2)) == 1


@pytest.mark.usefixtures("embedding")
def test_a_page_of_near_duplicates_of_many_lines_stays_light(sign_in: Any, remember: Any) -> None:
    for name in ("ada", "ben", "cem", "dee", "eva", "fay", "gus"):
        for verb in ("reads", "keeps"):
            lines = [f"{hour}: {name} {verb} the tide table of the harbour at noon" for hour in range(45)]
            remember("\n\n".join(lines), title=f"The watch of {name}", project=name)
    response = sign_in("change_memory", "delete_memory").get("/duplicates/")
    assert len(response.context["found"].clusters) == 7
    assert response.content.count(b"more rows of this comparison left out") == 5
    assert len(response.content) <= MOST
