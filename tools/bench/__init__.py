"""Measurements of the hub; ``python -m bench --help``."""
