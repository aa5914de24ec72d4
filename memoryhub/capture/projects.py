"""Projects: their identity, which decides where a session belongs, and their settings.

A repository is identified by its remote and root commit instead of a folder's name. Clients name the
repository, the hub never opens it. Access is decided by the token alone: identities of projects that are not
open to the caller are treated as unknown, and a project that is not open is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import unquote, urlsplit

from django.db.models import F, Q, Sum
from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.capture.ignored_paths import check_patterns
from memoryhub.capture.observation import clean_text
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import format_iso, parse_moment
from memoryhub.core.text import folder_name, new_uid
from memoryhub.core.vocabulary import PROJECT_MODES, ProjectMode
from memoryhub.hooks import TOOL_CONTEXT
from memoryhub.memories.errors import Forbidden, NotFound, StoreError
from memoryhub.memories.undo import Inverse, Undo, inverse_of, record_action
from memoryhub.models import EventCount, JournalEntry, Memory, Project, ProjectIdentity, Session
from memoryhub.security.secrets import find_secrets

CONFIGURE, UNDO_CONFIGURE = "configure", "undo_configure"
MAX_PAUSE_HOURS = 24 * 7
PAUSE = "paused_until"
CAP = "max_memories"
MAX_CAP = 10**9
UNCHANGED: Any = object()
SETTINGS = ("mode", PAUSE, "ignored_paths", "sends_page", "off_page_facts", CAP)
_ONLY_OBSERVED = "this project is only observed"
_NOTES = {
    ProjectMode.OFF.value: "off",
    ProjectMode.OBSERVE.value: "observing",
    ProjectMode.APPROVE.value: "approve first",
}


@dataclass(frozen=True)
class ProjectChange:
    """The project after a change. ``undo``: the id with which to undo it, empty if nothing changed."""

    project: Project
    undo: str = ""


def get_project(name: str, actor: Actor) -> Project:
    """Return the settings of a project that is open to the actor."""
    if not 0 < len(name) <= 200 or "\x00" in name or not actor.clearance.includes_project(name):
        raise NotFound("there is no such project")
    return Project.named(name)


def configure_project(
    name: str,
    actor: Actor,
    now: datetime | None = None,
    *,
    mode: str | None = None,
    pause_hours: float | None = None,
    ignored_paths: str | None = None,
    sends_page: bool | None = None,
    off_page_facts: Sequence[str] | None = None,
    max_memories: int | None = UNCHANGED,
    uid: str = "",
) -> ProjectChange:
    """Change the given settings.

    ``pause_hours``: 0 ends a pause. ``max_memories``: None restores the cap of the hub's settings.
    ``uid``: the id of the change, by default a new one.

    The caller has checked that the actor may do so. Journaled, so that it can be undone. Raise
    :class:`StoreError` for an invalid value.
    """
    now = now or timezone.now()
    changes: dict[str, Any] = {}
    if mode is not None:
        if mode not in PROJECT_MODES:
            raise StoreError(f"must be one of: {', '.join(PROJECT_MODES)}", "mode")
        changes["mode"] = mode
    if pause_hours is not None:
        if not 0 <= pause_hours <= MAX_PAUSE_HOURS:
            raise StoreError(f"must be 0 to {MAX_PAUSE_HOURS}", "pause_hours")
        changes[PAUSE] = now + timedelta(hours=pause_hours) if pause_hours else None
    if ignored_paths is not None and ignored_paths != Project.named(name).ignored_paths:
        changes["ignored_paths"] = _check_text(check_patterns(ignored_paths), "ignored_paths")
    if sends_page is not None:
        changes["sends_page"] = sends_page
    if off_page_facts is not None:
        changes["off_page_facts"] = sorted(set(off_page_facts))
    if max_memories is not UNCHANGED:
        if not 0 <= (max_memories or 0) <= MAX_CAP:
            raise StoreError(f"must be 0 to {MAX_CAP}", CAP)
        changes[CAP] = max_memories
    get_project(_check_text(name, "project"), actor)
    with write_transaction():
        return _change_settings(Project.named(name), changes, actor, now, uid or new_uid())


def _check_text(text: str, field: str) -> str:
    if find_secrets(text):
        raise StoreError("contains what looks like a secret; remove it", field)
    return clean_text(text)


def _change_settings(
    project: Project, changes: Mapping[str, Any], actor: Actor, now: datetime, uid: str
) -> ProjectChange:
    was = {name: getattr(project, name) for name in changes if getattr(project, name) != changes[name]}
    if not was:
        return ProjectChange(project)
    left = {name: changes[name] for name in was}
    _save(project, left, now)
    _record(CONFIGURE, uid, project, {"was": to_detail(was), "left": to_detail(left)}, actor, now)
    return ProjectChange(project, uid)


def _save(project: Project, values: Mapping[str, Any], now: datetime) -> None:
    for name, value in values.items():
        setattr(project, name, value)
    project.updated_at = now
    project.save()


def _record(
    operation: str, uid: str, project: Project, detail: dict[str, Any], actor: Actor, now: datetime
) -> None:
    access = (project.name, Sensitivity.PUBLIC.value, "")
    record_action(operation, uid, {access: {"name": project.name, **detail}}, actor, now, about="project")


def to_detail(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the journal stores them."""
    return {
        name: format_iso(value) if isinstance(value, datetime) else value for name, value in values.items()
    }


