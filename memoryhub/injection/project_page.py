"""A project's page: what a new colleague or agent should know, built from memories, facts and sessions.

The same rows give the same page. Each line names the memory, fact or session that it comes from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Literal

from django.db.models import Exists, OuterRef

from memoryhub.access.policy import WAITING_LEVELS, Actor, Clearance, Sensitivity, stricter_level
from memoryhub.audit.journal import record_reveals
from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file
from memoryhub.core.text import (
    COMMIT_PREFIX,
    collapse_whitespace,
    estimate_tokens,
    shorten,
    without_title_line,
    without_title_prefix,
)
from memoryhub.core.vocabulary import MemoryType, ProjectMode, Scope
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.injection.context_block import format_attribute, is_blocked, neutralise_tags
from memoryhub.models import Event, Fact, Label, Memory, Project
from memoryhub.models.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.security.prompt_injection import inspect_fields

OFF_PAGE = "off-page"  # the tag of a memory that a person has left out of the page
MAX_PAGE_TOKENS = 800
MAX_LINE_CHARS = 180
MAX_RECENT, MAX_PINNED, MAX_TAGGED, MAX_FACTS, MAX_EVENTS = 300, 100, 200, 200, 100  # rows considered
MAX_SUMMARIES = 2  # of sessions
MIN_CONFIDENCE = 0.5  # of facts
MAX_SESSION_DAYS, MAX_FILES = 14, 5
_SUMMARY = "session_summary"
_COLUMNS = (
    *("uid", "sensitivity", "project", "session_id", "type", "category", "title", "importance"),
    *("pinned_at", "outdated_at", "updated_at"),
)
# Comments end in the first of these, and the marks of an exported block are comments.
_COMMENT_ESCAPES = (("<!--", "‹!--"), ("-->", "--›"))


class SectionRules(RuleSchema):
    key: str
    title: str
    words: Words
    types: tuple[str, ...]
    tag: str
    draft_type: MemoryType
    most: int
    concepts: Words = frozenset()
    predicates: tuple[str, ...] = ()
    pattern: Regex | None = None


class PageRules(PatternFile):
    sections: tuple[SectionRules, ...]


SECTIONS = load_rule_file(Path(__file__).with_name("project_page.toml"), PageRules).sections
_LABELS = frozenset().union(*(one.words | one.concepts for one in SECTIONS))


@dataclass(frozen=True)
class PageEntry:
    """A line of the page. ``kind`` and ``uid`` name its source, ``reason`` says why it is on the page."""

    section: str
    kind: Literal["memory", "fact", "session"]
    uid: str
    line: str
    reason: str
    sensitivity: str
    pinned: bool = False
    may_be_outdated: bool = False


@dataclass(frozen=True)
class ProjectPage:
    """The lines of a page, section by section. ``withheld``: lines over the budget or with instructions."""

    project: str
    entries: list[PageEntry]
    withheld: list[tuple[PageEntry, str]]

    def sections(self) -> Iterator[tuple[SectionRules, list[PageEntry]]]:
        """Yield the sections that have lines."""
        yield from group_by_section(self.entries)

    def to_markdown(self) -> str:
        parts = [
            f"## {section.title}\n\n" + "".join(map(_markdown_line, entries))
            for section, entries in self.sections()
        ]
        return "\n".join(parts)


def group_by_section(entries: Iterable[PageEntry]) -> Iterator[tuple[SectionRules, list[PageEntry]]]:
    by_section = defaultdict(list)
    for entry in entries:
        by_section[entry.section].append(entry)
    yield from ((section, by_section[section.key]) for section in SECTIONS if by_section[section.key])


def render_element(project: str, entries: Sequence[PageEntry]) -> str:
    """Return the page as an element of the context block."""
    parts = [
        f"{section.title}:\n" + "".join(map(element_line, lines))
        for section, lines in group_by_section(entries)
    ]
    return render_frame(project, "".join(parts))


def render_frame(project: str, text: str) -> str:
    """Return the element around the text of a page."""
    return f'<memory-page project="{format_attribute(project)}">\n{text}</memory-page>\n'


def element_line(entry: PageEntry) -> str:
    """Return a line of the element, with the id of its memory, and a note if its code has changed."""
    reference = f" [{entry.uid}]" if entry.kind == "memory" else ""
    mark = " (may be outdated)" if entry.may_be_outdated else ""
    return f"- {neutralise_tags(entry.line)}{mark}{reference}\n"


def _markdown_line(entry: PageEntry) -> str:
    return f"- {entry.line}\n"


def build_page(project: str, clearance: Clearance, now: datetime) -> ProjectPage:
    """Return the visible part of a project's page, with at most :data:`MAX_PAGE_TOKENS` tokens."""
    entries, blocked = [], []
    for entry in find_entries(project, clearance, now):
        clean = clean_entry(entry)
        if clean is None:
            blocked.append((entry, "blocked by the governor"))
        else:
            entries.append(clean)
    fitting, _ = fit_entries(entries, MAX_PAGE_TOKENS, _markdown_line)
    over = [(one, "over the budget") for one in entries if one not in fitting]
    return ProjectPage(project, fitting, [*blocked, *over])


