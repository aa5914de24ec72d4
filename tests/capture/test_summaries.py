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


def summary(sitting):
    [found] = sitting.memories("session_summary")
    return found


def test_session_without_content_has_no_summary(sitting):
    sitting.ok("session:start")
    sitting.tool("Read", {"file_path": "a.py"}, "text")
    answer = sitting.end()
    assert answer["handlers"][0]["status"] == "skipped"
    assert Memory.objects.count() == 0


def test_summary_has_all_sections(sitting):
    sitting.ok("prompt:submit", {"prompt": "Old rows come back after a restart, please mend that"})
    sitting.tool("Edit", {"file_path": "src/importer.py", "new_string": "x"}, {})
    sitting.commit(FIX)
    sitting.commit(DECISION)
    sitting.commit(FEATURE)
    answer = sitting.end()
    made = summary(sitting)
    assert made.uid in answer["handlers"][0]["detail"]
    text = made.content
    assert "Asked for: Old rows come back after a restart" in text
    assert "Decisions:\n- We decided to keep one SQLite file" in text
    assert "Problems solved:\n- Read each file once" in text
    assert "Done:\n- Members wait in line" in text
    assert "Files changed: src/importer.py" in text
    assert made.title.startswith("Session: ")
    assert made.title.endswith(", and 2 more")
    assert sitting.row.summary == made


def test_end_event_links_to_the_summary(sitting):
    sitting.commit(FIX)
    sitting.end()
    assert sitting.row.events.get(event="session:end").memory == summary(sitting)


def test_second_end_creates_no_second_summary(sitting):
    sitting.commit(FIX)
    sitting.end()
    first = summary(sitting)
    answer = sitting.end()
    assert summary(sitting) == first
    assert "unchanged" in answer["handlers"][0]["detail"]


def test_continued_session_updates_its_summary(sitting):
    sitting.commit(FIX)
    sitting.end()
    first = summary(sitting)
    sitting.commit(FEATURE)
    answer = sitting.end()
    after = summary(sitting)
    assert after.uid == first.uid
    assert "updated" in answer["handlers"][0]["detail"]
    assert "Members wait in line" in after.content


def test_summary_text_is_deterministic(sit):
    texts = []
    for project in ("one", "two"):
        sitting = sit("s1", project)
        sitting.commit(FIX)
        sitting.commit(FEATURE)
        sitting.end()
        texts.append(summary(sitting).content)
    assert texts[0] == texts[1]


def test_deleted_summary_is_not_restored(sitting, actor):
    sitting.commit(FIX)
    sitting.end()
    memories.trash_memories([summary(sitting).uid], actor)
    sitting.end()
    assert sitting.memories("session_summary") == []


def test_deleted_summary_is_written_again_with_new_content(sitting, actor):
    sitting.commit(FIX)
    sitting.end()
    memories.trash_memories([summary(sitting).uid], actor)
    sitting.commit(FEATURE)
    sitting.end()
    assert "Members wait" in summary(sitting).content


def test_sessions_with_identical_summaries_have_one_each(sit):
    for session_id in ("one", "two"):
        sitting = sit(session_id)
        sitting.tool("Edit", {"file_path": "src/importer.py", "new_string": "x"}, {})
        sitting.end()
        assert summary(sitting).session_id == session_id


def test_summary_has_the_highest_level_of_captured_memories(sitting):
    sitting.commit(FIX)
    sitting.commit(FEATURE, sensitivity="private")
    sitting.end()
    assert summary(sitting).sensitivity == "private"
    assert "Members wait" in summary(sitting).content


def test_memories_stored_at_a_higher_level_are_left_out(sitting, remember):
    sitting.commit(FIX)
    remember(
        "The combination of the safe is in the blue book",
        session_id="s1",
        project="shop",
        sensitivity="secret",
    )
    sitting.end()
    assert summary(sitting).sensitivity == "public"
    assert "safe" not in summary(sitting).content


