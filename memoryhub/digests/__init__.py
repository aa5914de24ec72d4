"""Digests: what changed in a person's memories, sent to them by e-mail or webhook, daily or weekly."""
