"""``memoryhub sync``: a project of the hub and a folder of Markdown files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.client import Client
from memoryhub.client.sync_files import CONFLICT_SUFFIX, STATE_FILE, Document, parse_document
from memoryhub.core.vocabulary import TYPES
from memoryhub.models import Memory
from tests.database import without_journal_triggers

KEY = "AKIA" + "QWERTYUIOPASDFGH"
Run = Callable[..., int]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memories"


@pytest.fixture
def sync(run: Run, folder: Path) -> Run:
    return lambda *words: run("sync", "shop", str(folder), *words)


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}


def only_file(folder: Path) -> Path:
    [path] = [one for one in folder.rglob("*.md") if not one.name.endswith(CONFLICT_SUFFIX)]
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def store(client: Client, content: str = "Deploy before noon", **fields: Any) -> str:
    return client.remember(content, project="shop", **fields).memory.id


class TestFromHub:
    def test_memory_becomes_a_readable_file(self, sync: Run, client: Client, folder: Path) -> None:
        uid = store(client, type="decision", tags=["ci", "2026"], importance=0.9, aliases=["k8s"])
        assert sync() == 0
        path = only_file(folder)
        assert path.name == f"deploy-before-noon-{uid[:8].lower()}.md"
        updated = client.get(uid).updated_at.isoformat().replace("+00:00", "Z")
        assert path.read_text() == (
            f"---\nid: {uid}\ntitle: Deploy before noon\ntype: decision\ntags:\n- '2026'\n- ci\n"
            f"aliases:\n- k8s\nimportance: 0.9\nupdated: '{updated}'\n---\n\nDeploy before noon\n"
        )

    def test_second_run_changes_no_byte(self, sync: Run, client: Client, folder: Path) -> None:
        store(client)
        sync()
        before = {path: path.read_bytes() for path in folder.iterdir()}
        assert sync() == 0
        assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def test_refresh_without_a_change_is_not_written(self, sync: Run, client: Client, folder: Path) -> None:
        store(client)
        sync()
        before = files(folder)
        store(client)  # a refresh, which changes only updated_at
        sync()
        assert files(folder) == before

    def test_change_in_the_hub_is_written(self, sync: Run, client: Client, folder: Path) -> None:
        uid = store(client)
        sync()
        client.update(uid, content="Deploy before ten")
        assert sync() == 0
        assert "\n\nDeploy before ten\n" in only_file(folder).read_text()

    def test_folder_that_cannot_be_written_is_reported(
        self, run: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store(client)
        folder.write_text("a file")
        assert run("sync", "shop", str(folder / "inside")) == 1
        assert "memoryhub: cannot use" in capsys.readouterr().err

    def test_other_projects_and_levels_are_left_out(self, sync: Run, client: Client, folder: Path) -> None:
        client.remember("elsewhere", project="web")
        store(client, "hidden", sensitivity="secret")
        assert sync() == 0
        assert files(folder) == {}

    def test_secret_is_written_on_request_for_its_owner_only(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        store(client, "hidden", sensitivity="secret")
        assert sync("--include-secret") == 0
        assert "level: secret" in only_file(folder).read_text()
        assert only_file(folder).stat().st_mode & 0o077 == 0

    def test_personal_memory_is_written_on_request(self, sync: Run, client: Client, folder: Path) -> None:
        store(client, scope="personal")
        assert sync() == 0
        assert files(folder) == {}
        assert sync("--include-personal") == 0
        assert "scope: personal" in only_file(folder).read_text()
        assert sync("--delete") == 0
        assert len(files(folder)) == 1

    def test_replacement_is_named(self, sync: Run, client: Client, folder: Path) -> None:
        new = store(client, "Deploy before ten")
        store(client, "Deploy before noon", superseded_by=new)
        sync()
        assert f"superseded_by: {new}\n" in "".join(files(folder).values())

    def test_dry_run_shows_a_diff_and_writes_nothing(
        self, sync: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store(client)
        assert sync("--dry-run") == 0
        assert "+Deploy before noon" in capsys.readouterr().out
        assert not folder.exists()


class TestToHub:
    def test_edited_file_changes_the_memory(self, sync: Run, client: Client, folder: Path) -> None:
        uid = store(client, tags=["ci"])
        sync()
        edit(only_file(folder), "- ci", "- deploy\nlevel: public\nimportance: 0.8")
        edit(only_file(folder), "\n\nDeploy before noon", "\n\nDeploy before ten")
        assert sync() == 0
        memory = client.get(uid)
        assert (memory.content, memory.tags, memory.importance) == ("Deploy before ten", ["deploy"], 0.8)
        assert sync("--dry-run") == 0

    def test_renamed_file_is_the_same_memory(self, sync: Run, client: Client, folder: Path) -> None:
        uid = store(client)
        sync()
        (folder / "ops").mkdir()
        only_file(folder).rename(folder / "ops" / "deploying.md")
        edit(folder / "ops" / "deploying.md", "\n\nDeploy before noon", "\n\nDeploy before ten")
        assert sync() == 0
        assert client.get(uid).content == "Deploy before ten"
        assert only_file(folder).name == "deploying.md"

    @pytest.mark.parametrize("text", ["Deploy on weekdays\n", "---\nname: Deploys\n---\nDeploy on weekdays"])
    def test_new_file_becomes_a_memory_that_does_not_expire(
        self, sync: Run, client: Client, folder: Path, text: str
    ) -> None:
        folder.mkdir()
        (folder / "new.md").write_text(text)
        (folder / "README.md").write_text("not a memory")
        assert sync() == 0
        memory = Memory.objects.get()
        assert (memory.content, memory.project, memory.expires_at) == ("Deploy on weekdays", "shop", None)
        assert f"id: {memory.uid}\n" in (folder / "new.md").read_text()
        assert sync("--dry-run") == 0

    def test_credential_is_refused_with_its_line_and_not_printed(
        self, sync: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder.mkdir()
        (folder / "good.md").write_text("Deploy on weekdays")
        (folder / "key.md").write_text(f"---\ntitle: Key\n---\nThe key\nis {KEY}\n")
        for words in (("--dry-run",), ()):
            assert sync(*words) == 1
            printed = capsys.readouterr()
            assert "key.md:5: contains what looks like a credential" in printed.err
            assert KEY not in printed.out + printed.err
        assert Memory.objects.get().content == "Deploy on weekdays"

    def test_level_that_is_not_included_is_refused(self, sync: Run, client: Client, folder: Path) -> None:
        folder.mkdir()
        (folder / "new.md").write_text("---\nlevel: secret\n---\nDeploy on weekdays")
        assert sync() == 1
        assert not Memory.objects.exists()

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("---\ntitle: [a\n---\ntext", "x.md:2: the front matter is not YAML here"),
            ("---\ntitle: a\n\ttags: b\n---\ntext", "x.md:3: the front matter is not YAML here"),
            ("---\ntitle: a\ntext without end", "x.md:1: the front matter has no end"),
            ("---\n- a\n- b\n---\ntext", "x.md:2: the front matter is not a list of fields"),
            ("---\ntitle: a\ntitle: b\n---\ntext", "x.md:3: the front matter repeats a field"),
            ("---\na: &x [1]\nb: *x\n---\ntext", "x.md:2: the front matter has an anchor or alias"),
            ("---\ntitle: a\nimportance: very\n---\ntext", "x.md:3: importance is not a number from 0 to 1"),
            ("---\ntype: nonsense\n---\ntext", "x.md:2: type is not one of"),
            ("---\ntitle: a\ntag: b\n---\ntext", "x.md:3: a field is unknown; known fields are id, title"),
            ("---\ntitle: {a: b}\n---\ntext", "x.md:2: title is not a string"),
            ("---\ntags: {a: b}\n---\ntext", "x.md:2: tags is not a list of words"),
            ("---\n" + "[" * 5000 + "\n---\ntext", "x.md:2: the front matter is not YAML"),
            ("---\ntitle: a\n---\n\n", "x.md:1: there is no text below the front matter"),
            (b"\xff\xfe\x00", "x.md: is not UTF-8 text"),
            (b"x" * 2_000_000, "x.md: is larger than 1 MiB"),
        ],
    )
    def test_invalid_line_is_reported_and_the_others_are_stored(
        self,
        sync: Run,
        client: Client,
        folder: Path,
        text: str | bytes,
        error: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        folder.mkdir()
        (folder / "x.md").write_bytes(text if isinstance(text, bytes) else text.encode())
        (folder / "good.md").write_text("Deploy on weekdays")
        assert sync() == 1
        assert error in capsys.readouterr().err
        assert Memory.objects.get().content == "Deploy on weekdays"

    @pytest.mark.parametrize("name", [b"new\nline.md", b"red\x1b[31m.md", b"latin\xff.md"])
    def test_name_that_cannot_be_written_is_reported(
        self, sync: Run, folder: Path, name: bytes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder.mkdir()
        (folder / os.fsdecode(name)).write_text("Deploy on weekdays")
        (folder / "good.md").write_text("Deploy before noon")
        assert sync() == 1
        assert "in its name; rename it" in capsys.readouterr().err
        assert Memory.objects.get().content == "Deploy before noon"
        assert (folder / STATE_FILE).exists()

    def test_second_file_with_the_same_text_changes_nothing(
        self, sync: Run, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder.mkdir()
        (folder / "a.md").write_text("Deploy on weekdays")
        (folder / "b.md").write_text("---\ntags: [ops]\n---\nDeploy on weekdays")
        assert sync() == 1
        assert "b.md: has the same text as a.md" in capsys.readouterr().err
        assert not Memory.objects.get().labels.exists()
        assert "id:" not in (folder / "b.md").read_text()

    def test_edit_into_the_text_of_another_memory_names_that_memory(
        self, sync: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store(client)
        sync()
        other = client.remember("Deploy before ten", project="kiosk").memory
        client.update(other.id, project="shop")
        edit(only_file(folder), "\n\nDeploy before noon", "\n\nDeploy before ten")
        assert sync() == 1
        shown = capsys.readouterr().err
        assert f"memory {other.id} has this content already" in shown
        assert "changed in the hub" not in shown

    def test_file_that_became_nonsense_is_not_taken_for_deleted(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        uid = store(client)
        sync()
        path = only_file(folder)
        edit(path, "title: Deploy", "title: [Deploy")
        path.rename(folder / "renamed.md")
        assert sync("--delete") == 1
        assert list(files(folder)) == ["renamed.md"]
        assert client.get(uid).deleted_at is None


class TestConflicts:
    @pytest.fixture
    def conflict(self, sync: Run, client: Client, folder: Path) -> tuple[str, Path]:
        uid = store(client)
        sync()
        edit(only_file(folder), "\n\nDeploy before noon", "\n\nDeploy before ten")
        client.update(uid, content="Deploy before two")
        assert sync() == 1
        return uid, only_file(folder)

    def test_both_versions_are_kept(self, conflict: tuple[str, Path], client: Client) -> None:
        uid, path = conflict
        assert "Deploy before ten" in path.read_text()
        assert "Deploy before two" in path.with_suffix(".conflict.md").read_text()
        assert client.get(uid).content == "Deploy before two"

    def test_it_stays_until_the_conflict_file_is_deleted(
        self, conflict: tuple[str, Path], sync: Run, client: Client
    ) -> None:
        uid, path = conflict
        assert sync() == 1
        edit(path, "before ten", "before eleven")
        path.with_suffix(".conflict.md").unlink()
        assert sync() == 0
        assert client.get(uid).content == "Deploy before eleven"

    def test_new_change_in_the_hub_is_a_new_conflict(
        self, conflict: tuple[str, Path], sync: Run, client: Client
    ) -> None:
        uid, path = conflict
        path.with_suffix(".conflict.md").unlink()
        client.update(uid, content="Deploy before three")
        assert sync() == 1
        assert client.get(uid).content == "Deploy before three"

    def test_folder_without_state_compares_all(self, sync: Run, client: Client, folder: Path) -> None:
        store(client)
        sync()
        (folder / STATE_FILE).unlink()
        assert sync() == 0
        (folder / STATE_FILE).unlink()
        edit(only_file(folder), "\n\nDeploy before noon", "\n\nDeploy before ten")
        assert sync() == 1

    @pytest.mark.parametrize(
        "text",
        [
            "<<<<<<< HEAD\n{",
            '{"project": "web", "memories": {}}',
            '{"project": "shop", "memories": {"a": {"file": 5, "hash": ""}}}',
            '{"project": "shop", "memories": {"a": 5}}',
            "[]",
        ],
    )
    def test_unusable_state_is_refused(
        self, sync: Run, client: Client, folder: Path, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder.mkdir()
        (folder / STATE_FILE).write_text(text)
        assert sync() == 1
        assert "memoryhub: " in capsys.readouterr().err

    def test_state_cannot_name_a_file_outside_of_the_folder(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        uid = store(client)
        sync()
        edit(folder / STATE_FILE, only_file(folder).name, "../outside.md")
        only_file(folder).unlink()
        client.update(uid, content="Deploy before ten")
        assert sync() == 0
        assert not (folder.parent / "outside.md").exists()
        assert "Deploy before ten" in only_file(folder).read_text()


class TestDeletions:
    def test_deleted_file_trashes_the_memory_only_on_request(
        self, sync: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        uid = store(client)
        sync()
        only_file(folder).unlink()
        assert sync() == 0
        assert "Deletions not made: 1. Add --delete to make them." in capsys.readouterr().out
        assert client.get(uid).deleted_at is None
        assert sync("--delete") == 0
        assert client.get(uid, trashed=True).deleted_at is not None
        assert files(folder) == {}

    def test_deleted_file_of_a_changed_memory_is_written_again(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        uid = store(client)
        sync()
        only_file(folder).unlink()
        client.update(uid, content="Deploy before ten")
        assert sync("--delete") == 0
        assert "Deploy before ten" in only_file(folder).read_text()

    def test_trashed_memory_deletes_the_file_only_on_request(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        uid = store(client)
        sync()
        client.forget(uid)
        assert sync() == 0
        assert len(files(folder)) == 1
        assert sync("--delete") == 0
        assert files(folder) == {}

    def test_edited_file_of_a_trashed_memory_stays(self, sync: Run, client: Client, folder: Path) -> None:
        uid = store(client)
        sync()
        edit(only_file(folder), "\n\nDeploy before noon", "\n\nDeploy before ten")
        client.forget(uid)
        assert sync("--delete") == 1
        assert "Deploy before ten" in only_file(folder).read_text()

    def test_file_of_a_memory_in_another_project_is_reported(
        self, sync: Run, client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        uid = store(client)
        sync()
        client.update(uid, project="kiosk")
        assert sync("--delete") == 1
        assert "is in another project now" in capsys.readouterr().err
        assert len(files(folder)) == 1

    def test_file_of_a_memory_that_the_token_no_longer_sees_stays(
        self, sync: Run, client: Client, folder: Path
    ) -> None:
        store(client, sensitivity="secret")
        sync("--include-secret")
        assert sync("--delete") == 0
        assert len(files(folder)) == 1


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
WORDS = st.lists(TEXT.map(str.strip).filter(bool), max_size=3, unique_by=str.casefold)


@given(
    content=TEXT.filter(str.strip),
    title=TEXT.map(str.strip),
    kind=st.sampled_from(TYPES),
    tags=WORDS,
    importance=st.floats(0, 1),
    pinned=st.booleans(),
)
def test_file_contains_the_whole_memory(
    content: str, title: str, kind: str, tags: Any, **values: Any
) -> None:
    memory = {"id": "a1", "content": content, "title": title, "type": kind, "tags": tags, **values}
    document = Document.from_memory(memory)
    if document.content.strip():
        assert parse_document("x.md", document.to_text()) == document


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(TEXT.filter(str.strip), TEXT, WORDS, st.floats(0, 1)), min_size=1, max_size=6))
def test_hub_to_folder_to_hub_changes_nothing(
    run: Run, client: Client, tmp_path: Path, drafts: list[tuple[str, str, list[str], float]]
) -> None:
    with without_journal_triggers():
        Memory.objects.all().delete()
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    made = [
        {"content": c, "title": t, "tags": w, "importance": i, "project": "shop"} for c, t, w, i in drafts
    ]
    client.remember_many(made)
    before = list(Memory.objects.order_by("pk").values())
    assert run("sync", "shop", str(folder)) == 0
    (folder / STATE_FILE).unlink()
    assert run("sync", "shop", str(folder), "--delete") == 0
    assert list(Memory.objects.order_by("pk").values()) == before