def fit_entries(
    entries: Sequence[PageEntry], tokens: int, render_line: Callable[[PageEntry], str]
) -> tuple[list[PageEntry], int]:
    """Return as many entries as fit in the order of the page, and their tokens. Every section gets a share.

    The tokens of the parts are at least those of the whole.
    """
    headings = {section.key: estimate_tokens(f"## {section.title}\n\n\n") for section in SECTIONS}
    ranks: dict[str, int] = defaultdict(int)
    order = []
    for number, entry in enumerate(entries):
        order.append((not entry.pinned, ranks[entry.section], number))
        ranks[entry.section] += 1
    chosen, spent = set(), 0
    for *_, number in sorted(order):
        entry = entries[number]
        cost = estimate_tokens(render_line(entry)) + headings.get(entry.section, 0)
        if spent + cost <= tokens:
            chosen.add(number)
            headings.pop(entry.section, None)
            spent += cost
    return [entry for number, entry in enumerate(entries) if number in chosen], spent


def clean_entry(entry: PageEntry) -> PageEntry | None:
    """Return the entry without instructions to an agent, None if nothing else is left."""
    verdict = inspect_fields({"text": entry.line})
    line = str(verdict.clean["text"])
    if is_blocked(verdict, line):
        return None
    for mark, harmless in _COMMENT_ESCAPES:
        line = line.replace(mark, harmless)
    return replace(entry, line=line)


def record_page_reveals(entries: Iterable[PageEntry], actor: Actor, where: str) -> None:
    """Journal the secret memories among the lines that a response shows, before it is sent."""
    secret = [one.uid for one in entries if one.sensitivity == Sensitivity.SECRET.value]
    if secret:
        record_reveals(Memory.objects.visible_to(actor.clearance).filter(uid__in=secret), actor, where)


def find_entries(project: str, clearance: Clearance, now: datetime, but_session: str = "") -> list[PageEntry]:
    """Return the lines of the page before the budget, section by section, the best first.

    ``but_session``: a session whose own work is left out.
    """
    if not project or not clearance.includes_project(project):
        return []
    memories = page_memories(project, clearance, now)
    classified = _classify_memories(memories, but_session)
    entries = _memory_entries(memories, classified)
    used = {memory.pk for _, _, memory in classified}
    entries += _fact_entries(_page_facts(project, clearance, now), project, used)
    summarised = {memory.session_id for _, _, memory in classified if memory.type == _SUMMARY}
    entries += _session_entry(project, clearance, now, but_session, summarised)
    order = {section.key: number for number, section in enumerate(SECTIONS)}
    entries.sort(key=lambda one: (order[one.section], not one.pinned))  # stable: best first
    limits = {section.key: section.most for section in SECTIONS}
    kept, counts = [], dict.fromkeys(order, 0)
    for entry in entries:
        counts[entry.section] += 1
        if entry.pinned or counts[entry.section] <= limits[entry.section]:
            kept.append(entry)
    return kept


