"""Shared parts of the admin: the access filter, object history, HTML cells, the confirmation of an action."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.accounts.tokens import actor_label, agent_owners, unambiguous_owners
from memoryhub.core.form_fields import show_error
from memoryhub.core.pagination import page_number
from memoryhub.core.text import shorten
from memoryhub.memories.errors import StoreError
from memoryhub.memories.versions import visible_revisions
from memoryhub.models import JournalEntry, Memory

_HISTORY_PAGE_SIZE = 100
_MAX_KEY = 2**63 - 1  # the largest integer of SQLite
_Cell = TypeVar("_Cell", bound=Callable[..., Any])

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    ModelForm = forms.ModelForm[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    ModelForm = forms.ModelForm


def is_key(text: str) -> bool:
    """Return whether text from a request can be a primary key."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _MAX_KEY


def value_column(
    title: str, name: str, show: Callable[[Any], Any] = lambda value: value, order: str | None = None
) -> Callable[[Any, Any], Any]:
    """Return a column with a value of the row, which ``show`` formats."""

    @column(title, order=order)
    def cell(self: Any, row: Any) -> Any:
        return show(getattr(row, name))

    return cell


def moment_column(title: str, name: str) -> Callable[[Any, Any], Any]:
    """Return a column that shows and orders by a moment."""
    return value_column(title, name, format_moment, order=name)


def actor_column(title: str, name: str) -> Callable[[Any, Any], Any]:
    """Return a column with the name of an actor for people. Its tooltip is the stored name."""

    @column(title, order=name)
    def cell(self: Any, row: Any) -> Any:
        stored = getattr(row, name)
        label = actor_label(stored, row.agent_owners)
        return format_html('<span title="{}">{}</span>', stored, label) if stored else EMPTY_CELL

    return cell


def column(title: str, order: str | None = None) -> Callable[[_Cell], _Cell]:
    """Shorten ``admin.display``."""
    return admin.display(description=title, ordering=order)


class PreparedList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        cast(VisibleRowsAdmin, self.model_admin).prepare_rows(request, rows)
        self.result_list = rows


class VisibleRowsAdmin(_ModelAdmin):
    """A model whose rows are filtered by the user's clearance and changed by services only."""

    journal_type = ""  # object_type of this model's journal rows; empty: it has none
    link_lookups: tuple[str, ...] = ()  # lookups that links from other pages use
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    view_on_site: Any = False

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.visible_to(clearance)
        return rows

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = self.visible_to(request, request_clearance(request))
        return rows.order_by(*(self.get_ordering(request) or ("-pk",)))

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """Set attributes that the columns of these rows need, with few queries for all of them."""
        owners = SimpleLazyObject(lambda: unambiguous_owners(agent_owners(request_clearance(request))))
        for row in rows:
            row.agent_owners = owners

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return PreparedList

    def uid_of(self, obj: Any) -> str:
        """Return the id of an object for the journal, the log and messages, which never contain its text."""
        return str(getattr(obj, "uid", obj.pk))

    @column("level", order="sensitivity")
    def level(self, row: Any) -> SafeString:
        return level_badge(row.sensitivity)

    # Requests

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow filters and known links only. Other lookups could search any column, or crash by regex."""
        filters: Iterable[Any] = self.get_list_filter(request) if request else ()
        known = {getattr(filter_class, "parameter_name", "") for filter_class in filters}
        if lookup not in known | set(self.link_lookups):
            raise IncorrectLookupParameters(f"there is no filter {lookup}")
        return True

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id) if is_key(object_id) else None
        if found is not None:
            self.prepare_rows(request, [found])
        return found

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> Any:
        """Answer 404 for hidden and for missing objects."""
        raise Http404(f"there is no such {opts.verbose_name}")

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove Django's own bulk deletion, which bypasses the services."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        if not all(map(is_key, request.POST.getlist(ACTION_CHECKBOX_NAME))):
            self.message_user(request, "Nothing was changed. Select rows of the list.", "ERROR")
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """Return the objects alone, because the list of related objects could name hidden ones."""
        return [str(obj) for obj in objs], {}, set(), []

    # Django's log

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry:
        return self._log(request, obj, ADDITION, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry:
        return self._log(request, obj, CHANGE, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return [self._log(request, obj, DELETION, "") for obj in queryset]

    def _log(self, request: HttpRequest, obj: Model, flag: int, message: Any) -> LogEntry:
        """Log the id only, because a title may be secret and the log has no access filter."""
        return LogEntry.objects.create(
            user=cast(User, request.user),
            content_type=ContentType.objects.get_for_model(obj),
            object_id=str(obj.pk),
            object_repr=f"{self.opts.verbose_name} {self.uid_of(obj)}",
            action_flag=flag,
            change_message=json.dumps(message) if isinstance(message, list) else message,
        )

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is None or not self.journal_type or not self.has_view_permission(request, obj):
            raise Http404("there is no such history")
        clearance, uid = request_clearance(request), self.uid_of(obj)
        rows = JournalEntry.objects.visible_to(clearance).filter(object_type=self.journal_type, object_id=uid)
        paginator = Paginator(rows.order_by("-seq"), _HISTORY_PAGE_SIZE)
        page = paginator.page(page_number(request.GET.get("p", ""), paginator.num_pages))
        versions = visible_revisions(obj, clearance)[:_HISTORY_PAGE_SIZE] if isinstance(obj, Memory) else []
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of “{shorten(str(obj), 60)}”",
            "object": obj,
            "uid": uid,
            "opts": self.opts,
            "module_name": capfirst(str(self.opts.verbose_name_plural)),
            "rows": page,
            "page_range": paginator.get_elided_page_range(page.number),
            "versions": versions,
        }
        return TemplateResponse(request, "admin/memoryhub/object_history.html", context)

    # Responses

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> Any:
        context["has_journal"] = bool(self.journal_type)
        return super().render_change_form(request, context, *args, **options)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> Any:
        return self._response_saved(request, obj, "stored")

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        return self._response_saved(request, obj, "changed")

    def _response_saved(self, request: HttpRequest, obj: Any, done: str) -> Any:
        named = f"{capfirst(self.opts.verbose_name)} {self.uid_of(obj)}"
        self.message_user(request, f"{named} {done}.", "SUCCESS")
        if not self.get_queryset(request).filter(pk=obj.pk).exists():
            self.message_user(request, "It is hidden now. Show its level to see it.", "INFO")
        elif "_continue" in request.POST:
            return redirect(admin_url(self.model, "change", obj.pk))
        if "_addanother" in request.POST and self.has_add_permission(request):
            return redirect(admin_url(self.model, "add"))
        return self.response_post_save_change(request, obj)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> Any:
        self.message_user(request, f"{capfirst(self.opts.verbose_name)} removed.", "SUCCESS")
        return self.response_post_save_change(request, None)


class ServiceForm(ModelForm):
    """A form whose values a service validates and saves. ``refusal``: the error that it raised for them."""

    refusal: StoreError | None = None

    def _post_clean(self) -> None:
        """Show the refusal instead of validating the model."""
        if self.refusal and not self.errors:
            show_error(self, self.refusal.field, self.refusal.message)


class DraftAdmin(VisibleRowsAdmin):
    """A model that services save. A refusal of the service is shown in the form."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except StoreError as refusal:
            # The transaction was rolled back. Show the same form with the refusal.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"refusal": getattr(request, "refusal", None)})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the services save related rows."""

    @staticmethod
    def adopt(obj: Any, stored: Any) -> None:
        """Turn the form's object into the stored one."""
        obj.__dict__.update(stored.__dict__)


