"""Write ``docs/conformance.md``: ``python -m tools.conformance``."""

from tools.conformance import PAGE, render_page

PAGE.write_text(render_page(), "utf-8")
