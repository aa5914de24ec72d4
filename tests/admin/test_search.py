"""The search box searches like the hub, filters narrow the list, and no input breaks it."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.models import (
    AgentToken,
    Event,
    Fact,
    Injection,
    JournalEntry,
    Memory,
    Session,
)
from memoryhub.search.hybrid import search_memories
from tests.admin.conftest import page
from tests.cases import each

HOSTILE = [
    *(
        "foo.bar",
        "C++",
        '"',
        '""',
        "'",
        "AND",
        "OR NOT",
        "NEAR(a b)",
        "*",
        "a*",
        "(",
        ")",
        "^a",
        "{a b}",
        "-a",
    ),
    *(
        "title:x",
        "日本語",
        "検索",
        "🦓",
        "\\",
        "%",
        "_",
        ";--",
        "<script>",
        "a" * 5000,
        " ",
        "\t",
        "é",
        "\u202e",
    ),
    *('"unbalanced', "a AND", "x" * 3 + '"' * 50, "\ud7ff", "0x00", "SELECT * FROM memoryhub_memory"),
]


def found(client, **query) -> list[str]:
    response = client.get(page(Memory), query)
    assert response.status_code == 200, response
    return [memory.title for memory in response.context["cl"].result_list]


def test_search_finds_stems_in_every_text(curator, remember):
    remember("the migration drops triggers", title="one")
    remember("nothing here", title="two", overview="Migrations are dangerous")
    remember("unrelated words", title="three")
    assert sorted(found(curator, q="migrated")) == ["one", "two"]


def test_search_orders_like_the_hub(curator, remember):
    for n in range(6):
        remember(f"zebra crossing number {n} " + "filler " * n, title="zebra crossing" if n == 3 else f"t{n}")
    rows = Memory.objects.visible_to(Clearance()).live()
    expected = [Memory.objects.get(pk=pk).title for pk in search_memories(rows, "zebra crossing").ids]
    assert found(curator, q="zebra crossing") == expected
    assert expected[0] == "zebra crossing"


def test_a_chosen_order_takes_precedence_over_the_score(curator, remember):
    remember("zebra zebra zebra", title="b zebra")
    remember("a zebra somewhere in a longer text", title="a thing")
    assert found(curator, q="zebra", o="1") == ["a thing", "b zebra"]
    assert found(curator, q="zebra", o="-1") == ["b zebra", "a thing"]


def test_search_finds_substrings_and_scripts_without_spaces(curator, remember):
    remember("call frobnicate_widget_42 first", title="code")
    remember("データベースの検索が速い", title="japanese")
    assert found(curator, q="nicate_wid") == ["code"]
    assert found(curator, q="検索") == ["japanese"]


def test_nonsense_finds_nothing(curator, remember):
    remember("plain words")
    assert found(curator, q="qwxzvy") == []


def test_an_id_finds_its_memory(curator, remember):
    memory = remember("plain words", title="by id")
    remember("other words")
    assert found(curator, q=memory.uid) == ["by id"]
    assert found(curator, q=f" {memory.uid} ") == ["by id"]


def test_filters_narrow_a_search(curator, remember):
    remember("zebra one", title="in", project="zoo", type="decision", category="animals", tags=["t"])
    remember("zebra two", title="out", project="park")
    for query in ({"project": "zoo"}, {"type": "decision"}, {"category": "animals"}):
        assert found(curator, q="zebra", **query) == ["in"]


def test_the_trash_can_be_searched(curator, remember, actor):
    memories.trash_memories([remember("zebra gone", title="gone").uid], actor)
    remember("zebra here", title="here")
    assert found(curator, q="zebra") == ["here"]
    assert found(curator, q="zebra", state="trash") == ["gone"]


def test_a_search_counts_what_it_found_over_its_pages(curator, remember_all):
    remember_all(f"zebra number {n}" for n in range(60))
    response = curator.get(page(Memory), {"q": "zebra"})
    assert response.context["cl"].result_count == 60
    assert len(response.context["cl"].result_list) == 50
    assert len(found(curator, q="zebra", p=2)) == 10


@pytest.mark.slow
@each("typed", HOSTILE)
def test_no_search_breaks_a_list(boss, remember, typed):
    remember("foo.bar C++ 日本語 🦓 é")
    assert boss.get(page(Memory), {"q": typed}).status_code == 200


@pytest.mark.parametrize("model", [Fact, Session, Event, Injection, JournalEntry, AgentToken])
def test_no_search_breaks_another_list(boss, model):
    for typed in ('"', "%_\\", "a" * 5000, "🦓", "1e999", "' OR 1=1 --"):
        assert boss.get(page(model), {"q": typed}).status_code == 200


def test_a_nul_in_a_search_is_named(boss, remember):
    remember("x")
    response = boss.get(page(Memory) + "?q=a%00b")
    assert response.status_code == 200
    assert "Null characters" in response.content.decode()


def test_completion_is_safe_for_any_input(boss, remember):
    memory = remember("foo.bar C++ words", title="foo.bar")
    query = {"app_label": "memoryhub", "model_name": "fact", "field_name": "memory"}
    for typed in [*HOSTILE, "a\x00b"]:
        assert boss.get("/admin/autocomplete/", {**query, "term": typed}).status_code == 200
    found = boss.get("/admin/autocomplete/", {**query, "term": "foo.bar"}).json()["results"]
    assert found == [{"id": str(memory.pk), "text": "foo.bar"}]


@pytest.fixture
def states(remember, actor):
    remember("is alive", title="live", ttl_days=0)
    remember("ends soon", title="soon", ttl_days=3)
    memories.apply_bulk_action("expire", [remember("has ended", title="expired").uid], actor)
    memories.trash_memories([remember("thrown away", title="trashed", ttl_days=0).uid], actor)


@each(
    "state, titles",
    [
        (None, ["live", "soon"]),
        ("expiring", ["soon"]),
        ("expired", ["expired"]),
        ("trash", ["trashed"]),
        ("all", ["expired", "live", "soon", "trashed"]),
        ("nonsense", []),
    ],
)
def test_memories_are_filtered_by_state(curator, states, state, titles):
    assert sorted(found(curator, **({"state": state} if state else {}))) == titles


def test_memories_are_filtered_by_use(curator, remember):
    remember("never", title="never")
    memories.count_accesses([remember("used", title="used")])
    assert found(curator, use="never") == ["never"]
    assert found(curator, use="used") == ["used"]
    assert found(curator, use="x") == []


def test_memories_are_filtered_by_flags(curator, remember):
    remember("plain", title="plain")
    flagged = remember("odd", title="odd")
    Memory.objects.filter(pk=flagged.pk).update(flags=["injection?"])
    assert found(curator, flags="flagged") == ["odd"]
    assert found(curator, flags="none") == ["plain"]


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
def test_memories_are_filtered_by_age(curator, remember, column):
    ages = {"today": 0.5, "this week": 3, "this month": 20, "this year": 200, "ancient": 800}
    for title, days in ages.items():
        memory = remember(title, title=title)
        Memory.objects.filter(pk=memory.pk).update(**{column: timezone.now() - timedelta(days=days)})
    found_by = {
        age: set(found(curator, **{column: age})) for age in ("day", "week", "month", "year", "older", "x")
    }
    assert found_by == {
        "day": {"today"},
        "week": {"today", "this week"},
        "month": {"today", "this week", "this month"},
        "year": {"today", "this week", "this month", "this year"},
        "older": {"ancient"},
        "x": set(),
    }


def test_memories_are_filtered_by_level_and_scope(boss, remember):
    remember("shared", title="shared", scope="team")
    remember("ours", title="ours")
    assert found(boss, level="public", scope="team") == ["shared"]
    assert found(boss, level="secret") == []


@each(
    "query",
    [
        {"content__regex": "("},
        {"content__icontains": "x"},
        {"sensitivity": "secret"},
        {"sensitivity__startswith": "s"},
        {"merged_into__content__startswith": "x"},
        {"revisions__before__icontains": "x"},
        {"pk__in": "1"},
        {"nonsense": "1"},
        {"updated_at__gte": "2024-01-01"},
        {"owner": "ada"},
    ],
)
def test_a_lookup_that_no_filter_offers_is_refused(boss, remember, query):
    remember("x")
    response = boss.get(page(Memory), query)
    assert response.status_code == 302
    assert response.url == page(Memory) + "?e=1"
    assert boss.get(response.url).status_code == 200


@each("query", [{"o": "99"}, {"o": "-"}, {"o": "a.b"}, {"p": "x"}, {"all": ""}, {"p": "9" * 100}])
def test_other_odd_parameters_are_no_error(boss, remember, query):
    remember("x")
    assert boss.get(page(Memory), query).status_code == 200


@pytest.mark.slow
@each("name", ["project", "category", "type", "scope", "session_id"])
@each("value", ["", "a\x00b", "'\"<", "x" * 5000, "日本"])
def test_a_filter_is_safe_for_any_value(boss, remember, name, value):
    remember("x")
    assert boss.get(page(Memory) + "?" + urlencode({name: value})).status_code == 200


def test_a_missing_row_redirects_to_the_list(curator, remember_all):
    remember_all(f"number {n}" for n in range(51))
    assert curator.get(page(Memory), {"p": "3"}).url == page(Memory) + "?e=1"


def test_a_session_links_to_its_memories(boss, remember):
    remember("in it", title="in it", session_id="s 1&x", project="p")
    remember("not in it", title="not in it", session_id="s 2", project="p")
    session = Session.objects.get(session_id="s 1&x")
    text = boss.get(page(Session, "change", session.pk)).content.decode()
    address = page(Memory) + "?" + urlencode({"session_id": "s 1&x", "project": "p"})
    assert address.replace("&", "&amp;") in text
    assert found(boss, session_id="s 1&x", project="p") == ["in it"]
