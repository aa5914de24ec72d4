"""``doctor``: what the command says, and how it goes through the checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import DatabaseError, OperationalError, connection

from memoryhub.management.commands.doctor import CHECKS
from memoryhub.ops.doctor import (
    Check,
    Finding,
    Status,
    check,
    content,
    examine,
    fail,
    installation,
    ok,
    store,
    warn,
)
from tests.commands.conftest import tamper
from tests.commands.examining import look, remember

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


# The command


def test_sound_installation_has_no_problems(run, sound):
    ran = run("doctor")
    assert ran.code == 0
    assert "No problems found." in ran.out
    assert ran.out.count("OK ") == len(CHECKS)


def test_warnings_alone_are_no_failure(run, own_store):
    ran = run("doctor")
    assert ran.code == 0
    assert "WARN  administrator: there is no administrator" in ran.out
    assert "→ manage.py createsuperuser" in ran.out
    assert "No failure, 2 warnings." in ran.out


def test_a_failure_is_printed_with_its_fix_and_exits_with_1(run, sound):
    tamper(sound, "DROP TRIGGER memoryhub_text_insert")
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  triggers: trigger memoryhub_text_insert is missing" in ran.out
    assert "→ doctor --fix" in ran.out
    assert "1 failure, 0 warnings" in ran.err


@pytest.mark.slow
def test_the_findings_are_available_as_json(run, sound):
    shape = json.loads(run("doctor", "--json").out)
    assert shape["ok"] is True
    assert [one["name"] for one in shape["checks"]] == [one.name for one in CHECKS]
    assert {one["status"] for one in shape["checks"]} == {"ok"}
    tamper(sound, "DROP TRIGGER memoryhub_text_insert")
    ran = run("doctor", "--json")
    assert ran.code == 1
    [failed] = [one for one in json.loads(ran.out)["checks"] if one["status"] == "fail"]
    assert failed["name"] == "triggers"
    assert failed["findings"][0]["hint"]


def test_quick_checks_leave_out_those_that_read_the_whole_store(run, sound):
    out = run("doctor", "--quick").out
    assert {line.split(":")[0] for line in out.splitlines() if line.startswith("SKIP")} == {
        f"SKIP  {name}" for name in ("text index", "integrity", "journal", "mirror")
    }


def test_a_finding_cannot_write_to_the_terminal(run, sound, configure):
    configure(max_memories=1)
    remember("a", project="x\x1b[31m")
    remember("b", project="x\x1b[31m")
    assert "\x1b" not in run("doctor").out


def test_every_check_is_registered_once():
    modules = (installation, store, content)
    made = [one for module in modules for one in vars(module).values() if isinstance(one, Check)]
    assert sorted(one.name for one in made) == sorted(one.name for one in CHECKS)
    names = [one.name for one in CHECKS]
    assert len(set(names)) == len(names)
    for position, one in enumerate(CHECKS):
        assert not one.needs or one.needs in names[:position], one.name


# Going through the checks


def test_check_that_needs_a_failed_check_is_skipped_transitively():
    looked = []

    def looks(name: str, needs: str, found: Finding) -> Check:
        return Check(name, lambda: looked.append(name) or [found], needs)  # type: ignore[func-returns-value]

    reports = list(
        examine(
            [
                looks("a", "", fail("broken", "hint")),
                looks("b", "a", ok("fine")),
                looks("c", "b", ok("fine")),
                looks("d", "", warn("so so", "hint")),
                looks("e", "d", ok("fine")),
            ]
        )
    )
    assert [report.status for report in reports] == ["fail", "skip", "skip", "warn", "ok"]
    assert looked == ["a", "d", "e"]


def test_unreadable_file_or_store_is_a_finding():
    @check("file")
    def unreadable():
        Path("/no/such/file").read_text()
        yield ok("never")

    @check("rows")
    def rowless():
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")
        yield ok("never")

    assert look(unreadable) == fail("/no/such/file: No such file or directory", "Make it accessible.")
    assert look(rowless).status is Status.FAIL
    assert "no such table" in look(rowless).text


def test_a_fix_runs_only_on_request_and_if_needed():
    state = {"broken": True, "fixed": 0}

    def repair():
        state.update(broken=False, fixed=state["fixed"] + 1)
        yield "repaired it"

    one = Check("x", lambda: [fail("broken", "hint") if state["broken"] else ok("fine")], fix=repair)
    assert next(examine([one])).status is Status.FAIL
    report = next(examine([one], fix=True))
    assert (report.status, report.fixed) == (Status.OK, ["repaired it"])
    assert next(examine([one], fix=True)).fixed == []
    assert state["fixed"] == 1


def test_a_store_that_cannot_be_read_is_to_be_restored():
    def broken() -> Iterator[Finding]:
        raise DatabaseError("database disk image is malformed")

    assert "restore_backup" in look(Check("pages", broken)).hint


def test_a_store_that_is_busy_is_to_be_looked_at_again():
    def busy() -> Iterator[Finding]:
        raise OperationalError("database is locked")

    assert "run doctor again" in look(Check("pages", busy)).hint
