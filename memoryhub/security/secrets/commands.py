# ruff: noqa: E501 a pattern is easier read unbroken
"""Credentials in commands, calls, lines of settings and prose, where no ``=`` stands before them."""

from __future__ import annotations

import re

from memoryhub.security.secrets.assigned import HARMLESS_TOKEN
from memoryhub.security.secrets.connections import is_argument, is_meant_with_digits, is_mixed
from memoryhub.security.secrets.patterns import Rule, any_match, has_variety, rule
from memoryhub.security.secrets.values import (
    HEX,
    UUID,
    classes,
    is_random,
    is_reference,
    is_scrambled,
    is_stand_in,
)

_VALUE = r"[\"']?(?P<value>[^\s\"'$<-][^\s\"'<]{5,200})"
_CONSONANTS_ALONE = re.compile(r"(?<![a-z])[bcdfghjklmnpqrstvwxz]{4}(?![a-z])")


def _argument_of_a_client(match: re.Match[str]) -> bool:
    return is_mixed(match) and not is_reference(match["value"])


def _of_a_web_key(match: re.Match[str]) -> bool:
    """``d`` and ``k`` are private in a JSON Web Key, which says its ``kty`` nearby."""
    return '"kty"' in match.string[max(0, match.start() - 3000) : match.end() + 3000]


def _made_up(match: re.Match[str]) -> bool:
    """A password that nobody would write as a word: three sorts of signs, in no usual order."""
    value = match["value"].rstrip(".!?)")
    if len(value) < 8 or is_stand_in(value) or is_reference(value):
        return False
    return any(c.isdigit() for c in value) and classes(value) >= 3


def _scrambled(match: re.Match[str]) -> bool:
    return _made_up(match) and (is_scrambled(match["value"]) or classes(match["value"]) == 4)


def _told(match: re.Match[str]) -> bool:
    """A long value of chance not far behind the word for it; hexadecimal only close to it, for commits are named so."""
    value, between = match["value"], match["between"].strip()
    before = match.string[max(0, match.start() - 24) : match.start()]
    if is_stand_in(value) or UUID.fullmatch(value) or HARMLESS_TOKEN.search(before):
        return False
    if HEX.fullmatch(value):
        return len(value) >= 32 and len(set(value)) >= 8 and (not between or between.endswith("is"))
    return (
        not is_reference(value) and classes(value) >= 3 and is_random(value) and any(map(str.isdigit, value))
    )


def _no_words(match: re.Match[str]) -> bool:
    return _CONSONANTS_ALONE.search(match["value"]) is not None


