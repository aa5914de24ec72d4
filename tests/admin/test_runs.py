"""Runs have pages in the hub only, to which the admin links."""

from __future__ import annotations

from django.urls import reverse

from memoryhub.maintenance import runs
from memoryhub.models import JournalEntry, Memory
from tests.admin.conftest import page


def test_list_of_memories_links_to_the_runs_of_the_hub(staff):
    maintainer = staff("add_maintenancerun", "view_memory")
    assert f'href="{reverse("runs")}"' in maintainer.get(page(Memory)).content.decode()


def test_link_to_the_runs_needs_the_permission(curator):
    assert reverse("runs") not in curator.get(page(Memory)).content.decode()


def test_journal_links_to_the_page_of_a_run(boss, actor):
    run = runs.enqueue("consolidate", {}, actor)
    assert f'href="{reverse("run", args=[run.uid])}"' in boss.get(page(JournalEntry)).content.decode()
