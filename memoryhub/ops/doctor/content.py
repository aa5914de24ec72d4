"""Checks of content and services: levels, caps, expiry, tokens, embeddings, maintenance runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from django.utils import timezone

from memoryhub.access.policy import LEVELS, WAITING_LEVELS
from memoryhub.accounts import identities
from memoryhub.accounts.second_factors import count_unreadable
from memoryhub.audit import clock as jumps
from memoryhub.backends import change_log
from memoryhub.capture.ignored_paths import check_patterns
from memoryhub.core.database import database_time
from memoryhub.core.text import count_with_verb, format_count
from memoryhub.embeddings import EmbeddingError
from memoryhub.embeddings.provider import configured, current_settings, find_problems
from memoryhub.maintenance import nodes, runs
from memoryhub.maintenance.executor import is_lost, mark_interrupted
from memoryhub.memories.delete import count_by_quota, fullest_quotas, load_caps
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, JournalEntry, MaintenanceRun, Memory, Project
from memoryhub.ops import checks
from memoryhub.ops.doctor import Finding, check, fail, ok, to_findings, warn
from memoryhub.stats.counts import projects_near_cap

SOON = timedelta(days=14)
# Clocks differ by seconds; an import may contain times up to a day ahead.
_CLOCK_TOLERANCE, _DATE_TOLERANCE = timedelta(minutes=5), timedelta(days=1)
_CLOCK_DIFFERENCE = timedelta(seconds=5)  # between a node and the database
_RELEASED = datetime(2025, 1, 1, tzinfo=UTC)
_MODELS_WITH_LEVEL = ("Memory", "Fact", "Event", "JournalEntry", "Injection", "Revision")


@check("sensitivity", needs="tables", fine="every row has a known level")
def levels() -> Iterator[Finding]:
    for name in _MODELS_WITH_LEVEL:
        rows = apps.get_model("memoryhub", name).objects
        if n := rows.exclude(sensitivity__in=(*LEVELS, *WAITING_LEVELS)).count():
            yield warn(
                f"rows of {name.lower()} with an unknown level, hidden from everyone: {n:,}",
                "Someone with the permission repair_unknown can give them a level in the admin.",
            )


@check("second factors", needs="tables", fine="codes of authenticator apps and recovery codes can be checked")
def second_factors() -> Iterator[Finding]:
    if unreadable := count_unreadable():
        yield fail(
            f"{unreadable:,} authenticator apps or sets of recovery codes fail: the secret key changed",
            "Restore the previous secret key, or remove the second factors of these people under People.",
        )


@check("provider links", needs="tables", fine="no account is linked to an earlier OpenID provider")
def provider_links() -> Iterator[Finding]:
    """Report accounts that the configured OpenID provider does not sign in."""
    if earlier := identities.count_of_earlier_issuers():
        accounts = count_with_verb(earlier, "account", "is", "are")
        yield warn(
            f"{accounts} linked to an earlier OpenID provider, which signs no one in",
            "Unlink them under People, so that their next sign-in links them again; or set passwords there.",
        )


@check("cap", needs="tables")
def cap() -> Iterator[Finding]:
    default, caps = settings.MEMORYHUB.max_memories, load_caps()
    near = projects_near_cap(Memory.objects.live())
    for project, n in near.items():
        name, cap = project or "(no project)", caps[project]
        if n > cap:
            text = (
                f"{name} has {n:,} memories of one owner, over the cap of {cap:,}: a new one evicts another"
            )
        else:
            text = f"{name} has {n:,} memories of one owner, of at most {cap:,}"
        yield warn(
            text,
            "Raise the cap in the settings of the project, or max_memories in the configuration (0: no cap).",
        )
    if not near:
        most = max(fullest_quotas(count_by_quota(Memory.objects.live())).values(), default=0)
        yield ok(
            f"at most {most:,} memories of one owner in a project, "
            + (f"the cap is {default:,}" if default else "no cap")
        )


@check("ignored files", needs="tables", fine="the patterns of every project are fast to match")
def ignored_files() -> Iterator[Finding]:
    """Report patterns that an earlier release accepted, whose time is all that limits their cost."""
    for project in Project.objects.exclude(ignored_paths="").order_by("name"):
        try:
            check_patterns(project.ignored_paths)
        except StoreError as refusal:
            yield warn(
                f"the ignored files of {project.name}: {refusal.message}",
                "Change them on the page of the project. Until then, calls with many paths are not stored.",
            )


@check("expiry", needs="tables")
def expiry() -> Iterator[Finding]:
    now = timezone.now()
    expired = Memory.objects.expired(now).count()
    overdue = Memory.objects.expired(now - timedelta(days=settings.MEMORYHUB.expiry_grace_days)).count()
    if overdue:
        yield warn(
            f"{overdue:,} memories expired longer ago than the grace period",
            "Have manage.py purge_expired --scheduled run every day.",
        )
    else:
        yield ok(f"{expired:,} expired memories can still be restored" if expired else "none is waiting")


@check("clock", needs="tables")
def clock() -> Iterator[Finding]:
    now, pause = timezone.now(), jumps.inspect()
    if pause:
        yield fail(
            f"{pause.summary()}; expiry, decay, purge and eviction are paused",
            "Correct this machine's clock. If it is right: manage.py maintain --confirm-clock.",
        )
    newest = JournalEntry.objects.order_by("-seq").values_list("at", flat=True).first()
    ahead = Memory.objects.filter(created_at__gt=now + _DATE_TOLERANCE).count()
    set_clock = "Set this machine's clock (timedatectl set-ntp true)."
    if now < _RELEASED:
        yield fail(f"the clock shows {now:%Y-%m-%d}", set_clock)
    if newest and newest > now + _CLOCK_TOLERANCE:
        yield warn(f"the journal's newest row is of {newest:%Y-%m-%d %H:%M} UTC, in the future", set_clock)
    if ahead:
        yield warn(
            f"{ahead:,} memories have a creation date in the future, so they are always first",
            "Correct their dates.",
        )
    if now >= _RELEASED and not pause and not ahead and not (newest and newest > now + _CLOCK_TOLERANCE):
        yield ok(f"{now:%Y-%m-%d %H:%M} UTC")


@check("administrator", needs="tables")
def administrator() -> Iterator[Finding]:
    people = get_user_model().objects.filter(is_active=True)
    admins = people.filter(is_superuser=True).count()
    if admins:
        yield ok(f"{admins} of {people.count()} people who can sign in")
    else:
        yield warn("there is no administrator", "manage.py createsuperuser")


@check("tokens", needs="tables")
def tokens() -> Iterator[Finding]:
    now = timezone.now()
    active = AgentToken.objects.active(now)
    if not active:
        yield warn("no agent has a valid token", "manage.py create_token NAME")
        return
    soon = active.filter(expires_at__lte=now + SOON).order_by("expires_at", "pk")
    for token in soon:
        fix = "Connect the app again." if token.client_id else "manage.py create_token NAME"
        yield warn(f"the token {token} expires on {token.expires_at:%Y-%m-%d}", fix)
    if not soon:
        yield ok(f"{active.count()} valid")


_HINT = "Until this is fixed, search uses words only; manage.py show_config shows the settings."


@check("embeddings")
def provider() -> Iterator[Finding]:
    yield from to_findings(checks.embeddings_can_work())
    try:
        embedder = configured()
        if embedder is not None:
            length = len(embedder.query("Is anybody there?"))
            yield ok(f"{embedder.name} answers, with vectors of {length} numbers")
        else:
            yield ok("none: search uses words only")
    except EmbeddingError as error:
        if not find_problems(current_settings()):  # already reported above
            yield warn(str(error), _HINT)


@check("vectors", needs="triggers")
def vectors() -> Iterator[Finding]:
    """Check that every memory has a vector of the configured model."""
    try:
        embedder = configured()
    except EmbeddingError:
        return  # already reported above
    sizes = change_log.sizes_by_model()
    size = sum(length for _, length in sizes.values()) / 1e6
    if embedder is None:
        yield ok(f"no model is configured; {size:,.1f} MB of vectors of earlier models")
        return
    number, _ = sizes.get(embedder.name, (0, 0))
    missing = change_log.count_memories() - number
    if missing > 0:
        yield warn(
            f"{missing:,} memories have no vector of {embedder.name}: search finds them only by their words",
            "The server embeds them in the background; or run: manage.py maintain embed",
        )
        return
    yield ok(f"{number:,} of {embedder.name}, {size:,.1f} MB")


# Interrupted runs are reported for this long; later runs have replaced older ones.
_REPORTED_FOR = timedelta(days=7)
_MAX_PAUSE = timedelta(days=2)  # without daily maintenance
_MAX_WAIT = timedelta(hours=1)  # of a queued run
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


@check("nodes", needs="tables")
def server_processes() -> Iterator[Finding]:
    """Report the server processes that use the store, and settings in which they differ but must not."""
    processes = nodes.live_processes()
    for node, version in sorted({(one.node, one.version) for one in processes}):
        count = sum((one.node, one.version) == (node, version) for one in processes)
        yield ok(f"{node}: {format_count(count, 'process')}, version {version}")
    if not processes:
        yield ok("no server uses the store")
    if len({one.version for one in processes}) > 1:
        yield warn("the nodes run different versions", "Finish the upgrade: restart the older ones.")
    if nodes.find_node_with_other_key():
        yield fail(
            "the nodes have different secret keys: sign-ins on one are unknown to the others",
            "Set the same MEMORYHUB_SECRET_KEY on all of them.",
        )
    for one in processes:
        if abs(one.clock_at - one.heartbeat_at) > _CLOCK_DIFFERENCE:
            seconds = (one.clock_at - one.heartbeat_at).total_seconds()
            yield warn(
                f"the clock of {one.node} differs by {seconds:+.0f} s from that of the database",
                "Let a time service set the clocks of all machines.",
            )


def _mark_interrupted() -> Iterator[str]:
    if marked := mark_interrupted():
        yield f"marked {marked} runs as interrupted"


@check("maintenance runs", needs="tables", fix=_mark_interrupted, fine="none is stuck")
def maintenance_runs() -> Iterator[Finding]:
    now, heartbeat_time = timezone.now(), database_time()
    running = MaintenanceRun.objects.filter(status=Status.RUNNING)
    for run in (run for run in running if is_lost(run, heartbeat_time)):
        yield warn(
            f"{run.operation} (run {run.uid}) is marked as running, but no worker executes it",
            "doctor --fix marks it as interrupted; then: manage.py maintain --resume ID",
        )
    interrupted = MaintenanceRun.objects.filter(
        status=Status.FAILED, cause=Cause.INTERRUPTED, dry_run=False, created_at__gt=now - _REPORTED_FOR
    )
    for run in interrupted:
        yield warn(
            f"{run.operation} (run {run.uid}) was interrupted after {run.done:,} of {run.total:,}",
            f"manage.py maintain --resume {run.uid}",
        )
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, created_at__lt=now - _MAX_WAIT).count()
    if waiting:
        yield warn(
            f"{waiting:,} runs have waited for more than an hour",
            "Start the server, or: manage.py maintain --waiting",
        )


@check("daily maintenance", needs="tables")
def daily_maintenance() -> Iterator[Finding]:
    if unknown := runs.unknown_operations():
        yield fail(
            f"maintenance_operations contains unknown names: {', '.join(unknown)}",
            "Correct it; manage.py maintain --list shows the known ones.",
        )
        return
    now, last = timezone.now(), runs.last_scheduled_day()
    created = MigrationRecorder.Migration.objects.aggregate(first=Min("applied"))["first"] or now
    late = now - created > _MAX_PAUSE and (last is None or timezone.localdate(now) - last >= _MAX_PAUSE)
    if late:
        when = f"since {last:%Y-%m-%d}" if last else "since the store was created"
        is_on = settings.MEMORYHUB.maintenance_at and settings.MEMORYHUB.maintenance_worker
        hint = "Start the server" if is_on else "Set maintenance_at and maintenance_worker"
        yield warn(f"has not run {when}", f"{hint}, or let cron run: manage.py maintain")
    elif last:
        yield ok(f"ran on {last:%Y-%m-%d}")
    else:
        following = runs.next_due_time(now)
        yield ok(f"first run on {following:%Y-%m-%d %H:%M}" if following else "the store is new")
