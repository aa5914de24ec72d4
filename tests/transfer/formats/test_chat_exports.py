"""The data exports of ChatGPT and Claude."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models import Memory, Session
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.records import Conversation, ReadOptions, UnreadableFile
from tests.transfer.conftest import ADA
from tests.transfer.formats.foreign import Read
from tests.transfer.formats.test_foreign_imports import KEY, ImportOutcome

PREFERENCE = "I prefer short commit messages in the imperative. Please remember that for this project."
T = 1_772_359_200.0  # 2026-03-01


def archive(path: Path, **members: Any) -> Path:
    """Write a zip archive; ``__`` in a name is written as a slash."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            member = name.replace("__", "/") + ".json"
            file.writestr(member, content if isinstance(content, bytes | str) else json.dumps(content))
    return path


def node(key: str, parent: str | None, role: str, text: str, at: float = T, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "create_time": at, "content": content, "recipient": "all", **more}
    return {"id": key, "parent": parent, "children": [], "message": message}


def chatgpt(*nodes: dict[str, Any], **values: Any) -> dict[str, Any]:
    mapping = {one["id"]: one for one in nodes}
    return {
        "conversation_id": "c1",
        "title": "Commits",
        "create_time": T,
        "update_time": T + 60,
        "mapping": mapping,
        "current_node": nodes[-1]["id"],
    } | values


def saved_list(text: str, at: float = T) -> dict[str, Any]:
    found = node("list", None, "assistant", "", at)
    found["message"]["content"] = {"content_type": "model_editable_context", "model_set_context": text}
    return found


def claude_conversation(**values: Any) -> dict[str, Any]:
    messages = [
        {"uuid": "m1", "sender": "human", "text": PREFERENCE, "content": []},
        {
            "uuid": "m2",
            "sender": "assistant",
            "text": "Noted.",
            "content": [{"type": "text", "text": "Noted."}],
        },
    ]
    times = {"created_at": "2026-03-01T10:00:00Z", "updated_at": "2026-03-01T10:05:00Z"}
    return {"uuid": "u1", "name": "Commits", "summary": "", "chat_messages": messages, **times, **values}


def conversations(found: Read) -> list[Conversation]:
    return [item for item in found.items if isinstance(item, Conversation)]


CHATGPT = chatgpt(node("a", None, "user", PREFERENCE), node("b", "a", "assistant", "Noted."))


