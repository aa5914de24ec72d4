"""Secrets and harmless texts, and the checks when memories and facts are stored.

Tokens are put together here, so that no file contains one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.security.secrets import REDACTED, DetectedSecret, find_secrets, redact
from tests.cases import each

_SIGNS = "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF"


def body(length: int, signs: str = _SIGNS) -> str:
    return (signs * (length // len(signs) + 1))[:length]


def b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


HEX = "0123456789abcdef"
WORD = "vK7" + "#qLm2" + "Zt9"
JWT = f"{b64(json.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{b64(json.dumps({'sub': '42'}))}.{body(43)}"
GITHUB = "gh" + "p_" + body(36)
PEM = "-----BEGIN " + "{}PRIVATE KEY-----"

POSITIVES = {
    "AWS access key id": [
        "AK" + "IA" + "IOSFODNN7EXAMPLE",
        "export AWS_ACCESS_KEY_ID=AS" + "IA" + "Q3EGRIV7ZZ2K5TML",
    ],
    "AWS secret access key": ["aws_secret_access_key = " + body(40)],
    "GitHub token": [
        *("gh" + c + "_" + body(36) for c in "pousr"),
        "github" + "_pat_" + body(22) + "_" + body(59),
    ],
    "GitLab token": ["gl" + "pat-" + body(20)],
    "Slack token": ["xo" + f"x{c}-123456789012-" + body(24) for c in "abprs"],
    "Slack webhook URL": ["https://hooks.slack" + ".com/services/T0AB12CD3/B0EF45GH6/" + body(24)],
    "Stripe key": ["sk" + "_live_" + body(24), "rk" + "_live_" + body(24)],
    "OpenAI API key": ["s" + "k-" + body(48), "s" + "k-proj-" + body(64)],
    "Anthropic API key": ["sk" + "-ant-api03-" + body(80)],
    "Google API key": ["AI" + "za" + body(35)],
    "Hugging Face token": ["h" + "f_" + body(34)],
    "npm token": ["np" + "m_" + body(36)],
    "PyPI token": ["py" + "pi-AgEIcHlwaS5vcmc" + body(70)],
    "SendGrid API key": ["S" + "G." + body(22) + "." + body(43)],
    "Twilio API key": ["twilio sid S" + "K" + body(32, HEX)],
    "Telegram bot token": ["1234567890" + ":AA" + body(33)],
    "Discord bot token": [b64("MTA4") and b64("108234567890123456") + "." + body(6) + "." + body(38)],
    "DigitalOcean token": ["do" + "p_v1_" + body(64, HEX)],
    "Azure key": ["AccountName=x;Account" + "Key=" + body(86) + "=="],
    "memoryhub token": ["m" + "h_" + body(43)],
    "private key": [
        PEM.format(kind) + "\nMIIEvQIBADANBgkqhkiG9w0"
        for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
    ],
    "JSON Web Token": [JWT],
    "URL with a password": [
        f"postgres://app:{WORD.replace('#', 'x')}@db.internal:5432/app",
        f"redis://:{WORD}@10.0.0.3:6379",
    ],
    "Authorization header": [
        "curl -H 'Authorization: Bearer " + body(40) + "'",
        "Authorization: Basic " + base64.b64encode(b"ada:" + WORD.encode()).decode(),
    ],
    "password or key": [
        f"password = {WORD}",
        f'PASSWD="{WORD}"',
        f'"api_key": "{body(32)}"',
        f"DB_PASSWORD={WORD}",
        f"DB_PASS={WORD}",
        f"the password is {WORD}, for now",
        "the password is kelp-" + "Forty7-anchor! until tomorrow",
        f"auth_token={body(32, '9f8e7d6c5b4a3021')}",
        f"client_secret: {body(32)}",
        f"token := '{body(20)}'",
        f"secret_key = '{body(32, '9f8e7d6c5b4a3021')}'",
        f'password: str = "{WORD}"',
        'pass' + 'word = "Summer' + '2024!"',
    ],
}  # fmt: skip

NEGATIVES = [
    "password = <your-password>",
    "password: ${DB_PASSWORD}",
    "api_key = xxxxxxxxxxxxxxxx",
    "password=changeme123!",
    "secret: ****************",
    'token = os.environ["GITHUB_TOKEN2"]',
    "token = getenv('TOKEN_2')",
    "api_key = None, secret = null",
    "API_KEY=OPENAI_API_KEY_2",
    "token = secrets.token_urlsafe(32)",
    "token = make_token2(user)",
    "api_key=settings.API_KEY2",
    "password: your-password-here-1",
    'password = "mypassword123"',
    "The password must have 8 characters; the token: OAuth2 or OIDC-based.",
    "Password: 8-character minimum, one digit.",
    "The password is checked in Check-Form2? Yes.",
    "The password is Config-Name-V2.",
    "The password is 12-characters long, the token is base64-encoded, the secret is AES256-GCM2-encrypted.",
    "next page token: 9f8e7d6c5b4a30219f8e7d6c5b4a3021",
    "The secret: never store plain text passwords; hash them with argon2.",
    "password_hash = '$argon2id$v=19$m=65536,t=3,p=4$" + body(22) + "'",
    "token: 550e8400-e29b-41d4-a716-446655440000",
    "key: value, key = lambda row: row.created_at2",
    "commit " + hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    "sha256:" + hashlib.sha256(b"x").hexdigest(),
    '"integrity": "sha512-' + base64.b64encode(hashlib.sha512(b"x").digest()).decode() + '"',
    "![dot](data:image/png;base64," + base64.b64encode(bytes(range(256)) * 4).decode() + ")",
    "token_file = /run/secrets/hub/token2.txt",
    "secret = ./certs/server-key2.pem",
    "postgres://user:password@localhost/db",
    "postgres://user:${PASSWORD}@localhost/db",
    "postgres://USER:<pass>@host/db",
    "http://localhost:8000/@vite/client",
    "see https://host:8443/a@b",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer mh_…",
    "Authorization: Basic authentication is off",
    "sk-" + "estimator-html-doc-container-toggleable",
    "gh" + "p_" + "x" * 36,
    "SK" + body(32, HEX),
    "ey" + "Jhbout.nothing.here-at-all-but-words",
    "We look for -----BEGIN " + "RSA PRIVATE KEY----- in dumps",
    "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0",
    "version 1.2.3.4, 192.168.0.1:8080, 12:34:56",
    "tokens = 1234567890, max_tokens: 128000, token = 12345678",
    "AKIA is the prefix of an access key id",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in POSITIVES.items() for text in texts]
)
def test_secret_is_found_with_kind_and_line(kind: str, text: str) -> None:
    assert DetectedSecret(kind, 3) in find_secrets(f"first\nsecond\n{text}\nlast")


@pytest.mark.parametrize("text", NEGATIVES)
def test_harmless_text_is_not_reported(text: str) -> None:
    assert find_secrets(text) == []


def test_each_kind_is_reported_once_per_line() -> None:
    text = f"{GITHUB} {GITHUB}\n\npassword = {WORD}\n{GITHUB}"
    assert find_secrets(text) == [("GitHub token", 1), ("password or key", 3), ("GitHub token", 4)]


def test_token_that_a_rule_found_is_not_reported_again_for_the_name_before_it() -> None:
    text = "openai token " + "sk-proj-" + "AbCdEfGh1234567890ijklMNOPqrstUVWX."
    assert find_secrets(text) == [("OpenAI API key", 1)]


def test_value_after_a_secret_that_a_rule_found_is_found() -> None:
    text = "aws " + "AKIA" + "IOSFODNN7QWERTYU:wJalrXUtnFEMIK7MDENGbPxRfiCYzQ81kLp0vXa2"
    assert redact(text) == f"aws {REDACTED}:{REDACTED}"


SECRETIVE = {
    "content": f"one\n{GITHUB}",
    "title": GITHUB,
    "subtitle": GITHUB,
    "abstract": GITHUB,
    "overview": GITHUB,
    "category": GITHUB,
    "key": GITHUB,
    "project": GITHUB,
    "session_id": GITHUB,
    "tags": ["fine", GITHUB],
    "concepts": ["fine", GITHUB],
    "aliases": ["fine", GITHUB],
    "files_read": ["a.py", f"/tmp/{GITHUB}"],
    "files_modified": ["a.py", GITHUB],
    "entities": [{"entity": "fine"}, {"entity": GITHUB}],
}


@pytest.mark.django_db
class TestStore:
    @pytest.mark.parametrize("field", SECRETIVE)
    def test_memory_is_refused_with_a_secret_in_any_field(self, actor: Actor, field: str) -> None:
        with pytest.raises(memories.SecretDetected) as refused:
            memories.create_memory(MemoryDraft(**{"content": "words", field: SECRETIVE[field]}), actor)
        assert (refused.value.field, refused.value.kind) == (field, "GitHub token")
        assert f" of {field} contains what looks like a GitHub token" in refused.value.message
        assert GITHUB not in str(refused.value)
        assert not Memory.objects.exists()
        [row] = JournalEntry.objects.all()
        assert (row.operation, row.detail["kind"], row.detail["field"]) == (
            "secret_blocked",
            "GitHub token",
            field,
        )

    @each("field", SECRETIVE)
    def test_update_is_refused_and_the_memory_stays_unchanged(
        self, remember: Callable[..., Memory], actor: Actor, field: str
    ) -> None:
        memory = remember("words")
        rows = JournalEntry.objects.count()
        with pytest.raises(memories.SecretDetected, match=f"of {field} "):
            memories.update_memory(memory.uid, MemoryPatch(**{field: SECRETIVE[field]}), actor)
        memory.refresh_from_db()
        assert (memory.content, JournalEntry.objects.count()) == ("words", rows + 1)
        row = JournalEntry.objects.first()
        assert (row.operation, row.object_id) == ("secret_blocked", memory.uid)

    def test_message_contains_line_field_and_remedy(self, actor: Actor) -> None:
        with pytest.raises(memories.SecretDetected) as refused:
            memories.create_memory(MemoryDraft(content=f"one\ntwo\n{GITHUB}"), actor)
        message = "line 3 of content contains what looks like a GitHub token; remove it and store again"
        assert refused.value.message == message

    def test_batch_stores_the_other_drafts(self, actor: Actor) -> None:
        drafts = [MemoryDraft(content=text) for text in ("one", GITHUB, "three")]
        done = memories.create_memories(drafts, actor)
        assert [type(one).__name__ for one in done] == ["StoreResult", "SecretDetected", "StoreResult"]
        assert Memory.objects.count() == 2

    def test_upsert_is_refused(self, remember: Callable[..., Memory], actor: Actor) -> None:
        memory = remember("words", key="k")
        with pytest.raises(memories.SecretDetected):
            memories.create_memory(MemoryDraft(content=GITHUB, key="k"), actor)
        memory.refresh_from_db()
        assert memory.content == "words"

    @pytest.mark.parametrize("field", ["subject", "predicate", "object", "project", "session_id"])
    def test_fact_is_refused_on_create_and_update(self, actor: Actor, field: str) -> None:
        plain: dict[str, Any] = {"subject": "a", "predicate": "is", "object": "b"}
        fact, _ = services.create_fact(FactDraft(**plain), actor)
        bad = FactDraft(**plain | {field: GITHUB})
        with pytest.raises(memories.SecretDetected, match=f"of {field} "):
            services.create_fact(bad, actor)
        with pytest.raises(memories.SecretDetected, match=f"of {field} "):
            services.update_fact(fact.uid, bad, actor)
        assert Fact.objects.get().object == "b"

    def test_setting_turns_the_check_off(self, actor: Actor, configure: Callable[..., None]) -> None:
        configure(block_secrets=False)
        assert memories.create_memory(MemoryDraft(content=GITHUB), actor).outcome == "created"


def test_redaction_removes_only_the_secret():
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    text = f"use {token} for the mirror, then run make sync"
    assert find_secrets(text)
    assert redact(text) == "use [secret removed] for the mirror, then run make sync"
    assert redact("nothing to hide here") == "nothing to hide here"


def test_redaction_removes_a_whole_private_key():
    body = "MIIEpAIBAAKCAQEA7bq" + "x9Zr" * 12
    text = f"key:\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nafter"
    assert body not in redact(text)
    assert redact(text).endswith("\nafter")
    assert body not in redact(text.partition("-----END")[0])
