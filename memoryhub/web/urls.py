"""The pages."""

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, path, register_converter

from memoryhub.web.converters import SessionIdConverter
from memoryhub.web.views import (
    auth,
    browse,
    connect,
    edit,
    facts,
    home,
    injections,
    journal,
    maintenance,
    memory,
    preview,
    runs,
    search,
    sessions,
    suggest,
    switch,
    timeline,
    trash,
)

register_converter(SessionIdConverter, "session_id")

urlpatterns: list[URLPattern] = [
    path("", home.home, name="home"),
    path("home/journal/", home.journal_health, name="journal-health"),
    path("login/", login_not_required(auth.Login.as_view()), name="login"),
    path("logout/", auth.Logout.as_view(), name="logout"),
    path("search/", search.search_page, name="search"),
    path("preview/", preview.preview, name="preview"),
    path("memories/", browse.memories, name="memories"),
    path("memories/new/", edit.memory_new, name="memory-new"),
    path("memories/<slug:uid>/", memory.memory, name="memory"),
    path("memories/<slug:uid>/history/", memory.memory_history, name="memory-history"),
    path("memories/<slug:uid>/edit/", edit.memory_edit, name="memory-edit"),
    path("memories/<slug:uid>/trash/", edit.memory_trash, name="memory-trash"),
    path("memories/<slug:uid>/restore/", edit.memory_restore, name="memory-restore"),
    path("memories/<slug:uid>/erase/", edit.memory_erase, name="memory-erase"),
    path("projects/names/", suggest.project_names, name="project-names"),
    path("sessions/", sessions.sessions, name="sessions"),
    path("sessions/<session_id:session_id>/", sessions.session, name="session"),
    path("injections/", injections.injections, name="injections"),
    path("timeline/", timeline.by_days, name="timeline"),
    path("timeline/entries/", timeline.entries, name="timeline-entries"),
    path("connect/claude-code/", connect.connect, name="connect"),
    path("connect/claude-code/arrived/", connect.arrived, name="connect-arrived"),
    path("connect/claude-code/revoke/", connect.revoke, name="connect-revoke"),
    path("facts/", facts.facts, name="facts"),
    path("facts/<slug:uid>/delete/", facts.fact_delete, name="fact-delete"),
    path("journal/", journal.journal, name="journal"),
    path("journal/verify/", journal.journal_verify, name="journal-verify"),
    path("trash/", trash.trash, name="trash"),
    path("maintenance/", maintenance.maintenance, name="maintenance"),
    path("maintenance/start/", maintenance.run_start, name="run-start"),
    path("maintenance/runs/", runs.run_list, name="runs"),
    path("maintenance/runs/<slug:uid>/", runs.run, name="run"),
    path("maintenance/runs/<slug:uid>/progress/", runs.run_progress, name="run-progress"),
    path("maintenance/runs/<slug:uid>/stop/", runs.run_stop, name="run-stop"),
    path("maintenance/runs/<slug:uid>/resume/", runs.run_resume, name="run-resume"),
    path("maintenance/runs/<slug:uid>/undo/", runs.run_undo, name="run-undo"),
    path("switch/", switch.turn_switch, name="switch"),
]
