"""Bulk actions on more memories than one request may change: confirmation, run, rights, undo."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.maintenance import executor, runs
from memoryhub.maintenance.operations.base import Pace
from memoryhub.memories.rows import list_values
from memoryhub.models import MaintenanceRun, Membership, Memory
from memoryhub.web.memories import bulk_actions
from tests.cases import each
from tests.clients import create_person, signed_in_client
from tests.web.markup import Page

Remember = Callable[..., Memory]
SignIn = Callable[..., Client]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two memories are as many as one request may change, and a step changes one."""
    monkeypatch.setattr(bulk_actions, "MAX_MEMORIES", 2)
    monkeypatch.setattr(bulk_actions, "CHUNK_SIZE", 1)


@pytest.fixture
def three(few: None, remember: Remember) -> list[Memory]:
    return [remember(f"memory {n}", importance=0.8, project="p") for n in range(3)]


@pytest.fixture
def editor(sign_in: SignIn) -> Client:
    return sign_in("change_memory", "delete_memory")


def ask(client: Client, act: str, address: str = "/memories/?project=p", **values: str) -> Page:
    fields = {"act": act, "every": "1", "list": address, "next": "/memories/", **values}
    response = client.post("/acts/", fields)
    assert response.status_code == 200
    return Page(response.content.decode())


def start(client: Client, act: str, address: str = "/memories/?project=p", **values: str) -> MaintenanceRun:
    """Send the form of the confirmation, as a browser without scripts does, and return the queued run."""
    page = ask(client, act, address, **values)
    sent = {field["name"]: field.get("value", "") for field in page.all("input") if field.get("name")}
    names = {"act", "every", "list", "next", "confirmed", *values}
    response = client.post("/acts/", {name: sent[name] for name in names})
    assert response.status_code == 302
    run = MaintenanceRun.objects.get(uid=response["Location"].rstrip("/").split("/")[-1])
    assert client.get(response["Location"]).status_code == 200
    return run


def finish(run: MaintenanceRun, **options: Any) -> MaintenanceRun:
    assert executor.execute(run, **options)
    return run


def undo(client: Client, run: MaintenanceRun) -> MaintenanceRun:
    assert client.post(f"/maintenance/runs/{run.uid}/undo/").status_code == 302
    return finish(MaintenanceRun.objects.get(undoes=run))


def live() -> int:
    return Memory.objects.filter(deleted_at=None).count()


def test_run_stops_when_the_account_is_closed(editor: Client, three: list[Memory]) -> None:
    run = start(editor, "trash")
    finish(run, watcher=lambda run: User.objects.filter(username="ada").update(is_active=False))
    assert (run.status, live()) == ("failed", 2)
    assert "no longer has the permission" in run.error


def test_run_leaves_memories_that_the_person_no_longer_sees(editor: Client, three: list[Memory]) -> None:
    run = start(editor, "trash")
    ada = User.objects.get(username="ada")
    finish(run, watcher=lambda run: Membership.objects.get_or_create(user=ada, project="q"))
    assert (run.status, live()) == ("done", 2)


def test_exact_number_is_confirmed_before_anything_changes(editor: Client, three: list[Memory]) -> None:
    page = ask(editor, "trash")
    assert "Trash 3 memories?" in page.words
    assert not MaintenanceRun.objects.exists()
    assert live() == 3


def test_action_with_a_value_is_named_in_the_question(editor: Client, three: list[Memory]) -> None:
    assert "Set project Hub for 3 memories?" in ask(editor, "set-project", project="Hub").words


def test_more_rows_than_confirmed_need_a_new_confirmation(editor: Client, three: list[Memory]) -> None:
    assert "Trash 3 memories?" in ask(editor, "trash", confirmed="2").words
    assert not MaintenanceRun.objects.exists()


@each(
    "act, values, changed",
    [
        ("trash", {}, {"deleted_at__isnull": False}),
        ("demote", {}, {"importance": 0.4}),
        ("demote_and_approve", {}, {"importance": 0.4}),
        ("expire", {}, {"expires_at__isnull": False}),
        ("pin", {}, {"pinned_at__isnull": False}),
        ("set-project", {"project": "q"}, {"project": "q"}),
        ("set-category", {"category": "patterns"}, {"category": "patterns"}),
        ("set-type", {"type": "decision"}, {"type": "decision"}),
        ("set-importance", {"importance": "0.1"}, {"importance": 0.1}),
    ],
)
def test_all_memories_change_and_one_undo_restores_them(
    editor: Client, three: list[Memory], act: str, values: dict[str, str], changed: dict[str, Any]
) -> None:
    before = list(Memory.objects.order_by("pk").values())
    run = finish(start(editor, act, **values))
    assert (run.status, run.result["counts"], run.done) == ("done", {"change": 3}, 3)
    assert Memory.objects.filter(**changed).count() == 3
    undo(editor, run)
    assert list(Memory.objects.order_by("pk").values()) == before
    run.refresh_from_db()
    assert run.undone_at