def test_credential_file_does_not_make_the_summary_private(sitting):
    sitting.tool("Read", {"file_path": ".env"}, "A=1")
    sitting.commit(FIX)
    sitting.end()
    assert summary(sitting).sensitivity == "public"
    assert ".env" not in summary(sitting).content


def test_summary_excludes_personal_memories(sitting, remember):
    sitting.commit(FIX)
    remember("Ada dislikes the new chairs", session_id="s1", project="shop", scope="personal")
    sitting.end()
    assert "chairs" not in summary(sitting).content


def test_agent_with_low_clearance_can_end_the_session(sit):
    low = sit(clearance="public")
    low.commit(FIX, sensitivity="secret")
    low.end()
    low.commit(FEATURE, sensitivity="secret")
    low.end()
    made = summary(low)
    assert made.sensitivity == "secret"
    assert "Members wait" in made.content
    assert low.agent.get(f"/memories/{made.uid}", allow_secret="true").status_code == 404


# --- Checkpoints --------------------------------------------------------------------------------------------


def test_checkpoint_is_stored_after_the_configured_calls(sitting, configure):
    configure(checkpoint_events=5)
    sitting.commit(FIX)
    for n in range(3):
        sitting.tool("Read", {"file_path": f"f{n}.py"}, "text")
    assert sitting.memories("checkpoint") == []
    event = sitting.tool("Read", {"file_path": "last.py"}, "text")
    [made] = sitting.memories("checkpoint")
    assert "checkpoint: made" in event.handlers[1]["detail"]
    assert "Read each file once" in made.content
    assert made.title.startswith("So far: ")


def test_checkpoint_covers_the_time_since_the_last_one(sitting, configure):
    configure(checkpoint_events=2)
    sitting.tool("Read", {"file_path": "a.py"}, "text")
    sitting.commit(FIX)
    sitting.tool("Read", {"file_path": "b.py"}, "text")
    sitting.commit(FEATURE)
    first, second = sitting.memories("checkpoint")
    assert "Read each file once" in first.content
    assert "Read each file once" not in second.content
    assert "Members wait" in second.content


def test_checkpoint_includes_the_memory_of_its_own_call(sitting, configure):
    configure(checkpoint_events=2)
    sitting.commit(FIX)
    sitting.commit(FEATURE, sensitivity="private")
    [made] = sitting.memories("checkpoint")
    assert "Read each file once" in made.content
    assert "Members wait" in made.content
    assert made.sensitivity == "private"


def test_checkpoint_includes_the_file_of_its_own_call(sitting, configure):
    configure(checkpoint_events=2)
    sitting.commit(FIX)
    sitting.tool("Edit", {"file_path": "src/late.py", "new_string": "x"}, {})
    [made] = sitting.memories("checkpoint")
    assert "Files changed: src/late.py" in made.content


def test_checkpoint_excludes_files_above_its_level(sitting, configure):
    configure(checkpoint_events=2)
    sitting.commit(FIX)
    sitting.tool("Edit", {"file_path": "src/late.py", "new_string": "x"}, {}, sensitivity="private")
    [made] = sitting.memories("checkpoint")
    assert made.sensitivity == "public"
    assert "late.py" not in made.content


def test_summary_includes_memories_captured_at_the_end(sitting):
    sitting.commit(FEATURE)
    sitting.tool("Bash", {"command": "pytest"}, {"stdout": "E   LedgerError: no such book\n1 failed"})
    sitting.tool("Edit", {"file_path": "src/book.py", "new_string": "x"}, {})
    sitting.tool("Bash", {"command": "pytest"}, {"stdout": "3 passed"})
    sitting.end(sensitivity="private")
    [late] = sitting.memories("bugfix")
    assert late.sensitivity == "private"
    assert late.title in summary(sitting).content
    assert summary(sitting).sensitivity == "private"


def test_empty_checkpoint_is_not_stored(sitting, configure):
    configure(checkpoint_events=2)
    for n in range(6):
        sitting.tool("Read", {"file_path": f"f{n}.py"}, "text")
    assert sitting.memories("checkpoint") == []


