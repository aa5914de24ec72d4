"""Count the outcomes of an import, record them as changes of its steps, and build a report from these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from memoryhub.access.policy import Clearance
from memoryhub.capture.classification import detect_type
from memoryhub.core.dates import parse_moment
from memoryhub.maintenance.operations.base import Change
from memoryhub.memories import serializers
from memoryhub.memories.create import StoreResult
from memoryhub.memories.delete import count_by_quota, fullest_quotas, load_caps
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.undo import AccessKey
from memoryhub.models import Fact, MaintenanceRun, Memory, RunChanges
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.security.secrets import redact
from memoryhub.transfer.formats import FORMATS
from memoryhub.transfer.records import Problem
from memoryhub.transfer.schema import HISTORY_FIELDS

# Limits memory use for a file with a new field name in every line.
_MAX_NAMES = 200
OTHER_FIELDS = "other fields"


@dataclass
class Tally:
    """Numbers of an import: ``outcomes`` for memories, ``others`` for other kinds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    # From the trash or after their expiry, by outcome.
    restored: Counter[str] = field(default_factory=Counter)
    others: dict[str, Counter[str]] = field(default_factory=dict)
    failed: int = 0
    in_trash: int = 0
    without_ttl: int = 0
    expiring: int = 0
    first_expiry: datetime | None = None
    ignored: Counter[str] = field(default_factory=Counter)
    not_taken: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    created_in: Counter[str] = field(default_factory=Counter)
    inferred_types: Counter[str] = field(default_factory=Counter)  # of new memories whose item has no type
    added: dict[AccessKey, dict[str, list[str]]] = field(default_factory=dict)  # ids, for an undo

    def add_created(self, kind: str, row: Memory | Fact) -> None:
        key = (row.project, row.sensitivity, row.owner if isinstance(row, Memory) else "")
        self.added.setdefault(key, {}).setdefault(kind, []).append(row.uid)

    @property
    def stored(self) -> int:
        """Number of memories that are now stored."""
        return sum(self.outcomes.values())

    @property
    def handled(self) -> int:
        """Number of stored and failed items of any kind."""
        return self.stored + sum(counts.total() for counts in self.others.values()) + self.failed

    def count(self, kind: str, outcome: str, count: int = 1) -> None:
        """Count items that are not memories, or not in the file (extracted memories)."""
        self.others.setdefault(kind, Counter())[outcome] += count

    def memory(self, draft: MemoryDraft, result: StoreResult, *, ended: bool, trusted: bool) -> None:
        """Count a memory, and the parts of its line that were not imported."""
        memory, outcome = result.memory, result.outcome
        self.outcomes[outcome] += 1
        self.restored[outcome] += result.revived
        is_new = result.revived or (outcome == "created" and not ended)
        self.created_in[memory.project] += is_new
        if is_new and memory.expires_at:
            self.expiring += 1
            self.first_expiry = min(self.first_expiry or memory.expires_at, memory.expires_at)
        self.in_trash += ended and outcome == "created"
        gets_lifetime = outcome == "created" or (result.revived and memory.expires_at is not None)
        self.without_ttl += gets_lifetime and "ttl_days" not in draft.given
        _add_counts(self.ignored, [redact(name) for name in draft.ignored])  # the report is saved
        if outcome == "created" and "type" not in draft.given:
            self.inferred_types[detect_type(draft.content).value] += 1
        if not trusted:
            _add_counts(self.not_taken, sorted(draft.model_fields_set & HISTORY_FIELDS))

    def unsupported(self, what: str, count: int = 1) -> None:
        _add_counts(self.unmapped, [what], count)


def _add_counts(counts: Counter[str], names: list[str], by: int = 1) -> None:
    for name in names:
        known = name in counts or len(counts) < _MAX_NAMES
        counts[name if known else OTHER_FIELDS] += by


def find_projects_over_cap(
    new_counts: Mapping[str, int], memories: MemoryQuerySet, dry_run: bool
) -> dict[str, int]:
    """Return the projects in which one owner exceeds (or would exceed) the cap, with the number of memories.

    ``new_counts`` maps projects to their number of new memories. Only ``memories`` are counted.
    """
    if not new_counts:
        return {}
    caps = load_caps(new_counts)
    current = fullest_quotas(count_by_quota(memories.live())) if caps.is_any else {}
    expected = {project: current.get(project, 0) + n * dry_run for project, n in new_counts.items()}
    return {project: n for project, n in expected.items() if caps.excess(project, n)}