def test_tag_is_added_and_removed_by_the_undo(editor: Client, three: list[Memory]) -> None:
    run = finish(start(editor, "tag", tag="kept"))
    assert [list_values(memory, "tags") for memory in Memory.objects.all()] == [["kept"]] * 3
    undo(editor, run)
    assert [list_values(memory, "tags") for memory in Memory.objects.all()] == [[]] * 3


def test_trash_is_restored_and_its_undo_trashes_again(
    editor: Client, three: list[Memory], actor: Actor
) -> None:
    store.apply_bulk_action("trash", [memory.uid for memory in three], actor)
    run = finish(start(editor, "restore", "/trash/?tab=trashed"))
    assert live() == 3
    undo(editor, run)
    assert live() == 0


@each(
    "address, name",
    [
        ("/memories/?project=p&type=change", "Memories"),
        ("/memories/", "Memories"),
        ("/trash/?tab=expired", "Trash"),
    ],
)
def test_run_links_back_to_the_list_of_the_person_who_started_it(
    editor: Client, sign_in: SignIn, three: list[Memory], address: str, name: str
) -> None:
    Memory.objects.update(type="change", expires_at=timezone.now() if name == "Trash" else None)
    run = start(editor, "restore" if name == "Trash" else "demote", address)

    def back(client: Client, run: MaintenanceRun) -> tuple[str, str]:
        page = client.get(f"/maintenance/runs/{run.uid}/").content.decode()
        found = re.search(r'<a href="([^"]+)" data-back>.*?data-back-name>([^<]+)<', page, re.DOTALL)
        assert found
        return unescape(found[1]), found[2]

    assert back(editor, run) == (address, name)
    finish(run)
    assert back(editor, undo(editor, run)) == (address, name)
    # The list contains a search of someone else: others go back to the runs.
    other = sign_in("view_maintenancerun", name="other")
    assert back(other, run) == ("/maintenance/runs/", "Runs")


def test_level_is_raised_above_what_the_person_shows_and_undone(sign_in: SignIn, three: list[Memory]) -> None:
    client = sign_in("change_memory", "view_private")
    run = finish(start(client, "set-sensitivity", sensitivity="private"))
    assert Memory.objects.filter(sensitivity="private").count() == 3
    undo(client, run)
    assert Memory.objects.filter(sensitivity="public").count() == 3


def test_erasing_keeps_the_limit_and_says_why(sign_in: SignIn, three: list[Memory], actor: Actor) -> None:
    store.apply_bulk_action("trash", [memory.uid for memory in three], actor)
    client = sign_in("erase_memory", "delete_memory")
    fields = {"every": "1", "list": "/trash/?tab=trashed", "confirmed": "yes"}
    page = client.post("/trash/", fields, follow=True).content.decode()
    assert "Nothing was erased: more than 2 match, and this cannot be undone" in page
    assert Memory.objects.count() == 3
    assert not MaintenanceRun.objects.exists()


def test_person_with_read_access_starts_no_run(sign_in: SignIn, three: list[Memory]) -> None:
    client = sign_in("view_maintenancerun")
    fields = {"act": "trash", "every": "1", "list": "/memories/", "confirmed": "3"}
    assert client.post("/acts/", fields).status_code == 403
    assert not MaintenanceRun.objects.exists()


@each(
    "act, values, words",
    [
        ("explode", {}, "unknown action"),
        ("tag", {}, "tags: "),
        ("set-importance", {"importance": "7"}, "importance: "),
        ("set-sensitivity", {"sensitivity": "secret"}, "you cannot see secret memories"),
    ],
)
def test_invalid_action_is_refused_before_the_confirmation(
    editor: Client, three: list[Memory], act: str, values: dict[str, str], words: str
) -> None:
    fields = {"act": act, "every": "1", "list": "/memories/", "next": "/memories/", **values}
    page = editor.post("/acts/", fields, follow=True).content.decode()
    assert words in page
    assert not MaintenanceRun.objects.exists()


