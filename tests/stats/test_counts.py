"""Incremental counts equal a full count after every kind of write."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends import change_log, schema
from memoryhub.capture import PROMPT_SUBMIT, SESSION_START, HookEvent
from memoryhub.capture.pipeline import dispatch
from memoryhub.core.database import is_postgres
from memoryhub.facts import services
from memoryhub.memories.delete import quota_of
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Event, Memory, Session
from memoryhub.stats import counts
from memoryhub.stats.counts import COUNTED_COLUMNS, MAX_CACHED, VisibleCounts, _cache, load_visible_counts
from tests.cases import created_by_day, each

pytestmark = pytest.mark.django_db

READERS = (
    Clearance(),
    Clearance.up_to("secret", owner="ada"),
    Clearance.up_to("private", owner="bob", projects=["zoo"]),
    Clearance(projects=frozenset({"zoo", "shop"}), grants=(("zoo", frozenset({"public", "secret"})),)),
)


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    _cache.clear()


def read_marks() -> dict[change_log.Block, str]:
    now = timezone.now()
    return change_log.read_marks(now, now)[0]


def count_rows(reader: Clearance, now: datetime) -> VisibleCounts:
    """Count row by row."""
    live = Memory.objects.visible_to(reader).live(now)
    days = Counter((timezone.localtime(one.created_at).date(), one.type) for one in live)
    return VisibleCounts(
        Counter(live.values_list(*COUNTED_COLUMNS)),
        sorted((day, kind, n) for (day, kind), n in days.items()),
        Session.objects.visible_to(reader, now).count(),
        Counter(map(quota_of, live)),
    )


def assert_counts_agree(
    now: datetime | None = None, readers: Sequence[Clearance] = READERS
) -> list[VisibleCounts]:
    """Assert that the counts of each reader equal a full count, and return them."""
    now = now or timezone.now()
    found = [load_visible_counts(reader, now) for reader in readers]
    assert found == [count_rows(reader, now) for reader in readers]
    return found


def start_new_block() -> None:
    """Let the next rows start a new block."""
    with connection.cursor() as cursor:
        for table in ("memoryhub_memory", "memoryhub_session"):
            if is_postgres():
                cursor.execute(
                    "SELECT setval(s, nextval(s) + %s) FROM pg_get_serial_sequence(%s, 'id') AS s",
                    [change_log.BLOCK_SIZE, table],
                )
            else:
                cursor.execute(
                    "UPDATE sqlite_sequence SET seq = seq + %s WHERE name = %s",
                    [change_log.BLOCK_SIZE, table],
                )


@pytest.fixture
def world(remember: Callable[..., Memory], actor: Actor) -> dict[str, Memory]:
    """Memories in several blocks, already counted."""
    made = {}
    for name, fields in {
        "plain": {"project": "zoo", "session_id": "s1"},
        "hidden": {"project": "zoo", "session_id": "s2", "sensitivity": "secret"},
        "own": {"project": "zoo", "scope": "personal"},
        "brief": {"project": "shop", "session_id": "s3", "ttl_days": 1},
        "gone": {"project": "shop", "session_id": "s4"},
    }.items():
        made[name] = remember(f"what is {name}", **fields)
        start_new_block()
    store.trash_memories([made["gone"].uid], actor)
    assert_counts_agree()
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


@each("write", WRITES)
def test_counts_are_correct_after(
    write: str,
    world: dict[str, Memory],
    actor: Actor,
    tmp_path: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    before = assert_counts_agree()
    WRITES[write](world, actor, tmp_path)
    assert assert_counts_agree() != before


def test_facts_are_counted_after_each_write(world: dict[str, Memory], actor: Actor) -> None:
    reader = actor.clearance
    assert counts.store_statistics(reader)["facts"] == 0
    fact, _ = services.create_fact(FactDraft(subject="zoo", predicate="has", object="zebras"), actor)
    assert counts.store_statistics(reader)["facts"] == 1
    services.delete_fact(fact.uid, actor)
    assert counts.store_statistics(reader)["facts"] == 0


def test_counts_are_correct_after_an_injection(world: dict[str, Memory], actor: Actor) -> None:
    dispatch(HookEvent(PROMPT_SUBMIT, "s1", "zoo", data={"prompt": "what is plain?"}), actor)
    assert_counts_agree()


def test_session_is_visible_through_an_event_until_its_memory_is_hidden(
    world: dict[str, Memory], actor: Actor
) -> None:
    session = Session.objects.create(session_id="shown", project="zoo")
    before = assert_counts_agree()[0].sessions
    event = Event.objects.create(session=session, event="tool:post", memory=world["gone"])
    assert assert_counts_agree()[0].sessions == before
    store.restore_memories([world["gone"].uid], actor)
    assert assert_counts_agree()[0].sessions == before + 2  # its own, and the one of the event
    event.delete()
    assert assert_counts_agree()[0].sessions == before + 1


def test_expired_memory_is_not_counted_although_nothing_is_written(world: dict[str, Memory]) -> None:
    before, later = assert_counts_agree(), timezone.now() + timedelta(days=2)
    after = assert_counts_agree(later)
    assert sum(after[0].facets.values()) == sum(before[0].facets.values()) - 1
    assert after[0].sessions == before[0].sessions - 1
    assert assert_counts_agree() == before  # and a clock that was put back is believed


def test_rolled_back_rows_are_not_counted(world: dict[str, Memory], actor: Actor) -> None:
    before = assert_counts_agree()
    with transaction.atomic():
        store.create_memory(MemoryDraft(content="never mind", project="zoo"), actor)
        assert assert_counts_agree() != before
        transaction.set_rollback(True)
    assert assert_counts_agree() == before
    store.create_memory(MemoryDraft(content="another", project="zoo", type="decision"), actor)
    assert_counts_agree()


@pytest.mark.sqlite
def test_replaced_and_ignored_rows_are_counted(world: dict[str, Memory]) -> None:
    sessions = [Session(session_id=f"bulk{n}", project="zoo") for n in range(2)]
    for _ in range(2):
        Session.objects.bulk_create(sessions, ignore_conflicts=True)
        Event.objects.create(session=Session.objects.get(session_id="bulk0"), event="prompt:submit")
        assert_counts_agree()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE OR IGNORE memoryhub_memory SET project = 'shop' WHERE project = 'zoo'")
    assert_counts_agree()


def test_only_changed_blocks_are_counted_again(world: dict[str, Memory], actor: Actor) -> None:
    store.update_memory(world["plain"].uid, MemoryPatch(type="decision"), actor)
    with CaptureQueriesContext(connection) as queries:
        load_visible_counts(READERS[1])
    ranged = [one["sql"] for one in queries if '"block"' in one["sql"]]
    block = world["plain"].pk >> change_log.BLOCK_SHIFT
    assert len(ranged) == 2  # memories and sessions
    [memories] = [sql for sql in ranged if '"category"' in sql]
    assert f'"id" >= {block << change_log.BLOCK_SHIFT}' in memories


def test_rows_are_not_counted_again_without_a_change(world: dict[str, Memory]) -> None:
    with CaptureQueriesContext(connection) as queries:
        agreed = load_visible_counts(READERS[1])
    assert not [one for one in queries if '"block"' in one["sql"]]
    assert agreed == count_rows(READERS[1], timezone.now())


def test_access_does_not_change_a_block(world: dict[str, Memory]) -> None:
    before = read_marks()
    store.count_accesses([world["plain"]])
    assert read_marks() == before


def test_blocks_are_counted_again_while_triggers_are_missing(world: dict[str, Memory]) -> None:
    schema.drop_triggers()
    assert set(read_marks().values()) == {""}
    Memory.objects.filter(pk=world["plain"].pk).update(type="decision")
    assert_counts_agree()
    schema.install()
    assert "" not in read_marks().values()
    assert_counts_agree()


@pytest.mark.sqlite
def test_restored_trigger_renews_all_marks(world: dict[str, Memory]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER memoryhub_mark_memory_update")
    Memory.objects.filter(pk=world["plain"].pk).update(type="decision")
    schema.install()
    assert_counts_agree()


def test_days_are_in_the_time_zone_of_the_viewer(world: dict[str, Memory]) -> None:
    Memory.objects.filter(pk=world["plain"].pk).update(created_at=datetime(2020, 1, 1, 20, tzinfo=UTC))
    for zone in ("UTC", "Asia/Kolkata", "Pacific/Auckland"):
        with timezone.override(zone):
            assert_counts_agree()


@pytest.mark.slow
def test_cache_size_is_limited(world: dict[str, Memory]) -> None:
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
        st.tuples(st.just("new block")),
        st.tuples(st.just("later"), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=12,
)


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back the writes of one example; the cached counts of the process remain."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def execute_step(step: tuple[Any, ...], actor: Actor, now: datetime) -> None:
    """Execute one step; it writes nothing if its row does not exist."""
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
        case ("new block",):
            start_new_block()


@pytest.mark.slow
@settings(max_examples=15)
@given(steps=_STEPS)
def test_update_equals_a_new_count(db: None, actor: Actor, steps: list[tuple[Any, ...]]) -> None:
    now = timezone.now()
    with rolled_back():
        for step in steps:
            now += timedelta(days=step[1]) if step[0] == "later" else timedelta(seconds=1)
            execute_step(step, actor, now)
            assert_counts_agree(now, READERS[1:3])


def test_facets_are_ordered_by_count(remember: Any) -> None:
    remember("one", type="bugfix", project="zoo", tags=["striped", "fast"])
    remember("two", type="feature", project="zoo", tags=["fast"], concepts=["no tag"])
    remember("three", type="bugfix", project="town", category="road")
    found = counts.top_facets(Memory.objects.all())
    assert list(found["type"].items()) == [("bugfix", 2), ("feature", 1)]
    assert list(found["project"].items()) == [("zoo", 2), ("town", 1)]
    assert list(found["category"].items()) == [("general", 2), ("road", 1)]
    assert found["sensitivity"] == {"public": 3}
    assert list(found["tag"].items()) == [("fast", 2), ("striped", 1)]
    assert counts.top_tags(Memory.objects.all()) == found["tag"]


def test_facets_take_one_query_and_are_limited(remember: Any) -> None:
    for number in range(25):
        remember(f"memory {number}", project=f"p{number:02}", tags=[f"t{number:02}"])
    with CaptureQueriesContext(connection) as queries:
        found = counts.top_facets(Memory.objects.all())
    assert len(queries) == 1
    assert list(found["project"]) == [f"p{number:02}" for number in range(20)]
    assert list(found["tag"]) == [f"t{number:02}" for number in range(20)]


def test_statistics_count_only_visible_rows(four_levels: Any) -> None:
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


def test_days_are_in_utc(remember: Any) -> None:
    remember("one", created_at=datetime.fromisoformat("2024-05-01T23:30:00-05:00"))
    remember("two", created_at=datetime(2024, 5, 2, 1, tzinfo=UTC))
    remember("three", created_at=datetime(2024, 5, 1, tzinfo=UTC))
    assert created_by_day(Memory.objects.all()) == [
        (date(2024, 5, 1), "change", 1),
        (date(2024, 5, 2), "change", 2),
    ]
