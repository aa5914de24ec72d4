"""Facts in the admin: created, corrected and deleted through the services, under the user's name."""

from __future__ import annotations

import pytest

from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry
from tests.admin.conftest import act, confirm, page, shown_messages
from tests.cases import each
from tests.clients import turn_on_levels

FORM = {
    "subject": "hub",
    "predicate": "runs on",
    "object": "SQLite",
    "confidence": "0.9",
    "sensitivity": "public",
    "project": "hub",
    "session_id": "",
    "memory_id": "",
}
KEEPER = ("view_fact", "add_fact", "change_fact", "delete_fact")


@pytest.fixture
def keeper(staff):
    return staff(*KEEPER)


@pytest.fixture
def fact(db, actor):
    return services.create_fact(FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)[0]


def form_of(client, fact, **changes):
    form = client.get(page(Fact, "change", fact.pk)).context["adminform"].form
    shown = {name: form[name].value() or "" for name in form.fields}
    return shown | {"initial-confidence": shown["confidence"]} | changes


def errors(response) -> dict[str, list[str]]:
    assert response.status_code == 200
    return {
        name: [str(e) for e in found] for name, found in response.context["adminform"].form.errors.items()
    }


def test_a_new_fact_is_stored_under_the_persons_name(keeper, remember):
    memory = remember("source")
    keeper.post(page(Fact, "add"), FORM | {"memory_id": memory.uid})
    fact = Fact.objects.get()
    assert (fact.subject, fact.object, fact.confidence, fact.memory) == ("hub", "SQLite", 0.9, memory)
    row = JournalEntry.objects.get(object_type="fact")
    assert (row.actor, row.operation, row.object_id) == ("user:cleo", "insert", fact.uid)


def test_the_same_fact_again_updates_its_confidence(keeper):
    keeper.post(page(Fact, "add"), FORM)
    response = keeper.post(page(Fact, "add"), FORM | {"confidence": "0.2"})
    assert Fact.objects.get().confidence == 0.2
    assert any("already exists" in text for text in shown_messages(keeper, response))


def test_a_fact_is_corrected(keeper, fact):
    response = keeper.post(page(Fact, "change", fact.pk), form_of(keeper, fact, object="files"))
    assert response.status_code == 302
    assert Fact.objects.get().object == "files"
    assert JournalEntry.objects.get(operation="update").actor == "user:cleo"


def test_an_unchanged_form_changes_nothing(keeper, fact):
    keeper.post(page(Fact, "change", fact.pk), form_of(keeper, fact))
    assert not JournalEntry.objects.filter(operation="update").exists()


@each(
    "field, value",
    [
        ("subject", ""),
        ("subject", "x" * 501),
        ("predicate", " "),
        ("predicate", "x" * 201),
        ("object", " "),
        ("object", "x" * 10_001),
        ("confidence", "1.5"),
        ("confidence", "nan"),
        ("sensitivity", "cosmic"),
        ("project", "x" * 201),
        ("memory_id", "nothing"),
        ("memory_id", "x" * 65),
    ],
)
@each("how", ["add", "change"])
def test_a_bad_value_is_an_error_at_its_field(keeper, fact, how, field, value):
    before = list(Fact.objects.values())
    if how == "add":
        response = keeper.post(page(Fact, "add"), FORM | {field: value})
    else:
        response = keeper.post(page(Fact, "change", fact.pk), form_of(keeper, fact, **{field: value}))
    assert list(errors(response)) == [field]
    assert list(Fact.objects.values()) == before


def test_a_hidden_memory_cannot_be_named_as_source(keeper, remember):
    memory = remember("hush", sensitivity="secret")
    response = keeper.post(page(Fact, "add"), FORM | {"memory_id": memory.uid})
    missing = keeper.post(page(Fact, "add"), FORM | {"memory_id": "m" * 16})
    said = errors(response)["memory_id"][0].replace(memory.uid, "")
    assert said == errors(missing)["memory_id"][0].replace("m" * 16, "")


def test_a_fact_changed_since_it_was_opened_is_not_overwritten(keeper, fact, actor):
    mine = form_of(keeper, fact, object="mine")
    services.create_fact(
        FactDraft(subject="hub", predicate="runs on", object="SQLite", confidence=0.1), actor
    )
    response = keeper.post(page(Fact, "change", fact.pk), mine)
    assert "since you opened it" in errors(response)["__all__"][0]
    assert Fact.objects.get().object == "SQLite"


