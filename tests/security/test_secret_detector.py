"""The secret detector: detected and harmless texts, redaction, and linear time for any text."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.security.secrets import REDACTED, CheckTooCostly, find_secrets, redact
from tools.secret_examples import fill_template, make_examples


def fill_reproducibly(template: str) -> str:
    """Fill in the same values in every run and in every order of the tests."""
    return fill_template(template, random.Random(template))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("datadog_api_key = {h32}", "Datadog key"),
        ("our Algolia admin key is {h32}", "Algolia key"),
        ('newRelicLicenseKey: "{h40}"', "New Relic key"),
        ("HEROKU_API_KEY={uuid}", "Heroku key"),
        ("<algoliaToken>\n  {l32}\n</algoliaToken>", "Algolia key"),
    ],
)
def test_value_without_prefix_is_identified_by_the_service_before_it(text: str, kind: str) -> None:
    assert kind in [found.kind for found in find_secrets(fill_reproducibly(text))]


@pytest.mark.parametrize(
    "text",
    [
        "datadog trace id = {h32}",
        "github commit: {h40}",
        "sentry release {h40} is out",
        "heroku app id: {uuid}",
        "the key of the algolia index is its name",
        "jenkins build hash = {h40}",
    ],
)
def test_id_or_hash_next_to_a_service_is_not_reported(text: str) -> None:
    assert find_secrets(fill_reproducibly(text)) == []


def test_lines_are_reported_in_order() -> None:
    text = fill_reproducibly("one\nAuthorization: Bearer {a40}\nthree\nredis://:{a24}@cache/0")
    assert [line for _, line in find_secrets(text)] == [2, 4]


def test_search_continues_after_a_placeholder() -> None:
    text = 'secret: "api_key=' + fill_reproducibly("{a32}") + '"'
    assert find_secrets(text) != []


def test_redacted_text_contains_the_mark() -> None:
    for example in make_examples(3):
        if example.kind and find_secrets(example.text):
            assert REDACTED in redact(example.text), example.kind


def test_redacted_text_contains_no_secret() -> None:
    left = [
        (example.kind, redact(example.text))
        for example in make_examples(3)
        if example.kind and find_secrets(redact(example.text))
    ]
    assert left == []


@given(st.text(max_size=3000))
def test_any_text_can_be_checked(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for _, line in find_secrets(text))
    assert isinstance(redact(text), str)


PARTS = [
    *("A", "aB1", "password", "pass=", "secret=aB1-", "key: ", "key  =  ", "token", "token: str = "),
    *("?key=", "datadog key ", "x-api-key: ", "Authorization: bearer ", "://a:", "jdbc:x;", "server=a;"),
    *("user=", "eyJ", "eyJ.", "MMM.aaaaaa.", "-----BEGIN A ", "ghp_", "sk-", "hf_", "A3-", "curl -u a:"),
    *(" -H 'a", "a/b.c-", "login a password ", "kind: secret\n a: aaaaaaaaaaaa\n", "1:", "é", "=", "AKIA"),
    *("aws secret ", "T3Blbk", "AzFu", "xoxb-1-", "office.com/webhook/", "--password ", "\\n", "\t", "'"),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_repetition_takes_linear_time(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * (length // len(part) + 1))[:length]
        spent = []
        for _ in range(2):
            start = time.thread_time()
            with suppress(CheckTooCostly):  # some are refused
                find_secrets(text)
            spent.append(time.thread_time() - start)
        return min(spent)

    assert (
        seconds(40_000) < 16 * seconds(5_000) + 0.02
    )  # eight times the text; quadratic time would be 64 times


@pytest.mark.parametrize(
    "value", ["a" * 4000, "aB" * 2000, "a1" * 2000, "-" * 4000, "Ab_" * 1300 + "é", "A" * 200 + "1" * 9]
)
def test_long_values_are_checked_quickly(value: str) -> None:
    start = time.thread_time()
    for name in ("password", "api_key", "token", "secret"):
        find_secrets(f"{name} = '{value}'")
        find_secrets(f"{name}={value}")
    assert time.thread_time() - start < 0.5


def test_memory_of_usual_length_takes_less_than_three_milliseconds() -> None:
    whole = "\n".join(example.text for example in make_examples(5) if not example.kind)
    texts = [whole[at : at + 2000] for at in range(0, len(whole) - 2000, 2000)]
    spent = []
    for _ in range(3):
        start = time.thread_time()
        for text in texts:
            find_secrets(text)
        spent.append((time.thread_time() - start) / len(texts))
    assert min(spent) < 0.003


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


@pytest.mark.parametrize("where", CREDENTIALS)
def test_secret_is_found_and_redacted_in_any_syntax(where: str) -> None:
    text = fill_reproducibly(CREDENTIALS[where])
    assert find_secrets(text)
    assert REDACTED in redact(text)
    assert find_secrets(redact(text)) == []


@pytest.mark.parametrize("template", NO_CREDENTIALS)
def test_harmless_value_in_the_same_syntax_is_not_reported(template: str) -> None:
    assert find_secrets(fill_reproducibly(template)) == []


def test_private_keys_without_an_end_take_linear_time() -> None:
    text = "-----BEGIN A " + "PRIVATE KEY-----\n"
    assert redact("before\n" + text * 3) == f"before\n{REDACTED}"
    assert len(find_secrets(text * 20_000)) == 1
