"""Screenshots of every page of the demo: ``python -m tools screenshots``."""
