"""Credentials in a text: which kind, on which line. Never the value itself.

Precision comes first, for what is found is refused: a rule wants a prefix that its issuer gives out, or a
name like ``password`` before a value that no person would write as a placeholder. Pure, and linear in the
text's length: every repetition that could start anew at each character is bounded, or kept from doing so by
what must stand before it. A text without any rule's marker, as most are, costs a few substring searches.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

REDACTED = "[secret removed]"
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,60}-----")


class Found(NamedTuple):
    """What a credential seems to be, and the line it begins on, from 1."""

    kind: str
    line: int


def find_secrets(text: str) -> list[Found]:
    """Every credential in the text, by line; several of one kind on one line count once."""
    low = text.lower()
    found: set[tuple[int, str]] = set()
    for rule in _rules_for(low):
        found.update((line, rule.kind) for line in _lines(rule, text))
    return [Found(kind, line) for line, kind in sorted(found)]


def redact(text: str) -> str:
    """The text with :data:`REDACTED` in the place of every credential; of a private key nothing is left."""
    spans = []
    for rule in _rules_for(text.lower()):
        for match in filter(rule.real, rule.pattern.finditer(text)):
            start, end = match.span("value" if "value" in match.re.groupindex else 0)
            if "-----BEGIN" in match[0]:
                closing = _PEM_END.search(text, end)
                end = closing.end() if closing else len(text)
            spans.append((start, end))
    pieces, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            pieces += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def _rules_for(low: str) -> Iterator[_Rule]:
    """The rules that may find something in a text, given in small letters."""
    rules = [rule for sign, pairs in _BY_SIGN if sign in low for marker, rule in pairs if marker in low]
    for rule in dict.fromkeys(rules):
        if not rule.hints or any(hint.search(low) for hint in rule.hints):
            yield rule


def _lines(rule: _Rule, text: str) -> Iterator[int]:
    """The lines on which the rule finds something real."""
    line, seen = 1, 0
    for match in rule.pattern.finditer(text):
        if rule.real(match):
            start = _start(match)
            line += text.count("\n", seen, start)
            seen = start
            yield line


def _start(match: re.Match[str]) -> int:
    """Where the value begins; the whole match when the rule names no value."""
    return match.start("value") if "value" in match.re.groupindex else match.start()


def _value(match: re.Match[str]) -> str:
    return match["value"] if "value" in match.re.groupindex else match[0]


# --- What tells a value from a stand-in ---------------------------------------------------------------------

_STAND_IN = re.compile(
    r"your|example|change.?me|place.?holder|dummy|redacted|replace|xxx|\*\*\*|\.\.\.|…|todo|foobar|lorem"
    r"|environ|getenv|process\.env|\$\{|\{\{|%\(|secrets\.|vault:|encrypted:",
    re.IGNORECASE,
)
_OPENS_A_STAND_IN = re.compile(r"[<${\[*:]|%(?![0-9A-Fa-f]{2})")
# Words that a made-up value is made of; what is left without them is what could be real.
_FILLER = re.compile(
    r"my|the|test|fake|some|secret|passw(?:or)?d|token|api|key|here|value|super|user|admin|abc|1234*5?6?7?8?9?0?",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_DIGEST = re.compile(r"(?:sha\d+|md5|blake2\w?|pbkdf2\w*|argon2\w*|bcrypt\w*|\$\w+\$)[-:$]", re.IGNORECASE)
_PATH = re.compile(r"[.~]{0,2}/|[A-Za-z]:[\\/]|https?:|[\w./-]+/[\w.-]*\.\w{1,5}$|[\w-]+\.\w{1,4}$")
_ENV_NAME = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_PLAIN_WORDS = re.compile(r"(?:(?:[a-z]+\d{0,3}|\d{1,4}|[a-z]\d[a-z])(?:[^A-Za-z0-9]+|$))+")
_SIGN = re.compile(r"[!$%^&*?+~#@]")  # where hyphens and dots only join words
_CAMEL_WORDS = re.compile(r"(?:(?:[A-Z]+|[A-Z]?[a-z]+)*\d{0,4}(?:[^A-Za-z0-9]+|$))+")


def _varied(match: re.Match[str]) -> bool:
    """Not a row of one sign, nor a value that asks to be replaced."""
    value = _value(match)
    return len(set(value)) > 8 and not re.search(r"your|x{4}|\*{3}|\.{3}", value, re.IGNORECASE)


def _mixed(match: re.Match[str]) -> bool:
    """Digits and letters as chance would have them: words with hyphens have few or none."""
    value = match["value"]
    digits = any(c.isdigit() for c in value)
    return _varied(match) and digits and (not value.islower() or len(value) >= 32) and "--" not in value


def _entropy(text: str) -> float:
    """Shannon entropy, bits for each character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _classes(text: str) -> int:
    """How many of: small letters, capitals, digits, other signs."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return sum(any(kind(c) for c in text) for kind in kinds)


def _is_stand_in(value: str) -> bool:
    if _STAND_IN.search(value) or value[0] in "<$%{[&@#":
        return True
    return len(_FILLER.sub("", value).strip("-_.!")) < 5


def _is_reference(value: str) -> bool:
    """A name, a path, a digest: something that points at a value or is made from one."""
    shapes = (_UUID, _ENV_NAME, _DOTTED, _PLAIN_WORDS)
    return any(shape.fullmatch(value) for shape in shapes) or bool(_PATH.match(value) or _DIGEST.match(value))


def _assigned(match: re.Match[str]) -> bool:
    """``name = value`` with a value that could open something."""
    value, name = match["value"].rstrip(".!?:") or "-", match["name"].lower()
    quoted = bool(match["quote"])
    if len(value) < 8 or _is_stand_in(value) or _is_reference(value):
        return False
    if not quoted and re.search(r"[()\[\]{}<>|]|::", value):
        return False  # code: a call, an index, a type
    of_password = name.startswith("pass") or name == "pwd"
    made_up = _classes(match["value"]) == 4 and bool(_SIGN.search(match["value"]))
    chosen = of_password and (quoted or made_up or "=" in match["sep"])  # words may be a password
    if "is" in match["sep"] and not of_password:
        return False  # prose about tokens and keys
    if not chosen and _CAMEL_WORDS.fullmatch(value):
        return False
    if _HEX.fullmatch(value):
        return not of_password and name != "token" and len(value) >= 32 and _entropy(value) > 3
    if not any(c.isdigit() for c in value) or not any(c.isalpha() for c in value):
        return False
    return _entropy(value) >= 2.5 and (_classes(value) >= 3 or len(value) >= (10 if chosen else 16))


def _url_password(match: re.Match[str]) -> bool:
    value, user = match["value"], match["user"]
    if _STAND_IN.search(value) or _OPENS_A_STAND_IN.match(value):
        return False
    plain = value.lower()
    said = {
        "password",
        "passwd",
        "passw0rd",
        "pass",
        "pwd",
        "pw",
        "secret",
        "token",
        "key",
        "postgres",
        "guest",
    }
    return plain not in said | {user.lower()} and not _ENV_NAME.fullmatch(value) and len(value) >= 4


def _bearer(match: re.Match[str]) -> bool:
    value = match["value"]
    if _is_stand_in(value) or _is_reference(value):
        return False
    if match["scheme"].lower() == "basic":
        return b":" in _decoded(value)
    return len(value) >= 16 and any(c.isdigit() for c in value) and _entropy(value) >= 3


def _jwt(match: re.Match[str]) -> bool:
    try:
        header = json.loads(_decoded(match["header"]))
    except ValueError:
        return False
    return isinstance(header, dict) and "alg" in header


def _discord(match: re.Match[str]) -> bool:
    """The first part is the bot's number."""
    return _decoded(match["id"]).isdigit()


