"""Import and export over the API."""

from __future__ import annotations

import gzip
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from memoryhub.audit.journal import MAX_NAMED_IDS
from memoryhub.maintenance import executor
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, Session, UploadPart
from memoryhub.transfer import import_files
from tests.api.conftest import API, agent, bad_fields, bot, is_problem
from tests.transfer.conftest import as_line, of_kind, raw_out, wipe

__all__ = ["agent", "bot"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]
CREDENTIAL = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"


def lines(*shapes):
    return b"".join(map(as_line, shapes))


def send(bot, raw, **query):
    path = f"{API}/import"
    return bot.http.post(path, raw, content_type="application/octet-stream", query_params=query)


def imported(bot, raw, **query):
    """Return the report of a whole import."""
    response = send(bot, raw, **query)
    assert response.status_code == 202, response.content
    uid = response.json()["id"]
    assert executor.execute(MaintenanceRun.objects.get(uid=uid))
    return bot.get(f"/import/{uid}").json()


def test_file_is_imported_by_a_run_and_reported(bot):
    raw = lines({"content": "one", "odd": 1}, {"content": "two"}, {"content": ""})
    report = imported(bot, raw, project="shop", name="/somewhere/notes.jsonl")
    assert (report["status"], report["format"], report["name"]) == ("done", "memoryhub", "notes.jsonl")
    assert report["counts"] == {"memories created": 2}
    assert report["failed"] == 1
    assert report["errors"] == ["line 3: content: should have at least 1 character"]
    assert report["ignored"] == [{"what": "odd", "count": 1}]
    assert report["done"] == report["total"] == len(raw)
    assert set(Memory.objects.values_list("project", flat=True)) == {"shop"}


def test_request_stores_nothing_and_the_run_deletes_the_file(bot, home):
    response = send(bot, lines({"content": "later"}))
    assert not Memory.objects.exists()
    assert [path.stat().st_mode & 0o777 for path in (home / "imports").iterdir()] == [0o600]
    executor.execute(MaintenanceRun.objects.get(uid=response.json()["id"]))
    assert Memory.objects.count() == 1
    assert list((home / "imports").iterdir()) == []


def test_repeated_import_adds_nothing(bot):
    raw = lines({"content": "one"})
    imported(bot, raw)
    assert imported(bot, raw)["counts"] == {"memories refreshed": 1}
    assert Memory.objects.count() == 1


def test_multipart_form_with_gzip_is_accepted(bot):
    file = SimpleUploadedFile("notes.jsonl.gz", gzip.compress(lines({"content": "packed"})))
    response = bot.http.post(f"{API}/import", {"file": file})
    assert response.json()["name"] == "notes.jsonl.gz"
    executor.execute(MaintenanceRun.objects.get())
    assert Memory.objects.get().content == "packed"


def test_form_without_file_names_the_part(bot):
    assert bad_fields(bot.http.post(f"{API}/import", {"other": "x"})) == {"file"}


def test_empty_file_is_refused(bot, home):
    assert bad_fields(send(bot, b"")) == {"file"}
    assert not MaintenanceRun.objects.exists()
    assert not any((home / "imports").iterdir())


def test_unknown_format_is_refused_and_the_file_deleted(bot, home):
    assert bad_fields(send(bot, b"x", format="novel")) == {"format"}
    assert not MaintenanceRun.objects.exists()
    assert not (home / "imports").exists() or list((home / "imports").iterdir()) == []


def test_dry_run_reports_what_would_happen(bot):
    report = imported(bot, lines({"content": "one"}, {"content": " "}), dry_run=True)
    assert report["counts"] == {"memories created": 1}
    assert report["failed"] == 1
    assert not Memory.objects.exists()
    assert not JournalEntry.objects.filter(object_type="memory").exists()


def test_dry_run_reports_what_would_expire(bot):
    report = imported(bot, lines({"content": "one"}, {"content": "two", "ttl_days": 0}), dry_run=True)
    assert (report["expiring"], report["without_ttl"]) == (1, 1)
    assert report["first_expiry"] > report["created_at"]


