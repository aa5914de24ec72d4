"""The pages of memory checks, and their failures on Home."""

from __future__ import annotations

import re

import pytest

from memoryhub import checks
from memoryhub.models import Membership, MemoryCheck
from tests.cases import each
from tests.web.markup import submitted_fields
from tests.web.test_recall_test import text

PROMPT = "what do we know about zebra stripes?"
ZEBRA = "zebra stripes are like finger prints"


def create(client, **fields):
    values = {"prompt": PROMPT, "level": "public", "enabled": "on", "must_words": "quagga", **fields}
    return client.post("/checks/new/", values, follow=True)


def test_check_is_created_and_run(sign_in, remember):
    memory = remember(ZEBRA, title="Stripes")
    client = sign_in("change_memory")
    page = text(create(client, must_bring=memory.uid, must_words=""))
    assert "Check saved. It passes." in page
    assert "Must return Stripes" in page


def test_form_forbids_no_level_at_first_and_leads_back_to_the_checks(sign_in):
    page = sign_in("change_memory").get("/checks/new/").content.decode()
    assert '<option value="" selected>None</option>' in page
    assert '<p class="back"><a href="/checks/" data-back>' in page


def test_failed_check_is_on_home_with_its_reason(sign_in, remember):
    remember(ZEBRA)
    client = sign_in("change_memory")
    create(client)
    page = client.get("/").content.decode()
    assert "Expected a memory with “quagga”" in page
    assert 'href="/checks/"' in page


def test_failure_is_not_on_home_of_people_without_access(sign_in, person, remember):
    remember(ZEBRA, project="circus")
    create(sign_in("change_memory", "view_private"), project="zoo", level="private")
    create(sign_in("change_memory", name="carl"), project="zoo")
    bob = sign_in(name="bob")
    assert bob.get("/").content.decode().count("Memory check failed") == 1
    confined = sign_in(name="eve")
    Membership.objects.create(user=person("x").__class__.objects.get(username="eve"), project="circus")
    assert "Memory check failed" not in confined.get("/").content.decode()


def test_recall_preview_offers_to_keep_a_check(sign_in, remember):
    memory = remember(ZEBRA)
    client = sign_in("change_memory")
    page = client.post("/preview/", {"prompt": PROMPT}).content.decode()
    assert "Save as a check" in page
    form = client.post("/checks/new/", {"start": "1", "prompt": PROMPT, "must_bring": memory.uid})
    assert memory.uid in form.content.decode()
    assert not MemoryCheck.objects.exists()


def boxes(response) -> dict[str, bool]:
    """The memories that the form offers by id, and whether each is ticked."""
    found = re.findall(
        r'type="checkbox" name="must_bring" value="(\w+)"( checked)?', response.content.decode()
    )
    return {uid: bool(checked) for uid, checked in found}


def test_memories_are_found_by_words_and_the_form_keeps_its_values(sign_in, remember):
    stripes, spots = remember(ZEBRA, title="Stripes"), remember("leopards have spots", title="Spots")
    remember("zebra stripes in private", sensitivity="private")
    typed = {"prompt": PROMPT, "level": "public", "must_bring": spots.uid, "must_bring_search": "zebra"}
    response = sign_in("change_memory").post("/checks/new/", {**typed, "find": "must_bring"})
    assert response.status_code == 200
    assert boxes(response) == {spots.uid: True, stripes.uid: False}
    assert PROMPT in text(response)
    assert "Stripes" in text(response)
    assert not MemoryCheck.objects.exists()


def test_a_search_without_matches_is_explained(sign_in, db):
    typed = {"prompt": PROMPT, "must_bring_search": "zeppelin", "find": "must_bring"}
    response = sign_in("change_memory").post("/checks/new/", typed)
    assert "No other memory matches “ zeppelin ”." in text(response)


def test_several_ticked_memories_are_saved(sign_in, remember):
    uids = [remember(ZEBRA).uid, remember("zebras run in herds").uid]
    create(sign_in("change_memory"), must_bring=uids, must_words="")
    assert sorted(checks.to_draft(MemoryCheck.objects.get())["must_bring"]) == sorted(uids)


def test_an_id_in_the_search_box_chooses_its_memory(sign_in, remember):
    memory = remember(ZEBRA)
    client = sign_in("change_memory")
    typed = {"prompt": PROMPT, "must_bring_search": memory.uid}
    assert boxes(client.post("/checks/new/", {**typed, "find": "1"})) == {memory.uid: True}
    create(client, must_bring_search=memory.uid, must_words="")
    assert checks.to_draft(MemoryCheck.objects.get())["must_bring"] == [memory.uid]


