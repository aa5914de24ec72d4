"""Who works with the demo, and what they do there: people, tokens of agents, saved searches, a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub.lifecycle import runs
from memoryhub.models import AgentToken
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.team import names, people, saved_searches, tokens

# name: role, level, projects with the level there, days ago that they signed in
TEAM: Mapping[str, tuple[str, str, Mapping[str, str], float | None]] = {
    "mara": ("administrator", "private", {}, 0.2),
    "kenji": ("maintainer", "private", {}, 1.3),
    "priya": ("curator", "public", {"greenhouse": "private"}, 3.1),
    "tomasz": ("curator", "public", {"harbor-board": "", "greenhouse": ""}, 9),
    "noor": ("viewer", "public", {"harbor-board": ""}, None),
}
# name: level, rights, projects, days ago that it was used
AGENTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...] | None, float]] = {
    "claude-code": ("private", ("read", "write"), ("harbor-board", "lexikon"), 0.02),
    "fieldhand": ("public", ("read", "write"), ("greenhouse",), 2.1),
    "night-shift": ("secret", ("read", "write", "maintain"), None, 0.5),
}
# name: the list, and its filters
SEARCHES: Mapping[str, tuple[str, str]] = {
    "Decided for the harbour": ("memories", "project=harbor-board&type=decision"),
    "Soon gone, but important": ("memories", "expiring=1&order=-importance"),
    "Tides": ("search", "q=tide+tables"),
    "Who opened secrets": ("journal", "operation=reveal"),
}


def gather(admin: User) -> None:
    """Add all of it to the demo; ``admin`` is who invited the others. Nobody of them has a password."""
    for name, (role, level, projects, seen) in TEAM.items():
        _join(admin, name, role, level, projects)
        if seen is not None:
            User.objects.filter(username=name).update(last_login=timezone.now() - timedelta(days=seen))
    for agent, (level, rights, reach, used) in AGENTS.items():
        _issue(admin, agent, level, rights, reach, used)
    for name, (page, query) in SEARCHES.items():
        saved_searches.save(admin, name, page, query, replace=True)
    actor = Actor(f"user:{admin.get_username()}", Clearance.up_to("public", owner=admin.get_username()))
    runs.work(runs.start("consolidate", {}, actor, dry_run=True))


def _join(admin: User, name: str, role: str, level: str, projects: Mapping[str, str]) -> None:
    if User.objects.filter(username__iexact=name).exists() or names.is_former(name):
        return
    person = people.add(name, "", admin, email=f"{name}@harbour.example")
    people.change(person, admin, role=role, level=level, is_active=True, is_staff=role == "administrator")
    for project, within in projects.items():
        people.join(person, project, within, admin)


def _issue(
    admin: User, name: str, level: str, rights: tuple[str, ...], projects: tuple[str, ...] | None, used: float
) -> None:
    now, actor = timezone.now(), Actor(f"user:{admin.get_username()}")
    token, _ = tokens.issue_token(name, admin.get_username(), level, rights, projects, actor=actor)
    AgentToken.objects.filter(pk=token.pk).update(
        created_at=now - timedelta(days=40), last_used_at=now - timedelta(days=used)
    )