def _decoded(text: str) -> bytes:
    """Of base64 in either alphabet, with or without padding; nothing when it is not base64."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""


def _near_twilio(match: re.Match[str]) -> bool:
    around = match.string[max(0, match.start() - 100) : match.end() + 100]
    return "twilio" in around.lower()


# --- The rules ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rule:
    """``markers``: in small letters, one of which every match holds; one of ``hints``, where there
    are any, is then sought in the lowered text.
    ``real`` tells a match from a stand-in.
    """

    kind: str
    markers: tuple[str, ...]
    pattern: re.Pattern[str]
    real: Callable[[re.Match[str]], bool]
    hints: tuple[re.Pattern[str], ...] = ()


def _rule(
    kind: str,
    markers: str,
    pattern: str,
    real: Callable[[re.Match[str]], bool] = _varied,
    *hints: str,
    flags: int = 0,
) -> _Rule:
    found = tuple(re.compile(hint, re.ASCII) for hint in hints)
    return _Rule(kind, tuple(markers.split()), re.compile(pattern, re.ASCII | flags), real, found)


def _issued(kind: str, markers: str, pattern: str) -> _Rule:
    """A token with its issuer's prefix, standing alone."""
    return _rule(kind, markers, rf"(?<![\w-])(?:{pattern})(?![\w-])")


_PEM = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_NAMES = (
    r"pass(?:word|wd|phrase)|(?<=[_-])pass|pwd|(?:client[_-]?|app[_-]?)?secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|(?:api|access|auth|private|signing|encryption)[_-]?key"
    r"|(?:(?:auth|access|refresh|bearer|bot|api)[_-]?)?token"
)
_ASSIGNED = (
    rf"(?P<name>{_NAMES})[\"'`]?(?:[ \t]?:[ \t]?\w{{1,20}})?"
    r"(?P<sep>[ \t]{0,20}(?:=>|:=|={1,3}|:|[ \t]is:?[ \t])[ \t]{0,20})"
    r"(?:[rbuf]{0,2}(?P<quote>[\"'`]))?(?P<value>[^\s\"'`,;]{8,300})"
)

