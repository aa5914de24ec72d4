"""The JSON API under ``/api/v1`` (docs/api.md)."""
