"""A session's page: its picture, the details of its events, and the filter chips."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.web.sessions import picture as sessions_picture
from tests.cases import clear_caches, each
from tests.web.markup import PAYLOAD, Page, find_dangers, list_title, main

Remember = Callable[..., Memory]
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
LEVELS = ("public", "private", "secret", "cosmic")
PARTS = {"substance": 0.9, "salience": 0.8, "distinctiveness": 1.0, "type_weight": 1.0, "total": 0.91}


def add_event(session: Session, minutes: float, tool: str = "Read", **fields: Any) -> Event:
    at = NOON + timedelta(minutes=minutes)
    return Event.objects.create(session=session, at=at, **{"event": "tool:post", "tool_name": tool, **fields})


@pytest.fixture
def session(remember: Remember) -> Session:
    """Reads and runs; one became a decision, one is below the threshold, two are routine; two segments."""
    kept = remember(
        "oats are ordered on Mondays",
        title="Oats on Mondays",
        type="decision",
        session_id="s",
        project="p",
        created_at=NOON + timedelta(minutes=2),
    )
    session = Session.objects.get(session_id="s")
    add_event(session, 0, skip_reason="routine", keywords=["stable", "oats"])
    add_event(
        session,
        1,
        "Bash",
        skip_reason="below the gate",
        memorability=0.12,
        memorability_parts={**dict.fromkeys(PARTS, 0.1), "total": 0.12},
        handlers=[
            {"name": "boundaries", "priority": 100, "status": "failed", "detail": "no window"},
            {
                "name": "capture",
                "priority": 150,
                "status": "skipped",
                "detail": "memory.memorability is switched off",
            },
        ],
    )
    add_event(session, 2, "Bash", memory=kept, memorability=0.91, memorability_parts=PARTS)
    add_event(session, 3, skip_reason="routine", segment=1, boundary=True, keywords=["harness"])
    add_event(session, 4, "", event="prompt:submit", preview="and the harness?", segment=1)
    return session


def listed(client: Client, **query: str) -> str:
    """The words of the list, below picture and chips."""
    response = client.get("/sessions/s/", query)
    assert response.status_code == 200
    return " ".join(Page(response.content.decode().partition('class="day"')[2]).words.split())


def picture(client: Client, path: str = "/sessions/s/") -> str:
    """The picture's markup."""
    html: str = client.get(path).content.decode()
    return html.partition('<figure class="story"')[2].partition("</figure>")[0]


