"""Extraction of memories from conversations, and deduplication against stored memories."""
