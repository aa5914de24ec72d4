"""URLs of the pages."""

from __future__ import annotations

import re

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, path, register_converter
from django.views.generic import RedirectView

from memoryhub.web import (
    agents,
    checks,
    injections,
    journal,
    maintenance,
    palette,
    projects,
    review,
    runs,
    transfer,
)
from memoryhub.web import home as home_views
from memoryhub.web import saved_searches as saved_searches_views
from memoryhub.web import stats as stats_views
from memoryhub.web.accounts import people, profile, sign_in
from memoryhub.web.accounts.sign_in import authorize
from memoryhub.web.base import views as base_views
from memoryhub.web.duplicates import views as duplicates_views
from memoryhub.web.facts import graph_views
from memoryhub.web.facts import views as facts_views
from memoryhub.web.memories import bulk_actions, edit, versions, views
from memoryhub.web.sessions import timeline
from memoryhub.web.sessions import views as sessions_views

# Browsers resolve path segments of one or two dots; a tilde in front prevents that.
_DOT_SEGMENT = re.compile(r"(?<![^/])(~*\.{1,2})(?![^/])")
_ESCAPED_DOT_SEGMENT = re.compile(r"(?<![^/])~(~*\.{1,2})(?![^/])")


class SessionIdConverter:
    """Any text except an empty one: agents choose session ids, with slashes, line breaks or dots."""

    regex = r"(?s:.+)"

    def to_python(self, value: str) -> str:
        return _ESCAPED_DOT_SEGMENT.sub(r"\1", value)

    def to_url(self, value: str) -> str:
        return _DOT_SEGMENT.sub(r"~\1", value)


register_converter(SessionIdConverter, "session_id")

