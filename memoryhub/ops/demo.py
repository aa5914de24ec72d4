"""Fill a store with the demo: a team, three projects, ten weeks of agent sessions (``fixtures/demo``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from django.utils.crypto import get_random_string

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import identities, people, tokens
from memoryhub.core.vocabulary import TrashReason
from memoryhub.facts import services
from memoryhub.maintenance import executor, results, runs
from memoryhub.memories import SecretDetected
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import AgentToken, Event, Injection, JournalEntry, MaintenanceRun, Memory, Session
from memoryhub.ops import bootstrap
from memoryhub.web import saved_searches

OWNER = "admin"  # owns the personal memories that the demo's agents and administrator share
MARKER = bootstrap.DEMO_MARKER
_MARKER_TEXT = (
    "Made by manage.py quickstart. The memories in this folder are invented; it may be removed at any time.\n"
)
# Credentials for refused stores. Random letters complete them: fixtures must not contain credentials.
_CREDENTIALS = {"token": "ghp_{}", "key": "-----BEGIN PRIVATE KEY-----\n{}"}
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

Row = dict[str, Any]


class NotADemo(Exception):
    """The folder is not, or must not become, a demo. The message says why and what to do."""


def mark() -> None:
    """Mark the current home as a demo. Raise an error if it contains a real store."""
    home = Path(settings.HOME)
    if (home / MARKER).exists():
        return
    if Memory.objects.exists() or JournalEntry.objects.exists():
        raise NotADemo(
            f"{home} contains a real store; move it away, or serve it with: manage.py quickstart --no-demo"
        )
    (home / MARKER).write_text(_MARKER_TEXT, "utf-8")


def load(now: datetime | None = None, more: Iterable[tuple[str, Callable[[datetime], None]]] = ()) -> bool:
    """Fill the empty store of a marked home, all or nothing. Return False if it contains memories.

    ``more``: further actions, each with its time in the format of the fixtures.
    """
    home = Path(settings.HOME)
    if not (home / MARKER).exists():
        raise NotADemo(f"{home} is not marked as a demo's folder; load the demo with: manage.py quickstart")
    for path in (Path(connection.settings_dict["NAME"]), Path(settings.MEMORY_LOG)):
        if not path.resolve().is_relative_to(home.resolve()):
            raise NotADemo(f"{path} is outside of the demo's folder {home}; unset the variable that names it")
    with transaction.atomic():
        if Memory.objects.exists():
            return False
        _History(now or timezone.now()).apply(more)
    return True


@dataclass
class _History:
    """The actions of the fixtures, sorted by time and then applied."""

    now: datetime
    memories: dict[str, Memory] = field(default_factory=dict)
    began: dict[str, datetime] = field(default_factory=dict)
    actions: list[tuple[datetime, int, Callable[[datetime], None]]] = field(default_factory=list)

    def apply(self, more: Iterable[tuple[str, Callable[[datetime], None]]]) -> None:
        for when, action in more:
            self.plan(self.moment(when), 4, action)
        sessions = list(_read("sessions"))
        self.began = {row["session_id"]: self.moment(row["when"]) for row in sessions}
        for row in _read("memories"):
            self.plan_memory(row)
        for name, order, apply in (
            ("facts", 2, self.store_fact),
            ("refused", 2, self.refuse),
            ("runs", 3, self.run),
        ):
            for row in _read(name):
                self.plan(self.moment(row["when"]), order, partial(apply, row))
        for row in sessions:
            for event in row["events"]:
                if "boundary" in event:
                    self.plan(self.within(row, event), 2, partial(self.note_boundary, row, event))
        for at, _, action in sorted(self.actions, key=lambda one: one[:2]):
            action(at)
        for row in sessions:
            self.write_session(row)

    def plan(self, at: datetime, order: int, action: Callable[[datetime], None]) -> None:
        self.actions.append((at, order, action))

    def moment(self, when: str) -> datetime:
        """Parse ``12d 09:40`` (a UTC time twelve days ago), ``2.5h`` or ``40m`` (that long ago)."""
        ago, _, clock = when.partition(" ")
        at = self.now - timedelta(**{_UNITS[ago[-1]]: float(ago[:-1])})
        if clock:
            hour, minute = clock.split(":")
            at = at.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
        return at

    def within(self, session: Row, row: Row) -> datetime:
        return self.began[session["session_id"]] + timedelta(minutes=row["minute"])

    def plan_memory(self, row: Row) -> None:
        """Plan the creation of a memory, its accesses at even intervals, and its later changes."""
        if "minute" in row:
            at = self.began[row["session_id"]] + timedelta(minutes=row["minute"])
        else:
            at = self.moment(row["when"])
        self.plan(at, 0, partial(self.remember, row))
        hits = row.get("hits", 0)
        for n in range(hits):
            self.plan(at + (self.now - at) * (n + 1) / (hits + 1), 1, partial(self.touch, row["ref"]))
        for action in row.get("then", []):
            apply = {"update": self.update, "again": self.upsert, "trash": self.trash}[action["do"]]
            self.plan(self.moment(action["when"]), 1, partial(apply, row, action))

    def remember(self, row: Row, at: datetime) -> None:
        known = {name: value for name, value in row.items() if name in MemoryDraft.model_fields}
        self.memories[row["ref"]] = store.create_memory(MemoryDraft(**known), _actor(row["by"]), at).memory

    def touch(self, ref: str, at: datetime) -> None:
        store.count_accesses([self.memories[ref]], at)

    def update(self, row: Row, action: Row, at: datetime) -> None:
        store.update_memory(
            self.memories[row["ref"]].uid, MemoryPatch(**action["set"]), _actor(action["by"]), at
        )

    def upsert(self, row: Row, action: Row, at: datetime) -> None:
        """Store the same key again."""
        place = {name: row[name] for name in ("key", "project", "scope") if name in row}
        store.create_memory(MemoryDraft(**place, **action["set"]), _actor(action["by"]), at)

    def trash(self, row: Row, action: Row, at: datetime) -> None:
        uid, reason = self.memories[row["ref"]].uid, TrashReason(action["reason"])
        into = self.memories.get(action.get("into", ""))
        store.trash_memories([uid], _actor(action["by"]), reason, at, into=into)

    def store_fact(self, row: Row, at: datetime) -> None:
        known = {name: value for name, value in row.items() if name in FactDraft.model_fields}
        memory = {"memory_id": self.memories[row["memory"]].uid} if "memory" in row else {}
        services.create_fact(FactDraft(**known, **memory), _actor(row["by"]), at)

    def refuse(self, row: Row, at: datetime) -> None:
        """Try to store a credential, so that the journal shows a refusal. Skipped if none are refused."""
        if not settings.MEMORYHUB.block_secrets:
            return
        credential = _CREDENTIALS[row["credential"]].format(get_random_string(36))
        draft = MemoryDraft(content=f"{row['content']} {credential}", project=row["project"])
        with suppress(SecretDetected):
            store.create_memory(draft, _actor(row["by"]), at)

    def note_boundary(self, session: Row, event: Row, at: datetime) -> None:
        """Store a boundary, which is a fact about its session."""
        value = {
            "at": at.isoformat(),
            "tool": event["tool_name"],
            "segment": _segment(session, event),
            "before": event["boundary"].split(),
            "after": event.get("keywords", []),
        }
        draft = FactDraft(
            subject=f"session:{session['session_id']}",
            predicate="boundary_at",
            object=json.dumps(value, ensure_ascii=False),
            project=session["project"],
            session_id=session["session_id"],
        )
        services.create_fact(draft, _actor(session["agent"]), at)

    def run(self, row: Row, at: datetime) -> None:
        """Run a purge; for other operations, create only the record of a run."""
        result, done = row["result"], row["done"]
        if row["operation"] == "purge_expired":
            done = store.purge_expired(_actor(row["actor"]), row["params"]["grace_days"], at)
            result = {"counts": {"purge": done}, "changes": done}
        finished = at + timedelta(seconds=row["seconds"])
        MaintenanceRun.objects.create(
            **{name: row[name] for name in ("operation", "dry_run", "status", "actor")},
            params=row.get("params", {}),
            reach=results.clearance_to_json(_actor(row["actor"]).clearance),
            cause=row.get("cause", ""),
            error=row.get("error", ""),
            done=done,
            total=done,
            result=result,
            created_at=at,
            started_at=at,
            heartbeat_at=finished,
            finished_at=finished,
        )

    def write_session(self, row: Row) -> None:
        """Write rows that no service writes: a session with its end, events and injections."""
        began, last = self.began[row["session_id"]], self.within(row, {"minute": row["minutes"]})
        ended = bool(row["end_reason"])
        session, _ = Session.objects.update_or_create(
            session_id=row["session_id"],
            project=row["project"],
            defaults={
                "agent": row["agent"],
                "cwd": row["cwd"],
                "started_at": began,
                "last_at": min(last, self.now),
                "ended_at": last if ended else None,
                "end_reason": row["end_reason"],
                "segment": _segment(row),
                "summary": self.memories.get(row["summary"]),
            },
        )
        Event.objects.bulk_create([self.event(session, row, event) for event in row["events"]])
        Injection.objects.bulk_create([self.injection(session, row, one) for one in row["injections"]])

    def event(self, session: Session, row: Row, event: Row) -> Event:
        plain = {
            name: event[name]
            for name in ("event", "tool_name", "files", "keywords", "preview")
            if name in event
        }
        memory = self.memories.get(event.get("memory", ""))
        parts, total = _memorability(event)
        return Event(
            session=session,
            at=self.within(row, event),
            **plain,
            sensitivity=event.get("sensitivity") or (memory.sensitivity if memory else "public"),
            segment=_segment(row, event),
            boundary="boundary" in event,
            memorability=total,
            memorability_parts=parts,
            skip_reason=event.get("skip_reason", ""),
            handlers=_handlers(event),
            memory=memory,
        )

    def injection(self, session: Session, row: Row, one: Row) -> Injection:
        def with_ids(entries: list[Row]) -> list[Row]:
            """Replace the memory's name in the fixtures by its id."""
            return [{"id": self.memories[entry.pop("memory")].uid, **entry} for entry in entries]

        shown = [entry for entry in one["injected"] if "used" in entry]
        counts = {self.memories[entry["memory"]].pk: (1, int(entry["used"])) for entry in shown}
        store.count_outcomes(counts)
        return Injection(
            session=session,
            project=row["project"],
            at=self.within(row, one),
            prompt_preview=one["prompt"],
            token_budget=settings.MEMORYHUB.token_budget,
            tokens_used=one["tokens_used"],
            took_ms=one["took_ms"],
            injected=with_ids(one["injected"]),
            withheld=with_ids(one["withheld"]),
            helped=any(helped for _, helped in counts.values()) if counts else None,
        )


