"""Draw the models into ``docs/model.md`` as a Mermaid diagram: ``python -m tools.draw_models``.

The data comes from ``graph_models`` of django-extensions. GitHub and most Markdown viewers render Mermaid.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "model.md"
DIAGRAM = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def draw_diagram() -> str:
    """Return the Mermaid block: every model with its columns, and the relations between models."""
    from django.core.management import call_command

    output = io.StringIO()
    call_command("graph_models", "memoryhub", json=True, stdout=output)
    models = json.loads(output.getvalue())["graphs"][0]["models"]
    lines = ["```mermaid", "erDiagram"]
    for model in models:
        lines += [f"    {model['name']} {{", *_columns(model), "    }"]
    lines += sorted({relation for model in models for relation in _relations(model)})
    return "\n".join([*lines, "```"])


def _columns(model: dict[str, Any]) -> list[str]:
    return [f"        {field['type']} {field['name']}" for field in model["fields"] if not field["relation"]]


def _relations(model: dict[str, Any]) -> list[str]:
    arrows = {"OneToOneField": "||--o|"}
    own = (one for one in model["relations"] if one["target_app"].startswith("memoryhub"))
    return [
        f"    {one['target']} {arrows.get(one['type'], '||--o{')} {model['name']} : {one['name']}"
        for one in own
    ]


def main() -> None:
    """Replace the diagram of the page."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    import django

    django.setup()
    PAGE.write_text(DIAGRAM.sub(lambda match: draw_diagram(), PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
