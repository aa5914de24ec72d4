"""The labelled sets, and what they are held to."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from memoryhub.security.prompt_injection.lexicon import LEXICON
from memoryhub.security.prompt_injection.patterns import RULES
from tools.prompt_injection.evaluation import (
    LabelledText,
    compute_score,
    compute_scores_by,
    inspect_samples,
    load_samples,
)

SETS = sorted((Path(settings.BASE_DIR) / "fixtures" / "governor").glob("*.jsonl"))
LANGUAGES = set("en de fr es pt it nl pl ru zh ja ko tr ar hi".split())


@pytest.fixture(scope="module")
def samples() -> list[LabelledText]:
    return load_samples(SETS)


@pytest.fixture(scope="module")
def outcomes(samples):
    return inspect_samples(samples)


def test_the_sets_are_large_and_of_many_languages(samples):
    for label, least in (("injection", 300), ("ordinary", 600)):
        found = [sample for sample in samples if sample.label == label]
        assert len(found) >= least
        assert {sample.language for sample in found} >= LANGUAGES
        assert len({sample.text for sample in found}) == len(found)


def test_the_halves_are_about_as_large(samples):
    dev = sum(sample.half == "dev" for sample in samples)
    assert 0.4 < dev / len(samples) < 0.6


def test_most_unseen_injections_are_caught_at_few_false_alarms(outcomes):
    unseen = compute_score(outcome for outcome in outcomes if outcome.sample.half == "unseen")
    assert unseen.recall >= 0.88
    assert unseen.alarm_rate <= 0.01


def test_most_injections_of_every_language_are_caught(outcomes):
    found = compute_scores_by(outcomes, lambda sample: sample.language)
    weak = {
        name
        for name in LANGUAGES
        if found[name].recall < 0.7 or found[name].alarms > max(1, 0.01 * found[name].ordinary)
    }
    assert weak == set()


def test_a_line_that_is_no_labelled_text_is_named(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text(
        '{"text": "a", "label": "ordinary", "kind": "k", "language": "en"}\n{"text": "b"}\n', "utf-8"
    )
    with pytest.raises(ValueError, match=r"set\.jsonl:2"):
        load_samples([path])


def test_a_label_must_be_known(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"text": "a", "label": "odd", "kind": "k", "language": "en"}', "utf-8")
    with pytest.raises(ValueError, match="injection, ordinary"):
        load_samples([path])


def test_every_rule_weighs_something_and_none_outweighs_all():
    assert {rule.weight for rule in RULES if not 0.2 <= rule.weight <= 1.2} == set()


def test_every_set_of_parts_has_a_symbol_of_its_own():
    signs = {symbol for symbols in LEXICON.members.values() for symbol in symbols}
    assert all(len(symbol) == 1 for symbol in signs)