def _read(name: str) -> Iterator[Row]:
    with (settings.BASE_DIR / "fixtures/demo" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def _actor(name: str) -> Actor:
    """Return the actor of a name. A user owns her personal memories; agents work for the administrator."""
    kind, _, person = name.partition(":")
    return Actor(name, Clearance.up_to("secret", owner=person if kind == "user" else OWNER))


def _segment(session: Row, event: Row | None = None) -> int:
    """Return the segment of an event, or the last one of the session."""
    last = event["minute"] if event else session["minutes"]
    return sum("boundary" in one and one["minute"] <= last for one in session["events"])


def _memorability(event: Row) -> tuple[Row, float | None]:
    """Return the memorability parts of the fixture and their weighted sum."""
    if "parts" not in event:
        return {}, None
    config = settings.MEMORYHUB
    weights = {
        "substance": config.substance_weight,
        "salience": config.salience_weight,
        "distinctiveness": config.distinctiveness_weight,
        "type_weight": config.type_weight,
    }
    total = round(sum(weight * event["parts"][name] for name, weight in weights.items()), 3)
    return {**event["parts"], "total": total}, total


def _handlers(event: Row) -> list[Row]:
    """Return the handler results of a tool call, in order of priority."""
    if event["event"] != "tool:post":
        return [{"name": "inject", "priority": 50, "status": "ok", "detail": ""}]
    shift = "a new segment begins" if "boundary" in event else "same segment"
    kept = "stored" if "memory" in event else event.get("skip_reason", "nothing to keep")
    return [
        {"name": "boundaries", "priority": 100, "status": "ok", "detail": shift},
        {
            "name": "capture",
            "priority": 150,
            "status": "ok" if "memory" in event else "skipped",
            "detail": kept,
        },
    ]


# name: role, level, level by project, days since the last sign-in
TEAM: Mapping[str, tuple[str, str, Mapping[str, str], float | None]] = {
    "mara": ("administrator", "private", {}, 0.2),
    "kenji": ("maintainer", "private", {}, 1.3),
    "priya": ("curator", "public", {"greenhouse": "private"}, 3.1),
    "tomasz": ("curator", "public", {"harbor-board": "", "greenhouse": ""}, 9),
    "noor": ("viewer", "public", {"harbor-board": ""}, None),
}
# name: level, rights, projects, days since the last use
AGENTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...] | None, float]] = {
    "claude-code": ("private", ("read", "write"), ("harbor-board", "lexikon"), 0.02),
    "fieldhand": ("public", ("read", "write"), ("greenhouse",), 2.1),
    "night-shift": ("secret", ("read", "write", "maintain"), None, 0.5),
}
# name: list, filters
SEARCHES: Mapping[str, tuple[str, str]] = {
    "Decisions in harbor-board": ("memories", "project=harbor-board&type=decision"),
    "Important and expiring soon": ("memories", "expiring=1&order=-importance"),
    "Tides": ("memories", "q=tide+tables"),
    "Views of secret memories": ("journal", "operation=reveal"),
}


