"""Clearances whose levels differ between projects (no database)."""

from __future__ import annotations

import pytest

from memoryhub.access.policy import LEVELS, Clearance, system_actor
from memoryhub.maintenance import results
from memoryhub.models import MaintenanceRun

PUBLIC, ALL = frozenset({"public"}), frozenset(LEVELS)


def on(*projects: str, **grants: frozenset[str]) -> Clearance:
    return Clearance(PUBLIC, "ada", frozenset({*projects, *grants}), grants=tuple(grants.items()))


def test_grant_replaces_levels_in_its_project_only():
    clearance = on("barn", farm=ALL)
    assert clearance.allows("farm", "secret")
    assert not clearance.allows("barn", "secret")
    assert clearance.allows("barn", "public")
    assert not clearance.allows("zoo", "public")


def test_grant_may_be_lower_than_levels():
    low = Clearance(ALL, projects=frozenset({"barn", "farm"}), grants=(("farm", PUBLIC),))
    assert low.allows("barn", "secret")
    assert not low.allows("farm", "private")


def test_grant_outside_the_projects_has_no_effect():
    assert not Clearance(PUBLIC, projects=frozenset({"farm"}), grants=(("zoo", ALL),)).includes_project("zoo")


def test_grant_needs_projects():
    with pytest.raises(ValueError, match="clearance with projects"):
        Clearance(ALL, grants=(("farm", PUBLIC),))


def test_unknown_level_is_dropped_from_a_grant():
    assert not on(farm=frozenset({"public", "cosmic"})).allows("farm", "cosmic")
    assert on(farm=frozenset({"cosmic"})).levels_in("farm") == frozenset()


def test_asking_narrows_every_grant():
    clearance = on("barn", farm=ALL).limited_to(private=True)
    assert clearance.levels_in("farm") == {"public", "private"}
    assert clearance.levels_in("barn") == PUBLIC


def test_levels_in_any_project_are_the_union_of_levels():
    assert on("barn", farm=ALL).levels_in_any_project() == ALL
    assert (
        Clearance(ALL, projects=frozenset({"farm"}), grants=(("farm", PUBLIC),)).levels_in_any_project()
        == PUBLIC
    )
    assert Clearance(PUBLIC).levels_in_any_project() == PUBLIC


def test_grant_equal_to_the_levels_changes_nothing():
    assert on("barn", farm=PUBLIC) == on("barn", "farm")
    assert len(on("barn", farm=PUBLIC).parts()) == 1


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        (Clearance(ALL), on("zoo", farm=ALL), True),
        (Clearance(PUBLIC), on(farm=ALL), False),
        (on("farm"), Clearance(PUBLIC), False),
        (on("barn", farm=ALL), on("barn", farm=ALL), True),
        (on("barn", farm=ALL), on("barn"), True),
        (on("barn", farm=ALL), on(barn=ALL), False),
        (on("barn", farm=ALL), on("zoo"), False),
        (on("barn", farm=ALL), Clearance(ALL, projects=frozenset({"farm"})), True),
        (on("barn", farm=ALL), Clearance(ALL, projects=frozenset({"barn"})), False),
    ],
)
def test_clearance_covers_another(wide, narrow, covered):
    assert wide.covers(narrow) is covered


def test_intersection_has_no_more_than_either():
    token = Clearance(ALL, "ada")
    person = on("barn", farm=ALL)
    both = token.within(person)
    assert both == person
    assert Clearance(PUBLIC, "ada", frozenset({"farm", "zoo"})).within(person) == on("farm")
    assert not Clearance(ALL, projects=frozenset({"zoo"})).within(person).projects
    assert token.within(Clearance(PUBLIC)) == Clearance(PUBLIC, "ada")


def test_run_keeps_the_grants_of_its_clearance():
    clearance = on("barn", farm=ALL)
    assert results.clearance_of(MaintenanceRun(reach=results.clearance_to_json(clearance))) == clearance


@pytest.mark.parametrize(("project", "may"), [("farm", True), ("barn", False), ("zoo", False)])
def test_member_controls_runs_in_projects_they_fully_read(project, may):
    run = MaintenanceRun(project=project, reach=results.clearance_to_json(system_actor("tests").clearance))
    assert results.can_control(on("barn", farm=ALL), run) is may