def test_source_of_a_line_is_kept_as_a_tag(bot):
    raw = lines({"content": "one", "source": "notion", "tags": ["b"]}, {"content": "two", "source": 1})
    for dry_run in (True, False):
        assert imported(bot, raw, dry_run=dry_run)["ignored"] == [{"what": "source", "count": 1}]
    tags = {item["preview"]: item["tags"] for item in bot.get("/memories").json()["items"]}
    assert tags == {"one": ["b", "source:notion"], "two": []}


def test_ttl_never_keeps_items_without_a_ttl_for_ever(bot):
    report = imported(bot, lines({"content": "one"}, {"content": "two", "ttl_days": 5}), ttl="never")
    assert (report["expiring"], report["without_ttl"]) == (1, 0)
    assert dict(Memory.objects.values_list("content", "ttl_days")) == {"one": None, "two": 5}


def test_ttl_that_is_no_lifetime_names_the_parameter(bot):
    assert bad_fields(send(bot, lines({"content": "one"}), ttl="soon")) == {"ttl"}


def test_unreadable_file_is_reported_by_the_run(bot):
    response = send(bot, gzip.compress(lines({"content": "x" * 5000}))[:40], name="broken.gz")
    uid = response.json()["id"]
    executor.execute(MaintenanceRun.objects.get(uid=uid))
    report = bot.get(f"/import/{uid}").json()
    assert report["status"] == "failed"
    assert report["error"].startswith("broken.gz: the gzip file is damaged")


def test_credential_is_refused_by_line_and_not_repeated(bot):
    report = imported(bot, lines({"content": "fine"}, {"content": f"use {CREDENTIAL}"}))
    assert report["failed"] == 1
    assert report["errors"][0].startswith("line 2: content: line 1 of content contains what looks like")
    assert CREDENTIAL not in json.dumps(report)
    kept = [str(row) for row in JournalEntry.objects.values_list("detail", flat=True)]
    assert not any(CREDENTIAL in row for row in kept)
    assert Memory.objects.count() == 1


# Limits


def test_file_with_too_large_content_length_is_refused_before_reading(bot, configure):
    configure(max_upload_mb=1)
    body = is_problem(send(bot, b"x" * 3_000_000), 413, "body_too_large")
    assert "import_memories" in body["detail"]


def test_too_large_file_leaves_nothing(bot, configure, home):
    configure(max_upload_mb=1)
    is_problem(send(bot, b"x" * 1_500_000), 413, "body_too_large")
    assert list((home / "imports").iterdir()) == []
    assert not MaintenanceRun.objects.exists()


def test_file_larger_than_other_bodies_is_accepted(bot, configure):
    configure(max_body_bytes=2048)
    raw = lines(*({"content": f"memory {n} {'x' * 100}"} for n in range(100)))
    assert imported(bot, raw)["counts"] == {"memories created": 100}


# Permissions


def test_import_needs_write_and_export_needs_read_permission(agent):
    reader, writer = agent(rights=["read"], name="r"), agent(rights=["write"], name="w")
    is_problem(send(reader, b""), 403, "missing_right")
    is_problem(writer.get("/export"), 403, "missing_right")
    is_problem(agent("secret", name="none", rights=["maintain"]).get("/import"), 403, "missing_right")


def test_restricted_token_only_writes_to_its_projects(agent):
    confined = agent(projects=["shop"], rights=["read", "write"])
    report = imported(confined, lines({"content": "a", "project": "farm"}, {"content": "b"}))
    assert report["errors"] == ["line 1: project: you can write only to: shop; use one of them as project"]
    assert Memory.objects.get().project == "shop"


def test_import_without_maintain_permission_skips_ids_authors_and_history(full_store, agent):
    raw = raw_out()
    known = set(Memory.objects.values_list("uid", flat=True))
    wipe()
    report = imported(agent(rights=["read", "write"]), raw)
    assert not known & set(Memory.objects.values_list("uid", flat=True))
    assert set(Memory.objects.values_list("author", flat=True)) == {"token:bot"}
    taken = {row["what"] for row in report["not_taken"]}
    assert {"id", "author", "owner"} <= taken
    unmapped = [row["what"] for row in report["unmapped"]]
    assert any(what.startswith("journal rows: imported only with permission") for what in unmapped)
    assert not Session.objects.filter(agent="user:ada").exists()
    assert not JournalEntry.objects.filter(actor="user:ada").exists()