def suggest_cap(count: int) -> int:
    """Return a cap that leaves room for a fifth more memories, rounded up to two digits.

    Home warns from 90 % of a cap on, which a tenth more would reach at once.
    """
    wanted = math.ceil(count * 1.2)
    digits = len(str(wanted)) - 2
    return math.ceil(wanted / 10**digits) * 10**digits if digits > 0 else wanted


FAILED, UNMAPPED, IGNORED, NOT_IMPORTED, WITHOUT_TTL = "failed", "unmapped", "ignored", "not_taken", "no_ttl"
RESTORED = "restored"  # ``reason`` is the outcome that counts these memories
INFERRED_TYPE = "inferred_type"  # ``reason`` is a type that the text suggests
EXPIRING = "expiring"  # ``reason`` is the first expiry
RAISED_CAP = "raised_cap"  # ``reason`` is the project, ``after`` its new cap
PROJECT = "project"  # a target project; ``after`` is its number of memories in a dry run
_MAX_ERRORS = 100  # listed per step; the others are counted
_MAX_PROJECTS = 20  # named per step
_MIN_ELAPSED = 2  # seconds before the remaining time is estimated
_MAX_MAPPED = 20  # unknown fields that a person can map


def project_changes(tally: Tally, reported: Set[str], dry_run: bool) -> Iterator[Change]:
    new = [(project, n) for project, n in tally.created_in.items() if n and project not in reported]
    for project, n in new[:_MAX_PROJECTS]:
        yield Change(PROJECT, reason=project, after=float(n) if dry_run else None)


def failure_changes(tally: Tally, errors: list[tuple[str, Problem]]) -> Iterator[Change]:
    """Yield a change per failed item with its first problems, and one for the remaining count."""
    by_place: dict[str, list[str]] = {}
    for place, problem in errors:
        by_place.setdefault(place, []).append(str(problem))
    listed = list(by_place.items())[:_MAX_ERRORS]
    for place, problems in listed:
        yield Change(FAILED, reason=f"{place}: {'; '.join(problems[:5])}")
    if rest := tally.failed - len(listed):
        yield Change(FAILED, reason="more in the lines around", count=rest)


def outcome_changes(tally: Tally) -> Iterator[Change]:
    for outcome, count in tally.outcomes.items():
        yield Change(f"memories {outcome}", count=count)
    for kind, counts in tally.others.items():
        for outcome, count in counts.items():
            yield Change(f"{kind} {outcome}", count=count)


def note_changes(tally: Tally) -> Iterator[Change]:
    for what, count in tally.unmapped.items():
        yield Change(UNMAPPED, reason=what, count=count)
    for name, count in tally.ignored.items():
        yield Change(IGNORED, reason=name[:100], count=count)
    for name, count in tally.inferred_types.items():
        yield Change(INFERRED_TYPE, reason=name, count=count)
    for outcome, count in (+tally.restored).items():
        yield Change(RESTORED, reason=outcome, count=count)
    for name, count in tally.not_taken.items():
        yield Change(NOT_IMPORTED, reason=name, count=count)
    if tally.first_expiry:
        yield Change(EXPIRING, reason=serializers.moment(tally.first_expiry) or "", count=tally.expiring)
    if tally.without_ttl and settings.MEMORYHUB.default_ttl_days:
        days = settings.MEMORYHUB.default_ttl_days
        yield Change(
            WITHOUT_TTL, reason=f"to expire in {days} days (default_ttl_days)", count=tally.without_ttl
        )


_NOTE_ACTIONS = frozenset(
    {FAILED, UNMAPPED, IGNORED, NOT_IMPORTED, WITHOUT_TTL, EXPIRING, PROJECT, INFERRED_TYPE, RAISED_CAP}
    | {RESTORED}
)


