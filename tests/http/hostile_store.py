"""A store in which every user-supplied text is hostile markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from allauth.mfa.totp.internal.auth import TOTP
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import models
from django.utils import timezone

from memoryhub import capture, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import tokens
from memoryhub.audit import journal
from memoryhub.capture import projects
from memoryhub.config import Config
from memoryhub.core.database import write_transaction
from memoryhub.facts import services
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_context
from memoryhub.maintenance import executor, runs
from memoryhub.memories.schemas import EntityDraft, FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import (
    AgentToken,
    CheckedMemory,
    CodeReference,
    Digest,
    Embedding,
    Event,
    Evidence,
    Extraction,
    Injection,
    Lease,
    MaintenanceRun,
    Membership,
    Memory,
    MemoryCheck,
    ModelUse,
    OAuthClient,
    OAuthCode,
    Profile,
    Project,
    ProjectIdentity,
    ProjectMove,
    Revision,
    SavedSearch,
    Session,
    UploadPart,
)
from memoryhub.transfer import jobs
from tests.accounts.passkey import create_passkey
from tests.http.payloads import EVERYTHING, PAYLOADS, payload

OWNER = "boss"
EVERYTHING_TITLE = "evil everything"
# Texts that the hub generates or takes from a fixed list: no user input.
CLOSED = {
    *("sensitivity", "scope", "type", "uid", "content_hash", "hash", "digest", "prefix", "kind", "access"),
    *("object_type", "mark", "clearance", "rights", "reach", "operation", "status", "cause", "page", "event"),
    *("theme", "time_zone", "language", "scale", "owner", "worker", "extractor", "trash_reason", "position"),
    *("state", "memorability_parts", "basename", "last_used_from", "result", "changes", "boot", "days"),
    *("auth_method", "secret_digest", "registered_from", "code_challenge", "mode", "digests"),
    *("lines", "gone", "dismissed", "level", "never_level", "rule"),
    *("channel", "period", "hub_url", "secret"),
    *("process", "node", "version", "key_digest"),
}
OURS = [
    model
    for model in apps.get_app_config("memoryhub").get_models()
    if model._meta.managed and model not in (Lease, UploadPart)  # written by the hub alone
]


def configuration() -> Config:
    """Payloads look like credentials, and come too fast to be summarised each time."""
    return settings.MEMORYHUB.model_copy(
        update={
            "block_secrets": False,
            "injection_deadline_ms": 60_000,
            "session_end_consolidation": "manual",
            "session_end_compression": "manual",
        }
    )


def fill() -> User:
    """Fill the empty store through its public functions; return the administrator."""
    boss = User.objects.create_superuser(OWNER, password="a good password")
    actor = Actor(f"user:{OWNER}", Clearance.up_to("secret", owner=OWNER))
    agents = [_token(number) for number in range(len(PAYLOADS))]
    for number in range(len(PAYLOADS)):
        _remember(number, agents[number])
        _state(number, agents[number])
        _configure(number, actor)
        if number % 4 == 0:
            _record_events(number, agents[number])
    _everything(actor)
    _end(actor)
    _runs(actor)
    _write_unvalidated_rows(boss, actor)
    _people()
    return boss


def _token(number: int) -> Actor:
    name = "".join(letter for letter in payload(number) if letter.isprintable())  # others are refused
    projects = [name] if number % 2 else None
    token, _ = tokens.issue_token(name, OWNER, "secret", projects=projects, actor=Actor(f"user:{OWNER}"))
    return Actor(f"token:{token.name}", Clearance.up_to("secret", owner=OWNER))


def _remember(number: int, actor: Actor) -> None:
    text = payload(number)
    draft = MemoryDraft(
        content=text,
        **dict.fromkeys(("title", "subtitle", "abstract", "overview", "category"), text),
        **dict.fromkeys(("project", "session_id", "key"), text),
        **{
            name: [text, f"{number}/{text}"[:100], *_next(number)] for name in ("tags", "concepts", "aliases")
        },
        files_read=[f"src/{text}", text, *_next(number)],
        files_modified=[text],
        entities=[EntityDraft(entity=text, entity_type=text[:50])],
        confidence=0.1,
    )
    memory = memories.create_memory(draft, actor).memory
    memories.update_memory(
        memory.uid, MemoryPatch(content=f"{text} now", title=f"now {text}", tags=[text]), actor
    )


def _next(number: int) -> list[str]:
    """Return so many payloads that every eighth of the memories covers them all."""
    return [payload(number + step) for step in range(1, 15)]


def _configure(number: int, actor: Actor) -> None:
    projects.configure_project(
        payload(number), actor, ignored_paths=payload(number), off_page_facts=[payload(number)]
    )


def _state(number: int, actor: Actor) -> None:
    text = payload(number)
    for value in [text, f"not {text}"][: 1 if number % 4 else 2]:  # which contradict each other
        draft = FactDraft(subject=text, predicate=text, object=value, project=text, session_id=text)
        services.create_fact(draft, actor)


def _record_events(number: int, actor: Actor) -> None:
    text = payload(number)
    data: dict[str, Any] = {
        "tool_name": text,
        "tool_input": {"file_path": f"/src/{text}", "command": text},
        "tool_response": f"{text} said the tool, which is long enough to be kept as what it is. " * 3,
        "prompt": text,
        "source": text,
        "reason": text,
    }
    for event in (capture.SESSION_START, capture.PROMPT_SUBMIT, capture.TOOL_POST, capture.SESSION_END):
        happening = capture.HookEvent(event=event, session_id=text, project=text, cwd=f"/{text}", data=data)
        capture.dispatch(happening, actor)


def _everything(actor: Actor) -> None:
    """Store one memory with all payloads, and two that are nearly the same."""
    memories.create_memory(
        MemoryDraft(content=EVERYTHING, project="evil", title=EVERYTHING_TITLE, confidence=0.1), actor
    )
    for word in ("first", "second"):
        said = f"{payload(0)} the {word} of two notes about the evil harbour wall that needs paint " * 2
        memories.create_memory(MemoryDraft(content=said, title=said[:90], project="evil"), actor)
    inject_context(InjectionRequest("what does evil say of the harbour wall?", project="evil"), actor)


def _end(actor: Actor) -> None:
    """Put some in the trash and expire some; the memory with all payloads waits for review."""
    others = Memory.objects.exclude(title=EVERYTHING_TITLE).order_by("pk")
    uids = list(others.values_list("uid", flat=True))
    for uid in uids[::7]:
        memories.trash_memories(uid, actor)
    Memory.objects.filter(uid__in=uids[1::7]).update(expires_at=timezone.now() - timedelta(days=1))
    Memory.objects.filter(uid__in=uids[2::7]).update(expires_at=timezone.now() + timedelta(days=1))


def _runs(actor: Actor) -> None:
    raw = json.dumps({"content": payload(0), "title": payload(0)}).encode()
    executor.execute(
        jobs.start_import(iter([raw]), "kept.jsonl", actor, format="", project="", dry_run=False)
    )
    executor.execute(runs.enqueue("consolidate", {"project": payload(0)}, actor))
    executor.execute(runs.enqueue("compress", {}, actor, dry_run=True))
    failed = runs.enqueue("evict", {"project": payload(4)}, actor)
    MaintenanceRun.objects.filter(pk=failed.pk).update(status="failed", cause="error", error=payload(0))
    for number in (0, 4, 46, 50):
        lines = [{"content": payload(number), "title": payload(number)}, {"content": "", payload(number): 1}]
        raw = "\n".join(map(json.dumps, lines)).encode()
        run = jobs.start_import(
            iter([raw]), f"{payload(number)}.jsonl", actor, format="", project=payload(number), dry_run=True
        )
        executor.execute(run)


def _write_unvalidated_rows(boss: User, actor: Actor) -> None:
    """Write values that validation refuses, and values that another server sends."""
    TOTP.activate(boss, "A" * 32)
    for number, text in enumerate(PAYLOADS):
        Extraction.objects.create(
            status="failed", project=text, error=text, actor=f"token:{text}", session_id=text, messages=[text]
        )
        Digest.objects.create(user=boss, project=text[:200], channel="webhook", url=text, error=text)
        SavedSearch.objects.create(user=boss, name=text, page="memories", query=f"q={text}")
        ModelUse.objects.create(day=timezone.now() - timedelta(days=number), model=text, calls=1)
        Injection.objects.create(session=Session.objects.first(), prompt_preview=text, project=text)
        _app(boss, text, number)
        create_passkey(boss, text)
        project, _ = Project.objects.get_or_create(name=text[:200])
        ProjectIdentity.objects.create(project=project, key=text[:400], owner=text[:150])
    memory = Memory.objects.live().order_by("pk")[0]
    Embedding.objects.create(memory=memory, model=payload(0), vector=b"")
    for text in PAYLOADS:
        CodeReference.objects.create(memory=memory, path=text, basename=text, as_of=timezone.now())
        rules = {"must_words": [text], "never_words": [text], "never_projects": [text]}
        check = MemoryCheck.objects.create(owner=text[:150], project=text[:200], prompt=text, **rules)
        CheckedMemory.objects.create(check_ref=check, uid=text[:32], rule="must")
    for text in PAYLOADS[::4]:
        Evidence.objects.create(memory=memory, session_id=text)
    with write_transaction():
        for text in PAYLOADS:
            change = journal.Change("update", "memory", text, {"why": text, text: [text]}, project=text)
            journal.record(Actor(f"token:{text}"), [change])
    for number, event in enumerate(Event.objects.order_by("pk")):
        text = payload(number)
        event.files, event.skip_reason = [text], text[:50]
        event.handlers = [{"name": text, "handler": text, "status": text, "detail": text, "took_ms": 1}]
        event.save()
    for number, shown in enumerate(Injection.objects.order_by("pk")):
        text = payload(number)
        shown.injected = [{"id": memory.uid, "score": 0.5, "scale": text, "title": text}]
        shown.withheld = [{"id": text, "reason": text, "detail": text}]
        shown.page = [{"kind": "memory", "id": text}]
        shown.save()
    kept = MaintenanceRun.objects.filter(params__name="kept.jsonl")  # whose author may undo it
    MaintenanceRun.objects.exclude(pk__in=kept).update(actor=f"token:{payload(0)}", worker=payload(4))
    Revision.objects.update(reason=payload(19)[:20])
    ProjectMove.objects.create(action=payload(19)[:20], table=payload(19)[:20], rows=[payload(0)])
    Memory.objects.filter(pk__in=[memory.pk]).update(flags=[payload(0)])


def _app(boss: User, text: str, number: int) -> None:
    """Write an approved OAuth client, a code for it, and a grant that boss's page lists."""
    now = timezone.now()
    uri = f"https://{text}.evil.example"
    client = OAuthClient.objects.create(
        name=text[:100], redirect_uris=[uri], approved_at=now, approved_by=text[:150]
    )
    grant = {"name": text, "projects": [text]}
    code = {"redirect_uri": uri[:500], "audience": uri[:500], "grant": grant, "expires_at": now}
    OAuthCode.objects.create(digest=str(number), client=client, user=boss, **code)
    AgentToken.objects.create(
        name=text[:100], owner=OWNER, digest=str(number), client=client, audience=uri[:500], secret_until=now
    )


def _people() -> None:
    for number in (0, 4, 46, 48):
        user = User.objects.create_user(
            payload(number).replace("/", "|"),
            email=f"{payload(number)}@evil.example",
            password="x",
            first_name=payload(number),
        )
        user.last_name = payload(number)
        user.save()
        Membership.objects.create(user=user, project=payload(number))
        if number != 4:  # whose page shows the address instead
            SocialAccount.objects.create(user=user, provider=payload(number), uid=payload(number))
        Profile.objects.filter(user=user).update(confined=True)
        Group.objects.create(name=payload(number))


def texts() -> Iterator[tuple[type[models.Model], str]]:
    """Yield each text field of our tables that can contain user input."""
    for model in OURS:
        for field in model._meta.concrete_fields:
            is_text = isinstance(field, models.CharField | models.TextField | models.JSONField)
            if is_text and field.name not in CLOSED:
                yield model, field.name
