"""Comparison of a candidate with an existing text."""

from __future__ import annotations

import pytest

from memoryhub.extraction.comparison import Decision, compare_texts, merge_texts, word_overlap

CREATE, MERGE, SKIP = Decision.CREATE, Decision.MERGE, Decision.SKIP


@pytest.mark.parametrize(
    ("candidate", "existing", "decision"),
    [
        ("Deploys run at night.", "Deploys run at night.", SKIP),
        ("deploys run at night", "Deploys run at night!", SKIP),
        ("The build cache is on the runner", "The build cache lives on the runner", SKIP),
        ("Ada leads billing.", "Ada leads billing. She lives in Lisbon.", SKIP),
        ("Ada leads billing from Lisbon", "Ada leads billing", MERGE),
        ("Ada leads billing. She prefers mornings.", "Ada leads billing.", MERGE),
        ("Deploys run at 6 pm", "Deploys run at 5 pm", CREATE),
        ("Deploys run at 17:00", "Deploys run at 5 pm", CREATE),
        ("Bob leads billing", "Ada leads billing", CREATE),
        ("Bob reviews code of Ada", "Ada reviews code of Bob", CREATE),
        ("The user prefers tabs over spaces", "The user prefers spaces over tabs", CREATE),
        ("The user prefers tabs", "The user prefers spaces", CREATE),
        ("The cache is not shared", "The cache is shared", CREATE),
        ("The cache isn't shared", "The cache is shared", CREATE),
        ("Run migrations after the deploy", "Run migrations before the deploy", CREATE),
        ("The flag is off", "The flag is on", CREATE),
        ("Kubernetes restarts the pod", "Lunch is at noon", CREATE),
        ("部署在晚上进行。", "部署在晚上进行。", SKIP),
        ("部署在早上进行。", "部署在晚上进行。", CREATE),
        ("!!!", "Deploys run at night.", SKIP),
    ],
)
def test_decisions(candidate: str, existing: str, decision: Decision) -> None:
    assert compare_texts(candidate, existing).decision == decision


def test_extending_sentence_replaces_the_shorter_one() -> None:
    verdict = compare_texts("Ada leads billing from Lisbon.", "Ada leads billing. Bob leads search.")
    assert verdict.content == "Ada leads billing from Lisbon. Bob leads search."


def test_new_sentence_is_appended_in_the_style_of_the_old_text() -> None:
    assert compare_texts("Ada leads billing. She is tall.", "Ada leads billing").content == (
        "Ada leads billing. She is tall."
    )
    lines = compare_texts("- Use uv\n- Pin versions", "Rules:\n- Use uv").content
    assert lines == "Rules:\n- Use uv\n- Pin versions"


def test_reason_does_not_quote_the_texts() -> None:
    assert "Bob" not in compare_texts("Bob leads billing", "Ada leads billing").why


def test_merge_texts_keeps_contradicting_sentences() -> None:
    assert (
        merge_texts("Ada lives in Porto.", "Ada lives in Lisbon.")
        == "Ada lives in Lisbon. Ada lives in Porto."
    )
    assert merge_texts("Ada lives in Lisbon.", "Ada lives in Lisbon.") == "Ada lives in Lisbon."


def test_word_overlap_is_the_share_of_the_shorter_text_from_three_words() -> None:
    assert word_overlap("alpha beta gamma", "alpha beta gamma delta") == 1.0
    assert word_overlap("alpha beta", "alpha beta") == 0.0


def test_too_many_sentences_are_not_compared() -> None:
    assert compare_texts("Word one.\n" * 300, "Word one.").decision == CREATE


def test_extended_sentence_does_not_affect_sentences_with_the_same_beginning() -> None:
    both = merge_texts("I code in Go daily.", "I code in Gotham. I code in Go")
    assert both == "I code in Gotham. I code in Go daily."
