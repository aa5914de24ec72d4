"""``doctor``: each thing that can be wrong is made wrong, found, and mended where that is safe."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.utils import timezone

from memoryhub import checks, doctor, journal, mirror_audit, store, tokens
from memoryhub.conf import load
from memoryhub.doctor import machine, web
from memoryhub.doctor.registry import Check, Finding, Status, check, examine, fail, ok, warn
from memoryhub.drafts import MemoryDraft
from memoryhub.models import AgentToken, JournalEntry, Memory
from memoryhub.mounts import Mount
from memoryhub.search import schema
from memoryhub.sensitivity import Actor, Clearance, system
from tests.commands.conftest import tamper
from tests.conftest import without_journal_triggers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]
WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


def remember(content: str = "words", **fields: object) -> Memory:
    return store.remember(MemoryDraft(content=content, **fields), WRITER).memory


def look(one: Check) -> Finding:
    """The only finding of a check."""
    [found] = one.findings()
    return found


def named(name: str) -> Check:
    return next(one for one in doctor.CHECKS if one.name == name)


@pytest.fixture(autouse=True)
def on_loopback(settings):
    """The test runner adds a host of its own."""
    settings.ALLOWED_HOSTS = settings.LOOPBACK_HOSTS


@pytest.fixture
def sound(own_store: Path) -> Path:
    """An installation that nothing is wrong with."""
    User.objects.create_superuser("ada", password="x")
    tokens.issue_token("claude", "ada", actor=WRITER)
    remember()
    return own_store


# The command


def test_a_sound_installation_is_well(run, sound):
    ran = run("doctor")
    assert ran.code == 0
    assert "All is well." in ran.out
    assert ran.out.count("OK ") == len(doctor.CHECKS)


def test_warnings_alone_are_no_failure(run, own_store):
    ran = run("doctor")
    assert ran.code == 0
    assert "WARN  administrator: there is no administrator" in ran.out
    assert "→ manage.py createsuperuser" in ran.out
    assert "No failure, 2 warnings." in ran.out


def test_a_failure_is_told_with_its_mend_and_ends_with_code_one(run, sound):
    tamper(sound, "DROP TRIGGER memoryhub_text_insert")
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  triggers: trigger memoryhub_text_insert is missing" in ran.out
    assert "→ doctor --fix" in ran.out
    assert "1 failure, 0 warnings" in ran.err


def test_the_findings_can_be_had_as_json(run, sound):
    shape = json.loads(run("doctor", "--json").out)
    assert shape["ok"] is True
    assert [one["name"] for one in shape["checks"]] == [one.name for one in doctor.CHECKS]
    assert {one["status"] for one in shape["checks"]} == {"ok"}
    tamper(sound, "DROP TRIGGER memoryhub_text_insert")
    ran = run("doctor", "--json")
    assert ran.code == 1
    [failed] = [one for one in json.loads(ran.out)["checks"] if one["status"] == "fail"]
    assert failed["name"] == "triggers"
    assert failed["findings"][0]["mend"]


def test_a_quick_look_leaves_out_what_reads_the_whole_store(run, sound):
    out = run("doctor", "--quick").out
    assert {line.split(":")[0] for line in out.splitlines() if line.startswith("SKIP")} == {
        f"SKIP  {name}" for name in ("text index", "integrity", "journal", "mirror")
    }


def test_a_finding_cannot_write_to_the_terminal(run, sound, configure):
    configure(max_memories=1)
    remember("a", project="x\x1b[31m")
    remember("b", project="x\x1b[31m")
    assert "\x1b" not in run("doctor").out


def test_every_check_stands_in_the_registry_once():
    modules = (
        machine,
        web,
        doctor.store,
        doctor.tables,
        doctor.content,
        doctor.maintenance,
        doctor.embeddings,
    )
    made = [one for module in modules for one in vars(module).values() if isinstance(one, Check)]
    assert sorted(one.name for one in made) == sorted(one.name for one in doctor.CHECKS)
    names = [one.name for one in doctor.CHECKS]
    assert len(set(names)) == len(names)
    for position, one in enumerate(doctor.CHECKS):
        assert not one.needs or one.needs in names[:position], one.name


# Going through the checks


def test_what_needs_a_failed_check_is_passed_over_and_so_is_what_needs_that():
    looked = []

    def looks(name: str, needs: str, found: Finding) -> Check:
        return Check(name, lambda: looked.append(name) or [found], needs)  # type: ignore[func-returns-value]

    reports = list(
        examine(
            [
                looks("a", "", fail("broken", "mend")),
                looks("b", "a", ok("fine")),
                looks("c", "b", ok("fine")),
                looks("d", "", warn("so so", "mend")),
                looks("e", "d", ok("fine")),
            ]
        )
    )
    assert [report.status for report in reports] == ["fail", "skip", "skip", "warn", "ok"]
    assert looked == ["a", "d", "e"]


def test_an_unreadable_file_or_store_is_a_finding_and_no_traceback():
    @check("file")
    def unreadable():
        Path("/no/such/file").read_text()
        yield ok("never")

    @check("rows")
    def rowless():
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")
        yield ok("never")

    assert look(unreadable) == fail("/no/such/file: No such file or directory", "Mend the access to it.")
    assert look(rowless).status is Status.FAIL
    assert "no such table" in look(rowless).text


def test_a_fix_runs_only_when_asked_for_and_needed():
    state = {"broken": True, "fixed": 0}

    def mend():
        state.update(broken=False, fixed=state["fixed"] + 1)
        yield "mended it"

    one = Check("x", lambda: [fail("broken", "mend") if state["broken"] else ok("fine")], fix=mend)
    assert next(examine([one])).status is Status.FAIL
    report = next(examine([one], fix=True))
    assert (report.status, report.fixed) == (Status.OK, ["mended it"])
    assert next(examine([one], fix=True)).fixed == []
    assert state["fixed"] == 1


# The machine


def test_an_old_python_or_sqlite_fails(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    assert look(named("python and sqlite")).status is Status.FAIL
    monkeypatch.undo()
    monkeypatch.setattr(machine, "MIN_PYTHON", (9, 0))
    assert named("python and sqlite").findings()[0].text.endswith("is too old")


def test_a_misspelt_variable_is_warned_about(settings):
    settings.MEMORYHUB_LOADED = load({"MEMORYHUB_MAX_MEMORY": "5", "MEMORYHUB_MIN_SCORE": "0.2"})
    first, second = named("configuration").findings()
    assert first == ok("1 settings changed, by MEMORYHUB_MIN_SCORE")
    assert second.status is Status.WARN
    assert "MEMORYHUB_MAX_MEMORY" in second.text


def test_a_home_that_is_not_there_or_cannot_be_written_to_fails(settings, tmp_path):
    settings.HOME = tmp_path / "gone"
    assert "is not there" in look(named("home")).text
    settings.HOME = Path("/proc/self")
    found = look(named("home"))
    assert found.status is Status.FAIL
    assert "cannot be written to" in found.text


def test_files_that_others_may_read_are_found_and_closed(own_store, home):
    (home / "secret-key").write_text("x" * 60)
    (home / "secret-key").chmod(0o640)
    own_store.chmod(0o644)
    home.chmod(0o755)
    assert {f.text.split()[-1] for f in named("file modes").findings()} == {
        str(own_store),
        str(home / "secret-key"),
    }
    report = next(examine([named("file modes")], fix=True))
    assert report.status is Status.OK
    assert len(report.fixed) == 2
    assert own_store.stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o755


def test_a_closed_folder_protects_the_files_in_it(own_store, home):
    own_store.chmod(0o644)
    home.chmod(0o700)
    assert look(named("file modes")).status is Status.OK


def test_a_folder_that_others_may_write_to_is_found_and_closed(home):
    home.chmod(0o777)
    assert "others on this machine may write to" in named("file modes").findings()[0].text
    assert next(examine([named("file modes")], fix=True)).status is Status.OK
    assert home.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_different_owners_are_found(own_store):
    os.chown(own_store, 12345, -1)
    found = look(named("file owner"))
    assert found.status is Status.WARN
    assert f"{own_store} belongs to 12345" in found.text


def test_a_network_file_system_fails_and_a_local_one_is_named(monkeypatch):
    for module in (checks, machine):
        monkeypatch.setattr(module, "mount_under", lambda path: Mount("/srv", "nfs4"))
    assert look(named("file system")).status is Status.FAIL
    for module in (checks, machine):
        monkeypatch.setattr(module, "mount_under", lambda path: Mount("/", "ext4"))
    assert look(named("file system")) == ok("ext4, mounted at /")
    monkeypatch.setattr(machine, "mount_under", lambda path: None)
    assert look(named("file system")) == ok("not known on this system")


@pytest.mark.parametrize(("free", "status"), [(10_000_000, "fail"), (100_000_000, "warn"), (10**12, "ok")])
def test_a_disk_that_fills_up_is_found(monkeypatch, free, status):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**13, 0, free))
    assert look(named("disk space")).status == status


@pytest.mark.parametrize("key", ["pass", "ab" * 40, "django-insecure-" + "abcdefgh" * 8])
def test_a_weak_secret_key_fails(settings, key):
    settings.SECRET_KEY = key
    found = look(named("secret key"))
    assert found.status is Status.FAIL
    assert key not in found.text + found.mend


# The store


def test_a_store_that_is_not_there_fails_and_is_not_made(run, own_store):
    connection.close()
    for path in own_store.parent.glob("memory.db*"):
        path.unlink()
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  store: there is no store at" in ran.out
    assert "→ Make an empty one: manage.py migrate." in ran.out
    assert "SKIP  tokens: not looked at, because of: tables" in ran.out
    assert not own_store.exists()


def test_a_file_that_is_no_database_fails(run, own_store):
    connection.close()
    for path in own_store.parent.glob("memory.db?*"):
        path.unlink()
    own_store.write_bytes(b"something else" * 1000)
    ran = run("doctor")
    assert ran.code == 1
    assert "is no SQLite database" in ran.out
    assert own_store.read_bytes().startswith(b"something else")


def test_a_store_without_its_log_fails(own_store):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=DELETE")
    assert "mode delete" in look(named("write-ahead log")).text


def test_migrations_that_are_pending_fail(own_store):
    call_command("migrate", "sessions", "zero", verbosity=0)
    found = look(named("migrations"))
    assert found.status is Status.FAIL
    assert "not applied: sessions.0001_initial" in found.text


def test_a_store_of_a_newer_version_fails(own_store):
    tamper(
        own_store,
        "INSERT INTO django_migrations(app,name,applied) VALUES ('memoryhub','9999_x','2030-01-01')",
    )
    found = look(named("migrations"))
    assert found.status is Status.FAIL
    assert "a newer version" in found.text


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TRIGGER memoryhub_trigram_update",
        "DROP TRIGGER memoryhub_journal_no_delete",
        "DROP TABLE memoryhub_trigram",
    ],
)
def test_a_schema_that_lacks_something_fails_and_is_mended(sound, damage):
    connection.close()
    tamper(sound, damage)
    assert look(named("triggers")).status is Status.FAIL
    report = next(examine([named("triggers")], fix=True))
    assert report.status is Status.OK
    assert schema.problems(deep=True) == []


def test_an_index_that_does_not_fit_fails_and_is_rebuilt(sound):
    tamper(sound, "INSERT INTO memoryhub_text(memoryhub_text) VALUES ('delete-all')")
    assert Memory.objects.search("words").count() == 0
    assert look(named("text index")).status is Status.FAIL
    report = next(examine([named("text index")], fix=True))
    assert report.status is Status.OK
    assert Memory.objects.search("words").count() == 1


def test_the_index_is_examined_while_somebody_writes(sound):
    with closing(sqlite3.connect(sound, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert look(named("text index")).status is Status.OK


def test_without_room_for_a_copy_the_index_is_examined_in_place(sound, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    assert look(named("text index")).status is Status.OK
    tamper(sound, "INSERT INTO memoryhub_text(memoryhub_text) VALUES ('delete-all')")
    assert look(named("text index")).status is Status.FAIL


def test_a_damaged_file_fails(sound):
    for n in range(100):
        remember(f"memory {n} " + "words " * 50, tags=[f"t{n}"])
    connection.close()
    tamper(sound, "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA writable_schema=ON")
    with sound.open("r+b") as file:
        file.seek(sound.stat().st_size // 2)
        file.write(b"\xaa" * 4096)
    found = named("integrity").findings()
    assert {one.status for one in found} == {Status.FAIL}


def test_rows_that_belong_to_none_fail(sound):
    tamper(sound, "DELETE FROM memoryhub_memory")
    remember_orphan = "INSERT INTO memoryhub_label(memory_id, kind, value) VALUES (999, 'tag', 'x')"
    tamper(sound, remember_orphan)
    found = look(named("integrity"))
    assert found == fail(
        "1 rows belong to rows that are gone", "Put a backup back: manage.py restore_backup FILE."
    )


def test_a_tampered_journal_fails_and_is_not_mended(sound):
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET actor = 'x' WHERE seq = 1")
    report = next(examine([named("journal")], fix=True))
    assert report.status is Status.FAIL
    assert "broken at row 1" in report.findings[0].text
    assert not journal.verify().ok


def test_a_mirror_that_is_behind_is_a_warning_and_is_mended(sound, settings):
    settings.MEMORY_LOG.unlink()
    assert look(named("mirror")).status is Status.WARN
    report = next(examine([named("mirror")], fix=True))
    assert (report.status, report.fixed) == (Status.OK, ["wrote the rows that the mirror lacked"])
    assert mirror_audit.audit().in_step


def test_a_mirror_that_contradicts_the_store_fails_and_is_kept(sound, settings):
    settings.MEMORY_LOG.write_text(
        settings.MEMORY_LOG.read_text().replace("claude", "clause").replace("a", "b")
    )
    before = settings.MEMORY_LOG.read_bytes()
    report = next(examine([named("mirror")], fix=True))
    assert (report.status, report.fixed) == (Status.FAIL, [])
    assert "evidence" in report.findings[0].mend
    assert settings.MEMORY_LOG.read_bytes() == before


# What is in it


def test_unknown_levels_are_counted_and_not_shown(sound):
    remember("unspeakable words", project="attic")
    Memory.objects.filter(project="attic").update(sensitivity="cosmic")
    found = look(named("sensitivity"))
    assert found.status is Status.WARN
    assert found.text.startswith("1 rows of memory are of an unknown level")
    assert not {"unspeakable", "attic", "cosmic"} & set(found.text.split())


def test_projects_over_or_near_their_cap_are_warned_about(sound, configure):
    configure(max_memories=0)
    for n in range(9):
        remember(f"m{n}", project="zoo")
    assert look(named("cap")).status is Status.OK
    configure(max_memories=10)
    assert look(named("cap")).text == "zoo holds 9 memories of at most 10"
    configure(max_memories=5)
    assert "zoo holds 9 memories, over the cap of 5" in look(named("cap")).text


def test_expired_memories_are_warned_about_once_their_grace_is_over(sound, configure):
    configure(expiry_grace_days=30)
    memory = remember("short lived", ttl_days=1)
    Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now() - timedelta(days=3))
    assert look(named("expiry")) == ok("1 expired memories, all of them revivable still")
    Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now() - timedelta(days=31))
    assert look(named("expiry")).status is Status.WARN
    store.purge_expired(system("test"))
    assert look(named("expiry")) == ok("none is waiting")


def test_a_clock_that_went_wrong_is_found(sound, monkeypatch):
    assert look(named("clock")).status is Status.OK
    Memory.objects.update(created_at=timezone.now() + timedelta(days=9))
    assert "1 memories were created in the future" in look(named("clock")).text
    Memory.objects.update(created_at=timezone.now())
    with without_journal_triggers():
        JournalEntry.objects.update(at=timezone.now() + timedelta(hours=1))
    assert "newest row is of" in look(named("clock")).text
    monkeypatch.setattr(
        timezone, "now", lambda: timezone.datetime(1999, 1, 1, tzinfo=timezone.get_default_timezone())
    )
    assert look_first("clock").status is Status.FAIL


def look_first(name: str) -> Finding:
    return named(name).findings()[0]


def test_an_installation_without_an_administrator_is_warned_about(own_store):
    User.objects.create_user("bob")
    User.objects.create_superuser("gone", password="x", is_active=False)
    assert look(named("administrator")).status is Status.WARN
    User.objects.create_superuser("ada", password="x")
    assert look(named("administrator")) == ok("1 of 2 who may log in")


def test_tokens_that_expire_soon_or_are_none_are_warned_about(own_store):
    assert "no agent has a token" in look(named("tokens")).text
    token, raw = tokens.issue_token("claude", "ada", actor=WRITER)
    assert look(named("tokens")) == ok("1 valid")
    AgentToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() + timedelta(days=3))
    found = look(named("tokens"))
    assert found.status is Status.WARN
    assert "claude" in found.text
    assert raw not in found.text
    AgentToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(days=3))
    assert "no agent has a token" in look(named("tokens")).text


# How it is served


def test_loopback_alone_needs_no_encryption(settings):
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
    assert look(named("hosts")) == ok("127.0.0.1, localhost")


def test_other_hosts_without_https_are_warned_about(settings):
    settings.ALLOWED_HOSTS = ["hub.example"]
    assert "without encryption" in look(named("hosts")).text
    settings.HTTPS = True
    assert look(named("hosts")) == ok("hub.example over HTTPS")


def test_any_host_debug_and_half_a_proxy_are_found(settings):
    settings.ALLOWED_HOSTS, settings.DEBUG, settings.BEHIND_PROXY = ["*"], True, True
    found = named("hosts").findings()
    assert [one.status for one in found] == ["fail", "warn", "warn", "warn"]
    settings.ALLOWED_HOSTS, settings.BEHIND_PROXY = ["localhost"], False
    assert look(named("hosts")).status is Status.OK


def test_a_static_file_that_is_missing_fails(monkeypatch):
    assert look(named("static files")).status is Status.OK
    monkeypatch.setattr(web, "ALWAYS_NEEDED", ("no/such/file.css",))
    assert look(named("static files")).text == "no/such/file.css is not found: pages look broken"


def test_what_djangos_own_checks_find_is_told(settings):
    settings.SILENCED_SYSTEM_CHECKS = []
    settings.X_FRAME_OPTIONS = "DENY"
    settings.LANGUAGE_CODE = "no such language"
    found = named("system checks").findings()
    assert found[0].status is Status.FAIL


# Tables and plain indexes


def test_a_missing_table_is_named_with_its_mend(run, sound):
    tamper(sound, "DROP TABLE memoryhub_fact")
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  tables: table memoryhub_fact is missing" in ran.out
    assert "→ Put a backup back" in ran.out
    assert "cannot be read" not in ran.out


@pytest.mark.parametrize(
    "name", ["memory_gate", "memory_key_once", "memoryhub_fact_updated_at_", "memoryhub_label_memory_id_"]
)
def test_a_missing_index_is_named_and_made_anew(run, sound, name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE %s", [f"{name}%"])
        [[found]] = cursor.fetchall()
    tamper(sound, f"DROP INDEX {found}")
    assert "WARN  indexes: index" in run("doctor").out
    assert "made index" in run("doctor", "--fix").out
    assert "OK    indexes" in run("doctor").out


def test_a_store_that_cannot_be_read_is_to_be_restored():
    def broken() -> Iterator[Finding]:
        raise DatabaseError("database disk image is malformed")

    assert "restore_backup" in look(Check("pages", broken)).mend


def test_a_store_that_is_busy_is_to_be_looked_at_again():
    def busy() -> Iterator[Finding]:
        raise DatabaseError("database is locked")

    assert "run doctor again" in look(Check("pages", busy)).mend
