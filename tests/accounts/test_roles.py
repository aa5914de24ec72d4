"""Built-in roles: groups created after a migration, each including the previous one."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client

from memoryhub.accounts.permissions import ROLE_NAMES, ROLES, role_permissions, user_role

pytestmark = pytest.mark.django_db


def held(name: str) -> set[str]:
    rows = Group.objects.get(name=name).permissions.select_related("content_type")
    return {f"{one.content_type.app_label}.{one.codename}" for one in rows}


@pytest.mark.parametrize("name", ROLE_NAMES)
def test_role_exists_with_its_permissions(name):
    assert held(name) == set(role_permissions(name))


def test_each_role_includes_the_previous_one():
    sets = [set(role_permissions(name)) for name in ROLE_NAMES]
    assert all(one < more for one, more in itertools.pairwise(sets))


def test_no_role_grants_a_level():
    levels = {"memoryhub.view_private", "memoryhub.view_secret"}
    assert not any(levels & set(role_permissions(name)) for name in ROLE_NAMES)


def test_changed_role_stays_and_deleted_role_is_created_again():
    Group.objects.get(name="viewer").permissions.clear()
    Group.objects.get(name="curator").delete()
    call_command("migrate", verbosity=0)
    assert held("viewer") == set()
    assert held("curator") == set(role_permissions("curator"))


def test_highest_role_counts():
    user = User.objects.create_user("ada")
    user.groups.set(Group.objects.filter(name__in=["viewer", "maintainer"]))
    assert user_role(user) == "maintainer"
    assert user_role(User.objects.create_user("bob")) == ""


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("viewer", set()),
        ("curator", {"new"}),
        ("maintainer", {"new", "run"}),
        ("administrator", {"new", "run"}),
    ],
)
def test_role_opens_its_pages(role, may):
    user = User.objects.create_user("ada")
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    doors = {
        "new": client.get("/memories/new/"),
        "run": client.post("/maintenance/start/", {"operation": "consolidate", "do": "dry_run"}),
    }
    assert {name for name, answer in doors.items() if answer.status_code != 403} == may


def test_documentation_lists_every_permission_of_every_role():
    text = (Path(__file__).parents[2] / "docs" / "team.md").read_text()
    for role in ROLES:
        [line] = re.findall(rf"^\| {role.name} \|.*$", text, re.MULTILINE)
        assert set(re.findall(r"`([a-z_]+)`", line)) == {one.partition(".")[2] for one in role.adds}


def test_every_permission_of_a_role_exists():
    assert Permission.objects.filter(codename="view_injection").exists()