def test_personal_memory_of_another_person_is_not_restored_in_their_name(full_store, bot):
    raw = raw_out()
    wipe()
    report = imported(bot, raw)
    assert any("belongs to someone else" in error for error in report["errors"])
    assert not Memory.objects.filter(content="for bob's eyes").exists()
    assert Memory.objects.get(content="for ada's eyes").owner == "ada"


def test_import_is_only_visible_to_its_requester(agent):
    one = agent("secret", name="one", owner="ada")
    other = agent("public", name="other", owner="bob")
    uid = send(one, lines({"content": "x"})).json()["id"]
    assert one.get(f"/import/{uid}").status_code == 200
    for answer in (other.get(f"/import/{uid}"), other.post(f"/import/{uid}/stop")):
        is_problem(answer, 404)
    assert other.get("/import").json()["total"] == 0
    assert one.get("/import").json()["total"] == 1


def test_import_cannot_be_started_as_maintenance(bot):
    assert bad_fields(bot.post("/maintenance", {"operation": "import", "params": {"upload": "x"}}))


# Stop and resume


def test_stopped_import_resumes_after_the_last_step(bot, monkeypatch):
    monkeypatch.setattr("memoryhub.transfer.jobs._FIRST_BATCH", 2)
    monkeypatch.setattr("memoryhub.transfer.jobs._MAX_BATCH", 2)
    uid = send(bot, lines(*({"content": f"memory {n}"} for n in range(6)))).json()["id"]
    run = MaintenanceRun.objects.get(uid=uid)
    executor.execute(run, watcher=lambda run: bot.post(f"/import/{uid}/stop") if run.done else None)
    assert bot.get(f"/import/{uid}").json()["cause"] == "stopped"
    assert Memory.objects.count() == 2
    assert bot.post(f"/import/{uid}/resume").status_code == 202
    executor.execute(MaintenanceRun.objects.get(uid=uid))
    report = bot.get(f"/import/{uid}").json()
    assert (report["status"], report["counts"]) == ("done", {"memories created": 6})


@pytest.mark.parametrize("beyond", [{"projects": ["farm"]}, {"clearance": "public"}])
def test_import_beyond_the_current_token_scope_cannot_be_resumed(bot, agent, beyond):
    uid = send(bot, lines({"content": "x", "project": "shop"})).json()["id"]
    bot.post(f"/import/{uid}/stop")
    narrower = agent(**beyond)
    assert narrower.post(f"/import/{uid}/resume").status_code in (403, 404)
    assert MaintenanceRun.objects.get(uid=uid).status == "failed"


def test_import_without_its_file_is_not_resumable(bot):
    uid = send(bot, lines({"content": "x"})).json()["id"]
    bot.post(f"/import/{uid}/stop")
    assert bot.get(f"/import/{uid}").json()["resumable"]
    import_files.delete_upload(MaintenanceRun.objects.get(uid=uid).params["upload"])
    assert not bot.get(f"/import/{uid}").json()["resumable"]
    refusal = bot.post(f"/import/{uid}/resume")
    is_problem(refusal, 409)
    assert "upload it again" in refusal.json()["detail"]


def test_restore_cannot_be_resumed_without_maintain_permission(bot, agent):
    uid = send(bot, lines({"content": "x"})).json()["id"]
    bot.post(f"/import/{uid}/stop")
    is_problem(agent(rights=["read", "write"]).post(f"/import/{uid}/resume"), 403)
    assert bot.post(f"/import/{uid}/resume").status_code == 202


def test_token_of_the_same_name_of_another_owner_sees_no_import(agent):
    uid = send(agent("private", owner="ada"), lines({"content": "x"}), name="diary.md").json()["id"]
    other = agent("public", owner="bob")
    assert other.get("/import").json()["total"] == 0
    for response in (other.get(f"/import/{uid}"), other.post(f"/import/{uid}/stop")):
        is_problem(response, 404)


