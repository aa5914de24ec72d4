"""Rename, merge and split projects: moved rows, permissions, visibility and undo."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.serializers import serialize
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.accounts import tokens
from memoryhub.accounts.clearance import user_clearance
from memoryhub.capture import project_changes, projects
from memoryhub.capture.projects import folder_key
from memoryhub.facts.services import create_fact
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import (
    AgentToken,
    Event,
    Fact,
    Injection,
    JournalEntry,
    Membership,
    Memory,
    MemoryCheck,
    Project,
    ProjectIdentity,
    ProjectMove,
    SavedSearch,
    Session,
)
from tests.api.conftest import Agent, bad_fields, is_problem
from tests.capture.test_identities import APP, OTHER, next_project_of, project_of
from tests.cases import each

ADMIN = system_actor("tests")
MOVED = (Memory, Fact, Session, Injection, Event, ProjectIdentity, Membership, AgentToken, MemoryCheck)


@pytest.fixture
def work(bot: Agent) -> Agent:
    """Sessions of two repositories, in the projects app and other/app, and what they left in each."""
    for repository, name in ((APP, "app"), (OTHER, "other/app")):
        for session in ("shared", f"of {name}"):
            place = {"cwd": f"/home/ada/{name}", "repository": repository, "session_id": session}
            bot.post("/hooks/claude-code", {"hook_event_name": "SessionStart", **place})
        for level in ("public", "secret"):
            fields = {"project": name, "session_id": f"of {name}", "sensitivity": level}
            same = memories.create_memory(MemoryDraft(content=f"same {level}", key=level, **fields), ADMIN)
            memories.create_memory(MemoryDraft(content=f"{name} {level}", **fields), ADMIN)
            fact = {"subject": "app", "predicate": "uses", "object": level, "memory_id": same.memory.uid}
            create_fact(FactDraft(**fact, **fields), ADMIN)
        Injection.objects.create(project=name, session=Session.objects.get(session_id=f"of {name}"))
        MemoryCheck.objects.create(project=name, prompt="what?", never_projects=["app"])
    return bot


def picture() -> dict[str, str]:
    """Return the rows that belong to projects, as they are now."""
    found = {model.__name__: serialize("json", model.objects.order_by("pk")) for model in MOVED}
    settings = Project.objects.exclude(identities=None).order_by("pk")
    spans = Session.objects.order_by("pk").values_list("pk", "session_id", "project", "started_at", "last_at")
    projects = settings.values_list("pk", "name", "mode", "ignored_paths").distinct()
    return {**found, "Session": repr(list(spans)), "Project": repr(list(projects))}


def counts(name: str) -> list[int]:
    return [model.objects.filter(project=name).count() for model in (Memory, Fact)]


def undo(change: projects.ProjectChange, actor: Actor = ADMIN) -> Project:
    return project_changes.undo_project_change(change.undo, actor)


def forbidden() -> list[list[str]]:
    return list(MemoryCheck.objects.order_by("pk").values_list("never_projects", flat=True))


@each("operation", ["merge", "split"])
def test_checks_still_refuse_memories_that_move_to_another_project(work: Agent, operation: str) -> None:
    if operation == "merge":
        change = project_changes.merge_projects("app", "other/app", ADMIN)
        target = "other/app"
    else:
        change = project_changes.split_project("app", "part", ADMIN, folder="/home/ada/app")
        target = "part"
    assert forbidden() == [["app", target]] * 2
    undo(change)
    assert forbidden() == [["app"]] * 2


def test_renamed_project_keeps_everything_and_its_repository(work: Agent) -> None:
    project_changes.rename_project("app", "shop", ADMIN)
    assert (counts("app"), counts("shop")) == ([0, 0], [4, 2])
    assert project_of(work, APP) == "shop"
    assert next_project_of(work, None, "/srv/app", "s9") == "shop"


def test_rename_is_undone_exactly(work: Agent) -> None:
    before = picture()
    changed = project_changes.rename_project("app", "shop", ADMIN)
    assert picture() != before
    assert undo(changed).name == "app"
    assert picture() == before
    assert not ProjectMove.objects.exists()
    with pytest.raises(NotFound):
        undo(changed)


@each("operation", ["rename", "merge"])
def test_undo_restores_former_names_that_were_replaced(work: Agent, operation: str) -> None:
    """Another project has had both names before, for everyone and for one person's agents."""
    other = Project.objects.create(name="older")
    for name in ("app", "shop"):
        for owner in ("", "ada"):
            ProjectIdentity.objects.create(key=f"name:{name}", owner=owner, project=other)
    before = picture()
    if operation == "rename":
        changed = project_changes.rename_project("app", "shop", ADMIN)
    else:
        changed = project_changes.merge_projects("app", "other/app", ADMIN)
    assert ProjectIdentity.objects.get(key="name:app", owner="").project.name == changed.project.name
    undo(changed)
    assert picture() == before


