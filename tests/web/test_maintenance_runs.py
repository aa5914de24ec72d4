"""The pages of runs: dry run, run, undo, stop, resume, and what each user may see."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.maintenance import executor, runs
from memoryhub.models import MaintenanceRun, Memory
from tests.cases import each
from tests.web.maintenance_pages import completed_run, importances, set_age, start_run, text_of
from tests.web.markup import PAYLOAD, find_dangers, list_title, main, page

Status = MaintenanceRun.Status


class TestClusters:
    @pytest.fixture
    def alike(self, remember: Any) -> list[Memory]:
        words = "the paint in the attic has faded since the summer of"
        made = [remember(f"{words} {year}", project="attic") for year in (2001, 2002, 2003, 2004)]
        set_age(made, 40)
        Memory.objects.update(created_at=timezone.now() - timedelta(days=40))
        return made

    def test_members_are_linked_and_the_summary_once_it_is_made(
        self, keeper: Client, alike: list[Memory]
    ) -> None:
        _, address = completed_run(keeper, "compress", do="dry_run")
        shown = main(keeper.get(address))
        links = [f"/memories/{one.uid}/" for one in alike]
        assert set(links) <= set(shown.links())
        assert "4 memories in it" in shown.words
        assert "group would be merged 1 " in text_of(keeper.get(address))
        assert "memories in them 4 " in text_of(keeper.get(address))
        _, address = completed_run(keeper, "compress")
        summary = Memory.objects.get(type="compressed_summary")
        assert f"/memories/{summary.uid}/" in main(keeper.get(address)).links()
        assert keeper.get(links[0]).status_code == 200, "they lie in the trash"

    def test_a_cluster_with_a_hidden_member_is_not_shown(
        self, sign_in: Any, alike: list[Memory], actor: Actor
    ) -> None:
        run = runs.enqueue("compress", {}, actor, dry_run=True)
        executor.execute(run)
        Memory.objects.filter(pk=alike[2].pk).update(sensitivity="secret")
        shown = text_of(sign_in("view_maintenancerun", "view_secret").get(f"/maintenance/runs/{run.uid}/"))
        assert "attic has faded" not in shown
        assert "Nothing that you can see would change" in shown


class TestDryRunThenRunThenUndo:
    def test_the_whole_journey_without_javascript(self, keeper: Client, faded: list[Memory]) -> None:
        run, address = completed_run(keeper, do="dry_run")
        assert importances(faded) == [0.5, 0.5, 0.5]
        shown = main(keeper.get(address))
        assert "Done" in shown.words
        assert "Nothing was changed." in shown.words
        assert shown.words.count("would lose importance") == 4  # the sum and each of the three
        assert "0.50" in shown.words
        assert "0.40" in shown.words
        fields = {one["name"]: one.get("value", "") for one in shown.all("input") if "name" in one}
        fields.pop("csrfmiddlewaretoken")
        run, address = completed_run(keeper, **fields, do="run")
        assert importances(faded) == [0.4, 0.4, 0.4]
        assert "fade" in text_of(keeper.get(address))
        assert f"{address}undo/" in main(keeper.get(address)).links()
        asked = keeper.get(f"{address}undo/")
        assert "Undo “Consolidate”?" in text_of(asked)
        assert importances(faded) == [0.4, 0.4, 0.4]
        response = keeper.post(f"{address}undo/")
        undoing = MaintenanceRun.objects.get(undoes=run)
        assert response["Location"] == f"/maintenance/runs/{undoing.uid}/"
        executor.execute(undoing)
        assert importances(faded) == [0.5, 0.5, 0.5]
        assert "Undone" in main(keeper.get(address)).words.split()
        assert keeper.get(f"{address}undo/").status_code == 404
        assert address in main(keeper.get(response["Location"])).links()

    def test_the_page_of_an_active_run_polls(self, keeper: Client, faded: Any) -> None:
        address = start_run(keeper)["Location"]
        html = keeper.get(address).content.decode()
        assert 'hx-trigger="every 1s"' in html
        assert '<noscript><meta http-equiv="refresh"' in html
        assert "Waiting to start" in html
        bar = list(page(keeper.get(address)).all("progress"))
        assert bar == [{"class": "progress", "aria-label": "Progress", "max": "100", "value": "0"}]
        executor.execute(MaintenanceRun.objects.get())
        html = keeper.get(address).content.decode()
        assert "every 1s" not in html
        assert 'http-equiv="refresh"' not in html

    def test_the_page_is_reloaded_when_the_run_ends(self, keeper: Client, faded: Any) -> None:
        address = start_run(keeper)["Location"]
        asked = {"HTTP_HX_REQUEST": "true"}
        response = keeper.get(f"{address}progress/", **asked)
        assert "HX-Retarget" not in response
        assert "faded paint" not in response.content.decode()
        news = re.search(r"\?announced=([\w-]+)", response.content.decode())
        assert news
        assert 'id="run-status"' in response.content.decode()
        again = keeper.get(f"{address}progress/?announced={news[1]}", **asked)
        assert 'id="run-status"' not in again.content.decode(), "the same is not said every second"
        executor.execute(MaintenanceRun.objects.get())
        response = keeper.get(f"{address}progress/?announced={news[1]}", **asked)
        assert (response["HX-Retarget"], response["HX-Reswap"]) == ("#run", "outerHTML")
        assert "faded paint 2" in response.content.decode()
        assert 'id="run-status" hx-swap-oob="innerHTML">Done<' in response.content.decode()

    def test_a_run_without_changes_is_described(self, keeper: Client, remember: Any) -> None:
        remember("fresh paint")
        _, address = completed_run(keeper)
        assert "Nothing changed" in text_of(keeper.get(address))
        assert "Undo" not in text_of(keeper.get(address))
        _, address = completed_run(keeper, do="dry_run")
        assert "Nothing would change" in text_of(keeper.get(address))


class TestStopAndResume:
    def test_a_queued_run_is_stopped_and_resumed(self, keeper: Client, faded: list[Memory]) -> None:
        address = start_run(keeper)["Location"]
        assert "Stop" in text_of(keeper.get(address))
        keeper.post(f"{address}stop/")
        assert "Stopped" in text_of(keeper.get(address))
        keeper.post(f"{address}resume/")
        executor.execute(MaintenanceRun.objects.get())
        assert importances(faded) == [0.4, 0.4, 0.4]
        assert "Done" in text_of(keeper.get(address))

    def test_one_whose_worker_died_is_marked_when_viewed(self, keeper: Client, faded: Any) -> None:
        address = start_run(keeper)["Location"]
        MaintenanceRun.objects.update(
            status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=timezone.now() - timedelta(hours=2)
        )
        shown = text_of(keeper.get(address))
        assert "Interrupted" in shown
        assert "Resume" in shown
        home = text_of(keeper.get("/"))
        assert "Consolidate : interrupted" in home
        keeper.post(f"{address}resume/")
        executor.execute(MaintenanceRun.objects.get())
        assert "interrupted" not in text_of(keeper.get("/"))

    def test_a_refused_control_is_explained(self, keeper: Client, faded: Any) -> None:
        _, address = completed_run(keeper)
        for action, words in (("stop", "is done already"), ("resume", "only one that failed")):
            response = keeper.post(f"{address}{action}/")
            assert response["Location"] == address
            assert words in text_of(keeper.get(address))

    def test_the_home_page_reports_failed_runs_to_permitted_users(
        self, sign_in: Any, keeper: Client, faded: Any
    ) -> None:
        start_run(keeper)
        MaintenanceRun.objects.update(status=Status.FAILED, cause="interrupted")
        assert "interrupted" in text_of(keeper.get("/"))
        assert "interrupted" not in text_of(sign_in(name="ben").get("/"))


class TestVisibility:
    @pytest.fixture
    def all_levels(self, four_levels: dict[str, Memory]) -> str:
        """The address of a run that reached every level."""
        set_age(list(four_levels.values()), 5)
        reach = Clearance.up_to("secret", owner="ada")
        run = runs.enqueue("consolidate", {}, Actor("user:ada", reach))
        executor.execute(run)
        return f"/maintenance/runs/{run.uid}/"

    @each(
        "on, seen",
        [
            ((), ["public"]),
            (("private",), ["public", "private"]),
            (("private", "secret"), ["public", "private", "secret"]),
        ],
    )
    def test_a_run_names_visible_memories_only(
        self,
        sign_in: Any,
        all_levels: str,
        four_levels: dict[str, Memory],
        on: tuple[str, ...],
        seen: list[str],
    ) -> None:
        client = sign_in("view_maintenancerun", "view_private", "view_secret", on=on)
        shown = text_of(client.get(all_levels))
        for level in ("public", "private", "secret", "unknown"):
            memory = four_levels["cosmic" if level == "unknown" else level]
            assert (list_title(memory) in shown) is (level in seen), level
        assert "secretwords" not in shown
        assert f"Result lost importance {len(seen)} " in shown

    def test_a_limited_viewer_sees_no_store_wide_numbers(
        self, visitor: Client, sign_in: Any, all_levels: str
    ) -> None:
        client = sign_in("add_maintenancerun", name="ben")
        shown = text_of(client.get(all_levels))
        assert "3" not in re.sub(r"\d+\.\d+|\d{4}-\d\d-\d\d \d\d:\d\d", "", shown)
        assert "Undo" not in shown, "it reached further than ben may see"
        assert "show them with the Visibility menu" in shown
        assert client.post(f"{all_levels}undo/")["Location"] == all_levels
        assert not MaintenanceRun.objects.filter(undoes__isnull=False).exists()
        assert "This run covers more than you can see" in text_of(client.get(all_levels))

    def test_a_project_is_named_only_to_users_with_access(
        self, sign_in: Any, visitor: Client, remember: Any, actor: Actor
    ) -> None:
        memory = remember("paint", project="skunkworks", sensitivity="secret")
        run = runs.enqueue("consolidate", {"project": "skunkworks"}, actor, dry_run=True)
        executor.execute(run)
        client = sign_in("view_maintenancerun", "add_maintenancerun", "view_secret", name="ben")
        addresses = (f"/maintenance/runs/{run.uid}/", "/maintenance/runs/", "/maintenance/")
        for address in addresses:
            assert "skunkworks" not in client.get(address).content.decode(), address
        assert "Apply changes" not in text_of(client.get(addresses[0]))
        Memory.objects.filter(pk=memory.pk).update(sensitivity="public")
        assert "skunkworks" in text_of(client.get(addresses[0]))
        assert "Apply changes" in text_of(client.get(addresses[0]))

    def test_memories_that_became_secret_since_are_hidden(self, keeper: Client, faded: list[Memory]) -> None:
        _, address = completed_run(keeper)
        Memory.objects.filter(pk=faded[1].pk).update(sensitivity="secret")
        shown = text_of(keeper.get(address))
        assert "faded paint 0" in shown
        assert "faded paint 1" not in shown


class TestHostileTexts:
    def test_titles_and_projects_stay_text(self, keeper: Client, remember: Any) -> None:
        set_age([remember("paint", title=PAYLOAD, project=PAYLOAD)], 5)
        _, address = completed_run(keeper, project=PAYLOAD)
        for shown in (address, "/maintenance/runs/", "/maintenance/", f"{address}undo/"):
            html = keeper.get(shown).content.decode()
            assert not find_dangers(html), shown

    def test_a_refused_value_stays_text(self, keeper: Client, db: None) -> None:
        response = start_run(keeper, project=PAYLOAD * 30)
        assert response.status_code == 422
        assert not find_dangers(response.content.decode())


class TestList:
    def test_newest_first_narrowed_by_operation_and_status(self, keeper: Client, faded: Any) -> None:
        completed_run(keeper, do="dry_run")
        start_run(keeper)
        shown = text_of(keeper.get("/maintenance/runs/"))
        assert shown.index("Waiting to start") < shown.index("Dry run: Consolidate")
        assert "Dry run" not in text_of(keeper.get("/maintenance/runs/?status=queued"))
        assert "No runs match" in text_of(keeper.get("/maintenance/runs/?status=failed"))
        assert "3 changes" in text_of(keeper.get("/maintenance/runs/?operation=consolidate&status=done"))
        assert keeper.get("/maintenance/runs/?operation=dance").status_code == 422

    def test_an_empty_list_shows_an_empty_state(self, keeper: Client, db: None) -> None:
        assert "No runs yet" in text_of(keeper.get("/maintenance/runs/"))

    def test_pages_follow_each_other(self, keeper: Client, db: None) -> None:
        for number in range(31):
            MaintenanceRun.objects.create(
                operation="consolidate", dry_run=True, params={"project": f"p{number}"}
            )
        first = keeper.get("/maintenance/runs/")
        address = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert address
        assert "p0" in text_of(keeper.get("/maintenance/runs/" + address[1]))
        assert keeper.get("/maintenance/runs/?cursor=x").status_code == 400


@each("address", ["/maintenance/", "/maintenance/runs/", "run"])
def test_the_number_of_queries_does_not_grow(keeper: Client, remember: Any, address: str) -> None:
    counted = []
    for many in (2, 20):
        set_age([remember(f"faded {many} {number}") for number in range(many)], 5)
        _, made = completed_run(keeper)
        there = made if address == "run" else address
        keeper.get(there)
        with CaptureQueriesContext(connection) as queries:
            keeper.get(there)
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert counted[1] < 40
