"""Evidence: confidence grows with the number of sessions that assert a memory."""

from datetime import timedelta

import pytest

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.http.authentication import Caller
from memoryhub.memories.evidence import grow_confidence
from memoryhub.models import Evidence, JournalEntry, Memory
from memoryhub.toolsets import TOOLSETS
from tests.toolsets.conftest import run

KEYED = {"content": "We use strict mode", "key": "ts"}


def confidence() -> float:
    return Memory.objects.get().confidence


def confidence_of(memory: Memory) -> float:
    return Memory.objects.get(pk=memory.pk).confidence


@pytest.mark.conformance("mira-15")
@pytest.mark.parametrize(
    ("start", "sessions", "after"),
    [(0.5, 0, 0.5), (0.5, 1, 0.75), (0.5, 2, 0.875), (0.9, 1, 0.95), (0.0, 1, 0.5), (1.0, 3, 1.0)],
)
def test_each_session_halves_the_doubt(start, sessions, after):
    assert grow_confidence(start, sessions) == after


@pytest.mark.parametrize("memory_arguments", [KEYED, {"content": "We use strict mode"}])
def test_confidence_grows_with_three_sessions(mira, memory_arguments):
    seen = []
    for session in ("s1", "s2", "s3"):
        mira("remember", **memory_arguments, session_id=session)
        seen.append(confidence())
    assert seen == [0.5, 0.75, 0.875]
    assert Evidence.objects.count() == 3


def test_same_session_adds_nothing(mira):
    for session in ("s1", "s1", "s2", "s1", "s2"):
        mira("remember", **KEYED, session_id=session)
    assert confidence() == 0.75


def test_other_wording_with_the_same_key_counts(mira):
    mira("remember", **KEYED, session_id="s1")
    mira("remember", content="Strict mode is what we use", key="ts", session_id="s2")
    assert confidence() == 0.75


def test_given_confidence_is_the_start(mira):
    mira("remember", **KEYED, confidence=0.2, session_id="s1")
    assert confidence() == 0.2
    mira("remember", **KEYED, session_id="s2")
    assert confidence() == 0.6
    mira("remember", **KEYED, confidence=0.8, session_id="s2")
    assert confidence() == 0.9
    mira("remember", **KEYED, confidence=0.8, session_id="s3")
    assert confidence() == 0.95


def test_day_of_a_token_replaces_a_missing_session(agent, monkeypatch):
    from django.utils import timezone

    one, other = agent(name="one"), agent(name="other")
    for caller in (one, one, other):
        run(caller, "mira", "memory", action="remember", **KEYED)
    assert confidence() == 0.75
    tomorrow = timezone.now() + timedelta(days=1)
    monkeypatch.setattr("memoryhub.toolsets.mira.timezone.now", lambda: tomorrow)
    run(one, "mira", "memory", action="remember", **KEYED)
    assert confidence() == 0.875


def test_connection_session_is_the_default(db, actor):
    tool = TOOLSETS["mira"].find("memory")
    for session in ("mcp-1", "mcp-1", "mcp-2", "x" * 5000):
        caller = Caller(actor, frozenset({"write"}), session)
        tool.run(caller, {"action": "remember", **KEYED})
    assert confidence() == 0.875


def test_memory_stored_elsewhere_counts_as_one_session(mira, remember):
    remember("We use strict mode", session_id="s1")
    mira("remember", content="We use strict mode", session_id="s1")
    assert confidence() == 0.5
    mira("remember", content="We use strict mode", session_id="s2")
    assert confidence() == 0.75
    assert set(Evidence.objects.values_list("session_id", flat=True)) == {"s1", "s2"}


def test_memory_keeps_its_first_session(mira):
    mira("remember", **KEYED, session_id="s1")
    mira("remember", **KEYED, session_id="s2")
    memory = Memory.objects.get()
    assert memory.session_id == "s1"
    assert memory.revisions.count() == 0


def test_growth_is_journaled_with_numbers_only(mira):
    mira("remember", **KEYED, session_id="s1")
    mira("remember", **KEYED, session_id="s2")
    row = JournalEntry.objects.get(operation="evidence")
    assert row.detail["confidence"] == [0.5, 0.75]
    assert row.detail["sessions"] == 2
    assert journal.verify().ok


def test_merged_memory_counts_all_sessions(mira, actor):
    for words, sessions in (("We use strict mode", ("s1", "s2")), ("Strict mode it is", ("s2", "s3", "s4"))):
        for session in sessions:
            mira("remember", content=words, session_id=session)
    kept, other = Memory.objects.order_by("pk")
    assert (kept.confidence, other.confidence) == (0.75, 0.875)
    merged = memories.merge_memories(kept.uid, [other.uid], actor)
    assert confidence_of(kept) == 0.9375
    mira("remember", content="We use strict mode", session_id="s3")
    assert confidence_of(kept) == 0.9375
    mira("remember", content="We use strict mode", session_id="s5")
    assert confidence_of(kept) == 0.9688
    with pytest.raises(memories.Conflict, match="stored again"):
        memories.undo_merge(merged.uid, actor)


def test_undone_merge_removes_its_evidence(mira, actor):
    for number in (1, 2):
        mira("remember", content=f"We use strict mode {number}", session_id=f"s{number}")
    kept, other = Memory.objects.order_by("pk")
    merged = memories.merge_memories(kept.uid, [other.uid], actor)
    assert (confidence_of(kept), kept.evidence.count()) == (0.75, 2)
    memories.undo_merge(merged.uid, actor)
    assert (confidence_of(kept), confidence_of(other)) == (0.5, 0.5)
    assert [*kept.evidence.values_list("session_id", flat=True)] == ["s1"]
    assert [*other.evidence.values_list("session_id", flat=True)] == ["s2"]


def test_memory_without_evidence_counts_its_own_session(mira, actor, remember):
    kept = remember("Strict mode it is", session_id="s0")
    mira("remember", content="We use strict mode", session_id="s1")
    memories.merge_memories(kept.uid, [Memory.objects.exclude(pk=kept.pk).get().uid], actor)
    assert (confidence_of(kept), kept.evidence.count()) == (0.75, 2)


def test_merge_without_session_counts_adds_no_evidence(actor, remember):
    kept, other = remember("Strict mode it is", session_id="s0"), remember("We use it", session_id="s1")
    memories.merge_memories(kept.uid, [other.uid], actor)
    assert confidence_of(kept) == 0.5
    assert not Evidence.objects.exists()


def test_evidence_is_deleted_with_its_memory(mira, actor):
    mira("remember", **KEYED, session_id="s1")
    memories.erase_memories([Memory.objects.get().uid], actor)
    assert not Evidence.objects.exists()


def test_page_shows_the_number_of_sessions(mira, admin_client):
    mira("remember", **KEYED, session_id="s1")
    path = f"/memories/{Memory.objects.get().uid}/"
    assert b"in 2 sessions" not in admin_client.get(path).content
    mira("remember", **KEYED, session_id="s2")
    assert b"in 2 sessions" in admin_client.get(path).content
