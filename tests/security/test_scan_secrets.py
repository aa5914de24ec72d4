"""``scan_secrets``: find, quarantine, release and redact secrets that are already stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Sensitivity, system_actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import (
    Embedding,
    Event,
    Extraction,
    Fact,
    Injection,
    JournalEntry,
    Memory,
    Revision,
    Session,
)
from tests.api.conftest import Agent
from tests.security.conftest import TOKEN


def scan(*options: str) -> str:
    out = StringIO()
    call_command("scan_secrets", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def leaky(configure: Callable[..., None], remember: Callable[..., Memory], actor: Actor) -> Memory:
    """Return a memory of a store with a secret in every kind of row."""
    configure(block_secrets=False)
    memory = remember(f"first line\ndeploy with {TOKEN}", project="shop", tags=["ok", TOKEN], session_id="s")
    memories.update_memory(memory.uid, MemoryPatch(title=f"old {TOKEN}"), actor)
    memories.update_memory(memory.uid, MemoryPatch(title="a new title"), actor)
    services.create_fact(FactDraft(subject="ci", predicate="uses", object=TOKEN, project="shop"), actor)
    session = Session.objects.get(session_id="s")
    Session.objects.filter(pk=session.pk).update(cwd=f"/srv/{TOKEN}", state={"work": {"failure": TOKEN}})
    Event.objects.create(session=session, event="prompt:submit", preview=f"use {TOKEN}", keywords=[TOKEN])
    Injection.objects.create(session=session, project="shop", prompt_preview=f"what is {TOKEN}")
    Extraction.objects.create(project="shop", messages=[{"role": "user", "content": TOKEN}])
    configure(block_secrets=True)
    return memory


def test_clean_store_has_no_findings(remember: Callable[..., Memory]) -> None:
    remember("the password is hashed with argon2id")
    assert scan() == "No credential found.\n"


def test_all_tables_are_scanned_and_stay_unchanged(leaky: Memory) -> None:
    rows = [json.loads(line) for line in scan("--json").splitlines()]
    assert {row["in"] for row in rows} == {
        *(
            "memory",
            "tag, concept or alias",
            "revision",
            "fact",
            "session",
            "event",
            "injection",
            "extraction",
        ),
    }
    content = next(row for row in rows if row["field"] == "content")
    assert (content["id"], content["line"], content["kind"]) == (leaky.uid, 2, "GitHub token")
    assert TOKEN not in json.dumps(rows)
    leaky.refresh_from_db()
    assert TOKEN in leaky.content


def test_report_contains_kind_line_and_id_but_not_the_value(leaky: Memory) -> None:
    output = scan()
    assert f"memory {leaky.uid}  content line 2: GitHub token" in output
    assert "--quarantine hides them" in output
    assert TOKEN not in output


def test_option_makes_findings_an_error(leaky: Memory) -> None:
    with pytest.raises(CommandError, match="credentials in the store"):
        scan("--fail")


class TestQuarantine:
    def test_row_is_hidden_from_everyone(self, leaky: Memory, bot: Agent) -> None:
        output = scan("--quarantine")
        assert "Quarantined 1 memory row" in output
        assert bot.get(f"/memories/{leaky.uid}", allow_private=True, allow_secret=True).status_code == 404
        for model in (Memory, Fact, Event, Injection):
            assert not model.objects.visible_to(system_actor("tests").clearance).exists(), model
        assert "deploy" not in bot.post("/search", {"query": "deploy"}).content.decode()

    def test_journal_contains_the_old_level_and_an_admin_can_restore_it(
        self, leaky: Memory, bot: Agent
    ) -> None:
        scan("--quarantine")
        hidden = JournalEntry.objects.filter(operation="quarantine", object_id=leaky.uid)
        row = next(row for row in hidden if row.detail["of"] == "memory")
        assert (row.detail["was"], row.detail["kinds"]) == ("public", ["GitHub token"])
        memories.repair_sensitivity([leaky.uid], Sensitivity.SECRET, system_actor("tests"))
        assert bot.get(f"/memories/{leaky.uid}", allow_secret=True).status_code == 200

    def test_rows_without_a_level_are_reported_as_left(self, leaky: Memory) -> None:
        output = scan("--quarantine")
        assert "a session has no level to hide it by; --redact removes it" in output
        assert "(quarantined)" in scan()

    def test_second_run_changes_nothing(self, leaky: Memory) -> None:
        scan("--quarantine")
        rows = JournalEntry.objects.count()
        scan("--quarantine")
        assert JournalEntry.objects.count() == rows

    def test_both_rows_with_the_same_text_are_quarantined(
        self, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False)
        remember(TOKEN, sensitivity="secret", project="p")
        Memory.objects.filter(sensitivity="secret").update(sensitivity="quarantined")
        remember(TOKEN, sensitivity="public", project="p")
        scan("--quarantine")
        assert Memory.objects.filter(sensitivity="quarantined").count() == 2


class TestRelease:
    def test_released_rows_get_their_old_level(self, leaky: Memory, bot: Agent) -> None:
        Memory.objects.filter(pk=leaky.pk).update(sensitivity="private")
        Fact.objects.update(sensitivity="secret")
        scan("--quarantine")
        rows = {Memory: leaky.uid, Fact: Fact.objects.get().uid, Injection: Injection.objects.get().uid}
        rows[Event] = str(Event.objects.get(sensitivity="quarantined").pk)
        output = scan("--release", *rows.values())
        assert f"Released 1 fact row of {rows[Fact]}" in output
        for model in (*rows, Revision):
            assert not model.objects.filter(sensitivity="quarantined").exists(), model
        assert Memory.objects.get().sensitivity == "private"
        assert Fact.objects.get().sensitivity == "secret"
        assert bot.get(f"/memories/{leaky.uid}").status_code == 404
        assert bot.get(f"/memories/{leaky.uid}", allow_private=True).status_code == 200
        assert "deploy" in bot.post("/search", {"query": "deploy", "allow_private": True}).content.decode()

    def test_release_is_journaled_and_the_chain_stays_valid(self, leaky: Memory) -> None:
        scan("--quarantine")
        scan("--release", leaky.uid)
        rows = JournalEntry.objects.filter(operation="release", object_id=leaky.uid)
        assert {row.detail["of"] for row in rows} == {"memory", "revision"}
        assert all(row.detail["was"] == "quarantined" and row.actor.startswith("command:") for row in rows)
        assert journal.verify_chain().ok

    def test_row_without_journal_entry_is_released_as_secret(self, leaky: Memory) -> None:
        Fact.objects.update(sensitivity="quarantined")
        scan("--release", Fact.objects.get().uid)
        assert Fact.objects.get().sensitivity == "secret"

    def test_released_duplicate_becomes_a_copy(
        self, leaky: Memory, configure: Callable[..., None], actor: Actor
    ) -> None:
        scan("--quarantine")
        configure(block_secrets=False)
        hidden = Fact.objects.get()
        services.create_fact(FactDraft(subject="ci", predicate="uses", object=TOKEN, project="shop"), actor)
        scan("--release", hidden.uid)
        assert sorted(Fact.objects.values_list("copy", flat=True)) == [0, 1]

    def test_unknown_level_stays_unchanged(self, remember: Callable[..., Memory]) -> None:
        memory = remember("plain words")
        Memory.objects.update(sensitivity="cosmic")
        with pytest.raises(CommandError, match="nothing is quarantined under"):
            scan("--release", memory.uid, "9" * 40, "²")
        assert Memory.objects.get().sensitivity == "cosmic"

    def test_second_release_is_an_error(self, leaky: Memory) -> None:
        scan("--quarantine")
        scan("--release", leaky.uid)
        with pytest.raises(CommandError, match=f"nothing is quarantined under {leaky.uid}"):
            scan("--release", leaky.uid)


class TestRedact:
    def test_secret_is_removed_everywhere(self, leaky: Memory, assert_nowhere: Callable[..., None]) -> None:
        output = scan("--redact")
        assert "Redacted 1 memory row" in output
        assert_nowhere(output)
        assert scan() == "No credential found.\n"
        assert journal.verify_chain().ok

    def test_rest_of_the_text_stays_searchable(self, leaky: Memory, bot: Agent) -> None:
        scan("--redact")
        leaky.refresh_from_db()
        assert leaky.content == "first line\ndeploy with [secret removed]"
        assert bot.post("/search", {"query": "deploy", "min_score": 0}).json()["total"] == 1
        assert bot.post("/search", {"query": TOKEN[-12:], "min_score": 0}).json()["total"] == 0
        revisions = bot.get(f"/memories/{leaky.uid}/history").json()["revisions"]
        assert any("[secret removed]" in str(one["before"]) for one in revisions)

    def test_embedding_is_recomputed(
        self, embedding: Any, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False, embeddings="wordllama")
        memory = remember(f"deploy with {TOKEN}")
        before = bytes(Embedding.objects.get(memory=memory).vector)
        scan("--redact")
        assert bytes(Embedding.objects.get(memory=memory).vector) != before

    def test_redaction_is_journaled_with_fields_and_kinds(self, leaky: Memory) -> None:
        scan("--redact")
        redacted = JournalEntry.objects.filter(operation="redact", object_id=leaky.uid)
        row = next(row for row in redacted if row.detail["of"] == "memory")
        assert (row.detail["fields"], row.detail["kinds"]) == (["abstract", "content"], ["GitHub token"])
        assert row.actor.startswith("command:")

    def test_rows_with_equal_redacted_text_stay_separate(
        self, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False)
        other = TOKEN[:-3] + "xY7"
        one, two = remember(f"use {TOKEN}", key="a", tags=[TOKEN, other]), remember(f"use {other}", key="b")
        scan("--redact")
        contents = set(Memory.objects.filter(pk__in=[one.pk, two.pk]).values_list("content", flat=True))
        assert contents == {"use [secret removed]"}
        assert list(one.labels.values_list("value", flat=True)) == ["[secret removed]"]

    def test_a_redacted_alias_leaves_the_text_for_the_index_too(
        self, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False)
        memory = remember("words", aliases=["kube", TOKEN])
        assert "tag, concept or alias" in scan()
        scan("--redact")
        memory.refresh_from_db()
        assert memory.alias_text == "[secret removed]\nkube"

    def test_option_limits_redaction_to_one_id(self, leaky: Memory) -> None:
        scan("--redact", "--id", leaky.uid)
        leaky.refresh_from_db()
        assert TOKEN not in leaky.content
        assert Fact.objects.get().object == TOKEN

    def test_sealed_journal_row_is_reported_and_left(self, actor: Actor, db: None) -> None:
        with write_transaction():
            journal.record(actor, [journal.Change("run", "run", "", {"words": TOKEN})], timezone.now())
        output = scan("--redact")
        assert "a journal row is part of the journal's chain" in output
        assert TOKEN not in output
