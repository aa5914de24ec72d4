"""The settings of a project, the review of memories that wait for approval, the mode of a session."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.access.policy import system_actor
from memoryhub.capture import projects
from memoryhub.memories import create_memory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Membership, Memory, Project, Session
from tests.cases import each
from tests.web.conftest import SignIn

ADMIN = system_actor("tests")
PAGE = "/project-settings/shop/"


@pytest.fixture
def maintainer(sign_in: SignIn) -> Client:
    return sign_in("add_maintenancerun", "change_memory", "delete_memory")


@pytest.fixture
def waiting(db: None) -> list[Memory]:
    drafts = [
        MemoryDraft(content=f"# Waiting {n}\n\nquincewort {n}", project="shop", sensitivity=level)
        for n, level in enumerate(("public", "public", "private"))
    ]
    return [create_memory(draft, ADMIN, needs_approval=True).memory for draft in drafts]


def undo(client: Client, page: str) -> str:
    """Press the undo button of a page; return the next page."""
    [(address, fields)] = re.findall(
        r'<form method="post" action="([^"]+)" class="undo"(.*?)</form>', page, re.S
    )
    data = dict(re.findall(r'name="(first|last|next)" value="([^"]*)"', fields))
    return client.post(address, data, follow=True).content.decode()


def test_settings_are_saved_and_undone(maintainer: Client) -> None:
    fields = {"mode": "approve", "ignored_paths": "*.pem\nvault/"}
    page = maintainer.post(f"{PAGE}save/", fields, follow=True).content.decode()
    assert "Settings saved" in page
    project = Project.objects.get(name="shop")
    assert (project.mode, project.ignored_paths) == ("approve", "*.pem\nvault/")
    assert "Undone." in undo(maintainer, page)
    assert Project.objects.get(name="shop").mode == "automatic"


def test_pause_for_an_hour_and_resume(maintainer: Client) -> None:
    page = maintainer.post(f"{PAGE}pause/", {"hours": "1"}, follow=True).content.decode()
    assert "Paused until" in page
    page = maintainer.post(f"{PAGE}pause/", {"hours": "0"}, follow=True).content.decode()
    assert "Resumed" in page
    assert "Pause for an hour" in page


@each(
    "permission, save, pause",
    [("view_memory", 403, 403), ("change_memory", 403, 302), ("add_maintenancerun", 302, 403)],
)
def test_settings_require_permission(sign_in: SignIn, permission: str, save: int, pause: int) -> None:
    client = sign_in(permission)
    assert client.get(PAGE).status_code == 200
    assert client.post(f"{PAGE}save/", {"mode": "off"}).status_code == save
    assert client.post(f"{PAGE}pause/", {"hours": "1"}).status_code == pause


def test_undo_requires_the_permission_for_the_change(sign_in: SignIn) -> None:
    client = sign_in("change_memory")
    mode = projects.configure_project("shop", ADMIN, mode="off").undo
    pause = projects.configure_project("shop", ADMIN, pause_hours=1).undo
    assert client.post(f"/project-changes/{mode}/undo/").status_code == 403
    assert client.post(f"/project-changes/{pause}/undo/").status_code == 302
    assert (Project.named("shop").mode, Project.named("shop").paused_until) == ("off", None)


def test_settings_of_a_closed_project_are_not_found(sign_in: SignIn) -> None:
    client = sign_in("add_maintenancerun", "change_memory")
    change = projects.configure_project("shop", ADMIN, mode="off").undo
    Membership.objects.create(user=User.objects.get(username="ada"), project="other")
    for path in (PAGE, f"{PAGE}save/", f"{PAGE}pause/", f"/project-changes/{change}/undo/"):
        method = client.get if path == PAGE else client.post
        assert method(path, {"mode": "off", "hours": "1"}).status_code == 404


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"mode": "loud"}, "Select a valid choice"), ({"mode": "off", "ignored_paths": "!"}, "Line 1 is not a")],
)
def test_invalid_settings_are_explained(maintainer: Client, fields: dict[str, str], words: str) -> None:
    answer = maintainer.post(f"{PAGE}save/", fields)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Project.objects.exists()


def test_invalid_pause_is_refused(maintainer: Client) -> None:
    for hours in ("x", "-1", "nan", "9999"):
        assert maintainer.post(f"{PAGE}pause/", {"hours": hours}).status_code == 400


def test_waiting_memory_is_reviewed_first(maintainer: Client, waiting: list[Memory]) -> None:
    page = maintainer.get("/review/").content.decode()
    assert "Waiting for approval" in page
    assert "quincewort 0" in page
    assert "quincewort 2" not in page  # private, and the switch is off
    assert 'id="review-badge" class="nav-count num">2' in page.replace("\n", "")


def test_queue_without_waiting_memories_has_no_tab(maintainer: Client) -> None:
    assert "Waiting for approval" not in maintainer.get("/review/").content.decode()


def test_memory_is_approved_and_undo_hides_it_again(maintainer: Client, waiting: list[Memory]) -> None:
    fields = {"act": "accept", "uid": waiting[0].uid, "next": "/review/?tab=waiting"}
    page = maintainer.post("/acts/", fields, follow=True).content.decode()
    assert "1 memory approved" in page
    assert maintainer.get(f"/memories/{waiting[0].uid}/").status_code == 200
    assert "Undone" in undo(maintainer, page)
    assert maintainer.get(f"/memories/{waiting[0].uid}/").status_code == 404


def test_selected_memories_are_discarded_and_undo_returns_them(
    maintainer: Client, waiting: list[Memory]
) -> None:
    fields = {"act": "discard", "uid": [one.uid for one in waiting[:2]], "next": "/review/?tab=waiting"}
    page = maintainer.post("/acts/", fields, follow=True).content.decode()
    assert "2 memories discarded" in page
    assert "No memories to approve" in page
    assert "quincewort" in undo(maintainer, page)
    assert JournalEntry.objects.filter(operation="discard").count() == 2


def test_hidden_waiting_memory_cannot_be_approved(maintainer: Client, waiting: list[Memory]) -> None:
    assert maintainer.post("/acts/", {"act": "accept", "uid": waiting[2].uid}).status_code == 404
    assert Memory.objects.get(pk=waiting[2].pk).sensitivity == "waiting-private"


def test_reviewer_sees_waiting_memories_without_buttons(reviewer: Client, waiting: list[Memory]) -> None:
    page = reviewer.get("/review/?tab=waiting").content.decode()
    assert "quincewort 0" in page
    assert 'value="accept"' not in page


def test_session_shows_the_mode_of_its_project(maintainer: Client, remember: Callable[..., Memory]) -> None:
    remember("x", project="shop", session_id="s1")
    assert Session.objects.exists()
    assert f'<a href="{PAGE}">automatic capture</a>' in maintainer.get("/sessions/s1/").content.decode()
    projects.configure_project("shop", ADMIN, mode="approve")
    assert f'<a href="{PAGE}">approve first</a>' in maintainer.get("/sessions/s1/").content.decode()


# --- Rename, merge and split --------------------------------------------------------------------------------


@pytest.fixture
def owner(sign_in: SignIn) -> Client:
    return sign_in("add_maintenancerun", "change_memory", "view_private", "view_secret")


def move(client: Client, name: str, action: str, into: str, **more: str) -> str:
    data = {"action": action, "into": into, **more}
    return client.post(f"/project-settings/{name}/move/", data, follow=True).content.decode()


def test_project_is_renamed_merged_split_and_restored(owner: Client) -> None:
    for name in ("shop", "other"):
        create_memory(MemoryDraft(content=name, project=name, session_id=name), ADMIN)
        Session.objects.filter(project=name).update(cwd=f"/home/ada/{name}")
    renamed = move(owner, "shop", "rename", "store")
    assert "Project renamed" in renamed
    merged = move(owner, "other", "merge", "store")
    assert "Projects merged" in merged
    split = move(owner, "store", "split", "part", folder="/home/ada/other/")
    assert "Project split" in split
    assert Memory.objects.get(project="part").content == "other"
    for page in (split, merged, renamed):
        assert "Undone" in undo(owner, page)
    assert set(Memory.objects.values_list("project", flat=True)) == {"shop", "other"}


def test_move_can_be_undone_on_the_settings_page_later(owner: Client, sign_in: SignIn) -> None:
    create_memory(MemoryDraft(content="x", project="shop"), ADMIN)
    move(owner, "shop", "rename", "store")
    [address] = re.findall(
        r'action="(/project-changes/[^"]+)"', owner.get("/project-settings/store/").content.decode()
    )
    assert "Undone" in owner.post(address, follow=True).content.decode()
    assert "project-changes" not in owner.get("/project-settings/shop/").content.decode()
    move(owner, "shop", "rename", "store")
    other = sign_in("add_maintenancerun", "change_memory", name="other")
    assert "project-changes" not in other.get("/project-settings/store/").content.decode()


def test_repositories_are_shown_in_words(owner: Client) -> None:
    project = Project.objects.get_or_create(name="shop")[0]
    titles = {
        "remote:github.com/shop/app": "github.com/shop/app",
        f"root:{'0123456789' * 4}": "first commit 012345678901",
        "name:old-shop": "former name old-shop",
        "folder:/srv/shop": "folder /srv/shop",
    }
    for key in titles:
        project.identities.create(key=key)
    page = owner.get(PAGE).content.decode()
    for title in titles.values():
        assert f">{title}</code>" in page
    assert 'value="remote:github.com/shop/app"' in page


def test_refused_move_is_explained(owner: Client) -> None:
    create_memory(MemoryDraft(content="x", project="shop"), ADMIN)
    assert "There is no such project" in move(owner, "shop", "merge", "none")
    assert "nothing matches" in move(owner, "shop", "split", "part")
    assert "This field is required" in move(owner, "shop", "rename", "")


def test_move_takes_every_level_and_the_permission(maintainer: Client, sign_in: SignIn) -> None:
    create_memory(MemoryDraft(content="x", project="shop"), ADMIN)
    assert "/project-settings/shop/move/" not in maintainer.get(PAGE).content.decode()
    data = {"action": "rename", "into": "store"}
    assert maintainer.post(f"{PAGE}move/", data).status_code == 403
    reader = sign_in("view_private", "view_secret", name="reader")
    assert reader.post(f"{PAGE}move/", data).status_code == 403
    assert Memory.objects.get().project == "shop"


def test_cap_of_a_project_is_saved_emptied_and_undone(maintainer: Client) -> None:
    page = maintainer.post(f"{PAGE}save/", {"mode": "automatic", "max_memories": "50"}, follow=True)
    assert Project.objects.get().max_memories == 50
    assert 'value="50"' in page.content.decode()
    undo(maintainer, page.content.decode())
    assert Project.objects.get().max_memories is None
    projects.configure_project("shop", ADMIN, max_memories=0)
    maintainer.post(f"{PAGE}save/", {"mode": "automatic", "max_memories": ""})
    assert Project.objects.get().max_memories is None


@pytest.mark.parametrize("cap", ["-1", "x", "1000000001"])
def test_cap_out_of_range_is_refused(maintainer: Client, cap: str) -> None:
    answer = maintainer.post(f"{PAGE}save/", {"mode": "automatic", "max_memories": cap})
    assert answer.status_code == 422
    assert not Project.objects.exists()


def test_people_without_permission_see_the_cap(sign_in: SignIn) -> None:
    projects.configure_project("shop", ADMIN, max_memories=1234)
    page = sign_in("view_memory").get(PAGE).content.decode()
    assert '<span class="num">1,234</span> memories of an owner' in page
    assert 'name="max_memories"' not in page
