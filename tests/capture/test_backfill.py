"""Events of past sessions: recorded at their own times, once, and undone with their run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance, system_actor
from memoryhub.capture import projects
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Event, EventCount, Injection, JournalEntry, MaintenanceRun, Memory, Session
from tests.api.conftest import Agent, is_problem
from tests.capture.conftest import DESIGN, FIX, AgentSession

EVERYTHING = Clearance(frozenset(LEVELS))
STYLE = f"fix(css): contrast\n\n{DESIGN}, because it loads last"
RUN = "run-0000000000000001"
DAY = "2026-01-10"


def past(event: str, uid: str, clock: str, session: str = "old", project: str = "shop", **data: Any) -> Any:
    at = f"{DAY}T{clock}:00Z"
    return {"event": event, "id": uid, "at": at, "session_id": session, "project": project, "data": data}


def commit(uid: str, clock: str, message: str = FIX, **more: Any) -> Any:
    given = {"command": f"git commit -F - <<'END'\n{message}\nEND"}
    return past("tool:post", uid, clock, tool_name="Bash", tool_input=given, tool_response="ok", **more)


CLOCK = ("09:00", "09:30", "09:30")  # start, last event, end
SESSION = [
    past("session:start", "start", "09:00", source="startup"),
    past("prompt:submit", "p1", "09:01", prompt="Repair the importer, it reads files twice"),
    commit("c1", "09:10"),
    past("session:end", "end", "09:30", reason="other"),
]


def send(bot: Agent, events: list[Any] = SESSION, run: str = RUN) -> Any:
    response = bot.post(f"/backfills/{run}/events", {"events": events})
    assert response.status_code == 200, response.content
    return response.json()


def check(bot: Agent, **more: Any) -> Any:
    names = [{"event": one["event"], "id": one["id"]} for one in SESSION]
    return bot.post(
        "/backfills/check", {"session_id": "old", "project": "shop", "events": names, **more}
    ).json()


def live(**more: Any) -> list[str]:
    return sorted(Memory.objects.live().filter(**more).values_list("type", flat=True))


class TestStore:
    def test_past_session_gets_its_own_times_and_memories(self, bot: Agent) -> None:
        found = send(bot)
        assert found == {"outcomes": ["recorded", "recorded", "stored", "stored"], "memories": 2}
        session = Session.objects.get(session_id="old")
        times = (session.started_at, session.last_at, session.ended_at)
        assert [f"{at:%Y-%m-%d %H:%M}" for at in times if at] == [f"{DAY} {at}" for at in CLOCK]
        assert live() == ["bugfix", "session_summary"]
        assert {f"{at:%Y-%m-%d}" for at in Memory.objects.values_list("created_at", flat=True)} == {DAY}

    def test_old_memories_live_as_long_as_new_ones(self, bot: Agent, configure: Callable[..., None]) -> None:
        configure(default_ttl_days=30)
        send(bot)
        now = timezone.now()
        expiries = Memory.objects.filter(type="bugfix").values_list("expires_at", "imported_at")
        assert all(expiry > now and imported and imported <= now for expiry, imported in expiries)

    def test_second_delivery_stores_nothing(self, bot: Agent) -> None:
        send(bot)
        before = Event.objects.count(), Memory.objects.count(), JournalEntry.objects.count()
        assert send(bot, run="run-0000000000000002") == {"outcomes": ["known"] * 4, "memories": 0}
        assert (Event.objects.count(), Memory.objects.count(), JournalEntry.objects.count()) == before

    def test_grown_session_continues(self, bot: Agent) -> None:
        send(bot)
        more = [commit("c2", "09:40", STYLE), SESSION[3]]
        assert send(bot, more)["outcomes"] == ["stored", "known"]

    def test_session_that_was_reported_live_is_not_changed(
        self, bot: Agent, open_session: Callable[..., AgentSession]
    ) -> None:
        open_session("old").ok("prompt:submit", {"prompt": "Repair the importer"})
        assert send(bot)["outcomes"] == ["live"] * 4
        assert Event.objects.count() == 1

    def test_past_session_injects_nothing_and_starts_no_maintenance(
        self, bot: Agent, configure: Callable[..., None]
    ) -> None:
        configure(session_end_consolidation="auto", session_end_compression="auto")
        send(bot)
        send(bot, [{**one, "session_id": "later"} for one in SESSION])
        assert not Injection.objects.exists()
        assert not MaintenanceRun.objects.exists()

    def test_cap_evicts_nothing(self, bot: Agent, configure: Callable[..., None]) -> None:
        configure(max_memories=1)
        bot.post("/memories", {"content": "Deploy before noon", "project": "shop"})
        send(bot)
        assert Memory.objects.live().count() == 3

    @pytest.mark.parametrize("mode", ["off", "observe"])
    def test_mode_of_the_project_leaves_it_out(self, bot: Agent, mode: str) -> None:
        projects.configure_project("shop", system_actor("tests"), mode=mode)
        assert send(bot)["outcomes"] == [mode] * 4
        assert not Event.objects.exists()
        assert not EventCount.objects.exists()  # they count what happens now

    def test_memories_wait_for_approval(self, bot: Agent) -> None:
        projects.configure_project("shop", system_actor("tests"), mode="approve")
        assert send(bot)["memories"] == 1
        assert bot.get("/memories").json()["items"] == []
        assert bot.delete(f"/backfills/{RUN}").json() == {"memories": 1, "events": 4, "sessions": 1}

    def test_private_text_and_credentials_are_not_stored(self, bot: Agent) -> None:
        key = "AKIA" + "QWERTYUIOPASDFGH"
        prompt = f"Use <private>quincewort</private> and {key}"
        send(bot, [past("prompt:submit", "p1", "09:01", prompt=prompt)])
        preview = Event.objects.get().preview
        assert "quincewort" not in preview
        assert key not in preview

    def test_event_without_id_or_time_is_refused(self, bot: Agent) -> None:
        for field in ("id", "at"):
            body = {"events": [{name: value for name, value in SESSION[1].items() if name != field}]}
            assert is_problem(bot.post(f"/backfills/{RUN}/events", body), 422)


class TestCheck:
    def test_new_session_has_no_known_events(self, bot: Agent) -> None:
        assert check(bot) == {"project": "shop", "state": "new", "known": []}
        assert not Session.objects.exists()

    def test_stored_events_are_known(self, bot: Agent) -> None:
        send(bot, SESSION[:2])
        assert check(bot)["known"] == ["p1", "start"]

    def test_state_says_why_nothing_is_stored(
        self, bot: Agent, open_session: Callable[..., AgentSession]
    ) -> None:
        open_session("old").ok("prompt:submit", {"prompt": "Repair the importer"})
        assert check(bot)["state"] == "live"
        projects.configure_project("shop", system_actor("tests"), pause_hours=1)
        assert check(bot)["state"] == "paused"

    def test_folder_names_the_project(self, bot: Agent) -> None:
        assert check(bot, project="", cwd="/home/ada/till")["project"] == "till"

    def test_project_outside_the_token_is_refused(self, agent: Callable[..., Agent]) -> None:
        other = agent(name="other", projects=["till"])
        body = {"session_id": "old", "project": "shop"}
        assert is_problem(other.post("/backfills/check", body), 403)


class TestUndo:
    def test_run_is_undone_as_a_whole(self, bot: Agent) -> None:
        send(bot, SESSION[:2])
        send(bot, SESSION[2:])
        assert bot.delete(f"/backfills/{RUN}").json() == {"memories": 2, "events": 4, "sessions": 1}
        assert not Session.objects.exists()
        assert live() == []
        assert set(Memory.objects.values_list("trash_reason", flat=True)) == {"undone"}
        assert is_problem(bot.delete(f"/backfills/{RUN}"), 404)

    def test_undone_run_can_be_repeated_under_another_id(self, bot: Agent) -> None:
        send(bot)
        bot.delete(f"/backfills/{RUN}")
        assert is_problem(bot.post(f"/backfills/{RUN}/events", {"events": SESSION}), 409)
        again = "run-0000000000000002"
        assert send(bot, run=again)["memories"] == 2
        assert live() == ["bugfix", "session_summary"]
        assert bot.delete(f"/backfills/{again}").json()["memories"] == 2

    def test_other_runs_and_changed_memories_stay(self, bot: Agent) -> None:
        send(bot)
        other = [{**one, "session_id": "other"} for one in SESSION]
        other[2] = commit("c9", "11:00", STYLE, session="other")
        send(bot, other, "run-0000000000000002")
        fix = Memory.objects.get(type="bugfix", session_id="old")
        memories.update_memory(fix.uid, MemoryPatch(importance=0.9), Actor("user:ada", EVERYTHING))
        assert bot.delete(f"/backfills/{RUN}").json() == {"memories": 1, "events": 4, "sessions": 0}
        assert fix.uid in Memory.objects.live().values_list("uid", flat=True)
        assert len(live(session_id="other")) == 2

    def test_memory_that_a_backfilled_revert_replaced_comes_back(
        self, bot: Agent, open_session: Callable[..., AgentSession]
    ) -> None:
        message = (
            "feat(cache): keep rows of the ledger\n\nReading them twice took a second because of the disk."
        )
        kept = open_session("now").commit(message).memory
        assert kept
        headline = message.partition("\n")[0]
        text = f'Revert "{headline}"\n\nIt broke the ledger, because rows were read before they were written.'
        send(bot, [commit("c1", "09:10", text)])
        assert not Memory.objects.live().filter(pk=kept.pk).exists()
        bot.delete(f"/backfills/{RUN}")
        assert Memory.objects.live().filter(pk=kept.pk).exists()

    def test_run_of_another_agent_cannot_be_used_or_undone(
        self, bot: Agent, agent: Callable[..., Agent]
    ) -> None:
        send(bot)
        other = agent(name="other")
        assert is_problem(other.delete(f"/backfills/{RUN}"), 404)
        assert is_problem(other.post(f"/backfills/{RUN}/events", {"events": SESSION}), 409)

    def test_run_is_recorded_in_the_journal(self, bot: Agent) -> None:
        send(bot)
        bot.delete(f"/backfills/{RUN}")
        rows = JournalEntry.objects.filter(object_type="session", operation__endswith="backfill")
        assert len(set(rows.values_list("object_id", flat=True))) == 1
        rows = rows.order_by("seq").values_list("operation", flat=True)
        assert list(dict.fromkeys(rows)) == ["backfill", "undo_backfill"]
