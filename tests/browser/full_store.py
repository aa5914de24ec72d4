"""A store with content for every page: the demo's ten weeks, and what the demo lacks."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import connection
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.accounts import tokens
from memoryhub.facts import services
from memoryhub.maintenance import executor, runs
from memoryhub.memories.schemas import EntityDraft, FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import (
    Digest,
    Event,
    Extraction,
    MaintenanceRun,
    Membership,
    Memory,
    MemoryCheck,
    ModelUse,
    OAuthClient,
    Project,
    SavedSearch,
    Session,
)
from memoryhub.ops import demo
from memoryhub.ops.replay import play_session
from memoryhub.transfer import jobs
from tests.accounts.passkey import create_passkey

OWNER = demo.OWNER
SHARED_SESSION_ID = "twice"  # a session of two projects
FULL_TITLE = "A memory with everything"
MARKDOWN = """# Heading

A [link](https://a.example) and `code`, **bold**.

```python
a_long_line = "that has to be scrolled because it does not fit into the narrow column of a small screen"
```

| a | b |
|---|--:|
| 1 | 2 |

> quoted
"""
LONG_NAME = "a_name_without_any_blank_" * 7


def fill_store() -> User:
    """Fill the empty store; returns the administrator, whose switches are still off."""
    run_demo()
    boss = User.objects.create_superuser(OWNER, password="a good password")
    create_passkey(boss)
    actor = Actor(f"user:{OWNER}", Clearance.up_to("secret", owner=OWNER))
    create_people()
    _create_runs(actor)
    _create_imports(actor)
    _create_texts(boss, actor)
    _create_full_memory(actor)
    greenhouse = Project.objects.get_or_create(name="greenhouse")[0]
    greenhouse.identities.create(key=f"remote:{LONG_NAME}")
    return boss


def run_demo() -> None:
    """Load the demo into the empty store."""
    marker = settings.HOME / demo.MARKER
    demo.mark()
    try:
        demo.load()
        play_session()
    finally:
        marker.unlink()
    assert Path(connection.settings_dict["NAME"]).is_relative_to(settings.HOME)


def create_people() -> User:
    """A member of two projects, with tokens used, expired and revoked."""
    kenji = User.objects.create_user("kenji", password="a good password")
    kenji.groups.add(Group.objects.get(name="curator"))
    Membership.objects.create(user=kenji, project="harbor-board", clearance="private")
    Membership.objects.create(user=kenji, project="greenhouse")
    for owner in (OWNER, "kenji"):
        for number, name in enumerate(("claude-code", "night-watch", LONG_NAME[:90])):
            token, raw = tokens.issue_token(
                name, owner, projects=["greenhouse"] if number else None, actor=system_actor("tests")
            )
            if number == 0:
                tokens.authenticate_token(raw, "127.0.0.1")
            if number == 1:
                tokens.revoke_token(token.uid, system_actor("tests"))
    return kenji


def _create_runs(actor: Actor) -> None:
    """Add a run in each state to those of the demo."""
    for operation, dry_run in (("consolidate", False), ("consolidate", True), ("compress", True)):
        executor.execute(runs.enqueue(operation, {}, actor, dry_run=dry_run))
    failed = runs.enqueue("evict", {"project": "greenhouse"}, actor)
    MaintenanceRun.objects.filter(pk=failed.pk).update(
        status=MaintenanceRun.Status.FAILED, cause="error", error="out of paint", done=1, total=3
    )
    runs.enqueue("evict", {}, actor)


def _create_imports(actor: Actor) -> None:
    lines = [{"content": f"Imported note {number}", "project": "shop"} for number in range(3)]
    lines[0] = lines[0] | {LONG_NAME[:90]: "a value without a field"}
    raw = "\n".join(map(json.dumps, [*lines, {"content": "", "odd": 1}])).encode()
    for dry_run in (True, False):
        executor.execute(
            jobs.start_import(iter([raw]), "notes.jsonl", actor, format="", project="", dry_run=dry_run)
        )


def _create_texts(boss: User, actor: Actor) -> None:
    """What a page must bear: names without a blank, a refused credential, a text no model could read."""
    draft = MemoryDraft(
        content=f"# {LONG_NAME}\n\n`{LONG_NAME}`",
        title=LONG_NAME,
        project=LONG_NAME[:100],
        tags=[LONG_NAME[:60]],
        aliases=[LONG_NAME[:60]],
    )
    memories.create_memory(draft, actor)
    for end in ("", " at two"):
        memories.create_memory(
            MemoryDraft(content=f"The build cache is emptied every night{end}", project="shop"), actor
        )
    expired = memories.create_memory(MemoryDraft(content="Old milk stands on the sill"), actor).memory
    memories.apply_bulk_action("expire", [expired.uid], actor)
    Memory.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(days=1))
    with pytest.raises(memories.SecretDetected):
        memories.create_memory(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
    Extraction.objects.create(status="failed", project="greenhouse", error="no answer", actor="token:bot")
    ModelUse.objects.create(day=timezone.now().date(), model="a-model", calls=3, failures=1, prompt_tokens=9)
    words = {"must_words": [LONG_NAME[:90]], "never_projects": ["greenhouse"]}
    MemoryCheck.objects.create(
        owner=OWNER, project="harbor-board", prompt=f"What about {LONG_NAME}?", passed=False, **words
    )
    SavedSearch.objects.create(user=boss, name="Tides", page="memories", query="q=tide")
    Digest.objects.create(user=boss, channel="email", period="weekly", project=LONG_NAME[:200])
    hook = {"channel": "webhook", "url": f"https://{'hooks' * 10}.example.org/x"}
    Digest.objects.create(user=boss, period="daily", error="the webhook returned status 500", **hook)
    _connect_app()


def _connect_app() -> None:
    """An approved OAuth client, and what the owner granted to it."""
    now = timezone.now()
    uris = ["https://app.example.com/callback"]
    client = OAuthClient.objects.create(
        name="A hosted agent", redirect_uris=uris, auth_method="none", approved_at=now, approved_by=OWNER
    )
    grant = tokens.OAuthGrant(client, "https://hub.example.org/mcp/letsgo", now)
    tokens.issue_token("hosted", OWNER, actor=system_actor("tests"), oauth=grant)


def _create_full_memory(actor: Actor) -> None:
    """A memory with all that one can have, and a session of two projects that has ended."""
    place = {
        "session_id": SHARED_SESSION_ID,
        "project": "shop",
        "files_modified": ["a.py", "b/c.py"],
        "files_read": ["d"],
    }
    words = {"subtitle": "and a subtitle", "overview": "an overview", "tags": ["one", "two"], "key": "k"}
    entities = [EntityDraft(entity="Ann", entity_type="person")]
    draft = MemoryDraft(
        content=MARKDOWN,
        title=FULL_TITLE,
        concepts=["gotcha"],
        aliases=["k8s"],
        entities=entities,
        **place,
        **words,
    )
    full = memories.create_memory(draft, actor).memory
    memories.update_memory(
        full.uid, MemoryPatch(content=MARKDOWN.replace("quoted", "said"), tags=["one"], trust=0.9), actor
    )
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=full.uid), actor)
    memories.create_memory(
        MemoryDraft(content="elsewhere", session_id=SHARED_SESSION_ID, project="bakery"), actor
    )
    for lesson in ("First lesson", "Second lesson", "Third lesson"):  # their links are under each other
        memories.create_memory(
            MemoryDraft(content=lesson, session_id=SHARED_SESSION_ID, project="shop"), actor
        )
    part = memories.create_memory(MemoryDraft(content="a part of it"), actor).memory
    memories.trash_memories([part.uid], actor)
    Memory.objects.filter(pk=part.pk).update(merged_into=full)
    session = Session.objects.filter(session_id=SHARED_SESSION_ID, project="shop")
    session.update(summary=full, ended_at=timezone.now(), cwd="/home", agent="agent")
    for number in range(3):
        Event.objects.create(
            session=session.get(),
            event="tool:post",
            tool_name="Edit",
            boundary=number == 1,
            files=["a.py"],
            keywords=["key"],
            skip_reason="below threshold",
            memorability=0.2,
            preview="output",
        )