def test_undo_of_a_rename_leaves_no_settings_behind(work: Agent) -> None:
    memories.create_memory(MemoryDraft(content="a note", project="notes"), ADMIN)
    undo(project_changes.rename_project("notes", "records", ADMIN))
    assert not Project.objects.filter(name__in=["notes", "records"]).exists()
    assert next_project_of(work, None, "/srv/records", "s9") == "records"


def test_rename_takes_memberships_tokens_and_saved_searches_along(work: Agent) -> None:
    bob = User.objects.create_user("bob")
    Membership.objects.create(user=bob, project="app", clearance="private")
    token, _ = tokens.issue_token("bot", "bob", "public", projects=["app", "z"], actor=ADMIN)
    search = SavedSearch.objects.create(user=bob, name="mine", page="memories", query="q=x&project=app")
    changed = project_changes.rename_project("app", "shop", ADMIN)
    assert user_clearance(User.objects.get(username="bob")).projects == {"shop"}
    token.refresh_from_db()
    search.refresh_from_db()
    assert (token.projects, search.query) == (["shop", "z"], "q=x&project=shop")
    undo(changed)
    assert user_clearance(User.objects.get(username="bob")).projects == {"app"}


@each("name", ["other/app", "of-a-member", "of-a-token", "configured"])
def test_rename_to_a_used_name_is_refused(work: Agent, name: str) -> None:
    Membership.objects.create(user=User.objects.create_user("bob"), project="of-a-member")
    tokens.issue_token("bot", "bob", "public", projects=["of-a-token"], actor=ADMIN)
    projects.configure_project("configured", ADMIN, mode="off")
    with pytest.raises(Conflict):
        project_changes.rename_project("app", name, ADMIN)
    assert counts("app") == [4, 2]


def test_merge_moves_everything(work: Agent) -> None:
    project_changes.merge_projects("other/app", "app", ADMIN)
    assert (counts("other/app"), counts("app")) == ([0, 0], [8, 4])
    assert set(Event.objects.values_list("session__project", flat=True)) == {"app"}
    assert not Injection.objects.exclude(project="app", session__project="app").exists()
    assert project_of(work, OTHER) == "app"


def test_merge_is_undone_exactly(work: Agent) -> None:
    before = picture()
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    assert picture() != before
    assert undo(changed).name == "other/app"
    assert picture() == before
    assert not ProjectMove.objects.exists()
    with pytest.raises(NotFound):
        undo(changed)


def test_undo_of_a_merge_leaves_what_was_added_or_erased_since(work: Agent) -> None:
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    memories.create_memory(MemoryDraft(content="added since", project="app"), ADMIN)
    Memory.objects.filter(content="other/app public").delete()
    undo(changed)
    assert (counts("other/app")[0], counts("app")[0]) == (3, 5)


@each("operation", ["rename", "merge"])
def test_undo_is_refused_until_a_later_rename_or_merge_is_undone(work: Agent, operation: str) -> None:
    memories.create_memory(MemoryDraft(content="a note", project="notes"), ADMIN)
    before = picture()
    merged = project_changes.merge_projects("other/app", "app", ADMIN)
    if operation == "rename":
        later = project_changes.rename_project("app", "shop", ADMIN)
    else:
        later = project_changes.merge_projects("app", "notes", ADMIN)
    memories.create_memory(MemoryDraft(content="stored under the name since", project="app"), ADMIN)
    with pytest.raises(Conflict, match=f"called {later.project.name} now"):
        undo(merged)
    Memory.objects.filter(content="stored under the name since").delete()
    undo(later)
    undo(merged)
    assert picture() == before


def test_undo_of_a_merge_waits_until_its_target_has_its_name_again(work: Agent) -> None:
    renamed = project_changes.rename_project("app", "shop", ADMIN)
    merged = project_changes.merge_projects("other/app", "shop", ADMIN)
    undo(renamed)
    with pytest.raises(Conflict, match="called app now"):
        undo(merged)
    project_changes.rename_project("app", "shop", ADMIN)
    undo(merged)
    assert (counts("shop"), counts("other/app")) == ([4, 2], [4, 2])


