"""A hub in which something stands on every page: the demo's ten weeks, and what it has nothing of."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import connection
from django.utils import timezone

from memoryhub import demo, store
from memoryhub.drafts import MemoryDraft
from memoryhub.interchange import running
from memoryhub.lifecycle import runs
from memoryhub.models import Extraction, MaintenanceRun, Membership, Memory, ModelUse, SavedSearch
from memoryhub.sensitivity import Actor, Clearance, system
from memoryhub.team import tokens

OWNER = demo.OWNER
LONG = "a_name_without_any_blank_" * 7


def fill() -> User:
    """Fill the empty store; returns the administrator, whose switches are still off."""
    _live_the_demo()
    boss = User.objects.create_superuser(OWNER, password="a good password")
    actor = Actor(f"user:{OWNER}", Clearance.up_to("secret", owner=OWNER))
    _people()
    _runs(actor)
    _imports(actor)
    _texts(boss, actor)
    return boss


def _live_the_demo() -> None:
    marker = settings.HOME / demo.MARKER
    demo.mark()
    try:
        demo.load()
    finally:
        marker.unlink()
    assert Path(connection.settings_dict["NAME"]).is_relative_to(settings.HOME)


def _people() -> None:
    """A member of two projects, with tokens used, expired and revoked."""
    kenji = User.objects.create_user("kenji", password="a good password")
    kenji.groups.add(Group.objects.get(name="curator"))
    Membership.objects.create(user=kenji, project="harbor-board", clearance="private")
    Membership.objects.create(user=kenji, project="greenhouse")
    for owner in (OWNER, "kenji"):
        for number, name in enumerate(("claude-code", "night-watch", LONG[:90])):
            token, raw = tokens.issue_token(
                name, owner, projects=["greenhouse"] if number else None, actor=system("tests")
            )
            if number == 0:
                tokens.authenticate(raw, "127.0.0.1")
            if number == 1:
                tokens.revoke(token.uid, system("tests"))


def _runs(actor: Actor) -> None:
    """A run in each state, beside those of the demo."""
    for operation, dry_run in (("consolidate", False), ("consolidate", True), ("compress", True)):
        runs.work(runs.start(operation, {}, actor, dry_run=dry_run))
    failed = runs.start("evict", {"project": "greenhouse"}, actor)
    MaintenanceRun.objects.filter(pk=failed.pk).update(
        status=MaintenanceRun.Status.FAILED, cause="error", error="out of paint", done=1, total=3
    )
    runs.start("evict", {}, actor)


def _imports(actor: Actor) -> None:
    lines = [{"content": f"Imported note {number}", "project": "shop"} for number in range(3)]
    raw = "\n".join(map(json.dumps, [*lines, {"content": "", "odd": 1}])).encode()
    for dry_run in (True, False):
        runs.work(running.start(iter([raw]), "notes.jsonl", actor, format="", project="", dry_run=dry_run))


def _texts(boss: User, actor: Actor) -> None:
    """What a page must bear: names without a blank, a refused credential, a text no model could read."""
    draft = MemoryDraft(content=f"# {LONG}\n\n`{LONG}`", title=LONG, project=LONG[:100], tags=[LONG[:60]])
    store.remember(draft, actor)
    expired = store.remember(MemoryDraft(content="Old milk stands on the sill"), actor).memory
    store.expire([expired.uid], actor)
    Memory.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(days=1))
    with pytest.raises(store.SecretDetected):
        store.remember(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
    Extraction.objects.create(status="failed", project="greenhouse", error="no answer", actor="token:bot")
    ModelUse.objects.create(day=timezone.now().date(), model="a-model", calls=3, failures=1, prompt_tokens=9)
    SavedSearch.objects.create(user=boss, name="Tides", page="search", query="q=tide")
