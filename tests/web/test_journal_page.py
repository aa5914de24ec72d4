"""The journal page: visibility, filters, readable details, and verification on request."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.facts import services
from memoryhub.maintenance import executor, runs
from memoryhub.memories import erase_memories
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.web import journal as views
from memoryhub.web.templatetags.pages import detail_items
from tests.web.markup import PAYLOAD, find_dangers, list_title, main

Remember = Callable[..., Memory]
OLD = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def boss(db: None) -> Client:
    """A superuser, with access to the admin."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client


def rows(client: Client, **query: str) -> list[int]:
    html = client.get("/journal/", query).content.decode()
    return [int(seq) for seq in re.findall(r'data-label="Row" class="num"><a[^>]+>(\d+)<', html)]


@pytest.fixture
def old_skip(remember: Remember, actor: Actor) -> JournalEntry:
    """A row of the kind that was written for a skipped text of an unknown level, on a public memory."""
    memory = remember("Ada leads the billing team")
    change = journal.memory_change("dedup_skip", memory, candidate_hash="5f" * 32)
    with transaction.atomic():
        journal.record(actor, [change])
    return JournalEntry.objects.get(operation="dedup_skip")


class TestSkippedHash:
    @pytest.mark.parametrize("path", ["/journal/", "/journal/{seq}/", "/memories/{uid}/"])
    def test_old_row_is_shown_without_the_hash(
        self, overseer: Client, old_skip: JournalEntry, path: str
    ) -> None:
        html = overseer.get(path.format(seq=old_skip.seq, uid=old_skip.object_id)).content.decode()
        assert str(old_skip.seq) in html
        assert "candidate" not in html
        assert "5f" * 4 not in html

    def test_admin_shows_an_old_row_without_the_hash(self, boss: Client, old_skip: JournalEntry) -> None:
        html = boss.get(f"/admin/memoryhub/journalentry/{old_skip.seq}/change/").content.decode()
        assert "dedup_skip" in html
        assert "5f" * 4 not in html


class TestHashOfErasedText:
    """Pages show the hash of a text only while it can be read."""

    def test_pages_and_admin_omit_it(
        self, overseer: Client, boss: Client, remember: Remember, actor: Actor
    ) -> None:
        kept, gone = remember("a text that stays"), remember("a text that goes")
        erase_memories([gone.uid], actor)
        row = JournalEntry.objects.get(operation="erase")
        pages = [(overseer, f"/journal/{end}") for end in ("", f"{row.seq}/")]
        pages += [(boss, f"/admin/memoryhub/journalentry/{end}") for end in ("", f"{row.seq}/change/")]
        shown = [client.get(path).content.decode() for client, path in pages]
        assert all(gone.uid in html for html in shown)
        assert not any(gone.content_hash[:12] in html for html in shown)
        assert kept.content_hash[:12] in shown[0]


class TestVisibility:
    def test_each_user_sees_rows_about_visible_memories_only(
        self, sign_in: Any, four_levels: dict[str, Memory]
    ) -> None:
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, levels in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            html = client.get("/journal/").content.decode()
            assert {level for level, memory in four_levels.items() if memory.uid in html} == levels
            assert {level for level, memory in four_levels.items() if list_title(memory) in html} == levels

    def test_rows_about_what_became_secret_disappear(
        self, overseer: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("public first")
        assert rows(overseer)
        memories.update_memory(memory.uid, MemoryPatch(sensitivity="secret"), actor)
        assert rows(overseer) == []

    def test_rows_about_someone_elses_own_stay_out(self, overseer: Client, remember: Remember) -> None:
        remember("bob's own", scope="personal", by=Actor("user:bob", Clearance.up_to("public", "bob")))
        assert rows(overseer) == []


class TestViewerOfLess:
    """The number of a row counts the hidden ones too."""

    def test_rows_have_no_number(self, visitor: Client, overseer: Client, remember: Remember) -> None:
        uid = remember().uid
        for path in ("/journal/", f"/memories/{uid}/"):
            assert ">Row</th>" in overseer.get(path).content.decode()
            page = visitor.get(path).content.decode()
            assert "insert" in page
            assert ">Row</th>" not in page
            assert 'href="/journal/1/"' not in page

    def test_row_by_its_number_is_not_found(
        self, visitor: Client, overseer: Client, remember: Remember
    ) -> None:
        remember()
        assert overseer.get("/journal/1/").status_code == 200
        assert visitor.get("/journal/1/").status_code == 404

    def test_verification_has_no_numbers(self, visitor: Client, remember: Remember) -> None:
        for n in range(3):
            remember(f"m{n}")
        assert (
            "The chain is intact. Each row is linked"
            in main(visitor.post("/journal/verify/", follow=True)).words
        )
        schema.drop_triggers()
        JournalEntry.objects.filter(seq=2).update(actor="someone else")
        schema.install()
        words = main(visitor.post("/journal/verify/", follow=True)).words
        assert "The chain is broken. A row is not as it was written" in words


class TestFilters:
    @pytest.fixture(autouse=True)
    def world(self, remember: Remember, actor: Actor) -> dict[str, Memory]:
        early, late = datetime(2024, 3, 10, 12, tzinfo=UTC), datetime(2024, 3, 11, 12, tzinfo=UTC)
        with transaction.atomic():
            journal.record(Actor("token:one"), [journal.Change("insert", "memory", "m1")], early)
        with transaction.atomic():
            journal.record(Actor("user:two"), [journal.Change("erase", "memory", "m2")], late)
        return {}

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({}, [2, 1]),
            ({"operation": "erase"}, [2]),
            ({"operation": "eras"}, []),
            ({"actor": "TWO"}, [2]),
            ({"actor": "o"}, [2, 1]),
            ({"object_id": "m1"}, [1]),
            ({"since": "2024-03-11"}, [2]),
            ({"until": "2024-03-10"}, [1]),
            ({"since": "2024-03-10", "until": "2024-03-11"}, [2, 1]),
        ],
    )
    def test_each_narrows(self, overseer: Client, query: dict[str, str], found: list[int]) -> None:
        assert rows(overseer, **query) == found

    @pytest.mark.parametrize(("field", "value"), [("since", "x"), ("until", "x"), ("actor", "x" * 1001)])
    def test_a_wrong_one_is_shown_at_its_field(self, overseer: Client, field: str, value: str) -> None:
        response = overseer.get("/journal/", {field: value})
        assert response.status_code == 422
        assert field in response.context["form"].errors

    def test_an_invalid_cursor_is_refused(self, overseer: Client) -> None:
        assert overseer.get("/journal/", {"cursor": "zzz"}).status_code == 400


