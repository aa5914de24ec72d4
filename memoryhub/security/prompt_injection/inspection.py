"""Inspecting a text: normalise, judge, redact, and look again until nothing more is found. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from memoryhub.security.prompt_injection.decoding import decode_rot13, find_encoded_passages, reverse_text
from memoryhub.security.prompt_injection.detector import (
    INSTRUCTION_REMOVED,
    WORDING_EVIDENCE,
    FieldFinding,
    FieldsVerdict,
    Finding,
    Verdict,
)
from memoryhub.security.prompt_injection.markup import find_markup
from memoryhub.security.prompt_injection.normalisation import NormalisedText, normalise

if TYPE_CHECKING:
    from memoryhub.security.prompt_injection.detector import Detection

MAX_CACHED_LENGTH = 200  # characters; a verdict on no more than this is kept for the next time
MAX_CACHED_MEMORIES = 1024  # verdicts on whole memories that are kept: some megabytes in each process
MAX_ROUNDS = 6  # looks at what redaction left
_MAX_FIELDS_LEFT_OUT = 12  # fields of which each is looked at without the others
_MAX_NESTED_CODES = 2  # codes within codes
_ENDING = re.compile(r"[.!?。！？…]+")
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<", '"': '"', "”": "“", "»": "«", "」": "「"}
_HARMLESS = str.maketrans("<>[]＜＞［］", "‹›()‹›()")
_WORD = re.compile(r"[^\W_]+")


def inspect(text: str) -> Verdict:
    """The text without its orders, and what was found.

    Orders are replaced by ``[instruction removed]``; chat tokens and reserved tags have their brackets
    changed and stay readable. The rest is kept character for character. Inspecting ``clean`` again finds
    nothing.
    """
    return _inspect_cached(text) if len(text) <= MAX_CACHED_LENGTH else _inspect(text)


def _inspect(text: str) -> Verdict:
    findings = _merge_findings(_find(text))
    if not findings:
        return Verdict(text)
    for _ in range(MAX_ROUNDS):
        clean, origin = _redact(text, findings)
        further = [_map_back(finding, origin) for finding in _find(clean)]
        if not further:
            return Verdict(clean, findings, _is_empty_of_words(clean, findings))
        findings = _merge_findings([*findings, *further])
    whole = Finding(findings[0].kind, 0, len(text), findings[0].reason)
    return Verdict(INSTRUCTION_REMOVED, [whole], True)


# Names of projects, files and tags stand in one memory after the other. Keyed by the text itself, and a text
# always gets the same verdict: nothing of one memory can show in another.
_inspect_cached = lru_cache(maxsize=8192)(_inspect)


def inspect_fields(fields: Mapping[str, str | list[str]]) -> FieldsVerdict:
    """Every text of a memory, inspected by itself and with the others: an order may be spread over fields.

    A memory that was seen lately costs nothing: the verdict is shared, and nobody may change it.
    """
    held = ((name, value if isinstance(value, str) else tuple(value)) for name, value in fields.items())
    return _inspect_fields_cached(tuple(held))


# Keyed by all texts themselves: one letter more, and it is looked at anew.
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
        held = clean[name]
        if isinstance(held, list):
            held.append(text)
        else:
            clean[name] = text
    kept = any(_WORD.search(text.replace(INSTRUCTION_REMOVED, "")) for text in cleaned)
    return FieldsVerdict(clean, findings, bool(findings) and not kept)


def _items(value: str | tuple[str, ...]) -> Iterator[tuple[int | None, str]]:
    if isinstance(value, str):
        yield None, value
    else:
        yield from enumerate(value)


def _find_spread_orders(texts: list[str]) -> list[tuple[int, Finding]]:
    """Texts that are harmless alone and hold an order together: their places, and what they are part of."""
    left = list(texts)
    found: dict[int, Finding] = {}
    for _ in range(MAX_ROUNDS):
        further = {
            place: finding
            for touched, finding in _find_joint_orders(left)
            for place in _required_fields(left, touched)
            if place not in found
        }
        if not further:
            break
        found.update(further)
        for place in further:
            left[place] = INSTRUCTION_REMOVED
    else:
        for touched, finding in _find_joint_orders(left):
            found.update(dict.fromkeys(touched, finding))
    return list(found.items())


def _find_joint_orders(texts: list[str]) -> Iterator[tuple[list[int], Finding]]:
    """The orders that several texts make together, and the places of these."""
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
    """The places without those that add nothing to the order: harmless tags between guilty ones."""
    needed, evidence = touched, _evidence_in(texts, touched)
    for place in touched[:_MAX_FIELDS_LEFT_OUT]:
        rest = [other for other in needed if other != place]
        if len(rest) > 1 and _evidence_in(texts, rest) >= evidence:
            needed = rest
    return needed


def _evidence_in(texts: list[str], places: list[int]) -> set[str]:
    """What is found in some of the texts together, but for how it is worded."""
    findings = inspect("\n".join(texts[place] for place in places)).findings
    return {reason for finding in findings for reason in finding.reason.split("; ")} - {WORDING_EVIDENCE}


def _find(text: str, depth: int = 0) -> list[Finding]:
    """What one look at a text finds."""
    if not text or text.isspace():
        return []
    plain = normalise(text)
    found = [_to_finding(charge, plain, text) for charge in _detect(plain, text)]
    for markup in find_markup(plain.text):
        found.append(
            Finding(markup.kind, *plain.span(markup.start, markup.end), markup.reason, markup.removed)
        )
    found += _find_turned_orders(plain)
    if depth < _MAX_NESTED_CODES:
        for hidden in find_encoded_passages(text):
            inner = [finding for finding in _find(hidden.text, depth + 1) if finding.removed]
            if inner:
                reason = f"{inner[0].reason} (in {hidden.how})"
                found.append(Finding(inner[0].kind, hidden.start, hidden.end, reason))
    return found


def _detect(plain: NormalisedText, text: str) -> list[Detection]:
    """What is charged against a text, given as it is and normalised."""
    # Compiling the rules takes a third of a second, which a process that inspects nothing does not owe.
    from memoryhub.security.prompt_injection.detector import detect
    from memoryhub.security.prompt_injection.tokeniser import tokenise

    return detect(plain.text, tokenise(plain, text))


def _to_finding(charge: Detection, plain: NormalisedText, text: str) -> Finding:
    start, end = plain.span(charge.start, charge.end)
    return Finding(charge.kind, start, _sentence_end(text, start, end), "; ".join(charge.evidence))


def _sentence_end(text: str, start: int, end: int) -> int:
    """The end of a sentence with its full stop, and with brackets and quotation marks that opened in it."""
    ending = _ENDING.match(text, end)
    end = ending.end() if ending else end
    while (opening := _OPENING.get(text[end : end + 1])) and text.count(opening, start, end) % 2:
        end += 1
    return end


def _find_turned_orders(plain: NormalisedText) -> Iterator[Finding]:
    """Orders in rot13, or written backwards."""
    size = len(plain.text)
    turned = decode_rot13(plain.text)
    if turned:
        for charge in _detect(NormalisedText(turned), turned):
            yield Finding(
                charge.kind, *plain.span(charge.start, charge.end), f"{charge.evidence[0]} (in rot13)"
            )
    turned = reverse_text(plain.text)
    if turned:
        for charge in _detect(NormalisedText(turned), turned):
            place = plain.span(size - charge.end, size - charge.start)
            yield Finding(charge.kind, *place, f"{charge.evidence[0]} (written backwards)")


def _merge_findings(findings: list[Finding]) -> list[Finding]:
    """The findings in order of place; those that overlap become one, which removes if one of them does."""
    united: list[Finding] = []
    for finding in sorted(findings, key=lambda found: (found.start, -found.end)):
        if not united or finding.start >= united[-1].end:
            united.append(finding)
            continue
        last = united.pop()
        lead = last if last.removed or not finding.removed else finding
        reasons = dict.fromkeys(f"{last.reason}; {finding.reason}".split("; "))
        removed = last.removed or finding.removed
        united.append(Finding(lead.kind, last.start, max(last.end, finding.end), "; ".join(reasons), removed))
    return united


def _redact(text: str, findings: list[Finding]) -> tuple[str, list[int]]:
    """The text without what was found, and where each of its characters (and its end) came from."""
    pieces: list[str] = []
    origin: list[int] = []
    position = 0
    marked = False
    for finding in findings:
        between = text[position : finding.start]
        position = finding.end
        if finding.removed and marked and not between.strip():
            continue  # neighbours share one mark
        pieces.append(between)
        origin.extend(range(finding.start - len(between), finding.start))
        marked = finding.removed
        pieces.append(
            INSTRUCTION_REMOVED if marked else text[finding.start : finding.end].translate(_HARMLESS)
        )
        origin.extend(
            [finding.start] * len(INSTRUCTION_REMOVED) if marked else range(finding.start, finding.end)
        )
    pieces.append(text[position:])
    origin.extend(range(position, len(text) + 1))
    return "".join(pieces), origin


def _map_back(finding: Finding, origin: list[int]) -> Finding:
    """A finding in the cleaned text, as a place in the text it came from."""
    start, end = origin[finding.start], origin[finding.end]
    return Finding(finding.kind, start, max(end, start + 1), finding.reason, finding.removed)


def _is_empty_of_words(clean: str, findings: list[Finding]) -> bool:
    """Whether hardly a word is left beside the marks."""
    if not any(finding.removed for finding in findings):
        return False
    return len(_WORD.findall(clean.replace(INSTRUCTION_REMOVED, " "))) < 3
