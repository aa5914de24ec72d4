"""Whom a profile is about, told by its form."""

from __future__ import annotations

import pytest

from memoryhub.extraction.rules.statements import different_people


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Maria is a data engineer", "Jonas lives in Porto"),
        ("My name is Maria", "My name is Jonas."),
        ("User's name is Maria", "I'm Jonas, a nurse"),
        ("Short answers. Maria prefers them", "Jonas Weber works at the port"),
    ],
)
def test_two_names_are_two_people(one: str, other: str) -> None:
    assert different_people(one, other)
    assert different_people(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Maria is a data engineer", "Maria lives in Porto"),
        ("Maria is a data engineer", "Lives in Porto"),
        ("Maria is a data engineer", "The user lives in Porto"),
        ("User is a data engineer", "Maria lives in Porto"),
        ("Maria Silva works in Porto", "María is a mother"),
        ("Jonas is her boss. Maria is a data engineer", "Maria lives in Porto"),
        ("", "Maria lives in Porto"),
    ],
)
def test_the_same_name_or_none_is_nobody_else(one: str, other: str) -> None:
    assert not different_people(one, other)
    assert not different_people(other, one)
