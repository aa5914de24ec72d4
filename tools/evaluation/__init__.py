"""Measuring retrieval over sets of memories and questions, each in a store of its own."""
