"""Which pictures there are: every page of the hub, some of them in more than one state.

They are taken in this order, each in all widths. Those whose steps write something stand last, so that no
other picture shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from django.urls import reverse

if TYPE_CHECKING:
    from playwright.sync_api import Page

ADMIN = "admin"
READER = "noor"  # a viewer of one project
NEWCOMER = "iris"  # a curator of one project, which has nothing yet
STRANGER = ""  # not signed in


def _nothing(page: Page) -> None:
    """The page is shown as it comes."""


@dataclass(frozen=True)
class Picture:
    """``name``: of the file. ``page``: of the URL; ``about``: what its address names, by the names that
    :mod:`.scene` gives to what it found. ``who``: signed in as whom; ``admin:private`` has that level
    switched on. ``steps``: what is done in the page first. ``shows``: the whole page, its upper part (of a
    list the rest is more of the same, and the README begins with one) or what fits the window.
    ``template``: for what cannot be provoked, a page that stands alone.
    """

    name: str
    page: str
    about: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    who: str = ADMIN
    steps: Callable[[Page], None] = _nothing
    shows: Literal["whole", "upper", "window"] = "whole"
    status: int = 200
    template: str = ""

    def address(self, found: Mapping[str, str]) -> str:
        """Path and query; KeyError when the scene has nothing under a name that is used."""
        path = reverse(self.page, kwargs={name: found[which] for name, which in self.about.items()} or None)
        return path + self.query.format_map(found)


def _press(*keys: str) -> Callable[[Page], None]:
    def press(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)

    return press


def _typed_into_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("tide")


def _menu_open(page: Page) -> None:
    page.click("[popovertarget=user-menu]")


def _refused(page: Page) -> None:
    """The form of a memory, sent with what cannot be stored."""
    page.fill("[name=content]", "")
    page.fill("[name=title]", "Which tide tables the office sends")
    page.evaluate("document.querySelector('[name=content]').form.noValidate = true")
    page.locator("form:has([name=content]) button.is-primary").click()
    page.wait_for_selector("[aria-invalid=true]")


def _wrong_password(page: Page) -> None:
    page.fill("[name=username]", "guest")
    page.fill("[name=password]", "a guess")
    with page.expect_navigation():
        page.press("[name=password]", "Enter")


def _guessing(page: Page) -> None:
    """As often as it takes to be told to wait."""
    for _ in range(MOST_GUESSES):
        _wrong_password(page)
        if page.get_by_text("Too many").count():
            return
    raise AssertionError(f"{MOST_GUESSES} wrong passwords are taken")


def _token_made(page: Page) -> None:
    page.get_by_role("button", name="Create token").click()
    page.get_by_text("has a token").wait_for()


def _trashed(page: Page) -> None:
    """Two rows of a list, with the way back."""
    for index in range(2):
        page.locator(".row-check").nth(index).check()
    page.locator("#bulk button[value=trash]").click()
    page.locator("#messages").get_by_role("button", name="Undo").wait_for()
    page.evaluate("scrollTo(0, 0)")  # from where the bar was


def _ticked(page: Page) -> None:
    """Three rows of a list, for the bar of what can be done to them."""
    for index in range(3):
        page.locator(".row-check").nth(index).check()


def _tried_thresholds(page: Page) -> None:
    page.fill("[name=min_score]", "0.6")
    page.click("main form button.is-primary")
    page.wait_for_selector("#effect-title")


def _asked(page: Page) -> None:
    page.fill("[name=prompt]", "How do we compute the tide of a harbour, and is a year of it stored?")
    page.fill("[name=project]", "harbor-board")
    page.click("main form button.is-primary")
    page.wait_for_selector("#shown-title")


MOST_GUESSES = 20  # more than the hub takes
_FILTERED = "?project=harbor-board&type=decision"
_UID = {"uid": "memory"}
PICTURES = (
    Picture("login", "login", who=STRANGER),
    Picture("home", "home", shows="upper"),
    Picture("home-empty", "home", who=NEWCOMER),
    Picture("menu", "home", steps=_menu_open, shows="window"),
    Picture("palette", "home", steps=_typed_into_palette, shows="window"),
    Picture("keys", "home", steps=_press("?"), shows="window"),
    Picture("glance", "glance"),
    Picture("search", "memories", query="?q=tide+tables", shows="upper"),
    Picture("search-nothing", "memories", query="?q=zeppelin+mooring+permit"),
    Picture("preview", "preview", steps=_asked),
    Picture("thresholds", "thresholds", steps=_tried_thresholds),
    Picture("memory-checks", "memory-checks"),
    Picture("memory-check-new", "memory-check-new"),
    Picture("memories", "memories", shows="upper"),
    Picture("memories-filtered", "memories", query=_FILTERED, who="admin:private", shows="upper"),
    Picture("memories-ticked", "memories", steps=_ticked, shows="window"),
    Picture("memories-nothing", "memories", query="?tag=no-such-tag"),
    Picture("memories-empty", "memories", who=NEWCOMER),
    Picture("memory", "memory", _UID),
    Picture("memory-secret", "memory", {"uid": "private"}, who="admin:private"),
    Picture("memory-trashed", "memory", {"uid": "trashed"}),
    Picture("memory-history", "memory-history", _UID),
    Picture("memory-compare", "memory-compare", _UID),
    Picture("memory-edit", "memory-edit", _UID),
    Picture("memory-erase", "memory-erase", {"uid": "trashed"}),
    Picture("memory-new", "memory-new"),
    Picture("memory-new-refused", "memory-new", steps=_refused, status=422),
    Picture("searches", "searches"),
    Picture("review", "review", shows="upper"),
    Picture("review-merge", "review-merge", {"uid": "alike"}),
    Picture("review-empty", "review", who=NEWCOMER),
    Picture("duplicates", "duplicates", shows="upper"),
    Picture("duplicates-all", "duplicates-all"),
    Picture("sessions", "sessions", shows="upper"),
    Picture("sessions-empty", "sessions", who=NEWCOMER),
    Picture("session", "session", {"session_id": "session"}, shows="upper"),
    Picture("session-received", "session", {"session_id": "session"}, query="?kind=injection", shows="upper"),
    Picture("session-kept", "session", {"session_id": "session"}, query="?kind=kept", shows="upper"),
    Picture("session-report", "session-report", {"session_id": "session"}, shows="upper"),
    Picture("injections", "injections", shows="upper"),
    Picture("injection", "injection", {"uid": "injection"}),
    Picture("timeline", "timeline", shows="upper"),
    Picture("timeline-entries", "timeline-entries", shows="upper"),
    Picture("connect", "connect"),
    Picture("connect-access", "connect-access", {"client": "client"}),
    Picture("agents", "agents"),
    Picture("agent", "agent", {"name": "agent"}),
    Picture("project-settings", "project-settings", {"name": "project"}),
    Picture("project-page", "project-page", {"name": "project"}),
    Picture("project-page-preview", "project-page-preview", {"name": "project"}),
    Picture("facts", "facts", shows="upper"),
    Picture("fact", "fact", {"uid": "fact"}),
    Picture("thing", "thing", query="?name=harbor-board"),
    Picture("facts-graph", "facts-graph"),
    Picture("facts-graph-opened", "facts-graph", query="?node=harbor-board"),
    Picture("facts-empty", "facts", who=NEWCOMER),
    Picture("facts-contradictions", "fact-conflicts", shows="upper"),
    Picture("transfer", "transfer"),
    Picture("import", "import", {"uid": "import"}),
    Picture("journal", "journal", shows="upper"),
    Picture("journal-row", "journal-row", {"seq": "journal row"}),
    Picture("trash", "trash", shows="upper"),
    Picture("maintenance", "maintenance"),
    Picture("runs", "runs"),
    Picture("run", "run", {"uid": "run"}, shows="upper"),
    Picture("run-undo", "run-undo", {"uid": "undoable"}),
    Picture("run-failed", "run", {"uid": "failed"}),
    Picture("language-model", "language-model"),
    Picture("digests", "digests"),
    Picture("digest", "digest", {"uid": "digest"}),
    Picture("you", "you"),
    Picture("api", "api-docs", shows="upper"),
    Picture("api-operation", "api-operation", {"name": "operation"}),
    Picture("people", "people"),
    Picture("person", "person", {"name": "person"}),
    Picture("viewer-home", "home", who=READER),
    Picture("error-400", "home", template="400_host.html"),
    Picture("error-404", "memory", {"uid": "nowhere"}, status=404),
    Picture("error-403", "people", who=READER, status=403),
    Picture("error-500", "home", template="500.html"),
    Picture("error-503", "home", template="503.html"),
    Picture("admin", "admin:index"),
    Picture("admin-memories", "admin:memoryhub_memory_changelist", shows="upper"),
    Picture("admin-memory", "admin:memoryhub_memory_change", {"object_id": "memory key"}),
    Picture("admin-facts", "admin:memoryhub_fact_changelist", shows="upper"),
    Picture("admin-tokens", "admin:memoryhub_agenttoken_changelist", shows="upper"),
    Picture("admin-journal", "admin:memoryhub_journalentry_changelist", shows="upper"),
    Picture("connect-token", "connect-access", {"client": "client"}, steps=_token_made, shows="upper"),
    Picture("memories-trashed", "memories", steps=_trashed, shows="window"),
    Picture("login-refused", "login", who=STRANGER, steps=_wrong_password),
    Picture("login-waits", "login", who=STRANGER, steps=_guessing, status=429),
)

# The addresses that have no page of their own to be seen.
NOT_PICTURED = {
    "fragments": (
        *("journal-health", "glance-duplicates", "palette", "project-names", "project-menu"),
        *("duplicates-cluster", "connect-arrived", "fact-things"),
        *("import-progress", "run-progress", "searches-menu"),
        *("memory-title", "memory-tags", "memory-importance", "memory-sensitivity", "memory-row"),
        *("review-card", "review-alike", "review-counts"),
    ),
    "actions": (
        *("logout", "memory-trash", "memory-restore", "switch", "project-choose"),
        *("duplicates-decide", "duplicates-undo", "fact-decide", "fact-undo", "fact-delete"),
        *("import-start", "import-stop", "import-resume", "import-for-good", "journal-verify"),
        "journal-acknowledge",
        *("facts-delete", "facts-end", "facts-end-undo", "you-tokens-revoke"),
        *("act", "act-undo", "review-act", "review-undo", "review-looked"),
        *("version-restore", "version-undo", "search-rename", "search-delete"),
        *("run-start", "run-stop", "run-resume", "clock-confirm"),
        *("you-preferences", "you-password", "you-token-new", "you-token-rotate", "you-token-revoke"),
        "you-sessions-end",
        *("person-rights", "person-join", "person-leave", "person-open", "person-password"),
        *("person-address", "person-unbind", "person-invite", "person-revoke", "invitation"),
        "person-second-factors",
        *("project-settings-save", "project-pause", "project-undo", "you-app-remove"),
        *("project-move", "project-page-correct", "project-page-settings"),
        *("memory-check-delete", "memory-check-run", "digest-test", "digest-secret", "digest-delete"),
    ),
    "like the page of a new check, and of the undo of a run": ("memory-check", "import-undo"),
    "like the page with a new token": ("connect-snippet",),
    "files": ("memory-as", "export"),
    "need a second factor, or the password again": (
        *("mfa_authenticate", "mfa_login_webauthn", "account_reauthenticate", "mfa_reauthenticate"),
        *("mfa_reauthenticate_webauthn", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_add_webauthn"),
        *("mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_remove_webauthn"),
    ),
    "other names of pages": ("account_login", "mfa_index", "search"),
    "need another server": ("single-sign-on", "single-sign-on-back", "authorize"),
}
