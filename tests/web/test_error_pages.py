"""Error pages: bad requests, wrong methods, a busy database."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django import forms
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from memoryhub import memories
from memoryhub.core.database_errors import LostCommit
from memoryhub.web.base.forms import ListFilter, PlainForm
from memoryhub.web.base.requests import TEXT_FIELDS
from tests.cases import each
from tests.csp import parse_policy

pytestmark = pytest.mark.django_db

STRANGE = {"Host": "hub.example.org"}


def test_unknown_host_page_has_the_security_policy():
    answer = Client().get("/", headers=STRANGE)
    assert answer.status_code == 400
    assert parse_policy(answer) == parse_policy(Client().get("/login/"))


def test_unknown_host_page_names_the_setting_but_no_hosts():
    shown = Client().get("/", headers=STRANGE).content.decode()
    assert "MEMORYHUB_ALLOWED_HOSTS" in shown
    for name in (*settings.ALLOWED_HOSTS, STRANGE["Host"]):
        assert name not in shown


@each("path", ["/memories/a%00b/", "/sessions/a%00b/", "/a%00b"])
def test_path_with_nul_is_not_found(visitor, path):
    assert visitor.get(path).status_code == 404


def test_page_not_found_offers_sign_in_to_visitors_and_home_to_members(visitor):
    [outside, inside] = [client.get("/nothing-here/").content.decode() for client in (Client(), visitor)]
    assert ">Sign in</a>" in outside
    assert ">Go to Home</a>" in inside


def test_page_not_found_mentions_the_visibility_menu_to_those_who_have_it(visitor, sign_in):
    member = sign_in("view_private", name="member")
    shown = [client.get("/nothing-here/").content.decode() for client in (Client(), visitor, member)]
    assert ["Visibility menu" in page for page in shown] == [False, False, True]


def test_other_bad_requests_name_no_hosts(visitor):
    shown = visitor.get("/facts/", {"cursor": "zzz"})
    assert shown.status_code == 400
    assert b"ALLOWED_HOSTS" not in shown.content


def test_early_failure_has_the_security_policy(monkeypatch):
    def fail(*args: object) -> None:
        raise RuntimeError("out of paint")

    monkeypatch.setattr("django.contrib.sessions.middleware.SessionMiddleware.process_request", fail)
    answer = Client(raise_request_exception=False).get("/login/")
    assert answer.status_code == 500
    assert parse_policy(answer)["style-src"] == ["'self'"]


@each(
    "address, allowed",
    [
        ("/acts/", "POST"),
        ("/switch/", "POST"),
        ("/logout/", "POST, OPTIONS"),
        ("/maintenance/start/", "POST"),
    ],
)
def test_get_of_a_post_only_url_shows_a_page(visitor, address, allowed):
    answer = visitor.get(address)
    assert answer.status_code == 405
    assert answer["Allow"] == allowed
    assert '<a class="button" href="/">Go to Home</a>' in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]


def test_post_to_a_page_shows_a_page(visitor):
    answer = visitor.post("/glance/")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert b"<h1>" in answer.content


def test_wrong_method_in_the_admin_shows_a_page(admin_client):
    assert b"<h1>" in admin_client.get("/admin/logout/").content


def test_wrong_method_in_the_api_is_a_problem():
    answer = Client().put("/api/v1/docs")
    assert answer.status_code == 405
    assert json.loads(answer.content)["code"] == "method_not_allowed"


OURS = {"Origin": "http://testserver", "Referer": "http://testserver/memories/new/"}
WRITTEN = "Two words <b>that took an hour"


def test_a_form_after_the_session_expired_shows_its_text_and_a_link_to_sign_in():
    answer = Client().post("/memories/new/", {"content": WRITTEN, "type": "change"}, headers=OURS)
    shown = answer.content.decode()
    assert answer.status_code == 403
    assert ">Two words &lt;b&gt;that took an hour</textarea>" in shown
    assert "/login/?next=/memories/new/" in shown
    assert ">change</textarea>" not in shown


def test_a_form_of_htmx_after_the_session_expired_stays_in_its_page():
    headers = {**OURS, "HX-Request": "true"}
    answer = Client().post("/duplicates/decide/", {"do": "text", "content": WRITTEN}, headers=headers)
    assert (answer.status_code, answer.headers.get("HX-Redirect")) == (401, None)


def test_a_form_of_htmx_without_text_leads_to_the_sign_in():
    headers = {**OURS, "HX-Request": "true"}
    form = {"do": "merge", "seen": "0d9b7a52 2026-01-02T03:04:05+00:00"}
    answer = Client().post("/duplicates/decide/", form, headers=headers)
    assert answer["HX-Redirect"].startswith("/login/")


def test_a_form_with_an_expired_token_shows_its_text(sign_in):
    client = sign_in("add_memory")
    client.handler.enforce_csrf_checks = True
    answer = client.post("/memories/new/", {"content": WRITTEN}, headers=OURS)
    assert answer.status_code == 403
    assert "that took an hour</textarea>" in answer.content.decode()


def test_a_form_of_htmx_with_an_expired_token_gets_a_new_one(curator, remember):
    memory = remember()
    curator.handler.enforce_csrf_checks = True
    headers = {**OURS, "HX-Request": "true"}
    path, form = f"/memories/{memory.uid}/fields/tags/", {"tags": "tide", "csrfmiddlewaretoken": "a" * 64}
    refused = curator.post(path, form, headers=headers)
    assert (refused.status_code, refused.content) == (403, b"")
    form |= {"csrfmiddlewaretoken": refused["X-CSRFToken"], "unchanged_since": memory.updated_at.isoformat()}
    assert curator.post(path, form, headers=headers).status_code == 200


def test_a_form_of_htmx_from_another_site_gets_no_token(curator):
    curator.handler.enforce_csrf_checks = True
    headers = {"HX-Request": "true", "Origin": "https://elsewhere.example"}
    assert "X-CSRFToken" not in curator.post("/facts/", {}, headers=headers).headers


@pytest.mark.parametrize(
    ("path", "typed"),
    [
        ("/facts/", {"subject": "datasette", "predicate": "uses", "object": "SQLite"}),
        ("/people/", {"username": "grace", "email": "grace@example.org"}),
        ("/project-page/zoo/correct/", {"text": "Closed."}),
    ],
)
def test_single_words_that_were_typed_are_shown(path, typed):
    shown = Client().post(path, {**typed, "sensitivity": "private"}, headers=OURS).content.decode()
    assert [f">{word}</textarea>" in shown for word in (*typed.values(), "private")] == [
        *(True for _ in typed),
        False,
    ]


# Text inputs with an id, a label or what the page filled in. Where several words were typed, they are shown.
SHORT_FIELDS = frozenset(
    "category key memory_id must_bring never_bring project session_id superseded_by".split()
)


def forms_below(form: type[forms.BaseForm]) -> Iterator[type[forms.BaseForm]]:
    for below in form.__subclasses__():
        yield below
        yield from forms_below(below)


def is_text_input(widget: forms.Widget) -> bool:
    return isinstance(widget, forms.Textarea) or type(widget) in (
        forms.TextInput,
        forms.EmailInput,
        forms.URLInput,
    )


def test_every_text_input_of_a_form_is_shown_or_known_to_be_short():
    posted = [form for form in forms_below(PlainForm) if not issubclass(form, ListFilter)]
    fields = [field for form in posted for field in form.base_fields.items()]
    typed = {name for name, field in fields if is_text_input(field.widget)}
    assert {"content", "subject", "ignored_paths"} <= typed  # the modules of the pages are loaded
    assert typed <= TEXT_FIELDS | SHORT_FIELDS


def test_an_edit_of_an_erased_memory_shows_its_text(curator, remember, actor):
    memory = remember()
    memories.erase_memories([memory.uid], actor)
    answer = curator.post(f"/memories/{memory.uid}/edit/", {"content": WRITTEN}, headers=OURS)
    assert answer.status_code == 404
    assert "that took an hour</textarea>" in answer.content.decode()


def test_an_edit_without_permission_shows_its_text(visitor):
    answer = visitor.post("/memories/new/", {"content": WRITTEN}, headers=OURS)
    assert answer.status_code == 403
    assert "that took an hour</textarea>" in answer.content.decode()


@pytest.mark.parametrize(
    ("headers", "more"),
    [({}, {}), ({"Origin": "https://elsewhere.example"}, {}), (OURS, {"new_password1": "a good password"})],
    ids=["no origin", "another site", "a password"],
)
def test_other_forms_are_not_shown(visitor, headers, more):
    answer = visitor.post("/memories/missing/trash/", {"content": WRITTEN, **more}, headers=headers)
    assert "textarea" not in answer.content.decode()


def fails(message):
    def raise_it(*args, **kwargs):
        raise OperationalError(message)

    return raise_it


@pytest.fixture
def curator(sign_in) -> Client:
    client = sign_in("add_memory", "change_memory", "delete_memory")
    client.raise_request_exception = False
    return client


def test_locked_database_shows_a_busy_page(curator, remember, monkeypatch):
    memory = remember("words")
    monkeypatch.setattr(memories, "trash_memories", fails("database is locked"))
    answer = curator.post(f"/memories/{memory.uid}/trash/")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "The store is busy" in answer.content.decode()
    assert "Reload the page. If you submitted a form, go back" in answer.content.decode()


def test_lost_commit_shows_that_the_change_may_be_saved(curator, remember, monkeypatch):
    def lose_commit(*args, **kwargs):
        raise OperationalError("server closed the connection") from LostCommit()

    memory = remember("words")
    monkeypatch.setattr(memories, "trash_memories", lose_commit)
    answer = curator.post(f"/memories/{memory.uid}/trash/")
    assert answer.status_code == 503
    assert "Your change may not be saved" in answer.content.decode()
    assert "nothing was saved" not in answer.content.decode()


@pytest.mark.sqlite
def test_other_database_errors_are_not_called_busy(curator, remember, monkeypatch):
    memory = remember("words")
    monkeypatch.setattr(memories, "trash_memories", fails("no such table"))
    assert curator.post(f"/memories/{memory.uid}/trash/").status_code == 500


@pytest.mark.parametrize(("refusal", "status"), [(memories.NotFound, 404), (memories.Forbidden, 403)])
def test_refusal_that_a_page_does_not_handle_is_an_error_page(visitor, monkeypatch, refusal, status):
    def refuse(*args: object) -> None:
        raise refusal("project secret-plans does not exist")

    monkeypatch.setattr("memoryhub.web.projects.projects.get_project", refuse)
    answer = visitor.get("/project-page/secret-plans/")
    assert answer.status_code == status
    assert f"{status}.html" in [template.name for template in answer.templates]
    assert b"does not exist" not in answer.content
    assert parse_policy(answer) == parse_policy(Client().get("/login/"))
