"""The admin's list of runs, which leads to the pages that start and control them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub.maintenance import runs
from memoryhub.models import MaintenanceRun, Membership, Memory
from tests.admin.conftest import act, page


@pytest.fixture
def run(remember, actor) -> MaintenanceRun:
    """A finished run that lowered the importance of a memory."""
    age([remember("faded paint")])
    started = runs.enqueue("consolidate", {}, actor)
    runs.execute(started)
    return MaintenanceRun.objects.get()


def age(memories) -> None:
    Memory.objects.filter(pk__in=[memory.pk for memory in memories]).update(
        updated_at=timezone.now() - timedelta(days=5)
    )


def test_runs_are_hidden_without_the_permission(curator, run):
    assert curator.get(page(MaintenanceRun)).status_code == 403
    assert curator.get(page(MaintenanceRun, "add")).status_code == 403
    assert curator.get(page(MaintenanceRun, "history", run.pk)).status_code == 404
    assert "maintenancerun" not in curator.get("/admin/").content.decode()
    assert "maintenancerun" not in curator.get(page(Memory)).content.decode()
    assert curator.get(page(MaintenanceRun, "change", run.pk), follow=True).status_code == 403


def test_a_viewer_sees_runs_and_starts_none(staff, run):
    viewer = staff("view_maintenancerun")
    assert "Consolidate" in viewer.get(page(MaintenanceRun)).content.decode()
    assert viewer.get(page(MaintenanceRun, "add")).status_code == 403
    assert viewer.post(page(MaintenanceRun, "add"), {"operation": "consolidate"}).status_code == 403
    assert MaintenanceRun.objects.count() == 1


def test_a_run_and_the_start_form_are_pages_of_the_hub(staff, run):
    maintainer = staff("add_maintenancerun", "view_memory")
    assert maintainer.get(page(MaintenanceRun, "change", run.pk)).url == f"/maintenance/runs/{run.uid}/"
    assert maintainer.get(page(MaintenanceRun, "add")).url == "/maintenance/"
    assert f'href="{page(MaintenanceRun)}"' in maintainer.get(page(Memory)).content.decode()


def test_no_one_changes_or_deletes_a_run(boss, run):
    before = list(MaintenanceRun.objects.values())
    boss.post(page(MaintenanceRun, "change", run.pk), {"actor": "x"})
    boss.post(page(MaintenanceRun, "add"), {"operation": "consolidate"})
    assert boss.post(page(MaintenanceRun, "delete", run.pk), {"post": "yes"}).status_code == 403
    act(boss, "delete_selected", run, post="yes")
    assert list(MaintenanceRun.objects.values()) == before


def test_the_history_of_a_run_names_who_started_it(staff, run, actor):
    client = staff("view_maintenancerun", "view_private", "view_secret")
    assert actor.name in client.get(page(MaintenanceRun, "history", run.pk)).content.decode()


def test_a_run_beyond_the_clearance_shows_percent_instead_of_numbers(staff, four_levels, actor):
    age(four_levels.values())
    runs.execute(runs.enqueue("consolidate", {}, actor))
    text = staff("view_maintenancerun").get(page(MaintenanceRun)).content.decode()
    cells = text.partition("<tbody>")[2]
    assert "100 %" in cells
    assert " of " not in cells


def test_a_run_of_a_hidden_project_is_not_found(staff, run):
    person_in_farm = staff("view_maintenancerun")
    Membership.objects.create(user=User.objects.get(username="cleo"), project="farm")
    MaintenanceRun.objects.update(project="barn")
    assert person_in_farm.get(page(MaintenanceRun, "change", run.pk)).status_code == 404
    assert run.uid not in person_in_farm.get(page(MaintenanceRun)).content.decode()
