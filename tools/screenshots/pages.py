"""The list of screenshots: every page of the hub, some of them in several states.

They are taken in this order, each in all widths. Those that write to the store come last, so that no other
picture shows what they wrote.
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
NEWCOMER = "iris"  # a curator of one project that is still empty
ANONYMOUS = ""  # not signed in


def _do_nothing(page: Page) -> None:
    """Leave the page as it is."""


@dataclass(frozen=True)
class Picture:
    """A screenshot, taken in each width and theme.

    ``name``: the first part of the file name.
    ``page``: the name of the URL pattern.
    ``arguments``: the arguments of the URL, as keys of ``scene.find_arguments()``.
    ``viewer``: the user who is signed in; ``admin:private`` also turns on that level.
    ``prepare``: what to do in the page before the picture is taken.
    ``area``: the whole page, its upper part, or what fits the window.
    ``template``: an error page to show instead of the answer of the server.
    """

    name: str
    page: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    viewer: str = ADMIN
    prepare: Callable[[Page], None] = _do_nothing
    area: Literal["whole", "upper", "window"] = "whole"
    status: int = 200
    template: str = ""

    def address(self, values: Mapping[str, str]) -> str:
        """Return the path and the query string. Raise KeyError if the scene lacks an argument."""
        arguments = {name: values[key] for name, key in self.arguments.items()}
        return reverse(self.page, kwargs=arguments or None) + self.query


def _press(*keys: str) -> Callable[[Page], None]:
    def press(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)

    return press


def _search_in_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("tide")


def _open_menu(page: Page) -> None:
    page.click("[popovertarget=user-menu]")


def _submit_invalid_memory(page: Page) -> None:
    """Submit a memory without content, past the checks of the browser."""
    page.fill("[name=content]", "")
    page.fill("[name=title]", "Which tide tables the office sends")
    page.evaluate("document.querySelector('[name=content]').form.noValidate = true")
    page.locator("form:has([name=content]) button.is-primary").click()
    page.wait_for_selector("[aria-invalid=true]")


def _enter_wrong_password(page: Page) -> None:
    page.fill("[name=username]", "guest")
    page.fill("[name=password]", "a guess")
    with page.expect_navigation():
        page.press("[name=password]", "Enter")


def _guess_until_limited(page: Page) -> None:
    """Enter wrong passwords until the hub limits the attempts."""
    for _ in range(MAX_GUESSES):
        _enter_wrong_password(page)
        if page.get_by_text("Too many").count():
            return
    raise AssertionError(f"{MAX_GUESSES} wrong passwords are accepted")


def _create_token(page: Page) -> None:
    page.get_by_role("button", name="Create token").click()
    page.get_by_text("has a token").wait_for()


def _trash_two_memories(page: Page) -> None:
    """Move two memories to the trash, and wait for the button that undoes it."""
    for index in range(2):
        page.locator(".row-check").nth(index).check()
    page.locator("#bulk button[value=trash]").click()
    page.locator("#messages").get_by_role("button", name="Undo").wait_for()
    page.evaluate("scrollTo(0, 0)")  # the click has scrolled down


def _select_three_memories(page: Page) -> None:
    """Select three memories, so that the bar of bulk actions appears."""
    for index in range(3):
        page.locator(".row-check").nth(index).check()


def _try_thresholds(page: Page) -> None:
    page.fill("[name=min_score]", "0.6")
    page.click("main form button.is-primary")
    page.wait_for_selector("#effect-title")


def _preview_prompt(page: Page) -> None:
    page.fill("[name=prompt]", "How do we compute the tide of a harbour, and is a year of it stored?")
    page.fill("[name=project]", "harbor-board")
    page.click("main form button.is-primary")
    page.wait_for_selector("#shown-title")


MAX_GUESSES = 20  # more than the hub accepts
_FILTERED = "?project=harbor-board&type=decision"
_UID = {"uid": "memory"}
PICTURES = (
    Picture("login", "login", viewer=ANONYMOUS),
    Picture("home", "home", area="upper"),
    Picture("home-empty", "home", viewer=NEWCOMER),
    Picture("menu", "home", prepare=_open_menu, area="window"),
    Picture("palette", "home", prepare=_search_in_palette, area="window"),
    Picture("keys", "home", prepare=_press("?"), area="window"),
    Picture("glance", "glance"),
    Picture("search", "memories", query="?q=tide+tables", area="upper"),
    Picture("search-nothing", "memories", query="?q=zeppelin+mooring+permit"),
    Picture("preview", "preview", prepare=_preview_prompt),
    Picture("thresholds", "thresholds", prepare=_try_thresholds),
    Picture("memory-checks", "memory-checks"),
    Picture("memory-check-new", "memory-check-new"),
    Picture("memories", "memories", area="upper"),
    Picture("memories-filtered", "memories", query=_FILTERED, viewer="admin:private", area="upper"),
    Picture("memories-ticked", "memories", prepare=_select_three_memories, area="window"),
    Picture("memories-nothing", "memories", query="?tag=no-such-tag"),
    Picture("memories-empty", "memories", viewer=NEWCOMER),
    Picture("memory", "memory", _UID),
    Picture("memory-secret", "memory", {"uid": "private"}, viewer="admin:private"),
    Picture("memory-trashed", "memory", {"uid": "trashed"}),
    Picture("memory-history", "memory-history", _UID),
    Picture("memory-compare", "memory-compare", _UID),
    Picture("memory-edit", "memory-edit", _UID),
    Picture("memory-erase", "memory-erase", {"uid": "trashed"}),
    Picture("memory-new", "memory-new"),
    Picture("memory-new-refused", "memory-new", prepare=_submit_invalid_memory, status=422),
    Picture("searches", "searches"),
    Picture("review", "review", area="upper"),
    Picture("review-merge", "review-merge", {"uid": "alike"}),
    Picture("review-empty", "review", viewer=NEWCOMER),
    Picture("duplicates", "duplicates", area="upper"),
    Picture("duplicates-all", "duplicates-all"),
    Picture("sessions", "sessions", area="upper"),
    Picture("sessions-empty", "sessions", viewer=NEWCOMER),
    Picture("session", "session", {"session_id": "session"}, area="upper"),
    Picture("session-received", "session", {"session_id": "session"}, query="?kind=injection", area="upper"),
    Picture("session-kept", "session", {"session_id": "session"}, query="?kind=kept", area="upper"),
    Picture("session-report", "session-report", {"session_id": "session"}, area="upper"),
    Picture("injections", "injections", area="upper"),
    Picture("injection", "injection", {"uid": "injection"}),
    Picture("timeline", "timeline", area="upper"),
    Picture("timeline-entries", "timeline-entries", area="upper"),
    Picture("connect", "connect"),
    Picture("connect-access", "connect-access", {"client": "client"}),
    Picture("agents", "agents"),
    Picture("agent", "agent", {"name": "agent"}),
    Picture("project-settings", "project-settings", {"name": "project"}),
    Picture("project-page", "project-page", {"name": "project"}),
    Picture("project-page-preview", "project-page-preview", {"name": "project"}),
    Picture("facts", "facts", area="upper"),
    Picture("fact", "fact", {"uid": "fact"}),
    Picture("thing", "thing", query="?name=harbor-board"),
    Picture("facts-graph", "facts-graph"),
    Picture("facts-graph-opened", "facts-graph", query="?node=harbor-board"),
    Picture("facts-empty", "facts", viewer=NEWCOMER),
    Picture("facts-contradictions", "fact-conflicts", area="upper"),
    Picture("transfer", "transfer"),
    Picture("import", "import", {"uid": "import"}),
    Picture("journal", "journal", area="upper"),
    Picture("journal-row", "journal-row", {"seq": "journal row"}),
    Picture("trash", "trash", area="upper"),
    Picture("maintenance", "maintenance"),
    Picture("runs", "runs"),
    Picture("run", "run", {"uid": "run"}, area="upper"),
    Picture("run-undo", "run-undo", {"uid": "undoable"}),
    Picture("run-failed", "run", {"uid": "failed"}),
    Picture("language-model", "language-model"),
    Picture("digests", "digests"),
    Picture("digest", "digest", {"uid": "digest"}),
    Picture("you", "you"),
    Picture("api", "api-docs", area="upper"),
    Picture("api-operation", "api-operation", {"name": "operation"}),
    Picture("people", "people"),
    Picture("person", "person", {"name": "person"}),
    Picture("viewer-home", "home", viewer=READER),
    Picture("error-400", "home", template="400_host.html"),
    Picture("error-404", "memory", {"uid": "nowhere"}, status=404),
    Picture("error-403", "people", viewer=READER, status=403),
    Picture("error-500", "home", template="500.html"),
    Picture("error-503", "home", template="503.html"),
    Picture("admin", "admin:index"),
    Picture("admin-memories", "admin:memoryhub_memory_changelist", area="upper"),
    Picture("admin-memory", "admin:memoryhub_memory_change", {"object_id": "memory key"}),
    Picture("admin-facts", "admin:memoryhub_fact_changelist", area="upper"),
    Picture("admin-tokens", "admin:memoryhub_agenttoken_changelist", area="upper"),
    Picture("admin-journal", "admin:memoryhub_journalentry_changelist", area="upper"),
    Picture("connect-token", "connect-access", {"client": "client"}, prepare=_create_token, area="upper"),
    Picture("memories-trashed", "memories", prepare=_trash_two_memories, area="window"),
    Picture("login-refused", "login", viewer=ANONYMOUS, prepare=_enter_wrong_password),
    Picture("login-waits", "login", viewer=ANONYMOUS, prepare=_guess_until_limited, status=429),
)

# The names of URL patterns without a picture, by the reason.
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
    "look like the page of a new check, and of the undo of a run": ("memory-check", "import-undo"),
    "looks like the page with a new token": ("connect-snippet",),
    "files": ("memory-as", "export"),
    "need a second factor, or ask for the password again": (
        *("mfa_authenticate", "mfa_login_webauthn", "account_reauthenticate", "mfa_reauthenticate"),
        *("mfa_reauthenticate_webauthn", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_add_webauthn"),
        *("mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_remove_webauthn"),
    ),
    "other names of pages": ("account_login", "mfa_index", "search"),
    "need another server": ("single-sign-on", "single-sign-on-back", "authorize"),
}
