"""Numbers that are brought up to date are those that counting anew would give, after every kind of write.

Counts over what one clearance may see.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends import change_blocks, schema
from memoryhub.capture.events import PROMPT_SUBMIT, SESSION_START, HookEvent
from memoryhub.capture.pipeline import dispatch
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Event, Memory, Session
from memoryhub.stats import counts
from memoryhub.stats.counts import COUNTED_COLUMNS, MAX_CACHED, VisibleCounts, _cache, load_visible_counts

pytestmark = pytest.mark.django_db

READERS = (
    Clearance(),
    Clearance.up_to("secret", owner="ada"),
    Clearance.up_to("private", owner="bob", projects=["zoo"]),
    Clearance(projects=frozenset({"zoo", "shop"}), grants=(("zoo", frozenset({"public", "secret"})),)),
)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    _cache.clear()


def anew(reader: Clearance, now: datetime) -> VisibleCounts:
    """As a person would count: by looking at each row."""
    live = Memory.objects.visible_to(reader).live(now)
    days = Counter((timezone.localtime(one.created_at).date(), one.type) for one in live)
    return VisibleCounts(
        Counter(live.values_list(*COUNTED_COLUMNS)),
        sorted((day, kind, n) for (day, kind), n in days.items()),
        Session.objects.visible_to(reader, now).count(),
    )


def agree(now: datetime | None = None, readers: Sequence[Clearance] = READERS) -> list[VisibleCounts]:
    """What each reader is told, which is the truth."""
    now = now or timezone.now()
    told = [load_visible_counts(reader, now) for reader in readers]
    assert told == [anew(reader, now) for reader in readers]
    return told


def far_on() -> None:
    """The next rows come into blocks of their own."""
    with connection.cursor() as cursor:
        for table in ("memoryhub_memory", "memoryhub_session"):
            cursor.execute(
                "UPDATE sqlite_sequence SET seq = seq + %s WHERE name = %s", [change_blocks.BLOCK_SIZE, table]
            )


@pytest.fixture
def world(remember: Callable[..., Memory], actor: Actor) -> dict[str, Memory]:
    """Memories in several blocks, counted already."""
    made = {}
    for name, fields in {
        "plain": {"project": "zoo", "session_id": "s1"},
        "hidden": {"project": "zoo", "session_id": "s2", "sensitivity": "secret"},
        "own": {"project": "zoo", "scope": "personal"},
        "brief": {"project": "shop", "session_id": "s3", "ttl_days": 1},
        "gone": {"project": "shop", "session_id": "s4"},
    }.items():
        made[name] = remember(f"what is {name}", **fields)
        far_on()
    store.trash_memories([made["gone"].uid], actor)
    agree()
    return made


def _import(world: dict[str, Memory], actor: Actor, folder: Path) -> None:
    lines = [{"content": f"line {n}", "project": "zoo", "session_id": f"i{n}"} for n in range(3)]
    file = folder / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    call_command("import_memories", str(file), verbosity=0)


def _event(world: dict[str, Memory], actor: Actor, folder: Path) -> None:
    dispatch(HookEvent(SESSION_START, "new", "zoo"), actor)


WRITES: dict[str, Callable[[dict[str, Memory], Actor, Path], object]] = {
    "a store": lambda w, a, _: store.create_memory(MemoryDraft(content="more", project="zoo"), a),
    "a store in a session": lambda w, a, _: store.create_memory(
        MemoryDraft(content="more", project="zoo", session_id="s9"), a
    ),
    "a move": lambda w, a, _: store.update_memory(w["plain"].uid, MemoryPatch(project="shop"), a),
    "another level": lambda w, a, _: store.update_memory(
        w["plain"].uid, MemoryPatch(sensitivity="private"), a
    ),
    "another type": lambda w, a, _: store.update_memory(w["plain"].uid, MemoryPatch(type="decision"), a),
    "another category": lambda w, a, _: store.update_memory(w["plain"].uid, MemoryPatch(category="cages"), a),
    "trashing": lambda w, a, _: store.trash_memories([w["plain"].uid], a),
    "restoring": lambda w, a, _: store.restore_memories([w["gone"].uid], a),
    "erasing": lambda w, a, _: store.erase_memories([w["plain"].uid], a),
    "an import": _import,
    "a session": _event,
    "an end of its own": lambda w, a, _: Memory.objects.filter(pk=w["plain"].pk).update(
        expires_at=timezone.now() - timedelta(days=1)
    ),
    "another day": lambda w, a, _: Memory.objects.filter(pk=w["plain"].pk).update(
        created_at=datetime(2020, 1, 1, tzinfo=UTC)
    ),
    "a session that moves": lambda w, a, _: Session.objects.filter(session_id="s1").update(project="shop"),
}


@pytest.mark.parametrize("write", WRITES)
def test_the_numbers_are_true_after(
    write: str,
    world: dict[str, Memory],
    actor: Actor,
    tmp_path: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    before = agree()
    WRITES[write](world, actor, tmp_path)
    assert agree() != before


def test_facts_are_counted_after_each_of_them(world: dict[str, Memory], actor: Actor) -> None:
    reader = actor.clearance
    assert counts.store_statistics(reader)["facts"] == 0
    fact, _ = services.create_fact(FactDraft(subject="zoo", predicate="has", object="zebras"), actor)
    assert counts.store_statistics(reader)["facts"] == 1
    services.delete_fact(fact.uid, actor)
    assert counts.store_statistics(reader)["facts"] == 0


def test_an_injection_leaves_the_numbers_true(world: dict[str, Memory], actor: Actor) -> None:
    dispatch(HookEvent(PROMPT_SUBMIT, "s1", "zoo", data={"prompt": "what is plain?"}), actor)
    agree()


def test_a_session_is_seen_through_an_event_that_became_a_memory_until_that_is_hidden(
    world: dict[str, Memory], actor: Actor
) -> None:
    session = Session.objects.create(session_id="told", project="zoo")
    before = agree()[0].sessions
    event = Event.objects.create(session=session, event="tool:post", memory=world["gone"])
    assert agree()[0].sessions == before
    store.restore_memories([world["gone"].uid], actor)
    assert agree()[0].sessions == before + 2  # its own, and the one of the event
    event.delete()
    assert agree()[0].sessions == before + 1


def test_what_expires_is_no_longer_counted_though_nothing_is_written(world: dict[str, Memory]) -> None:
    before, later = agree(), timezone.now() + timedelta(days=2)
    after = agree(later)
    assert sum(after[0].facets.values()) == sum(before[0].facets.values()) - 1
    assert after[0].sessions == before[0].sessions - 1
    assert agree() == before  # and a clock that was put back is believed


def test_what_was_rolled_back_is_not_counted(world: dict[str, Memory], actor: Actor) -> None:
    before = agree()
    with transaction.atomic():
        store.create_memory(MemoryDraft(content="never mind", project="zoo"), actor)
        assert agree() != before
        transaction.set_rollback(True)
    assert agree() == before
    store.create_memory(MemoryDraft(content="another", project="zoo", type="decision"), actor)
    agree()


def test_rows_that_other_statements_replace_or_ignore_are_counted(world: dict[str, Memory]) -> None:
    sessions = [Session(session_id=f"bulk{n}", project="zoo") for n in range(2)]
    for _ in range(2):
        Session.objects.bulk_create(sessions, ignore_conflicts=True)
        Event.objects.create(session=Session.objects.get(session_id="bulk0"), event="prompt:submit")
        agree()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE OR IGNORE memoryhub_memory SET project = 'shop' WHERE project = 'zoo'")
    agree()


def test_only_the_blocks_that_a_write_touched_are_counted_again(
    world: dict[str, Memory], actor: Actor
) -> None:
    store.update_memory(world["plain"].uid, MemoryPatch(type="decision"), actor)
    with CaptureQueriesContext(connection) as queries:
        load_visible_counts(READERS[1])
    ranged = [one["sql"] for one in queries if '"block"' in one["sql"]]
    block = world["plain"].pk >> change_blocks.SHIFT
    assert len(ranged) == 3  # facets, days, sessions
    memories = [sql for sql in ranged if '"piece"' in sql or '"category"' in sql]
    assert len(memories) == 2
    assert all(f'"id" >= {block << change_blocks.SHIFT}' in sql for sql in memories)


def test_nothing_is_counted_again_while_nothing_changed(world: dict[str, Memory]) -> None:
    with CaptureQueriesContext(connection) as queries:
        agreed = load_visible_counts(READERS[1])
    assert not [one for one in queries if '"block"' in one["sql"]]
    assert agreed == anew(READERS[1], timezone.now())


def test_an_access_touches_no_block(world: dict[str, Memory]) -> None:
    before = change_blocks.read_marks()
    store.count_access(world["plain"])
    assert change_blocks.read_marks() == before


def test_nobody_vouches_for_a_block_while_the_triggers_are_away(world: dict[str, Memory]) -> None:
    schema.drop_triggers()
    assert set(change_blocks.read_marks().values()) == {""}
    Memory.objects.filter(pk=world["plain"].pk).update(type="decision")
    agree()
    schema.install()
    assert "" not in change_blocks.read_marks().values()
    agree()


def test_a_trigger_that_was_lost_makes_all_marks_new(world: dict[str, Memory]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER memoryhub_mark_memory_update")
    Memory.objects.filter(pk=world["plain"].pk).update(type="decision")
    schema.install()
    agree()


def test_days_are_those_of_who_reads(world: dict[str, Memory]) -> None:
    Memory.objects.filter(pk=world["plain"].pk).update(created_at=datetime(2020, 1, 1, 20, tzinfo=UTC))
    for zone in ("UTC", "Asia/Kolkata", "Pacific/Auckland"):
        with timezone.override(zone):
            agree()


def test_few_readers_are_kept(world: dict[str, Memory]) -> None:
    for number in range(MAX_CACHED + 3):
        load_visible_counts(Clearance(owner=f"reader {number}"))
    assert len(_cache) == MAX_CACHED


_TEXTS, _PROJECTS = st.integers(0, 2), st.sampled_from(["", "zoo", "shop"])
_LEVELS, _SESSIONS = st.sampled_from(["public", "private", "secret"]), st.sampled_from(["", "s1", "s2"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), _TEXTS, _PROJECTS, _LEVELS, _SESSIONS),
        st.tuples(st.just("change"), _TEXTS, _PROJECTS, _LEVELS),
        st.tuples(st.just("trash"), _TEXTS),
        st.tuples(st.just("restore"), _TEXTS),
        st.tuples(st.just("delete"), _TEXTS),
        st.tuples(st.just("event"), _TEXTS, _LEVELS, _SESSIONS),
        st.tuples(st.just("far on")),
        st.tuples(st.just("later"), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=12,
)


@contextmanager
def rolled_back() -> Iterator[None]:
    """What one example wrote is gone for the next, though the process has counted it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def take(step: tuple[Any, ...], actor: Actor, now: datetime) -> None:
    """One write; what it names may not be there, and then it writes nothing."""
    match step:
        case "store", text, project, level, session:
            draft = MemoryDraft(
                content=f"text {text}",
                project=project,
                sensitivity=level,
                session_id=session,
                ttl_days=2 * text or None,
            )
            store.create_memory(draft, actor, now)
        case "change", text, project, level:
            Memory.objects.filter(content=f"text {text}").update(
                project=project, sensitivity=level, copy=1000 + F("pk")
            )
        case "trash", text:
            store.trash_memories(
                Memory.objects.filter(content=f"text {text}").values_list("uid", flat=True), actor
            )
        case "restore", text:
            store.restore_memories(
                Memory.objects.filter(content=f"text {text}").values_list("uid", flat=True), actor
            )
        case "delete", text:
            Memory.objects.filter(content=f"text {text}").delete()
        case "event", text, level, name:
            session, _ = Session.objects.get_or_create(session_id=name or "s3", project="zoo")
            memory = Memory.objects.filter(content=f"text {text}").first()
            Event.objects.create(session=session, event="tool:post", sensitivity=level, memory=memory)
        case ("far on",):
            far_on()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_bringing_up_to_date_equals_counting_anew(
    db: None, actor: Actor, steps: list[tuple[Any, ...]]
) -> None:
    now = timezone.now()
    with rolled_back():
        for step in steps:
            now += timedelta(days=step[1]) if step[0] == "later" else timedelta(seconds=1)
            take(step, actor, now)
            agree(now, READERS[1:3])