_COMMANDS = (
    (r"\b(?:sqlcmd|bcp|mosquitto_[ps]ub|zip)\b[^\n]{0,160}?[ \t]-P[ \t]{0,3}", "sqlcmd bcp mosquitto_ zip"),
    (r"\bldap(?:search|add|modify|delete|passwd|whoami)\b[^\n]{0,160}?[ \t]-w[ \t]{1,3}", "ldap"),
    (r"\bredis-cli\b[^\n]{0,160}?[ \t](?:-a|--pass)[ \t]{1,3}", "redis-cli"),
    (r"(?<![\w/.])https?[ \t]{1,3}(?:-a|--auth)[ \t=]{1,3}[\w.@-]{1,60}:", "http", r"https?[ \t]{1,3}-"),
    (r"\bsqlplus[ \t]{1,3}(?:-\w{1,2}[ \t]{1,3})?[\w$#]{1,60}/(?=[^\s/]{5,60}@)", "sqlplus"),
    (r"\bnet use\b[^\n]{0,100}/user:\S{1,60}[ \t]{1,3}", "/user:"),
    (r"[ \t]--passphrase[= \t]{1,3}", "--passphrase"),
    (r"[ \t]-pass(?:in|out)?[ \t]{1,3}[\"']?pass:", "pass:"),
    (r"\bmc (?:alias set|config host add)[ \t]{1,3}\S{1,60}[ \t]{1,3}\S{1,200}[ \t]{1,3}\S{3,60}[ \t]{1,3}", "mc"),
    (r"(?m:^|[ \t])(?:requirepass|masterauth|bindpw|rootpw|storePassword|keyPassword)[ \t]{1,5}", "requirepass masterauth bindpw rootpw storepassword keypassword"),
    (r"(?m:^)[ \t]{0,8}(?:ENV|setenv|set -\w{1,2}|\(setq)[ \t]{1,3}[\w-]{0,40}?(?:password|passwd|pwd|secret|token|api[_-]?key|access_key)[ \t]{1,3}", "env set", r"(?:env|set\w{0,3}|set -\w{1,2})[ \t]"),
    (r"(?m:^)[\w.-]{1,80}:[56]4\d\d:[\w*-]{1,60}:[\w-]{1,60}:", ":54 :64"),
    (r"\b(?:enable|username \S{1,40}(?: privilege \d{1,2})?) (?:secret|password) [07] ", "enable username"),
)  # fmt: skip
_CALLS = (
    rule("password in a command", "sshpass docker mysql",
        r"\b(?:sshpass|docker login|mysql(?:dump)?)\b[^\n]{0,160}?[ \t]-p[ \t]?[\"'](?P<value>[^\s$\"'][^\"'\n]{4,80})[\"']",
        is_argument, r"[ \t]-p[ \t]?[\"']"),
    rule("password in a command", "password-stdin with-token passphrase-fd",
        r"\becho[ \t]{1,3}(?:-n[ \t]{1,3})?[\"']?(?P<value>[^\s\"'$<]{8,200})[\"']?[ \t]{0,3}\|[^\n|]{0,80}(?:--password-stdin|--with-token|--passphrase-fd)",
        is_meant_with_digits),
    rule("password in a call", "convertto-securestring",
        r"ConvertTo-SecureString[ \t]{1,3}(?:-String[ \t]{1,3})?[\"'](?P<value>[^\"'$\n]{6,100})[\"']", is_meant_with_digits,
        flags=re.IGNORECASE),
    rule("password in SQL", "identified",
        r"\bidentified[ \t]{1,5}(?:with[ \t]{1,3}[\w']{1,40}[ \t]{1,3})?by[ \t]{1,5}[\"'](?P<value>[^\"'\n]{5,100})[\"']",
        is_argument, r"identified[ \t]", flags=re.IGNORECASE),
    rule("password in a call", "mysqli pdo getconnection auth credentials login",
        r"(?:mysqli(?:_connect)?|new PDO|getConnection|auth[ \t]?=[ \t]?|(?:Basic|Digest)_?Auth|PasswordCredentials|\.login)"
        r"\((?:\s{0,40}[\"'][^\"'\n]{0,200}[\"']\s{0,3},){1,2}\s{0,40}[\"'](?P<value>[^\"'\n]{5,80})[\"']",
        is_argument, r"(?:mysqli|connect|pdo|getconnection|auth[ \t]?=[ \t]?|auth|credentials|login)\([\s\"']", flags=re.IGNORECASE),
    rule("key in a call", "client( api( sdk( wallet( clientv2(",
        r"(?:Client|ClientV2|Api|API|SDK|Wallet)\(\s{0,20}[\"'](?:0x)?(?P<value>[A-Za-z0-9_-]{32,200})[\"']",
        _argument_of_a_client),
    rule("Twilio auth token", "ac", r"\bAC[0-9a-f]{32}[\"']?(?:,[ \t]{0,3}|:)[\"']?(?P<value>[0-9a-f]{32})(?!\w)", any_match,
        "ac[0-9a-f]{32}"),
    rule("Algolia key", "algoliasearch(", r"algoliasearch\([\"'][A-Z0-9]{10}[\"'],\s{0,5}[\"'](?P<value>[0-9a-f]{32})"),
    rule("Weights & Biases key", "wandb", r"wandb login[ \t]{1,3}(?:--relogin[ \t]{1,3})?(?P<value>[0-9a-f]{40})"),
    rule("Cypress key", "cypress", r"cypress[^\n]{0,80}?--key[= ](?P<value>UUID|[0-9a-f]{40})"),
    rule("Cloudflare tunnel token", "cloudflared", r"cloudflared[^\n]{0,80}?(?:install|--token)[ \t]{1,3}(?P<value>eyJ[A-Za-z0-9+/=]{50,600})"),
)  # fmt: skip
_SETTINGS = (
    rule("NATS seed", "su so sa", r"(?<!\w)S[UOA][A-Z2-7]{56}(?!\w)", has_variety, *(f"{two}[a-z2-7]{{56}}" for two in ("su", "so", "sa"))),
    rule("private key", '"kty"', r"\"[dk]\"\s{0,3}:\s{0,3}\"(?P<value>[\w-]{20,2000})\"", _of_a_web_key),
    rule("private key", "openvpn static key", r"-----BEGIN OpenVPN Static key V1-----", any_match),
    rule("HashiCorp Vault unseal key", "unseal key", r"Unseal Key \d{1,2}: (?P<value>[A-Za-z0-9+/]{43,64}={0,2})"),
    rule("GitHub token", "github-oauth", r"\"github\.com\"\s{0,3}:\s{0,3}\"(?P<value>[0-9a-f]{40})\""),
    rule("Kaggle key", '"username"', r"\"username\"\s{0,3}:\s{0,3}\"[^\"\n]{1,60}\",\s{0,9}\"key\"\s{0,3}:\s{0,3}\"(?P<value>[0-9a-f]{32})\""),
    rule("npm token", "_auth", r"(?m:^)_auth\s{0,3}=\s{0,3}[\"']?(?P<value>[A-Za-z0-9+/]{16,200}={0,2})"),
    rule("Hugging Face or git token", "://", r"://(?P<value>[\w-]{20,100})@(?:[\w.-]{0,60}\.)?(?:git|bitbucket|codeberg|dev\.azure|huggingface)[\w.-]{1,60}", is_mixed),
    rule("key in a URL", "infura.io/ alchemy quiknode.pro/ make.com/",
        r"(?:infura\.io/v3/|alchemy(?:api)?\.(?:com|io)/v2/|quiknode\.pro/|hook\.\w{2,4}\.make\.com/)(?P<value>[\w-]{30,80})", is_mixed),
    rule("key in a URL", "openweathermap.org/ azurewebsites.net/",
        r"(?:openweathermap\.org/[^\s\"']{0,200}?[?&]appid|azurewebsites\.net/[^\s\"']{0,200}?[?&]code)=(?P<value>[\w/+%-]{32,120}={0,2})"),
    rule("Plex token", "x-plex-token", r"X-Plex-Token[=:][ \t]?(?P<value>[\w-]{20})"),
    rule("session cookie", "connect.sid", r"connect\.sid=s%3A(?P<value>[\w%.+/-]{40,200})"),
    rule("app password", "app password application password -u", r"(?:password|-u)[^\n]{0,40}?(?P<value>[A-Za-z0-9]{4}(?: [A-Za-z0-9]{4}){5})(?![ \w])", _scrambled, "(?: [a-z0-9]{4}){5}"),
    rule("app password", "app", r"app(?:lication)?(?:-specific)? password(?:[ \t]?[:=]| is)[ \t]{0,3}[\"'`]?(?P<value>[a-z]{4}(?:[ -][a-z]{4}){3})(?![ -]?\w)", _no_words, r"app[\w -]{0,12} password"),
    rule("seed phrase", "mnemonic seed", r"(?:mnemonic|seed(?:[ _-]?phrase)?)\w{0,10}[\"']?\s{0,3}[:=]\s{0,3}[\"'](?P<value>(?:[a-z]{3,8} ){11}(?:(?:[a-z]{3,8} ){12})?[a-z]{3,8})[\"']",
        any_match, flags=re.IGNORECASE),
)  # fmt: skip
_PROSE = (
    rule("password or key", "key token secret password",
        r"(?:api[ _-]?key|access key|secret key|token|secret|password)\b(?P<between>[^\n=:`'\"]{0,40}?)(?:[ \t]|:[ \t])[`'\"]?"
        r"(?P<value>[A-Za-z0-9+/_-]{20,200})(?![\w/+.:-])", _told,
        *(rf"{root}\b[^\n=:`'\"]{{0,40}}?[ \t][`'\"]?[a-z0-9+/_-]{{20}}" for root in ("key", "token", "secret", "password")),
        flags=re.IGNORECASE),
    rule("password", "пароль 密码 密碼 パスワード 비밀번호 mot hasło haslo senha wachtwoord lösenord losenord heslo salasana",
        r"(?:[Пп]ароль|密码|密碼|パスワード|비밀번호|[Mm]ot de passe|[Hh]as[łl]o|[Ss]enha|[Ww]achtwoord|[Ll][öo]senord|[Hh]eslo|[Ss]alasana)"
        r"[ \t]{0,3}[:：=][ \t]{0,3}[`'\"]?(?P<value>[^\s\"'`,;<]{8,100})", _made_up),
    rule("password", "credentials creds login",
        r"(?:credentials|creds|login)[ \t]?:[ \t]{1,3}[\w.@-]{2,40}[ \t]{0,2}/[ \t]{0,2}(?P<value>[^\s/,;]{8,60})", _scrambled,
        flags=re.IGNORECASE),
)  # fmt: skip

COMMANDS: tuple[Rule, ...] = (
    *(
        rule(
            "password in a command",
            markers,
            pattern + _VALUE,
            is_meant_with_digits,
            *hints,
            flags=re.IGNORECASE,
        )
        for pattern, markers, *hints in _COMMANDS
    ),
    *_CALLS,
    *_SETTINGS,
    *_PROSE,
)