def page_memories(project: str, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the live memories of a project that a page may show, without personal and replaced ones."""
    memories = Memory.objects.visible_to(clearance).live(now).without_replaced()
    return memories.filter(project=project).exclude(scope=Scope.PERSONAL.value)


def _classify_memories(memories: MemoryQuerySet, but_session: str) -> list[tuple[SectionRules, str, Memory]]:
    """Return the memories that belong to a section, with the reason: the best first, current work by date."""
    lean = memories.only(*_COLUMNS)
    tagged = Label.objects.filter(Exists(memories.filter(pk=OuterRef("memory"))), value__in=_LABELS)
    tagged = tagged.filter(kind__in=(Label.Kind.TAG, Label.Kind.CONCEPT)).order_by("-memory_id")
    pks = list(tagged.values_list("memory_id", flat=True)[:MAX_TAGGED])
    found = {
        memory.pk: memory
        for rows in (
            lean.pinned().order_by("-importance", "pinned_at", "pk")[:MAX_PINNED],
            lean.filter(pk__in=pks),
            lean.order_by("-updated_at", "-pk")[:MAX_RECENT],
        )
        for memory in rows
    }
    labels = defaultdict(set)
    for pk, value in Label.objects.filter(memory__in=list(found)).values_list("memory_id", "value"):
        labels[pk].add(value.lower())
    classified = []
    for memory in sorted(
        found.values(), key=lambda one: (-one.importance, -one.updated_at.timestamp(), one.pk)
    ):
        if OFF_PAGE in labels[memory.pk] or (memory.type == _SUMMARY and memory.session_id == but_session):
            continue
        section, reason = classify_memory(memory, labels[memory.pk])
        if section:
            classified.append((section, reason, memory))
    return _newest_work(classified)


def _newest_work(rows: list[tuple[SectionRules, str, Memory]]) -> list[tuple[SectionRules, str, Memory]]:
    """Order current work by date, summaries of sessions first, and drop all but the latest summaries."""
    work = [row for row in rows if row[0].key == "current-work"]
    work.sort(key=lambda row: (row[2].updated_at, row[2].pk), reverse=True)
    summaries = [row for row in work if row[2].type == _SUMMARY][:MAX_SUMMARIES]
    rest = [row for row in work if row[2].type != _SUMMARY]
    return [*(row for row in rows if row[0].key != "current-work"), *summaries, *rest]


def classify_memory(memory: Memory, labels: Collection[str]) -> tuple[SectionRules | None, str]:
    """Return the section of a memory and the reason, or None."""
    words = {*labels, memory.category.lower()}
    for section in SECTIONS:
        if known := sorted(words & section.words):
            return section, f"“{known[0]}”"
    for section in SECTIONS:
        # The title of a summary is what was asked for.
        if section.pattern and memory.type != _SUMMARY and section.pattern.search(memory.title):
            return section, "its wording"
    for section in SECTIONS:
        if memory.type in section.types:
            return section, f"type {memory.type}"
        if known := sorted(set(labels) & section.concepts):
            return section, f"“{known[0]}”"
    decisions = next(one for one in SECTIONS if one.key == "decisions")
    return (decisions, "pinned") if memory.pinned else (None, "")


def _memory_entries(
    memories: MemoryQuerySet, classified: Sequence[tuple[SectionRules, str, Memory]]
) -> list[PageEntry]:
    # Of the visible ones only: the level may have changed since they were read.
    contents: Mapping[int, str] = dict(
        memories.filter(pk__in=[memory.pk for _, _, memory in classified]).values_list("pk", "content")
    )
    entries = []
    for section, reason, memory in classified:
        line, _ = memory_line(memory, contents.get(memory.pk, ""))
        why = reason if reason == "pinned" or not memory.pinned else f"pinned, {reason}"
        marks = (memory.pinned, memory.may_be_outdated)
        entries.append(PageEntry(section.key, "memory", memory.uid, line, why, memory.sensitivity, *marks))
    return entries


def memory_line(memory: Memory, content: str) -> tuple[str, bool]:
    """Return one line for a memory, and whether it has the whole text: its title, and a short text too."""
    text = COMMIT_PREFIX.sub("", content[: MAX_LINE_CHARS * 8])
    body = collapse_whitespace(without_title_line(text, memory.title))
    title = collapse_whitespace(memory.title) or body
    if memory.type == _SUMMARY:
        body = without_title_prefix(body.removeprefix("Asked for: "), title)
    if not body or body == title:
        return shorten(title, MAX_LINE_CHARS), len(title) <= MAX_LINE_CHARS and len(body) <= len(title)
    if title.endswith("…") and body.startswith(title[:-1].rstrip()):
        title, whole = "", body
    else:
        whole = f"{title} {body}" if title.endswith(("?", "!")) else f"{title.rstrip(' .:')}: {body}"
    if len(whole) <= MAX_LINE_CHARS:
        return whole, True
    return shorten(title or body, MAX_LINE_CHARS), False


def _page_facts(project: str, clearance: Clearance, now: datetime) -> FactQuerySet:
    facts = Fact.objects.visible_to(clearance).current(now).filter(project=project)
    facts = facts.exclude(memory__scope=Scope.PERSONAL.value).filter(confidence__gte=MIN_CONFIDENCE)
    return facts.order_by("-confidence", "-updated_at", "-pk")


def _fact_entries(facts: FactQuerySet, project: str, used: Collection[int]) -> list[PageEntry]:
    """Return lines for facts, without those of memories that are on the page themselves."""
    sections = {normalise_predicate(name): section for section in SECTIONS for name in section.predicates}
    entries = []
    for fact in facts.exclude(uid__in=Project.named(project).off_page_facts)[:MAX_FACTS]:
        predicate = normalise_predicate(fact.predicate)
        section = sections.get(predicate)
        if section is None and fact.subject.strip().casefold() == project.casefold():
            section = SECTIONS[0]
        if section and fact.memory_id not in used:
            line = shorten(f"{fact.subject} {predicate} {fact.object}", MAX_LINE_CHARS)
            reason = f"fact with “{shorten(predicate, 40)}”"
            entries.append(PageEntry(section.key, "fact", fact.uid, line, reason, fact.sensitivity))
    return entries


def _session_entry(
    project: str, clearance: Clearance, now: datetime, but_session: str, summarised: Collection[str]
) -> list[PageEntry]:
    """Return a line with the files of the latest session, unless its summary is on the page or waiting."""
    if Project.named(project).mode == ProjectMode.APPROVE:
        return []
    since = now - timedelta(days=MAX_SESSION_DAYS)
    waiting = Memory.objects.in_session(OuterRef("session__session_id"), project=project)
    waiting = waiting.filter(sensitivity__in=WAITING_LEVELS)
    events = Event.objects.visible_to(clearance, now).filter(session__project=project, at__gt=since)
    events = events.exclude(files=[]).exclude(session__session_id=but_session).order_by("-at", "-pk")
    events = events.exclude(Exists(waiting))
    rows = list(events.values_list("session__session_id", "at", "files", "sensitivity")[:MAX_EVENTS])
    if not rows or rows[0][0] in summarised:
        return []
    latest, at = rows[0][:2]
    session_rows = [row for row in rows if row[0] == latest]
    files = list(dict.fromkeys(path for _, _, paths, _ in session_rows for path in paths))[:MAX_FILES]
    level = reduce(stricter_level, [row[3] for row in session_rows])
    line = shorten(f"{at:%Y-%m-%d}: worked on {', '.join(files)}", MAX_LINE_CHARS)
    return [PageEntry("current-work", "session", latest, line, "latest session, without a summary", level)]