def test_hidden_levels_are_neither_counted_nor_changed(
    few: None, sign_in: SignIn, remember: Remember, four_levels: dict[str, Memory]
) -> None:
    for number in range(2):
        remember(f"more {number}", project="zoo")
    client = sign_in("delete_memory", "view_private", "view_secret")  # all switches are off
    run = start(client, "trash", "/memories/?project=zoo")
    assert run.params["address"].startswith("/memories/?project=zoo&as_of=")
    assert finish(run).result["counts"] == {"change": 3}
    left = Memory.objects.filter(deleted_at=None).exclude(sensitivity="public")
    assert left.count() == 3


def test_confined_person_changes_only_their_projects(
    few: None, remember: Remember, three: list[Memory]
) -> None:
    outside = remember("elsewhere", project="q")
    person = create_person("cleo", "delete_memory")
    Membership.objects.create(user=person, project="p")
    finish(start(signed_in_client(User.objects.get(pk=person.pk)), "trash", "/memories/"))
    assert list(Memory.objects.filter(deleted_at=None)) == [outside]


def test_person_confined_after_the_start_changes_only_their_projects(
    editor: Client, remember: Remember, three: list[Memory]
) -> None:
    inside = remember("inside", project="q")
    run = start(editor, "trash", "/memories/")
    Membership.objects.create(user=User.objects.get(username="ada"), project="q")
    finish(run)
    assert list(Memory.objects.exclude(deleted_at=None)) == [inside]


@pytest.mark.parametrize("loss", ["permission", "account"])
def test_person_who_lost_the_right_changes_nothing(editor: Client, three: list[Memory], loss: str) -> None:
    run = start(editor, "trash")
    if loss == "account":
        User.objects.update(is_active=False)
    else:
        User.objects.get(username="ada").user_permissions.remove(
            Permission.objects.get(codename="delete_memory")
        )
    assert finish(run).status == "failed"
    assert "no longer has the permission" in run.error
    assert live() == 3


def test_rows_that_changed_before_the_run_are_selected_again(
    editor: Client, three: list[Memory], remember: Remember
) -> None:
    run = start(editor, "trash")
    late = remember("stored after the list was shown", project="p")
    Memory.objects.filter(pk=three[0].pk).update(project="q")
    Memory.objects.filter(pk=three[1].pk).update(sensitivity="secret")
    finish(run)
    assert list(Memory.objects.exclude(deleted_at=None)) == [three[2]]
    assert run.result["counts"] == {"change": 1}
    late.refresh_from_db()
    assert late.deleted_at is None


def test_refused_memory_is_listed_with_the_reason(editor: Client, three: list[Memory]) -> None:
    Memory.objects.filter(pk=three[0].pk).update(pinned_at=timezone.now())
    run = finish(start(editor, "expire"))
    assert run.result["counts"] == {"change": 2, "left": 1}
    assert run.result["changed"] == 2
    page = editor.get(f"/maintenance/runs/{run.uid}/").content.decode()
    assert "pinned and does not expire" in page
    assert "left unchanged" in page


def test_stopped_run_resumes_where_it_stopped(editor: Client, three: list[Memory]) -> None:
    run = start(editor, "demote")

    def stop(run: MaintenanceRun) -> None:
        editor.post(f"/maintenance/runs/{run.uid}/stop/")

    finish(run, watcher=stop)
    assert (run.status, run.cause) == ("failed", "stopped")
    done = Memory.objects.filter(importance=0.4).count()
    assert 0 < done < 3
    editor.post(f"/maintenance/runs/{run.uid}/resume/")
    finish(run)
    assert sorted(Memory.objects.values_list("importance", flat=True)) == [0.4] * 3
    undo(editor, run)
    assert sorted(Memory.objects.values_list("importance", flat=True)) == [0.8] * 3


def test_interrupted_run_continues_after_its_worker_died(editor: Client, three: list[Memory]) -> None:
    run = start(editor, "demote")

    def die(run: MaintenanceRun) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        executor.execute(run, watcher=die)
    MaintenanceRun.objects.update(worker="elsewhere/1/1/1", heartbeat_at=run.created_at - timedelta(days=1))
    assert "Interrupted" in editor.get(f"/maintenance/runs/{run.uid}/").content.decode()
    editor.post(f"/maintenance/runs/{run.uid}/resume/")
    run.refresh_from_db()
    finish(run)
    assert sorted(Memory.objects.values_list("importance", flat=True)) == [0.4] * 3
    undo(editor, run)
    assert sorted(Memory.objects.values_list("importance", flat=True)) == [0.8] * 3