def test_merged_project_has_the_stricter_settings(work: Agent) -> None:
    projects.configure_project("app", ADMIN, ignored_paths="*.pem")
    projects.configure_project("other/app", ADMIN, mode="approve", ignored_paths="*.key\n*.pem")
    projects.configure_project("other/app", ADMIN, sends_page=False, off_page_facts=["f2"])
    projects.configure_project("app", ADMIN, off_page_facts=["f1"])
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    merged = Project.named("app")
    assert (merged.mode, merged.ignored_paths) == ("approve", "*.pem\n*.key")
    assert (merged.sends_page, merged.off_page_facts) == (False, ["f1", "f2"])
    undo(changed)
    merged = Project.named("app")
    assert (merged.mode, merged.ignored_paths) == ("automatic", "*.pem")
    assert (merged.sends_page, merged.off_page_facts) == (True, ["f1"])


def test_merge_is_refused_if_the_ignored_files_of_both_are_too_costly(work: Agent) -> None:
    for name in ("app", "other/app"):
        patterns = "\n".join(f"src/*/{name}{number}/*.gen" for number in range(20))
        projects.configure_project(name, ADMIN, ignored_paths=patterns)
    with pytest.raises(Conflict, match="the ignored files of both are too many"):
        project_changes.merge_projects("other/app", "app", ADMIN)


@each("source, target", [(2, None), (2, 1), (None, 2)])
def test_merged_project_is_paused_as_long_as_either(
    work: Agent, source: float | None, target: float | None
) -> None:
    projects.configure_project("other/app", ADMIN, pause_hours=source)
    was = projects.configure_project("app", ADMIN, pause_hours=target).project.paused_until
    longest = max(filter(None, Project.objects.values_list("paused_until", flat=True)))
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    assert Project.named("app").paused_until == longest
    undo(changed)
    assert Project.named("app").paused_until == was


def test_moves_of_a_project_are_listed_until_they_are_undone(work: Agent) -> None:
    merged = project_changes.merge_projects("other/app", "app", ADMIN)
    split = project_changes.split_project("app", "part", ADMIN, folder="/home/ada/app")

    def listed(name: str, actor: Actor = ADMIN) -> list[str]:
        return [row.object_id for row in project_changes.list_moves(name, actor)]

    assert listed("app") == [split.undo, merged.undo]
    assert listed("part") == [split.undo]
    assert listed("app", Actor("bot")) == []
    undo(split)
    assert listed("app") == [merged.undo]
    undo(merged)
    assert listed("app") == []


def test_split_project_has_the_settings_of_the_first(work: Agent) -> None:
    projects.configure_project("app", ADMIN, mode="approve", sends_page=False, off_page_facts=["f1"])
    project_changes.split_project("app", "part", ADMIN, folder="/home/ada/app")
    part = Project.named("part")
    assert (part.mode, part.sends_page, part.off_page_facts) == ("approve", False, ["f1"])


@each("levels", [None, ("public", "private"), ("", "private")])
def test_merge_that_would_show_a_member_more_is_refused(work: Agent, levels: tuple[str, str] | None) -> None:
    bob = User.objects.create_user("bob")
    Membership.objects.create(user=bob, project="app", clearance=levels[1] if levels else "private")
    if levels:
        Membership.objects.create(user=bob, project="other/app", clearance=levels[0])
    with pytest.raises(Conflict):
        project_changes.merge_projects("other/app", "app", ADMIN)
    Membership.objects.filter(project="other/app").delete()
    Membership.objects.create(user=bob, project="other/app", clearance="private")
    project_changes.merge_projects("other/app", "app", ADMIN)


def test_merge_that_would_show_an_agent_more_is_refused(work: Agent, agent: Callable[..., Agent]) -> None:
    agent(projects=["app", "z"], name="limited")
    with pytest.raises(Conflict):
        project_changes.merge_projects("other/app", "app", ADMIN)
    agent(projects=["other/app"], name="loses access")
    AgentToken.objects.filter(name="limited").update(projects=["app", "other/app"])
    project_changes.merge_projects("other/app", "app", ADMIN)


def test_undo_of_a_merge_leaves_the_end_that_a_later_event_moved(work: Agent) -> None:
    key = Session.objects.get(session_id="shared", project="app").pk
    later = timezone.now() + timedelta(hours=1)
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    Session.objects.filter(pk=key).update(last_at=later)
    undo(changed)
    assert Session.objects.get(pk=key).last_at == later


def test_merge_that_would_evict_memories_is_refused(work: Agent, configure: Callable[..., None]) -> None:
    configure(max_memories=6)
    with pytest.raises(Conflict, match="max_memories"):
        project_changes.merge_projects("other/app", "app", ADMIN)


