"""``scan_secrets``: what was stored before screening is found, hidden or removed; its value goes nowhere."""

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
from memoryhub.core.transactions import write_transaction
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
    """A store that was filled while nothing was looked at: a credential in every kind of row."""
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


def test_a_clean_store_has_nothing_to_tell(remember: Callable[..., Memory]) -> None:
    remember("the password is hashed with argon2id")
    assert scan() == "No credential found.\n"


def test_every_table_is_looked_through_and_nothing_changed(leaky: Memory) -> None:
    told = [json.loads(line) for line in scan("--json").splitlines()]
    assert {one["in"] for one in told} == {
        *("memory", "tag or concept", "revision", "fact", "session", "event", "injection", "extraction"),
    }
    content = next(one for one in told if one["field"] == "content")
    assert (content["id"], content["line"], content["kind"]) == (leaky.uid, 2, "GitHub token")
    assert TOKEN not in json.dumps(told)
    leaky.refresh_from_db()
    assert TOKEN in leaky.content


def test_the_report_names_kind_line_and_id_and_never_the_value(leaky: Memory) -> None:
    said = scan()
    assert f"memory {leaky.uid}  content line 2: GitHub token" in said
    assert "--quarantine hides them" in said
    assert TOKEN not in said


def test_it_fails_where_that_is_asked_for(leaky: Memory) -> None:
    with pytest.raises(CommandError, match="credentials in the store"):
        scan("--fail")


class TestQuarantine:
    def test_it_is_hidden_from_everyone(self, leaky: Memory, bot: Agent) -> None:
        said = scan("--quarantine")
        assert "Quarantined 1 memory row" in said
        assert bot.get(f"/memories/{leaky.uid}", allow_private=True, allow_secret=True).status_code == 404
        for model in (Memory, Fact, Event, Injection):
            assert not model.objects.visible_to(system_actor("tests").clearance).exists(), model
        assert "deploy" not in bot.post("/search", {"query": "deploy"}).content.decode()

    def test_the_journal_says_what_it_was_and_the_admin_can_give_it_back(
        self, leaky: Memory, bot: Agent
    ) -> None:
        scan("--quarantine")
        hidden = JournalEntry.objects.filter(operation="quarantine", object_id=leaky.uid)
        row = next(row for row in hidden if row.detail["of"] == "memory")
        assert (row.detail["was"], row.detail["kinds"]) == ("public", ["GitHub token"])
        memories.repair_sensitivity([leaky.uid], Sensitivity.SECRET, system_actor("tests"))
        assert bot.get(f"/memories/{leaky.uid}", allow_secret=True).status_code == 200

    def test_what_has_no_level_is_named_as_left(self, leaky: Memory) -> None:
        said = scan("--quarantine")
        assert "a session has no level to hide it by; --redact removes it" in said
        assert "(quarantined)" in scan()

    def test_a_second_time_changes_nothing(self, leaky: Memory) -> None:
        scan("--quarantine")
        rows = JournalEntry.objects.count()
        scan("--quarantine")
        assert JournalEntry.objects.count() == rows

    def test_two_of_the_same_words_both_go(
        self, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False)
        remember(TOKEN, sensitivity="secret", project="p")
        Memory.objects.filter(sensitivity="secret").update(sensitivity="quarantined")
        remember(TOKEN, sensitivity="public", project="p")
        scan("--quarantine")
        assert Memory.objects.filter(sensitivity="quarantined").count() == 2


