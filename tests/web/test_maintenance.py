"""Maintenance in the browser: who may, dry run, run, undo, and what of it each person is told."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import store
from memoryhub.lifecycle import runs
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from memoryhub.sensitivity import Actor, Clearance
from tests.web.markup import PAYLOADS, Page, dangers, main, page

Status = MaintenanceRun.Status


@pytest.fixture
def keeper(sign_in: Any) -> Client:
    """Someone who may maintain, and sees public memories."""
    return sign_in("add_maintenancerun", "view_maintenancerun")


@pytest.fixture
def faded(remember: Any) -> list[Memory]:
    """Three memories that consolidation will lower from 0.5 to 0.4."""
    made = [remember(f"faded paint {number}", project="attic") for number in range(3)]
    age(made, 5)
    return made


def age(memories: list[Memory], days: float) -> None:
    Memory.objects.filter(pk__in=[one.pk for one in memories]).update(
        updated_at=timezone.now() - timedelta(days=days)
    )


def text(response: Any) -> str:
    html = re.sub(r"<[^>]+>", " ", response.content.decode().partition("<main")[2])
    return " ".join(unescape(html).split())


def start(client: Client, operation: str = "consolidate", do: str = "run", **values: Any) -> Any:
    return client.post("/maintenance/start/", {"operation": operation, "do": do, **values})


def started(client: Client, *args: Any, **values: Any) -> tuple[MaintenanceRun, str]:
    """Start a run and work it off; the run and its address."""
    response = start(client, *args, **values)
    assert response.status_code == 302, text(response)
    run = MaintenanceRun.objects.order_by("-pk")[0]
    assert response["Location"] == f"/maintenance/runs/{run.uid}/"
    assert runs.work(run)
    return run, response["Location"]


def importances(memories: list[Memory]) -> list[float]:
    return [round(Memory.objects.get(pk=one.pk).importance, 2) for one in memories]


class TestWhoMay:
    ADDRESSES = ("/maintenance/", "/maintenance/runs/", "/maintenance/runs/x1/", "/maintenance/runs/x1/undo/")

    def test_others_get_403_and_no_link(self, visitor: Client) -> None:
        for address in self.ADDRESSES:
            assert visitor.get(address).status_code == 403, address
        for deed in ("stop", "resume", "undo"):
            assert visitor.post(f"/maintenance/runs/x1/{deed}/").status_code == 403
        assert start(visitor).status_code == 403
        assert "/maintenance/" not in page(visitor.get("/")).links()

    def test_who_may_look_sees_everything_and_starts_nothing(self, sign_in: Any, faded: Any) -> None:
        client = sign_in("view_maintenancerun")
        assert "/maintenance/" in page(client.get("/")).links()
        shown = main(client.get("/maintenance/"))
        assert "Consolidate" in shown.words
        assert not shown.all("button")
        assert start(client).status_code == 403
        assert start(client, do="dry_run").status_code == 403
        assert not MaintenanceRun.objects.exists()

    def test_who_may_run_may_look(self, sign_in: Any, db: None) -> None:
        client = sign_in("add_maintenancerun")
        assert "Dry run" in text(client.get("/maintenance/"))

    def test_a_looker_steers_nothing(self, sign_in: Any, keeper: Client, faded: Any) -> None:
        run, address = started(keeper)
        looker = sign_in("view_maintenancerun", name="ben")
        assert looker.get(address).status_code == 200
        assert "Undo" not in text(looker.get(address))
        for deed in ("stop", "resume", "undo"):
            assert looker.post(f"{address}{deed}/").status_code == 403
        assert looker.get(f"{address}undo/").status_code == 404
        run.refresh_from_db()
        assert run.undone_at is None

    def test_nobody_signed_in_is_sent_to_the_login(self, client: Client, db: None) -> None:
        response = client.get("/maintenance/")
        assert response["Location"] == "/login/?next=/maintenance/"

    def test_a_get_starts_and_steers_nothing(self, keeper: Client, faded: Any) -> None:
        _run, address = started(keeper)
        assert keeper.get("/maintenance/start/").status_code == 405
        for deed in ("stop", "resume"):
            assert keeper.get(f"{address}{deed}/").status_code == 405

    def test_a_post_without_its_token_is_refused(self, keeper: Client, faded: Any) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = keeper.cookies
        assert start(strict).status_code == 403
        assert not MaintenanceRun.objects.exists()


class TestThePage:
    def test_it_tells_the_health_in_numbers(
        self, keeper: Client, faded: list[Memory], remember: Any, actor: Any, configure: Any
    ) -> None:
        configure(max_memories=1)
        store.trash([remember("broken chair").uid], actor)
        store.expire([remember("old milk").uid], actor)
        shown = text(keeper.get("/maintenance/"))
        for words in ("3 live", "1 expired, waiting", "1 in the trash", "2 over the cap of 1"):
            assert words in shown

    def test_its_numbers_are_behind_the_gate(
        self, sign_in: Any, four_levels: dict[str, Memory], remember: Any
    ) -> None:
        client = sign_in("add_maintenancerun", "view_private", "view_secret", on=["private"])
        assert "2 live" in text(client.get("/maintenance/"))

    def test_it_tells_when_what_happens_by_itself(self, keeper: Client, configure: Any) -> None:
        configure(maintenance_at="03:30", maintenance_operations="consolidate")
        assert re.search(
            r"Next in \d+ \w+ .*03:30 Every day, in this order Consolidate", text(keeper.get("/maintenance/"))
        )
        configure(maintenance_at="")
        assert "Next Never: no time is set" in text(keeper.get("/maintenance/"))
        configure(maintenance_operations="")
        assert "Next Never: nothing to do is named" in text(keeper.get("/maintenance/"))

    def test_it_says_when_nobody_works_on_runs(self, keeper: Client, faded: Any, configure: Any) -> None:
        assert "None in this server" in text(keeper.get("/maintenance/"))
        configure(maintenance_worker=False)
        start(keeper)
        assert "runs wait" not in text(keeper.get("/maintenance/")), "it was asked for just now"
        MaintenanceRun.objects.update(created_at=timezone.now() - timedelta(hours=1))
        shown = text(keeper.get("/maintenance/"))
        assert "Switched off in this server" in shown
        assert "1 run waits." in shown

    def test_an_operation_that_is_switched_off_says_so(self, keeper: Client, configure: Any) -> None:
        configure(capability_consolidation=False)
        card = (
            keeper.get("/maintenance/")
            .content.decode()
            .partition("op-consolidate")[2]
            .partition("</article>")[0]
        )
        assert "Switched off in the configuration" in card
        assert "<button" not in card
        response = start(keeper)
        assert response.status_code == 422
        assert "switch it on" in text(response)

    def test_each_operation_names_its_last_run(self, keeper: Client, faded: Any) -> None:
        _run, address = started(keeper)
        started(keeper, do="dry_run")
        card = Page(keeper.get("/maintenance/").content.decode().partition("op-consolidate")[2])
        assert card.links()[0] == address


class TestStarting:
    def test_a_wrong_value_is_told_beside_its_field(self, keeper: Client, db: None) -> None:
        response = start(keeper, project="x" * 300)
        assert response.status_code == 422
        assert "at most 200 characters" in text(response)
        assert "Consolidate was not started" in text(response)
        assert not MaintenanceRun.objects.exists()

    @pytest.mark.parametrize("values", [{"operation": "dance"}, {"do": "both"}, {"do": ""}])
    def test_what_the_page_never_sends_is_a_bad_request(
        self, keeper: Client, db: None, values: dict[str, str]
    ) -> None:
        assert start(keeper, **values).status_code == 400

    def test_the_same_operation_does_not_run_twice_at_once(self, keeper: Client, faded: Any) -> None:
        start(keeper)
        response = start(keeper)
        assert response.status_code == 409
        assert "wait for it" in text(response)
        assert MaintenanceRun.objects.count() == 1

    def test_it_runs_under_the_persons_name_and_within_their_sight(
        self, sign_in: Any, four_levels: dict[str, Memory]
    ) -> None:
        client = sign_in("add_maintenancerun", "view_private", "view_secret", on=["private"])
        age(list(four_levels.values()), 5)
        started(client)
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
        started(keeper, "empty_trash", do="dry_run", **values)
        assert MaintenanceRun.objects.get().params == kept

    def test_a_project_confines_it(self, keeper: Client, faded: list[Memory], remember: Any) -> None:
        other = remember("faded rope", project="cellar")
        age([other], 5)
        _, address = started(keeper, project="attic")
        assert importances([*faded, other]) == [0.4, 0.4, 0.4, 0.5]
        assert "Project: attic" in text(keeper.get(address))


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
        assert start(keeper, "purge_expired").status_code == 403
        assert start(keeper, "purge_expired", confirmed="yes").status_code == 403
        card = keeper.get("/maintenance/").content.decode().partition("op-purge_expired")[2]
        assert 'value="run"' not in card.partition("</article>")[0]
        _, address = started(keeper, "purge_expired", do="dry_run")
        assert "old milk 1" in text(keeper.get(address))
        assert "Do it" not in text(keeper.get(address))
        assert Memory.objects.count() == 3

    def test_the_question_says_how_many_that_one_may_see(self, eraser: Client, expired: Any) -> None:
        response = start(eraser, "purge_expired", project="kitchen", grace_days="0.5")
        shown = text(response)
        assert "Lose 2 memories for good?" in shown
        assert "Grace days 0.5" in shown
        assert not MaintenanceRun.objects.exists()
        fields = {one["name"]: one["value"] for one in main(response).all("input")}
        assert fields.pop("confirmed") == "yes"
        fields.pop("csrfmiddlewaretoken")
        _, address = started(eraser, **fields, do="run", confirmed="yes")
        assert [one.title for one in Memory.objects.all()] == ["secret milk"]
        shown = text(eraser.get(address))
        assert "purged for good 2" in shown
        assert shown.count("gone for good") == 2
        assert "Undo" not in shown

    def test_nothing_to_lose_is_said(self, eraser: Client, db: None) -> None:
        shown = text(start(eraser, "purge_expired"))
        assert "There is nothing to remove" in shown
        assert "Remove for good" not in shown

    def test_a_wrong_value_is_told_before_the_question(self, eraser: Client, db: None) -> None:
        response = start(eraser, "purge_expired", grace_days="-1")
        assert response.status_code == 422
        assert "greater than or equal to 0" in text(response)


class TestClusters:
    @pytest.fixture
    def alike(self, remember: Any) -> list[Memory]:
        words = "the paint in the attic has faded since the summer of"
        made = [remember(f"{words} {year}", project="attic") for year in (2001, 2002, 2003, 2004)]
        age(made, 40)
        Memory.objects.update(created_at=timezone.now() - timedelta(days=40))
        return made

    def test_members_are_linked_and_the_summary_once_it_is_made(
        self, keeper: Client, alike: list[Memory]
    ) -> None:
        _, address = started(keeper, "compress", do="dry_run")
        shown = main(keeper.get(address))
        links = [f"/memories/{one.uid}/" for one in alike]
        assert set(links) <= set(shown.links())
        assert "4 memories in it" in shown.words
        assert "groups would become one memory each 1 " in text(keeper.get(address))
        assert "memories in them 4 " in text(keeper.get(address))
        _, address = started(keeper, "compress")
        summary = Memory.objects.get(type="compressed_summary")
        assert f"/memories/{summary.uid}/" in main(keeper.get(address)).links()
        assert keeper.get(links[0]).status_code == 200, "they lie in the trash"

    def test_a_cluster_with_a_hidden_member_is_not_told_of(
        self, sign_in: Any, alike: list[Memory], actor: Actor
    ) -> None:
        run = runs.start("compress", {}, actor, dry_run=True)
        runs.work(run)
        Memory.objects.filter(pk=alike[2].pk).update(sensitivity="secret")
        shown = text(sign_in("view_maintenancerun", "view_secret").get(f"/maintenance/runs/{run.uid}/"))
        assert "attic has faded" not in shown
        assert "Of what you may see, it changes nothing" in shown


class TestDryRunThenRunThenUndo:
    def test_the_whole_way_without_javascript(self, keeper: Client, faded: list[Memory]) -> None:
        run, address = started(keeper, do="dry_run")
        assert importances(faded) == [0.5, 0.5, 0.5]
        shown = main(keeper.get(address))
        assert "Done" in shown.words
        assert "Nothing was changed." in shown.words
        assert shown.words.count("would fade in importance") == 4  # the sum and each of the three
        assert "0.50" in shown.words
        assert "0.40" in shown.words
        fields = {one["name"]: one.get("value", "") for one in shown.all("input") if "name" in one}
        fields.pop("csrfmiddlewaretoken")
        run, address = started(keeper, **fields, do="run")
        assert importances(faded) == [0.4, 0.4, 0.4]
        assert "fade" in text(keeper.get(address))
        assert f"{address}undo/" in main(keeper.get(address)).links()
        asked = keeper.get(f"{address}undo/")
        assert "Undo “Consolidate”?" in text(asked)
        assert importances(faded) == [0.4, 0.4, 0.4]
        response = keeper.post(f"{address}undo/")
        undoing = MaintenanceRun.objects.get(undoes=run)
        assert response["Location"] == f"/maintenance/runs/{undoing.uid}/"
        runs.work(undoing)
        assert importances(faded) == [0.5, 0.5, 0.5]
        assert "Done, and undone since" in text(keeper.get(address))
        assert keeper.get(f"{address}undo/").status_code == 404
        assert address in main(keeper.get(response["Location"])).links()

    def test_a_run_under_way_asks_again_by_itself(self, keeper: Client, faded: Any) -> None:
        address = start(keeper)["Location"]
        html = keeper.get(address).content.decode()
        assert 'hx-trigger="every 1s"' in html
        assert '<noscript><meta http-equiv="refresh"' in html
        assert "Waiting to begin" in html
        bar = list(page(keeper.get(address)).all("progress"))
        assert bar == [{"class": "progress", "aria-label": "Progress", "max": "100", "value": "0"}]
        runs.work(MaintenanceRun.objects.get())
        html = keeper.get(address).content.decode()
        assert "every 1s" not in html
        assert 'http-equiv="refresh"' not in html

    def test_the_fragment_becomes_the_whole_when_the_run_ends(self, keeper: Client, faded: Any) -> None:
        address = start(keeper)["Location"]
        asked = {"HTTP_HX_REQUEST": "true"}
        response = keeper.get(f"{address}progress/", **asked)
        assert "HX-Retarget" not in response
        assert "faded paint" not in response.content.decode()
        news = re.search(r"\?told=([\w-]+)", response.content.decode())
        assert news
        assert 'id="run-said"' in response.content.decode()
        again = keeper.get(f"{address}progress/?told={news[1]}", **asked)
        assert 'id="run-said"' not in again.content.decode(), "the same is not said every second"
        runs.work(MaintenanceRun.objects.get())
        response = keeper.get(f"{address}progress/?told={news[1]}", **asked)
        assert (response["HX-Retarget"], response["HX-Reswap"]) == ("#run", "outerHTML")
        assert "faded paint 2" in response.content.decode()
        assert 'id="run-said" hx-swap-oob="innerHTML">Done<' in response.content.decode()

    def test_a_run_that_changed_nothing_says_so(self, keeper: Client, remember: Any) -> None:
        remember("fresh paint")
        _, address = started(keeper)
        assert "Nothing had to change" in text(keeper.get(address))
        assert "Undo" not in text(keeper.get(address))
        _, address = started(keeper, do="dry_run")
        assert "Nothing would change" in text(keeper.get(address))


class TestStopAndResume:
    def test_a_waiting_run_is_stopped_and_goes_on(self, keeper: Client, faded: list[Memory]) -> None:
        address = start(keeper)["Location"]
        assert "Stop" in text(keeper.get(address))
        keeper.post(f"{address}stop/")
        assert "Stopped" in text(keeper.get(address))
        keeper.post(f"{address}resume/")
        runs.work(MaintenanceRun.objects.get())
        assert importances(faded) == [0.4, 0.4, 0.4]
        assert "Done" in text(keeper.get(address))

    def test_one_whose_worker_died_is_marked_when_looked_at(self, keeper: Client, faded: Any) -> None:
        address = start(keeper)["Location"]
        MaintenanceRun.objects.update(
            status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=timezone.now() - timedelta(hours=2)
        )
        shown = text(keeper.get(address))
        assert "Interrupted" in shown
        assert "Resume" in shown
        home = text(keeper.get("/"))
        assert "Consolidate broke off" in home
        keeper.post(f"{address}resume/")
        runs.work(MaintenanceRun.objects.get())
        assert "broke off" not in text(keeper.get("/"))

    def test_what_cannot_be_done_any_more_is_told(self, keeper: Client, faded: Any) -> None:
        _, address = started(keeper)
        for deed, words in (("stop", "is done already"), ("resume", "only one that failed")):
            response = keeper.post(f"{address}{deed}/")
            assert response["Location"] == address
            assert words in text(keeper.get(address))

    def test_the_home_page_tells_of_broken_runs_to_those_who_may_look(
        self, sign_in: Any, keeper: Client, faded: Any
    ) -> None:
        start(keeper)
        MaintenanceRun.objects.update(status=Status.FAILED, cause="interrupted")
        assert "broke off" in text(keeper.get("/"))
        assert "broke off" not in text(sign_in(name="ben").get("/"))


class TestTheGate:
    @pytest.fixture
    def all_levels(self, four_levels: dict[str, Memory]) -> str:
        """The address of a run that reached every level."""
        age(list(four_levels.values()), 5)
        reach = Clearance.up_to("secret", owner="ada")
        run = runs.start("consolidate", {}, Actor("user:ada", reach))
        runs.work(run)
        return f"/maintenance/runs/{run.uid}/"

    @pytest.mark.parametrize(
        ("on", "seen"),
        [
            ((), ["public"]),
            (("private",), ["public", "private"]),
            (("private", "secret"), ["public", "private", "secret"]),
        ],
    )
    def test_a_run_names_only_what_may_be_seen(
        self, sign_in: Any, all_levels: str, on: tuple[str, ...], seen: list[str]
    ) -> None:
        client = sign_in("view_maintenancerun", "view_private", "view_secret", on=on)
        shown = text(client.get(all_levels))
        for level in ("public", "private", "secret", "unknown"):
            assert (f"{level}words" in shown) is (level in seen), level
        assert f"Result faded in importance {len(seen)} " in shown

    def test_a_narrower_view_learns_no_number_of_the_whole(
        self, visitor: Client, sign_in: Any, all_levels: str
    ) -> None:
        client = sign_in("add_maintenancerun", name="ben")
        shown = text(client.get(all_levels))
        assert "3" not in re.sub(r"\d+\.\d+|\d+ \w+ ago", "", shown)
        assert "Undo" not in shown, "it reached further than ben may see"
        assert client.post(f"{all_levels}undo/")["Location"] == all_levels
        assert not MaintenanceRun.objects.filter(undoes__isnull=False).exists()
        assert "reaches further than you may see" in text(client.get(all_levels))

    def test_a_project_is_named_only_to_those_who_know_of_it(
        self, sign_in: Any, visitor: Client, remember: Any, actor: Actor
    ) -> None:
        memory = remember("paint", project="skunkworks", sensitivity="secret")
        run = runs.start("consolidate", {"project": "skunkworks"}, actor, dry_run=True)
        runs.work(run)
        client = sign_in("view_maintenancerun", "add_maintenancerun", "view_secret", name="ben")
        addresses = (f"/maintenance/runs/{run.uid}/", "/maintenance/runs/", "/maintenance/")
        for address in addresses:
            assert "skunkworks" not in client.get(address).content.decode(), address
        assert "Do it" not in text(client.get(addresses[0]))
        Memory.objects.filter(pk=memory.pk).update(sensitivity="public")
        assert "skunkworks" in text(client.get(addresses[0]))
        assert "Do it" in text(client.get(addresses[0]))

    def test_what_became_secret_since_is_hidden(self, keeper: Client, faded: list[Memory]) -> None:
        _, address = started(keeper)
        Memory.objects.filter(pk=faded[1].pk).update(sensitivity="secret")
        shown = text(keeper.get(address))
        assert "faded paint 0" in shown
        assert "faded paint 1" not in shown


class TestHostileTexts:
    @pytest.mark.parametrize("payload", PAYLOADS[:12])
    def test_titles_and_projects_stay_text(self, keeper: Client, remember: Any, payload: str) -> None:
        age([remember("paint", title=payload, project=payload)], 5)
        _, address = started(keeper, project=payload)
        for shown in (address, "/maintenance/runs/", "/maintenance/", f"{address}undo/"):
            html = keeper.get(shown).content.decode()
            assert not dangers(html), shown

    @pytest.mark.parametrize("payload", PAYLOADS[:6])
    def test_a_refused_value_stays_text(self, keeper: Client, db: None, payload: str) -> None:
        response = start(keeper, project=payload * 30)
        assert response.status_code == 422
        assert not dangers(response.content.decode())


class TestList:
    def test_newest_first_narrowed_by_operation_and_status(self, keeper: Client, faded: Any) -> None:
        started(keeper, do="dry_run")
        start(keeper)
        shown = text(keeper.get("/maintenance/runs/"))
        assert shown.index("Waiting to begin") < shown.index("Dry run: Consolidate")
        assert "Dry run" not in text(keeper.get("/maintenance/runs/?status=queued"))
        assert "No run fits" in text(keeper.get("/maintenance/runs/?status=failed"))
        assert "3 changes" in text(keeper.get("/maintenance/runs/?operation=consolidate&status=done"))
        assert keeper.get("/maintenance/runs/?operation=dance").status_code == 422

    def test_an_empty_list_says_so(self, keeper: Client, db: None) -> None:
        assert "Nothing has run yet" in text(keeper.get("/maintenance/runs/"))

    def test_pages_follow_each_other(self, keeper: Client, db: None) -> None:
        for number in range(31):
            MaintenanceRun.objects.create(
                operation="consolidate", dry_run=True, params={"project": f"p{number}"}
            )
        first = keeper.get("/maintenance/runs/")
        address = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert address
        assert "p0" in text(keeper.get("/maintenance/runs/" + address[1]))
        assert keeper.get("/maintenance/runs/?cursor=x").status_code == 400

    @pytest.mark.parametrize("number", ["x", "-1", "", "9" * 30])
    def test_a_page_of_changes_that_is_no_number(self, keeper: Client, faded: Any, number: str) -> None:
        _, address = started(keeper)
        assert keeper.get(f"{address}?page={number}").status_code == 400
        assert keeper.get(f"{address}?page=7").status_code == 200


@pytest.mark.parametrize("address", ["/maintenance/", "/maintenance/runs/", "run"])
def test_the_number_of_queries_does_not_grow(keeper: Client, remember: Any, address: str) -> None:
    counted = []
    for many in (2, 20):
        age([remember(f"faded {many} {number}") for number in range(many)], 5)
        _, made = started(keeper)
        there = made if address == "run" else address
        keeper.get(there)
        with CaptureQueriesContext(connection) as queries:
            keeper.get(there)
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert counted[1] < 40
