# ruff: noqa: E501 tables are easier read unbroken
"""Values without a mark of their own, known by what stands before them: a service's name and a sign.

Half of the well-known services give out plain hexadecimal or base 62. The text is read from its values
backwards: a run of signs that chance seems to have written is found first, then what it is called. So the
time grows with the text's length, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memoryhub.encoding.secrets.budget import Budget
from memoryhub.encoding.secrets.services import SERVICES
from memoryhub.encoding.secrets.values import HEX, UUID, is_random, is_reference

_LOOK_BACK = 90  # characters before a value in which its service is named
_RUN = re.compile(r"(?<![\w+/.~-])[\w+/.~:-]{14,300}={0,3}(?![\w+/~-])", re.ASCII)
_LEAD = re.compile(r"[A-Za-z_]\w{0,40}:{1,2}(?=\S{14})")  # a name within the run: `key:value`
# Issuers that no table knows yet follow the fashion: `acme_live_…`, `acme_secret_…`, `sk-acme-…`.
_FASHION = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9]{1,11}[_-]){0,2}"
    r"(?:sk|key|secret|token|pat|api|live|prod|auth|oauth|access|priv(?:ate)?)[_-](?:[a-z0-9]{1,6}[_-])?"
    r"(?P<body>[A-Za-z0-9_-]{20,200})",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+\d{0,2}|[A-Z]+(?![a-z])|\d+")
_BINDER = re.compile(r"(?:=>|[=:>,|]|\bis|----)[\s\"'`\\(\[{]{0,12}$")
_OPEN = " \t\r\n\"'`\\([{<"
_KEYED = frozenset(
    "key keys apikey token tokens secret secrets password passwd pass passcode pwd auth authtoken authorization"
    " credential credentials cred creds crumb licence license signature sig access pat dsn bearer cookie".split()
)
# What is named so is long and looks like chance, and opens nothing.
_HARMLESS = frozenset(
    "id ids uid uuid guid sha sha1 sha256 sha512 md5 hash hashes digest checksum etag commit commits rev revision ref"
    " fingerprint thumbprint integrity version build release tag branch trace span request cursor page nonce"
    " csrf public pub path file filename url uri host name endpoint bucket region image layer blob object"
    " dataset run job pipeline account project org organization tenant app application".split()
)


class Near(NamedTuple):
    """A value, where it stands, and whose it is."""

    kind: str
    start: int
    end: int


def find_near(text: str, budget: Budget) -> Iterator[Near]:
    """Credentials that are known by the service which is named just before them."""
    for run in _RUN.finditer(text):
        start, value = run.start(), run[0]
        budget.spend(len(value))
        if lead := _LEAD.match(value):
            start, value = start + lead.end(), value[lead.end() :]
        value = value.rstrip(".:")
        if _could_open(value):
            before = text[max(0, start - _LOOK_BACK) : start]
            if service := _service(before, value):
                yield Near(f"{service} key", start, start + len(value))
            elif _is_fashioned(value):
                yield Near("token", start, start + len(value))


def _could_open(value: str) -> bool:
    if UUID.fullmatch(value):
        return True
    plain = value.replace("-", "").replace(":", "")
    if HEX.fullmatch(plain):
        return len(plain) >= 20 and len(set(plain)) >= 8
    return not is_reference(value) and is_random(value)


def _is_fashioned(value: str) -> bool:
    match = _FASHION.fullmatch(value)
    if not match or UUID.fullmatch(match["body"]):
        return False
    body = match["body"]
    if HEX.fullmatch(body):
        return len(body) >= 32
    return is_random(body) and any(c.isdigit() for c in body) and "__" not in body and "--" not in body


def _service(before: str, value: str) -> str:
    """The service whose credential the value is, by what is said before it; empty for none."""
    bound = bool(_BINDER.search(before))
    said = before.rstrip(_OPEN + "=>:,|-?").rpartition("\n\n")[2]
    words = [word.lower() for word in _WORD.findall(said)]
    if not words:
        return ""
    service = next((SERVICES[name] for name in _names(words) if name in SERVICES), "")
    if not service:
        return ""
    near = words[-4:]
    keyed = not _KEYED.isdisjoint(near)
    if (words[-1] in _HARMLESS and (words[-1] != "id" or "key" not in near[-2:])) or (
        not keyed and not _HARMLESS.isdisjoint(near)
    ):
        return ""
    if UUID.fullmatch(value) or HEX.fullmatch(value):
        return service if keyed and (bound or words[-1] in _KEYED) else ""
    return service if (bound and keyed) or (bound and len(words) <= 3) or words[-1] in _KEYED else ""


def _names(words: list[str]) -> Iterator[str]:
    """Each word, and each with the one after it: `new relic`, `launchDarkly`; the nearest first."""
    for at in range(len(words) - 1, -1, -1):
        yield words[at]
        if at:
            yield words[at - 1] + words[at]
