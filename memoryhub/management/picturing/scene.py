"""What the pictures show: the demo, as after ``manage.py quickstart``, with a team around it."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.utils.crypto import get_random_string

from memoryhub import demo, people
from memoryhub.management import demo_team
from memoryhub.management.picturing.moment import NOW
from memoryhub.management.picturing.pages import ADMIN, READER
from memoryhub.management.replaying.demo import play_session
from memoryhub.models import MaintenanceRun, Memory, Session


def prepare() -> dict[str, str]:
    """Fill the store; returns the passwords of those who sign in for the pictures."""
    # On a busy machine, too, each prompt of the session gets what it would have got.
    settings.MEMORYHUB = replace(settings.MEMORYHUB, injection_deadline_ms=10_000)
    call_command("migrate", verbosity=0)
    demo.mark()
    demo.load(NOW)
    play_session(NOW)
    return _people()


def _people() -> dict[str, str]:
    passwords = {name: get_random_string(16) for name in (ADMIN, READER)}
    admin = get_user_model().objects.create_superuser(ADMIN, password=passwords[ADMIN])
    demo_team.gather(admin)
    people.set_password(get_user_model().objects.get(username=READER), passwords[READER], admin)
    return passwords


def found() -> dict[str, str]:
    """What the addresses of the pictures name."""
    live = Memory.objects.live(NOW)
    memory = live.filter(sensitivity="public", revisions__isnull=False, project="harbor-board").order_by(
        "-accessed_count"
    )[0]
    return {
        "memory": memory.uid,
        "memory key": str(memory.pk),
        "private": live.filter(sensitivity="private")[0].uid,
        "trashed": Memory.objects.trashed().filter(sensitivity="public").order_by("pk")[0].uid,
        "session": Session.objects.filter(ended_at__isnull=False).order_by("-last_at")[0].session_id,
        "person": READER,
        "nowhere": "nowhere",
        "run": MaintenanceRun.objects.filter(status="done", operation="compress").latest("created_at").uid,
        "failed": MaintenanceRun.objects.filter(status="failed").latest("created_at").uid,
        "import": MaintenanceRun.objects.filter(operation="import").latest("created_at").uid,
    }
