"""``manage.py evaluate FOLDER``: labelled prompts are read, checked and run; our own set is sound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tools.evaluation.prompt_sets import (
    PromptSet,
    StoredMemory,
    read_prompts,
    replacements_first,
    to_draft,
)
from tools.evaluation.sets import InvalidSet

OWN = Path(settings.BASE_DIR) / "fixtures/prompts"
KINDS = {
    *("direct", "rambling", "several", "typo", "prefix", "alias", "superseded", "no_content", "off_topic"),
    *("code", "language", "session"),
}
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

MEMORIES = [
    {"id": "cats", "content": "The lighthouse keeper feeds eleven cats.", "age_days": 3},
    {"id": "ferry", "content": "The island ferry departs at noon.", "age_days": 2},
    {"id": "old", "content": "The island ferry departs at dawn.", "age_days": 9, "superseded_by": "ferry"},
]
PROMPTS = [
    {"id": "1", "kind": "direct", "prompt": "lighthouse keeper cats", "must": ["cats"], "must_not": "*"},
    {"id": "2", "kind": "void", "prompt": "trumpet polish", "must": [], "must_not": "*"},
    {
        "id": "3",
        "kind": "turn",
        "prompt": "lighthouse keeper cats",
        "session": "s",
        "must": ["cats"],
        "must_not": ["ferry"],
    },
    {
        "id": "4",
        "kind": "turn",
        "prompt": "How many cats does the lighthouse keeper feed?",
        "session": "s",
        "must": ["cats"],
        "must_not": ["ferry", "old"],
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """``folder(memories=…, prompts=…)`` writes a set of prompts."""

    def write(
        memories: list[dict[str, Any]] = MEMORIES, prompts: list[dict[str, Any]] | str = PROMPTS
    ) -> Path:
        lines = "".join(json.dumps(memory) + "\n" for memory in memories)
        (tmp_path / "memories.jsonl").write_text(lines, "utf-8")
        text = prompts if isinstance(prompts, str) else json.dumps(prompts)
        (tmp_path / "development.json").write_text(text, "utf-8")
        return tmp_path

    return write


def a_memory(**fields: Any) -> StoredMemory:
    return StoredMemory.model_validate({"id": "a", "content": "text", "age_days": 0, **fields})


@pytest.mark.slow
@pytest.mark.sqlite
def test_prompts_are_run_through_injection_and_recall(folder, run, tmp_path):
    ran = run("evaluate", folder(), "--json", tmp_path / "figures.json", "--failures")
    assert ran.code == 0, ran.err
    assert "development: 4 prompts, 3 memories" in ran.out
    figures = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert set(figures) == {"injection", "recall"}
    for kinds in figures.values():
        assert list(kinds) == ["direct", "void", "turn", "all"]
        # The second turn is not shown the memory again, but it is in the agent's context.
        assert kinds["turn"] == {"prompts": 2, "precision": 1.0, "recall": 1.0, "exact": 1.0}
        assert kinds["void"] == {"prompts": 1, "precision": None, "recall": None, "exact": 1.0}


def test_options_for_prompts_are_refused_without_a_folder(run):
    ran = run("evaluate", "--failures")
    assert (ran.code, "need a folder of prompts" in ran.err) == (1, True)


def test_a_mode_of_search_is_refused_for_prompts(folder, run):
    ran = run("evaluate", folder(), "--mode", "lexical")
    assert (ran.code, "--mode is for retrieval sets" in ran.err) == (1, True)


def test_a_missing_half_is_reported(folder, run):
    ran = run("evaluate", folder(), "--held-back")
    assert ran.code == 1
    assert "held_back.json: cannot be read: No such file" in ran.err


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([{**PROMPTS[0], "must": ["dogs"]}], "prompt '1': 'dogs' is not the id of a memory"),
        ([{**PROMPTS[0], "may": ["cats"]}], "rename the second 'cats'"),
        ([PROMPTS[0], PROMPTS[0]], "rename the second '1'"),
        ([{**PROMPTS[0], "must_not": "all"}], "prompts.0.must_not"),
        ([{**PROMPTS[0], "muts": []}], "prompts.0.muts: Extra inputs are not permitted"),
        ([], "at least 1 item"),
        ("{", "must be JSON"),
    ],
)
def test_bad_prompts_are_refused_with_the_reason(prompts, message, folder):
    with pytest.raises(InvalidSet, match=message):
        read_prompts(folder(prompts=prompts))


def test_an_unknown_replacement_is_refused(folder):
    with pytest.raises(InvalidSet, match="superseded_by 'dogs' is unknown"):
        read_prompts(folder([{**MEMORIES[0], "superseded_by": "dogs"}]))


def test_memories_come_after_the_memories_that_replace_them():
    chain = [a_memory(id="a", superseded_by="b"), a_memory(id="b", superseded_by="c"), a_memory(id="c")]
    assert [[one.id for one in group] for group in replacements_first(chain)] == [["c"], ["b"], ["a"]]


def test_memories_that_replace_each_other_are_refused():
    circle = [a_memory(id="a", superseded_by="b"), a_memory(id="b", superseded_by="a")]
    with pytest.raises(InvalidSet, match="leads back to itself"):
        list(replacements_first(circle))


def test_a_draft_leaves_out_fields_that_this_version_does_not_know():
    memory = a_memory(title="A title", tags=["x"], flavour="salty", superseded_by="b", aliases=["y"])
    draft = to_draft(memory, {"b": "uid-of-b"}, NOW)
    assert (draft.ignored, draft.title, draft.tags) == ([], "A title", ["x"])
    assert getattr(draft, "superseded_by", "uid-of-b") == "uid-of-b"


def test_a_draft_never_expires():
    draft = to_draft(a_memory(), {}, NOW)
    assert (draft.created_at, draft.ttl_days) == (NOW, 0)


def test_turns_of_a_session_stay_together_and_in_order(folder):
    prompts = [{**PROMPTS[0], "id": str(n), "session": name} for n, name in enumerate(["s", "", "s", ""])]
    groups = read_prompts(folder(prompts=prompts)).conversations()
    assert [[prompt.id for prompt in group] for group in groups] == [["0", "2"], ["1"], ["3"]]


@pytest.fixture(scope="module")
def halves() -> list[PromptSet]:
    return [read_prompts(OWN), read_prompts(OWN, held_back=True)]


def test_both_halves_have_enough_prompts_of_every_kind(halves):
    for half in halves:
        counts = Counter(prompt.kind for prompt in half.prompts)
        assert set(counts) == KINDS
        assert min(counts.values()) >= 8
    assert sum(len(half.prompts) for half in halves) >= 180
    assert len(halves[0].memories) >= 80


def test_the_halves_share_no_prompt_and_no_subject(halves):
    for name in ("id", "prompt"):
        first, second = ([getattr(prompt, name) for prompt in half.prompts] for half in halves)
        assert not set(first) & set(second)
    wanted = [{memory for prompt in half.prompts for memory in prompt.must} for half in halves]
    assert not wanted[0] & wanted[1]


def test_no_prompt_is_labelled_twice(halves):
    for half in halves:
        alone = [prompt.prompt for prompt in half.prompts if not prompt.session]
        assert len(set(alone)) == len(alone)


def test_labels_fit_the_kind(halves):
    for half in halves:
        superseded = {memory.id for memory in half.memories if memory.superseded_by}
        for prompt in half.prompts:
            assert not superseded & {*prompt.must, *prompt.may}, prompt.id
            if prompt.kind in ("no_content", "off_topic"):
                assert (prompt.must, prompt.may, prompt.must_not) == ([], [], "*"), prompt.id
            if prompt.kind == "rambling":
                assert 60 <= len(prompt.prompt.split()) <= 100, prompt.id
            if prompt.kind == "several":
                assert 5 <= len(prompt.must) <= 6, prompt.id
            assert (prompt.kind == "session") == bool(prompt.session), prompt.id


def test_sessions_have_ten_turns_and_return_to_a_subject(halves):
    for half in halves:
        sessions = [group for group in half.conversations() if group[0].session]
        assert len(sessions) >= 2
        for turns in sessions:
            wanted = [memory for prompt in turns for memory in prompt.must]
            assert len(turns) == 10
            assert len(set(wanted)) < len(wanted)
