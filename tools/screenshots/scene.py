"""Fill the store that the pictures show: the demo of ``manage.py quickstart``, with a team."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.utils.crypto import get_random_string

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import people
from memoryhub.maintenance import executor, runs
from memoryhub.models import (
    Digest,
    Extraction,
    Fact,
    Injection,
    JournalEntry,
    MaintenanceRun,
    Memory,
    ModelUse,
    Session,
)
from memoryhub.ops import demo, worker
from memoryhub.ops.replay import play_session
from memoryhub.transfer import jobs
from tools.screenshots import frozen_clock
from tools.screenshots.frozen_clock import NOW
from tools.screenshots.pages import ADMIN, NEWCOMER, READER

_IMPORTS = settings.BASE_DIR / "fixtures/demo/imports"
_CONSOLIDATED_PROJECT = "greenhouse"
# Days ago: calls, failures, prompt tokens, completion tokens
_MODEL_USE = {
    0: (42, 0, 61_300, 9_120),
    1: (118, 2, 171_900, 24_700),
    2: (96, 0, 139_400, 20_100),
    5: (203, 7, 301_000, 44_800),
}


def prepare() -> dict[str, str]:
    """Fill the store, and return the passwords of the users who sign in for the pictures."""
    settings.MEMORYHUB = settings.MEMORYHUB.model_copy(
        update={
            "llm": "openai",
            "llm_url": "http://127.0.0.1:11434/v1",
            "llm_model": "qwen3:8b",
            "llm_daily_calls": 250,
        }
    )
    call_command("migrate", verbosity=0)
    demo.mark()
    demo.load(NOW, [("9d 16:40", _import)])
    play_session(NOW)
    _log_model_use()
    _flag_memories()
    passwords = _create_people()
    _consolidate()
    return passwords


def _import(at: datetime) -> None:
    """Preview the import of one file, and import another one, which has an invalid line."""
    actor = Actor(f"user:{ADMIN}", Clearance.up_to("public", owner=ADMIN))
    with frozen_clock.freeze_clock(at):
        for name, dry_run in (("CLAUDE.md", True), ("memory.jsonl", False)):
            file = iter([(_IMPORTS / name).read_bytes()])
            executor.execute(jobs.start_import(file, name, actor, project="harbor-board", dry_run=dry_run))


def _flag_memories() -> None:
    """Let the governor check all memories, as the worker of a server does."""
    row: int | None = 0
    while row is not None:
        row = worker.flag_next_memories(row)


def _consolidate() -> None:
    """Execute a maintenance run that can be undone."""
    actor = Actor(f"user:{ADMIN}", Clearance.up_to("public", owner=ADMIN))
    with frozen_clock.freeze_clock(NOW - timedelta(hours=6)):
        executor.execute(runs.enqueue("consolidate", {"project": _CONSOLIDATED_PROJECT}, actor))


def _log_model_use() -> None:
    """Log calls of a language model on several days, and a conversation that it failed to process."""
    for ago, (calls, failures, sent, received) in _MODEL_USE.items():
        ModelUse.objects.create(
            day=NOW.date() - timedelta(days=ago),
            model="qwen3:8b",
            calls=calls,
            failures=failures,
            prompt_tokens=sent,
            completion_tokens=received,
        )
    Extraction.objects.create(
        status=Extraction.Status.DONE,
        project="harbor-board",
        session_id="hb-webhooks",
        actor="token:claude-code",
        extractor="rules",
        tries=3,
        error="the model timed out three times; rules processed it",
        created_at=NOW - timedelta(days=1, hours=3),
        finished_at=NOW - timedelta(days=1, hours=2),
    )


def _create_people() -> dict[str, str]:
    passwords = {name: get_random_string(16) for name in (ADMIN, READER, NEWCOMER)}
    admin = get_user_model().objects.create_superuser(ADMIN, password=passwords[ADMIN])
    demo.add_team(admin)
    hook = {"channel": "webhook", "url": "https://hooks.example.org/x"}
    Digest.objects.create(
        user=admin, period="daily", project="harbor-board", next_at=NOW, since=NOW - timedelta(days=7), **hook
    )
    newcomer = people.create_account(NEWCOMER, "", admin, email=f"{NEWCOMER}@harbour.example")
    people.change_rights(newcomer, admin, role="curator", level="public", is_active=True, is_staff=False)
    people.add_membership(newcomer, "tide-clock", "", admin)
    for name in (READER, NEWCOMER):
        people.set_password(get_user_model().objects.get(username=name), passwords[name], admin)
    return passwords


def find_arguments() -> dict[str, str]:
    """Return the values for ``Picture.arguments``."""
    live = Memory.objects.live(NOW)
    memory = live.filter(sensitivity="public", revisions__isnull=False, project="harbor-board").order_by(
        "-accessed_count"
    )[0]
    return {
        "memory": memory.uid,
        "project": memory.project,
        "memory key": str(memory.pk),
        "private": live.filter(sensitivity="private")[0].uid,
        "trashed": Memory.objects.trashed().filter(sensitivity="public").order_by("pk")[0].uid,
        "session": Session.objects.filter(ended_at__isnull=False).order_by("-last_at")[0].session_id,
        "agent": "claude-code",
        "client": "claude-code",
        "operation": "search_by_query",
        "digest": Digest.objects.get().uid,
        "fact": Fact.objects.filter(predicate="uses_database").latest("updated_at").uid,
        "injection": Injection.objects.filter(withheld__icontains="governor").latest("at").uid,
        "journal row": str(JournalEntry.objects.filter(operation="update").latest("seq").seq),
        "person": READER,
        "nowhere": "nowhere",
        "alike": live.filter(title__startswith="mmap of the index").get().uid,
        "undoable": MaintenanceRun.objects.get(operation="consolidate", project=_CONSOLIDATED_PROJECT).uid,
        "run": MaintenanceRun.objects.filter(status="done", operation="consolidate", dry_run=True)
        .latest("created_at")
        .uid,
        "failed": MaintenanceRun.objects.filter(status="failed").latest("created_at").uid,
        "import": MaintenanceRun.objects.filter(operation="import", dry_run=False).latest("created_at").uid,
    }
