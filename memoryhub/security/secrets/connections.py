# ruff: noqa: E501 a pattern is easier read unbroken
"""Passwords in URLs, connection strings, headers and commands."""

from __future__ import annotations

import json
import re

from memoryhub.security.secrets.patterns import Rule, any_match, has_variety, rule, secret_value
from memoryhub.security.secrets.values import (
    ENV_NAME,
    UUID,
    decoded,
    entropy,
    is_reference,
    is_scrambled,
    is_stand_in,
)

_ASKED_FOR = re.compile(
    r"your|example|change.?me|place.?holder|redacted|xxx|\*\*\*|\.\.\.|…|\$\{|\{\{|%\(|[<>{}]", re.IGNORECASE
)
_OPENS_A_STAND_IN = re.compile(r"[<${\[*:#@]|%(?![0-9A-Fa-f]{2})")
# What people write where a password belongs when they mean none.
_SAID = frozenset(
    "password passwd passw0rd p@ssw0rd changeit foobared pass pwd pw secret token key postgres guest hunter2 mypassword mypass foobar".split()
)


def _is_meant(value: str, user: str = "") -> bool:
    """Whether a password that stands where one belongs is one, and no word for it."""
    if len(value) < 4 or _ASKED_FOR.search(value) or _OPENS_A_STAND_IN.match(value):
        return False
    return value.lower() not in _SAID | {user.lower()} and not ENV_NAME.fullmatch(value)


def _url_password(match: re.Match[str]) -> bool:
    return _is_meant(match["value"], match["user"])


def is_pair_password(match: re.Match[str]) -> bool:
    """In a connection string nothing else than the password stands after ``Password=``."""
    value = match["value"].strip("\"' )")
    if _ASKED_FOR.search(value) or re.match(r"[<${\[*(%]", value) or len(set(value)) < 4:
        return False
    return (
        len(value) >= 5
        and value.lower() not in _SAID - {"secret", "mypassword"}
        and not ENV_NAME.fullmatch(value)
    )


def is_argument(match: re.Match[str]) -> bool:
    value = match["value"].strip("\"'")
    if not _is_meant(value) or value.startswith(("-", "/", "%", "(")) or is_stand_in(value):
        return False
    if "(" in value or re.search(r"\w\[", value):  # a call, an index
        return False
    named = re.search(r"pass|pwd|secret|token|_", value, re.IGNORECASE)  # what points at a value
    return not named and (any(not c.isalpha() for c in value) or is_scrambled(value))


def _query(match: re.Match[str]) -> bool:
    value = match["value"]
    if is_stand_in(value) or is_reference(value):
        return False
    return len(value) >= 16 and any(c.isdigit() for c in value) and entropy(value) >= 3


