"""Hidden memories do not appear in injections, in any way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Clearance
from memoryhub.models import Injection
from tests.cases import each
from tests.injection.conftest import reasons, uids

ASKED = {"allow_private": True, "allow_secret": True}


@pytest.mark.conformance("guide-107")
@each(
    "clearance, asked, seen",
    [
        ("secret", {}, {"public"}),
        ("secret", {"allow_private": True}, {"public", "private"}),
        ("secret", {"allow_secret": True}, {"public", "secret"}),
        ("secret", ASKED, {"public", "private", "secret"}),
        ("private", ASKED, {"public", "private"}),
        ("public", ASKED, {"public"}),
        ("cosmic", ASKED, set()),
    ],
)
def test_level_is_injected_only_if_requested_and_allowed(four_levels, ask, actor, clearance, asked, seen):
    by = replace(actor, clearance=Clearance.up_to(clearance, owner="ada"))
    found = ask(by=by, project="zoo", **asked)
    assert uids(found) == {four_levels[level].uid for level in seen}
    shown = found.context + str(found.injected) + str(reasons(found))
    for level in four_levels.keys() - seen:
        assert four_levels[level].uid not in shown
        assert f"{level}words" not in shown


def test_project_without_visible_memories_reads_no_texts(remember, ask):
    remember("zebra stripes in src/zebra.py", project="zoo", files_modified=["src/zebra.py"])
    ask("zebra", project="farm")
    with CaptureQueriesContext(connection) as captured:
        assert not ask("How do zebra stripes in src/zebra.py look?", project="farm").injected
    texts = [query["sql"] for query in captured.captured_queries]
    assert not [text for text in texts if "memoryhub_trigram" in text or "memoryhub_filelink" in text]


def test_withheld_list_contains_no_hidden_memory(four_levels, ask, actor, configure):
    configure(injection_min_score=0.99)
    by = replace(actor, clearance=Clearance())
    assert set(reasons(ask(by=by, **ASKED))) == {four_levels["public"].uid}


def test_confined_actor_gets_only_its_projects(remember, ask, actor):
    inside, outside = remember("zebra stripes", project="zoo"), remember("zebra stripes", project="circus")
    team = remember("zebra stripes for the team", project="circus", scope="team")
    by = replace(actor, clearance=replace(actor.clearance, projects=frozenset({"zoo"})))
    assert uids(ask(by=by)) == {inside.uid}
    found = ask(by=by, project="circus")
    assert found.context == ""
    assert not found.withheld
    assert {outside.uid, team.uid} <= uids(ask(project="circus"))


def test_injection_is_logged_at_the_highest_shown_level(four_levels, ask):
    for asked, level in (({}, "public"), ({"allow_private": True}, "private"), (ASKED, "secret")):
        ask(project="zoo", session_id=f"s-{level}", **asked)
        row = Injection.objects.get(session__session_id=f"s-{level}")
        assert row.sensitivity == level


def test_hidden_injection_does_not_affect_the_caller(four_levels, ask, actor):
    """A session with that name was shown the memory at a higher clearance; for this caller it is new."""
    ask(project="zoo", session_id="shared", **ASKED)
    by = replace(actor, clearance=Clearance())
    assert uids(ask(by=by, project="zoo", session_id="shared")) == {four_levels["public"].uid}


def test_project_defaults_to_the_only_one_of_the_actor(remember, ask, actor):
    remember("zebra stripes", project="zoo")
    by = replace(actor, clearance=replace(actor.clearance, projects=frozenset({"zoo"})))
    ask(by=by, session_id="s1")
    row = Injection.objects.get()
    assert row.project == row.session.project == "zoo"
