"""Credential names with a separator and a value: secrets, placeholders and words."""

from __future__ import annotations

import pytest

from memoryhub.security.secrets import REDACTED, find_secrets, redact

from .test_secret_detector import fill_reproducibly

SECRETS = (
    "secret = abcdefghijklmnopqrstuvwxyz",
    "token = 0123456789abcdef0123",
    "passwd: sunshine42",
    "password is hunter2024",
    "the password is q1w2e3r4",
    "The default password is 'blooberry'",
    "pwd=letmein99",
    "pw: kite7lamp",
    "smtp_pass = kite7lamp",
    "creds = deploy:kite7lamp",
    'password = "swordfish"',
    "password => 'thisismypassword'",
    'db_pass := "m{{h}o)p${e]nob(ody[f>-_$#one}}"',
    "access_token = {h16}",
    "api_key: {b24}",
    "SESSION_TOKEN=/{b80}",
    "user.set_password('kite7lamp!')",
    "token = 0123456789abcdef",
    "access_key=1234567890abcdef",
    "GH_TOKEN=abcdef1234567890",
    "pass: kite7lamp3",
    "the password for the database is: kite7lamp3",
    "The password for staging is sunshine42.",
    "password (production): kite7lamp3",
    "Das Passwort ist kite7lamp3",
    "Das Passwort für die Datenbank lautet **kite7lamp3**",
    "hmac_key = {h16}",
    "| password | kV9xmQ2!Lw7 |",
    "password → kV9xmQ2!Lw7",
    "use kV9xmQ2!Lw7 as the password",
    "log in with user admin and password kV9xmQ2!Lw7",
    "tool --user a --password kV9xmQ2!Lw7",
    "htpasswd -b users.txt admin kV9xmQ2!Lw7",
    'creds = ("admin", "kV9xmQ2!Lw7")',
)
OTHERS = (
    "| password | a hash of 12 characters |",
    "password → hashed with argon2id",
    "use a long sentence as the password",
    "log in with user admin and password authentication",
    "tool --user a --password $PASSWORD",
    "tool --password-file /run/secrets/a1",
    "htpasswd -b users.txt admin <password>",
    'creds = ("user", "password")',
    "token = <your-token>",
    "token = xxxx",
    "token = xxxxxxxxxxxx",
    "secret = changeme",
    "token = ${TOKEN}",
    "token = $TOKEN_OF_CI",
    "api_key = example",
    "password = example123",
    'password = "{{ vault_password }}"',
    'password: "required"',
    "password: required",
    "the password is incorrect",
    "the password is argon2id hashed",
    "secret = generateSecret()",
    "token: authenticated",
    "password=password, token=token",
    '["username", "password", "repository"]',
    'password: "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"',
    "next page token: {h32}",
    "primary_key = {h16}",
    "creds = load_credentials(path)",
    "token = 0000000000000000",
    "pass: 20241012",
    "pass: formatted",
    "the password for the database is in the vault2024 folder",
    "The password for new users is generated",
    "the password of users is argon2id-hashed",
    "password for the login: 2FA-protected",
    "password for user: database42",
    "password (optional): passphrase1",
    "Das Passwort ist abgelaufen",
)


@pytest.mark.parametrize("template", SECRETS)
def test_value_with_a_telling_name_is_refused(template: str) -> None:
    text = fill_reproducibly(template)
    assert find_secrets(f"first\n{text}\nlast")
    assert REDACTED in redact(text)
    assert find_secrets(redact(text)) == []


@pytest.mark.parametrize("template", OTHERS)
def test_placeholder_or_word_is_not_refused(template: str) -> None:
    assert find_secrets(fill_reproducibly(template)) == []


BODY = "MIIEpAIBAAKCAQEA" + "{b48}\n{b64}\n{b64}"


@pytest.mark.parametrize(
    "template",
    [
        f"before\n{BODY}\nafter",
        f"before\n# -----BEGIN RSA PRI¦VATE KEY-----\n# {BODY}\n# -----END RSA PRIVATE KEY-----\nafter",
        'before\n"-----BEGIN RSA PRI¦VATE KEY-----\\n" +\n"'
        + BODY
        + '"\n-----END RSA PRIVATE KEY-----\nafter',
    ],
)
def test_all_lines_of_a_private_key_are_removed(template: str) -> None:
    text = fill_reproducibly(template)
    removed = redact(text)
    assert removed.startswith("before\n")
    assert removed.endswith("after")
    assert [line for line in text.split("\n") if len(line) > 50 and line in removed] == []


@pytest.mark.parametrize("signature", ["", ".", ".{w43}"])
def test_token_without_or_with_a_signature_is_found(signature: str) -> None:
    text = fill_reproducibly("{unsigned}" + signature)
    assert [found.kind for found in find_secrets(text)] == ["JSON Web Token"]


@pytest.mark.parametrize(
    ("near", "far"),
    [("sumo: su{a10}7Q", "su{a10}7Q"), ("artifactory AP5{a20}7Q", "AP5{a20}7Q")],
)
def test_value_with_a_short_prefix_counts_near_its_issuer(near: str, far: str) -> None:
    assert find_secrets(fill_reproducibly(near))
    assert find_secrets(fill_reproducibly(far)) == []
