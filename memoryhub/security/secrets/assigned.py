# ruff: noqa: E501 tables are easier read unbroken
"""``password = …`` and its like: a telling name before a value that no person would write as a placeholder."""

from __future__ import annotations

import re

from memoryhub.security.secrets.patterns import Rule, rule
from memoryhub.security.secrets.values import (
    CAMEL_WORDS,
    HEX,
    UUID,
    classes,
    entropy,
    is_no_word,
    is_random,
    is_reference,
    is_scrambled,
    is_stand_in,
)

ANY = "password or key"
_SIGN = re.compile(r"[!$%^&*?+~#@]")  # where hyphens and dots only join words
_AMID = re.compile(r"\w[!$%^&*?#@](?:\w|$)")
_JOINT = re.compile(r"[-_.]")
# The end of a name, by which it is found; what must or may stand before it is looked at afterwards, for a
# pattern that begins with so many prefixes would be tried at every letter.
_NAMES = (
    r"pass(?:word|wd|[_-]?phrase|code|wort)?|pwd|psk|contrase(?:n|ñ)a|secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|key|token|credentials?|crumb|bearer|pat"
)
_BEFORE_KEY = re.compile(
    r"(?:api|access|auth|private|preshared|signing|encryption|master|licen[cs]e|shared|subscription|account"
    r"|service|app|application|consumer|admin|write|server|webhook|deploy|security|bot|user|project|team"
    r"|integration|management|secret|storage|session|provisionDevice|priv|wi-?fi|wlan)[ _-]?$",
    re.IGNORECASE,
)
_BEFORE_TOKEN = re.compile(r"[A-Za-z][_-]?$")
_BEFORE_PAT = re.compile(r"(?:dd|ci|do|ado|gh|gl)[_-]$", re.IGNORECASE)
_BEFORE_PASS = re.compile(r"[_-]$|[a-z]$")
# Names of keys that open nothing, and of tokens that are a place or a number.
_HARMLESS_KEY = re.compile(
    r"(?:public|pub|cache|primary|foreign|partition|sort|range|query|object|s3|host|idempotency|hash|row|dedupe"
    r"|lookup|group|map|site|publishable|index|i18n|storage|blob|file|upload|image|trace|redis|lock|message"
    r"|routing|event|translation|record|item|content|sha|etag|anon)[_-]?$",
    re.IGNORECASE,
)
HARMLESS_TOKEN = re.compile(
    r"(?:csrf|xsrf|page|cursor|sync|continuation|cancell?ation|session|request|push|device|invite|resume"
    r"|idempotency|correlation|next|delta|state|trace|span|client|transaction)[ _-]?$",
    re.IGNORECASE,
)
_BEFORE_UUID = re.compile(r"(?:api|access|auth|secret|private|admin)[_-]?$", re.IGNORECASE)
_HASHED = re.compile(r"(?:hash|hashed|encrypted|salted)[_-]?$", re.IGNORECASE)
# What may stand between the name and the sign: `_V2`, `_PROD`, a type, an index of a mapping.
_TAIL = r"(?:[_-]?(?:v?\d|prod(?:uction)?|live|dev|staging|value|b64|base64|base|private))?"
_ASSIGNED = (
    rf"(?P<name>{_NAMES}){_TAIL}(?:\\?[\"'`]|\*\*)?\]?(?:[ \t]?:[ \t]?\w{{1,20}}|[ \t]string)?"
    r"(?P<sep>[ \t]{0,20}(?:=>|[:?]{0,3}=|={2,3}|:{1,2}|[ \t](?:is|to):?[ \t]|\|\||-{4,})[ \t]{0,20})(?:\*\*[ \t]{0,3})?"
    r"(?:[rbuf]{0,2}(?P<quote>\\?[\"'`]{1,3}))?(?P<value>[^\s\"'`,;]{8,300})"
)
# `define('DB_PASSWORD', '…')`, `setProperty("TOKEN", "…")`, `"key" value="…"`, `<Token>…</Token>`
_GIVEN = (
    rf"(?P<name>{_NAMES}){_TAIL}(?P<sep>[\"'][ \t]{{0,5}}(?:,|value[ \t]{{0,5}}=)|>)\s{{0,20}}"
    r"(?P<quote>[\"']{0,3})(?P<value>[^\s\"'`,;<]{8,300})"
)
# `password 'ada'`, as build files have it; without quotes it would be prose.
_SPOKEN = (
    r"(?P<name>pass(?:word|wd|phrase))(?P<sep>[ \t]{1,10})(?P<quote>[\"'])(?P<value>[^\s\"'`,;<]{8,300})"
)
# A hint with a literal beginning is found ten times faster than names in any case.
_ROOTS = ("pass", "pwd", "psk", "secret", "key", "token", "contrase", "credential", "pat", "crumb", "bearer")
_SUFFIX = (
    r"(?:word|wd|[_-]?phrase|code|wort|(?:n|ñ)a|s|[_-]?key|[_-]?access[_-]?key|[_-]token)?"
    r"(?:[_-]?(?:v?\d|prod(?:uction)?|live|dev|staging|value|b64|base64|base|private))?(?:\\?[\"'`]|\*\*)?\]?"
    r"(?:[ \t]?:[ \t]?\w{1,20}|[ \t]string)?(?:[ \t]{0,20}(?:[:=?|]|is[: ]|to[: ]|----)|[ \t]{0,5},|[ \t]{1,5}(?:value|[\"'])|>)"
)


