"""Prompt-injection detection: no memory gives orders to the agent that reads it. No Django.

:func:`inspect` inspects one text, :func:`inspect_fields` all texts of a memory. Both return the text without
orders, and the findings. ``role_prefixes`` removes prefixes such as "assistant:" from line starts. See
``docs/security.md``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING

from memoryhub.security.prompt_injection.decoding import decode_clauses, find_encoded_passages, find_markup
from memoryhub.security.prompt_injection.normalisation import NormalisedText, normalise

if TYPE_CHECKING:
    from memoryhub.security.prompt_injection.detector import Detection


INSTRUCTION_REMOVED = "[instruction removed]"
MAX_CACHED_LENGTH = 200  # characters of a text whose verdict is cached
MAX_CACHED_MEMORIES = 1024  # some megabytes in each process
_MAX_ROUNDS = 6  # inspections of joined texts without those that were found
_MAX_FIELDS_LEFT_OUT = 12  # fields that are tested for being necessary to an order
_MAX_NESTED_CODES = 2
_MAX_PASSAGES = 20  # encoded passages that are inspected one by one
_DIGEST_SIZE = 20
_FULL_STOPS = re.compile(r"[.!?。！？…]+")
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<", '"': '"', "”": "“", "»": "«", "」": "「"}
_HARMLESS = str.maketrans("<>[]＜＞［］", "‹›()‹›()")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Finding:
    """One order, or one piece of smuggled markup.

    ``start`` and ``end`` are places in the inspected text. The text itself is not repeated, so findings may
    be logged. ``reason`` names the evidence. ``removed`` is false if the characters are only made harmless
    and stay readable.
    """

    kind: str
    start: int
    end: int
    reason: str
    removed: bool = True


@dataclass(frozen=True)
class Verdict:
    """The result for a text.

    ``clean``: the text with orders replaced by a short mark. ``blocked``: nothing useful is left.
    """

    clean: str
    findings: list[Finding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed."""
        return any(finding.removed for finding in self.findings)


@dataclass(frozen=True)
class FieldFinding:
    """A finding in one field. ``item`` is the position in a list, ``None`` in a plain text."""

    field: str
    item: int | None
    finding: Finding


