"""The diagram in docs/model.md."""

from __future__ import annotations

from tools.draw_models import PAGE, draw_diagram


def test_the_diagram_shows_the_current_models():
    assert draw_diagram() in PAGE.read_text("utf-8"), "run: python -m tools.draw_models"