def test_a_fact_cannot_be_corrected_into_another(keeper, fact, actor):
    other, _ = services.create_fact(FactDraft(subject="hub", predicate="runs on", object="rails"), actor)
    response = keeper.post(page(Fact, "change", other.pk), form_of(keeper, other, object="SQLite"))
    assert "The same fact exists" in errors(response)["object"][0]


def test_a_fact_is_deleted_under_the_persons_name(keeper, fact):
    assert keeper.get(page(Fact, "delete", fact.pk)).status_code == 200
    response = keeper.post(page(Fact, "delete", fact.pk), {"post": "yes"})
    assert not Fact.objects.exists()
    assert JournalEntry.objects.get(operation="delete").actor == "user:cleo"
    assert not any("hub" in text for text in shown_messages(keeper, response))


def test_many_facts_are_deleted_after_a_question(keeper, actor):
    made = [
        services.create_fact(FactDraft(subject=f"s{n}", predicate="is", object="x"), actor)[0]
        for n in range(3)
    ]
    asked = act(keeper, "delete", *made[:2])
    assert "2 facts" in asked.content.decode()
    assert Fact.objects.count() == 3
    confirm(keeper, asked)
    assert list(Fact.objects.values_list("subject", flat=True)) == ["s2"]
    assert set(JournalEntry.objects.filter(operation="delete").values_list("actor", flat=True)) == {
        "user:cleo"
    }


def test_facts_deleted_before_the_confirmation_are_no_error(keeper, fact, actor):
    asked = act(keeper, "delete", fact)
    services.delete_fact(fact.uid, actor)
    response = confirm(keeper, asked)
    assert any("Nothing was changed" in text for text in shown_messages(keeper, response))


@pytest.mark.parametrize("permission", ["view_fact", "add_fact", "change_fact"])
def test_facts_are_deleted_with_permission(staff, fact, permission):
    client = staff("view_fact", permission)
    assert client.post(page(Fact, "delete", fact.pk), {"post": "yes"}).status_code == 403
    act(client, "delete", fact, confirmed="yes", keys=fact.pk)
    assert Fact.objects.exists()


def test_a_viewer_cannot_change_a_fact(staff, fact, remember, actor):
    client = staff("view_fact")
    assert client.get(page(Fact, "change", fact.pk)).status_code == 200
    assert client.post(page(Fact, "change", fact.pk), FORM).status_code == 403
    assert client.get(page(Fact, "add")).status_code == 403


def test_the_facts_of_a_memory_are_one_link_away(boss, remember, actor):
    memory = remember("source")
    drawn = FactDraft(subject="drawn", predicate="from", object="it", memory_id=memory.uid)
    services.create_fact(drawn, actor)
    services.create_fact(FactDraft(subject="other", predicate="is", object="not"), actor)
    rows = boss.get(page(Fact), {"memory__uid": memory.uid}).context["cl"].result_list
    assert [row.subject for row in rows] == ["drawn"]


def test_a_link_by_memory_opens_no_hidden_fact(boss, remember, actor):
    memory = remember("source", sensitivity="secret")
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=memory.uid), actor)
    assert boss.get(page(Fact), {"memory__uid": memory.uid}).context["cl"].result_count == 0
    assert (
        turn_on_levels(boss, "secret").get(page(Fact), {"memory__uid": memory.uid}).context["cl"].result_count
        == 1
    )


@each(
    "query, shown",
    [
        ("", {"tide"}),
        ("?what=marks", {"session:s1"}),
        ("?what=all", {"tide", "session:s1"}),
        ("?predicate=boundary_at", {"session:s1"}),
        ("?what=nonsense", set()),
    ],
)
def test_the_hubs_own_notes_are_listed_only_on_request(boss, actor, query, shown):
    for subject, predicate in (("tide", "turns_at"), ("session:s1", "boundary_at")):
        services.create_fact(FactDraft(subject=subject, predicate=predicate, object="x"), actor)
    rows = boss.get(page(Fact, "changelist") + query).context["cl"].queryset
    assert {row.subject for row in rows} == shown


def test_a_confidence_is_shown_with_two_digits_and_not_changed(keeper, fact):
    Fact.objects.update(confidence=0.488698496846991)
    fields = form_of(keeper, fact, object="files")
    assert fields["confidence"] == "0.49"
    keeper.post(page(Fact, "change", fact.pk), fields)
    fact.refresh_from_db()
    assert (fact.object, fact.confidence) == ("files", 0.488698496846991)