def test_facets_count_each_value_most_first(remember: Any) -> None:
    remember("one", type="bugfix", project="zoo")
    remember("two", type="feature", project="zoo")
    remember("three", type="bugfix", project="town", category="road")
    found = counts.top_facets(Memory.objects.all())
    assert list(found["type"].items()) == [("bugfix", 2), ("feature", 1)]
    assert list(found["project"].items()) == [("zoo", 2), ("town", 1)]
    assert list(found["category"].items()) == [("general", 2), ("road", 1)]
    assert found["sensitivity"] == {"public": 3}


def test_facets_take_one_query_and_keep_to_the_commonest(remember: Any) -> None:
    for number in range(25):
        remember(f"memory {number}", project=f"p{number:02}")
    with CaptureQueriesContext(connection) as queries:
        found = counts.top_facets(Memory.objects.all())
    assert len(queries) == 1
    assert list(found["project"]) == [f"p{number:02}" for number in range(20)]


def test_statistics_stay_behind_the_gate(four_levels: Any) -> None:
    public = counts.store_statistics(Clearance())
    assert (public["total"], public["by_sensitivity"]) == (1, {"public": 1})
    everything = counts.store_statistics(Clearance.up_to("secret"))
    assert everything["total"] == 3
    assert everything["by_project"] == {"zoo": 3}


def test_projects_near_the_cap_are_named(remember: Any, configure: Any) -> None:
    for number in range(5):
        remember(f"memory {number}", project="zoo")
    remember("memory", project="town")
    configure(max_memories=10, cap_warning_share=0.5)
    assert counts.projects_near_cap(Memory.objects.all()) == {"zoo": 5}
    assert counts.store_statistics(Clearance())["near_cap"] == {"zoo": 5}
    configure(max_memories=0)
    assert counts.projects_near_cap(Memory.objects.all()) == {}


def test_days_are_those_of_utc(remember: Any) -> None:
    remember("one", created_at=datetime.fromisoformat("2024-05-01T23:30:00-05:00"))
    remember("two", created_at=datetime(2024, 5, 2, 1, tzinfo=UTC))
    remember("three", created_at=datetime(2024, 5, 1, tzinfo=UTC))
    assert counts.count_memories_by_day(Memory.objects.all()) == [
        (date(2024, 5, 1), "change", 1),
        (date(2024, 5, 2), "change", 2),
    ]
