"""The import and export pages."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.capture import projects
from memoryhub.maintenance import executor, nodes
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Fact, JournalEntry, MaintenanceRun, Membership, Memory, Project, Session
from tests.web.markup import main, page

OPERATOR = system_actor("tests")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir()
    return Path(settings.HOME)


@pytest.fixture
def writer(sign_in: Any) -> Client:
    return sign_in("add_memory")


def send(client: Client, *lines: dict[str, Any] | bytes, do: str = "run", **more: Any) -> Any:
    raw = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    file = SimpleUploadedFile(more.pop("name", "notes.jsonl"), raw)
    return client.post("/transfer/import/", {"file": file, "do": do, **more})


def sent(client: Client, *lines: dict[str, Any] | bytes, **more: Any) -> str:
    """The address of an import that has run."""
    response = send(client, *lines, **more)
    assert response.status_code == 302, response.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    return str(response.url)


def exported(client: Client, **query: Any) -> list[dict[str, Any]]:
    response = client.get("/transfer/export/", query)
    assert response.status_code == 200
    return [json.loads(line) for line in response.getvalue().splitlines()]


# Import


def test_a_file_is_imported_and_what_became_of_it_is_shown(writer: Client) -> None:
    address = sent(writer, {"content": "one"}, {"content": "", "odd": 1}, {"content": "two", "odd": 1})
    shown = main(writer.get(address)).words
    assert "notes.jsonl, memoryhub (JSON lines)" in shown
    assert "rows3" in shown
    assert "memories created2" in shown
    assert "line 2: content: should have at least 1 character" in shown
    assert "odd (1)" in shown
    assert Memory.objects.count() == 2
    assert set(JournalEntry.objects.filter(operation="insert").values_list("actor", flat=True)) == {
        "user:ada"
    }


def test_a_dry_run_stores_nothing_and_is_then_done_for_real(writer: Client) -> None:
    address = sent(writer, {"content": "one"}, do="dry_run", project="shop")
    shown = main(writer.get(address))
    assert "Nothing was stored." in shown.words
    assert "Import the file" in shown.words
    assert not Memory.objects.exists()
    response = writer.post(f"{address}import/")
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    assert Memory.objects.get().project == "shop"
    assert "Import the file" not in main(writer.get(response.url)).words


def import_after(client: Client, address: str, **choices: Any) -> str:
    """Import the file of a dry run with choices; return the address of the finished import."""
    response = client.post(f"{address}import/", choices)
    assert response.status_code == 302, response.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    return str(response.url)


def undo(client: Client, address: str) -> None:
    assert client.post(f"{address}undo/").status_code == 302
    assert executor.execute(MaintenanceRun.objects.get(undoes__uid=address.split("/")[-2]))


def test_the_check_shows_duplicates_and_expiry(writer: Client) -> None:
    sent(writer, {"content": "one"})
    address = sent(writer, {"content": "one"}, {"content": "two"}, do="dry_run")
    shown = main(writer.get(address)).words
    assert "1 of 2 rows is in the store already" in shown
    assert "1 new memory expires" in shown


def test_source_of_a_line_is_shown_as_a_tag_of_its_memory(writer: Client) -> None:
    line = {"content": "one", "source": "notion"}
    shown = main(writer.get(sent(writer, line, do="dry_run"))).words
    assert "source" not in shown
    sent(writer, line)
    memory = writer.get(f"/memories/{Memory.objects.get().uid}/")
    assert "source:notion" in main(memory).words


def test_imported_memories_never_expire_if_that_is_chosen(writer: Client) -> None:
    address = sent(writer, {"content": "one"}, {"content": "two", "ttl_days": 5}, do="dry_run")
    import_after(writer, address, lifetime="never")
    expiry = {memory.content: memory.expires_at for memory in Memory.objects.all()}
    assert expiry["one"] is None
    assert expiry["two"] is not None


def test_types_are_inferred_only_where_the_file_has_none(writer: Client) -> None:
    fix = "Fixed a crash in the parser when a bug caused an error"
    address = sent(writer, {"content": fix}, {"content": f"{fix} again", "type": "fact"}, do="dry_run")
    assert "The text suggests" in main(writer.get(address)).words
    import_after(writer, address, infer_types="on")
    assert set(Memory.objects.values_list("content", "type")) == {(fix, "bugfix"), (f"{fix} again", "fact")}


def test_types_stay_the_default_unless_inference_is_chosen(writer: Client) -> None:
    address = sent(writer, {"content": "Fixed a crash in the parser"}, do="dry_run")
    import_after(writer, address)
    assert Memory.objects.get().type == "change"


def test_an_unknown_field_is_mapped(writer: Client) -> None:
    lines = [{"content": "one", "topic": "billing"}, {"content": "two", "topic": "x" * 5000}]
    address = sent(writer, *lines, do="dry_run")
    done = import_after(writer, address, field_0="category")
    assert dict(Memory.objects.values_list("content", "category")) == {"one": "billing", "two": "general"}
    assert "topic (1)" in main(writer.get(done)).words


def test_a_mapped_value_is_checked_for_secrets(writer: Client) -> None:
    key = "AKIA" + "Z7Q3M5X2K9L4P8R6"
    address = sent(writer, {"content": "one", "topic": f"key {key}"}, do="dry_run")
    import_after(writer, address, field_0="subtitle")
    assert not Memory.objects.exists()


def test_an_unknown_field_is_not_mapped_to_a_level(writer: Client) -> None:
    address = sent(writer, {"content": "one", "topic": "secret"}, do="dry_run")
    response = writer.post(f"{address}import/", {"field_0": "sensitivity"})
    assert response.status_code == 422
    assert MaintenanceRun.objects.count() == 1


def test_the_result_links_to_the_imported_memories(writer: Client) -> None:
    sent(writer, {"content": "imported before"})
    address = sent(writer, {"content": "one apple"}, {"content": "two pears"})
    assert "View the 2 imported memories" in main(writer.get(address)).words
    shown = main(writer.get(f"/memories/?imported={address.split('/')[-2]}")).words
    assert "one apple" in shown
    assert "two pears" in shown
    assert "imported before" not in shown


def test_the_list_of_an_import_contains_only_visible_memories(writer: Client, sign_in: Any) -> None:
    lines = [
        {"content": f"a {level} plan", "sensitivity": level} for level in ("public", "private", "secret")
    ]
    writer.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    address = sent(writer, *lines)
    Memory.objects.create(content="an odd plan", sensitivity="odd", author="user:ada", project="")
    shown = main(sign_in(name="ben").get(f"/memories/?imported={address.split('/')[-2]}")).words
    assert "a public plan" in shown
    for level in ("private", "secret", "odd"):
        assert f"{level} plan" not in shown


def test_an_unknown_import_lists_nothing(writer: Client) -> None:
    sent(writer, {"content": "one apple"})
    assert "one apple" not in main(writer.get("/memories/?imported=none")).words


def test_an_import_is_undone(writer: Client) -> None:
    sent(writer, {"content": "one"})
    address = sent(
        writer, {"content": "one"}, {"content": "two"}, {"content": "pinned", "pinned": True}, {"content": ""}
    )
    assert "Everything else is stored." in main(writer.get(address)).words
    assert "2 new memories move to the trash" in main(writer.get(f"{address}undo/")).words
    undo(writer, address)
    assert list(Memory.objects.live().values_list("content", flat=True)) == ["one"]
    assert set(Memory.objects.trashed().values_list("trash_reason", flat=True)) == {"undone"}
    shown = main(writer.get(address)).words
    assert "Undone" in shown
    assert "Undo this import" not in shown
    assert "Everything else is stored." not in shown


def test_an_undo_keeps_what_others_changed_or_pinned(writer: Client) -> None:
    address = sent(writer, {"content": "changed"}, {"content": "pinned"}, {"content": "untouched"})
    ben = Actor("user:ben", Clearance())
    uids = dict(Memory.objects.values_list("content", "uid"))
    memories.update_memory(uids["changed"], MemoryPatch(title="By ben"), ben)
    later = timezone.now() + timedelta(hours=1)
    Memory.objects.filter(content="pinned").update(pinned_at=later, expires_at=None)
    undo(writer, address)
    assert set(Memory.objects.live().values_list("content", flat=True)) == {"changed", "pinned"}


def test_memories_that_an_import_revived_return_to_the_trash(writer: Client) -> None:
    first = sent(writer, {"content": "one"})
    undo(writer, first)
    second = sent(writer, {"content": "one"})
    assert Memory.objects.live().exists()
    undo(writer, second)
    assert not Memory.objects.live().exists()


def test_the_check_after_an_undo_offers_to_restore_and_never_expire(writer: Client) -> None:
    undo(writer, sent(writer, {"content": "one"}, {"content": "two"}))
    sent(writer, {"content": "three"})
    address = sent(writer, *({"content": one} for one in ("one", "two", "three", "four")), do="dry_run")
    shown = main(writer.get(address)).words
    assert "1 of 4 rows is in the store already" in shown
    assert "2 memories in the trash or past their expiry would be restored" in shown
    assert "3 memories expire" in shown
    assert "memories restored2" in shown
    assert "memories refreshed1" in shown
    done = import_after(writer, address, lifetime="never")
    restored = Memory.objects.live().exclude(content="three").values_list("content", "expires_at")
    assert set(restored) == {("one", None), ("two", None), ("four", None)}
    assert "View the 3 imported memories" in main(writer.get(done)).words
    assert "3 new or restored memories move to the trash" in main(writer.get(f"{done}undo/")).words


def test_facts_of_an_undone_import_are_deleted(writer: Client) -> None:
    fact = {"kind": "fact", "subject": "shop", "predicate": "uses", "object": "postgres"}
    address = sent(writer, {"content": "one"}, fact)
    assert Fact.objects.exists()
    undo(writer, address)
    assert not Fact.objects.exists()


def test_only_the_person_who_imported_may_undo(writer: Client, sign_in: Any) -> None:
    address = sent(writer, {"content": "one"})
    other = sign_in("add_memory", name="ben")
    assert other.post(f"{address}undo/").status_code == 404
    assert Memory.objects.live().exists()


def test_a_running_import_shows_rows_and_time_left(writer: Client) -> None:
    address = sent(writer, {"content": "one"})
    run = MaintenanceRun.objects.get()
    run.status, run.started_at = "running", timezone.now() - timedelta(seconds=60)
    run.done, run.total, run.result = (
        500,
        1000,
        {"counts": {"memories created": 1200, "failed": 3, "ignored": 9}},
    )
    run.heartbeat_at, run.finished_at = timezone.now(), None
    run.worker = nodes.worker_id()
    run.save()
    shown = main(writer.get(address)).words
    assert "1,203 rows, about" in shown
    assert "left" in shown


@pytest.mark.sqlite  # PostgreSQL has a copy of the file
def test_a_dry_run_whose_file_is_gone_says_so(writer: Client, home: Path) -> None:
    address = sent(writer, {"content": "one"}, do="dry_run")
    for path in (home / "imports").iterdir():
        path.unlink()
    assert "upload it again" in main(writer.post(f"{address}import/", follow=True)).words


def test_a_claude_md_is_seen_by_its_content(writer: Client) -> None:
    text = b"# Rules\n\n- Use British English\n- Never commit on Friday\n"
    address = sent(writer, text, name="CLAUDE.local.md", project="shop")
    assert "Markdown (CLAUDE.md)" in main(writer.get(address)).words
    assert set(Memory.objects.values_list("scope", "owner")) == {("personal", "ada")}


def test_hostile_names_and_fields_are_shown_as_text(writer: Client) -> None:
    address = sent(
        writer,
        {"content": "x", "<script>alert(1)</script>": 1},
        {"content": "", "<b>": 1},
        name="<img src=x onerror=alert(1)>.jsonl",
    )
    raw = writer.get(address).content.decode()
    assert "<script>alert" not in raw
    assert "<img src=x" not in raw
    assert "&lt;script&gt;alert(1)" in raw


def test_without_a_file_the_form_says_what_is_missing(writer: Client) -> None:
    response = writer.post("/transfer/import/", {"do": "run"})
    assert response.status_code == 422
    assert "required" in main(response).words


def test_a_file_that_is_too_large_is_refused_in_words(writer: Client, configure: Any, home: Path) -> None:
    configure(max_upload_mb=1)
    for size in (1_200_000, 3_000_000):
        response = send(writer, b"x" * size)
        assert response.status_code == 413
        assert "larger than 1 MiB" in main(response).words
    assert not MaintenanceRun.objects.exists()
    assert not list(home.glob("imports/*"))


def test_an_import_without_the_forms_token_is_refused(person: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("ada", "add_memory"))
    assert send(client, {"content": "forged"}).status_code == 403
    assert not MaintenanceRun.objects.exists()


def test_who_may_not_add_memories_imports_nothing(visitor: Client) -> None:
    assert "you need the permission to add" in main(visitor.get("/transfer/")).words
    assert send(visitor, {"content": "x"}).status_code == 403
    assert Client().get("/transfer/").status_code == 302


def test_others_do_not_see_an_import(writer: Client, sign_in: Any) -> None:
    address = sent(writer, {"content": "x"})
    other = sign_in("add_memory", name="ben")
    other.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    for found in (other.get(address), other.get(f"{address}progress/"), other.post(f"{address}import/")):
        assert found.status_code == 404
    assert "notes.jsonl" not in main(other.get("/transfer/")).words
    assert address in page(writer.get("/transfer/")).links()


def test_ids_and_authors_are_taken_over_for_an_administrator_only(writer: Client, db: None) -> None:
    line = {"content": "x", "id": "abcdefgh", "author": "token:claude"}
    sent(writer, line)
    assert Memory.objects.get().uid != "abcdefgh"
    assert Memory.objects.get().author == "user:ada"
    Memory.objects.all().delete()
    User.objects.create_superuser("root", password="x")
    root = Client()
    root.force_login(User.objects.get(username="root"))
    sent(root, line)
    assert (Memory.objects.get().uid, Memory.objects.get().author) == ("abcdefgh", "token:claude")


def test_a_waiting_import_polls_can_be_stopped_and_resumed(writer: Client) -> None:
    address = send(writer, {"content": "x"}).url
    assert "Waiting to start" in main(writer.get(address)).words
    assert b"every 1s" in writer.get(f"{address}progress/", headers={"HX-Request": "true"}).content
    writer.post(f"{address}stop/")
    assert "Stopped" in main(writer.get(address)).words
    writer.post(f"{address}resume/")
    assert executor.execute(MaintenanceRun.objects.get())
    ended = writer.get(f"{address}progress/", headers={"HX-Request": "true"})
    assert ended["HX-Retarget"] == "#import"
    assert Memory.objects.count() == 1


def test_a_project_beyond_its_cap_is_shown_with_its_numbers(writer: Client, configure: Any) -> None:
    configure(max_memories=1)
    lines = [{"content": "one", "project": "<b>shop"}, {"content": "two", "project": "<b>shop"}]
    shown = main(writer.get(sent(writer, *lines))).words
    assert "Over the cap<b>shop: 2 of at most 1" in shown
    assert "Nothing was removed." in shown


def test_the_choices_before_an_import_begin_with_the_numbers_of_the_cap(
    writer: Client, configure: Any
) -> None:
    configure(max_memories=1)
    lines = [{"content": text, "project": "shop"} for text in ("one", "two", "three")]
    page = writer.get(sent(writer, *lines, do="dry_run")).content.decode()
    form, _, rest = page.partition('id="choices-title"')[2].partition("</form>")
    assert '<span class="num">3</span> of at most <span class="num">1</span> memories of one owner' in form
    assert "The import removes nothing." in form
    assert "Over the cap" not in rest


def test_the_page_asks_to_close_a_program_before_its_database_is_uploaded(writer: Client) -> None:
    assert "a separate -wal file" in main(writer.get("/transfer/")).words


def test_maintenance_lists_imports_without_the_names_of_files(writer: Client, sign_in: Any) -> None:
    uid = sent(writer, {"content": ""}, name="about-a-secret-plan.jsonl").split("/")[-2]
    keeper = sign_in("add_maintenancerun", name="keeper")
    for address in ("/maintenance/runs/", f"/maintenance/runs/{uid}/"):
        response = keeper.get(address)
        assert response.status_code == 200
        assert "Import" in main(response).words
        assert b"secret-plan" not in response.content
    assert b'value="import"' not in keeper.get("/maintenance/").content


# Membership


def test_an_import_does_not_go_on_in_a_project_that_its_person_has_left(writer: Client) -> None:
    ada = User.objects.get(username="ada")
    gone = Membership.objects.create(user=ada, project="shop")
    Membership.objects.create(user=ada, project="farm")
    address = send(writer, {"content": "x"}, project="shop").url
    writer.post(f"{address}stop/")
    gone.delete()
    writer.post(f"{address}resume/")
    assert MaintenanceRun.objects.get().status == "failed"
    assert not Memory.objects.exists()


def test_a_confined_user_imports_into_and_exports_from_their_projects_only(
    writer: Client, remember: Any
) -> None:
    ada = User.objects.get(username="ada")
    Membership.objects.create(user=ada, project="farm", clearance="private")
    remember("not hers", project="zoo")
    remember("hers", project="farm", sensitivity="private")
    lines = [{"content": "a", "project": "zoo"}, {"content": "b", "project": "farm"}, {"content": "c"}]
    shown = main(writer.get(sent(writer, *lines))).words
    assert "line 1: project: you may write only to: farm" in shown
    assert set(Memory.objects.filter(author="user:ada").values_list("project", flat=True)) == {"farm"}
    writer.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    for query in ({}, {"whole": "on"}, {"format": "markdown"}, {"project": "zoo", "whole": "on"}):
        shown = writer.get("/transfer/export/", query).getvalue()
        assert b"not hers" not in shown
        assert (b"hers" in shown) == ("project" not in query)


def test_an_administrator_who_is_confined_restores_nothing_of_other_projects(
    writer: Client, sign_in: Any
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


# Export


def test_what_a_person_sees_goes_out_and_no_more(four_levels: Any, sign_in: Any) -> None:
    client = sign_in("view_private")
    assert [line["sensitivity"] for line in exported(client)] == ["public"]
    assert "1 private" in main(client.get("/transfer/")).words
    client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    assert [line["sensitivity"] for line in exported(client)] == ["public", "private"]
    shown = main(client.get("/transfer/")).words
    assert "2 memories" in shown
    assert "secret" not in shown
    assert "unknown" not in shown


def test_a_secret_that_goes_out_is_journaled(four_levels: Any, insider: Client) -> None:
    assert len(exported(insider)) == 3
    row = JournalEntry.objects.get(operation="export")
    secret = Memory.objects.get(sensitivity="secret")
    assert (row.actor, row.detail) == ("user:ada", {"secret": 1, "ids": [secret.uid]})


def test_an_export_is_a_file_that_no_cache_keeps(four_levels: Any, visitor: Client) -> None:
    response = visitor.get("/transfer/export/")
    assert response["Content-Disposition"].startswith('attachment; filename="memories-')
    assert "no-store" in response["Cache-Control"]


def test_history_is_exported_in_the_own_format_only(four_levels: Any, visitor: Client) -> None:
    kinds = {line["kind"] for line in exported(visitor, whole="on", project="zoo")}
    assert {"memoryhub", "memory", "journal"} <= kinds
    response = visitor.get("/transfer/export/", {"whole": "on", "format": "markdown"})
    assert response.status_code == 422
    assert "Only memoryhub" in main(response).words


# Raise the cap

TO_SHOP = [{"content": text, "project": "shop"} for text in ("one", "two", "three")]
OFFER = "Raise the cap of shop to 4"


@pytest.fixture
def maintainer(sign_in: Any, configure: Any) -> Client:
    configure(max_memories=1)
    return sign_in("add_memory", "add_maintenancerun", name="mia")


def import_for_good(client: Client, **choices: Any) -> str:
    """Check the file, import it with choices, and return the address of the import."""
    answer = client.post(f"{sent(client, *TO_SHOP, do='dry_run')}import/", choices)
    assert answer.status_code == 302, answer.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=answer.url.split("/")[-2]))
    return str(answer.url)


def test_an_import_raises_the_cap_that_was_chosen_and_its_undo_restores_it(maintainer: Client) -> None:
    projects.configure_project("shop", OPERATOR, max_memories=2)
    assert OFFER in main(maintainer.get(sent(maintainer, *TO_SHOP, do="dry_run"))).words
    address = import_for_good(maintainer, caps="shop")
    assert Project.objects.get().max_memories == 4
    row = JournalEntry.objects.filter(operation="configure").latest("seq")
    assert (row.actor, row.detail["was"], row.detail["left"]) == (
        "user:mia",
        {"max_memories": 2},
        {"max_memories": 4},
    )
    shown = main(maintainer.get(address)).words
    assert "Cap raisedshop: at most 4 memories of one owner" in shown
    assert "Over the cap" not in shown
    assert "rows3" in shown
    assert "The caps that it raised are restored" in main(maintainer.get(f"{address}undo/")).words
    undo(maintainer, address)
    assert Project.objects.get().max_memories == 2
    assert not Memory.objects.live().exists()


def test_an_import_without_the_choice_leaves_the_cap(maintainer: Client) -> None:
    address = import_for_good(maintainer)
    assert not Project.objects.exists()
    assert "Change its cap" in main(maintainer.get(address)).words


def test_the_undo_keeps_a_cap_that_was_changed_since(maintainer: Client) -> None:
    address = import_for_good(maintainer, caps="shop")
    projects.configure_project("shop", OPERATOR, max_memories=99)
    undo(maintainer, address)
    assert Project.objects.get().max_memories == 99
    assert not Memory.objects.live().exists()


def test_an_agent_loses_no_imported_memory_after_the_cap_was_raised(maintainer: Client) -> None:
    import_for_good(maintainer, caps="shop")
    mia = Actor("user:mia", Clearance(owner="mia"))
    memories.create_memory(MemoryDraft(content="four", project="shop"), mia)
    assert Memory.objects.live().count() == 4


def test_people_who_may_not_change_the_settings_see_who_can(
    maintainer: Client, writer: Client, sign_in: Any
) -> None:
    sign_in("add_maintenancerun", name="elsewhere")
    Membership.objects.create(user=User.objects.get(username="elsewhere"), project="farm")
    address = sent(writer, *TO_SHOP, do="dry_run")
    shown = main(writer.get(address)).words
    assert "These people can raise the cap: mia." in shown
    assert OFFER not in shown
    writer.post(f"{address}import/", {"caps": "shop"})
    assert executor.execute(MaintenanceRun.objects.get(dry_run=False))
    assert Memory.objects.count() == 3
    assert not Project.objects.exists()


def test_a_cap_of_another_project_is_refused(maintainer: Client) -> None:
    address = sent(maintainer, *TO_SHOP, do="dry_run")
    answer = maintainer.post(f"{address}import/", {"caps": ["shop", "farm"]})
    assert answer.status_code == 422
    assert "Nothing was imported." in answer.content.decode()
    assert not Project.objects.exists()


def test_an_import_that_goes_on_after_its_person_left_the_project_raises_no_cap(maintainer: Client) -> None:
    mia = User.objects.get(username="mia")
    gone = Membership.objects.create(user=mia, project="shop")
    Membership.objects.create(user=mia, project="farm")
    address = sent(maintainer, *TO_SHOP, do="dry_run")
    waiting = maintainer.post(f"{address}import/", {"caps": "shop"}).url
    maintainer.post(f"{waiting}stop/")
    gone.delete()
    maintainer.post(f"{waiting}resume/")
    executor.execute(MaintenanceRun.objects.get(dry_run=False))
    assert not Project.objects.exists()
    assert not Memory.objects.exists()


def test_memories_without_a_project_have_no_cap_to_raise(maintainer: Client) -> None:
    shown = main(maintainer.get(sent(maintainer, {"content": "a"}, {"content": "b"}, do="dry_run"))).words
    assert "The operator of the hub can set max_memories to at least 2." in shown
    assert "Raise the cap" not in shown
