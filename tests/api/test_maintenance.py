"""Maintenance over the API: runs are started, read, stopped, resumed and undone."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.maintenance import executor, runs
from memoryhub.models import MaintenanceRun, Memory
from tests.api.conftest import bad_fields, is_problem
from tests.cases import each

CALLS = [
    ("post", "/maintenance"),
    ("get", "/maintenance"),
    ("get", "/maintenance/x"),
    ("post", "/maintenance/x/undo"),
    ("post", "/maintenance/x/resume"),
    ("post", "/maintenance/x/stop"),
]


@pytest.fixture
def aged(bot):
    """Three public memories and one of each other level, ten days old; their ids by level."""
    for n in range(3):
        bot.post("/memories", {"content": f"public {n}", "title": f"Title {n}", "project": "p"})
    for level in ("private", "secret"):
        bot.post(
            "/memories", {"content": f"a {level} one", "title": f"A {level} title", "sensitivity": level}
        )
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=10))


def ask(agent, **body):
    """Start a run and return its id."""
    response = agent.post("/maintenance", body)
    assert response.status_code == 202, response.content
    return response.json()["id"]


def worked(agent, **body):
    """Start a run, execute it and return it."""
    uid = ask(agent, **body)
    assert executor.execute(MaintenanceRun.objects.get(uid=uid))
    return read(agent, uid)


def read(agent, uid, **query):
    response = agent.get(f"/maintenance/{uid}", **query)
    assert response.status_code == 200, response.content
    return response.json()


def test_run_is_queued_and_answered_at_once(bot):
    response = bot.post("/maintenance", {"operation": "consolidate"})
    assert response.status_code == 202
    body = response.json()
    assert body["status"] == "queued"
    assert body["id"] == MaintenanceRun.objects.get().uid
    assert body["detail"] == ""


@each("method, path", CALLS)
def test_every_call_needs_the_right_to_maintain(agent, method, path):
    writer = agent(rights=["read", "write"])
    is_problem(getattr(writer, method)(path), 403, "missing_right")


def test_dry_run_lists_planned_changes_with_reasons(bot, aged):
    body = worked(bot, operation="consolidate", dry_run=True)
    assert (body["status"], body["dry_run"], body["done"], body["total"]) == ("done", True, 5, 5)
    body = read(bot, body["id"], allow_private=True, allow_secret=True)
    assert body["result"]["counts"] == {"decay": 5}
    item = body["result"]["items"][0]
    assert item["title"] == "Title 0"
    assert item["before"] == 0.5
    assert 0 < item["after"] < 0.5
    assert "not used for 10 days" in item["reason"]
    assert set(Memory.objects.values_list("importance", flat=True)) == {0.5}


def test_changes_of_a_level_are_listed_only_if_requested(bot, agent, aged):
    uid = worked(bot, operation="consolidate", dry_run=True)["id"]

    def titles(reader, **query):
        return {item["title"] for item in read(reader, uid, **query)["result"]["items"]}

    public = {"Title 0", "Title 1", "Title 2"}
    assert titles(bot) == public
    assert titles(bot, allow_private=True) == public | {"A private title"}
    assert titles(bot, allow_private=True, allow_secret=True) == public | {
        "A private title",
        "A secret title",
    }
    low = agent("public", "low")
    assert titles(low, allow_private=True, allow_secret=True) == public


def test_changes_of_a_level_are_counted_only_if_requested(bot, aged):
    uid = worked(bot, operation="consolidate", dry_run=True)["id"]
    for asked, count in (({}, 3), ({"allow_private": True}, 4)):
        result = read(bot, uid, **asked)["result"]
        assert (result["counts"], result["changes"], result["listed"]) == ({"decay": count}, count, count)
    whole = read(bot, uid, allow_private=True, allow_secret=True)
    assert whole["result"]["counts"] == {"decay": 5}
    assert (whole["done"], whole["total"], whole["in_percent"]) == (5, 5, False)


def test_numbers_of_hidden_rows_are_not_shown(bot, agent, aged):
    uid = worked(bot, operation="consolidate", dry_run=True)["id"]
    body = read(agent("public", "low"), uid)
    assert (body["in_percent"], body["done"], body["total"]) == (True, 100, 100)
    assert body["result"]["counts"] == {"decay": 3}
    assert body["result"]["changes"] == 3


@pytest.mark.slow
def test_reindexing_covers_everything_and_is_counted_for_no_one(bot, agent, aged):
    for one in (agent("public", "low"), agent("secret", "elsewhere", projects=["q"]), bot):
        for dry_run in (True, False):
            body = worked(one, operation="reindex", dry_run=dry_run)
            assert (body["in_percent"], body["done"], body["total"]) == (True, 100, 100)
            assert body["result"]["counts"] == {"reindex": 2}
            assert len(body["result"]["items"]) == 2


def test_run_covers_what_its_token_clears(agent, aged):
    low = agent("public", "low")
    assert worked(low, operation="consolidate")["result"]["counts"] == {"decay": 3}
    assert Memory.objects.filter(importance=0.5).count() == 2


def test_run_of_another_project_is_404(bot, agent, aged):
    uid = ask(bot, operation="consolidate", project="p")
    elsewhere = agent("secret", "elsewhere", projects=["q"])
    for path in (f"/maintenance/{uid}/undo", f"/maintenance/{uid}/stop", f"/maintenance/{uid}/resume"):
        is_problem(elsewhere.post(path), 404)
    is_problem(elsewhere.get(f"/maintenance/{uid}"), 404)
    assert elsewhere.get("/maintenance").json()["total"] == 0


def test_hidden_project_is_not_named(bot, agent, aged):
    bot.post("/memories", {"content": "hush", "project": "hidden", "sensitivity": "secret"})
    low = agent("public", "low")
    for project, named in (("hidden", {}), ("p", {"project": "p"})):
        uid = worked(bot, operation="consolidate", dry_run=True, project=project)["id"]
        assert read(bot, uid)["params"] == {"project": project}
        assert read(low, uid)["params"] == named
        assert low.get("/maintenance").json()["items"][0]["params"] == named


def test_token_without_read_sees_no_titles(agent, aged):
    keeper = agent("secret", "keeper", rights=["maintain"])
    body = worked(keeper, operation="consolidate", dry_run=True)
    assert {item["title"] for item in body["result"]["items"]} == {""}


def test_parameters_may_be_nested_or_top_level(bot, aged):
    for body in ({"project": "p"}, {"params": {"project": "p"}}):
        answer = worked(bot, operation="consolidate", dry_run=True, **body)
        assert answer["params"] == {"project": "p"}
        assert answer["total"] == 3


def test_invalid_values_are_named(bot):
    assert bad_fields(bot.post("/maintenance", {"operation": "dance"})) == {"operation"}
    assert bad_fields(bot.post("/maintenance", {"operation": "consolidate", "colour": "red"})) == {"colour"}
    assert bad_fields(bot.post("/maintenance", {"operation": "consolidate", "params": {"project": 5}})) == {
        "project"
    }
    assert bad_fields(bot.post("/maintenance", {"dry_run": "perhaps"})) == {"operation", "dry_run"}
    assert bad_fields(bot.get("/maintenance", status="lazy")) == {"status"}
    none = bot.post("/maintenance", {"operation": "reindex", "project": "p"})
    assert "it has none" in none.json()["detail"]


def test_second_run_conflicts_and_names_the_first(bot):
    uid = ask(bot, operation="consolidate")
    problem = is_problem(bot.post("/maintenance", {"operation": "consolidate"}), 409, "conflict")
    assert uid in problem["detail"]


def test_changes_are_paged(bot, aged):
    uid = worked(bot, operation="consolidate", dry_run=True)["id"]
    first = read(bot, uid, limit=2)["result"]
    second = read(bot, uid, limit=2, cursor=first["next_cursor"])["result"]
    assert [item["title"] for item in first["items"] + second["items"]] == ["Title 0", "Title 1", "Title 2"]
    assert second["next_cursor"] is None


@each("cursor", ["x", "-1", "9999999", "1.5", "²"])
def test_invalid_cursor_is_refused(bot, cursor):
    uid = ask(bot, operation="consolidate")
    assert bad_fields(bot.get(f"/maintenance/{uid}", cursor=cursor)) == {"cursor"}


def test_run_is_undone_by_another_run(bot, aged):
    uid = worked(bot, operation="consolidate")["id"]
    assert read(bot, uid)["undoable"] is True
    response = bot.post(f"/maintenance/{uid}/undo")
    assert response.status_code == 202
    assert response.json()["undoes"] == uid
    assert executor.execute(MaintenanceRun.objects.get(uid=response.json()["id"]))
    assert set(Memory.objects.values_list("importance", flat=True)) == {0.5}
    body = read(bot, uid)
    assert body["undone_at"]
    assert body["undoable"] is False
    is_problem(bot.post(f"/maintenance/{uid}/undo"), 409, "conflict")


def test_run_is_stopped_and_resumed(bot, aged):
    uid = ask(bot, operation="consolidate")
    stopped = bot.post(f"/maintenance/{uid}/stop")
    assert stopped.status_code == 202
    assert (stopped.json()["status"], stopped.json()["cause"]) == ("failed", "stopped")
    assert stopped.json()["resumable"] is True
    assert bot.post(f"/maintenance/{uid}/resume").json()["status"] == "queued"
    assert executor.execute(MaintenanceRun.objects.get(uid=uid))
    whole = read(bot, uid, allow_private=True, allow_secret=True)
    assert whole["result"]["counts"] == {"decay": 5}
    is_problem(bot.post(f"/maintenance/{uid}/resume"), 409, "conflict")


def test_lower_clearance_may_not_control_the_run(bot, agent, aged):
    uid = ask(bot, operation="consolidate")
    is_problem(agent("public", "low").post(f"/maintenance/{uid}/stop"), 403, "forbidden")


def test_response_says_when_no_worker_runs(bot, configure):
    configure(maintenance_worker=False)
    body = bot.post("/maintenance", {"operation": "consolidate"}).json()
    assert "manage.py maintain --waiting" in body["detail"]


def test_runs_are_listed_newest_first(bot):
    uids = [ask(bot, operation="consolidate", dry_run=True) for _ in range(3)]
    runs.enqueue("consolidate", {}, system_actor("schedule"))
    body = bot.get("/maintenance", limit=2).json()
    assert body["total"] == 4
    assert body["items"][0]["actor"] == "system:schedule"
    assert body["items"][1]["id"] == uids[2]
    rest = bot.get("/maintenance", limit=2, cursor=body["next_cursor"]).json()
    assert [item["id"] for item in rest["items"]] == [uids[1], uids[0]]
    assert bot.get("/maintenance", status="done").json()["total"] == 0
    assert bot.get("/maintenance", operation="evict").json()["total"] == 0


def test_error_contains_no_words_of_a_memory(bot, aged, monkeypatch, caplog):
    from memoryhub.maintenance.operations.consolidate import Consolidate

    def fail(*args, **kwargs):
        raise ValueError("a secret one")

    monkeypatch.setattr(Consolidate, "total", fail)
    body = worked(bot, operation="consolidate")
    assert (body["status"], body["cause"]) == ("failed", "error")
    assert body["error"] == "ValueError; see the log of the hub"


LEVELS = ("public", "private", "secret")
OPERATIONS = ("purge_expired", "consolidate", "compress", "summarize_old", "evict", "empty_trash")


@pytest.fixture
def store_of_all_levels(bot, configure):
    """Memories of each level for every operation."""
    now = timezone.now()
    special = {
        "faded": {"importance": 0.01, "updated_at": now - timedelta(days=200)},
        "used": {"accessed_count": 3, "last_accessed_at": now},
        "expired": {"expires_at": now - timedelta(days=1)},
        "trashed": {"deleted_at": now - timedelta(days=1), "trash_reason": "forgotten"},
    }
    for level in LEVELS:
        contents = [f"the {level} pump in the mill house was greased again, turn {n}" for n in range(6)]
        for content in (*contents, *(f"{level} and {name}" for name in special)):
            bot.post("/memories", {"content": content, "sensitivity": level})
    Memory.objects.update(updated_at=now - timedelta(days=40), created_at=now - timedelta(days=40))
    for name, values in special.items():
        Memory.objects.filter(content__endswith=f"and {name}").update(**values)
    configure(max_memories=5)


@each("clearance, operation", list(product(LEVELS, OPERATIONS)))
def test_dry_run_lists_exactly_what_the_run_does(agent, store_of_all_levels, clearance, operation):
    keeper = agent(clearance, "keeper")

    def listed(*, dry_run):
        uid = worked(keeper, operation=operation, dry_run=dry_run)["id"]
        result = read(keeper, uid, allow_private=True, allow_secret=True, limit=200)["result"]
        assert result["changes"] == len(result["items"])
        named = ("id", "action", "before", "reason", "members")
        return [tuple(map(str, (item[name] for name in named))) for item in result["items"]]

    foreseen = listed(dry_run=True)
    assert foreseen
    assert listed(dry_run=False) == foreseen
