"""Imports beyond the cap of a project, and the choice to raise it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.capture import projects
from memoryhub.maintenance import executor
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, MaintenanceRun, Membership, Memory, Project
from memoryhub.transfer.reports import suggest_cap
from tests.web.markup import main
from tests.web.transfer_pages import home, importer, sent, undo

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db

OPERATOR = system_actor("tests")
TO_SHOP = [{"content": text, "project": "shop"} for text in ("one", "two", "three")]
OFFER = "Raise the cap of shop to 4"


@pytest.fixture
def maintainer(sign_in: Any, configure: Any) -> Client:
    configure(max_memories=1)
    return sign_in("add_memory", "add_maintenancerun", name="mia")


def import_for_real(client: Client, **choices: Any) -> str:
    """Check the file, import it with choices, and return the address of the import."""
    answer = client.post(f"{sent(client, *TO_SHOP, do='dry_run')}import/", choices)
    assert answer.status_code == 302, answer.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=answer.url.split("/")[-2]))
    return str(answer.url)


def test_a_project_beyond_its_cap_is_shown_with_its_numbers(importer: Client, configure: Any) -> None:
    configure(max_memories=1)
    lines = [{"content": "one", "project": "<b>shop"}, {"content": "two", "project": "<b>shop"}]
    shown = main(importer.get(sent(importer, *lines))).words
    assert "Over the cap<b>shop: 2 of at most 1" in shown
    assert "Nothing was removed." in shown


def test_the_choices_before_an_import_begin_with_the_numbers_of_the_cap(
    importer: Client, configure: Any
) -> None:
    configure(max_memories=1)
    lines = [{"content": text, "project": "shop"} for text in ("one", "two", "three")]
    page = importer.get(sent(importer, *lines, do="dry_run")).content.decode()
    form, _, rest = page.partition('id="choices-title"')[2].partition("</form>")
    assert '<span class="num">3</span> of at most <span class="num">1</span> memories of one owner' in form
    assert "The import removes nothing." in form
    assert "Over the cap" not in rest


def test_an_import_raises_the_cap_that_was_chosen_and_its_undo_restores_it(maintainer: Client) -> None:
    projects.configure_project("shop", OPERATOR, max_memories=2)
    assert OFFER in main(maintainer.get(sent(maintainer, *TO_SHOP, do="dry_run"))).words
    address = import_for_real(maintainer, caps="shop")
    assert Project.objects.get().max_memories == 4
    row = JournalEntry.objects.filter(operation="configure").latest("seq")
    assert (row.actor, row.detail["was"], row.detail["left"]) == (
        "user:mia",
        {"max_memories": 2},
        {"max_memories": 4},
    )
    shown = main(maintainer.get(address)).words
    assert "Cap raisedshop: at most 4 memories of one owner" in shown
    assert "Over the cap" not in shown
    assert "rows3" in shown
    assert "The caps that it raised are restored" in main(maintainer.get(f"{address}undo/")).words
    undo(maintainer, address)
    assert Project.objects.get().max_memories == 2
    assert not Memory.objects.live().exists()


@pytest.mark.parametrize("count", [7, 50, 990, 3090])
def test_a_raised_cap_is_not_nearly_reached(count: int) -> None:
    assert count < 0.9 * suggest_cap(count)


def test_the_run_of_an_import_hides_its_choices_from_others(maintainer: Client, sign_in: Any) -> None:
    address = import_for_real(maintainer, caps="shop")
    Memory.objects.update(sensitivity="secret")
    run = address.replace("/transfer/imports/", "/maintenance/runs/")
    client = sign_in("view_maintenancerun", name="ben")
    for page in (run, "/maintenance/runs/"):
        shown = main(client.get(page)).words
        assert "Import" in shown
        assert "shop" not in shown, "ben sees nothing in the project whose cap was raised"
        assert "{" not in shown


def test_an_import_without_the_choice_leaves_the_cap(maintainer: Client) -> None:
    address = import_for_real(maintainer)
    assert not Project.objects.exists()
    assert "Change its cap" in main(maintainer.get(address)).words


def test_the_undo_keeps_a_cap_that_was_changed_since(maintainer: Client) -> None:
    address = import_for_real(maintainer, caps="shop")
    projects.configure_project("shop", OPERATOR, max_memories=99)
    undo(maintainer, address)
    assert Project.objects.get().max_memories == 99
    assert not Memory.objects.live().exists()


def test_an_agent_loses_no_imported_memory_after_the_cap_was_raised(maintainer: Client) -> None:
    import_for_real(maintainer, caps="shop")
    mia = Actor("user:mia", Clearance(owner="mia"))
    memories.create_memory(MemoryDraft(content="four", project="shop"), mia)
    assert Memory.objects.live().count() == 4


def test_people_without_permission_see_who_can_change_the_settings(
    maintainer: Client, importer: Client, sign_in: Any
) -> None:
    sign_in("add_maintenancerun", name="elsewhere")
    Membership.objects.create(user=User.objects.get(username="elsewhere"), project="farm")
    address = sent(importer, *TO_SHOP, do="dry_run")
    shown = main(importer.get(address)).words
    assert "These people can raise the cap: mia." in shown
    assert OFFER not in shown
    importer.post(f"{address}import/", {"caps": "shop"})
    assert executor.execute(MaintenanceRun.objects.get(dry_run=False))
    assert Memory.objects.count() == 3
    assert not Project.objects.exists()


def test_a_cap_of_another_project_is_refused(maintainer: Client) -> None:
    address = sent(maintainer, *TO_SHOP, do="dry_run")
    answer = maintainer.post(f"{address}import/", {"caps": ["shop", "farm"]})
    assert answer.status_code == 422
    assert "Nothing was imported." in answer.content.decode()
    assert not Project.objects.exists()


def test_an_import_resumed_after_its_person_left_the_project_raises_no_cap(maintainer: Client) -> None:
    mia = User.objects.get(username="mia")
    gone = Membership.objects.create(user=mia, project="shop")
    Membership.objects.create(user=mia, project="farm")
    address = sent(maintainer, *TO_SHOP, do="dry_run")
    waiting = maintainer.post(f"{address}import/", {"caps": "shop"}).url
    maintainer.post(f"{waiting}stop/")
    gone.delete()
    maintainer.post(f"{waiting}resume/")
    executor.execute(MaintenanceRun.objects.get(dry_run=False))
    assert not Project.objects.exists()
    assert not Memory.objects.exists()


def test_memories_without_a_project_have_no_cap_to_raise(maintainer: Client) -> None:
    shown = main(maintainer.get(sent(maintainer, {"content": "a"}, {"content": "b"}, do="dry_run"))).words
    assert "The operator of the hub can set max_memories to at least 2." in shown
    assert "Raise the cap" not in shown