class ReadOnlyAdmin(VisibleRowsAdmin):
    """A model that the admin never changes, whatever the user's permissions."""

    actions = None

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission


def admin_url(model: type[Model], view: str, *args: Any, query: str = "") -> str:
    """Return the address of an admin page."""
    path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{view}", args=args)
    return f"{path}?{query}" if query else path


EMPTY_CELL = "–"


def level_badge(level: str) -> SafeString:
    """Render a sensitivity level as a coloured badge."""
    kind = level if level in LEVELS else "unknown"
    return format_html('<span class="hub-level hub-level-{}">{}</span>', kind, level)


def format_link(address: str, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, text)


def memory_link(memory: Memory | None, max_chars: int = 80) -> SafeString | str:
    """Link the admin page of a visible memory by its redacted title."""
    if memory is None:
        return EMPTY_CELL
    title = shorten(policy.display_name(memory), max_chars)
    return format_link(admin_url(Memory, "change", memory.pk), title)


def format_moment(at: datetime | None) -> str:
    """Render a time that does not wrap."""
    if at is None:
        return EMPTY_CELL
    local = timezone.localtime(at)
    element = '<time class="hub-moment" datetime="{}">{}</time>'
    return format_html(element, local.isoformat(), f"{local:%Y-%m-%d %H:%M}")


def format_json(value: Any) -> SafeString:
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="hub-json">{}</pre>', text)


ActionResponse = HttpResponse | None
MAX_ROWS = 2000
_MAX_NAMED_ROWS = 100  # on the confirmation page, unless it must name all


@dataclass(frozen=True)
class SelectedRow:
    """A selected row with its id, its label and the value that will change."""

    pk: int
    uid: str
    label: str
    value: Any = ""


@dataclass(frozen=True)
class Confirmation:
    """The texts of a confirmation page. ``names_all``: list every row, for actions that cannot be undone."""

    title: str
    explanation: str
    button: str
    names_all: bool = False
    danger: bool = False


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the confirmation page was submitted."""
    return "confirmed" in request.POST


def select_rows(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Any],
    label: str,
    value: str = "pk",
    most: int = MAX_ROWS,
) -> list[SelectedRow]:
    """Return the selected rows; none, with a message, if they are too many or gone."""
    if is_confirmed(request):
        keys = [int(key) for key in request.POST.get("keys", "").split(",") if is_key(key)]
        queryset = queryset.filter(pk__in=keys[: most + 1])
    found = queryset.values_list("pk", "uid", label, value)[: most + 1]
    rows = [SelectedRow(pk, uid, called or uid, now) for pk, uid, called, now in found]
    if len(rows) > most:
        text = f"Nothing was changed: at most {most} at once. Narrow the filters."
        model_admin.message_user(request, text, "ERROR")
        return []
    if not rows:
        model_admin.message_user(
            request, "Nothing was changed: none of these can be changed any more.", "WARNING"
        )
    return rows


def render_confirmation(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    action: str,
    question: Confirmation,
    rows: list[SelectedRow],
    form: forms.Form | None = None,
) -> TemplateResponse:
    shown = rows if question.names_all else rows[:_MAX_NAMED_ROWS]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": question.title,
        "opts": model_admin.opts,
        "question": question,
        "action": action,
        "form": form,
        "rows": shown,
        "more": len(rows) - len(shown),
        "total": len(rows),
        "current": Counter(row.value for row in rows).most_common(12) if form else [],
        "keys": ",".join(str(row.pk) for row in rows),
        "checkbox": ACTION_CHECKBOX_NAME,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/memoryhub/bulk.html", context)
