"""Inspecting a text: normalise, judge, redact, and look again until nothing more is found. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from memoryhub.security.prompt_injection.detector import (
    MARK,
    WORDED,
    FieldFinding,
    FieldsVerdict,
    Finding,
    Verdict,
)
from memoryhub.security.prompt_injection.encoded import backwards, encoded_passages, rot13
from memoryhub.security.prompt_injection.markup import find_markup
from memoryhub.security.prompt_injection.normalise import Normalised, normalise

if TYPE_CHECKING:
    from memoryhub.security.prompt_injection.detector import Charge

SHORT = 200  # characters; a verdict on no more than this is kept for the next time
KEPT = 1024  # verdicts on whole memories that are kept: some megabytes in each process
ROUNDS = 6  # looks at what redaction left
_FEW = 12  # fields of which each is looked at without the others
_WITHIN = 2  # codes within codes
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
    return _known(text) if len(text) <= SHORT else _inspect(text)


def _inspect(text: str) -> Verdict:
    findings = _united(_look(text))
    if not findings:
        return Verdict(text)
    for _ in range(ROUNDS):
        clean, origin = _redacted(text, findings)
        further = [_moved(finding, origin) for finding in _look(clean)]
        if not further:
            return Verdict(clean, findings, _nothing_left(clean, findings))
        findings = _united([*findings, *further])
    whole = Finding(findings[0].kind, 0, len(text), findings[0].reason)
    return Verdict(MARK, [whole], True)


# Names of projects, files and tags stand in one memory after the other. Keyed by the text itself, and a text
# always gets the same verdict: nothing of one memory can show in another.
_known = lru_cache(maxsize=8192)(_inspect)


def inspect_fields(fields: Mapping[str, str | list[str]]) -> FieldsVerdict:
    """Every text of a memory, inspected by itself and with the others: an order may be spread over fields.

    A memory that was seen lately costs nothing: the verdict is shared, and nobody may change it.
    """
    held = ((name, value if isinstance(value, str) else tuple(value)) for name, value in fields.items())
    return _judged(tuple(held))


# Keyed by all texts themselves: one letter more, and it is looked at anew.
@lru_cache(maxsize=KEPT)
def _judged(fields: tuple[tuple[str, str | tuple[str, ...]], ...]) -> FieldsVerdict:
    places = [(name, item, text) for name, value in fields for item, text in _items(value)]
    verdicts = [inspect(text) for _, _, text in places]
    findings = [
        FieldFinding(name, item, finding)
        for (name, item, _), verdict in zip(places, verdicts, strict=True)
        for finding in verdict.findings
    ]
    cleaned = [verdict.clean for verdict in verdicts]
    for place, finding in _spread(cleaned):
        name, item, text = places[place]
        cleaned[place] = MARK
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
    kept = any(_WORD.search(text.replace(MARK, "")) for text in cleaned)
    return FieldsVerdict(clean, findings, bool(findings) and not kept)


def _items(value: str | tuple[str, ...]) -> Iterator[tuple[int | None, str]]:
    if isinstance(value, str):
        yield None, value
    else:
        yield from enumerate(value)


def _spread(texts: list[str]) -> list[tuple[int, Finding]]:
    """Texts that are harmless alone and hold an order together: their places, and what they are part of."""
    left = list(texts)
    found: dict[int, Finding] = {}
    for _ in range(ROUNDS):
        further = {
            place: finding
            for touched, finding in _joint(left)
            for place in _needed(left, touched)
            if place not in found
        }
        if not further:
            break
        found.update(further)
        for place in further:
            left[place] = MARK
    else:
        for touched, finding in _joint(left):
            found.update(dict.fromkeys(touched, finding))
    return list(found.items())


def _joint(texts: list[str]) -> Iterator[tuple[list[int], Finding]]:
    """The orders that several texts make together, and the places of these."""
    if len(texts) < 2:
        return
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    for finding in inspect("\n".join(texts)).findings:
        touched = [
            place
            for place, text in enumerate(texts)
            if text != MARK and finding.start < starts[place] + len(text) and finding.end > starts[place]
        ]
        if finding.removed and len(touched) > 1:
            yield touched, finding


def _needed(texts: list[str], touched: list[int]) -> list[int]:
    """The places without those that add nothing to the order: harmless tags between guilty ones."""
    needed, evidence = touched, _evidence(texts, touched)
    for place in touched[:_FEW]:
        rest = [other for other in needed if other != place]
        if len(rest) > 1 and _evidence(texts, rest) >= evidence:
            needed = rest
    return needed


def _evidence(texts: list[str], places: list[int]) -> set[str]:
    """What is found in some of the texts together, but for how it is worded."""
    findings = inspect("\n".join(texts[place] for place in places)).findings
    return {reason for finding in findings for reason in finding.reason.split("; ")} - {WORDED}


def _look(text: str, depth: int = 0) -> list[Finding]:
    """What one look at a text finds."""
    if not text or text.isspace():
        return []
    plain = normalise(text)
    found = [_placed(charge, plain, text) for charge in _charges(plain, text)]
    for markup in find_markup(plain.text):
        found.append(
            Finding(markup.kind, *plain.span(markup.start, markup.end), markup.reason, markup.removed)
        )
    found += _turned(plain)
    if depth < _WITHIN:
        for hidden in encoded_passages(text):
            inner = [finding for finding in _look(hidden.text, depth + 1) if finding.removed]
            if inner:
                reason = f"{inner[0].reason} (in {hidden.how})"
                found.append(Finding(inner[0].kind, hidden.start, hidden.end, reason))
    return found


def _charges(plain: Normalised, text: str) -> list[Charge]:
    """What is charged against a text, given as it is and normalised."""
    # Compiling the rules takes a third of a second, which a process that inspects nothing does not owe.
    from memoryhub.security.prompt_injection.detector import judge
    from memoryhub.security.prompt_injection.tokens import read

    return judge(plain.text, read(plain, text))


def _placed(charge: Charge, plain: Normalised, text: str) -> Finding:
    start, end = plain.span(charge.start, charge.end)
    return Finding(charge.kind, start, _closed(text, start, end), "; ".join(charge.evidence))


def _closed(text: str, start: int, end: int) -> int:
    """The end of a sentence with its full stop, and with brackets and quotation marks that opened in it."""
    ending = _ENDING.match(text, end)
    end = ending.end() if ending else end
    while (opening := _OPENING.get(text[end : end + 1])) and text.count(opening, start, end) % 2:
        end += 1
    return end


def _turned(plain: Normalised) -> Iterator[Finding]:
    """Orders in rot13, or written backwards."""
    size = len(plain.text)
    turned = rot13(plain.text)
    if turned:
        for charge in _charges(Normalised(turned), turned):
            yield Finding(
                charge.kind, *plain.span(charge.start, charge.end), f"{charge.evidence[0]} (in rot13)"
            )
    turned = backwards(plain.text)
    if turned:
        for charge in _charges(Normalised(turned), turned):
            place = plain.span(size - charge.end, size - charge.start)
            yield Finding(charge.kind, *place, f"{charge.evidence[0]} (written backwards)")


def _united(findings: list[Finding]) -> list[Finding]:
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


def _redacted(text: str, findings: list[Finding]) -> tuple[str, list[int]]:
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
        pieces.append(MARK if marked else text[finding.start : finding.end].translate(_HARMLESS))
        origin.extend([finding.start] * len(MARK) if marked else range(finding.start, finding.end))
    pieces.append(text[position:])
    origin.extend(range(position, len(text) + 1))
    return "".join(pieces), origin


def _moved(finding: Finding, origin: list[int]) -> Finding:
    """A finding in the cleaned text, as a place in the text it came from."""
    start, end = origin[finding.start], origin[finding.end]
    return Finding(finding.kind, start, max(end, start + 1), finding.reason, finding.removed)


def _nothing_left(clean: str, findings: list[Finding]) -> bool:
    """Whether hardly a word is left beside the marks."""
    if not any(finding.removed for finding in findings):
        return False
    return len(_WORD.findall(clean.replace(MARK, " "))) < 3
