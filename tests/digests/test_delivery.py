"""Sending digests: to a real mail server and a real receiver, once per period, again after failures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone

from memoryhub import digests
from memoryhub.capture.project_changes import rename_project
from memoryhub.digests import describe_mail_error, describe_period
from memoryhub.maintenance import runs
from memoryhub.maintenance.executor import execute
from memoryhub.memories import Conflict, StoreError
from memoryhub.models import Digest, JournalEntry, MaintenanceRun, Memory, Profile
from tests.digests.conftest import deliver, make_due
from tests.digests.mail_server import MailServer
from tests.embeddings import servers
from tests.embeddings.servers import Endpoint

Subscribe = Callable[..., Digest]
Remember = Callable[..., Memory]
HOSTILE = '<img src=x onerror=alert(1)> <!channel> |https://evil.example> \u202e&amp; *"'


def journal_of(name: str) -> list[str]:
    rows = JournalEntry.objects.filter(object_type="person", object_id=name, operation__startswith="digest")
    return list(rows.order_by("seq").values_list("operation", flat=True))


def run_schedule(now: datetime | None = None) -> int:
    """Queue what is due and execute it, like the worker of a server."""
    queued = runs.enqueue_digests(now or timezone.now())
    return sum(execute(run) for run in queued)


def webhook(receiver: Endpoint) -> dict[str, str]:
    return {"channel": "webhook", "url": receiver.url}


# --- E-mail -------------------------------------------------------------------------------------------------


def test_email_lists_memories_with_links_and_a_way_to_turn_it_off(
    mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    memory = remember("The harbor gate opens at six", title="Harbor gate", project="harbor")
    digest = deliver(subscribe(project="harbor"))
    (sent,) = mail.received
    assert sent["To"] == "ada@example.org"
    assert sent["From"] == "hub@example.org"
    assert sent["Subject"] == "Memories · harbor: 1 new"
    assert sent["List-Unsubscribe"] == f"<https://hub.example.org/you/digests/{digest.uid}/>"
    assert sent["Auto-Submitted"] == "auto-generated"
    plain, html = (part.get_content() for part in sent.iter_parts())
    for text in (plain, html):
        assert "Harbor gate" in text
        assert f"https://hub.example.org/memories/{memory.uid}/" in text
        assert f"https://hub.example.org/you/digests/{digest.uid}/" in text
    assert (digest.error, digest.attempts, digest.sent_at is not None) == ("", 0, True)
    assert journal_of("ada") == ["digest_created", "digest_sent"]
    row = JournalEntry.objects.get(operation="digest_sent")
    assert (row.owner, row.detail["new"]) == ("ada", 1)
    assert "gate" not in json.dumps(row.detail)


def test_hostile_titles_are_text_in_every_form(
    mail: MailServer, receiver: Endpoint, subscribe: Subscribe, remember: Remember
) -> None:
    remember(f"{HOSTILE}\nBcc: eve@example.org", title=HOSTILE, project="a & <b>")
    deliver(subscribe())
    deliver(subscribe(**webhook(receiver)))
    html = list(mail.received[0].iter_parts())[1].get_content()
    assert "<img" not in html
    assert "&lt;img src=x" in html
    assert "<b>" not in html
    assert mail.received[0]["Bcc"] is None
    text = receiver.asked[0][2]["text"]
    assert "<!channel>" not in text
    assert "\u202e" not in text
    assert re.match(r"\*Memories\* since \w+ \d+ \w+ \d+: 1 new\n", text)
    assert re.findall(r"<([^|>]*)[|>]", text) == [
        f"https://hub.example.org/memories/{Memory.objects.get().uid}/"
    ]


def test_digest_without_news_is_not_sent(mail: MailServer, subscribe: Subscribe) -> None:
    digest = deliver(subscribe())
    assert mail.received == []
    assert digest.next_at > timezone.now()
    assert journal_of("ada") == ["digest_created"]


def test_refused_email_is_tried_again_and_shown_to_its_owner(
    mail: MailServer, subscribe: Subscribe, remember: Remember, ada: User
) -> None:
    remember("The harbor gate opens at six")
    mail.refusals["RCPT"] = "550 no such person ada@example.org"
    digest = deliver(subscribe())
    assert digest.error == "the mail server refuses the recipient's address"
    assert [one.pk for one in Digest.objects.exclude(error="")] == [digest.pk]
    assert timezone.now() < digest.next_at < timezone.now() + timedelta(minutes=16)
    assert journal_of("ada") == ["digest_created", "digest_failed"]
    mail.refusals.clear()
    digest = deliver(make_due(digest))
    assert len(mail.received) == 1
    assert (digest.error, digest.attempts) == ("", 0)
    assert not Digest.objects.exclude(error="").exists()


def test_after_several_failures_the_next_period_covers_both(
    mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six")
    mail.refusals["MAIL"] = "451 later"
    digest = subscribe()
    since = digest.since
    for _ in range(4):
        digest = deliver(make_due(digest))
    assert digest.error == "the mail server returned the error 451"
    assert (digest.attempts, digest.next_at) == (0, digests.next_time(digest, timezone.now()))
    assert digest.since == since
    mail.refusals.clear()
    deliver(make_due(digest))
    assert len(mail.received) == 1


def test_repeated_attempts_have_one_message_id(
    mail: MailServer, subscribe: Subscribe, remember: Remember, ada: User
) -> None:
    remember("The harbor gate opens at six")
    digest = subscribe()
    digests.send_test(ada, digest.uid)
    deliver(digest)
    assert len({one["Message-ID"] for one in mail.received}) == 1
    assert len(mail.received) == 2


def test_unreachable_mail_server_is_described_without_its_words(subscribe: Subscribe, settings: Any) -> None:
    error = describe_mail_error(ConnectionRefusedError(111, "Connection refused"))
    assert error == "the mail server cannot be reached: Connection refused"


# --- Webhooks -----------------------------------------------------------------------------------------------


def test_webhook_gets_slack_text_that_is_signed(
    receiver: Endpoint, subscribe: Subscribe, remember: Remember
) -> None:
    memory = remember("The harbor gate opens at six", title="Harbor gate")
    digest = subscribe(**webhook(receiver))
    period = describe_period(digest)
    digest = deliver(digest)
    ((_, headers, body),) = receiver.asked
    assert body == {
        "text": f"*Memories* {period}: 1 new\n*New memories*\n"
        f"• <https://hub.example.org/memories/{memory.uid}/|Harbor gate>"
    }
    given = {name.lower(): value for name, value in headers.items()}
    signed = f"{given['webhook-id']}.{given['webhook-timestamp']}.{json.dumps(body)}".encode()
    key = base64.b64decode(digest.secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert given["webhook-signature"] == f"v1,{expected}"


def test_documented_verification_accepts_requests_and_refuses_changed_and_old_ones() -> None:
    """Execute the example of the documentation."""
    page = Path(django_settings.BASE_DIR, "docs/team.md").read_text("utf-8")
    (example,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def verify(" in one]
    names: dict[str, Any] = {}
    exec(example, names)
    from memoryhub.digests import new_secret, sign

    secret, body = new_secret(), '{"text": "news"}'
    now = str(int(datetime.now(UTC).timestamp()))
    headers = {"webhook-id": "a-1", "webhook-timestamp": now}
    headers["webhook-signature"] = sign(secret, "a-1", now, body)
    assert names["verify"](secret, headers, body.encode())
    assert not names["verify"](secret, headers, body.encode() + b" ")
    assert not names["verify"](new_secret(), headers, body.encode())
    old = str(int(now) - 3600)
    stale = {**headers, "webhook-timestamp": old, "webhook-signature": sign(secret, "a-1", old, body)}
    assert not names["verify"](secret, stale, body.encode())


@pytest.mark.parametrize("status", [204, 302, 400, 500])
def test_only_a_success_status_counts_as_delivered(
    receiver: Endpoint, subscribe: Subscribe, remember: Remember, status: int
) -> None:
    remember("The harbor gate opens at six")
    receiver.usual = servers.status(status, "", Location=f"{receiver.url}/inside")
    digest = deliver(subscribe(**webhook(receiver)))
    assert len(receiver.asked) == 1
    assert digest.error == "" if status == 204 else f"returned status {status}" in digest.error


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://10.0.0.5/x",
        "https://[::1]/x",
        "https://[::ffff:10.0.0.5]/x",
        "https://169.254.169.254/latest",
        "https://localhost/x",
        "https://router.lan/x",
        "https://intranet/x",
        "http://hooks.example.org/x",
        "https://user:pass@hooks.example.org/x",
        "ftp://hooks.example.org/x",
        "hooks.example.org",
        "",
    ],
)
def test_addresses_inside_the_network_are_refused(subscribe: Subscribe, url: str) -> None:
    with pytest.raises(StoreError) as refused:
        subscribe(channel="webhook", url=url)
    assert refused.value.field == "url"
    assert not Digest.objects.exists()


def test_public_name_with_a_private_address_gets_no_request(
    monkeypatch: pytest.MonkeyPatch, subscribe: Subscribe, remember: Remember, configure: Callable[..., None]
) -> None:
    """As after DNS rebinding: the address of the connection decides, not an earlier lookup."""
    remember("The harbor gate opens at six")
    with servers.serving() as inside:
        port = inside.server_address[1]
        digest = subscribe(channel="webhook", url="https://hooks.example.org/x")
        Digest.objects.update(url=f"http://hooks.example.org:{port}/x")
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        configure(endpoint_private_names=True)
        digest = deliver(digest)
        assert inside.asked == []
    assert digest.error == "the webhook is not at a public address; use another address"


def test_private_addresses_need_the_setting_and_link_local_ones_never_work(
    receiver: Endpoint, subscribe: Subscribe
) -> None:
    assert subscribe(**webhook(receiver)).channel == "webhook"
    with pytest.raises(StoreError):
        subscribe(channel="webhook", url="file:///etc/passwd")


# --- Schedule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "after", "expected"),
    [
        ("daily", "2026-11-28T05:59:00+00:00", "2026-11-28T06:00:00+00:00"),
        ("daily", "2026-11-28T06:00:00+00:00", "2026-11-29T06:00:00+00:00"),
        ("weekly", "2026-11-28T12:00:00+00:00", "2026-11-30T06:00:00+00:00"),
        ("weekly", "2026-11-30T06:00:00+00:00", "2026-12-07T06:00:00+00:00"),
        ("daily", "2026-03-28T12:00:00+00:00", "2026-03-29T05:00:00+00:00"),
    ],
)
def test_digests_are_due_at_seven_where_the_person_is(
    ada: User, period: str, after: str, expected: str
) -> None:
    profile = Profile.objects.create(user=ada, time_zone="Europe/Berlin")
    digest = Digest(user=User.objects.get(pk=ada.pk), period=period)
    assert profile.user_id == digest.user_id
    found = digests.next_time(digest, datetime.fromisoformat(after))
    assert found == datetime.fromisoformat(expected)


def test_schedule_sends_a_digest_once_per_period(
    mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six")
    subscribe()
    assert run_schedule() == 1
    assert run_schedule() == 0
    assert len(mail.received) == 1
    run = MaintenanceRun.objects.get()
    assert (run.operation, run.status, run.done) == ("send_digests", "done", 1)


def test_digest_missed_in_a_downtime_is_sent_once_afterwards(
    mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six")
    digest = subscribe()
    Memory.objects.update(created_at=timezone.now() - timedelta(days=5))
    Digest.objects.update(
        next_at=timezone.now() - timedelta(days=4), since=timezone.now() - timedelta(days=6)
    )
    assert run_schedule() == 1
    assert run_schedule() == 0
    assert len(mail.received) == 1
    digest.refresh_from_db()
    assert digest.next_at > timezone.now()


def test_dry_run_sends_nothing(mail: MailServer, subscribe: Subscribe, remember: Remember) -> None:
    from memoryhub.maintenance import runs

    remember("The harbor gate opens at six")
    subscribe()
    assert execute(runs.enqueue(digests.SEND_DIGESTS, {}, runs.SCHEDULE_ACTOR, dry_run=True))
    assert mail.received == []
    assert Digest.objects.due(timezone.now()).exists()


@pytest.mark.django_db(transaction=True)
def test_processes_that_send_at_the_same_time_send_once(
    mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six")
    digest, now = subscribe(), timezone.now()

    def send() -> None:
        try:
            digests.deliver(digest.pk, now)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(mail.received) == 1


@pytest.mark.parametrize("error", ["", "the mail server returned the error 451"])
def test_process_that_continues_after_another_has_sent_changes_nothing(
    mail: MailServer, subscribe: Subscribe, remember: Remember, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    """It was stopped while it sent, for longer than the pause before the next attempt."""
    remember("The harbor gate opens at six")
    digest, send = subscribe(), digests.send

    def stopped(*args: Any) -> None:
        monkeypatch.setattr(digests, "send", send)
        deliver(make_due(digest))
        digest.refresh_from_db()
        if error:
            raise digests.DeliveryFailed(error)

    monkeypatch.setattr(digests, "send", stopped)
    digests.deliver(digest.pk, timezone.now())
    sent = (digest.since, digest.next_at, digest.error)
    digest.refresh_from_db()
    assert (digest.since, digest.next_at, digest.error) == sent
    assert len(mail.received) == 1


def test_no_digest_is_queued_after_a_failed_run_or_for_a_disabled_person(
    mail: MailServer, subscribe: Subscribe, remember: Remember, ada: User
) -> None:
    remember("The harbor gate opens at six")
    digest = subscribe()
    (run,) = runs.enqueue_digests(timezone.now())
    assert runs.enqueue_digests(timezone.now()) == []
    run.status, run.finished_at = "failed", timezone.now()
    run.save()
    assert runs.enqueue_digests(timezone.now()) == []
    run.delete()
    ada.is_active = False
    ada.save()
    assert run_schedule() == 0
    deliver(digest)
    assert mail.received == []


def test_digest_that_is_off_is_not_sent_and_restarts_with_the_last_period(
    mail: MailServer, subscribe: Subscribe, remember: Remember, ada: User
) -> None:
    remember("The harbor gate opens at six")
    digest = subscribe()
    values = {"project": "", "period": "daily", "level": "public", "url": ""}
    digests.change_digest(ada, digest.uid, **values, enabled=False)
    Digest.objects.update(next_at=timezone.now(), since=timezone.now() - timedelta(days=90))
    assert run_schedule() == 0
    restarted = digests.change_digest(ada, digest.uid, **values, enabled=True)
    assert restarted.since > timezone.now() - timedelta(days=1, minutes=1)


def test_a_digest_exists_once_and_a_person_has_a_limit(
    mail: MailServer, subscribe: Subscribe, remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("The harbor gate opens at six", project="harbor")
    subscribe()
    with pytest.raises(Conflict, match="already"):
        subscribe()
    monkeypatch.setattr(digests, "MAX_DIGESTS", 1)
    with pytest.raises(Conflict, match="delete one first"):
        subscribe(project="harbor")


def test_digest_follows_a_renamed_project(mail: MailServer, subscribe: Subscribe, remember: Remember) -> None:
    remember("The harbor gate opens at six", project="harbor")
    subscribe(project="harbor")
    rename_project("harbor", "port", runs.SCHEDULE_ACTOR)
    assert Digest.objects.get().project == "port"