class TestPage:
    def test_each_page_starts_after_the_previous_one(
        self, overseer: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "PAGE_SIZE", 2)
        for n in range(5):
            remember(f"m{n}")
        seen, address = [], "/journal/"
        while address:
            response = overseer.get(address)
            seen += [
                int(seq) for seq in re.findall(r'"Row" class="num"><a[^>]+>(\d+)<', response.content.decode())
            ]
            following = [link for link in main(response).links() if "cursor=" in link]
            address = f"/journal/{following[-1]}" if following else ""
        assert seen == [5, 4, 3, 2, 1]

    def test_details_read_as_words(self, overseer: Client, remember: Remember, actor: Actor) -> None:
        memory = remember()
        memories.update_memory(memory.uid, MemoryPatch(title="t", tags=["x"]), actor)
        words = " ".join(main(overseer.get("/journal/")).words.split())
        assert "fields tags, title" in words
        assert "revision 1" in words
        assert "{" not in words

    def test_a_memory_that_is_gone_is_named_without_a_link(
        self, overseer: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        assert f"/memories/{memory.uid}/" in main(overseer.get("/journal/")).links()
        Memory.objects.filter(pk=memory.pk).delete()
        response = overseer.get("/journal/")
        assert f"/memories/{memory.uid}/" not in main(response).links()
        assert memory.uid in main(response).words

    def test_it_shows_titles_of_visible_memories_and_no_text(
        self, overseer: Client, remember: Remember
    ) -> None:
        remember("the words inside", title="The title")
        words = main(overseer.get("/journal/")).words
        assert "The title" in words
        assert "the words inside" not in words

    def test_facts_are_named_and_linked_unless_secret(
        self, sign_in: Any, overseer: Client, actor: Actor
    ) -> None:
        for level in ("public", "private", "secret"):
            fact = FactDraft(subject="board", predicate="led_by", object=f"{level} Mara", sensitivity=level)
            services.create_fact(fact, actor)
        public = Fact.objects.get(sensitivity="public")
        boundary = FactDraft(subject="session:9f1c", predicate="boundary_at", object='{"at": "Bash"}')
        services.create_fact(boundary, actor)
        insider = sign_in("view_private", "view_secret", name="all", on=("private", "secret"))
        for client, shown in ((overseer, {"public"}), (insider, {"public", "private"})):
            page = main(client.get("/journal/"))
            named = re.findall(r"board led by (\w+) Mara", page.words)
            assert set(named) == shown
            assert f"/facts/{public.uid}/" in page.links()
            assert "New subject in a session" in page.words
            assert "boundary at" not in page.words

    def test_no_text_is_rendered_as_markup(self, overseer: Client, remember: Remember) -> None:
        actor = Actor(PAYLOAD, Clearance.up_to("secret", "ada"))
        remember("words", title=PAYLOAD, by=actor)
        change = journal.Change(PAYLOAD[:40], PAYLOAD[:20], PAYLOAD, {PAYLOAD: PAYLOAD, "list": [PAYLOAD]})
        with transaction.atomic():
            journal.record(actor, [change])
        response = overseer.get("/journal/")
        assert len(re.findall(r'data-label="Row"', response.content.decode())) == 2
        assert find_dangers(response.content.decode()) == []

    def test_the_number_of_queries_does_not_grow(self, overseer: Client, remember: Remember) -> None:
        counts = []
        for n in range(2):
            for m in range(1 + 15 * n):
                remember(f"m{n}{m}")
            with CaptureQueriesContext(connection) as queries:
                overseer.get("/journal/")
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_the_list_does_not_verify(
        self, overseer: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remember()
        monkeypatch.delattr(journal, "verify")
        assert rows(overseer) == [1]


class TestVerify:
    def test_an_intact_chain_is_reported_as_intact(self, overseer: Client, remember: Remember) -> None:
        remember()
        response = overseer.post("/journal/verify/", follow=True)
        assert response.redirect_chain == [("/journal/", 302)]
        assert "The chain is intact. 1 row read" in main(response).words

    def test_htmx_gets_the_verdict_only(self, overseer: Client, remember: Remember) -> None:
        remember()
        html = overseer.post("/journal/verify/", HTTP_HX_REQUEST="true").content.decode()
        assert "The chain is intact." in html
        assert "<html" not in html

    def test_a_broken_chain_names_its_first_bad_row(self, overseer: Client, remember: Remember) -> None:
        for n in range(3):
            remember(f"m{n}")
        schema.drop_triggers()
        JournalEntry.objects.filter(seq=2).update(actor="someone else")
        schema.install()
        words = main(overseer.post("/journal/verify/", follow=True)).words
        assert "The chain is broken at row 2." in words

    def test_an_address_alone_does_not_verify(self, overseer: Client) -> None:
        assert overseer.get("/journal/verify/").status_code == 405


def test_details_that_are_long_are_counted_and_empty_ones_left_out():
    detail = {"changes": [["a", 0.5, 0.4], ["b", 0.6, 0.7]], "projects": [], "rights": ["read", "write"]}
    assert detail_items(detail) == [("changes", "2"), ("rights", "read, write")]


def test_changes_of_a_run_link_to_it(boss: Client, remember: Remember, actor: Actor) -> None:
    memory = remember("paint")
    Memory.objects.update(updated_at=OLD, created_at=OLD)
    run = runs.enqueue("consolidate", {}, actor)
    executor.execute(run)
    assert Memory.objects.get().importance != memory.importance
    shown = main(boss.get("/journal/", {"operation": "consolidate"}))
    assert "memories of a run" in shown.words
    assert f"/maintenance/runs/{run.uid}/" in shown.links()


def test_flags_are_shown_in_the_words_of_the_review() -> None:
    flags = ["governor:override", "governor:exfiltration"]
    assert detail_items({"flags": flags}) == [("flags", "replaces instructions, sends data away")]


@pytest.mark.parametrize("path", ["/journal/", "/admin/memoryhub/memory/{pk}/history/"])
def test_reason_that_repeats_the_operation_is_left_out(
    boss: Client, remember: Remember, actor: Actor, path: str
) -> None:
    memory = remember("first words")
    memories.update_memory(memory.uid, MemoryPatch(title="Edited by hand"), actor)
    memories.update_memory(memory.uid, MemoryPatch(title="Undone by hand"), actor, reason="undo")
    html = boss.get(path.format(pk=memory.pk)).content.decode()
    reasons = re.findall(r"reason(?:</span>|:) (\w+)", html)
    assert reasons == ["undo"]


def test_session_ids_are_in_the_details(boss: Client, actor: Actor) -> None:
    session = "3165e069-bc55-52d4-a963-d7cc26c474cf"
    change = journal.Change("consolidate", "memories", session, detail={"changes": 11, "run": session})
    with transaction.atomic():
        journal.record(actor, [change])
    html = boss.get("/journal/").content.decode()
    assert html.count(session) == html.count(f"<code>{session}</code>") == 2


class TestUndoOfAnAction:
    """The journal offers the undo of a bulk action whose response the browser did not receive."""

    @pytest.fixture
    def trashed(self, boss: Client, remember: Remember) -> list[JournalEntry]:
        uids = [remember(f"memory {number}").uid for number in range(3)]
        boss.post("/acts/", {"act": "trash", "uid": uids})
        return list(JournalEntry.objects.filter(operation="delete"))

    def test_each_row_offers_the_undo_of_the_whole_action(
        self, boss: Client, trashed: list[JournalEntry]
    ) -> None:
        for row in trashed:
            html = boss.get(f"/journal/{row.seq}/").content.decode()
            assert "This action changed 3 memories." in html
        [(action, fields)] = re.findall(r'<form method="post" action="(/acts/[^"]+)"(.*?)</form>', html, re.S)
        values = dict(re.findall(r'name="(first|last|next)" value="([^"]*)"', fields))
        assert boss.post(action, values).status_code == 302
        assert Memory.objects.live().count() == 3
        assert b"This action changed" not in boss.get(f"/journal/{trashed[0].seq}/").content

    def test_other_people_do_not_get_it(self, trashed: list[JournalEntry]) -> None:
        other = Client()
        other.force_login(User.objects.create_superuser("other"))
        response = other.get(f"/journal/{trashed[0].seq}/")
        assert response.status_code == 200
        assert b"This action changed" not in response.content
