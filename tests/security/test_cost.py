"""The cost of secret checks: bounded by the length of the text, and never inside a transaction."""

from __future__ import annotations

import json
import re
import re._constants as sre_constants
import re._parser as sre_parser
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.capture.events import parse_prompt
from memoryhub.extraction.deduplication import create_deduplicated
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from memoryhub.security import secrets
from memoryhub.security.secrets import UNCHECKED, CheckTooCostly, find_secrets, redact
from memoryhub.security.secrets.secret_rules import load_rules
from tests.cost import cost_ratio
from tools.secret_examples import make_examples

create = import_module("memoryhub.memories.create")
HOSTILE = "pwd=" * 2500
KEYWORDS = sorted({keyword for rule in load_rules() for keyword in rule.keywords})
ORDINARY = "\n".join(example.text for example in make_examples(5) if not example.kind)
LENGTH = 10_000
JOINTS = ["", "=", ": ", " ", "='", '"', ">", "/", "@", "\n", "a", "A1b", "; "]


def repeated(part: str, length: int = LENGTH) -> str:
    return (part * (length // len(part) + 1))[:length]


@pytest.fixture
def examined(monkeypatch) -> list[int]:
    """Count the characters of the candidates that the rules examine."""
    characters = [0]

    def counting(check):
        def count(match):
            characters[0] += match.end() - match.start()
            return check(match)

        return count

    for rule in load_rules():
        monkeypatch.setitem(rule.__dict__, "check", counting(rule.check))
    return characters


def scan(text: str) -> None:
    with suppress(CheckTooCostly):
        find_secrets(text)


@pytest.mark.parametrize("part", ["password=", "pwd=", "pwd>", "pwd=pwd>", "密碼=", "userid=a:password="])
def test_repeated_names_stay_within_the_budget(part, examined):
    scan(repeated(part))
    assert examined[0] <= 7 * LENGTH


@pytest.mark.slow
def test_repeated_keywords_stay_within_the_budget(examined):
    costly = []
    for keyword in KEYWORDS:
        for joint in JOINTS:
            examined[0] = 0
            scan(repeated(keyword + joint, 3000))
            if examined[0] > 7 * 3000:  # the budget and one candidate
                costly.append(keyword + joint)
    assert costly == []


PROSE = repeated(
    "\n".join((Path(__file__).parents[2] / "docs" / name).read_text() for name in ("api.md", "hooks.md"))
)
LENGTHS = (100, 200, 400, 800, 1500, 3000, LENGTH)
HOSTILE_PARTS = (
    *("pass=", "key=/", "?key=", "key: .phx_", "secret-token: ", "x-api-key: .credskey: ", "password='"),
    *("aB3dE6gH9jK2mN5 ", "datadog aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF ", "token is aB1cD2eF3gH4iJ5kL6mN7o "),
    *(
        '"\'"`',
        "'\"key'\"=",
        '\\"',
        "[[[{{{",
        "x" * 299 + " ",
        "A" * 5000,
        "aB1" * 100 + "=",
        "://a:b@",
        "eyJ.",
    ),
)


@pytest.mark.parametrize("part", HOSTILE_PARTS)
@pytest.mark.parametrize("length", LENGTHS)
def test_hostile_text_takes_at_most_five_times_as_long_as_ordinary_text(part: str, length: int):
    secrets.compile_rules()
    assert cost_ratio(scan, repeated(part, length), PROSE[:length], enough=5) <= 5


COSTLIEST_PARTS = (  # of many thousand that a search by trial compared
    "abc-def-ghi-=jklPPass=",
    "pad='=token is aB1cD2eF3gH4iJ5key0@/",
    "token is aB1cD_2eF3geyJ.apifypassword='",
    "token is aB1cD2eF3pass=alibabaA1baB3dE6gH9jK2mN5pQ8rS1tV4wX7y"
    + "token is aB1cD2eF3gH4iJ5kL6mN7o key: .phx_:",
    "passwdtoken is aB1cD2eF3pas=alilösenord5p8r1apideckpifl/AUTHREssパスワード"
    + "iglcbt-3gH4i_J5kL6mN7o key: .phx_",
    "=fc-token is aB1cD2eF3gH4iJ5kL6mN7rk_test_x-api-key: .credskey: airbrakeshpat_",
    "2-token is ap8r1apideckpifl/AUTHREssパスワードiglcbt-3gH4iJ5kL6mN7o key: .phx_piflash",
)


@pytest.mark.parametrize("part", COSTLIEST_PARTS)
@pytest.mark.parametrize("length", LENGTHS)
def test_costliest_text_takes_at_most_five_times_as_long_as_ordinary_text(part: str, length: int):
    secrets.compile_rules()
    assert cost_ratio(scan, repeated(part, length), PROSE[:length], enough=5) <= 5


@pytest.mark.slow
@given(
    st.sampled_from(LENGTHS),
    st.lists(st.sampled_from([*KEYWORDS, *JOINTS, *HOSTILE_PARTS]), min_size=1, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_mixed_parts_take_at_most_five_times_as_long_as_ordinary_text(length, parts):
    secrets.compile_rules()
    assert cost_ratio(scan, repeated("".join(parts), length), PROSE[:length], enough=5) <= 5


@pytest.mark.slow
def test_text_made_for_one_rule_takes_at_most_five_times_as_long_as_ordinary_text():
    """Matches of the regex, whole and cut before their end, which is where backtracking starts."""
    secrets.compile_rules()
    costly = []
    for rule in load_rules():
        match = sample_match(rule.pattern)
        for part in (match, match[:-1], match[: len(match) // 2], match[:-1] + " "):
            if part and (ratio := cost_ratio(scan, repeated(part, 2500), PROSE[:2500], enough=5)) > 5:
                costly.append((rule.id, round(ratio, 1), part[:60]))
    assert costly == []


def sample_match(pattern: re.Pattern[str]) -> str:
    """Return a text in the form of a regex, with as many repetitions as it allows, up to 300."""
    return "".join(_sample(list(sre_parser.parse(pattern.pattern, pattern.flags))))


def _sample(nodes) -> Iterator[str]:
    for operation, value in nodes:
        if operation is sre_constants.LITERAL:
            yield chr(value)
        elif operation is sre_constants.IN:
            yield _sample_set(value)
        elif operation is sre_constants.ANY:
            yield "a"
        elif operation is sre_constants.NOT_LITERAL:
            yield "a" if value != ord("a") else "b"
        elif operation in (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT):
            yield "".join(_sample(list(value[2]))) * min(value[1], 300)
        elif operation is sre_constants.SUBPATTERN:
            yield from _sample(list(value[3]))
        elif operation is sre_constants.BRANCH:
            yield from _sample(list(value[1][0]))


def _sample_set(items) -> str:
    found = [chr(value if kind is sre_constants.LITERAL else value[0]) for kind, value in items
             if kind in (sre_constants.LITERAL, sre_constants.RANGE)]  # fmt: skip
    negated = items[0][0] is sre_constants.NEGATE
    if negated:
        return next(char for char in "aB1-" if char not in found)
    return found[0] if found else "a"


def test_no_regex_has_an_unbounded_repetition_inside_a_repetition():
    regexes = [regex for rule in load_rules() for regex in (rule.pattern.pattern, rule.hint)]
    assert [regex for regex in regexes if has_nested_repetition(list(sre_parser.parse(regex)))] == []
    assert has_nested_repetition(list(sre_parser.parse("(?:a+,)*b")))


def has_nested_repetition(nodes, inside: bool = False) -> bool:
    for operation, value in nodes:
        if operation in (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT):
            is_unbounded = value[1] is sre_constants.MAXREPEAT
            parts = [(value[2], inside or is_unbounded)]
            if is_unbounded and inside:
                return True
        elif operation is sre_constants.BRANCH:
            parts = [(branch, inside) for branch in value[1]]
        else:
            parts = [(value[3], inside)] if operation is sre_constants.SUBPATTERN else []
        if any(has_nested_repetition(list(part), within) for part, within in parts):
            return True
    return False


@pytest.mark.slow
def test_text_with_all_keywords_takes_a_few_times_as_long_as_ordinary_text():
    def seconds(text: str) -> float:
        start = time.thread_time()
        find_secrets(text)
        return time.thread_time() - start

    secrets.compile_rules()
    docs = Path(__file__).parents[2] / "docs"
    plain = repeated("\n".join((docs / name).read_text() for name in ("api.md", "security.md")), 60_000)
    ordinary = min(seconds(plain) for _ in range(3))
    marked = min(seconds(" ".join(KEYWORDS) + plain) for _ in range(3))
    assert marked < 5 * ordinary


def test_shared_end_of_private_keys_is_searched_once(monkeypatch):
    sought = []

    class End:
        def search(self, text, position):
            sought.append(position)
            return original.search(text, position)

    original = secrets._PEM_END
    monkeypatch.setattr(secrets, "_PEM_END", End())
    assert find_secrets("-----BEGIN RSA PRIVATE KEY-----\n" * 500 + "-----END X-----")
    assert len(sought) <= 3


def test_ordinary_text_uses_a_small_part_of_the_budget():
    for at in range(0, len(ORDINARY) - 2000, 2000):
        text = ORDINARY[at : at + 2000]
        one = secrets.Scan(text)
        for rule in secrets.applicable_rules(one):
            list(secrets.find_matches(rule, one))
        list(secrets.find_near_service_names(one, {}))
        assert one.spent < 0.7 * one.limit


SETTINGS = {
    "passwords": "DB_PASSWORD=changeme\n",
    "keys": "DB_API_KEY=your_api_key\n",
    "settings": "DB_USER=admin\nDB_PASSWORD=changeme\nDB_SECRET=<secret>\nDB_TOKEN=${DB_TOKEN}\n",
    "addresses": "https://user:password@example.com/path?key=1&token=abc&secret=x\n",
    "arguments": "--password $PW --token $TOKEN --api-key $KEY --user admin\n",
    "JSON": '"db_secret": "********",\n',
    "masked": "PASSWORD=xxxxxxxx\nTOKEN=xxxxxxxx\n",
    "code": '"password": process.env.PASSWORD, "token": process.env.TOKEN,\n',
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("line", SETTINGS.values(), ids=SETTINGS)
def test_settings_with_placeholders_are_not_refused(line: str, length: int):
    assert find_secrets(repeated(line, length)) == []


def test_check_stops_after_too_much_processor_time(monkeypatch):
    monkeypatch.setattr("memoryhub.security.secrets.MAX_CPU_SECONDS", -1.0)
    with pytest.raises(CheckTooCostly):
        find_secrets("token: x")


def test_unchecked_text_is_replaced_in_previews():
    assert redact(HOSTILE) == UNCHECKED
    assert parse_prompt(HOSTILE, 200)[0] == UNCHECKED


@pytest.fixture
def no_scan_while_writing(monkeypatch) -> list[str]:
    """Fail each scan inside a transaction. Return the list of the scanned texts."""
    scanned = []
    original = secrets._find_spans

    def spans(text):
        assert not connection.in_atomic_block, "scanned inside a transaction"
        scanned.append(text)
        return original(text)

    monkeypatch.setattr(secrets, "_find_spans", spans)
    return scanned


@pytest.mark.django_db(transaction=True)
class TestOutsideOfTransactions:
    pytestmark = pytest.mark.usefixtures("no_scan_while_writing")

    def test_create(self, actor: Actor, no_scan_while_writing):
        memories.create_memory(MemoryDraft(content="zebra one"), actor)
        assert any("zebra one" in text for text in no_scan_while_writing)

    def test_create_in_a_session(self, actor: Actor, no_scan_while_writing):
        memories.create_memory_in_session(MemoryDraft(content="zebra two"), actor, "s")
        assert any("zebra two" in text for text in no_scan_while_writing)

    def test_batch_and_key(self, actor: Actor, no_scan_while_writing):
        drafts = [MemoryDraft(content=f"zebra {n}", key=f"k{n % 2}") for n in range(4)]
        done = memories.create_memories(drafts, actor)
        assert [one.outcome for one in done] == ["created", "created", "updated", "updated"]
        assert len(no_scan_while_writing) == 4

    def test_update(self, actor: Actor, no_scan_while_writing):
        memory = memories.create_memory(MemoryDraft(content="zebra"), actor).memory
        memories.update_memory(memory.uid, MemoryPatch(content="okapi"), actor)
        assert any("okapi" in text for text in no_scan_while_writing)

    def test_merge(self, actor: Actor, no_scan_while_writing):
        one, two = (memories.create_memory(MemoryDraft(content=f"zebra {n}"), actor).memory for n in "ab")
        memories.merge_memories(one.uid, [two.uid], actor, content="both zebras")
        assert any("both zebras" in text for text in no_scan_while_writing)

    def test_deduplicated(self, actor: Actor, no_scan_while_writing):
        for content in ("Ada likes tea", "Ada likes tea and plays chess on Sundays"):
            done = create_deduplicated(MemoryDraft(content=content, category="profile"), actor)
        assert done.outcome == "merged"
        assert any(done.memory.content in text for text in no_scan_while_writing)

    def test_import(self, tmp_path, settings, no_scan_while_writing):
        settings.HOME = tmp_path
        fact = {"kind": "fact", "subject": "hub", "predicate": "runs on", "object": "SQLite"}
        session = {"kind": "session", "session_id": "s one", "started_at": "2026-01-01T00:00:00Z"}
        lines = [{"content": "zebra"}, fact, session | {"last_at": "2026-01-01T00:00:00Z"}]
        path = tmp_path / "lines.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        call_command("import_memories", str(path), stdout=StringIO())
        assert Memory.objects.count() == 1
        assert {"zebra", "SQLite"} <= {word for text in no_scan_while_writing for word in text.split()}

    def test_facts(self, actor: Actor, no_scan_while_writing):
        words = {"subject": "hub", "predicate": "runs on"}
        fact, _ = services.create_fact(FactDraft(**words, object="SQLite"), actor)
        services.update_fact(fact.uid, FactDraft(**words, object="PostgreSQL"), actor)
        assert len(no_scan_while_writing) == 2


@pytest.mark.django_db(transaction=True)
class TestChunks:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(create, "CHUNK_SIZE", 2)
        monkeypatch.setattr(create, "PAUSE_SECONDS", 0)

    def drafts(self, *contents: str, **more: str) -> list[MemoryDraft]:
        return [MemoryDraft(content=content, **more) for content in contents]

    def test_duplicates_in_different_chunks_become_one_memory(self, actor: Actor):
        done = memories.create_memories(self.drafts("a", "b", "c", "a"), actor)
        assert [one.outcome for one in done] == ["created", "created", "created", "refreshed"]
        assert done[0].memory.uid == done[3].memory.uid

    def test_key_in_different_chunks_is_updated(self, actor: Actor):
        done = memories.create_memories(self.drafts("a", "b", "c", key="k"), actor)
        assert [one.outcome for one in done] == ["created", "updated", "updated"]
        assert Memory.objects.get().content == "c"

    def test_busy_database_after_the_first_chunk_is_reported_per_item(self, actor: Actor, monkeypatch):
        written = []

        @contextmanager
        def write() -> Iterator[None]:
            written.append(1)
            if len(written) > 1:
                raise OperationalError("database is locked")
            with original():
                yield

        original = create.write_transaction
        monkeypatch.setattr(create, "write_transaction", write)
        done = memories.create_memories(self.drafts("a", "b", "c", "d", "e"), actor)
        assert [getattr(one, "outcome", getattr(one, "code", "")) for one in done] == [
            *("created", "created"),
            *("database_busy",) * 3,
        ]
        assert len(written) == 2
        assert Memory.objects.count() == 2

    def test_busy_database_at_the_first_chunk_is_an_error(self, actor: Actor, monkeypatch):
        def write():
            raise OperationalError("database is locked")

        monkeypatch.setattr(create, "write_transaction", write)
        with pytest.raises(OperationalError):
            memories.create_memories(self.drafts("a", "b", "c"), actor)

    def test_long_texts_are_stored_in_their_own_transactions(self, actor: Actor, monkeypatch, written):
        monkeypatch.setattr(create, "CHUNK_SIZE", 100)
        monkeypatch.setattr(create, "CHUNK_CHARACTERS", 1000)
        drafts = self.drafts("a" * 600, "b" * 300, "c" * 300, "d" * 5000, "e")
        done = memories.create_memories(drafts, actor)
        assert [one.memory.content[0] for one in done] == list("abcde")
        assert len(written) == 4

    def test_many_lists_are_stored_in_several_transactions(self, actor: Actor, monkeypatch, written):
        monkeypatch.setattr(create, "CHUNK_SIZE", 100)
        drafts = [MemoryDraft(content=f"zebra {n}", tags=[f"t{i}" for i in range(30)]) for n in range(40)]
        memories.create_memories(drafts, actor)
        assert len(written) == 3

    def test_updates_by_key_are_stored_a_few_at_a_time(self, actor: Actor, monkeypatch, written):
        monkeypatch.setattr(create, "CHUNK_SIZE", 100)
        done = memories.create_memories(self.drafts(*"abcdefghijk", key="k"), actor)
        assert [one.outcome for one in done] == ["created", *["updated"] * 10]
        assert len(written) == 2
        assert Memory.objects.get().content == "k"

    @pytest.fixture
    def written(self, monkeypatch) -> list[int]:
        """Count the transactions."""
        begun: list[int] = []
        original = create.write_transaction
        monkeypatch.setattr(create, "write_transaction", lambda: begun.append(1) or original())
        return begun


@pytest.mark.django_db(transaction=True)
def test_long_texts_of_an_import_are_stored_in_several_transactions(tmp_path, settings, monkeypatch):
    settings.HOME = tmp_path
    written = []
    loader = import_module("memoryhub.transfer.loader")
    original = loader.write_transaction
    monkeypatch.setattr(loader, "BATCH_CHARACTERS", 1000)
    monkeypatch.setattr(loader, "write_transaction", lambda: written.append(1) or original())
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(json.dumps({"content": f"zebra {n} " * 100}) for n in range(4)))
    call_command("import_memories", str(path), stdout=StringIO())
    assert Memory.objects.count() == 4
    assert len(written) >= 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("size", "number", "most"), [(100, 250, 100), (20_000, 5, 1), (9_000, 7, 3)])
def test_transaction_of_an_import_is_as_small_as_that_of_a_batch(
    size, number, most, tmp_path, settings, monkeypatch
):
    settings.HOME = tmp_path
    stored = []
    loader = import_module("memoryhub.transfer.loader")
    original = memories.create_memories

    def store(drafts, *args, **options):
        stored.append(len(drafts))
        return original(drafts, *args, **options)

    monkeypatch.setattr(loader.store, "create_memories", store)
    path = tmp_path / "lines.jsonl"
    path.write_text(
        "\n".join(json.dumps({"content": f"zebra {n} " + "a " * (size // 2)}) for n in range(number))
    )
    call_command("import_memories", str(path), stdout=StringIO())
    assert sum(stored) == number
    assert max(stored) == most


@pytest.mark.django_db(transaction=True)
def test_batch_of_a_thousand_is_stored_in_several_transactions(actor: Actor, monkeypatch):
    written = []

    def write():
        written.append(connection.in_atomic_block)
        return original()

    original = create.write_transaction
    monkeypatch.setattr(create, "write_transaction", write)
    done = memories.create_memories([MemoryDraft(content=f"zebra {n}") for n in range(1000)], actor)
    assert written == [False] * 10
    assert [one.memory.content for one in done] == [f"zebra {n}" for n in range(1000)]


@pytest.mark.django_db
class TestTooCostly:
    @pytest.mark.parametrize("field", ["content", "overview"])
    def test_error_names_the_field(self, actor: Actor, field: str):
        with pytest.raises(memories.TooCostlyToCheck) as refused:
            memories.create_memory(MemoryDraft(**{"content": "words", field: HOSTILE}), actor)
        assert refused.value.field == field
        assert refused.value.message == f"{field} is too costly to check for secrets. Shorten it or split it."
        assert not Memory.objects.exists()

    def test_batch_refuses_only_the_costly_item(self, actor: Actor):
        done = memories.create_memories([MemoryDraft(content=text) for text in ("a", HOSTILE, "b")], actor)
        assert [type(one).__name__ for one in done] == ["StoreResult", "TooCostlyToCheck", "StoreResult"]

    def test_missing_memory_is_not_found_even_with_a_costly_text(self, actor: Actor):
        with pytest.raises(memories.NotFound):
            memories.update_memory("0" * 26, MemoryPatch(content=HOSTILE), actor)
        assert not JournalEntry.objects.exists()

    def test_scan_reports_unchecked_text_and_leaves_it(self, actor: Actor, configure):
        configure(block_secrets=False)
        memory = memories.create_memory(MemoryDraft(content=HOSTILE), actor).memory
        for option in ("--quarantine", "--redact"):
            out = StringIO()
            call_command("scan_secrets", option, stdout=out)
            assert f"memory {memory.uid}  content line 1: not checked: too costly" in out.getvalue()
        memory.refresh_from_db()
        assert (memory.content, memory.sensitivity) == (HOSTILE, "public")
        with pytest.raises(CommandError, match="could not be checked"):
            call_command("scan_secrets", "--fail", stdout=StringIO())

    def test_row_with_unchecked_text_is_not_redacted(self, actor: Actor, configure):
        configure(block_secrets=False)
        token = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
        memory = memories.create_memory(MemoryDraft(content=HOSTILE, overview=token), actor).memory
        out = StringIO()
        call_command("scan_secrets", "--redact", stdout=out)
        assert "Left: memory" in out.getvalue()
        memory.refresh_from_db()
        assert (memory.content, memory.overview) == (HOSTILE, token)