class TestPicture:
    def test_stored_memories_are_links_with_a_title(self, visitor: Client, session: Session) -> None:
        uid = Memory.objects.get().uid
        found = re.findall(r'class="story-link" href="([^"]+)"><title>([^<]+)', picture(visitor))
        assert found == [(f"/memories/{uid}/", "12:02:00 Bash, memorability 0.91, became “Oats on Mondays”")]

    def test_every_mark_has_a_title(self, visitor: Client, session: Session) -> None:
        markup = picture(visitor)
        assert len(re.findall(r'<rect class="story-mark is-', markup)) == 4
        assert len(re.findall(r'<rect class="story-mark is-[^>]+><title>[^<]+', markup)) == 4

    def test_the_mark_of_a_prompt_is_named_in_words(self, visitor: Client, session: Session) -> None:
        assert "<title>12:04:00 Prompt</title>" in visitor.get("/sessions/s/").content.decode()

    def test_segments_are_shown_in_the_table_too(self, visitor: Client, session: Session) -> None:
        table = " ".join(Page(picture(visitor).partition("<table")[2]).words.split())
        for said in ("oats, stable", "harness", "Read 1, Ran 2", "Prompts 1, Read 1", "0.91"):
            assert said in table

    def test_lanes_gate_and_curve_are_there(self, visitor: Client, session: Session) -> None:
        markup = picture(visitor)
        assert re.findall(r'text-anchor="end">([^<]+)', markup) == ["Prompts", "Read", "Ran", "keep 0.30"]
        assert 'class="story-curve" vector-effect' in markup
        below, passing = re.findall(r'<path class="story-point( passes)?" d="([^"]+)"', markup)
        assert (below[0], below[1].count("M"), passing[0], passing[1].count("M")) == ("", 1, " passes", 1)

    def test_checkpoints_and_injections_are_drawn(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        remember("so far", type="checkpoint", session_id="s", project="p", created_at=NOON)
        Injection.objects.create(session=session, project="p", at=NOON)
        markup = picture(visitor)
        assert "Memories" in markup
        assert "checkpoint: so far" in markup
        assert "12:00:00 injected: nothing to list" in markup

    def test_its_begin_and_end_are_drawn(self, visitor: Client, session: Session) -> None:
        session.ended_at = NOON + timedelta(minutes=9)
        session.save()
        assert re.findall(r"<title>([\d:]+ session \w+)", picture(visitor)) == [
            "12:00:00 session began",
            "12:09:00 session ended",
        ]

    def test_a_very_long_session_shows_the_beginning_and_mentions_the_rest(
        self, visitor: Client, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "beginning of this long session" not in picture(visitor)
        monkeypatch.setattr(sessions_picture, "MAX_ITEMS", 2)
        clear_caches()
        markup = picture(visitor)
        assert "beginning of this long session" in markup
        assert "12:04:00" not in markup

    def test_hidden_rows_are_not_drawn(self, sign_in: Any, session: Session, remember: Remember) -> None:
        for level in LEVELS:
            add_event(session, 6, f"Tool-{level}", sensitivity=level, keywords=[f"about-{level}"])
            memory = remember(f"memory of {level}", session_id="s", project="p")
            Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
            captured = remember(f"captured as {level}", session_id="s", project="p")
            add_event(session, 7, f"Event-{level}", memory=captured)
            Memory.objects.filter(pk=captured.pk).update(sensitivity=level)
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, seen in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            html = client.get("/sessions/s/").content.decode()
            for name in ("Tool-{}", "about-{}", "Event-{}"):
                assert {level for level in LEVELS if name.format(level) in html} == seen, name
            for name in ("memory of {}", "captured as {}"):
                called = {
                    memory.sensitivity: memory for memory in Memory.objects.all() if name[:6] in memory.title
                }
                assert {level for level in LEVELS if list_title(called[level]) in html} == seen, name

    def test_a_trashed_memory_is_not_drawn(
        self, visitor: Client, session: Session, remember: Remember, actor: Actor
    ) -> None:
        remember("it stays", session_id="s", project="p")
        memories.trash_memories([Memory.objects.get(title="Oats on Mondays").uid], actor)
        assert "Oats" not in visitor.get("/sessions/s/").content.decode()

    def test_a_session_of_one_memory_has_one_too(self, visitor: Client, remember: Remember) -> None:
        remember("alone", session_id="lonely", project="p")
        assert "alone" in picture(visitor, "/sessions/lonely/")

    def test_the_number_of_queries_does_not_grow(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        counts = []
        for n in (1, 40):
            for m in range(n):
                memory = remember(f"m {n} {m}", session_id="s", project="p")
                add_event(session, 10 + m, f"T{m}", memory=memory, segment=m, handlers=[{"name": "capture"}])
                Injection.objects.create(
                    session=session, project="p", at=NOON, injected=[{"id": memory.uid, "score": 0.5}]
                )
            with CaptureQueriesContext(connection) as queries:
                assert visitor.get("/sessions/s/").status_code == 200
            counts.append(len(queries))
        assert counts[0] == counts[1]


class TestWhy:
    def test_an_event_shows_its_four_parts_against_the_gate(self, visitor: Client, session: Session) -> None:
        words = listed(visitor, kept="kept")
        for said in (
            "Memorability 0.91, kept",
            "substance0.90 × 0.30 = 0.27",
            "salience0.80 × 0.30 = 0.24",
            "distinctiveness1.00 × 0.25 = 0.25",
            "type weight1.00 × 0.15 = 0.15",
            "0.91 reaches the threshold of 0.30",
        ):
            assert said in words

    def test_an_event_that_was_not_stored_shows_the_reason(self, visitor: Client, session: Session) -> None:
        words = listed(visitor, reason="below the gate")
        assert "Memorability 0.12, not kept" in words
        assert "0.12 is below the threshold of 0.30" in words
        assert "Not kept: below the memorability threshold" in words

    def test_the_gate_is_the_configured_one(
        self, visitor: Client, session: Session, configure: Callable[..., None]
    ) -> None:
        configure(memorability_threshold=0.95)
        assert "0.91 is below the threshold of 0.95" in listed(visitor, kept="kept")
        assert "keep 0.95" in picture(visitor)

    def test_memorability_is_rounded_in_one_way(self, visitor: Client, session: Session) -> None:
        Event.objects.exclude(memory=None).update(memorability=0.485)
        for page in (visitor.get("/sessions/s/"), visitor.get("/reports/sessions/s/")):
            html = page.content.decode()
            assert "0.49" in html
            assert "0.48" not in html

    def test_a_repetition_is_marked_as_counting_less(self, visitor: Client, session: Session) -> None:
        said = "scores less than the sum of its parts"
        assert said not in listed(visitor, kept="kept")
        Event.objects.exclude(memory=None).update(memorability=0.3)
        assert said in listed(visitor, kept="kept")

    def test_changed_weights_are_pointed_out(
        self, visitor: Client, session: Session, configure: Callable[..., None]
    ) -> None:
        said = "they were different when this was evaluated"
        assert said not in listed(visitor, kept="kept")
        configure(substance_weight=0.1, salience_weight=0.1, distinctiveness_weight=0.1, type_weight=0.7)
        Event.objects.exclude(memory=None).update(
            memorability_parts={**PARTS, "type_weight": 0.3}, memorability=0.8
        )
        assert said in listed(visitor, kept="kept")

    def test_a_changed_threshold_is_pointed_out(
        self, visitor: Client, session: Session, configure: Callable[..., None]
    ) -> None:
        said = "they were different when this was evaluated"
        Event.objects.filter(skip_reason="below the gate").update(memorability=0.1)
        assert said not in listed(visitor, reason="below the gate")
        configure(memorability_threshold=0.05)
        assert said in listed(visitor, reason="below the gate")
        assert said not in listed(visitor, kept="kept")
        configure(memorability_threshold=0.95)
        assert said in listed(visitor, kept="kept")

    def test_the_result_of_each_handler_is_shown_including_skipped_and_failed(
        self, visitor: Client, session: Session
    ) -> None:
        words = listed(visitor, reason="below the gate")
        assert "failed boundaries @100 no window" in words
        assert "skipped capture @150 memory.memorability is switched off" in words

    def test_the_skip_reason_is_not_repeated(self, visitor: Client, session: Session) -> None:
        said = [
            {"name": "boundaries", "priority": 100, "status": "ok", "detail": "segment 1"},
            {"name": "capture", "priority": 150, "status": "skipped", "detail": "not kept: secret"},
        ]
        add_event(session, 5, "Grep", segment=1, skip_reason="secret", handlers=said)
        words = listed(visitor, tool="Grep")
        assert words.count("not kept: secret") == 1
        assert "segment 1" not in words
        assert "Processing log" not in words

    def test_first_event_of_a_segment_shows_its_processing_log(
        self, visitor: Client, session: Session
    ) -> None:
        said = [{"name": "boundaries", "priority": 100, "status": "ok", "detail": "segment 2"}]
        add_event(session, 5, "Grep", segment=2, boundary=True, handlers=said)
        assert "Processing log ok boundaries @100 segment 2" in listed(visitor, tool="Grep")

    @each("odd", [None, [], "text", 7, {"substance": "high"}, [1, None, {"name": 2, "detail": []}]])
    def test_stored_parts_of_another_shape_break_nothing(
        self, visitor: Client, session: Session, odd: Any
    ) -> None:
        for event in Event.objects.all():
            event.memorability_parts = odd if odd is not None else {}
            event.handlers = odd if odd is not None else []
            event.save()
        assert visitor.get("/sessions/s/").status_code == 200


def test_events_that_are_not_tool_calls_are_described_in_words(visitor: Client, session: Session) -> None:
    words = listed(visitor, tool="prompt:submit")
    assert "12:04:00 Prompt and the harness?" in words
    assert "prompt:submit" not in words


class TestChips:
    def counts(self, client: Client, **query: str) -> dict[str, int]:
        html = client.get("/sessions/s/", query).content.decode()
        found = re.findall(r'<a class="tag[^>]+>\s*([^<]+?) <span class="n">(\d+)', html)
        return {label: int(count) for label, count in found}

    def test_chips_count_tools_outcomes_and_reasons(self, visitor: Client, session: Session) -> None:
        assert self.counts(visitor) == {
            "Bash": 2,
            "Read": 2,
            "Prompts": 1,
            "Not kept": 3,
            "Kept": 1,
            "routine": 2,
            "below the memorability threshold": 1,
        }

    @each(
        "query, seen",
        [
            ({"tool": "Read"}, ["12:00", "12:03"]),
            ({"tool": "prompt:submit"}, ["12:04"]),
            ({"kept": "kept"}, ["12:02"]),
            ({"kept": "skipped"}, ["12:00", "12:01", "12:03"]),
            ({"reason": "routine"}, ["12:00", "12:03"]),
            ({"tool": "Bash", "kept": "skipped"}, ["12:01"]),
            ({"kind": "boundary", "tool": "Read"}, ["12:03"]),
            ({"tool": "Nothing"}, []),
        ],
    )
    def test_each_narrows_to_events(
        self, visitor: Client, session: Session, query: dict[str, str], seen: list[str]
    ) -> None:
        html = visitor.get("/sessions/s/", query).content.decode().partition('class="day"')[2]
        assert re.findall(r'class="timeline-at".*?<time[^>]+>(\d\d:\d\d)', html) == seen

    def test_a_selected_chip_links_to_the_list_without_it(self, visitor: Client, session: Session) -> None:
        html = visitor.get("/sessions/s/", {"tool": "Read", "kept": "skipped"}).content.decode()
        [(href, label)] = re.findall(r'class="tag is-chosen" href="([^"]+)" [^>]+>\s*(Read)', html)
        assert (href, label) == ("/sessions/s/?kept=skipped#happened", "Read")

    def test_chips_count_visible_rows_only(self, visitor: Client, session: Session) -> None:
        for level in ("private", "secret", "cosmic"):
            add_event(session, 5, f"Tool-{level}", sensitivity=level)
        assert not [label for label in self.counts(visitor) if label.startswith("Tool-")]

    def test_memories_and_injections_have_none(self, visitor: Client, session: Session) -> None:
        for kind in ("memory", "injection"):
            assert self.counts(visitor, kind=kind) == {}


def test_texts_of_events_are_not_rendered_as_markup(visitor: Client, session: Session) -> None:
    memory = Memory.objects.get()
    Memory.objects.update(title=PAYLOAD)
    add_event(
        session,
        8,
        PAYLOAD[:200],
        event=PAYLOAD[:30],
        files=[PAYLOAD] * 6,
        keywords=[PAYLOAD] * 10,
        skip_reason=PAYLOAD[:50],
        preview=PAYLOAD,
        memorability=0.5,
        memorability_parts={PAYLOAD: 1},
        handlers=[{"name": PAYLOAD, "priority": PAYLOAD, "status": PAYLOAD, "detail": PAYLOAD}],
    )
    add_event(session, 9, PAYLOAD[:200], memory=memory, segment=3)
    for query in ({}, {"tool": PAYLOAD}, {"reason": PAYLOAD[:50]}, {"kind": "event"}):
        response = visitor.get("/sessions/s/", query)
        assert response.status_code == 200
        assert find_dangers(response.content.decode()) == []
    assert "memorability" in main(response).words.lower()


class TestFolding:
    def routine(self, session: Session, count: int, minute: int = 1, **fields: Any) -> None:
        for second in range(count):
            at = NOON + timedelta(minutes=minute, seconds=second)
            Event.objects.create(session=session, event="tool:post", tool_name="Read", at=at, **fields)

    def listing(self, client: Client, query: str = "") -> str:
        html = client.get(f"/sessions/quiet/{query}").content.decode()
        return html.partition('id="listing"')[2].partition("</section>\n\n")[0]

    @pytest.fixture
    def quiet(self, db: None) -> Session:
        return Session.objects.create(session_id="quiet", project="p")

    def test_routine_events_in_a_row_are_one_line(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 23)
        html = self.listing(visitor)
        assert "23 routine events" in html
        assert html.count("<li id=") + html.count('<li class="is-event"') == 23

    def test_two_routine_events_stay_as_they_are(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 2)
        assert "routine events" not in self.listing(visitor)

    def test_prompts_failures_and_kept_events_end_a_run(
        self, visitor: Client, quiet: Session, remember: Callable[..., Memory]
    ) -> None:
        self.routine(quiet, 3)
        for minute, fields in (
            (2, {"event": "prompt:submit"}),
            (4, {"event": "tool:post", "memory": remember()}),
            (6, {"event": "tool:post", "handlers": [{"name": "x", "status": "failed"}]}),
        ):
            Event.objects.create(session=quiet, at=NOON + timedelta(minutes=minute), **fields)
            self.routine(quiet, 3, minute + 1)
        assert self.listing(visitor).count("3 routine events") == 4

    def test_hidden_events_are_not_counted(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 3)
        self.routine(quiet, 4, sensitivity="private")
        assert "3 routine events" in self.listing(visitor)

    def test_address_of_an_event_opens_its_run(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 3)
        html = self.listing(visitor)
        assert '<details class="fold"><summary>3 routine' in html
        anchor = re.findall(r'id="(event-[^"]+)"', html)[1]
        assert '<details class="fold" open><summary>3 routine' in self.listing(visitor, f"?entry={anchor}")

    def test_decisions_leave_out_routine_and_link_to_it(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 4, 1, skip_reason="routine")
        self.routine(quiet, 3, 2, skip_reason="below the gate", memorability=0.2)
        assert self.listing(visitor, "?kind=kept").count('<li class="is-event"') == 3
        page = visitor.get("/sessions/quiet/?kind=kept")
        assert "4 routine events are not listed. Show them" in main(page).words
        assert "?kind=kept&reason=routine#happened" in main(page).links()
        assert self.listing(visitor, "?kind=kept&reason=routine").count('<li class="is-event"') == 4

    def test_the_report_folds_them_too(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 23)
        html = visitor.get("/reports/sessions/quiet/?project=p").content.decode()
        assert '<details class="fold"><summary>23 routine events' in html
        assert html.count('<li class="is-event"') == 23

    def test_filtered_and_narrowed_lists_show_each_event(self, visitor: Client, quiet: Session) -> None:
        self.routine(quiet, 5)
        for query in ("?kind=event", "?tool=Read"):
            assert "routine events" not in self.listing(visitor, query)


def test_decisions_tab_leaves_out_events_without_a_decision(visitor: Client, db: None) -> None:
    session = Session.objects.create(session_id="mixed", project="p")
    for name, fields in (
        ("Judged", {"memorability": 0.2, "skip_reason": "below the gate"}),
        ("Refused", {"skip_reason": "repeated"}),
        ("Plain", {}),
    ):
        Event.objects.create(session=session, event="tool:post", tool_name=name, **fields)
    html = visitor.get("/sessions/mixed/?kind=kept").content.decode().partition('id="live-days"')[2]
    assert "Judged" in html
    assert "Refused" in html
    assert "Plain" not in html


@each("stored, shown", [(0.485, "0.49"), (0.725, "0.73"), (0.475, "0.48")])
def test_memorability_is_rounded_the_same_everywhere(
    visitor: Client, db: None, stored: float, shown: str
) -> None:
    session = Session.objects.create(session_id="round", project="p")
    Event.objects.create(
        session=session, event="tool:post", memorability=stored, memorability_parts={"substance": stored}
    )
    page = visitor.get("/sessions/round/?kind=event").content.decode()
    assert f"Memorability {shown}" in page  # the line of the event
    assert f'<td class="num">{shown} ' in page.partition("together")[2]  # the table below it
    assert f"memorability {shown}" in page  # the picture
    assert f'class="num">{shown}</td>' in page.partition("story-table")[2]  # its table
    assert f"memorability {shown}" in visitor.get("/reports/sessions/round/").content.decode()
