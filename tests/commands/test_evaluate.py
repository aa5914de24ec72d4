"""``manage.py evaluate``: sets are measured in a temporary store, and bad files are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from memoryhub.models import Memory
from tests.embeddings.servers import serving
from tools.evaluation.baseline import ALL_WORDS, WITHOUT_STOP_WORDS, BareIndex
from tools.evaluation.sets import RetrievalSet, read_set

OWN = Path(settings.BASE_DIR) / "fixtures/retrieval/kittiwake.json"


def a_set(name: str = "tiny-1", unit: str = "note", **changed: Any) -> dict[str, Any]:
    memories = [
        ("a", "The lighthouse keeper feeds eleven cats."),
        ("b", "A ferry leaves for the island at noon."),
        ("c", "The lighthouse was painted red in spring."),
        ("twin", "A ferry leaves for the island at noon."),
    ]
    queries = [
        ("1", "plain", "Who feeds the cats?", ["a"]),
        ("2", "plain", "When does the ferry leave?", ["twin"]),
        ("3", "void", "Which trumpet does Orlando polish?", []),
        ("4", "adversarial", "Why was the lighthouse painted blue?", ["c"]),
    ]
    return {
        "name": name,
        "unit": unit,
        "memories": [
            {
                "ref": ref,
                "content": text,
                "project": "p",
                "session_id": "s",
                "created_at": "2021-05-01T10:00:00Z",
            }
            for ref, text in memories
        ],
        "queries": [
            {"id": id_, "category": category, "query": query, "relevant": relevant}
            for id_, category, query, relevant in queries
        ],
        **changed,
    }


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[[Any], Path]:
    def write(data: Any, name: str = "set.json") -> Path:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, dict[str, Any]]:
    """What the command says of two sets of one family and one of another."""
    folder = tmp_path_factory.mktemp("sets")
    paths = []
    for name, unit in (("tiny-1", "note"), ("tiny-2", "note"), ("tiny-1", "fact")):
        paths.append(folder / f"{name}-{unit}.json")
        paths[-1].write_text(json.dumps(a_set(name, unit)), "utf-8")
    out, err = StringIO(), StringIO()
    call_command("evaluate", *paths, json=folder / "figures.json", stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), json.loads((folder / "figures.json").read_text("utf-8"))


def test_sets_of_one_family_and_unit_are_measured_together_and_all_of_them_at_the_end(measured):
    groups = {group["name"]: group["sets"] for group in measured[2]["groups"]}
    assert groups == {
        "tiny, notes": ["tiny-1", "tiny-2"],
        "tiny, facts": ["tiny-1"],
        "all sets": ["tiny-1", "tiny-2", "tiny-1"],
    }


def test_each_category_has_the_figures_of_each_system(measured):
    [notes, *_] = measured[2]["groups"]
    assert list(notes["categories"]) == ["all", "plain", "void", "adversarial"]
    for systems in notes["categories"].values():
        assert {ALL_WORDS, WITHOUT_STOP_WORDS, "lexical"} <= set(systems)
    assert notes["categories"]["all"]["lexical"]["questions"] == 6
    assert notes["categories"]["plain"]["lexical"]["recall_10"] == 1.0
    assert notes["categories"]["void"]["lexical"]["empty"] == 1.0


def test_memories_with_the_same_content_answer_for_each_other(measured):
    [notes, *_] = measured[2]["groups"]
    assert notes["categories"]["plain"][WITHOUT_STOP_WORDS]["recall_1"] == 1.0


def test_the_table_is_aligned_and_progress_is_printed_to_stderr(measured):
    out, err, _ = measured
    heading, *rows = [line for line in out.splitlines() if "R@10" in line or line.startswith("  ")]
    assert {len(row) for row in rows} == {len(heading)}
    assert "tiny, notes: 2 sets, 8 memories, floor 0.35" in out
    assert "tiny-2: 4 memories stored" in err


def test_the_store_in_use_is_not_changed(db, remember, file_of, run):
    remember("the only one")
    ran = run("evaluate", file_of(a_set()))
    assert ran.code == 0, ran.err
    assert list(Memory.objects.values_list("content", flat=True)) == ["the only one"]


def test_the_floor_is_the_configured_one(file_of, run, monkeypatch):
    monkeypatch.setenv("MEMORYHUB_MIN_SCORE", "0.99")
    ran = run("evaluate", file_of(a_set()))
    assert "floor 0.99" in ran.out
    assert "lexical" in ran.out


def test_one_mode_can_be_measured_alone(file_of, run):
    ran = run("evaluate", file_of(a_set()), "--mode", "lexical")
    assert "lexical" in ran.out
    assert WITHOUT_STOP_WORDS in ran.out
    assert "semantic" not in ran.out


def test_a_provider_that_embeds_in_the_background_has_done_so_before_it_is_asked(file_of, run, monkeypatch):
    with serving() as endpoint:
        monkeypatch.setenv("MEMORYHUB_EMBEDDINGS", "openai")
        monkeypatch.setenv("MEMORYHUB_EMBEDDINGS_URL", endpoint.url)
        monkeypatch.setenv("MEMORYHUB_EMBEDDINGS_MODEL", "tiny-embed")
        ran = run("evaluate", file_of(a_set()))
    assert ran.code == 0, ran.err
    assert "tiny-1: embedded in" in ran.err
    assert "answered as lexical" not in ran.out


def test_a_failing_provider_is_reported_and_only_words_are_measured(file_of, run, monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORYHUB_EMBEDDINGS", "onnx")
    monkeypatch.setenv("MEMORYHUB_EMBEDDINGS_FOLDER", str(tmp_path / "nowhere"))
    ran = run("evaluate", file_of(a_set()))
    assert ran.code == 0, ran.err
    assert "not embedded" in ran.err
    assert "Asked for semantic, the search answered as lexical." in ran.out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": None}, "name: Input should be a valid string"),
        ({"memories": []}, "memories: List should have at least 1 item"),
        ({"memories": [{"ref": "a"}]}, "memories.0.content: Field required; memories.0.created_at"),
        (
            {"queries": [{"id": "1", "category": "", "query": "x", "relevant": ["z"]}]},
            "'z', which is no memory",
        ),
        ({"queries": a_set()["queries"][:1] * 2}, "rename the second '1'"),
    ],
)
def test_an_invalid_set_is_reported_with_its_file_and_field(change, words, file_of, run):
    path = file_of(a_set(**change))
    ran = run("evaluate", path)
    assert ran.code == 1
    assert str(path) in ran.err
    assert words in ran.err


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_file_that_is_not_json_is_reported_with_the_expected_shape(text, file_of, run):
    ran = run("evaluate", file_of(text))
    assert ran.code == 1
    assert "A set looks like" in ran.err


def test_a_missing_file_is_reported(run, tmp_path):
    ran = run("evaluate", tmp_path / "nowhere.json")
    assert (ran.code, "cannot be read: No such file" in ran.err) == (1, True)


def test_two_sets_of_one_name_and_unit_are_refused(file_of, run):
    ran = run("evaluate", file_of(a_set(), "one.json"), file_of(a_set(), "two.json"))
    assert ran.code == 1
    assert "leave one out" in ran.err


def test_figures_that_cannot_be_written_are_refused_before_anything_is_measured(file_of, run, tmp_path):
    ran = run("evaluate", file_of(a_set()), "--json", tmp_path / "no" / "such" / "folder.json")
    assert ran.code == 1
    assert "--json" in ran.err
    assert "stored" not in ran.err


def test_the_hubs_own_set_has_memories_of_six_sessions_and_questions_without_an_answer():
    own = read_set(OWN)
    assert len({memory.session_id for memory in own.memories}) == 6
    assert sum(not query.relevant for query in own.queries) == 8


@pytest.mark.parametrize(
    ("name", "family"), [("locomo-conv-26", "locomo"), ("beam", "beam"), ("-x", "-x"), ("a_b", "a")]
)
def test_a_family_is_the_first_part_of_a_name(name, family):
    assert RetrievalSet.model_validate(a_set(name)).family == family


def test_bare_fts5_takes_any_text_for_words():
    bare = BareIndex([(1, "to be or not"), (2, "NEAR the harbour")])
    assert bare.ask('NEAR("to be"', WITHOUT_STOP_WORDS).ranked == [2]
    assert bare.ask("to be", WITHOUT_STOP_WORDS).ranked == [1]
    assert bare.ask('"*', ALL_WORDS).ranked == []
    bare.close()
