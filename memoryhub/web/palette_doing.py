"""The commands of the palette: doors that stand on the page already, opened by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """``does``: a CSS selector of what is clicked; a page that has none does not offer the command."""

    text: str
    does: str
    also: str = ""


COMMANDS = (
    Command("Switch between light and dark", "#theme-button", "theme mode"),
    Command("Print this report", "[data-print]", "paper pdf session"),
    Command("Edit this memory", "[data-edit-this]", "change"),
    Command("Move this memory to the trash", '.page-head form[action$="/trash/"] button', "delete throw"),
    Command("Copy as Markdown", '[data-copy-text="Markdown"]', "clipboard memory"),
    Command("Copy as JSON", '[data-copy-text="JSON"]', "clipboard memory"),
    Command("Copy the link", "[data-copy-self]", "address clipboard"),
    Command("Sign out", 'form[action="/logout/"] button', "log out leave"),
)
