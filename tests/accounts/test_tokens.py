"""A token never exceeds its owner, when it is issued and on every request."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import LEVELS, system_actor
from memoryhub.accounts import people, tokens
from memoryhub.accounts.clearance import user_clearance
from memoryhub.accounts.permissions import grantable_rights
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, JournalEntry, Membership
from tests.accounts.conftest import seen
from tests.api.test_visibility import LIST_ENDPOINTS
from tests.cases import each
from tests.clients import signed_in_client

ASKED = {"allow_private": True, "allow_secret": True}


def agent(clearance: str = "secret", owner: str = "ada", **options: Any) -> Client:
    _, raw = tokens.issue_token("bot", owner, clearance, actor=system_actor("tests"), **options)
    return Client(headers={"Authorization": f"Bearer {raw}"})


def listed(client: Client) -> set[tuple[str, str]]:
    response = client.get("/api/v1/memories", {**ASKED, "limit": 50})
    assert response.status_code == 200
    return seen(response.content.decode())


@pytest.mark.slow
@each("endpoint", LIST_ENDPOINTS)
def test_no_api_endpoint_shows_a_project_outside_the_owners(world, member, endpoint):
    member("view_private", farm="secret", barn="")
    method, path, arguments = LIST_ENDPOINTS[endpoint]
    options = {"content_type": "application/json"} if method == "post" else {}
    response = getattr(agent(), method)(f"/api/v1{path}", {**arguments, **ASKED}, **options)
    assert response.status_code in (200, 404)
    assert "zoopublic" not in response.content.decode()
    assert ("barn", "secret") not in seen(response.content.decode())


def test_unrestricted_token_reads_its_owners_projects_at_their_levels(world, member):
    member("view_private", farm="secret", barn="")
    assert listed(agent()) == {("farm", x) for x in LEVELS} | {("barn", "public"), ("barn", "private")}


def test_token_never_reads_above_its_clearance(world, member):
    member(farm="secret")
    assert listed(agent("public")) == {("farm", "public")}


def test_token_loses_a_project_with_its_owner(world, member):
    ada = member(farm="secret", zoo="public")
    bot = agent(projects=["farm", "zoo"])
    assert {project for project, _ in listed(bot)} == {"farm", "zoo"}
    Membership.objects.filter(user=ada, project="farm").delete()
    assert {project for project, _ in listed(bot)} == {"zoo"}
    Membership.objects.all().delete()
    assert listed(bot) == set()


def test_later_membership_does_not_widen_a_token(world, member):
    ada = member(farm="secret")
    bot = agent(projects=["farm"])
    Membership.objects.create(user=ada, project="zoo", clearance="secret")
    assert {project for project, _ in listed(bot)} == {"farm"}


def test_token_of_an_owner_without_memberships_is_unchanged(world, member):
    member()
    assert len(listed(agent())) == 9
    assert len(listed(agent(owner="no-account"))) == 9


def test_token_lookup_is_one_query(world, member):
    member()
    bot = agent()
    bot.get("/api/v1/memories")
    with CaptureQueriesContext(connection) as queries:
        bot.get("/api/v1/memories")
    assert sum("agenttoken" in query["sql"] for query in queries) == 1
    assert not any("membership" in query["sql"] for query in queries)


def test_tokens_of_a_closed_account_are_refused(world, member):
    ada = member()
    bot = agent()
    assert bot.get("/api/v1/memories").status_code == 200
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert bot.get("/api/v1/memories").status_code == 401


@each(
    "clearance, projects, field",
    [
        ("public", None, "projects"),
        ("public", ["zoo"], "projects"),
        ("public", ["farm", "zoo"], "projects"),
        ("private", ["barn"], "clearance"),
        ("secret", ["farm", "barn"], "clearance"),
        ("secret", ["farm"], ""),
        ("public", ["farm", "barn"], ""),
    ],
)
def test_member_cannot_issue_a_wider_token(member, clearance, projects, field):
    ada = member(farm="secret", barn="")
    options = {"actor": system_actor("tests"), "within": user_clearance(ada), "projects": projects}
    if not field:
        assert tokens.issue_token("bot", "ada", clearance, **options)
        return
    with pytest.raises(StoreError) as refused:
        tokens.issue_token("bot", "ada", clearance, **options)
    assert refused.value.field == field
    assert not AgentToken.objects.exists()


def test_connect_page_refuses_a_wider_token(member):
    ada = member("add_agenttoken", farm="")
    client = signed_in_client(ada)
    form = {"name": "bot", "clearance": "public"}
    assert client.post("/connect/codex/snippet/", {**form, "project": "zoo"}).status_code == 422
    assert client.post("/connect/codex/snippet/", {**form, "project": ""}).status_code == 422
    assert not AgentToken.objects.exists()


def test_admin_refuses_a_wider_token_and_shows_members_their_own(member):
    names = ("add_agenttoken", "view_agenttoken", "change_agenttoken")
    ada = member(*names, farm="", staff=True)
    tokens.issue_token("somebody elses", "bob", actor=system_actor("tests"))
    client = signed_in_client(ada)
    form = {"name": "bot", "owner": "ada", "clearance": "public", "rights": ["read"], "projects": "zoo"}
    assert client.post("/admin/memoryhub/agenttoken/add/", form).status_code == 200
    assert client.post("/admin/memoryhub/agenttoken/add/", {**form, "projects": ""}).status_code == 200
    assert AgentToken.objects.count() == 1
    assert b"somebody elses" not in client.get("/admin/memoryhub/agenttoken/").content


def of_cleo(member: Any, clearance: str = "private", rights: tuple[str, ...] = ("read", "write")) -> str:
    """A token with the right to write and clearance for private memories, of someone without memberships."""
    cleo = member("view_private", "add_agenttoken", name="cleo")
    cleo.groups.add(Group.objects.get(name="curator"))
    return tokens.issue_token("agent", "cleo", clearance, rights, actor=system_actor("test"))[1]


def lower(**rights: Any) -> None:
    boss = User.objects.create_superuser("boss", password="a good password")
    wanted = {"role": "curator", "level": "private", "is_active": True, "is_staff": False, **rights}
    people.change_rights(User.objects.get(username="cleo"), boss, **wanted)


def test_token_loses_the_level_that_its_owner_loses(member):
    raw = of_cleo(member)
    lower(level="public")
    assert tokens.token_actor(tokens.authenticate_token(raw)).clearance.levels == {"public"}
    [row] = JournalEntry.objects.filter(object_type="token", operation="update")
    assert (row.actor, row.detail["fields"], row.detail["clearance"]) == (
        "user:boss",
        ["clearance"],
        "public",
    )


def test_token_loses_the_right_that_its_owner_loses(member):
    raw = of_cleo(member)
    lower(role="viewer")
    token = tokens.authenticate_token(raw)
    assert (token.rights, token.clearance) == (["read"], "private")


def test_token_without_any_right_left_is_revoked(member):
    raw = of_cleo(member, rights=("write",))
    lower(role="")
    assert tokens.authenticate_token(raw) is None


def test_token_within_its_owners_rights_is_unchanged(member):
    raw = of_cleo(member, clearance="public", rights=("read",))
    lower(role="", level="public")
    assert tokens.authenticate_token(raw).rights == ["read"]
    assert not JournalEntry.objects.filter(object_type="token", operation="update").exists()


def test_permission_removed_from_a_role_removes_the_right_from_tokens(member):
    raw = of_cleo(member)
    role = Group.objects.get(name="curator")
    keep = role.permissions.exclude(codename="add_memory").values_list("pk", flat=True)
    boss = User.objects.create_superuser("boss", password="a good password")
    page = {"name": "curator", "permissions": list(keep)}
    assert signed_in_client(boss).post(f"/admin/auth/group/{role.pk}/change/", page).status_code == 302
    assert tokens.authenticate_token(raw).rights == ["read"]


@pytest.mark.parametrize("lacking", ["delete_memory", "erase_memory"])
def test_maintain_is_not_granted_without_the_permissions_to_remove_memories(member, lacking):
    permissions = {"add_maintenancerun", "delete_memory", "erase_memory"}
    assert "maintain" in grantable_rights(member(*permissions, name="whole"))
    assert "maintain" not in grantable_rights(member(*permissions - {lacking}))


def test_removed_permission_to_delete_removes_the_right_to_maintain_from_tokens(member):
    raw = of_cleo(member, rights=("read", "maintain"))
    lower(role="maintainer")
    maintainer = Group.objects.get(name="maintainer")
    assert tokens.authenticate_token(raw).rights == ["read", "maintain"]
    maintainer.permissions.remove(maintainer.permissions.get(codename="delete_memory"))
    tokens.reduce_tokens_to_owner(User.objects.get(username="cleo"), system_actor("test"))
    assert tokens.authenticate_token(raw).rights == ["read"]


def test_deleted_account_revokes_its_tokens(world, member):
    ada = member(farm="")
    raw = tokens.issue_token("agent", "ada", "secret", actor=system_actor("test"))[1]
    assert tokens.authenticate_token(raw) is not None
    ada.delete()
    assert tokens.authenticate_token(raw) is None
    assert JournalEntry.objects.filter(object_type="token", operation="revoke").exists()


def test_account_cannot_be_renamed(member):
    bob = member(name="bob")
    boss = signed_in_client(User.objects.create_superuser("boss", password="a good password"))
    assert 'name="username"' not in boss.get(f"/admin/auth/user/{bob.pk}/change/").content.decode()


MANAGES = ("add_agenttoken", "view_agenttoken", "change_agenttoken")


def test_admin_grants_no_right_that_the_person_lacks(member):
    browser = signed_in_client(member(*MANAGES, staff=True))
    form = {"name": "w", "owner": "ada", "clearance": "public", "projects": ""}
    browser.post("/admin/memoryhub/agenttoken/add/", {**form, "rights": ["read", "maintain"]})
    assert not AgentToken.objects.exists()
    browser.post("/admin/memoryhub/agenttoken/add/", {**form, "rights": ["read"]})
    assert AgentToken.objects.get().rights == ["read"]


def test_connect_page_grants_no_right_that_the_person_lacks(member):
    form = {"name": "w", "clearance": "public", "toolset": "letsgo"}
    assert signed_in_client(member(*MANAGES)).post("/connect/codex/snippet/", form).status_code == 200
    assert AgentToken.objects.get().rights == ["read"]
