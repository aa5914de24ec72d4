"""Print the tables of settings in ``docs/configuration.md``: ``python -m tools.settings_tables``."""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.config import ENV_PREFIX, Config, Operator, describe, variable_of
from memoryhub.management.commands.show_config import shown_range, to_toml


def operator_table() -> str:
    """Return the operator's variables as a Markdown table."""
    rows = []
    for spec in Operator.model_fields.values():
        name, more = variable_of(spec), describe(spec)
        note = f"; or `{name}_FILE`, a file that contains it" if more["secret"] else ""
        rows.append((f"`{name}`", more["shown_default"], f"{spec.description}{note}"))
    return _table(("variable", "default", "description"), rows)


def tunables_table() -> str:
    """Return the tunables as a Markdown table."""
    rows = [
        (
            f"`{name}`",
            f"`{to_toml(spec.default)}`",
            shown_range(spec),
            spec.description or "",
            f"`{ENV_PREFIX}{name.upper()}`",
        )
        for name, spec in Config.model_fields.items()
    ]
    return _table(("key", "default", "range", "description", "variable"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    print(f"{operator_table()}\n\n{tunables_table()}")
