"""The forms of import and export."""

from __future__ import annotations

from typing import Any

from django import forms

from memoryhub.interchange.formats import FORMATS, OWN, WRITERS


def _project(help_text: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"list": "projects", "autocomplete": "off"})
    return forms.CharField(max_length=200, required=False, widget=widget, help_text=help_text)


class ImportForm(forms.Form):
    """What is to come in."""

    file = forms.FileField(
        help_text="Plain or packed, as the other program wrote it. End that program before you upload its"
        " SQLite file: its newest rows may still lie in a file -wal beside it, which does not come along.",
        allow_empty_file=True,
    )
    format = forms.ChoiceField(
        required=False,
        label="What wrote it",
        choices=lambda: [("", "See by its content"), *((one.name, one.label) for one in FORMATS.values())],
    )
    project = _project("Of what names no project itself.")

    def __init__(self, data: Any = None, files: Any = None) -> None:
        super().__init__(data, files, label_suffix="", auto_id="import_%s")
        extensions = dict.fromkeys(ending for one in FORMATS.values() for ending in one.extensions)
        # A chooser knows the last part of a name alone.
        accepted = dict.fromkeys("." + ending.rpartition(".")[2] for ending in extensions)
        self.fields["file"].widget.attrs["accept"] = ",".join(accepted)


class ExportForm(forms.Form):
    """What is to go out."""

    format = forms.ChoiceField(
        required=False,
        label="Written for",
        choices=lambda: [(one.name, one.label) for one in WRITERS.values()],
    )
    project = _project("Only this one; empty: all of them.")
    whole = forms.BooleanField(
        required=False,
        label="With all history",
        help_text="Trash, earlier versions, facts, sessions and the journal as well, for memoryhub alone.",
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, label_suffix="", auto_id="export_%s", initial={"format": OWN})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("whole") and cleaned.get("format") not in ("", OWN, None):
            self.add_error(
                "whole", "Only memoryhub's own format holds all history: choose that, or leave this out."
            )
        return cleaned
