"""The demo: an invented team, three projects, ten weeks of agent sessions (``fixtures/demo``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
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
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.accounts import people, saved_searches, tokens, usernames
from memoryhub.core.vocabulary import TrashReason
from memoryhub.facts import services
from memoryhub.maintenance import run_scope, runs
from memoryhub.memories import SecretDetected
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import AgentToken, Event, Injection, JournalEntry, MaintenanceRun, Memory, Session
from memoryhub.ops.replay import Player, inside, read_transcript

OWNER = "admin"  # whose personal memories the demo's agents and administrator share
MARKER = "this-is-a-demo"
_MARKER_TEXT = (
    "Made by manage.py quickstart. The memories in this folder are invented; it may be removed at any time.\n"
)
# What is refused for a credential; each ends in letters that nobody knows, for none may lie in the fixtures.
_CREDENTIALS = {"token": "ghp_{}", "key": "-----BEGIN PRIVATE KEY-----\n{}"}
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

Row = dict[str, Any]


class NotADemo(Exception):
    """This folder is not, or must not become, a demo's; the message says why and what to do."""


def mark() -> None:
    """Mark the folder in use as a demo's. Refused where a store has been at work."""
    home = Path(settings.HOME)
    if (home / MARKER).exists():
        return
    if Memory.objects.exists() or JournalEntry.objects.exists():
        raise NotADemo(
            f"{home} holds a real store; move it away, or serve it with: manage.py quickstart --no-demo"
        )
    (home / MARKER).write_text(_MARKER_TEXT, "utf-8")


def load(now: datetime | None = None, more: Iterable[tuple[str, Callable[[datetime], None]]] = ()) -> bool:
    """Fill the marked folder's empty store, all or nothing; False when it has memories already.

    ``more``: what else is to happen meanwhile, each with its moment as the fixtures tell it.
    """
    home = Path(settings.HOME)
    if not (home / MARKER).exists():
        raise NotADemo(
            f"{home} is not marked as a demo's folder; the demo is loaded by: manage.py quickstart"
        )
    for place in (Path(connection.settings_dict["NAME"]), Path(settings.MEMORY_LOG)):
        if not place.resolve().is_relative_to(home.resolve()):
            raise NotADemo(f"{place} lies outside of the demo's folder {home}; unset what names it")
    with transaction.atomic():
        if Memory.objects.exists():
            return False
        _History(now or timezone.now()).live(more)
    return True