def test_resumed_undo_does_not_report_what_it_restored_as_changed(
    editor: Client, three: list[Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "Pace", lambda *sizes, **options: Pace(1, max_size=1))
    run = finish(start(editor, "trash"))
    assert editor.post(f"/maintenance/runs/{run.uid}/undo/").status_code == 302
    undoing = MaintenanceRun.objects.get(undoes=run)
    finish(undoing, watcher=lambda run: editor.post(f"/maintenance/runs/{run.uid}/stop/"))
    assert (undoing.status, undoing.done, live()) == ("failed", 1, 1)
    editor.post(f"/maintenance/runs/{undoing.uid}/resume/")
    undoing.refresh_from_db()
    finish(undoing)
    assert (undoing.done, undoing.total, live()) == (3, 3, 3)
    assert undoing.result["counts"] == {"undone": 3}


def test_memory_that_changed_after_the_run_is_not_undone(
    editor: Client, three: list[Memory], actor: Actor
) -> None:
    run = finish(start(editor, "set-category", category="patterns"))
    store.apply_bulk_action("set", [three[0].uid], actor, category="mine")
    undoing = undo(editor, run)
    assert sorted(Memory.objects.values_list("category", flat=True)) == ["general", "general", "mine"]
    assert undoing.result["counts"] == {"undone": 2, "left": 1}
    page = Page(editor.get(f"/maintenance/runs/{undoing.uid}/").content.decode())
    assert page.links().count(f"/memories/{three[0].uid}/") == 1
    assert f"/memories/{three[1].uid}/" not in page.links()
    assert "Unchanged" in page.words
    assert "someone has changed" in page.words.lower() or "changed" in page.words.lower()
    assert "more, which are not listed" not in page.words


def test_refused_memory_of_an_undo_is_hidden_from_people_without_access(
    editor: Client, sign_in: SignIn, three: list[Memory], actor: Actor
) -> None:
    run = finish(start(editor, "set-category", category="patterns"))
    store.apply_bulk_action("set", [three[0].uid], actor, category="mine")
    undoing = undo(editor, run)
    Memory.objects.filter(pk=three[0].pk).update(sensitivity="secret")
    page = sign_in("view_maintenancerun", name="eve").get(f"/maintenance/runs/{undoing.uid}/")
    assert three[0].uid not in page.content.decode()


def test_other_people_cannot_control_the_run(editor: Client, sign_in: SignIn, three: list[Memory]) -> None:
    run = finish(start(editor, "trash"))
    for name, permissions in (("eve", ()), ("eli", ("delete_memory", "view_maintenancerun"))):
        other = sign_in(*permissions, name=name)
        assert other.post(f"/maintenance/runs/{run.uid}/undo/").status_code == 403
    assert not MaintenanceRun.objects.filter(undoes=run).exists()


def test_words_of_the_list_are_hidden_from_other_viewers(
    editor: Client, sign_in: SignIn, three: list[Memory]
) -> None:
    run = start(editor, "tag", "/memories/?q=memory", tag="zanzibar")
    page = sign_in("view_maintenancerun", name="eve").get(f"/maintenance/runs/{run.uid}/").content.decode()
    assert "zanzibar" not in page
    assert "as_of" not in page
    assert finish(run).result["counts"] == {"change": 3}


def test_api_cannot_start_such_a_run(db: None) -> None:
    actor = Actor("token:x", Clearance.up_to("public"))
    with pytest.raises(store.StoreError, match="no such operation"):
        runs.enqueue(bulk_actions.OPERATION_NAME, {}, actor)


def test_more_memories_than_a_request_may_change_really_change(sign_in: SignIn, remember: Remember) -> None:
    first = remember("memory 0", project="p")
    values = {field.attname: getattr(first, field.attname) for field in Memory._meta.concrete_fields}
    del values["id"]
    copies = [Memory(**values | {"uid": f"copy-{n}", "copy": n}) for n in range(1, 2001)]
    Memory.objects.bulk_create(copies)
    client = sign_in("delete_memory")
    assert "Trash 2,001 memories?" in ask(client, "trash").words
    run = finish(start(client, "trash"))
    assert run.result["counts"] == {"change": 2001}
    assert live() == 0
    undo(client, run)
    assert live() == 2001