def _name(match: re.Match[str]) -> str:
    """The whole name in small letters; empty for one that names no credential, like ``primary_key``."""
    end, start = match["name"], match.start("name")
    before, low = match.string[max(0, start - 24) : start], end.lower()
    if _HASHED.search(before):
        return ""
    if low == "key":
        return "api_key" if _BEFORE_KEY.search(before) else _other_key(before, end)
    if low == "pat":
        return low if _BEFORE_PAT.search(before) else ""
    if low == "pass":
        hyphened = before.endswith(("_", "-", "$"))
        return low if hyphened or (end == "Pass" and _BEFORE_PASS.search(before)) else ""
    if low == "token":
        return "some_token" if _BEFORE_TOKEN.search(before) else low
    return low


def _other_key(before: str, end: str) -> str:
    """``some_key`` for a key that only its value can tell: ``acmeKey``, ``ACME_KEY``."""
    joined = (end == "Key" and before[-1:].isalnum()) or before.endswith(("_", "-"))
    return "some_key" if joined and not _HARMLESS_KEY.search(before) else ""


def _opens_with_uuid(match: re.Match[str], name: str) -> bool:
    """Whether a name says that its UUID is a credential, and no id."""
    before = match.string[max(0, match.start("name") - 24) : match.start("name")]
    if name == "api_key":
        return bool(_BEFORE_UUID.search(before))
    if name == "some_token":
        return not HARMLESS_TOKEN.search(before)
    return name.startswith(("secret", "pass"))


def _assigned(match: re.Match[str]) -> bool:
    """``name = value`` with a value that could open something."""
    value, name = match["value"].rstrip(".!?:\\") or "-", _name(match)
    quoted = bool(match["quote"])
    if not name or len(value) < 8 or is_stand_in(value):
        return False
    if UUID.fullmatch(value):
        return _opens_with_uuid(match, name)
    if name == "some_key" and not (quoted and len(value) >= 32 and not HEX.fullmatch(value)):
        return False
    return not is_reference(value) and _could_open(match, name, value)


def _could_open(match: re.Match[str], name: str, value: str) -> bool:
    """Whether the value is more than the name of one: by its signs, its length and what it is assigned with."""
    quoted = bool(match["quote"])
    if not quoted and re.search(r"[()\[\]{}<>|]|::", value):
        return False  # code: a call, an index, a type
    of_password = name.startswith(("pass", "contrase")) or name == "pwd"
    made_up = classes(match["value"]) == 4 and bool(_SIGN.search(match["value"]))
    chosen = of_password and (quoted or made_up or "=" in match["sep"])  # words may be a password
    said = match["sep"].strip(" \t:")
    if (said in ("is", "to") and not (of_password or _is_long_chance(value))) or (
        said == "to" and not is_scrambled(value)
    ):
        return False  # prose about tokens and keys, or about changing a password to something
    if not chosen and CAMEL_WORDS.fullmatch(value) and not is_random(value):
        return False
    if HEX.fullmatch(value):
        return not of_password and name != "token" and len(value) >= 32 and entropy(value) > 3
    if not any(c.isdigit() for c in value) or not any(c.isalpha() for c in value):
        spiked = is_scrambled(value) or _AMID.search(value)
        return (len(value) >= 24 and is_random(value)) or bool(chosen and quoted and spiked)
    return entropy(value) >= 2.5 and (classes(value) >= 3 or len(value) >= (10 if chosen else 16))


def _is_long_chance(value: str) -> bool:
    """Twenty signs or more that chance wrote, in letters and digits, and no word joined to others."""
    if any(len(part) >= 5 and part.isalpha() and not is_no_word(part) for part in _JOINT.split(value)):
        return False
    if HEX.fullmatch(value):
        return len(value) >= 32 and entropy(value) > 3
    return len(value) >= 20 and any(c.isdigit() for c in value) and is_random(value)


def _is_named(match: re.Match[str]) -> bool:
    return bool(_name(match))


ASSIGNED: tuple[Rule, ...] = tuple(
    rule(
        ANY,
        " ".join(_ROOTS),
        pattern,
        _assigned,
        *(root + _SUFFIX for root in _ROOTS),
        flags=re.IGNORECASE,
        plausible=_is_named,
    )
    for pattern in (_ASSIGNED, _GIVEN, _SPOKEN)
)
