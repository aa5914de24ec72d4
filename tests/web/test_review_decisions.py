"""Decisions in the review queue, their undo, and marking memories as seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.models import JournalEntry, Memory, Profile
from tests.cases import each
from tests.web.conftest import MakePerson, SignIn
from tests.web.review_page import EVE, HTMX, get_page, post_action, undo_fields

Remember = Callable[..., Memory]
pytestmark = pytest.mark.django_db


class TestDecisions:
    @pytest.fixture
    def client(self, sign_in: SignIn) -> Client:
        return sign_in("change_memory", "delete_memory")

    @each("action", ["approve", "demote", "trash"])
    def test_decided_memory_leaves_the_queue_and_undo_returns_it(
        self, client: Client, unsure: Memory, action: str
    ) -> None:
        before = Memory.objects.filter(pk=unsure.pk).values().get()
        page = client.post(
            "/review/act/",
            {"act": action, "uid": unsure.uid, "tab": "new", "next": "/review/?tab=new"},
            follow=True,
        ).content.decode()
        assert "made of cheese" not in page.partition("</header>")[2].partition('class="review"')[2]
        client.post("/review/undo/", undo_fields(page))
        assert Memory.objects.filter(pk=unsure.pk).values().get() == before
        assert "made of cheese" in get_page(client)

    def test_each_button_applies_its_action(self, client: Client, remember: Remember) -> None:
        good, lesser, bad = (remember(word) for word in ("good", "lesser", "bad"))
        for action, memory in (("approve", good), ("demote", lesser), ("trash", bad)):
            assert post_action(client, action, memory).status_code == 302
            memory.refresh_from_db()
        assert good.reviewed_at
        assert lesser.reviewed_at
        assert bad.deleted_at
        assert (good.importance, lesser.importance) == (0.5, 0.25)

    def test_demoting_is_one_action(self, client: Client, unsure: Memory) -> None:
        post_action(client, "demote", unsure)
        rows = JournalEntry.objects.filter(object_id=unsure.uid, operation__in=("update", "review"))
        assert rows.count() == 2
        assert len({row.detail["act"] for row in rows}) == 1

    def test_approving_removes_the_flags(self, client: Client, unsure: Memory) -> None:
        Memory.objects.update(flags=["governor:leak"])
        post_action(client, "approve", unsure)
        unsure.refresh_from_db()
        assert unsure.flags == []

    def test_next_card_comes_with_the_response(self, client: Client, remember: Remember) -> None:
        made = [remember(f"number {n} of many") for n in range(4)]
        cards = [made[3].uid, made[2].uid]
        answer = post_action(client, "approve", made[3], card=cards, headers=HTMX).content.decode()
        assert f'id="m-{made[1].uid}"' in answer
        assert f'id="m-{made[0].uid}"' not in answer

    def test_memory_that_changed_is_shown_and_not_approved(self, client: Client, unsure: Memory) -> None:
        seen = unsure.updated_at - timedelta(seconds=5)
        response = post_action(client, "approve", unsure, seen=seen.isoformat(), headers=HTMX)
        assert response.status_code == 422
        page = response.content.decode()
        assert "someone has changed this memory since you opened it" in page
        assert f'id="m-{unsure.uid}"' in page
        unsure.refresh_from_db()
        assert unsure.reviewed_at is None

    def test_trashed_memory_is_reported(self, client: Client, unsure: Memory) -> None:
        memories.trash_memories([unsure.uid], EVE)
        response = post_action(client, "approve", unsure, headers=HTMX)
        assert response.status_code == 422
        assert "in the trash" in response.content.decode()

    @pytest.mark.parametrize("fields", [{}, {"act": "erase"}, {"act": "set"}], ids=str)
    def test_unknown_action_is_refused(self, client: Client, unsure: Memory, fields: dict[str, str]) -> None:
        assert client.post("/review/act/", {"uid": unsure.uid, **fields}).status_code == 400

    @each("undo", ["", "x", "x 1", "x 1 -", "x 1 9999999999999999999", " 1 1"])
    def test_invalid_undo_is_refused(self, client: Client, unsure: Memory, undo: str) -> None:
        response = client.post("/review/undo/", {"undo": undo, "uid": unsure.uid})
        assert response.status_code in (400, 404)

    def test_undo_of_another_persons_action_is_refused(
        self, client: Client, sign_in: SignIn, unsure: Memory
    ) -> None:
        answer = post_action(client, "approve", unsure, headers=HTMX).content.decode()
        other = sign_in("change_memory", name="bob")
        assert other.post("/review/undo/", undo_fields(answer)).status_code == 404
        unsure.refresh_from_db()
        assert unsure.reviewed_at

    @each("action", ["approve", "demote", "trash"])
    def test_permission_is_required(self, sign_in: SignIn, unsure: Memory, action: str) -> None:
        right = "change_memory" if action == "trash" else "delete_memory"
        assert post_action(sign_in(right, name="bob"), action, unsure).status_code == 403

    @each("address", ["https://elsewhere.example/review/", "//elsewhere.example", "/you/"])
    def test_redirect_stays_in_the_queue(self, client: Client, unsure: Memory, address: str) -> None:
        assert post_action(client, "approve", unsure, next=address)["Location"] == "/review/"


class TestEditing:
    @each(
        "address, leads_to",
        [
            ("/review/?tab=new", "/review/?tab=new"),
            ("https://elsewhere.example/review/", None),
            ("//elsewhere.example/review/", None),
            ("/logout/", None),
        ],
    )
    def test_edit_form_returns_to_the_queue(
        self, sign_in: SignIn, unsure: Memory, address: str, leads_to: str | None
    ) -> None:
        client = sign_in("change_memory")
        edit = f"/memories/{unsure.uid}/edit/?{urlencode({'next': address})}"
        form = client.get(edit).context["form"]
        fields = {name: form[name].value() or "" for name in form.fields} | {"title": "Better"}
        response = client.post(edit, fields)
        assert response.status_code == 302
        assert response["Location"] == (leads_to or f"/memories/{unsure.uid}/")


class TestMarkAsSeen:
    def test_seen_memories_are_not_new_until_undone(self, reviewer: Client, unsure: Memory) -> None:
        now = timezone.now().isoformat()
        page = reviewer.post("/review/looked/", {"until": now, "next": "/review/?tab=new"}, follow=True)
        assert "Nothing new" in page.content.decode()
        assert "Marked as seen" in page.content.decode()
        reviewer.post("/review/looked/", {"until": "", "back": "1"})
        assert "About the moon" in get_page(reviewer)

    def test_seen_applies_to_this_person_only(
        self, reviewer: Client, sign_in: SignIn, unsure: Memory
    ) -> None:
        reviewer.post("/review/looked/", {"until": timezone.now().isoformat()})
        assert "About the moon" in get_page(sign_in("change_fact", name="bob"))

    def test_memory_stored_after_the_page_stays_new(self, reviewer: Client, remember: Remember) -> None:
        page = reviewer.get("/review/?tab=new")
        until = page.context["now"].isoformat()
        remember("meanwhile")
        reviewer.post("/review/looked/", {"until": until})
        assert "meanwhile" in get_page(reviewer)

    @pytest.mark.parametrize(
        "until", ["soon", "2999-01-01T00:00:00+00:00", "2026-13-45T00:00:00Z", "2026-01-01"]
    )
    def test_invalid_or_future_datetime_is_refused(self, reviewer: Client, until: str) -> None:
        assert reviewer.post("/review/looked/", {"until": until}).status_code == 400
        assert not Profile.objects.exclude(looked_at=None).exists()

    def test_preferences_are_not_changed(self, person: MakePerson) -> None:
        ada = person("ada")
        Profile.objects.create(user=ada, theme="dark", confined=True)
        client = Client()
        client.force_login(ada)
        client.post("/review/looked/", {"until": timezone.now().isoformat()})
        profile = Profile.objects.get(user=ada)
        assert (profile.theme, profile.confined) == ("dark", True)
