"""The effect of a change on logged prompts: which answers would change, without changing anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.audit import mirror
from memoryhub.backends import change_log
from memoryhub.injection import effects
from memoryhub.injection.effects import Thresholds, preview_change, preview_settings
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Embedding, Injection, JournalEntry, Memory, Project, Revision
from tests.injection.conftest import PROMPT

ZEBRA = "zebra stripes are like finger prints"


@pytest.fixture
def log(db):
    def add(prompt=PROMPT, **fields):
        return Injection.objects.create(prompt_preview=prompt, **fields)

    return add


def edit(memory, actor, **fields):
    return lambda: memories.update_memory(memory.uid, MemoryPatch(**fields), actor)


def test_edit_that_drops_the_words_of_a_prompt_loses_it(log, remember, actor):
    memory = remember(ZEBRA)
    row = log()
    effect = preview_change(actor.clearance, edit(memory, actor, content="harbour lights"))
    [changed] = effect.changed
    assert changed.prompt.uid == row.uid
    assert [one.uid for one in changed.lost] == [memory.uid]
    assert changed.lost[0].reason == effects.NOT_FOUND
    assert effect.summary([memory.uid], "this memory") == (
        "1 prompt loses this memory. Replayed 1 of 1 logged prompts."
    )


def test_edit_that_adds_the_words_of_a_prompt_gains_it(log, remember, actor):
    memory = remember("harbour lights")
    log()
    effect = preview_change(actor.clearance, edit(memory, actor, content=ZEBRA))
    assert [one.uid for one in effect.changed[0].gained] == [memory.uid]
    assert effect.summary([memory.uid], "this memory").startswith("1 prompt gains this memory")


def test_preview_leaves_nothing_behind(log, remember, actor):
    memory = remember(ZEBRA)
    log()
    tables = (Memory, Revision, JournalEntry, Injection, Embedding)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    preview_change(actor.clearance, edit(memory, actor, content="harbour lights"))
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before


@pytest.mark.django_db(transaction=True)
def test_preview_writes_no_line_of_the_mirror(log, remember, actor):
    memory = remember(ZEBRA)
    log()
    before, position = mirror.last(), change_log.current_position()
    assert preview_change(actor.clearance, edit(memory, actor, content="harbour lights")).changed
    assert (mirror.last(), change_log.current_position()) == (before, position)


def test_edit_of_another_subject_changes_no_answer_and_needs_no_replay(log, remember, actor, monkeypatch):
    memory = remember("harbour lights")
    remember(ZEBRA)
    log()
    monkeypatch.setattr(effects, "candidates_for_prompt", None)
    effect = preview_change(actor.clearance, edit(memory, actor, content="harbour at night"))
    assert (effect.replayed, effect.changed) == (1, ())


def test_refusal_of_the_writer_is_raised_without_any_prompt(remember, actor):
    memory = remember(ZEBRA)
    memories.trash_memories([memory.uid], actor)
    with pytest.raises(memories.StoreError):
        preview_change(actor.clearance, edit(memory, actor, content="harbour lights"))


def test_merge_shows_which_memory_takes_the_place(log, remember, actor):
    keep, other = remember("harbour lights", project="zoo"), remember(ZEBRA, project="zoo")
    log(project="zoo")
    effect = preview_change(
        actor.clearance, lambda: memories.merge_memories(keep.uid, [other.uid], actor, content=ZEBRA + " too")
    )
    [changed] = effect.changed
    assert [one.uid for one in changed.lost] == [other.uid]
    assert [one.uid for one in changed.gained] == [keep.uid]


def test_replacement_affects_prompts_without_its_words(log, remember, actor):
    old, new = remember(ZEBRA), remember("harbour lights")
    log()
    effect = preview_change(actor.clearance, edit(old, actor, superseded_by=new.uid))
    assert [one.uid for one in effect.changed[0].gained] == [new.uid]


def test_higher_minimum_score_withholds(log, remember, actor):
    memory = remember(ZEBRA)
    log()
    effect = preview_settings(actor.clearance, thresholds=Thresholds(min_score=0.99))
    [lost] = effect.changed[0].lost
    assert (lost.uid, lost.reason) == (memory.uid, "below the floor")


def test_unchanged_thresholds_change_nothing(log, remember, actor):
    remember(ZEBRA)
    log()
    assert not preview_settings(actor.clearance, thresholds=Thresholds()).changed


def test_project_that_is_switched_off_brings_nothing(log, remember, actor):
    remember(ZEBRA)
    log(project="zoo")
    log(project="circus")
    effect = preview_settings(actor.clearance, modes={"zoo": "off"})
    [changed] = effect.changed
    assert changed.prompt.project == "zoo"
    assert changed.lost[0].reason == "the project is off"
    assert effect.replayed == 2


def test_project_that_is_switched_on_brings_memories(log, remember, actor):
    remember(ZEBRA)
    Project.objects.create(name="zoo", mode="observe")
    log(project="zoo")
    effect = preview_settings(actor.clearance, modes={"zoo": "automatic"})
    assert len(effect.changed[0].gained) == 1


def test_hidden_prompts_are_not_replayed(log, remember, actor):
    memory = remember(ZEBRA)
    for level in ("private", "secret", "cosmic"):
        log(f"{PROMPT} {level}", sensitivity=level)
    log(project="circus")
    confined = Clearance(projects=frozenset({"zoo"}))
    change = edit(memory, actor, content="harbour lights")
    assert preview_change(Clearance(), change).total == 1
    assert preview_change(confined, change).total == 0
    assert preview_change(actor.clearance, change).total == 3


def test_hidden_memories_are_in_no_answer(log, four_levels, actor):
    log(project="zoo")
    effect = preview_settings(Clearance(), thresholds=Thresholds(min_score=0.99))
    assert [one.uid for one in effect.changed[0].lost] == [four_levels["public"].uid]
    all_levels = preview_settings(actor.clearance, thresholds=Thresholds(min_score=0.99))
    assert len(all_levels.changed[0].lost) == 3


def test_change_of_a_hidden_memory_changes_no_visible_answer(log, four_levels, actor):
    log(project="zoo")
    change = edit(four_levels["secret"], actor, content="harbour lights")
    assert not preview_change(Clearance(), change).changed


def test_same_prompt_is_replayed_once_and_those_without_text_never(log, actor):
    log()
    log()
    log("")
    assert preview_settings(actor.clearance, thresholds=Thresholds()).total == 1


def test_only_the_latest_prompts_are_replayed(log, actor):
    for number in range(3):
        log(f"{PROMPT} {number}")
    found = effects.latest_prompts(actor.clearance, limit=2)
    assert [one.text[-1] for one in found] == ["2", "1"]


def test_replay_out_of_time_says_how_many_prompts_it_covers(log, remember, actor, monkeypatch):
    memory = remember(ZEBRA)
    log()
    monkeypatch.setattr(effects, "MAX_SECONDS", 0.0)
    effect = preview_change(actor.clearance, edit(memory, actor, content="harbour lights"))
    assert (effect.replayed, effect.total) == (0, 1)


def test_other_writers_get_a_turn_between_two_locks(log, remember, actor, monkeypatch):
    memory = remember(ZEBRA)
    for number in range(3):
        log(f"{PROMPT} {number}")
    monkeypatch.setattr(effects, "LOCK_MS", 0.0)
    applied = []
    change = edit(memory, actor, content="harbour lights")
    effect = preview_change(actor.clearance, lambda: applied.append(change()))
    assert len(applied) == 4  # once for the words, and once for each prompt
    assert len(effect.changed) == 3


def test_effect_is_that_of_the_viewer_and_not_of_the_writer(log, four_levels, actor):
    log(project="zoo")
    reader = replace(actor.clearance, levels=frozenset({"public", "private"}))
    change = edit(four_levels["private"], actor, content="harbour lights")
    assert len(preview_change(reader, change).changed) == 1
    assert len(preview_change(Clearance(), change).changed) == 0
