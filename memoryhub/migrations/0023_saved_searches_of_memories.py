"""Searches that were saved on the old search page open the page of memories, which replaced it."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def move_searches(apps: Any, schema_editor: Any) -> None:
    searches = apps.get_model("memoryhub", "SavedSearch").objects.using(schema_editor.connection.alias)
    searches.filter(page="search").update(page="memories")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0022_inspected_texts")]

    operations = [migrations.RunPython(move_searches, migrations.RunPython.noop)]