@dataclass(frozen=True)
class FieldsVerdict:
    """The result for all fields of a memory. ``blocked``: no field has anything useful left."""

    clean: dict[str, str | list[str]]
    findings: list[FieldFinding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed from any field."""
        return any(found.finding.removed for found in self.findings)


def inspect(text: str) -> Verdict:
    """Return the text without orders, and the findings.

    Orders are replaced by ``[instruction removed]``. Chat tokens and reserved tags get other brackets and
    stay readable. All other characters stay as they are. An inspection of ``clean`` finds nothing.
    """
    return _inspect_cached(text) if len(text) <= MAX_CACHED_LENGTH else _inspect(text)


def _inspect(text: str) -> Verdict:
    findings = _merge_findings(list(_find(text)))
    if not findings:
        return Verdict(text)
    clean = _redact(text, findings)
    if not any(_find(clean)):
        return Verdict(clean, findings, _is_empty_of_words(clean, findings))
    # The rest is an order, too. Only a text made for this needs more rounds, which take as long as the first.
    whole = Finding(findings[0].kind, 0, len(text), findings[0].reason)
    return Verdict(INSTRUCTION_REMOVED, [whole], True)


# Names of projects, files and tags occur in many memories. The key is the text itself and determines the
# verdict, so the cache reveals nothing about other memories.
_inspect_cached = lru_cache(maxsize=8192)(_inspect)


def digest_fields(fields: Mapping[str, str | list[str]]) -> bytes:
    """Return a digest of the texts and of the rules. Store it if an inspection finds nothing."""
    texts = json.dumps(list(fields.items())).encode()
    return blake2b(texts, digest_size=_DIGEST_SIZE, key=rules_version()).digest()


@cache
def rules_version() -> bytes:
    """Return a digest of this package: code, rules, weights and the Unicode tables that it uses."""
    digest = blake2b(unicodedata.unidata_version.encode(), digest_size=_DIGEST_SIZE)
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml", ".npz"):
            digest.update(blake2b(path.read_bytes()).digest())
    return digest.digest()


def inspect_fields(
    fields: Mapping[str, str | list[str]], inspected: bytes | memoryview | None = None
) -> FieldsVerdict:
    """Inspect each text of a memory alone and all of them together: an order may be spread over fields.

    ``inspected``: the digest of texts in which these rules found nothing. The same texts are not inspected
    again. The verdict is cached and shared: do not change it.
    """
    if inspected is not None and inspected == digest_fields(fields):
        return FieldsVerdict(dict(fields))
    items = ((name, value if isinstance(value, str) else tuple(value)) for name, value in fields.items())
    return _inspect_fields_cached(tuple(items))


@lru_cache(maxsize=MAX_CACHED_MEMORIES)
def _inspect_fields_cached(fields: tuple[tuple[str, str | tuple[str, ...]], ...]) -> FieldsVerdict:
    places = [(name, item, text) for name, value in fields for item, text in _items(value)]
    verdicts = [inspect(text) for _, _, text in places]
    findings = [
        FieldFinding(name, item, finding)
        for (name, item, _), verdict in zip(places, verdicts, strict=True)
        for finding in verdict.findings
    ]
    cleaned = [verdict.clean for verdict in verdicts]
    for place, finding in _find_spread_orders(cleaned):
        name, item, text = places[place]
        cleaned[place] = INSTRUCTION_REMOVED
        findings.append(
            FieldFinding(name, item, Finding(finding.kind, 0, len(text), f"{finding.reason} (over fields)"))
        )
    clean: dict[str, str | list[str]] = {name: "" if isinstance(value, str) else [] for name, value in fields}
    for (name, _, _), text in zip(places, cleaned, strict=True):
        value = clean[name]
        if isinstance(value, list):
            value.append(text)
        else:
            clean[name] = text
    has_words = any(_WORD.search(text.replace(INSTRUCTION_REMOVED, "")) for text in cleaned)
    return FieldsVerdict(clean, findings, bool(findings) and not has_words)


def _items(value: str | tuple[str, ...]) -> Iterator[tuple[int | None, str]]:
    if isinstance(value, str):
        yield None, value
    else:
        yield from enumerate(value)


def _find_spread_orders(texts: list[str]) -> list[tuple[int, Finding]]:
    """Return the positions of texts that are harmless alone and form an order together, with the finding."""
    rest = list(texts)
    found: dict[int, Finding] = {}
    for _ in range(_MAX_ROUNDS):
        further = {
            place: finding
            for touched, finding in _find_joint_orders(rest)
            for place in _required_fields(rest, touched)
            if place not in found
        }
        if not further:
            break
        found.update(further)
        for place in further:
            rest[place] = INSTRUCTION_REMOVED
    else:
        for touched, finding in _find_joint_orders(rest):
            found.update(dict.fromkeys(touched, finding))
    return list(found.items())


def _find_joint_orders(texts: list[str]) -> Iterator[tuple[list[int], Finding]]:
    """Yield the orders in the joined texts that touch several of them, with the positions of these."""
    if len(texts) < 2:
        return
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    for finding in inspect("\n".join(texts)).findings:
        touched = [
            place
            for place, text in enumerate(texts)
            if text != INSTRUCTION_REMOVED
            and finding.start < starts[place] + len(text)
            and finding.end > starts[place]
        ]
        if finding.removed and len(touched) > 1:
            yield touched, finding


def _required_fields(texts: list[str], touched: list[int]) -> list[int]:
    """Leave out the texts without which the evidence is the same, such as a harmless tag between others."""
    required, evidence = touched, _evidence_in(texts, touched)
    for place in touched[:_MAX_FIELDS_LEFT_OUT]:
        rest = [other for other in required if other != place]
        if len(rest) > 1 and _evidence_in(texts, rest) >= evidence:
            required = rest
    return required


def _evidence_in(texts: list[str], places: list[int]) -> set[str]:
    """Return the evidence in some of the texts together, without that of their wording."""
    from memoryhub.security.prompt_injection.detector import WORDING_EVIDENCE  # loaded late, see _detect

    findings = inspect("\n".join(texts[place] for place in places)).findings
    return {reason for finding in findings for reason in finding.reason.split("; ")} - {WORDING_EVIDENCE}


def _find(text: str, depth: int = 0) -> Iterator[Finding]:
    """Yield the findings of one inspection, which may overlap. Each is searched for when it is needed."""
    if not text or text.isspace():
        return
    plain = normalise(text)
    for detection in _detect(plain, text, depth > 0):
        yield _to_finding(detection, plain, text)
    for markup in find_markup(plain.text):
        yield Finding(markup.kind, *plain.span(markup.start, markup.end), markup.reason, markup.removed)
    yield from _find_turned_orders(plain)
    if depth < _MAX_NESTED_CODES:
        yield from _find_encoded(text, depth)


def _find_encoded(text: str, depth: int) -> Iterator[Finding]:
    """Yield the findings in encoded passages: the first ones alone, and all later ones as one text."""
    passages = find_encoded_passages(text)
    alone = [[passage] for passage in islice(passages, _MAX_PASSAGES)]
    for group in filter(None, [*alone, list(passages)]):
        inside = "\n".join(passage.text for passage in group)
        inner = next((finding for finding in _find(inside, depth + 1) if finding.removed), None)
        if inner:
            start, end = min(one.start for one in group), max(one.end for one in group)
            yield Finding(inner.kind, start, end, f"{inner.reason} (in {group[0].code})")


def _detect(plain: NormalisedText, text: str, hidden: bool) -> list[Detection]:
    """Return the orders in a text, given in normalised and in original form. ``hidden``: it was encoded."""
    # Compiling the rules takes a third of a second: a process that inspects nothing does not need them.
    from memoryhub.security.prompt_injection.detector import HIDDEN_SUSPICION, detect
    from memoryhub.security.prompt_injection.tokeniser import tokenise

    return detect(plain.text, tokenise(plain, text), HIDDEN_SUSPICION * hidden)


def _to_finding(detection: Detection, plain: NormalisedText, text: str) -> Finding:
    start, end = plain.span(detection.start, detection.end)
    return Finding(detection.kind, start, _sentence_end(text, start, end), "; ".join(detection.evidence))


def _sentence_end(text: str, start: int, end: int) -> int:
    """Extend the end over the full stop, and over closing brackets and quotation marks of the sentence."""
    full_stops = _FULL_STOPS.match(text, end)
    end = full_stops.end() if full_stops else end
    while (opening := _OPENING.get(text[end : end + 1])) and text.count(opening, start, end) % 2:
        end += 1
    return end


def _find_turned_orders(plain: NormalisedText) -> Iterator[Finding]:
    """Yield orders in a cipher of letters, or in reversed text."""
    turned, may_be_reversed = decode_clauses(plain.text)
    if turned:
        for detection in _detect(NormalisedText(turned), turned, True):
            span = plain.span(detection.start, detection.end)
            yield Finding(detection.kind, *span, f"{detection.evidence[0]} (in a cipher)")
    if may_be_reversed:
        size = len(plain.text)
        turned = plain.text[::-1]
        for detection in _detect(NormalisedText(turned), turned, True):
            span = plain.span(size - detection.end, size - detection.start)
            yield Finding(detection.kind, *span, f"{detection.evidence[0]} (written backwards)")


def _merge_findings(findings: list[Finding]) -> list[Finding]:
    """Sort the findings by place and merge those that overlap. The result removes if one of them does."""
    merged: list[Finding] = []
    for finding in sorted(findings, key=lambda found: (found.start, -found.end)):
        if not merged or finding.start >= merged[-1].end:
            merged.append(finding)
            continue
        last = merged.pop()
        main = last if last.removed or not finding.removed else finding
        reasons = dict.fromkeys(f"{last.reason}; {finding.reason}".split("; "))
        removed = last.removed or finding.removed
        merged.append(Finding(main.kind, last.start, max(last.end, finding.end), "; ".join(reasons), removed))
    return merged


def _redact(text: str, findings: list[Finding]) -> str:
    pieces: list[str] = []
    position = 0
    is_after_mark = False
    for finding in findings:
        between = text[position : finding.start]
        position = finding.end
        if finding.removed and is_after_mark and not between.strip():
            continue  # adjacent findings share one mark
        pieces.append(between)
        is_after_mark = finding.removed
        found = text[finding.start : finding.end]
        pieces.append(INSTRUCTION_REMOVED if finding.removed else found.translate(_HARMLESS))
    return "".join([*pieces, text[position:]])


def _is_empty_of_words(clean: str, findings: list[Finding]) -> bool:
    """Return True if something was removed and fewer than three words are left."""
    if not any(finding.removed for finding in findings):
        return False
    return len(_WORD.findall(clean.replace(INSTRUCTION_REMOVED, " "))) < 3
