"""Measurements of the hub; ``python -m tools.bench --help``."""