def test_zero_disables_checkpoints(sitting, configure):
    configure(checkpoint_events=0)
    sitting.commit(FIX)
    sitting.commit(FEATURE)
    assert sitting.memories("checkpoint") == []


def test_summary_excludes_checkpoints(sitting, configure):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    sitting.end()
    assert "So far" not in summary(sitting).content


@pytest.mark.parametrize(("usual", "days"), [(90, 14), (3, 3), (0, 14)])
def test_checkpoint_expires_after_two_weeks_at_most(sitting, configure, usual, days):
    configure(checkpoint_events=1, default_ttl_days=usual)
    sitting.commit(FIX)
    assert sitting.memories("checkpoint")[0].ttl_days == days


def test_summary_replaces_the_checkpoints(sitting, configure):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    sitting.commit(FEATURE)
    made = sitting.memories("checkpoint")
    sitting.end()
    assert sitting.memories("checkpoint") == []
    taken = Memory.objects.filter(type="checkpoint")
    assert {one.uid for one in taken} == {one.uid for one in made}
    assert {(one.merged_into, one.trash_reason) for one in taken} == {(summary(sitting), "merged")}


def test_replaced_checkpoint_can_be_restored(sitting, configure, actor):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    [made] = sitting.memories("checkpoint")
    sitting.end()
    memories.restore_memories([made.uid], actor)
    assert sitting.memories("checkpoint") == [made]


def test_checkpoints_of_a_continued_session_are_replaced_at_its_next_end(sitting, configure):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    sitting.end()
    sitting.commit(FEATURE)
    assert len(sitting.memories("checkpoint")) == 1
    sitting.end()
    assert sitting.memories("checkpoint") == []


def test_checkpoint_event_links_to_the_summary(sitting, actor):
    sitting.commit(FIX)
    dispatch(HookEvent(CHECKPOINT, "s1", "shop"), actor)
    [made] = sitting.memories("checkpoint")
    event = sitting.row.events.get(event=CHECKPOINT)
    assert event.memory == made
    sitting.end()
    event.refresh_from_db()
    assert event.memory == summary(sitting)


def test_edited_checkpoint_stays(sitting, configure, actor):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    [made] = sitting.memories("checkpoint")
    memories.update_memory(made.uid, MemoryPatch(content="What matters so far, by hand"), actor)
    sitting.end()
    assert sitting.memories("checkpoint") == [made]


def test_checkpoint_above_the_level_of_the_summary_stays(sitting, configure, actor):
    configure(checkpoint_events=2)
    sitting.commit(FIX, sensitivity="secret")
    sitting.tool("Read", {"file_path": "a.py"}, "text")
    [made] = sitting.memories("checkpoint")
    memories.trash_memories([one.uid for one in sitting.memories("bugfix")], actor)
    configure(checkpoint_events=0)
    sitting.commit(FEATURE)
    sitting.end()
    assert (made.sensitivity, summary(sitting).sensitivity) == ("secret", "public")
    assert sitting.memories("checkpoint") == [made]


def test_checkpoint_stored_by_an_agent_stays(sitting, remember):
    own = remember("so far", type="checkpoint", session_id="s1", project="shop")
    sitting.commit(FIX)
    sitting.end()
    assert sitting.memories("checkpoint") == [own]


def test_checkpoints_of_other_sessions_stay(sitting, sit, configure):
    configure(checkpoint_events=1)
    others = (sit("s2"), sit("s1", "web"))
    for other in others:
        other.commit(DECISION)
    sitting.commit(FIX)
    sitting.end()
    assert [len(other.memories("checkpoint")) for other in others] == [1, 1]


def test_session_without_summary_keeps_its_checkpoints(sitting, configure, actor):
    configure(checkpoint_events=1)
    sitting.commit(FIX)
    sitting.end()
    memories.trash_memories([summary(sitting).uid], actor)
    [made] = Memory.objects.filter(type="checkpoint")
    memories.restore_memories([made.uid], actor)
    assert "thrown away before" in sitting.end()["handlers"][0]["detail"]
    assert sitting.memories("checkpoint") == [made]
