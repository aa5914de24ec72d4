"""The home page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.capture.projects import configure_project
from memoryhub.capture.segments import BOUNDARY_PREDICATE
from memoryhub.facts import services
from memoryhub.maintenance import executor, runs
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Injection, JournalEntry, Membership, Memory
from tests.cases import each
from tests.database import cut_journal
from tests.web.markup import main


def text(response: Any) -> str:
    page = re.sub(r"<(script|style|title).*?</\1>", " ", response.content.decode(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_facts_are_counted_as_their_list_shows_them(visitor: Client, actor: Actor, remember: Any) -> None:
    remember("a zebra")
    for subject, predicate in (("zebra", "lives_in"), ("session:1", BOUNDARY_PREDICATE)):
        services.create_fact(FactDraft(subject=subject, predicate=predicate, object="zoo"), actor)
    assert "1 fact " in text(visitor.get("/"))


class TestFirstRun:
    def test_empty_home_explains_tokens_and_storing(self, visitor: Client) -> None:
        page = text(visitor.get("/"))
        assert "No memories yet" in page
        assert "manage.py create_token" in page
        assert "http://testserver/api/v1/memories" in page

    def test_empty_home_links_to_connecting_agents(self, sign_in: Any) -> None:
        assert "under Connect an agent" not in text(sign_in(name="reader").get("/"))
        assert "under Connect an agent" in text(sign_in("add_agenttoken", name="maker").get("/"))

    def test_writing_by_hand_is_offered_with_permission(self, sign_in: Any) -> None:
        assert "Write one Note" not in text(sign_in(name="reader").get("/"))
        assert "Write one Note" in text(sign_in("add_memory", name="writer").get("/"))

    def test_store_with_only_hidden_memories_looks_empty(self, visitor: Client, remember: Any) -> None:
        remember("hush", sensitivity="secret")
        page = text(visitor.get("/"))
        assert "No memories yet" in page
        assert "hush" not in page

    def test_store_with_everything_in_the_trash_links_to_the_trash(
        self, visitor: Client, remember: Any
    ) -> None:
        memory = remember("gone")
        Memory.objects.filter(pk=memory.pk).update(deleted_at=timezone.now())
        for address in ("/", "/memories/", "/glance/"):
            response = visitor.get(address)
            assert "No memories yet" not in text(response)
            assert "All memories are in the trash" in text(response)
            assert main(response).links().count("/trash/") == 1

    def test_hidden_memories_in_the_trash_are_not_mentioned(self, visitor: Client, remember: Any) -> None:
        memory = remember("hush", sensitivity="secret")
        Memory.objects.filter(pk=memory.pk).update(deleted_at=timezone.now())
        for address in ("/", "/memories/", "/glance/"):
            assert "No memories yet" in text(visitor.get(address))


class TestNumbers:
    def test_decided_visible_injections_of_30_days_are_counted(self, visitor: Client, remember: Any) -> None:
        shown = [{"id": remember("one").uid}]
        for helped in (True, True, False, None):
            Injection.objects.create(injected=shown, helped=helped)
        Injection.objects.create(injected=shown, helped=True, sensitivity="secret")
        old = Injection.objects.create(injected=shown, helped=True)
        Injection.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=31))
        assert "2 of 3 injections helped in 30 days" in text(visitor.get("/"))

    def test_memories_are_counted(self, visitor: Client, remember: Any, actor: Any) -> None:
        remember("one", session_id="s1", project="zoo", type="decision", ttl_days=1)
        remember("two", project="zoo", category="farm")
        memories.trash_memories([remember("three").uid], actor)
        services.create_fact(FactDraft(subject="a", predicate="b", object="c"), actor)
        page = text(visitor.get("/"))
        for words in (
            "2 memories",
            "1 session",
            "1 fact",
            "1 in the trash",
            "1 memory expires within 7 days",
        ):
            assert words in page
        assert "Projects zoo 2" in page

    def test_hidden_memories_are_not_counted(self, sign_in: Any, four_levels: Any) -> None:
        client = sign_in("view_private", "view_secret")
        assert "1 memory " in text(client.get("/"))
        client.post("/switch/", {"level": "private", "on": "1"})
        client.post("/switch/", {"level": "secret", "on": "1"})
        assert "3 memories " in text(client.get("/"))
        assert "Projects zoo 3" in text(client.get("/"))

    def test_newest_memories_come_first(self, visitor: Client, remember: Any) -> None:
        remember("older", created_at=datetime(2020, 1, 1, tzinfo=UTC))
        remember("newer")
        page = text(visitor.get("/"))
        assert page.index("newer") < page.index("older")


class TestNeedsAttention:
    def test_reviewer_sees_how_many_memories_wait(self, sign_in: Any, remember: Any) -> None:
        remember("unsure", confidence=0.1)
        assert "1 waiting for review" in text(sign_in("change_memory").get("/"))

    def test_viewer_is_not_asked_to_review(self, visitor: Client, remember: Any) -> None:
        remember("unsure", confidence=0.1)
        assert "waiting for review" not in text(visitor.get("/"))

    def test_hidden_memories_are_not_announced(self, sign_in: Any, remember: Any) -> None:
        remember("shown")
        remember("hush", sensitivity="secret", confidence=0.1, ttl_days=1)
        page = text(sign_in("view_secret", name="looker").get("/"))
        assert "Needs attention" not in page

    def test_poll_follows_what_waits_for_review(self, sign_in: Any, remember: Any, actor: Any) -> None:
        unsure = remember("unsure", confidence=0.1)
        client = sign_in("change_memory")
        etag = client.get("/", headers={"If-None-Match": '"none"'})["ETag"]
        memories.apply_bulk_action("approve", [unsure.uid], Actor("user:ada", Clearance.up_to("public")))
        page = client.get("/", headers={"If-None-Match": etag})
        assert page.status_code == 200
        assert "waiting for review" not in text(page)

    def test_consolidation_that_made_memories_harder_to_find_is_reported_until_it_is_undone(
        self, sign_in: Any, remember: Any
    ) -> None:
        old = remember("faded rope")
        remember("new rope")
        Memory.objects.filter(pk=old.pk).update(updated_at=timezone.now() - timedelta(days=80))
        run = runs.enqueue("consolidate", {}, Actor("user:eve", Clearance.up_to("public")))
        executor.execute(run)
        client = sign_in("add_maintenancerun")
        assert "The last consolidation made 1 unused memory harder to find" in text(client.get("/"))
        assert "harder to find" not in text(sign_in("change_memory", name="bob").get("/"))
        executor.execute(runs.undo(run.uid, Actor("user:eve", Clearance.up_to("public"))))
        assert "harder to find" not in text(client.get("/"))

    def test_home_without_open_items_shows_no_card(self, visitor: Client, remember: Any) -> None:
        remember("calm")
        assert "Needs attention" not in text(visitor.get("/"))


class TestCap:
    def test_project_near_its_cap_is_reported(self, visitor: Client, remember: Any, configure: Any) -> None:
        configure(max_memories=10)
        for number in range(9):
            remember(f"memory {number}", project="zoo")
        assert "zoo : one owner has 9 of at most 10 memories (90%)" in text(visitor.get("/"))

    def test_project_is_compared_with_its_own_cap(
        self, visitor: Client, remember: Any, configure: Any
    ) -> None:
        configure(max_memories=10)
        for name, cap in (("zoo", 40), ("farm", 9)):
            configure_project(name, system_actor("tests"), max_memories=cap)
            for number in range(9):
                remember(f"memory {number}", project=name)
        page = text(visitor.get("/"))
        assert "farm : one owner has 9 of at most 9 memories (100%)" in page
        assert "zoo :" not in page

    def test_project_below_the_warning_is_not_reported(
        self, visitor: Client, remember: Any, configure: Any
    ) -> None:
        configure(max_memories=10)
        for number in range(8):
            remember(f"memory {number}", project="zoo")
        assert "at most" not in text(visitor.get("/"))


class TestActivity:
    def test_bar_is_a_day_and_has_a_text_and_a_table(self, visitor: Client, remember: Any) -> None:
        now = timezone.now()
        remember("one", type="bugfix", created_at=now - timedelta(days=2))
        remember("two", type="feature", created_at=now - timedelta(days=1))
        remember("three", type="decision", created_at=now - timedelta(days=1))
        page = visitor.get("/").content.decode()
        assert "Memories stored in each day" in page
        before, yesterday = ((now - timedelta(days=n)).date() for n in (2, 1))
        assert f"most, 2, in {yesterday}." in page
        rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", page, re.S)
        assert [re.sub(r"<[^>]+>", " ", row).split() for row in rows] == [
            [str(yesterday), "2"],
            [str(before), "1"],
        ]

    def test_older_memories_are_not_in_it(self, visitor: Client, remember: Any) -> None:
        remember("one", created_at=datetime(2020, 3, 5, tzinfo=UTC))
        assert "No new memories in the last 30 days" in text(visitor.get("/"))

    def test_bar_links_to_its_memories(self, visitor: Client, remember: Any) -> None:
        day = timezone.now() - timedelta(days=3)
        remember("of that day", created_at=day)
        remember("of now")
        page = visitor.get("/").content.decode()
        address = re.search(rf'href="(/memories/\?[^"]*since={day.date()}&amp;until={day.date()})"', page)
        assert address
        listed = visitor.get(address[1].replace("&amp;", "&")).content.decode()
        assert "of that day" in listed
        assert "of now" not in listed


class TestJournal:
    def test_journal_verification_is_loaded_later(self, overseer: Client, remember: Any) -> None:
        remember("one")
        assert 'hx-get="/home/journal/" hx-trigger="load"' in overseer.get("/").content.decode()
        assert "unbroken 1 entry, checked 20" in text(overseer.get("/home/journal/"))

    def test_tampering_is_shown_as_an_error(self, overseer: Client, remember: Any) -> None:
        remember("one")
        remember("two")
        schema.drop_triggers()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE memoryhub_journalentry SET actor = 'someone' WHERE seq = 1")
        schema.install()
        page = overseer.get("/home/journal/").content.decode()
        assert 'role="alert"' in page
        assert "entry 1 is not as it was written" in text(overseer.get("/home/journal/"))

    def test_unchanged_journal_is_not_verified_again_at_once(self, overseer: Client, remember: Any) -> None:
        remember("one")
        overseer.get("/home/journal/")
        with CaptureQueriesContext(connection) as queries:
            overseer.get("/home/journal/")
        assert not [q for q in queries if "CAST" in q["sql"]]
        remember("two")
        assert "2 entries" in text(overseer.get("/home/journal/"))

    def test_viewer_of_less_gets_no_numbers(self, visitor: Client, remember: Any) -> None:
        remember("one")
        assert "unbroken checked 20" in text(visitor.get("/home/journal/"))
        schema.drop_triggers()
        JournalEntry.objects.filter(seq=1).update(actor="someone")
        schema.install()
        remember("two")
        assert "an entry is not as it was written" in text(visitor.get("/home/journal/"))


def test_number_of_queries_does_not_grow_with_the_rows(visitor: Client, remember: Any) -> None:
    counted = []
    for upto in (2, 12):
        for number in range(upto):
            remember(f"memory {upto} {number}", tags=["a"], project=f"p{number}", session_id=f"s{number}")
        visitor.get("/")
        with CaptureQueriesContext(connection) as queries:
            visitor.get("/")
        counted.append(len(queries))
    assert counted[0] == counted[1]


@pytest.mark.django_db(transaction=True)
class TestLostJournalRows:
    ACKNOWLEDGE = "/home/journal/acknowledge/"

    @pytest.fixture
    def lost(self, remember: Any) -> journal.Loss:
        for n in range(5):
            remember(f"memory {n}")
        cut_journal(3)
        remember("the next")
        found = journal.pending()
        assert found is not None
        return found

    @pytest.fixture
    def administrator(self, db: None) -> Client:
        client = Client()
        client.force_login(User.objects.create_superuser("root", password="a good password"))
        return client

    def test_lost_rows_are_shown_to_an_administrator(self, administrator: Client, lost: journal.Loss) -> None:
        page = text(administrator.get("/"))
        assert "2 journal rows lost (4 to 5)" in page
        assert lost.files[0] in page
        assert "Acknowledge the loss" in page
        assert "2 journal rows lost: 4 to 5" in text(administrator.get("/home/journal/"))
        assert "2 rows lost (4 to 5)" in text(administrator.post("/journal/verify/", follow=True))

    def test_lost_rows_are_shown_on_an_empty_home(self, administrator: Client, lost: Any) -> None:
        Memory.objects.all().delete()
        assert "2 journal rows lost" in text(administrator.get("/"))

    def test_viewer_of_everything_sees_the_loss_without_the_button(self, sign_in: Any, lost: Any) -> None:
        page = text(sign_in("view_private", "view_secret").get("/"))
        assert "2 journal rows lost" in page
        assert "Acknowledge the loss" not in page

    def test_viewer_of_less_does_not_see_the_loss(self, sign_in: Any, lost: Any) -> None:
        confined = sign_in("view_private", "view_secret", name="confined")
        Membership.objects.create(user=User.objects.get(username="confined"), project="p")
        for client in (sign_in("view_private"), confined):
            assert "rows lost" not in text(client.get("/"))
            assert "rows lost" not in text(client.get("/home/journal/"))
            assert "rows lost" not in text(client.post("/journal/verify/", follow=True))

    def test_acknowledged_loss_is_not_shown(self, administrator: Client, lost: Any) -> None:
        page = text(administrator.post(self.ACKNOWLEDGE, {"through": lost.recorded_in}, follow=True))
        assert "Loss of journal rows acknowledged." in page
        assert "2 journal rows lost" not in page
        assert journal.verify().ok
        assert JournalEntry.objects.get(operation="journal_loss_acknowledged").actor == "user:root"
        assert "unbroken" in text(administrator.get("/home/journal/"))

    def test_loss_that_the_page_did_not_show_stays(self, administrator: Client, lost: Any) -> None:
        page = text(administrator.post(self.ACKNOWLEDGE, {"through": "1"}, follow=True))
        assert "Nothing to acknowledge" in page
        assert journal.pending() == lost

    def test_only_administrators_acknowledge_a_loss(self, sign_in: Any, lost: Any) -> None:
        client = sign_in("view_private", "view_secret")
        assert client.post(self.ACKNOWLEDGE, {"through": lost.recorded_in}).status_code == 403
        assert journal.pending() == lost

    @each("through", ["", "x", "-1", "9" * 30, "²"])
    def test_invalid_number_is_refused(self, administrator: Client, lost: Any, through: str) -> None:
        assert administrator.post(self.ACKNOWLEDGE, {"through": through}).status_code == 400
        assert administrator.get(self.ACKNOWLEDGE).status_code == 405
