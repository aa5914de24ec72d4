"""Who may import, and who sees what of an import."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.models import JournalEntry, MaintenanceRun, Membership, Memory, Session
from tests.web.markup import main, page
from tests.web.transfer_pages import home, importer, send, sent

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db


def test_an_import_without_the_forms_token_is_refused(person: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("ada", "add_memory"))
    assert send(client, {"content": "forged"}).status_code == 403
    assert not MaintenanceRun.objects.exists()


def test_people_without_permission_to_add_import_nothing(visitor: Client) -> None:
    assert "you need the permission to add" in main(visitor.get("/transfer/")).words
    assert send(visitor, {"content": "x"}).status_code == 403
    assert Client().get("/transfer/").status_code == 302


def test_others_do_not_see_an_import(importer: Client, sign_in: Any) -> None:
    address = sent(importer, {"content": "x"})
    other = sign_in("add_memory", name="ben")
    other.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    for found in (other.get(address), other.get(f"{address}progress/"), other.post(f"{address}import/")):
        assert found.status_code == 404
    assert "notes.jsonl" not in main(other.get("/transfer/")).words
    assert address in page(importer.get("/transfer/")).links()


def test_the_list_of_an_import_contains_only_visible_memories(importer: Client, sign_in: Any) -> None:
    lines = [
        {"content": f"a {level} plan", "sensitivity": level} for level in ("public", "private", "secret")
    ]
    importer.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    address = sent(importer, *lines)
    Memory.objects.create(content="an odd plan", sensitivity="odd", author="user:ada", project="")
    shown = main(sign_in(name="ben").get(f"/memories/?imported={address.split('/')[-2]}")).words
    assert "a public plan" in shown
    for level in ("private", "secret", "odd"):
        assert f"{level} plan" not in shown


def test_ids_and_authors_are_taken_over_for_an_administrator_only(importer: Client, db: None) -> None:
    line = {"content": "x", "id": "abcdefgh", "author": "token:claude"}
    sent(importer, line)
    assert Memory.objects.get().uid != "abcdefgh"
    assert Memory.objects.get().author == "user:ada"
    Memory.objects.all().delete()
    User.objects.create_superuser("root", password="x")
    root = Client()
    root.force_login(User.objects.get(username="root"))
    sent(root, line)
    assert (Memory.objects.get().uid, Memory.objects.get().author) == ("abcdefgh", "token:claude")


def test_maintenance_lists_imports_without_the_names_of_files(importer: Client, sign_in: Any) -> None:
    uid = sent(importer, {"content": ""}, name="about-a-secret-plan.jsonl").split("/")[-2]
    keeper = sign_in("add_maintenancerun", name="keeper")
    for address in ("/maintenance/runs/", f"/maintenance/runs/{uid}/"):
        response = keeper.get(address)
        assert response.status_code == 200
        assert "Import" in main(response).words
        assert b"secret-plan" not in response.content
    assert b'value="import"' not in keeper.get("/maintenance/").content


def test_an_import_stops_in_a_project_that_its_person_has_left(importer: Client) -> None:
    ada = User.objects.get(username="ada")
    gone = Membership.objects.create(user=ada, project="shop")
    Membership.objects.create(user=ada, project="farm")
    address = send(importer, {"content": "x"}, project="shop").url
    importer.post(f"{address}stop/")
    gone.delete()
    importer.post(f"{address}resume/")
    assert MaintenanceRun.objects.get().status == "failed"
    assert not Memory.objects.exists()


def test_a_confined_user_imports_into_and_exports_from_their_projects_only(
    importer: Client, remember: Any
) -> None:
    ada = User.objects.get(username="ada")
    Membership.objects.create(user=ada, project="farm", clearance="private")
    remember("not hers", project="zoo")
    remember("hers", project="farm", sensitivity="private")
    lines = [{"content": "a", "project": "zoo"}, {"content": "b", "project": "farm"}, {"content": "c"}]
    shown = main(importer.get(sent(importer, *lines))).words
    assert "line 1: project: you can write only to: farm" in shown
    assert set(Memory.objects.filter(author="user:ada").values_list("project", flat=True)) == {"farm"}
    importer.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    for query in ({}, {"whole": "on"}, {"format": "markdown"}, {"project": "zoo", "whole": "on"}):
        shown = importer.get("/transfer/export/", query).getvalue()
        assert b"not hers" not in shown
        assert (b"hers" in shown) == ("project" not in query)


def test_an_administrator_who_is_confined_restores_nothing_of_other_projects(
    importer: Client, sign_in: Any
) -> None:
    root = sign_in(name="root")
    user = User.objects.get(username="root")
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    Membership.objects.create(user=user, project="farm", clearance="secret")
    at = "2024-01-02T03:04:05Z"
    session = {"kind": "session", "session_id": "s", "project": "zoo", "started_at": at, "last_at": at}
    event = {"kind": "event", "session_id": "s", "project": "zoo", "at": at, "event": "Stop"}
    memory = {"kind": "memory", "id": "abcdefgh", "content": "x", "project": "zoo"}
    row = {"kind": "journal", "seq": 1, "hash": "0" * 64, "at": at, "actor": "a", "operation": "insert"}
    row |= {"object_type": "memory", "project": "zoo", "sensitivity": "public"}
    shown = main(root.get(sent(root, session, event, memory, row))).words
    assert [f"line {n}: project:" in shown for n in (1, 2, 3, 4)] == [True] * 4
    assert not Memory.objects.exists()
    assert not Session.objects.exists()
    assert not JournalEntry.objects.filter(project="zoo").exists()
