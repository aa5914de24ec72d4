"""The form of a memory: the drafts' limits, the store's refusals, the person's name in the journal."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from memoryhub import memories
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.admin.conftest import page, shown_messages
from tests.clients import turn_on_levels

FULL = {
    "title": "A title",
    "content": "Some content\r\nin two lines",
    "type": "decision",
    "category": "ops",
    "sensitivity": "public",
    "scope": "project",
    "project": "hub",
    "importance": "0.7",
    "trust": "0.5",
    "confidence": "0.5",
    "ttl_days": "30",
    "tags": "one\r\ntwo\r\n\r\n one ",
    "concepts": "gotcha",
    "files_read": "src/a.py\r\nsrc/b.py",
    "files_modified": "",
    "entities": "Ada | person\r\nthe hub",
    "subtitle": "",
    "abstract": "",
    "overview": "",
    "session_id": "",
    "key": "",
    "discovery_tokens": "12",
}


def form_of(client, memory, **changes):
    """What a browser would send back from the page of a memory, with some fields changed."""
    form = client.get(page(Memory, "change", memory.pk)).context["adminform"].form
    data = {name: form[name].value() for name in form.fields}
    data |= {
        form[name].html_initial_name: form[name].value() for name in ("importance", "trust", "confidence")
    }
    data = {name: "\r\n".join(v) if isinstance(v, list) else v for name, v in data.items()}
    return {name: "" if value is None else value for name, value in (data | changes).items()}


def save(client, memory, **changes):
    return client.post(page(Memory, "change", memory.pk), form_of(client, memory, **changes))


def errors(response) -> dict[str, list[str]]:
    assert response.status_code == 200
    return {
        name: [str(e) for e in found] for name, found in response.context["adminform"].form.errors.items()
    }


def test_a_new_memory_is_stored_with_everything_that_was_entered(curator):
    curator.post(page(Memory, "add"), FULL)
    memory = Memory.objects.get()
    assert memory.content == "Some content\nin two lines"
    assert (memory.title, memory.type, memory.category, memory.project) == (
        "A title",
        "decision",
        "ops",
        "hub",
    )
    assert (memory.importance, memory.discovery_tokens, memory.author) == (0.7, 12, "user:cleo")
    assert list_values(memory, "tags") == ["one", "two"]
    assert list_values(memory, "files_read") == ["src/a.py", "src/b.py"]
    assert [e["entity_type"] for e in list_values(memory, "entities")] == ["person", "concept"]
    assert timedelta(days=29) < memory.expires_at - timezone.now() < timedelta(days=31)


def test_a_new_memory_is_journaled_under_the_persons_name(curator):
    curator.post(page(Memory, "add"), FULL)
    row = JournalEntry.objects.get()
    assert (row.actor, row.operation, row.object_id) == ("user:cleo", "insert", Memory.objects.get().uid)


def test_the_same_words_again_refresh_the_memory_that_is_there(curator):
    curator.post(page(Memory, "add"), FULL)
    response = curator.post(page(Memory, "add"), FULL)
    assert Memory.objects.count() == 1
    assert any("refreshed" in text for text in shown_messages(curator, response))


def test_a_new_memory_lives_as_long_as_configured_unless_told_otherwise(curator, configure):
    configure(default_ttl_days=10)
    form = curator.get(page(Memory, "add")).context["adminform"].form
    assert form["ttl_days"].value() == 10
    curator.post(page(Memory, "add"), {**FULL, "ttl_days": "10"})
    curator.post(page(Memory, "add"), {**FULL, "content": "for ever", "ttl_days": ""})
    assert Memory.objects.get(content="for ever").expires_at is None
    assert Memory.objects.exclude(content="for ever").get().ttl_days == 10


def test_a_change_writes_a_revision_and_a_journal_row_of_the_person(curator, remember):
    memory = remember("before")
    save(curator, memory, content="after", tags="new")
    memory.refresh_from_db()
    assert memory.content == "after"
    assert memory.revisions.get().before["content"] == "before"
    row = JournalEntry.objects.get(operation="update")
    assert row.actor == "user:cleo"
    assert {"content", "tags"} <= set(row.detail["fields"])


def test_a_form_sent_back_as_it_was_changes_nothing(curator, remember):
    memory = remember(
        "line one\nline two\r\nline three\n",
        tags=["b", "a"],
        entities=[{"entity": "a | b", "entity_type": "x"}, {"entity": "Ada", "entity_type": "person"}],
        files_read=["a b.py"],
        ttl_days=3,
    )
    before = Memory.objects.values().get()
    response = save(curator, memory)
    assert response.status_code == 302
    assert Memory.objects.values().get() == before
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_saving_a_title_does_not_begin_the_memorys_time_anew(curator, remember):
    memory = remember("text", ttl_days=3)
    save(curator, memory, title="another title")
    assert Memory.objects.get().expires_at == memory.expires_at


def test_leading_and_trailing_white_space_of_a_content_is_kept(curator, remember):
    memory = remember("x")
    save(curator, memory, content="\r\n    indented\r\n")
    assert Memory.objects.get().content == "\n    indented\n"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", "   "),
        ("content", "x" * 100_001),
        ("content", "a\x00b"),
        ("title", "x" * 501),
        ("subtitle", "x" * 1001),
        ("abstract", "x" * 2001),
        ("overview", "x" * 20_001),
        ("category", " "),
        ("category", "x" * 101),
        ("type", "rumour"),
        ("sensitivity", "cosmic"),
        ("scope", "galaxy"),
        ("importance", "1.01"),
        ("importance", "nan"),
        ("trust", "-0.1"),
        ("confidence", "much"),
        ("ttl_days", "-1"),
        ("ttl_days", "inf"),
        ("ttl_days", "1e9"),
        ("discovery_tokens", "-1"),
        ("discovery_tokens", "9" * 30),
        ("project", "x" * 201),
        ("session_id", "x" * 201),
        ("key", "x" * 201),
        ("tags", "x" * 101),
        ("tags", "\r\n".join(map(str, range(1001)))),
        ("files_read", "x" * 1001),
        ("entities", "x" * 201),
        ("entities", "a | " + "x" * 51),
        ("entities", "| kind"),
    ],
)
@pytest.mark.parametrize("how", ["add", "change"])
def test_a_bad_value_is_an_error_at_its_field(curator, remember, how, field, value):
    if how == "add":
        response = curator.post(page(Memory, "add"), {**FULL, field: value})
        assert not Memory.objects.exists()
    else:
        memory = remember("as it was")
        response = save(curator, memory, **{field: value})
        assert Memory.objects.get().content == "as it was"
        assert not JournalEntry.objects.filter(operation="update").exists()
    assert list(errors(response)) == [field]


def test_a_bad_line_of_a_list_is_named_by_its_number(curator, remember):
    response = save(curator, remember("x"), tags="fine\r\n" + "x" * 101)
    assert errors(response)["tags"][0].startswith("line 2: ")


def test_a_change_by_someone_else_meanwhile_is_not_overwritten(curator, remember, actor):
    memory = remember("first")
    mine = form_of(curator, memory, content="mine")
    memories.update_memory(memory.uid, MemoryPatch(content="theirs"), actor)
    response = curator.post(page(Memory, "change", memory.pk), mine)
    assert "since you opened it" in errors(response)["__all__"][0]
    assert Memory.objects.get().content == "theirs"


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01", "9" * 40])
def test_a_form_without_its_time_stamp_is_refused(curator, remember, stamp):
    memory = remember("first")
    response = save(curator, memory, content="second", unchanged_since=stamp)
    assert errors(response)
    assert Memory.objects.get().content == "first"


def test_a_change_into_the_words_of_another_memory_is_an_error_at_the_content(curator, remember):
    remember("taken")
    response = save(curator, remember("free"), content="taken")
    assert "already" in errors(response)["content"][0]
    assert sorted(Memory.objects.values_list("content", flat=True)) == ["free", "taken"]


def test_a_key_that_is_taken_is_an_error_at_the_key(curator, remember):
    remember("one", key="k")
    response = save(curator, remember("two"), key="k")
    assert "already" in errors(response)["key"][0]


def test_a_memory_that_becomes_personal_is_the_persons(curator, remember):
    memory = remember("to keep")
    save(curator, memory, scope="personal")
    memory.refresh_from_db()
    assert (memory.scope, memory.owner) == ("personal", "cleo")


def test_a_memory_raised_out_of_sight_leaves_no_page_behind(curator, remember):
    memory = remember("to hide")
    response = curator.post(
        page(Memory, "change", memory.pk), form_of(curator, memory, sensitivity="secret") | {"_continue": "1"}
    )
    assert response.url == page(Memory)
    assert any("out of your sight" in text for text in shown_messages(curator, response))


def test_what_lies_in_the_trash_cannot_be_edited(curator, remember, actor):
    memory = remember("gone")
    data = form_of(curator, memory, content="back")
    memories.trash_memories([memory.uid], actor)
    assert curator.post(page(Memory, "change", memory.pk), data).status_code == 403
    response = curator.get(page(Memory, "change", memory.pk))
    assert response.status_code == 200
    assert b'name="content"' not in response.content
    assert Memory.objects.get().content == "gone"


def test_one_who_may_only_look_sees_everything_and_changes_nothing(staff, remember):
    client = staff("view_memory")
    memory = remember(
        "readable text",
        tags=["a tag"],
        concepts=["gotcha"],
        files_read=["read.py"],
        files_modified=["changed.py"],
        entities=[{"entity": "Ada", "entity_type": "person"}],
    )
    text = client.get(page(Memory, "change", memory.pk)).content.decode()
    for shown in ("readable text", "a tag", "gotcha", "read.py", "changed.py", "Ada | person"):
        assert shown in text
    assert client.post(page(Memory, "change", memory.pk), FULL).status_code == 403
    assert client.get(page(Memory, "add")).status_code == 403
    assert client.post(page(Memory, "delete", memory.pk), {"post": "yes"}).status_code == 403


def test_save_as_new_is_no_way_around_the_permission_to_add(staff, remember):
    client = staff("view_memory", "change_memory")
    memory = remember("one")
    assert client.post(page(Memory, "change", memory.pk), {**FULL, "_saveasnew": "1"}).status_code == 403


def test_deleting_moves_to_the_trash_under_the_persons_name(curator, remember):
    memory = remember("unwanted")
    assert b"trash" in curator.get(page(Memory, "delete", memory.pk)).content
    curator.post(page(Memory, "delete", memory.pk), {"post": "yes"})
    memory.refresh_from_db()
    assert memory.deleted_at is not None
    assert JournalEntry.objects.get(operation="delete").actor == "user:cleo"


def test_the_confirmation_of_a_deletion_lists_nothing_else(boss, remember, actor):
    memory = remember("unwanted", tags=["attached"])
    memories.update_memory(memory.uid, MemoryPatch(subtitle="x"), actor)
    text = boss.get(page(Memory, "delete", memory.pk)).content.decode()
    assert "attached" not in text
    assert "evision" not in text


def test_opening_a_secret_memory_is_journaled_as_revealed(staff, remember):
    client = turn_on_levels(staff("view_memory", "view_secret"), "secret")
    memory = remember("hush", sensitivity="secret")
    client.get(page(Memory, "change", memory.pk))
    row = JournalEntry.objects.get(operation="reveal")
    assert (row.actor, row.object_id, row.sensitivity) == ("user:cleo", memory.uid, "secret")


def test_a_secret_shown_by_a_refused_form_is_revealed_too(boss, remember):
    turn_on_levels(boss, "secret")
    memory = remember("hush", sensitivity="secret")
    boss.post(page(Memory, "change", memory.pk), {})
    assert JournalEntry.objects.get(operation="reveal").object_id == memory.uid


@pytest.mark.parametrize("level", ["public", "private"])
def test_opening_other_levels_leaves_no_trace(boss, remember, level):
    turn_on_levels(boss, "private")
    boss.get(page(Memory, "change", remember("plain", sensitivity=level).pk))
    assert not JournalEntry.objects.filter(operation="reveal").exists()


def test_opening_does_not_count_as_an_access(boss, remember):
    memory = remember("x")
    boss.get(page(Memory, "change", memory.pk))
    assert Memory.objects.get().accessed_count == 0


def test_neither_log_nor_messages_hold_a_memorys_words(boss, remember):
    turn_on_levels(boss, "secret")
    memory = remember("xylophone words", title="Xylophone", sensitivity="secret")
    answers = [save(boss, memory, title="Xylophone two", content="xylophone changed")]
    answers.append(boss.post(page(Memory, "delete", memory.pk), {"post": "yes"}))
    answers.append(
        boss.post(page(Memory, "add"), {**FULL, "title": "Xylophone three", "sensitivity": "secret"})
    )
    for response in answers:
        assert response.status_code == 302
        assert not any("ylophone" in text for text in shown_messages(boss, response))
    logged = json.dumps(list(LogEntry.objects.values_list("object_repr", "change_message")))
    assert LogEntry.objects.count() == 3
    assert "ylophone" not in logged
    assert memory.uid in logged


def test_recent_actions_name_a_hidden_memory_by_its_id_alone(boss, remember):
    turn_on_levels(boss, "secret")
    memory = remember("xylophone", title="Xylophone", sensitivity="secret")
    save(boss, memory, category="ops")
    session = boss.session
    session["show_secret"] = False
    session.save()
    text = boss.get("/admin/").content.decode()
    assert memory.uid in text
    assert "ylophone" not in text


def test_stored_markup_is_shown_as_text(boss, remember):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    memory = remember(evil, title=evil, category=evil[:90], tags=[evil[:90]], project=evil)
    Memory.objects.update(flags=[evil])
    for address in (page(Memory), page(Memory, "change", memory.pk), page(Memory, "delete", memory.pk)):
        text = boss.get(address).content.decode()
        assert "<script>alert" not in text
        assert "<img" not in text.replace('<img src="/static', "")


def test_importance_of_many_digits_is_shown_with_two_and_left_as_it_is(staff, remember):
    client = staff("view_memory", "change_memory")
    memory = remember("words", importance=0.488698496846991)
    assert form_of(client, memory)["importance"] == "0.49"
    assert (
        'name="initial-importance" value="0.49"'
        in client.get(page(Memory, "change", memory.pk)).content.decode()
    )
    save(client, memory, title="another")
    memory.refresh_from_db()
    assert (memory.title, memory.importance) == ("another", 0.488698496846991)
