"""Helpers for tests of the edit form."""

from __future__ import annotations

from typing import Any

from tests.web.markup import main


def page_text(response: Any, status: int) -> str:
    assert response.status_code == status, response.content.decode()[:2000]
    return main(response).words


def form_data(response: Any) -> dict[str, str]:
    """Return what a browser submits from the unchanged form."""
    form = response.context["form"]
    return (
        {name: form[name].value() or "" for name in form.fields}
        | {
            name: form.fields[name].prepare_value(form[name].value())
            for name in form.fields
            if form[name].value() is not None
        }
        | {
            form[name].html_initial_name: form[name].value()
            for name, field in form.fields.items()
            if field.show_hidden_initial
        }
    )
