"""The page of a memory and its visibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import services
from memoryhub.memories.schemas import EntityDraft, FactDraft, MemoryPatch
from memoryhub.models import Event, Injection, JournalEntry, Memory, Session
from tests.cases import each
from tests.clients import turn_on_levels
from tests.web.markup import main, submitted_fields

Remember = Callable[..., Memory]


def url(memory: Memory, rest: str = "") -> str:
    return f"/memories/{memory.uid}/{rest}"


class TestVisibility:
    @pytest.mark.parametrize("rest", ["", "history/"])
    def test_person_without_permissions_sees_public_memories_only(
        self, visitor: Client, four_levels: dict[str, Memory], rest: str
    ) -> None:
        answers = {level: visitor.get(url(memory, rest)).status_code for level, memory in four_levels.items()}
        assert answers == {"public": 200, "private": 404, "secret": 404, "cosmic": 404}

    @pytest.mark.parametrize("rest", ["", "history/"])
    def test_permission_without_its_switch_shows_nothing(
        self, sign_in: Any, four_levels: dict[str, Memory], rest: str
    ) -> None:
        client = sign_in("view_private", "view_secret", "repair_unknown")
        answers = {level: client.get(url(memory, rest)).status_code for level, memory in four_levels.items()}
        assert answers == {"public": 200, "private": 404, "secret": 404, "cosmic": 404}

    def test_switch_shows_only_its_level(self, sign_in: Any, four_levels: dict[str, Memory]) -> None:
        client = sign_in("view_private", "view_secret", on=["secret"])
        answers = {level: client.get(url(memory)).status_code for level, memory in four_levels.items()}
        assert answers == {"public": 200, "private": 404, "secret": 200, "cosmic": 404}

    def test_unknown_level_is_hidden_from_all(self, sign_in: Any, four_levels: dict[str, Memory]) -> None:
        client = sign_in("view_private", "view_secret", "repair_unknown", on=["private", "secret"])
        answers = {level: client.get(url(memory)).status_code for level, memory in four_levels.items()}
        assert answers == {"public": 200, "private": 200, "secret": 200, "cosmic": 404}

    def test_personal_memory_is_visible_to_its_owner_only(
        self, remember: Remember, insider: Client, sign_in: Any
    ) -> None:
        mine = remember("ada's own", scope="personal")
        bob = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        assert insider.get(url(mine)).status_code == 200
        assert bob.get(url(mine)).status_code == 404

    def test_hidden_memory_looks_like_a_missing_one(
        self, visitor: Client, four_levels: dict[str, Memory]
    ) -> None:
        hidden, missing = visitor.get(url(four_levels["secret"])), visitor.get("/memories/aaaaaaaaaaaaaaaa/")
        assert main(hidden).words == main(missing).words


class TestReveal:
    def reveals(self) -> list[tuple[str, str, str]]:
        rows = JournalEntry.objects.filter(operation="reveal").order_by("seq")
        return [(row.actor, row.object_id, row.detail["page"]) for row in rows]

    def test_each_reveal_is_journaled_with_the_persons_name(
        self, insider: Client, four_levels: dict[str, Memory]
    ) -> None:
        secret = four_levels["secret"]
        insider.get(url(secret))
        assert self.reveals() == [("user:ada", secret.uid, "page")]
        insider.get(url(secret))
        assert len(self.reveals()) == 2

    def test_form_and_history_of_a_secret_count_as_a_reveal(
        self, sign_in: Any, four_levels: dict[str, Memory]
    ) -> None:
        client = sign_in("change_memory", "view_secret", on=["secret"])
        client.get(url(four_levels["secret"], "edit/"))
        client.get(url(four_levels["secret"], "history/"))
        assert [page for _, _, page in self.reveals()] == ["edit", "history"]

    def test_other_levels_are_not_journaled(self, insider: Client, four_levels: dict[str, Memory]) -> None:
        for memory in four_levels.values():
            if memory.sensitivity != "secret":
                insider.get(url(memory))
        assert self.reveals() == []

    def test_refused_reveal_is_not_journaled(self, visitor: Client, four_levels: dict[str, Memory]) -> None:
        visitor.get(url(four_levels["secret"]))
        assert self.reveals() == []

    def test_secret_version_counts_as_a_reveal(
        self, insider: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("first words", sensitivity="secret")
        memories.update_memory(memory.uid, MemoryPatch(content="second words", sensitivity="public"), actor)
        insider.get(url(memory))
        assert len(self.reveals()) == 1

    def test_journal_entry_contains_no_text(self, insider: Client, four_levels: dict[str, Memory]) -> None:
        insider.get(url(four_levels["secret"]))
        row = JournalEntry.objects.get(operation="reveal")
        assert set(row.detail) == {"content_hash", "page"}


class TestContent:
    def test_every_field_is_shown(self, visitor: Client, remember: Remember) -> None:
        memory = remember(
            "# Heading\n\nThe *content* itself",
            title="A title of its own",
            subtitle="A subtitle of its own",
            abstract="An abstract of its own",
            overview="An overview of its own",
            type="discovery",
            category="operations",
            importance=0.91,
            trust=0.82,
            confidence=0.73,
            project="apollo",
            session_id="session-9",
            key="the-key",
            tags=["tag-one"],
            concepts=["gotcha"],
            aliases=["moonshot"],
            files_read=["src/read.py"],
            files_modified=["src/modified.py"],
            entities=[EntityDraft(entity="Margaret", entity_type="person")],
            discovery_tokens=4321,
        )
        shown = main(visitor.get(url(memory)))
        for text in (
            *(
                "A title of its own",
                "A subtitle of its own",
                "An abstract of its own",
                "An overview of its own",
            ),
            *("discovery", "operations", "0.91", "0.82", "0.73", "apollo", "session-9", "the-key", "tag-one"),
            *(
                "gotcha",
                "moonshot",
                "src/read.py",
                "src/modified.py",
                "Margaret",
                "person",
                "4321",
                "token:tests",
            ),
            *(memory.uid, memory.content_hash, f"{memory.created_at:%Y-%m-%d %H:%M:%S}"),
        ):
            assert text in shown.words, text
        assert "<em>content</em>" in visitor.get(url(memory)).content.decode()

    def test_a_memory_and_its_replacement_link_to_each_other(
        self, visitor: Client, remember: Remember
    ) -> None:
        new = remember("We deploy with Actions", title="Actions")
        old = remember("We deploy with Jenkins", title="Jenkins", superseded_by=new.uid)
        shown = main(visitor.get(url(old)))
        assert "Replaced by Actions." in shown.words
        assert url(new) in shown.links()
        shown = main(visitor.get(url(new)))
        assert "Replaces" in shown.words
        assert url(old) in shown.links()

    def test_hidden_replacements_are_not_shown(self, sign_in: Any, remember: Remember) -> None:
        visitor = sign_in("view_secret")
        new = remember("hidden words", title="Hidden", sensitivity="secret", aliases=["hidden-alias"])
        old = remember("open words", title="Open", superseded_by=new.uid)
        page = visitor.get(url(old)).content.decode()
        for text in ("Replaced by", new.uid, "Hidden", "hidden-alias"):
            assert text not in page
        secret = remember("older", sensitivity="secret", superseded_by=old.uid)
        page = visitor.get(url(old)).content.decode()
        assert "Replaces" not in page
        assert secret.uid not in page
        turn_on_levels(visitor, "secret")
        page = visitor.get(url(old)).content.decode()
        assert new.uid in page
        assert secret.uid in page

    def test_labels_files_and_places_link_to_their_lists(self, visitor: Client, remember: Remember) -> None:
        memory = remember(
            *["text"],
            tags=["a&b"],
            concepts=["how it works"],
            files_modified=["src/a b.py"],
            project="p&q",
            session_id="s/1",
        )
        links = main(visitor.get(url(memory))).links()
        assert "/memories/?tag=a%26b" in links
        assert "/memories/?concept=how%20it%20works" in links
        assert "/memories/?file=src%2Fa%20b.py" in links
        assert "/memories/?project=p%26q" in links
        assert "/sessions/s/1/?project=p%26q" in links

    def test_stored_text_is_in_the_page_as_written(self, visitor: Client, remember: Remember) -> None:
        memory = remember("some **bold** words\n  and an indent")
        assert "some **bold** words\n  and an indent</pre>" in visitor.get(url(memory)).content.decode()

    def test_first_line_that_is_the_title_is_not_repeated(self, visitor: Client, remember: Remember) -> None:
        memory = remember("Fix the lock\n\nIt was held too long.")
        rendered = visitor.get(url(memory)).content.decode().partition('view-read" dir="auto">')[2]
        assert rendered.startswith("<p>It was held too long.</p>")

    def test_first_line_of_a_paragraph_that_is_the_title_stays(
        self, visitor: Client, remember: Remember
    ) -> None:
        memory = remember("Fix the lock\nwhich was held too long")
        rendered = visitor.get(url(memory)).content.decode().partition('view-read" dir="auto">')[2]
        assert rendered.startswith("<p>Fix the lock")

    def test_opening_the_page_is_not_use(self, visitor: Client, remember: Remember) -> None:
        memory = remember()
        before = Memory.objects.values().get(pk=memory.pk)
        visitor.get(url(memory))
        assert Memory.objects.values().get(pk=memory.pk) == before

    def test_facts_and_journal_are_shown(self, visitor: Client, remember: Remember, actor: Actor) -> None:
        memory = remember()
        draft = FactDraft(
            subject="the lock", predicate="is held by", object="the writer", memory_id=memory.uid
        )
        services.create_fact(draft, actor)
        shown = main(visitor.get(url(memory)))
        assert "is held by" in shown.words
        assert "insert" in shown.words
        assert f"/journal/?object_id={memory.uid}" in shown.links()

    def test_event_of_the_memory_is_shown(self, visitor: Client, remember: Remember) -> None:
        memory = remember(session_id="s", project="p")
        session = Session.objects.get(session_id="s")
        Event.objects.create(session=session, event="tool:post", tool_name="Carpentry", memory=memory)
        Event.objects.create(session=session, event="session:end", memory=memory)
        words = main(visitor.get(url(memory))).words
        assert "Carpentry" in words
        assert "Session end" in words


class TestRelated:
    def test_related_memories_are_shown_with_shared_files(self, visitor: Client, remember: Remember) -> None:
        memory = remember("this one", files_modified=["src/a.py", "src/b.py"])
        remember("shares one file", files_read=["src/a.py"])
        remember("shares two files", files_modified=["src/a.py", "src/b.py"])
        remember("shares nothing", files_modified=["src/c.py"])
        words = main(visitor.get(url(memory))).words
        assert words.index("shares two files") < words.index("shares one file")
        assert "shares nothing" not in words

    def test_failed_semantic_search_is_reported(self, visitor: Client, remember: Remember) -> None:
        words = main(visitor.get(url(remember("alone in the store")))).words
        page_text = " ".join(words.split())
        assert "Nothing was found. Compared by words: no embeddings are configured." in page_text

    def test_session_neighbours_are_shown_in_order(self, visitor: Client, remember: Remember) -> None:
        now = timezone.now()
        made = [
            remember(f"step {n}", session_id="s", project="p", created_at=now - timedelta(hours=9 - n))
            for n in range(8)
        ]
        remember("step elsewhere", session_id="s", project="another")
        words = main(visitor.get(url(made[4]))).words.partition("Same session")[2]
        words = words.partition("Similar memories")[0]
        around = [n for n in range(8) if f"step {n}" in words]
        assert around == [1, 2, 3, 5, 6, 7]
        assert "step elsewhere" not in words

    def test_hidden_trashed_and_expired_memories_are_not_related(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        same: dict[str, Any] = {"files_modified": ["src/a.py"], "session_id": "s", "project": "p"}
        memory = remember("this one", **same)
        for level in ("private", "secret"):
            remember(f"{level} neighbour", sensitivity=level, **same)
        odd = remember("cosmic neighbour", **same)
        Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
        memories.trash_memories([remember("trashed neighbour", **same).uid], actor)
        memories.apply_bulk_action("expire", [remember("expired neighbour", **same).uid], actor)
        remember(
            "personal neighbour", scope="personal", by=Actor("x", Clearance.up_to("public", "bob")), **same
        )
        assert "neighbour" not in main(visitor.get(url(memory))).words

    def test_merge_target_is_shown_only_if_visible(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        whole = remember("the whole story", sensitivity="private")
        part = remember("a part")
        memories.trash_memories([part.uid], actor)
        Memory.objects.filter(pk=part.pk).update(merged_into=whole)
        assert "the whole story" not in main(visitor.get(url(part))).words
        assert whole.uid not in visitor.get(url(part)).content.decode()

    def test_merge_target_is_named(self, insider: Client, remember: Remember, actor: Actor) -> None:
        whole, part = remember("the whole story", sensitivity="private"), remember("a part")
        memories.trash_memories([part.uid], actor)
        Memory.objects.filter(pk=part.pk).update(merged_into=whole)
        assert "Merged into the whole story" in main(insider.get(url(part))).words
        assert "a part" in main(insider.get(url(whole))).words

    def test_hidden_facts_and_events_are_not_shown(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember(session_id="s", project="p")
        for level in ("private", "secret"):
            draft = FactDraft(
                subject="x", predicate="y", object=f"{level} object", memory_id=memory.uid, sensitivity=level
            )
            services.create_fact(draft, actor)
        session = Session.objects.get(session_id="s")
        Event.objects.create(
            session=session, event="tool:post", tool_name="Hidden tool", memory=memory, sensitivity="secret"
        )
        words = main(visitor.get(url(memory))).words
        assert "object" not in words.replace("Object", "")
        assert "Hidden tool" not in words


class TestEnded:
    def test_trashed_memory_offers_to_restore(self, sign_in: Any, remember: Remember, actor: Actor) -> None:
        memory = remember()
        memories.trash_memories([memory.uid], actor)
        response = sign_in("delete_memory").get(url(memory))
        assert "In the trash" in main(response).words
        assert url(memory, "restore/") in [form["action"] for form in main(response).all("form")]

    def test_expired_memory_offers_to_restore(self, sign_in: Any, remember: Remember, actor: Actor) -> None:
        memory = remember()
        memories.apply_bulk_action("expire", [memory.uid], actor)
        response = sign_in("change_memory").get(url(memory))
        assert "Expired" in main(response).words
        assert url(memory, "restore/") in [form["action"] for form in main(response).all("form")]

    def test_restore_button_requires_permission(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        memories.trash_memories([memory.uid], actor)
        assert main(visitor.get(url(memory))).all("form") == []


class TestUses:
    def inject(self, memory: Memory, **fields: Any) -> Injection:
        return Injection.objects.create(injected=[{"id": memory.uid, "score": 0.5}], **fields)

    def test_prompts_that_received_it_are_listed_newest_first(
        self, visitor: Client, remember: Remember
    ) -> None:
        memory, other = remember(), remember("another")
        now = timezone.now()
        session = Session.objects.create(session_id="9f1c", project="p")
        Event.objects.create(session=session, event="prompt:submit", preview="Why do retries fail?")
        self.inject(memory, prompt_preview="an old question", at=now - timedelta(days=9))
        used = [{"id": memory.uid, "used": True, "why": "file"}]
        Injection.objects.create(injected=used, prompt_preview="a new one", session=session, project="p")
        self.inject(other, prompt_preview="about something else")
        page = main(visitor.get(url(memory))).words
        part = page.partition("Used in")[2].partition("History")[0]
        assert "received it with 2 prompts" in part
        assert part.index("a new one") < part.index("an old question")
        assert "in Why do retries fail?" in part
        assert "used: its file was touched" in part
        assert "something else" not in part
        assert "Prompts in each" in visitor.get(url(memory)).content.decode()

    def test_hidden_prompts_are_neither_listed_nor_counted(self, sign_in: Any, remember: Remember) -> None:
        memory = remember()
        for level in ("public", "private", "secret", "classified"):
            self.inject(memory, prompt_preview=f"asked in {level}", sensitivity=level)
        member = sign_in("view_private", on=["private"])
        words = main(member.get(url(memory))).words
        assert "received it with 2 prompts" in words
        assert "asked in private" in words
        assert "asked in secret" not in words
        assert "asked in classified" not in words

    def test_title_of_a_session_comes_from_visible_rows(self, visitor: Client, remember: Remember) -> None:
        hidden = remember("Session: plans for the vault", type="session_summary", sensitivity="private")
        session = Session.objects.create(session_id="9f1c", project="p", summary=hidden)
        Event.objects.create(
            session=session, event="prompt:submit", preview="a private question", sensitivity="private"
        )
        remember("the key of the vault", session_id="9f1c", project="p", sensitivity="private")
        memory = remember("the opening hours", session_id="9f1c", project="p")
        assert "Sessionthe opening hours" in main(visitor.get(url(memory))).words
        Event.objects.create(session=session, event="prompt:submit", preview="a public question")
        assert "Sessiona public question" in main(visitor.get(url(memory))).words


class TestHiding:
    def hide(self, client: Client, memory: Memory, **headers: str) -> Any:
        page = client.get(url(memory), headers=headers)
        form = re.search(r"<form((?!</form).)*set-sensitivity.*?</form>", page.content.decode(), re.DOTALL)
        assert form
        values = submitted_fields(form[0])
        return client.post("/acts/", values | {"act": "set-sensitivity"}, follow=True)

    def test_hiding_returns_to_the_search_with_undo(self, person: Any, remember: Remember) -> None:
        client = Client()
        client.force_login(person("ada", "change_memory", "view_private"))
        memory = remember()
        found = "http://testserver/memories/?q=memory&sort=new"
        response = self.hide(client, memory, referer=found)
        assert response.redirect_chain[-1][0] == "/memories/?q=memory&sort=new"
        assert "Undo" in main(response).words
        memory.refresh_from_db()
        assert memory.sensitivity == "private"

    def test_hiding_stays_on_the_page_while_private_is_shown(self, sign_in: Any, remember: Remember) -> None:
        client, memory = sign_in("change_memory", "view_private", on=["private"]), remember()
        assert self.hide(client, memory).redirect_chain[-1][0] == url(memory)

    @each("referer", ["https://elsewhere.test/a", "not a url", "//elsewhere.test"])
    def test_other_sites_are_not_returned_to(self, person: Any, remember: Remember, referer: str) -> None:
        client = Client()
        client.force_login(person("ada", "change_memory", "view_private"))
        response = self.hide(client, remember(), referer=referer)
        assert response.redirect_chain[-1][0] == "/memories/"

    def test_people_who_see_no_private_memories_cannot_hide(self, sign_in: Any, remember: Remember) -> None:
        page = main(sign_in("change_memory").get(url(remember())))
        assert "set-sensitivity" not in [button.get("value") for button in page.all("button")]


class TestCost:
    def test_hidden_and_new_rows_count_at_once(
        self, visitor: Client, admin_client: Client, remember: Remember, actor: Actor
    ) -> None:
        turn_on_levels(admin_client, "private")
        memory = remember("a memory", session_id="s", project="p")
        other = remember("its neighbour", session_id="s", project="p")
        assert "its neighbour" in main(visitor.get(url(memory))).words
        draft = FactDraft(subject="newly known", predicate="p", object="o", memory_id=memory.uid)
        services.create_fact(draft, actor)
        assert "newly known" in main(visitor.get(url(memory))).words
        memories.update_memory(other.uid, MemoryPatch(sensitivity="private"), actor)
        assert "its neighbour" in main(admin_client.get(url(memory))).words
        assert "its neighbour" not in main(visitor.get(url(memory))).words

    def test_number_of_queries_does_not_grow_with_related_rows(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        def add_related_rows(memory: Memory, count: int) -> None:
            for n in range(count):
                text = f"{memory.title} {n}"
                remember(text, files_read=memory_files, session_id=memory.session_id, project="p")
                services.create_fact(
                    FactDraft(subject=text, predicate="p", object="o", memory_id=memory.uid), actor
                )
                memories.update_memory(memory.uid, MemoryPatch(title=text, tags=[f"t{n}"]), actor)

        memory_files = ["a.py", "b.py"]
        counts = []
        for name, count in (("scant", 2), ("ample", 12)):
            memory = remember(name, files_read=memory_files, session_id=name, project="p")
            add_related_rows(memory, count)
            visitor.get(url(memory))
            with CaptureQueriesContext(connection) as queries:
                assert visitor.get(url(memory)).status_code == 200
            counts.append(len(queries))
        assert counts[0] == counts[1]
