"""The detector held against detect-secrets: its rules for providers know nothing that ours do not."""

from __future__ import annotations

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

from memoryhub.security.secrets import find_secrets
from tools.secret_examples import examples

# These take any long word, any word after `password`, and any address for a secret.
_VAGUE = {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector"}
DETECTORS = [
    detector()
    for detector in get_mapping_from_secret_type_to_class().values()
    if detector.__name__ not in _VAGUE
]


@pytest.mark.parametrize("seed", [7, 21])
def test_whatever_the_library_finds_is_found(seed: int) -> None:
    theirs = [one for one in examples(seed) if one.kind and _found_by_library(one.text)]
    assert len(theirs) > 50
    assert [one.kind for one in theirs if not find_secrets(one.text)] == []


def _found_by_library(text: str) -> bool:
    return any(
        True for detector in DETECTORS for line in text.split("\n") for _ in detector.analyze_string(line)
    )
