"""memoryhub: a self-hosted dashboard and JSON API for what AI agents remember."""

__version__ = "0.1.0"