def _restore_settings(undo: Undo, rows: Sequence[JournalEntry]) -> int:
    for row in rows:
        project = Project.named(row.detail["name"])
        was, left = row.detail["was"], row.detail["left"]
        if to_detail({name: getattr(project, name) for name in left}) != left:
            undo.refused.append((project.name, "the settings were changed since"))
            continue
        if PAUSE in was:
            was = {**was, PAUSE: parse_moment(was[PAUSE] or "")}
        _save(project, was, undo.now)
        _record(UNDO_CONFIGURE, undo.id, project, {}, undo.actor, undo.now)
        undo.restored.append(project)
    return len(undo.restored)


inverse_of(Inverse(list, _restore_settings, UNDO_CONFIGURE), CONFIGURE, about="project")


def leave_out(project: Project, event: str, now: datetime) -> str:
    """Return why an event is not recorded; in an observed project, count it."""
    if project.is_paused(now):
        return "memory is paused in this project"
    if project.mode == ProjectMode.OBSERVE:
        if event == TOOL_CONTEXT:  # the call itself is counted when it has run
            return _ONLY_OBSERVED
        with write_transaction():
            day = {"project": project, "day": now.date(), "event": event}
            if not EventCount.objects.filter(**day).update(count=F("count") + 1):
                EventCount.objects.create(**day, count=1)
        return _ONLY_OBSERVED
    return "memory is off in this project"


def import_event_count(name: str, day: date, event: str, count: int, actor: Actor) -> bool:
    """Import a count from another store. Return False if this store counted such events on that day."""
    get_project(name, actor)
    project, _ = Project.objects.get_or_create(name=name)
    day_of = {"project": project, "day": day, "event": event}
    return EventCount.objects.get_or_create(**day_of, defaults={"count": count})[1]


def count_events(project: Project) -> dict[str, int]:
    """Return how many events were counted while the project was observed, by kind."""
    rows = EventCount.objects.filter(project=project) if project.pk else EventCount.objects.none()
    return dict(rows.values_list("event").annotate(n=Sum("count")).order_by("event"))


def mode_note(project: Project, now: datetime | None = None, zone: tzinfo | None = None) -> str:
    """Return the mode of a project in words, empty for the usual one. ``zone``: the reader's time zone."""
    now = now or timezone.now()
    if project.is_paused(now) and project.paused_until:
        until = timezone.localtime(project.paused_until, zone)
        is_today = until.date() == timezone.localtime(now, zone).date()
        return f"paused until {until:%H:%M}" if is_today else f"paused until {until:%Y-%m-%d %H:%M}"
    return "" if project.mode == ProjectMode.AUTOMATIC else _NOTES[project.mode]


MAX_URL_CHARS = 2000
MAX_KEY_CHARS = 300
MAX_FOLDER_CHARS = 380
MAX_FOLDER_DEPTH = 40
REMOTE, ROOT, NAME, FOLDER = "remote:", "root:", "name:", "folder:"  # prefixes of keys
_ROOT_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SCP_FORM = re.compile(r"(?:[^@/:]+@)?(?P<host>[^@/:]{2,}):(?P<path>(?!//).+)")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SSH = frozenset({"ssh", "git+ssh", "ssh+git", "git"})


@dataclass(frozen=True)
class Repository:
    """A repository as a client names it. ``remote``: normalised; unusable values are empty."""

    name: str = ""
    remote: str = ""
    root: str = ""

    @classmethod
    def parse(cls, given: object) -> Repository | None:
        """Return the repository of a client's JSON object; None if nothing in it can be used."""
        if not isinstance(given, Mapping):
            return None
        name, remote, root = (text_field(given, key) for key in ("name", "remote", "root"))
        name = folder_name(name) if name.isprintable() and not find_secrets(name) else ""
        name = name if name.strip(" .") else ""
        root = root if _ROOT_COMMIT.fullmatch(root) else ""
        found = cls(name, normalise_remote(remote), root)
        return found if found != cls() else None

    @property
    def keys(self) -> list[str]:
        """The keys, the most significant first: a fork has the root commit of its origin."""
        named = ((REMOTE, self.remote), (ROOT, self.root))
        return [prefix + value for prefix, value in named if value]