def test_a_check_of_an_erased_memory_can_still_be_edited(sign_in, remember):
    memory = remember(ZEBRA)
    client = sign_in("change_memory")
    check = create_check(client, memory)
    memory.delete()
    assert boxes(client.get(f"/checks/{check.uid}/")) == {memory.uid: True}


def create_check(client, memory):
    create(client, must_bring=memory.uid, never_words="one\ntwo words", project="zoo", enabled="")
    return MemoryCheck.objects.get()


def test_form_that_is_sent_twice_stores_one_check(sign_in, remember):
    client, memory = sign_in("change_memory"), remember(ZEBRA)
    for expected in ("crossing", "crossing", "other"):
        create(client, must_bring=memory.uid, must_words=f"zebra\n{expected}", project="zoo")
    assert sorted(check.must_words for check in MemoryCheck.objects.all()) == [
        ["zebra", "crossing"],
        ["zebra", "other"],
    ]


def test_deleted_check_can_be_restored(sign_in, remember):
    client = sign_in("change_memory")
    check = create_check(client, remember(ZEBRA))
    before = checks.to_draft(check)
    page = client.post(f"/checks/{check.uid}/delete/", follow=True).content.decode()
    assert not MemoryCheck.objects.exists()
    form = page.partition('class="undo">')[2].partition("</form>")[0]
    client.post("/checks/new/", submitted_fields(form))
    assert checks.to_draft(MemoryCheck.objects.get()) == before


def test_change_of_a_check_can_be_undone(sign_in, remember):
    client = sign_in("change_memory")
    check = create_check(client, remember(ZEBRA))
    before = checks.to_draft(check)
    path = f"/checks/{check.uid}/"
    values = {"prompt": "another prompt", "level": "public", "must_words": "zebra"}
    page = client.post(path, values, follow=True).content.decode()
    form = page.partition(f'action="{path}" class="undo">')[2].partition("</form>")[0]
    client.post(path, submitted_fields(form))
    assert checks.to_draft(MemoryCheck.objects.get()) == before


def test_check_is_edited_run_and_deleted(sign_in, remember):
    remember(ZEBRA)
    client = sign_in("change_memory")
    create(client)
    path = f"/checks/{MemoryCheck.objects.get().uid}/"
    values = {"prompt": PROMPT, "level": "public", "must_words": "zebra"}
    assert "It passes." in text(client.post(path, values, follow=True))
    assert "The check passes." in text(client.post(f"{path}run/", follow=True))
    assert "Check deleted." in text(client.post(f"{path}delete/", follow=True))
    assert not MemoryCheck.objects.exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"prompt": ""}, "Type what an agent would be asked."),
        ({"must_words": ""}, "Add at least one memory, word, project or level to check for."),
        ({"must_bring": "nothere"}, "There is no memory nothere"),
        ({"must_bring_search": "abcdefghijklmnop"}, "There is no memory abcdefghijklmnop"),
        ({"must_words": "x" * 201}, "at most 200 characters"),
        ({"level": "secret"}, "You cannot see this level here"),
    ],
)
def test_bad_check_is_explained(sign_in, fields, said):
    response = create(sign_in("change_memory"), **fields)
    assert response.status_code == 422
    assert said in text(response)
    assert not MemoryCheck.objects.exists()


def test_viewer_without_permission_can_run_but_not_change(sign_in, remember):
    create(sign_in("change_memory"))
    uid = MemoryCheck.objects.get().uid
    bob = sign_in(name="bob")
    assert bob.get("/checks/new/").status_code == 403
    assert bob.post(f"/checks/{uid}/delete/").status_code == 403
    assert bob.post(f"/checks/{uid}/run/").status_code == 302


@each("level", ["private", "secret", "cosmic"])
def test_hidden_check_is_not_found(sign_in, level):
    check = MemoryCheck.objects.create(owner="ada", prompt=PROMPT, sensitivity=level)
    client = sign_in("change_memory")
    assert PROMPT not in text(client.get("/checks/"))
    for path in ("", "run/", "delete/"):
        assert client.post(f"/checks/{check.uid}/{path}").status_code == 404


def test_text_of_a_check_is_escaped(sign_in):
    client = sign_in("change_memory")
    page = create(client, prompt="<script>alert(1)</script>", must_words="<b>x</b>").content.decode()
    assert "<script>alert" not in page
    assert "<b>x</b>" not in page


def test_maintenance_page_lists_the_daily_run_of_checks(sign_in, remember, configure):
    configure(maintenance_at="03:30")
    create(sign_in("change_memory"))
    page = sign_in("view_maintenancerun", name="olga").get("/maintenance/")
    assert "Run memory checks" in page.content.decode()
