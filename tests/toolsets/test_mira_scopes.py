"""Mira's scopes: personal is the owner's alone, project is that project's, team is every project's."""

import pytest

from memoryhub.models import Memory
from tests.toolsets.conftest import id_in, result, run


def remember(caller, **arguments):
    return id_in(result(run(caller, "mira", "memory", action="remember", **arguments)))


def found(caller, **arguments):
    rows = result(run(caller, "mira", "memory", action="recall", query="login page", **arguments))
    return {row["id"] for row in rows}


@pytest.fixture
def ada(agent):
    return agent(name="ada-bot", owner="ada")


@pytest.fixture
def bob(agent):
    return agent(name="bob-bot", owner="bob")


def test_what_is_personal_is_its_owner_s_alone(ada, bob):
    uid = remember(ada, content="the login page is ugly", scope="personal")
    assert found(ada) == found(ada, scope="personal") == {uid}
    assert found(bob) == found(bob, scope="personal") == set()
    assert Memory.objects.get().owner == "ada"


def test_another_agent_of_the_owner_sees_what_is_personal(ada, agent):
    uid = remember(ada, content="the login page is ugly", scope="personal", project="p")
    assert found(agent(name="other", owner="ada"), project="q") == {uid}


def test_nobody_forgets_what_is_personal_to_another(ada, bob):
    uid = remember(ada, content="the login page is ugly", scope="personal")
    said = result(run(bob, "mira", "memory", action="forget", id=uid))
    assert said == f"Memory {uid} not found."
    assert Memory.objects.get().deleted_at is None


def test_the_same_key_is_another_memory_for_each_owner(ada, bob):
    first = remember(ada, content="the login page is ugly", scope="personal", key="login")
    second = remember(bob, content="the login page is nice", scope="personal", key="login")
    assert first != second
    assert found(ada) == {first}
    assert found(bob) == {second}


def test_what_is_of_a_project_stays_in_it(ada, bob):
    uid = remember(ada, content="the login page is plain", project="p")
    assert found(bob, project="p") == {uid}
    assert found(bob, project="q") == set()


def test_what_is_the_team_s_is_seen_in_every_project(ada, bob):
    uid = remember(ada, content="the login page is plain", scope="team", project="p")
    assert found(bob, project="q") == found(bob, scope="team", project="q") == {uid}
    assert found(bob, scope="project") == set()


def test_what_is_of_no_project_is_seen_in_each(ada, bob):
    uid = remember(ada, content="the login page is plain")
    assert found(bob, project="q") == {uid}


def test_a_confined_token_stays_in_its_projects(ada, agent):
    confined = agent(name="confined", owner="ada", projects=["q"])
    remember(ada, content="the login page is plain", project="p")
    remember(ada, content="the login page is shared", scope="team", project="p")
    remember(ada, content="the login page is mine", scope="personal", project="p")
    own = remember(confined, content="the login page is blue")
    assert found(confined) == found(confined, project="q") == {own}
    assert found(confined, project="p") == set()
    assert Memory.objects.get(uid=own).project == "q"
    refused = run(confined, "mira", "memory", action="remember", content="x", project="p")
    assert refused.status_code == 403
