"""Forms that the core saves: its refusals are shown at their field instead of ending in an error page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from memoryhub.admin.base import GatedAdmin
from memoryhub.store.errors import StoreError


class DraftAdmin(GatedAdmin):
    """A model whose form is a :class:`~memoryhub.admin.draft_form.DraftForm`."""

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
            # The transaction is rolled back; the same form again, with what the core said.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"refusal": getattr(request, "refusal", None)})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Lists are saved with their memory."""

    @staticmethod
    def adopt(obj: Any, stored: Any) -> None:
        """Let the form's row be the one that was stored."""
        obj.__dict__.update(stored.__dict__)