class TestChatGpt:
    @pytest.mark.parametrize("name", ["conversations", "export__conversations-000"])
    def test_archive_is_recognised(self, tmp_path: Path, name: str) -> None:
        assert detect_format(archive(tmp_path / "x.zip", **{name: [CHATGPT]})).name == "chatgpt"

    def test_single_file_is_recognised(self, tmp_path: Path) -> None:
        path = tmp_path / "conversations.json"
        path.write_text(json.dumps([CHATGPT]))
        assert detect_format(path).name == "chatgpt"

    def test_only_the_current_branch_is_read(self, tmp_path: Path) -> None:
        tree = chatgpt(
            node("a", None, "user", "first"),
            node("old", "a", "assistant", "an abandoned answer"),
            node("hidden", "a", "system", "rules"),
            node("b", "hidden", "assistant", "the answer that was kept"),
        )
        [found] = conversations(Read("chatgpt", archive(tmp_path / "x.zip", conversations=[tree])))
        assert [one["content"] for one in found.messages] == ["first", "the answer that was kept"]
        assert (found.session_id, found.started_at) == ("chatgpt:c1", datetime.fromtimestamp(T, UTC))

    def test_tree_with_a_cycle_ends(self, tmp_path: Path) -> None:
        loop = chatgpt(node("a", "b", "user", "first"), node("b", "a", "assistant", "second"))
        [found] = conversations(Read("chatgpt", archive(tmp_path / "x.zip", conversations=[loop])))
        assert len(found.messages) == 2

    def test_newest_list_and_later_additions_are_the_saved_memories(self, tmp_path: Path) -> None:
        old = chatgpt(saved_list("1. [2025-01-02]. Was deleted since.", T - 90), conversation_id="c0")
        new = chatgpt(
            saved_list("1. [2025-01-02]. Likes tea.\n\n2. [2025-03-04]. Works on\nthe shop."),
            node("b1", "list", "assistant", "Was deleted too.", T - 5, recipient="bio"),
            node("b2", "b1", "assistant", "Likes tea.\nHas a dog.", T + 5, recipient="bio"),
        )
        found = Read("chatgpt", archive(tmp_path / "x.zip", conversations=[old, new]))
        assert [one.content for one in found.drafts] == ["Likes tea.", "Works on the shop.", "Has a dog."]
        assert found.drafts[0].created_at == datetime(2025, 1, 2, tzinfo=UTC)
        assert found.unmapped["additions to the saved memories that the newest list no longer contains"] == 1

    def test_unread_parts_are_reported_by_name(self, tmp_path: Path) -> None:
        picture = chatgpt(node("a", None, "user", "look"), gizmo_id="g-1")
        picture["mapping"]["a"]["message"]["content"]["parts"].append({"asset_pointer": "x"})
        path = archive(tmp_path / "x.zip", conversations=[picture], user={"id": 1}, message_feedback=[])
        unmapped = Read("chatgpt", path).unmapped
        assert {"gizmo_id of conversations", "images and files of messages", "file user.json"} <= set(
            unmapped
        )

    @pytest.mark.parametrize(
        ("content", "error"),
        [
            (b'[{"mapping": {}, "conversation_id": "x"}, {"mapp', "conversations.json: "),
            (b'[{"mapping": {}}' + b" " * 90_000_000 + b"]", "unpacks to more than"),
        ],
    )
    def test_damaged_archive_is_refused(self, tmp_path: Path, content: bytes, error: str) -> None:
        path = archive(tmp_path / "x.zip", conversations=content)
        with pytest.raises(UnreadableFile, match=error):
            list(FORMATS["chatgpt"].read(path, ReadOptions()))

    def test_archive_without_conversations_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFile, match="contains no conversations or memories of ChatGPT"):
            list(FORMATS["chatgpt"].read(archive(tmp_path / "x.zip", user={}), ReadOptions()))

    @pytest.mark.parametrize(
        "broken", [1, "x", {"mapping": []}, {"mapping": {"a": 7}, "current_node": ["a"]}]
    )
    def test_broken_conversation_does_not_stop_the_others(self, tmp_path: Path, broken: Any) -> None:
        path = archive(tmp_path / "x.zip", conversations=[CHATGPT, broken])
        assert len(conversations(Read("chatgpt", path))) == 1

    def test_path_outside_of_the_archive_is_no_path(self, tmp_path: Path) -> None:
        path = archive(tmp_path / "x.zip", **{"..__..__conversations": [CHATGPT]})
        assert len(conversations(Read("chatgpt", path))) == 1
        assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]


