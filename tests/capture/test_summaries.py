"""Test session summaries and checkpoints."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.capture import CHECKPOINT, HookEvent, dispatch
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from tests.capture.conftest import FIX

FEATURE = "feat(queue): members wait in line for a tool that is out; the first in line has three days"
DECISION = "We decided to keep one SQLite file instead of a server, because accounting copies it to a laptop"


def summary(agent_session):
    [found] = agent_session.memories("session_summary")
    return found


def test_session_without_content_has_no_summary(agent_session):
    agent_session.ok("session:start")
    agent_session.tool("Read", {"file_path": "a.py"}, "text")
    answer = agent_session.end()
    assert answer["handlers"][0]["status"] == "skipped"
    assert Memory.objects.count() == 0


@pytest.mark.conformance("guide-90")
def test_summary_has_all_sections(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Old rows come back after a restart, please fix that"})
    agent_session.tool("Edit", {"file_path": "src/importer.py", "new_string": "x"}, {})
    agent_session.commit(FIX)
    agent_session.commit(DECISION)
    agent_session.commit(FEATURE)
    answer = agent_session.end()
    made = summary(agent_session)
    assert made.uid in answer["handlers"][0]["detail"]
    text = made.content
    assert "Asked for: Old rows come back after a restart" in text
    assert "Decisions:\n- We decided to keep one SQLite file" in text
    assert "Problems solved:\n- Read each file once" in text
    assert "Done:\n- Members wait in line" in text
    assert "Files changed: src/importer.py" in text
    assert made.title == f"Session: {DECISION}"
    assert agent_session.row.summary == made


def test_session_without_memories_is_called_by_what_was_asked_for(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Please move the rates of the planner into a file"})
    agent_session.tool("Edit", {"file_path": "src/planner.py", "new_string": "x"}, {})
    agent_session.end()
    made = summary(agent_session)
    assert made.title == "Session: Please move the rates of the planner into a file"
    assert made.abstract == "Files changed: src/planner.py"


def test_end_event_links_to_the_summary(agent_session):
    agent_session.commit(FIX)
    agent_session.end()
    assert agent_session.row.events.get(event="session:end").memory == summary(agent_session)


def test_second_end_creates_no_second_summary(agent_session):
    agent_session.commit(FIX)
    agent_session.end()
    first = summary(agent_session)
    answer = agent_session.end()
    assert summary(agent_session) == first
    assert "unchanged" in answer["handlers"][0]["detail"]


def test_continued_session_updates_its_summary(agent_session):
    agent_session.commit(FIX)
    agent_session.end()
    first = summary(agent_session)
    agent_session.commit(FEATURE)
    answer = agent_session.end()
    after = summary(agent_session)
    assert after.uid == first.uid
    assert "updated" in answer["handlers"][0]["detail"]
    assert "Members wait in line" in after.content


def test_summary_text_is_deterministic(open_session):
    texts = []
    for project in ("one", "two"):
        agent_session = open_session("s1", project)
        agent_session.commit(FIX)
        agent_session.commit(FEATURE)
        agent_session.end()
        texts.append(summary(agent_session).content)
    assert texts[0] == texts[1]


def test_deleted_summary_is_not_restored(agent_session, actor):
    agent_session.commit(FIX)
    agent_session.end()
    memories.trash_memories([summary(agent_session).uid], actor)
    agent_session.end()
    assert agent_session.memories("session_summary") == []


def test_deleted_summary_is_written_again_with_new_content(agent_session, actor):
    agent_session.commit(FIX)
    agent_session.end()
    memories.trash_memories([summary(agent_session).uid], actor)
    agent_session.commit(FEATURE)
    agent_session.end()
    assert "Members wait" in summary(agent_session).content


def test_sessions_with_identical_summaries_have_one_each(open_session):
    for session_id in ("one", "two"):
        agent_session = open_session(session_id)
        agent_session.tool("Edit", {"file_path": "src/importer.py", "new_string": "x"}, {})
        agent_session.end()
        assert summary(agent_session).session_id == session_id


def test_summary_has_the_highest_level_of_captured_memories(agent_session):
    agent_session.commit(FIX)
    agent_session.commit(FEATURE, sensitivity="private")
    agent_session.end()
    assert summary(agent_session).sensitivity == "private"
    assert "Members wait" in summary(agent_session).content


def test_memories_stored_at_a_higher_level_are_left_out(agent_session, remember):
    agent_session.commit(FIX)
    remember(
        "The combination of the safe is in the blue book",
        session_id="s1",
        project="shop",
        sensitivity="secret",
    )
    agent_session.end()
    assert summary(agent_session).sensitivity == "public"
    assert "safe" not in summary(agent_session).content


def test_credential_file_does_not_make_the_summary_private(agent_session):
    agent_session.tool("Read", {"file_path": ".env"}, "A=1")
    agent_session.commit(FIX)
    agent_session.end()
    assert summary(agent_session).sensitivity == "public"
    assert ".env" not in summary(agent_session).content


def test_summary_excludes_personal_memories(agent_session, remember):
    agent_session.commit(FIX)
    remember("Ada dislikes the new chairs", session_id="s1", project="shop", scope="personal")
    agent_session.end()
    assert "chairs" not in summary(agent_session).content


def test_agent_with_low_clearance_can_end_the_session(open_session):
    low = open_session(clearance="public")
    low.commit(FIX, sensitivity="secret")
    low.end()
    low.commit(FEATURE, sensitivity="secret")
    low.end()
    made = summary(low)
    assert made.sensitivity == "secret"
    assert "Members wait" in made.content
    assert low.agent.get(f"/memories/{made.uid}", allow_secret="true").status_code == 404


# --- Checkpoints --------------------------------------------------------------------------------------------


@pytest.mark.conformance("guide-91")
def test_checkpoint_is_stored_after_the_configured_calls(agent_session, configure):
    configure(checkpoint_events=5)
    agent_session.commit(FIX)
    for n in range(3):
        agent_session.tool("Read", {"file_path": f"f{n}.py"}, "text")
    assert agent_session.memories("checkpoint") == []
    event = agent_session.tool("Read", {"file_path": "last.py"}, "text")
    [made] = agent_session.memories("checkpoint")
    assert "checkpoint: made" in event.handlers[1]["detail"]
    assert "Read each file once" in made.content
    assert made.title.startswith("So far: ")


def test_checkpoint_covers_the_time_since_the_last_one(agent_session, configure):
    configure(checkpoint_events=2)
    agent_session.tool("Read", {"file_path": "a.py"}, "text")
    agent_session.commit(FIX)
    agent_session.tool("Read", {"file_path": "b.py"}, "text")
    agent_session.commit(FEATURE)
    first, second = agent_session.memories("checkpoint")
    assert "Read each file once" in first.content
    assert "Read each file once" not in second.content
    assert "Members wait" in second.content


def test_checkpoint_includes_the_memory_of_its_own_call(agent_session, configure):
    configure(checkpoint_events=2)
    agent_session.commit(FIX)
    agent_session.commit(FEATURE, sensitivity="private")
    [made] = agent_session.memories("checkpoint")
    assert "Read each file once" in made.content
    assert "Members wait" in made.content
    assert made.sensitivity == "private"


def test_checkpoint_includes_the_file_of_its_own_call(agent_session, configure):
    configure(checkpoint_events=2)
    agent_session.commit(FIX)
    agent_session.tool("Edit", {"file_path": "src/late.py", "new_string": "x"}, {})
    [made] = agent_session.memories("checkpoint")
    assert "Files changed: src/late.py" in made.content


def test_checkpoint_excludes_files_above_its_level(agent_session, configure):
    configure(checkpoint_events=2)
    agent_session.commit(FIX)
    agent_session.tool("Edit", {"file_path": "src/late.py", "new_string": "x"}, {}, sensitivity="private")
    [made] = agent_session.memories("checkpoint")
    assert made.sensitivity == "public"
    assert "late.py" not in made.content


def test_summary_includes_memories_captured_at_the_end(agent_session):
    agent_session.commit(FEATURE)
    agent_session.tool("Bash", {"command": "pytest"}, {"stdout": "E   LedgerError: no such book\n1 failed"})
    agent_session.tool("Edit", {"file_path": "src/book.py", "new_string": "x"}, {})
    agent_session.tool("Bash", {"command": "pytest"}, {"stdout": "3 passed"})
    agent_session.end(sensitivity="private")
    [late] = agent_session.memories("bugfix")
    assert late.sensitivity == "private"
    assert late.title in summary(agent_session).content
    assert summary(agent_session).sensitivity == "private"


def test_empty_checkpoint_is_not_stored(agent_session, configure):
    configure(checkpoint_events=2)
    for n in range(6):
        agent_session.tool("Read", {"file_path": f"f{n}.py"}, "text")
    assert agent_session.memories("checkpoint") == []


def test_zero_disables_checkpoints(agent_session, configure):
    configure(checkpoint_events=0)
    agent_session.commit(FIX)
    agent_session.commit(FEATURE)
    assert agent_session.memories("checkpoint") == []


def test_summary_excludes_checkpoints(agent_session, configure):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    agent_session.end()
    assert "So far" not in summary(agent_session).content


@pytest.mark.parametrize(("usual", "days"), [(90, 14), (3, 3), (0, 14)])
def test_checkpoint_expires_after_two_weeks_at_most(agent_session, configure, usual, days):
    configure(checkpoint_events=1, default_ttl_days=usual)
    agent_session.commit(FIX)
    assert agent_session.memories("checkpoint")[0].ttl_days == days


def test_summary_replaces_the_checkpoints(agent_session, configure):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    agent_session.commit(FEATURE)
    made = agent_session.memories("checkpoint")
    agent_session.end()
    assert agent_session.memories("checkpoint") == []
    taken = Memory.objects.filter(type="checkpoint")
    assert {one.uid for one in taken} == {one.uid for one in made}
    assert {(one.merged_into, one.trash_reason) for one in taken} == {(summary(agent_session), "merged")}


def test_replaced_checkpoint_can_be_restored(agent_session, configure, actor):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    [made] = agent_session.memories("checkpoint")
    agent_session.end()
    memories.restore_memories([made.uid], actor)
    assert agent_session.memories("checkpoint") == [made]


def test_checkpoints_of_a_continued_session_are_replaced_at_its_next_end(agent_session, configure):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    agent_session.end()
    agent_session.commit(FEATURE)
    assert len(agent_session.memories("checkpoint")) == 1
    agent_session.end()
    assert agent_session.memories("checkpoint") == []


def test_checkpoint_event_links_to_the_summary(agent_session, actor):
    agent_session.commit(FIX)
    dispatch(HookEvent(CHECKPOINT, "s1", "shop"), actor)
    [made] = agent_session.memories("checkpoint")
    event = agent_session.row.events.get(event=CHECKPOINT)
    assert event.memory == made
    agent_session.end()
    event.refresh_from_db()
    assert event.memory == summary(agent_session)


def test_edited_checkpoint_stays(agent_session, configure, actor):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    [made] = agent_session.memories("checkpoint")
    memories.update_memory(made.uid, MemoryPatch(content="What matters so far, by hand"), actor)
    agent_session.end()
    assert agent_session.memories("checkpoint") == [made]


def test_pinned_checkpoint_stays(agent_session, configure):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    [made] = agent_session.memories("checkpoint")
    Memory.objects.filter(pk=made.pk).update(pinned_at=made.created_at)
    agent_session.end()
    assert agent_session.memories("checkpoint") == [made]


def test_checkpoint_above_the_level_of_the_summary_stays(agent_session, configure, actor):
    configure(checkpoint_events=2)
    agent_session.commit(FIX, sensitivity="secret")
    agent_session.tool("Read", {"file_path": "a.py"}, "text")
    [made] = agent_session.memories("checkpoint")
    memories.trash_memories([one.uid for one in agent_session.memories("bugfix")], actor)
    configure(checkpoint_events=0)
    agent_session.commit(FEATURE)
    agent_session.end()
    assert (made.sensitivity, summary(agent_session).sensitivity) == ("secret", "public")
    assert agent_session.memories("checkpoint") == [made]


def test_checkpoint_stored_by_an_agent_stays(agent_session, remember):
    own = remember("so far", type="checkpoint", session_id="s1", project="shop")
    agent_session.commit(FIX)
    agent_session.end()
    assert agent_session.memories("checkpoint") == [own]


def test_checkpoints_of_other_sessions_stay(agent_session, open_session, configure):
    configure(checkpoint_events=1)
    others = (open_session("s2"), open_session("s1", "web"))
    for other in others:
        other.commit(DECISION)
    agent_session.commit(FIX)
    agent_session.end()
    assert [len(other.memories("checkpoint")) for other in others] == [1, 1]


def test_session_without_summary_keeps_its_checkpoints(agent_session, configure, actor):
    configure(checkpoint_events=1)
    agent_session.commit(FIX)
    agent_session.end()
    memories.trash_memories([summary(agent_session).uid], actor)
    [made] = Memory.objects.filter(type="checkpoint")
    memories.restore_memories([made.uid], actor)
    assert "moved to the trash before" in agent_session.end()["handlers"][0]["detail"]
    assert agent_session.memories("checkpoint") == [made]
