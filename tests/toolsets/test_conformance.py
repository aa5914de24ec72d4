"""docs/conformance.md lists every requirement of the documents with its tests."""

from __future__ import annotations

import pytest

from tools import conformance

REQUIREMENTS = {name for document in conformance.load_documents() for name in document.requirements}


def test_every_requirement_has_a_test():
    assert sorted(REQUIREMENTS - conformance.find_tests().keys()) == []


def test_every_marker_names_a_requirement():
    assert sorted(conformance.find_tests().keys() - REQUIREMENTS) == []


def test_page_is_current():
    page = conformance.PAGE.read_text("utf-8")
    assert page == conformance.render_page(), "run: python -m tools.conformance"


def test_requirement_that_lost_its_test_is_noticed(monkeypatch: pytest.MonkeyPatch):
    tests = conformance.find_tests()
    del tests["mira-1"]
    monkeypatch.setattr(conformance, "find_tests", lambda: tests)
    assert conformance.render_page() != conformance.PAGE.read_text("utf-8")
    with pytest.raises(AssertionError, match="mira-1"):
        test_every_requirement_has_a_test()


def test_requirements_are_short_and_unique_in_their_document():
    for document in conformance.load_documents():
        texts = list(document.requirements.values())
        assert len(set(texts)) == len(texts)
        assert max(len(text.split()) for text in texts) <= 30
