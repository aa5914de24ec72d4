"""Pages contain no content of a secret memory before it is opened, which is journaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.access.policy import LEVELS
from memoryhub.models import Event, JournalEntry, Memory, Session
from tests.cases import each
from tests.web.markup import list_title

ALL = (*LEVELS, "cosmic")
PAGES = [
    "/",
    "/memories/",
    "/memories/?sensitivity=secret",
    "/memories/?q=giraffe&min_score=0",
    "/timeline/entries/",
    "/timeline/?month=2024-03",
    "/sessions/",
    "/sessions/night/?project=zoo",
    "/reports/sessions/night/?project=zoo",
    "/journal/",
    "/palette/?q=giraffe",
    "/facts/",
]


@pytest.fixture
def herd(remember: Callable[..., Memory]) -> dict[str, Memory]:
    """A memory of each level in one session, with an event and a title."""
    made = {}
    for level in ALL:
        memory = remember(
            f"the giraffe eats {level}leaves, and sleeps standing",
            title=f"giraffe {level}title",
            abstract=f"giraffe {level}abstract",
            sensitivity="public",
            project="zoo",
            session_id="night",
            created_at="2024-03-10T12:00:00Z",
        )
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        memory.refresh_from_db()
        session = Session.objects.get(session_id="night")
        Event.objects.create(
            session=session, event="tool:post", tool_name="Edit", memory=memory, preview=f"{level}preview"
        )
        made[level] = memory
    return made


def words(level: str) -> list[str]:
    return [f"{level}{part}" for part in ("leaves", "title", "abstract", "preview")]


@each("path", PAGES)
def test_secret_content_is_only_on_its_own_page(insider: Client, herd: Any, path: str) -> None:
    answer = insider.get(path)
    assert answer.status_code == 200
    shown = answer.content.decode()
    assert [word for level in ("secret", "cosmic") for word in words(level) if word in shown] == []
    assert herd["cosmic"].uid not in shown
    assert not JournalEntry.objects.filter(operation="reveal").exists()


@each("path", [path for path in PAGES if path not in ("/facts/", "/sessions/")])
def test_lists_name_visible_memories_and_mention_a_secret(insider: Client, herd: Any, path: str) -> None:
    shown = insider.get(path).content.decode().replace("<mark>", "").replace("</mark>", "")
    expected = {"secret"} if "sensitivity=secret" in path else {"public", "private", "secret"}
    assert {level for level in ALL if list_title(herd[level]) in shown} == expected


def test_opening_a_secret_shows_it_and_is_journaled(insider: Client, herd: Any) -> None:
    shown = insider.get(f"/memories/{herd['secret'].uid}/").content.decode()
    assert "secretleaves" in shown
    assert "secrettitle" in shown
    row = JournalEntry.objects.get(operation="reveal")
    assert (row.actor, row.object_id, row.sensitivity) == ("user:ada", herd["secret"].uid, "secret")


def test_admin_list_contains_no_secret_content(django_user_model: Any, client: Client, herd: Any) -> None:
    client.force_login(django_user_model.objects.create_superuser("root", password="a good password"))
    for level in ("private", "secret"):
        client.post("/switch/", {"level": level, "on": "1", "next": "/"})
    shown = client.get("/admin/memoryhub/memory/").content.decode()
    assert "privatetitle" in shown
    assert [word for level in ("secret", "cosmic") for word in words(level) if word in shown] == []


def test_message_contains_no_secret_content(sign_in: Any, herd: Any) -> None:
    client = sign_in("view_secret", "delete_memory", on=["secret"])
    shown = client.post(f"/memories/{herd['secret'].uid}/trash/", follow=True).content.decode()
    assert list_title(herd["secret"]) in shown
    assert "secrettitle" not in shown
