"""Who works with the demo, and what they do there: people, tokens of agents, a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import people, tokens
from memoryhub.lifecycle import runs
from memoryhub.models import AgentToken
from memoryhub.sensitivity import Actor, Clearance

# name: role, level, projects with the level there
TEAM: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "mara": ("administrator", "private", {}),
    "kenji": ("maintainer", "private", {}),
    "priya": ("curator", "public", {"greenhouse": "private"}),
    "tomasz": ("curator", "public", {"harbor-board": "", "greenhouse": ""}),
    "noor": ("viewer", "public", {"harbor-board": ""}),
}
# name: level, rights, projects, days ago that it was used
AGENTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...] | None, float]] = {
    "claude-code": ("private", ("read", "write"), ("harbor-board", "lexikon"), 0.02),
    "fieldhand": ("public", ("read", "write"), ("greenhouse",), 2.1),
    "night-shift": ("secret", ("read", "write", "maintain"), None, 0.5),
}


def gather(admin: User) -> None:
    """Add all of it to the demo; ``admin`` is who invited the others. Nobody of them has a password."""
    for name, (role, level, projects) in TEAM.items():
        _join(admin, name, role, level, projects)
    for agent, (level, rights, reach, used) in AGENTS.items():
        _issue(admin, agent, level, rights, reach, used)
    actor = Actor(f"user:{admin.get_username()}", Clearance.up_to("public", owner=admin.get_username()))
    runs.work(runs.start("consolidate", {}, actor, dry_run=True))


def _join(admin: User, name: str, role: str, level: str, projects: Mapping[str, str]) -> None:
    if User.objects.filter(username__iexact=name).exists():
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
