"""Form fields for values between 0 and 1: importance, trust and confidence."""

from __future__ import annotations

from typing import Any

from django import forms


class ShareField(forms.FloatField):
    """A value between 0 and 1, shown with at most two digits.

    The form submits the shown value too. A field that the person did not edit is unchanged, even if the
    stored value has more digits or maintenance has changed it since.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(show_hidden_initial=True, **options)

    def prepare_value(self, value: Any) -> Any:
        return f"{round(value, 2):g}" if isinstance(value, float) else value
