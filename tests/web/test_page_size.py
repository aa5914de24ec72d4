"""The size of pages with long texts: uncompressed HTML, next to 105 to 150 kB of fonts, styles and scripts.

``tests/browser/test_every_page.py`` measures each page of the demo with everything it loads.
"""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.duplicates import Cluster, DuplicateClusters
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Session
from memoryhub.stats import timeline
from memoryhub.web.duplicates import presenters

pytestmark = pytest.mark.slow
MOST = 110_000  # of 250 kB
OF_SESSION = 102_000  # which loads more than other pages
SENTENCE = "The tide table of the harbour is read at noon and at midnight by the person on watch. "


@pytest.fixture
def much(remember: Any, actor: Any) -> None:
    """More rows of every kind than a page lists, with long words."""
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
            predicate="is given in the morning",
            object=SENTENCE * 5,
            memory_id=memory.uid,
            project=place["project"],
        )
        services.create_fact(draft, actor)
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


def test_full_pages_of_long_texts_are_small(sign_in: Any, much: None) -> None:
    rights = [f"{act}_{model}" for act in ("add", "change", "delete") for model in ("memory", "fact")]
    client = sign_in(*rights, "view_private")
    for path in (
        "/",
        "/memories/?q=tide",
        "/memories/",
        "/facts/",
        "/facts/graph/",
        "/timeline/",
        "/timeline/entries/",
        "/sessions/",
        "/sessions/the-night-of-the-long-watch/",
        "/reports/sessions/the-night-of-the-long-watch/",
        "/journal/",
        "/review/",
        "/review/?tab=unsure",
    ):
        response = client.get(path)
        assert response.status_code == 200, path
        assert len(response.content) <= MOST, path


def test_heavy_near_duplicates_are_limited(remember: Any, actor: Any) -> None:
    pairs = []
    for number in range(4):
        one, other = (remember(f"{number}{end} " + SENTENCE * 90) for end in "ab")
        pairs.append(Cluster(one.pk, ((other.pk, 0.9),), "it is the newer one"))
    shown = presenters.build_first_cards(DuplicateClusters(pairs, 8, 8), actor.clearance, 4)
    assert [one.keep.pk for one in shown] == [pair.keep for pair in pairs[:2]]


def test_single_heavy_near_duplicate_is_shown(remember: Any, actor: Any) -> None:
    pairs = []
    for number in range(2):
        one, other = (remember(f"{number}{end} " + SENTENCE * 400) for end in "ab")
        pairs.append(Cluster(one.pk, ((other.pk, 0.9),), "it is the newer one"))
    assert len(presenters.build_first_cards(DuplicateClusters(pairs, 4, 4), actor.clearance, 2)) == 1


@pytest.mark.usefixtures("embedding")
def test_near_duplicates_with_many_lines_are_small(sign_in: Any, remember: Any) -> None:
    for name in ("ada", "ben", "cem", "dee", "eva", "fay", "gus"):
        for verb in ("reads", "keeps"):
            lines = [f"{hour}: {name} {verb} the tide table of the harbour at noon" for hour in range(45)]
            remember("\n\n".join(lines), title=f"The watch of {name}", project=name)
    response = sign_in("change_memory", "delete_memory").get("/duplicates/")
    assert len(response.context["found"].clusters) == 7
    assert response.content.count(b"more lines of this comparison left out") == 5
    assert len(response.content) <= MOST


def make_night(events: int) -> Session:
    """Create a session of many events on many subjects, with every field set."""
    begin = timezone.now() - timedelta(hours=9)
    session = Session.objects.create(session_id="night", project="p")
    parts = dict.fromkeys(("substance", "salience", "distinctiveness", "type_weight"), 0.3)
    expected = {"name": "classification", "priority": 40, "status": "ok", "detail": SENTENCE}
    Event.objects.bulk_create(
        Event(
            session=session,
            event="tool:post",
            tool_name=("Read", "Edit", "Bash")[number % 3],
            at=begin + timedelta(seconds=20 * number),
            segment=number // 12,
            files=[f"src/harbour/watches/long/way/down/table_{number}_{one}.py" for one in range(9)],
            keywords=[f"word{number}{one}" for one in range(12)],
            skip_reason="below the gate",
            memorability=0.3,
            memorability_parts=parts,
            handlers=[expected] * 6,
            preview=f"<output {number}> " + SENTENCE * 6,
        )
        for number in range(events)
    )
    return session


@pytest.fixture
def long_night(db: None) -> Session:
    return make_night(1200)


def followed(client: Any, address: str) -> list[Any]:
    """Yield the page at a URL and the following ones."""
    pages = [client.get(address)]
    while onward := re.search(r'rel="next" href="([^"]+)"', pages[-1].content.decode()):
        pages.append(client.get(address.partition("?")[0] + html.unescape(onward[1])))
        assert pages[-1].status_code == 200
    return pages


def test_session_of_many_long_events_is_small(visitor: Any, long_night: Session) -> None:
    for page in ("/sessions/night/", "/sessions/night/?order=newest", "/sessions/night/?kind=event"):
        assert len(visitor.get(page).content) <= OF_SESSION, page


def test_session_picture_shows_the_beginning_and_mentions_the_rest(visitor: Any, long_night: Session) -> None:
    assert b"The picture shows the beginning of this long session" in visitor.get("/sessions/night/").content


def test_url_of_an_event_shows_it(visitor: Any, long_night: Session) -> None:
    event = Event.objects.order_by("at")[600]
    anchor = timeline.TimelineEntry(event.at, "event", event).anchor
    page = visitor.get("/sessions/night/", {"entry": anchor})
    assert f'id="{anchor}"' in page.content.decode()
    assert len(page.content) <= OF_SESSION


def test_session_report_is_split_into_small_complete_parts_that_name_what_they_omit(visitor: Any) -> None:
    make_night(300)
    parts = followed(visitor, "/reports/sessions/night/")
    assert len(parts) >= 3
    assert max(len(part.content) for part in parts) <= MOST
    page_text = "".join(part.content.decode() for part in parts)
    found = [int(number) for number in re.findall(r"&lt;output (\d+)&gt;", page_text)]
    assert found == list(range(300))

    first, second, *_, last = parts
    before, after = b"This part continues another one", b"This part ends at"
    assert (before in first.content, after in first.content) == (False, True)
    assert (before in second.content, after in second.content) == (True, True)
    assert (before in last.content, after in last.content) == (True, False)