def test_split_by_folder_and_repository_is_undone_exactly(work: Agent) -> None:
    project_changes.merge_projects("other/app", "app", ADMIN)
    Session.objects.filter(session_id="shared").delete()
    Membership.objects.create(user=User.objects.create_user("bob"), project="app", clearance="public")
    before = picture()
    changed = project_changes.split_project(
        "app",
        "part",
        ADMIN,
        folder="/home/ada/other",
        identities=["remote:example.org/other/app", f"root:{OTHER['root']}"],
    )
    assert (counts("part"), counts("app")) == ([4, 2], [4, 2])
    assert set(Memory.objects.filter(project="part").values_list("session_id", flat=True)) == {"of other/app"}
    assert Membership.objects.get(project="part").clearance == "public"
    assert undo(changed).name == "app"
    assert picture() == before
    assert not Project.objects.filter(name="part").exists()
    project_changes.split_project("app", "part", ADMIN, identities=["remote:example.org/other/app"])
    assert project_of(work, {"remote": OTHER["remote"]}) == "part"


def test_next_events_of_a_split_folder_are_in_the_new_project(
    work: Agent, agent: Callable[..., Agent]
) -> None:
    before = picture()
    changed = project_changes.split_project("app", "part", ADMIN, folder="/home/ada/app/")
    for number, repository in enumerate((APP, None)):
        assert next_project_of(work, repository, "/home/ada/app/src", f"in {number}") == "part"
        assert next_project_of(work, repository, "/home/ada/app2", f"out {number}") != "part"
    assert next_project_of(work, APP, "/home/ada/app", "of app") == "part"
    assert projects.list_identities("part", ADMIN)[0].key == "folder:/home/ada/app"
    limited = agent(projects=["app", "z"], name="limited")
    assert next_project_of(limited, APP, "/home/ada/app", "theirs") == "app"
    Session.objects.exclude(session_id__in=["shared", "of app", "of other/app"]).delete()
    undo(changed)
    assert picture()["ProjectIdentity"] == before["ProjectIdentity"]
    assert next_project_of(work, APP, "/home/ada/app/src", "later") == "app"


def test_inner_folder_that_was_split_off_decides_before_the_outer_one(work: Agent) -> None:
    project_changes.split_project("app", "outer", ADMIN, folder="/home/ada/app")
    next_project_of(work, APP, "/home/ada/app/inner", "s7")
    inner = project_changes.split_project("outer", "inner", ADMIN, folder="/home/ada/app/inner")
    assert next_project_of(work, APP, "/home/ada/app/inner/src", "s8") == "inner"
    undo(inner)
    assert next_project_of(work, APP, "/home/ada/app/inner/src", "s9") == "outer"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/home/ada/app/", "folder:/home/ada/app"),
        ("C:\\work\\app", "folder:C:/work/app"),
        ("app", ""),
        ("/", ""),
        ("C:\\", ""),
        ("/a" * 41, ""),
        ("/" + "a" * 380, ""),
    ],
)
def test_key_of_a_folder(path: str, key: str) -> None:
    assert folder_key(path) == key


def test_split_by_filter_moves_the_matching_memories(work: Agent) -> None:
    chosen = MemoryFilter(sensitivity="secret")
    project_changes.split_project("app", "part", ADMIN, chosen=chosen)
    assert set(Memory.objects.filter(project="part").values_list("sensitivity", flat=True)) == {"secret"}
    assert counts("part") == [2, 1]
    assert Session.objects.filter(project="part", session_id="of app").exists()


@each("folder", ["", "/home/ada/ap", "/home/ada/app/x", "/%", "/_"])
def test_split_of_nothing_is_refused(work: Agent, folder: str) -> None:
    Session.objects.filter(project="app").update(cwd="/home/ada/app")
    with pytest.raises(StoreError):
        project_changes.split_project("app", "part", ADMIN, folder=folder)


def test_caller_without_every_level_or_project_is_refused(work: Agent) -> None:
    for clearance in (Clearance.up_to("private"), Clearance.up_to("secret", projects=["app", "other/app"])):
        actor = Actor("user:eve", clearance)
        with pytest.raises(Forbidden):
            project_changes.rename_project("app", "shop", actor)
        with pytest.raises(Forbidden):
            project_changes.merge_projects("app", "other/app", actor)
        with pytest.raises(Forbidden):
            project_changes.split_project("app", "part", actor, folder="/")
    changed = project_changes.rename_project("app", "shop", ADMIN)
    for clearance in (Clearance.up_to("private"), Clearance(frozenset({"public", "secret"}))):
        with pytest.raises((Forbidden, NotFound)):
            undo(changed, Actor("user:eve", clearance))
    rows = JournalEntry.objects.filter(operation="rename")
    assert not rows.visible_to(Clearance.up_to("secret", projects=["app", "shop"])).exists()