def text_field(given: Mapping[Any, Any], key: str) -> str:
    """Return a text of a JSON object; empty if the value is missing or of another type."""
    value = given.get(key)
    return value if isinstance(value, str) else ""


def folder_key(path: str) -> str:
    """Return the key of a folder, equal on any system; empty for a path that is relative or too long."""
    path = re.sub(r"[/\\]+", "/", path.strip()).rstrip("/")
    is_usable = len(path) <= MAX_FOLDER_CHARS and path.count("/") <= MAX_FOLDER_DEPTH and path.isprintable()
    return FOLDER + path if is_usable and re.match(r"/.|[A-Za-z]:/.", path) else ""


def _folder_keys(path: str) -> list[str]:
    """Return the keys of a folder and of those that contain it, the innermost first."""
    parts = re.split(r"[/\\]+", path.strip())
    folders = ["/".join(parts[:end]) for end in range(min(len(parts), MAX_FOLDER_DEPTH + 1), 1, -1)]
    return [key for key in map(folder_key, folders) if key]


def working_project(
    session_id: str, cwd: str, repository: Repository | None, actor: Actor, *, record: bool = False
) -> str:
    """Return the project that an agent works in.

    A folder that was split off comes first, then the repository. Without a repository, the project is that
    of the session or the one with the name of the folder.

    ``record``: remember the project of an unknown repository.
    """
    folder, folder_keys = folder_name(cwd), _folder_keys(cwd)
    known = _known_projects(folder_keys, actor) if folder_keys else {}
    if found := next((known[key] for key in folder_keys if key in known), ""):
        return found
    if repository:
        return repository_project(repository, folder, actor, record=record)
    return session_project(session_id, cwd, actor) or folder_project(folder, actor)


def normalise_remote(url: str) -> str:
    """Return ``host/path`` of a remote, equal for its ssh and https forms, without credentials.

    Empty for a path on the client's machine, and for anything that is not a usable URL.
    """
    if not 0 < len(url) <= MAX_URL_CHARS or not url.isprintable() or " " in url:
        return ""
    host, path = _split_remote(url)
    path = re.sub(r"/+", "/", unquote(path)).strip("/").removesuffix(".git").rstrip("/")
    found = f"{host}/{path}".lower()
    if not host or not path or len(found) > MAX_KEY_CHARS or not found.isprintable() or find_secrets(found):
        return ""
    return found


def _split_remote(url: str) -> tuple[str, str]:
    if "://" not in url:
        found = _SCP_FORM.fullmatch(url)
        return (found["host"], found["path"]) if found else ("", "")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", ""
    if parts.scheme not in _SSH and parts.scheme not in _DEFAULT_PORTS:
        return "", ""
    # The port of ssh says nothing about that of https.
    is_default = parts.scheme in _SSH or port in (None, _DEFAULT_PORTS[parts.scheme])
    return host if is_default else f"{host}:{port}", parts.path


def repository_project(repository: Repository, folder: str, actor: Actor, *, record: bool) -> str:
    """Return the project of a repository. ``folder``: the name of the working folder.

    An unknown repository gets the project with the name of its folder, unless that belongs to another
    repository: then a longer name. ``record``: remember the project, if its mode is to store anything.
    """
    keys = repository.keys
    known = _known_projects(keys, actor)
    if all(key in known for key in keys) and keys:
        return known[keys[0]]
    if not record or not keys:
        return _choose_project(repository, folder, known, actor)
    with write_transaction():
        known = _known_projects(keys, actor)  # another process may have chosen meanwhile
        name = _choose_project(repository, folder, known, actor)
        _record_identities(name, [key for key in keys if key not in known], actor)
    return name


def _known_projects(keys: list[str], actor: Actor) -> dict[str, str]:
    """Return the project of each known key, as far as the projects are open to the actor."""
    rows = ProjectIdentity.objects.filter(key__in=keys, owner__in={"", actor.owner})
    named = rows.order_by("-owner").values_list("key", "project__name")  # everyone's come last and win
    return {key: name for key, name in named if actor.clearance.includes_project(name)}


