"""Maintenance from the admin: started, watched, stopped, resumed and undone, behind the gate."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.maintenance import runs
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.admin.conftest import act, confirm, page, shown_messages
from tests.clients import turn_on_levels

Status = MaintenanceRun.Status


@pytest.fixture
def keeper(staff):
    """Staff who may maintain and read memories."""
    return staff("add_maintenancerun", "view_memory")


@pytest.fixture
def faded(remember):
    """Two memories that consolidation lowers from 0.5 to 0.4."""
    made = [remember(f"faded paint {number}") for number in range(2)]
    age(made)
    return made


def age(memories) -> None:
    Memory.objects.filter(pk__in=[one.pk for one in memories]).update(
        updated_at=timezone.now() - timedelta(days=5)
    )


def importances() -> list[float]:
    return [round(one, 2) for one in Memory.objects.order_by("pk").values_list("importance", flat=True)]


def start(client, operation="consolidate", **values):
    return client.post(page(MaintenanceRun, "add"), {"operation": operation, **values})


def started(client, *args, **values) -> MaintenanceRun:
    response = start(client, *args, **values)
    assert response.status_code == 302, response.context["form"].errors
    run = MaintenanceRun.objects.latest("pk")
    assert response.url == page(MaintenanceRun, "change", run.pk)
    runs.execute(run)
    return run


def shown(client, run) -> str:
    html = client.get(page(MaintenanceRun, "change", run.pk)).content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


class TestWhoMay:
    def test_staff_without_the_permission_see_and_start_nothing(self, curator, faded):
        assert curator.get(page(MaintenanceRun)).status_code == 403
        assert curator.get(page(MaintenanceRun, "add")).status_code == 403
        assert start(curator).status_code == 403
        assert "maintenancerun" not in curator.get("/admin/").content.decode()
        assert "maintenancerun" not in curator.get(page(Memory)).content.decode()

    def test_a_looker_starts_and_steers_nothing(self, staff, keeper, faded):
        run = started(keeper)
        looker = staff("view_maintenancerun", username="ben")
        assert "Consolidate" in shown(looker, run)
        assert start(looker).status_code == 403
        for action in ("stop", "resume", "undo"):
            act(looker, action, run, confirmed="yes", keys=str(run.pk))
        assert MaintenanceRun.objects.count() == 1
        assert "Undo…" not in shown(looker, run)

    def test_nobody_changes_or_deletes_a_run(self, boss, faded, keeper):
        run = started(keeper)
        before = list(MaintenanceRun.objects.values())
        assert boss.post(page(MaintenanceRun, "change", run.pk), {"actor": "x"}).status_code == 403
        assert boss.post(page(MaintenanceRun, "delete", run.pk), {"post": "yes"}).status_code == 403
        act(boss, "delete_selected", run, post="yes")
        assert list(MaintenanceRun.objects.values()) == before

    def test_the_list_of_memories_leads_there(self, keeper, faded):
        assert f'href="{page(MaintenanceRun)}"' in keeper.get(page(Memory)).content.decode()


class TestStarting:
    def test_a_dry_run_is_what_the_form_offers_first(self, keeper, db):
        form = keeper.get(page(MaintenanceRun, "add")).context["form"]
        assert form["dry_run"].value() is True

    def test_a_dry_run_changes_nothing_and_lists_what_would_change(self, keeper, faded):
        run = started(keeper, dry_run="on")
        assert importances() == [0.5, 0.5]
        words = shown(keeper, run)
        assert "Dry run: Consolidate" in words
        assert "2 would fade in importance" in words
        assert "faded paint 1 0.50 → 0.40" in words
        assert "Undo…" not in words

    def test_a_run_is_done_under_the_persons_name(self, keeper, faded):
        run = started(keeper)
        assert importances() == [0.4, 0.4]
        assert run.actor == "user:cleo"
        assert JournalEntry.objects.get(operation="run").actor == "user:cleo"
        assert "user:cleo" in keeper.get(page(MaintenanceRun, "history", run.pk)).content.decode()

    @pytest.mark.parametrize(
        ("values", "field"), [({"operation": "dance"}, "operation"), ({"project": "x" * 300}, "project")]
    )
    def test_what_is_wrong_is_told_at_its_field(self, keeper, db, values, field):
        response = start(keeper, **values)
        assert field in response.context["form"].errors
        assert not MaintenanceRun.objects.exists()

    def test_the_same_operation_does_not_run_twice_at_once(self, keeper, faded):
        start(keeper)
        assert "wait for it" in str(start(keeper).context["form"].non_field_errors())


class TestLosingForGood:
    @pytest.fixture
    def expired(self, remember, actor):
        memory = remember("old milk")
        store.apply_bulk_action("expire", [memory.uid], actor)
        Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
        return memory

    def test_it_needs_the_permission_to_erase(self, keeper, expired):
        response = start(keeper, "purge_expired")
        assert "operation" in response.context["form"].errors
        assert started(keeper, "purge_expired", dry_run="on").dry_run
        assert Memory.objects.exists()

    def test_it_asks_first(self, boss, expired):
        response = start(boss, "purge_expired")
        assert "Lose 1 memory for good?" in response.content.decode()
        assert not MaintenanceRun.objects.exists()
        form = response.content.decode().split("<form")[-1]
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)"(?: value="(\w*)")?', form))
        assert hidden["confirmed"] == "yes"
        started(boss, **hidden)
        assert not Memory.objects.exists()


class TestSteering:
    def test_stop_resume_undo(self, keeper, faded):
        start(keeper)
        run = MaintenanceRun.objects.get()
        assert "Stop" in shown(keeper, run)
        assert "1 run told to stop." in shown_messages(keeper, act(keeper, "stop", run))
        assert "Stopped" in shown(keeper, run)
        act(keeper, "resume", run)
        runs.execute(MaintenanceRun.objects.get())
        assert importances() == [0.4, 0.4]
        confirm(keeper, act(keeper, "undo", run))
        runs.execute(MaintenanceRun.objects.get(undoes=run))
        assert importances() == [0.5, 0.5]
        assert "undone since" in shown(keeper, run)

    def test_a_refusal_is_told(self, keeper, faded):
        run = started(keeper)
        assert any(
            "only one that failed" in one for one in shown_messages(keeper, act(keeper, "resume", run))
        )


class TestTheGate:
    def test_a_run_names_and_counts_only_what_may_be_seen(self, staff, four_levels, actor):
        age(four_levels.values())
        run = runs.enqueue("consolidate", {}, actor)
        runs.execute(run)
        client = staff("view_maintenancerun", "view_private", "view_secret")
        words = shown(client, run)
        assert "publicwords" in words
        assert "privatewords" not in words
        assert "1 faded in importance" in words
        assert (
            "3"
            not in client.get(page(MaintenanceRun)).content.decode().partition("<tbody>")[2].partition("%")[0]
        )
        words = shown(turn_on_levels(client, "private"), run)
        assert "privatewords" in words
        assert "secretwords" not in words
        assert "unknownwords" not in words

    def test_hostile_titles_stay_text(self, boss, remember):
        age([remember("x", title="<script>alert(1)</script>")])
        run = started(boss)
        html = boss.get(page(MaintenanceRun, "change", run.pk)).content.decode()
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert" in html
