"""Installation checks: Python, SQLite, configuration, files, disk space, hosts, static files."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import smtplib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.checks import run_checks
from django.core.mail import get_connection

from memoryhub.backends import vector_file
from memoryhub.core import disks
from memoryhub.core.database import store_path
from memoryhub.core.network import is_loopback
from memoryhub.core.text import count_with_verb
from memoryhub.digests import describe_mail_error
from memoryhub.ops import backup, checks
from memoryhub.ops.doctor import Finding, check, fail, ok, to_findings, warn

MIN_PYTHON = (3, 11)
_MB = 1_000_000
FAIL_BELOW, WARN_BELOW = 50 * _MB, 500 * _MB  # free disk space
_OTHERS_MAY_ENTER, _OTHERS_MAY_WRITE = 0o011, 0o022
_LONG_WAIT_MINUTES = 60
_MAIL_SECONDS = 10


@check("python and sqlite")
def versions() -> Iterator[Finding]:
    if sys.version_info < MIN_PYTHON:
        yield fail(f"Python {sys.version.split()[0]} is too old", "Use Python 3.11 or newer.")
    problems = list(to_findings(checks.sqlite_is_able()))
    yield from problems or [ok(f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version} with FTS5")]


@check("configuration")
def configuration() -> Iterator[Finding]:
    loaded = settings.MEMORYHUB_LOADED
    sources = {source for source in loaded.sources.values() if source != "default"}
    changed = sum(source != "default" for source in loaded.sources.values())
    yield ok(f"{changed} settings changed" + (f", by {', '.join(sorted(sources))}" if sources else ""))
    yield from to_findings([*checks.variables_are_known(), *checks.store_is_named_once()])


@check("home")
def home() -> Iterator[Finding]:
    home = Path(settings.HOME)
    if not home.is_dir():
        yield fail(f"{home} is not there", "manage.py migrate makes it, and an empty store in it.")
        return
    try:
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        hint = "Let the user that runs the hub write there, or set LETSGO_HOME to another folder."
        yield fail(f"{home} cannot be written to: {error.strerror}", hint)
        return
    yield ok(str(home))


def _files() -> list[Path]:
    """Return the files that contain memories or the session key."""
    database = store_path()
    logs = Path(settings.MEMORY_LOG)
    files = [database, *(Path(f"{database}{end}") for end in ("-wal", "-shm"))]
    files += [Path(settings.HOME) / "secret-key", *sorted(logs.parent.glob(f"{logs.name}*"))]
    files += [*sorted(database.parent.glob(f"{database.stem}-before-restore-*"))]
    files += vector_file.paths(database)
    files += sorted(backup.default_folder().glob("*"))
    return [path for path in files if path.is_file()]


def _exposed() -> list[Path]:
    """Return the files that other users of this machine can read or write."""
    return [
        path
        for path in _files()
        if path.stat().st_mode & 0o066 and path.parent.stat().st_mode & _OTHERS_MAY_ENTER
    ]


def _open_folders() -> list[Path]:
    """Return the folders in which other users can create or replace files."""
    folders = {path.parent for path in _files()} | {Path(settings.HOME)}
    return sorted(f for f in folders if f.is_dir() and f.stat().st_mode & _OTHERS_MAY_WRITE)


def _tighten_modes() -> Iterator[str]:
    for folder in _open_folders():
        folder.chmod(folder.stat().st_mode & ~_OTHERS_MAY_WRITE & 0o7777)
        yield f"chmod go-w {folder}"
    for path in _exposed():
        path.chmod(0o600)
        yield f"chmod 600 {path}"


@check(
    "file modes",
    needs="home",
    fix=_tighten_modes,
    fine="only their owner can read the files of the store",
)
def modes() -> Iterator[Finding]:
    for folder in _open_folders():
        yield warn(
            f"other users of this machine can write to {folder}", f"doctor --fix, or: chmod go-w {folder}"
        )
    for path in _exposed():
        yield warn(f"other users of this machine can read {path}", f"doctor --fix, or: chmod 600 {path}")


def _remove_drafts() -> Iterator[str]:
    for path in disks.remove_abandoned():
        yield f"removed {path}"


@check("temporary files", needs="home", fix=_remove_drafts, fine="none left")
def temporary_files() -> Iterator[Finding]:
    for path in disks.find_abandoned():
        yield warn(
            f"{path} contains memories and was left by a process that was killed",
            "doctor --fix removes it, as the next start of the server and the next backup do.",
        )


@check("file owner", needs="home")
def owner() -> Iterator[Finding]:
    owner = Path(settings.HOME).stat().st_uid
    strangers = [path for path in _files() if path.stat().st_uid != owner]
    for path in strangers:
        yield warn(
            f"{path} belongs to {_user(path.stat().st_uid)}, and the folder of the store to {_user(owner)}",
            f"Run commands as the user that runs the hub; now: chown {_user(owner)} {path}",
        )
    if not strangers:
        yield ok(f"all files belong to {_user(owner)}")


@check("spool")
def spool() -> Iterator[Finding]:
    """Report events that the hooks could not deliver yet. ``plugin/hooks/send.sh`` has the same path."""
    home = os.environ.get("HOME", "")
    state = os.environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else "")
    folder = Path(os.environ.get("MEMORYHUB_SPOOL") or f"{state}/memoryhub/spool")
    times = [path.stat().st_mtime for path in folder.glob("*/20*Z-*") if path.is_file()]
    if not times:
        yield ok("no event waits to be sent")
        return
    minutes = int(time.time() - min(times)) // 60
    waiting = count_with_verb(len(times), "event", "waits", "wait")
    text = f"{waiting} in {folder}, the oldest for {minutes} minutes"
    hint = "The plugin sends them with the next event that the hub accepts: see its address and token."
    yield warn(text, hint) if minutes >= _LONG_WAIT_MINUTES else ok(text)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@check("file system")
def file_system() -> Iterator[Finding]:
    problems = list(to_findings(checks.database_is_local()))
    mount = checks.mount_under(store_path())
    yield from problems or [
        ok(f"{mount.type}, mounted at {mount.point}" if mount else "not known on this system")
    ]


@check("disk space", needs="home")
def disk_space() -> Iterator[Finding]:
    database = store_path()
    size = database.stat().st_size if database.is_file() else 0
    free = shutil.disk_usage(database.parent).free
    hint = "Make room, or move LETSGO_HOME to a larger disk."
    text = f"{free / _MB:,.0f} MB free, with a store of {size / _MB:,.0f} MB"
    if free < FAIL_BELOW:
        yield fail(text, hint)
    elif free < max(WARN_BELOW, 2 * size):
        yield warn(f"{text}; an erase or a backup needs as much space as the store", hint)
    else:
        yield ok(text)
    for folder in disks.find_full_folders():
        if folder != database.absolute().parent:
            yield fail(f"the disk of {folder} is full: uploads fail, or the journal's mirror waits", hint)


@check("secret key")
def secret_key() -> Iterator[Finding]:
    key = settings.SECRET_KEY
    if len(key) < 50 or len(set(key)) < 5 or key.startswith("django-insecure"):
        where = "MEMORYHUB_SECRET_KEY" if os.environ.get("MEMORYHUB_SECRET_KEY") else "LETSGO_HOME/secret-key"
        yield fail(
            "the secret key is short or easy to guess: sessions can be forged",
            f"Remove {where}, and a strong one is made; everyone has to sign in again.",
        )
        return
    yield ok(f"{len(key)} characters")


@check("e-mail")
def email() -> Iterator[Finding]:
    """Sign in to the mail server that sends digests."""
    if not settings.EMAIL_HOST:
        yield ok("MEMORYHUB_EMAIL_URL is not set: digests go to webhooks only")
        return
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    connection = get_connection(timeout=_MAIL_SECONDS)
    try:
        connection.open()
    except (smtplib.SMTPException, OSError) as error:
        yield fail(f"{where}: {describe_mail_error(error)}", "Correct MEMORYHUB_EMAIL_URL.")
        return
    finally:
        connection.close()  # also after a refused login
    if settings.DEFAULT_FROM_EMAIL.endswith("@localhost"):
        yield warn(
            f"e-mails come from {settings.DEFAULT_FROM_EMAIL}, which servers refuse",
            "Set MEMORYHUB_EMAIL_FROM.",
        )
    if not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL or is_loopback(settings.EMAIL_HOST)):
        yield warn(
            f"e-mails are sent to {where} without encryption", "Write smtp+tls:// or smtp+ssl:// instead."
        )
    yield ok(f"{where} accepts e-mails from {settings.DEFAULT_FROM_EMAIL}")


_STATIC = re.compile(r"""{%\s*static\s+["']([^"']+)["']""")
ALWAYS_NEEDED = ("admin/css/base.css", "django_htmx/htmx-2.min.js")


@check("hosts")
def hosts() -> Iterator[Finding]:
    hosts = set(settings.ALLOWED_HOSTS)
    beyond = sorted(hosts - set(settings.LOOPBACK_HOSTS))
    problems = []
    if settings.DEBUG and beyond:
        problems.append(
            fail("MEMORYHUB_DEBUG shows secrets to anyone who provokes an error", "Unset MEMORYHUB_DEBUG.")
        )
    if "*" in hosts:
        problems.append(warn("any host name is accepted", "Name the hosts in MEMORYHUB_ALLOWED_HOSTS."))
    if beyond and not settings.HTTPS:
        problems.append(
            warn(
                f"{', '.join(beyond)}: passwords and tokens are sent without encryption",
                "Put a proxy with TLS in front; set MEMORYHUB_HTTPS=true and MEMORYHUB_BEHIND_PROXY=true.",
            )
        )
    if settings.BEHIND_PROXY and not settings.HTTPS:
        problems.append(
            warn(
                "MEMORYHUB_BEHIND_PROXY without MEMORYHUB_HTTPS: X-Forwarded-For is trusted",
                "With TLS, set MEMORYHUB_HTTPS. Without a proxy, unset MEMORYHUB_BEHIND_PROXY.",
            )
        )
    yield from problems or [ok(", ".join(sorted(hosts)) + (" over HTTPS" if settings.HTTPS else ""))]


@check("static files")
def static_files() -> Iterator[Finding]:
    pages = Path(settings.BASE_DIR, "templates").rglob("*.html")
    named = {*ALWAYS_NEEDED, *(name for page in pages for name in _STATIC.findall(page.read_text("utf-8")))}
    missing = sorted(name for name in named if not finders.find(name))
    for name in missing:
        yield fail(f"{name} is not found: pages look broken", "Install memoryhub and its requirements again.")
    if not missing:
        yield ok(f"all {len(named)} found")


@check("system checks", fine="Django reports no problems")
def system_checks() -> Iterator[Finding]:
    # The checks of memoryhub run above.
    return to_findings(one for one in run_checks() if not (one.id or "").startswith("memoryhub."))