def test_personal_memory_of_another_stays_theirs(work: Agent) -> None:
    own = Actor("user:bob", Clearance.up_to("public", owner="bob"))
    draft = MemoryDraft(content="mine", project="other/app", scope="personal")
    memory = memories.create_memory(draft, own).memory
    project_changes.merge_projects(
        "other/app", "app", Actor("user:ada", Clearance.up_to("secret", owner="ada"))
    )
    memory.refresh_from_db()
    assert (memory.project, memory.owner, memory.scope) == ("app", "bob", "personal")


# --- The API ------------------------------------------------------------------------------------------------


def test_api_renames_merges_splits_and_undoes(work: Agent) -> None:
    merged = work.post("/project-merges", {"project": "other/app", "into": "app"}).json()
    assert merged["name"] == "app"
    renamed = work.post("/project-renames", {"project": "app", "into": "shop"}).json()
    assert renamed["name"] == "shop"
    body: dict[str, Any] = {"project": "shop", "into": "part", "memories": {"sensitivity": "public"}}
    split = work.post("/project-splits", body).json()
    assert split["name"] == "part"
    keys = {one["key"] for one in work.get("/project-identities/shop").json()["items"]}
    assert {"name:app", "name:other/app", "remote:example.org/owner/app"} <= keys
    for change in (split, renamed, merged):
        assert work.post(f"/project-changes/{change['change']}/undo").status_code == 200
    assert counts("other/app") == [4, 2]


def test_api_refuses_bad_moves(work: Agent, agent: Callable[..., Agent]) -> None:
    assert bad_fields(work.post("/project-renames", {"project": "app", "into": "a\nb"})) == {"into"}
    assert bad_fields(work.post("/project-renames", {"project": "app", "into": "x" * 201})) == {"into"}
    assert bad_fields(work.post("/project-merges", {"project": "app", "into": "app"})) == {"into"}
    is_problem(work.post("/project-merges", {"project": "none", "into": "app"}), 404)
    assert bad_fields(work.post("/project-merges", {"project": "app", "into": "none"})) == {"into"}
    is_problem(work.post("/project-renames", {"project": "app", "into": "other/app"}), 409)
    body = {"project": "app", "into": "part"}
    assert bad_fields(work.post("/project-splits", body)) == {"into"}
    assert bad_fields(work.post("/project-splits", {**body, "identities": ["root:x"]})) == {"identities"}
    assert bad_fields(work.post("/project-splits", {**body, "folder": "home/ada"})) == {"folder"}
    writer = agent(rights=["read", "write"], name="writer")
    is_problem(writer.post("/project-merges", body), 403, "missing_right")
    limited = agent(projects=["other"], name="limited")
    is_problem(limited.get("/project-identities/app"), 404)
    is_problem(limited.post("/project-merges", {"project": "app", "into": "other"}), 403)


@each(
    "source, target, merged",
    [(None, None, None), (20, None, 20), (7, None, None), (None, 9, None), (30, 20, 30), (0, 30, 0)],
)
def test_merged_project_has_the_higher_cap_until_the_undo(
    work: Agent,
    configure: Callable[..., None],
    source: int | None,
    target: int | None,
    merged: int | None,
) -> None:
    configure(max_memories=10)
    projects.configure_project("other/app", ADMIN, max_memories=source)
    projects.configure_project("app", ADMIN, max_memories=target)
    changed = project_changes.merge_projects("other/app", "app", ADMIN)
    assert Project.named("app").max_memories == merged
    project_changes.undo_project_change(changed.undo, ADMIN)
    assert Project.named("app").max_memories == target


def test_merge_is_refused_above_the_higher_of_both_caps(work: Agent, configure: Callable[..., None]) -> None:
    configure(max_memories=0)
    for name, cap in (("app", 5), ("other/app", 6)):
        projects.configure_project(name, ADMIN, max_memories=cap)
    with pytest.raises(Conflict, match="cap"):
        project_changes.merge_projects("other/app", "app", ADMIN)


def test_cap_follows_a_rename_and_a_split(work: Agent) -> None:
    projects.configure_project("app", ADMIN, max_memories=70)
    project_changes.rename_project("app", "shop", ADMIN)
    project_changes.split_project("shop", "part", ADMIN, folder="/home/ada/app")
    assert (Project.named("shop").max_memories, Project.named("part").max_memories) == (70, 70)