# A hint with a literal beginning is found ten times faster than names in any case.
_ROOTS = ("pass", "pwd", "secret", "key", "token")
_SUFFIX = (
    r"(?:word|wd|phrase|[_-]?key|[_-]?access[_-]?key)?[\"'`]?"
    r"(?:[ \t]?:[ \t]?\w{1,20})?[ \t]{0,20}(?:[:=]|is[: ])"
)
_RULES = (
    _rule("AWS access key id", "akia asia", r"(?<![A-Za-z0-9+])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule(
        "AWS secret access key",
        "aws",
        r"aws.{0,20}secret.{0,20}?[:=]{1,2}>?\s{0,5}[\"']?(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        _varied,
        "aws.{0,20}secret",
        flags=re.IGNORECASE,
    ),
    _issued("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _issued("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{36,255}"),
    _issued("GitLab token", "glpat-", r"glpat-[\w.-]{20,300}"),
    _rule("Slack token", "xox", r"(?<![\w-])xox[abeprs]-(?P<value>[A-Za-z0-9-]{10,250})", _mixed),
    _rule(
        "Slack webhook URL",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[A-Z0-9]{6,20}/[\w/]{20,100})",
    ),
    _issued("Stripe key", "sk_live_ rk_live_", r"[sr]k_live_[A-Za-z0-9]{16,250}"),
    _rule("Anthropic API key", "sk-ant-", r"(?<![\w-])sk-ant-(?P<value>[\w-]{20,200})", _mixed),
    _rule("OpenAI API key", "sk-", r"(?<![\w-])sk-(?!ant-)(?P<value>[\w-]{20,300})", _mixed),
    _issued("Google API key", "aiza", r"AIza[\w-]{35}"),
    _issued("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,60}"),
    _issued("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _issued("PyPI token", "pypi-age", r"pypi-AgE[\w-]{30,300}"),
    _issued("SendGrid API key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    _rule("Twilio API key", "twilio", r"(?<!\w)SK[0-9a-f]{32}(?!\w)", _near_twilio),
    _issued("Telegram bot token", ":aa", r"\d{8,10}:AA[\w-]{33}"),
    _issued("DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _rule("Azure storage key", "accountkey", r"AccountKey\s{0,3}=\s{0,3}(?P<value>[A-Za-z0-9+/]{40,100})"),
    _issued("memoryhub token", "mh_", r"mh_[\w-]{43}"),
    _rule("private key", "-----begin", rf"(?m:^)[ \t>\"']{{0,20}}{_PEM}", lambda match: True),
    _rule(
        "private key",
        "-----begin",
        rf"{_PEM}(?:\s|\\[nr]){{0,8}}(?P<value>[A-Za-z0-9+/]{{16}})",
        lambda match: True,
    ),
    _rule(
        "JSON Web Token",
        "eyj",
        r"(?<![\w-])(?P<header>eyJ[\w-]{10,2000})\.[\w-]{4,20000}\.[\w-]{16,2000}",
        _jwt,
    ),
    _rule(
        "URL with a password",
        "://",
        r"://(?P<user>[^\s:/@\"'<>`]{0,128}):(?P<value>[^\s/@\"'<>`]{3,256})@(?=[\w\[])",
        _url_password,
    ),
    _rule(
        "Authorization header",
        "authorization",
        r"authorization[\"']?\s{0,5}[:=,]\s{0,5}[\"'f]{0,2}(?P<scheme>bearer|basic|token)\s{1,5}"
        r"(?P<value>[\w.~+/=-]{8,4000})",
        _bearer,
        r"authorization[\"']?\s{0,5}[:=,]",
        flags=re.IGNORECASE,
    ),
    _rule(
        "password or key",
        " ".join(_ROOTS),
        _ASSIGNED,
        _assigned,
        *(root + _SUFFIX for root in _ROOTS),
        flags=re.IGNORECASE,
    ),
    _rule(
        "Discord bot token",
        ".",
        r"(?<![\w-])(?P<id>[MNO][\w-]{17,40})\.[\w-]{6}\.[\w-]{27,45}(?![\w-])",
        _discord,
        r"\.[\w-]{6}\.[\w-]{27}",
    ),
)


def _by_sign() -> list[tuple[str, list[tuple[str, _Rule]]]]:
    """Markers with their rules, under a sign that these markers hold: a text without it has none of them."""
    pairs = [(marker, rule) for rule in _RULES for marker in rule.markers]
    signed: dict[str, list[tuple[str, _Rule]]] = {}
    for marker, rule in pairs:
        signed.setdefault(next((sign for sign in "_-:." if sign in marker), ""), []).append((marker, rule))
    return list(signed.items())


_BY_SIGN = _by_sign()