def add_team(admin: User) -> None:
    """Add people, tokens and saved searches. ``admin`` invites the others, who have no password."""
    for name, (role, level, memberships, seen) in TEAM.items():
        _create_person(admin, name, role, level, memberships)
        if seen is not None:
            User.objects.filter(username=name).update(last_login=timezone.now() - timedelta(days=seen))
    for agent, (level, rights, projects, used) in AGENTS.items():
        _issue_token(admin, agent, level, rights, projects, used)
    for name, (page, query) in SEARCHES.items():
        saved_searches.save_search(admin, name, page, query, replace=True)
    actor = Actor(f"user:{admin.get_username()}", Clearance.up_to("public", owner=admin.get_username()))
    executor.execute(runs.enqueue("consolidate", {}, actor, dry_run=True))


def _create_person(admin: User, name: str, role: str, level: str, memberships: Mapping[str, str]) -> None:
    if User.objects.filter(username__iexact=name).exists() or identities.is_former_username(name):
        return
    person = people.create_account(name, "", admin, email=f"{name}@harbour.example")
    people.change_rights(
        person, admin, role=role, level=level, is_active=True, is_staff=role == "administrator"
    )
    for project, project_level in memberships.items():
        people.add_membership(person, project, project_level, admin)


def _issue_token(
    admin: User, name: str, level: str, rights: tuple[str, ...], projects: tuple[str, ...] | None, used: float
) -> None:
    now, actor = timezone.now(), Actor(f"user:{admin.get_username()}")
    token, _ = tokens.issue_token(name, admin.get_username(), level, rights, projects, actor=actor)
    AgentToken.objects.filter(pk=token.pk).update(
        created_at=now - timedelta(days=40), last_used_at=now - timedelta(days=used)
    )
