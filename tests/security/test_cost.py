"""The cost of secret checks: bounded by the length of the text, and never inside a transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.capture.event_preview import parse_prompt
from memoryhub.extraction.deduplication import create_deduplicated
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from memoryhub.security import secrets
from memoryhub.security.secrets import UNCHECKED, CheckTooCostly, find_secrets, nearby, redact
from memoryhub.security.secrets.secret_rules import find_matches, load_rules
from tools.secret_examples import make_examples

create = import_module("memoryhub.memories.create")
HOSTILE = "pwd=" * 2500
KEYWORDS = sorted({keyword for rule in load_rules() for keyword in rule.keywords})
ORDINARY = "\n".join(example.text for example in make_examples(5) if not example.kind)
LENGTH = 10_000
JOINTS = ["", "=", ": ", " ", "='", '"', ">", "/", "@", "\n", "a", "A1b", "; "]


def repeated(part: str, length: int = LENGTH) -> str:
    return (part * (length // len(part) + 1))[:length]


@pytest.fixture
def examined(monkeypatch) -> list[int]:
    """Count the characters of the candidates that the rules examine."""
    characters = [0]

    def counting(check):
        def count(match):
            characters[0] += match.end() - match.start()
            return check(match)

        return count

    for rule in load_rules():
        monkeypatch.setitem(rule.__dict__, "check", counting(rule.check))
    return characters


def scan(text: str) -> None:
    with suppress(CheckTooCostly):
        find_secrets(text)


@pytest.mark.parametrize("part", ["password=", "pwd=", "pwd>", "pwd=pwd>", "密碼=", "userid=a:password="])
def test_repeated_names_stay_within_the_budget(part, examined):
    scan(repeated(part))
    assert examined[0] <= 7 * LENGTH


@pytest.mark.slow
def test_repeated_keywords_stay_within_the_budget(examined):
    costly = []
    for keyword in KEYWORDS:
        for joint in JOINTS:
            examined[0] = 0
            scan(repeated(keyword + joint, 3000))
            if examined[0] > 7 * 3000:  # the budget and one candidate
                costly.append(keyword + joint)
    assert costly == []


@pytest.mark.slow
@given(st.lists(st.sampled_from([*KEYWORDS, *JOINTS]), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_mixed_keywords_take_a_few_times_as_long_as_ordinary_text(parts):
    def seconds(text: str) -> float:
        spent = []
        for _ in range(2):
            start = time.thread_time()
            scan(text)
            spent.append(time.thread_time() - start)
        return min(spent)

    assert seconds(repeated("".join(parts))) < 25 * seconds(repeated(ORDINARY)) + 0.02


@pytest.mark.slow
def test_text_with_all_keywords_takes_a_few_times_as_long_as_ordinary_text():
    def seconds(text: str) -> float:
        start = time.thread_time()
        find_secrets(text)
        return time.thread_time() - start

    secrets.compile_rules()
    docs = Path(__file__).parents[2] / "docs"
    plain = repeated("\n".join((docs / name).read_text() for name in ("api.md", "secrets.md")), 60_000)
    ordinary = min(seconds(plain) for _ in range(3))
    marked = min(seconds(" ".join(KEYWORDS) + plain) for _ in range(3))
    assert marked < 5 * ordinary


def test_shared_end_of_private_keys_is_searched_once(monkeypatch):
    sought = []

    class End:
        def search(self, text, position):
            sought.append(position)
            return original.search(text, position)

    original = secrets._PEM_END
    monkeypatch.setattr(secrets, "_PEM_END", End())
    assert find_secrets("-----BEGIN RSA PRIVATE KEY-----\n" * 500 + "-----END X-----")
    assert len(sought) <= 3


def test_ordinary_text_uses_a_small_part_of_the_budget():
    for at in range(0, len(ORDINARY) - 2000, 2000):
        budget = secrets.Budget(2000)
        text = ORDINARY[at : at + 2000]
        for rule in load_rules():
            list(find_matches(rule, text, budget))
        list(nearby.find_near_service_names(text, budget))
        assert budget.spent < budget.limit / 2


def test_check_stops_after_too_much_processor_time(monkeypatch):
    monkeypatch.setattr("memoryhub.security.secrets.secret_rules.MAX_CPU_SECONDS", -1.0)
    with pytest.raises(CheckTooCostly):
        find_secrets("token: x")


def test_unchecked_text_is_replaced_in_previews():
    assert redact(HOSTILE) == UNCHECKED
    assert parse_prompt(HOSTILE, 200)[0] == UNCHECKED


@pytest.fixture
def no_scan_while_writing(monkeypatch) -> list[str]:
    """Fail each scan inside a transaction. Return the list of the scanned texts."""
    scanned = []
    original = secrets._find_spans

    def spans(text):
        assert not connection.in_atomic_block, "scanned inside a transaction"
        scanned.append(text)
        return original(text)

    monkeypatch.setattr(secrets, "_find_spans", spans)
    return scanned


@pytest.mark.django_db(transaction=True)
class TestOutsideOfTransactions:
    pytestmark = pytest.mark.usefixtures("no_scan_while_writing")

    def test_create(self, actor: Actor, no_scan_while_writing):
        memories.create_memory(MemoryDraft(content="zebra one"), actor)
        assert any("zebra one" in text for text in no_scan_while_writing)

    def test_create_in_a_session(self, actor: Actor, no_scan_while_writing):
        memories.create_memory_in_session(MemoryDraft(content="zebra two"), actor, "s")
        assert any("zebra two" in text for text in no_scan_while_writing)

    def test_batch_and_key(self, actor: Actor, no_scan_while_writing):
        drafts = [MemoryDraft(content=f"zebra {n}", key=f"k{n % 2}") for n in range(4)]
        done = memories.create_memories(drafts, actor)
        assert [one.outcome for one in done] == ["created", "created", "updated", "updated"]
        assert len(no_scan_while_writing) == 4

    def test_update(self, actor: Actor, no_scan_while_writing):
        memory = memories.create_memory(MemoryDraft(content="zebra"), actor).memory
        memories.update_memory(memory.uid, MemoryPatch(content="okapi"), actor)
        assert any("okapi" in text for text in no_scan_while_writing)

    def test_merge(self, actor: Actor, no_scan_while_writing):
        one, two = (memories.create_memory(MemoryDraft(content=f"zebra {n}"), actor).memory for n in "ab")
        memories.merge_memories(one.uid, [two.uid], actor, content="both zebras")
        assert any("both zebras" in text for text in no_scan_while_writing)

    def test_deduplicated(self, actor: Actor, no_scan_while_writing):
        for content in ("Ada likes tea", "Ada likes tea and plays chess on Sundays"):
            done = create_deduplicated(MemoryDraft(content=content, category="profile"), actor)
        assert done.outcome == "merged"
        assert any(done.memory.content in text for text in no_scan_while_writing)

    def test_import(self, tmp_path, settings, no_scan_while_writing):
        settings.HOME = tmp_path
        fact = {"kind": "fact", "subject": "hub", "predicate": "runs on", "object": "SQLite"}
        session = {"kind": "session", "session_id": "s one", "started_at": "2026-01-01T00:00:00Z"}
        lines = [{"content": "zebra"}, fact, session | {"last_at": "2026-01-01T00:00:00Z"}]
        path = tmp_path / "lines.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        call_command("import_memories", str(path), stdout=StringIO())
        assert Memory.objects.count() == 1
        assert {"zebra", "SQLite"} <= {word for text in no_scan_while_writing for word in text.split()}

    def test_facts(self, actor: Actor, no_scan_while_writing):
        words = {"subject": "hub", "predicate": "runs on"}
        fact, _ = services.create_fact(FactDraft(**words, object="SQLite"), actor)
        services.update_fact(fact.uid, FactDraft(**words, object="PostgreSQL"), actor)
        assert len(no_scan_while_writing) == 2


@pytest.mark.django_db(transaction=True)
class TestChunks:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(create, "CHUNK_SIZE", 2)
        monkeypatch.setattr(create, "PAUSE_SECONDS", 0)

    def drafts(self, *contents: str, **more: str) -> list[MemoryDraft]:
        return [MemoryDraft(content=content, **more) for content in contents]

    def test_duplicates_in_different_chunks_become_one_memory(self, actor: Actor):
        done = memories.create_memories(self.drafts("a", "b", "c", "a"), actor)
        assert [one.outcome for one in done] == ["created", "created", "created", "refreshed"]
        assert done[0].memory.uid == done[3].memory.uid

    def test_key_in_different_chunks_is_updated(self, actor: Actor):
        done = memories.create_memories(self.drafts("a", "b", "c", key="k"), actor)
        assert [one.outcome for one in done] == ["created", "updated", "updated"]
        assert Memory.objects.get().content == "c"

    def test_busy_database_after_the_first_chunk_is_reported_per_item(self, actor: Actor, monkeypatch):
        written = []

        @contextmanager
        def write() -> Iterator[None]:
            written.append(1)
            if len(written) > 1:
                raise OperationalError("database is locked")
            with original():
                yield

        original = create.write_transaction
        monkeypatch.setattr(create, "write_transaction", write)
        done = memories.create_memories(self.drafts("a", "b", "c", "d", "e"), actor)
        assert [getattr(one, "outcome", getattr(one, "code", "")) for one in done] == [
            *("created", "created"),
            *("database_busy",) * 3,
        ]
        assert len(written) == 2
        assert Memory.objects.count() == 2

    def test_busy_database_at_the_first_chunk_is_an_error(self, actor: Actor, monkeypatch):
        def write():
            raise OperationalError("database is locked")

        monkeypatch.setattr(create, "write_transaction", write)
        with pytest.raises(OperationalError):
            memories.create_memories(self.drafts("a", "b", "c"), actor)


@pytest.mark.django_db(transaction=True)
def test_batch_of_a_thousand_is_stored_in_several_transactions(actor: Actor, monkeypatch):
    written = []

    def write():
        written.append(connection.in_atomic_block)
        return original()

    original = create.write_transaction
    monkeypatch.setattr(create, "write_transaction", write)
    done = memories.create_memories([MemoryDraft(content=f"zebra {n}") for n in range(1000)], actor)
    assert written == [False] * 10
    assert [one.memory.content for one in done] == [f"zebra {n}" for n in range(1000)]


@pytest.mark.django_db
class TestTooCostly:
    @pytest.mark.parametrize("field", ["content", "overview"])
    def test_error_names_the_field(self, actor: Actor, field: str):
        with pytest.raises(memories.TooCostlyToCheck) as refused:
            memories.create_memory(MemoryDraft(**{"content": "words", field: HOSTILE}), actor)
        assert refused.value.field == field
        assert refused.value.message == f"{field} is too costly to check for secrets. Shorten it or split it."
        assert not Memory.objects.exists()

    def test_batch_refuses_only_the_costly_item(self, actor: Actor):
        done = memories.create_memories([MemoryDraft(content=text) for text in ("a", HOSTILE, "b")], actor)
        assert [type(one).__name__ for one in done] == ["StoreResult", "TooCostlyToCheck", "StoreResult"]

    def test_missing_memory_is_not_found_even_with_a_costly_text(self, actor: Actor):
        with pytest.raises(memories.NotFound):
            memories.update_memory("0" * 26, MemoryPatch(content=HOSTILE), actor)
        assert not JournalEntry.objects.exists()

    def test_scan_reports_unchecked_text_and_leaves_it(self, actor: Actor, configure):
        configure(block_secrets=False)
        memory = memories.create_memory(MemoryDraft(content=HOSTILE), actor).memory
        for option in ("--quarantine", "--redact"):
            out = StringIO()
            call_command("scan_secrets", option, stdout=out)
            assert f"memory {memory.uid}  content line 1: not checked: too costly" in out.getvalue()
        memory.refresh_from_db()
        assert (memory.content, memory.sensitivity) == (HOSTILE, "public")
        with pytest.raises(CommandError, match="could not be checked"):
            call_command("scan_secrets", "--fail", stdout=StringIO())

    def test_row_with_unchecked_text_is_not_redacted(self, actor: Actor, configure):
        configure(block_secrets=False)
        token = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
        memory = memories.create_memory(MemoryDraft(content=HOSTILE, overview=token), actor).memory
        out = StringIO()
        call_command("scan_secrets", "--redact", stdout=out)
        assert "Left: memory" in out.getvalue()
        memory.refresh_from_db()
        assert (memory.content, memory.overview) == (HOSTILE, token)
