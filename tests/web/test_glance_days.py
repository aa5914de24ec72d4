"""At a glance, day by day: what was kept, skipped, injected and refused, and who did it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.injection.services import Wanted
from memoryhub.injection.services import inject as inject_for
from memoryhub.memories.schemas import MemoryDraft
from tests.web.glancing import happen, inject, part, row, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_cache")]


class TestDays:
    def test_what_was_kept_stands_against_what_was_skipped_and_why(
        self, visitor: Client, remember: Any
    ) -> None:
        happen(memory=remember("kept"))
        happen(reason="below the gate")
        happen(reason="below the gate")
        happen(reason="repeats the last")
        happen()  # nothing to judge
        assert "25 % of 4 that agents did" in part(visitor, "Kept and skipped")
        assert row(visitor, "kept as a memory") == "kept as a memory 1"
        assert row(visitor, "below the gate") == "below the gate 2"

    def test_empty_injections_are_told_apart(self, visitor: Client) -> None:
        inject()
        inject()
        inject(shown=0)
        told = part(visitor, "Injections")
        assert "with memories 2" in told
        assert "empty 1" in told

    def test_a_prompt_that_got_nothing_is_counted_as_empty(
        self, visitor: Client, remember: Any, actor: Any
    ) -> None:
        remember("zebra stripes")
        inject_for(Wanted("thanks, that is fine", session_id="s"), actor)
        told = part(visitor, "Injections")
        assert "empty 1" in told
        assert "with memories" not in told

    @pytest.mark.parametrize(("outcome", "count"), [("empty", 1), ("filled", 2)])
    def test_each_number_of_injections_leads_to_as_many(
        self, visitor: Client, outcome: str, count: int
    ) -> None:
        inject()
        inject()
        inject(shown=0)
        page = visitor.get("/glance/").content.decode()
        address = re.search(rf'href="(/injections/\?since=[^"]+outcome={outcome})">{count}</a>', page)
        assert address
        found = visitor.get(address[1].replace("&amp;", "&")).content.decode()
        assert found.count('id="injection-') == count

    def test_refused_secrets_are_counted_by_day_and_kind(self, visitor: Client, actor: Any) -> None:
        with pytest.raises(memories.SecretDetected):
            memories.remember(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
        told = part(visitor, "Secrets blocked")
        assert "blocked 1" in told
        assert "Kind blocked" in told

    def test_the_journal_is_counted_by_actor(self, visitor: Client, remember: Any, actor: Any) -> None:
        memories.trash([remember("one").uid], actor)
        found = row(visitor, actor.name)
        assert found == f"{actor.name} 1 1 2"

    def test_an_actor_leads_to_their_rows_of_the_journal(
        self, visitor: Client, remember: Any, actor: Any
    ) -> None:
        remember("one")
        page = visitor.get("/glance/").content.decode()
        address = re.search(r'href="(/journal/\?actor=[^"]+)"', page)
        assert address
        listed = words(visitor.get(address[1].replace("&amp;", "&")).content.decode())
        assert actor.name in listed
        assert "insert" in listed

    def test_a_column_of_refused_secrets_leads_to_their_rows(self, visitor: Client, actor: Any) -> None:
        with pytest.raises(memories.SecretDetected):
            memories.remember(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
        page = visitor.get("/glance/").content.decode()
        address = re.search(r'href="(/journal/\?operation=secret_blocked[^"]+)"', page)
        assert address
        assert actor.name in words(visitor.get(address[1].replace("&amp;", "&")).content.decode())

    def test_what_lies_before_the_period_is_not_counted(self, visitor: Client) -> None:
        inject(days=20)
        assert "with memories 1" in part(visitor, "Injections")
        assert "Nothing was put into a prompt" in part(visitor, "Injections", "/glance/?days=7")

    def test_a_chart_shows_the_whole_period_the_days_without_anything_too(self, visitor: Client) -> None:
        inject(days=3)
        told = part(visitor, "Injections", "/glance/?days=7")
        begin = (timezone.now() - timedelta(days=6)).date()
        assert f"1 from {begin.day} {begin:%b %Y} on; most, 1," in told

    def test_an_unknown_period_is_refused_and_the_usual_one_shown(self, visitor: Client) -> None:
        response = visitor.get("/glance/?days=8")
        assert response.status_code == 422
        assert "pick one of the list" in response.content.decode()

    @pytest.mark.parametrize("days", ["7", "30", "90", "365", ""])
    def test_every_period_that_is_offered_is_taken_the_usual_one_by_its_name_too(
        self, visitor: Client, days: str
    ) -> None:
        response = visitor.get(f"/glance/?days={days}")
        assert response.status_code == 200
        assert f'<option value="{days or 30}" selected>' in response.content.decode()

    def test_numbers_of_days_stand_below_a_chart_of_days(self, visitor: Client) -> None:
        inject()
        page = visitor.get("/glance/?days=7").content.decode()
        drawn = page.split('id="injections-title"')[1].split("</svg>")[0]
        today = timezone.localdate()
        for ago in range(7):
            assert f">{(today - timedelta(days=ago)).day}</text>" in drawn

    @pytest.mark.parametrize("days", [90, 365])  # at most one of them begins on a Monday
    def test_a_bar_of_weeks_leads_to_what_it_counts_and_to_nothing_before_the_period(
        self, visitor: Client, days: int
    ) -> None:
        inject(days=days - 1)
        inject(days=days)
        page = visitor.get(f"/glance/?days={days}").content.decode()
        since = (timezone.localdate() - timedelta(days=days - 1)).isoformat()
        assert re.search(rf'href="/injections/\?since={since}&amp;until=', page)
