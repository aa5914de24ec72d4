"""Shares in forms: importance, trust and confidence, from 0 to 1; upkeep leaves them with many digits."""

from __future__ import annotations

from typing import Any

from django import forms


class ShareField(forms.FloatField):
    """A share, shown with two digits at most.

    The form sends along what it showed: left alone, the field has not changed, whatever the digits that are
    stored, and whatever upkeep made of them since the form was opened.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(show_hidden_initial=True, **options)

    def prepare_value(self, value: Any) -> Any:
        return f"{round(value, 2):g}" if isinstance(value, float) else value
