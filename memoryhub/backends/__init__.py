"""The only dialect-aware code: full-text indexes, their triggers, and the lookup that asks them."""