@dataclass
class _History:
    """What the fixtures tell, put in order of time and then done."""

    now: datetime
    memories: dict[str, Memory] = field(default_factory=dict)
    began: dict[str, datetime] = field(default_factory=dict)
    deeds: list[tuple[datetime, int, Callable[[datetime], None]]] = field(default_factory=list)

    def live(self, more: Iterable[tuple[str, Callable[[datetime], None]]]) -> None:
        for when, deed in more:
            self.plan(self.moment(when), 4, deed)
        sessions = list(_read("sessions"))
        self.began = {row["session_id"]: self.moment(row["when"]) for row in sessions}
        for row in _read("memories"):
            self.plan_memory(row)
        for name, order, doing in (
            ("facts", 2, self.store_fact),
            ("refused", 2, self.refuse),
            ("runs", 3, self.run),
        ):
            for row in _read(name):
                self.plan(self.moment(row["when"]), order, partial(doing, row))
        for row in sessions:
            for event in row["events"]:
                if "boundary" in event:
                    self.plan(self.within(row, event), 2, partial(self.note_boundary, row, event))
        for at, _, deed in sorted(self.deeds, key=lambda one: one[:2]):
            deed(at)
        for row in sessions:
            self.write_session(row)

    def plan(self, at: datetime, order: int, deed: Callable[[datetime], None]) -> None:
        self.deeds.append((at, order, deed))

    def moment(self, when: str) -> datetime:
        """``12d 09:40`` is a time of day twelve days ago (UTC), ``2.5h`` and ``40m`` are that long ago."""
        ago, _, clock = when.partition(" ")
        at = self.now - timedelta(**{_UNITS[ago[-1]]: float(ago[:-1])})
        if clock:
            hour, minute = clock.split(":")
            at = at.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
        return at

    def within(self, session: Row, row: Row) -> datetime:
        return self.began[session["session_id"]] + timedelta(minutes=row["minute"])

    def plan_memory(self, row: Row) -> None:
        """Its storing, its accesses at even distances since, and what was done with it later."""
        if "minute" in row:
            at = self.began[row["session_id"]] + timedelta(minutes=row["minute"])
        else:
            at = self.moment(row["when"])
        self.plan(at, 0, partial(self.remember, row))
        hits = row.get("hits", 0)
        for n in range(hits):
            self.plan(at + (self.now - at) * (n + 1) / (hits + 1), 1, partial(self.touch, row["ref"]))
        for deed in row.get("then", []):
            doing = {"update": self.update, "again": self.upsert, "trash": self.trash}[deed["do"]]
            self.plan(self.moment(deed["when"]), 1, partial(doing, row, deed))

    def remember(self, row: Row, at: datetime) -> None:
        known = {name: value for name, value in row.items() if name in MemoryDraft.model_fields}
        self.memories[row["ref"]] = store.create_memory(MemoryDraft(**known), _actor(row["by"]), at).memory

    def touch(self, ref: str, at: datetime) -> None:
        store.count_access(self.memories[ref], at)

    def update(self, row: Row, deed: Row, at: datetime) -> None:
        store.update_memory(self.memories[row["ref"]].uid, MemoryPatch(**deed["set"]), _actor(deed["by"]), at)

    def upsert(self, row: Row, deed: Row, at: datetime) -> None:
        """The same key again."""
        place = {name: row[name] for name in ("key", "project", "scope") if name in row}
        store.create_memory(MemoryDraft(**place, **deed["set"]), _actor(deed["by"]), at)

    def trash(self, row: Row, deed: Row, at: datetime) -> None:
        uids, actor, reason = [self.memories[row["ref"]].uid], _actor(deed["by"]), TrashReason(deed["reason"])
        if "into" in deed:
            store.trash_merged(self.memories[deed["into"]], uids, actor, reason, at)
        else:
            store.trash_memories(uids, actor, reason, at)

    def store_fact(self, row: Row, at: datetime) -> None:
        known = {name: value for name, value in row.items() if name in FactDraft.model_fields}
        memory = {"memory_id": self.memories[row["memory"]].uid} if "memory" in row else {}
        services.create_fact(FactDraft(**known, **memory), _actor(row["by"]), at)

    def refuse(self, row: Row, at: datetime) -> None:
        """A credential that an agent tried to store: the journal keeps it. None where none are refused."""
        if not settings.MEMORYHUB.block_secrets:
            return
        credential = _CREDENTIALS[row["credential"]].format(get_random_string(36))
        draft = MemoryDraft(content=f"{row['content']} {credential}", project=row["project"])
        with suppress(SecretDetected):
            store.create_memory(draft, _actor(row["by"]), at)

    def note_boundary(self, session: Row, event: Row, at: datetime) -> None:
        """A boundary is a fact about its session."""
        told = {
            "at": at.isoformat(),
            "tool": event["tool_name"],
            "segment": _segment(session, event),
            "before": event["boundary"].split(),
            "after": event.get("keywords", []),
        }
        draft = FactDraft(
            subject=f"session:{session['session_id']}",
            predicate="boundary_at",
            object=json.dumps(told, ensure_ascii=False),
            project=session["project"],
            session_id=session["session_id"],
        )
        services.create_fact(draft, _actor(session["agent"]), at)

    def run(self, row: Row, at: datetime) -> None:
        """A purge is done; of the other runs their record is kept."""
        result, done = row["result"], row["done"]
        if row["operation"] == "purge_expired":
            done = store.purge_expired(_actor(row["actor"]), row["params"]["grace_days"], at)
            result = {"counts": {"purge": done}, "changes": done}
        finished = at + timedelta(seconds=row["seconds"])
        MaintenanceRun.objects.create(
            **{name: row[name] for name in ("operation", "dry_run", "status", "actor")},
            params=row.get("params", {}),
            reach=run_scope.clearance_to_json(_actor(row["actor"]).clearance),
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
        """What no function of the core writes yet: the session's ends, its events, its injections."""
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
        def told(entries: list[Row]) -> list[Row]:
            """With the memory's id in the place of its name in the fixtures."""
            return [{"id": self.memories[entry.pop("memory")].uid, **entry} for entry in entries]

        return Injection(
            session=session,
            project=row["project"],
            at=self.within(row, one),
            prompt_preview=one["prompt"],
            token_budget=settings.MEMORYHUB.token_budget,
            tokens_used=one["tokens_used"],
            took_ms=one["took_ms"],
            injected=told(one["injected"]),
            withheld=told(one["withheld"]),
        )


def _read(name: str) -> Iterator[Row]:
    with (settings.BASE_DIR / "fixtures/demo" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def _actor(name: str) -> Actor:
    """``user:mara`` owns what is personal to her; agents work for the demo's administrator."""
    kind, _, person = name.partition(":")
    return Actor(name, Clearance.up_to("secret", owner=person if kind == "user" else OWNER))


def _segment(session: Row, event: Row | None = None) -> int:
    """The segment of an event, or the last one of the session: one more at each boundary."""
    last = event["minute"] if event else session["minutes"]
    return sum("boundary" in one and one["minute"] <= last for one in session["events"])


def _memorability(event: Row) -> tuple[Row, float | None]:
    """The parts that the fixtures tell, and their weighted sum."""
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
    """What the handlers of a tool call said, in order of priority."""
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
        saved_searches.save_search(admin, name, page, query, replace=True)
    actor = Actor(f"user:{admin.get_username()}", Clearance.up_to("public", owner=admin.get_username()))
    runs.execute(runs.enqueue("consolidate", {}, actor, dry_run=True))


def _join(admin: User, name: str, role: str, level: str, projects: Mapping[str, str]) -> None:
    if User.objects.filter(username__iexact=name).exists() or usernames.is_former_username(name):
        return
    person = people.create_account(name, "", admin, email=f"{name}@harbour.example")
    people.change_rights(
        person, admin, role=role, level=level, is_active=True, is_staff=role == "administrator"
    )
    for project, within in projects.items():
        people.add_membership(person, project, within, admin)


def _issue(
    admin: User, name: str, level: str, rights: tuple[str, ...], projects: tuple[str, ...] | None, used: float
) -> None:
    now, actor = timezone.now(), Actor(f"user:{admin.get_username()}")
    token, _ = tokens.issue_token(name, admin.get_username(), level, rights, projects, actor=actor)
    AgentToken.objects.filter(pk=token.pk).update(
        created_at=now - timedelta(days=40), last_used_at=now - timedelta(days=used)
    )


AGENT = "claude-code"
RECORDED = "fixtures/sessions/debugging.jsonl"
ENDED_AGO = timedelta(minutes=35)


def play_session(now: datetime | None = None) -> None:
    """Play it so that it ended a while ago. Refused when the endpoint takes nothing."""
    transcript = read_transcript(settings.BASE_DIR / RECORDED)
    with _in_no_hurry(), inside(system_actor("quickstart"), AGENT) as door:
        for _ in Player(door, transcript, looks=False).play((now or timezone.now()) - ENDED_AGO):
            pass


@contextmanager
def _in_no_hurry() -> Iterator[None]:
    """On a busy machine, too, each prompt gets what it would have got."""
    served = settings.MEMORYHUB
    settings.MEMORYHUB = replace(served, injection_deadline_ms=60_000)
    try:
        yield
    finally:
        settings.MEMORYHUB = served
