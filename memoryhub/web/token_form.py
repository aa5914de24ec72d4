"""What a person says of a token that they make for their own agent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from memoryhub import snippets

_LEVELS = {
    "public": "public memories alone",
    "private": "public and private memories",
    "secret": "every memory, secrets too",
}


class ConnectForm(forms.Form):
    """``levels`` are the clearances that this person may hand on.

    ``once`` is another one in each form that is shown: what is sent a second time has it again.
    """

    name = forms.CharField(max_length=100, initial="my-agent", help_text="What the journal calls the agent.")
    project = forms.CharField(
        max_length=200,
        required=False,
        help_text="Empty: every project, each session filed under the name of its folder.",
        widget=forms.TextInput(attrs={"list": "projects"}),
    )
    clearance = forms.ChoiceField(label="May read", help_text="No more than you may see yourself.")

    toolset = forms.ChoiceField(
        label="MCP tools",
        required=False,
        help_text="In whose words the agent speaks over MCP. Each name has its own address.",
        choices=[(name, f"{name}: {about}") for name, about in snippets.TOOLSETS.items()],
    )
    once = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput())

    def __init__(
        self, levels: Sequence[str], data: Mapping[str, Any] | None = None, toolset: str = "letsgo"
    ) -> None:
        fresh = {"once": secrets.token_urlsafe(12), "toolset": toolset}
        super().__init__(data, label_suffix="", initial=fresh)
        choices = self.fields["clearance"]
        choices.choices = [(level, _LEVELS[level]) for level in levels]  # type: ignore[attr-defined]