def _bearer(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["scheme"] and UUID.fullmatch(value):
        return not value.startswith("123e4567")  # everyone's example
    if is_stand_in(value) or is_reference(value):
        return False
    if match["scheme"].lower() == "basic":
        return b":" in decoded(value)
    return len(value) >= 12 and any(c.isdigit() for c in value) and entropy(value) >= 3


def _header(match: re.Match[str]) -> bool:
    value = match["value"]
    if is_stand_in(value) or ENV_NAME.fullmatch(value):
        return False
    return any(c.isdigit() for c in value) and entropy(value) >= 2.75


def _jwt(match: re.Match[str]) -> bool:
    try:
        header = json.loads(decoded(match["header"]))
    except ValueError:
        return False
    return isinstance(header, dict) and bool({"alg", "typ", "enc", "kid"} & header.keys())


def _hidden_jwt(match: re.Match[str]) -> bool:
    """A token that was put into base64 once more."""
    return re.match(rb"eyJ[\w-]{10}", decoded(secret_value(match))[:20]) is not None


def _hidden_pem(match: re.Match[str]) -> bool:
    return b"PRIVATE KEY" in decoded(secret_value(match)[:80])


def _hidden_text(match: re.Match[str]) -> bool:
    """A value of a Kubernetes secret: readable text in base64."""
    value = match["value"]
    plain = decoded(value)
    return (
        len(value) % 4 == 0
        and len(plain) >= 7
        and plain.strip().isascii()
        and plain.strip().decode().isprintable()
    )


def _discord(match: re.Match[str]) -> bool:
    """The first part is the bot's number."""
    return decoded(match["id"]).isdigit()


def _near_twilio(match: re.Match[str]) -> bool:
    around = match.string[max(0, match.start() - 100) : match.end() + 100].lower()
    return "twilio" in around


def is_mixed(match: re.Match[str]) -> bool:
    """Digits and letters as chance would have them: words with hyphens have few or none."""
    value = match["value"]
    digits = any(c.isdigit() for c in value)
    return has_variety(match) and digits and (not value.islower() or len(value) >= 32) and "--" not in value


def _digits(match: re.Match[str]) -> bool:
    return has_variety(match) and sum(c.isdigit() for c in match["value"]) >= 3


def is_meant_with_digits(match: re.Match[str]) -> bool:
    return (
        is_argument(match) and any(c.isdigit() for c in match["value"]) and not is_reference(match["value"])
    )


def _plain_header(match: re.Match[str]) -> bool:
    return _header(match) and not is_reference(match["value"])


_PEM = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_HOOKS = (
    ("Slack webhook URL", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[\w/+]{24,100})"),
    ("Discord webhook URL", "api/webhooks/", r"discord(?:app)?\.com/api/webhooks/(?P<value>\d{15,22}/[\w-]{50,100})"),
    ("Teams webhook URL", "/incomingwebhook/", r"office\.com/webhook\w{0,3}/[\w@-]{36,80}/IncomingWebhook/(?P<value>[0-9a-z]{32}/[\w-]{36})"),
    ("Zapier webhook URL", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/(?P<value>\d{4,12}/\w{5,20})"),
    ("Google Chat webhook URL", "chat.googleapis.com", r"chat\.googleapis\.com/v1/spaces/\S{5,40}[?&]key=[\w-]{30,50}&token=(?P<value>[\w%-]{20,80})"),
    ("Azure signature", "sig=", r"[?&;]sig=(?P<value>[\w%+/-]{40,120}(?:%3D|=){0,2})"),
    ("ThingsBoard token", "thingsboard", r"thingsboard\.cloud/api/v1/(?P<value>[a-z0-9]{20})"),
    ("TrueNAS key", "login_with_api_key", r"\"(?P<value>\d{1,4}-[A-Za-z0-9]{64})\""),
)  # fmt: skip

_KEYS = (
    rule("private key", "-----begin", rf"(?m:^)[ \t>\"']{{0,20}}{_PEM}", any_match),
    rule(
        "private key", "-----begin", rf"{_PEM}(?:\s|\\[nr]){{0,8}}(?P<value>[A-Za-z0-9+/]{{16}})", any_match
    ),
    rule("private key", "putty-user-key-file", r"PuTTY-User-Key-File-\d: \S", any_match),
    rule("private key", "ls0tls1crudj", r"(?<![\w+/])(?P<value>LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,})", _hidden_pem),
    rule(
        "JSON Web Token",
        "eyj",
        r"(?<![\w-])(?P<header>eyJ[\w-]{10,2000})\.[\w-]{4,20000}\.[\w-]{16,2000}",
        _jwt,
    ),
    rule("JSON Web Token", "zxlk", r"(?<![\w+/])(?P<value>ZXlK[A-Za-z0-9+/]{60,})", _hidden_jwt),
    rule("AWS secret access key", "aws",
        r"aws.{0,20}secret.{0,20}?[:=]{1,2}>?\s{0,5}[\"']?(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        has_variety, "aws.{0,20}secret", flags=re.IGNORECASE),
    rule("AWS secret access key", "akia asia",
        r"(?:AK|AS)IA[A-Z0-9]{16}[\"'\s,;:]{1,8}(?:[\w \t]{0,40}[=:][\"'\s]{0,6})?(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"),
    rule("Azure key", "accountkey sharedaccesskey sharedsecretvalue",
        r"(?:AccountKey|SharedAccessKey|SharedSecretValue)\s{0,3}=\s{0,3}(?P<value>[A-Za-z0-9+/]{40,100}={0,2})",
        flags=re.IGNORECASE),
    rule("Azure key", ".azconfig.io", r"\.azconfig\.io;Id=[^;\s]{5,60};Secret=(?P<value>[A-Za-z0-9+/]{36,100}={0,2})"),
    rule("Azure key", "azfu azse azca acdb aiot +ast +aeh +asb +aba +acr",
        r"(?<![\w+/-])[\w+/-]{30,90}(?:AzFu|AzSe|AzCa|ACDb|AIoT|\+ASt|\+AEh|\+ASb|\+ABa|\+ACR)[\w+/-]{4,20}={0,2}(?![\w+/-])"),
    rule("Discord bot token", ".", r"(?<![\w-])(?P<id>[MNO][\w-]{17,40})\.[\w-]{6}\.[\w-]{27,45}(?![\w-])", _discord,
        r"\.[\w-]{6}\.[\w-]{27}"),
    rule("Twilio API key", "twilio", r"(?<!\w)SK[0-9a-fA-F]{32}(?!\w)", _near_twilio),
    rule("OpenAI API key", "sk-", r"(?<![\w-])sk-(?!ant-)(?P<value>[\w-]{20,300})", is_mixed),
    rule("Anthropic API key", "sk-ant-", r"(?<![\w-])sk-ant-(?P<value>[\w-]{20,200})", is_mixed),
    rule("Slack token", "xox", r"(?<![\w-])xox[abceoprs]-(?P<value>[A-Za-z0-9-]{10,250})", is_mixed),
    rule("HashiCorp Vault token", "s. b.", r"(?<![\w.-])[sb]\.(?P<value>[A-Za-z0-9]{24})(?![\w.(-])", is_mixed),
    rule("kubeadm token", "kubeadm bootstrap", r"(?<![\w.-])(?P<value>[a-z0-9]{6}\.[a-z0-9]{16})(?![\w.-])", _digits),
)  # fmt: skip


_PLACE = r"(?:server|host|hostname|data source|database|initial catalog|provider|dsn|driver|uid|user ?id|username|user)\s{0,3}="
_USER = r"[ \t](?:-u|--user)[= \t]{1,5}"
_PASSWORDS = (
    rule("URL with a password", "://",
        r"://(?P<user>[^\s:/@\"'<>`]{0,128}):(?P<value>[^\s/@\"'<>`]{3,256})@(?=[\w\[])", _url_password),
    rule("Oracle connection string", "thin:", r"oracle:thin:(?P<user>[\w$#]{1,60})/(?P<value>[^\s@/\"']{3,100})@", _url_password),
    rule("connection string with a password", "password pwd",
        rf"{_PLACE}[^\n]{{1,300}}?;\s{{0,3}}(?:password|pwd)\s{{0,3}}=\s{{0,3}}(?P<value>[^;\s&<>|\"']{{3,100}})",
        is_pair_password, r"; {0,3}(?:password|pwd) {0,3}=", flags=re.IGNORECASE),
    rule("connection string with a password", "password pwd",
        rf"{_PLACE}[^\n]{{1,300}}?[&?:,\s\"]\s{{0,3}}(?:password|pwd)\s{{0,3}}=\s{{0,3}}(?P<value>[^;\s&<>|,\"']{{3,100}})",
        is_argument, r"[&?,:\" ](?:password|pwd) {0,3}=", flags=re.IGNORECASE),
    rule("connection string with a password", "jdbc:",
        r"jdbc:[^\s\"']{5,300}[?&;]password=(?P<value>[^\s&;\"'<>]{3,100})", is_pair_password, flags=re.IGNORECASE),
    rule("netrc password", "login", r"login\s{1,10}\S{1,100}\s{1,10}password\s{1,10}(?P<value>\S{5,200})", is_argument),
    rule("password in a call", "networkcredential directoryentry",
        r"(?:NetworkCredential|DirectoryEntry)\s{0,3}\((?:\s{0,40}\"[^\"\n]{3,100}\"\s{0,3},){1,2}\s{0,40}\"(?P<value>[^\"\n]{3,60})\"",
        is_pair_password, flags=re.IGNORECASE),
    rule("password in a command", "curl wget", rf"{_USER}[\"']?[\w.@+$-]{{0,80}}[\"']?:[\"']?(?P<value>[^\s\"']{{4,200}})",
        is_argument, r"[ \t](?:-u|--user)"),
    rule("password in a command", "curl wget", rf"{_USER}[\"'](?P<value>[^\s\"':]{{8,200}}):[\"']", is_argument, r"[ \t](?:-u|--user)"),
    rule("password in a command", "psexec viserver sshpass docker mysql net",
        r"(?:psexec|connect-viserver|sshpass|docker login|mysql(?:dump)?|net use)\b[^\n]{0,160}?[ \t](?:-p(?!assword)[= \t]{0,2}|-{1,2}password[= \t]{1,2})(?P<value>[^\s$\"'-][^\s\"']{4,80})",
        is_argument, r"[ \t]-{1,2}p", flags=re.IGNORECASE),
    rule("password in a command", "--password --token --api-key --apikey --secret -password",
        r"[ \t]-{1,2}(?:password|token|api-?key|secret(?:-key)?)[= \t][\"']?(?P<value>[^\s\"'<>]{6,300})",
        is_meant_with_digits),
)  # fmt: skip

_HEADERS = (
    rule(
        "Authorization header",
        "authorization",
        r"authorization[\"']?\s{0,5}[:=,]\s{0,5}[\"'f]{0,2}(?P<scheme>bearer|basic|token|ssws|apikey|api-key|api-token|key|splunk|bot|geniekey)[ \t:=]{1,5}"
        r"(?P<value>[\w.~+/=-]{8,4000})",
        _bearer,
        r"authorization[\"']?\s{0,5}[:=,]",
        flags=re.IGNORECASE,
    ),
    rule("bearer token", "bearer", r"\bbearer[ \t]{1,3}(?P<scheme>)(?P<value>[\w.~+/-]{20,4000}={0,2})", _bearer,
        r"bearer[ \t]{1,3}[\w.~+/-]{20}", flags=re.IGNORECASE),
    rule("key in a header", "key: token: key' token' key\" token\"",
        r"(?:(?<=[\"'\s])|^)(?:x-(?:[a-z]+-){0,3}(?:api-?)?(?:key|token)|(?:private|job|deploy)-token|api-?key|"
        r"ocp-apim-subscription-key)[\"']?\s{0,3}:\s{0,3}[\"']?(?P<value>[\w=~.+/-]{16,400})",
        _plain_header, flags=re.IGNORECASE | re.MULTILINE),
    rule("key in a header", "-h --header",
        r"(?:-H|--header)[= \t]{0,5}[\"'](?:authorization|(?:x-)?(?:[a-z]{1,20}-){0,3}(?:api-?)?(?:key|token)):[ \t]{0,5}"
        r"(?P<value>[\w=~@.+/-]{8,400})[\"']", _header, flags=re.IGNORECASE),
    rule("key in a URL", "key= token= secret= password=",
        r"[?&](?:api_?key|key|(?:access_|auth_|private_|api_)?token|(?:client_)?secret|password|app_?key|subscription-key)"
        r"=(?P<value>[\w.~%+/-]{16,400})", _query, flags=re.IGNORECASE),
    rule("npm token", ":_", r":_(?:authToken|password|auth)\s{0,3}=\s{0,3}[\"']?(?P<value>[\w+/-]{20,200}={0,2})"),
    rule("GitLab session", "_gitlab_session", r"_gitlab_session=(?P<value>[0-9a-f]{32})"),
    rule("Kubernetes secret", "data:", r"^[ \t]{1,8}[\w.-]{1,60}:[ \t]{1,5}[\"']?(?P<value>[A-Za-z0-9+/]{10,4000}={0,2})[\"']?[ \t]{0,5}$",
        _hidden_text, r"kind:[ \t]{0,5}[\"']?secret\b", flags=re.MULTILINE),
    rule("Sidekiq secret", "contribsys", r"CONTRIBSYS__COM[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?P<value>[0-9a-f]{8}:[0-9a-f]{8})"),
)  # fmt: skip

CONNECTIONS: tuple[Rule, ...] = (*(rule(*row) for row in _HOOKS), *_KEYS, *_PASSWORDS, *_HEADERS)
