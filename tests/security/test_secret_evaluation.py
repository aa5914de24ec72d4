"""The labelled set of secrets: its size, the scores on it, and a comparison with detect-secrets."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from django.core.management import call_command

from memoryhub.security.secrets import find_secrets
from tools.commands.evaluate_secrets import Command
from tools.secret_examples import TEMPLATES, make_examples

MIN_RECALL, MAX_ALARM_RATE = 0.97, 0.003


def figures(**options: Any) -> dict[str, Any]:
    out = StringIO()
    call_command(Command(), json=True, stdout=out, **options)
    parsed: dict[str, Any] = json.loads(out.getvalue())
    return parsed


def test_set_is_large() -> None:
    examples = make_examples()
    assert len([example for example in examples if example.kind]) >= 300
    assert len({example.kind for example in examples}) >= 40
    assert len({example.text for example in examples if not example.kind}) >= 500


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_halves_reach_the_required_scores(seed: int) -> None:
    scores = figures(seed=seed)
    for half in ("tuning", "held-out"):
        assert scores[half]["recall"] >= MIN_RECALL
        assert scores[half]["false_alarms"] <= MAX_ALARM_RATE * scores[half]["without"]


def test_command_prints_recall_precision_and_time() -> None:
    out = StringIO()
    call_command(Command(), by_kind=True, show_misses=True, stdout=out)
    output = out.getvalue()
    assert all(
        word in output
        for word in ("recall", "precision", "false alarms", "ms of processor time", "GitHub token")
    )


def test_templates_contain_no_whole_token() -> None:
    paths = list(TEMPLATES.glob("*.txt"))
    assert {path.name: find_secrets(path.read_text("utf-8")) for path in paths} == {
        path.name: [] for path in paths
    }


# These report any long word, any word after `password`, and any address.
_VAGUE = {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector"}
DETECTORS = [
    detector()
    for detector in get_mapping_from_secret_type_to_class().values()
    if detector.__name__ not in _VAGUE
]


@pytest.mark.parametrize("seed", [7, 21])
def test_secrets_found_by_detect_secrets_are_found(seed: int) -> None:
    found = [example for example in make_examples(seed) if example.kind and _found_by_library(example.text)]
    assert len(found) > 50
    assert [example.kind for example in found if not find_secrets(example.text)] == []


def _found_by_library(text: str) -> bool:
    return any(
        True for detector in DETECTORS for line in text.split("\n") for _ in detector.analyze_string(line)
    )
