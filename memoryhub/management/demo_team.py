"""Who works with the demo, and what they left behind in the pages: people, tokens, imports, dry runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import people, tokens
from memoryhub.interchange import running
from memoryhub.lifecycle import runs
from memoryhub.models import AgentToken, MaintenanceRun
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
_NOTES = """# Notes for who works on harbor-board

## Conventions
- Money is a whole number of øre; a float never touches an invoice.
- Every query has a deadline of two seconds, set where the connection is taken.
- Names of quays are as the harbour office writes them, with their spaces.

## Commands
- `make tides` imports the year's tables; run it on the first Monday of December.
- `make seed` fills an empty database with the harbour of Skagen.

## Never
- Never send a mail from a test: the sandbox of the provider counts against the month.
"""


def gather(admin: User) -> None:
    """Add all of it to the demo; ``admin`` is who invited the others. Nobody of them has a password."""
    for name, (role, level, projects) in TEAM.items():
        _join(admin, name, role, level, projects)
    for agent, (level, rights, reach, used) in AGENTS.items():
        _issue(admin, agent, level, rights, reach, used)
    actor = Actor(f"user:{admin.get_username()}", Clearance.up_to("secret", owner=admin.get_username()))
    _work(running.start(iter([_NOTES.encode()]), "CLAUDE.md", actor, project="harbor-board"))
    for operation in ("consolidate", "compress", "summarize_old"):
        _work(runs.start(operation, {}, actor, dry_run=True))


def _join(admin: User, name: str, role: str, level: str, projects: Mapping[str, str]) -> None:
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


def _work(run: MaintenanceRun) -> None:
    runs.work(run)