@dataclass
class ImportReport:
    """Report of an import.

    ``counts`` has the number per kind and outcome ("memories created"), largest first. ``errors`` is a page
    of failures with their places, ``failed`` their total number. ``over_cap`` lists target projects that
    exceed their cap (after a dry run: would exceed), ``raised_caps`` the new caps. ``expiring`` counts new
    memories that expire, ``without_ttl`` those of them that get the configured lifetime. ``restored`` has the
    memories that came back from the trash or had expired, by the outcome in ``counts`` that includes them.
    """

    counts: list[tuple[str, int]] = field(default_factory=list)
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    more_errors: bool = False
    unmapped: list[tuple[str, int]] = field(default_factory=list)
    ignored: list[tuple[str, int]] = field(default_factory=list)
    not_taken: list[tuple[str, int]] = field(default_factory=list)
    without_ttl: int = 0
    expiring: int = 0
    first_expiry: str | None = None
    over_cap: list[tuple[str, int]] = field(default_factory=list)
    inferred_types: list[tuple[str, int]] = field(default_factory=list)
    raised_caps: list[tuple[str, int]] = field(default_factory=list)
    restored: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Number of stored, known and failed items."""
        return sum(count for _, count in self.counts) + self.failed

    @property
    def first_expiry_at(self) -> datetime | None:
        return parse_moment(self.first_expiry) if self.first_expiry else None

    @property
    def labelled_counts(self) -> list[tuple[str, int]]:
        """Return ``counts`` with the restored memories counted on their own."""
        counts = Counter(dict(self.counts))
        counts.subtract({f"memories {outcome}": count for outcome, count in self.restored.items()})
        counts["memories restored"] = self.restored_count
        return (+counts).most_common()

    @property
    def restored_count(self) -> int:
        return self.restored.total()

    @property
    def added(self) -> int:
        """Number of new and restored memories."""
        return dict(self.counts).get("memories created", 0) + self.restored_count

    @property
    def duplicates(self) -> int:
        """Number of rows that repeat a memory outside the trash, or another row of the file."""
        known = ("refreshed", "unchanged", "kept", "updated")
        counts = dict(self.labelled_counts)
        return sum(counts.get(f"memories {outcome}", 0) for outcome in known)

    @property
    def mappable(self) -> list[tuple[str, int]]:
        """The most frequent unknown fields that a person can map to a field of a memory."""
        return [one for one in self.ignored if one[0] != OTHER_FIELDS][:_MAX_MAPPED]


def count_rows(run: MaintenanceRun) -> int:
    """Return the number of items that a run has read so far."""
    counts = (run.result or {}).get("counts", {})
    return sum(n for action, n in counts.items() if action == FAILED or action not in _NOTE_ACTIONS)


def seconds_left(run: MaintenanceRun, now: datetime) -> int | None:
    """Estimate the remaining time of a running import; None if it is too early for an estimate."""
    if run.status != MaintenanceRun.Status.RUNNING or not run.started_at or not run.total or not run.done:
        return None
    elapsed = (now - run.started_at).total_seconds()
    return max(round(elapsed * (run.total - run.done) / run.done), 0) if elapsed > _MIN_ELAPSED else None


def format_label(run: MaintenanceRun) -> str:
    """Return the label of the import's format."""
    format = FORMATS.get(str(run.params.get("format")))
    return format.label if format else str(run.params.get("format"))


def build_report(run: MaintenanceRun, clearance: Clearance, start: int, limit: int) -> ImportReport:
    """Return all numbers and a page of errors. The memories of a project are counted within the clearance."""
    counts: dict[str, int] = (run.result or {}).get("counts", {})
    outcomes = Counter({name: n for name, n in counts.items() if name not in _NOTE_ACTIONS})
    report = ImportReport(
        outcomes.most_common(),
        counts.get(FAILED, 0),
        without_ttl=counts.get(WITHOUT_TTL, 0),
        expiring=counts.get(EXPIRING, 0),
    )
    notes, new_counts = _sum_up_changes(run, report, start, limit)
    report.unmapped = notes[UNMAPPED].most_common()
    report.ignored, report.not_taken = notes[IGNORED].most_common(), notes[NOT_IMPORTED].most_common()
    report.inferred_types, report.restored = notes[INFERRED_TYPE].most_common(), notes[RESTORED]
    visible = Memory.objects.visible_to(clearance)
    report.over_cap = sorted(find_projects_over_cap(new_counts, visible, run.dry_run).items())
    return report


def _sum_up_changes(
    run: MaintenanceRun, report: ImportReport, start: int, limit: int
) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Add errors, caps and the first expiry to the report. Return the notes, and the memories by project."""
    notes: dict[str, Counter[str]] = {
        name: Counter() for name in (UNMAPPED, IGNORED, NOT_IMPORTED, INFERRED_TYPE, RESTORED)
    }
    new_counts: Counter[str] = Counter()
    seen = 0
    for action, reason, count, after in _load_changes(run):
        if action in notes:
            notes[action][reason] += count
        elif action == EXPIRING:
            report.first_expiry = min(report.first_expiry or reason, reason)
        elif action == RAISED_CAP:
            report.raised_caps.append((reason, int(after)))
        elif action == PROJECT:
            new_counts[reason] += int(after)
        elif action == FAILED:
            seen += 1
            if start < seen <= start + limit:
                report.errors.append(reason if count == 1 else f"{count:,} {reason}")
    report.more_errors = seen > start + limit
    return notes, new_counts


def _load_changes(run: MaintenanceRun) -> Iterator[tuple[str, str, int, float]]:
    """Yield action, reason, count and the number ``after``."""
    for step in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        for change in step.changes:
            yield change["action"], change.get("reason", ""), change.get("count", 1), change.get("after", 0)