def _choose_project(repository: Repository, folder: str, known: Mapping[str, str], actor: Actor) -> str:
    if found := next((known[key] for key in repository.keys if key in known), ""):
        return found
    remote_name = repository.remote.rpartition("/")[2][:200]
    names = [name for name in dict.fromkeys((repository.name, folder, remote_name)) if name]
    former = _known_projects([NAME + name for name in names], actor)
    if not repository.keys:
        return former.get(NAME + names[0], names[0]) if names else ""
    # A project that existed before identities were recorded keeps its name.
    existing = [
        former.get(NAME + name) or name for name in names if NAME + name in former or _exists(name, actor)
    ]
    name = ""
    # Without its name, the folder may be a subfolder.
    fresh = repository.name or remote_name or folder
    for name in [*existing, *([fresh] if fresh else []), *_long_names(repository, names)]:
        if actor.clearance.includes_project(name) and not _is_identified(name, actor):
            return name
    return name  # the longest one, which no other repository has


def _long_names(repository: Repository, names: Sequence[str]) -> list[str]:
    """Return names that distinguish the repository from others whose folder has the same name."""
    found = []
    if repository.remote:
        found += ["/".join(repository.remote.split("/")[-2:])[:200], repository.remote[:200]]
    if repository.root:
        base = (names or ["project"])[0][:150]
        found += [f"{base}-{repository.root[:7]}", f"{base}-{repository.root[:40]}"]
    return found


def folder_project(folder: str, actor: Actor) -> str:
    """Return the project of a folder that is in no repository: the one with its name now or formerly."""
    return _known_projects([NAME + folder], actor).get(NAME + folder, folder) if folder else ""


def session_project(session_id: str, cwd: str, actor: Actor) -> str:
    """Return the project of the agent's session in this folder, if a repository identified it, otherwise "".

    Only some hooks can name the repository; the others continue the session.
    """
    identified = ProjectIdentity.objects.exclude(key__startswith=NAME).values("project__name")
    rows = Session.objects.filter(session_id=session_id, agent=actor.name, project__in=identified)
    for found, project in rows.order_by("-last_at", "-pk").values_list("cwd", "project")[:5]:
        if _contains(found, cwd) or _contains(cwd, found):
            return project if actor.clearance.includes_project(project) else ""
    return ""


def _contains(folder: str, other: str) -> bool:
    return bool(folder) and f"{other}/".startswith(f"{folder.rstrip('/')}/")


def _exists(name: str, actor: Actor) -> bool:
    """Return whether the actor can know that the project exists."""
    if not actor.clearance.includes_project(name):
        return False
    return (
        Project.objects.filter(name=name).exists()
        or Memory.objects.visible_to(actor.clearance).filter(project=name).exists()
        or Session.objects.with_visible_rows(actor.clearance).filter(project=name).exists()
    )


def _is_identified(name: str, actor: Actor) -> bool:
    """Return whether the project belongs to a repository already. ``name``: an open project."""
    rows = ProjectIdentity.objects.filter(project__name=name, owner__in={"", actor.owner})
    return rows.exclude(key__startswith=NAME).exists()


def list_identities(name: str, actor: Actor) -> list[ProjectIdentity]:
    """Return the identities of a project, without those that apply only to other owners."""
    if not actor.clearance.includes_project(name):
        raise NotFound("there is no such project")
    rows = ProjectIdentity.objects.filter(project__name=name)
    own = Q() if actor.clearance.is_whole else Q(owner__in={"", actor.owner})
    return list(rows.filter(own).order_by("key"))


def import_identity(name: str, key: str, owner: str, created_at: datetime, actor: Actor) -> bool:
    """Import an identity of a project from another store. Return False if its key is used here already.

    Raise Forbidden if the project is not open to the actor, or if an actor with access to some projects
    imports an identity for another owner.
    """
    confined = actor.clearance.projects is not None
    if not actor.clearance.includes_project(name) or (confined and (not owner or owner != actor.owner)):
        raise Forbidden("this token cannot record the repository of this project", "project")
    with write_transaction():
        if ProjectIdentity.objects.filter(key=key, owner=owner).exists():
            return False
        project, _ = Project.objects.get_or_create(name=name)
        ProjectIdentity.objects.create(project=project, key=key, owner=owner, created_at=created_at)
        journal.record(
            actor, [journal.Change("identify", "project", name, {"keys": [key]}, name, owner=owner)]
        )
    return True


def _record_identities(name: str, keys: list[str], actor: Actor) -> None:
    """Store new keys of an open project. Call it in a transaction."""
    is_confined = actor.clearance.projects is not None
    if not keys or not actor.clearance.includes_project(name) or (is_confined and not actor.owner):
        return
    owner = actor.owner if is_confined else ""
    project = Project.named(name)
    if not project.records_events(timezone.now()):
        return
    if project.pk is None:
        project.save()
    rows = [ProjectIdentity(project=project, key=key, owner=owner) for key in keys]
    ProjectIdentity.objects.bulk_create(rows, ignore_conflicts=True)
    detail = {"keys": keys}
    journal.record(actor, [journal.Change("identify", "project", name, detail, name, owner=owner)])
