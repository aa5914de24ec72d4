"""Projects are recognised by their repository: remote URL, root commit, never by a claim alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.capture import projects
from memoryhub.capture.projects import normalise_remote
from memoryhub.models import JournalEntry, Memory, Project, ProjectIdentity, Session
from tests.api.conftest import Agent, is_problem
from tests.cases import each

ROOT, OTHER_ROOT = "a" * 40, "b" * 40
APP = {"name": "app", "remote": "git@example.org:owner/app.git", "root": ROOT}
OTHER = {"name": "app", "remote": "https://example.org/other/app", "root": OTHER_ROOT}


def project_of(
    bot: Agent, repository: object = None, cwd: str = "/home/ada/app", session_id: str = "s1", **fields: Any
) -> str:
    """Start a session; return the project that it is in."""
    Session.objects.all().delete()
    return next_project_of(bot, repository, cwd, session_id, **fields)


def next_project_of(
    bot: Agent, repository: object = None, cwd: str = "/home/ada/app", session_id: str = "s1", **fields: Any
) -> str:
    body = {"hook_event_name": "SessionStart", "session_id": session_id, "cwd": cwd, **fields}
    body |= {"repository": repository} if repository else {}
    answer = bot.post("/hooks/claude-code", body)
    assert answer.status_code == 200, answer.content
    return str(Session.objects.filter(session_id=session_id).latest("pk").project)


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://example.org/Owner/App.git", "example.org/owner/app"),
        ("https://ada:s3cret@example.org/owner/app", "example.org/owner/app"),
        ("https://example.org:443/owner//app/?token=s3cret#x", "example.org/owner/app"),
        ("git@example.org:owner/app.git", "example.org/owner/app"),
        ("example.org:owner/app", "example.org/owner/app"),
        ("ssh://git@example.org:2222/owner/app.git/", "example.org/owner/app"),
        ("git+ssh://example.org/owner/app", "example.org/owner/app"),
        ("https://example.org:8443/owner/app", "example.org:8443/owner/app"),
        ("http://[::1]/app", "::1/app"),
        ("https://[::1/app", ""),
        ("https://example.org:port/app", ""),
        ("https://example.org/", ""),
        ("https://example.org/" + "a" * 400, ""),
        ("https://example.org/" + "a" * 5000, ""),
        ("https://example.org/a\x00b", ""),
        ("https://example.org/a%0Ab", ""),
        ("https://example.org/\u202eapp", ""),
        ("https://example.org/ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", ""),
        ("file:///home/ada/app", ""),
        ("/home/ada/app", ""),
        ("../app", ""),
        ("C:/work/app", ""),
        ("javascript://example.org/app", ""),
        ("", ""),
    ],
)
def test_forms_of_a_remote_are_one_key_without_credentials(url: str, key: str) -> None:
    assert normalise_remote(url) == key


def test_clones_worktrees_and_subfolders_are_one_project(bot: Agent) -> None:
    assert project_of(bot, APP, "/home/ada/app/packages/api") == "app"
    clone = {"name": "app-copy", "remote": "ssh://git@example.org/Owner/App"}
    assert project_of(bot, clone, "/tmp/app-copy") == "app"
    assert project_of(bot, {"name": "renamed", "root": ROOT}, "/home/ada/renamed") == "app"
    keys = ProjectIdentity.objects.values_list("key", flat=True)
    assert set(keys) == {"remote:example.org/owner/app", f"root:{ROOT}"}


def test_two_repositories_in_folders_of_one_name_are_two_projects(bot: Agent) -> None:
    assert project_of(bot, APP) == "app"
    assert project_of(bot, OTHER) == "other/app"
    assert project_of(bot, {"name": "app", "root": "c" * 40}) == "app-ccccccc"
    assert project_of(bot, OTHER) == "other/app"
    assert project_of(bot, APP) == "app"


def test_model_gets_the_name_of_the_project_to_remember_in(bot: Agent, agent: Callable[..., Agent]) -> None:
    project_of(bot, APP)
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s2", "cwd": "/home/ada/app"}
    remember = {**prompt, "prompt": "/memoryhub:remember We deploy on Tuesdays", "repository": OTHER}
    answer = bot.post("/hooks/claude-code", remember).json()
    assert 'the project of this session is "other/app".' in answer["hookSpecificOutput"]["additionalContext"]
    limited = agent(projects=["mine"], name="limited").post("/hooks/claude-code", remember).json()
    assert 'is "mine".' in limited["hookSpecificOutput"]["additionalContext"]
    assert bot.post("/hooks/claude-code", {**prompt, "prompt": "We deploy on Tuesdays"}).json() == {}


def test_remote_outranks_the_root_commit(bot: Agent) -> None:
    project_of(bot, APP)
    project_of(bot, OTHER)
    assert project_of(bot, {**APP, "root": OTHER_ROOT}) == "app"


def test_existing_project_keeps_its_name(bot: Agent, remember: Callable[..., Memory]) -> None:
    remember("a note", project="api")
    assert project_of(bot, APP, "/home/ada/app/packages/api") == "api"
    assert project_of(bot, APP) == "api"


def test_hook_that_cannot_name_the_repository_continues_the_session(bot: Agent) -> None:
    project_of(bot, APP)
    project_of(bot, OTHER)
    assert next_project_of(bot, None, "/home/ada/app/src") == "other/app"
    assert next_project_of(bot, None, "/home/ada/else") == "else"
    assert next_project_of(bot, None, "/home/ada/app/src", session_id="s2") == "src"


def test_session_of_another_agent_is_not_continued(bot: Agent, agent: Callable[..., Agent]) -> None:
    project_of(bot, APP)
    project_of(bot, OTHER)
    assert next_project_of(agent(name="second"), None, "/home/ada/app") == "app"


def test_other_endpoints_take_the_repository(bot: Agent) -> None:
    project_of(bot, APP)
    project_of(bot, OTHER)
    bot.post("/events", {"event": "session:start", "session_id": "s2", "repository": OTHER})
    assert Session.objects.get(session_id="s2").project == "other/app"
    message = {"role": "user", "content": "We decided to use SQLite because it needs no server."}
    bot.post("/extract", {"messages": [message], "cwd": "/home/ada/app", "repository": OTHER})
    assert set(Memory.objects.values_list("project", flat=True)) <= {"other/app"}
    bot.post("/events", {"event": "session:start", "session_id": "s3", "repository": OTHER, "project": "p"})
    assert Session.objects.get(session_id="s3").project == "p"


@each(
    "repository",
    [
        "text",
        [1],
        {"name": 1, "remote": {}, "root": []},
        {"name": "\x00", "remote": "https://example.org/" + "a" * 100_000, "root": "x" * 100_000},
        {"name": "..", "root": "A" * 40 + "\n"},
        {"remote": "https://ada:s3cret@/app"},
    ],
)
def test_unusable_repository_is_ignored(bot: Agent, repository: object) -> None:
    assert project_of(bot, repository, "/home/ada/shop") == "shop"
    assert not ProjectIdentity.objects.exists()


def test_name_of_a_repository_is_one_folder(bot: Agent) -> None:
    assert project_of(bot, {"name": "../../etc/" + "x" * 500, "root": ROOT}) == "x" * 200


def test_credentials_of_a_remote_are_stored_nowhere(bot: Agent) -> None:
    project_of(bot, {**APP, "remote": "https://ada:s3cretword@example.org/owner/app.git?t=s3cretword"})
    stored = [*ProjectIdentity.objects.values(), *JournalEntry.objects.values(), *Session.objects.values()]
    assert "s3cretword" not in repr(stored)


def test_identity_gives_no_access_to_its_project(
    bot: Agent, agent: Callable[..., Agent], remember: Callable[..., Memory]
) -> None:
    remember("The vault opens with a brass key", project="vault")
    project_of(bot, {**APP, "name": "vault"}, "/home/ada/vault")
    liar = agent(projects=["app", "b"], name="liar")
    body = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/vault", "prompt": "vault key"}
    unknown = {"name": "vault", "remote": "https://example.org/no/vault", "root": "d" * 40}
    for repository in ({**APP, "name": "vault"}, unknown):
        answer = is_problem(liar.post("/hooks/claude-code", {**body, "repository": repository}), 403)
        assert "vault" not in answer["detail"]
    assert project_of(liar, APP) == "app"


def test_confined_agent_claims_a_repository_for_its_owner_alone(
    bot: Agent, agent: Callable[..., Agent]
) -> None:
    liar = agent(projects=["a", "b"], name="liar", owner="eve")
    assert project_of(liar, {**APP, "name": "a"}, "/a") == "a"
    assert project_of(agent(projects=["a", "b"], name="other", owner="eve"), APP, "/a") == "a"
    assert project_of(bot, APP) == "app"
    assert project_of(agent(projects=["a", "app"], name="third", owner="bob"), APP, "/home/bob/a") == "app"


def test_token_of_one_project_stays_in_it(agent: Callable[..., Agent]) -> None:
    bound = agent(projects=["shop"], name="bound")
    assert project_of(bound, APP) == "shop"
    assert not ProjectIdentity.objects.exists()


def test_repository_of_a_project_that_is_off_is_not_recorded(bot: Agent) -> None:
    projects.configure_project("app", system_actor("tests"), mode="off")
    bot.post("/hooks/claude-code", {"hook_event_name": "SessionStart", "session_id": "s", "repository": APP})
    assert not ProjectIdentity.objects.exists()


def test_new_identity_is_journaled_once(bot: Agent) -> None:
    project_of(bot, APP)
    project_of(bot, APP)
    [entry] = JournalEntry.objects.filter(operation="identify")
    assert (entry.object_id, entry.project) == ("app", "app")
    assert Project.objects.get().name == "app"


def test_unknown_repository_without_a_name_is_called_like_its_remote(bot: Agent) -> None:
    assert project_of(bot, {"remote": APP["remote"]}, "/home/ada/app/packages/api") == "app"