class TestClaude:
    MEMORIES = {
        "conversations_memory": "**Work context**\nAda builds the shop.\n\n## Style\nShort answers.",
        "project_memories": {"p1": "Uses Postgres 16."},
        "memory_files": [
            {"path": "/profile.md", "content": "Prefers metric units", "updated_at": "2026-01-02T03:04:05Z"}
        ],
        "account_uuid": "acct",
    }
    PROJECT = {
        "uuid": "p1",
        "name": "Shop",
        "prompt_template": "Answer in English.",
        "docs": [
            {
                "uuid": "d1",
                "filename": "notes.md",
                "content": "Deploy on weekdays",
                "created_at": "2026-01-01",
            }
        ],
    }

    def test_archive_with_memories_is_not_taken_for_openmemory(self, tmp_path: Path) -> None:
        path = archive(tmp_path / "x.zip", conversations=[claude_conversation()], memories=[self.MEMORIES])
        assert detect_format(path).name == "claude"

    @pytest.mark.parametrize("old", [True, False])
    def test_memories_and_projects_become_memories(self, tmp_path: Path, old: bool) -> None:
        members: dict[str, Any] = (
            {"memories": [self.MEMORIES], "projects": [self.PROJECT]}
            if old
            else {"memories__acct": self.MEMORIES, "projects__p1": self.PROJECT}
        )
        found = Read("claude", archive(tmp_path / "x.zip", **members))
        assert not found.bad
        assert {(one.title, one.content, one.project) for one in found.drafts} == {
            ("Instructions of Shop", "Answer in English.", "Shop"),
            ("notes.md", "Deploy on weekdays", "Shop"),
            ("Work context", "Ada builds the shop.", ""),
            ("Style", "Short answers.", ""),
            ("", "Uses Postgres 16.", "Shop"),
            ("/profile.md", "Prefers metric units", ""),
        }

    def test_conversation_and_its_summary_are_read(self, tmp_path: Path) -> None:
        path = archive(tmp_path / "x.zip", conversations=[claude_conversation(summary="About commits.")])
        found = Read("claude", path)
        [conversation] = conversations(found)
        assert conversation.session_id == "claude:u1"
        assert [one["role"] for one in conversation.messages] == ["human", "assistant"]
        [summary] = found.drafts
        assert (summary.type, summary.title, summary.session_id) == (
            "session_summary",
            "Commits",
            "claude:u1",
        )

    def test_only_the_current_branch_is_read(self, tmp_path: Path) -> None:
        rows = [
            {"uuid": key, "parent_message_uuid": parent, "sender": "human", "text": key}
            for key, parent in (("a", "root"), ("b", "a"), ("c", "a"))
        ]
        path = archive(tmp_path / "x.zip", conversations=[claude_conversation(chat_messages=rows)])
        [found] = conversations(Read("claude", path))
        assert [one["content"] for one in found.messages] == ["a", "c"]

    def test_later_export_updates_a_memory(self, db: None, tmp_path: Path) -> None:
        later = {**self.MEMORIES, "conversations_memory": "**Work context**\nAda runs the shop."}
        for number, memories in enumerate([self.MEMORIES, later]):
            ImportOutcome(archive(tmp_path / f"{number}.zip", memories=[memories], projects=[self.PROJECT]))
        memory = Memory.objects.get(title="Work context")
        assert memory.content == "Ada runs the shop."
        assert memory.revisions.count() == 1


@pytest.mark.django_db
class TestConversations:
    def test_memories_are_extracted_with_their_conversation(self, tmp_path: Path) -> None:
        brought = ImportOutcome(archive(tmp_path / "x.zip", conversations=[CHATGPT]), project="shop")
        memory = Memory.objects.get()
        assert "short commit messages" in memory.content
        assert (memory.session_id, memory.project, memory.author) == (
            "chatgpt:c1",
            "shop",
            "command:operator",
        )
        assert memory.created_at == datetime.fromtimestamp(T, UTC)
        assert brought.tally.others == {"conversations": {"read": 1}, "extracted memories": {"created": 1}}

    def test_same_file_again_changes_nothing(self, tmp_path: Path) -> None:
        path = archive(tmp_path / "x.zip", conversations=[CHATGPT])
        ImportOutcome(path)
        before = list(Memory.objects.values())
        assert ImportOutcome(path).tally.others == {"conversations": {"unchanged": 1}}
        assert list(Memory.objects.values()) == before

    def test_longer_conversation_is_read_again(self, tmp_path: Path) -> None:
        ImportOutcome(archive(tmp_path / "1.zip", conversations=[CHATGPT]))
        longer = chatgpt(*CHATGPT["mapping"].values(), update_time=T + 999)
        brought = ImportOutcome(archive(tmp_path / "2.zip", conversations=[longer]))
        assert brought.tally.others["conversations"] == {"read": 1}
        assert Memory.objects.count() == 1

    def test_dry_run_counts_candidates_and_stores_nothing(self, tmp_path: Path) -> None:
        brought = ImportOutcome(archive(tmp_path / "x.zip", conversations=[CHATGPT]), dry_run=True)
        assert brought.tally.others["extracted memories"] == {"candidate": 1}
        assert not Memory.objects.exists()
        assert not Session.objects.exists()

    def test_memories_belong_to_the_importing_person(self, tmp_path: Path) -> None:
        ImportOutcome(archive(tmp_path / "x.zip", conversations=[CHATGPT]), ADA)
        memory = Memory.objects.get()
        assert (memory.scope, memory.owner) == ("personal", "ada")

    def test_credential_in_a_conversation_is_not_stored(self, tmp_path: Path) -> None:
        text = f"{PREFERENCE} I prefer that the key {KEY} is used for deployments."
        ImportOutcome(archive(tmp_path / "x.zip", conversations=[chatgpt(node("a", None, "user", text))]))
        assert not Memory.objects.filter(content__contains=KEY).exists()