class TestRelease:
    def test_everything_that_was_hidden_has_a_way_back_to_the_level_it_had(
        self, leaky: Memory, bot: Agent
    ) -> None:
        Memory.objects.filter(pk=leaky.pk).update(sensitivity="private")
        Fact.objects.update(sensitivity="secret")
        scan("--quarantine")
        rows = {Memory: leaky.uid, Fact: Fact.objects.get().uid, Injection: Injection.objects.get().uid}
        rows[Event] = str(Event.objects.get(sensitivity="quarantined").pk)
        said = scan("--release", *rows.values())
        assert f"Released 1 fact row of {rows[Fact]}" in said
        for model in (*rows, Revision):
            assert not model.objects.filter(sensitivity="quarantined").exists(), model
        assert Memory.objects.get().sensitivity == "private"
        assert Fact.objects.get().sensitivity == "secret"
        assert bot.get(f"/memories/{leaky.uid}").status_code == 404
        assert bot.get(f"/memories/{leaky.uid}", allow_private=True).status_code == 200
        assert "deploy" in bot.post("/search", {"query": "deploy", "allow_private": True}).content.decode()

    def test_it_is_journaled_and_keeps_the_chain(self, leaky: Memory) -> None:
        scan("--quarantine")
        scan("--release", leaky.uid)
        rows = JournalEntry.objects.filter(operation="release", object_id=leaky.uid)
        assert {row.detail["of"] for row in rows} == {"memory", "revision"}
        assert all(row.detail["was"] == "quarantined" and row.actor.startswith("command:") for row in rows)
        assert journal.verify_chain().ok

    def test_what_the_journal_does_not_know_comes_back_as_secret(self, leaky: Memory) -> None:
        Fact.objects.update(sensitivity="quarantined")
        scan("--release", Fact.objects.get().uid)
        assert Fact.objects.get().sensitivity == "secret"

    def test_beside_a_twin_it_becomes_a_copy(
        self, leaky: Memory, configure: Callable[..., None], actor: Actor
    ) -> None:
        scan("--quarantine")
        configure(block_secrets=False)
        hidden = Fact.objects.get()
        services.create_fact(FactDraft(subject="ci", predicate="uses", object=TOKEN, project="shop"), actor)
        scan("--release", hidden.uid)
        assert sorted(Fact.objects.values_list("copy", flat=True)) == [0, 1]

    def test_another_unknown_level_is_not_touched(self, remember: Callable[..., Memory]) -> None:
        memory = remember("plain words")
        Memory.objects.update(sensitivity="cosmic")
        with pytest.raises(CommandError, match="nothing is quarantined under"):
            scan("--release", memory.uid, "9" * 40, "²")
        assert Memory.objects.get().sensitivity == "cosmic"

    def test_a_second_time_says_that_nothing_is_hidden(self, leaky: Memory) -> None:
        scan("--quarantine")
        scan("--release", leaky.uid)
        with pytest.raises(CommandError, match=f"nothing is quarantined under {leaky.uid}"):
            scan("--release", leaky.uid)


class TestRedact:
    def test_nothing_of_it_is_left_anywhere(self, leaky: Memory, assert_nowhere: Callable[..., None]) -> None:
        said = scan("--redact")
        assert "Redacted 1 memory row" in said
        assert_nowhere(said)
        assert scan() == "No credential found.\n"
        assert journal.verify_chain().ok

    def test_the_rest_of_the_text_stays_and_is_found(self, leaky: Memory, bot: Agent) -> None:
        scan("--redact")
        leaky.refresh_from_db()
        assert leaky.content == "first line\ndeploy with [secret removed]"
        assert bot.post("/search", {"query": "deploy", "min_score": 0}).json()["total"] == 1
        assert bot.post("/search", {"query": TOKEN[-12:], "min_score": 0}).json()["total"] == 0
        revisions = bot.get(f"/memories/{leaky.uid}/history").json()["revisions"]
        assert any("[secret removed]" in str(one["before"]) for one in revisions)

    def test_its_vector_is_made_anew(
        self, embedding: Any, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False, embeddings="wordllama")
        memory = remember(f"deploy with {TOKEN}")
        before = bytes(Embedding.objects.get(memory=memory).vector)
        scan("--redact")
        assert bytes(Embedding.objects.get(memory=memory).vector) != before

    def test_it_is_journaled_by_field_and_kind(self, leaky: Memory) -> None:
        scan("--redact")
        redacted = JournalEntry.objects.filter(operation="redact", object_id=leaky.uid)
        row = next(row for row in redacted if row.detail["of"] == "memory")
        assert (row.detail["fields"], row.detail["kinds"]) == (["abstract", "content"], ["GitHub token"])
        assert row.actor.startswith("command:")

    def test_two_that_come_to_say_the_same_stand_side_by_side(
        self, configure: Callable[..., None], remember: Callable[..., Memory]
    ) -> None:
        configure(block_secrets=False)
        other = TOKEN[:-3] + "xY7"
        one, two = remember(f"use {TOKEN}", key="a", tags=[TOKEN, other]), remember(f"use {other}", key="b")
        scan("--redact")
        contents = set(Memory.objects.filter(pk__in=[one.pk, two.pk]).values_list("content", flat=True))
        assert contents == {"use [secret removed]"}
        assert list(one.labels.values_list("value", flat=True)) == ["[secret removed]"]

    def test_only_what_is_named_is_mended(self, leaky: Memory) -> None:
        scan("--redact", "--id", leaky.uid)
        leaky.refresh_from_db()
        assert TOKEN not in leaky.content
        assert Fact.objects.get().object == TOKEN

    def test_the_sealed_journal_is_told_and_left(self, actor: Actor, db: None) -> None:
        with write_transaction():
            journal.record(actor, [journal.Change("run", "run", "", {"words": TOKEN})], timezone.now())
        said = scan("--redact")
        assert "a journal row is sealed" in said
        assert TOKEN not in said