urlpatterns: list[URLPattern] = [
    path("", home_views.home_page, name="home"),
    path("home/journal/", home_views.journal_health, name="journal-health"),
    path("home/journal/acknowledge/", home_views.acknowledge_loss, name="journal-acknowledge"),
    path("glance/", stats_views.stats_page, name="glance"),
    path("glance/duplicates/", stats_views.stats_duplicates, name="glance-duplicates"),
    path("login/", login_not_required(sign_in.Login.as_view()), name="login"),
    path("login/step/", sign_in.SecondStep.as_view(), name="mfa_authenticate"),
    path("login/passkey/", sign_in.PasskeySignIn.as_view(), name="mfa_login_webauthn"),
    path("login/confirm/", sign_in.ConfirmWithPassword.as_view(), name="account_reauthenticate"),
    path("login/confirm/code/", sign_in.ConfirmWithCode.as_view(), name="mfa_reauthenticate"),
    path(
        "login/confirm/passkey/",
        sign_in.ConfirmWithPasskey.as_view(),
        name="mfa_reauthenticate_webauthn",
    ),
    path("login/organisation/", sign_in.single_sign_on_start, name="single-sign-on"),
    path("login/organisation/back/", sign_in.single_sign_on_return, name="single-sign-on-back"),
    path("invitation/<int:account>/<str:token>/", sign_in.invitation, name="invitation"),
    path("logout/", sign_in.Logout.as_view(), name="logout"),
    path(
        "search/",
        RedirectView.as_view(pattern_name="memories", permanent=True, query_string=True),
        name="search",
    ),
    path("searches/", saved_searches_views.searches, name="searches"),
    path("searches/menu/", saved_searches_views.searches_menu, name="searches-menu"),
    path("searches/<slug:uid>/rename/", saved_searches_views.search_rename, name="search-rename"),
    path("searches/<slug:uid>/delete/", saved_searches_views.search_delete, name="search-delete"),
    path("palette/", palette.palette, name="palette"),
    path("checks/", checks.checks_page, name="memory-checks"),
    path("checks/new/", checks.check_new, name="memory-check-new"),
    path("checks/<slug:uid>/", checks.check_edit, name="memory-check"),
    path("checks/<slug:uid>/delete/", checks.check_delete, name="memory-check-delete"),
    path("checks/<slug:uid>/run/", checks.check_run, name="memory-check-run"),
    path("preview/thresholds/", injections.thresholds_page, name="thresholds"),
    path("preview/", injections.recall_test_page, name="preview"),
    path("memories/", views.memories_page, name="memories"),
    path("memories/new/", edit.memory_new, name="memory-new"),
    path("memories/<slug:uid>/", views.memory_page, name="memory"),
    path("memories/<slug:uid>/history/", views.memory_history, name="memory-history"),
    *[
        path(f"memories/<slug:uid>/fields/{name}/", edit.memory_field, {"name": name}, f"memory-{name}")
        for name in edit.FIELDS
    ],
    path("memories/<slug:uid>/compare/", versions.memory_compare, name="memory-compare"),
    path("memories/<slug:uid>/versions/restore/", versions.version_restore, name="version-restore"),
    path("memories/<slug:uid>/versions/undo/", versions.version_undo, name="version-undo"),
    path("memories/<slug:uid>/as/<slug:form>/", views.memory_as, name="memory-as"),
    path("memories/<slug:uid>/row/", edit.memory_row, name="memory-row"),
    path("memories/<slug:uid>/edit/", edit.memory_edit, name="memory-edit"),
    path("memories/<slug:uid>/trash/", edit.memory_trash, name="memory-trash"),
    path("memories/<slug:uid>/restore/", edit.memory_restore, name="memory-restore"),
    path("memories/<slug:uid>/erase/", edit.memory_erase, name="memory-erase"),
    path("acts/", bulk_actions.bulk_action, name="act"),
    path("acts/<slug:uid>/undo/", bulk_actions.bulk_action_undo, name="act-undo"),
    path("duplicates/", duplicates_views.duplicates_page, name="duplicates"),
    path("duplicates/all/", duplicates_views.duplicates_merge_all, name="duplicates-all"),
    path("duplicates/cluster/", duplicates_views.duplicates_cluster, name="duplicates-cluster"),
    path("duplicates/decide/", duplicates_views.duplicates_decide, name="duplicates-decide"),
    path("duplicates/undo/", duplicates_views.duplicates_undo, name="duplicates-undo"),
    path("review/", review.review_page, name="review"),
    path("review/counts/", review.review_tabs, name="review-counts"),
    path("review/alike/", review.review_duplicates, name="review-alike"),
    path("review/act/", review.review_action, name="review-act"),
    path("review/undo/", review.review_undo, name="review-undo"),
    path("review/looked/", review.review_mark_seen, name="review-looked"),
    path("review/cards/<slug:uid>/", review.review_card, name="review-card"),
    path("review/cards/<slug:uid>/merge/", review.review_merge, name="review-merge"),
    path("projects/choose/", base_views.project_choose, name="project-choose"),
    path("projects/menu/", base_views.project_menu, name="project-menu"),
    path("projects/names/", base_views.project_names, name="project-names"),
    path("sessions/", sessions_views.sessions, name="sessions"),
    path("sessions/<session_id:session_id>/", sessions_views.session, name="session"),
    path(
        "project-settings/<session_id:name>/save/",
        projects.project_settings_save,
        name="project-settings-save",
    ),
    path("project-settings/<session_id:name>/move/", projects.project_move, name="project-move"),
    path("project-settings/<session_id:name>/pause/", projects.project_pause, name="project-pause"),
    path("project-settings/<session_id:name>/", projects.project_settings, name="project-settings"),
    path(
        "project-page/<session_id:name>/preview/",
        projects.project_page_preview,
        name="project-page-preview",
    ),
    path(
        "project-page/<session_id:name>/correct/",
        projects.project_page_correct,
        name="project-page-correct",
    ),
    path(
        "project-page/<session_id:name>/settings/",
        projects.project_page_settings,
        name="project-page-settings",
    ),
    path("project-page/<session_id:name>/", projects.project_page, name="project-page"),
    path("project-changes/<slug:change>/undo/", projects.project_undo, name="project-undo"),
    path("reports/sessions/<session_id:session_id>/", timeline.session_report, name="session-report"),
    path("injections/", injections.injection_list, name="injections"),
    path("injections/<slug:uid>/", injections.injection, name="injection"),
    path("timeline/", timeline.timeline_month, name="timeline"),
    path("timeline/entries/", timeline.timeline_entries, name="timeline-entries"),
    path("agents/", agents.agent_list, name="agents"),
    path("agents/<session_id:name>/", agents.agent, name="agent"),
    path("connect/", agents.connect, name="connect"),
    path("connect/arrived/", agents.first_event, name="connect-arrived"),
    path("connect/<slug:client>/", agents.connect_access, name="connect-access"),
    path("connect/<slug:client>/snippet/", agents.connect_snippet, name="connect-snippet"),
    path("facts/", facts_views.facts, name="facts"),
    path("facts/graph/", graph_views.facts_graph, name="facts-graph"),
    path("facts/things/", graph_views.suggest_things, name="fact-things"),
    path("things/", facts_views.thing, name="thing"),
    path("facts/contradictions/", facts_views.contradiction_list, name="fact-conflicts"),
    path("facts/contradictions/decide/", facts_views.decide_contradiction, name="fact-decide"),
    path("facts/contradictions/undo/", facts_views.undo_decision, name="fact-undo"),
    path("facts/end/", facts_views.facts_end, name="facts-end"),
    path("facts/end/<slug:uid>/undo/", facts_views.facts_end_undo, name="facts-end-undo"),
    path("facts/delete/", facts_views.facts_delete, name="facts-delete"),
    path("facts/<slug:uid>/", facts_views.fact, name="fact"),
    path("facts/<slug:uid>/delete/", facts_views.fact_delete, name="fact-delete"),
    path("transfer/", transfer.transfer, name="transfer"),
    path("transfer/import/", transfer.import_start, name="import-start"),
    path("transfer/export/", transfer.export, name="export"),
    path("transfer/imports/<slug:uid>/", transfer.import_page, name="import"),
    path("transfer/imports/<slug:uid>/progress/", transfer.import_progress, name="import-progress"),
    path("transfer/imports/<slug:uid>/stop/", transfer.import_stop, name="import-stop"),
    path("transfer/imports/<slug:uid>/resume/", transfer.import_resume, name="import-resume"),
    path("transfer/imports/<slug:uid>/undo/", transfer.import_undo, name="import-undo"),
    path("transfer/imports/<slug:uid>/import/", transfer.import_after_dry_run, name="import-for-good"),
    path("journal/", journal.journal, name="journal"),
    path("journal/verify/", journal.journal_verify, name="journal-verify"),
    path("journal/<int:seq>/", journal.journal_row, name="journal-row"),
    path("trash/", views.trash_page, name="trash"),
    path("maintenance/", maintenance.maintenance, name="maintenance"),
    path("maintenance/clock/", maintenance.clock_confirm, name="clock-confirm"),
    path("maintenance/start/", maintenance.run_start, name="run-start"),
    path("maintenance/language-model/", maintenance.language_model, name="language-model"),
    path("maintenance/runs/", runs.run_list, name="runs"),
    path("maintenance/runs/<slug:uid>/", runs.run, name="run"),
    path("maintenance/runs/<slug:uid>/progress/", runs.run_progress, name="run-progress"),
    path("maintenance/runs/<slug:uid>/stop/", runs.run_stop, name="run-stop"),
    path("maintenance/runs/<slug:uid>/resume/", runs.run_resume, name="run-resume"),
    path("maintenance/runs/<slug:uid>/undo/", runs.run_undo, name="run-undo"),
    path("authorize/", authorize, name="authorize"),
    path("you/", profile.you, name="you"),
    path("you/preferences/", profile.preferences, name="you-preferences"),
    path("you/password/", profile.password, name="you-password"),
    path("you/tokens/", profile.token_new, name="you-token-new"),
    path("you/tokens/revoke/", profile.tokens_revoke, name="you-tokens-revoke"),
    path("you/tokens/<slug:uid>/rotate/", profile.token_rotate, name="you-token-rotate"),
    path("you/tokens/<slug:uid>/revoke/", profile.token_revoke, name="you-token-revoke"),
    path("you/apps/<slug:uid>/remove/", profile.app_remove, name="you-app-remove"),
    path("you/authenticator/", sign_in.SetUpApp.as_view(), name="mfa_activate_totp"),
    path("you/authenticator/remove/", sign_in.TurnOffApp.as_view(), name="mfa_deactivate_totp"),
    path("you/codes/", sign_in.RecoveryCodes.as_view(), name="mfa_view_recovery_codes"),
    path("you/codes/new/", sign_in.NewRecoveryCodes.as_view(), name="mfa_generate_recovery_codes"),
    path("you/passkeys/new/", sign_in.AddPasskey.as_view(), name="mfa_add_webauthn"),
    path("you/passkeys/<int:pk>/remove/", sign_in.RemovePasskey.as_view(), name="mfa_remove_webauthn"),
    path("you/sessions/end/", profile.sessions_end, name="you-sessions-end"),
    path("you/digests/", profile.digest_list, name="digests"),
    path("you/digests/<slug:uid>/", profile.digest_page, name="digest"),
    path("you/digests/<slug:uid>/test/", profile.digest_test, name="digest-test"),
    path("you/digests/<slug:uid>/secret/", profile.digest_secret, name="digest-secret"),
    path("you/digests/<slug:uid>/delete/", profile.digest_delete, name="digest-delete"),
    path("people/", people.people_list, name="people"),
    path("people/<str:name>/", people.person, name="person"),
    path("people/<str:name>/rights/", people.rights, name="person-rights"),
    path("people/<str:name>/join/", people.join, name="person-join"),
    path("people/<str:name>/leave/", people.leave, name="person-leave"),
    path("people/<str:name>/open/", people.open_every_project, name="person-open"),
    path("people/<str:name>/address/", people.address, name="person-address"),
    path("people/<str:name>/unbind/", people.unbind, name="person-unbind"),
    path("people/<str:name>/factors/", people.remove_second_factors, name="person-second-factors"),
    path("people/<str:name>/invite/", people.new_invitation, name="person-invite"),
    path("people/<str:name>/revoke/", people.revoke_invitation, name="person-revoke"),
    path("people/<str:name>/password/", people.new_password, name="person-password"),
    path("switch/", base_views.turn_switch, name="switch"),
    # Names by which django-allauth finds pages that exist above.
    path("login/", login_not_required(sign_in.Login.as_view()), name="account_login"),
    path("you/", profile.you, name="mfa_index"),
]
