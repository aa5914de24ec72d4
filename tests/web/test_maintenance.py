"""The maintenance page: permissions, health numbers, and starting a run."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.maintenance import executor, runs
from memoryhub.models import Event, JournalEntry, MaintenanceRun, Memory, Session
from tests.cases import each
from tests.web.maintenance_pages import completed_run, importances, set_age, start_run, text_of
from tests.web.markup import Page, main, page


class TestPermissions:
    ADDRESSES = ("/maintenance/", "/maintenance/runs/", "/maintenance/runs/x1/", "/maintenance/runs/x1/undo/")

    def test_others_get_403_and_no_link(self, visitor: Client) -> None:
        for address in self.ADDRESSES:
            assert visitor.get(address).status_code == 403, address
        for action in ("stop", "resume", "undo"):
            assert visitor.post(f"/maintenance/runs/x1/{action}/").status_code == 403
        assert start_run(visitor).status_code == 403
        assert "/maintenance/" not in page(visitor.get("/")).links()

    def test_a_viewer_sees_everything_and_starts_nothing(self, sign_in: Any, faded: Any) -> None:
        client = sign_in("view_maintenancerun")
        assert "/maintenance/" in page(client.get("/you/")).links()
        shown = main(client.get("/maintenance/"))
        assert "Consolidate" in shown.words
        assert "Trash unused memories" in shown.words
        assert "Evict" not in shown.words
        assert not shown.all("button")
        assert start_run(client).status_code == 403
        assert start_run(client, do="dry_run").status_code == 403
        assert not MaintenanceRun.objects.exists()

    def test_a_maintainer_may_look(self, sign_in: Any, db: None) -> None:
        client = sign_in("add_maintenancerun")
        assert "Dry run" in text_of(client.get("/maintenance/"))

    def test_a_viewer_controls_nothing(self, sign_in: Any, keeper: Client, faded: Any) -> None:
        run, address = completed_run(keeper)
        looker = sign_in("view_maintenancerun", name="ben")
        assert looker.get(address).status_code == 200
        assert "Undo" not in text_of(looker.get(address))
        for action in ("stop", "resume", "undo"):
            assert looker.post(f"{address}{action}/").status_code == 403
        assert looker.get(f"{address}undo/").status_code == 404
        run.refresh_from_db()
        assert run.undone_at is None

    def test_an_anonymous_user_is_sent_to_the_login(self, client: Client, db: None) -> None:
        response = client.get("/maintenance/")
        assert response["Location"] == "/login/?next=/maintenance/"

    def test_a_get_starts_and_steers_nothing(self, keeper: Client, faded: Any) -> None:
        _run, address = completed_run(keeper)
        assert keeper.get("/maintenance/start/").status_code == 405
        for action in ("stop", "resume"):
            assert keeper.get(f"{address}{action}/").status_code == 405

    def test_a_post_without_its_token_is_refused(self, keeper: Client, faded: Any) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = keeper.cookies
        assert start_run(strict).status_code == 403
        assert not MaintenanceRun.objects.exists()


class TestThePage:
    def test_it_shows_the_health_in_numbers(
        self, keeper: Client, faded: list[Memory], remember: Any, actor: Any, configure: Any
    ) -> None:
        configure(max_memories=1)
        memories.trash_memories([remember("broken chair").uid], actor)
        memories.apply_bulk_action("expire", [remember("old milk").uid], actor)
        shown = text_of(keeper.get("/maintenance/"))
        over = "2 over the cap of their project and owner"
        for words in ("3 live", "1 expired, waiting", "1 in the trash", over):
            assert words in shown

    def test_its_numbers_are_behind_the_gate(
        self, sign_in: Any, four_levels: dict[str, Memory], remember: Any
    ) -> None:
        client = sign_in("add_maintenancerun", "view_private", "view_secret", on=["private"])
        assert "2 live" in text_of(client.get("/maintenance/"))

    def test_it_shows_when_scheduled_maintenance_runs(self, keeper: Client, configure: Any) -> None:
        configure(maintenance_at="03:30", maintenance_operations="consolidate")
        assert re.search(
            r"Next daily maintenance: [\d-]+ 03:30 .*Consolidate .*"
            r"Daily, after each session Never run [\d-]+ 03:30",
            text_of(keeper.get("/maintenance/")),
        )
        configure(maintenance_at="")
        assert "Next daily maintenance: never. No time is set" in text_of(keeper.get("/maintenance/"))
        configure(maintenance_operations="")
        assert "Next daily maintenance: never. No operations are set" in text_of(keeper.get("/maintenance/"))

    def test_it_reports_that_no_worker_runs(self, keeper: Client, faded: Any, configure: Any) -> None:
        assert "not running on this server" in text_of(keeper.get("/maintenance/"))
        configure(maintenance_worker=False)
        start_run(keeper)
        assert "runs wait" not in text_of(keeper.get("/maintenance/")), "it was asked for just now"
        MaintenanceRun.objects.update(created_at=timezone.now() - timedelta(hours=1))
        shown = text_of(keeper.get("/maintenance/"))
        assert "switched off on this server" in shown
        assert "1 run waits." in shown

    def test_an_operation_that_is_switched_off_is_marked(self, keeper: Client, configure: Any) -> None:
        configure(capability_consolidation=False)
        card = (
            keeper.get("/maintenance/").content.decode().partition("op-consolidate")[2].partition("</tr>")[0]
        )
        assert "Switched off in the configuration" in card
        assert "<button" not in card
        response = start_run(keeper)
        assert response.status_code == 422
        assert "switch it on" in text_of(response)

    def test_each_operation_names_its_last_run(self, keeper: Client, faded: Any) -> None:
        _run, address = completed_run(keeper)
        completed_run(keeper, do="dry_run")
        card = Page(keeper.get("/maintenance/").content.decode().partition("op-consolidate")[2])
        assert card.links()[0] == address


class TestStarting:
    def test_a_wrong_value_is_shown_at_its_field(self, keeper: Client, db: None) -> None:
        response = start_run(keeper, project="x" * 300)
        assert response.status_code == 422
        assert "at most 200 characters" in text_of(response)
        assert "Consolidate was not started" in text_of(response)
        assert not MaintenanceRun.objects.exists()

    @each("values", [{"operation": "dance"}, {"do": "both"}, {"do": ""}])
    def test_fields_that_the_page_never_sends_are_a_bad_request(
        self, keeper: Client, db: None, values: dict[str, str]
    ) -> None:
        assert start_run(keeper, **values).status_code == 400

    def test_the_same_operation_does_not_run_twice_at_once(self, keeper: Client, faded: Any) -> None:
        start_run(keeper)
        response = start_run(keeper)
        assert response.status_code == 409
        assert "wait for it" in text_of(response)
        assert MaintenanceRun.objects.count() == 1

    def test_it_runs_under_the_persons_name_and_clearance(
        self, sign_in: Any, four_levels: dict[str, Memory]
    ) -> None:
        client = sign_in("add_maintenancerun", "view_private", "view_secret", on=["private"])
        set_age(list(four_levels.values()), 5)
        completed_run(client)
        lowered = [level for level, one in four_levels.items() if importances([one]) == [0.4]]
        assert lowered == ["public", "private"]
        entry = JournalEntry.objects.get(operation="run")
        assert entry.actor == "user:ada"
        changed = JournalEntry.objects.filter(operation="consolidate")
        assert {row.actor for row in changed} == {"user:ada"}

    @pytest.mark.parametrize(
        ("values", "kept"),
        [({"older_than_days": "0"}, {"older_than_days": 0}), ({"older_than_days": "", "project": " "}, {})],
    )
    def test_nought_is_a_value_and_blank_is_none(
        self, keeper: Client, db: None, values: dict[str, str], kept: dict[str, Any]
    ) -> None:
        completed_run(keeper, "empty_trash", do="dry_run", **values)
        assert MaintenanceRun.objects.get().params == kept

    def test_a_project_confines_it(self, keeper: Client, faded: list[Memory], remember: Any) -> None:
        other = remember("faded rope", project="cellar")
        set_age([other], 5)
        _, address = completed_run(keeper, project="attic")
        assert importances([*faded, other]) == [0.4, 0.4, 0.4, 0.5]
        assert "Project: attic" in text_of(keeper.get(address))


class TestConsequences:
    """What the page says before a run that changes memories."""

    @pytest.fixture
    def unused(self, four_levels: dict[str, Memory]) -> dict[str, Memory]:
        set_age(list(four_levels.values()), 80)
        return four_levels

    def test_consequences_are_counted_before_the_run(self, keeper: Client, remember: Any) -> None:
        old, young = remember("faded rope"), remember("new rope")
        set_age([old], 80)
        set_age([young], 5)
        shown = text_of(start_run(keeper, confirmed=""))
        assert "Run “Consolidate” now?" in shown
        assert "would lose importance 1" in shown
        assert "would fall below the recall threshold 1" in shown
        assert "matches this memory only in part would no longer find it" in shown
        assert not MaintenanceRun.objects.exists()
        assert importances([old, young]) == [0.5, 0.5]
        _, address = completed_run(keeper)
        assert "fell below the recall threshold 1" in text_of(keeper.get(address))
        assert "1 fell below the recall threshold" in text_of(keeper.get("/maintenance/"))

    def test_only_visible_memories_are_counted(self, sign_in: Any, unused: Any) -> None:
        client = sign_in("add_maintenancerun", "view_private", "view_secret", on=["private"])
        assert "would fall below the recall threshold 2 " in text_of(start_run(client, confirmed=""))

    def test_the_last_result_is_hidden_from_viewers_of_a_part(
        self, sign_in: Any, keeper: Client, unused: Any
    ) -> None:
        run = runs.enqueue("consolidate", {}, system_actor("schedule"))
        executor.execute(run)
        assert "fell below" not in text_of(keeper.get("/maintenance/"))

    def test_without_changes_nothing_can_be_started(self, keeper: Client, db: None) -> None:
        response = start_run(keeper, confirmed="")
        assert "Nothing to change" in text_of(response)
        assert 'value="run"' not in response.content.decode()

    def test_for_many_memories_it_offers_a_dry_run(
        self, keeper: Client, faded: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("memoryhub.web.runs.MAX_PREVIEWED", 2)
        response = start_run(keeper, confirmed="")
        assert "too many memories to count the changes" in text_of(response)
        assert 'value="dry_run"' in response.content.decode()

    def test_a_run_that_loses_and_changes_no_memory_starts_at_once(self, keeper: Client, db: None) -> None:
        assert start_run(keeper, "reindex").status_code == 302


class TestLosingForGood:
    @pytest.fixture
    def expired(self, remember: Any, actor: Any) -> list[Memory]:
        made = [remember(f"old milk {number}", project="kitchen") for number in range(2)]
        made.append(remember("secret milk", sensitivity="secret", project="kitchen"))
        Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
        return made

    @pytest.fixture
    def eraser(self, sign_in: Any) -> Client:
        return sign_in("add_maintenancerun", "erase_memory")

    def test_it_needs_the_permission_to_erase(self, keeper: Client, expired: Any) -> None:
        assert start_run(keeper, "purge_expired").status_code == 403
        assert start_run(keeper, "purge_expired", confirmed="yes").status_code == 403
        card = keeper.get("/maintenance/").content.decode().partition("op-purge_expired")[2]
        assert 'value="run"' not in card.partition("</tr>")[0]
        _, address = completed_run(keeper, "purge_expired", do="dry_run")
        assert "old milk 1" in text_of(keeper.get(address))
        assert "Apply changes" not in text_of(keeper.get(address))
        assert Memory.objects.count() == 3

    def test_the_question_says_how_many_that_one_may_see(self, eraser: Client, expired: Any) -> None:
        response = start_run(eraser, "purge_expired", project="kitchen", grace_days="0.5")
        shown = text_of(response)
        assert "Permanently remove 2 memories?" in shown
        assert "Grace days 0.5" in shown
        assert not MaintenanceRun.objects.exists()
        fields = {one["name"]: one["value"] for one in main(response).all("input")}
        assert fields.pop("confirmed") == "yes"
        fields.pop("csrfmiddlewaretoken")
        _, address = completed_run(eraser, **fields, do="run", confirmed="yes")
        assert [one.title for one in Memory.objects.all()] == ["secret milk"]
        shown = text_of(eraser.get(address))
        assert "permanently deleted 2" in shown
        assert shown.count("permanently removed") == 2
        assert "Undo" not in shown

    def test_pruning_events_asks_first(self, keeper: Client, db: None) -> None:
        session = Session.objects.create(session_id="s", project="kitchen")
        Event.objects.create(session=session, event="tool:post", at=timezone.now() - timedelta(days=400))
        assert "Permanently remove 1 row?" in text_of(start_run(keeper, "prune_events"))
        assert Event.objects.exists()
        completed_run(keeper, "prune_events", confirmed="yes")
        assert not Event.objects.exists()

    def test_a_run_without_losses_says_that_nothing_is_lost(self, eraser: Client, db: None) -> None:
        shown = text_of(start_run(eraser, "purge_expired"))
        assert "Nothing to remove" in shown
        assert "Remove for good" not in shown

    def test_a_wrong_value_is_shown_before_the_question(self, eraser: Client, db: None) -> None:
        response = start_run(eraser, "purge_expired", grace_days="-1")
        assert response.status_code == 422
        assert "greater than or equal to 0" in text_of(response)
