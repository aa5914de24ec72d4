"""Test the registry of server processes and the leases: one process at a time, and who takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.maintenance import nodes, runs
from memoryhub.maintenance.executor import claim, is_lost, mark_interrupted
from memoryhub.maintenance.worker import Heartbeat, Worker
from memoryhub.models import Lease, MaintenanceRun, ServerProcess
from memoryhub.ops import serving
from memoryhub.ops.doctor import Status, content

pytestmark = pytest.mark.django_db
ELSEWHERE = "elsewhere/7/1"


def register_elsewhere(seconds_ago: float = 0, **fields: Any) -> None:
    """Store the row of a process of another machine."""
    values = {
        "node": "elsewhere",
        "pid": 7,
        "version": "0.1.0",
        "key_digest": nodes.key_digest(),
        "started_at": Now(),
        "heartbeat_at": Now() - timedelta(seconds=seconds_ago),
        "clock_at": timezone.now(),
        **fields,
    }
    ServerProcess.objects.create(process=ELSEWHERE, **values)


@pytest.fixture
def other_process() -> Iterator[str]:
    """Return the id of another process of this machine, which runs."""
    machine = nodes.process_id().partition("/")[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield f"{machine}/{process.pid}/{nodes._process_start_time(process.pid)}"
        process.kill()


class TestLeases:
    def test_lease_has_one_holder(self) -> None:
        first, second = f"{nodes.process_id()}/1", f"{nodes.process_id()}/2"
        assert nodes.take_lease("task", first)
        assert nodes.take_lease("task", second) is None
        assert nodes.take_lease("task", first), "the holder keeps it"
        nodes.release_lease("task", first)
        assert nodes.take_lease("task", second)

    def test_only_the_holder_releases_a_lease(self) -> None:
        nodes.take_lease("task", f"{nodes.process_id()}/1")
        nodes.release_lease("task", f"{nodes.process_id()}/2")
        assert nodes.take_lease("task", f"{nodes.process_id()}/2") is None

    def test_lease_of_a_running_process_is_respected(self, other_process: str) -> None:
        assert nodes.take_lease("task", f"{other_process}/1")
        assert nodes.take_lease("task", f"{nodes.process_id()}/1") is None

    def test_lease_of_a_killed_process_is_taken_at_once(self) -> None:
        machine = nodes.process_id().partition("/")[0]
        Lease.objects.create(name="task", holder=f"{machine}/{2**22 - 1}/1/1", position="42")
        lease = nodes.take_lease("task", f"{nodes.process_id()}/1")
        assert lease is not None
        assert lease.position == "42", "the next holder goes on there"

    @pytest.mark.parametrize(("seconds", "is_free"), [(0, False), (20, False), (40, True)])
    def test_lease_of_another_machine_depends_on_its_heartbeat(self, seconds: float, is_free: bool) -> None:
        register_elsewhere(seconds)
        Lease.objects.create(name="task", holder=f"{ELSEWHERE}/1")
        assert (nodes.take_lease("task", f"{nodes.process_id()}/1") is not None) is is_free

    def test_lease_of_an_unknown_process_is_free(self) -> None:
        Lease.objects.create(name="task", holder=f"{ELSEWHERE}/1")
        assert nodes.take_lease("task", f"{nodes.process_id()}/1")

    def test_former_holder_cannot_move_the_position(self) -> None:
        lease = nodes.take_lease("task", f"{nodes.process_id()}/1")
        assert lease is not None
        assert nodes.save_position(lease, "1")
        Lease.objects.update(holder=f"{ELSEWHERE}/1")
        assert not nodes.save_position(lease, "2")
        assert Lease.objects.get(name="task").position == "1"

    def test_holder_is_registered_before_others_see_its_lease(self) -> None:
        nodes.take_lease("task", f"{nodes.process_id()}/1")
        assert [one.process for one in nodes.live_processes()] == [nodes.process_id()]


class TestRegistry:
    def test_heartbeat_renews_the_row(self) -> None:
        nodes.renew()
        ServerProcess.objects.update(heartbeat_at=Now() - timedelta(seconds=60))
        assert not nodes.live_processes()
        nodes.renew()
        [row] = nodes.live_processes()
        assert (row.node, row.process) == (nodes.node_name(), nodes.process_id())

    def test_rows_of_processes_that_ended_long_ago_are_deleted(self) -> None:
        register_elsewhere(2 * 86_400)
        nodes.renew()
        assert not ServerProcess.objects.filter(process=ELSEWHERE).exists()

    def test_leaving_releases_the_leases_of_this_process_only(self) -> None:
        register_elsewhere()
        nodes.take_lease("mine", f"{nodes.process_id()}/1")
        Lease.objects.create(name="theirs", holder=f"{ELSEWHERE}/1")
        nodes.leave()
        assert dict(Lease.objects.values_list("name", "holder")) == {"mine": "", "theirs": f"{ELSEWHERE}/1"}
        assert [one.process for one in ServerProcess.objects.all()] == [ELSEWHERE]

    def test_name_of_the_node_separates_nodes_of_one_machine(self, settings: Any) -> None:
        names = set()
        for name in ("", "a", "b"):
            settings.NODE_NAME = name
            nodes._machine.cache_clear()
            names.add(nodes.process_id())
        nodes._machine.cache_clear()
        assert len(names) == 3

    def test_run_on_another_machine_is_lost_when_its_heartbeat_ends(self) -> None:
        now = timezone.now()
        run = MaintenanceRun(worker=f"{ELSEWHERE}/1", heartbeat_at=now - timedelta(minutes=2))
        register_elsewhere()
        assert not is_lost(run, now), "its step takes long"
        assert is_lost(run, now + timedelta(minutes=15)), "it hangs"
        ServerProcess.objects.update(heartbeat_at=Now() - timedelta(seconds=40))
        assert is_lost(run, now)

    @pytest.mark.skipif(not IS_POSTGRES, reason="a store on SQLite has one machine")
    @pytest.mark.parametrize("ahead", [timedelta(hours=1), -timedelta(hours=1)])
    def test_clock_of_a_node_does_not_decide_whether_its_run_is_lost(
        self, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
    ) -> None:
        """``manage.py maintain`` of another machine, which has no row of a process."""
        monkeypatch.setattr(nodes, "_machine", lambda: "elsewhere")
        run = runs.enqueue("compress", {}, Actor("user:ada", Clearance()))
        now = timezone.now() + ahead
        with monkeypatch.context() as clock:
            clock.setattr(timezone, "now", lambda: now)
            assert claim(run)
        monkeypatch.setattr(nodes, "_machine", lambda: "here")
        assert mark_interrupted() == 0
        MaintenanceRun.objects.update(heartbeat_at=Now() - timedelta(seconds=40))
        assert mark_interrupted() == 1


class TestScheduler:
    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What the worker did for the schedule."""
        made: list[str] = []
        monkeypatch.setattr(runs, "enqueue_due", lambda: made.append("enqueue"))
        monkeypatch.setattr(runs, "resume_interrupted", lambda: made.append("resume"))
        return made

    def test_another_process_follows_the_schedule(self, calls: list[str], other_process: str) -> None:
        nodes.take_lease(nodes.SCHEDULER, f"{other_process}/scheduler")
        Worker(dry_runs=False).run_once()
        assert calls == []

    def test_schedule_is_taken_over_from_a_killed_process(self, calls: list[str]) -> None:
        machine = nodes.process_id().partition("/")[0]
        Lease.objects.create(name=nodes.SCHEDULER, holder=f"{machine}/{2**22 - 1}/1/scheduler")
        Worker(dry_runs=False).run_once()
        assert calls == ["resume", "enqueue"]

    def test_process_gives_up_the_schedule_while_it_executes_a_run(
        self, calls: list[str], actor: Actor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs.enqueue("consolidate", {}, actor)
        assert Worker(dry_runs=False).run_once()
        assert Lease.objects.get(name=nodes.SCHEDULER).holder == ""
        assert not Worker(dry_runs=False).run_once()
        assert Lease.objects.get(name=nodes.SCHEDULER).holder.startswith(nodes.process_id())


class TestDoctor:
    def findings(self) -> list[tuple[Status, str]]:
        return [(one.status, one.text) for one in content.server_processes.findings()]

    def test_it_lists_nodes_and_versions(self) -> None:
        assert self.findings() == [(Status.OK, "no server uses the store")]
        register_elsewhere(version="0.0.9")
        assert self.findings() == [(Status.OK, "elsewhere: 1 process, version 0.0.9")]
        nodes.renew()
        assert (Status.WARN, "the nodes run different versions") in self.findings()

    def test_it_reports_another_secret_key(self) -> None:
        register_elsewhere(key_digest="other")
        assert "different secret keys" in self.findings()[-1][1]
        assert self.findings()[-1][0] is Status.FAIL

    def test_it_reports_a_wrong_clock(self) -> None:
        now = timezone.now()
        register_elsewhere(heartbeat_at=now, clock_at=now - timedelta(minutes=2))
        assert self.findings()[-1] == (
            Status.WARN,
            "the clock of elsewhere differs by -120 s from that of the database",
        )


def test_server_does_not_start_while_nodes_use_another_key(db: None) -> None:
    register_elsewhere(key_digest="other")
    with pytest.raises(serving.CannotServe, match="MEMORYHUB_SECRET_KEY"):
        list(serving.prepare_store())


@pytest.mark.django_db(transaction=True)
def test_heartbeat_thread_registers_the_process_and_leaves_at_the_end() -> None:
    thread = Heartbeat()
    thread.end()
    thread.run_once()
    assert [one.process for one in nodes.live_processes()] == [nodes.process_id()]
    thread.run()
    assert not ServerProcess.objects.exists()
