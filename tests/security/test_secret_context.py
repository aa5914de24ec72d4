"""Credentials without a ``=`` before them, and what stands in the same places and is none."""

from __future__ import annotations

import random

import pytest

from memoryhub.security.secrets import REDACTED, find_secrets, redact
from tools.secret_examples import fill

CREDENTIALS = {
    "a database's command": "sqlcmd -S db -U sa -P 'k7T{a12}' -Q 'select 1'",
    "a cache's command": "redis-cli -h cache -a k7T{a20} ping",
    "a directory's command": "ldapsearch -D cn=admin -w k7T{a12} -b dc=shop",
    "a broker's command": "mosquitto_pub -h broker -u dev -P k7T{a12} -t x -m y",
    "a password that is piped in": "echo 'k7T{a16}' | docker login -u ci --password-stdin",
    "a passphrase": "gpg --batch --passphrase k7T{a14} -d x.gpg",
    "SQL": "CREATE USER 'app'@'%' IDENTIFIED BY 'k7T{a12}';",
    "a third argument": "mysqli_connect('db', 'app', 'k7T{a12}', 'shop');",
    "a pair in a call": "requests.get(url, auth=('admin', 'k7T{a12}'))",
    "a client's first argument": 'co = cohere.Client("k7T{a37}")',
    "a line of settings": "requirepass k7T{a20}",
    "a line of a Dockerfile": "ENV DB_PASSWORD k7T{a14}",
    "a line of a password file": "db.internal:5432:shop:app:k7T{a14}",
    "a token in a repository's address": "git remote add o https://{h38}a1@github.com/o/r.git",
    "a key in a node's address": "https://mainnet.infura.io/v3/{h31}a",
    "a bot in an address": "https://api.telegram.org/bot{d10}:A¦A{w33}/sendMessage",
    "a key of a key set": '{"kty":"EC","crv":"P-256","x":"{w43}","d":"{w43}"}',
    "a UUID that is named a token": "RAILWAY_TOKEN={uuid}",
    "a UUID in a header": "Authorization: Splunk {uuid}",
    "a key in prose": "the lokalise api key is {a31}7",
    "a key some words later": "The API key for the weather service is `{h32}`.",
    "a password that was changed": "I changed the root password to uIojhL7MPwhS8x yesterday",
    "bold letters": "**Password:** `k7T{a12}`",
    "another alphabet": "пароль: k7T{a12}",
    "another language": "Passwort: k7T{a12}",
    "a pair": "Credentials: admin / ZFvmj5zx6ni3",
    "a name that goes on": "secret_key_base: {h128}",
    "a phrase of words": 'mnemonic = "' + "abandon ability able about " * 2 + 'above absent absorb abstract"',
    "an issuer since 2024": "the sandbox uses e2¦b_{h40}",
}
NO_CREDENTIALS = (
    'redis-cli -a "$REDISCLI_AUTH" info',
    "sqlcmd -S db -U sa -P $SA_PASSWORD",
    'echo "$PASSWORD" | docker login -u ada --password-stdin',
    "CREATE USER 'app'@'%' IDENTIFIED BY 'password';",
    'auth=("user", "password")',
    'stripe.Customer.retrieve("cus_{a14}")',
    "requirepass foobared",
    "ENV DB_PASSWORD_FILE /run/secrets/db",
    "localhost:5432:*:postgres:postgres",
    "https://mainnet.infura.io/v3/YOUR-PROJECT-ID",
    '{"kty":"RSA","n":"{w340}","e":"AQAB"}',
    "IDEMPOTENCY_KEY={uuid}",
    "session_token: {uuid}",
    "next page token: {h32}",
    "the primary key is {uuid}",
    '"hashed_secret": "{h40}"',
    "The token refactoring landed in {h40}.",
    "The secret manager returned version {h32} of shop-db.",
    "Reset the password to PBKDF2-SHA256 on next login.",
    "We changed the password to OAuth2Token in release 4.",
    "пароль: смотри в менеджере паролей",
    "Credentials: admin / admin",
    "app password: that must have been sent last week",
    'mnemonic = "left as an exercise"',
    r"username = request.form[\"username\"]\n        password = request.form[\"password\"]\n",
)


def filled(template: str) -> str:
    return fill(template, random.Random(template))


@pytest.mark.parametrize("where", CREDENTIALS)
def test_a_credential_is_found_and_removed_wherever_it_stands(where: str) -> None:
    text = filled(CREDENTIALS[where])
    assert find_secrets(text)
    assert REDACTED in redact(text)
    assert find_secrets(redact(text)) == []


@pytest.mark.parametrize("template", NO_CREDENTIALS)
def test_what_opens_nothing_passes_in_the_same_places(template: str) -> None:
    assert find_secrets(filled(template)) == []


def test_private_keys_without_an_end_do_not_cost_a_square() -> None:
    text = "-----BEGIN A " + "PRIVATE KEY-----\n"
    assert redact("before\n" + text * 3) == f"before\n{REDACTED}"
    assert len(find_secrets(text * 20_000)) == 1
