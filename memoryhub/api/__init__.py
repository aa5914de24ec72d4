"""The JSON API under ``/api/v1`` (docs/api.md): thin views over store, facts, retrieval and journal."""
