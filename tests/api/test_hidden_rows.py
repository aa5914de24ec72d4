"""Sessions, personal memories and skipped hashes over HTTP show nothing of hidden rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.memories.stored_secrets import redact_findings, scan_store
from memoryhub.models import JournalEntry, Memory
from tests.api.conftest import is_problem, stored


def test_session_without_visible_rows_is_404(agent):
    boss, low = agent("secret"), agent("public")
    boss.post("/memories", {"content": "x", "sensitivity": "secret", "session_id": "night"})
    is_problem(low.get("/sessions/night"), 404)
    assert low.get("/sessions").json()["items"] == []
    is_problem(boss.get("/sessions/night"), 404)
    assert boss.get("/sessions/night", allow_secret=True).status_code == 200


def test_session_reveals_nothing_of_its_hidden_memories(agent):
    keeper, reader = agent("secret", "tok-secret"), agent("public", "tok-public")
    days = {"sensitivity": "secret", "created_at": "2019-05-05"}, {"created_at": "2024-05-05"}
    for who, fields in zip((keeper, reader), days, strict=True):
        who.post("/memories", {"content": "words", "session_id": "hs", **fields})
    [shown] = reader.get("/sessions").json()["items"]
    assert shown == reader.get("/sessions/hs").json()["session"]
    assert (shown["started_at"], shown["last_at"]) == ("2024-05-05T00:00:00Z",) * 2
    assert shown["agent"] == "token:tok-public"
    lines = reader.get("/timeline", session_id="hs").json()["items"]
    assert {line["at"] for line in lines} == {"2024-05-05T00:00:00Z"}


def test_session_bounds_and_pages_depend_on_visible_rows_only(agent):
    keeper, reader = agent("secret", "tok-secret"), agent("public", "tok-public")
    for n in (1, 2, 3):
        reader.post("/memories", {"content": f"{n}", "session_id": f"s{n}", "created_at": f"2024-05-0{n}"})
    hidden = {"content": "hidden", "session_id": "s1", "sensitivity": "secret"}
    keeper.post("/memories", {**hidden, "created_at": "2025-05-05"})
    asked, order, cursor = {"allow_secret": "true"}, [], {}
    while True:
        page = reader.get("/sessions", limit=1, **asked, **cursor).json()
        order += [item["session_id"] for item in page["items"]]
        if not page["next_cursor"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert order == ["s3", "s2", "s1"]
    assert reader.get("/sessions", since="2024-06-01", **asked).json()["total"] == 0
    assert keeper.get("/sessions", since="2024-06-01", **asked).json()["total"] == 1
    assert keeper.get("/sessions", limit=1, **asked).json()["items"][0]["session_id"] == "s1"


class TestPersonalScope:
    """A personal memory belongs to its owner only, whatever the clearance."""

    @pytest.fixture
    def diary(self, agent):
        ada = agent("secret", "ada-bot", owner="ada")
        return ada.post("/memories", {"content": "dear diary", "scope": "personal", "project": "p"}).json()[
            "memory"
        ]

    def test_owner_sees_personal_memory(self, agent, diary):
        same_owner = agent("public", "other-bot", owner="ada")
        assert same_owner.get(f"/memories/{diary['id']}").status_code == 200
        assert same_owner.get("/search", query="dear diary").json()["total"] == 1

    def test_no_one_else_sees_personal_memory(self, agent, diary):
        bob = agent("secret", "bob-bot", owner="bob")
        is_problem(bob.get(f"/memories/{diary['id']}"), 404)
        is_problem(bob.patch(f"/memories/{diary['id']}", {"scope": "team"}), 404)
        is_problem(bob.delete(f"/memories/{diary['id']}"), 404)
        for path in ("/memories", "/timeline", "/sessions"):
            assert bob.get(path).json()["total"] == 0
        assert bob.get("/search", query="dear diary", min_score=0).json()["results"] == []
        assert bob.get("/stats").json()["total"] == 0
        assert bob.get("/journal", object_id=diary["id"]).json()["total"] == 0

    def test_personal_history_stays_hidden_when_the_memory_is_shared(self, agent, diary):
        ada = agent("secret", "ada-bot", owner="ada")
        ada.patch(f"/memories/{diary['id']}", {"content": "dear team"})
        ada.patch(f"/memories/{diary['id']}", {"scope": "team"})
        shown = agent("secret", "bob-bot", owner="bob").get(f"/memories/{diary['id']}/history")
        assert shown.status_code == 200
        assert b"diary" not in shown.content


DIGEST = "5f" * 32
TEXT = "Ada leads the billing team"
ALL = {"allow_private": True, "allow_secret": True}


def skips(agent: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.get("/journal", operation="dedup_skip", **ALL).json()["items"]
    return found


@pytest.fixture
def old_row(bot: Any) -> Memory:
    """A public memory with a journal row as older versions wrote it for a skipped secret text."""
    memory = Memory.objects.get(uid=stored(bot, content=TEXT)["id"])
    with transaction.atomic():
        journal.record(
            Actor("token:old"), [journal.memory_change("dedup_skip", memory, candidate_hash=DIGEST)]
        )
    return memory


def test_new_row_is_visible_only_at_the_higher_level(bot: Any, agent: Any) -> None:
    stored(bot, content=TEXT)
    skipped = {"content": "ada leads the billing team.", "sensitivity": "secret", "deduplicate": True}
    assert bot.post("/memories", skipped).json()["outcome"] == "skipped"
    [row] = skips(bot)
    assert set(row["detail"]) == {"candidate_hash", "candidate_sensitivity", "content_hash"}
    assert skips(agent("private")) == skips(agent("public")) == []


@pytest.mark.parametrize("level", ["public", "private"])
def test_old_row_is_listed_without_the_hash(old_row: Memory, agent: Any, level: str) -> None:
    [row] = skips(agent(level))
    assert row["detail"] == {"content_hash": old_row.content_hash}


def test_history_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    history = agent("public").get(f"/memories/{old_row.uid}/history")
    assert "dedup_skip" in history.content.decode()
    assert DIGEST not in history.content.decode()


def test_export_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    body = b"".join(agent("public").get("/export", whole="true").streaming_content).decode()
    assert "dedup_skip" in body
    assert DIGEST not in body


def test_toolset_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    response = agent("public").post("/tools/memory-mcp/memory_forget", {"id": old_row.uid})
    assert "dedup_skip" in response.content.decode()
    assert DIGEST not in response.content.decode()


def test_masked_row_leaves_the_chain_valid(old_row: Memory) -> None:
    assert JournalEntry.objects.filter(detail__candidate_hash=DIGEST).exists()
    assert journal.verify().ok


class TestHashOfATextThatIsGone:
    """A journal row shows ``content_hash`` only while the caller can read the text."""

    @pytest.fixture
    def memory(self, bot: Any) -> Memory:
        return Memory.objects.get(uid=stored(bot, content=TEXT)["id"])

    def answers(self, caller: Any, uid: str) -> str:
        """Return everything that shows journal rows of a memory."""
        bodies = [
            caller.get("/journal", **ALL).content,
            caller.get(f"/memories/{uid}/history", **ALL).content,
            b"".join(caller.get("/export", whole="true").streaming_content),
        ]
        return b"".join(bodies).decode()

    def test_hash_of_a_readable_memory_stays(self, memory: Memory, agent: Any) -> None:
        [row] = agent("public").get("/journal", object_id=memory.uid).json()["items"]
        assert row["detail"] == {"content_hash": memory.content_hash}

    def test_hash_of_a_trashed_memory_stays(self, memory: Memory, bot: Any) -> None:
        bot.delete(f"/memories/{memory.uid}")
        rows = bot.get("/journal", object_id=memory.uid).json()["items"]
        assert [row["detail"]["content_hash"] for row in rows] == [memory.content_hash] * 2

    def test_hash_of_a_visible_version_stays(self, memory: Memory, bot: Any, agent: Any) -> None:
        bot.patch(f"/memories/{memory.uid}", {"content": "Grace leads the billing team"})
        assert memory.content_hash in self.answers(agent("public"), memory.uid)

    def test_hash_of_a_version_above_the_clearance_is_omitted(
        self, memory: Memory, bot: Any, agent: Any
    ) -> None:
        bot.patch(f"/memories/{memory.uid}", {"content": "Grace leads the billing team"})
        memory.revisions.update(sensitivity="secret")
        assert memory.content_hash in self.answers(bot, memory.uid)
        assert memory.content_hash not in self.answers(agent("public"), memory.uid)

    def test_hash_of_a_redacted_text_is_omitted(self, memory: Memory, actor: Any, bot: Any) -> None:
        secret = "password = " + "Xk3vQ9" + "zP1mLw8"
        Memory.objects.filter(pk=memory.pk).update(content=f"{TEXT}: {secret}")
        redact_findings(scan_store(), actor)
        after = Memory.objects.get(pk=memory.pk).content_hash
        assert after != memory.content_hash
        shown = self.answers(bot, memory.uid)
        assert memory.content_hash not in shown
        assert after in shown
        [row] = JournalEntry.objects.filter(operation="redact")
        assert row.detail["content_hash"] == after

    @pytest.mark.parametrize(
        "odd", [None, 5, ["x"], {"a": 1}, pytest.param("\ud800", marks=pytest.mark.sqlite)]
    )
    def test_odd_imported_values_are_no_hash(self, memory: Memory, bot: Any, odd: Any) -> None:
        change = journal.Change("update", "memory", memory.uid, {"content_hash": odd, "imported": {"seq": 1}})
        with transaction.atomic():
            journal.record(Actor("token:old"), [change])
        memory.revisions.create(number=1, before={"content": odd})
        [row] = bot.get("/journal", operation="update").json()["items"]
        assert "content_hash" not in row["detail"]

    def test_hash_of_an_erased_text_is_omitted(self, memory: Memory, bot: Any) -> None:
        forgotten = bot.post("/tools/memory-mcp/memory_forget", {"id": memory.uid, "hard": True})
        assert forgotten.json()["result"]["outcome"] == "erased"
        assert memory.content_hash not in forgotten.content.decode()
        assert memory.content_hash not in self.answers(bot, memory.uid)
        assert JournalEntry.objects.get(operation="erase").detail["content_hash"] == memory.content_hash


def test_refusal_of_a_secret_draft_is_journaled_at_its_level(bot: Any, agent: Any) -> None:
    secret = {"content": "password = " + "Xk3vQ9" + "zP1mLw8", "sensitivity": "secret"}
    assert bot.post("/memories", secret).status_code == 422
    asked = {"operation": "secret_blocked", **ALL}
    assert agent("private").get("/journal", **asked).json()["items"] == []
    assert len(agent("secret").get("/journal", **asked).json()["items"]) == 1
