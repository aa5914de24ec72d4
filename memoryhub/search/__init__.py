"""The only dialect-aware code: full-text indexes, their triggers, and the lookup that asks them."""

from memoryhub.search.fields import MatchField

__all__ = ["MatchField"]