def test_report_names_projects_over_their_cap(bot, configure):
    configure(max_memories=2)
    raw = lines(*({"content": f"memory {n}", "project": "shop"} for n in range(3)), {"content": "y"})
    expected = [{"what": "shop", "count": 3}]
    assert imported(bot, raw, dry_run=True)["over_cap"] == expected
    assert imported(bot, raw)["over_cap"] == expected
    assert imported(bot, raw)["over_cap"] == []  # nothing new


def test_cap_only_counts_visible_memories(agent, remember, configure):
    configure(max_memories=2)
    for n in range(3):
        remember(f"hidden {n}", project="shop", sensitivity="secret")
    assert imported(agent("public"), lines({"content": "x", "project": "shop"}))["over_cap"] == []


def test_missing_file_is_reported(bot, home):
    uid = send(bot, lines({"content": "x"})).json()["id"]
    for path in (home / "imports").iterdir():
        path.unlink()
    UploadPart.objects.all().delete()
    executor.execute(MaintenanceRun.objects.get(uid=uid))
    assert bot.get(f"/import/{uid}").json()["error"] == "the hub no longer has the file; upload it again"


def test_errors_are_paged(bot):
    uid = imported(bot, lines(*({"content": ""} for _ in range(5))))["id"]
    first = bot.get(f"/import/{uid}", limit=3).json()
    assert [error.split(":")[0] for error in first["errors"]] == ["line 1", "line 2", "line 3"]
    assert first["more_errors"]
    rest = bot.get(f"/import/{uid}", limit=3, start=3).json()
    assert len(rest["errors"]) == 2
    assert not rest["more_errors"]


# Export


def exported(bot, **query):
    response = bot.get("/export", **query)
    assert response.status_code == 200, response.content
    return response, [json.loads(line) for line in response.getvalue().splitlines()]


def test_export_contains_requested_and_allowed_levels_and_counts_the_rest(four_levels, agent):
    response, found = exported(agent("private", rights=["read"]), allow_private=True, allow_secret=True)
    assert [line["sensitivity"] for line in found] == ["public", "private"]
    assert response["X-Left-Out"] == "nothing"  # that the token may know of
    assert response["Content-Disposition"].startswith('attachment; filename="memories-')
    assert response["Cache-Control"] == "no-store"
    response, found = exported(agent("secret", name="other"))
    assert [line["sensitivity"] for line in found] == ["public"]
    assert response["X-Left-Out"] == "private=1, secret=1"


def test_restricted_token_only_exports_its_projects(remember, agent):
    remember("ours", project="shop")
    remember("theirs", project="farm")
    _, found = exported(agent(projects=["shop"]), whole=True)
    assert [line["content"] for line in of_kind(found, "memory")] == ["ours"]
    assert {line.get("project", "shop") for line in found} == {"shop"}


def test_export_of_secrets_is_journaled(four_levels, bot):
    exported(bot)
    assert not JournalEntry.objects.filter(operation="export").exists()
    exported(bot, allow_secret=True)
    [secret] = Memory.objects.filter(sensitivity="secret")
    assert JournalEntry.objects.get(operation="export").detail == {"secret": 1, "ids": [secret.uid]}


def test_journal_row_names_some_secrets_and_counts_the_rest(remember, bot):
    made = [remember(f"secret {n}", sensitivity="secret") for n in range(MAX_NAMED_IDS + 2)]
    exported(bot, allow_secret=True)
    detail = JournalEntry.objects.get(operation="export").detail
    assert detail == {"secret": MAX_NAMED_IDS + 2, "ids": [one.uid for one in reversed(made[2:])]}


def test_exported_personal_secret_is_only_named_to_its_owner(remember, agent, bot):
    mine = remember("ada's own", sensitivity="secret", scope="personal", owner="ada")
    ours = remember("ours", sensitivity="secret")
    exported(bot, allow_secret=True)
    rows = JournalEntry.objects.filter(operation="export").order_by("owner")
    assert [(row.owner, row.detail["ids"]) for row in rows] == [("", [ours.uid]), ("ada", [mine.uid])]


def test_invalid_export_parameter_names_the_field(bot):
    assert bad_fields(bot.get("/export", format="novel")) == {"format"}
    assert bad_fields(bot.get("/export", whole=True, type="decision")) == {"whole"}
    assert bad_fields(bot.get("/export", whole=True, format="markdown")) == {"whole"}
